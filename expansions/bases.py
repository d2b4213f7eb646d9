"""The base graphs of the topology finder: which there are for N nodes of degree d.

Source: dissertation, Table A.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from expansions.searched import SEARCHED
from topologies.circulants import least_offsets
from topologies.distance_regular import distance_regular_graphs
from topologies.expressions import Base

MOST_SEARCHED = 256
"""Above so many nodes no circulants of more than two offsets are searched for: a second each."""

MOST_OFFSETS = 16
"""Circulants of more offsets are not searched for."""


def bases(nodes: int, degree: int) -> Iterator[Base]:
    """Yield the base graphs of this size and degree, those of more symmetry first.

    Hamming graphs, tori and hypercubes are powers and products, Kautz graphs line graphs of these.
    """
    if nodes == degree + 1:
        yield Base("complete", (nodes,))
    if nodes == 2 * degree and degree > 1:
        yield Base("complete_bipartite", (degree,))
    if nodes == degree + 2:
        yield Base("directed_circulant", (degree,))
    if nodes in distance_regular_graphs(degree):
        yield Base("distance_regular", (degree, nodes))
    yield from (base for base, size in _searched() if size == (nodes, degree))
    yield from _circulants(nodes, degree)
    if nodes > 1:
        yield Base("uniring", (degree, nodes))
    yield from _general(nodes, degree)


@cache
def _searched() -> list[tuple[Base, tuple[int, int]]]:
    built = ((base, base.topology()) for base in SEARCHED)
    return [(base, (topology.num_ranks, topology.degree or 0)) for base, topology in built]


def _circulants(nodes: int, degree: int) -> Iterator[Base]:
    if degree % 2:
        return
    if nodes > 2:
        yield Base("biring", (degree, nodes))
    few = degree == 4 or (nodes <= MOST_SEARCHED and degree <= 2 * MOST_OFFSETS)
    if degree >= 4 and nodes > degree + 1 and few:
        yield Base("circulant", (nodes, *least_offsets(nodes, degree // 2)))


def _general(nodes: int, degree: int) -> Iterator[Base]:
    if degree < 2:
        return
    if nodes > degree + 1:
        yield Base("gen_kautz", (degree, nodes))
    power, size = 1, degree
    while size < nodes:
        power, size = power + 1, size * degree
    if size == nodes and power > 1:
        yield Base("debruijn", (degree, power))

r"""Networks in dimensions: rank (x_1, ..., x_k), numbered row-major, is joined along one at a time.

Two ranks are joined by a link, or by a switch that both are linked to. The ranks that differ in dimension i
only are a *line* of it; the network is a grid if all lines of a dimension are joined alike, so that it is the
Cartesian product of its lines: a torus, a mesh, fully connected groups with switches between them.

Machines of equally many ranks are two dimensions, the machine and the place in it, however they are wired.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from topologies.exact import Int64Array
from topologies.topology import Topology


class LineKind(StrEnum):
    """How the ranks of a line are joined."""

    RING = "ring"
    """Each to the next and the one before, the ends too; three ranks or more."""

    PATH = "path"
    """Each to the next and the one before, the ends not."""

    COMPLETE = "complete"
    """Each to all others, by links."""

    SWITCH = "switch"
    """All by a switch, or by what else a machine or a cluster has."""


@dataclass(frozen=True)
class Grid:
    """The dimensions of a network.

    Parameters
    ----------
    shape
        How many ranks a line of each dimension has; their product is N.
    lines
        How these are joined.

    Examples
    --------
    >>> from topologies.text import parse_topology
    >>> grid_of(parse_topology("rfs:2x4x8"))
    Grid(shape=(2, 4, 8),
         lines=(<LineKind.PATH: 'path'>, <LineKind.COMPLETE: 'complete'>, <LineKind.SWITCH: 'switch'>))
    """

    shape: tuple[int, ...]
    lines: tuple[LineKind, ...]

    @property
    def strides(self) -> tuple[int, ...]:
        """By how much a rank's number grows from one to the next in each dimension."""
        return tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))

    def rank_at(self, coordinates: Sequence[Int64Array]) -> Int64Array:
        """Return the ranks at coordinates given dimension by dimension, as arrays that broadcast."""
        parts = [np.asarray(x) * stride for x, stride in zip(coordinates, self.strides, strict=True)]
        return np.asarray(sum(parts, start=np.int64(0)), dtype=np.int64)

    def __str__(self) -> str:
        return " x ".join(f"{line} of {size}" for size, line in zip(self.shape, self.lines, strict=True))


def grid_of(topology: Topology) -> Grid | None:
    """Return the dimensions of a network, the most there are; None if it is no grid.

    Parameters
    ----------
    topology
        Any network. Only which ranks are joined counts, not how well.

    Examples
    --------
    >>> from topologies import mesh, torus
    >>> grid_of(torus(4, 3)).lines == (LineKind.RING, LineKind.RING), grid_of(mesh(2, 2, 2)).shape
    (True, (2, 2, 2))
    """
    machines = machines_of(topology)
    if machines is not None:
        return Grid(machines, (LineKind.SWITCH, LineKind.SWITCH))
    joined = _joined(topology)
    if joined is None:
        return None
    shape: list[int] = []
    lines: list[LineKind] = []
    size, pairs = topology.num_ranks, joined
    while size > 1:
        split = next((s for s in range(2, size + 1) if size % s == 0 and _splits(pairs, size, s)), None)
        line = None if split is None else _line(pairs[:, (pairs[:2] < split).all(axis=0)], split)
        if split is None or line is None:
            return None
        shape.insert(0, split)
        lines.insert(0, line)
        pairs = _outer(pairs, split)
        size //= split
    return Grid(tuple(shape), tuple(lines))


def machines_of(topology: Topology) -> tuple[int, int] | None:
    """Return how many machines there are and how many ranks each has; None if these differ.

    None also if there is one machine, or one rank in each, or the ranks of one do not follow one another.

    Examples
    --------
    >>> from topologies.text import parse_topology
    >>> machines_of(parse_topology("dgx_a100:2"))
    (2, 8)
    """
    if topology.hosts is None:
        return None
    hosts = topology.hosts[: topology.num_ranks]
    sizes = np.diff(np.flatnonzero(np.diff(hosts, prepend=-2, append=-2)))
    alike = len(np.unique(hosts)) == len(sizes) > 1 and (sizes == sizes[0]).all()
    return (len(sizes), int(sizes[0])) if alike and sizes[0] > 1 and hosts.min() >= 0 else None


def _joined(topology: Topology) -> Int64Array | None:
    """Return (3, pairs): ranks joined each way, and whether by a switch; None if switches are linked."""
    source, target = topology.source.astype(np.int64), topology.target.astype(np.int64)
    ranks = topology.num_ranks
    inner = (source < ranks) & (target < ranks)
    if ((source >= ranks) & (target >= ranks)).any():
        return None
    parts = [np.stack([source[inner], target[inner], np.zeros(int(inner.sum()), dtype=np.int64)])]
    for switch in range(ranks, topology.num_nodes):
        into, out = source[target == switch], target[source == switch]
        pairs = np.stack([np.repeat(into, len(out)), np.tile(out, len(into))])
        parts.append(np.vstack([pairs, np.ones(pairs.shape[1], dtype=np.int64)]))
    table = np.concatenate(parts, axis=1)
    return np.unique(table[:, table[0] != table[1]], axis=1)


def _splits(pairs: Int64Array, size: int, inner: int) -> bool:
    """Whether each pair differs in node // inner or node % inner only, alike in every copy of either."""
    (from_outer, to_outer), (from_inner, to_inner) = np.divmod(pairs[:2], inner)
    within, across = from_outer == to_outer, from_inner == to_inner
    if not (within | across).all():
        return False
    (kind_within, kind_across) = pairs[2, within], pairs[2, across]
    return _alike(
        kind_within, from_outer[within], from_inner[within], to_inner[within], size // inner
    ) and _alike(kind_across, from_inner[across], from_outer[across], to_outer[across], inner)


def _alike(kind: Int64Array, copy: Int64Array, tail: Int64Array, head: Int64Array, copies: int) -> bool:
    """Whether every copy has the same pairs of the same kind."""
    if len(kind) % copies:
        return False
    table = np.stack([tail, head, kind])[:, np.lexsort((kind, tail, head, copy))].reshape(3, copies, -1)
    counts = np.bincount(copy, minlength=copies)
    return bool((counts == counts[0]).all() and (table == table[:, :1]).all())


def _outer(pairs: Int64Array, inner: int) -> Int64Array:
    """Return the pairs of the copies, each once."""
    outer = np.vstack([pairs[:2] // inner, pairs[2:]])
    return np.unique(outer[:, outer[0] != outer[1]], axis=1)


def _line(pairs: Int64Array, size: int) -> LineKind | None:
    """Return how a line with these pairs is joined; None if in no way that has a name here, or in two."""
    found = set(map(tuple, pairs[:2].T.tolist()))
    if len(found) < pairs.shape[1]:
        return None
    everyone = {(a, b) for a in range(size) for b in range(size) if a != b}
    if pairs[2].any():
        return LineKind.SWITCH if found == everyone and pairs[2].all() else None
    path = {(a, b) for a, b in everyone if abs(a - b) == 1}
    if found == path:
        return LineKind.PATH
    if found == path | {(0, size - 1), (size - 1, 0)}:
        return LineKind.RING
    return LineKind.COMPLETE if found == everyone else None

"""Reverse-symmetry: an isomorphism from a network in the papers' notation to its transpose.

Let g be a bijection of the nodes such that G has as many links from u to v as from g(v) to g(u). All
expansions keep it (dissertation, A.2):

====================  ========================================================================
network               a node goes to
====================  ========================================================================
a base                what a search finds (`topologies.graphs.isomorphism`).
L(G)                  link uv to the link from g(v) to g(u), so vw, which follows it, goes before.
G * n                 copy i of v to copy i of g(v).
G1 x G2 x ..., G^n    each coordinate v to g(v).
Bi(G)                 itself.
====================  ========================================================================

Theorem 2: an allgather A on G, moved by g, is an allgather on the transpose of equal cost (Definition 7).
Its reverse is a reduce-scatter on G. A network that is not reverse-symmetric needs another allgather for its
transpose (Corollaries 1.1 and 1.2); there always is one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from tutti.expansions.constructions import ShardTable
from tutti.topologies.errors import NoSchedule
from tutti.topologies.exact import Int64Array, offsets_of
from tutti.topologies.families.expressions import Base, Both, Degree, Expression, LineGraph, Power, Product
from tutti.topologies.families.products import line_graph, self_loops
from tutti.topologies.graphs.isomorphism import isomorphism, link_bijection
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

EFFORT = 2 * 10**6
"""Number of links that the search on a base may look at, which takes some hundredths of a second. A base on
which it ends without an answer counts as not reverse-symmetric."""


def reversal(expression: Expression) -> Int64Array | None:
    """Return g, int64 (nodes,), or None where a base is not reverse-symmetric, as far as the search can tell.

    Raises
    ------
    InputError
        If a part can't be built.
    """
    match expression:
        case LineGraph(of, times):
            return _of_line(of, times)
        case Degree(of, factor):
            nodes = reversal(of)
            return None if nodes is None else np.add.outer(nodes * factor, np.arange(factor)).reshape(-1)
        case Power(of, exponent):
            return _of_product((of,) * exponent)
        case Product(factors):
            return _of_product(factors)
        case Both():
            return np.arange(expression.topology().num_ranks)
        case Base():
            return _of_base(expression)


def is_reversible(expression: Expression) -> bool:
    """Return whether `reversal` has an answer, without building the expansions.

    Raises
    ------
    InputError
        If a part can't be built.
    """
    match expression:
        case Product(factors):
            return all(is_reversible(factor) for factor in factors)
        case Both():
            return True
        case Base():
            return _of_base(expression) is not None
        case LineGraph(of) | Degree(of) | Power(of):
            return is_reversible(of)


def reflected(table: ShardTable, nodes: Int64Array) -> ShardTable:
    """Return the allgather g(A) on the transpose of the table's network (Definition 7).

    Parameters
    ----------
    table
        A, on G or (if `turned`) on its transpose.
    nodes
        g, int64 (nodes,).

    Raises
    ------
    NoSchedule
        If g does not take G to its transpose.
    """
    links = link_bijection(table.topology, transpose(table.topology), nodes)
    if links is None:
        raise NoSchedule(
            f"expansion on {table.topology.name}: the nodes' map is no isomorphism to the transpose"
        )
    return replace(
        table, turned=not table.turned, owner=nodes[table.owner], link=links.astype(np.int64)[table.link]
    )


@lru_cache(maxsize=1024)
def _of_base(base: Base) -> Int64Array | None:
    topology = base.topology()
    try:
        found = isomorphism(topology, transpose(topology), EFFORT)
    except NoSchedule:
        return None
    return None if found is None else found.astype(np.int64)


def _of_line(of: Expression, times: int) -> Int64Array | None:
    nodes, topology = reversal(of), of.topology()
    for _ in range(times):
        nodes = None if nodes is None else _on_links(topology, nodes)
        if nodes is None:
            return None
        topology = line_graph(topology)
    return nodes


def _on_links(topology: Topology, nodes: Int64Array) -> Int64Array | None:
    """Return the image of each link, and then of each self-loop, under a map of the nodes."""
    links, loops = link_bijection(topology, transpose(topology), nodes), self_loops(topology)
    if links is None or not np.array_equal(loops[nodes], loops):
        return None
    at = np.repeat(np.arange(topology.num_ranks), loops)
    before = offsets_of(loops)[:-1]
    within = np.arange(len(at)) - before[at]
    return np.concatenate([links.astype(np.int64), topology.num_links + before[nodes[at]] + within])


def _of_product(factors: tuple[Expression, ...]) -> Int64Array | None:
    whole = np.zeros(1, dtype=np.int64)
    for factor in factors:
        nodes = reversal(factor)
        if nodes is None:
            return None
        whole = np.add.outer(whole * len(nodes), nodes).reshape(-1)
    return whole

"""Reverse-symmetry: an isomorphism from a network in the papers' notation to its transpose.

Let g be a bijection of the nodes such that G has as many links from u to v as from g(v) to g(u). All
expansions keep it (dissertation, A.2):

====================  ========================================================================
network               a node goes to
====================  ========================================================================
a base                what a search finds (`isomorphism`).
L(G)                  link uv to the link from g(v) to g(u), so vw, which follows it, goes before.
G * n                 copy i of v to copy i of g(v).
G1 x G2 x ..., G^n    each coordinate v to g(v).
Bi(G)                 itself.
====================  ========================================================================

Theorem 2: an allgather A on G, moved by g, is an allgather on the transpose of equal cost (Definition 7).
Its reverse is a reduce-scatter on G. A network that is not reverse-symmetric needs another allgather for its
transpose (Corollaries 1.1 and 1.2); there always is one.

An isomorphism from G to H is a bijection f of the nodes that takes ranks to ranks and switches to switches
with the same abilities. It takes the links from u to v, as a multiset of (bandwidth, α), to those from f(u)
to f(v). A returned isomorphism has been checked on the links.

The search individualizes and refines in both networks (`topologies.graphs.symmetry`): a node of G in a
smallest class of several nodes, and in turn each node of H of the same colour. A branch ends if the two
networks' colours differ as multisets. If all colours differ, they give the bijection. If no image of the
first node works, none in its orbit under the automorphisms of H does, so one of each orbit is tried. The
search is deterministic.

Sources: dissertation, Definitions 6 and 7; McKay and Piperno, Practical graph isomorphism II, 2014 (the
scheme of the search).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np

from tutti.expansions.constructions import ShardTable
from tutti.topologies.errors import NoSchedule
from tutti.topologies.exact import Int32Array, Int64Array, IntArray, frozen, offsets_of
from tutti.topologies.families.expressions import Base, Both, Degree, Expression, LineGraph, Power, Product
from tutti.topologies.families.products import line_graph, self_loops
from tutti.topologies.graphs.symmetry import (
    Refinement,
    UInt64Array,
    automorphisms,
    link_kinds,
    link_permutation,
    smallest_cell,
)
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

DEFAULT_EFFORT = 10**8
"""Number of links that a search may look at (a second or two). A larger value decides more cases."""
BASE_EFFORT = 2 * 10**6
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
        found = isomorphism(topology, transpose(topology), BASE_EFFORT)
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


def isomorphism(one: Topology, other: Topology, effort: int = DEFAULT_EFFORT) -> Int32Array | None:
    """Return an isomorphism from one network to the other, or None if there is none.

    Parameters
    ----------
    one, other
        The networks.
    effort
        Number of links that the search may look at.

    Returns
    -------
    int32, shape (nodes,), or None
        Node v of `one` is node f[v] of `other`.

    Raises
    ------
    NoSchedule
        If the effort was spent before the answer was known.

    Examples
    --------
    >>> from tutti.topologies.families.grids import ring, uniring
    >>> isomorphism(uniring(4), transpose(uniring(4))).tolist()
    [0, 3, 2, 1]
    >>> print(isomorphism(uniring(4), ring(4)))
    None
    """
    if _counts(one) != _counts(other) or _values(one) != _values(other):
        return None
    nodes = np.arange(one.num_nodes, dtype=np.int32)
    likely = [nodes, np.concatenate([-nodes[: one.num_ranks] % one.num_ranks, nodes[one.num_ranks :]])]
    for guess in likely:
        if link_bijection(one, other, guess) is not None:
            return frozen(guess, np.int32)
    return _IsomorphismSearch(one, other, effort).found()


def is_reverse_symmetric(topology: Topology, effort: int = DEFAULT_EFFORT) -> bool:
    """Return whether a network is isomorphic to its transpose (dissertation, Definition 6).

    Raises
    ------
    NoSchedule
        As `isomorphism`.

    Examples
    --------
    >>> from tutti.topologies.families.direct import de_bruijn
    >>> is_reverse_symmetric(de_bruijn(2, 3))
    True
    """
    return isomorphism(topology, transpose(topology), effort) is not None


def link_bijection(one: Topology, other: Topology, nodes: IntArray) -> Int32Array | None:
    """Return each link's image under a bijection of the nodes, or None if it is no isomorphism.

    Parameters
    ----------
    one, other
        The networks, with equal numbers of nodes.
    nodes
        Integers, shape (nodes,): node v of `one` goes to nodes[v].

    Returns
    -------
    int32, shape (links,), or None
        Equal parallel links are matched in order.
    """
    if _counts(one) != _counts(other) or _values(one) != _values(other):
        return None
    return link_permutation(one, nodes, other)


def _counts(topology: Topology) -> tuple[int, int, int]:
    return topology.num_ranks, topology.num_nodes, topology.num_links


def _values(topology: Topology) -> list[tuple[object, ...]]:
    """Return the values that the numbers of `link_kinds` stand for, with the number of links of each."""
    _, first, count = np.unique(link_kinds(topology), return_index=True, return_counts=True)
    return [
        (topology.bandwidth[link], topology.alpha[link], int(n)) for link, n in zip(first, count, strict=True)
    ]


class _IsomorphismSearch:
    """A depth-first search for the images of the nodes that are individualized in the first network."""

    def __init__(self, one: Topology, other: Topology, effort: int) -> None:
        self.one, self.other, self.effort = Refinement(one), Refinement(other), effort

    def found(self) -> Int32Array | None:
        """Return an isomorphism, or None if there is none."""
        mine, theirs = (self._checked(side).refined(side.kinds) for side in (self.one, self.other))
        if not np.array_equal(np.sort(mine), np.sort(theirs)):
            return None
        pending: list[Iterator[tuple[UInt64Array, UInt64Array]]] = [iter([(mine, theirs)])]
        while pending:
            colours = next(pending[-1], None)
            if colours is None:
                pending.pop()
                continue
            mine, theirs = colours
            if len(np.unique(mine)) < len(mine):
                pending.append(self._branches(mine, theirs, len(pending)))
                continue
            nodes = np.empty(len(mine), dtype=np.int32)
            nodes[np.argsort(mine)] = np.argsort(theirs)
            if link_bijection(self.one.topology, self.other.topology, nodes) is not None:
                return frozen(nodes, np.int32)
        return None

    def _branches(
        self, mine: UInt64Array, theirs: UInt64Array, depth: int
    ) -> Iterator[tuple[UInt64Array, UInt64Array]]:
        """Yield the colours of both networks after a node, and each possible image, is individualized."""
        colour, cell = smallest_cell(mine)
        after = self._checked(self.one).individualized(mine, int(cell[0]), depth)
        profile = np.sort(after)
        failed: set[int] = set()
        for image in np.flatnonzero(theirs == colour).tolist():
            if depth == 1 and failed and int(self._orbits[image]) in failed:
                continue
            mapped = self._checked(self.other).individualized(theirs, image, depth)
            if np.array_equal(np.sort(mapped), profile):
                yield after, mapped
            if depth == 1:
                failed.add(int(self._orbits[image]))

    @cached_property
    def _orbits(self) -> Int64Array:
        """The least node in the orbit of each, under known automorphisms of the other network."""
        left = self.effort - self.one.looked - self.other.looked
        return automorphisms(self.other.topology, left).node_orbits.astype(np.int64)

    def _checked(self, side: Refinement) -> Refinement:
        """Return one of the two sides, unless the effort is spent."""
        if self.one.looked + self.other.looked >= self.effort:
            names = f"{self.one.topology.name} and {self.other.topology.name}"
            raise NoSchedule(f"whether {names} are isomorphic could not be decided with the allowed effort")
        return side

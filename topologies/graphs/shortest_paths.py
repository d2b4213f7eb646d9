"""Distances between nodes, in hops and in α, and shortest routes, the same on every machine.

Paths go over any node: ranks and switches forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from topologies.errors import InputError, NoSchedule
from topologies.exact import Int32Array, Int64Array, offsets_of
from topologies.graphs.heaps import sift_down, sift_up
from topologies.topology import Incidence, Topology

UNREACHABLE = -1
"""What a distance is where there is no path; possible only from or to switches."""

_DIAMETER_BATCH = 1024
"""Sources at a time, so that the diameter of a large network needs little memory."""


def hop_distances(topology: Topology, sources: Sequence[int] | Int64Array | None = None) -> Int32Array:
    """Return the fewest links from each source to each node.

    Parameters
    ----------
    topology
        The network.
    sources
        Node numbers, one a row; all nodes if not given.

    Returns
    -------
    int32, shape (sources, nodes)
        Entry [i, v] is the distance from sources[i] to node v; `UNREACHABLE` (-1) where there is no path.

    Examples
    --------
    >>> from topologies.families.grids import uniring
    >>> hop_distances(uniring(3)).tolist()
    [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
    """
    offsets, links = topology.out_links
    return _hops_from_each(offsets, topology.target[links], _as_nodes(topology, sources))


def diameter(topology: Topology) -> int:
    """Return the largest distance in hops between two ranks."""
    ranks = np.arange(topology.num_ranks)
    batches = range(0, topology.num_ranks, _DIAMETER_BATCH)
    return max(
        int(hop_distances(topology, ranks[start : start + _DIAMETER_BATCH])[:, : len(ranks)].max())
        for start in batches
    )


def alpha_distances(topology: Topology, sources: Sequence[int] | Int64Array | None = None) -> Int64Array:
    """Return the least sum of α from each source to each node, exactly.

    Parameters
    ----------
    topology
        The network.
    sources
        Node numbers, one a row; all nodes if not given.

    Returns
    -------
    int64, shape (sources, nodes)
        Numerators over ``topology.alpha.denominator``, in seconds; `UNREACHABLE` (-1) where there is no path.
    """
    return length_distances(topology, topology.alpha.numerators, sources)


def length_distances(
    topology: Topology, lengths: Int64Array, sources: Sequence[int] | Int64Array | None = None
) -> Int64Array:
    """Return the least sum of lengths from each source to each node.

    Parameters
    ----------
    topology
        The network.
    lengths
        int64, shape (links,): one a link, not negative; together they fit 64 bits.
    sources
        Node numbers, one a row; all nodes if not given.

    Returns
    -------
    int64, shape (sources, nodes)
        `UNREACHABLE` (-1) where there is no path.

    Examples
    --------
    >>> from topologies.families.grids import uniring
    >>> length_distances(uniring(3), np.array([5, 0, 2])).tolist()
    [[0, 5, 5], [2, 0, 0], [2, 7, 0]]
    """
    if (lengths == lengths[0]).all():
        hops = hop_distances(topology, sources).astype(np.int64)
        return np.where(hops < 0, UNREACHABLE, hops * lengths[0])
    offsets, links = topology.out_links
    return _dijkstra(offsets, topology.target[links], lengths[links], _as_nodes(topology, sources))


def _as_nodes(topology: Topology, sources: Sequence[int] | Int64Array | None) -> Int64Array:
    if sources is None:
        return np.arange(topology.num_nodes, dtype=np.int64)
    return np.ascontiguousarray(sources, dtype=np.int64)


@njit(cache=True)
def _hops_from_each(offsets: Int64Array, heads: Int32Array, sources: Int64Array) -> Int32Array:
    num_nodes = len(offsets) - 1
    hops = np.empty((len(sources), num_nodes), np.int32)
    queue = np.empty(num_nodes, np.int32)
    for row in range(len(sources)):
        breadth_first(offsets, heads, sources[row], hops[row], queue)
    return hops


@njit(cache=True)
def breadth_first(
    offsets: Int64Array, heads: Int32Array, source: int, hops: Int32Array, queue: Int32Array
) -> None:
    """Set hops[v] to the distance from the source to node v, -1 where there is no path.

    `queue` (nodes,) is room for the nodes found, in the order of their distance. Over in-links, with their
    tails for heads, the distances are those to `source`.
    """
    hops[:] = -1
    hops[source] = 0
    queue[0] = source
    first, found = 0, 1
    while first < found < len(hops):
        node = queue[first]
        first += 1
        for position in range(offsets[node], offsets[node + 1]):
            head = heads[position]
            if hops[head] < 0:
                hops[head] = hops[node] + 1
                queue[found] = head
                found += 1


@njit(cache=True)
def _dijkstra(offsets: Int64Array, heads: Int32Array, lengths: Int64Array, sources: Int64Array) -> Int64Array:
    """Search from each source; the heap holds every relaxation, stale ones are skipped when they come up."""
    num_nodes = len(offsets) - 1
    distance = np.full((len(sources), num_nodes), -1, np.int64)
    keys = np.empty(len(heads) + 1, np.int64)
    nodes = np.empty(len(heads) + 1, np.int32)
    for row in range(len(sources)):
        best = distance[row]
        best[sources[row]] = 0
        keys[0], nodes[0], size = 0, sources[row], 1
        while size:
            key, node = keys[0], nodes[0]
            size -= 1
            sift_down(keys, nodes, size)
            if key > best[node]:
                continue
            for position in range(offsets[node], offsets[node + 1]):
                head, reached = heads[position], key + lengths[position]
                if best[head] < 0 or reached < best[head]:
                    best[head] = reached
                    sift_up(keys, nodes, size, reached, head)
                    size += 1
    return distance


MOST_HOPS = 10**8
"""Links of all routes together: a simulation of a message on each keeps some sixty bytes a hop."""

_UNIT = 2**16


def shortest_routes(
    topology: Topology, sources: npt.ArrayLike | Sequence[int], targets: npt.ArrayLike | Sequence[int]
) -> tuple[Int64Array, Int32Array]:
    """Return a route with the fewest links for each pair, spread over the network's links.

    Pairs are routed by target, then in the order given. Among the shortest routes of a pair the one is taken
    whose links, this route included, carry the fewest routes for their bandwidth, all links together; among
    those, the one with the lowest next node at each hop. So parallel links take turns, and a network that
    equals its transpose but for the numbering of links has routes over the same nodes both ways. Ranks and
    switches forward alike.

    Parameters
    ----------
    topology
        The network.
    sources, targets
        Node numbers, shape (pairs,).

    Returns
    -------
    offsets
        int64, shape (pairs + 1,).
    links
        int32: the links of route p are links[offsets[p] : offsets[p + 1]], in the order in which they are
        taken.

    Raises
    ------
    InputError
        If the ends of a pair are one node, or there is no path (possible only from or to switches).
    NoSchedule
        If the routes have more than `MOST_HOPS` links in all.

    Examples
    --------
    >>> from topologies.families.grids import ring
    >>> offsets, links = shortest_routes(ring(4), [0, 0], [2, 3])
    >>> offsets.tolist(), links.tolist()
    ([0, 2, 3], [0, 2, 1])
    """
    starts = np.atleast_1d(np.asarray(sources, dtype=np.int64))
    ends = np.atleast_1d(np.asarray(targets, dtype=np.int64))
    same = np.flatnonzero(starts == ends)
    if len(same):
        label = topology.labels[starts[same[0]]]
        raise InputError(f"topology {topology.name}: no route from {label} to itself is needed")
    in_offsets, in_links = topology.in_links
    by_target = np.argsort(ends, kind="stable")
    tails = topology.source[in_links]
    lengths = _route_lengths(in_offsets, tails, starts, ends, by_target)
    if len(lengths) and lengths.min() < 0:
        pair = int(np.argmin(lengths))
        raise InputError(
            f"topology {topology.name}: no path from {topology.labels[starts[pair]]} "
            f"to {topology.labels[ends[pair]]}"
        )
    offsets = offsets_of(lengths)
    if offsets[-1] > MOST_HOPS:
        raise NoSchedule(
            f"topology {topology.name}: the shortest routes of {len(lengths)} pairs have {offsets[-1]} links "
            f"in all; at most {MOST_HOPS}"
        )
    out_links = np.lexsort((topology.target, topology.source)).astype(np.int32)
    links = _route_links(
        in_offsets,
        tails,
        Incidence(topology.out_links.offsets, out_links),
        topology.target,
        _slowness(topology),
        _Pairs(starts, ends, by_target, offsets),
    )
    return offsets, links


class _Pairs(NamedTuple):
    """The ends of each route, the pairs sorted by their ends, and where each route's links begin."""

    starts: Int64Array
    ends: Int64Array
    by_target: Int64Array
    offsets: Int64Array


def _slowness(topology: Topology) -> Int64Array:
    """Return how long each link takes for the same load, in units of what the fastest takes, over `_UNIT`."""
    bandwidth = topology.bandwidth.floats
    return np.rint(np.minimum(bandwidth.max() / bandwidth, _UNIT) * _UNIT).astype(np.int64)


@njit(cache=True)
def _route_lengths(
    in_offsets: Int64Array, tails: Int32Array, starts: Int64Array, ends: Int64Array, by_target: Int64Array
) -> Int64Array:
    """Return the hops of each pair; pairs come by target, so that each target is searched from once."""
    hops = np.empty(len(in_offsets) - 1, np.int32)
    queue = np.empty(len(in_offsets) - 1, np.int32)
    lengths = np.empty(len(starts), np.int64)
    searched = -1
    for pair in by_target:
        if ends[pair] != searched:
            searched = ends[pair]
            breadth_first(in_offsets, tails, searched, hops, queue)
        lengths[pair] = hops[starts[pair]]
    return lengths


@njit(cache=True)
def _route_links(
    in_offsets: Int64Array,
    tails: Int32Array,
    leaving: Incidence,
    heads: Int32Array,
    slowness: Int64Array,
    pairs: _Pairs,
) -> Int32Array:
    """Walk each route after the choices of `_cheapest_ways`, then add it to the prices of its links."""
    starts, ends, by_target, offsets = pairs
    num_nodes = len(in_offsets) - 1
    hops = np.empty(num_nodes, np.int32)
    queue = np.empty(num_nodes, np.int32)
    known = np.zeros(num_nodes, np.int64)
    cost = np.empty(num_nodes, np.int64)
    choice = np.empty(num_nodes, np.int32)
    price = slowness.copy()
    routes = np.empty(offsets[-1], np.int32)
    searched = -1
    for turn, pair in enumerate(by_target):
        if ends[pair] != searched:
            searched = ends[pair]
            breadth_first(in_offsets, tails, searched, hops, queue)
        node = starts[pair]
        _cheapest_ways(node, hops, leaving, heads, price, turn + 1, known, queue, cost, choice)
        for place in range(offsets[pair], offsets[pair + 1]):
            routes[place] = choice[node]
            price[choice[node]] += slowness[choice[node]]
            node = heads[choice[node]]
    return routes


@njit(cache=True)
def _cheapest_ways(
    source: int,
    hops: Int32Array,
    leaving: Incidence,
    heads: Int32Array,
    price: Int64Array,
    turn: int,
    known: Int64Array,
    queue: Int32Array,
    cost: Int64Array,
    choice: Int32Array,
) -> None:
    """Set, for the nodes on shortest routes from the source, the cheapest way on and its cost.

    Nodes are found level by level and priced in the opposite order, so that a node is priced after all the
    nodes that it can go on to. `known` holds the turn in which a node was last found.
    """
    out_offsets, out_links = leaving
    queue[0] = source
    known[source] = turn
    first, found = 0, 1
    while first < found:
        node = queue[first]
        first += 1
        for position in range(out_offsets[node], out_offsets[node + 1]):
            head = heads[out_links[position]]
            if hops[head] == hops[node] - 1 and known[head] != turn:
                known[head] = turn
                queue[found] = head
                found += 1
    for index in range(found - 1, -1, -1):
        node = queue[index]
        cost[node] = 0 if hops[node] == 0 else np.iinfo(np.int64).max
        for position in range(out_offsets[node], out_offsets[node + 1]):
            link = out_links[position]
            if hops[heads[link]] == hops[node] - 1 and price[link] + cost[heads[link]] < cost[node]:
                cost[node] = price[link] + cost[heads[link]]
                choice[node] = link

"""Distances between nodes, shortest-path trees and shortest routes. Ranks and switches forward equally.

There are three searches. `topologies.topology.breadth_first` is a kernel for hops. `shortest_tree` is a
kernel of Dijkstra's algorithm for integer or float lengths of the links. `nearest_first` is Dijkstra's
algorithm for lengths of any type, in which only some nodes forward and which stops when its caller does. Each
says how it breaks ties.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from math import inf
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.heaps import sift_down, sift_up
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Incidence, Neighbours, Topology, breadth_first

UNREACHABLE = -1
"""The distance where there is no path, which is possible only from or to switches."""

_DIAMETER_BATCH = 1024
"""Number of sources that are searched from at a time. A larger value needs more memory."""


def hop_distances(topology: Topology, sources: Sequence[int] | Int64Array | None = None) -> Int32Array:
    """Return the fewest links from each source to each node.

    Parameters
    ----------
    topology
        The network.
    sources
        Node numbers, one per row; by default all nodes.

    Returns
    -------
    int32, shape (sources, nodes)
        Entry [i, v] is the distance from sources[i] to node v; `UNREACHABLE` (-1) where there is no path.

    Examples
    --------
    >>> from tutti.topologies.families.grids import uniring
    >>> hop_distances(uniring(3)).tolist()
    [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
    """
    offsets, links = topology.out_links
    return hops_from_each(Neighbours(offsets, topology.target[links]), _as_nodes(topology, sources))


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
        Node numbers, one per row; by default all nodes.

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
        int64, shape (links,): one per link, not negative; together they fit 64 bits.
    sources
        Node numbers, one per row; by default all nodes.

    Returns
    -------
    int64, shape (sources, nodes)
        `UNREACHABLE` (-1) where there is no path.

    Examples
    --------
    >>> from tutti.topologies.families.grids import uniring
    >>> length_distances(uniring(3), np.array([5, 0, 2])).tolist()
    [[0, 5, 5], [2, 0, 0], [2, 7, 0]]
    """
    if (lengths == lengths[0]).all():
        hops = hop_distances(topology, sources).astype(np.int64)
        return np.where(hops < 0, UNREACHABLE, hops * lengths[0])
    return _distances(Adjacency.of(topology), lengths, _as_nodes(topology, sources))


def _as_nodes(topology: Topology, sources: Sequence[int] | Int64Array | None) -> Int64Array:
    if sources is None:
        return np.arange(topology.num_nodes, dtype=np.int64)
    return np.ascontiguousarray(sources, dtype=np.int64)


@kernel(light=1)
def hops_from_each(graph: Neighbours, sources: Int64Array) -> Int32Array:
    """Return the hops from each source to each node, (sources, nodes); -1 where there is no path."""
    hops = np.empty((len(sources), len(graph.offsets) - 1), np.int32)
    queue = np.empty(hops.shape[1], np.int32)
    for row in range(len(sources)):
        breadth_first(graph, sources[row : row + 1], hops[row], queue)
    return hops


class Adjacency(NamedTuple):
    """The links at each node in CSR form, and the ends of each link.

    Parameters
    ----------
    out_offsets, out_links
        int64 (nodes + 1,), int32 (links,): the links out of each node.
    in_offsets, in_links
        The same for the links into each node.
    tail, head
        int32 (links,): the node where each link starts and ends.
    """

    out_offsets: Int64Array
    out_links: Int32Array
    in_offsets: Int64Array
    in_links: Int32Array
    tail: Int32Array
    head: Int32Array

    @classmethod
    def of(cls, topology: Topology) -> Adjacency:
        """Return the adjacency of a network."""
        return cls(*topology.out_links, *topology.in_links, topology.source, topology.target)


class ShortestTree(NamedTuple):
    """A shortest-path tree, to be filled in: distance, last link and order of finding, each (nodes,)."""

    distance: npt.NDArray[Any]
    parent: Int32Array
    order: Int32Array


@kernel
def shortest_tree(graph: Adjacency, lengths: npt.NDArray[Any], source: int, tree: ShortestTree) -> int:
    """Dijkstra: set the distance, the last link and the order in which nodes are reached; return their count.

    A node's last link comes from a node earlier in `order`, even over links of length 0; of several on
    shortest paths it is the one found first. Nodes without a path keep distance -1. The heap holds every
    improvement; stale entries are skipped when they come up.
    """
    distance, parent, order = tree
    distance[:] = -1
    parent[:] = -1
    keys = np.empty(len(graph.head) + 1, lengths.dtype)
    nodes = np.empty(len(graph.head) + 1, np.int32)
    done = np.zeros(len(distance), np.bool_)
    distance[source] = 0
    keys[0], nodes[0], size, reached = 0, source, 1, 0
    while size:
        node = nodes[0]
        size -= 1
        sift_down(keys, nodes, size)
        if done[node]:
            continue
        done[node] = True
        order[reached] = node
        reached += 1
        for position in range(graph.out_offsets[node], graph.out_offsets[node + 1]):
            link = graph.out_links[position]
            head, length = graph.head[link], distance[node] + lengths[link]
            # Only a strict improvement changes the last link, so of equal paths the first one found stays.
            if not done[head] and (parent[head] < 0 or length < distance[head]):
                distance[head], parent[head] = length, link
                sift_up(keys, nodes, size, length, head)
                size += 1
    return reached


@kernel
def _distances(graph: Adjacency, lengths: Int64Array, sources: Int64Array) -> Int64Array:
    num_nodes = len(graph.out_offsets) - 1
    distance = np.empty((len(sources), num_nodes), np.int64)
    parent, order = np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32)
    for row in range(len(sources)):
        shortest_tree(graph, lengths, sources[row], ShortestTree(distance[row], parent, order))
    return distance


Length = TypeVar("Length", bound=Any)
"""A type of numbers: int, Fraction or float."""

Route = tuple[int, ...]
"""Link numbers, in the order in which the route takes them."""


def nearest_first(
    leaving: Sequence[Sequence[int]],
    heads: Sequence[int],
    lengths: Sequence[Length],
    begun: Iterable[tuple[Length, int, Route]],
    *,
    forwards: Sequence[bool] | None = None,
    by_links: bool = False,
) -> Iterator[tuple[Length, int, Route]]:
    """Yield distance, node and a shortest route of each node that is reached: Dijkstra's algorithm.

    The nearest node comes first; of nodes at equal distance, the one of least number comes first.

    Parameters
    ----------
    leaving
        For each node, the links out of it that may be used.
    heads
        The node where each link ends.
    lengths
        One per link, none negative; a link of infinite length is not used.
    begun
        The routes to continue, each with its length and the node that it has reached.
    forwards
        The nodes that forward; by default all.
    by_links
        Whether the least of a node's shortest routes, as a tuple of links, is taken, or the first found.

    Examples
    --------
    >>> from tutti.topologies import ring
    >>> leaving, heads = [[0, 1], [2, 3], [4, 5]], ring(3).target.tolist()
    >>> for length, node, route in nearest_first(leaving, heads, [3, 4, 5, 6, 7, 8], [(0, 0, ())]):
    ...     print(length, node, route)
    0 0 ()
    3 1 (0,)
    4 2 (1,)
    """
    found = count()
    heap: list[tuple[Length, int, Any, Route]] = []
    least: dict[int, Length] = {}
    for length, node, route in begun:
        least[node] = min(length, least.get(node, length))
        heap.append((length, node, route if by_links else next(found), route))
    heapq.heapify(heap)
    done: set[int] = set()
    while heap:
        so_far, node, _, route = heapq.heappop(heap)
        if node in done:
            continue
        # no entry left is shorter and no length is negative: the route is shortest (Dijkstra)
        done.add(node)
        yield so_far, node, route
        if forwards is not None and not forwards[node]:
            continue
        for link in leaving[node]:
            head, length = heads[link], so_far + lengths[link]
            known = least.get(head, inf)
            if length < known or (by_links and length == known < inf):
                least[head] = length
                longer = (*route, link)
                heapq.heappush(heap, (length, head, longer if by_links else next(found), longer))


MOST_HOPS = 10**8
"""Most links of all routes together. A simulation of a message on each keeps about sixty bytes per hop."""

_UNIT = 2**16


def shortest_routes(
    topology: Topology,
    sources: npt.ArrayLike | Sequence[int],
    targets: npt.ArrayLike | Sequence[int],
    usable: BoolArray | None = None,
) -> tuple[Int64Array, Int32Array]:
    """Return a route with the fewest links for each pair, spread over the network's links.

    Pairs are routed by target, then in the order given. Among the shortest routes of a pair, the route is
    taken whose links in total carry the fewest routes for their bandwidth, this route included. Among equal
    routes, the one with the lowest next node at each hop is taken. So parallel links take turns, and a
    network that equals its transpose except for the numbering of links has routes over the same nodes in both
    directions.

    Parameters
    ----------
    topology
        The network.
    sources, targets
        Node numbers, shape (pairs,).
    usable
        bool, shape (links,): the links that routes may take; None: all.

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
        If the ends of a pair are one node, or there is no path (possible only from or to switches, or where
        `usable` leaves links out).
    NoSchedule
        If the routes have more than `MOST_HOPS` links in all.

    Examples
    --------
    >>> from tutti.topologies.families.grids import ring
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
    taken = np.arange(topology.num_links) if usable is None else np.flatnonzero(usable)
    source, target = topology.source[taken], topology.target[taken]
    into = Neighbours.of(target, source, topology.num_nodes)
    by_target = np.argsort(ends, kind="stable")
    lengths = _route_lengths(into, starts, ends, by_target)
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
    by_source = taken[np.lexsort((target, source))].astype(np.int32)
    leaving = offsets_of(np.bincount(source, minlength=topology.num_nodes))
    bandwidth = topology.bandwidth.floats
    links = _route_links(
        into,
        Incidence(leaving, by_source),
        topology.target,
        np.rint(np.minimum(bandwidth.max() / bandwidth, _UNIT) * _UNIT).astype(np.int64),
        (starts, ends, by_target, offsets),
    )
    return offsets, links


@kernel(light=1)
def _route_lengths(
    into: Neighbours, starts: Int64Array, ends: Int64Array, by_target: Int64Array
) -> Int64Array:
    """Return the hops of each pair; pairs are sorted by target, so that each target is searched from once."""
    hops = np.empty(len(into.offsets) - 1, np.int32)
    queue = np.empty(len(into.offsets) - 1, np.int32)
    lengths = np.empty(len(starts), np.int64)
    searched = -1
    for pair in by_target:
        if ends[pair] != searched:
            searched = ends[pair]
            breadth_first(into, ends[pair : pair + 1], hops, queue)
        lengths[pair] = hops[starts[pair]]
    return lengths


@kernel(light=1)
def _route_links(
    into: Neighbours,
    leaving: Incidence,
    heads: Int32Array,
    slowness: Int64Array,
    pairs: tuple[Int64Array, ...],
) -> Int32Array:
    """Follow the choices of `_cheapest_routes` for each route, then raise the prices of its links."""
    starts, ends, by_target, offsets = pairs
    num_nodes = len(into.offsets) - 1
    hops = np.empty(num_nodes, np.int32)
    queue = np.empty(num_nodes, np.int32)
    known = np.zeros(num_nodes, np.int64)
    cost = np.empty(num_nodes, np.int64)
    choice = np.empty(num_nodes, np.int32)
    price = slowness.copy()
    routes = np.empty(offsets[-1], np.int32)
    searched = -1
    for turn, pair in enumerate(by_target):
        # Pairs are sorted by target, so the hops to each target are searched once.
        if ends[pair] != searched:
            searched = ends[pair]
            breadth_first(into, ends[pair : pair + 1], hops, queue)
        node = starts[pair]
        _cheapest_routes(node, hops, leaving, heads, price, turn + 1, known, queue, cost, choice)
        for place in range(offsets[pair], offsets[pair + 1]):
            routes[place] = choice[node]
            price[choice[node]] += slowness[choice[node]]
            node = heads[choice[node]]
    return routes


@kernel(light=1)
def _cheapest_routes(
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
    """Set `choice`, the first link of the cheapest route from each node on a shortest route, and its cost.

    Nodes are found level by level and priced in the opposite order, so that a node is priced after all
    nodes that it can continue to. `known` holds the turn in which a node was last found.
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
    # Invariant: the costs of all nodes nearer to the target are final.
    for index in range(found - 1, -1, -1):
        node = queue[index]
        cost[node] = 0 if hops[node] == 0 else INT64_MAX
        for position in range(out_offsets[node], out_offsets[node + 1]):
            link = out_links[position]
            if hops[heads[link]] == hops[node] - 1 and price[link] + cost[heads[link]] < cost[node]:
                cost[node] = price[link] + cost[heads[link]]
                choice[node] = link

"""Shortest routes between nodes, the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from topologies.distances import breadth_first
from topologies.errors import InputError, NoSchedule
from topologies.exact import Int32Array, Int64Array, offsets_of
from topologies.topology import Incidence, Topology

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
    >>> from topologies.families import ring
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

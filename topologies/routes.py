"""Shortest routes between nodes, the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numba import njit

from topologies.errors import InputError
from topologies.exact import Int32Array, Int64Array
from topologies.topology import Topology


def shortest_routes(
    topology: Topology, sources: npt.ArrayLike | Sequence[int], targets: npt.ArrayLike | Sequence[int]
) -> tuple[Int64Array, Int32Array]:
    """Return a route with the fewest links for each pair; among those, the lowest link number at each hop.

    Ranks and switches forward alike.

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
    offsets = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    out_offsets, out_links = topology.out_links
    links = _route_links(
        in_offsets, tails, out_offsets, out_links, topology.target, starts, ends, by_target, offsets
    )
    return offsets, links


@njit(cache=True)
def _search_back(
    offsets: Int64Array, tails: Int32Array, target: int, hops: Int32Array, queue: Int32Array
) -> None:
    """Set hops[v] to the distance from node v to the target, -1 where there is no path."""
    hops[:] = -1
    hops[target] = 0
    queue[0] = target
    first, found = 0, 1
    while first < found < len(hops):
        node = queue[first]
        first += 1
        for position in range(offsets[node], offsets[node + 1]):
            tail = tails[position]
            if hops[tail] < 0:
                hops[tail] = hops[node] + 1
                queue[found] = tail
                found += 1


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
            _search_back(in_offsets, tails, searched, hops, queue)
        lengths[pair] = hops[starts[pair]]
    return lengths


@njit(cache=True)
def _route_links(
    in_offsets: Int64Array,
    tails: Int32Array,
    out_offsets: Int64Array,
    out_links: Int32Array,
    heads: Int32Array,
    starts: Int64Array,
    ends: Int64Array,
    by_target: Int64Array,
    offsets: Int64Array,
) -> Int32Array:
    """Walk from each source along the lowest link that comes nearer to the target."""
    hops = np.empty(len(in_offsets) - 1, np.int32)
    queue = np.empty(len(in_offsets) - 1, np.int32)
    routes = np.empty(offsets[-1], np.int32)
    searched = -1
    for pair in by_target:
        if ends[pair] != searched:
            searched = ends[pair]
            _search_back(in_offsets, tails, searched, hops, queue)
        node = starts[pair]
        for place in range(offsets[pair], offsets[pair + 1]):
            position = out_offsets[node]
            while hops[heads[out_links[position]]] != hops[node] - 1:
                position += 1
            routes[place] = out_links[position]
            node = heads[out_links[position]]
    return routes

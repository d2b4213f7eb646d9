"""Distances between nodes: in hops and in α, over any node (ranks and switches forward)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from topologies.exact import Int32Array, Int64Array
from topologies.heap import sift_down, sift_up
from topologies.topology import Topology

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
    >>> from topologies.families import uniring
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
    >>> from topologies.families import uniring
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

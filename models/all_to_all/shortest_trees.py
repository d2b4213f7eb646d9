"""Shortest-path trees for lengths on the links, and the loads of demand that follows them: the kernels.

Lengths are integers (exact bounds) or floats (searches); numba compiles either.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from topologies.exact import FloatArray, Int32Array, Int64Array
from topologies.graphs.heaps import sift_down, sift_up
from topologies.topology import Topology


class Incidence(NamedTuple):
    """Links at nodes in CSR form, and nodes at links.

    Parameters
    ----------
    out_offsets, out_links
        int64 (nodes + 1,), int32 (links,): the links out of each node.
    in_offsets, in_links
        Likewise into each.
    tail, head
        int32 (links,): where each starts and ends.
    """

    out_offsets: Int64Array
    out_links: Int32Array
    in_offsets: Int64Array
    in_links: Int32Array
    tail: Int32Array
    head: Int32Array

    @classmethod
    def of(cls, topology: Topology) -> Incidence:
        """Return that of a network."""
        return cls(*topology.out_links, *topology.in_links, topology.source, topology.target)


class ShortestTree(NamedTuple):
    """A shortest-path tree, to be filled in: distance, last link and order of finding, each (nodes,)."""

    distance: npt.NDArray[Any]
    parent: Int32Array
    order: Int32Array


@njit(cache=True)
def shortest_tree(graph: Incidence, lengths: npt.NDArray[Any], source: int, tree: ShortestTree) -> int:
    """Dijkstra: set the distance, the last link and the order in which nodes are reached; return their count.

    A node's last link comes from a node earlier in `order`, even over links of length 0. Nodes without a path
    keep distance -1. The heap holds every improvement; stale entries are skipped when they come up.
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
            if not done[head] and (parent[head] < 0 or length < distance[head]):
                distance[head], parent[head] = length, link
                sift_up(keys, nodes, size, length, head)
                size += 1
    return reached


@njit(cache=True)
def tree_loads(
    graph: Incidence,
    lengths: Int64Array,
    sources: Int64Array,
    demand: Int64Array,
    orbit: Int32Array,
    loads: Int64Array,
) -> Int64Array:
    """Add what each source's demand loads on each link orbit along shortest paths, and return its cost.

    `demand` is (sources, nodes), `loads` (sources, orbits). The cost of a source is the sum of demand times
    distance, which equals the sum of load times length.
    """
    num_nodes = len(graph.out_offsets) - 1
    distance = np.empty(num_nodes, np.int64)
    parent, order = np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32)
    costs = np.zeros(len(sources), np.int64)
    for row in range(len(sources)):
        reached = shortest_tree(graph, lengths, sources[row], ShortestTree(distance, parent, order))
        below = demand[row].copy()
        for place in range(reached - 1, 0, -1):  # farthest first: all that a node passes on is known
            node = order[place]
            link = parent[node]
            costs[row] += demand[row, node] * distance[node]
            below[graph.tail[link]] += below[node]
            loads[row, orbit[link]] += below[node]
    return costs


def even_flows(
    topology: Topology, sources: Int64Array, demand: FloatArray, lengths: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return flows (sources, links) split evenly over the shortest paths for lengths (links,), and distances.

    `demand` is (sources, nodes); distances are (sources, nodes).
    """
    flows = np.zeros((len(sources), topology.num_links))
    distances = np.empty((len(sources), topology.num_nodes))
    _split_evenly(Incidence.of(topology), lengths, sources, demand, flows, distances)
    return flows, distances


@njit(cache=True)
def _split_evenly(
    graph: Incidence,
    lengths: FloatArray,
    sources: Int64Array,
    demand: FloatArray,
    flows: FloatArray,
    distances: FloatArray,
) -> None:
    """Bring to each node, from the farthest on, its needs in equal parts over its links on shortest paths."""
    num_nodes = distances.shape[1]
    parent, order = np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32)
    for row in range(len(sources)):
        distance = distances[row]
        reached = shortest_tree(graph, lengths, sources[row], ShortestTree(distance, parent, order))
        need = demand[row].copy()
        for place in range(reached - 1, 0, -1):
            node, tight = order[place], 0
            for position in range(graph.in_offsets[node], graph.in_offsets[node + 1]):
                link = graph.in_links[position]
                tight += _is_tight(distance[graph.tail[link]], distance[node], lengths[link])
            for position in range(graph.in_offsets[node], graph.in_offsets[node + 1]):
                link = graph.in_links[position]
                if _is_tight(distance[graph.tail[link]], distance[node], lengths[link]):
                    flows[row, link] = need[node] / tight
                    need[graph.tail[link]] += need[node] / tight


@njit(cache=True)
def _is_tight(before: float, after: float, length: float) -> bool:
    return before < after and before + length <= after * (1 + 1e-12)

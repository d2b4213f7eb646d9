r"""Spanning trees, one a chunk, that load all edges alike and are low: for an allreduce with both ways busy.

A chunk is reduced up its tree and broadcast down it, so it crosses every edge of the tree once each way. With
trees balanced over the edges all links are busy all the time, both ways; that is the partition bound of
allreduce (0.55 M/b on a 10x10 mesh, where a reduce-scatter and then an allgather take 0.99). Trees are grown
one after the other as Prim does, an edge being the dearer the more it is loaded already and the further from
the root it leads, and then again in turn, each given the loads of all others (best responses). With loads
alone the trees would be minimum spanning trees by load, whose largest load tends to the least there is
(Thorup, Combinatorica 2007); the distance keeps them low.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from heuristics.tacos.bitsets import Words, random_below
from topologies.exact import FloatArray, Int32Array, Int64Array, offsets_of
from topologies.heap import sift_down, sift_up
from topologies.topology import Topology

FINE = 2**20
"""Of so many values one is drawn, to choose between edges that are equally dear."""


class Edges(NamedTuple):
    """Links in pairs, there and back.

    Parameters
    ----------
    ends, links
        int32, shape (2, edges): edge e joins ends[0, e] and ends[1, e]; links[0, e] leads from the one to the
        other, links[1, e] back.
    first, near
        int64: the edges at node v are near[first[v] : first[v + 1]], each as 2 e, plus 1 if
        v is its second end.
    """

    ends: Int32Array
    links: Int32Array
    first: Int64Array
    near: Int64Array


def edges_of(topology: Topology) -> Edges:
    """Return the links of a network, each with one that leads back; links without are left out.

    Examples
    --------
    >>> from topologies.families import ring
    >>> edges_of(ring(3)).ends.tolist()
    [[0, 0, 1], [1, 2, 2]]
    """
    there: dict[tuple[int, int], list[int]] = {}
    widest_first = sorted(range(topology.num_links), key=lambda link: (-topology.bandwidth[link], link))
    for link in widest_first:
        there.setdefault((int(topology.source[link]), int(topology.target[link])), []).append(link)
    rows = [
        (a, b, link, back)
        for (a, b), links in sorted(there.items())
        if a < b
        for link, back in zip(links, there.get((b, a), []), strict=False)
    ]
    table = np.array(rows, dtype=np.int32).reshape(-1, 4).T
    ends = np.ascontiguousarray(table[:2])
    side = np.concatenate([2 * np.arange(len(rows)), 2 * np.arange(len(rows)) + 1])
    at = np.argsort(ends.reshape(-1), kind="stable")
    first = offsets_of(np.bincount(ends.reshape(-1), minlength=topology.num_ranks))
    return Edges(ends, np.ascontiguousarray(table[2:]), first, side[at].astype(np.int64))


def joined(edges: Edges, ranks: int) -> bool:
    """Return whether edges join all ranks."""
    graph = csr_array((np.ones(edges.ends.shape[1]), edges.ends), shape=(ranks, ranks))
    return int(connected_components(graph, directed=False, return_labels=False)) == 1


class Shape(NamedTuple):
    """How trees are grown.

    Parameters
    ----------
    hop
        What one hop more from the root is worth, in loads of one tree.
    sweeps
        How often all trees are grown.
    """

    hop: float
    sweeps: int


@njit(cache=True, nogil=True)
def grown(edges: Edges, cost: FloatArray, root: Int32Array, shape: Shape, random: Words) -> Int32Array:
    """Return a spanning tree a chunk as the edges it uses: int32, shape (chunks, nodes - 1).

    Invariant: between trees `load` is what the trees that stand put on each edge.

    Parameters
    ----------
    edges
        They join all nodes.
    cost
        Shape (edges,): time over it of a chunk, in any unit.
    root
        Shape (chunks,): where each tree is grown from.
    shape
        Low or even.
    random
        The state of the random numbers.
    """
    nodes = len(edges.first) - 1
    load, made = np.zeros(len(cost)), np.empty((len(root), nodes - 1), np.int32)
    for sweep in range(shape.sweeps):
        for chunk in range(len(root)):
            if sweep:
                for edge in made[chunk]:
                    load[edge] -= cost[edge]
            _grow(edges, load + cost, (root[chunk], shape.hop * cost.mean()), made[chunk], random)
            for edge in made[chunk]:
                load[edge] += cost[edge]
    return made


@njit(cache=True)
def _grow(edges: Edges, price: FloatArray, start: tuple[int, float], tree: Int32Array, random: Words) -> None:
    """Write the edges of a tree from a root, the cheapest of those that leave it first."""
    root, hop = start
    depth = np.full(len(edges.first) - 1, -1)
    keys, sides, size = np.empty(2 * len(price)), np.empty(2 * len(price), np.int32), 0
    depth[root], node, count = 0, root, 0
    while count < len(tree):
        for side in edges.near[edges.first[node] : edges.first[node + 1]]:
            edge = side // 2
            if depth[edges.ends[1 - side % 2, edge]] < 0:
                noise = random_below(random, FINE) / FINE * price[edge] * 1e-6
                sift_up(keys, sides, size, price[edge] + hop * depth[node] + noise, np.int32(side))
                size += 1
        while True:
            side = sides[0]
            size -= 1
            sift_down(keys, sides, size)
            edge = side // 2
            if depth[edges.ends[1 - side % 2, edge]] < 0:
                break
        node = edges.ends[1 - side % 2, edge]
        depth[node] = depth[edges.ends[side % 2, edge]] + 1
        tree[count] = edge
        count += 1


@njit(cache=True)
def hung(edges: Edges, tree: Int32Array) -> tuple[Int32Array, Int32Array]:
    """Return parents, -1 at the root, and sides (2 e, plus 1 if the parent is e's second end) of a tree.

    It is hung up at the middle of its longest path, so that it is as low as can be.

    Parameters
    ----------
    edges, tree
        What it is made of: int32, shape (nodes - 1,).
    """
    nodes = len(tree) + 1
    degree = np.zeros(nodes + 1, np.int64)
    for edge in tree:
        degree[edges.ends[0, edge] + 1] += 1
        degree[edges.ends[1, edge] + 1] += 1
    first = np.cumsum(degree)
    place, near = first[:-1].copy(), np.empty(2 * len(tree), np.int64)
    for edge in tree:
        for end in range(2):
            near[place[edges.ends[end, edge]]] = 2 * edge + end
            place[edges.ends[end, edge]] += 1
    parent, side, last = _walk(edges, first, near, 0)
    parent, side, last = _walk(edges, first, near, last)
    path = 0
    node = last
    while parent[node] >= 0:
        node, path = parent[node], path + 1
    for _ in range(path // 2):
        last = parent[last]
    parent, side, _ = _walk(edges, first, near, last)
    return parent, side


@njit(cache=True)
def _walk(edges: Edges, first: Int64Array, near: Int64Array, root: int) -> tuple[Int32Array, Int32Array, int]:
    """Return parents and sides of the tree from a root, breadth first, and the node reached last."""
    nodes = len(first) - 1
    parent, side = np.full(nodes, -1, np.int32), np.full(nodes, -1, np.int32)
    queue, count = np.empty(nodes, np.int64), 1
    queue[0] = root
    for done in range(nodes):
        node = queue[done]
        for way in near[first[node] : first[node + 1]]:
            other = edges.ends[1 - way % 2, way // 2]
            if other != parent[node]:
                parent[other], side[other] = node, way
                queue[count] = other
                count += 1
    return parent, side, queue[nodes - 1]

r"""Spanning trees for large graphs, one after the other along the edges that are loaded least.

Each tree is a minimum spanning tree by the loads over capacities that the trees before it left (Thorup,
Combinatorica 2007; Plotkin, Shmoys and Tardos' multiplicative weights in their limit, where lengths are
compared only by the load). The largest load over capacity, per tree, falls towards 1 / σ; the trees stop once
it is near enough. That it is, is checked exactly against the strength, whatever the loads in between were.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numba import njit

from topologies.errors import NoSchedule
from topologies.exact import Int32Array, Int64Array, frozen
from topologies.forest import Forest
from topologies.strength import Graph

MOST_ENTRIES = 1 << 27
"""Trees times nodes; what has not come near by then does not come soon."""

_ROUNDING = 1e-12


def greedy_trees(graph: Graph, bound: Fraction, epsilon: Fraction) -> Forest:
    """Return trees of weight 1 that load no edge over (1 + ε) times the bound, each moving its share of 1.

    Parameters
    ----------
    graph
        Connected.
    bound
        1 / σ.
    epsilon
        Positive.

    Raises
    ------
    NoSchedule
        If too many trees would be needed.

    Examples
    --------
    >>> from topologies.strength import undirected
    >>> triangle = undirected(3, [0, 1, 2], [1, 2, 0], [1, 1, 1])
    >>> len(greedy_trees(triangle, Fraction(2, 3), Fraction(1, 100)))
    3
    """
    n, most = graph.num_nodes, MOST_ENTRIES // graph.num_nodes
    target = float(bound * (1 + epsilon)) * (1 - _ROUNDING)
    rng = np.random.default_rng(0)
    load = np.zeros(len(graph.capacity))
    trees: list[Int32Array] = []
    while (load / graph.capacity).max() > target * len(trees) or not trees:
        if len(trees) == most:
            raise NoSchedule(
                f"allreduce_trees: {most} trees on {n} ranks do not come within {epsilon} of the bound; "
                "give a larger epsilon"
            )
        # Among equal loads a random order: the trees differ, and no edge is preferred.
        order = np.argsort((load + rng.random(len(load))) / graph.capacity)
        chosen = _spanning(n, graph.ends, order)
        load[chosen] += 1
        trees.append(_hung(n, graph.ends[0, chosen], graph.ends[1, chosen]))
    return Forest(frozen([0] * len(trees), np.int32), frozen([1] * len(trees), np.int64), np.stack(trees))


@njit(cache=True)
def _spanning(n: int, ends: Int32Array, order: Int64Array) -> Int64Array:
    """Return the edges of a spanning tree, taken in this order (Kruskal)."""
    above = np.arange(n)
    chosen = np.empty(n - 1, dtype=np.int64)
    count = 0
    for edge in order:
        one, other = ends[0, edge], ends[1, edge]
        while above[one] != one:
            above[one] = above[above[one]]
            one = above[one]
        while above[other] != other:
            above[other] = above[above[other]]
            other = above[other]
        if one != other:
            above[one] = other
            chosen[count] = edge
            count += 1
            if count == n - 1:
                break
    return chosen


@njit(cache=True)
def _hung(n: int, one: Int32Array, other: Int32Array) -> Int32Array:
    """Return the parents of the tree with these edges, rooted at node 0."""
    degree = np.zeros(n + 1, dtype=np.int64)
    for edge in range(n - 1):
        degree[one[edge] + 1] += 1
        degree[other[edge] + 1] += 1
    first = np.cumsum(degree)
    place = first[:-1].copy()
    near = np.empty(2 * (n - 1), dtype=np.int32)
    for edge in range(n - 1):
        a, b = one[edge], other[edge]
        near[place[a]], near[place[b]] = b, a
        place[a] += 1
        place[b] += 1
    queue = np.empty(n, dtype=np.int32)
    parent = np.full(n, -2, dtype=np.int32)
    parent[0], queue[0], count = -1, 0, 1
    for done in range(n):
        node = queue[done]
        for slot in range(first[node], first[node + 1]):
            if parent[near[slot]] == -2:
                parent[near[slot]] = node
                queue[count] = near[slot]
                count += 1
    return parent

"""Heights of trees: hops between ranks on the longest way from a root, the latency of a forest's schedule."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numba import njit

from topologies.exact import Int32Array, Int64Array
from topologies.forest import Forest


def heights(forest: Forest) -> Int32Array:
    """Return the height of each row's tree in hops between ranks, shape (rows,).

    Examples
    --------
    >>> heights(Forest([0, 0], [2, 1], [[-1, 0, 0], [-1, 0, 1]]))
    array([1, 2], dtype=int32)
    """
    return np.asarray(_heights(forest.root, forest.parent), dtype=np.int32)


def largest_height(forest: Forest) -> int:
    """Return the height of the highest tree."""
    return int(heights(forest).max())


def mean_height(forest: Forest) -> Fraction:
    """Return the mean height of the unit trees: of the rows, weighted by their weight."""
    weight = forest.weight.tolist()
    total = sum(height * w for height, w in zip(heights(forest).tolist(), weight, strict=True))
    return Fraction(total, sum(weight))


@njit(cache=True)
def _heights(root: Int32Array, parent: Int32Array) -> Int32Array:
    """Climb from each rank to one of known depth, then back down the path."""
    rows, ranks = parent.shape
    result = np.zeros(rows, dtype=np.int32)
    path = np.empty(ranks, dtype=np.int32)
    for row in range(rows):
        depth = np.full(ranks, -1, dtype=np.int32)
        depth[root[row]] = 0
        for rank in range(ranks):
            node, count = rank, 0
            while depth[node] < 0 and parent[row, node] >= 0 and count < ranks:
                path[count] = node
                node = parent[row, node]
                count += 1
            if depth[node] >= 0:  # else the tree does not reach the rank
                for i in range(count):
                    depth[path[count - 1 - i]] = depth[node] + 1 + i
                result[row] = max(result[row], depth[rank])
    return result


@njit(cache=True)
def depths(parent: Int32Array) -> Int64Array:
    """Return the hops of each node from the root of its tree, int64 (nodes,); of one without parent, 0.

    Invariant: a node with a depth has its whole way up labelled.
    """
    depth = np.full(len(parent), -1, dtype=np.int64)
    path = np.empty(len(parent), dtype=np.int64)
    for start in range(len(parent)):
        node, count = start, 0
        while depth[node] < 0 and parent[node] >= 0:
            path[count] = node
            node, count = parent[node], count + 1
        depth[node] = max(depth[node], 0)
        at = depth[node]
        for step in range(count - 1, -1, -1):
            at += 1
            depth[path[step]] = at
    return depth

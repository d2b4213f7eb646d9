"""Rooted packings: the network without its switches, and trees within its capacities.

Both are in units of trees: a link of bandwidth b carries U·b trees, where one tree moves 1/k of a shard
(dissertation B.5.1).

The height of a forest is the number of hops between ranks on the longest path from a root, which is the
latency of its schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tutti.topologies.exact import Int32Array, Int64Array, frozen
from tutti.topologies.kernels import kernel


@dataclass(frozen=True, eq=False)
class LogicalNetwork:
    """Ranks joined by arcs, each over one physical route (dissertation 4.5.3: the network without switches).

    Parameters
    ----------
    num_ranks
        The number of ranks, N.
    tails, heads
        int32, shape (arcs,): ranks; several arcs may join one pair, over different routes.
    capacity
        int64, shape (arcs,): the number of trees that may use the arc, positive.
    offsets, links
        CSR: the route of arc a is the physical links links[offsets[a] : offsets[a + 1]], in order.
    """

    num_ranks: int
    tails: Int32Array
    heads: Int32Array
    capacity: Int64Array
    offsets: Int64Array
    links: Int32Array

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        for name, dtype in (("tails", np.int32), ("heads", np.int32), ("links", np.int32)):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype))
        for name in ("capacity", "offsets"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int64))


@dataclass(frozen=True, eq=False)
class Forest:
    """Spanning out-trees; equal ones share a row with a weight.

    Parameters
    ----------
    root
        int32, shape (rows,): non-decreasing.
    weight
        int64, shape (rows,): the number of unit trees that the row stands for, positive.
    parent
        int32, shape (rows, ranks): the rank from which each rank receives, -1 at the root (and at ranks
        that the tree need not reach).
    """

    root: Int32Array
    weight: Int64Array
    parent: Int32Array

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        object.__setattr__(self, "root", frozen(self.root, np.int32))
        object.__setattr__(self, "weight", frozen(self.weight, np.int64))
        object.__setattr__(self, "parent", frozen(self.parent, np.int32))

    def __len__(self) -> int:
        return len(self.root)


def heights(forest: Forest) -> Int32Array:
    """Return the height of each row's tree in hops between ranks, shape (rows,).

    Examples
    --------
    >>> heights(Forest([0, 0], [2, 1], [[-1, 0, 0], [-1, 0, 1]]))
    array([1, 2], dtype=int32)
    """
    return np.asarray(_heights(forest.parent), dtype=np.int32)


def largest_height(forest: Forest) -> int:
    """Return the height of the highest tree."""
    return int(heights(forest).max())


def mean_height(forest: Forest) -> Fraction:
    """Return the mean height of the unit trees: that of the rows, by weight."""
    weight = forest.weight.tolist()
    total = sum(height * w for height, w in zip(heights(forest).tolist(), weight, strict=True))
    return Fraction(total, sum(weight))


@kernel
def _heights(parent: Int32Array) -> Int32Array:
    result = np.empty(len(parent), dtype=np.int32)
    for row in range(len(parent)):
        result[row] = depths(parent[row]).max()
    return result


@kernel
def depths(parent: Int32Array) -> Int64Array:
    """Return the hops of each node from the root of its tree, int64 (nodes,); 0 for a node without parent.

    Invariant: if a node has a depth, so have all its ancestors.
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


def rerooted(parent: Int32Array, root: int) -> Int32Array:
    """Return the same tree from another of its nodes.

    Examples
    --------
    >>> rerooted(np.array([2, 2, -1, 2]), 0).tolist()
    [-1, 2, 0, 2]
    """
    turned = parent.copy()
    node, above = -1, root
    while above >= 0:
        turned[above], node, above = node, above, int(parent[above])
    return turned

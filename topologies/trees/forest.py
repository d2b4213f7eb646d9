"""Rooted packings: the network without its switches, and trees within its capacities.

Both are in units of trees: a link of bandwidth b carries U·b trees, where one tree moves 1/k of a shard
(dissertation B.5.1).

The height of a forest is the number of hops between ranks on the longest way from a root, the latency of its
schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from numba import njit

from topologies.errors import TuttiError
from topologies.exact import Int32Array, Int64Array, frozen


class ForestError(TuttiError):
    """A forest is not what it should be: the first wrong row, pair or root."""


@dataclass(frozen=True, eq=False)
class LogicalNetwork:
    """Ranks joined by arcs, each over one physical route (dissertation 4.5.3: the network without switches).

    Parameters
    ----------
    num_ranks
        N.
    tails, heads
        int32, shape (arcs,): ranks; several arcs may join one pair, over different routes.
    capacity
        int64, shape (arcs,): how many trees may use the arc, positive.
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
    """Spanning out-trees, alike ones in one row with a weight.

    Parameters
    ----------
    root
        int32, shape (rows,): non-decreasing.
    weight
        int64, shape (rows,): how many unit trees the row stands for, positive.
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


def check_forest(network: LogicalNetwork, forest: Forest, trees: npt.ArrayLike) -> None:
    """Check that a forest is made of spanning out-trees, as many as asked, within the capacities.

    Parameters
    ----------
    network
        Ranks and arcs; the capacities of a pair's arcs add up.
    forest
        The trees.
    trees
        How many each rank roots: one number for all, or shape (ranks,).

    Raises
    ------
    ForestError
        Naming the first row that is no spanning out-tree, else the first rank with a wrong number of trees,
        else the first pair of ranks without an arc, else the first pair used more than it can carry.

    Examples
    --------
    >>> pair = LogicalNetwork(2, [0, 1], [1, 0], [1, 1], [0, 1, 2], [0, 1])
    >>> check_forest(pair, Forest([0, 1], [2, 1], [[-1, 0], [1, -1]]), [2, 1])
    Traceback (most recent call last):
        ...
    topologies.trees.forest.ForestError: forest: 2 trees use 0->1, which carries 1
    """
    _check_rows(network.num_ranks, forest)
    wanted = np.broadcast_to(np.asarray(trees, dtype=np.int64), (network.num_ranks,))
    rooted = np.zeros(network.num_ranks, dtype=np.int64)
    np.add.at(rooted, forest.root, forest.weight)
    wrong = np.flatnonzero(rooted != wanted)
    if len(wrong):
        rank = int(wrong[0])
        raise ForestError(f"forest: rank {rank} roots {rooted[rank]} trees, not {wanted[rank]}")
    _check_loads(network, forest)


def _check_rows(num_ranks: int, forest: Forest) -> None:
    """Refuse rows that are no spanning out-trees: from each rank, parents must lead to the root."""
    rows, parent = len(forest), forest.parent
    if parent.shape != (rows, num_ranks) or forest.weight.shape != (rows,):
        raise ForestError(
            f"forest: give a parent for each of {rows} rows and {num_ranks} ranks, and a weight a row"
        )
    for values, most, what in ((forest.root, num_ranks - 1, "root"), (parent, num_ranks - 1, "parent")):
        if values.size and (values.max() > most or values.min() < (-1 if what == "parent" else 0)):
            raise ForestError(f"forest: a {what} is no rank of 0..{most}")
    if (forest.weight <= 0).any():
        row = int(np.flatnonzero(forest.weight <= 0)[0])
        raise ForestError(f"forest: row {row} has weight {forest.weight[row]}; it must be positive")
    ranks, root = np.arange(num_ranks, dtype=np.int32), forest.root[:, None]
    ancestor = np.where(parent < 0, ranks, parent)
    orphan = (parent < 0) != (ranks == root)
    if orphan.any():
        row, rank = (int(place) for place in np.argwhere(orphan)[0])
        raise ForestError(f"forest: row {row}, rank {rank}: the root, and only the root, has no parent")
    for _ in range(num_ranks.bit_length()):  # after i rounds, 2^i steps towards the root
        ancestor = np.take_along_axis(ancestor, ancestor, axis=1)
    astray = (ancestor != root).any(axis=1)
    if astray.any():
        row = int(np.flatnonzero(astray)[0])
        rank = int(np.flatnonzero(ancestor[row] != forest.root[row])[0])
        raise ForestError(f"forest: row {row}, rank {rank}: its parents do not lead to the root")


def _check_loads(network: LogicalNetwork, forest: Forest) -> None:
    """Refuse pairs without an arc, and pairs with more trees than their arcs carry."""
    size = network.num_ranks
    keys, place = np.unique(network.tails.astype(np.int64) * size + network.heads, return_inverse=True)
    left = np.zeros(len(keys) + 1, dtype=np.int64)
    np.add.at(left, place, network.capacity)
    capacity = left.copy()
    for row in range(len(forest)):
        heads = np.flatnonzero(forest.parent[row] >= 0)
        used = forest.parent[row, heads].astype(np.int64) * size + heads
        found = np.searchsorted(keys, used)
        missing = np.flatnonzero(np.append(keys, -1)[found] != used)
        if len(missing):
            tail, head = divmod(int(used[missing[0]]), size)
            raise ForestError(f"forest: row {row} uses {tail}->{head}, which no arc joins")
        left[found] -= forest.weight[row]
    over = np.flatnonzero(left < 0)
    if len(over):
        pair = int(over[0])
        tail, head = divmod(int(keys[pair]), size)
        load = int(capacity[pair] - left[pair])
        raise ForestError(f"forest: {load} trees use {tail}->{head}, which carries {capacity[pair]}")


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

"""Rooted packings: the network without its switches, and trees within its capacities.

Both are in units of trees: a link of bandwidth b carries U·b trees, where one tree moves 1/k of a shard
(dissertation B.5.1).

The height of a forest is the number of hops between ranks on the longest path from a root, which is the
latency of its schedule. `align_trees` makes consecutive trees of a forest similar.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from tutti.topologies.exact import Int32Array, Int64Array, frozen, summed_pairs
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

    @property
    def pairs(self) -> tuple[Int32Array, Int32Array, Int64Array]:
        """Tails, heads and total capacity of the pairs that arcs join, sorted by tail and head."""
        return summed_pairs(self.num_ranks, self.tails, self.heads, self.capacity)


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


_MOST_ENTRIES = 1 << 26
"""Largest product of unit trees, ranks and unit trees of one root. Rows of larger forests are only sorted."""
_MOST_SWEEPS = 12
"""Largest number of sweeps over the ranks of a root's trees. A larger value may align more parents."""


def align_trees(forest: Forest) -> Forest:
    """Return a forest that uses each arc equally often, with fewer different edges; no tree is higher.

    The trees of a root exchange parents until consecutive trees agree. If a rank has the same parent, at the
    same depth, in consecutive trees, one transfer serves them all. An exchange between two trees of a root
    does not change how often each arc is used. It is made only if the rank becomes deeper in neither tree.
    This also excludes cycles. The result is the same for the same forest.

    Parameters
    ----------
    forest
        Spanning trees.

    Examples
    --------
    >>> crossed = Forest([0] * 4, [1] * 4, [[-1, 0, 0, 1], [-1, 0, 0, 2], [-1, 0, 0, 1], [-1, 0, 0, 2]])
    >>> align_trees(crossed).weight.tolist()
    [2, 2]
    """
    weight = forest.weight.tolist()
    units = np.bincount(forest.root, weights=forest.weight).astype(np.int64)
    if len(forest) <= len(np.unique(forest.root)):
        return forest
    if sum(weight) * forest.parent.shape[1] * int(units.max()) > _MOST_ENTRIES:
        return _ordered(forest)
    row = np.repeat(np.arange(len(forest)), forest.weight)
    root, parent = forest.root[row].copy(), forest.parent[row].copy()
    begin = np.searchsorted(root, np.unique(root))
    for first, last in zip(begin.tolist(), [*begin[1:].tolist(), len(root)], strict=True):
        parent[first:last] = _aligned(parent[first:last].copy(), int(root[first]))
    new = np.ones(len(root), dtype=bool)  # consecutive equal trees share a row
    new[1:] = (root[1:] != root[:-1]) | (parent[1:] != parent[:-1]).any(axis=1)
    first_row = np.flatnonzero(new)
    return Forest(root[first_row], np.diff(np.append(first_row, len(root))), parent[first_row])


def _ordered(forest: Forest) -> Forest:
    """Return the forest with each root's rows sorted by similarity, or as it is if that takes too long."""
    begin = np.append(np.flatnonzero(np.diff(forest.root, prepend=-1)), len(forest))
    if len(forest) * forest.parent.shape[1] * int(np.diff(begin).max()) > _MOST_ENTRIES:
        return forest
    order = np.concatenate(
        [first + _by_likeness(forest.parent[first:last]) for first, last in pairwise(begin.tolist())]
    )
    return Forest(forest.root, forest.weight[order], forest.parent[order])


@kernel
def _aligned(parent: Int32Array, root: int) -> Int32Array:
    """Sort one root's trees by similarity, then sweep over the ranks until nothing improves."""
    parent = parent[_by_likeness(parent)]
    depth = np.zeros(parent.shape, np.int32)
    for tree in range(len(parent)):
        depth[tree] = depths(parent[tree])
    for _ in range(_MOST_SWEEPS):
        better = 0
        for rank in range(parent.shape[1]):
            if rank != root:
                better += _sweep(parent, depth, root, rank)
        if better == 0:
            break
    return parent


@kernel
def _by_likeness(parent: Int32Array) -> Int64Array:
    """Return an order of the trees in which each is followed by the most similar of the remaining ones."""
    order = np.arange(len(parent))
    for place in range(1, len(order)):
        # `order` is settled before `place`; what follows are the trees that remain.
        best, least = place, parent.shape[1] + 1
        for other in range(place, len(order)):
            apart = 0
            for rank in range(parent.shape[1]):
                apart += parent[order[other], rank] != parent[order[place - 1], rank]
            if apart < least:
                best, least = other, apart
        order[place], order[best] = order[best], order[place]
    return order


@kernel
def _sweep(parent: Int32Array, depth: Int32Array, root: int, rank: int) -> int:
    """Exchange parents of a rank where more neighbouring trees then agree; return how many more do."""
    gained = 0
    for tree in range(len(parent) - 1):
        wanted = parent[tree, rank]
        if parent[tree + 1, rank] == wanted:
            continue
        for other in range(len(parent)):
            if parent[other, rank] != wanted or other == tree:
                continue
            one, two = tree + 1, other
            given = parent[one, rank]
            # Invariant: a rank's parent is nearer to the root than the rank, so that both stay trees.
            if depth[one, wanted] >= depth[one, rank] or depth[two, given] >= depth[two, rank]:
                continue
            before = _changes(parent, rank, one, two)
            parent[one, rank], parent[two, rank] = wanted, given
            after = _changes(parent, rank, one, two)
            if after >= before:
                parent[one, rank], parent[two, rank] = given, wanted
                continue
            gained += before - after
            depth[one] = depths(parent[one])
            depth[two] = depths(parent[two])
            break
    return gained


@kernel
def _changes(parent: Int32Array, rank: int, one: int, two: int) -> int:
    """Return the number of neighbouring pairs with either of two trees that differ in a rank's parent."""
    count = 0
    for tree in (one - 1, one, two - 1, two):
        if 0 <= tree < len(parent) - 1:
            count += parent[tree, rank] != parent[tree + 1, rank]
    if abs(one - two) == 1:  # the place between them was counted twice
        middle = min(one, two)
        count -= parent[middle, rank] != parent[middle + 1, rank]
    return count

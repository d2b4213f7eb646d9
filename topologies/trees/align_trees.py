"""Makes trees similar: the trees of a root exchange parents until consecutive trees agree.

If a rank has the same parent, at the same depth, in consecutive trees, one transfer serves them all. An
exchange between two trees of a root does not change how often each arc is used. It is made only if the rank
becomes deeper in neither tree. This also excludes cycles, and no tree becomes higher.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.kernels import kernel
from tutti.topologies.trees.forest import Forest, depths

_MOST_ENTRIES = 1 << 26
"""Largest product of unit trees, ranks and unit trees of one root. Rows of larger forests are only sorted."""
_MOST_SWEEPS = 12
"""Largest number of sweeps over the ranks of a root's trees. A larger value may align more parents."""


def align_trees(forest: Forest) -> Forest:
    """Return a forest that uses each arc equally often, with fewer different edges; no tree is higher.

    The result is the same for the same forest.

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
    return _merged(root, parent)


def _ordered(forest: Forest) -> Forest:
    """Return the forest with each root's rows sorted by similarity, or as it is if that takes too long."""
    begin = np.append(np.flatnonzero(np.diff(forest.root, prepend=-1)), len(forest))
    if len(forest) * forest.parent.shape[1] * int(np.diff(begin).max()) > _MOST_ENTRIES:
        return forest
    order = np.concatenate(
        [first + _by_likeness(forest.parent[first:last]) for first, last in pairwise(begin.tolist())]
    )
    return Forest(forest.root, forest.weight[order], forest.parent[order])


def _merged(root: Int32Array, parent: Int32Array) -> Forest:
    """Return unit trees as rows; consecutive equal trees share a row."""
    new = np.ones(len(root), dtype=bool)
    new[1:] = (root[1:] != root[:-1]) | (parent[1:] != parent[:-1]).any(axis=1)
    first = np.flatnonzero(new)
    return Forest(root[first], np.diff(np.append(first, len(root))), parent[first])


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

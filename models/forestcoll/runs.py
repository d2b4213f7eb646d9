"""Edges that trees of a root have in common: one message for a run of consecutive trees.

A message, the edge into v in trees a to b, waits for the messages into v's parent in each of them. Where the
edge has the same depth in all of them, no two messages wait for each other. Otherwise they might, in a
circle through other merged messages. So runs of different depths are merged one by one, and only if neither
waits for the other. No message may then wait for a longer chain of messages than the highest tree has hops.
"""

from __future__ import annotations

import numpy as np

from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.kernels import kernel

Ends = tuple[int, int, int]
"""A tree, a rank and a tree."""


@kernel
def runs(parent: Int32Array, depth: Int64Array) -> Int64Array:
    """Return for each tree and rank the first tree of the run in which this edge is one message.

    Parameters
    ----------
    parent, depth
        Of one root's trees, shape (trees, ranks): parents, -1 at the root, and hops from the root.

    Returns
    -------
    ndarray
        int64, shape (trees, ranks); -1 where there is no parent.
    """
    first = np.full(parent.shape, -1, np.int64)
    for tree in range(len(parent)):
        for head in range(parent.shape[1]):
            if parent[tree, head] >= 0:
                same = tree > 0 and parent[tree, head] == parent[tree - 1, head]
                alike = same and depth[tree, head] == depth[tree - 1, head]
                first[tree, head] = first[tree - 1, head] if alike else tree
    if parent.size <= 2**12:  # else runs of one depth must do
        _join(parent, first, depth)
    return first


@kernel
def levels(parent: Int32Array, first: Int64Array) -> Int64Array:
    """Return for each message, at its first tree and rank, the length of the longest chain of messages to it.

    Parameters
    ----------
    parent, first
        Of one root's trees, shape (trees, ranks): parents, and `runs`.

    Returns
    -------
    ndarray
        int64, shape (trees, ranks); 0 where no message begins.
    """
    level = np.zeros(parent.shape, np.int64)
    changed = True
    while changed:
        changed = False
        for tree in range(len(parent)):
            for head in range(parent.shape[1]):
                tail, begin = parent[tree, head], first[tree, head]
                if tail < 0:
                    continue
                before = first[tree, tail]
                least = 1 + (level[before, tail] if before >= 0 else 0)
                if level[begin, head] < least:
                    level[begin, head] = least
                    changed = True
    return level


@kernel
def _join(parent: Int32Array, first: Int64Array, depth: Int64Array) -> None:
    """Merge consecutive runs of one edge, as the module's text says."""
    mark = np.full(parent.shape, -1, np.int64)
    stack = np.empty((2, parent.size), np.int64)
    stamp = 0
    for tree in range(1, len(parent)):
        for head in range(parent.shape[1]):
            before = first[tree - 1, head]
            if first[tree, head] != tree or parent[tree, head] != parent[tree - 1, head]:
                continue
            stamp += 2
            if not (
                _waits(parent, first, (tree, head, before), mark, stack, stamp)
                or _waits(parent, first, (before, head, tree), mark, stack, stamp + 1)
            ):
                other = tree
                while other < len(parent) and first[other, head] == tree:
                    first[other, head] = before
                    other += 1
                # A merge after which there are more levels than the deepest tree has is undone.
                if levels(parent, first).max() > depth.max():
                    for back in range(tree, other):
                        first[back, head] = tree


@kernel
def _waits(
    parent: Int32Array, first: Int64Array, ends: Ends, mark: Int64Array, stack: Int64Array, stamp: int
) -> bool:
    """Whether the message to `head` from tree `start` on needs, through others, the one from tree `goal` on.

    The three are `ends`: start, head and goal.
    `mark` holds the `stamp` of the last search that met a message, `stack` those still to be followed.
    """
    start, head, goal = ends
    stack[0, 0], stack[1, 0] = start, head
    count = 1
    while count > 0:
        count -= 1
        begin, rank = stack[0, count], stack[1, count]
        # A message that serves a run of trees waits for what its sender gets in any of them.
        for tree in range(begin, len(parent)):
            if first[tree, rank] != begin:
                break
            tail = parent[tree, rank]
            before = first[tree, tail]
            if before < 0 or mark[before, tail] == stamp:
                continue
            if tail == head and before == goal:
                return True
            mark[before, tail] = stamp
            stack[0, count], stack[1, count] = before, tail
            count += 1
    return False

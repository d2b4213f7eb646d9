"""The list scheduler's transfers where each piece is reduced up one tree and broadcast down another.

Rank v sends its sum up to its parent, and receives the result from its parent in the other tree. Upwards a
transfer waits for those from the rank's own children, downwards for the one into the parent, at the root for
all that comes up: the root's place upwards is the join of these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.schedules.list_scheduling.kernel import Amounts, ListScheduleTransfers
from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.kernels import kernel


class TreePairs(NamedTuple):
    """Pairs of trees with the same root; int32, shape (pairs, ranks), -1 at roots.

    Parameters
    ----------
    up, down
        The parent to which each rank sends, and from which it receives; all -1 where nothing goes that way.
    up_route, down_route
        The route from each rank to the former, and to it from the latter.
    root
        int32, shape (pairs,).
    """

    up: Int32Array
    down: Int32Array
    up_route: Int32Array
    down_route: Int32Array
    root: Int32Array


def tree_transfers(
    trees: TreePairs, pair: Int64Array, amount: Amounts, *, by_direction: bool
) -> ListScheduleTransfers:
    """Return the transfers of pieces.

    Parameters
    ----------
    trees
        The trees.
    pair
        int64, shape (pieces,): those that each piece follows.
    amount
        Of each transfer; shape (2, pieces, ranks), up and down, if numbered by direction, else (pieces, 2,
        ranks). Numbers decide between equal priorities.
    by_direction
        Whether all that go up come before all that go down, or all of one piece before all of the next.
    """
    pieces, ranks = len(pair), trees.up.shape[1]
    steps = (ranks, pieces * ranks) if by_direction else (2 * ranks, ranks)
    route, need, first, follower = _tree_transfers(trees, pair, steps[0], steps[1])
    return ListScheduleTransfers(route, need, first, follower, amount.reshape(-1))


@kernel
def _tree_transfers(
    trees: TreePairs, pair: Int64Array, a_piece: int, a_half: int
) -> tuple[Int32Array, Int32Array, Int64Array, Int32Array]:
    """Return routes, needs and followers; rank v of piece p goes up in p * a_piece + v, down a_half later."""
    ranks = trees.up.shape[1]
    count = 2 * len(pair) * ranks
    route, before, after = (
        np.full(count, -1, np.int32),
        np.full(count, -1, np.int32),
        np.empty(count, np.int32),
    )
    for piece in range(len(pair)):
        which, up = pair[piece], piece * a_piece
        root, down = trees.root[which], up + a_half
        reduced = (trees.up[which] >= 0).any()
        for rank in range(ranks):
            if trees.up[which, rank] >= 0:
                route[up + rank] = trees.up_route[which, rank]
                before[up + rank], after[up + rank] = up + rank, up + trees.up[which, rank]
            above = trees.down[which, rank]
            if above >= 0:
                route[down + rank] = trees.down_route[which, rank]
            # At the root the broadcast waits for the join; where nothing is reduced, for nothing.
            if above >= 0 and (above != root or reduced):
                before[down + rank] = up + root if above == root else down + above
                after[down + rank] = down + rank
    return route, *_followers(before, after)


@kernel
def _followers(before: Int32Array, after: Int32Array) -> tuple[Int32Array, Int64Array, Int32Array]:
    """Return needs and followers, given pairs of which the second waits for the first; -1: no pair."""
    need, first = np.zeros(len(before), np.int32), np.zeros(len(before) + 1, np.int64)
    for pair in range(len(before)):
        if before[pair] >= 0:
            need[after[pair]] += 1
            first[before[pair] + 1] += 1
    first = np.cumsum(first)
    place, follower = first[:-1].copy(), np.empty(first[-1], np.int32)
    for pair in range(len(before)):
        if before[pair] >= 0:
            follower[place[before[pair]]] = after[pair]
            place[before[pair]] += 1
    return need, first, follower

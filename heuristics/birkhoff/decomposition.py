"""A matrix as a sum of permutations with weights (Birkhoff and von Neumann), in integers, large ones first.

Let R be the largest sum of a row or column. What other rows and columns lack is filled up, so that all sums
are R. Such a matrix has a permutation of positive entries (Hall). The matrix less w times this permutation
has the sums R - w. So the weights sum to R, and none can sum to less. A permutation is sought among entries
of at least a threshold, which is halved where there is none. So large ones come first, and each makes an
entry zero. There are at most H² - 2H + 2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.topologies.exact import NONE, BoolArray, Int32Array, Int64Array
from tutti.topologies.kernels import kernel


class Stages(NamedTuple):
    """One-to-one stages.

    Parameters
    ----------
    target
        int32, shape (stages, hosts): the host to which each host sends.
    amount
        int64, shape (stages, hosts): the amount of real data that it sends; zero where that is filling.
    """

    target: Int32Array
    amount: Int64Array


class _Matching(NamedTuple):
    """A matching, and the arrays with which a longer one is searched; shape (hosts,) each.

    Parameters
    ----------
    to, by
        int32: the column of each row, and the row of each column; `NONE`: none.
    seen, before
        Whether a column was visited (bool), and from which row (int32).
    queue
        int32: rows to be visited.
    """

    to: Int32Array
    by: Int32Array
    seen: BoolArray
    before: Int32Array
    queue: Int32Array


def stages(matrix: Int64Array, grain: int = 1) -> Stages:
    """Return stages that send a matrix, int64 (hosts, hosts).

    Parameters
    ----------
    matrix
        The amount that each host sends to each.
    grain
        Entries are rounded up to multiples of it. This makes fewer stages, of up to H grains more than R.

    Examples
    --------
    >>> stages(np.array([[0, 3, 1], [2, 0, 2], [2, 1, 0]])).amount.max(axis=1).sum()
    np.int64(4)
    """
    filled = _filled(-(-matrix // grain))
    size = len(matrix)
    most = size * size - 2 * size + 2
    target, weight = np.empty((most, size), np.int32), np.empty(most, np.int64)
    count = _decompose(filled, target, weight)
    amount = np.zeros((count, size), np.int64)
    _real(matrix.copy(), target[:count], weight[:count] * grain, amount)
    return Stages(target[:count], amount)


def sliced(whole: Stages, parts: int) -> Stages:
    """Return the stages cut in slices, each at most a `parts`-th of all time or one unit long."""
    most = whole.amount.max(axis=1, initial=0)
    length = max(-(-int(most.sum()) // parts), 1)
    count = np.maximum(-(-most // length), 1)
    stage = np.repeat(np.arange(len(count)), count)
    number = np.arange(len(stage)) - np.repeat(np.cumsum(count) - count, count)
    begin, end = (part_of(whole.amount[stage].T, place, count[stage]).T for place in (number, number + 1))
    return Stages(whole.target[stage], end - begin)


def part_of(amount: Int64Array, number: Int64Array, of: Int64Array) -> Int64Array:
    """Return the first `number` of `of` equal parts of amounts, rounded down, without overflow."""
    whole, rest = np.divmod(amount, of)
    return whole * number + rest * number // of


def _filled(matrix: Int64Array) -> Int64Array:
    """Return the matrix with what rows and columns lack, from the north-west corner on."""
    rows, columns = matrix.sum(axis=1), matrix.sum(axis=0)
    most = max(rows.max(), columns.max())
    lack, want, filled = (most - rows).tolist(), (most - columns).tolist(), matrix.copy()
    row = column = 0
    while row < len(lack) and column < len(want):
        more = min(lack[row], want[column])
        filled[row, column] += more
        lack[row] -= more
        want[column] -= more
        if lack[row] == 0:
            row += 1
        else:
            column += 1
    return filled


@kernel
def _decompose(left: Int64Array, target: Int32Array, weight: Int64Array) -> int:
    """Write the permutations and their weights; return their number. `left` is zero in the end."""
    size, count = len(left), 0
    to, by = np.full(size, NONE, np.int32), np.full(size, NONE, np.int32)
    before, queue = np.empty(size, np.int32), np.empty(size, np.int32)
    found = _Matching(to, by, np.empty(size, np.bool_), before, queue)
    remaining, least = left[0].sum(), np.int64(1)
    while least * 2 <= remaining:
        least *= 2
    while remaining > 0:
        # Invariant: all rows and columns of `left` sum to `remaining`, so a perfect matching on its positive
        # entries exists. `least` only falls, so that large weights are taken first.
        while not _matched(left, least, found):
            least //= 2
        smallest = left[0, to[0]]
        for row in range(size):
            smallest = min(smallest, left[row, to[row]])
        for row in range(size):
            target[count, row] = to[row]
            left[row, to[row]] -= smallest
        weight[count] = smallest
        count += 1
        remaining -= smallest
    return count


@kernel
def _matched(left: Int64Array, least: int, found: _Matching) -> bool:
    """Match each row to its own column with an entry of `least` or more; return whether all are matched."""
    size, to, by = len(left), found.to, found.by
    for row in range(size):
        if to[row] != NONE and left[row, to[row]] < least:
            by[to[row]] = NONE
            to[row] = NONE
    complete = True
    for row in range(size):
        complete = complete and (to[row] != NONE or _augmented(left, least, row, found))
    return complete


@kernel
def _augmented(left: Int64Array, least: int, start: int, found: _Matching) -> bool:
    """Give a free row a column by a shortest alternating path."""
    size = len(left)
    to, by, seen, before, queue = found
    seen[:] = False
    queue[0] = start
    head, tail = 0, 1
    while head < tail:
        row = queue[head]
        head += 1
        for column in range(size):
            if seen[column] or left[row, column] < least:
                continue
            seen[column] = True
            before[column] = row
            if by[column] != NONE:
                queue[tail] = by[column]
                tail += 1
                continue
            # A free column: exchange along the path back to the start, so that every row on it keeps a
            # column.
            free = column
            while True:
                other = before[free]
                previous = to[other]
                to[other], by[free] = free, other
                if other == start:
                    return True
                free = previous
    return False


@kernel
def _real(left: Int64Array, target: Int32Array, weight: Int64Array, amount: Int64Array) -> None:
    """Fill in how much of each stage is real data, which goes before the filling."""
    for stage in range(len(target)):
        for row in range(len(left)):
            column = target[stage, row]
            amount[stage, row] = min(weight[stage], left[row, column])
            left[row, column] -= amount[stage, row]

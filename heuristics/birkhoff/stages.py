"""One-to-one stages between hosts, and the pieces of data in them: which rank sends what to which rank when.

The stages are a matrix between hosts as a sum of permutations with weights (Birkhoff and von Neumann), in
integers, large ones first. Let R be the largest sum of a row or column. What other rows and columns lack is
filled up, so that all sums are R. Such a matrix has a permutation of positive entries (Hall). The matrix less
w times this permutation has the sums R - w. So the weights sum to R, and none can sum to less. A permutation
is sought among entries of at least a threshold, which is halved where there is none. So large ones come
first, and each makes an entry zero. There are at most H² - 2H + 2.

In turn t of the data of one host for another, rank p sends to rank p + t, of g; there are one or g turns.
Each of these pairs has an equal part of the data, a *quota*. First it takes the bytes that are exactly
between the two ranks, as far as the quota goes, then those that one of them starts or ends with, and then
what others have too much. So little moves inside the hosts. Bytes that need no move before are sent first, so
that the rest has time to come. The stages' amounts cut this sequence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.topologies.exact import NONE, BoolArray, FloatArray, Int32Array, Int64Array
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


class StagePieces(NamedTuple):
    """Bytes of one item that one rank sends to another host in one stage, as arrays of one length.

    Parameters
    ----------
    owner, dest
        int64: the rank that owns it and the rank that it is for, host by host.
    place, arrival
        int32: the place in its host of the rank that sends it, and of the one that receives it.
    stage
        int32.
    amount
        int64: g x turns to a unit of the matrix.
    """

    owner: Int64Array
    dest: Int64Array
    place: Int32Array
    arrival: Int32Array
    stage: Int32Array
    amount: Int64Array

    def ends(self, places: int) -> tuple[Int64Array, Int64Array]:
        """Return the sender and the receiver of each, numbered host by host, `places` ranks each."""
        sender, receiver = self.owner // places * places, self.dest // places * places
        return sender + self.place, receiver + self.arrival

    def moved(self, hosts: int, places: int) -> FloatArray:
        """Return the data that ranks move in their host, before it is sent and after arrival, (H, g, g)."""
        receiver = self.ends(places)[1]
        pair = np.concatenate([self.owner * places + self.place, receiver * places + self.dest % places])
        amount = np.bincount(pair, np.tile(self.amount, 2), hosts * places**2)
        return amount.reshape(hosts, places, places) * (1 - np.eye(places))


def pieces(amounts: Int64Array, places: int, turns: int, chosen: Stages) -> StagePieces:
    """Return all pieces between hosts.

    Parameters
    ----------
    amounts
        int64, shape (N, N): what each rank sends to each, host by host, `places` ranks each.
    places
        g.
    turns
        1: rank p sends to rank p only; g: to each in turn.
    chosen
        Stages of the matrix between hosts.
    """
    hosts = len(amounts) // places
    used = int((chosen.amount > 0).sum())
    most = int((amounts > 0).sum()) + (2 * hosts * hosts * turns + used) * places
    wide, narrow = np.empty((3, most), np.int64), np.empty((3, most), np.int32)
    room = StagePieces(wide[0], wide[1], narrow[0], narrow[1], narrow[2], wide[2])
    count = _cut(amounts, places, turns, chosen, room)
    return StagePieces._make(column[:count] for column in room)


class _StageProgress(NamedTuple):
    """The state of each place and turn: the rest of its quota, its stage, and the rest of that.

    `unsent`, int64, shape (g, g), is the data that each rank of the one host still has for each of the other.
    """

    unsent: Int64Array
    quota: Int64Array
    stage: Int64Array
    left: Int64Array


@kernel
def _cut(amounts: Int64Array, places: int, turns: int, chosen: Stages, room: StagePieces) -> int:
    """Write the pieces; return their number."""
    hosts, count, shape = len(amounts) // places, 0, (places, turns)
    unsent, quotas = np.empty((places, places), np.int64), np.empty(shape, np.int64)
    state = _StageProgress(unsent, quotas, np.empty_like(quotas), np.empty_like(quotas))
    for here in range(hosts):
        for there in range(hosts):
            if here == there:
                continue
            quota = np.int64(0)
            for i in range(places):
                for j in range(places):
                    amount = amounts[here * places + i, there * places + j]
                    quota += amount
                    unsent[i, j] = amount * places * turns
            if quota == 0:
                continue
            _begin(quota, here, there, chosen, state)
            for moves in range(4):  # none, after it arrives, before it is sent, both
                for place in range(places):
                    for turn in range(turns):
                        pair = here, there, place, turn
                        count = _fill(moves, pair, chosen, state, room, count)
    return count


@kernel
def _begin(quota: int, here: int, there: int, chosen: Stages, state: _StageProgress) -> None:
    """Begin each turn in the stage in which those before it have sent their quotas."""
    places, turns = state.quota.shape
    stage, left = np.int64(-1), np.int64(0)
    for turn in range(turns):
        for place in range(places):
            state.quota[place, turn] = quota
            state.stage[place, turn] = stage
            state.left[place, turn] = left
        ahead = np.int64(quota)
        while ahead > left:
            ahead -= left
            stage += 1
            left = chosen.amount[stage, here] * turns if chosen.target[stage, here] == there else np.int64(0)
        left -= ahead


@kernel
def _fill(
    moves: int,
    pair: tuple[int, int, int, int],
    chosen: Stages,
    state: _StageProgress,
    room: StagePieces,
    count: int,
) -> int:
    """Send what a place has for such moves, as far as its quota goes; return the number of pieces.

    `pair`: the host, the one that it sends to, the place in it and the turn.
    """
    here, there, place, turn = pair
    places, turns = state.quota.shape
    unsent = state.unsent
    arrival = (place + turn) % places
    for i in range(places):
        if (i != place) != (moves >= 2):
            continue
        for j in range(places):
            if (j != arrival) != (moves % 2 == 1):
                continue
            while unsent[i, j] > 0 and state.quota[place, turn] > 0:
                # Invariant: pieces of a quota take the stages in order, as far as each stage has room for
                # this pair.
                while state.left[place, turn] == 0:
                    state.stage[place, turn] += 1
                    stage = state.stage[place, turn]
                    if chosen.target[stage, here] == there:
                        state.left[place, turn] = chosen.amount[stage, here] * turns
                amount = min(unsent[i, j], state.quota[place, turn], state.left[place, turn])
                room.owner[count], room.dest[count] = here * places + i, there * places + j
                room.place[count], room.arrival[count] = place, arrival
                room.stage[count] = state.stage[place, turn]
                room.amount[count] = amount
                unsent[i, j] -= amount
                state.quota[place, turn] -= amount
                state.left[place, turn] -= amount
                count += 1
    return count

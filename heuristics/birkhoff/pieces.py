"""Makes the pieces: which rank of a host sends which bytes to which rank of another, in which stage.

In turn t of the data of one host for another, rank p sends to rank p + t, of g; there are one or g turns.
Each of these pairs has an equal part of the data, a *quota*. First it takes the bytes that are exactly
between the two ranks, as far as the quota goes, then those that one of them starts or ends with, and then
what others have too much. So little moves inside the hosts. Bytes that need no move before are sent first, so
that the rest has time to come. The stages' amounts cut this sequence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.heuristics.birkhoff.decomposition import Stages
from tutti.topologies.exact import FloatArray, Int32Array, Int64Array
from tutti.topologies.kernels import kernel


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

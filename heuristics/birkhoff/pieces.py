"""Which rank of a host sends which bytes in which stage.

A host's g ranks have an equal part, a *quota*, of what it sends to another. Each takes what it has for that
host as far as the quota goes, and the surplus of others beyond: so no more moves inside the host than must.
What a rank has itself goes first, so that the rest has time to come. The stages' amounts cut this sequence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from heuristics.birkhoff.decomposition import Stages
from topologies.exact import Int32Array, Int64Array
from topologies.kernels import kernel


class Pieces(NamedTuple):
    """Bytes of one item that one rank sends to another host in one stage, as arrays of one length.

    Parameters
    ----------
    owner, dest
        int64: whose, and for whom, host by host.
    place
        int32: the place in its host of the rank that sends it, and of the rank that receives it.
    stage
        int32.
    amount
        int64: g to a unit of the matrix.
    """

    owner: Int64Array
    dest: Int64Array
    place: Int32Array
    stage: Int32Array
    amount: Int64Array


def pieces(amounts: Int64Array, places: int, chosen: Stages) -> Pieces:
    """Return all pieces between hosts.

    Parameters
    ----------
    amounts
        int64, shape (N, N): what each rank sends to each, host by host, `places` ranks each.
    places
        g.
    chosen
        Stages of the matrix between hosts.
    """
    hosts = len(amounts) // places
    used = int((chosen.amount > 0).sum())
    most = int((amounts > 0).sum()) + hosts * hosts * places + used * places
    room = Pieces(
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int32),
        np.empty(most, np.int32),
        np.empty(most, np.int64),
    )
    count = _cut(amounts, places, chosen, room)
    return Pieces(
        room.owner[:count], room.dest[:count], room.place[:count], room.stage[:count], room.amount[:count]
    )


class _Progress(NamedTuple):
    """Of each place: how much of its quota is filled, which stage it is in, and what is left of that."""

    filled: Int64Array
    stage: Int64Array
    left: Int64Array


@kernel
def _cut(amounts: Int64Array, places: int, chosen: Stages, room: Pieces) -> int:
    """Write down the pieces; return how many."""
    hosts, count = len(amounts) // places, 0
    state = _Progress(np.zeros(places, np.int64), np.zeros(places, np.int64), np.zeros(places, np.int64))
    unsent = np.empty((places, places), np.int64)
    for here in range(hosts):
        for there in range(hosts):
            if here == there:
                continue
            quota = np.int64(0)
            for i in range(places):
                for j in range(places):
                    amount = amounts[here * places + i, there * places + j]
                    quota += amount
                    unsent[i, j] = amount * places
            state.filled[:] = 0
            state.stage[:] = -1
            state.left[:] = 0
            for place in range(places):  # its own
                count = _fill(quota, here, there, place, place, unsent, chosen, state, room, count)
            for place in range(places):  # what others have too much
                for i in range(places):
                    count = _fill(quota, here, there, place, i, unsent, chosen, state, room, count)
    return count


@kernel
def _fill(
    quota: int,
    here: int,
    there: int,
    place: int,
    i: int,
    unsent: Int64Array,
    chosen: Stages,
    state: _Progress,
    room: Pieces,
    count: int,
) -> int:
    """Let a place send what rank i of its host has, as far as its quota goes; return the number of pieces."""
    places = len(unsent)
    for j in range(places):
        while unsent[i, j] > 0 and state.filled[place] < quota:
            while state.left[place] == 0:
                state.stage[place] += 1
                if chosen.target[state.stage[place], here] == there:
                    state.left[place] = chosen.amount[state.stage[place], here]
            amount = min(unsent[i, j], quota - state.filled[place], state.left[place])
            room.owner[count], room.dest[count] = here * places + i, there * places + j
            room.place[count], room.stage[count] = place, state.stage[place]
            room.amount[count] = amount
            unsent[i, j] -= amount
            state.filled[place] += amount
            state.left[place] -= amount
            count += 1
    return count

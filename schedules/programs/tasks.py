"""The tasks that simulators execute: sends, receives and sums of each rank, and their dependencies.

A message of the simulation (`schedules.simulation`) becomes one send and one receive for each hop from rank
to rank, and one sum if a part of it is added. A send waits for the messages and sums that it sends. No task
waits for a send: simulators move no data, so a place may be overwritten before it is sent, and in ASTRA-sim a
send ends only when the message has arrived. Copies take no time and are left out: a task that would wait for
a copy waits for what the copy waits for.

Tasks are numbered in the order of the schedule, as simulated by ASTRA-sim's rules. Of the tasks that can
begin at the same time, simulators begin the one with the smallest number. A send that is ready no later than
an earlier send over the same link also waits for the tasks that the earlier one waits for, so that the link's
messages stay in order.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from enum import StrEnum
from fractions import Fraction
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from tutti.schedules.message_durations import messages
from tutti.schedules.programs.moves import Moves, links_of_paths, moves_of, rounded
from tutti.schedules.programs.ordering import waits
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import SimulationOptions
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE
from tutti.topologies.units import format_size


class Action(StrEnum):
    """The kind of a task."""

    SEND = "send"
    RECV = "recv"
    SUM = "sum"


class RankTask(NamedTuple):
    """One task of a rank.

    Parameters
    ----------
    action
        The kind of the task.
    units
        The number of units that it moves or adds.
    after
        The numbers of the tasks of the same rank that must be done before.
    peer, path
        The other rank of a send or receive, and the number of the route to it (`moves.links_of_paths`).
    tag
        The message's number, which no other message has.
    """

    action: Action
    units: int
    after: tuple[int, ...]
    peer: int = NONE
    path: int = 0
    tag: int = NONE


class Tasks(NamedTuple):
    """The tasks of each rank, each after the tasks that it waits for, and the number of units of M."""

    ranks: list[list[RankTask]]
    units: int


ROUNDED = 1 + 1e-9
"""Factor by which a sum of times, computed in floats, may exceed the exact sum."""

_Key = tuple[int, Action]
"""One hop of a message from rank to rank, and which of its tasks: send, receive or sum."""


def tasks_of(schedule: Schedule, size: Fraction) -> Tasks:
    """Return the tasks of a verified schedule, in the order in which they run for this size.

    Raises
    ------
    Unsupported, InputError
        As `moves_of`.
    """
    schedule = rounded(schedule)
    rules = SimulationOptions(store_and_forward=True, overlap_alpha=True)
    moves = moves_of(schedule, size, in_place=True, rules=rules)
    sent = _MessageTasks(moves)
    sent.keep_order(schedule)
    ranks: list[list[RankTask]] = [[] for _ in range(schedule.topology.num_ranks)]
    numbers: dict[_Key, int] = {}
    for key in sent.in_order():
        tasks = ranks[sent.rank(key)]
        numbers[key] = len(tasks)
        tasks.append(sent.task(key, tuple(sorted(numbers[other] for other in sent.after[key]))))
    return Tasks(ranks, moves.units)


class _MessageTasks:
    """The messages, the tasks of each, their dependencies and their times.

    Attributes
    ----------
    after
        The tasks that each task waits for.
    """

    def __init__(self, moves: Moves) -> None:
        sent = np.flatnonzero(moves.source != moves.target)
        key = moves.message[sent] * (int(moves.hop.max(initial=0)) + 1) + moves.hop[sent]
        _, self.first, which = np.unique(key, return_index=True, return_inverse=True)
        self.first = sent[self.first]
        self.moves, self.of = moves, np.full(len(moves), NONE, dtype=np.int64)
        self.of[sent] = which
        self.units = np.bincount(which, weights=moves.length[sent], minlength=len(self.first)).astype(int)
        adds = moves.add.buffer[sent] != NONE
        self.sums = np.bincount(which[adds], minlength=len(self.first)) > 0
        self.after: dict[_Key, set[_Key]] = {}
        for one, summed in enumerate(self.sums.tolist()):
            self.after |= {(one, Action.SEND): set(), (one, Action.RECV): set()}
            if summed:
                self.after[one, Action.SUM] = {(one, Action.RECV)}
        self._wait()

    def _wait(self) -> None:
        """Let each send wait for its data: the received message, and everything that was added to it."""
        waiting = waits(self.moves)
        begin, whom, of = waiting.begin.tolist(), waiting.node.tolist(), self.of.tolist()
        adds = (self.moves.add.buffer != NONE).tolist()
        turns = np.stack([self.moves.reading, self.moves.writing], axis=1)
        data: dict[int, set[_Key]] = {}  # what a node stores is complete once these are done
        for node in np.argsort(turns, axis=None).tolist():
            one, receives = of[node // 2], node % 2
            before = whom[begin[node] : begin[node + 1]]
            found = set[_Key]().union(*(data.get(other, ()) for other in before))
            if one == NONE:
                data[node] = found
            elif not receives:
                self.after[one, Action.SEND] |= found
            else:
                data[node] = {(one, Action.SUM), *found} if adds[node // 2] else {(one, Action.RECV)}

    def keep_order(self, schedule: Schedule) -> None:
        """Keep sends over the first link of a route in the schedule's order on this link.

        A send waits only for tasks that end in the simulation before it begins, so no deadlock can arise.
        """
        links, moves, order = links_of_paths(schedule), self.moves, messages(schedule).order
        by_link: dict[int, list[tuple[int, float, int]]] = defaultdict(list)
        for one, move in enumerate(self.first.tolist()):
            if moves.hop[move] == 0:
                ends = int(moves.source[move]), int(moves.target[move]), int(moves.path[move])
                when = int(order[moves.message[move]]), float(moves.begin[move])
                by_link[links[ends][0]].append((*when, one))
        for sends in by_link.values():
            latest, needed = -inf, set[_Key]()
            for _, begin, one in sorted(sends):
                after = self.after[one, Action.SEND]
                ready = max((self._time(other)[0] for other in after), default=-inf)
                if ready > latest:
                    latest, needed = ready, set()
                if ready == latest:
                    needed |= after
                if latest <= begin * ROUNDED:
                    after |= needed

    def in_order(self) -> list[_Key]:
        """Return all tasks by their time in the simulation, each after the tasks that it waits for."""
        left = {key: len(others) for key, others in self.after.items()}
        following: dict[_Key, list[_Key]] = defaultdict(list)
        for key, others in self.after.items():
            for other in others:
                following[other].append(key)
        ready = [(self._time(key), key) for key, count in left.items() if not count]
        heapq.heapify(ready)
        found: list[_Key] = []
        while ready:
            key = heapq.heappop(ready)[1]
            found.append(key)
            for other in following[key]:
                left[other] -= 1
                if not left[other]:
                    heapq.heappush(ready, (self._time(other), other))
        if len(found) < len(left):
            raise InputError(f"{self.moves.collective}: messages wait for each other")
        return found

    def _time(self, key: _Key) -> tuple[float, int]:
        """Return the time of a task in the simulation, and its turn in the replay."""
        move, sends = self.first[key[0]], key[1] is Action.SEND
        when, turn = (self.moves.begin, self.moves.reading) if sends else (self.moves.end, self.moves.writing)
        return float(when[move]), int(turn[move])

    def rank(self, key: _Key) -> int:
        """Return the rank that does a task."""
        whose = self.moves.source if key[1] is Action.SEND else self.moves.target
        return int(whose[self.first[key[0]]])

    def task(self, key: _Key, after: tuple[int, ...]) -> RankTask:
        """Return the task with this key."""
        one, action = key
        units, move = int(self.units[one]), self.first[one]
        if action is Action.SUM:
            return RankTask(action, units, after)
        peer = self.moves.target if action is Action.SEND else self.moves.source
        return RankTask(action, units, after, int(peer[move]), int(self.moves.path[move]), one)


def unit_bytes(units: int, size: Fraction) -> tuple[int, dict[str, str]]:
    """Return the bytes of each of M's units, rounded up, and a note if they were rounded.

    Examples
    --------
    >>> unit_bytes(24, Fraction(48))
    (2, {})
    >>> unit_bytes(24, Fraction(100))
    (5, {'rounded': '100B does not divide into 24 units; written for 120B'})
    """
    unit = ceil(size / units)
    if unit * units == size:
        return unit, {}
    written = format_size(unit * units)
    return unit, {"rounded": f"{format_size(size)} does not divide into {units} units; written for {written}"}

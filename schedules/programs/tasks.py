"""What simulators play: of each rank sends, receives and sums, and which of them waits for which.

An instruction becomes a receive, a sum and a send, as far as it has them, one after the other. Copies, and
instructions that only wait, take no time in the simulator (`schedules.simulation`) and are left out: who
waits for one of them waits for what it waited for.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

from schedules.programs.program import NONE, Op, Program
from schedules.programs.serial import senders, serial_order
from topologies.errors import InputError
from topologies.units import format_size

_SUMS = (Op.REDUCE, Op.RECV_REDUCE_SEND, Op.RECV_REDUCE_COPY, Op.RECV_REDUCE_COPY_SEND)


class Action(StrEnum):
    """What a task is."""

    SEND = "send"
    RECV = "recv"
    SUM = "sum"


class Task(NamedTuple):
    """One thing that a rank does.

    Parameters
    ----------
    action
        What it is.
    units
        That it moves or adds.
    after
        The tasks of the same rank, by number, that are done before.
    peer, channel
        The other rank and the channel of a send or receive.
    tag
        Of the message: no other has it.
    """

    action: Action
    units: int
    after: tuple[int, ...]
    peer: int = NONE
    channel: int = 0
    tag: int = NONE


def tasks_of(program: Program) -> list[list[Task]]:
    """Return the tasks of each rank; none waits for one that comes after it.

    Raises
    ------
    InputError
        If instructions wait for each other.
    """
    sent = senders(program)
    order = serial_order(program, sent)
    tag = {int(number): place for place, number in enumerate(sorted(sent[sent != NONE].tolist()))}
    ranks: list[list[Task]] = [[] for _ in range(program.num_ranks)]
    done: dict[int, tuple[int, ...]] = {}  # of each instruction the tasks that end it
    for number in order.tolist():
        block = int(program.block_of[number])
        tasks, one = ranks[program.rank[block]], program.instruction(number)
        before = program.waits[program.wait_begin[number] : program.wait_begin[number + 1]].tolist()
        if number > program.begin[block]:
            before.append(number - 1)
        after = tuple(sorted({task for other in before for task in done[other]}))
        parts: list[tuple[Action, tuple[int, ...]]] = []
        if one.op.receives:
            parts.append((Action.RECV, (one.origin, one.channel, tag[int(sent[number])])))
        if one.op in _SUMS:
            parts.append((Action.SUM, ()))
        if one.op.sends:
            parts.append((Action.SEND, (one.to, one.channel, tag[number])))
        for action, ends in parts:
            tasks.append(Task(action, one.length, after, *ends))
            after = (len(tasks) - 1,)
        done[number] = after
    return ranks


def unit_bytes(units: int, size: Fraction) -> int:
    """Return the bytes of a unit, where M is so many units.

    Raises
    ------
    InputError
        If they are no whole number, with the nearest size at which they are.

    Examples
    --------
    >>> unit_bytes(24, Fraction(100))
    Traceback (most recent call last):
    ...
    topologies.errors.InputError: 100 bytes do not divide into 24 units; the nearest size that does is 96B
    """
    whole = size / units
    if whole.denominator != 1:
        nearest = max(round(whole), 1) * units
        raise InputError(
            f"{size} bytes do not divide into {units} units; "
            f"the nearest size that does is {format_size(nearest)}"
        )
    return int(whole)

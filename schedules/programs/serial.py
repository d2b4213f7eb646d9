"""The order of a program: the send of each receive, what each needs, and one order in which all can run."""

from __future__ import annotations

from collections import deque

import numpy as np

from tutti.schedules.programs.program import Op, Program, table_of
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE, BoolArray, Int64Array, IntArray, offsets_of


def senders(program: Program, *, signals: bool = False) -> Int64Array:
    """Return for each instruction the one that sends what it receives; -1 if it receives nothing.

    Parameters
    ----------
    program
        The program.
    signals
        Whether signals, and the waits that take them, count as messages too.

    Raises
    ------
    InputError
        If two blocks share an end of a FIFO, so that the order of messages is undetermined, or if the ends of
        a FIFO differ in the number or lengths of their messages.
    """
    code, own = program.code, program.own
    ends = (("sends", Op.SIGNAL), ("receives", Op.WAIT))
    sends, receives = (
        np.flatnonzero(table_of(end)[code.op] | (signals & (code.op == signal))) for end, signal in ends
    )
    signal = np.isin(code.op, (Op.SIGNAL, Op.WAIT))
    ranks, channels = program.num_ranks, int(code.channel.max(initial=0)) + 1

    def ordered(numbers: Int64Array, source: IntArray, target: IntArray) -> tuple[Int64Array, Int64Array]:
        fifo = ((signal[numbers] * ranks + source) * ranks + target) * channels + code.channel[numbers]
        order = np.argsort(fifo, kind="stable")
        fifo, numbers = fifo[order], numbers[order]
        shared = (fifo[1:] == fifo[:-1]) & (program.block_of[numbers[1:]] != program.block_of[numbers[:-1]])
        if shared.any():
            second = int(numbers[1:][np.argmax(shared)])
            raise InputError(f"{program.name}: {program.place(second)} shares its FIFO with another block")
        return fifo, numbers

    out, sends = ordered(sends, own[sends], code.to[sends])
    into, receives = ordered(receives, code.origin[receives], own[receives])
    if not np.array_equal(out, into):
        few = min(len(out), len(into))
        differ = np.flatnonzero(out[:few] != into[:few])
        at = int(differ[0]) if len(differ) else few
        lonely = at < len(out) and (at == len(into) or out[at] < into[at])
        number, what = (sends[at], "receives") if lonely else (receives[at], "sends")
        raise InputError(f"{program.name}: {program.place(int(number))}: no instruction {what} this message")
    unequal = np.flatnonzero((code.length[sends] != code.length[receives]) & ~signal[sends])
    if len(unequal):
        sent, got = (int(numbers[unequal[0]]) for numbers in (sends, receives))
        raise InputError(
            f"{program.name}: {program.place(got)} receives {code.length[got]} units where "
            f"{program.place(sent)} sends {code.length[sent]}"
        )
    result = np.full(len(program), NONE, dtype=np.int64)
    result[receives] = sends
    return result


def needs(program: Program, sent: Int64Array) -> tuple[Int64Array, Int64Array, BoolArray]:
    """Return pairs of instructions, the second of which needs the first, and whether a message is why.

    The others are the steps of a block and the waits; `sent` is the result of `senders`.
    """
    number = np.arange(len(program))
    later = number[1:][program.block_of[1:] == program.block_of[:-1]]
    waiting = np.repeat(number, np.diff(program.wait_begin))
    receives = np.flatnonzero(sent != NONE)
    before = np.concatenate([later - 1, program.waits, sent[receives]])
    after = np.concatenate([later, waiting, receives])
    return before, after, np.arange(len(before)) >= len(before) - len(receives)


def serial_order(program: Program, sent: Int64Array | None = None) -> Int64Array:
    """Return the instructions in an order in which each can run, with sends as early as possible.

    Parameters
    ----------
    program
        The program.
    sent
        The result of `senders`, if it is known.

    Raises
    ------
    InputError
        As `senders`; or if instructions wait for each other; the message names the first that never runs.
    """
    before, after, _ = needs(program, senders(program) if sent is None else sent)
    pending = np.bincount(after, minlength=len(program)).tolist()
    following = after[np.argsort(before, kind="stable")].tolist()
    begin = offsets_of(np.bincount(before, minlength=len(program))).tolist()
    last = (table_of("receives")[program.code.op]).tolist()
    ready: tuple[deque[int], deque[int]] = (deque(), deque())
    for first in np.flatnonzero(np.array(pending) == 0).tolist():
        ready[last[first]].append(first)
    done: list[int] = []
    while ready[0] or ready[1]:
        one = (ready[0] or ready[1]).popleft()
        done.append(one)
        for other in following[begin[one] : begin[one + 1]]:
            pending[other] -= 1
            if pending[other] == 0:
                ready[last[other]].append(other)
    if len(done) < len(program):
        stuck = np.ones(len(program), dtype=np.bool_)
        stuck[done] = False
        raise InputError(f"{program.name}: {program.place(int(np.argmax(stuck)))} waits forever")
    return np.array(done, dtype=np.int64)


def longest_paths(nodes: int, before: Int64Array, after: Int64Array, weight: BoolArray) -> Int64Array:
    """Return the greatest weight of a path to each node of an acyclic graph."""
    order = np.argsort(before, kind="stable")
    begin = offsets_of(np.bincount(before, minlength=nodes)).tolist()
    heads = list(zip(after[order].tolist(), weight[order].tolist(), strict=True))
    pending = np.bincount(after, minlength=nodes).tolist()
    level = [0] * nodes
    ready = [node for node in range(nodes) if not pending[node]]
    while ready:
        node = ready.pop()
        for head, longer in heads[begin[node] : begin[node + 1]]:
            level[head] = max(level[head], level[node] + longer)
            pending[head] -= 1
            if not pending[head]:
                ready.append(head)
    return np.array(level, dtype=np.int64)

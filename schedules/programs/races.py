"""Races: two accesses of one memory cell, one of them a write, that nothing puts in order.

An instruction happens before the next one of its block and before those that wait for it; one that sends
happens before the one that takes its message. The accesses of a cell in a race-free program are in this order
in every interleaving. So it is enough to check one run: each access against the accesses of the same cell
just before it (the last write, and the reads since). Vector clocks tell whether one happens before the other:
the clock of an instruction has, for each block, the last instruction of that block that happens before it.

The ends of a connection are treated as cells: two unordered sends (or receives) could swap their messages.

Mattern, Virtual time and global states of distributed systems, 1989; Flanagan and Freund, FastTrack:
efficient and precise dynamic race detection, PLDI 2009.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.schedules.programs.machine import ProgramArrays, State
from tutti.topologies.exact import NONE, BoolArray, Int32Array, Int64Array
from tutti.topologies.kernels import assign, kernel

CLOCK_BYTES = 2**28
"""Largest size of the clocks in bytes. A smaller value means that the blocks are handled in more groups."""


def doubtful_pairs(machine: ProgramArrays, state: State, order: Int32Array) -> Int32Array:
    """Return the pairs of instructions that race unless the first happens before the second: int32 (any, 2).

    The two are successive accesses of a cell or an end, in two blocks, and the second doesn't wait for the
    first.

    Parameters
    ----------
    machine
        The program.
    state, order
        The final state of a run of all its instructions, and their order in it.
    """
    neighbours = []
    for used, begin in ((state.sent, machine.send_begin), (state.taken, machine.take_begin)):
        follows = np.ones(len(used) + 1, dtype=np.bool_)  # on the same connection as the use before
        follows[begin] = False
        neighbours.append(np.stack([used[:-1], used[1:]], axis=1)[follows[1 : len(used)]])
    places = (machine.source, machine.addend, machine.target, machine.length)
    accesses = Accesses(order.astype(np.int64), *(column[order].astype(np.int64) for column in places))
    found = conflicts(accesses, np.array([0, len(order)]), len(state.memory), len(machine.block))[0]
    ordered = np.stack([found[:, 1], found[:, 0]], axis=1).astype(np.int32)
    pairs = np.concatenate([ordered[~_is_plain(machine, ordered)], *neighbours])
    return pairs[machine.block[pairs[:, 0]] != machine.block[pairs[:, 1]]]


def clock_entries(machine: ProgramArrays, pairs: Int32Array) -> int:
    """Return the number of entries of clocks that `first_race` computes."""
    return len(machine.block) * len(np.unique(machine.block[pairs[:, 0]]))


def first_race(
    machine: ProgramArrays, order: Int32Array, partners: Int32Array, pairs: Int32Array
) -> tuple[int, int] | None:
    """Return the racing pair whose second instruction runs first, or None.

    Parameters
    ----------
    machine, order, pairs
        The same as in `doubtful_pairs`.
    partners
        int32 (any, instructions): instructions that happen before each one and are not in `ProgramArrays`, or
        -1.
    """
    racing = pairs[~_ordered(machine, order, partners, pairs)]
    if not len(racing):
        return None
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order))
    earlier, later = racing[np.argmin(place[racing[:, 1]])]
    return int(earlier), int(later)


def _ordered(machine: ProgramArrays, order: Int32Array, partners: Int32Array, pairs: Int32Array) -> BoolArray:
    """Return for each pair of instructions whether the first happens before the second."""
    ordered = np.zeros(len(pairs), dtype=np.bool_)
    block = machine.block[pairs[:, 0]]
    needed = np.unique(block)
    width = min(max(CLOCK_BYTES // 4 // max(len(order), 1), 1), len(needed))
    clocks = np.empty((len(order), width), dtype=np.int32)
    for first in range(0, len(needed), max(width, 1)):
        column = np.full(len(machine.begin) - 1, -1, dtype=np.int32)
        column[needed[first : first + width]] = np.arange(len(needed[first : first + width]))
        _set_clocks(machine, order, partners, column, clocks)
        asked = np.flatnonzero(column[block] >= 0)
        earlier, later = pairs[asked].T
        ordered[asked] = clocks[later, column[block[asked]]] >= earlier
    return ordered


@kernel
def _set_clocks(
    machine: ProgramArrays,
    order: Int32Array,
    partners: Int32Array,
    column: Int32Array,
    clocks: Int32Array,
) -> None:
    """Compute the clocks, shape (instructions, columns), of the blocks that have a column."""
    for instruction in order:
        block, clock = machine.block[instruction], clocks[instruction]
        if instruction > machine.begin[block]:
            assign(clock, clocks[instruction - 1])
        else:
            clock[:] = -1
        for wait in machine.waits[machine.wait_begin[instruction] : machine.wait_begin[instruction + 1]]:
            _join(clock, clocks[wait])
        for partner in partners[:, instruction]:
            if partner >= 0:
                _join(clock, clocks[partner])
        if column[block] >= 0:
            clock[column[block]] = instruction


@kernel
def _join(clock: Int32Array, other: Int32Array) -> None:
    for place in range(len(clock)):
        clock[place] = max(clock[place], other[place])


class Accesses(NamedTuple):
    """Accesses of memory cells, as arrays of one length, in order.

    Parameters
    ----------
    who
        int64: the number of each event.
    first, second
        int64: the first cells that it reads from two places; -1 for none.
    target
        int64: the first cell that it writes, after it has read; -1 for none.
    length
        int64: the number of cells at each place.
    """

    who: Int64Array
    first: Int64Array
    second: Int64Array
    target: Int64Array
    length: Int64Array


@kernel
def conflicts(
    accesses: Accesses, begin: Int64Array, cells: int, numbers: int
) -> tuple[Int64Array, Int32Array]:
    """Return pairs of events that must be in order, the later first, and the number of readers of each event.

    An event that reads a cell must come after the last one that wrote it; an event that writes it, after all
    that have read it since then. The reads of a cell since its last write are a linked list.

    Parameters
    ----------
    accesses
        The accesses.
    begin
        int64, shape (memories + 1,): the events begin[m]..begin[m + 1] - 1 access memory m.
    cells
        The largest number of cells of a memory.
    numbers
        The number of events' numbers.
    """
    who, first, second, targets, length = accesses
    writer, reader = np.empty(cells, dtype=np.int64), np.empty(cells, dtype=np.int64)
    pool = np.empty((1024, 2), dtype=np.int64)  # an event that reads, and the previous entry
    met = np.full(numbers, NONE, dtype=np.int64)
    readers = np.zeros(numbers, dtype=np.int32)
    pairs, used = np.empty((1024, 2), dtype=np.int64), 0
    for memory in range(len(begin) - 1):
        for cell in range(cells):
            writer[cell], reader[cell] = NONE, NONE
        entries = 0
        for event in range(begin[memory], begin[memory + 1]):
            one = who[event]
            for source in (first[event], second[event]):
                for cell in range(source, source + length[event] if source != NONE else source):
                    if writer[cell] != NONE and met[writer[cell]] != one:
                        readers[writer[cell]] += 1
                    pairs, used = _note(pairs, used, one, writer[cell], met)
                    pool, entries = _append(pool, entries, one, reader[cell])
                    reader[cell] = entries - 1
            target = targets[event]
            for cell in range(target, target + length[event] if target != NONE else target):
                entry = reader[cell]
                if entry == NONE:
                    pairs, used = _note(pairs, used, one, writer[cell], met)
                while entry != NONE:
                    pairs, used = _note(pairs, used, one, pool[entry, 0], met)
                    entry = pool[entry, 1]
                writer[cell], reader[cell] = one, NONE
    return pairs[:used].copy(), readers


@kernel
def _note(pairs: Int64Array, used: int, later: int, earlier: int, met: Int64Array) -> tuple[Int64Array, int]:
    """Append a pair unless the two are one event, or the pair is there."""
    if earlier in (NONE, later) or met[earlier] == later:
        return pairs, used
    met[earlier] = later
    return _append(pairs, used, later, earlier)


@kernel
def _append(table: Int64Array, used: int, first: int, second: int) -> tuple[Int64Array, int]:
    """Append a pair to a table, whose length doubles when it is full."""
    if used == len(table):
        table = np.concatenate((table, np.empty_like(table)))
    table[used, 0], table[used, 1] = first, second
    return table, used + 1


@kernel
def _is_plain(machine: ProgramArrays, pairs: Int32Array) -> BoolArray:
    """Return for each pair whether the second waits for the first, or for a later step of its block."""
    plain = np.zeros(len(pairs), dtype=np.bool_)
    for pair in range(len(pairs)):
        earlier, later = pairs[pair, 0], pairs[pair, 1]
        for wait in machine.waits[machine.wait_begin[later] : machine.wait_begin[later + 1]]:
            plain[pair] |= machine.block[wait] == machine.block[earlier] and wait >= earlier
    return plain

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

import numpy as np

from tutti.schedules.programs.machine import ProgramArrays, State
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array
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
    neighbours = [
        np.stack([used[:-1], used[1:]], axis=1)[_same_connection(begin, len(used))]
        for used, begin in ((state.sent, machine.send_begin), (state.taken, machine.take_begin))
        if len(used)
    ]
    pairs = np.concatenate([_conflicts(machine, order, len(state.memory)), *neighbours])
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


def _same_connection(begin: Int64Array, count: int) -> BoolArray:
    """Return for each use of an end, except the last, whether the next use is of the same connection."""
    follows = np.ones(count + 1, dtype=np.bool_)
    follows[begin] = False
    return follows[1:-1]


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


@kernel
def _conflicts(machine: ProgramArrays, order: Int32Array, cells: int) -> Int32Array:
    """Return pairs of accesses that must be ordered, except those whose order is plain; shape (pairs, 2).

    The reads of a cell since its last write are a linked list.
    """
    reads = 0
    for instruction in order:
        both = (machine.source[instruction] >= 0) + (machine.addend[instruction] >= 0)
        reads += both * machine.length[instruction]
    reader, behind = np.empty(reads, dtype=np.int32), np.empty(reads, dtype=np.int64)
    last_read, last_write = np.full(cells, -1, dtype=np.int64), np.full(cells, -1, dtype=np.int32)
    pairs, num_pairs, num_reads = np.empty((1024, 2), dtype=np.int32), 0, 0
    for instruction in order:
        for unit in range(machine.length[instruction]):
            for read in (machine.source[instruction], machine.addend[instruction]):
                if read >= 0:
                    pairs, num_pairs = _note(machine, pairs, num_pairs, last_write[read + unit], instruction)
                    reader[num_reads], behind[num_reads] = instruction, last_read[read + unit]
                    last_read[read + unit] = num_reads
                    num_reads += 1
            if machine.target[instruction] >= 0:
                cell = machine.target[instruction] + unit
                pairs, num_pairs = _note(machine, pairs, num_pairs, last_write[cell], instruction)
                # A write must come after all reads since the last write, which are then forgotten.
                while last_read[cell] >= 0:
                    pairs, num_pairs = _note(machine, pairs, num_pairs, reader[last_read[cell]], instruction)
                    last_read[cell] = behind[last_read[cell]]
                last_write[cell] = instruction
    return pairs[:num_pairs]


@kernel
def _note(
    machine: ProgramArrays, pairs: Int32Array, count: int, earlier: int, later: int
) -> tuple[Int32Array, int]:
    """Append a pair, unless its order is plain or it was the last one appended."""
    if earlier < 0 or machine.block[earlier] == machine.block[later]:
        return pairs, count
    if count > 0 and pairs[count - 1, 0] == earlier and pairs[count - 1, 1] == later:
        return pairs, count
    for wait in machine.waits[machine.wait_begin[later] : machine.wait_begin[later + 1]]:
        if machine.block[wait] == machine.block[earlier] and wait >= earlier:
            return pairs, count
    if count == len(pairs):
        pairs = np.concatenate((pairs, np.empty_like(pairs)))
    pairs[count, 0], pairs[count, 1] = earlier, later
    return pairs, count + 1

"""Error messages for programs: each is one line that names rank, block and step."""

from __future__ import annotations

import numpy as np

from tutti.schedules.fingerprints import EMPTY
from tutti.schedules.programs.machine import (
    UNEQUAL,
    Ending,
    Memory,
    ProgramArrays,
    State,
    awaited,
    matches,
    origins,
)
from tutti.schedules.programs.program import Buffer, Op, Program
from tutti.topologies.errors import TuttiError
from tutti.topologies.exact import NONE, Int32Array, Int64Array


class ProgramError(TuttiError):
    """A program does not do what it should; the text is one line."""


def stopped(program: Program, machine: ProgramArrays, state: State, ending: Ending) -> ProgramError:
    """Return the error for a run that ended at an instruction that can't be right."""
    step, at = ending.instruction, program.place(ending.instruction)
    if ending.reason == UNEQUAL:
        units, sender = machine.length[step], ending.unit
        return ProgramError(
            f"{at} receives {units} units where {program.place(sender)} sent {machine.length[sender]}"
        )
    source = machine.source[step]
    of_source = source >= 0 and state.memory[source + ending.unit] == EMPTY
    return ProgramError(f"{at} reads {_side(program, step, of_source, ending.unit)} before anything is there")


def deadlock(
    program: Program, machine: ProgramArrays, state: State, depth: int, enough: int | None
) -> ProgramError:
    """Return the error for a run that is stuck; FIFOs of depth `enough`, if given, would avoid that.

        It names one stuck block, if possible one whose condition can't come true whatever the other blocks
    do.
    """
    stuck = state.next[state.next < machine.begin[1:]]
    reasons = [_awaits(program, machine, state, step, awaited(machine, state, depth, step)) for step in stuck]
    never, why = max(reasons, key=lambda reason: reason[0])
    at = program.place(int(stuck[reasons.index((never, why))]))
    others = f"; {len(stuck)} blocks are stuck" if len(stuck) > 1 else ""
    deeper = "" if enough is None else f"; FIFOs of depth {enough} are enough"
    return ProgramError(f"deadlock: {at} waits for {why}{others}{deeper}")


def too_shallow(program: Program, step: int, depth: int, enough: int) -> ProgramError:
    """Return the error for a run that is stuck at a step because its FIFOs hold too few messages."""
    return ProgramError(
        f"deadlock: {program.place(step)} waits forever, as a FIFO holds {depth} messages of one unit; "
        f"it needs {enough}"
    )


def left_over(program: Program, machine: ProgramArrays, state: State) -> ProgramError | None:
    """Return the error for the first message (or signal) that no instruction has taken at the end."""
    full = state.num_sent > state.num_taken
    if not full.any():
        return None
    connection = int(np.argmax(full))
    step = int(state.sent[machine.send_begin[connection] + state.num_taken[connection]])
    what = "signals" if machine.signals[connection] else "sends to"
    return ProgramError(f"{program.place(step)} {what} {_route(program, step)}, where no step takes it")


def wrong_output(
    program: Program,
    memory: Memory,
    machine: ProgramArrays,
    state: State,
    order: Int32Array,
    where: tuple[int, int],
) -> ProgramError:
    """Return the error for a wrong unit of an output; `where` is the output's entry and the unit in it."""
    placement, rank, cell = memory.placed(Buffer.OUTPUT)
    entry, unit = where
    item, wrong = int(placement.item[entry]), int(cell[entry]) + unit
    name = f"rank {rank[entry]}: output {placement.offset[entry] + unit}"
    writers = _writers(machine, order, wrong)
    if state.memory[wrong] == EMPTY:
        return ProgramError(f"{name} is empty at the end")
    often = origins(machine, order, matches(machine, state), wrong, len(state.memory))
    starts, ranks, begin = memory.placed(Buffer.INPUT)
    required = begin[starts.item == item] + unit
    extra = np.setdiff1d(np.flatnonzero(often), required)
    found = [
        ("lacks", required[often[required] == 0]),
        ("has more than once", required[often[required] >= 2]),
        ("has what doesn't belong there,", extra),
    ]
    faults = [f"{what} {_input(memory, ranks, begin, cells)}" for what, cells in found if len(cells)]
    last = f" (last written by {program.place(int(writers[-1]))})" if len(writers) else ""
    return ProgramError(f"{name} {' and '.join(faults)}{last}")


def race(program: Program, machine: ProgramArrays, earlier: int, later: int) -> ProgramError:
    """Return the error for two unordered instructions that access one cell, or one end of a connection."""
    accesses = [
        (reads, writes, first, second)
        for reads, first in ((True, machine.source[later]), (False, machine.target[later]))
        for writes, second in ((False, machine.source[earlier]), (True, machine.target[earlier]))
        if min(first, second) >= 0 and (writes or not reads)
        if first < second + machine.length[earlier] and second < first + machine.length[later]
    ]
    if not accesses:
        sends = machine.send[later] >= 0 and machine.send[later] == machine.send[earlier]
        what = "send to" if sends else "receive from"
        there = _route(program, later, sends=sends)
        return ProgramError(
            f"{program.place(later)} and {program.place(earlier)} {what} {there}, in no certain order"
        )
    reads, writes, first, second = accesses[0]
    what, while_it = ("reads" if reads else "writes"), ("writes" if writes else "reads")
    side = _side(program, later, reads, max(int(second - first), 0))
    other = f"{program.place(earlier)} {while_it} it"
    return ProgramError(f"{program.place(later)} {what} {side} and {other}, in no certain order")


def overlap(program: Program, machine: ProgramArrays) -> ProgramError | None:
    """Return the error for the first instruction that overwrites a part of what it reads."""
    apart = np.abs(machine.source - machine.target)
    both = (machine.source >= 0) & (machine.target >= 0)
    shifted = both & (apart > 0) & (apart < machine.length)
    if not shifted.any():
        return None
    return ProgramError(f"{program.place(int(np.argmax(shifted)))} writes over a part of what it reads")


def _awaits(
    program: Program, machine: ProgramArrays, state: State, step: int, event: int
) -> tuple[bool, str]:
    """Return whether what a step waits for can never come, and its name."""
    count, connections = len(machine.block), len(machine.signals)
    if event < count:
        return bool(machine.block[event] == machine.block[step]), program.place(event)
    if event < count + connections:
        connection = event - count
        begin, done, lack = machine.send_begin, state.num_sent, ", which never comes"
        what = "a signal" if machine.signals[connection] else "a message"
        text = f"{what} from {_route(program, step, sends=False)}"
    else:
        connection = event - count - connections
        begin, done, lack = machine.take_begin, state.num_taken, ", which no step empties"
        text = f"room in the FIFO to {_route(program, step)}"
    never = bool(done[connection] == begin[connection + 1] - begin[connection])
    return never, text + lack * never


def _route(program: Program, step: int, *, sends: bool = True) -> str:
    peer = program.code.to[step] if sends else program.code.origin[step]
    return f"rank {peer} on channel {program.code.channel[step]}"


def _side(program: Program, step: int, of_source: bool, unit: int) -> str:
    """Return the name of a unit of a step's source or, if `of_source` is false, of its target."""
    code = program.code
    columns = (
        (code.source_buffer, code.source_offset, code.origin)
        if of_source
        else (code.target_buffer, code.target_offset, code.to)
    )
    buffer, offset, side = (int(column[step]) for column in columns)
    remote = code.op[step] in (Op.COPY, Op.REDUCE) and side != NONE
    return f"{Buffer(buffer).name.lower()} {offset + unit}" + (f" of rank {side}" if remote else "")


def _writers(machine: ProgramArrays, order: Int32Array, cell: int) -> Int32Array:
    """Return the instructions that write a cell, in the order of a run."""
    begin = machine.target[order]
    return order[(begin >= 0) & (begin <= cell) & (cell < begin + machine.length[order])]


def _input(memory: Memory, ranks: Int32Array, begin: Int64Array, cells: Int64Array) -> str:
    """Return the name of the first of these input cells."""
    cell = int(cells[0])
    rank = int(np.searchsorted(memory.start, cell, side="right")) - 1
    return f"input {cell - memory.start[rank] - memory.layout.base[rank, Buffer.INPUT]} of rank {rank}"

"""The machine that programs run on: simulated thread blocks, FIFOs, and memories of fingerprints.

One instruction runs at a time, as a whole. It starts when the instructions that it waits for are done, its
message has arrived and its FIFO has room. Every instruction takes a message from one connection, adds a
source and an addend (the target of a reduction), writes the sum to a target, and sends it over another
connection; each of these parts is optional. A signal is a message of no units, over a connection of its own
that always has room.

Memories hold fingerprints (`schedules.fingerprints`), one word for each unit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.schedules.fingerprints import EMPTY, UInt64Array, mix, plus, word_of
from tutti.schedules.programs.program import BufferItems, Code, Op, Program, table_of
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT32_MAX, NONE, BoolArray, Int32Array, Int64Array, IntArray, offsets_of
from tutti.topologies.kernels import kernel

FINE, UNSET, UNEQUAL, DEADLOCK = range(4)
"""Endings of a run: it ends well, reads an unset cell, receives another length than was sent, or is stuck."""


MOST_UNITS = 2**28
"""Largest number of units of all memories, and of all messages: 2 GiB of fingerprints each."""

ALWAYS = INT32_MAX
"""The depth of FIFOs that are never full."""


class ProgramArrays(NamedTuple):
    """A program in the form that the machine runs; the cells of all memories are numbered consecutively.

    Parameters
    ----------
    begin
        int64 (blocks + 1,): the first instruction of each block.
    block
        int32 (instructions,): the block of each instruction; the next six arrays have the same length.
    source, addend, target
        int64: the first cell of each, or -1 for none.
    length
        int32: the number of units.
    take, send
        int32: the connection that it takes a message from, and the one that it sends over; -1 for none.
    payload
        int64 (instructions + 1,): the place of its message among all messages' units.
    wait_begin, waits
        The same as in the program.
    take_begin, send_begin
        int64 (connections + 1,): cumulative numbers of the instructions that take messages from (send over)
        each connection.
    signals
        bool (connections,): whether the connection carries signals.
    """

    begin: Int64Array
    block: Int32Array
    source: Int64Array
    addend: Int64Array
    target: Int64Array
    length: Int32Array
    take: Int32Array
    send: Int32Array
    payload: Int64Array
    wait_begin: Int64Array
    waits: Int32Array
    take_begin: Int64Array
    send_begin: Int64Array
    signals: BoolArray


class State(NamedTuple):
    """The state of a run.

    Parameters
    ----------
    memory
        uint64 (cells,); if it is empty, data are not computed, only who waits for whom.
    payload
        uint64: the units of all messages.
    next
        int64 (blocks,): the next instruction of each block.
    sent, taken
        int32: the instructions that sent over (took from) each connection, in order, from
        `ProgramArrays.send_begin` (`take_begin`) on.
    num_sent, num_taken
        int32 (connections,): the number of these instructions so far.
    """

    memory: UInt64Array
    payload: UInt64Array
    next: Int64Array
    sent: Int32Array
    taken: Int32Array
    num_sent: Int32Array
    num_taken: Int32Array

    def copy(self) -> State:
        """Return a copy whose arrays are copies too."""
        return State._make(column.copy() for column in self)


class Ending(NamedTuple):
    """The ending of a run: a reason, and the faulty instruction and its unit if there is one."""

    reason: int
    instruction: int
    unit: int


class Memory:
    """The memories of all ranks, one after the other, and the data that they must hold at the end.

    Parameters
    ----------
    program
        The program whose memories these are.

    Raises
    ------
    InputError
        If they have more units than `MOST_UNITS`.
    """

    def __init__(self, program: Program) -> None:
        self.layout = layout = program.layout
        self.start = offsets_of(layout.memory)
        """int64 (ranks + 1,): the first cell of each rank's memory."""
        self.item_begin = offsets_of(layout.length)
        """int64 (items + 1,): cumulative numbers of the items' units."""
        _refuse_more(program, "memories", self.start[-1] + self.item_begin[-1])

    def cell(self, rank: IntArray, buffer: IntArray, offset: IntArray) -> Int64Array:
        """Return the cells at these offsets of these buffers."""
        return self.start[rank] + self.layout.base[rank, buffer] + offset

    def placed(self, buffer: int) -> tuple[BufferItems, Int32Array, Int64Array]:
        """Return the items of the inputs (0) or outputs (1), and the rank and first cell of each."""
        placement = self.layout.output if buffer else self.layout.input
        rank = np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(placement.begin))
        return placement, rank, self.start[rank] + self.layout.base[rank, buffer] + placement.offset

    def initial(self) -> UInt64Array:
        """Return the words of all cells at the start."""
        words = np.full(self.start[-1], EMPTY, dtype=np.uint64)
        placement, rank, cell = self.placed(0)
        _fill(words, cell, rank, placement.item, self.item_begin)
        return words

    def wrong(self, words: UInt64Array) -> tuple[int, int] | None:
        """Return the first entry of the outputs that is wrong, and its first wrong unit; None if none is."""
        placement, rank, _ = self.placed(0)
        required = np.full(self.item_begin[-1], EMPTY, dtype=np.uint64)
        item = placement.item
        _fill(required, self.item_begin[item], rank, item, self.item_begin)
        placement, rank, cell = self.placed(1)
        entry, unit = _first_wrong(words, cell, placement.item, self.item_begin, required)
        return None if entry < 0 else (entry, unit)


def _refuse_more(program: Program, what: str, units: int) -> None:
    if units > MOST_UNITS:
        raise InputError(f"{program.name}: {what} of {units} units in all; at most {MOST_UNITS} fit")


def machine_of(program: Program, memory: Memory) -> ProgramArrays:
    """Return a program in the form that the machine runs.

    Raises
    ------
    InputError
        If its messages have more units than `MOST_UNITS`.
    """
    code, op = program.code, program.code.op
    own = program.own
    reads, writes = table_of("reads")[op], table_of("writes")[op]
    sends = table_of("sends")[op] | (op == Op.SIGNAL)
    takes = table_of("receives")[op] | (op == Op.WAIT)
    source, target = np.full((2, len(program)), NONE, dtype=np.int64)
    for cells, used, rank, buffer, offset in (
        (source, reads, program.memory_of[0], code.source_buffer, code.source_offset),
        (target, writes, program.memory_of[1], code.target_buffer, code.target_offset),
    ):
        cells[used] = memory.cell(rank[used], buffer[used], offset[used])
    length = np.where(reads | writes, code.length, 0).astype(np.int32)
    payload = offsets_of(np.where(sends, length, 0))
    _refuse_more(program, "messages", payload[-1])
    connection, signals = _connections(code, own, sends, takes, program.num_ranks)
    send, take = (np.where(used, side, NONE) for used, side in zip((sends, takes), connection, strict=True))
    return ProgramArrays(
        program.begin,
        program.block_of,
        source,
        np.where(op == Op.REDUCE, target, NONE),
        target,
        length,
        take,
        send,
        payload,
        program.wait_begin,
        program.waits,
        offsets_of(np.bincount(take[takes], minlength=len(signals))),
        offsets_of(np.bincount(send[sends], minlength=len(signals))),
        signals,
    )


def _connections(
    code: Code, own: Int32Array, sends: BoolArray, takes: BoolArray, num_ranks: int
) -> tuple[list[Int32Array], BoolArray]:
    """Return the connection that each instruction sends over and takes from, and which carry signals."""
    channels, channel = np.unique(code.channel, return_inverse=True)
    is_signal = np.isin(code.op, (Op.SIGNAL, Op.WAIT)).astype(np.int64)
    keys = [
        ((is_signal * num_ranks + source) * num_ranks + target) * max(len(channels), 1) + channel
        for source, target in ((own, code.to), (code.origin, own))
    ]
    used, number = np.unique(np.concatenate([keys[0][sends], keys[1][takes]]), return_inverse=True)
    connection = [np.zeros(len(own), dtype=np.int32) for _ in keys]
    connection[0][sends], connection[1][takes] = np.split(number, [int(sends.sum())])
    return connection, used >= num_ranks * num_ranks * max(len(channels), 1)


def state_of(machine: ProgramArrays, words: UInt64Array | None = None) -> State:
    """Return the state at the start; if `words` is None, no data are computed."""
    connections = len(machine.signals)
    empty = np.empty(0, dtype=np.uint64)
    return State(
        empty if words is None else words,
        empty if words is None else np.empty(machine.payload[-1], dtype=np.uint64),
        machine.begin[:-1].copy(),
        np.zeros(machine.send_begin[-1], dtype=np.int32),
        np.zeros(machine.take_begin[-1], dtype=np.int32),
        np.zeros(connections, dtype=np.int32),
        np.zeros(connections, dtype=np.int32),
    )


def run(
    machine: ProgramArrays, state: State, *, depth: int | None = None, seed: int | None = None
) -> tuple[Ending, Int32Array]:
    """Run a program until it ends; return its ending, and its instructions in the order in which they ran.

    Parameters
    ----------
    machine, state
        The program, and its state, which is changed.
    depth
        The number of messages that a FIFO holds; None: any number.
    seed
        The seed by which the next block is chosen for one instruction each; None: each block runs as far as
        it can.
    """
    ending, order = _run(machine, state, ALWAYS if depth is None else depth, -1 if seed is None else seed)
    return Ending(*ending), order


@kernel
def _run(
    machine: ProgramArrays, state: State, depth: int, seed: int
) -> tuple[tuple[int, int, int], Int32Array]:
    """Run all blocks; blocked blocks are listed under the event that they wait for (`awaited`).

    Events are numbered: first the end of each instruction, then a message in each connection, then room in
    each connection.
    """
    count, blocks, connections = len(machine.block), len(machine.begin) - 1, len(machine.signals)
    order = np.empty(count, dtype=np.int32)
    ready, num_ready = np.arange(blocks - 1, -1, -1, dtype=np.int32), blocks
    waiting = np.full(count + 2 * connections, -1, dtype=np.int32)
    behind = np.empty(blocks, dtype=np.int32)
    done = 0
    while num_ready > 0:
        if seed >= 0:  # any of them, for one instruction
            chosen = np.int64(mix(mix(np.uint64(seed)) + np.uint64(done)) % np.uint64(num_ready))
            ready[chosen], ready[num_ready - 1] = ready[num_ready - 1], ready[chosen]
        num_ready -= 1
        block = ready[num_ready]
        while state.next[block] < machine.begin[block + 1]:
            instruction = state.next[block]
            event = awaited(machine, state, depth, instruction)
            if event >= 0:
                behind[block], waiting[event] = waiting[event], block
                break
            reason, unit = execute(machine, state, instruction)
            if reason != FINE:
                return (reason, instruction, unit), order[:done]
            order[done] = instruction
            done += 1
            take, send = machine.take[instruction], machine.send[instruction]
            sent, taken = count + send if send >= 0 else -1, count + connections + take if take >= 0 else -1
            for happened in (instruction, sent, taken):
                while happened >= 0 and waiting[happened] >= 0:
                    ready[num_ready] = waiting[happened]
                    num_ready += 1
                    waiting[happened] = behind[waiting[happened]]
            if seed >= 0:
                ready[num_ready] = block
                num_ready += 1
                break
    return (FINE if done == count else DEADLOCK, -1, 0), order[:done]


@kernel
def awaited(machine: ProgramArrays, state: State, depth: int, instruction: int) -> int:
    """Return the event that an instruction waits for, numbered as in `_run`, or -1 if it can start."""
    for wait in machine.waits[machine.wait_begin[instruction] : machine.wait_begin[instruction + 1]]:
        if state.next[machine.block[wait]] <= wait:
            return wait
    count, connections = len(machine.block), len(machine.signals)
    take, send = machine.take[instruction], machine.send[instruction]
    if take >= 0 and state.num_sent[take] == state.num_taken[take]:
        return count + take
    if send >= 0 and not machine.signals[send] and state.num_sent[send] - state.num_taken[send] >= depth:
        return count + connections + send
    return NONE


@kernel
def execute(machine: ProgramArrays, state: State, instruction: int) -> tuple[int, int]:
    """Execute an instruction that can start; return `FINE`, or the fault and its unit."""
    take, send = machine.take[instruction], machine.send[instruction]
    message = -1
    if take >= 0:
        sender = state.sent[machine.send_begin[take] + state.num_taken[take]]
        if machine.length[sender] != machine.length[instruction]:
            return UNEQUAL, sender
        message = machine.payload[sender]
        state.taken[machine.take_begin[take] + state.num_taken[take]] = instruction
        state.num_taken[take] += 1
    # Without memory only the order of messages is simulated.
    if len(state.memory) > 0:
        unit = _move(machine, state, instruction, message)
        if unit >= 0:
            return UNSET, unit
    if send >= 0:
        state.sent[machine.send_begin[send] + state.num_sent[send]] = instruction
        state.num_sent[send] += 1
    state.next[machine.block[instruction]] = instruction + 1
    return FINE, 0


@kernel
def _move(machine: ProgramArrays, state: State, instruction: int, message: int) -> int:
    """Compute what an instruction writes and sends; return the first unit that reads an unset cell, or -1."""
    source, addend = machine.source[instruction], machine.addend[instruction]
    target, payload = machine.target[instruction], machine.payload[instruction]
    sends = machine.send[instruction] >= 0
    for unit in range(machine.length[instruction]):
        # The result is the sum of the message, the source and the addend, those that there are.
        word = EMPTY
        if message >= 0:
            word = state.payload[message + unit]
        for cell in (source, addend):
            if cell >= 0:
                if state.memory[cell + unit] == EMPTY:
                    return unit
                word = plus(word, state.memory[cell + unit])
        if target >= 0:
            state.memory[target + unit] = word
        if sends:
            state.payload[payload + unit] = word
    return -1


@kernel
def _fill(
    words: UInt64Array, cell: Int64Array, rank: Int32Array, item: Int32Array, item_begin: Int64Array
) -> None:
    """Add the contribution of each entry's rank to the units from a cell on."""
    for entry in range(len(item)):
        begin = item_begin[item[entry]]
        for unit in range(item_begin[item[entry] + 1] - begin):
            place = cell[entry] + unit
            words[place] = plus(words[place], word_of(rank[entry], begin + unit))


@kernel
def _first_wrong(
    words: UInt64Array, cell: Int64Array, item: Int32Array, item_begin: Int64Array, required: UInt64Array
) -> tuple[int, int]:
    for entry in range(len(item)):
        begin = item_begin[item[entry]]
        for unit in range(item_begin[item[entry] + 1] - begin):
            if words[cell[entry] + unit] != required[begin + unit]:
                return entry, unit
    return -1, 0


@kernel
def origins(
    machine: ProgramArrays, order: Int32Array, match: Int32Array, cell: int, cells: int
) -> npt.NDArray[np.uint8]:
    """Return how often the initial value of each cell is a term of one cell's final value (3: or more).

    A run is linear. This function runs its transpose, from the last instruction back to the first.

    Parameters
    ----------
    machine
        The program.
    order
        Its instructions in the order in which they ran.
    match
        int32 (instructions,): the sender of the message that each instruction took.
    cell, cells
        The cell, and the number of all cells.
    """
    often = np.zeros(cells, dtype=np.uint8)
    message = np.zeros(machine.payload[-1], dtype=np.uint8)
    often[cell] = 1
    for instruction in order[::-1]:
        target, payload = machine.target[instruction], machine.payload[instruction]
        for unit in range(machine.length[instruction]):
            times = np.uint8(0)
            # What a cell held before is overwritten, so its count starts from 0 for earlier instructions.
            if target >= 0:
                times += often[target + unit]
                often[target + unit] = 0
            if machine.send[instruction] >= 0:
                times += message[payload + unit]
            if times == 0:
                continue
            for read in (machine.source[instruction], machine.addend[instruction]):
                if read >= 0:
                    often[read + unit] = min(3, often[read + unit] + times)
            if machine.take[instruction] >= 0:
                place = machine.payload[match[instruction]] + unit
                message[place] = min(3, message[place] + times)
    return often


def matches(machine: ProgramArrays, state: State) -> Int32Array:
    """Return the sender of the message that each instruction took, int32 (instructions,), -1 for none."""
    return _shifted(state.taken, machine.take_begin, state.sent, machine.send_begin, state.num_taken, machine)


def rooms(machine: ProgramArrays, state: State, depth: int) -> Int32Array:
    """Return the instruction that made room in a FIFO for the message that each sent, or -1."""
    late = np.where(machine.signals, 0, np.maximum(state.num_sent - depth, 0)).astype(np.int32)
    return _shifted(state.sent, machine.send_begin + depth, state.taken, machine.take_begin, late, machine)


@kernel
def _shifted(
    later: Int32Array,
    later_begin: Int64Array,
    earlier: Int32Array,
    earlier_begin: Int64Array,
    count: Int32Array,
    machine: ProgramArrays,
) -> Int32Array:
    """Pair the k-th later instruction of each connection with the k-th earlier one."""
    partner = np.full(len(machine.block), -1, dtype=np.int32)
    for connection in range(len(count)):
        for place in range(count[connection]):
            partner[later[later_begin[connection] + place]] = earlier[earlier_begin[connection] + place]
    return partner

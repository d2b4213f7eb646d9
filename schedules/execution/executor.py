"""One rank of a program: an event loop in which its thread blocks take turns."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from tutti.schedules.execution.fifos import ROOM, Fifo, Fifos, fifo_of, name_of
from tutti.schedules.execution.transport import Array, Patience, Transport
from tutti.schedules.programs.layout import BufferLayout
from tutti.schedules.programs.program import Op, Program
from tutti.topologies.exact import NONE


@dataclass(frozen=True, slots=True)
class Ring:
    """A FIFO with its slots at one end.

    Parameters
    ----------
    fifo
        The FIFO.
    memory
        The memory of its slots: ROOM.depth times those of a pass.
    units
        The number of units in a pass.
    window
        The number of messages that may be under way.
    """

    fifo: Fifo
    memory: Array
    units: int
    window: int


@dataclass(frozen=True, slots=True)
class FifoAccess:
    """A message that an instruction puts into a FIFO or takes out: `units` units, `offset` into a pass."""

    ring: Ring
    offset: int
    units: int


@dataclass(frozen=True, slots=True)
class BoundInstruction:
    """An instruction with the memory that it uses; rows are units, and columns are elements."""

    number: int
    reads: tuple[Array, ...]
    writes: Array | None
    takes: FifoAccess | None
    puts: FifoAccess | None
    waits: tuple[int, ...]


class Executor:
    """Runs one rank of a program over a transport.

    Parameters
    ----------
    program
        The checked program.
    fifos
        Its FIFOs.
    rank
        The rank.
    elements
        The number of elements in a unit.
    memories
        The memory of each rank as an array of all its elements. It has the rank itself only, or all ranks if
        the program accesses the memory of others.
    transport
        Its ends of the FIFOs.
    """

    def __init__(
        self,
        program: Program,
        fifos: Fifos,
        rank: int,
        elements: int,
        memories: dict[int, Array],
        transport: Transport,
    ) -> None:
        self.program, self.transport = program, transport
        self.elements = elements
        self.dtype = memories[rank].dtype
        self.width = fifos.slice_of(elements, self.dtype.itemsize)
        self.passes = -(-elements // self.width)
        self._played = 0
        rings = {
            fifo: Ring(fifo, transport.ring(fifo).view(self.dtype), sum(units), ROOM.depth * len(units))
            for fifo, units in zip(fifos.fifos, fifos.units, strict=True)
            if rank in (fifo.source, fifo.target)
        }
        self.blocks = _Loader(program, rank, rings, memories, elements).blocks()

    def run(self, patience: Patience) -> None:
        """Play the program once.

        Raises
        ------
        Stalled
            If nothing could be done for too long; the message names the instruction that waits.
        """
        self._turns = [_Turn(block) for block in self.blocks if block]
        self._done = {step.number: 0 for turn in self._turns for step in turn.steps}
        patience.reset()
        while self._turns:
            moved = False
            for turn in self._turns:
                while turn.number < self.passes and self._perform(turn):
                    moved = True
            if moved:
                self._turns = [turn for turn in self._turns if turn.number < self.passes]
                patience.reset()
            else:
                patience.wait(self._why)
        self._played += self.passes

    def _perform(self, turn: _Turn) -> bool:
        """Do a block's next instruction if it can be done."""
        step, number = turn.steps[turn.position], turn.number
        for wait in step.waits:
            if self._done[wait] <= number:
                return False
        columns = slice(number * self.width, min((number + 1) * self.width, self.elements))
        takes, puts = step.takes, step.puts
        message = slot = None
        if takes is not None:
            message = self._slot(takes, number, columns.stop - columns.start)
            if not self.transport.there(takes.ring.fifo, message):
                return False
        if puts is not None:
            if not self.transport.room(puts.ring.fifo, puts.ring.window):
                return False
            slot = self._slot(puts, number, columns.stop - columns.start)
        _move(step, columns, message, slot)
        if takes is not None:
            self.transport.taken(takes.ring.fifo)
        if puts is not None and slot is not None:
            self.transport.sent(puts.ring.fifo, slot)
        self._done[step.number] += 1
        turn.advance()
        return True

    def _slot(self, end: FifoAccess, number: int, width: int) -> Array:
        """Return the slot of a message in a pass of `width` elements for each unit."""
        ring = end.ring
        begin = ((self._played + number) % ROOM.depth * ring.units + end.offset) * self.width
        return ring.memory[begin : begin + end.units * width].reshape(end.units, width)

    def _why(self) -> str:
        """Return as text what the rank waits for, preferably another rank."""
        next_steps = [(turn.steps[turn.position], turn.number) for turn in self._turns]
        free = [step for step, number in next_steps if all(self._done[w] > number for w in step.waits)]
        step = free[0] if free else next_steps[0][0]
        place, op = self.program.place(step.number), Op(self.program.code.op[step.number]).name.lower()
        if not free:
            what = self.program.place(step.waits[0])
        elif step.takes is not None:
            what = f"a message in {name_of(step.takes.ring.fifo)}"
        else:
            what = f"room in {name_of(step.puts.ring.fifo)}" if step.puts is not None else "nothing"
        return f"{place} ({op}) waits for {what}"


def _move(step: BoundInstruction, columns: slice, message: Array | None, slot: Array | None) -> None:
    """Copy, or add, the data that an instruction takes and reads to the places where it writes and puts."""
    inputs = [rows[:, columns] for rows in step.reads]
    if message is not None:
        inputs.append(message)
    target = slot if step.writes is None else step.writes[:, columns]
    if target is None or not inputs:
        return
    if len(inputs) == 1:
        np.copyto(target, inputs[0])
    else:
        np.add(inputs[0], inputs[1], out=target)
    if slot is not None and step.writes is not None:
        np.copyto(slot, target)


class _Turn:
    """A block, with its next instruction and pass."""

    __slots__ = ("number", "position", "steps")

    def __init__(self, steps: list[BoundInstruction]) -> None:
        self.steps, self.position, self.number = steps, 0, 0

    def advance(self) -> None:
        self.position += 1
        if self.position == len(self.steps):
            self.position = 0
            self.number += 1


class _Loader:
    """Makes the steps of a rank."""

    def __init__(
        self, program: Program, rank: int, rings: dict[Fifo, Ring], memories: dict[int, Array], elements: int
    ) -> None:
        self._program, self._rank, self._rings = program, rank, rings
        self._rows = {owner: memory.reshape(-1, elements) for owner, memory in memories.items()}
        self._base = BufferLayout.of(program).base
        self._filled: dict[tuple[Fifo, bool], int] = {}

    def blocks(self) -> list[list[BoundInstruction]]:
        first, last = self._program.first_block[self._rank : self._rank + 2].tolist()
        bounds = self._program.begin[first : last + 1].tolist()
        return [
            [self._step(number) for number in range(begin, end)] for begin, end in itertools.pairwise(bounds)
        ]

    def _step(self, number: int) -> BoundInstruction:
        program = self._program
        op, *row = (int(column[number]) for column in program.code)
        source_buffer, source_offset, target_buffer, target_offset, length, to, origin, _ = row
        kind = Op(op)
        puts = takes = None
        if kind.sends or kind is Op.SIGNAL:
            puts = self._end(fifo_of(program, number, sends=True), length, sends=True)
        if kind.receives or kind is Op.WAIT:
            takes = self._end(fifo_of(program, number, sends=False), length, sends=False)
        between = puts is not None or takes is not None
        reads: tuple[Any, ...] = ()
        writes = None
        if kind.reads:
            reads = (self._memory(NONE if between else origin, source_buffer, source_offset, length),)
        if kind.writes:
            writes = self._memory(NONE if between else to, target_buffer, target_offset, length)
        if kind is Op.REDUCE:
            reads = (writes, *reads)
        waits = program.waits[program.wait_begin[number] : program.wait_begin[number + 1]]
        return BoundInstruction(number, reads, writes, takes, puts, tuple(waits.tolist()))

    def _memory(self, owner: int, buffer: int, offset: int, length: int) -> Array:
        owner = self._rank if owner == NONE else owner
        begin = int(self._base[owner, buffer]) + offset
        return self._rows[owner][begin : begin + length]

    def _end(self, fifo: Fifo, length: int, *, sends: bool) -> FifoAccess:
        length = 0 if fifo.signals else length
        offset = self._filled.get((fifo, sends), 0)
        self._filled[fifo, sends] = offset + length
        return FifoAccess(self._rings[fifo], offset, length)

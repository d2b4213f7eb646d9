"""One rank of a program: an event loop in which its thread blocks take turns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tutti.schedules.execution.transport import (
    ROOM,
    Array,
    Fifo,
    Fifos,
    Patience,
    Transport,
    fifo_of,
    name_of,
)
from tutti.schedules.programs.program import Address, Op, Program


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
        self._rings = {
            fifo: Ring(fifo, transport.ring(fifo).view(self.dtype), sum(units), ROOM.depth * len(units))
            for fifo, units in zip(fifos.fifos, fifos.units, strict=True)
            if rank in (fifo.source, fifo.target)
        }
        self._rows = {owner: memory.reshape(-1, elements) for owner, memory in memories.items()}
        self._filled: dict[tuple[Fifo, bool], int] = {}
        bounds = program.begin[slice(program.first_block[rank], program.first_block[rank + 1] + 1)].tolist()
        self.blocks = [list(map(self._bound, range(*block))) for block in pairwise(bounds)]

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

    def _bound(self, number: int) -> BoundInstruction:
        """Return an instruction of the rank with the memory that it uses."""
        program, one = self.program, self.program.instruction(number)
        source_owner, target_owner = (int(owner[number]) for owner in program.memory_of)
        puts = takes = writes = None
        reads: tuple[Any, ...] = ()
        if one.op.sends or one.op is Op.SIGNAL:
            puts = self._end(fifo_of(program, number, sends=True), one.length, sends=True)
        if one.op.receives or one.op is Op.WAIT:
            takes = self._end(fifo_of(program, number, sends=False), one.length, sends=False)
        if one.op.reads:
            reads = (self._memory(source_owner, one.source, one.length),)
        if one.op.writes:
            writes = self._memory(target_owner, one.target, one.length)
        if one.op is Op.REDUCE:
            reads = (writes, *reads)
        waits = program.waits[program.wait_begin[number] : program.wait_begin[number + 1]]
        return BoundInstruction(number, reads, writes, takes, puts, tuple(waits.tolist()))

    def _memory(self, owner: int, place: Address, length: int) -> Array:
        begin = int(self.program.layout.base[owner, place.buffer]) + place.offset
        return self._rows[owner][begin : begin + length]

    def _end(self, fifo: Fifo, length: int, *, sends: bool) -> FifoAccess:
        length = 0 if fifo.signals else length
        offset = self._filled.get((fifo, sends), 0)
        self._filled[fifo, sends] = offset + length
        return FifoAccess(self._rings[fifo], offset, length)

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

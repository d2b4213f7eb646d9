"""The work of a rank in a run: for each task it warms up, then plays, times and checks several repeats.

A program is played by an event loop in which the rank's thread blocks take turns (`Executor`).

Every datum of a run consists of whole numbers from -100 to 100, made from a seed, so that sums are exact in
any order, and each wrong element is found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tutti.schedules.collective import EVERYONE
from tutti.schedules.execution.transport import (
    ROOM,
    Array,
    Failure,
    Fifo,
    Fifos,
    Patience,
    Transport,
    fifo_of,
    name_of,
)
from tutti.schedules.programs.program import Address, Buffer, BufferItems, Op, Program, table_of
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE

DTYPES = ("float32", "float64", "int32", "int64")
MOST = 100


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


@dataclass(frozen=True)
class RankData:
    """The data that a rank begins with and must end with.

    Parameters
    ----------
    program
        The program, with its buffers.
    rank
        The rank.
    elements
        The number of elements in a unit.
    dtype
        The type of an element.
    seed
        The seed of all data.
    """

    program: Program
    rank: int
    elements: int
    dtype: npt.DTypeLike
    seed: int = 0

    def input(self) -> Array:
        """Return the rank's input."""
        return self._joined(
            [self._datum(item, self.rank) for item in self._placed(self.program.layout.input)]
        )

    def output(self) -> Array:
        """Return the expected output; for a sum, all ranks' contributions are added by numpy."""
        what, due = self.program.collective, []
        for item in self._placed(self.program.layout.output):
            if not what.items.combines[item]:
                due.append(self._datum(item, NONE))
                continue
            group = what.members[what.items.group[item]]
            total = self._datum(item, group[0])
            for rank in group[1:]:
                total += self._datum(item, rank)
            due.append(total)
        return self._joined(due)

    def part(self, memory: Array, buffer: Buffer) -> Array:
        """Return a buffer in the rank's memory."""
        begin = int(self.program.layout.base[self.rank, buffer])
        size = int(self.program.layout.sizes[self.rank, buffer])
        return memory[begin * self.elements : (begin + size) * self.elements]

    def check(self, memory: Array, due: Array) -> None:
        """Check the output in the rank's memory.

        Raises
        ------
        Failure
            If it is wrong; the message names the first wrong element and the steps that write there.
        """
        come = self.part(memory, Buffer.OUTPUT)
        if np.array_equal(come, due):
            return
        element = int(np.argmax(come != due))
        unit = element // self.elements
        raise Failure(
            f"rank {self.rank} has wrong bytes: element {element} of its output, in unit {unit}, is"
            f" {come[element]} and should be {due[element]}; {self._written(unit)}"
        )

    def _written(self, unit: int) -> str:
        """Return the steps that write a unit of the output, as text."""
        program, code, base = self.program, self.program.code, self.program.layout.base[self.rank]
        offset, place = base[code.target_buffer.clip(0)] + code.target_offset, unit + base[Buffer.OUTPUT]
        here = table_of("writes")[code.op] & (program.memory_of[1] == self.rank)
        here &= (offset <= place) & (place < offset + code.length)
        writers = np.flatnonzero(here).tolist()
        if not writers:
            return "no step writes there"
        return "written by " + " and ".join(program.place(number) for number in writers[-2:])

    def _placed(self, placement: BufferItems) -> list[int]:
        return placement.item[placement.begin[self.rank] : placement.begin[self.rank + 1]].tolist()

    def _joined(self, data: list[Array]) -> Array:
        return np.concatenate([np.empty(0, self.dtype), *data], dtype=np.dtype(self.dtype))

    def _datum(self, item: int, rank: int) -> Array:
        """Return an item, or a rank's contribution to it."""
        combines = self.program.collective.items.start[item] == EVERYONE
        seed = [self.seed, item, rank + 1 if combines else 0]
        generator: Any = np.random.Generator(np.random.SFC64(seed))
        size = int(self.program.layout.length[item]) * self.elements
        return generator.integers(-MOST, MOST + 1, size, dtype=np.int8).astype(self.dtype)


@dataclass(frozen=True)
class SessionTask:
    """A program at a size.

    Parameters
    ----------
    program
        The program to be played.
    size
        M in bytes.
    dtype
        The type of an element.

    Raises
    ------
    InputError
        If the size doesn't divide, or the program's FIFOs are inconsistent.
    """

    program: Program
    size: int
    dtype: str = "float32"

    def __post_init__(self) -> None:
        """Check the size and the FIFOs."""
        _ = self.elements, self.fifos

    @cached_property
    def elements(self) -> int:
        """The number of elements in a unit."""
        unit = self.program.units * self.itemsize
        elements, rest = divmod(self.size, unit)
        if rest or not elements:
            raise InputError(
                f"{self.size} bytes do not divide into {self.program.units} units of whole elements "
                f"({self.dtype}, {unit} bytes)"
            )
        return elements

    @cached_property
    def fifos(self) -> Fifos:
        """The FIFOs of the program."""
        return Fifos.of(self.program)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    def memory(self, rank: int) -> int:
        """Return the bytes of a rank's memory."""
        return int(self.program.layout.memory[rank]) * self.elements * self.itemsize


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Parameters
    ----------
    warmup, repeats
        The numbers of times that each task is played before it is timed, and while it is timed.
    timeout
        Seconds for which a rank may wait without progress.
    seed
        The seed of the data.
    """

    warmup: int = 2
    repeats: int = 10
    timeout: float = 30.0
    seed: int = 0


class RepeatTimes(NamedTuple):
    """Seconds of each repeat on one rank: of the program, and of a rival (if any) on the same buffers."""

    ours: list[float]
    rival: list[float]


class Rival(Protocol):
    """Another implementation of collectives."""

    def play(self, program: Program, source: Array, target: Array) -> Callable[[], object] | None:
        """Return a call that does a program's collective from input to output, or None if it can't."""


def fifo_bytes(tasks: Sequence[SessionTask]) -> dict[Fifo, int]:
    """Return the bytes that each FIFO needs for some tasks."""
    needed: dict[Fifo, int] = {}
    for task in tasks:
        width = task.fifos.slice_of(task.elements, task.itemsize) * task.itemsize
        for fifo, units in zip(task.fifos.fifos, task.fifos.units, strict=True):
            needed[fifo] = max(needed.get(fifo, 0), ROOM.depth * sum(units) * width)
    return dict(sorted(needed.items()))


def play(
    rank: int,
    tasks: Sequence[SessionTask],
    settings: Settings,
    transport: Transport,
    rival: Rival | None = None,
) -> list[RepeatTimes]:
    """Play all tasks as a rank, and return the times of each.

    Raises
    ------
    Failure
        If another rank left it waiting, or its output is wrong.
    """
    patience = Patience(settings.timeout)
    shared = transport.memories()
    return [_play(rank, task, settings, transport, rival, patience, shared) for task in tasks]


def _play(
    rank: int,
    task: SessionTask,
    settings: Settings,
    transport: Transport,
    rival: Rival | None,
    patience: Patience,
    shared: list[Array] | None,
) -> RepeatTimes:
    owners = [rank] if shared is None else range(task.program.num_ranks)
    memories: dict[int, Array] = {}
    for owner in owners:
        size = task.memory(owner)
        memory = np.empty(size, np.uint8) if shared is None else shared[owner]
        memories[owner] = memory[:size].view(task.dtype)
    executor = Executor(task.program, task.fifos, rank, task.elements, memories, transport)
    data = RankData(task.program, rank, task.elements, task.dtype, settings.seed)
    source, due, memory = data.input(), data.output(), memories[rank]

    def timed(what: Callable[[], object]) -> list[float]:
        seconds = []
        for _ in range(settings.warmup + settings.repeats):
            memory.fill(np.nan if memory.dtype.kind == "f" else np.iinfo(memory.dtype).min)
            data.part(memory, Buffer.INPUT)[:] = source
            transport.barrier(patience)
            start = time.perf_counter()
            what()
            seconds.append(time.perf_counter() - start)
            data.check(memory, due)
        transport.barrier(patience)
        return seconds[settings.warmup :]

    ours = timed(lambda: executor.run(patience))
    target = data.part(memory, Buffer.OUTPUT)
    other = None if rival is None else rival.play(task.program, source.copy(), target)
    return RepeatTimes(ours, [] if other is None else timed(other))

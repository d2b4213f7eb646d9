"""The work of a rank in a run: for each task it warms up, then plays, times and checks several repeats.

Every datum of a run consists of whole numbers from -100 to 100, made from a seed, so that sums are exact in
any order, and each wrong element is found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tutti.schedules.collective import EVERYONE
from tutti.schedules.execution.executor import Executor
from tutti.schedules.execution.transport import ROOM, Array, Failure, Fifo, Fifos, Patience, Transport
from tutti.schedules.programs.program import Buffer, BufferItems, Program, table_of
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE

DTYPES = ("float32", "float64", "int32", "int64")
MOST = 100


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

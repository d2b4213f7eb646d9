"""The work of a rank in a run: for each task it warms up, then plays, times and checks several repeats."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from tutti.schedules.execution.data import RankData, elements_of
from tutti.schedules.execution.executor import Executor
from tutti.schedules.execution.fifos import Fifo, Fifos, capacities
from tutti.schedules.execution.transport import Array, Patience, Transport
from tutti.schedules.programs.layout import BufferLayout
from tutti.schedules.programs.program import Buffer, Op, Program
from tutti.topologies.exact import NONE


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
        return elements_of(self.program, self.size, self.dtype)

    @cached_property
    def fifos(self) -> Fifos:
        """The FIFOs of the program."""
        return Fifos.of(self.program)

    @cached_property
    def layout(self) -> BufferLayout:
        """The layout of the program's buffers."""
        return BufferLayout.of(self.program)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    def memory(self, rank: int) -> int:
        """Return the bytes of a rank's memory."""
        return int(self.layout.memory[rank]) * self.elements * self.itemsize


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


def reaches(program: Program) -> bool:
    """Whether a rank reads or writes another's memory."""
    code = program.code
    local = np.isin(code.op, (Op.COPY, Op.REDUCE))
    return bool((local & ((code.to != NONE) | (code.origin != NONE))).any())


def fifo_bytes(tasks: Sequence[SessionTask]) -> dict[Fifo, int]:
    """Return the bytes that the FIFOs of some tasks need."""
    return capacities([(task.fifos, task.elements, task.itemsize) for task in tasks])


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
    owners = range(task.program.num_ranks) if shared is not None else [rank]
    memories = {
        owner: (np.empty(task.memory(owner), np.uint8) if shared is None else shared[owner])[
            : task.memory(owner)
        ].view(task.dtype)
        for owner in owners
    }
    executor = Executor(task.program, task.fifos, rank, task.elements, memories, transport)
    data = RankData(task.program, task.layout, rank, task.elements, task.dtype, settings.seed)
    source, due, memory = data.input(), data.output(), memories[rank]
    target = data.part(memory, Buffer.OUTPUT)

    def timed(what: Callable[[], object], begin: Callable[[], None]) -> list[float]:
        seconds = []
        for _ in range(settings.warmup + settings.repeats):
            begin()
            transport.barrier(patience)
            start = time.perf_counter()
            what()
            seconds.append(time.perf_counter() - start)
            data.check(memory, due)
        transport.barrier(patience)
        return seconds[settings.warmup :]

    def begin() -> None:
        memory.fill(np.nan if memory.dtype.kind == "f" else np.iinfo(memory.dtype).min)
        data.part(memory, Buffer.INPUT)[:] = source

    ours = timed(lambda: executor.run(patience), begin)
    other = None if rival is None else rival.play(task.program, source.copy(), target)
    return RepeatTimes(ours, [] if other is None else timed(other, begin))

"""The ranks on this machine: each is a process, and a FIFO is a ring in memory that both ends share.

A rank's process ends with this one and never outlives it.

Each FIFO has two counters, of the messages that were sent and taken. Each counter has one writer, which
changes it after the data. x86 processors show stores to others in the order in which they were made; on other
processors this transport is refused.

The memory is a file without a name, so nothing of it remains, however its processes end.
"""

from __future__ import annotations

import mmap
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.reduction import DupFd
from typing import Any

import numpy as np
import numpy.typing as npt

from tutti.schedules.execution.session import RepeatTimes, SessionTask, Settings, fifo_bytes, play
from tutti.schedules.execution.transport import Array, Failure, Fifo, Patience, Stalled
from tutti.topologies.errors import InputError
from tutti.topologies.processes import CallEnd, Caller, Worker

LINE = 64
"""Bytes of a cache line. Counters of two writers never share one."""
WORDS = LINE // 8
PAGE = mmap.PAGESIZE
IN_ORDER = ("x86_64", "AMD64", "i686")
ENTRY = "tutti.schedules.execution.shared_memory:serve"
PRELOAD = ("tutti.schedules.execution.shared_memory",)
GRACE = 1.0
"""Seconds after a rank has stalled. Ranks that have not stalled by then count as hung."""


class Segment:
    """Memory that is shared with the processes that get this object when they are started.

    Parameters
    ----------
    size
        The size in bytes; the memory is zero at first.

    Raises
    ------
    InputError
        If the machine's processor may reorder stores, or there is not enough memory.
    """

    def __init__(self, size: int) -> None:
        if platform.machine() not in IN_ORDER:
            raise InputError(f"--transport shm is for x86, and this is {platform.machine()}; use mpi")
        if hasattr(os, "memfd_create"):
            self._attach(os.memfd_create("tutti"), max(size, 1))
        else:
            with tempfile.TemporaryFile() as file:
                self._attach(os.dup(file.fileno()), max(size, 1))
        try:
            os.ftruncate(self._file, self.size)
        except OSError as error:
            raise InputError(f"{size} bytes of shared memory: {error.strerror}") from None
        self.memory = mmap.mmap(self._file, self.size)

    def _attach(self, file: int, size: int) -> None:
        self._file, self.size = file, size

    def __getstate__(self) -> tuple[Any, int]:
        """Pass the file to a process that is being started."""
        return DupFd(self._file), self.size

    def __setstate__(self, state: tuple[Any, int]) -> None:
        """Take over the file in the new process."""
        self._attach(state[0].detach(), state[1])
        self.memory = mmap.mmap(self._file, self.size)

    def close(self) -> None:
        """Close the file; the mapping ends with the process."""
        os.close(self._file)


class OverSharedMemory:
    """Ranks that share a segment of memory: counters, then the FIFOs' rings, then the memory of each rank.

    Parameters
    ----------
    tasks
        The tasks that they are to play. The memory of ranks is shared if one of them accesses another's.
    """

    def __init__(self, tasks: Sequence[SessionTask]) -> None:
        self.ranks, capacity = tasks[0].program.num_ranks, fifo_bytes(tasks)
        shared = any(task.program.remote.any() for task in tasks)
        self.memory = [max(task.memory(rank) for task in tasks) for rank in range(self.ranks) if shared]
        self.fifos = {fifo: number for number, fifo in enumerate(capacity)}
        sizes = [-(-size // LINE) * LINE for size in capacity.values()]
        sizes += [-(-size // PAGE) * PAGE for size in self.memory]
        ends = LINE * (2 * len(self.fifos) + self.ranks) + np.cumsum([0, *sizes])
        self.begins, self.capacity = ends[:-1].tolist(), tuple(capacity.values())
        self.segment = Segment(int(ends[-1]))

    def connect(self, rank: int) -> SharedMemory:
        """Return a rank's ends of the FIFOs."""
        return SharedMemory(self, rank)

    def close(self) -> None:
        """Release the segment."""
        self.segment.close()


class SharedMemory:
    """A rank's ends of the FIFOs in the segment of a job."""

    def __init__(self, job: OverSharedMemory, rank: int) -> None:
        self._job, self._rank = job, rank
        segment = job.segment
        self._words = memoryview(segment.memory).cast("B")[: segment.size // 8 * 8].cast("q")
        self._bytes = np.frombuffer(segment.memory, dtype=np.uint8)
        self._first = {fifo: 2 * WORDS * number for fifo, number in job.fifos.items()}
        self._arrivals = [WORDS * (2 * len(job.fifos) + other) for other in range(job.ranks)]

    def ring(self, fifo: Fifo) -> npt.NDArray[np.uint8]:
        """Return the memory of a FIFO's slots."""
        number = self._job.fifos[fifo]
        return self._part(number, self._job.capacity[number])

    def _part(self, number: int, size: int) -> npt.NDArray[np.uint8]:
        begin = self._job.begins[number]
        return self._bytes[begin : begin + size]

    def room(self, fifo: Fifo, window: int) -> bool:
        """Whether another message may be written."""
        first = self._first[fifo]
        return self._words[first] - self._words[first + WORDS] < window

    def sent(self, fifo: Fifo, slot: Array) -> None:
        """Count the message as sent."""
        self._words[self._first[fifo]] += 1

    def there(self, fifo: Fifo, slot: Array) -> bool:
        """Whether there is a message."""
        first = self._first[fifo]
        return self._words[first] > self._words[first + WORDS]

    def taken(self, fifo: Fifo) -> None:
        """Count the message as taken."""
        self._words[self._first[fifo] + WORDS] += 1

    def barrier(self, patience: Patience) -> None:
        """Wait until all ranks are here."""
        mine = self._arrivals[self._rank]
        self._words[mine] += 1
        turn = self._words[mine]
        patience.reset()
        while late := [rank for rank, word in enumerate(self._arrivals) if self._words[word] < turn]:
            patience.wait(partial("rank {} waits at a barrier for rank {}".format, self._rank, late[0]))

    def memories(self) -> list[npt.NDArray[np.uint8]] | None:
        """Return the memory of each rank if it is shared."""
        first, sizes = len(self._job.fifos), self._job.memory
        return [self._part(first + rank, size) for rank, size in enumerate(sizes)] or None


def run(job: OverSharedMemory, tasks: Sequence[SessionTask], settings: Settings) -> list[list[RepeatTimes]]:
    """Play tasks on processes of this machine; return their times, by rank, then task.

    Parameters
    ----------
    job
        The memory that they share; it is closed here.
    tasks
        The tasks that they play.
    settings
        The settings of the run.

    Raises
    ------
    Failure
        If a rank dies, hangs or gets wrong bytes; one line names it.
    """
    workers: list[Worker] = []
    try:
        for rank in range(tasks[0].program.num_ranks):
            workers.append(Worker.forked(ENTRY, (job, rank, tuple(tasks), settings), PRELOAD))
            workers[-1].give(None)
        return _collect(workers)
    finally:
        job.close()
        for worker in workers:
            worker.end()


def serve(caller: Caller, setting: tuple[OverSharedMemory, int, tuple[SessionTask, ...], Settings]) -> None:
    """Be a rank."""
    job, rank, tasks, settings = setting

    def perform(_: Any) -> list[RepeatTimes]:
        return play(rank, tasks, settings, job.connect(rank))

    caller.serve(perform)


def _collect(workers: Sequence[Worker]) -> list[list[RepeatTimes]]:
    """Return the answers of all ranks, or raise the first failure."""
    answers: dict[int, list[RepeatTimes]] = {}
    stalled: dict[int, Stalled] = {}
    until = None
    rank_of: dict[Any, int] = {worker.pipe: rank for rank, worker in enumerate(workers)}
    while len(answers) + len(stalled) < len(workers):
        left = None if until is None else max(until - time.monotonic(), 0.0)
        heard = wait(list(rank_of), left)
        for pipe in heard:
            rank = rank_of[pipe]
            try:
                ended = workers[rank].step()
            except Stalled as error:
                stalled[rank] = error
                until = until or time.monotonic() + GRACE
                del rank_of[pipe]
                continue
            if ended is not None and ended.how is CallEnd.DEATH:
                raise Failure(f"rank {rank} died: {ended.cause}")
            if ended is not None:
                answers[rank] = ended.answer
                del rank_of[pipe]
        if not heard:
            break
    if stalled:
        silent = sorted(rank_of.values())
        first = stalled[min(stalled)]
        hung = f"rank {silent[0]} hangs: " if silent else ""
        raise Failure(f"{hung}{first}")
    return [answers[rank] for rank in range(len(workers))]

"""Transport between the processes of one machine: a FIFO is a ring in memory that both ends share.

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
from collections.abc import Mapping, Sequence
from functools import partial
from multiprocessing.reduction import DupFd
from typing import Any

import numpy as np
import numpy.typing as npt

from tutti.schedules.execution.fifos import Fifo
from tutti.schedules.execution.transport import Array, Patience
from tutti.topologies.errors import InputError

LINE = 64
"""Bytes of a cache line. Counters of two writers never share one."""
WORDS = LINE // 8
PAGE = mmap.PAGESIZE
IN_ORDER = ("x86_64", "AMD64", "i686")


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
        self._attach(_unnamed(), max(size, 1))
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


def _unnamed() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tutti")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class SharedRings:
    """The layout of a segment: counters, then the rings, then the memory of each rank if that is shared.

    Parameters
    ----------
    ranks
        The number of ranks, N.
    capacity
        The bytes of each FIFO.
    memory
        The bytes of each rank's memory; empty if no rank accesses another's.
    """

    def __init__(self, ranks: int, capacity: Mapping[Fifo, int], memory: Sequence[int]) -> None:
        self.ranks, self.memory = ranks, tuple(memory)
        self.fifos = {fifo: number for number, fifo in enumerate(capacity)}
        sizes = [-(-size // LINE) * LINE for size in capacity.values()]
        sizes += [-(-size // PAGE) * PAGE for size in self.memory]
        head = LINE * (2 * len(self.fifos) + ranks)
        ends = head + np.cumsum([0, *sizes])
        self.begins, self.size = ends[:-1].tolist(), int(ends[-1])
        self.capacity = tuple(capacity.values())


class SharedMemory:
    """A rank's ends of the FIFOs in a segment.

    Parameters
    ----------
    segment, rings
        The memory, and its layout.
    rank
        The rank.
    """

    def __init__(self, segment: Segment, rings: SharedRings, rank: int) -> None:
        self._segment, self._rings, self._rank = segment, rings, rank
        self._words = memoryview(segment.memory).cast("B")[: segment.size // 8 * 8].cast("q")
        self._bytes = np.frombuffer(segment.memory, dtype=np.uint8)
        self._first = {fifo: 2 * WORDS * number for fifo, number in rings.fifos.items()}
        self._arrivals = [WORDS * (2 * len(rings.fifos) + other) for other in range(rings.ranks)]

    def ring(self, fifo: Fifo) -> npt.NDArray[np.uint8]:
        """Return the memory of a FIFO's slots."""
        number = self._rings.fifos[fifo]
        return self._part(number, self._rings.capacity[number])

    def _part(self, number: int, size: int) -> npt.NDArray[np.uint8]:
        begin = self._rings.begins[number]
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
            patience.wait(partial(self._late, late[0]))

    def _late(self, rank: int) -> str:
        return f"rank {self._rank} waits at a barrier for rank {rank}"

    def memories(self) -> list[npt.NDArray[np.uint8]] | None:
        """Return the memory of each rank if it is shared."""
        sizes = self._rings.memory
        return [self._part(len(self._rings.fifos) + rank, size) for rank, size in enumerate(sizes)] or None

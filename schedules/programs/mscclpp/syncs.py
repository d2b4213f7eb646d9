"""Where the threads of a block must meet (the runtime's ``nop``, a ``__syncthreads``).

Data is moved by all threads of a block, each its share, while signals, waits and semaphores take one thread
for each channel or semaphore. No thread waits for the others unless told to: before what touches the data of
an earlier operation, before data is moved after a wait, and before a signal that says data has been moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

from tutti.schedules.programs.layout import BufferLayout
from tutti.schedules.programs.program import Address, Instruction, Op
from tutti.topologies.exact import NONE, offsets_of


class Role(Enum):
    """Who does an operation, and what for."""

    DATA = auto()
    """All threads: it moves data, and may await that of a packet."""
    WAIT = auto()
    """A thread for each channel or semaphore, which waits."""
    SIGNAL = auto()
    """A thread for each channel or semaphore, which tells another block or rank."""


class _Access(NamedTuple):
    """What is read, or written, from one cell to before another."""

    begin: int
    end: int
    writes: bool

    def disturbs(self, other: _Access) -> bool:
        return (self.writes or other.writes) and self.begin < other.end and other.begin < self.end


class Cells:
    """The cells of all ranks' memories, numbered through."""

    def __init__(self, layout: BufferLayout) -> None:
        self.start, self.base = offsets_of(layout.memory).tolist(), layout.base.tolist()

    def accesses(self, rank: int, steps: Sequence[Instruction]) -> list[_Access]:
        """Return what copies and reductions of a rank read and write."""
        found = []
        for one in steps:
            if one.op in (Op.COPY, Op.REDUCE):
                found.append(self._access(rank if one.origin == NONE else one.origin, one.source, one, False))
                found.append(self._access(rank if one.to == NONE else one.to, one.target, one, True))
        return found

    def _access(self, rank: int, place: Address, one: Instruction, writes: bool) -> _Access:
        begin = self.start[rank] + self.base[rank][place.buffer] + place.offset
        return _Access(begin, begin + one.length, writes)


class Syncs:
    """What happened in a block since its threads met."""

    def __init__(self) -> None:
        self.met()

    def met(self) -> None:
        """Note that they meet."""
        self.data: list[_Access] = []
        self.waiting = 0

    def needed(self, role: Role, accesses: Sequence[_Access], threads: int = 1) -> bool:
        """Whether they must meet before an operation of so many threads that accesses this."""
        if role is Role.DATA:
            return self.waiting > 0 or any(a.disturbs(b) for a in accesses for b in self.data)
        if role is Role.SIGNAL:
            return bool(self.data) or (self.waiting > 0 and max(self.waiting, threads) > 1)
        return False

    def done(self, role: Role, accesses: Sequence[_Access], threads: int = 1) -> None:
        """Note an operation."""
        if role is Role.DATA:
            self.data += accesses
        if role is Role.WAIT:
            self.waiting = max(self.waiting, threads)

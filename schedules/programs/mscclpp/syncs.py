"""The points at which the threads of a block must meet (the runtime's ``nop``, a ``__syncthreads``).

All threads of a block move data, each thread its share; signals, waits and semaphores take one thread for
each channel or semaphore. A thread waits for the others only at such a point. One is needed before an access
to the data of an earlier operation, before data are moved after a wait, and before a signal that data have
been moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

from tutti.schedules.programs.layout import BufferLayout
from tutti.schedules.programs.program import Address, Instruction, Op
from tutti.topologies.exact import NONE, offsets_of


class Role(Enum):
    """The kind of an operation, which determines its threads."""

    DATA = auto()
    """All threads move data; they may await the flags of a packet."""
    WAIT = auto()
    """One thread for each channel or semaphore waits."""
    SIGNAL = auto()
    """One thread for each channel or semaphore notifies another block or rank."""


class _Access(NamedTuple):
    """A read or write of cells `begin`..`end` - 1."""

    begin: int
    end: int
    writes: bool

    def disturbs(self, other: _Access) -> bool:
        return (self.writes or other.writes) and self.begin < other.end and other.begin < self.end


class Cells:
    """The cells of all ranks' memories, numbered consecutively."""

    def __init__(self, layout: BufferLayout) -> None:
        self.start, self.base = offsets_of(layout.memory).tolist(), layout.base.tolist()

    def accesses(self, rank: int, steps: Sequence[Instruction]) -> list[_Access]:
        """Return the accesses of a rank's copies and reductions."""
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
    """The operations of a block since its threads last met."""

    def __init__(self) -> None:
        self.met()

    def met(self) -> None:
        """Note that the threads meet."""
        self.data: list[_Access] = []
        self.waiting = 0

    def needed(self, role: Role, accesses: Sequence[_Access], threads: int = 1) -> bool:
        """Return whether the threads must meet before an operation with these accesses and threads."""
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

"""The names and limits of MSCCL++ execution plans.

Source: microsoft/mscclpp 0.9.0, ``src/core/executor/{execution_plan,executor}.cc``,
``src/core/include/execution_{common,kernel}.hpp``.

The points at which the threads of a block must meet (the runtime's ``nop``, a ``__syncthreads``).

All threads of a block move data, each thread its share; signals, waits and semaphores take one thread for
each channel or semaphore. A thread waits for the others only at such a point. One is needed before an access
to the data of an earlier operation, before data are moved after a wait, and before a signal that data have
been moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from tutti.schedules.collective import Collective, Kind
from tutti.schedules.programs.program import Address, Buffer, BufferLayout, Instruction, Op
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE, offsets_of

COLLECTIVES: Mapping[Kind, str] = {
    Kind.ALLGATHER: "allgather",
    Kind.ALLREDUCE: "allreduce",
    Kind.REDUCE_SCATTER: "reducescatter",
    Kind.ALL_TO_ALL: "alltoall",
}
"""The collectives that the runtime knows, and their names in plans."""
CUSTOM = "custom"
"""Name of all other collectives; the key `WHAT`, which the runtime ignores, then gives the collective."""
WHAT = "tutti"
"""The key of a plan for what tutti alone reads, see `CUSTOM`."""

BUFFERS: Mapping[str, Buffer] = {"i": Buffer.INPUT, "o": Buffer.OUTPUT, "s": Buffer.SCRATCH}
"""The buffers by their names in plans."""
MEMORY, PORT = "memory", "port"
"""The types of channels between two ranks."""
SIMPLE, PACKETS = "Simple", "LL"
"""The protocols: plain copies with signals, or packets that carry flags with the data."""


class MscclppLimits(NamedTuple):
    """Limits of the runtime, and of the files that are read. Each is the largest allowed number."""

    ops: int
    """Operations in a thread block."""
    channels: int
    """Channels of one type in a thread block; also its remote buffers of one type."""
    ids: int
    """Semaphores in an operation."""
    peers: int
    """Channels in an operation."""
    buffers: int
    """Sources in an operation; also targets."""
    blocks: int
    """Thread blocks on a GPU. All must run at the same time; an A100 can run this many."""
    bytes: int
    """Bytes in a buffer: offsets have 32 bits."""
    alignment: int
    """Alignment in bytes: each chunk is a multiple of it."""
    steps: int
    """Instructions in a program that is read."""
    plan: int
    """Bytes in a file that is read."""
    ranks: int
    """Ranks in a program that is read."""
    units: int
    """Units in a buffer that is read."""
    moved: int
    """Units moved by all instructions together."""
    slices: int
    """Slices of a chunk that is shared by a group of thread blocks."""


LIMITS = MscclppLimits(
    ops=64,
    channels=16,
    ids=16,
    peers=8,
    buffers=10,
    blocks=108,
    bytes=2**32 - 1,
    alignment=16,
    steps=2**19,
    plan=2**25,
    ranks=1024,
    units=2**20,
    moved=2**26,
    slices=2**10,
)


def chunks_of(what: Collective, units: int) -> tuple[int, int]:
    """Return the chunks of input and output, the same for all ranks, if M has this number of units.

    In a rooted collective only the root uses all chunks of both.

    Raises
    ------
    InputError
        If the collective has groups or uneven shards, or an item is not a whole number of units.
    """
    check_plain(what)
    nothing = np.zeros(what.num_ranks, dtype=np.int32)
    sizes = BufferLayout.of(what, units, nothing, in_place=False).sizes.max(axis=0)
    return int(sizes[Buffer.INPUT]), int(sizes[Buffer.OUTPUT])


def check_plain(what: Collective) -> None:
    """Check that a collective has neither groups nor uneven shards.

    Raises
    ------
    InputError
        If it does.
    """
    if not what.plain:
        raise InputError(f"a plan of MSCCL++ has no groups and no uneven shards; this is {what}")


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

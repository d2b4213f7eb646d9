"""The rules of the MSCCL++ runtime: names and limits of plans, where threads meet, and what waits for what.

Source: microsoft/mscclpp 0.9.0, ``src/core/executor/{execution_plan,executor}.cc``,
``src/core/include/execution_{common,kernel}.hpp``.

All threads of a block move data, each thread its share; signals, waits and semaphores take one thread for
each channel or semaphore. A thread waits for the others only at a point at which all meet (the runtime's
``nop``, a ``__syncthreads``). One is needed before an access to the data of an earlier operation, before data
are moved after a wait, and before a signal that data have been moved (`Syncs`).

Blocks wait for each other by semaphores, barriers and packets. In a program these become waits and signals
(`Assembly`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from tutti.schedules.collective import Collective, Kind
from tutti.schedules.programs.one_sided import Blocks
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


class Flags(NamedTuple):
    """Consecutive packets in a rank's scratch (units `begin`..`end` - 1) that are awaited or written."""

    rank: int
    begin: int
    end: int
    written: bool


class Events(NamedTuple):
    """A block's uses of semaphores and barriers, with their steps.

    The semaphores (number, step) are acquired before or released after the step; a barrier is (number, blocks
    that come to it, step).
    """

    acquired: list[tuple[int, int]]
    released: list[tuple[int, int]]
    barriers: list[tuple[int, int, int]]


Steps = list[Instruction | Flags]
_At = tuple[int, int, int]
"""A rank, one of its blocks, and a step of the block."""
_Span = tuple[int, int]


def _name(at: _At) -> str:
    return f"rank {at[0]}, thread block {at[1]}"


class Assembly:
    """The blocks of all ranks, whose steps are instructions and flags, as blocks of a program.

    Parameters
    ----------
    steps
        The steps of each block of each rank.
    """

    def __init__(self, steps: Sequence[Sequence[Steps]]) -> None:
        self.steps = steps
        self.waits: dict[_At, list[tuple[int, int]]] = defaultdict(list)
        self.extra: dict[_At, list[Instruction]] = defaultdict(list)

    def match_semaphores(self, rank: int, initial: Sequence[int], events: Sequence[Events]) -> None:
        """Let each acquire of a semaphore wait for its release; the first `initial` acquires need none."""
        acquired, released = (
            _by_semaphore(ends) for ends in ([of.acquired for of in events], [of.released for of in events])
        )
        for semaphore, free in enumerate(initial):
            where = f"rank {rank}: semaphore {semaphore}"
            acquires, releases = acquired[semaphore], released[semaphore]
            for ends, what in ((acquires, "acquired"), (releases, "released")):
                if len({number for number, _ in ends}) > 1:
                    raise InputError(f"{where} is {what} by several thread blocks, in no certain order")
            if len(acquires) != len(releases):
                count = f"{len(acquires)} times and released {len(releases)} times"
                raise InputError(f"{where} is acquired {count}")
            for (number, step), release in zip(acquires[free:], releases, strict=False):
                self.waits[rank, number, step].append(release)

    def match_barriers(self, rank: int, events: Sequence[Events]) -> None:
        """Let the step after a barrier wait for all blocks that come to the barrier."""
        arrived: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        for number, of_block in enumerate(events):
            count: Counter[int] = Counter()
            for barrier, size, step in of_block.barriers:
                arrived[barrier, count[barrier]].append((number, step, size))
                count[barrier] += 1
        for (barrier, _), all_of in arrived.items():
            if any(size != len(all_of) for _, _, size in all_of):
                raise InputError(f"rank {rank}: {len(all_of)} thread blocks come to barrier {barrier}")
            for number, step, _ in all_of:
                self.waits[rank, number, step + 1] += [(n, s) for n, s, _ in all_of if n != number]

    def match_packets(self, plain: Mapping[int, set[_Span]]) -> bool:
        """Make each packet a signal from its writer to each reader; return whether there are any.

        Each signal has a connection of its own; the numbers follow those of other signals, in the readers'
        order.

        Parameters
        ----------
        plain
            For each rank, the spans of scratch that hold data without flags.
        """
        found = list(self.flags())
        written = self._written([(at, flags) for at, flags in found if flags.written])
        self._check_scratch(plain)
        used: Counter[tuple[int, int]] = Counter()
        for (rank, _, _), one in self._each():
            if isinstance(one, Instruction) and one.op in (Op.SIGNAL, Op.WAIT):
                pair = (rank, one.to) if one.op is Op.SIGNAL else (one.origin, rank)
                used[pair] = max(used[pair], one.channel + 1)
        matches = 0
        for at, flags in found:
            if flags.written:
                continue
            for writer in _covering(written[flags.rank], flags, at):
                self._signal(writer, at, used)
                matches += 1
                if matches > LIMITS.steps:
                    raise InputError(f"the plan has more than {LIMITS.steps} packets")
        return bool(found)

    def _each(self) -> Iterator[tuple[_At, Instruction | Flags]]:
        for rank, of_rank in enumerate(self.steps):
            for number, block in enumerate(of_rank):
                for step, one in enumerate(block):
                    yield (rank, number, step), one

    def flags(self) -> Iterator[tuple[_At, Flags]]:
        """Yield the flags of packets, and the place where they are written or awaited."""
        yield from ((at, one) for at, one in self._each() if isinstance(one, Flags))

    @staticmethod
    def _written(found: list[tuple[_At, Flags]]) -> dict[int, list[tuple[int, int, _At]]]:
        """Return the writers of each rank's packets, in order; no packet may be written twice."""
        written: dict[int, list[tuple[int, int, _At]]] = defaultdict(list)
        for at, flags in found:
            written[flags.rank].append((flags.begin, flags.end, at))
        for rank, spans in written.items():
            spans.sort()
            for one, other in pairwise(spans):
                if other[0] < one[1]:
                    raise InputError(f"{_name(other[2])} writes packet {other[0]} of rank {rank} again")
        return written

    def _signal(self, writer: _At, reader: _At, used: Counter[tuple[int, int]]) -> None:
        source, target = writer[0], reader[0]
        if source == target:
            self.waits[reader].append(writer[1:])
            return
        channel = used[source, target]
        used[source, target] += 1
        self.extra[writer].append(Instruction(Op.SIGNAL, to=target, channel=channel))
        self.extra[reader].append(Instruction(Op.WAIT, origin=source, channel=channel))

    def _check_scratch(self, plain: Mapping[int, set[_Span]]) -> None:
        """Refuse packets that overlap other data: packet i takes the place of units 2i and 2i + 1."""
        packets: dict[int, set[_Span]] = defaultdict(set)
        for _, flags in self.flags():
            packets[flags.rank] |= {(flags.begin, flags.end), (2 * flags.begin, 2 * flags.end)}
        for rank, spans in packets.items():
            taken = sorted(spans)
            ends = list(accumulate((end for _, end in taken), max))
            for begin, end in plain.get(rank, ()):
                before = bisect_right(taken, end - 1, key=lambda span: span[0])
                if before and ends[before - 1] > begin:
                    raise InputError(f"rank {rank}: scratch {begin} holds both packets and other data")

    def blocks(self) -> list[Blocks]:
        """Return the blocks of each rank."""
        place: dict[_At, tuple[int, int]] = {}
        made: list[list[list[tuple[list[tuple[int, int]], Instruction]]]] = []
        for rank, of_rank in enumerate(self.steps):
            made.append([[] for _ in of_rank])
            for number, steps in enumerate(of_rank):
                block, carried = made[rank][number], []
                for step, one in enumerate(steps):
                    at = (rank, number, step)
                    carried += self.waits.get(at, [])
                    for instruction in [one] if isinstance(one, Instruction) else self.extra[at]:
                        block.append((carried, instruction))
                        carried = []
                    place[at] = (number, len(block) - 1)
        return [
            [
                [
                    one._replace(waits=tuple(sorted(place[rank, *wait] for wait in waits)))
                    for waits, one in block
                ]
                for block in of_rank
            ]
            for rank, of_rank in enumerate(made)
        ]


def _by_semaphore(uses: Sequence[Sequence[tuple[int, int]]]) -> Mapping[int, list[tuple[int, int]]]:
    """Return the blocks and steps that use each semaphore."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, of_block in enumerate(uses):
        for semaphore, step in of_block:
            found[semaphore].append((number, step))
    return found


def _covering(spans: list[tuple[int, int, _At]], flags: Flags, at: _At) -> Iterator[_At]:
    """Yield the writers of the awaited packets."""
    place = flags.begin
    number = bisect_right(spans, place, key=lambda span: span[1])
    while place < flags.end:
        if number == len(spans) or spans[number][0] > place:
            raise InputError(f"{_name(at)} awaits packet {place}, which no operation writes")
        place = spans[number][1]
        yield spans[number][2]
        number += 1

"""The waits of a plan's blocks: semaphores, barriers and packets become waits and signals."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from tutti.schedules.programs.mscclpp.names import LIMITS
from tutti.schedules.programs.one_sided import Blocks
from tutti.schedules.programs.program import Instruction, Op
from tutti.topologies.errors import InputError


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

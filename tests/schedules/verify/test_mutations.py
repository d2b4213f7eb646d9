"""The verifier against the slow oracle on legal schedules with small random changes."""

import itertools
from collections import Counter

import numpy as np
import pytest

from tests.schedules.builders import in_clock, plans
from tests.schedules.oracle import BEFORE, MISSING, OVERLAP, SECOND, TABLE, TWICE, judge
from tutti.schedules import Clock, Schedule, collective
from tutti.schedules.schedule import Chunks
from tutti.schedules.verify import VerificationError, verify

MUTATIONS = 2000
TEXT = {
    BEFORE: "sent before",
    TWICE: "delivered twice",
    OVERLAP: "overlapping use of link",
    MISSING: "missing at rank",
    SECOND: "a contribution a second time",
    TABLE: "",
}


@pytest.mark.parametrize("clock", list(Clock))
def test_the_bases_are_right_by_both(clock):
    for name, plan in plans().items():
        schedule = in_clock(plan, clock)
        assert (judge(schedule), verdict(schedule)) == (None, None), name


class Mutant:
    """A schedule as lists, which can be changed."""

    def __init__(self, schedule: Schedule, rng: np.random.Generator) -> None:
        self.base, self.rng = schedule, rng
        n = len(schedule)
        order = [0] * n if schedule.order is None else schedule.order.tolist()
        count = [1] * n if schedule.count is None else schedule.count.tolist()
        reduce = [False] * n if schedule.reduce is None else schedule.reduce.tolist()
        columns = (order, schedule.chunk.tolist(), count, schedule.route.tolist(), reduce)
        self.rows = [list(row) for row in zip(*columns, strict=True)]
        self.item, self.size = schedule.chunks.item.tolist(), schedule.chunks.size.tolist()
        of = schedule.chunks.copy_of
        self.copy_of = [-1] * len(self.item) if of is None else of.tolist()
        self.collective = schedule.collective

    def any_row(self) -> int:
        return int(self.rng.integers(len(self.rows)))

    def any_chunk(self) -> int:
        return int(self.rng.integers(len(self.item)))

    def small(self) -> int:
        return int(self.rng.choice([-3, -2, -1, 1, 2, 3, 40]))

    def drop(self) -> None:
        self.rows.pop(self.any_row())

    def swap(self) -> None:
        """Exchange two rows; each takes the time of its new place."""
        a, b = self.any_row(), self.any_row()
        self.rows[a][1:], self.rows[b][1:] = self.rows[b][1:], self.rows[a][1:]

    def swap_neighbours(self) -> None:
        a = self.any_row()
        b = min(a + 1, len(self.rows) - 1)
        self.rows[a][1:], self.rows[b][1:] = self.rows[b][1:], self.rows[a][1:]

    def misplace(self) -> None:
        """Exchange two rows, which keep their times."""
        a, b = self.any_row(), self.any_row()
        self.rows[a], self.rows[b] = self.rows[b], self.rows[a]

    def delay(self) -> None:
        """Move a row to a later or earlier time, and to the place that belongs to it."""
        a = self.any_row()
        if self.base.clock is Clock.FLOW:
            row = self.rows.pop(a)
            self.rows.insert(max(0, min(a + self.small(), len(self.rows))), row)
        else:
            self.rows[a][0] += self.small()
            self.rows.sort(key=lambda row: row[0])

    def delay_last(self) -> None:
        self.rows[-1][0] += abs(self.small())

    def redirect(self) -> None:
        self.rows[self.any_row()][3] = int(self.rng.integers(-1, len(self.base.route_table) + 1))

    def duplicate(self) -> None:
        a = self.any_row()
        self.rows.insert(a, list(self.rows[a]))

    def send_other(self) -> None:
        row = self.rows[self.any_row()]
        row[1] = int(self.rng.integers(-1, len(self.item) + 1))

    def lengthen(self) -> None:
        self.rows[self.any_row()][2] += self.small()

    def split(self) -> None:
        """Split a run into two rows of one time, which stays legal, as they travel as one message."""
        a = self.any_row()
        if self.rows[a][2] > 1:
            rest = list(self.rows[a])
            rest[1], rest[2], self.rows[a][2] = rest[1] + 1, rest[2] - 1, 1
            self.rows.insert(a + 1, rest)

    def turn_reduction(self) -> None:
        row = self.rows[self.any_row()]
        row[4] = not row[4]

    def shrink(self) -> None:
        self.size[self.any_chunk()] -= 1

    def shift_size(self) -> None:
        """Move size between two chunks, which stays legal if both are of one item and none vanishes."""
        self.size[a := self.any_chunk()] -= 1
        self.size[max(0, min(len(self.size) - 1, a + int(self.rng.choice([-1, 1]))))] += 1

    def change_owner(self) -> None:
        self.item[self.any_chunk()] += int(self.rng.choice([-1, 1]))

    def copy_other(self) -> None:
        """Make a chunk a copy, or a copy of another chunk; that often stays legal if it was a copy."""
        copies = [chunk for chunk, of in enumerate(self.copy_of) if of >= 0]
        chunk = int(self.rng.choice(copies)) if copies and self.rng.random() < 0.7 else self.any_chunk()
        self.copy_of[chunk] += int(self.rng.choice([-1, 1, 2]))

    def change_ranks(self) -> None:
        """Change the owners of data: take another root, or exchange two members of a group."""
        what = self.base.collective
        groups = [list(members) for members in what.members]
        if what.root is not None:
            root = int(self.rng.integers(len(groups[0])))
            self.collective = collective(what.kind, what.num_ranks, root=root, groups=what.groups)
        else:
            members = groups[self.rng.integers(len(groups))]
            a, b = self.rng.choice(len(members), 2, replace=False)
            members[a], members[b] = members[b], members[a]
            self.collective = collective(what.kind, what.num_ranks, shards=what.shards, groups=groups)

    def schedule(self) -> Schedule:
        order, chunk, count, route, reduce = ([row[k] for row in self.rows] for k in range(5))
        base = self.base
        return base.replace(
            collective=self.collective,
            chunks=Chunks(
                np.array(self.item), np.array(self.size), base.chunks.denominator, np.array(self.copy_of)
            ),
            chunk=np.array(chunk, dtype=np.int32),
            route=np.array(route, dtype=np.int32),
            order=None if base.order is None else np.array(order, dtype=np.int64),
            count=None if set(count) == {1} else np.array(count, dtype=np.int32),
            reduce=np.array(reduce, dtype=bool) if any(reduce) else None,
        )


KINDS = [name for name, value in vars(Mutant).items() if callable(value) and name[0] != "_"]
KINDS = [name for name in KINDS if name not in ("any_row", "any_chunk", "small", "schedule")]


def fine(schedule: Schedule) -> Schedule:
    """Return the schedule with sizes in smaller units, so that a chunk can give one away."""
    chunks = schedule.chunks
    return schedule.replace(
        chunks=Chunks(chunks.item, 4 * chunks.size, 4 * chunks.denominator, chunks.copy_of)
    )


def mutants(times: int = 1):
    """Yield schedules with `times` changes: the first of each kind in turn, the others of any kind."""
    rng = np.random.default_rng(2026)
    bases = [fine(in_clock(plan, clock)) for plan in plans().values() for clock in Clock]
    for number in range(MUTATIONS):
        kinds = [KINDS[number % len(KINDS)], *rng.choice(KINDS, times - 1)]
        mutant = Mutant(bases[rng.integers(len(bases))], rng)
        for kind in kinds:
            getattr(mutant, kind)()
        yield " ".join(kinds), mutant.schedule()


def verdict(schedule: Schedule) -> VerificationError | None:
    try:
        verify(schedule)
    except VerificationError as error:
        return error
    return None


def check(kind: str, schedule: Schedule) -> str | None:
    """Compare the two verdicts; return the oracle's reason."""
    expected, found = judge(schedule), verdict(schedule)
    context = (kind, str(schedule.clock), str(schedule.collective), expected, str(found))
    assert (expected is None) == (found is None), context
    if expected is None:
        return None
    row, reason = expected
    assert (found.row, TEXT[reason] in str(found), "\n" in str(found)) == (row, True, False), context
    return reason


def test_two_thousand_mutations_are_judged_as_the_oracle_judges_them():
    verdicts = [(kind, str(schedule.clock), check(kind, schedule)) for kind, schedule in mutants()]
    seen = Counter(reason for _, _, reason in verdicts)
    assert min(seen[reason] for reason in [None, *TEXT]) >= 20, seen  # every verdict occurs often
    spoilt = Counter((kind, clock) for kind, clock, reason in verdicts if reason is not None)
    spoiling = [kind for kind in KINDS if kind not in ("delay_last", "split")]  # those two stay legal
    assert min(spoilt[kind, str(clock)] for kind in spoiling for clock in Clock) >= 2, spoilt


@pytest.mark.parametrize("times", [2, 4])
def test_the_first_of_several_mutations_is_named(times):
    for kinds, schedule in itertools.islice(mutants(times), 0, None, 2):
        check(kinds, schedule)


@pytest.mark.parametrize("state_bytes", [1, 100])
def test_the_state_may_be_replayed_a_block_of_chunks_at_a_time(state_bytes, monkeypatch):
    """The first fault of all blocks counts, with one chunk per block, and with a few."""
    monkeypatch.setattr("tutti.schedules.verify.replay.STATE_BYTES", state_bytes)
    for kind, schedule in itertools.islice(mutants(), 0, None, 10):
        check(kind, schedule)

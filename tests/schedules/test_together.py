"""Concurrent collectives over groups of ranks that may overlap, and the combination of their schedules."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from tests.schedules.builders import in_clock, plans
from tests.schedules.oracle import judge
from tests.schedules.verify.test_mutations import KINDS as WAYS
from tests.schedules.verify.test_mutations import Mutant, check, fine
from tests.sweep import for_each
from tutti.heuristics.classic.direct import METHOD as DIRECT
from tutti.heuristics.classic.halving_doubling import RECURSIVE_DOUBLING
from tutti.models.bounds import lower_bounds
from tutti.schedules import KINDS, Chunks, Clock, Kind, Problem, Schedule, collective, concurrent
from tutti.schedules import groups as module
from tutti.schedules.collective import EVERYONE
from tutti.schedules.files.document import to_document
from tutti.schedules.files.schedule_file import content_hash, read_schedule, write_schedule
from tutti.schedules.groups import by_groups, parts_of, side_by_side, together
from tutti.schedules.retiming import retimed
from tutti.schedules.reversal import reverse
from tutti.schedules.simulation.simulate import best_slices, simulate
from tutti.schedules.verify import VerificationError, verify
from tutti.topologies import InputError, NoSchedule, Unsupported
from tutti.topologies.text import parse_topology

LEFT, RIGHT = (0, 1, 3), (2, 4, 5)
MEGABYTE = Fraction(10**6)


def two(one, other, ranks=6):
    """Return two concurrent collectives; a rooted one has its group's second rank as root."""
    parts = [
        collective(kind, ranks, root=1 if Kind(kind).rooted else None, groups=[group])
        for kind, group in ((one, LEFT), (other, RIGHT))
    ]
    return concurrent(parts)


def direct(what, where="mesh:2x3"):
    """Return the direct schedule, or those of all parts side by side."""
    if what.parts:
        return side_by_side(what, [direct(part, where) for part in what.parts])
    return DIRECT.synthesize(Problem(parse_topology(where), what), DIRECT.options(), np.random.default_rng(0))


def test_the_items_are_those_of_the_parts():
    what = two("broadcast", "reduce-scatter")
    items = what.items
    assert what.members == (LEFT, RIGHT)
    assert items.group.tolist() == [0, 1, 1, 1]
    assert items.start.tolist() == [1, EVERYONE, EVERYONE, EVERYONE]
    assert items.end.tolist() == [EVERYONE, 2, 4, 5]
    assert list(items.share) == [1, Fraction(1, 3), Fraction(1, 3), Fraction(1, 3)]
    assert items.combines.tolist() == [False, True, True, True]


def test_it_combines_if_a_part_does():
    assert two("broadcast", "reduce").is_combining
    assert not two("broadcast", "all-to-all").is_combining


def test_its_reverse_has_the_reverses_of_the_parts():
    assert two("broadcast", "allgather").reverse == two("reduce", "reduce-scatter")


def part(kind, group, ranks=6):
    return collective(kind, ranks, groups=[group])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: collective("allgather", 6, groups=[[0, 1, 2], [2, 3]]),
            "allgather: rank 2 occurs twice in the groups; groups must be disjoint",
        ),
        (
            lambda: concurrent([part("allgather", [0, 1]), part("reduce", [2, 3])], [1]),
            "mixed: 1 weights for 2 parts; give one each",
        ),
        (
            lambda: concurrent([part("allgather", [0, 1]), part("reduce", [2, 3])], [1, 0]),
            "mixed: weight 0; it must be positive",
        ),
        (lambda: concurrent([part("allgather", [0, 1])]), "mixed: 1 part(s); at least 2 are needed"),
        (
            lambda: concurrent([part("allgather", [0, 1]), part("reduce", [2, 3], ranks=4)]),
            "mixed: a part is over 4 ranks; the others are over 6",
        ),
        (
            lambda: concurrent([two("allgather", "reduce"), part("reduce", [2, 3])]),
            "mixed: a part is mixed itself; give its parts instead",
        ),
        (
            lambda: collective("mixed", 6),
            "a mixed collective is made of parts; a config gives them, as parts = [...]",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(make, message):
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value) == message


@for_each("one", KINDS)
@for_each("other", KINDS)
def test_direct_does_any_two_kinds_at_once(one, other):
    schedule = direct(two(one, other))
    assert judge(schedule) is None
    verify(schedule)


def test_two_of_one_kind_are_two_groups():
    """The items, bounds and messages equal those of one collective over both groups; routes are shortest.

    The choice among shortest routes depends on the other messages, so times may differ.
    """
    mixed, plain = two("allgather", "allgather"), collective("allgather", 6, groups=[LEFT, RIGHT])
    where = parse_topology("mesh:2x3")
    values = [[(b.kind, b.value) for b in lower_bounds(where, what, MEGABYTE)] for what in (mixed, plain)]
    assert values[0] == values[1]
    one, other = direct(mixed), direct(plain)
    for column in ("source", "target", "chunk", "order"):
        assert np.array_equal(getattr(one, column), getattr(other, column))
    assert mixed.items.share.numerators.tolist() == plain.items.share.numerators.tolist()


def test_links_that_both_parts_use_in_a_step_carry_the_sum():
    """The routes 0 -> 2 and 1 -> 3 on a path of 4 both use 1 -> 2."""
    what = concurrent([part("broadcast", [0, 2], 4), part("broadcast", [1, 3], 4)])
    schedule = direct(what, "mesh:4")
    single = [direct(p, "mesh:4") for p in what.parts]
    alone = max(simulate(s, 10**9).time for s in single)
    assert simulate(schedule, 10**9).time == pytest.approx(2 * alone, rel=1e-3)


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".npz"])
@pytest.mark.parametrize("other", ["reduce", "all-to-all", "allreduce"])
def test_a_file_keeps_it(tmp_path, other, suffix):
    schedule = direct(two("broadcast", other))
    path = tmp_path / f"schedule{suffix}"
    write_schedule(schedule, path)
    again = read_schedule(path)
    assert again.collective == schedule.collective
    assert content_hash(again) == content_hash(schedule)
    verify(again)


def test_what_other_parts_do_changes_the_hash():
    hashes = {
        content_hash(direct(two("broadcast", other))) for other in ("broadcast", "scatter", "allgather")
    }
    assert len(hashes) == 3


def test_a_copied_datum_must_not_be_reduced():
    schedule = direct(two("broadcast", "reduce"))
    with pytest.raises(VerificationError, match="it reduces, and its datum is not combined"):
        verify(schedule.replace(reduce=np.ones(len(schedule), bool)))


def test_what_is_missing_is_named():
    schedule = direct(two("broadcast", "reduce"))
    copies = np.flatnonzero(~schedule.reduce)
    rows = np.delete(np.arange(len(schedule)), copies[-1])
    shorter = schedule.replace(
        chunk=schedule.chunk[rows],
        route=schedule.route[rows],
        order=schedule.order[rows],
        reduce=schedule.reduce[rows],
    )
    lost = int(schedule.target[copies[-1]])
    with pytest.raises(VerificationError, match=f"of rank 1 is missing at rank {lost} at the end"):
        verify(shorter)


class MixedMutant(Mutant):
    """A mutant like the others, except that its groups and roots stay."""

    def change_ranks(self):
        """Do nothing."""


@pytest.mark.parametrize("clock", [Clock.STEP, Clock.FLOW])
def test_mutations_are_judged_as_the_oracle_judges_them(clock):
    rng = np.random.default_rng(7)
    kinds = ["broadcast", "reduce", "allreduce", "allgather", "scatter"]
    bases = [fine(direct(two(a, b))) for a in kinds for b in ("reduce", "allreduce", "reduce-scatter")]
    seen = set()
    for number in range(400):
        base: Schedule = bases[rng.integers(len(bases))]
        if clock is Clock.FLOW:
            base = base.replace(clock=clock, order=None)
        mutant = MixedMutant(base, rng)
        way = WAYS[number % len(WAYS)]
        getattr(mutant, way)()
        seen.add(check(way, mutant.schedule()))
    assert {None, "table", "before", "missing", "twice"} <= seen


def test_the_parts_must_be_those_of_the_whole():
    what = two("broadcast", "reduce")
    with pytest.raises(InputError, match="are not what the 1 schedules do"):
        side_by_side(what, [direct(what.parts[0])])


def test_the_chunks_of_the_parts_follow_each_other():
    schedule = direct(two("broadcast", "allgather"))
    expected = Chunks.even(schedule.collective)
    assert schedule.chunks.item.tolist() == expected.item.tolist()
    mine = [Fraction(int(s), schedule.chunks.denominator) for s in schedule.chunks.size]
    assert mine == [Fraction(int(s), expected.denominator) for s in expected.size]


def test_it_has_no_reverse_as_a_whole():
    with pytest.raises(
        Unsupported, match="reverse of a mixed collective: reverse the schedules of its parts"
    ):
        reverse(direct(two("broadcast", "reduce")))


def test_starts_without_a_common_tick_in_64_bits_are_refused():
    what = two("broadcast", "allgather")
    parts = [direct(part) for part in what.parts]
    late = [np.full(len(part), 2**40) for part in parts]
    ticks = [Fraction(1, 2**20 + 7), Fraction(1, 2**20 + 9)]
    timed = [
        part.replace(clock=Clock.TIME, order=order, tick=tick, size=MEGABYTE)
        for part, order, tick in zip(parts, late, ticks, strict=True)
    ]
    assert len(side_by_side(what, [part.replace(tick=ticks[0]) for part in timed])) == sum(map(len, parts))
    late[0][-1] = 2**62
    with pytest.raises(InputError, match="start times do not fit 64 bits"):
        side_by_side(what, [part.replace(order=order) for part, order in zip(timed, late, strict=True)])


def test_copies_of_two_groups_are_those_of_each():
    shot = in_clock(plans()["allreduce in one shot"], Clock.STEP)
    groups = (collective("allreduce", 6, groups=[[0, 1, 2]]), collective("allreduce", 6, groups=[[3, 4, 5]]))
    network = parse_topology("complete:6")
    ends = list(zip(network.source.tolist(), network.target.tolist(), strict=True))
    sides = [
        shot.replace(topology=network, collective=what, route=np.array(routes))
        for shift, what in ((0, groups[0]), (3, groups[1]))
        for routes in [
            [
                ends.index((a + shift, b + shift))
                for a, b in zip(shot.source.tolist(), shot.target.tolist(), strict=True)
            ]
        ]
    ]
    both = side_by_side(concurrent(groups), sides)
    verify(both)
    assert both.chunks.copy_of.tolist()[:12] == [-1, 0, 0, 0, -1, 4, 4, 4, -1, 8, 8, 8]
    assert both.chunks.copy_of.tolist()[12:16] == [-1, 12, 12, 12]


ROWS, COLUMNS = [[0, 1, 2], [3, 4, 5]], [[0, 3], [1, 4], [2, 5]]


def crossing(one, other, weights=None):
    """Return one collective in the rows and one in the columns of 2x3 ranks, at the same time."""
    parts = [collective(kind, 6, groups=groups) for kind, groups in ((one, ROWS), (other, COLUMNS))]
    return concurrent(parts, weights)


def test_shares_of_parts_are_scaled_by_their_weights():
    """Rows have half the data of columns: an allgather's shards are M/2/3 in rows and M/2 in columns."""
    what = crossing("allgather", "allgather", [3, 6])
    assert what.weights == (Fraction(1, 2), Fraction(1))
    assert list(what.items.share) == [Fraction(1, 6)] * 6 + [Fraction(1, 2)] * 6
    assert what.items.group.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4]
    assert what.reverse == crossing("reduce-scatter", "reduce-scatter", [1, 2])
    assert crossing("reduce", "gather", [5, 5]) == crossing("reduce", "gather")


@for_each("one", KINDS)
@for_each("other", KINDS)
def test_any_two_kinds_over_groups_that_share_all_ranks(one, other):
    schedule = direct(crossing(one, other, [2, 3]))
    assert judge(schedule) is None
    verify(schedule)
    with pytest.raises(VerificationError):
        verify(schedule.replace(chunks=Chunks.even(crossing(one, other))))


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".npz"])
@pytest.mark.parametrize("other", ["allreduce", "all-to-all"])
def test_a_file_keeps_groups_that_share_ranks_and_their_weights(tmp_path, other, suffix):
    schedule = direct(crossing("allreduce", other, [1, 3]))
    path = tmp_path / f"schedule{suffix}"
    write_schedule(schedule, path)
    again = read_schedule(path)
    assert again.collective == schedule.collective
    assert content_hash(again) == content_hash(schedule)
    assert np.array_equal(again.chunks.item, schedule.chunks.item)
    assert content_hash(again) != content_hash(direct(crossing("allreduce", other)))


def test_a_file_whose_ranks_are_in_several_groups_says_which(tmp_path):
    document = to_document(direct(crossing("allgather", "allgather")))
    del document["chunks"]["group"]
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"no key 'chunks\.group'"):
        read_schedule(path)


def over_both(what, size, where="mesh:2x3"):
    parts = [direct(part, where) for part in what.parts]
    alone = [simulate(p, size * w).time for p, w in zip(parts, what.part_weights, strict=True)]
    return together(what, parts, size), alone


@for_each(
    ("one", "other"),
    [("allgather", "reduce-scatter"), ("allreduce", "all-to-all"), ("broadcast", "allreduce")],
)
@for_each("where", ["mesh:2x3", "torus:2x3", "complete:6", "switch2d:2x3", "mesh:2x3?bandwidth=50GB/s,9GB/s"])
@for_each("weights", [None, [1, 7], [9, 1]])
def test_together_is_never_slower_than_one_after_the_other(one, other, where, weights):
    for size in (Fraction(1000), Fraction(10**8)):
        what = crossing(one, other, weights)
        schedule, alone = over_both(what, size, where)
        verify(schedule)
        time = simulate(schedule, size).time
        assert max(alone) * (1 - 1e-9) <= time <= sum(alone) * (1 + 1e-9)
        assert schedule.stats["alone"] == pytest.approx(alone)
        for bound in lower_bounds(schedule.topology, what, size):
            assert float(bound.time(size)) <= time * (1 + 1e-9)


def test_parts_on_links_of_their_own_take_as_long_as_the_longer():
    """Rows and columns of a mesh share no link; neighbours exchange halves and thirds of M."""
    size = Fraction(10**8)
    schedule, alone = over_both(crossing("allgather", "allgather", [1, 1]), size)
    assert simulate(schedule, size).time == pytest.approx(max(alone), rel=1e-9)


def test_flows_that_travel_in_slices_are_put_together_slice_by_slice():
    """Two pipelined broadcasts along one path of 3 links are no slower than one after the other."""
    what = concurrent([collective("broadcast", 4, groups=[[0, 1, 2, 3]]) for _ in range(2)], [2, 1])
    path, size = parse_topology("mesh:4"), Fraction(10**8)
    ends = list(zip(path.source.tolist(), path.target.tolist(), strict=True))
    links = [ends.index((rank, rank + 1)) for rank in range(3)]
    flows = [
        Schedule(path, part, Clock.FLOW, Chunks.even(part, 2), np.repeat([0, 1], 3), np.tile(links, 2))
        for part in what.parts
    ]
    made = together(what, flows, size)
    verify(made)
    # all bytes of both cross each link, and the last slice crosses two more
    least = float(Fraction(3, 2) * size / path.bandwidth[0])
    assert least < best_slices(made, size)[1] < least * 1.1


def test_parts_in_the_time_clock_are_made_for_their_share_of_m():
    what = crossing("allgather", "allgather", [1, 2])
    parts = [direct(part) for part in what.parts]
    timed = [
        retimed(
            part.replace(
                clock=Clock.TIME, order=np.arange(len(part)), tick=Fraction(1, 10**12), size=MEGABYTE * w
            )
        )
        for part, w in zip(parts, what.part_weights, strict=True)
    ]
    assert side_by_side(what, timed).size == MEGABYTE
    wrong = [part.replace(size=MEGABYTE) for part in timed]
    with pytest.raises(InputError, match="in one clock and made for one size"):
        side_by_side(what, wrong)


def test_parts_in_steps_may_be_made_for_a_size():
    """The same holds for parts that run one after the other."""
    what = crossing("allgather", "allgather", [1, 2])
    parts = [direct(part) for part in what.parts]
    made = together(what, [parts[0].replace(size=MEGABYTE / 2), parts[1]], MEGABYTE)
    verify(made)
    assert made.size == MEGABYTE


def test_what_is_illegal_together_is_not_taken(monkeypatch):
    """Ranks exchange sums in a step and one sends late; in the order of starts it would send both sums."""
    what = collective("allreduce", 8, groups=[[6, 1, 7, 2], [5, 4, 3, 0]])
    size, where, method = Fraction(59), parse_topology("mesh:2x4"), by_groups(RECURSIVE_DOUBLING)
    problems = [Problem(where, group, size) for _, group in parts_of(what)]
    parts = [method.synthesize(each, method.options(), np.random.default_rng(0)) for each in problems]
    verify(together(what, parts, size))
    listed = list(module._candidates(what, parts, [module._Played.of(part, size) for part in parts], size))
    illegal = [each for each in listed if not module._is_legal(each)]
    assert illegal
    monkeypatch.setattr(module, "_candidates", lambda *given: illegal)
    with pytest.raises(NoSchedule, match="do not fit together"):
        together(what, parts, size)

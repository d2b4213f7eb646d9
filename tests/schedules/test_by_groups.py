"""Methods by groups: schedules are legal, no slower than part after part, and above the bound."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.schedules.oracle import judge
from tests.sweep import for_each
from tutti.experiments.registry import METHODS, find_method
from tutti.models.bounds import lower_bounds
from tutti.schedules import Problem, collective, concurrent
from tutti.schedules.collective import grouped
from tutti.schedules.groups import by_groups
from tutti.schedules.simulation.simulate import best_slices, simulate
from tutti.schedules.verify import verify
from tutti.topologies import Unsupported
from tutti.topologies.text import parse_topology

SIZE = Fraction(10**7)


def made(name, where, what, size=SIZE, **options):
    method, topology = find_method(name), parse_topology(where)
    chosen, problem = method.options(**options), Problem(topology, what, size)
    method.supports(problem, chosen)
    schedule = method.synthesize(problem, chosen, np.random.default_rng(0))
    assert schedule.topology == topology
    assert schedule.collective == what
    verify(schedule)
    return schedule


@for_each(("where", "rows", "columns"), [("torus:2x3", 3, 2), ("switch2d:2x2", 2, 2)])
@for_each("text", ["a={}:allreduce@1MB,b={}:allreduce@4MB", "a={}:allgather@3MB,b={}:reduce-scatter@2MB"])
@for_each("name", ["tacos", "forestcoll", "ring", "direct"])
def test_at_the_same_time_is_never_slower_than_one_after_the_other(where, rows, columns, text, name):
    what, size = grouped(text.format(rows, columns), rows * columns, "")
    schedule = made(name, where, what, size)
    seconds, alone = best_slices(schedule, size)[1], schedule.stats["alone"]
    assert len(alone) == 2
    assert seconds <= sum(alone) * (1 + 1e-9)
    for bound in lower_bounds(schedule.topology, what, size):
        assert float(bound.time(size)) <= seconds * (1 + 1e-9), bound.kind
    for weight, part, least in zip(what.part_weights, what.parts, alone, strict=True):
        for bound in lower_bounds(schedule.topology, part, size * weight):
            assert float(bound.time(size * weight)) <= least * (1 + 1e-9), bound.kind


def test_rings_in_rows_and_columns_of_a_torus_by_hand():
    """Each column of 3 sends 2/3 of M over 2 links, each row of 4 sends 3/4 of M/2; they share no link."""
    what, size = grouped("row=4:allgather@30MB,column=3:allgather@60MB", 12, "")
    schedule = made("ring", "torus:3x4?alpha=0us", what, size)
    byte = 1 / 50e9
    expected = (30e6 * 3 / 4 / 2 * byte, 60e6 * 2 / 3 / 2 * byte)
    assert schedule.stats["alone"] == pytest.approx(expected)
    assert simulate(schedule, size).time == pytest.approx(expected[1])


def test_ranks_outside_a_group_forward():
    """The two ends of a path reach each other through the rank between them."""
    what = collective("allgather", 3, groups=[[2, 0]])
    schedule = made("ring", "mesh:3", what)
    assert judge(schedule) is None
    assert np.diff(schedule.route_table.offsets)[schedule.route].tolist() == [2, 2]


@for_each("name", ["ring", "forestcoll", "bfb", "rhd", "bruck", "swing", "dbt"])
def test_methods_for_all_ranks_do_groups(name):
    """The groups are two squares of a cube, then one of them; each is a ring of 4 on its own."""
    squares = [[0, 1, 3, 2], [4, 5, 7, 6]]
    for groups in (squares, squares[:1]):
        schedule = made(name, "hypercube:3", collective("allreduce", 8, groups=groups))
        assert judge(schedule) is None


def test_the_root_is_the_rank_at_its_place_in_the_group():
    what = concurrent(
        [
            collective("broadcast", 4, root=1, groups=[[3, 2], [0, 1]]),
            collective("reduce", 4, root=0, groups=[[1, 2, 3]]),
        ],
        [1, 2],
    )
    assert judge(made("forestcoll", "ring:4", what)) is None


def test_what_a_method_does_at_once_is_left_to_it():
    what = collective("allgather", 4, groups=[[0, 1], [2, 3]])
    problem = Problem(parse_topology("ring:4"), what)
    own = METHODS["direct"]
    rows = own.synthesize(problem, own.options(), np.random.default_rng(0))
    assert len(made("direct", "ring:4", what)) == len(rows)
    assert not find_method("direct").size_dependent(problem, own.options())
    assert find_method("ring").size_dependent(problem, METHODS["ring"].options())


def test_what_no_group_can_have_is_refused_in_a_line():
    network = parse_topology("torus:3x3")
    ring = find_method("ring")
    exchange, _ = grouped("a=3:all-to-all,b=3:allreduce", 9, "")
    with pytest.raises(
        Unsupported, match=r"^ring does allgather, reduce-scatter, allreduce; not all-to-all$"
    ):
        ring.supports(Problem(network, exchange), ring.options())
    halving = find_method("rhd")
    threes, _ = grouped("a=3,b=3:none", 9, "allreduce")
    with pytest.raises(Unsupported, match=r"^rhd needs a power of two ranks; .* has 3$"):
        halving.supports(Problem(network, threes), halving.options())


def test_an_improving_method_begins_with_nothing_that_it_could_not_make():
    refined = by_groups(METHODS["local_search"])
    what, _ = grouped("a=2,b=2", 4, "allreduce")
    problem = Problem(parse_topology("torus:2x2"), what, SIZE)
    schedule = made("direct", "torus:2x2", what)
    with pytest.raises(Unsupported, match=r"^local_search "):
        refined.improve(problem, schedule, refined.options(), np.random.default_rng(0))


def test_a_time_limit_is_for_all_groups_together():
    what, _ = grouped("a=2,b=4:none", 8, "allreduce")
    schedule = made("list_scheduling", "hypercube:3", what, time_limit="2s")
    assert judge(schedule) is None


def test_best_is_no_slower_than_what_it_tries():
    what, size = grouped("a=2:allreduce@1MB,b=2:allgather@4MB", 4, "")
    options = {"methods": ["direct", "ring"], "stop_at_gap": 0.0}
    best = made("best", "torus:2x2", what, size, **options)
    times = [best_slices(made(name, "torus:2x2", what, size), size)[1] for name in ("direct", "ring")]
    seconds = best_slices(best, size)[1]
    assert seconds <= min(times) * (1 + 1e-9)
    assert seconds <= sum(best.stats["alone"]) * (1 + 1e-9)
    assert {"the best of each part", "direct", "ring"} <= {each.method for each in best.stats["tried"]}


def test_the_whole_of_exact_parts_is_not_exact():
    forestcoll, network = find_method("forestcoll"), parse_topology("torus:2x2")
    both, _ = grouped("a=2,b=2", 4, "allreduce")
    kinds = [
        forestcoll.kind_of(Problem(network, what), forestcoll.options())
        for what in (collective("allgather", 4), collective("allgather", 4, groups=[[0, 1]]), both)
    ]
    assert kinds == ["exact", "exact", "heuristic"]

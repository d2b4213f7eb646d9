"""What is said of a schedule: a gap to a proven bound, and the gap table."""

import contextlib
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.schedules.simulation.test_best_slices import broadcast
from tutti.experiments.registry import METHODS
from tutti.experiments.runner.judge import Cost, GapTableBuilder, ProvenBound, time_columns
from tutti.models.bounds import BoundError, own_bounds
from tutti.schedules import Clock, Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies import TuttiError, Unsupported
from tutti.topologies.text import parse_topology

MEGABYTE = Fraction(10**6)


@pytest.fixture
def direct():
    """Direct allgather on the complete network of 4: each link carries M/4 once, 0.5 us + 5 us at 1 MB."""
    topology, method = parse_topology("complete:4"), METHODS["direct"]
    problem = Problem(topology, collective("allgather", 4))
    return method.synthesize(problem, method.options(), np.random.default_rng(0))


def bound(microseconds: str) -> ProvenBound:
    return ProvenBound(Fraction(microseconds) / 10**6, "cut")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("torus:4x4", "allgather"),
        ("mesh:3x3", "allreduce"),
        ("hypercube:3", "all-to-all"),
        ("dgx_a100:2", "allreduce"),
        ("mi250:2", "allgather"),
    ],
)
def test_no_time_is_less_than_t_l_times_the_least_alpha(text, kind):
    topology = parse_topology(text)
    problem, said = Problem(topology, collective(kind, topology.num_ranks), MEGABYTE), {}
    for name in (
        "ring",
        "bruck",
        "bine",
        "pairwise",
        "blueconnect",
        "themis",
        "rails",
        "bfb",
        "rhd",
        "direct",
    ):
        method = METHODS[name]
        with contextlib.suppress(Unsupported):
            method.supports(problem, method.options())
            schedule = method.synthesize(problem, method.options(), np.random.default_rng(0))
            said[name] = Cost.of(schedule).tl_steps
            for size in (1, 10**3, 10**6):
                assert simulate(schedule, size).time >= (said[name] or 0) * min(topology.alpha) * (1 - 1e-9)
    assert any(said.values())


@pytest.mark.parametrize(
    ("text", "kind", "name", "steps"),
    [
        ("torus:4x4", "allgather", "bfb", 4),  # the diameter
        ("ring:8", "allgather", "ring", 7),  # half shards both ways, N - 1 steps
        ("complete:8", "allgather", "direct", 1),
        ("complete:8", "all-to-all", "pairwise", None),  # seven steps over links of their own: one α
    ],
)
def test_t_l_is_said_where_steps_follow_one_another(text, kind, name, steps):
    topology, method = parse_topology(text), METHODS[name]
    problem = Problem(topology, collective(kind, topology.num_ranks), MEGABYTE)
    schedule = method.synthesize(problem, method.options(), np.random.default_rng(0))
    assert Cost.of(schedule).tl_steps == steps


@pytest.mark.parametrize(("microseconds", "gap"), [("5.5", 0), ("4.4", 0.25), ("2.75", 1)])
def test_the_gap_is_time_over_bound_minus_one(direct, microseconds, gap):
    assert time_columns(direct, MEGABYTE, bound(microseconds))["gap"] == gap


def test_a_time_that_beats_a_bound_is_an_error(direct):
    with pytest.raises(TuttiError, match=r"^simulated 5\.5 us beats the cut bound of 5\.50001 us$"):
        time_columns(direct, MEGABYTE, bound("5.50001"))


def test_a_time_within_the_rounding_of_floats_is_optimal(direct):
    assert abs(time_columns(direct, MEGABYTE, bound("5.500000000001"))["gap"]) < 1e-12


def test_a_bound_of_zero_has_no_gap(direct):
    assert time_columns(direct, MEGABYTE, bound("0"))["gap"] is None


@pytest.fixture
def flow():
    """All-to-all on a ring of 5: 2 (1 + 2) hops a rank over 2 links, so T = 3 M / (5 b), met."""
    problem = Problem(parse_topology("ring:5"), collective("all-to-all", 5))
    return METHODS["mcf"].synthesize(problem, METHODS["mcf"].options(), np.random.default_rng(0))


def with_bound(schedule, **changes):
    (own,) = schedule.stats["bounds"]
    return schedule.replace(stats={"bounds": [replace(own, **changes)]})


def test_a_bound_that_came_with_its_certificate_counts_where_it_is_larger(flow):
    (own,) = own_bounds(flow)
    assert own.value == Fraction(3, 5 * 50 * 10**9)
    assert bound("1").or_better([own], MEGABYTE) == ProvenBound(own.value * MEGABYTE, "mcf")
    assert bound("12").or_better([own], MEGABYTE) == bound("12"), "equal ones: what was known before"
    assert bound("13").or_better([own], MEGABYTE) == bound("13")
    assert own_bounds(flow.replace(stats={})) == []


def test_a_bound_that_its_certificate_does_not_prove_is_an_error(flow):
    with pytest.raises(BoundError, match="the certificate proves"):
        own_bounds(with_bound(flow, value=Fraction(1)))


def test_a_bound_on_schedules_over_trees_is_none_on_all(flow):
    (own,) = flow.stats["bounds"]
    trees = {**own.certificate, "scope": "tree schedules"}
    assert own_bounds(with_bound(flow, certificate=trees)) == []
    anyone = {**own.certificate, "scope": "any schedule"}
    assert len(own_bounds(with_bound(flow, certificate=anyone))) == 1


@pytest.mark.parametrize(("clock", "slices"), [(Clock.FLOW, 16), (Clock.STEP, None)])
def test_a_row_says_how_many_slices_its_time_is_with(clock, slices):
    schedule, size = broadcast(5, clock), Fraction(6400)
    columns = time_columns(schedule, size, ProvenBound(Fraction(64), "cut"))
    assert columns["slices"] == slices


def row(method, gap, *, kind="heuristic", status="ok", options="", size=1000):
    """A result row whose bound is 2 us."""
    time = None if gap is None else 2 * (1 + gap)
    return {
        "topology": "ring:4",
        "collective": "allgather",
        "size_bytes": size,
        "method": method,
        "options": options,
        "kind": kind,
        "status": status,
        "bound_us": 2.0,
        "bound_kind": "cut",
        "time_us": time,
        "gap": gap,
    }


def gap_table(rows):
    table = GapTableBuilder()
    table.add(rows)
    return table.frame()


def only_line(rows):
    (line,) = gap_table(rows).to_dict("records")
    return line


def test_several_seeds_of_a_method_share_a_column_with_the_best():
    line = only_line([row("tacos", 0.5), row("tacos", 0.25), row("tacos", 0.75)])
    assert line["tacos"] == 0.25
    assert (line["best_us"], line["best_method"], line["best_gap"]) == (2.5, "tacos", 0.25)


def test_options_make_columns_of_their_own():
    line = only_line([row("tacos", 0.5, options="chunks=1"), row("tacos", 0.25, options="chunks=4")])
    assert (line["tacos chunks=1"], line["tacos chunks=4"]) == (0.5, 0.25)
    assert line["best_method"] == "tacos chunks=4"


def test_the_best_exact_value_stands_beside_the_best_of_all():
    exact = [
        row(name, gap, kind="exact") | {"exact_for": "bytes"} for name, gap in (("bfb", 1.0), ("bfb2", 0.5))
    ]
    line = only_line([*exact, row("ring", 0.25)])
    assert (line["bound_us"], line["bound_kind"]) == (2, "cut")
    assert (line["exact_us"], line["exact_method"], line["exact_for"]) == (3, "bfb2", "bytes")
    assert (line["best_us"], line["best_method"]) == (2.5, "ring")


def test_of_equals_the_first_is_best_and_others_than_ok_have_no_gap():
    rows = [row("a", 0.5), row("b", 0.5), row("c", None, status="unsupported")]
    line = only_line(rows)
    assert line["best_method"] == "a"
    assert line["c"] is None or line["c"] != line["c"]


def test_a_line_for_each_size_and_one_where_nothing_was_ok():
    table = gap_table([row("a", 0.5, size=1), row("a", None, status="failed", size=2)])
    assert table["size_bytes"].tolist() == [1, 2]
    assert table["best_method"].isna().tolist() == [False, True]


def test_gaps_are_to_the_largest_bound_that_any_method_proved():
    """2 us is the bound of all, and mcf proved 2.5: ring's 4 us are 60 % above it, mcf's own 2.75 us 10 %."""
    mcf = row("mcf", 0.1, kind="exact") | {"bound_us": 2.5, "bound_kind": "mcf", "time_us": 2.75}
    line = only_line([row("ring", 1.0), mcf])
    assert (line["bound_us"], line["bound_kind"]) == (2.5, "mcf")
    assert (line["ring"], line["mcf"]) == (4 / 2.5 - 1, 0.1)
    assert (line["best_method"], line["best_gap"]) == ("mcf", 0.1)

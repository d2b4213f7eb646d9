"""Who is the fastest at which size: switch-over points against crossings by hand, and by simulation."""

from fractions import Fraction

import numpy as np
import pytest

from tests.experiments.report.test_page import failed, report, row
from tutti.experiments.registry import METHODS
from tutti.experiments.report.results import Results
from tutti.experiments.report.standings import switch_overs
from tutti.schedules import Problem, collective
from tutti.schedules.cost import step_cost
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.text import parse_topology

KB = 1000
ALPHA, B = Fraction(1, 2), Fraction(100_000)
"""Of ring:4: us, and bytes/us of both links of a rank."""


def results(tmp_path, *rows):
    return Results.of(tmp_path, rows)


def cost(method, steps, factor, *sizes, **columns):
    """Return a row for each size, of a schedule on ring:4 that takes T_L alpha + T_B M/B."""
    return [
        row(
            topology="ring:4",
            collective="allreduce",
            size_bytes=size,
            method=method,
            time_us=float(steps * ALPHA + Fraction(factor) * size / B),
            tl_steps=steps,
            tb_factor=float(Fraction(factor)),
            tb_exact=str(factor),
            **columns,
        )
        for size in sizes
    ]


def plain(method, times, schedule="s", **columns):
    """Return rows of one schedule with these times by size, without a cost."""
    case = {"topology": "ring:4", "collective": "allreduce", "method": method, "schedule": schedule}
    return [case | {"size_bytes": size, "time_us": time} | columns for size, time in times.items()]


def story(found):
    """Return the methods and what stands between them."""
    (one,) = found
    told = []
    for part in one.stretches:
        told += [part.since] if part.since else []
        told.append(part.series.method)
    return told


def test_the_crossing_of_two_costs_is_exact(tmp_path):
    """2 steps and 2 M/B against 4 and 3/2: 1 us = M / (2 * 100 GB/s) at 200 KB."""
    rows = [*cost("latency", 2, 2, KB, 10**6), *cost("bandwidth", 4, "3/2", KB, 10**6)]
    found = list(switch_overs(results(tmp_path, *rows)))
    assert story(found) == ["latency", "200 KB", "bandwidth"]
    assert found[0].stretches[1].low == found[0].stretches[1].high == 200_000
    assert found[0].stretches[1].exact


def test_a_third_that_is_the_fastest_only_between_two_sizes_is_found(tmp_path):
    """Steps 1, 2, 4 and T_B 3, 2, 1 cross at alpha B = 50 KB and at 100 KB; the sizes run are far outside."""
    rows = [
        *cost("first", 1, 3, KB, 10**6),
        *cost("third", 4, 1, KB, 10**6),
        *cost("second", 2, 2, KB, 10**6),
    ]
    assert story(switch_overs(results(tmp_path, *rows))) == ["first", "50 KB", "second", "100 KB", "third"]


def test_times_that_are_not_the_cost_are_only_bracketed(tmp_path):
    rows = [*cost("latency", 2, 2, KB, 10**6), *cost("bandwidth", 5, "3/2", KB, 10**6)]
    early = [*rows[:3], rows[3] | {"time_us": rows[3]["time_us"] - 0.1}]
    assert story(switch_overs(results(tmp_path, *early))) == ["latency", "1KB to 1MB", "bandwidth"]


def test_three_times_of_one_schedule_on_a_line_are_a_line(tmp_path):
    """10 + M/1000 and 40 + M/4000 cross at 40 KB."""
    sizes = (10_000, 20_000, 60_000, 100_000)
    steep = plain("steep", {m: 10 + m / 1000 for m in sizes})
    flat = plain("flat", {m: 40 + m / 4000 for m in sizes})
    assert story(switch_overs(results(tmp_path, *steep, *flat))) == ["steep", "≈ 40 KB", "flat"]
    bent = plain("flat", {m: 40 + m / 4000 + (m - 50_000) ** 2 / 1e9 for m in sizes})
    assert story(switch_overs(results(tmp_path, *steep, *bent))) == ["steep", "20KB to 60KB", "flat"]
    other = [*flat[:2], *plain("flat", {m: 40 + m / 4000 for m in sizes[2:]}, schedule="t")]
    assert story(switch_overs(results(tmp_path, *steep, *other))) == ["steep", "20KB to 60KB", "flat"]
    piped = plain("flat", {m: 40 + m / 4000 for m in sizes}, slices=4.0)
    assert story(switch_overs(results(tmp_path, *steep, *piped))) == ["steep", "20KB to 60KB", "flat"]


def test_those_that_are_as_fast_are_no_switch(tmp_path):
    sizes = (KB, 10 * KB, 100 * KB)
    rows = [*cost("ring", 3, 1, *sizes), *cost("bfb", 3, 1, *sizes), *cost("slow", 9, 2, *sizes)]
    (one,) = switch_overs(results(tmp_path, *rows))
    assert [part.series.method for part in one.stretches] == ["ring"]
    assert [series.method for series in one.stretches[0].also] == ["bfb"]
    assert (one.alone.method, one.loss) == ("ring", "0")


def test_the_best_single_choice_loses_least_where_it_loses_most(tmp_path):
    """a is 4 times as slow at 1 MB, b twice at 1 KB; c, without a time at 1 MB, is no choice."""
    rows = [
        *plain("a", {KB: 1, 10**6: 40}),
        *plain("b", {KB: 2, 10**6: 10}),
        *plain("c", {KB: 1}),
        failed("timeout", topology="ring:4", collective="allreduce", size_bytes=10**6, method="c"),
    ]
    (one,) = switch_overs(results(tmp_path, *rows))
    assert (one.alone.method, one.loss) == ("b", "100")


@pytest.mark.parametrize(
    "rows", [[*cost("a", 1, 1, KB), *cost("b", 2, 1, KB)], cost("a", 1, 1, KB, 10**6), []]
)
def test_one_size_or_one_method_is_no_choice(tmp_path, rows):
    assert list(switch_overs(results(tmp_path, *rows))) == []


def test_swing_s_versions_are_equal_at_the_computed_size(tmp_path):
    """Both schedules, simulated at the crossing, take as long; below it the bandwidth-optimal is slower."""
    rows, schedules, network = [], [], parse_topology("torus:4x4")
    problem = Problem(network, collective("allreduce", 16))
    for version in ("bandwidth", "latency"):
        options = METHODS["swing"].options(version=version)
        schedule = METHODS["swing"].synthesize(problem, options, np.random.default_rng(0))
        schedules.append(schedule)
        cost_ = step_cost(schedule)
        rows += [
            row(
                topology="torus:4x4",
                collective="allreduce",
                size_bytes=size,
                method="swing",
                options=f"version={version}",
                time_us=simulate(schedule, Fraction(size)).time * 1e6,
                tl_steps=cost_.tl_steps,
                tb_exact=str(cost_.tb),
            )
            for size in (KB, 10**6)
        ]
    (one,) = switch_overs(results(tmp_path, *rows))
    at = one.stretches[1]
    assert (at.since, at.exact) == ("188.2 KB", True)
    slow, fast = (simulate(schedule, at.low).time for schedule in schedules)
    assert slow == pytest.approx(fast, rel=1e-12)
    slow, fast = (simulate(schedule, at.low * Fraction(9, 10)).time for schedule in schedules)
    assert slow > fast


def test_the_page_has_a_line_for_each_topology_and_collective(tmp_path):
    rows = [
        row(topology="ring:4", method=method, size_bytes=size, time_us=time)
        for method, size, time in [
            ("bfb", KB, 2.0),
            ("bfb", 10**6, 9.0),
            ("dbt", KB, 1.0),
            ("dbt", 10**6, 12.0),
        ]
    ]
    page = report(tmp_path, rows)
    (cells,) = page.table("The fastest by size")[1:]
    assert cells[2].replace(" ", "") == "1KBdbt│1KBto1MB│bfb1MB"
    assert cells[3:] == ["dbt", "33.3"]

"""Rails on machines whose switches multicast (and add): legal, done when planned, near the bound."""

import functools
from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.heuristics.rails import METHOD
from tutti.heuristics.rails.machines import MachineCosts, machines
from tutti.heuristics.rails.method import (
    SwitchDirection,
    can_aggregate,
    can_multicast,
    course_of,
    fastest_course,
    load_of,
    schedule_of_course,
)
from tutti.models.bounds import lower_bounds
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.text import parse_topology

GIGABYTE = 10**9


@functools.cache
def problem_of(text, size, kind="allreduce"):
    topology = parse_topology(text)
    return Problem(topology, collective(kind, topology.num_ranks), Fraction(size))


def made(text, size, kind="allreduce"):
    problem = problem_of(text, size, kind)
    found = machines(problem.topology)
    load = load_of(problem.topology, found, problem.size)
    course = fastest_course(load, adds=kind == "allreduce")
    return schedule_of_course(problem, found, load.shard, course), load


@for_each("kind", ["allreduce", "allgather"])
@for_each("size", [7, 100, 12_345, 10**6, 999_999_937])
@for_each("text", ["dgx_h100:2", "dgx_h100:3", "dgx_h100:5?rails=4", "dgx_h100:2?alpha=0us"])
def test_it_is_legal(text, size, kind):
    verify(made(text, size, kind)[0])


@pytest.mark.parametrize("kind", ["allreduce", "allgather"])
@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("size", [1000, 10**7, GIGABYTE])
def test_it_is_over_when_the_course_says(size, parts, kind, monkeypatch):
    """The simulator knows no course, only what waits for what on which link."""
    monkeypatch.setattr("tutti.heuristics.rails.method.PARTS", (parts,))
    monkeypatch.setattr("tutti.heuristics.rails.method.SHARES", (0.3,))
    monkeypatch.setattr("tutti.heuristics.rails.method.LEAST", (8.0,))
    schedule, load = made("dgx_h100:3", size, kind)
    verify(schedule)
    least = int(8 * load.adapter_alpha / load.adapter)
    course = course_of(load, 0.3, least, parts, adds=kind == "allreduce")
    assert simulate(schedule, size).time == pytest.approx(course.end, rel=1e-9)


def test_a_gigabyte_is_within_a_percent_of_the_partition_bound():
    """Adapters of four machines of 8 ranks send 2 x 3/4 M by 8 x 50 GB/s at least: 3.75 ms."""
    problem = problem_of("dgx_h100:4", GIGABYTE)
    schedule = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    verify(schedule)
    bounds = lower_bounds(problem.topology, problem.collective, problem.size)
    (bound,) = (bound for bound in bounds if bound.kind == "partition")
    assert float(bound.time(problem.size)) == pytest.approx(3.75e-3)
    assert 3.75e-3 < simulate(schedule, GIGABYTE).time <= 1.01 * 3.75e-3


def test_an_allreduce_of_one_part_by_hand():
    """Two machines of two ranks, shards of 100 units; an α of 3 s, and 1 s a unit by ports, 2 by adapters.

    Up 103, down 206, across by 206 + 203 + 3: gathered at 412. By then the own shard has been up and down,
    too. Across again from the end of gathering: 412 + 206, up 103, down 103.
    """
    course = course_of(MachineCosts(2, 2, 100, 1.0, 3.0, 2.0, 3.0), 1.0, 100, 1, adds=True)
    across = [
        (job.adds, start)
        for job, start in zip(course.jobs, course.start, strict=True)
        if job.direction is SwitchDirection.ACROSS
    ]
    assert across == [(True, 206), (False, 412)]
    assert course.end == 412 + 206 + 103 + 103


def test_an_allgather_of_one_part_by_hand():
    """Two machines of three ranks, shards of 100 units; an α of 3 s, and 1 s a unit by ports, 2 by adapters.

    Across first, 203 + 3; the own shard goes up, 103, and two come down as one message, 203. What came across
    goes up at 206, so that two come down from 309 on, when the own ones have.
    """
    course = course_of(MachineCosts(2, 3, 100, 1.0, 3.0, 2.0, 3.0), 1.0, 100, 1, adds=False)
    found = {(job.direction, job.hop): start for job, start in zip(course.jobs, course.start, strict=True)}
    up, down, across = SwitchDirection.UP, SwitchDirection.DOWN, SwitchDirection.ACROSS
    assert found == {(across, 1): 0, (up, 0): 0, (down, 0): 103, (up, 1): 206, (down, 1): 309}
    assert course.end == 309 + 203


@for_each("kind", ["allgather", "reduce-scatter"])
def test_one_message_from_all_is_faster_than_one_from_each(kind):
    """32 MB: over ports alone, without what switches hold, it takes 74 us."""
    problem = problem_of("dgx_h100:4", 32 * 10**6, kind)
    schedule = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    verify(schedule)
    assert simulate(schedule, problem.size).time < 70.3e-6


def test_ports_and_adapters_do_one_job_at_a_time_and_all_of_them():
    load = MachineCosts(3, 4, 1000, 1.0, 3.0, 9.0, 5.0)
    course = course_of(load, 0.3, 10, 4, adds=True)
    for direction, rate, alpha in (
        (SwitchDirection.UP, 1.0, 3.0),
        (SwitchDirection.DOWN, 1.0, 3.0),
        (SwitchDirection.ACROSS, 9.0, 5.0),
    ):
        free, units = 0.0, 0
        for job, start in zip(course.jobs, course.start, strict=True):
            if job.direction is direction:
                # What all others' shards are sent up for, or what comes down from all others, is three times.
                times = (
                    3
                    if (direction is SwitchDirection.UP and job.adds)
                    or (direction is SwitchDirection.DOWN and not job.adds)
                    else 1
                )
                assert start >= free - 1e-9
                free = start + alpha + times * rate * (job.high - job.low)
                units += times * (job.high - job.low)
        # Ports: 3 hops of 3 shards one way, of 1 the other. Adapters: 2 hops, twice.
        assert units == (4 * 1000 if direction is SwitchDirection.ACROSS else 12 * 1000)


@pytest.mark.parametrize(
    ("text", "able"), [("dgx_h100:2", True), ("dgx_a100:2", False), ("dgx_h100:17", False)]
)
def test_only_switches_that_add_and_multicast_do(text, able):
    """17 machines are more than are planned for."""
    topology = parse_topology(text)
    assert can_aggregate(topology, machines(topology)) == able
    assert can_multicast(topology, machines(topology)) == able


@pytest.mark.parametrize("size", [1000, 10**6, 32 * 10**6])
def test_the_faster_of_both_ways_is_kept(size):
    problem = problem_of("dgx_h100:3", size)
    best = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    verify(best)
    assert simulate(best, size).time <= simulate(made("dgx_h100:3", size)[0], size).time

"""The stages together: the second tries, within the time that is given."""

from fractions import Fraction

import numpy as np
import pytest

from tests.models.taccl.cases import CHUNK, MEGABYTE, SLOW, made, microseconds
from tutti.models.taccl import METHOD, routing, scheduling, stages
from tutti.schedules import Problem, collective
from tutti.topologies.errors import NoSchedule
from tutti.topologies.text import parse_topology


@pytest.mark.parametrize("kind", ["allgather", "allreduce"])
def test_all_solves_together_keep_the_limit(clock, monkeypatch, kind):
    """Each solver takes all its time; the symmetry costs time here, so solves are many, and chunks join."""
    given = []

    def slow(model, solver, options, start=None, real=routing.solve):
        given.append(options.time_limit)
        clock[0] += options.time_limit
        return real(model, solver, options, start=start)

    for module in (routing, scheduling):
        monkeypatch.setattr(module, "solve", slow)
    made("torus:4x4", kind, MEGABYTE, chunks=2, contiguity="all", time_limit=2, restarts=0)
    assert len(given) >= (3 if kind == "allgather" else 4)
    assert clock[0] <= 2 + 1e-9
    assert clock[0] == pytest.approx(sum(given))


@pytest.mark.parametrize("kind", ["allgather", "all-to-all", "reduce-scatter", "allreduce", "gather"])
def test_without_time_there_is_a_schedule_and_nothing_is_called_proven(kind):
    schedule = made("torus:4x4", kind, MEGABYTE, time_limit=1e-3)
    assert schedule.stats["solver"] == "none: no time for a program"
    assert schedule.stats["variables"] == 0
    assert schedule.stats["solver_gap"] is None


def test_a_first_routing_that_takes_too_long_is_given_up(clock, monkeypatch):
    """Each chunk takes a second, and none is begun after the limit."""

    def slow(costs, load, c, real=routing._tree):
        clock[0] += 1
        return real(costs, load, c)

    monkeypatch.setattr(routing, "_tree", slow)
    with pytest.raises(NoSchedule, match=r"^taccl: no routing on torus:4x4 in the time that is given"):
        made("torus:4x4", "all-to-all", MEGABYTE, symmetry=False, time_limit=3)
    assert clock[0] <= 4


def test_a_program_that_takes_longer_to_write_than_is_left_is_not_begun(clock, monkeypatch):
    """240 transfers at 0.4 ms; the clock stands still, so 0.05 s are left however long it takes."""

    def begun(model):
        pytest.fail("the program is written")

    monkeypatch.setattr(scheduling.SchedulingModel, "build", begun)
    schedule = made("torus:4x4", "allgather", MEGABYTE, contiguity="all", time_limit=0.05)
    assert schedule.stats["solver_gap"] is None


def test_a_symmetry_that_leaves_no_routing_is_left_out(monkeypatch):
    tried = []

    def only_plain(demand, limits, real=routing.route):
        tried.append(bool(demand.symmetry))
        if demand.symmetry:
            raise NoSchedule("taccl: none")
        return real(demand, limits)

    monkeypatch.setattr(stages, "route", only_plain)
    made("hypercube:3", "allgather", MEGABYTE)
    assert tried == [True, False]
    with pytest.raises(NoSchedule):  # what a sketch asks for is not left out
        made("ndv2:2", "allgather", MEGABYTE, sketch="ndv2-sk-1")


def test_a_symmetry_that_costs_time_is_left_out():
    """Each rank of torus:4x4 receives 30 halves over 4 links: 8 sends at least, 9 under the shifts."""
    schedule = made("torus:4x4" + SLOW, "allgather", chunks=2)
    send = 2 + CHUNK / 2 / 1000
    assert microseconds(schedule) == pytest.approx(8 * send, rel=1e-12)


def test_a_fixed_input_size_makes_one_schedule_for_all_sizes():
    """For any size asked for, it is the schedule that is made for that size without the option."""
    network, what = parse_topology("ring:4"), collective("allgather", 4)

    def made(size, **options):
        chosen = METHOD.options(contiguity="all", **options)
        problem = Problem(network, what, size)
        assert METHOD.size_dependent(problem, chosen) == ("input_size" not in options)
        return METHOD.synthesize(problem, chosen, np.random.default_rng(0))

    fixed = [made(Fraction(size), input_size="4MB") for size in (10**3, 10**9)]
    asked = made(Fraction(4 * 10**6))
    for schedule in fixed:
        assert schedule.size == 4 * 10**6
        assert np.array_equal(schedule.chunk, asked.chunk)
        assert np.array_equal(schedule.order, asked.order)

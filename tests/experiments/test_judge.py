"""What is said of a schedule: a gap to a proven bound, and what makes it impossible."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from experiments.judge import ProvenBound, own_bounds, time_columns
from experiments.registry import METHODS
from models.bounds import BoundError
from schedules import Problem, collective
from topologies import TuttiError
from topologies.text import parse_topology

MEGABYTE = Fraction(10**6)


@pytest.fixture
def direct():
    """Direct allgather on the complete network of 4: each link carries M/4 once, 0.5 us + 5 us at 1 MB."""
    topology, method = parse_topology("complete:4"), METHODS["direct"]
    problem = Problem(topology, collective("allgather", 4))
    return method.synthesize(problem, method.options(), np.random.default_rng(0))


def bound(microseconds: str) -> ProvenBound:
    return ProvenBound(Fraction(microseconds) / 10**6, "cut")


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

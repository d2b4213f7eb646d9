"""What is said of a schedule: a gap to a proven bound, and what makes it impossible."""

from fractions import Fraction

import numpy as np
import pytest

from experiments.judge import ProvenBound, time_columns
from experiments.registry import METHODS
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

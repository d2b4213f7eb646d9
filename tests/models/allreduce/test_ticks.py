"""Allreduces whose shortest and longest messages lie far apart: a flow, where one clock can't count both."""

from fractions import Fraction

import numpy as np
import pytest

from experiments.methods.best import portfolio
from experiments.registry import METHODS
from models.bounds import best_bound
from schedules import Problem, collective
from schedules.message_durations import REACH, FarApartError, check_reach
from schedules.simulation.simulate import simulate
from schedules.verify import verify
from tests.sweep import for_each
from topologies.text import parse_topology
from topologies.topology import Link, Topology


def ring(*speeds):
    """Return a ring of four, links both ways, of these bandwidths in turn."""
    ends = [(0, 1), (1, 2), (2, 3), (3, 0)]
    rates = [Fraction(speeds[i % len(speeds)]) for i in range(4)]
    links = [Link(a, b, rate, Fraction(0)) for (a, b), rate in zip(ends, rates, strict=True)]
    links += [Link(b, a, rate, Fraction(0)) for (a, b), rate in zip(ends, rates, strict=True)]
    return Topology.from_links("ring of two speeds", 4, links)


CASES = [
    (parse_topology("mesh:2x3?alpha=0us,1000s"), 1),
    (parse_topology("mesh:2x3?alpha=0us,1000000s"), 1000),
    (parse_topology("mesh:2x3?alpha=0.001us,1000s"), 1),
    (ring(1, 10**12), 1),
    (ring(1, 10**12), 10**9),
    (ring(10**3, 10**15), 10**6),
]


@pytest.mark.parametrize("name", ["allreduce_trees", "allreduce_lp"])
@for_each(("topology", "size"), CASES)
def test_what_one_clock_can_not_count_is_a_flow_or_right(name, topology, size):
    method, what = METHODS[name], collective("allreduce", topology.num_ranks)
    made = method.synthesize(
        Problem(topology, what, Fraction(size)), method.options(), np.random.default_rng(0)
    )
    verify(made)
    bound = best_bound(topology, what, Fraction(size))
    assert simulate(made, Fraction(size)).time >= float(bound.time(Fraction(size))) * (1 - 1e-9)


def test_a_clock_reaches_so_far():
    check_reach(REACH / 2, Fraction(1, 3))
    with pytest.raises(FarApartError):
        check_reach(1.0, REACH)


def test_a_fault_in_one_method_does_not_end_the_portfolio():
    def falls(problem, options, rng):
        raise OverflowError("too large to convert")

    broken = METHODS["bfb"]
    broken = type(broken)(
        name="ring",
        kind="heuristic",
        synthesize=falls,
        options=broken.options,
        summary="falls",
    )
    method = portfolio({"ring": broken, "direct": METHODS["direct"]})
    task = Problem(parse_topology("ring:4"), collective("allgather", 4), Fraction(1000))
    found = method.synthesize(task, method.options(gap=0), np.random.default_rng(0))
    assert found.stats["algorithm"] == "direct"
    assert found.stats["tried"][0].why == "a fault: OverflowError: too large to convert"

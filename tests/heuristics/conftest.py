"""Fixtures that the tests of plain algorithms share."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.text import parse_topology


@pytest.fixture
def made():
    """Return a function that makes and verifies a method's schedule."""

    def make(method, text, kind="allgather", size=None, options=None, **details):
        topology = parse_topology(text)
        what = collective(kind, topology.num_ranks, **details)
        problem = Problem(topology, what, None if size is None else Fraction(size))
        chosen = method.options(**(options or {}))
        method.supports(problem, chosen)
        schedule = method.synthesize(problem, chosen, np.random.default_rng(0))
        verify(schedule)
        return schedule

    return make


@pytest.fixture
def seconds():
    """Return a function that simulates a schedule."""
    return lambda schedule, size: simulate(schedule, Fraction(size)).time

"""Random problems: what a method declares it does, or refuses in a sentence; the search would notice."""

from fractions import Fraction

import numpy as np
import pytest

from tests import random_problems
from tests.experiments import zoo
from tests.random_problems import GOOD, MOST_BASE, Case, attempt, drawn, of_family
from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.schedules import Problem, collective
from tutti.topologies import parse_topology
from tutti.topologies.text import FAMILIES

QUICK = [
    "list_scheduling",
    *(name for name, method in METHODS.items() if not hasattr(method.options(), "time_limit")),
]
"""The others start solvers or search as long as they may: a long run of `random_problems` has them."""


@for_each("seed", range(25))
def test_a_method_does_what_it_supports_or_refuses_by_an_error_of_its_own(seed):
    case = drawn(seed, QUICK)
    result = attempt(case)
    assert result.outcome in GOOD, f"{result.text}: {case}"


@for_each("name", FAMILIES)
def test_every_family_is_drawn(name):
    topology = of_family(name, np.random.default_rng(0))
    assert topology.name.startswith(name)
    assert topology.num_ranks <= MOST_BASE


@pytest.mark.parametrize(
    ("name", "outcome"),
    [("good", "verified"), ("liar", "illegal"), ("crash", "fault"), ("hopeless", "NoSchedule")],
)
def test_what_a_method_does_wrong_is_noticed(name, outcome, monkeypatch):
    monkeypatch.setattr(random_problems, "METHODS", zoo.METHODS)
    problem = Problem(parse_topology("ring:4"), collective("allgather", 4), Fraction(1000))
    assert attempt(Case(0, name, problem, {})).outcome == outcome

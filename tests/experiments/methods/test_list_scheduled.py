"""The method `listed`: nearer to the bound by trees in epochs; its options and what it refuses."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.experiments.registry import METHODS
from tutti.models.bounds import best_bound
from tutti.schedules import Problem, collective
from tutti.schedules.list_scheduling import list_schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Unsupported
from tutti.topologies.text import parse_topology

GIGABYTE = Fraction(10**9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_limit": "0s"}, "list_scheduling option time_limit is '0s'; it must be positive"),
        (
            {"base_methods": "forestcoll"},
            "list_scheduling option base_methods is 'forestcoll'; it must be a list of names",
        ),
        ({"base_methods": ()}, "list_scheduling option base_methods is \\(\\); it must be a list of names"),
    ],
)
def test_bad_options_are_one_line(options, message):
    with pytest.raises(InputError, match=message):
        METHODS["list_scheduling"].options(**options)


def test_an_unknown_method_is_named():
    topology = parse_topology("ring:4")
    problem = Problem(topology, collective("allgather", 4), GIGABYTE)
    method = METHODS["list_scheduling"]
    with pytest.raises(InputError, match="unknown method 'forestcol'; did you mean 'forestcoll'"):
        method.supports(problem, method.options(base_methods=("forestcol",)))


def test_what_no_method_makes_is_unsupported():
    topology = parse_topology("ring:4")
    problem = Problem(topology, collective("all-to-all", 4), GIGABYTE)
    method = METHODS["list_scheduling"]
    with pytest.raises(Unsupported, match="list_scheduling: forestcoll does"):
        method.supports(problem, method.options())


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("fat_tree:4,2,2,2", collective("reduce-scatter", 8)),
        ("fat_tree:4,2,2,2", collective("allreduce", 8)),
        ("dgx2:2?ranks=3+3", collective("reduce", 6, groups=[[0, 1, 3, 4]])),
    ],
)
def test_sums_are_legal_over_links_of_unlike_bandwidth(text, what, clock):
    method = METHODS["list_scheduling"]
    problem = Problem(parse_topology(text), what, Fraction(10**6))
    verify(method.synthesize(problem, method.options(time_limit="2s"), np.random.default_rng(0)))


def test_trees_in_epochs_bring_a_network_nearer_to_its_bound_than_lists_do(clock):
    topology = parse_topology("dgx1")
    problem = Problem(topology, collective("allgather", 8), GIGABYTE)
    method = METHODS["list_scheduling"]
    made = method.synthesize(
        problem, method.options(base_methods=("forestcoll",), time_limit="2s"), np.random.default_rng(0)
    )
    verify(made)
    forestcoll = METHODS["forestcoll"]
    flow = forestcoll.synthesize(problem, forestcoll.options(), np.random.default_rng(0))
    flow_alone = list_schedule(flow, GIGABYTE, seconds=1.0)
    bound = float(best_bound(topology, problem.collective, GIGABYTE).time(GIGABYTE))
    assert simulate(made, GIGABYTE).time < simulate(flow_alone, GIGABYTE).time
    assert simulate(made, GIGABYTE).time <= 1.005 * bound

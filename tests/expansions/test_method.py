"""The method `expansion`: what it refuses, and that its schedules cost what the theorems say."""

import numpy as np
import pytest

from tutti.expansions import METHOD
from tutti.expansions.method import expanded
from tutti.schedules import Problem, collective
from tutti.schedules.cost import step_cost
from tutti.topologies import InputError, NoSchedule, Unsupported, parse_topology
from tutti.topologies.families.expressions import parse_notation


def test_a_network_without_expression_is_unsupported():
    problem = Problem(parse_topology("ring:4"), collective("allgather", 4))
    with pytest.raises(Unsupported, match=r"expansion needs a network in the papers' notation.*ring:4"):
        METHOD.supports(problem, METHOD.options())


def test_degree_expansion_of_self_loops_is_refused():
    with pytest.raises(InputError, match="self-loops"):
        parse_topology("Pi_{2,5} * 2")


@pytest.mark.parametrize(
    ("text", "rows"),
    [("C(512,{15,16}) * 24", r"1\d{8}"), ("C(128,{7,8})^2", r"5\d{8}")],
)
def test_a_schedule_of_too_many_transfers_is_refused_before_it_is_made(text, rows):
    with pytest.raises(NoSchedule, match=rf": {rows} transfers; at most 100000000$"):
        expanded(parse_notation(text))


def test_a_schedule_of_too_many_pairs_is_refused_before_that_of_a_part_is_made():
    topology = parse_topology("L(Pi_{4,8192})")
    problem = Problem(topology, collective("allgather", topology.num_ranks))
    with pytest.raises(NoSchedule, match=r"^expansion on .*: 1073709056 transfers; at most 100000000$"):
        METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
@pytest.mark.parametrize(
    "text", ["L(K_{2,2})", "UniRing(1,4)*2", "K_3*2", "L(K_{4,4})", "BiRing(2,4) x UniRing(1,3)", "Diamond^2"]
)
def test_the_predicted_cost_is_that_of_the_schedule(text, kind):
    """Theorems 7 and 10 to 13, against the cost that is counted of the schedule's transfers."""
    problem = Problem(parse_topology(text), collective(kind, parse_topology(text).num_ranks))
    made = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    cost = step_cost(made)
    assert made.stats["prediction"] == "equal"
    assert (cost.tl_steps, cost.tb) == (made.stats["predicted_tl"], made.stats["predicted_tb"])


def test_a_base_has_no_prediction():
    problem = Problem(parse_topology("K_{4,4}"), collective("allgather", 8))
    made = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    assert "predicted_tl" not in made.stats

"""The method `expansion`: what it refuses."""

import numpy as np
import pytest

from tutti.expansions import METHOD
from tutti.expansions.method import expanded
from tutti.schedules import Problem, collective
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

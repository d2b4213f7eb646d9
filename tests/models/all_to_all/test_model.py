"""The Pyomo model of (A.1): it reads like the paper and has the optimum that is proven."""

from fractions import Fraction

import pyomo.environ as pyo
import pytest

from tutti.models.all_to_all import Demand
from tutti.models.all_to_all.model import flow_model
from tutti.models.all_to_all.optimum import num_variables, solve_by_model
from tutti.models.solvers import solve
from tutti.topologies import Link, Topology, parse_topology

NEAR = 1e-7
"""Relative: the oracles are floating-point LPs."""


def test_constraints_are_the_papers_two_families():
    model = flow_model(Demand.uniform(parse_topology("dgx_a100:1?ranks=3")))
    families = {family.local_name: len(family) for family in model.component_objects(pyo.Constraint)}
    assert families == {
        "load_within_capacity": 6,  # a link to the switch and one back, for each of 3 ranks
        "node_gets_its_demand": 3 * 3,  # for each source 2 ranks and the switch
    }


def test_a_flow_on_a_line_is_written_as_in_the_paper():
    """0 -> 1 -> 2: rank 1 keeps f of what comes from 0, and the link that leaves it shares two flows."""
    one_way = [
        Link(0, 1, Fraction(1)),
        Link(1, 2, Fraction(1)),
        Link(2, 0, Fraction(1)),
        Link(2, 1, Fraction(1)),
    ]
    model = flow_model(Demand.uniform(Topology.from_links("line", 3, one_way)))
    assert str(model.node_gets_its_demand[0, 1].expr) == "f + y[0,1]  <=  y[0,0] + y[0,3]"
    assert str(model.load_within_capacity[1].expr) == "y[0,1] + y[1,1] + y[2,1]  <=  1.0"


@pytest.mark.parametrize("text", ["gen_kautz:4,24", "dgx_a100:1", "mesh:3x3?bandwidth=50GB/s,25GB/s"])
def test_the_papers_model_has_the_optimum_that_is_proven(text):
    """Its time is 1 / f in units of the largest demand over the largest bandwidth."""
    topology = parse_topology(text)
    demand = Demand.uniform(topology)
    result = solve(flow_model(demand))
    time = Fraction(1, topology.num_ranks) / max(topology.bandwidth) / Fraction(result.objective)
    interval = solve_by_model(demand).interval
    assert float(interval.lower) * (1 - NEAR) <= float(time) <= float(interval.upper) * (1 + NEAR)
    assert result.columns == num_variables(demand)

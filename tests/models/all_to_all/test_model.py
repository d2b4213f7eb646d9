"""The Pyomo model of (A.1): it reads like the paper and has the optimum that is proven."""

from fractions import Fraction

import pyomo.environ as pyo
import pytest

from tutti.models.all_to_all import Demand
from tutti.models.all_to_all.model import flow_model
from tutti.models.all_to_all.optimum import num_variables, solve_by_model
from tutti.models.all_to_all.orbits import solve_by_orbits
from tutti.models.solvers import solve
from tutti.schedules import collective
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
    assert str(model.node_gets_its_demand[0, 1].expr) == "d[0,1]*f + y[0,1]  <=  y[0,0] + y[0,3]"
    assert str(model.load_within_capacity[1].expr) == "y[0,1] + y[1,1] + y[2,1]  <=  b[1]"


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


def is_proven(rate, demand):
    """Whether f is what the program reduced by symmetry proves, in integers."""
    interval = solve_by_orbits(demand).interval
    unit = Fraction(int(demand.amounts.max()), demand.denominator) / max(demand.topology.bandwidth)
    least, most = (float(unit / time) for time in (interval.upper, interval.lower))
    return least * (1 - 1e-6) <= rate <= most * (1 + 1e-6)


@pytest.mark.parametrize("text", ["mesh:3x3", "switch2d:2x2"])
def test_a_model_is_cloned_and_solved_again_with_other_bandwidths(text):
    fast, slow = (Demand.uniform(parse_topology(t)) for t in (text, f"{text}?bandwidth=50GB/s,20GB/s"))
    model, scratch = flow_model(fast), flow_model(slow)
    again = model.clone()
    again.find_component("b").store_values(scratch.b.extract_values())
    found = solve(again).objective
    assert found == pytest.approx(solve(scratch).objective, rel=NEAR)
    assert is_proven(found, slow)
    assert is_proven(solve(model).objective, fast), "the model that was cloned stays as it is"


def test_a_model_is_cloned_and_solved_again_with_other_demands():
    """Of an all-to-all only what rank 1 sends is left: a scatter."""
    topology = parse_topology("mesh:3x3")
    scatter = Demand.of(topology, collective("scatter", 9, root=1))
    again = flow_model(Demand.uniform(topology)).clone()
    for s, u in again.d:
        again.d[s, u] = float(s == 1 != u)
    found = solve(again).objective
    assert found == pytest.approx(solve(flow_model(scatter)).objective, rel=NEAR)
    assert is_proven(found, scatter)
    assert found == pytest.approx(3 / 8), "8 ranks behind 3 links"

"""TACCL's routing program as printed has the optimum of ours; its data can be changed and solved again."""

import pyomo.environ as pyo
import pytest

from tests.models.taccl.cases import LISTING_1, demand, written
from tutti.models.taccl.costs import Costs
from tutti.models.taccl.printed_model import printed_routing
from tutti.models.taccl.routing import route
from tutti.models.taccl.solving import StageLimits

NETWORKS = ("ring:4", "mesh:2x3?bandwidth=50GB/s,25GB/s", "gen_kautz:2,5", "complete:3")


def optimum(model):
    pyo.SolverFactory("appsi_highs").solve(model)
    return pyo.value(model.time)


@pytest.mark.parametrize("symmetry", [False, True])
@pytest.mark.parametrize("kind", ["allgather", "all-to-all"])
@pytest.mark.parametrize("network", NETWORKS)
def test_the_optimum_is_that_of_the_model_that_is_solved(network, kind, symmetry):
    problem = demand(network, kind, symmetry=symmetry)
    ours = route(problem, StageLimits(gap=1e-6)).time / Costs(problem).unit
    assert optimum(printed_routing(problem)) == pytest.approx(ours, rel=1e-6)


def test_through_switches_the_printed_program_counts_latencies_on_ports_and_is_no_less(tmp_path):
    """(7) and (8) sum lat, α included; ours sums for how long a transfer holds a port."""
    document = {
        **LISTING_1,
        "intranode_sketch": {
            "strategy": "switch",
            "switches": [[0, 1]],
            "switch_hyperedge_strategy": ["uc-min"],
        },
        "internode_sketch": {
            "strategy": "relay",
            "internode_conn": {"0": [0, 1]},
            "beta_split": {"0": 1},
        },
        "symmetry_offsets": [[2, 4]],
    }
    problem = demand("dgx_a100:2?ranks=2+2", sketch=written(tmp_path, document), symmetry=True)
    ours = route(problem, StageLimits(gap=1e-6)).time / Costs(problem).unit
    assert optimum(printed_routing(problem)) >= ours - 1e-6


def test_a_model_is_cloned_and_solved_again_with_other_latencies():
    """A ring of 4 with all transfers twice as long takes twice as long."""
    model = printed_routing(demand("ring:4"))
    before = optimum(model)
    slower = model.clone()
    for k in slower.L:
        slower.lat[k] = 2 * pyo.value(slower.lat[k])
    slower.horizon = 2 * pyo.value(slower.horizon)
    assert optimum(slower) == pytest.approx(2 * before)
    assert pyo.value(model.time) == before

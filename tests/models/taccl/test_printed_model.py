"""TACCL's routing program as printed has the optimum of ours; its data can be changed and solved again."""

import pytest

from tests.models.taccl.cases import LISTING_1, demand, written
from tutti.models.solvers import solve
from tutti.models.taccl.costs import Costs
from tutti.models.taccl.printed_model import printed_routing
from tutti.models.taccl.routing import route
from tutti.models.taccl.solving import StageLimits

NETWORKS = ("ring:4", "mesh:2x3?bandwidth=50GB/s,25GB/s", "gen_kautz:2,5", "complete:3")


def optimum(model):
    return solve(model).value(model.time)


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


@pytest.mark.parametrize("kind", ["allgather", "all-to-all"])
def test_a_model_is_cloned_and_solved_again_with_other_latencies(kind):
    """As of a network whose links differ, or for another size of chunks."""
    alike, apart = (demand(text, kind) for text in ("mesh:2x3", NETWORKS[1]))
    model, scratch = printed_routing(alike), printed_routing(apart)
    before, again = optimum(model), model.clone()
    for name in ("lat", "horizon"):
        again.find_component(name).store_values(scratch.find_component(name).extract_values())
    found = optimum(again)
    assert found == pytest.approx(optimum(scratch), rel=1e-6)
    assert found == pytest.approx(route(apart, StageLimits(gap=1e-6)).time / Costs(apart).unit, rel=1e-6)
    assert found > before == optimum(model), "the model that was cloned stays as it is"

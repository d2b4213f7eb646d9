"""Linear program (B.5) as a Pyomo model: solved as it stands, proven, and equal to what its cuts have."""

import time
from fractions import Fraction

import pyomo.environ as pyo
import pytest

from tests.models.allreduce.oracles import random_network
from tests.models.far_apart import far_apart
from tests.topologies.eulerian import random_eulerian
from tutti.models.allreduce import allreduce_optimum
from tutti.models.allreduce.model import allreduce_model
from tutti.models.allreduce.optimum import MOST_VARIABLES, num_variables
from tutti.models.bounds import Bound
from tutti.models.solvers import GlopOptions, HighsOptions, compile_model, solve
from tutti.schedules import collective
from tutti.topologies import NoSchedule, Unsupported
from tutti.topologies.text import parse_topology

REFERENCE = [
    "ring:5",
    "mesh:3x3",
    "mesh:2x3?bandwidth=50GB/s,25GB/s",
    "dgx1",
    "gen_kautz:2,9",
    "switch2d:2x2",
]
FAMILIES = {
    *("broadcast_flow_arrives", "broadcast_within_roots", "broadcast_within_capacity"),
    "halves_share_the_bandwidth",
    *("reduce_flow_arrives", "reduce_flow_conserved", "reduce_within_roots", "reduce_within_capacity"),
}
INDIRECT = {"pair_gets_its_flow", "flow_within_bandwidth"}


def test_its_families_of_constraints_are_those_of_the_paper():
    for text, shared in (("ring:4", set()), ("dgx_a100:1", INDIRECT)):
        model = allreduce_model(parse_topology(text))
        assert {family.local_name for family in model.component_objects(pyo.Constraint)} == FAMILIES | shared


def test_bandwidths_stand_in_it_as_in_the_paper():
    direct, indirect = (allreduce_model(parse_topology(text)) for text in ("ring:4", "dgx_a100:1?ranks=2"))
    assert str(direct.halves_share_the_bandwidth[0].expr) == "c_re[0] + c_bc[0]  <=  b[0]"
    assert str(indirect.halves_share_the_bandwidth[0].expr) == "c_re[0] + c_bc[0]  <=  b_prime[0]"
    assert str(indirect.flow_within_bandwidth[3].expr) == "h[0,3] + h[1,3]  <=  b[3]"


@pytest.mark.parametrize("text", ["mesh:2x3", "torus:3x3", "switch2d:2x2"])
def test_a_model_is_cloned_and_solved_again_with_other_bandwidths(text):
    fast, slow = (parse_topology(t) for t in (text, f"{text}?bandwidth=50GB/s,20GB/s"))
    model, scratch = allreduce_model(fast), allreduce_model(slow)
    again = model.clone()
    again.find_component("b").store_values(scratch.b.extract_values())
    found = solve(again).objective
    assert found == pytest.approx(solve(scratch).objective, rel=1e-7)
    for topology, rate in ((slow, found), (fast, solve(model).objective)):  # which stays as it was
        proven = allreduce_optimum(topology, by="cuts")
        assert proven.exact
        assert rate == pytest.approx(float(1 / (proven.upper * max(topology.bandwidth))), rel=1e-7)


def test_its_size_is_known_before_it_is_built():
    for text in REFERENCE:
        topology = parse_topology(text)
        assert num_variables(topology) == compile_model(allreduce_model(topology)).num_columns


@pytest.mark.parametrize("text", [*REFERENCE, "mesh:4x4", "dgx_a100:1", "torus:3x3?drop_links=0-1"])
def test_both_ways_have_one_optimum_in_equal_fractions(text):
    topology = parse_topology(text)
    model, cuts = (allreduce_optimum(topology, by=by) for by in ("model", "cuts"))
    assert model.lower == model.upper == cuts.lower == cuts.upper
    assert model.effort.variables == num_variables(topology)


def test_both_ways_agree_on_random_networks():
    for seed in range(25):
        for topology in (random_network(seed), random_eulerian(seed)):
            model, cuts = (allreduce_optimum(topology, by=by) for by in ("model", "cuts"))
            assert model.lower == model.upper == cuts.lower == cuts.upper, (seed, topology.name)


@pytest.mark.parametrize("text", ["mesh:3x3", "dgx_a100:1?ranks=4"])
@pytest.mark.parametrize("digits", [9, 15])
def test_its_interval_holds_the_optimum_however_far_apart_bandwidths_are(text, digits):
    topology = far_apart(text, digits)
    model, cuts = (allreduce_optimum(topology, by=by) for by in ("model", "cuts"))
    assert cuts.exact
    assert model.lower <= cuts.lower <= model.upper


@pytest.mark.parametrize("text", ["mesh:3x3", "switch2d:2x2"])
def test_cuts_and_lengths_of_its_duals_are_a_certificate(text):
    topology = parse_topology(text)
    proof = allreduce_optimum(topology, by="model").proof
    certificate = {"scope": "tree schedules", **proof.document()}
    Bound("lp", proof.value, "s/B", certificate).check(topology, collective("allreduce", topology.num_ranks))


@pytest.mark.parametrize(
    ("solver", "options"),
    [("glop", GlopOptions()), ("highs", HighsOptions(method="ipm", crossover=False))],
    ids=["glop", "ipm"],
)
def test_without_a_basis_its_interval_holds_the_optimum(solver, options):
    for text in ("mesh:3x3", "switch2d:2x2"):
        topology = parse_topology(text)
        found = allreduce_optimum(topology, solver=solver, options=options, by="model")
        assert found.lower <= allreduce_optimum(topology, by="cuts").lower <= found.upper
        assert found.gap < 1e-3


@pytest.mark.parametrize("n", [2, 3])
def test_on_a_square_mesh_it_takes_what_the_partition_into_single_ranks_says(n):
    # 2 (n^2 - 1) transfers of each byte over 4 n (n - 1) links.
    rate = solve(allreduce_model(parse_topology(f"mesh:{n}x{n}"))).objective
    assert 1 / rate == pytest.approx(2 * (n * n - 1) / (4 * n * (n - 1)), rel=1e-7)


def test_what_takes_too_long_is_refused_before_it_is_built(monkeypatch):
    monkeypatch.setattr("tutti.models.allreduce.model.allreduce_model", None)
    words = (
        r"^allreduce_lp on torus:10x10: linear program \(B.5\) has 100,900 variables, .* time limit is 1 s$"
    )
    with pytest.raises(Unsupported, match=words):
        allreduce_optimum(parse_topology("torus:10x10"), time_limit=1.0, by="model")
    with pytest.raises(Unsupported, match=r"torus:8x8: .* has 41,536 variables, about 1.7e\+02 s to build"):
        allreduce_optimum(parse_topology("torus:8x8"), time_limit=60.0, by="model")


def test_cuts_get_what_the_model_leaves_of_the_time(monkeypatch):
    given = []

    def model(topology, solver, options, time_limit):
        given.append(time_limit)
        time.sleep(0.5)
        raise NoSchedule("the time is over")

    def cuts(search):
        given.append(search.left)

    monkeypatch.setattr("tutti.models.allreduce.optimum._optimum_by_model", model)
    monkeypatch.setattr("tutti.models.allreduce.optimum._CutSearch.optimum", cuts)
    allreduce_optimum(parse_topology("mesh:3x3"), time_limit=10.0)
    assert given[0] == 5
    assert 0 < given[1] <= 9.5


def test_it_is_solved_by_default_up_to_a_size_and_the_cuts_beyond():
    small, large = parse_topology("mesh:3x3"), parse_topology("torus:5x5")
    assert num_variables(small) <= MOST_VARIABLES < num_variables(large)
    assert allreduce_optimum(small).effort.program == "linear program (B.5)"
    assert allreduce_optimum(large).effort.program == "linear program (B.5), by its cuts"


def test_where_it_is_not_exact_the_cuts_go_on_by_default():
    topology = parse_topology("mesh:3x3")
    stopped = HighsOptions(iteration_limit=0, presolve=False)
    with pytest.raises(NoSchedule, match="stopped with 'iteration limit' before anything was proven"):
        allreduce_optimum(topology, options=stopped, by="model")
    inexact = allreduce_optimum(topology, options=HighsOptions(method="ipm", crossover=False))
    assert inexact.effort.program == "linear program (B.5), by its cuts"
    assert inexact.lower <= Fraction(2, 3) / (50 * 10**9) <= inexact.upper

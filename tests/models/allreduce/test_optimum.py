"""The optimum of (B.5) by its cuts: that of dense programs over all trees, and over all cuts and routes."""

from fractions import Fraction

import pytest

from tests.models.allreduce.oracles import random_network, rate_by_all_cuts, rate_by_all_trees
from tests.topologies.eulerian import random_eulerian
from tutti.models.allreduce import allreduce_optimum, optimum
from tutti.models.bounds import lower_bounds
from tutti.models.bounds.bottleneck_cut import bottleneck_cut
from tutti.models.solvers import GlopOptions, HighsOptions, solve
from tutti.schedules import collective
from tutti.topologies import NoSchedule, Topology
from tutti.topologies.text import parse_topology

GB = 10**9
ALIKE = 1e-9
"""Relative: between a solver's doubles and exact numbers."""


def partition_of(topology: Topology) -> Fraction:
    bounds = lower_bounds(topology, collective("allreduce", topology.num_ranks))
    return next(bound.value for bound in bounds if bound.kind == "partition")


@pytest.mark.parametrize("by", ["model", "cuts"])
def test_the_optimum_is_that_of_a_dense_program_over_all_trees(by):
    for seed in range(12):
        topology = random_network(seed)
        found = allreduce_optimum(topology, by=by)
        assert found.exact, seed
        assert float(1 / found.upper) == pytest.approx(rate_by_all_trees(topology), rel=ALIKE), seed


@pytest.mark.parametrize("by", ["model", "cuts"])
def test_the_optimum_is_that_of_a_dense_program_over_all_cuts_and_routes(by):
    for seed in range(25):
        topology = random_eulerian(seed)  # up to 6 ranks, 3 switches
        found = allreduce_optimum(topology, by=by)
        assert found.exact, seed
        assert float(1 / found.upper) == pytest.approx(rate_by_all_cuts(topology), rel=ALIKE), seed


@pytest.mark.parametrize("text", ["ring:8", "mesh:4x2", "hypercube:3", "dgx_a100:1"])
def test_eight_ranks_too(text):
    topology = parse_topology(text)
    found = allreduce_optimum(topology)
    assert float(1 / found.upper) == pytest.approx(rate_by_all_cuts(topology), rel=ALIKE)


@pytest.mark.parametrize(
    ("text", "ratio"),  # 1/x* of the allgather
    [
        ("dgx_a100:2", Fraction(3, 65)),  # 15 shards enter a GPU at 325 GB/s
        ("dgx_a100:4", Fraction(3, 25)),  # 24 shards enter a box at 200 GB/s
        ("mi250:2", Fraction(15, 166)),  # dissertation, Table 4.1
    ],
)
def test_the_platforms_cannot_beat_twice_the_allgather(text, ratio):
    topology = parse_topology(text)
    found = allreduce_optimum(topology)
    assert found.lower == found.upper == 2 * ratio / topology.num_ranks / GB


@pytest.mark.parametrize(
    ("side", "factor"), [(3, Fraction(2, 3)), (5, Fraction(3, 5)), (10, Fraction(11, 20))]
)
def test_meshes_gain_what_their_partition_allows(side, factor):
    topology = parse_topology(f"mesh:{side}x{side}?bandwidth=1GB/s")
    found = allreduce_optimum(topology)
    assert found.lower == found.upper == factor / GB


def test_random_networks_are_never_slower_than_two_allgathers_and_never_beat_the_partition():
    for seed in range(200):
        topology = random_eulerian(seed)
        found = allreduce_optimum(topology, by="cuts")
        assert found.lower == found.upper <= 2 * bottleneck_cut(topology).ratio / topology.num_ranks, seed
        assert found.lower >= partition_of(topology), seed


@pytest.mark.parametrize("text", ["mesh:3x3", "dgx_a100:2"])
@pytest.mark.parametrize(
    ("solver", "options"),
    [("glop", GlopOptions()), ("highs", HighsOptions(method="ipm", crossover=False))],
    ids=["glop", "ipm"],
)
def test_without_a_basis_an_interval_holds_the_optimum(text, solver, options):
    topology = parse_topology(text)
    found = allreduce_optimum(topology, solver=solver, options=options, by="cuts")
    best = allreduce_optimum(topology, by="cuts").lower
    assert found.lower <= best <= found.upper
    assert found.gap < 1e-5


def test_simple_fractions_are_recognised_without_a_basis(monkeypatch):
    monkeypatch.setattr(optimum, "basic_solution", lambda *_: None)
    assert allreduce_optimum(parse_topology("mesh:3x3"), by="cuts").exact


def test_what_was_proven_before_a_limit_counts(monkeypatch):
    """The second program is stopped before it starts, and the first one's answer is an interval."""
    calls = []

    def limited(model, solver, options, start):
        calls.append(model)
        stopped = HighsOptions(iteration_limit=0, presolve=False)
        return solve(model, solver, options if len(calls) == 1 else stopped, start=start)

    monkeypatch.setattr(optimum, "solve", limited)
    found = allreduce_optimum(parse_topology("dgx_a100:4"))
    assert len(calls) == 2
    assert found.lower <= Fraction(3, 400) / GB < found.upper


def test_limits_too_small_for_anything_are_said_so():
    words = (
        r"^allreduce_lp on mesh:3x3: highs stopped with 'iteration limit' before anything was proven; raise"
    )
    with pytest.raises(NoSchedule, match=words):
        allreduce_optimum(parse_topology("mesh:3x3"), options=HighsOptions(iteration_limit=0, presolve=False))

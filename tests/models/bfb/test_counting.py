"""The counted loads against brute force, closed forms and the dissertation's tables."""

import csv
from fractions import Fraction
from pathlib import Path

import pytest

from tests.models.bfb.networks import NETWORKS, densest, subproblems
from tests.sweep import for_each
from tutti.models.bfb import workloads
from tutti.topologies.text import parse_topology

REFERENCE = Path(__file__).parents[2] / "data" / "reference"

every_network = for_each("name", NETWORKS)


@every_network
def test_counting_gives_the_densest_set_of_every_subproblem(name):
    work = workloads(NETWORKS[name])
    for u, t, eligible in subproblems(NETWORKS[name]):
        assert work[u, t] == densest(eligible)


@for_each(
    "name",
    ["gen_kautz:4,64", "circulant:40,3,7,11", "mesh:5x6", "hypercube:6"],
)
def test_larger_networks_too(name):
    topology = parse_topology(name)
    work = workloads(topology)
    for u, t, eligible in subproblems(topology):
        assert work[u, t] == densest(eligible)


@for_each(
    "name",
    [
        "ring:7",
        "ring:8",
        "torus:4x4",
        "torus:3x5",
        "torus:2x3x4",
        "torus:6x7",
        "hypercube:5",
        "complete:9",
        "complete:40",  # 39 in-links: five bytes of eligible links, Newton's method
        "complete_bipartite:4",
        "complete_bipartite:17",
        "hamming:2,4",
        "circulant:16,3,4",
        "circulant:23,2,5",
        "circulant:36,4,5,7",
    ],
)
def test_symmetric_networks_are_bandwidth_optimal(name):
    """T_B = (N - 1) / N: Theorem 13 (products), sections A.6.1, A.6.3 and A.6.4 (the others)."""
    topology = parse_topology(name)
    assert workloads(topology).tb == Fraction(topology.num_ranks - 1, topology.num_ranks)


@pytest.mark.parametrize(("ranks", "exact"), [(64, Fraction(21, 16)), (1024, Fraction(341, 256))])
def test_generalized_kautz_graphs_have_the_printed_costs(ranks, exact):
    """Table A.1, rows Pi_{4,64} and Pi_{4,1024}."""
    topology = parse_topology(f"gen_kautz:4,{ranks}")
    work = workloads(topology)
    with (REFERENCE / "table_A1_pareto_d4.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if row["topology"] == f"Pi_{{4;{ranks}}}")
    assert work.tb == exact
    assert f"{float(work.tb):.3f}" == row["tb_mb"]
    assert work.steps == int(row["tl_alpha"])


def test_a_node_without_sources_at_some_distance_has_no_workload():
    work = workloads(NETWORKS["mesh:3x4"])
    assert work[0, work.steps] == Fraction(1, 2)  # the far corner's shard comes over both links
    assert work[5, work.steps] == 0

"""Allreduce with its flows written out, as the study solves it: against what cuts and partitions prove."""

import pytest

from models.allreduce_flows import allreduce_matrices
from models.allreduce_lp import allreduce_optimum
from models.solvers import solve
from topologies.text import parse_topology

NETWORKS = [
    "ring:3",
    "mesh:2x3?bandwidth=50GB/s,25GB/s",
    "torus:3x3",
    "gen_kautz:2,7",
    "mesh:3x3?drop_nodes=8",
    "dgx_a100:1",
    "switch2d:2x2",
]


@pytest.mark.parametrize("text", NETWORKS)
def test_allreduce_with_its_flows_written_out_is_what_cuts_prove(text):
    topology = parse_topology(text)
    optimum, fastest = allreduce_optimum(topology), max(topology.bandwidth)
    rate = solve(allreduce_matrices(topology)).objective
    assert float(1 / (optimum.upper * fastest)) * (1 - 1e-7) <= rate
    assert rate <= float(1 / (optimum.lower * fastest)) * (1 + 1e-7)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_allreduce_on_a_square_mesh_takes_what_the_partition_into_single_ranks_says(n):
    # 2 (n^2 - 1) transfers of each byte over 4 n (n - 1) links.
    rate = solve(allreduce_matrices(parse_topology(f"mesh:{n}x{n}"))).objective
    assert 1 / rate == pytest.approx(2 * (n * n - 1) / (4 * n * (n - 1)), rel=1e-7)

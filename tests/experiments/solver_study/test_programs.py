"""The linear programs of the study that are known exactly: each against a value found without it."""

import numpy as np
import pytest

from tests.experiments.solver_study.twins import routing_matrices, whole_matrices
from tutti.experiments.solver_study.instances import (
    routing_model,
    routing_optimum,
    whole_model,
    whole_optimum,
)
from tutti.models.solvers import compile_model, solve
from tutti.topologies.errors import Unsupported
from tutti.topologies.text import parse_topology

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
def test_the_routing_relaxation_is_the_bottleneck_cut(text):
    topology = parse_topology(text)
    exact = float(routing_optimum(topology))
    arrays, compiled = routing_matrices(topology), compile_model(routing_model(topology))
    shape = (arrays.num_columns, arrays.num_rows, arrays.num_nonzeros)
    assert shape == (compiled.num_columns, compiled.num_rows, compiled.num_nonzeros)
    assert solve(arrays).objective == pytest.approx(exact, rel=1e-7)
    assert solve(compiled).objective == pytest.approx(exact, rel=1e-7)


def test_the_routing_relaxation_of_small_networks_is_that_by_hand():
    # A rank of a ring of n gets n - 1 shards over 2 links; of a 2x3 mesh with half the bandwidth along its
    # second dimension, 4 ranks outside of an end pair send over 2 links of 1/2.
    assert routing_optimum(parse_topology("ring:5")) == 2
    assert routing_optimum(parse_topology("mesh:2x3?bandwidth=50GB/s,25GB/s")) == 4


@pytest.mark.parametrize("text", ["ring:5", "torus:4x4", "gen_kautz:2,7", "mesh:3x3", "complete_bipartite:3"])
def test_bfb_as_one_program_is_what_counting_says(text):
    topology = parse_topology(text)
    arrays, compiled = whole_matrices(topology), compile_model(whole_model(topology))
    shape = (arrays.num_columns, arrays.num_rows, arrays.num_nonzeros)
    assert shape == (compiled.num_columns, compiled.num_rows, compiled.num_nonzeros)
    exact = float(whole_optimum(topology))
    assert solve(arrays).objective == pytest.approx(exact, rel=1e-7)
    assert solve(compiled).objective == pytest.approx(exact, rel=1e-7)


def test_bfb_on_a_ring_of_five_takes_one_shard_in_each_of_two_steps():
    assert whole_optimum(parse_topology("ring:5")) == 2


def test_a_permuted_program_maps_back():
    model = routing_matrices(parse_topology("torus:2x3"))
    rows, columns = model.orders(3)
    result = solve(model.permuted(3))
    values = result.values[np.argsort(columns)]
    assert model.cost @ values == pytest.approx(result.objective)
    activity = np.zeros(model.num_rows)
    of_row = np.repeat(np.arange(model.num_rows), np.diff(model.starts))
    np.add.at(activity, of_row, model.value * values[model.index])
    assert (activity <= model.row_upper + 1e-6).all()
    assert (activity >= model.row_lower - 1e-6).all()
    assert sorted(rows) == list(range(model.num_rows))


@pytest.mark.parametrize("build", [whole_model, whole_optimum])
@pytest.mark.parametrize(
    ("text", "name"),
    [("mesh:2x3?bandwidth=50GB/s,25GB/s", "bandwidth"), ("mesh:2x3?alpha=1us,2us", "alpha")],
)
def test_the_whole_program_is_for_equal_links(build, text, name):
    with pytest.raises(Unsupported, match=rf"\(3\.1\) needs links of one .* has links of unequal {name}$"):
        build(parse_topology(text))

"""Recursive halving-doubling: closed forms on hypercubes and complete networks."""

from fractions import Fraction

import numpy as np
import pytest

from heuristics.rhd import METHOD
from schedules import NoOptions, Problem, collective
from schedules.cost import step_cost
from schedules.verify import verify
from topologies import Unsupported
from topologies.text import parse_topology


def rhd(text, kind="allgather", **details):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks, **details))
    return METHOD.synthesize(problem, NoOptions(), np.random.default_rng(0))


@pytest.mark.parametrize("dimension", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_on_a_hypercube_each_step_uses_one_of_d_links(dimension, kind):
    """log2 N steps; N - 1 shards of M/N pass, one link of B/d at a time: d (N - 1)/N M/B."""
    n = 2**dimension
    cost = step_cost(rhd(f"hypercube:{dimension}", kind))
    assert (cost.tl_steps, cost.tb) == (dimension, dimension * Fraction(n - 1, n))


def test_an_allreduce_is_halving_and_then_doubling():
    cost = step_cost(rhd("hypercube:3", "allreduce"))
    assert (cost.tl_steps, cost.tb) == (6, 6 * Fraction(7, 8))


def test_on_a_complete_network_each_step_uses_one_of_n_minus_1_links():
    assert step_cost(rhd("complete:8")).tb == 7 * Fraction(7, 8)


def test_distances_and_sizes_double():
    schedule = rhd("hypercube:3")
    for step, distance in ((1, 1), (2, 2), (3, 4)):
        now = schedule.order == step
        assert set((schedule.source ^ schedule.target)[now].tolist()) == {distance}
        assert now.sum() == 8 * distance


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
@pytest.mark.parametrize("text", ["ring:2", "ring:8", "mesh:4x1", "torus:4x4", "gen_kautz:2,8", "dgx_a100:1"])
def test_it_is_legal_for_any_power_of_two(text, kind):
    verify(rhd(text, kind))


def test_uneven_shards_are_legal():
    verify(rhd("ring:4", "allreduce", shards=[1, 0, 3, 5]))


def test_other_numbers_of_ranks_are_not_supported():
    with pytest.raises(Unsupported, match=r"^rhd needs a power of two ranks; torus:3x5 has 15$"):
        rhd("torus:3x5")


def test_groups_are_not_supported():
    with pytest.raises(Unsupported, match="rhd needs one group of all ranks; this allgather has 2"):
        rhd("ring:4", groups=[[0, 1], [2, 3]])

"""Recursive halving-doubling: closed forms on hypercubes and complete networks."""

from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.heuristics.classic.halving_doubling import RHD
from tutti.schedules import Problem, collective
from tutti.schedules.cost import congestion, step_cost
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Unsupported
from tutti.topologies.text import parse_topology


def rhd(text, kind="allgather", distance="doubling", **details):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks, **details))
    return RHD.synthesize(problem, RHD.options(distance=distance), np.random.default_rng(0))


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


@pytest.mark.parametrize(("distance", "apart"), [("doubling", (1, 2, 4)), ("halving", (4, 2, 1))])
def test_sizes_double_and_distances_double_or_halve(distance, apart):
    schedule = rhd("hypercube:3", distance=distance)
    for step, distance in enumerate(apart, start=1):
        now = schedule.order == step
        assert set((schedule.source ^ schedule.target)[now].tolist()) == {distance}
        assert now.sum() == 8 * 2 ** (step - 1)


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
@for_each("text", ["ring:2", "ring:8", "mesh:4x1", "torus:4x4", "gen_kautz:2,8", "dgx_a100:1"])
@for_each("distance", ["doubling", "halving"])
def test_it_is_legal_for_any_power_of_two(text, kind, distance):
    verify(rhd(text, kind, distance))


def test_halving_distances_send_least_between_machines():
    """2 boxes of 8 A100, rank i to i + 8 over 25 GB/s: 8 of 16 shards, or 1 (and 14 inside, 300 GB/s)."""
    expected = {"doubling": Fraction(8, 16) / (25 * 10**9), "halving": Fraction(14, 16) / (300 * 10**9)}
    for distance, load in expected.items():
        assert congestion(rhd("dgx_a100:2", distance=distance)) == load


def test_a_distance_is_one_of_two():
    for distance in ("x", "", 1, None):
        with pytest.raises(InputError, match=r"^rhd option distance is .*; allowed: doubling, halving$"):
            RHD.options(distance=distance)
    with pytest.raises(InputError, match=r"^rhd option distance is 'Halving'; did you mean 'halving'\?$"):
        RHD.options(distance="Halving")


def test_uneven_shards_are_legal():
    verify(rhd("ring:4", "allreduce", shards=[1, 0, 3, 5]))


def test_other_numbers_of_ranks_are_not_supported():
    with pytest.raises(Unsupported, match=r"^rhd needs a power of two ranks; torus:3x5 has 15$"):
        rhd("torus:3x5")


def test_groups_are_not_supported():
    with pytest.raises(Unsupported, match="rhd needs one group of all ranks; this allgather has 2"):
        rhd("ring:4", groups=[[0, 1], [2, 3]])


def test_recursive_doubling_needs_powers_of_two_and_an_allreduce(made):
    with pytest.raises(Unsupported, match="recursive_doubling needs a power of two ranks; ring:6 has 6"):
        made(METHODS["recursive_doubling"], "ring:6", "allreduce")
    with pytest.raises(Unsupported, match="recursive_doubling does allreduce; not allgather"):
        made(METHODS["recursive_doubling"], "ring:4")

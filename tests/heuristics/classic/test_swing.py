"""Swing: partners by the formula, costs by hand of both versions, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.schedules import Problem, collective
from tutti.schedules.cost import step_cost
from tutti.topologies import InputError, Unsupported
from tutti.topologies.text import parse_topology

SWING = METHODS["swing"]
KINDS = ("allgather", "reduce-scatter", "allreduce")
TORI = ("ring:2", "ring:8", "torus:4x4", "torus:4x8", "torus:2x8", "torus:4x4x4", "hypercube:3")
LATENCY = {"version": "latency"}
ALPHA, B = 0.5e-6, 50e9


def test_on_a_ring_all_distances_of_the_formula_are_used(made):
    """rho: 1, -1, 3 (De Sensi et al., section 3.1): partners 1, 1 and 3 apart on a ring of 8."""
    schedule = made(SWING, "ring:8")
    apart = [(schedule.target - schedule.source)[schedule.order == step] % 8 for step in (1, 2, 3)]
    assert [set(np.minimum(d, 8 - d).tolist()) for d in apart] == [{3}, {1}, {1}]


@for_each("text", TORI)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_legal_on_tori_of_powers_of_two(made, text, kind):
    made(SWING, text, kind)


@pytest.mark.parametrize("text", TORI)
def test_the_latency_optimal_version_exchanges_everything_in_each_of_log_n_steps(made, text):
    schedule = made(SWING, text, "allreduce", options=LATENCY)
    ranks, steps = schedule.topology.num_ranks, int(schedule.order.max())
    assert 2**steps == ranks
    assert len(schedule) == ranks * steps * len(schedule.chunks.item)


def test_the_latency_optimal_version_goes_to_the_nearest_first(made):
    schedule = made(SWING, "ring:8", "allreduce", options=LATENCY)
    apart = [(schedule.target - schedule.source)[schedule.order == step] % 8 for step in (1, 2, 3)]
    assert [set(np.minimum(d, 8 - d).tolist()) for d in apart] == [{1}, {1}, {3}]


@pytest.mark.parametrize(
    ("text", "tb"),
    [
        # Neighbours only, M over all links of a rank together in each step
        ("ring:4", 2),
        ("torus:4x4", 4),
        # Of each part every second rank sends 3 links on: two messages meet on half of the links of one
        # direction, one on the others, and the other part does so the other way round: 3 halves of M a link
        ("ring:8", 1 + 1 + 3),
        # One link along each dimension: two parts of M/6 over each of a rank's three links in each step
        ("torus:2x2x2", 3),
        # Dimension 0 has two links, dimension 1 one. Of four parts of M/4 two share that of dimension 1 in
        # steps 1 and 2, and two each of those of dimension 0 in step 3: M/2 three times
        ("torus:4x2", 3 * Fraction(3, 2)),
    ],
)
def test_loads_of_the_latency_optimal_version_by_hand(made, text, tb):
    cost = step_cost(made(SWING, text, "allreduce", options=LATENCY))
    assert cost.tb == Fraction(tb)


@pytest.mark.parametrize("size", [1000, 200_000, 10**9])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ring:4", lambda m: 2 * (ALPHA + m / 2 / B)),
        ("torus:4x4", lambda m: 4 * (ALPHA + m / 4 / B)),
        ("torus:4x4x4", lambda m: 6 * (ALPHA + m / 6 / B)),
    ],
)
def test_the_latency_optimal_version_takes_its_closed_form_between_neighbours(
    made, seconds, text, expected, size
):
    schedule = made(SWING, text, "allreduce", size, LATENCY)
    assert seconds(schedule, size) == pytest.approx(expected(size), rel=1e-9)


@pytest.mark.parametrize(("text", "size"), [("ring:4", 200_000), ("torus:4x4", Fraction(3_200_000, 17))])
def test_the_versions_are_equal_where_the_docstring_says(made, seconds, text, size):
    """B alpha log2 N / (log2 N - 2 (N - 1)/N): 50 KB * 2 / (2 - 3/2), and 100 KB * 4 / (4 - 15/8)."""
    both = [seconds(made(SWING, text, "allreduce", size, options), size) for options in ({}, LATENCY)]
    assert both[0] == pytest.approx(both[1], rel=1e-9)


@pytest.mark.parametrize("text", ["torus:3x4", "mesh:4x4", "complete:4"])
@pytest.mark.parametrize("options", [{}, LATENCY])
def test_other_networks_are_refused(made, text, options):
    with pytest.raises(Unsupported, match="swing needs a torus whose sides are powers of two"):
        made(SWING, text, "allreduce", options=options)


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_the_latency_optimal_version_is_for_allreduces(kind):
    problem = Problem(parse_topology("ring:4"), collective(kind, 4))
    with pytest.raises(Unsupported, match=rf"^swing has version latency for allreduces; this is {kind}"):
        SWING.supports(problem, SWING.options(**LATENCY))


@pytest.mark.parametrize("version", ["latent", "", None, 1])
def test_an_unknown_version_is_refused(version):
    with pytest.raises(InputError, match=r"swing option version is .*; allowed: bandwidth, latency"):
        SWING.options(version=version)

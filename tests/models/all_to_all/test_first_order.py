"""The first-order method: its kernel in plain matrices, its projection, its flow."""

import numpy as np
import pytest

from tests.models.flows import no_symmetry, random_demand, random_network
from tutti.models.all_to_all import Demand, upper_bound
from tutti.models.all_to_all.columns import ColumnGeneration
from tutti.models.all_to_all.first_order import (
    Commodities,
    LinkEnds,
    PrimalDual,
    SaddlePoint,
    Steps,
    _onto_capacity,
    even_flows,
    iterate,
)
from tutti.models.all_to_all.reduction import ReducedProblem
from tutti.topologies import NoSchedule, mesh, parse_topology, ring
from tutti.topologies.graphs.symmetry import automorphisms


def test_the_first_order_flow_takes_the_upper_bound():
    for seed in range(6):
        topology = random_network(seed, most_ranks=6)
        state = PrimalDual(ReducedProblem(no_symmetry(topology), random_demand(topology, seed)))
        interval = state.run(1e-4, 300)
        assert upper_bound(state.flow) == interval.upper, f"seed {seed}"


def test_projection_is_the_nearest_point_on_the_simplex():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        values, steps, capacity = rng.normal(size=12), rng.uniform(0.5, 2, 12), rng.uniform(0.5, 2, 12)
        nearest = _onto_capacity(values, steps, capacity, 5.0)
        assert nearest.min() >= 0, f"seed {seed}"
        assert nearest @ capacity == pytest.approx(5.0), f"seed {seed}"
        gradient = (nearest - values) / (steps * capacity)  # -μ where positive, at least -μ where 0
        inside = nearest > 0
        assert np.ptp(gradient[inside]) == pytest.approx(0, abs=1e-9), f"seed {seed}"
        assert (gradient[~inside] >= gradient[inside][0] - 1e-9).all(), f"seed {seed}"


def test_an_iteration_is_that_of_plain_matrices():
    """One Halpern step written with the dense incidence matrix."""
    topology, rng = parse_topology("gen_kautz:2,5"), np.random.default_rng(0)
    V, L = topology.num_nodes, topology.num_links
    A = np.zeros((V, L))
    A[topology.source, np.arange(L)] -= 1
    A[topology.target, np.arange(L)] += 1
    y, y0 = rng.uniform(size=(2, 2, L))
    p, p0 = rng.normal(size=(2, 2, V))
    lengths, demand, weights = rng.uniform(size=L), rng.uniform(size=(2, V)), np.array([1.0, 3.0])
    sources, step, node_steps, share = np.array([0, 2]), 0.3, rng.uniform(0.1, 0.2, V), 0.6
    forward = np.maximum(y - step * (lengths - p @ A), 0)
    gain = demand - (2 * forward - y) @ A.T
    gain[[0, 1], sources] = 0
    ahead = p + node_steps * gain
    loads, flows, potentials = np.empty(L), y.copy(), p.copy()
    moves = iterate(
        LinkEnds(topology.source, topology.target, np.arange(L, dtype=np.int32)),
        Commodities(sources, weights, demand),
        SaddlePoint(flows, potentials, lengths),
        SaddlePoint(y0, p0, lengths),
        Steps(step, node_steps, share),
        loads,
    )
    assert np.allclose(flows, share * (2 * forward - y) + (1 - share) * y0)
    assert np.allclose(potentials, share * (2 * ahead - p) + (1 - share) * p0)
    assert np.allclose(loads, weights @ (2 * forward - y))
    assert moves[0] == pytest.approx(weights @ ((forward - y) ** 2).sum(axis=1))
    assert moves[1] == pytest.approx(weights @ (node_steps * gain**2).sum(axis=1))


def test_no_time_gives_no_bounds():
    problem = ReducedProblem(automorphisms(mesh(3, 3)), Demand.uniform(mesh(3, 3)))
    with pytest.raises(NoSchedule, match="time"):
        ColumnGeneration(problem, time_limit=0).run()
    with pytest.raises(NoSchedule, match="no time"):
        PrimalDual(problem).run(1e-4, 0)


def test_even_flows_split_over_all_shortest_paths():
    """A 4-ring reaches the opposite rank in both directions, half each; the neighbours' data adds to that."""
    topology = ring(4)
    demand = np.array([[0.0, 1, 1, 1]])
    flows, distances = even_flows(topology, np.array([0]), demand, np.ones(8))
    by_ends = {
        (int(a), int(b)): x for a, b, x in zip(topology.source, topology.target, flows[0], strict=True)
    }
    assert distances.tolist() == [[0, 1, 2, 1]]
    assert by_ends[0, 1] == by_ends[0, 3] == 1.5
    assert by_ends[1, 2] == by_ends[3, 2] == 0.5
    assert sum(by_ends.values()) == 4

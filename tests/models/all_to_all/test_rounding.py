"""Rounding doubles to integers: any answer of a solver becomes a flow that delivers."""

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.flows import random_demand, random_network, ring_flow
from tutti.models.all_to_all import upper_bound
from tutti.models.all_to_all.optimum import solve_by_model
from tutti.models.all_to_all.paths import decompose
from tutti.models.all_to_all.rounding import common_parts, exact_flow, rational_lengths


def support(topology, row):
    return nx.DiGraph((int(topology.source[e]), int(topology.target[e])) for e in np.flatnonzero(row))


@settings(max_examples=150)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.3, 3.0, 1e12]),
    st.sampled_from([1, 7, 10810800, 2**50]),
)
def test_whatever_a_solver_returns_becomes_a_flow_without_cycles_that_delivers(seed, scale, parts):
    rng = np.random.default_rng(seed)
    topology = random_network(seed % 1000)
    demand = random_demand(topology, seed)
    garbage = rng.random((len(demand.sources), topology.num_links)) * scale
    garbage[rng.random(garbage.shape) < 0.4] = 0
    flow = exact_flow(demand, garbage, parts)
    assert upper_bound(flow) >= solve_by_model(demand).interval.lower
    assert all(nx.is_directed_acyclic_graph(support(topology, row)) for row in flow.amounts)
    paths = decompose(flow)
    assert upper_bound(paths) == upper_bound(flow)
    assert np.array_equal(paths.loads, flow.loads)
    assert len(paths) <= (flow.amounts > 0).sum() + (demand.amounts > 0).sum()


def test_a_flow_that_delivers_already_is_kept():
    flow = ring_flow()
    assert np.array_equal(exact_flow(flow.demand, flow.amounts.astype(float), 1).amounts, flow.amounts)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_surplus_at_nodes_puts_no_more_on_a_link(seed):
    """Take a flow that delivers, add dead ends, which (A.1) allows: no link may carry more than that."""
    rng = np.random.default_rng(seed)
    topology = random_network(seed % 1000)
    demand = random_demand(topology, seed)
    flow = exact_flow(demand, np.zeros((len(demand.sources), topology.num_links)), 1)
    surplus = flow.amounts.copy()
    for row, source in enumerate(demand.sources):
        for _ in range(3):
            node = int(source)
            for _ in range(rng.integers(1, 5)):
                link = int(rng.choice(np.flatnonzero(topology.source == node)))
                surplus[row, link] += 20
                node = int(topology.target[link])
                if not (topology.source == node).any():
                    break
    again = exact_flow(demand, surplus / demand.amounts.max(), int(demand.amounts.max()))
    assert (again.amounts * flow.denominator <= surplus * again.denominator).all()


def test_lengths_are_rounded_to_simple_ratios_where_there_are_any():
    simple, fine = rational_lengths(np.array([0.5, 0.33333333334, 0.0, 1.0]))
    assert simple.tolist() == [3, 2, 0, 6]
    assert fine.max() == 2**30
    assert len(rational_lengths(np.array([1.0, np.sqrt(0.5)]))) == 1
    assert rational_lengths(np.zeros(3)) == []
    assert common_parts(np.array([0.2, 1.5, 0.0])) == 10

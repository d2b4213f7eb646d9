"""Certificates of flows: lengths, flows and paths against brute force, whatever a solver returns."""

from dataclasses import replace
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.all_to_all import Demand, FlowError, Interval, SourceFlow, lower_bound, upper_bound
from models.all_to_all.decomposition import PathFlow, decompose
from models.all_to_all.optimum import solve_demand
from models.all_to_all.rounding import common_parts, exact_flow, rational_lengths
from tests.models.flows import random_demand, random_network, slow_bound
from topologies import InputError
from topologies.distances import length_distances
from topologies.errors import TuttiError
from topologies.text import parse_topology
from topologies.transforms import transpose

B = Fraction(50 * 10**9)
"""Default bandwidth of a link."""


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_any_lengths_prove_a_bound_and_no_more_than_the_optimum(seed):
    rng = np.random.default_rng(seed)
    topology = random_network(seed % 50)
    demand = random_demand(topology, seed)
    lengths = rng.integers(0, 4, topology.num_links)
    lengths[0] = 1
    value = lower_bound(topology, demand, lengths)
    assert value == slow_bound(demand, lengths)
    assert value <= solve_demand(demand).interval.upper


def test_large_lengths_are_summed_without_overflow():
    topology = parse_topology("uniring:3")
    demand = Demand(topology, np.array([[0, 2**40, 0], [0, 0, 0], [0, 0, 0]]), 1)
    lengths = np.array([2**40, 1, 1])
    assert lower_bound(topology, demand, lengths) == Fraction(2**80) / (B * (2**40 + 2))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1, 1], "3 integers are needed"),
        ([1.0, 1.0, 1.0], "3 integers are needed"),
        ([1, -1, 1], "must not be negative"),
        ([0, 0, 0], "nor all zero"),
        ([2**62, 2**62, 1], "more than 64 bits"),
    ],
)
def test_lengths_that_prove_nothing_are_refused(lengths, message):
    topology = parse_topology("uniring:3")
    with pytest.raises(InputError, match=message):
        lower_bound(topology, Demand.uniform(topology), np.array(lengths))


def test_distances_by_uneven_lengths_are_those_of_networkx():
    topology = random_network(11)
    lengths = np.arange(topology.num_links) % 4
    found = length_distances(topology, lengths)
    graph = nx.MultiDiGraph()
    for a, b, w in zip(topology.source.tolist(), topology.target.tolist(), lengths.tolist(), strict=True):
        graph.add_edge(a, b, weight=w)
    for s, row in nx.all_pairs_dijkstra_path_length(graph):
        assert {t: int(found[s, t]) for t in row} == row


def ring_flow():
    """On a one-way ring of 3, each rank sends 1/3 of M to the next and through it to the one after."""
    topology = parse_topology("uniring:3")
    amounts = np.array([[2, 1, 0], [0, 2, 1], [1, 0, 2]])
    return SourceFlow(Demand.uniform(topology), amounts, 3)


def test_a_flow_takes_its_largest_load_over_bandwidth():
    assert upper_bound(ring_flow()) == Fraction(3, 3) / B


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"amounts": np.array([[2, 0, 0], [0, 2, 1], [1, 0, 2]])}, r"delivers 2/3 of M for 0->1; .* 1/3"),
        ({"amounts": np.array([[2, 1, -1], [0, 2, 1], [1, 0, 2]])}, "source 0 on link 2->0 is negative"),
        ({"denominator": 4}, "over 4 for demands over 3"),
    ],
)
def test_a_flow_that_does_not_deliver_is_refused(change, message):
    with pytest.raises(FlowError, match=message):
        upper_bound(replace(ring_flow(), **change))


def test_an_empty_interval_is_a_mistake():
    with pytest.raises(TuttiError, match="beats the bound"):
        Interval(Fraction(2), Fraction(1))


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
    assert upper_bound(flow) >= solve_demand(demand).interval.lower
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


def test_a_cycle_is_taken_off_and_one_left_in_is_told():
    flow = ring_flow()
    assert np.array_equal(exact_flow(flow.demand, flow.amounts + 5.0, 1).amounts, flow.amounts)
    topology = parse_topology("mesh:3")
    amounts = np.zeros((1, topology.num_links), dtype=np.int64)
    ends = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    amounts[0, [ends.index((0, 1)), ends.index((1, 2)), ends.index((2, 1))]] = 1, 9, 9
    demand = Demand(topology, np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]]), 1)
    with pytest.raises(FlowError, match="source 0 has a cycle"):
        decompose(SourceFlow(demand, amounts, 1))


def test_paths_that_break_off_or_fall_short_are_refused():
    paths = decompose(ring_flow())
    assert sorted(np.diff(paths.offsets).tolist()) == [1, 1, 1, 2, 2, 2]
    with pytest.raises(FlowError, match="do not sum to its demand"):
        replace(paths, amounts=paths.amounts * 2).check()
    two = int(np.flatnonzero(np.diff(paths.offsets) == 2)[0])
    links = paths.links.copy()
    links[paths.offsets[two] + 1] = links[paths.offsets[two]]
    with pytest.raises(FlowError, match=f"path {two} breaks off"):
        replace(paths, links=links).check()
    with pytest.raises(FlowError, match="path 0 carries nothing"):
        replace(paths, amounts=paths.amounts * 0).check()


def test_reversed_paths_serve_the_transposed_network():
    topology = random_network(5)
    paths = decompose(
        exact_flow(random_demand(topology, 5), np.zeros((topology.num_ranks, topology.num_links)))
    )
    back = paths.reverse
    back.check()
    assert back.demand.topology == transpose(topology)
    assert np.array_equal(back.loads, paths.loads)
    assert isinstance(back, PathFlow)


def test_lengths_are_rounded_to_simple_ratios_where_there_are_any():
    simple, fine = rational_lengths(np.array([0.5, 0.33333333334, 0.0, 1.0]))
    assert simple.tolist() == [3, 2, 0, 6]
    assert fine.max() == 2**30
    assert len(rational_lengths(np.array([1.0, np.sqrt(0.5)]))) == 1
    assert rational_lengths(np.zeros(3)) == []
    assert common_parts(np.array([0.2, 1.5, 0.0])) == 10

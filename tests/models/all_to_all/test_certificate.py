"""Certificates of flows: lengths, flows and intervals against brute force."""

from dataclasses import replace
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.flows import random_demand, random_network, ring_flow, slow_bound
from tutti.models.all_to_all import Demand, FlowError, Interval, lower_bound, upper_bound
from tutti.models.all_to_all.optimum import solve_by_model
from tutti.topologies import InputError, parse_topology
from tutti.topologies.errors import TuttiError
from tutti.topologies.graphs.shortest_paths import length_distances

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
    assert value <= solve_by_model(demand).interval.upper


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

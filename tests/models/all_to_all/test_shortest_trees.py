"""Shortest-path trees against Bellman and Ford, and even flows by hand."""

import numpy as np

from models.all_to_all.shortest_trees import Incidence, ShortestTree, even_flows, shortest_tree
from tests.models.flows import random_network
from topologies import ring


def test_shortest_trees_are_bellman_fords():
    for seed in range(6):
        topology = random_network(seed, most_ranks=9)
        lengths = np.random.default_rng(seed).integers(0, 6, topology.num_links)
        for source in range(topology.num_nodes):
            check_tree(topology, lengths, source, f"seed {seed}, source {source}")


def check_tree(topology, lengths, source, where):
    """Distances are those by relaxing all links V times; last links are tight and lead back to the source."""
    V = topology.num_nodes
    tree = ShortestTree(np.empty(V, np.int64), np.empty(V, np.int32), np.empty(V, np.int32))
    reached = shortest_tree(Incidence.of(topology), lengths, source, tree)
    expected = [0 if v == source else 10**9 for v in range(V)]
    for _ in range(V):
        for e, (u, v) in enumerate(zip(topology.source, topology.target, strict=True)):
            expected[v] = min(expected[v], expected[u] + lengths[e])
    assert tree.distance.tolist() == expected, where
    assert reached == V, where
    place = {int(v): i for i, v in enumerate(tree.order)}
    for v in set(range(V)) - {source}:
        tail = int(topology.source[tree.parent[v]])
        assert place[tail] < place[v], where
        assert expected[tail] + lengths[tree.parent[v]] == expected[v], where


def test_even_flows_split_over_all_shortest_paths():
    """On a 4-ring the opposite rank is reached both ways: half each, besides what neighbours get."""
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

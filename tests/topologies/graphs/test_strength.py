"""The strength and the game of pebbles: against all partitions, all sets of nodes, and graphs known by
hand."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from tutti.topologies.errors import InputError
from tutti.topologies.graphs.strength import contracted, orient, strength, undirected
from tutti.topologies.text import parse_topology


def partitions(nodes):
    """Return all partitions as rows of part numbers; their count is a Bell number, 4140 for 8 nodes."""
    rows = [[0]]
    for _ in range(nodes - 1):
        rows = [[*row, part] for row in rows for part in range(max(row) + 2)]
    return np.array(rows)


ALL = {nodes: partitions(nodes)[1:] for nodes in range(2, 9)}  # the first has one part


def weakest(graph):
    """Return the minimum of c(P) / (|P| - 1) over all partitions."""
    parts = ALL[graph.num_nodes]
    between = (parts[:, graph.ends[0]] != parts[:, graph.ends[1]]) @ graph.capacity
    return min(Fraction(int(c), int(p)) for c, p in zip(between, parts.max(axis=1), strict=True))


def random_graph(seed, most=8):
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(2, most + 1))
    order = rng.permutation(nodes)
    more = rng.integers(0, nodes, (2, int(rng.integers(0, 3 * nodes))))
    tails, heads = np.concatenate([[order[:-1], order[1:]], more[:, more[0] != more[1]]], axis=1)
    return undirected(nodes, tails, heads, rng.integers(1, rng.integers(2, 20), len(tails)))


@pytest.mark.parametrize("batch", range(4))
def test_the_strength_is_that_of_the_weakest_of_all_partitions(batch):
    for seed in range(batch * 75, batch * 75 + 75):
        graph = random_graph(seed)
        found = strength(graph)
        assert found.value == weakest(graph)
        coarse = contracted(graph, found.part)
        assert found.value == Fraction(int(coarse.capacity.sum()), coarse.num_nodes - 1)


def test_parts_are_numbered_by_their_first_node():
    for seed in range(60):
        part = strength(random_graph(seed)).part
        firsts = [int(np.flatnonzero(part == number)[0]) for number in range(part.max() + 1)]
        assert firsts == sorted(firsts)


def accepted_in_turn(graph, rate, turn):
    """Return the accepted part of each edge by definition: the most that all sets with both ends allow."""
    sets = [s for size in range(2, graph.num_nodes + 1) for s in combinations(range(graph.num_nodes), size)]
    accepted = [0] * len(turn)
    edges = graph.ends.T.tolist()
    for edge in turn:
        room = min(
            rate * (len(s) - 1) - sum(accepted[e] for e, ends in enumerate(edges) if set(ends) <= set(s))
            for s in sets
            if set(edges[edge]) <= set(s)
        )
        accepted[edge] = min(int(graph.capacity[edge]), room)
    return accepted


def test_as_much_of_an_edge_is_accepted_as_every_set_of_nodes_allows():
    """The twin takes the edges in another order; the total that is accepted does not depend on it."""
    for seed in range(40):
        graph = random_graph(seed, most=6)
        for rate in (1, 3, 7):
            found = orient(graph, Fraction(rate))
            accepted = found.forward + found.backward
            assert (accepted <= graph.capacity).all()
            assert accepted.sum() == sum(accepted_in_turn(graph, rate, range(len(accepted))))


def test_no_set_of_nodes_pays_more_than_it_may_and_tight_sets_pay_all():
    for seed in range(40):
        graph = random_graph(seed, most=7)
        found = orient(graph, Fraction(5))
        accepted = found.forward + found.backward
        paid = np.zeros(graph.num_nodes, dtype=int)
        np.add.at(paid, graph.ends[1], found.forward)
        np.add.at(paid, graph.ends[0], found.backward)
        assert (paid + found.free == 5).all()
        for size in range(2, graph.num_nodes + 1):
            for chosen in combinations(range(graph.num_nodes), size):
                inside = np.isin(graph.ends, chosen).all(axis=0)
                assert accepted[inside].sum() <= 5 * (size - 1)
        for name in np.unique(found.tight):
            chosen = np.flatnonzero(found.tight == name)
            inside = np.isin(graph.ends, chosen).all(axis=0)
            assert accepted[inside].sum() == 5 * (len(chosen) - 1)
        refused = accepted < graph.capacity
        assert (found.tight[graph.ends[0, refused]] == found.tight[graph.ends[1, refused]]).all()


def test_at_the_strength_all_pebbles_left_come_to_the_root():
    for seed in range(40):
        graph = random_graph(seed)
        rate, root = weakest(graph), seed % graph.num_nodes
        found = orient(graph, rate, root)
        assert (found.forward + found.backward).sum() == rate.numerator * (graph.num_nodes - 1)
        assert found.free[root] == rate.numerator == found.free.sum()


@pytest.mark.parametrize(
    ("text", "edges"),
    [("mesh:8x8", 112), ("mesh:4x4x4", 144), ("mesh:100x100", 19800), ("hypercube:10", 5120), ("ring:9", 9)],
)
def test_on_these_networks_single_nodes_are_the_weakest_partition(text, edges):
    """The number of edges over N - 1 bounds the strength of any graph; these are known to attain it."""
    network = parse_topology(text)
    graph = undirected(network.num_ranks, network.source, network.target, np.ones(network.num_links, int))
    found = strength(graph)
    assert found.value == Fraction(2 * edges, network.num_ranks - 1)
    assert len(np.unique(found.part)) == network.num_ranks


def test_a_weak_edge_between_cliques_is_the_weakest_partition():
    tails, heads = zip(*combinations(range(4), 2), *combinations(range(4, 8), 2), (3, 4), strict=True)
    found = strength(undirected(8, tails, heads, [5] * 12 + [3]))
    assert (found.value, found.part.tolist()) == (3, [0, 0, 0, 0, 1, 1, 1, 1])


def test_arcs_of_both_directions_and_parallel_ones_add_up():
    graph = undirected(3, [0, 1, 0, 2, 2], [1, 0, 1, 1, 2], [1, 2, 4, 8, 16])
    assert graph.ends.tolist() == [[0, 1], [1, 2]]
    assert graph.capacity.tolist() == [7, 8]


def test_wrong_graphs_are_refused():
    with pytest.raises(InputError, match="strength: the graph must have two nodes or more and be connected"):
        strength(undirected(3, [0], [1], [1]))
    with pytest.raises(
        InputError, match="strength: 2 nodes with capacities that add up to 4611686018427387904"
    ):
        strength(undirected(2, [0], [1], [2**62]))

"""Packings of spanning trees: exact loads, spanning, heights, early work for every link of a mesh."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from tests.models.allreduce.oracles import random_symmetric
from tests.sweep import for_each
from tutti.models.allreduce import pack, tree_network
from tutti.models.allreduce import spanning_trees as packing_module
from tutti.models.allreduce.spanning_trees import centred, greedy_trees, load_ratio, spine_packing
from tutti.topologies.graphs.strength import strength, undirected
from tutti.topologies.text import parse_topology
from tutti.topologies.trees.forest import Forest, heights, rerooted


@pytest.mark.parametrize(
    ("text", "products"),
    [("mesh:20x20", True), ("mesh:20x20", False), ("mesh:5x5x5", True), ("mesh:5x5x5", False)],
)
def test_larger_ones_are_exact_too(text, products):
    network = tree_network(parse_topology(text))
    found = pack(network.graph, products=products)
    assert found.ratio == Fraction(network.graph.num_nodes - 1, len(network.graph.capacity))
    check_spanning(network.graph, found.forest)


def check_spanning(graph, forest):
    """Every row a spanning tree on edges of the graph, by networkx; the loads by a plain sum."""
    edges = {
        tuple(ends): capacity for *ends, capacity in zip(*graph.ends.tolist(), graph.capacity, strict=True)
    }
    load = dict.fromkeys(edges, 0)
    for root, weight, parent in zip(forest.root, forest.weight, forest.parent, strict=True):
        used = [tuple(sorted((v, int(p)))) for v, p in enumerate(parent) if p >= 0]
        assert parent[root] == -1
        assert nx.is_tree(nx.Graph(used))
        assert len(used) == graph.num_nodes - 1
        for edge in used:
            load[edge] += int(weight)
    worst = max(Fraction(load[edge], int(edges[edge])) for edge in edges)
    assert load_ratio(graph, forest) == worst / int(forest.weight.sum())


@pytest.mark.parametrize(
    ("text", "epsilon"), [("mesh:20x20", "1/1000"), ("mesh:5x5x5", "1/1000"), ("mesh:9x9", "1/50")]
)
def test_greedy_trees_come_as_near_as_asked(text, epsilon):
    graph = tree_network(parse_topology(text)).graph
    found = pack(graph, Fraction(epsilon), products=False)
    assert 0 <= found.gap <= Fraction(epsilon)
    assert found.bound == Fraction(graph.num_nodes - 1, len(graph.capacity))


def test_greedy_trees_span_networks_with_uneven_links():
    for seed in range(20):
        graph = tree_network(random_symmetric(seed)).graph
        bound = 1 / strength(graph).value
        forest = greedy_trees(graph, bound, Fraction(1, 20))
        check_spanning(graph, forest)
        assert load_ratio(graph, forest) <= bound * Fraction(21, 20)


def test_a_large_network_without_structure_gets_an_approximate_packing(monkeypatch):
    monkeypatch.setattr(packing_module, "MOST_EXACT", 0)
    graph = tree_network(parse_topology("mesh:9x9?drop_nodes=40")).graph
    found = pack(graph)
    assert 0 <= found.gap <= Fraction(1, 100)


def test_exact_packings_span():
    for seed in range(60):
        graph = tree_network(random_symmetric(seed)).graph
        check_spanning(graph, pack(graph, products=False).forest)


def test_trees_are_rooted_at_a_centre():
    rng = np.random.default_rng(1)
    for nodes in range(2, 20):
        parent = np.array([-1, *(int(rng.integers(0, v)) for v in range(1, nodes))], dtype=np.int32)
        found = centred(Forest([0], [3], [parent]))
        tree = nx.Graph([(v, int(p)) for v, p in enumerate(found.parent[0]) if p >= 0])
        assert nx.utils.edges_equal(tree.edges, [(v, int(p)) for v, p in enumerate(parent) if p >= 0])
        assert int(found.root[0]) in nx.center(tree)
        assert heights(found).tolist() == [nx.radius(tree)]
        assert rerooted(found.parent[0], 0).tolist() == parent.tolist()


def test_the_graph_of_the_smallest_network():
    pair = undirected(2, [0], [1], [3])
    found = pack(pair)
    assert (found.ratio, found.gap, found.forest.weight.tolist()) == (Fraction(1, 3), 0, [3])


MESHES = ["2x2", "2x3", "3x3", "3x4", "2x7", "4x10", "5x5", "7x4", "8x8", "9x13", "10x10"]


def loads_of(graph, forest):
    """The load of every edge as a Fraction, each tree moving its share of 1, and every tree spanning."""
    edges = {(int(a), int(b)): Fraction(0) for a, b in graph.ends.T}
    total = int(forest.weight.sum())
    for weight, parent in zip(forest.weight, forest.parent, strict=True):
        used = [tuple(sorted((v, int(p)))) for v, p in enumerate(parent) if p >= 0]
        assert nx.is_tree(nx.Graph(used))
        assert len(used) == graph.num_nodes - 1
        for edge in used:
            edges[edge] += Fraction(int(weight), total)
    return edges


@for_each("sizes", MESHES)
def test_every_edge_of_a_mesh_has_the_same_load(sizes):
    """(n - 1) / edges: no partition, and no packing, allows less."""
    graph = tree_network(parse_topology(f"mesh:{sizes}")).graph
    even = Fraction(graph.num_nodes - 1, len(graph.capacity))
    found = spine_packing(graph)
    assert set(loads_of(graph, found.forest).values()) == {even}
    assert found.ratio == found.bound == even


def test_dimensions_of_other_bandwidths_are_loaded_in_proportion():
    graph = tree_network(parse_topology("mesh:4x6?bandwidth=50GB/s,25GB/s")).graph
    found = spine_packing(graph)
    loads = loads_of(graph, found.forest)
    ratios = {load / int(c) for load, c in zip(loads.values(), graph.capacity, strict=True)}
    assert ratios == {Fraction(23, int(graph.capacity.sum()))}


@pytest.mark.parametrize("text", ["torus:4x4", "mesh:3x3x3", "ring:6", "mesh:3x3?bandwidth=500GB/s,10GB/s"])
def test_what_is_no_mesh_of_two_even_paths_has_none(text):
    assert spine_packing(tree_network(parse_topology(text)).graph) is None


def early(graph, forest):
    """For each directed edge (u, v): the share of trees in which u is a leaf below v."""
    share = dict.fromkeys([*map(tuple, graph.ends.T.tolist()), *map(tuple, graph.ends[::-1].T.tolist())], 0)
    total = int(forest.weight.sum())
    for weight, parent in zip(forest.weight, forest.parent, strict=True):
        inner = set(parent.tolist())
        for node, above in enumerate(parent.tolist()):
            if above >= 0 and node not in inner:
                share[node, above] += Fraction(int(weight), total)
    return share


@pytest.mark.parametrize("sizes", ["3x3", "5x5", "4x6", "8x8", "10x10"])
def test_every_link_has_leaves_data_to_send_at_once(sizes):
    """A corner's links in have as much as there can be: of its two edges one or both are in a tree."""
    topology = parse_topology(f"mesh:{sizes}")
    graph = tree_network(topology).graph
    found = spine_packing(graph)
    share = early(graph, found.forest)
    assert min(share.values()) > 0
    columns = int(sizes.split("x")[1])
    both = 2 * found.ratio - 1
    assert share[1, 0] + share[columns, 0] <= both
    if sizes == "10x10":
        assert share[1, 0] == share[columns, 0] == both / 2 == Fraction(1, 20)
        assert min(share.values()) >= Fraction(1, 40)


def test_combs_leave_links_without_leaves():
    """The trees with two spines are made for this case."""
    graph = tree_network(parse_topology("mesh:10x10")).graph
    assert min(early(graph, pack(graph).forest).values()) == 0

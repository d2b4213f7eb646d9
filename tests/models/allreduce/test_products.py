"""Trees with two spines: exact loads, spanning, early work for every link, and times near the bound."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from models.allreduce import ALLREDUCE_TREES as METHOD
from models.allreduce import AllreduceTreesOptions, pack, tree_network
from models.allreduce.spanning_trees import spine_packing
from schedules import collective
from schedules.cost import congestion
from schedules.method import Problem
from schedules.simulation.simulate import simulate
from schedules.verify import verify
from tests.sweep import for_each
from topologies.text import parse_topology

GBPS = 50 * 10**9
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
    """What the trees with two spines are for."""
    graph = tree_network(parse_topology("mesh:10x10")).graph
    assert min(early(graph, pack(graph).forest).values()) == 0


@pytest.mark.parametrize(("text", "percent"), [("mesh:3x3", 0.5), ("mesh:5x5", 0.6), ("mesh:4x6", 1)])
def test_a_gigabyte_on_a_mesh_is_within_a_percent_of_the_bound(text, percent):
    """The bound: each of the ranks must send and receive in all 2 (n - 1) M over all links together."""
    topology = parse_topology(text)
    problem = Problem(topology, collective("allreduce", topology.num_ranks), Fraction(10**9))
    schedule = METHOD.synthesize(problem, AllreduceTreesOptions(), np.random.default_rng(0))
    verify(schedule)
    bound = Fraction(2 * (topology.num_ranks - 1) * 10**9, topology.num_links * GBPS)
    assert congestion(schedule) * 10**9 == bound
    assert float(bound) < simulate(schedule, 10**9).time < float(bound) * (1 + percent / 100)


def test_ten_by_ten_is_within_two_percent():
    topology = parse_topology("mesh:10x10?bandwidth=50GB/s&alpha=0.5us")
    problem = Problem(topology, collective("allreduce", 100), Fraction(10**9))
    schedule = METHOD.synthesize(problem, AllreduceTreesOptions(), np.random.default_rng(0))
    verify(schedule)
    bound = Fraction(11, 20) * 10**9 / GBPS
    assert congestion(schedule) * 10**9 == bound
    assert float(bound) < simulate(schedule, 10**9).time < float(bound) * 1.02

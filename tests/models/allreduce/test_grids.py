"""Trees for grids of equal sides: spanning, exactly as good as the bound, leaves at every link; and messages
of many pieces, within 1 % of the partition bound."""

from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import networkx as nx
import numpy as np
import pytest

from tutti.models.allreduce import ALLREDUCE_TREES as METHOD
from tutti.models.allreduce import AllreduceTreesOptions, grids, tree_network
from tutti.models.allreduce.spanning_trees import pack
from tutti.models.allreduce.trees_timed import rounds_are_worth_it
from tutti.schedules import collective
from tutti.schedules.method import Problem
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.text import parse_topology

ALPHA, WIDTH = Fraction(1, 2 * 10**6), 50 * 10**9
GIGABYTE = Fraction(10**9)


def graph_of(text):
    return tree_network(parse_topology(text)).graph


def plain_symmetries(size, dims):
    """All signed permutations of the coordinates, as images of nodes, by dictionaries."""
    nodes = list(product(range(size), repeat=dims))
    number = {node: place for place, node in enumerate(nodes)}
    found = set()
    for axes in permutations(range(dims)):
        for signs in product((1, -1), repeat=dims):
            moved = [
                tuple(
                    node[a] if sign > 0 else size - 1 - node[a] for a, sign in zip(axes, signs, strict=True)
                )
                for node in nodes
            ]
            found.add(tuple(number[node] for node in moved))
    return found


@pytest.mark.parametrize(("size", "dims"), [(2, 2), (3, 2), (4, 2), (3, 3)])
def test_orbits_are_those_of_all_signed_permutations(size, dims):
    orbits = grids._orbits(size, dims)
    images = plain_symmetries(size, dims)
    assert {tuple(row) for row in orbits.images.tolist()} == images
    links = list(nx.grid_graph([size] * dims).to_directed().edges)
    number = {node: place for place, node in enumerate(product(range(size), repeat=dims))}
    pairs = [(number[a], number[b]) for a, b in links]
    same = {pair: {(image[pair[0]], image[pair[1]]) for image in images} for pair in pairs}
    for pair in pairs:
        alike = {other for other in pairs if orbits.of_link[other] == orbits.of_link[pair]}
        assert alike == same[pair]
        assert orbits.links[orbits.of_link[pair]] == len(alike)
        either = {frozenset(other) for other in pairs if orbits.of_edge[other] == orbits.of_edge[pair]}
        assert either == {frozenset(other) for other in same[pair]}
        assert orbits.edges[orbits.of_edge[pair]] == len(either)


@pytest.mark.parametrize(("size", "dims", "kinds"), [(3, 2, 3 + 4 * 3), (4, 2, 4 + 10 * 2), (2, 3, None)])
def test_all_kinds_span_and_none_is_missing(size, dims, kinds):
    """One of n layers is the spine, or two, a < b, with b - a cuts, for each of the lines that may join."""
    found = grids._trees(size, dims)
    grid = nx.convert_node_labels_to_integers(nx.grid_graph([size] * dims), ordering="sorted")
    for parent in found:
        tree = nx.Graph([(v, int(p)) for v, p in enumerate(parent) if p >= 0])
        assert nx.is_tree(tree)
        assert len(tree) == size**dims
        assert all(grid.has_edge(*edge) for edge in tree.edges)
    if kinds is not None:
        shapes = {frozenset(frozenset((v, int(p))) for v, p in enumerate(row) if p >= 0) for row in found}
        assert len(shapes) == kinds


@pytest.mark.parametrize("text", ["mesh:2x2", "mesh:3x3", "mesh:4x4", "mesh:6x6", "mesh:3x3x3", "mesh:4x4x4"])
def test_all_edges_bear_the_same_and_all_links_have_leaves(text):
    """N - 1 edges a tree over |E| edges; loads and leaves by a plain count of every tree."""
    graph = graph_of(text)
    found = grids.grid_packing(graph)
    nodes, edges = graph.num_nodes, len(graph.capacity)
    assert found.ratio == found.bound == Fraction(nodes - 1, edges)
    load, leaves = Counter(), Counter()
    for weight, parent in zip(found.forest.weight.tolist(), found.forest.parent.tolist(), strict=True):
        assert nx.is_tree(nx.Graph([(v, p) for v, p in enumerate(parent) if p >= 0]))
        for node, above in enumerate(parent):
            if above >= 0:
                load[frozenset((node, above))] += weight
                leaves[node, above] += 0 if node in parent else weight
    total = sum(found.forest.weight.tolist())
    assert len(load) == edges
    assert set(load.values()) == {total * Fraction(nodes - 1, edges)}
    assert len(leaves) == 2 * edges
    assert min(leaves.values()) > 0


def test_leaves_at_a_corner_are_no_more_than_theory_allows():
    """Both links into a corner of n x n bear (n + 1)/2n each. In 1/n of the trees both edges are used. One
    neighbour at most is then a leaf that hangs on the corner: together no more than 1/n of all trees."""
    size = 6
    found = grids.grid_packing(graph_of(f"mesh:{size}x{size}"))
    total, into = sum(found.forest.weight.tolist()), 0
    for weight, parent in zip(found.forest.weight.tolist(), found.forest.parent.tolist(), strict=True):
        into += weight * sum(parent[node] == 0 and node not in parent for node in (1, size))
    assert Fraction(3, 4) / size < Fraction(into, total) <= Fraction(1, size)


def test_what_is_no_grid_of_equal_sides_is_told_apart():
    assert grids.cube_of(graph_of("mesh:3x3x3")) == (3, 3)
    assert grids.cube_of(graph_of("mesh:7x7")) == (7, 2)
    for text in ("mesh:3x4", "torus:3x3", "mesh:3x3?bandwidth=50GB/s,25GB/s", "ring:9", "mesh:9"):
        assert grids.grid_packing(graph_of(text)) is None
    assert grids.grid_packing(graph_of("mesh:50x50")) is None  # too many kinds


def allreduce(text, size):
    topology = parse_topology(text)
    problem = Problem(topology, collective("allreduce", topology.num_ranks), size)
    schedule = METHOD.synthesize(problem, AllreduceTreesOptions(), np.random.default_rng(0))
    verify(schedule)
    return schedule


@pytest.mark.parametrize(("text", "within"), [("mesh:4x4", "2/1000"), ("mesh:2x2x2", "2/1000")])
def test_a_gigabyte_takes_the_bound_and_a_few_rounds(text, within):
    """N - 1 over |E| of M on every link, and every message one more α: nothing can be under the bound."""
    schedule = allreduce(text, GIGABYTE)
    ranks, links = schedule.topology.num_ranks, schedule.topology.num_links
    bound = 2 * (ranks - 1) * GIGABYTE / (links * WIDTH)
    seconds = simulate(schedule, GIGABYTE).time
    messages = Counter((int(r), int(o)) for r, o in zip(schedule.route, schedule.order, strict=True))
    most = max(Counter(route for route, _ in messages).values())
    assert bound + most * ALPHA <= Fraction(seconds) * (1 + Fraction(1, 10**12))
    assert seconds <= bound * (1 + Fraction(within))


def test_large_messages_are_tried_only_where_alpha_hardly_counts():
    for text, size, tried in (
        ("mesh:10x10", GIGABYTE, True),
        ("mesh:10x10", GIGABYTE / 1000, False),
        ("mesh:20x20", GIGABYTE, False),
        ("mesh:4x4?alpha=0us", GIGABYTE, True),
    ):
        topology = parse_topology(text)
        problem = Problem(topology, collective("allreduce", topology.num_ranks), size)
        assert rounds_are_worth_it(problem, pack(tree_network(topology).graph)) is tried

"""Distances in hops and in α against networkx and a matrix product."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from math import inf

import networkx as nx
import numpy as np
import pytest

from tests.sweep import for_each
from tests.topologies.networks import random_multigraph
from tutti.topologies import (
    InputError,
    Link,
    Topology,
    alpha_distances,
    circulant,
    dgx_a100,
    diameter,
    gen_kautz,
    hop_distances,
    mesh,
    mi250,
    parallel_links,
    parse_topology,
    ring,
    shortest_routes,
    torus,
    transpose,
    uniring,
)
from tutti.topologies.graphs.shortest_paths import (
    UNREACHABLE,
    Adjacency,
    ShortestTree,
    nearest_first,
    shortest_tree,
)
from tutti.topologies.topology import Neighbours, breadth_first


def random_network(seed, nodes=12, extra=30, switches=3):
    """Return a random strongly connected multigraph with uneven α."""
    return random_multigraph(
        seed,
        nodes,
        extra,
        switches,
        lambda rng: {"alpha": Fraction(int(rng.integers(0, 9)), int(rng.integers(1, 6)))},
    )


def graph(topology):
    """Return the network as a networkx graph; of parallel links, it has the one with the smallest α."""
    result = nx.DiGraph()
    for index in range(topology.num_links):
        link = topology.link(index)
        known = result.get_edge_data(link.source, link.target, {"alpha": link.alpha})["alpha"]
        result.add_edge(link.source, link.target, alpha=min(link.alpha, known))
    return result


NETWORKS = [
    *map(random_network, range(8)),
    ring(2),
    mesh(3, 4),
    torus(4, 3, alpha=[Fraction(1, 3), Fraction(1, 2)]),
    gen_kautz(2, 7),
    dgx_a100(2, alpha=[Fraction(1, 10), Fraction(7, 10)]),
    mi250(2),
    torus(3, 3, alpha=0),
]


@for_each("topology", NETWORKS)
def test_hops_are_networkxs(topology):
    expected = dict(nx.all_pairs_shortest_path_length(graph(topology)))
    hops = hop_distances(topology)
    assert hops.dtype == np.int32
    nodes = range(topology.num_nodes)
    assert hops.tolist() == [[expected[a][b] for b in nodes] for a in nodes]


@for_each("topology", NETWORKS)
def test_alpha_distances_are_networkxs_exactly(topology):
    expected = dict(nx.all_pairs_dijkstra_path_length(graph(topology), weight="alpha"))
    nodes = range(topology.num_nodes)
    found = alpha_distances(topology)
    assert found.dtype == np.int64
    exact = [[Fraction(value, topology.alpha.denominator) for value in row] for row in found.tolist()]
    assert exact == [[expected[a][b] for b in nodes] for a in nodes]


@pytest.mark.parametrize("topology", NETWORKS[:3], ids=lambda t: t.name)
def test_rows_are_the_sources_asked_for(topology):
    assert np.array_equal(hop_distances(topology, [5, 0, 5]), hop_distances(topology)[[5, 0, 5]])
    assert np.array_equal(alpha_distances(topology, [5, 0]), alpha_distances(topology)[[5, 0]])


def test_a_switch_that_nothing_leaves_reaches_nothing():
    links = [Link(0, 1), Link(1, 0), Link(1, 2, alpha=Fraction(3))]
    sink = Topology.from_links("sink", 2, links, num_switches=1)
    assert hop_distances(sink).tolist() == [[0, 1, 2], [1, 0, 1], [UNREACHABLE, UNREACHABLE, 0]]
    assert alpha_distances(sink)[2].tolist() == [UNREACHABLE, UNREACHABLE, 0]
    even = parse_topology("ring:3")
    assert (alpha_distances(even) == hop_distances(even)).all()  # each α has its own denominator


def test_the_diameter_is_over_ranks_only():
    # Rank to rank through the switch is 2 hops; from switch to switch would be 3.
    assert diameter(dgx_a100(2)) == 2
    links = [Link(0, 1), Link(1, 0), *(Link(a, a + 1) for a in range(1, 4))]
    assert diameter(Topology.from_links("tail", 2, links, num_switches=3)) == 1


def test_the_diameter_of_more_ranks_than_one_batch_is_the_largest_of_all():
    assert diameter(uniring(1500)) == 1499


ROUTES_NETWORKS = [
    ring(5),
    ring(2),
    mesh(3, 3),
    torus(3, 4),
    gen_kautz(2, 7),
    circulant(8, 1, 4),
    dgx_a100(2),
    mi250(1),
    parallel_links(ring(4), 2),
]


def all_routes(topology):
    """Return the route of every pair of distinct ranks, by pair."""
    pairs = [(a, b) for a, b in product(range(topology.num_ranks), repeat=2) if a != b]
    offsets, links = shortest_routes(topology, [a for a, _ in pairs], [b for _, b in pairs])
    return {pair: links[offsets[i] : offsets[i + 1]].tolist() for i, pair in enumerate(pairs)}


def links_of_paths(topology, paths):
    """Return every list of links along these node paths, one for each choice of parallel links."""
    between: dict = {}
    for link, ends in enumerate(zip(topology.source.tolist(), topology.target.tolist(), strict=True)):
        between.setdefault(ends, []).append(link)
    for path in paths:
        yield from product(*(between[hop] for hop in pairwise(path)))


@pytest.mark.parametrize("topology", ROUTES_NETWORKS, ids=lambda t: t.name)
def test_a_route_is_the_cheapest_so_far_of_all_shortest_ones_then_the_first_by_nodes(topology):
    """A link's price is (routes over it, this one included) / bandwidth; bandwidths here have few digits."""
    graph = nx.DiGraph(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    used = [1] * topology.num_links
    fastest = max(topology.bandwidth)
    slow = [fastest / bandwidth for bandwidth in topology.bandwidth]
    for (a, b), route in sorted(all_routes(topology).items(), key=lambda item: (item[0][1], item[0][0])):
        shortest = [
            (sum(used[link] * slow[link] for link in links), path, links)
            for path in nx.all_shortest_paths(graph, a, b)
            for links in links_of_paths(topology, [path])
        ]
        assert tuple(route) == min(shortest)[2]
        for link in route:
            used[link] += 1


@pytest.mark.parametrize("topology", [torus(4, 4), mesh(3, 3), dgx_a100(2)], ids=lambda t: t.name)
def test_a_symmetric_network_and_its_transpose_have_routes_over_the_same_nodes(topology):
    turned = transpose(topology)
    ways = [
        (t.target[route].tolist(), pair) for t in (topology, turned) for pair, route in all_routes(t).items()
    ]
    assert ways[: len(ways) // 2] == ways[len(ways) // 2 :]


def test_routes_stand_in_the_order_of_the_pairs_asked_for():
    topology = torus(4, 4)
    rng = np.random.default_rng(0)
    sources = rng.integers(0, 16, 200)
    targets = (sources + rng.integers(1, 16, 200)) % 16
    offsets, links = shortest_routes(topology, sources, targets)
    assert np.array_equal(np.diff(offsets), hop_distances(topology)[sources, targets])
    assert np.array_equal(topology.source[links[offsets[:-1]]], sources)
    assert np.array_equal(topology.target[links[offsets[1:] - 1]], targets)


def test_switches_may_be_ends():
    box = dgx_a100(1)
    offsets, links = shortest_routes(box, [8, 0], [3, 8])
    assert [box.link_name(link) for link in links] == ["nvswitch0->3", "0->nvswitch0"]
    assert offsets.tolist() == [0, 1, 2]


def test_no_pairs_have_no_routes():
    offsets, links = shortest_routes(ring(3), [], [])
    assert (offsets.tolist(), links.tolist()) == ([0], [])


def test_a_pair_without_a_route_is_named():
    sink = Topology.from_links("sink", 2, [Link(0, 1), Link(1, 0), Link(1, 2)], num_switches=1)
    with pytest.raises(InputError, match=r"topology sink: no path from s0 to 1$"):
        shortest_routes(sink, [0, 2], [1, 1])
    with pytest.raises(InputError, match=r"topology sink: no route from 1 to itself is needed$"):
        shortest_routes(sink, [1], [1])


def test_routes_take_only_links_that_are_usable():
    """The route takes the opposite direction in a ring of four without the link from 0 to 1."""
    where = ring(4)
    usable = (where.source != 0) | (where.target != 1)
    offsets, links = shortest_routes(where, [0, 1], [1, 0], usable)
    assert offsets.tolist() == [0, 3, 4]
    assert where.target[links].tolist() == [3, 2, 1, 0]
    with pytest.raises(InputError, match="no path from 0 to 1"):
        shortest_routes(where, [0], [1], where.source != 0)


def test_the_four_parallel_links_of_a_pair_take_turns():
    topology = parallel_links(ring(4), 4)
    _, links = shortest_routes(topology, [0] * 8, [1] * 8)
    assert sorted(links.tolist()) == sorted(
        2 * np.flatnonzero((topology.source == 0) & (topology.target == 1)).tolist()
    )


def test_shortest_trees_are_bellman_fords():
    for seed in range(6):
        topology = random_network(seed)
        lengths = np.random.default_rng(seed).integers(0, 6, topology.num_links)
        for source in range(topology.num_nodes):
            check_tree(topology, lengths, source, f"seed {seed}, source {source}")


def check_tree(topology, lengths, source, where):
    """Check distances against V rounds of relaxation; last links are tight and lead back to the source."""
    V = topology.num_nodes
    tree = ShortestTree(np.empty(V, np.int64), np.empty(V, np.int32), np.empty(V, np.int32))
    reached = shortest_tree(Adjacency.of(topology), lengths, source, tree)
    expected = relaxed(topology, lengths, [source])
    assert tree.distance.tolist() == expected, where
    assert reached == V, where
    place = {int(v): i for i, v in enumerate(tree.order)}
    for v in set(range(V)) - {source}:
        tail = int(topology.source[tree.parent[v]])
        assert place[tail] < place[v], where
        assert expected[tail] + lengths[tree.parent[v]] == expected[v], where


def relaxed(topology, lengths, sources):
    """Return distances from the nearest source, by relaxing all links as often as there are nodes."""
    found = [0 if v in sources else 10**9 for v in range(topology.num_nodes)]
    for _ in found:
        for e, (u, v) in enumerate(zip(topology.source, topology.target, strict=True)):
            found[v] = min(found[v], found[u] + lengths[e])
    return found


def test_hops_from_several_sources_are_those_from_the_nearest():
    for seed in range(6):
        topology = random_network(seed)
        graph = Neighbours.of(topology.source, topology.target, topology.num_nodes)
        hops, queue = np.empty((2, topology.num_nodes), np.int32)
        breadth_first(graph, np.array([3, 7]), hops, queue)
        expected = relaxed(topology, [1] * topology.num_links, [3, 7])
        assert hops.tolist() == expected, f"seed {seed}"
        assert sorted(queue) == [*range(topology.num_nodes)], f"seed {seed}"
        assert np.all(np.diff(hops[queue]) >= 0), f"seed {seed}"


def simple_routes(topology, lengths, start, forwards):
    """Return all simple routes from a node over forwarding nodes, each with its length and end."""
    open_routes = [(0, start, (), {start})]
    while open_routes:
        length, node, route, seen = open_routes.pop()
        yield length, node, route
        if route and not forwards[node]:
            continue
        for link in np.flatnonzero(topology.source == node).tolist():
            head = int(topology.target[link])
            if head not in seen:
                open_routes.append((length + lengths[link], head, (*route, link), seen | {head}))


@pytest.mark.parametrize("by_links", [True, False])
def test_the_nearest_come_first_by_a_shortest_route_over_nodes_that_forward(by_links):
    """The route is the lexicographically first shortest one if `by_links`, otherwise any shortest one."""
    for seed in range(6):
        topology = random_network(seed, nodes=8, extra=8)
        rng = np.random.default_rng(seed)
        lengths = [Fraction(int(x), 3) for x in rng.integers(1, 4, topology.num_links)]
        forwards = [bool(x) for x in rng.random(8) < 0.6]
        leaving = [np.flatnonzero(topology.source == v).tolist() for v in range(8)]
        begun = [(lengths[e], int(topology.target[e]), (e,)) for e in leaving[2]]
        found = {
            node: (length, route)
            for length, node, route in nearest_first(
                leaving, topology.target.tolist(), lengths, begun, forwards=forwards, by_links=by_links
            )
            if node != 2
        }
        routes: dict = {}
        for length, node, route in simple_routes(topology, lengths, 2, forwards):
            routes.setdefault(node, []).append((length, route))
        del routes[2]
        assert found.keys() == routes.keys(), f"seed {seed}"
        for node, (length, route) in found.items():
            assert length == min(routes[node])[0], f"seed {seed}, node {node}"
            assert (length, route) in routes[node], f"seed {seed}, node {node}"
            assert not by_links or route == min(routes[node])[1], f"seed {seed}, node {node}"
        assert list(found) == sorted(found, key=lambda v: (found[v][0], v)), f"seed {seed}"


def test_links_of_infinite_length_are_not_used():
    lengths = [1.0, inf, inf, 1.0, 1.0, inf]  # a ring of three in one direction
    found = list(nearest_first([[0, 1], [2, 3], [4, 5]], [1, 2, 0, 2, 0, 1], lengths, [(0.0, 0, ())]))
    assert found == [(0.0, 0, ()), (1.0, 1, (0,)), (2.0, 2, (0, 3))]

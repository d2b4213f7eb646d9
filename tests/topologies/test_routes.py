"""Shortest routes: chained, shortest, and spread over the links."""

from itertools import pairwise, product

import networkx as nx
import numpy as np
import pytest

from topologies import (
    InputError,
    Link,
    Topology,
    circulant,
    dgx_a100,
    gen_kautz,
    hop_distances,
    mesh,
    mi250,
    parallel_links,
    ring,
    shortest_routes,
    torus,
    transpose,
)

NETWORKS = [
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
    """The route of every pair of distinct ranks, by pair."""
    pairs = [(a, b) for a, b in product(range(topology.num_ranks), repeat=2) if a != b]
    offsets, links = shortest_routes(topology, [a for a, _ in pairs], [b for _, b in pairs])
    return {pair: links[offsets[i] : offsets[i + 1]].tolist() for i, pair in enumerate(pairs)}


def links_of_paths(topology, paths):
    """Every list of links along these node paths; parallel links each count."""
    between: dict = {}
    for link, ends in enumerate(zip(topology.source.tolist(), topology.target.tolist(), strict=True)):
        between.setdefault(ends, []).append(link)
    for path in paths:
        yield from product(*(between[hop] for hop in pairwise(path)))


@pytest.mark.parametrize("topology", NETWORKS, ids=lambda t: t.name)
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


def test_the_four_parallel_links_of_a_pair_take_turns():
    topology = parallel_links(ring(4), 4)
    _, links = shortest_routes(topology, [0] * 8, [1] * 8)
    assert sorted(links.tolist()) == sorted(
        2 * np.flatnonzero((topology.source == 0) & (topology.target == 1)).tolist()
    )

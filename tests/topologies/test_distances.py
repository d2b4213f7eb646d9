"""Distances in hops and in α against networkx and a matrix product."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from topologies import (
    Link,
    Topology,
    alpha_distances,
    dgx_a100,
    diameter,
    gen_kautz,
    hop_distances,
    mesh,
    mi250,
    parse_topology,
    ring,
    torus,
    uniring,
)
from topologies.distances import UNREACHABLE


def random_network(seed, nodes=12, links=30, switches=3):
    """A random strongly connected multigraph with uneven α."""
    rng = np.random.default_rng(seed)
    cycle = [(i, (i + 1) % nodes) for i in range(nodes)]
    extra = [tuple(rng.choice(nodes, 2, replace=False).tolist()) for _ in range(links)]
    alphas = [Fraction(int(rng.integers(0, 9)), int(rng.integers(1, 6))) for _ in cycle + extra]
    return Topology.from_links(
        f"random {seed}",
        nodes - switches,
        [Link(a, b, alpha=alpha) for (a, b), alpha in zip(cycle + extra, alphas, strict=True)],
        num_switches=switches,
    )


def graph(topology):
    """The network as a networkx graph; of parallel links, the one with the least α."""
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


@pytest.mark.parametrize("topology", NETWORKS, ids=lambda t: t.name)
def test_hops_are_networkxs(topology):
    expected = dict(nx.all_pairs_shortest_path_length(graph(topology)))
    hops = hop_distances(topology)
    assert hops.dtype == np.int32
    nodes = range(topology.num_nodes)
    assert hops.tolist() == [[expected[a][b] for b in nodes] for a in nodes]


@pytest.mark.parametrize("topology", NETWORKS, ids=lambda t: t.name)
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
    assert (alpha_distances(even) == hop_distances(even)).all()  # one α a link, over its own denominator


def test_the_diameter_is_over_ranks_only():
    # Rank to rank through the switch is 2 hops; from switch to switch would be 3.
    assert diameter(dgx_a100(2)) == 2
    links = [Link(0, 1), Link(1, 0), *(Link(a, a + 1) for a in range(1, 4))]
    assert diameter(Topology.from_links("tail", 2, links, num_switches=3)) == 1


def test_the_diameter_of_more_ranks_than_one_batch_is_the_largest_of_all():
    assert diameter(uniring(1500)) == 1499

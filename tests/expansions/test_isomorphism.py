"""Isomorphisms are checked on the links; their existence agrees with networkx and Table A.3."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sweep import for_each
from tutti.expansions.reversal import is_reverse_symmetric, isomorphism, link_bijection
from tutti.topologies import NoSchedule, parse_topology
from tutti.topologies.topology import Link, Topology
from tutti.topologies.transforms import transpose


def digraph(topology):
    """Return the networkx graph, in which an edge holds the multiset of the links between its ends."""
    graph = nx.DiGraph()
    graph.add_nodes_from((v, {"rank": v < topology.num_ranks}) for v in range(topology.num_nodes))
    for index in range(topology.num_links):
        link = topology.link(index)
        kinds = graph.get_edge_data(link.source, link.target, {"kinds": ()})["kinds"]
        value = link.bandwidth, link.alpha
        graph.add_edge(link.source, link.target, kinds=tuple(sorted((*kinds, value))))
    return graph


def isomorphic(one, other):
    """Return whether networkx finds the two isomorphic."""
    return nx.is_isomorphic(
        digraph(one),
        digraph(other),
        node_match=lambda a, b: a == b,
        edge_match=lambda a, b: a == b,
    )


def assert_maps(one, other, nodes):
    """Check the definition, link by link."""
    assert sorted(nodes.tolist()) == list(range(other.num_nodes))
    images = sorted((nodes[u], nodes[v], b, a) for u, v, b, a in rows(one))
    assert images == sorted(rows(other))


def rows(topology):
    links = (topology.link(i) for i in range(topology.num_links))
    return [(link.source, link.target, link.bandwidth, link.alpha) for link in links]


def shuffled(topology, seed):
    """Return the same network with its nodes and links renumbered."""
    rng = np.random.default_rng(seed)
    ranks = rng.permutation(topology.num_ranks)
    switches = topology.num_ranks + rng.permutation(topology.num_switches)
    place = np.concatenate([ranks, switches]).astype(int).tolist()
    links = [Link(place[u], place[v], b, a) for u, v, b, a in rows(topology)]
    rng.shuffle(links)
    return Topology.from_links(
        f"{topology.name}, shuffled",
        topology.num_ranks,
        links,
        num_switches=topology.num_switches,
        multicast=[place[s] for s in topology.multicast],
        aggregate=[place[s] for s in topology.aggregate],
    )


@pytest.mark.parametrize(
    "text",
    [
        "torus:3x4?bandwidth=50GB/s,25GB/s",
        "gen_kautz:3,20",
        "circulant:24,3,5",
        "dgx_a100:2",
        "ring:6?links=2",
        "hypercube:5",
        "L(DBJMod(2,4)^2)",
        "slim_fly:5",
    ],
)
def test_a_network_is_found_again_under_other_numbers(text):
    topology = parse_topology(text)
    other = shuffled(topology, 7)
    nodes = isomorphism(topology, other)
    assert nodes is not None
    assert_maps(topology, other, nodes)


@st.composite
def small_networks(draw):
    """Draw strongly connected digraphs of few nodes and two kinds of links."""
    n = draw(st.integers(2, 5))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(1, 2))
    more = draw(st.lists(pairs, max_size=4))
    links = [Link(i, (i + 1) % n) for i in range(n)]
    links += [Link(u, v, bandwidth=b * 10**9) for u, v, b in more if u != v]
    return Topology.from_links("drawn", n, links)


@given(small_networks(), small_networks())
def test_networkx_agrees_on_small_networks(one, other):
    for two in (other, transpose(one)):
        nodes = isomorphism(one, two)
        assert (nodes is not None) == isomorphic(one, two)
        if nodes is not None:
            assert_maps(one, two, nodes)


TABLE_A3 = [
    *((text, True) for text in ("K_5", "K_{4,4}", "H(2,3)", "K(2,2)", "K(3,2)", "C(16,{3,4})")),
    *((text, True) for text in ("DiCirculant(4)", "DiCirculant(2)", "BiRing(4,5)", "UniRing(2,5)")),
    *((text, True) for text in ("DBJ(2,4)", "DBJ(3,2)", "DBJMod(2,3)", "DistReg(4,32)")),
    *((text, False) for text in ("Diamond", "DBJMod(2,4)", "DBJMod(3,2)", "DBJMod(4,2)")),
    *((text, False) for text in ("Pi_{2,5}", "Pi_{2,7}", "Pi_{3,7}", "Pi_{4,9}", "Pi_{2,100}")),
]
"""The column Reverse-Symmetric of Table A.3. The cross for generalized Kautz networks means "not in general":
they include the Kautz networks, which are symmetric."""


@for_each(("text", "expected"), TABLE_A3)
def test_table_a3_says_which_networks_are_reverse_symmetric(text, expected):
    assert is_reverse_symmetric(parse_topology(text)) == expected


@pytest.mark.parametrize(
    "text", ["Pi_{2,5}", "Diamond", "DBJMod(2,3)", "DBJMod(2,4)", "Pi_{2,8}", "Pi_{3,8}"]
)
def test_networkx_agrees_on_reverse_symmetry(text):
    topology = parse_topology(text)
    assert is_reverse_symmetric(topology) == isomorphic(topology, transpose(topology))


@pytest.mark.parametrize(
    "text",
    [
        "L(C(7,{1,2}))",
        "L^2(UniRing(1,3) x K_3)",
        "K(2,2) * 2",
        "DBJ(2,2)^2",
        "UniRing(1,4) x K_4",
        "Bi(Pi_{2,5})",
    ],
)
def test_expansions_keep_reverse_symmetry(text):
    """A.2, after Theorem 2. A network whose links all have a reverse is its own transpose."""
    topology = parse_topology(text)
    nodes = isomorphism(topology, transpose(topology))
    assert nodes is not None
    assert_maps(topology, transpose(topology), nodes)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ring:6", "ring:7"),
        ("ring:6", "uniring:6?links=2"),
        ("torus:3x4", "torus:3x4?bandwidth=50GB/s,25GB/s"),
        ("circulant:16,1,3", "circulant:16,1,4"),
        ("hypercube:4", "twisted_hypercube:4"),
        ("dgx_a100:1", "ring:9"),
    ],
)
def test_networks_that_differ_are_told_apart(one, other):
    first, second = parse_topology(one), parse_topology(other)
    assert isomorphism(first, second) is None
    assert not isomorphic(first, second)


def test_a_map_that_is_no_isomorphism_is_none():
    ring = parse_topology("ring:4")
    assert link_bijection(ring, ring, np.array([0, 0, 1, 2])) is None
    assert link_bijection(ring, ring, np.array([1, 0, 2, 3])) is None
    assert link_bijection(ring, parse_topology("ring:5"), np.arange(4)) is None


def test_an_effort_spent_is_said():
    with pytest.raises(NoSchedule, match=r"Pi_\{2,100\} .* isomorphic could not be decided with"):
        is_reverse_symmetric(parse_topology("Pi_{2,100}"), effort=1000)

"""Expansions against networkx, against their definitions, and against known isomorphisms."""

import itertools
from collections import Counter
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from tests.sweep import for_each
from tutti.topologies import (
    InputError,
    Link,
    Topology,
    circulant,
    complete,
    complete_bipartite,
    diameter,
    drop_links,
    gen_kautz,
    hamming,
    hypercube,
    mesh,
    mi250,
    parallel_links,
    parse_topology,
    ring,
    torus,
    transpose,
    union_with_transpose,
    uniring,
)
from tutti.topologies.families.direct import de_bruijn, kautz, unidirectional_ring
from tutti.topologies.families.products import (
    cartesian_power,
    cartesian_product,
    degree_expansion,
    line_graph,
    self_loops,
)


def pairs(topology):
    """Return the links as a multiset of (source, target)."""
    return Counter(zip(topology.source.tolist(), topology.target.tolist(), strict=True))


def digraph(topology):
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(topology.num_nodes))
    graph.add_edges_from(pairs(topology).elements())
    return graph


def labelled(topology):
    """Return the links as pairs of labels."""
    return Counter((topology.labels[u], topology.labels[v]) for u, v in pairs(topology).elements())


SMALL = [complete(3), ring(5), complete_bipartite(2), unidirectional_ring(2, 3), gen_kautz(2, 9), mesh(2, 3)]


@pytest.mark.parametrize("base", SMALL, ids=lambda base: base.name)
def test_a_line_graph_joins_each_link_to_those_that_leave_its_head(base):
    assert not self_loops(base).any()
    expected = Counter(
        (e, f)
        for e, f in itertools.product(range(base.num_links), repeat=2)
        if base.target[e] == base.source[f]
    )
    assert pairs(line_graph(base)) == expected


@pytest.mark.parametrize("base", [complete(4), circulant(7, 2, 3), uniring(5)], ids=lambda base: base.name)
def test_a_line_graph_of_a_simple_network_is_networkxs(base):
    built = line_graph(base)
    ends = list(zip(base.source.tolist(), base.target.tolist(), strict=True))
    expected = Counter((ends.index(e), ends.index(f)) for e, f in nx.line_graph(nx.DiGraph(ends)).edges)
    assert pairs(built) == expected


def test_line_graphs_keep_the_degree_and_multiply_the_ranks():
    built = complete_bipartite(4)
    for times in range(1, 4):
        built = line_graph(built)
        assert (built.num_ranks, built.degree) == (8 * 4**times, 4)
        assert diameter(built) == 2 + times  # Table A.1: L(K_{4,4}), L^2, L^3 have diameters 3, 4, 5


def test_the_line_graph_of_the_line_graph_of_k_is_kautz():
    built = line_graph(line_graph(complete(3)))
    assert nx.is_isomorphic(digraph(built), digraph(kautz(2, 2)))


@pytest.mark.parametrize(("degree", "length"), [(2, 1), (2, 2), (2, 3), (3, 1)])
def test_a_self_loop_has_a_node_in_the_line_graph_so_de_bruijn_networks_grow(degree, length):
    # L(DBJ(d, n)) = DBJ(d, n + 1), a classic; its self-loops are dropped and counted again.
    built = line_graph(de_bruijn(degree, length))
    larger = de_bruijn(degree, length + 1)
    assert built.degree == degree
    assert sorted(self_loops(built)) == sorted(self_loops(larger))
    assert nx.is_isomorphic(digraph(built), digraph(larger))


def test_labels_of_line_graphs_are_walks():
    once = line_graph(complete(3))
    assert once.labels == ("0>1", "0>2", "1>0", "1>2", "2>0", "2>1")
    twice = line_graph(once)
    assert twice.labels[:4] == ("0>1>0", "0>1>2", "0>2>0", "0>2>1")
    walks = {
        (*walk,)
        for walk in itertools.product("012", repeat=4)
        if all(a != b for a, b in itertools.pairwise(walk))
    }
    assert {tuple(label.split(">")) for label in line_graph(twice).labels} == walks


def test_parallel_links_are_nodes_of_their_own_with_numbered_labels():
    built = line_graph(unidirectional_ring(2, 3))
    assert built.labels == ("0>1", "0>1#2", "1>2", "1>2#2", "2>0", "2>0#2")
    again = line_graph(built)
    assert again.labels[:4] == ("0>1>2", "0>1>2#2", "0>1#2>2", "0>1#2>2#2")
    assert (again.num_ranks, again.degree, len(set(again.labels))) == (12, 2, 12)


@for_each("base", SMALL)
@for_each("factor", [1, 2, 3])
def test_a_degree_expansion_links_every_copy_to_every_copy(base, factor):
    expected = Counter(
        (int(u) * factor + i, int(v) * factor + j)
        for u, v in zip(base.source, base.target, strict=True)
        for i in range(factor)
        for j in range(factor)
    )
    built = degree_expansion(base, factor)
    assert pairs(built) == expected
    assert built.degree == (None if base.degree is None else factor * base.degree)


def test_a_degree_expansion_of_known_networks_is_known():
    # K_2 * n = K_{n,n}; K_3 * 2 is the octahedron.
    assert nx.is_isomorphic(digraph(degree_expansion(complete(2), 3)), digraph(complete_bipartite(3)))
    assert nx.is_isomorphic(nx.Graph(digraph(degree_expansion(complete(3), 2))), nx.octahedral_graph())
    assert degree_expansion(complete(3), 2).labels == ("0_1", "0_2", "1_1", "1_2", "2_1", "2_2")


@pytest.mark.parametrize(
    ("one", "other"),
    [(ring(4), uniring(3)), (complete(3), ring(5)), (unidirectional_ring(2, 3), complete(2))],
)
def test_a_cartesian_product_changes_one_coordinate_along_a_link(one, other):
    expected = Counter()
    for (u, v), x in itertools.product(pairs(one).elements(), range(other.num_ranks)):
        expected[u * other.num_ranks + x, v * other.num_ranks + x] += 1
    for (x, y), u in itertools.product(pairs(other).elements(), range(one.num_ranks)):
        expected[u * other.num_ranks + x, u * other.num_ranks + y] += 1
    built = cartesian_product(one, other)
    assert pairs(built) == expected
    assert built.degree == one.degree + other.degree
    assert diameter(built) == diameter(one) + diameter(other)


def test_products_of_rings_and_complete_networks_are_the_families_to_the_link():
    def same(built, family):
        assert (built.source == family.source).all()
        assert (built.target == family.target).all()

    same(cartesian_product(ring(3), ring(4), ring(5)), torus(3, 4, 5))
    same(cartesian_power(complete(3), 3), hamming(3, 3))
    same(cartesian_power(complete(2), 5), hypercube(5))


def test_labels_of_products_are_coordinates():
    built = cartesian_product(ring(3), cartesian_power(complete(2), 2))
    assert built.labels == tuple(f"{a}.{b}.{c}" for a in range(3) for b in range(2) for c in range(2))


def test_factors_of_a_product_keep_their_own_bandwidth_and_alpha():
    fast = ring(3, bandwidth=3 * 10**9, alpha=Fraction(1, 3))
    slow = uniring(4, bandwidth=Fraction(10**9, 7), alpha=Fraction(1, 7))
    built = cartesian_product(fast, slow)
    for index in range(built.num_links):
        link = built.link(index)
        along_first = link.source // 4 != link.target // 4
        expected = (3 * 10**9, Fraction(1, 3)) if along_first else (Fraction(10**9, 7), Fraction(1, 7))
        assert (link.bandwidth, link.alpha) == expected


def test_a_degree_expansion_keeps_the_bandwidth_of_each_link():
    base = mesh(2, 2, bandwidth=[10**9, 2 * 10**9])
    built = degree_expansion(base, 2)
    speeds = {
        (base.link(i).source, base.link(i).target): base.link(i).bandwidth for i in range(base.num_links)
    }
    for index in range(built.num_links):
        link = built.link(index)
        assert link.bandwidth == speeds[link.source // 2, link.target // 2]


def test_line_graphs_keep_bandwidth_and_alpha():
    built = line_graph(ring(3, bandwidth=7, alpha=Fraction(1, 9)))
    assert set(built.bandwidth) == {7}
    assert set(built.alpha) == {Fraction(1, 9)}


@pytest.mark.parametrize("built", [
    line_graph(union_with_transpose(uniring(4))), degree_expansion(ring(5), 2),
    cartesian_product(uniring(3), ring(4)), line_graph(de_bruijn(2, 3)),
], ids=lambda built: built.name)  # fmt: skip
def test_links_are_numbered_by_source(built):
    assert (np.diff(built.source) >= 0).all()


def test_a_product_with_self_loops_counts_them_in_its_degree():
    built = cartesian_product(de_bruijn(2, 2), ring(3))
    assert built.degree == 4
    assert self_loops(built).sum() == 2 * 3
    assert cartesian_power(de_bruijn(2, 2), 2).degree == 4


@pytest.mark.parametrize("base", [uniring(4), circulant(5, 1), complete(3)], ids=lambda base: base.name)
def test_the_line_graph_of_the_transpose_is_the_transpose_of_the_line_graph(base):
    assert pairs(line_graph(transpose(base))) == pairs(transpose(line_graph(base)))


def test_expansions_of_transformed_networks_drop_the_expression():
    base = parse_topology("K_3")
    assert base.expression is not None
    for built in (
        line_graph(base),
        degree_expansion(base, 1),
        cartesian_product(base),
        cartesian_power(base, 2),
    ):
        assert built.expression is None


def test_a_line_graph_of_a_hundred_thousand_links():
    built = line_graph(gen_kautz(4, 25_000))
    assert (built.num_ranks, built.num_links) == (100_000, 400_000)


TWO_SPEEDS = Topology.from_links("two", 2, [Link(0, 1, Fraction(1)), Link(1, 0, Fraction(2))])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: line_graph(mi250(2)),
            r"L\(mi250:2\): mi250:2 has 1 switch\(es\); only networks of ranks alone",
        ),
        (
            lambda: line_graph(TWO_SPEEDS),
            r"L\(two\): a line graph needs links of one bandwidth and one alpha",
        ),
        (lambda: line_graph(complete(300)), r"L\(complete:300\) has too many links"),
        (lambda: degree_expansion(ring(4), 0), r"ring:4 \* 0: factor 0 is too small; at least 1"),
        (
            lambda: degree_expansion(de_bruijn(2, 3), 2),
            r"debruijn:2,3 \* 2: degree expansion needs a network without self-loops; they are at 0, 7$",
        ),
        (
            lambda: degree_expansion(gen_kautz(4, 1024), 2),
            r"without self-loops; they are at .*, \.\.\.|at \d",
        ),
        (lambda: degree_expansion(mi250(2), 2), "only networks of ranks alone are expanded"),
        (lambda: degree_expansion(ring(1000), 10**6), "too many nodes"),
        (cartesian_product, "a Cartesian product needs at least one network"),
        (lambda: cartesian_product(ring(3), mi250(2)), "ring:3 x mi250:2: mi250:2 has 1 switch"),
        (lambda: cartesian_power(ring(3), 0), r"ring:3\^0: exponent 0 is too small"),
        (lambda: cartesian_power(ring(3), 10**6), "too many nodes"),
        (lambda: cartesian_product(ring(2000), ring(2000)), "too many nodes"),
        (
            lambda: cartesian_product(
                ring(3, alpha=Fraction(2**30, 2**40 - 1)), ring(3, alpha=Fraction(1, 2**40 - 3))
            ),
            "too far apart",
        ),
    ],
)
def test_what_can_not_be_expanded_is_refused_in_one_line(build, message):
    with pytest.raises(InputError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


def test_an_irregular_network_has_a_line_graph_too():
    built = line_graph(drop_links(complete(3), [(0, 1)]))
    assert labelled(built) == Counter(
        {("0>2", "2>0"): 1, ("0>2", "2>1"): 1, ("1>2", "2>0"): 1, ("1>2", "2>1"): 1,
         ("2>0", "0>2"): 1, ("2>1", "1>2"): 1}
    )  # fmt: skip
    assert built.degree is None


def test_parallel_links_by_key_and_by_family_agree():
    assert pairs(parallel_links(uniring(4), 3)) == pairs(unidirectional_ring(3, 4))

"""Families against networkx's generators and their own definitions."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import networkx as nx
import pytest

from tests.sweep import for_each
from tutti.topologies import (
    DEFAULT_ALPHA,
    DEFAULT_BANDWIDTH,
    InputError,
    circulant,
    complete,
    complete_bipartite,
    diameter,
    gen_kautz,
    hamming,
    hypercube,
    mesh,
    ring,
    torus,
    uniring,
)

GB = 10**9


def pairs(topology):
    """Return the links as a multiset of (source, target)."""
    return Counter(zip(topology.source.tolist(), topology.target.tolist(), strict=True))


def both_ways(graph, number):
    """Return the edges of a simple undirected networkx graph, once in each direction."""
    return Counter((number(a), number(b)) for x, y in graph.edges for a, b in ((x, y), (y, x)))


def row_major(lengths):
    """Return the number of a coordinate tuple; networkx's grid_graph lists the last dimension first."""
    return lambda node: sum(
        x * math.prod(lengths[i + 1 :]) for i, x in enumerate(reversed(node) if len(lengths) > 1 else [node])
    )


@pytest.mark.parametrize("lengths", [(2, 3), (4, 4), (5, 3), (2, 2, 2), (3, 4, 5), (7,), (4, 1), (1, 5, 2)])
def test_a_mesh_is_a_grid_graph(lengths):
    expected = both_ways(nx.grid_graph(lengths), row_major(lengths))
    assert pairs(mesh(*lengths)) == expected


@pytest.mark.parametrize("lengths", [(3, 3), (4, 4), (5, 3), (2, 4), (2, 2, 2), (3, 4, 5), (7,), (4, 1)])
def test_a_torus_is_a_periodic_grid_graph_where_two_wrap_to_one_link(lengths):
    # A networkx graph is simple, so a dimension of length 2 has one edge, as ours has one bidirectional link.
    graph = nx.grid_graph(lengths, periodic=[length > 1 for length in lengths])
    assert pairs(torus(*lengths)) == both_ways(graph, row_major(lengths))


@pytest.mark.parametrize("dimension", [2, 3, 5])
def test_a_hypercube_flips_one_bit(dimension):
    graph = nx.hypercube_graph(dimension)
    expected = both_ways(graph, lambda bits: sum(bit << i for i, bit in enumerate(reversed(bits))))
    assert pairs(hypercube(dimension)) == expected


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_rings_and_the_complete_network_are_networkxs(ranks):
    assert pairs(ring(ranks)) == both_ways(nx.cycle_graph(ranks), int)
    assert pairs(uniring(ranks)) == Counter(list(nx.cycle_graph(ranks, create_using=nx.DiGraph).edges))
    assert pairs(complete(ranks)) == both_ways(nx.complete_graph(ranks), int)


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
def test_complete_bipartite_has_a_side_of_low_ranks_and_a_side_of_high_ones(degree):
    assert pairs(complete_bipartite(degree)) == both_ways(nx.complete_bipartite_graph(degree, degree), int)


@pytest.mark.parametrize(("dimension", "length"), [(1, 4), (2, 3), (3, 3), (2, 5), (4, 2)])
def test_hamming_neighbours_differ_in_one_coordinate(dimension, length):
    words = list(itertools.product(range(length), repeat=dimension))  # in row-major order
    expected = Counter(
        (i, j)
        for i, x in enumerate(words)
        for j, y in enumerate(words)
        if sum(a != b for a, b in zip(x, y, strict=True)) == 1
    )
    assert pairs(hamming(dimension, length)) == expected


@pytest.mark.parametrize(
    ("ranks", "offsets"),
    [(7, (2, 3)), (16, (3, 4)), (12, (2, 3)), (8, (1, 4)), (5, (1, 2)), (10, (7,)), (4, (2, 1))],
)
def test_a_circulant_is_networkxs(ranks, offsets):
    assert pairs(circulant(ranks, *offsets)) == both_ways(nx.circulant_graph(ranks, offsets), int)


def test_an_offset_of_half_the_ranks_is_a_single_neighbour():
    assert circulant(8, 1, 4).degree == 3
    assert circulant(8, 1, 4).num_links == 24


@pytest.mark.parametrize(
    ("degree", "ranks"), [(2, 5), (2, 6), (2, 7), (4, 64), (3, 10), (4, 3), (2, 2), (5, 3)]
)
def test_generalized_kautz_is_definition_16_without_its_self_loops(degree, ranks):
    expected: Counter = Counter()
    for x, y, a in itertools.product(range(ranks), range(ranks), range(1, degree + 1)):
        if (y + degree * x + a) % ranks == 0 and x != y:
            expected[x, y] += 1
    assert pairs(gen_kautz(degree, ranks)) == expected


def test_dropped_self_loops_count_in_the_degree():
    kautz = gen_kautz(4, 64)
    assert kautz.num_links < 4 * 64
    assert kautz.degree == 4
    assert kautz.node_bandwidth == 4 * DEFAULT_BANDWIDTH


def test_a_kautz_network_is_the_line_graph_of_a_complete_one():
    # Definition 16: for n = d^(k+1) + d^k it is K(d, k) = L^k(K_{d+1}); here d = 2, k = 1.
    kautz = nx.MultiDiGraph(list(pairs(gen_kautz(2, 6)).elements()))
    assert nx.is_isomorphic(nx.DiGraph(kautz), nx.line_graph(nx.complete_graph(3, nx.DiGraph)))


@for_each(
    ("topology", "degree"),
    [
        (ring(2), 1),
        (ring(5), 2),
        (uniring(5), 1),
        (torus(4, 4), 4),
        (torus(2, 4), 3),  # one link for the dimension of length 2
        (torus(2, 2), 2),
        (torus(4, 1), 2),
        (torus(3, 4, 5), 6),
        (hypercube(6), 6),
        (complete(8), 7),
        (complete_bipartite(4), 4),
        (hamming(2, 5), 8),
        (circulant(16, 3, 4), 4),
        (mesh(3, 3), None),
    ],
)
def test_degrees_are_those_of_table_a3(topology, degree):
    assert topology.degree == degree


@for_each(
    ("topology", "hops"),
    [
        (ring(9), 4),  # floor(n/2)
        (uniring(9), 8),  # n - 1
        (torus(4, 7, 3), 2 + 3 + 1),  # sum of floor(length/2)
        (mesh(4, 7), 3 + 6),  # sum of length - 1
        (mesh(6, 1), 5),
        (hypercube(7), 7),
        (complete(6), 1),
        (complete_bipartite(3), 2),
        (hamming(3, 4), 3),
        (circulant(64, 6, 7), 6),  # Theorem 22: C(n, {m, m + 1}) with m = ceil((-1 + sqrt(2n - 1))/2) has m
        (circulant(1024, 23, 24), 23),
        (gen_kautz(4, 64), 3),  # Table A.1, diameter column
        (gen_kautz(4, 1024), 5),
    ],
)
def test_diameters_are_those_of_the_closed_forms(topology, hops):
    assert diameter(topology) == hops


def test_ranks_are_row_major_and_each_dimension_has_its_own_numbers():
    grid = mesh(2, 3, bandwidth=[Fraction(50 * GB), Fraction(25 * GB)], alpha=[Fraction(1), Fraction(2)])
    for index in range(grid.num_links):
        link = grid.link(index)
        first = abs(link.source - link.target) == 3  # the last dimension varies fastest
        assert (link.bandwidth, link.alpha) == ((50 * GB, 1) if first else (25 * GB, 2))


def test_one_number_serves_all_dimensions_and_none_means_the_default():
    assert set(torus(2, 3, bandwidth=GB, alpha=0).bandwidth) == {Fraction(GB)}
    assert set(torus(2, 3).bandwidth) == {DEFAULT_BANDWIDTH}
    assert set(torus(2, 3).alpha) == {DEFAULT_ALPHA}


def test_offsets_of_a_circulant_have_their_own_numbers():
    fast_near = circulant(5, 1, 2, bandwidth=[2 * GB, GB])
    speeds = {
        (b - a) % 5: speed
        for a, b, speed in zip(fast_near.source, fast_near.target, fast_near.bandwidth, strict=True)
    }
    assert speeds == {1: 2 * GB, 4: 2 * GB, 2: GB, 3: GB}


def test_links_are_numbered_by_source_then_dimension_then_up_before_down():
    assert torus(3, 4).target[:4].tolist() == [4, 8, 1, 3]
    assert torus(3, 4).source.tolist() == sorted(torus(3, 4).source.tolist())
    assert circulant(7, 2, 3).target[:4].tolist() == [2, 5, 3, 4]
    assert hypercube(3).target[:3].tolist() == [4, 2, 1]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ring(1), "ring:1 has 1 rank; a collective needs at least 2"),
        (lambda: mesh(1, 1), "mesh:1x1 has 1 rank"),
        (lambda: torus(0, 4), "torus:0x4: length 0 is too small; at least 1"),
        (lambda: hypercube(0), "hypercube:0: dimension 0 is too small; at least 1"),
        (lambda: hamming(2, 1), "hamming:2,1: length 1 is too small; at least 2"),
        (lambda: complete_bipartite(0), "degree 0 is too small"),
        (lambda: gen_kautz(0, 5), "gen_kautz:0,5: degree 0 is too small; at least 1"),
        (lambda: gen_kautz(1, 5), "gen_kautz:1,5 is not strongly connected: rank 0 can't reach"),
        (lambda: circulant(8), r"circulant:8 has no offsets; write e\.g\. circulant:16,3,4"),
        (lambda: circulant(8, 8), r"circulant:8,8: offset 8 is not in 1\.\.7"),
        (lambda: circulant(8, 0), r"offset 0 is not in 1\.\.7"),
        (lambda: circulant(8, 3, 5), "offsets 3 and 5 join the same ranks; give each once"),
        (lambda: circulant(8, 3, 3), "offsets 3 and 3 join the same ranks"),
        (lambda: circulant(12, 2, 4), "falls apart into 2 parts: the gcd .* is 2; it must be 1"),
        (lambda: hypercube(99), "hypercube:99 has too many nodes; at most 1048576 are built"),
        (lambda: hamming(40, 10), "hamming:40,10 has too many nodes"),
        (lambda: complete(10**5), "complete:100000 has too many links; at most 16777216 are built"),
        (lambda: torus(3, 4, bandwidth=[1, 2, 3]), "torus:3x4: bandwidth has 3 values; give 1 or 2"),
        (lambda: complete(4, alpha=[1, 2]), "complete:4: alpha has 2 values; give 1$"),
        (lambda: ring(4, bandwidth=5e10), "ring:4: bandwidth is a float; give a Fraction or an integer"),
        (lambda: ring(4, bandwidth=0), "bandwidth of link 0->1 is 0 B/s; it must be positive"),
        (lambda: ring(4, alpha=-1), "alpha of link 0->1 is -1 s; it must not be negative"),
        (lambda: ring(4, bandwidth=2**62), "bandwidths over their common denominator add up to more than 64"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(build, message):
    with pytest.raises(InputError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)

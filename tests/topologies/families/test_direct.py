"""Direct-connect families against their definitions, networkx and the closed forms of their papers."""

from __future__ import annotations

import itertools
import tracemalloc
from collections import Counter

import networkx as nx
import numpy as np
import pytest
from ortools.sat.python import cp_model

from tutti.topologies import InputError, complete, diameter, hypercube, parse_topology, ring, torus, uniring
from tutti.topologies.families.direct import (
    bidirectional_ring,
    de_bruijn,
    diamond,
    directed_circulant,
    kautz,
    modified_de_bruijn,
    slim_fly,
    twisted_hypercube,
    twisted_torus,
    unidirectional_ring,
)
from tutti.topologies.graphs.shortest_paths import hop_distances


def pairs(topology):
    """Return the links as a multiset of (source, target)."""
    return Counter(zip(topology.source.tolist(), topology.target.tolist(), strict=True))


def digraph(topology):
    return nx.MultiDiGraph(list(pairs(topology).elements()))


def both_ways(topology):
    links = pairs(topology)
    return all(links[v, u] == count for (u, v), count in links.items())


@pytest.mark.parametrize(("degree", "times"), [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1)])
def test_a_kautz_network_is_networkxs_line_graph_of_the_complete_one(degree, times):
    expected = nx.complete_graph(degree + 1, create_using=nx.DiGraph)
    for _ in range(times):
        expected = nx.line_graph(expected)
    built = kautz(degree, times)
    assert built.num_ranks == (degree + 1) * degree**times
    assert built.degree == degree
    assert diameter(built) == times + 1
    assert nx.is_isomorphic(nx.DiGraph(digraph(built)), expected)


def test_the_smallest_kautz_networks_are_complete():
    assert pairs(kautz(3, 0)) == pairs(complete(4))
    assert pairs(kautz(1, 5)) == pairs(complete(2))


@pytest.mark.parametrize(("degree", "length"), [(2, 1), (2, 3), (2, 4), (3, 2), (4, 2)])
def test_a_de_bruijn_network_appends_a_letter_to_a_word(degree, length):
    words = list(itertools.product(range(degree), repeat=length))
    expected = Counter(
        (words.index(word), words.index((*word[1:], letter)))
        for word in words
        for letter in range(degree)
        if word != (*word[1:], letter)
    )
    built = de_bruijn(degree, length)
    assert pairs(built) == expected
    assert built.degree == degree  # self-loops count
    assert degree**length * degree - built.num_links == degree  # one at each constant word
    assert diameter(built) == length


@pytest.mark.parametrize("degree", [1, 2, 4, 7])
def test_a_directed_circulant_reaches_all_but_one_in_a_step(degree):
    built = directed_circulant(degree)
    missing = {(u, (u - 1) % (degree + 2)) for u in range(degree + 2)}
    every = set(itertools.permutations(range(degree + 2), 2))
    assert pairs(built) == Counter(every - missing)
    assert diameter(built) == 2


@pytest.mark.parametrize(("degree", "ranks"), [(1, 2), (1, 5), (2, 4), (3, 3)])
def test_a_unidirectional_ring_has_parallel_links(degree, ranks):
    built = unidirectional_ring(degree, ranks)
    assert pairs(built) == Counter({link: degree * count for link, count in pairs(uniring(ranks)).items()})
    assert diameter(built) == ranks - 1  # Table A.3: T_L = m - 1
    assert built.degree == degree


@pytest.mark.parametrize(("degree", "ranks"), [(2, 3), (2, 8), (4, 5), (6, 4)])
def test_a_bidirectional_ring_shares_its_links_between_the_ways(degree, ranks):
    built = bidirectional_ring(degree, ranks)
    half = degree // 2
    assert pairs(built) == Counter({link: half * count for link, count in pairs(ring(ranks)).items()})
    assert diameter(built) == ranks // 2  # Table A.3: T_L = floor(m / 2)
    assert built.degree == degree


def coordinates(lengths):
    return list(itertools.product(*map(range, lengths)))


@pytest.mark.parametrize("lengths", [(2, 4), (4, 8), (8, 4), (3, 3, 6), (6, 3, 3), (3, 6, 6), (4, 4, 8)])
def test_a_wrap_of_a_short_dimension_moves_by_half_of_every_long_one(lengths):
    short = min(lengths)
    places = coordinates(lengths)
    expected = Counter()
    for place in places:
        for dimension, length in enumerate(lengths):
            step = list(place)
            step[dimension] += 1
            if step[dimension] == length and length == short:
                step = [x + short if n == 2 * short else x for x, n in zip(step, lengths, strict=True)]
            step = tuple(x % n for x, n in zip(step, lengths, strict=True))
            up = places.index(place), places.index(step)
            expected += Counter([up, up[::-1]])
    built = twisted_torus(*lengths)
    assert pairs(built) == expected
    assert built.degree == 2 * len(lengths)


@pytest.mark.parametrize("side", [2, 3, 4, 5, 8])
def test_the_rectangular_twisted_torus_has_the_diameter_of_its_short_side(side):
    # Cámara et al. 2010: a 2a x a torus has diameter a + floor(a/2), twisted it has a.
    assert diameter(twisted_torus(side, 2 * side)) == side
    assert diameter(torus(side, 2 * side)) == side + side // 2


def test_a_twisted_torus_looks_alike_from_every_rank():
    built = digraph(twisted_torus(3, 3, 6))
    spheres = {tuple(sorted(nx.single_source_shortest_path_length(built, node).values())) for node in built}
    assert len(spheres) == 1


def test_a_twist_of_ones_own_joins_the_rows_into_one_ring():
    built = twisted_torus(3, 5, twist=1)  # wrapping round the first dimension ends one column further
    links = pairs(built)
    assert links[10, 1] == 1  # (2, 0) up to (0, 1)
    assert links[1, 10] == 1
    assert links[0, 14] == 1  # (0, 0) down to (2, 4)
    ups = nx.DiGraph(
        (5 * x + y, 5 * (x + 1) + y if x < 2 else (y + 1) % 5) for x in range(3) for y in range(5)
    )
    assert all(links[link] for link in ups.edges)
    assert nx.is_strongly_connected(ups)  # and, with in- and out-degree 1, a Hamiltonian cycle
    assert pairs(twisted_torus(3, 5, twist=0)) == pairs(torus(3, 5))
    assert pairs(twisted_torus(3, 5, twist=5)) == pairs(torus(3, 5))


@pytest.mark.parametrize("dimension", [3, 4, 5, 6])
def test_a_twisted_hypercube_exchanges_two_edges_and_gains_a_step(dimension):
    cube, twisted = pairs(hypercube(dimension)), pairs(twisted_hypercube(dimension))
    assert set(cube) - set(twisted) == {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert set(twisted) - set(cube) == {(0, 3), (3, 0), (1, 2), (2, 1)}
    assert twisted_hypercube(dimension).degree == dimension
    assert diameter(twisted_hypercube(dimension)) == dimension - 1  # Esfahanian, Ni and Sagan 1991


@pytest.mark.parametrize(
    ("order", "delta"), [(3, -1), (4, 0), (5, 1), (7, -1), (8, 0), (9, 1), (11, -1), (13, 1), (16, 0)]
)
def test_slim_fly_has_diameter_2_at_its_size_and_degree(order, delta):
    built = slim_fly(order)  # Besta and Hoefler 2014: 2q² routers, network degree (3q - δ)/2, diameter 2
    assert built.num_ranks == 2 * order**2
    assert built.degree == (3 * order - delta) // 2
    assert diameter(built) == 2
    assert both_ways(built)
    assert max(pairs(built).values()) == 1


def test_slim_fly_of_5_is_the_hoffman_singleton_graph():
    assert nx.is_isomorphic(nx.Graph(digraph(slim_fly(5))), nx.hoffman_singleton_graph())


def test_links_are_numbered_by_source():
    for built in (kautz(2, 2), de_bruijn(2, 3), bidirectional_ring(4, 5), twisted_torus(2, 4), slim_fly(3)):
        assert (np.diff(built.source) >= 0).all()


def test_dimensions_of_a_twisted_torus_have_their_own_bandwidths():
    built = twisted_torus(2, 4, bandwidth=[10**9, 2 * 10**9])
    assert {int(b) for b in built.bandwidth} == {10**9, 2 * 10**9}
    assert built.bandwidth[0] == 10**9  # rank 0 up the first dimension


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: kautz(0, 2), "kautz:0,2: degree 0 is too small; at least 1"),
        (lambda: kautz(2, 99), "kautz:2,99 has too many nodes"),
        (lambda: de_bruijn(1, 2), "debruijn:1,2: degree 1 is too small; at least 2"),
        (lambda: de_bruijn(2, 0), "length 0 is too small; at least 1"),
        (lambda: de_bruijn(2, 99), "too many nodes"),
        (lambda: directed_circulant(0), "degree 0 is too small"),
        (lambda: unidirectional_ring(3, 1), "directed_ring:3,1 has one node and only self-loops; at least 2"),
        (lambda: unidirectional_ring(0, 4), "degree 0 is too small"),
        (lambda: bidirectional_ring(3, 4), "biring:3,4: degree 3 is odd; half of the links go each way"),
        (lambda: bidirectional_ring(2, 2), "ranks 2 is too small; at least 3"),
        (lambda: twisted_torus(4), "twisted_torus:4: at least two dimensions of at least 2 ranks"),
        (lambda: twisted_torus(1, 2), "at least two dimensions of at least 2 ranks"),
        (lambda: twisted_torus(4, 4), "twisted_torus:4x4: lengths must be n and 2n, such as 4x8"),
        (lambda: twisted_torus(4, 12), "lengths must be n and 2n"),
        (lambda: twisted_torus(4, 4, 8, twist=1), "twist= is for two dimensions"),
        (lambda: twisted_torus(2048, 4096), "too many nodes"),
        (lambda: twisted_hypercube(2), "dimension 2 is too small; at least 3"),
        (lambda: twisted_hypercube(99), "too many nodes"),
        (lambda: slim_fly(6), "slim_fly:6: q = 6 is not a prime power"),
        (lambda: slim_fly(2), "slim_fly:2: q = 2 is too small; at least 3"),
        (lambda: slim_fly(1009), "q = 1009 is too large"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(build, message):
    with pytest.raises(InputError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["directed_ring:999999999,2", "biring:999999998,3", "UniRing(999999999,2)"])
def test_rings_of_too_many_links_are_refused_before_a_list_of_them_is_made(text):
    tracemalloc.start()
    with pytest.raises(InputError, match="too many links; at most 16777216"):
        parse_topology(text)
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


# Table A.3: degree, size, reverse-symmetric, T_L; and the diameters of Table A.1 (a square's is twice D,
# a line graph's is one more) for the rows that are built on them.
TABLE = {
    "Diamond": (diamond(), 2, 8, False, 3, 3),
    "DBJMod(2,3)": (modified_de_bruijn(2, 3), 2, 8, True, 4, None),
    "DBJMod(2,4)": (modified_de_bruijn(2, 4), 2, 16, False, 5, 4),
    "DBJMod(3,2)": (modified_de_bruijn(3, 2), 3, 9, False, 3, None),
    "DBJMod(4,2)": (modified_de_bruijn(4, 2), 4, 16, False, 3, 3),
}


def graph(topology):
    links = Counter(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    assert max(links.values()) == 1
    return nx.DiGraph(list(links))


@pytest.mark.parametrize("name", TABLE)
def test_a_network_has_the_properties_of_its_row_of_table_a3(name):
    built, degree, ranks, symmetric, _, hops = TABLE[name]
    assert (built.degree, built.num_ranks) == (degree, ranks)
    assert nx.is_isomorphic(graph(built), graph(built).reverse()) == symmetric
    assert hops in (None, diameter(built))
    assert parse_topology(name) == built


@pytest.mark.parametrize("name", [name for name in TABLE if name != "Diamond"])
def test_a_modified_de_bruijn_network_replaces_loops_and_2_cycles_by_one_long_cycle(name):
    built, degree, ranks, *_ = TABLE[name]
    arcs = {(x, (degree * x + a) % ranks) for x in range(ranks) for a in range(degree)}
    rewired = {(x, y) for x, y in arcs if (y, x) in arcs}
    new = set(graph(built).edges) - (arcs - rewired)
    assert set(graph(built).edges) >= arcs - rewired
    assert len(new) == len(rewired)
    cycle = nx.DiGraph(new)
    assert set(cycle) == {x for arc in rewired for x in arc}
    assert nx.is_strongly_connected(cycle)
    assert {d for _, d in cycle.out_degree} == {1}


def has_optimal_allgather(topology, steps, known=None):
    """Return whether a BW-optimal allgather has this number of steps (with the known loads, in chunks).

    Every chunk (a shard is cut into as many as the degree) reaches every rank once; a rank sends only chunks
    that it received before. All links have equal loads in each step.
    """
    ranks, degree, hops = topology.num_ranks, topology.degree, hop_distances(topology)
    links = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    into = [[e for e, (_, v) in enumerate(links) if v == rank] for rank in range(ranks)]
    model = cp_model.CpModel()
    loads = known or [model.new_int_var(0, ranks * degree, "") for _ in range(steps)]
    model.add(sum(loads) == ranks - 1)
    chunks = [(owner, part) for owner in range(ranks) for part in range(degree)]
    sends = {
        (chunk, e, t): model.new_bool_var("")
        for chunk in chunks
        for e, (u, v) in enumerate(links)
        for t in range(hops[chunk[0], u], steps)
        if v != chunk[0]
    }
    for chunk in chunks:
        for rank in set(range(ranks)) - {chunk[0]}:
            arrivals = {(e, t) for e in into[rank] for t in range(steps) if (chunk, e, t) in sends}
            model.add_exactly_one(sends[chunk, e, t] for e, t in arrivals)
            for e, (u, _) in enumerate(links):
                for t in range(steps):
                    if u == rank and (chunk, e, t) in sends:
                        earlier = [sends[chunk, f, q] for f, q in arrivals if q < t]
                        model.add(sends[chunk, e, t] <= sum(earlier))
    for e in range(len(links)):
        for t in range(steps):
            model.add(sum(sends[c, e, t] for c in chunks if (c, e, t) in sends) == loads[t])
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = 60
    status = solver.solve(model)
    assert status != cp_model.UNKNOWN
    return status != cp_model.INFEASIBLE


KNOWN = {"DBJMod(2,4)": [2, 2, 3, 3, 5], "DBJMod(4,2)": [3, 5, 7]}
"""Loads of the steps, in chunks, of a known allgather; they save a minute of search."""


@pytest.mark.parametrize("name", TABLE)
def test_a_bw_optimal_allgather_takes_the_steps_of_table_a3_and_not_fewer(name):
    built, _, _, _, steps, _ = TABLE[name]
    assert has_optimal_allgather(built, steps, KNOWN.get(name))
    assert not has_optimal_allgather(built, steps - 1)


def test_other_modified_de_bruijn_networks_are_refused():
    with pytest.raises(
        InputError, match=r"modified_debruijn:2,5: modified de Bruijn networks are those of 2,3, 2"
    ):
        modified_de_bruijn(2, 5)

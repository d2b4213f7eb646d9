"""Distance-regular graphs against networkx, their published intersection arrays and Table A.2."""

import csv
import itertools
from pathlib import Path

import networkx as nx
import pytest

from tests.sweep import for_each
from tutti.topologies import InputError, diameter
from tutti.topologies.families.algebraic import distance_regular, distance_regular_graphs, johnson

TABLE = Path(__file__).parents[2] / "data" / "reference" / "table_A2_distance_regular_d4.csv"
ARRAYS = {  # Brouwer, Cohen and Neumaier, Distance-Regular Graphs, chapter 14
    6: ([4, 1], [1, 4]),
    9: ([4, 2], [1, 2]),
    10: ([4, 3, 1], [1, 3, 4]),
    14: ([4, 3, 2], [1, 2, 4]),
    15: ([4, 2, 1], [1, 1, 4]),
    16: ([4, 3, 2, 1], [1, 2, 3, 4]),
    21: ([4, 2, 2], [1, 1, 2]),
    26: ([4, 3, 3], [1, 1, 4]),
    32: ([4, 3, 3, 1], [1, 1, 3, 4]),
    35: ([4, 3, 3], [1, 1, 2]),
    45: ([4, 2, 2, 2], [1, 1, 1, 2]),
    70: ([4, 3, 3, 2, 2, 1, 1], [1, 1, 2, 2, 3, 3, 4]),
    80: ([4, 3, 3, 3], [1, 1, 1, 4]),
    189: ([4, 2, 2, 2, 2, 2], [1, 1, 1, 1, 1, 2]),
    728: ([4, 3, 3, 3, 3, 3], [1, 1, 1, 1, 1, 4]),
}


def graph(topology):
    """Return the simple undirected graph, in which an edge stands for a link in each direction."""
    links = set(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    assert len(links) == topology.num_links
    assert links == {(v, u) for u, v in links}
    return nx.Graph(links)


def array_by_counting(network):
    """Return the intersection array by its definition; fail if it differs between nodes."""
    b: dict[int, set[int]] = {}
    c: dict[int, set[int]] = {}
    for node in network:
        level = nx.single_source_shortest_path_length(network, node)
        for other, distance in level.items():
            near = [level[neighbour] - distance for neighbour in network[other]]
            b.setdefault(distance, set()).add(near.count(1))
            c.setdefault(distance, set()).add(near.count(-1))
    assert all(len(values) == 1 for values in (*b.values(), *c.values()))
    last = max(b)
    return [b[i].pop() for i in range(last)], [c[i].pop() for i in range(1, last + 1)]


def rows():
    with TABLE.open() as file:
        return [(row["graph"], int(row["n"]), int(row["tl"])) for row in csv.DictReader(file)]


def test_the_graphs_of_degree_4_are_those_of_table_a2():
    assert [*distance_regular_graphs(4)] == [n for _, n, _ in rows()]


@for_each(("title", "ranks", "steps"), rows())
def test_a_row_of_table_a2_has_its_size_degree_and_diameter(title, ranks, steps):
    # BFB needs as many steps as the diameter (dissertation, Theorem 3 and Definition 15): column T_L.
    topology = distance_regular(4, ranks)
    assert (topology.num_ranks, topology.degree, diameter(topology)) == (ranks, 4, steps)
    assert len(graph(topology)) == ranks


@for_each("ranks", [n for n in ARRAYS if n < 700])
def test_a_graph_of_degree_4_has_its_published_intersection_array(ranks):
    assert array_by_counting(graph(distance_regular(4, ranks))) == ARRAYS[ranks]


def test_the_hexagon_of_728_nodes_has_girth_12_which_makes_its_array():
    # Bipartite, 4-regular, girth 12 and diameter 6 force the array of GH(3,3); nodes are counted by level.
    network = graph(distance_regular(4, 728))
    assert nx.is_bipartite(network)
    for node in range(0, 728, 13):
        level = nx.single_source_shortest_path_length(network, node)
        assert [sum(d == i for d in level.values()) for i in range(7)] == [1, 4, 12, 36, 108, 324, 243]


@for_each(
    ("degree", "ranks"), [(d, n) for d in (3, 5, 6, 7, 8) for n in distance_regular_graphs(d) if n <= 130]
)
def test_graphs_of_other_degrees_are_distance_regular(degree, ranks):
    topology = distance_regular(degree, ranks)
    assert topology.num_ranks == ranks
    assert topology.degree == degree
    assert nx.is_distance_regular(graph(topology))


@for_each(
    ("degree", "ranks", "known"),
    [
        (3, 10, nx.petersen_graph()),
        (3, 14, nx.heawood_graph()),
        (3, 18, nx.pappus_graph()),
        (3, 20, nx.desargues_graph()),
        (4, 6, nx.octahedral_graph()),
        (4, 9, nx.cartesian_product(nx.complete_graph(3), nx.complete_graph(3))),
        (4, 10, nx.complement(nx.cartesian_product(nx.complete_graph(5), nx.complete_graph(2)))),
        (4, 15, nx.line_graph(nx.petersen_graph())),
        (4, 16, nx.hypercube_graph(4)),
        (4, 21, nx.line_graph(nx.heawood_graph())),
        (6, 13, nx.paley_graph(13).to_undirected()),
    ],
)
def test_a_graph_with_a_name_is_isomorphic_to_networkxs(degree, ranks, known):
    assert nx.is_isomorphic(graph(distance_regular(degree, ranks)), known)


def test_tuttes_8_cage_and_12_cage_are_cages():
    for ranks, girth in ((30, 8), (126, 12)):
        network = graph(distance_regular(3, ranks))
        assert nx.girth(network) == girth  # the least number of nodes for it: the Moore bound of a cage
        assert ranks == 2 * (2 ** (girth // 2) - 1)


@pytest.mark.parametrize(("things", "size"), [(4, 1), (5, 2), (6, 3), (7, 2)])
def test_johnson_neighbours_share_all_but_one(things, size):
    network = graph(johnson(things, size))
    subsets = list(itertools.combinations(range(things), size))
    for (i, one), (j, other) in itertools.combinations(enumerate(subsets), 2):
        assert network.has_edge(i, j) == (len({*one} & {*other}) == size - 1)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: distance_regular(4, 33),
            r"no such distance-regular graph is built; there are n = 6, 9, 10, 14",
        ),
        (lambda: distance_regular(2, 8), r"distance_regular:2,8: no such .*; the degree is 3 to 32"),
        (lambda: johnson(4, 4), r"johnson:4,4: subsets of 4 of 4 things; 1 to 3"),
        (lambda: johnson(100, 50), r"johnson:100,50 has too many nodes"),
        (lambda: johnson(10**9, 2), r"too many nodes"),
    ],
)
def test_what_can_not_be_built_is_refused_in_one_line(build, message):
    with pytest.raises(InputError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)

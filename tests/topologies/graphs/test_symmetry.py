"""Automorphisms and their orbits against brute force, networkx and known facts on famous graphs."""

from fractions import Fraction
from itertools import permutations

import networkx as nx
import numpy as np
import pytest

from tests.sweep import for_each
from tests.topologies.networks import random_multigraph
from tutti.topologies import (
    Link,
    Topology,
    circulant,
    complete,
    dgx_a100,
    dgx_h100,
    drop_links,
    from_networkx,
    gen_kautz,
    hypercube,
    mesh,
    mi250,
    parallel_links,
    parse_topology,
    ring,
    torus,
    uniring,
)
from tutti.topologies.graphs.symmetry import (
    AutomorphismGroup,
    AutomorphismSearch,
    automorphisms,
    drawn_subgroup,
    likely_symmetries,
    link_permutation,
    orbits_of,
)


def random_network(seed, nodes=6, extra=5, switches=1):
    """Return a strongly connected multigraph with two bandwidths, two α and a switch."""

    def one_of_two(rng):
        return {key: Fraction(1 + int(rng.integers(0, 2))) for key in ("bandwidth", "alpha")}

    return random_multigraph(seed, nodes, extra, switches, one_of_two)


def regular(seed, nodes, degree=3):
    """Return a random regular graph as a topology with two links for each edge."""
    edges = nx.random_regular_graph(degree, nodes, seed=seed).to_directed().edges
    return Topology.from_links(f"regular {seed}", nodes, [Link(a, b) for a, b in sorted(edges)])


def undirected(name, graph):
    numbers = {node: i for i, node in enumerate(graph)}
    links = [Link(numbers[a], numbers[b]) for a, b in graph.to_directed().edges]
    return Topology.from_links(name, len(numbers), links)


def link_multiset(topology, nodes=None):
    """Return the links by their ends (renamed by `nodes`) and exact numbers, sorted."""
    image = range(topology.num_nodes) if nodes is None else nodes
    links = map(topology.link, range(topology.num_links))
    return sorted((image[k.source], image[k.target], k.bandwidth, k.alpha) for k in links)


def all_automorphisms(topology):
    """Try every permutation of the nodes that maps ranks to ranks and switches to switches of one kind."""
    kinds = [
        (v >= topology.num_ranks, v in topology.multicast, v in topology.aggregate)
        for v in range(topology.num_nodes)
    ]
    whole = link_multiset(topology)
    for nodes in permutations(range(topology.num_nodes)):
        if all(kinds[v] == kinds[w] for v, w in enumerate(nodes)) and link_multiset(topology, nodes) == whole:
            yield nodes


def brute_force_orbits(topology):
    nodes = [frozenset([v]) for v in range(topology.num_nodes)]
    found = list(all_automorphisms(topology))
    return [min({g[v] for g in found}) for v in range(len(nodes))], found


def searched(topology, effort=10**8):
    """Return the group that the search alone finds, without the families' symmetries."""
    search = AutomorphismSearch(topology, effort)
    search.run()
    return AutomorphismGroup(
        topology,
        np.array(search.nodes, np.int32).reshape(-1, topology.num_nodes),
        np.array(search.links, np.int32).reshape(-1, topology.num_links),
    )


SMALL = [
    *map(random_network, range(12)),
    *(regular(seed, 6) for seed in range(4)),
    ring(6),
    uniring(5),
    mesh(2, 3),
    mesh(4, 1),
    complete(5),
    circulant(7, 1, 2),
    gen_kautz(2, 6),
    torus(2, 3, bandwidth=[Fraction(1), Fraction(3)]),
    parallel_links(ring(4), 2),
    parse_topology("rail_only:2,2"),
]


@for_each("topology", SMALL)
@pytest.mark.parametrize("find", [automorphisms, searched], ids=["all", "search"])
def test_orbits_are_those_of_all_permutations_tried(topology, find):
    group = find(topology)
    orbits, found = brute_force_orbits(topology)
    assert group.node_orbits.tolist() == orbits
    whole = {tuple(nodes) for nodes in found}
    assert all(tuple(nodes) in whole for nodes in group.nodes.tolist())
    ends = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    kind = [(topology.bandwidth[i], topology.alpha[i]) for i in range(topology.num_links)]
    least = [
        min(j for j, end in enumerate(ends) if kind[j] == kind[i] and any((g[a], g[b]) == end for g in found))
        for i, (a, b) in enumerate(ends)
    ]
    assert group.link_orbits.tolist() == least


@for_each("topology", SMALL)
def test_the_whole_group_has_all_permutations(topology):
    found = automorphisms(topology, whole=True).elements(200)
    assert {tuple(nodes) for nodes in found[0].tolist()} == set(all_automorphisms(topology))


def test_pairs_of_nodes_of_boxes_are_alike_under_the_whole_group():
    """Orbits: two ranks, one or none, in one box or two, with its switch, the other's or an adapter's."""
    nodes = automorphisms(dgx_a100(2), whole=True).nodes
    pairs = [(to[:, None] * len(to) + to).ravel() for to in nodes]
    assert len(set(orbits_of(np.array(pairs), nodes.shape[1] ** 2).tolist())) == 3 + 4 + 2 + 2 + 2 + 1


@for_each("topology", [complete(32), parse_topology("fat_tree:1,32")])
def test_the_whole_group_has_few_generators(topology):
    """Beyond the family's, there are at most as many generators as nodes. In the other order of the base,
    there would be hundreds."""
    family = len(automorphisms(topology, 0).nodes)
    assert len(automorphisms(topology, whole=True).nodes) <= family + topology.num_nodes


@pytest.mark.parametrize("seed", range(6))
def test_orbits_of_a_relabelled_network_are_the_relabelled_orbits(seed):
    topology = regular(seed, 14)
    order = np.random.default_rng(seed).permutation(14)
    links = [Link(int(order[k.source]), int(order[k.target])) for k in map(topology.link, range(42))]
    here, there = automorphisms(topology), automorphisms(Topology.from_links("relabelled", 14, links))
    same = here.node_orbits[:, None] == here.node_orbits
    moved = there.node_orbits[order]
    assert np.array_equal(same, moved[:, None] == moved)


@pytest.mark.parametrize("seed", range(6))
def test_orbits_are_networkxs_on_random_trees_with_symmetries(seed):
    graph = nx.random_labeled_tree(8, seed=seed)
    topology = undirected(f"tree {seed}", graph)
    maps = list(nx.isomorphism.GraphMatcher(graph, graph).isomorphisms_iter())
    nodes = list(graph)
    orbit = {v: frozenset(m[v] for m in maps) for v in nodes}
    found = automorphisms(topology).node_orbits
    for i, v in enumerate(nodes):
        for j, w in enumerate(nodes):
            assert (found[i] == found[j]) == (orbit[v] == orbit[w])


@for_each(
    ("topology", "orbits", "link_orbits"),
    [
        (undirected("Petersen", nx.petersen_graph()), 1, 1),  # arc transitive
        (undirected("Heawood", nx.heawood_graph()), 1, 1),
        (undirected("Frucht", nx.frucht_graph()), 12, 36),  # its only automorphism is the identity
        (
            undirected("Tutte", nx.tutte_graph()),
            16,
            46,
        ),  # 46 nodes, 69 edges, group of order 3: 15 orbits + 1
        (hypercube(6), 1, 1),
        (torus(5, 5), 1, 1),
        (torus(4, 6), 1, 2),
        (torus(3, 4, 5), 1, 3),
        (circulant(16, 3, 4), 1, 2),
        (uniring(9), 1, 1),
        (complete(40), 1, 1),
        (mesh(3, 3), 3, 4),  # corner, side, centre; corner-side and side-centre, in both directions
    ],
)
def test_famous_graphs(topology, orbits, link_orbits):
    for group in (automorphisms(topology), searched(topology)):
        assert len(set(group.node_orbits.tolist())) == orbits
        assert len(set(group.link_orbits.tolist())) == link_orbits
        assert group.is_vertex_transitive == (orbits == 1)


@pytest.mark.parametrize(
    "topology",
    [dgx_a100(2), dgx_h100(2), mi250(2), parse_topology("fat_tree:4,2,2"), hypercube(5), gen_kautz(3, 40)],
    ids=lambda t: t.name,
)
def test_what_is_found_preserves_links_and_kinds(topology):
    group, whole = automorphisms(topology), link_multiset(topology)
    assert len(group.nodes)
    for nodes, links in zip(group.nodes.tolist(), group.links.tolist(), strict=True):
        assert link_multiset(topology, nodes) == whole
        assert {nodes[v] for v in topology.multicast} == topology.multicast
        assert max(nodes[: topology.num_ranks]) < topology.num_ranks
        assert sorted(links) == list(range(topology.num_links))
        for here, there in enumerate(links):
            a, b = topology.link(here), topology.link(there)
            assert (nodes[a.source], nodes[a.target]) == (b.source, b.target)
            assert (a.bandwidth, a.alpha) == (b.bandwidth, b.alpha)


def test_ranks_of_a_box_are_alike_and_boxes_too():
    group = automorphisms(dgx_a100(2))
    assert group.is_vertex_transitive


def test_what_breaks_symmetry_is_seen():
    whole = torus(4, 4)
    broken = drop_links(whole, [(0, 1)])
    assert not automorphisms(broken).is_vertex_transitive
    faster = ring(5, bandwidth=Fraction(2))
    links = [faster.link(i) for i in range(faster.num_links)]
    links[0] = Link(links[0].source, links[0].target, Fraction(3))
    assert len(automorphisms(Topology.from_links("one fast link", 5, links)).nodes) == 0


def test_no_effort_leaves_the_symmetries_of_the_family():
    assert automorphisms(torus(4, 4), effort=0).is_vertex_transitive
    assert not automorphisms(regular(0, 14), effort=0).nodes.size


def test_hosts_their_ranks_and_their_switches_are_exchanged_without_a_search():
    """The links have four orbits: from and to a host's switches, from and to the switch between hosts."""
    group = automorphisms(dgx_h100(40), 0)
    assert group.is_vertex_transitive
    assert len(set(group.link_orbits.tolist())) == 4


def test_little_effort_gives_a_subgroup():
    topology = undirected("Petersen", nx.petersen_graph())
    for effort in (30, 300, 3000):
        assert link_multiset(topology) == link_multiset(
            topology, next(iter(automorphisms(topology, effort).nodes.tolist()), range(10))
        )


def test_the_search_is_deterministic():
    first, second = (searched(hypercube(5)) for _ in range(2))
    assert np.array_equal(first.nodes, second.nodes)


@pytest.mark.parametrize("nodes", [[0, 1, 2, 2], [1, 0, 2, 3], [0, 1, 2]])
def test_what_is_no_automorphism_is_refused(nodes):
    assert link_permutation(uniring(4), np.array(nodes)) is None


def test_likely_symmetries_are_permutations():
    for topology in (torus(3, 4), hypercube(3), circulant(12, 1, 5), parse_topology("hamming:2,3")):
        found = list(likely_symmetries(topology))
        assert all(sorted(nodes.tolist()) == list(range(topology.num_ranks)) for nodes in found)


def test_only_what_keeps_a_matrix_is_kept():
    group = automorphisms(ring(6))
    shifts = np.roll(np.eye(6, dtype=np.int64), 1, axis=1)  # to the next: kept by shifts, not by reflections
    kept = group.preserving(shifts)
    assert 0 < len(kept.nodes) < len(group.nodes)
    for nodes in kept.nodes:
        assert np.array_equal(shifts[np.ix_(nodes, nodes)], shifts)


def test_orbits_join_what_maps_join():
    maps = np.array([[1, 2, 0, 3, 4], [0, 1, 2, 4, 3]])
    assert orbits_of(maps, 5).tolist() == [0, 0, 0, 3, 3]
    assert orbits_of(np.empty((0, 5), np.int32), 5).tolist() == list(range(5))


def test_a_thousand_ranks_take_no_time_to_speak_of():
    assert automorphisms(torus(32, 32)).is_vertex_transitive
    assert len(set(automorphisms(gen_kautz(4, 1024)).node_orbits.tolist())) == 51


def test_networks_from_networkx_have_theirs():
    graph = nx.DiGraph()
    graph.add_nodes_from((v, {"kind": "compute"}) for v in range(4))
    graph.add_edges_from(((v, (v + 1) % 4) for v in range(4)), bandwidth=10**9, alpha=0)
    assert automorphisms(from_networkx(graph)).is_vertex_transitive


@pytest.mark.parametrize(("most", "least"), [(8, 8), (7, 2), (1, 1)])
def test_some_elements_are_a_group_no_larger_than_asked_for(most, least):
    """The group is that of the eight symmetries of a square."""
    nodes, links = automorphisms(parse_topology("ring:4")).some_elements(most)
    assert least <= len(nodes) == len(links) <= most
    known = {tuple(one) for one in nodes.tolist()}
    assert len(known) == len(nodes)
    assert all(tuple(one[other].tolist()) in known for one in nodes for other in nodes)


def test_drawn_subgroups_are_groups_of_any_order():
    topology, rng = parse_topology("ring:6"), np.random.default_rng(0)
    elements = automorphisms(topology).some_elements(12)
    orders = set()
    for _ in range(60):
        nodes, _ = drawn_subgroup(topology, elements, rng)
        known = {tuple(one) for one in nodes.tolist()}
        assert tuple(range(6)) == tuple(nodes[0].tolist())
        assert all(tuple(one[other].tolist()) in known for one in nodes for other in nodes)
        orders.add(len(nodes))
    assert orders == {1, 2, 3, 4, 6, 12}

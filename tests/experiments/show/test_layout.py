"""Where nodes stand: apart, in disjoint frames, clear of links, and by what the network is."""

from dataclasses import replace
from functools import cache

import networkx as nx
import numpy as np
import pytest

import tutti
from tutti.experiments.show.drawing import MOST_LINKS, layout, picture
from tutti.topologies.text import FAMILIES, parse_topology

NAMED = (
    "ring:2 ring:8 mesh:4x4 mesh:10x1 torus:4x4 torus:4x4x4 torus:3x3x3x2 hypercube:3 hypercube:5 "
    "hypercube:6 complete:8 complete:64 hamming:2,4 dgx_a100:1 dgx_h100:4 mi250:2 ndv2:2 fat_tree:8,4,4 "
    "fat_tree:1,4 L(K_{4,4}) torus:4x4?drop_nodes=7 dgx_a100:2?ranks=8+3 dgx1?drop_nodes=7"
)
LARGE = {"hypercube:10", "least_circulant:4,1024"}
EXAMPLES = sorted({*NAMED.split(), *(family.example for family in FAMILIES.values())} - LARGE)
GRIDS = "mesh:4x4 mesh:3x4x5 mesh:8x8 torus:4x4 torus:5x6 torus:8x8 torus:4x4x4 hypercube:5 hypercube:6"


@cache
def laid(text):
    topology = parse_topology(text)
    return topology, layout(topology)


def distances(at):
    apart = np.hypot(*(at[:, None] - at[None]).transpose(2, 0, 1))
    np.fill_diagonal(apart, np.inf)
    return apart


@pytest.mark.parametrize("text", EXAMPLES)
def test_no_two_nodes_stand_at_one_place(text):
    topology, found = laid(text)
    assert found.at.shape == (topology.num_nodes, 2)
    # In a row neighbours are 1 apart; the planes of a grid of three dimensions are nearer.
    assert distances(found.at).min() > 0.25


@pytest.mark.parametrize("text", EXAMPLES)
def test_frames_are_disjoint_and_hold_the_nodes_of_their_hosts_and_no_others(text):
    topology, found = laid(text)
    for frame in found.frames:
        inside = ((found.at > frame.low) & (found.at < frame.high)).all(axis=1)
        ranks = np.flatnonzero(inside[: topology.num_ranks])
        assert len(ranks)
        if topology.hosts is not None:
            host = topology.hosts[ranks[0]]
            assert set(ranks) == set(np.flatnonzero(topology.hosts[: topology.num_ranks] == host))
            assert set(topology.hosts[inside]) <= {host, -1}
    for one in found.frames:
        for other in found.frames:
            if one is not other:
                assert any(
                    one.high[axis] < other.low[axis] or other.high[axis] < one.low[axis] for axis in (0, 1)
                )


@pytest.mark.parametrize("text", GRIDS.split())
def test_no_link_of_a_grid_runs_through_a_node(text):
    topology = parse_topology(text)
    drawn = picture(topology)
    for link, (start, control, end) in enumerate(drawn.curves):
        others = np.delete(drawn.at, [topology.source[link], topology.target[link]], axis=0)
        for t in np.linspace(0, 1, 60):
            point = (1 - t) * ((1 - t) * start + t * control) + t * ((1 - t) * control + t * end)
            assert np.hypot(*(others - point).T).min() >= 0.99 * drawn.radius


def test_a_mesh_is_a_grid_row_by_row():
    at = layout(parse_topology("mesh:3x4")).at
    assert at.tolist() == [[float(rank % 4), float(rank // 4)] for rank in range(12)]


def test_a_ring_is_round():
    at = layout(parse_topology("ring:7")).at
    assert np.ptp(np.hypot(*(at - at.mean(axis=0)).T)) < 1e-9
    assert distances(at).min(axis=1) == pytest.approx(np.ones(7))


def test_the_links_decide_and_not_the_name():
    torus = parse_topology("torus:3x5")
    alike = replace(torus, name="hypercube:3", expression=None)
    assert layout(alike).at.tolist() == layout(torus).at.tolist()


def test_switches_stand_above_what_they_join_and_a_hosts_own_below():
    tree = parse_topology("fat_tree:4,4,2")
    y = layout(tree).at[:, 1]
    assert y[20:].max() < y[16:20].min() < y[:16].min()  # spines, leaves, ranks: y points down
    boxes = parse_topology("dgx_a100:2")
    y = dict(zip(boxes.labels, layout(boxes).at[:, 1], strict=True))
    assert y["ib"] < y["0"] < y["nvswitch0"]


def test_a_network_that_springs_place_stands_the_same_each_time():
    one, other = (layout(parse_topology("random_regular:4,20,3")).at for _ in range(2))
    assert one.tolist() == other.tolist()


def test_a_large_irregular_network_stands_round():
    graph = nx.random_regular_graph(3, 300, seed=1)
    at = layout(tutti.topology(graph)).at
    assert distances(at).min() > 0.9
    assert len(graph.edges) * 2 < MOST_LINKS

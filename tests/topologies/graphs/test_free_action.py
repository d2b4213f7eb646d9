"""Free groups: their sizes by hand, and their elements by brute force."""

import numpy as np
import pytest

from tutti.topologies.graphs.free_action import free_group
from tutti.topologies.graphs.symmetry import link_permutation
from tutti.topologies.text import parse_topology

SIZES = {
    "torus:3x4": 12,
    "hypercube:3": 8,
    "circulant:7,1,2": 7,
    "ring:5": 5,
    "mesh:4x4": 4,  # a quarter turn; the transpositions keep the diagonals
    "mesh:3x4": 2,  # half a turn, or a reflection of the even side
    "mesh:3x3": 1,  # the rank in the middle stays
    "switch2d:2x2": 4,
    "gen_kautz:2,6": 2,
}


@pytest.mark.parametrize("text", SIZES)
def test_group_is_as_large_as_it_can_be(text):
    assert len(free_group(parse_topology(text))[0]) >= SIZES[text]


@pytest.mark.parametrize("text", SIZES)
def test_elements_are_automorphisms_that_keep_no_rank_and_are_closed(text):
    topology = parse_topology(text)
    nodes, links = free_group(topology)
    assert np.array_equal(nodes[0], np.arange(topology.num_nodes))
    ranks = np.arange(topology.num_ranks)
    known = {tuple(element) for element in nodes.tolist()}
    assert len(known) == len(nodes)
    for element, moved in zip(nodes, links, strict=True):
        assert link_permutation(topology, element) is not None
        assert np.array_equal(element[topology.source], topology.source[moved])
        assert np.array_equal(element[topology.target], topology.target[moved])
        kept = (element[: len(ranks)] == ranks).any()
        assert kept == np.array_equal(element, nodes[0])
        assert all(tuple(element[other]) in known for other in nodes)

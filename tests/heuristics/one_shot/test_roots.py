"""The ranks that add up: roots of lines, found by hand."""

import numpy as np
import pytest

from tutti.heuristics.one_shot.roots import DimensionalNetwork, GridLine, RootSpacing
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.text import parse_topology


def line(network):
    return GridLine(hop_distances(parse_topology(network)))


@pytest.mark.parametrize(
    ("network", "shape", "seed", "expected"),
    [
        ("ring:8", RootSpacing(0, None), 3, range(8)),
        ("ring:8", RootSpacing(3, 1), 3, [3, 4]),  # three hops from 3 is all but 7, which is three from 4
        ("ring:8", RootSpacing(4, 0), 3, [3]),
        ("ring:6", RootSpacing(1, None), 1, [1, 4]),
        ("mesh:5", RootSpacing(2, 0), 0, [2]),  # only the middle is near to all: 0 can't be a root
        ("mesh:4", RootSpacing(1, 1), 3, [1, 2]),
        ("complete:4", RootSpacing(0, 1), 2, range(4)),
        ("uniring:3", RootSpacing(2, 0), 1, [1]),
    ],
)
def test_roots_are_near_to_all(network, shape, seed, expected):
    assert line(network).roots(shape, seed).tolist() == list(expected)


@pytest.mark.parametrize(
    ("network", "shape"),
    [("mesh:5", RootSpacing(1, 0)), ("ring:8", RootSpacing(2, 1)), ("uniring:3", RootSpacing(1, 1))],
)
def test_some_shapes_have_no_roots(network, shape):
    assert line(network).admitted(shape) == []


@pytest.mark.parametrize("network", ["mesh:7", "ring:9", "gen_kautz:2,9", "circulant:12,2,3"])
def test_what_covers_covers(network):
    own = line(network)
    for shape in own.shapes:
        for roots in own.admitted(shape):
            to, back = own.hops[:, roots], own.hops[roots]
            assert back.min(axis=0).max() <= shape.radius
            if shape.gathers:
                assert to.min(axis=1).max() <= shape.radius
                assert own.hops[np.ix_(roots, roots)].max() <= shape.apart


def test_no_shape_surpasses_another():
    # A ring of 8 in (steps, messages): own in-trees 4 + radius; a pair 7, one root 8, both with 2 (8 - 1).
    # With radius 3 two in-trees would take 7 steps as well, and 2 · 7 + 6 messages.
    assert line("ring:8").shapes == [
        RootSpacing(0, None),
        RootSpacing(1, None),
        RootSpacing(2, None),
        RootSpacing(3, 1),
        RootSpacing(4, 0),
    ]


def test_rings_of_four_are_squares_and_dimensions_alike_are_one_kind():
    assert DimensionalNetwork(parse_topology("torus:4x4x3")).kind == [0, 0, 0, 0, 4]
    assert DimensionalNetwork(parse_topology("gen_kautz:2,9")).kind == [0]

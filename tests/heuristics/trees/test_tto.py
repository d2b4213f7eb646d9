"""TTO: six trees from three corners of a mesh."""

from fractions import Fraction

import numpy as np
import pytest

from tests.heuristics.trees.spanning import reaches_all
from tutti.experiments.registry import METHODS
from tutti.heuristics.trees.tto import corner_trees
from tutti.schedules.cost import congestion
from tutti.topologies import Unsupported
from tutti.topologies.graphs.grid_structure import grid_of
from tutti.topologies.text import parse_topology

B = 50 * 10**9


@pytest.mark.parametrize("text", ["mesh:3x3", "mesh:4x4", "mesh:3x5", "mesh:6x6", "mesh:3x4?links=2"])
def test_tto_has_two_trees_in_each_of_three_corners_and_shares_links_as_little(made, text):
    topology = parse_topology(text)
    trees = corner_trees(topology)
    rows, columns = grid_of(topology).shape
    corners = [0, columns - 1, (rows - 1) * columns, rows * columns - 1]
    assert sorted(int(np.flatnonzero(tree < 0)[0]) for tree in trees) == sorted(corners[:3] * 2)
    uses = {}
    for tree in trees:
        assert reaches_all(tree)
        for child, parent in enumerate(tree.tolist()):
            if parent >= 0:
                uses[parent, child] = uses.get((parent, child), 0) + 1
    assert all(times <= (3 if child == corners[3] else 2) for (_, child), times in uses.items())
    schedule = made(METHODS["tto"], text, "allreduce", 2**20)
    assert congestion(schedule) <= Fraction(5, 6) / B


@pytest.mark.parametrize(
    "text", ["torus:4x4", "mesh:2x4", "mesh:3x3x3", "mesh:4x4?drop_nodes=15", "complete:9"]
)
def test_tto_is_for_meshes(made, text):
    with pytest.raises(Unsupported, match="tto needs a 2D mesh of at least 3x3"):
        made(METHODS["tto"], text, "allreduce")

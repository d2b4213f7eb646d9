"""C-Cube: two disjoint binary trees of a DGX-1."""

from fractions import Fraction

import numpy as np
import pytest

from tests.heuristics.trees.spanning import reaches_all
from tutti.experiments.registry import METHODS
from tutti.heuristics.trees.ccube import disjoint_binary_trees
from tutti.schedules.cost import congestion, link_loads
from tutti.topologies import Unsupported
from tutti.topologies.text import parse_topology


def test_c_cube_halves_the_data_over_links_of_their_own(made):
    """Two trees that share no pair of ranks: links carry half of M or nothing, at most four of a rank."""
    schedule = made(METHODS["ccube"], "dgx1?bandwidth=25GB/s&alpha=0.7us", "allreduce", 2**20)
    loads = [load for load in link_loads(schedule) if load]
    assert set(loads) == {max(loads)}
    assert congestion(schedule) == Fraction(1, 2) / (25 * 10**9)
    links = np.flatnonzero(link_loads(schedule))
    assert np.bincount(schedule.topology.source[links]).max() <= 4


def test_c_cubes_trees_are_disjoint_binary_and_spanning():
    box = parse_topology("dgx1")
    pairs = {(min(a, b), max(a, b)) for a, b in zip(box.source.tolist(), box.target.tolist(), strict=True)}
    trees = disjoint_binary_trees(tuple(sorted(pairs)))
    edges = [{(min(v, int(p)), max(v, int(p))) for v, p in enumerate(tree) if p >= 0} for tree in trees]
    assert all(map(reaches_all, trees))
    assert all(np.bincount(tree[tree >= 0]).max() <= 2 for tree in trees)
    assert not edges[0] & edges[1]
    assert edges[0] | edges[1] <= pairs


@pytest.mark.parametrize("text", ["torus:2x4", "complete:8", "dgx1?drop_nodes=0", "dgx_a100:1"])
def test_c_cube_is_for_dgx1(made, text):
    with pytest.raises(Unsupported, match="ccube needs 8 ranks without switches"):
        made(METHODS["ccube"], text, "allreduce")

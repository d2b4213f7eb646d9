"""Dimensions of networks: families whose dimensions are known, and networks that have none."""

import numpy as np
import pytest

from topologies.graphs.grid_structure import Grid, LineKind, grid_of
from topologies.text import parse_topology

R, P, C, S = LineKind.RING, LineKind.PATH, LineKind.COMPLETE, LineKind.SWITCH


@pytest.mark.parametrize(
    ("text", "shape", "lines"),
    [
        ("ring:8", (8,), (R,)),
        ("ring:3", (3,), (R,)),
        ("mesh:4x1", (4,), (P,)),
        ("torus:4x4", (4, 4), (R, R)),
        ("torus:5x4x3", (5, 4, 3), (R, R, R)),
        ("torus:2x3", (2, 3), (P, R)),
        ("mesh:10x10", (10, 10), (P, P)),
        ("mesh:3x5x2", (3, 5, 2), (P, P, P)),
        ("hypercube:4", (2, 2, 2, 2), (P, P, P, P)),
        ("complete:6", (6,), (C,)),
        ("hamming:2,4", (4, 4), (C, C)),
        ("rfs:2x4x8", (2, 4, 8), (P, C, S)),
        ("rfs:4x4x3", (4, 4, 3), (R, C, S)),
        ("switch2d:8x4", (8, 4), (S, S)),
        ("dgx1", (2, 4), (P, C)),
        ("dgx_a100:1", (8,), (S,)),
        ("dgx_a100:2", (2, 8), (S, S)),
        ("mi250:3", (3, 16), (S, S)),
        ("dgx_a100:2?drop_nodes=0", (15,), (S,)),  # machines of 7 and 8: no dimension
        ("fat_tree:4,8,2,3", (4, 8), (S, S)),
    ],
)
def test_families_have_the_dimensions_that_make_them(text, shape, lines):
    # switch2d names ranks a box first, and boxes second; ranks are numbered box by box
    found = grid_of(parse_topology(text))
    assert found is not None
    assert sorted(zip(found.shape, found.lines, strict=True)) == sorted(zip(shape, lines, strict=True))
    if not text.startswith("switch2d"):
        assert (found.shape, found.lines) == (shape, lines)


@pytest.mark.parametrize(
    "text",
    [
        "gen_kautz:2,8",
        "dragonfly:4x5",
        "twisted_torus:4x4x8",
        "uniring:4",
        "directed_ring:2,8",
        "mesh:3x3?drop_nodes=8",
        "torus:3x3?drop_links=0-1",
    ],
)
def test_others_have_none(text):
    assert grid_of(parse_topology(text)) is None


def test_ranks_are_row_major():
    grid = Grid((3, 4, 5), (R, R, R))
    coordinates = np.unravel_index(np.arange(60), (3, 4, 5))
    assert grid.rank_at(coordinates).tolist() == list(range(60))
    assert str(grid) == "ring of 3 x ring of 4 x ring of 5"


@pytest.mark.parametrize("text", ["torus:4x5", "rfs:2x4x4", "hypercube:3", "switch2d:4x3"])
def test_ranks_are_joined_along_one_dimension_only(text):
    """Against the coordinates themselves: ends of every link, or of a switch, differ in one."""
    topology = parse_topology(text)
    grid = grid_of(topology)
    place = np.stack(np.unravel_index(np.arange(topology.num_ranks), grid.shape))
    for a, b in zip(topology.source.tolist(), topology.target.tolist(), strict=True):
        ends = [a] if a < topology.num_ranks else topology.source[topology.target == a].tolist()
        for start in ends:
            if b < topology.num_ranks and start != b:
                assert (place[:, start] != place[:, b]).sum() == 1

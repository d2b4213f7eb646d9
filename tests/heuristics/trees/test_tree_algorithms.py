"""Pipelined trees: double binary trees, C-Cube, TTO, and NCCL's choice."""

from fractions import Fraction

import numpy as np
import pytest

from experiments.registry import METHODS
from heuristics.trees.ccube import disjoint_binary_trees
from heuristics.trees.double_binary_tree import double_binary_trees
from heuristics.trees.nccl_like import channel_rings, channel_trees
from heuristics.trees.tto import corner_trees
from schedules.cost import congestion, link_loads
from tests.sweep import for_each
from topologies import InputError, Unsupported
from topologies.graphs.grid_structure import grid_of
from topologies.text import parse_topology

B = 50 * 10**9


def reaches_all(parent):
    """Whether following parents leads every node to the only root."""
    root = int(np.flatnonzero(parent < 0)[0])
    for node in range(len(parent)):
        seen = set()
        while node != root:
            assert node not in seen
            seen.add(node)
            node = int(parent[node])
    return (parent < 0).sum() == 1


def hops(parent, node):
    """How far a node is below the root."""
    return 0 if parent[node] < 0 else 1 + hops(parent, int(parent[node]))


def inner(parent):
    return set(parent[parent >= 0].tolist())


@for_each("ranks", [*range(2, 70), 127, 128, 129, 1000])
def test_both_trees_are_binary_spanning_and_low_and_no_rank_is_inner_in_both(ranks):
    for trees in double_binary_trees(ranks):
        for tree in trees:
            assert reaches_all(tree)
            assert np.bincount(tree[tree >= 0]).max() <= 2
            assert 2 ** max(hops(tree, node) for node in range(ranks)) <= ranks, "no binary tree is lower"
        assert not inner(trees[0]) & inner(trees[1])


@for_each("ranks", [*range(4, 70), 127, 128, 129, 1000])
def test_an_allreduce_may_choose_trees_that_join_no_pair_of_ranks_twice(ranks):
    near, apart = double_binary_trees(ranks)
    edges = [{frozenset(edge) for edge in enumerate(tree.tolist()) if edge[1] >= 0} for tree in apart]
    assert not edges[0] & edges[1]
    assert (near[0] == apart[0]).all()
    assert inner(near[1]) == inner(apart[1])


@for_each("ranks", range(2, 34))
@for_each("root", [0, 1])
def test_a_root_stands_above_both_trees(ranks, root):
    (trees,) = double_binary_trees(ranks, root)
    for tree in trees:
        assert reaches_all(tree)
        assert tree[root] == -1
        assert (tree == root).sum() == 1
        assert 2 ** max(hops(tree, node) for node in range(ranks)) <= 2 * (ranks - 1)
    assert inner(trees[0]) & inner(trees[1]) == {root}
    assert ranks == 2 or not (trees[0] == trees[1])[np.arange(ranks) != root].any()


def test_near_leaves_are_kept_where_ranks_have_few_neighbours(made):
    """8 ranks in a ring, 1 KB: leaves, even in one tree and odd in the other, are beside their parents."""
    schedule = made(METHODS["dbt"], "ring:8", "allreduce", 2**10)
    ends = list(zip(schedule.source.tolist(), schedule.target.tolist(), strict=True))
    assert {(a - b) % 8 for a, b in ends if (a - b) % 2} == {1, 7}


@pytest.mark.parametrize("kind", ["allreduce", "broadcast", "reduce"])
@for_each("text", ["ring:2", "ring:5", "complete:8", "torus:3x3", "dgx_a100:2", "gen_kautz:2,7"])
@for_each("slices", [0, 1, 3])
def test_double_trees_are_legal_anywhere(made, kind, text, slices):
    rooted = {} if kind == "allreduce" else {"root": 1}
    made(METHODS["dbt"], text, kind, 2**20, {"slices": slices}, **rooted)


def test_uneven_and_empty_shards_are_legal(made):
    made(METHODS["dbt"], "ring:4", "allreduce", 2**20, {"slices": 3}, shards=[1, 0, 3, 5])


@pytest.mark.parametrize("slices", [-1, 2000, True, 1.0])
def test_slices_have_limits(slices):
    with pytest.raises(InputError, match=r"slices is .*; it must be an integer from 0"):
        METHODS["dbt"].options(slices=slices)


def test_double_trees_do_no_allgather(made):
    with pytest.raises(Unsupported, match="dbt does allreduce, broadcast, reduce; not allgather"):
        made(METHODS["dbt"], "ring:4")


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


def test_nccl_takes_trees_for_little_data_and_rings_for_much(made, seconds):
    for size, expected in ((2**10, "dbt"), (10**9, "ring")):
        chosen = made(METHODS["nccl_like"], "dgx_a100:1", "allreduce", size)
        others = [
            seconds(made(METHODS[name], "dgx_a100:1", "allreduce", size), size) for name in ("ring", "dbt")
        ]
        assert chosen.stats["algorithm"] == expected
        assert seconds(chosen, size) == min(others)


def test_nccls_rings_use_every_adapter(made):
    """8 channels: each sends 15/16 of its eighth of M over one adapter of a box, 25 GB/s."""
    schedule = made(METHODS["nccl_like"], "dgx_a100:2")
    assert congestion(schedule) == Fraction(15, 16) / 8 / (25 * 10**9)


def test_nccls_trees_leave_a_machine_once_in_each_channel(made):
    """16 trees of M/16: a rank's adapter sends in 2; inside it sends up in 14 of them and down in 14."""
    schedule = made(METHODS["nccl_like"], "dgx_a100:2", "allreduce", 10**9)
    assert schedule.stats["algorithm"] == "dbt"
    loads = {Fraction(int(load), schedule.chunks.denominator) for load in link_loads(schedule)}
    assert loads == {Fraction(2, 16), Fraction(28, 16)}
    assert congestion(schedule) == Fraction(28, 16) / (300 * 10**9)


@pytest.mark.parametrize(("machines", "ranks"), [(2, 2), (3, 4), (5, 3), (4, 8)])
def test_channels_rings_and_trees_span(machines, ranks):
    for ring in channel_rings(machines, ranks):
        assert sorted(ring.tolist()) == list(range(machines * ranks))
        crossings = np.flatnonzero(ring // ranks != np.roll(ring, -1) // ranks)
        assert len(crossings) == machines
    trees = channel_trees(machines, ranks)
    assert all(map(reaches_all, trees))
    for tree in trees:
        away = [v for v, p in enumerate(tree.tolist()) if p >= 0 and p // ranks != v // ranks]
        assert len(away) == machines - 1


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
@for_each("text", ["dgx_h100:2?ranks=3+3", "dgx_a100:2?ranks=4+3", "mi250:2?ranks=8+8", "ndv2:2"])
def test_nccls_choice_is_legal_and_no_slower_than_either(made, seconds, text, kind):
    size = 10**6
    chosen = made(METHODS["nccl_like"], text, kind, size)
    names = ("ring", "dbt") if kind == "allreduce" else ("ring",)
    assert seconds(chosen, size) <= min(seconds(made(METHODS[n], text, kind, size), size) for n in names)


@for_each("text", ["ring:5", "complete:7", "torus:3x3", "gen_kautz:2,6"])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "all-to-all"])
def test_bruck_is_legal_for_any_number_of_ranks(made, text, kind):
    steps = {5: 3, 6: 3, 7: 3, 9: 4}[parse_topology(text).num_ranks]  # ceil(log2 N)
    assert made(METHODS["bruck"], text, kind).order.max() == steps * (2 if kind == "allreduce" else 1)


def test_recursive_doubling_needs_powers_of_two_and_an_allreduce(made):
    with pytest.raises(Unsupported, match="recursive_doubling needs a power of two ranks; ring:6 has 6"):
        made(METHODS["recursive_doubling"], "ring:6", "allreduce")
    with pytest.raises(Unsupported, match="recursive_doubling does allreduce; not allgather"):
        made(METHODS["recursive_doubling"], "ring:4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("torus:4x4", "needs a circulant network, links i to i ± a for all i; torus:4x4 is none"),
        ("circulant:12,1,3", "offset 3 makes 3 of 12 ranks"),
        ("uniring:5", "needs a circulant network"),
        ("dgx_a100:1", "needs a circulant network"),
    ],
)
def test_shifted_ring_need_offsets_that_make_one_ring(made, text, message):
    with pytest.raises(Unsupported, match=message):
        made(METHODS["shifted_ring"], text)

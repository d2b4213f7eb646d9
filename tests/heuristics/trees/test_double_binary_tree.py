"""Double binary trees: what they are, and that their schedules are legal."""

import numpy as np
import pytest

from tests.heuristics.trees.spanning import reaches_all
from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.heuristics.trees.double_binary_tree import double_binary_trees
from tutti.topologies import InputError, Unsupported


def hops(parent, node):
    """The distance of a node below the root."""
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

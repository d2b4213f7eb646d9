"""Edges that trees have in common: what is merged, and that nothing waits for itself."""

from itertools import pairwise

import networkx as nx
import numpy as np

from tutti.models.forestcoll.schedule import levels, runs


def depths(parent):
    """Hops from the root, by walking up from each rank."""
    result = np.zeros(parent.shape, dtype=np.int64)
    for tree, row in enumerate(parent.tolist()):
        for rank in range(len(row)):
            node = rank
            while row[node] >= 0:
                node = row[node]
                result[tree, rank] += 1
    return result


def messages(parent, first):
    """The messages, and which waits for which."""
    graph = nx.DiGraph()
    for tree, rank in zip(*np.nonzero(parent >= 0), strict=True):
        graph.add_node((int(first[tree, rank]), int(rank)))
        tail = int(parent[tree, rank])
        if parent[tree, tail] >= 0:
            graph.add_edge((int(first[tree, tail]), tail), (int(first[tree, rank]), int(rank)))
    return graph


def random_trees(rng, count, ranks):
    """Trees from rank 0, each the one before with a few parents redrawn above them."""
    order = np.concatenate([[0], 1 + rng.permutation(ranks - 1)])
    rows = []
    for _ in range(count):
        if rng.random() < 0.3:
            order = np.concatenate([[0], 1 + rng.permutation(ranks - 1)])
        row = np.full(ranks, -1, dtype=np.int32)
        for place in range(1, ranks):
            row[order[place]] = order[max(0, place - 1 - int(rng.integers(0, 2)))]
        rows.append(row)
    return np.array(rows)


def test_messages_are_runs_of_one_edge_and_none_waits_for_itself():
    rng, joined = np.random.default_rng(5), 0
    for _ in range(200):
        parent = random_trees(rng, int(rng.integers(1, 7)), int(rng.integers(2, 9)))
        depth = depths(parent)
        first = runs(parent, depth)
        for (tree, rank), begin in np.ndenumerate(first):
            assert (begin < 0) == (parent[tree, rank] < 0)
            if begin >= 0:
                assert begin <= tree
                assert (first[begin : tree + 1, rank] == begin).all()
                assert (parent[begin : tree + 1, rank] == parent[tree, rank]).all()
                joined += len(np.unique(depth[begin : tree + 1, rank])) > 1
        for before, tree in pairwise(range(len(parent))):
            alike = (parent[before] == parent[tree]) & (depth[before] == depth[tree]) & (parent[tree] >= 0)
            assert (first[tree] == first[before])[alike].all()
        graph = messages(parent, first)
        assert nx.is_directed_acyclic_graph(graph)
        generations = enumerate(nx.topological_generations(graph), start=1)
        longest = {node: level for level, nodes in generations for node in nodes}
        found = levels(parent, first)
        assert all(found[node] == level for node, level in longest.items())
        assert max(longest.values()) <= depth.max()
    assert joined > 20


def test_of_two_merges_that_would_wait_for_each_other_one_is_made():
    one = [-1, 0, 1, 2, 3, 0, 5, 6, 7, 8, 9]  # 0-1-2-3-4, and 0-5-...-10 so that there is time
    two = [-1, 4, 1, 0, 3, 0, 5, 6, 7, 8, 9]  # 0-3-4-1-2
    parent = np.array([one, two], dtype=np.int32)
    first = runs(parent, depths(parent))
    assert sorted([int(first[1, 2]), int(first[1, 4])]) == [0, 1]


def test_no_merge_makes_the_last_rank_wait_for_more_messages_than_the_highest_tree_has():
    one = [-1, 0, 1, 2, 3]
    two = [-1, 4, 1, 0, 3]
    parent = np.array([one, two], dtype=np.int32)
    first = runs(parent, depths(parent))
    assert int(levels(parent, first).max()) == 4
    assert (first[1][[2, 4]] == 1).all()

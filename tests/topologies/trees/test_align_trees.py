"""Trees that become equal by exchanging parents."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tutti.topologies.trees.forest import Forest, align_trees, heights


def use(forest: Forest) -> Counter:
    """Count, for each root and pair of ranks, the unit trees that use it."""
    count = Counter()
    for root, weight, parent in zip(
        forest.root.tolist(), forest.weight.tolist(), forest.parent.tolist(), strict=True
    ):
        for head, tail in enumerate(parent):
            count[root, tail, head] += weight
    return count


def spans(root: int, parent: list[int]) -> bool:
    """Return whether every rank reaches the root over its parents."""
    for rank in range(len(parent)):
        node = rank
        for _ in parent:
            node = node if node == root else parent[node]
        if node != root:
            return False
    return True


@st.composite
def forests(draw):
    n, k = draw(st.integers(2, 6)), draw(st.integers(1, 8))
    rows = []
    for root in range(n):
        for _ in range(k):
            order = [root, *draw(st.permutations([v for v in range(n) if v != root]))]
            parent = [-1] * n
            for place in range(1, n):
                parent[order[place]] = order[draw(st.integers(0, place - 1))]
            rows.append((root, parent))
    return Forest([root for root, _ in rows], [1] * len(rows), [parent for _, parent in rows])


@given(forests())
def test_every_pair_is_used_as_often_by_each_root(forest):
    assert use(align_trees(forest)) == use(forest)


@given(forests())
def test_the_trees_span_and_are_no_higher(forest):
    aligned = align_trees(forest)
    assert all(spans(r, p) for r, p in zip(aligned.root.tolist(), aligned.parent.tolist(), strict=True))
    for root in range(forest.parent.shape[1]):
        before, after = (heights(f)[f.root == root] for f in (forest, aligned))
        assert after.max() <= before.max()


def test_rows_that_become_equal_are_one():
    """Ranks 3 and 4 have parents 1 or 2 in all four combinations; exchanges leave fewer distinct trees."""
    parent = [[-1, 0, 0, a, b] for a, b in ((1, 2), (2, 1), (1, 1), (2, 2))]
    aligned = align_trees(Forest([0] * 4, [1] * 4, parent))
    assert len(aligned) <= 3
    assert int(aligned.weight.sum()) == 4


def test_one_tree_a_root_is_left_alone():
    forest = Forest([0, 1], [3, 3], [[-1, 0], [1, -1]])
    assert align_trees(forest) is forest


def test_rows_of_forests_too_large_to_exchange_parents_are_put_in_order_of_likeness():
    chain, star = [-1, 0, 1, 2, 3], [-1, 0, 0, 0, 0]
    nearly_chain, nearly_star = [-1, 0, 1, 2, 2], [-1, 0, 0, 0, 1]
    forest = Forest([0] * 4, [10**6, 1, 2, 3], [chain, star, nearly_chain, nearly_star])
    aligned = align_trees(forest)
    assert aligned.parent.tolist() == [chain, nearly_chain, star, nearly_star]
    assert aligned.weight.tolist() == [10**6, 2, 1, 3]


def test_forests_with_too_many_rows_are_left_alone():
    rows = 4097  # 5 ranks x rows^2 exceeds the limit
    forest = Forest([0] * rows, [1] * rows, np.tile([-1, 0, 0, 0, 0], (rows, 1)))
    assert align_trees(forest) is forest

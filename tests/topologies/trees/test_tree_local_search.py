"""The local search: its invariants after its moves, checked from scratch."""

from collections import Counter

import numpy as np
import pytest

from tutti.topologies.trees.packing_heuristic import CapacityPairs, _begin
from tutti.topologies.trees.tree_local_search import grow_widest, relieve


def random_pairs(rng, nodes):
    """Return a bidirectional cycle and some chords, with capacities that are too small for all trees."""
    ends = {(v, (v + step) % nodes) for v in range(nodes) for step in (1, nodes - 1)}
    ends |= {(int(a), int(b)) for a, b in rng.integers(0, nodes, (2 * nodes, 2)) if a != b}
    tails, heads = np.array(sorted(ends), dtype=np.int32).T
    return CapacityPairs.of(nodes, tails, heads, rng.integers(1, 9, len(tails)))


def walked(pairs, rows, t):
    """Return the hops from the root, by walking up the arcs."""
    hops = []
    for node in range(pairs.nodes):
        count = 0
        while node != rows.root[t]:
            node, count = pairs.tails[rows.via[node, t]], count + 1
            assert count < pairs.nodes, "a cycle"
        hops.append(count)
    return hops


@pytest.mark.parametrize("moves", [0, 1, 7, 3000])
def test_trees_weights_limits_loads_and_uses_stay_true(moves):
    rng = np.random.default_rng(11)
    for nodes in (3, 5, 8):
        pairs, trees = random_pairs(rng, nodes), rng.integers(0, 5, nodes)
        trees[0] = 3
        rows = _begin(pairs, trees, nodes - 1, 3 * nodes)
        state, arcs = np.array([7], dtype=np.uint64), pairs.arcs()
        for _ in range(2):
            grow_widest(arcs, rows, state, 1.0)
        before = int(np.maximum(rows.load - pairs.capacity, 0).sum())
        excess, _ = relieve(arcs, rows, state, moves, moves)
        load, use, rooted = np.zeros_like(rows.load), np.zeros_like(rows.use), Counter()
        for t in range(int(rows.used[0])):
            hops = walked(pairs, rows, t)
            assert rows.depth[:, t].tolist() == hops
            assert max(hops) <= rows.limit[t]
            rooted[int(rows.root[t])] += int(rows.weight[t])
            for node in range(nodes):
                if node != rows.root[t]:
                    arc = rows.via[node, t]
                    assert pairs.heads[arc] == node
                    load[arc] += rows.weight[t]
                    use[rows.root[t], arc] += 1
        assert load.tolist() == rows.load.tolist()
        assert use.tolist() == rows.use.tolist()
        assert [rooted[root] for root in range(nodes)] == trees.tolist()
        assert excess == int(np.maximum(load - pairs.capacity, 0).sum())
        assert moves > 0 or excess == before

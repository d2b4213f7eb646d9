"""The definition of a forest, in plain Python."""

from collections import Counter, defaultdict

import numpy as np


def check_forest(network, forest, trees):
    """Check for spanning out-trees, `trees` for each root, that use no pair more than its arcs carry."""
    rooted, used, capacity = Counter(), Counter(), Counter()
    for arc in zip(network.tails.tolist(), network.heads.tolist(), network.capacity.tolist(), strict=True):
        capacity[arc[:2]] += arc[2]
    rows = zip(forest.root.tolist(), forest.weight.tolist(), forest.parent.tolist(), strict=True)
    for root, weight, parent in rows:
        assert weight > 0
        assert parent[root] == -1
        children = defaultdict(list)
        for child, above in enumerate(parent):
            children[above].append(child)
        reached = [root]
        for rank in reached:
            reached += children[rank]
        assert sorted(reached) == list(range(network.num_ranks))
        rooted[root] += weight
        used.update({(parent[rank], rank): weight for rank in reached[1:]})
    wanted = np.broadcast_to(trees, network.num_ranks).tolist()
    assert [rooted[rank] for rank in range(network.num_ranks)] == wanted
    assert all(load <= capacity[pair] for pair, load in used.items())

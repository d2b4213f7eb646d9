"""Random trees, links and pieces: what the tests of timed and of round schedules share."""

import numpy as np


def random_trees(rng, most_pieces):
    """Rooted trees on a complete graph, its links numbered by pairs, and a number of pieces of them."""
    nodes, trees = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    pieces = int(rng.integers(1, most_pieces + 1))
    parent = np.full((trees, nodes), -1, dtype=np.int32)
    for row in parent:
        order = rng.permutation(nodes)
        for place in range(1, nodes):
            row[order[place]] = order[rng.integers(place)]
    pairs = [(a, b) for a in range(nodes) for b in range(nodes) if a != b]
    return parent, {pair: link for link, pair in enumerate(pairs)}, pieces

"""A check that the tests of trees share."""

import numpy as np


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

"""What random networks of several tests have in common."""

import numpy as np


def random_pairs(rng: np.random.Generator, nodes: int, extra: int) -> list[tuple[int, int]]:
    """Return the pairs of a cycle through all nodes, and so many others."""
    cycle = [(i, (i + 1) % nodes) for i in range(nodes)]
    return cycle + [tuple(rng.choice(nodes, 2, replace=False).tolist()) for _ in range(extra)]

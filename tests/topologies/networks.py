"""Random networks of several tests."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from topologies import Link, Topology


def random_multigraph(
    seed: int,
    nodes: int,
    extra: int,
    switches: int,
    drawn: Callable[[np.random.Generator], dict[str, Fraction]],
) -> Topology:
    """Return a cycle through all nodes and so many other links; the last nodes are switches.

    Parameters
    ----------
    drawn
        Draws what a link has: its bandwidth, its α or both.
    """
    rng = np.random.default_rng(seed)
    pairs = [(i, (i + 1) % nodes) for i in range(nodes)]
    pairs += [tuple(rng.choice(nodes, 2, replace=False).tolist()) for _ in range(extra)]
    links = [Link(a, b, **drawn(rng)) for a, b in pairs]
    return Topology.from_links(f"random {seed}", nodes - switches, links, num_switches=switches)

"""Capacity between switches that no forest needs is taken away: groups are joined no more than they must be.

A tree enters each group of ranks at least once (a leaf of a fat-tree, say), and it is lowest where it enters
once, directly from its root, and spreads inside. Ports are scarce: what a rank may send to other groups it
can't send inside its own. So where more capacity than is needed joins switches, a spread of them over ranks
would waste ports. The links between switches are narrowed class by class, the classes farthest from ranks
first, to the least capacity with which every rank can still be sent a unit from every tree.
"""

from __future__ import annotations

import numpy as np

from topologies.exact import Int64Array
from topologies.scaling import sustains
from topologies.topology import Topology

_MOST_CLASSES = 4
"""Networks with more kinds of links between switches are left as they are."""


def trimmed_capacities(
    topology: Topology, capacity: Int64Array, trees: Int64Array, distance: Int64Array
) -> Int64Array:
    """Return the capacities, those between switches as narrow as the trees allow.

    Parameters
    ----------
    topology
        The network.
    capacity
        Trees that each link can carry, shape (links,).
    trees
        Trees by root, shape (ranks,).
    distance
        Each node's hops from the nearest rank, shape (nodes,).

    Examples
    --------
    >>> from topologies.clusters import fat_tree
    >>> capacity = np.full(20, 7)
    >>> topology = fat_tree(2, 4, 1)
    >>> distance = np.array([0] * 8 + [1, 1, 2])
    >>> trimmed_capacities(topology, capacity, np.ones(8, np.int64), distance).tolist()[-2:]
    [4, 4]
    """
    result = np.array(capacity, dtype=np.int64)
    between = (topology.source >= topology.num_ranks) & (topology.target >= topology.num_ranks)
    nearer = np.minimum(distance[topology.source], distance[topology.target])
    classes = np.unique(np.stack([-nearer[between], result[between]]), axis=1).T
    if len(classes) > _MOST_CLASSES:
        return result
    for away, units in classes.tolist():
        _narrow(topology, result, trees, between & (nearer == -away) & (capacity == units))
    return result


def _narrow(topology: Topology, capacity: Int64Array, trees: Int64Array, links: Int64Array) -> None:
    """Give these links, which are alike, the least capacity that will do, by bisection."""
    ends = (topology.num_nodes, topology.source, topology.target)
    low, high = 0, int(capacity[links].max())
    while low < high:
        middle = (low + high) // 2
        capacity[links] = middle
        if sustains(*ends, capacity, trees):
            high = middle
        else:
            low = middle + 1
    capacity[links] = high

"""Permutations of a network's nodes: which are automorphisms, what they do to the links, their orbits."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from topologies.exact import Int32Array, Int64Array, IntArray
from topologies.topology import Topology


def node_kinds(topology: Topology) -> Int64Array:
    """Return what each node is, int64 (nodes,): 0 for a rank, 4 to 7 for a switch by what it can do."""
    kinds = np.zeros(topology.num_nodes, dtype=np.int64)
    kinds[topology.num_ranks :] = 4
    kinds[list(topology.multicast)] += 1
    kinds[list(topology.aggregate)] += 2
    return kinds


def link_kinds(topology: Topology) -> Int64Array:
    """Return a number for each link, int64 (links,), equal where bandwidth and α are equal.

    Numbers go by value, so that they are the same whatever the order of the links.
    """
    values = np.stack([topology.bandwidth.numerators, topology.alpha.numerators])
    return np.unique(values, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)


def link_permutation(topology: Topology, nodes: IntArray) -> Int32Array | None:
    """Return where a permutation of the nodes takes each link, or None if it is no automorphism.

    Parameters
    ----------
    topology
        The network.
    nodes
        Integers, shape (nodes,): node v goes to nodes[v].

    Returns
    -------
    int32, shape (links,), or None
        Equal parallel links are matched in order.
    """
    if not np.array_equal(np.sort(nodes), np.arange(topology.num_nodes)):
        return None
    node_kind, kinds = node_kinds(topology), link_kinds(topology)
    if not np.array_equal(node_kind[nodes], node_kind):
        return None
    ends = np.stack([kinds, topology.target, topology.source])
    images = np.stack([kinds, nodes[topology.target], nodes[topology.source]])
    order, image_order = np.lexsort(ends), np.lexsort(images)
    if not np.array_equal(ends[:, order], images[:, image_order]):
        return None
    links = np.empty(topology.num_links, dtype=np.int32)
    links[image_order] = order
    return links


def twin_permutation(topology: Topology) -> Int32Array:
    """Return, for each link, the first of those parallel and equal to it, int32 (links,)."""
    ends = np.stack([link_kinds(topology), topology.target, topology.source])
    _, first, inverse = np.unique(ends, axis=1, return_index=True, return_inverse=True)
    return first[inverse.reshape(-1)].astype(np.int32)


def orbits_of(maps: IntArray, size: int) -> Int32Array:
    """Return the least member of the class of each of 0..size-1, int32 (size,).

    Classes are the finest in which i and maps[g, i] are together for all g; for permutations, the orbits.

    Examples
    --------
    >>> orbits_of(np.array([[1, 0, 2, 3], [0, 1, 3, 2]]), 4).tolist()
    [0, 0, 2, 2]
    """
    here, there = np.tile(np.arange(size), len(maps)), np.asarray(maps).reshape(-1)
    joined = coo_array((np.ones(len(here), dtype=np.int8), (here, there)), shape=(size, size))
    count, labels = connected_components(joined, directed=False)
    least = np.full(count, size, dtype=np.int32)
    np.minimum.at(least, labels, np.arange(size, dtype=np.int32))
    return least[labels]

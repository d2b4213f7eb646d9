r"""As many out-trees a root as it has chunks, over links that are busy as shortly as can be: who goes where.

In a time T a link that takes c for a chunk carries ⌊T/c⌋ of them. Trees of given numbers at the roots fit if
every rank can be sent a unit from each (Edmonds; without switches that suffices), which is the case from some
least T on. That T is j·c for some j and some c, and is found by bisection among those: no trees for these
chunks have less congestion, α included (ForestColl with a fixed number of trees, dissertation 4.5.5, has the
same without α).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import njit

from topologies.exact import Int32Array, Int64Array
from topologies.forest import Forest, LogicalNetwork
from topologies.growing import grow_trees
from topologies.packing import pack_counts
from topologies.scaling import sustains
from topologies.topology import Topology


def least_time(topology: Topology, trees: Int64Array, cost: Int64Array) -> tuple[int, Int64Array]:
    """Return the least T, and how many trees each link may carry in it.

    Parameters
    ----------
    topology
        Strongly connected, without switches.
    trees
        Shape (ranks,): how many trees have each rank as root.
    cost
        Shape (links,): ticks that each link takes for a chunk.

    Examples
    --------
    >>> from topologies.families import ring
    >>> time, capacity = least_time(ring(4), np.full(4, 2), np.full(8, 10))  # 6 trees in over two links
    >>> time, capacity.tolist()
    (30, [3, 3, 3, 3, 3, 3, 3, 3])
    """

    def fits(time: int) -> bool:
        return sustains(topology.num_ranks, topology.source, topology.target, time // cost, trees)

    costs = np.unique(cost).tolist()
    low, high = 0, int(trees.sum()) * costs[-1]
    while (middle := _middle(costs, low, high)) is not None:
        if fits(middle):
            high = middle
        else:
            low = middle
    return high, high // cost


def _middle(costs: Iterable[int], low: int, high: int) -> int | None:
    """Return a multiple of a cost between two numbers, in the middle if it can be; None for none."""
    between = []
    for cost in costs:
        first, last = low // cost + 1, (high - 1) // cost
        if first <= last:
            between.append((last - first, (first + last) // 2 * cost))
    return max(between)[1] if between else None


def forest(topology: Topology, trees: Int64Array, capacity: Int64Array) -> Forest:
    """Return the trees, low ones where they are found soon; as `least_time` says."""
    used = np.flatnonzero(capacity)
    network = LogicalNetwork(
        topology.num_ranks,
        topology.source[used],
        topology.target[used],
        capacity[used],
        np.arange(len(used) + 1),
        used.astype(np.int32),
    )
    each = int(np.gcd.reduce(trees))
    grown = grow_trees(network, each, (trees // each).tolist()) if np.count_nonzero(trees) > 1 else None
    return pack_counts(network, trees) if grown is None else grown


def parents_of(grown: Forest, root: Int64Array) -> Int32Array:
    """Return a tree for each piece, shape (pieces, ranks), given the ranks where they start."""
    row = np.repeat(np.arange(len(grown)), grown.weight)
    order = np.argsort(root, kind="stable")
    parent = np.empty((len(root), grown.parent.shape[1]), np.int32)
    parent[order] = grown.parent[row]  # both by root
    return parent


@njit(cache=True)
def laid(parent: Int32Array, ends: Int32Array, capacity: Int64Array) -> Int32Array:
    """Return the link from each node's parent to it, of several the one with most room; -1 without parent.

    Invariant: the room of a link is its capacity less the trees laid over it.

    Parameters
    ----------
    parent
        Shape (pieces, nodes).
    ends
        Shape (2, links): source and target.
    capacity
        Shape (links,): how many trees each is meant to carry.
    """
    pieces, nodes = parent.shape
    by_pair = np.argsort(ends[0].astype(np.int64) * nodes + ends[1], kind="mergesort")
    pair = (ends[0].astype(np.int64) * nodes + ends[1])[by_pair]
    room, link = capacity.copy(), np.full(parent.shape, -1, np.int32)
    for piece in range(pieces):
        for node in range(nodes):
            if parent[piece, node] < 0:
                continue
            place = np.searchsorted(pair, parent[piece, node] * np.int64(nodes) + node)
            best = by_pair[place]
            while place < len(pair) and pair[place] == parent[piece, node] * np.int64(nodes) + node:
                if room[by_pair[place]] > room[best]:
                    best = by_pair[place]
                place += 1
            room[best] -= 1
            link[piece, node] = best
    return link

r"""Spanning trees within undirected capacities, of the largest total weight there is: the strength σ.

Nash-Williams and Tutte say that they exist; they are found in two steps. With k = σ times the denominator of
σ, and capacities scaled alike, `topologies.strength.orient` accepts k (n - 1) units of capacity and gives
each unit a direction, so that every rank but the root takes in k, and every set of ranks without the root at
least k. By Edmonds' theorem k out-trees of the root then fit the directed amounts, and `topologies.packing`
finds them, alike ones together. An out-tree is a spanning tree whose edges all have capacity for it in one
direction or the other.

Each tree is then rooted anew at its centre, which is what its data is reduced to: the least height that it
can have.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numba import njit

from models.allreduce_trees.greedy import MOST_ENTRIES, greedy_trees
from models.allreduce_trees.products import factors, product_forest
from models.allreduce_trees.spines import is_even_path, spine_forest
from topologies.errors import InputError
from topologies.exact import Int32Array, Int64Array, frozen
from topologies.forest import Forest, LogicalNetwork
from topologies.heights import depths, mean_height
from topologies.packing import pack_counts
from topologies.strength import Graph, connected, orient, strength

MOST_EXACT = 3 * 10**8
"""Nodes squared times trees; measured: 12 s for a 40x40 mesh, which has 2 x 10^8."""

EPSILON = Fraction(1, 100)


@dataclass(frozen=True, eq=False)
class Packing:
    """Spanning trees of a graph.

    Parameters
    ----------
    forest
        Alike trees in one row, rooted at a centre.
    ratio
        The largest load over capacity of an edge when each tree moves its share (weight over the total
        weight) of 1: at least 1 / σ.
    bound
        1 / σ.
    """

    forest: Forest
    ratio: Fraction
    bound: Fraction

    @property
    def gap(self) -> Fraction:
        """How much larger than 1 / σ the ratio is."""
        return self.ratio / self.bound - 1


def pack(graph: Graph, epsilon: Fraction | None = None, *, products: bool = True) -> Packing:
    """Return spanning trees whose ratio is 1 / σ, or within 1 + ε of it.

    Parameters
    ----------
    graph
        The undirected capacities.
    epsilon
        ε; 0: exact. None: exact where that is quick, as `MOST_EXACT` says, else `EPSILON`.
    products
        Whether the trees of a product may be made of those of its factors, if they are as good, and lower.

    Raises
    ------
    InputError
        If the graph is not connected, or the capacities are too far apart for 64 bits.
    NoSchedule
        If too many trees would be needed for this ε.

    Examples
    --------
    >>> from topologies.strength import undirected
    >>> triangle = undirected(3, [0, 1, 2], [1, 2, 0], [1, 1, 1])
    >>> found = pack(triangle)  # three paths, each half of an edge's capacity
    >>> found.ratio, len(found.forest)
    (Fraction(2, 3), 3)
    """
    sigma = strength(graph).value
    made = _of_factors(graph, epsilon) if products else None
    if made is not None and made.ratio * sigma > 1:
        made = None
    slow = graph.num_nodes**2 * min(sigma.numerator, len(graph.capacity)) > MOST_EXACT
    if made is not None and slow:
        return made
    within = epsilon if epsilon is not None else EPSILON if slow else Fraction(0)
    forest = greedy_trees(graph, 1 / sigma, within) if within else _packed(graph, sigma, middle(graph))
    forest = centred(forest)
    if made is not None and mean_height(made.forest) <= mean_height(forest):
        return made
    return Packing(forest, load_ratio(graph, forest), 1 / sigma)


def _of_factors(graph: Graph, epsilon: Fraction | None) -> Packing | None:
    """Return the trees of a product from those of its factors; None if it is none."""
    split = factors(graph)
    if split is None or not all(connected(factor) for factor in split):
        return None
    one, other = (pack(factor, epsilon) for factor in split)
    sizes = (split[0].num_nodes, split[1].num_nodes)
    forest = product_forest(sizes, (one.forest, other.forest), (one.ratio, other.ratio))
    if forest is None or len(forest) * graph.num_nodes > MOST_ENTRIES:
        return None
    forest = centred(forest)
    return Packing(forest, load_ratio(graph, forest), 1 / strength(graph).value)


def spine_packing(graph: Graph) -> Packing | None:
    """Return the trees with two spines, of which all links have use from start to end, if they are optimal.

    Returns
    -------
    Packing or None
        None where the graph is no product of two even paths, or its trees do not attain 1 / σ.

    Examples
    --------
    >>> from topologies.strength import undirected
    >>> mesh = undirected(4, [0, 2, 0, 1], [1, 3, 2, 3], [1, 1, 1, 1])
    >>> spine_packing(mesh).ratio
    Fraction(3, 4)
    """
    split = factors(graph)
    if split is None or not all(is_even_path(factor) for factor in split):
        return None
    forest = spine_forest(split)
    if forest is None or len(forest) * graph.num_nodes > MOST_ENTRIES:
        return None
    forest = centred(forest)
    ratio, bound = load_ratio(graph, forest), 1 / strength(graph).value
    return Packing(forest, ratio, bound) if ratio == bound else None


def _packed(graph: Graph, sigma: Fraction, root: int) -> Forest:
    """Return out-trees of the root."""
    found = orient(graph, sigma, root)
    ends = np.concatenate([graph.ends, graph.ends[::-1]], axis=1)
    capacity = np.concatenate([found.forward, found.backward])
    used = capacity > 0
    arcs = np.arange(used.sum() + 1)
    tails, heads = ends[:, used]
    routes = frozen(arcs[:-1], np.int32)
    network = LogicalNetwork(graph.num_nodes, tails, heads, capacity[used], arcs, routes)
    counts = np.zeros(graph.num_nodes, dtype=np.int64)
    counts[root] = sigma.numerator
    return pack_counts(network, counts)


def middle(graph: Graph) -> int:
    """Return a node that is as near as can be to both ends of a long shortest path."""
    ends = np.concatenate([graph.ends, graph.ends[::-1]], axis=1)
    arcs = np.argsort(ends[0], kind="stable")
    first = np.searchsorted(ends[0][arcs], np.arange(graph.num_nodes + 1))
    hops = [_hops(first, ends[1][arcs], 0)]
    for _ in range(2):
        hops.append(_hops(first, ends[1][arcs], int(hops[-1].argmax())))
    return int(np.maximum(hops[-1], hops[-2]).argmin())


def load_ratio(graph: Graph, forest: Forest) -> Fraction:
    """Return the largest load over capacity of an edge, each tree moving its share of 1, exactly.

    Raises
    ------
    InputError
        If a tree uses a pair that no edge joins.
    """
    n = graph.num_nodes
    keys = graph.ends[0].astype(np.int64) * n + graph.ends[1]
    load = np.zeros(len(keys) + 1, dtype=np.int64)
    for parent, weight in zip(forest.parent, forest.weight, strict=True):
        child = np.flatnonzero(parent >= 0)
        above = parent[child].astype(np.int64)
        used = np.minimum(child, above) * n + np.maximum(child, above)
        place = np.searchsorted(keys, used)
        if not np.array_equal(np.append(keys, -1)[place], used):
            raise InputError("trees: one uses a pair of ranks that no edge joins")
        load[place] += weight
    total = sum(forest.weight.tolist())
    worst = {(int(a), int(b)) for a, b in zip(load[:-1], graph.capacity, strict=True)}
    return max(Fraction(a, b) for a, b in worst) / total


def centred(forest: Forest) -> Forest:
    """Return the trees rooted at their centres, alike ones in one row, the heaviest and then lowest first."""
    parent = forest.parent.copy()
    root, height = _centre(parent)
    keys, first, place = np.unique(parent, axis=0, return_index=True, return_inverse=True)
    weight = np.zeros(len(keys), dtype=np.int64)
    np.add.at(weight, place.ravel(), forest.weight)
    order = np.lexsort((first, height[first], root[first]))
    return Forest(root[first][order], weight[order], keys[order])


@njit(cache=True)
def _hops(first: Int64Array, other: Int32Array, origin: int) -> Int32Array:
    """Return hops from the origin; all nodes are reached."""
    hops = np.full(len(first) - 1, -1, dtype=np.int32)
    queue = np.empty(len(hops), dtype=np.int32)
    hops[origin], queue[0], count = 0, origin, 1
    for done in range(len(hops)):
        node = queue[done]
        for arc in range(first[node], first[node + 1]):
            if hops[other[arc]] < 0:
                hops[other[arc]] = hops[node] + 1
                queue[count] = other[arc]
                count += 1
    return hops


@njit(cache=True)
def _centre(parent: Int32Array) -> tuple[Int32Array, Int32Array]:
    """Turn each tree to be rooted at the middle of its longest path; return roots and heights."""
    trees = len(parent)
    roots, heights = np.empty(trees, dtype=np.int32), np.empty(trees, dtype=np.int32)
    for tree in range(trees):
        far = np.argmax(depths(parent[tree]))
        _turn(parent[tree], far)
        end = np.argmax(depths(parent[tree]))
        length, node = 0, end
        while parent[tree, node] >= 0:
            node, length = parent[tree, node], length + 1
        node = end
        for _ in range(length // 2):
            node = parent[tree, node]
        _turn(parent[tree], node)
        roots[tree], heights[tree] = node, length - length // 2
    return roots, heights


@njit(cache=True)
def _turn(parent: Int32Array, root: int) -> None:
    """Root a tree at another node: the parents on the way from there to the old root change places."""
    node, before = root, -1
    while node >= 0:
        parent[node], before, node = before, node, parent[node]

r"""Spanning trees within undirected capacities, of the largest total weight there is: the strength σ.

A tree edge {u, v} of the graph carries the tree's data once from u to v and once from v to u. So of the
capacity between two ranks the trees can use the lesser of both directions. On a network without switches
whose pairs have equal capacity in both, nothing is lost. Elsewhere this is a heuristic: of unequal pairs the
excess is left unused, and switches are first removed as ForestColl does (dissertation B.5.2), at the
capacities of an optimal allgather.

The exact packing exists by Nash-Williams and Tutte, and is found in two steps. Capacities are scaled so that
σ becomes k, σ times its denominator. Then `topologies.graphs.strength.orient` accepts k (n - 1) units of
capacity and gives each unit a direction. Every rank but the root takes in k units, and every set of ranks
without the root at least k. By Edmonds' theorem k out-trees of the root then fit the directed amounts, and
`topologies.trees.packing` finds them, equal trees together. An out-tree is a spanning tree whose edges all
have capacity for it in one direction or the other.

Each tree is then rooted at its centre, to which its data is reduced. This is the least height that it can
have.

For large graphs trees are made one after the other along the edges with the least load. Each tree is a
minimum spanning tree by the loads over capacities of the trees before it (Thorup, Combinatorica 2007). This
is the limit of Plotkin, Shmoys and Tardos' multiplicative weights, where lengths are compared only by the
load. The largest load over capacity, per tree, falls towards 1 / σ, and the trees stop once it is near
enough. This is checked exactly against the strength, whatever the loads in between were.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tutti.models.all_to_all.certificate import largest_ratio
from tutti.models.allreduce.products import factors, is_even_path, product_forest, spine_forest
from tutti.models.bounds.bottleneck_cut import bottleneck_cut
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import Int32Array, frozen
from tutti.topologies.graphs.shortest_paths import hops_from_each
from tutti.topologies.graphs.strength import Graph, connected, orient, strength, undirected
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Neighbours, Topology
from tutti.topologies.trees.forest import Forest, LogicalNetwork, depths, mean_height, tree_capacities
from tutti.topologies.trees.packing import pack_counts
from tutti.topologies.trees.switch_removal import remove_switches
from tutti.topologies.trees.switch_removal_heuristic import spread_switches

MOST_EXACT = 3 * 10**8
"""Most nodes squared times trees for an exact packing unasked. A 40x40 mesh has 2 x 10^8 and takes 12 s. With
a larger value more networks have an exact packing, but take longer."""

EPSILON = Fraction(1, 100)
"""Relative distance from the bound that larger packings may have by default. A larger value is faster, but
its packing is worse."""

MOST_ENTRIES = 1 << 27
"""Most trees times nodes of a packing, which take 0.5 GB. Greedy trees that are not near by then would take
too long to come near."""


@dataclass(frozen=True, eq=False)
class TreeNetwork:
    """A graph in which trees are packed, and its arcs.

    Parameters
    ----------
    graph
        The ranks, and for each pair the capacity that it has in both directions.
    arcs
        The same capacities, with all that a direction has.
    unit
        Bytes per second of a capacity of 1.
    symmetric
        Whether the graph has all of the network: no switches, and equal capacities in both directions.
    """

    graph: Graph
    arcs: LogicalNetwork
    unit: Fraction
    symmetric: bool


def tree_network(topology: Topology) -> TreeNetwork | None:
    """Return the graph of the capacities that pairs have in both directions; None if it is not connected.

    Raises
    ------
    InputError
        If there are switches and their removal needs more trees than `topologies.trees.forest` allows.

    Examples
    --------
    >>> from tutti.topologies.families.grids import ring
    >>> tree_network(ring(4)).graph.capacity
    array([1, 1, 1, 1])
    """
    arcs, unit = _direct(topology) if not topology.num_switches else _without_switches(topology)
    tails, heads, capacity = arcs.pairs
    keys = tails.astype(np.int64) * arcs.num_ranks + heads  # sorted
    turned = heads.astype(np.int64) * arcs.num_ranks + tails
    place = np.minimum(np.searchsorted(keys, turned), len(keys) - 1)
    back = np.where(keys[place] == turned, capacity[place], 0)
    graph = undirected(arcs.num_ranks, tails, heads, np.minimum(capacity, back))
    graph = graph._replace(capacity=graph.capacity // 2)
    if not connected(graph):
        return None
    even = bool((capacity == back).all()) and not topology.num_switches
    return TreeNetwork(graph, arcs, unit, even)


def _direct(topology: Topology) -> tuple[LogicalNetwork, Fraction]:
    """Return every link as a separate arc."""
    common = int(np.gcd.reduce(topology.bandwidth.numerators))
    links = np.arange(topology.num_links + 1)
    capacity = topology.bandwidth.numerators // common
    ends = (topology.source, topology.target)
    arcs = LogicalNetwork(topology.num_ranks, *ends, capacity, links, frozen(links[:-1], np.int32))
    return arcs, Fraction(common, topology.bandwidth.denominator)


def _without_switches(topology: Topology) -> tuple[LogicalNetwork, Fraction]:
    """Return arcs between ranks over routes through the switches, as an optimal allgather uses them."""
    ratio = bottleneck_cut(topology, [1] * topology.num_ranks).ratio
    k, capacity = tree_capacities(topology, ratio)
    arcs = spread_switches(topology, capacity, k)
    if arcs is None:
        arcs = remove_switches(topology, capacity, k, [1] * topology.num_ranks)
    return arcs, topology.bandwidth[0] / int(capacity[0])


@dataclass(frozen=True, eq=False)
class Packing:
    """Spanning trees of a graph.

    Parameters
    ----------
    forest
        The trees, rooted at a centre; equal trees are in one row.
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
        """The ratio over 1 / σ, minus 1."""
        return self.ratio / self.bound - 1


def pack(graph: Graph, epsilon: Fraction | None = None, *, products: bool = True) -> Packing:
    """Return spanning trees whose ratio is 1 / σ, or within 1 + ε of it.

    Parameters
    ----------
    graph
        The undirected capacities.
    epsilon
        ε; 0: exact. None: exact where that is fast, as `MOST_EXACT` says, else `EPSILON`.
    products
        Whether the trees of a product may be made of its factors' trees, if they are as good, and lower.

    Raises
    ------
    InputError
        If the graph is not connected, or the capacities are too far apart for 64 bits.
    NoSchedule
        If too many trees would be needed for this ε.

    Examples
    --------
    >>> from tutti.topologies.graphs.strength import undirected
    >>> triangle = undirected(3, [0, 1, 2], [1, 2, 0], [1, 1, 1])
    >>> found = pack(triangle)  # three paths, each half of an edge's capacity
    >>> found.ratio, len(found.forest)
    (Fraction(2, 3), 3)
    """
    sigma = strength(graph).value
    of_factors = _of_factors(graph, epsilon) if products else None
    if of_factors is not None and of_factors.ratio * sigma > 1:
        of_factors = None
    slow = graph.num_nodes**2 * min(sigma.numerator, len(graph.capacity)) > MOST_EXACT
    if of_factors is not None and slow:
        return of_factors
    within = epsilon if epsilon is not None else EPSILON if slow else Fraction(0)
    forest = greedy_trees(graph, 1 / sigma, within) if within else _packed(graph, sigma, middle(graph))
    forest = centred(forest)
    if of_factors is not None and mean_height(of_factors.forest) <= mean_height(forest):
        return of_factors
    return Packing(forest, load_ratio(graph, forest), 1 / sigma)


def _of_factors(graph: Graph, epsilon: Fraction | None) -> Packing | None:
    """Return the trees of a product by those of its factors; None if the graph is no product."""
    split = factors(graph)
    if split is None or not all(connected(factor) for factor in split):
        return None
    one, other = (pack(factor, epsilon) for factor in split)
    sizes = (split[0].num_nodes, split[1].num_nodes)
    return packing_of(graph, product_forest(sizes, (one.forest, other.forest), (one.ratio, other.ratio)))


def packing_of(graph: Graph, forest: Forest | None) -> Packing | None:
    """Return the trees at their centres as a packing; None if there are none, or too many."""
    if forest is None or len(forest) * graph.num_nodes > MOST_ENTRIES:
        return None
    forest = centred(forest)
    return Packing(forest, load_ratio(graph, forest), 1 / strength(graph).value)


def spine_packing(graph: Graph) -> Packing | None:
    """Return the trees with two spines, which give all links use from start to end, if they are optimal.

    Returns
    -------
    Packing or None
        None where the graph is no product of two even paths, or its trees do not attain 1 / σ.

    Examples
    --------
    >>> from tutti.topologies.graphs.strength import undirected
    >>> mesh = undirected(4, [0, 2, 0, 1], [1, 3, 2, 3], [1, 1, 1, 1])
    >>> spine_packing(mesh).ratio
    Fraction(3, 4)
    """
    split = factors(graph)
    if split is None or not all(is_even_path(factor) for factor in split):
        return None
    found = packing_of(graph, spine_forest(split))
    return found if found is not None and found.ratio == found.bound else None


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
    """Return a node that is as near as possible to both ends of a long shortest path."""
    tails, heads = np.concatenate([graph.ends, graph.ends[::-1]], axis=1)
    neighbours = Neighbours.of(tails, heads, graph.num_nodes)
    hops = [hops_from_each(neighbours, np.array([0]))[0]]
    for _ in range(2):
        hops.append(hops_from_each(neighbours, hops[-1].argmax(keepdims=True))[0])
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
    return largest_ratio(load[:-1], graph.capacity) / sum(forest.weight.tolist())


def centred(forest: Forest) -> Forest:
    """Return the trees rooted at their centres, equal ones in one row, the heaviest and then lowest first."""
    parent = forest.parent.copy()
    root, height = _centre(parent)
    keys, first, place = np.unique(parent, axis=0, return_index=True, return_inverse=True)
    weight = np.zeros(len(keys), dtype=np.int64)
    np.add.at(weight, place.ravel(), forest.weight)
    order = np.lexsort((first, height[first], root[first]))
    return Forest(root[first][order], weight[order], keys[order])


@kernel
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


@kernel
def _turn(parent: Int32Array, root: int) -> None:
    """Root a tree at another node: the parents on the path from there to the old root change places."""
    node, before = root, -1
    while node >= 0:
        parent[node], before, node = before, node, parent[node]


def greedy_trees(graph: Graph, bound: Fraction, epsilon: Fraction) -> Forest:
    """Return trees of weight 1 that load no edge over (1 + ε) times the bound, each moving its share of 1.

    Parameters
    ----------
    graph
        Connected.
    bound
        1 / σ.
    epsilon
        Positive.

    Raises
    ------
    NoSchedule
        If too many trees would be needed.

    Examples
    --------
    >>> from tutti.topologies.graphs.strength import undirected
    >>> triangle = undirected(3, [0, 1, 2], [1, 2, 0], [1, 1, 1])
    >>> len(greedy_trees(triangle, Fraction(2, 3), Fraction(1, 100)))
    3
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

    n, most = graph.num_nodes, MOST_ENTRIES // graph.num_nodes
    target = float(bound * (1 + epsilon)) * (1 - 1e-12)  # loads are summed in doubles
    rng = np.random.default_rng(0)
    load = np.zeros(len(graph.capacity))
    trees: list[Int32Array] = []
    while (load / graph.capacity).max() > target * len(trees) or not trees:
        if len(trees) == most:
            raise NoSchedule(
                f"allreduce_trees: {most} trees on {n} ranks do not come within {epsilon} of the bound; "
                "give a larger epsilon"
            )
        # Among equal loads the order is random, so that trees differ and no edge is preferred.
        order = np.argsort((load + rng.random(len(load))) / graph.capacity)
        tree = minimum_spanning_tree(csr_array((np.argsort(order) + 1, graph.ends), shape=(n, n)))
        load[order[tree.data.astype(np.int64) - 1]] += 1
        trees.append(breadth_first_order(tree, 0, directed=False)[1])
    parent = np.stack(trees)
    parent[:, 0] = -1
    return Forest(frozen([0] * len(trees), np.int32), frozen([1] * len(trees), np.int64), parent)

r"""Rooted packings: the network without its switches, trees within its capacities, and how many there can be.

All are in units of trees: a link of bandwidth b carries U·b trees, where one tree moves 1/k of a shard
(dissertation B.5.1).

The height of a forest is the number of hops between ranks on the longest path from a root, which is the
latency of its schedule. `align_trees` makes consecutive trees of a forest similar.

A forest meets the bottleneck cut's 1/x* under two conditions. Root r has k·w_r trees, where the weights w are
integers without a common divisor (all 1 in an allgather). No link of bandwidth b is in more than U·b of them,
where U = k/x*. So U·b must be an integer for every link, and U·x*·w_r for every root: the smallest such U is
one over the greatest common divisor of these rationals. With weights 1 and 1/x* = p/q this is U = p / gcd(q,
{b_e}) and k = U·x*, the proposition of B.5.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import (
    INT64_MAX,
    Int32Array,
    Int64Array,
    Rationals,
    common_divisor,
    frozen,
    summed_pairs,
)
from tutti.topologies.graphs.max_flow import DinicNetwork, fed_network
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology

MOST_TREES = 10**6
"""Most trees that a root may have. A schedule cuts the root's shard into as many chunks."""

_MOST_CAPACITY = INT64_MAX >> 3
"""Largest sum of all capacities and demands. The max-flows of the packing need the spare bits."""


@dataclass(frozen=True, eq=False)
class LogicalNetwork:
    """Ranks joined by arcs, each over one physical route (dissertation 4.5.3: the network without switches).

    Parameters
    ----------
    num_ranks
        The number of ranks, N.
    tails, heads
        int32, shape (arcs,): ranks; several arcs may join one pair, over different routes.
    capacity
        int64, shape (arcs,): the number of trees that may use the arc, positive.
    offsets, links
        CSR: the route of arc a is the physical links links[offsets[a] : offsets[a + 1]], in order.
    """

    num_ranks: int
    tails: Int32Array
    heads: Int32Array
    capacity: Int64Array
    offsets: Int64Array
    links: Int32Array

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        for name, dtype in (("tails", np.int32), ("heads", np.int32), ("links", np.int32)):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype))
        for name in ("capacity", "offsets"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int64))

    @property
    def pairs(self) -> tuple[Int32Array, Int32Array, Int64Array]:
        """Tails, heads and total capacity of the pairs that arcs join, sorted by tail and head."""
        return summed_pairs(self.num_ranks, self.tails, self.heads, self.capacity)


@dataclass(frozen=True, eq=False)
class Forest:
    """Spanning out-trees; equal ones share a row with a weight.

    Parameters
    ----------
    root
        int32, shape (rows,): non-decreasing.
    weight
        int64, shape (rows,): the number of unit trees that the row stands for, positive.
    parent
        int32, shape (rows, ranks): the rank from which each rank receives, -1 at the root (and at ranks
        that the tree need not reach).
    """

    root: Int32Array
    weight: Int64Array
    parent: Int32Array

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        object.__setattr__(self, "root", frozen(self.root, np.int32))
        object.__setattr__(self, "weight", frozen(self.weight, np.int64))
        object.__setattr__(self, "parent", frozen(self.parent, np.int32))

    def __len__(self) -> int:
        return len(self.root)


def heights(forest: Forest) -> Int32Array:
    """Return the height of each row's tree in hops between ranks, shape (rows,).

    Examples
    --------
    >>> heights(Forest([0, 0], [2, 1], [[-1, 0, 0], [-1, 0, 1]]))
    array([1, 2], dtype=int32)
    """
    return np.asarray(_heights(forest.parent), dtype=np.int32)


def largest_height(forest: Forest) -> int:
    """Return the height of the highest tree."""
    return int(heights(forest).max())


def mean_height(forest: Forest) -> Fraction:
    """Return the mean height of the unit trees: that of the rows, by weight."""
    weight = forest.weight.tolist()
    total = sum(height * w for height, w in zip(heights(forest).tolist(), weight, strict=True))
    return Fraction(total, sum(weight))


@kernel
def _heights(parent: Int32Array) -> Int32Array:
    result = np.empty(len(parent), dtype=np.int32)
    for row in range(len(parent)):
        result[row] = depths(parent[row]).max()
    return result


@kernel
def depths(parent: Int32Array) -> Int64Array:
    """Return the hops of each node from the root of its tree, int64 (nodes,); 0 for a node without parent.

    Invariant: if a node has a depth, so have all its ancestors.
    """
    depth = np.full(len(parent), -1, dtype=np.int64)
    path = np.empty(len(parent), dtype=np.int64)
    for start in range(len(parent)):
        node, count = start, 0
        while depth[node] < 0 and parent[node] >= 0:
            path[count] = node
            node, count = parent[node], count + 1
        depth[node] = max(depth[node], 0)
        at = depth[node]
        for step in range(count - 1, -1, -1):
            at += 1
            depth[path[step]] = at
    return depth


def rerooted(parent: Int32Array, root: int) -> Int32Array:
    """Return the same tree from another of its nodes.

    Examples
    --------
    >>> rerooted(np.array([2, 2, -1, 2]), 0).tolist()
    [-1, 2, 0, 2]
    """
    turned = parent.copy()
    node, above = -1, root
    while above >= 0:
        turned[above], node, above = node, above, int(parent[above])
    return turned


_MOST_ENTRIES = 1 << 26
"""Largest product of unit trees, ranks and unit trees of one root. Rows of larger forests are only sorted."""
_MOST_SWEEPS = 12
"""Largest number of sweeps over the ranks of a root's trees. A larger value may align more parents."""


def align_trees(forest: Forest) -> Forest:
    """Return a forest that uses each arc equally often, with fewer different edges; no tree is higher.

    The trees of a root exchange parents until consecutive trees agree. If a rank has the same parent, at the
    same depth, in consecutive trees, one transfer serves them all. An exchange between two trees of a root
    does not change how often each arc is used. It is made only if the rank becomes deeper in neither tree.
    This also excludes cycles. The result is the same for the same forest.

    Parameters
    ----------
    forest
        Spanning trees.

    Examples
    --------
    >>> crossed = Forest([0] * 4, [1] * 4, [[-1, 0, 0, 1], [-1, 0, 0, 2], [-1, 0, 0, 1], [-1, 0, 0, 2]])
    >>> align_trees(crossed).weight.tolist()
    [2, 2]
    """
    weight = forest.weight.tolist()
    units = np.bincount(forest.root, weights=forest.weight).astype(np.int64)
    if len(forest) <= len(np.unique(forest.root)):
        return forest
    if sum(weight) * forest.parent.shape[1] * int(units.max()) > _MOST_ENTRIES:
        return _ordered(forest)
    row = np.repeat(np.arange(len(forest)), forest.weight)
    root, parent = forest.root[row].copy(), forest.parent[row].copy()
    begin = np.searchsorted(root, np.unique(root))
    for first, last in zip(begin.tolist(), [*begin[1:].tolist(), len(root)], strict=True):
        parent[first:last] = _aligned(parent[first:last].copy(), int(root[first]))
    new = np.ones(len(root), dtype=bool)  # consecutive equal trees share a row
    new[1:] = (root[1:] != root[:-1]) | (parent[1:] != parent[:-1]).any(axis=1)
    first_row = np.flatnonzero(new)
    return Forest(root[first_row], np.diff(np.append(first_row, len(root))), parent[first_row])


def _ordered(forest: Forest) -> Forest:
    """Return the forest with each root's rows sorted by similarity, or as it is if that takes too long."""
    begin = np.append(np.flatnonzero(np.diff(forest.root, prepend=-1)), len(forest))
    if len(forest) * forest.parent.shape[1] * int(np.diff(begin).max()) > _MOST_ENTRIES:
        return forest
    order = np.concatenate(
        [first + _by_likeness(forest.parent[first:last]) for first, last in pairwise(begin.tolist())]
    )
    return Forest(forest.root, forest.weight[order], forest.parent[order])


@kernel
def _aligned(parent: Int32Array, root: int) -> Int32Array:
    """Sort one root's trees by similarity, then sweep over the ranks until nothing improves."""
    parent = parent[_by_likeness(parent)]
    depth = np.zeros(parent.shape, np.int32)
    for tree in range(len(parent)):
        depth[tree] = depths(parent[tree])
    for _ in range(_MOST_SWEEPS):
        better = 0
        for rank in range(parent.shape[1]):
            if rank != root:
                better += _sweep(parent, depth, root, rank)
        if better == 0:
            break
    return parent


@kernel
def _by_likeness(parent: Int32Array) -> Int64Array:
    """Return an order of the trees in which each is followed by the most similar of the remaining ones."""
    order = np.arange(len(parent))
    for place in range(1, len(order)):
        # `order` is settled before `place`; what follows are the trees that remain.
        best, least = place, parent.shape[1] + 1
        for other in range(place, len(order)):
            apart = 0
            for rank in range(parent.shape[1]):
                apart += parent[order[other], rank] != parent[order[place - 1], rank]
            if apart < least:
                best, least = other, apart
        order[place], order[best] = order[best], order[place]
    return order


@kernel
def _sweep(parent: Int32Array, depth: Int32Array, root: int, rank: int) -> int:
    """Exchange parents of a rank where more neighbouring trees then agree; return how many more do."""
    gained = 0
    for tree in range(len(parent) - 1):
        wanted = parent[tree, rank]
        if parent[tree + 1, rank] == wanted:
            continue
        for other in range(len(parent)):
            if parent[other, rank] != wanted or other == tree:
                continue
            one, two = tree + 1, other
            given = parent[one, rank]
            # Invariant: a rank's parent is nearer to the root than the rank, so that both stay trees.
            if depth[one, wanted] >= depth[one, rank] or depth[two, given] >= depth[two, rank]:
                continue
            before = _changes(parent, rank, one, two)
            parent[one, rank], parent[two, rank] = wanted, given
            after = _changes(parent, rank, one, two)
            if after >= before:
                parent[one, rank], parent[two, rank] = given, wanted
                continue
            gained += before - after
            depth[one] = depths(parent[one])
            depth[two] = depths(parent[two])
            break
    return gained


@kernel
def _changes(parent: Int32Array, rank: int, one: int, two: int) -> int:
    """Return the number of neighbouring pairs with either of two trees that differ in a rank's parent."""
    count = 0
    for tree in (one - 1, one, two - 1, two):
        if 0 <= tree < len(parent) - 1:
            count += parent[tree, rank] != parent[tree + 1, rank]
    if abs(one - two) == 1:  # the place between them was counted twice
        middle = min(one, two)
        count -= parent[middle, rank] != parent[middle + 1, rank]
    return count


def tree_capacities(
    topology: Topology, ratio: Fraction, weights: Iterable[Fraction | int] | None = None
) -> tuple[int, Int64Array]:
    """Return the smallest k, and U·b of every link, of a forest that meets a ratio exactly.

    Parameters
    ----------
    topology
        The network.
    ratio
        1/x* in s/B, from `models.bounds.bottleneck_cut.bottleneck_cut` for the same weights.
    weights
        Not negative, one per rank; by default all 1. `trees_by_root` says what k means with weights.

    Returns
    -------
    tuple
        k, and the capacities in trees: int64, shape (links,).

    Raises
    ------
    InputError
        If the ratio or the weights are wrong.
    NoSchedule
        If a root would need more than `MOST_TREES` trees, or capacities in trees do not fit 64 bits.

    Examples
    --------
    >>> from tutti.topologies.families.machines import mi250
    >>> k, capacity = tree_capacities(mi250(2), Fraction(15, 166) / 10**9)
    >>> k, sorted(set(capacity.tolist()))
    (83, [120, 375])
    """
    shares = _whole(topology.num_ranks, weights)
    if ratio <= 0:
        raise InputError(f"trees of {topology.name}: the ratio 1/x* is {ratio}; it must be positive")
    unit = Fraction(int(np.gcd.reduce(shares.numerators)), shares.denominator)
    rate = unit / ratio  # B/s of one tree if k = 1
    common = int(np.gcd.reduce(topology.bandwidth.numerators))
    whole = Fraction(common, topology.bandwidth.denominator)
    tree = common_divisor([whole, rate])  # 1/U
    k = int(rate / tree)
    most = k * max(shares.numerators.tolist()) // int(np.gcd.reduce(shares.numerators))
    if most > MOST_TREES:
        remedy = "fix the number of trees (--option trees=4) or give bandwidths a larger common divisor"
        if most // k > MOST_TREES:  # weights alone cause it, even at k = 1
            remedy = "give shards a larger common divisor"
        raise NoSchedule(
            f"trees of {topology.name}: the optimum needs {most} trees at a root, at most {MOST_TREES} are "
            f"allowed; {remedy}"
        )
    steps = (topology.bandwidth.numerators // common).tolist()
    capacity = [step * int(whole / tree) for step in steps]
    if sum(capacity) + topology.num_ranks * most > _MOST_CAPACITY:
        raise NoSchedule(
            f"trees of {topology.name}: capacities in trees add up to {sum(capacity)}, which does not fit "
            f"64 bits (at most {_MOST_CAPACITY}); fix the number of trees (--option trees=4)"
        )
    return k, frozen(capacity, np.int64)


def trees_by_root(num_ranks: int, k: int, weights: Iterable[Fraction | int] | None = None) -> Int64Array:
    """Return each root's number of trees: k times its weight over the weights' greatest common divisor.

    Raises
    ------
    InputError
        If k is below 1, or if the weights are negative, all zero or not one per rank.

    Examples
    --------
    >>> trees_by_root(3, 2, [Fraction(1, 2), 0, Fraction(3, 4)]).tolist()
    [4, 0, 6]
    """
    if k < 1:
        raise InputError(f"trees: {k} trees a root; at least 1")
    shares = _whole(num_ranks, weights)
    return frozen(shares.numerators // int(np.gcd.reduce(shares.numerators)) * k, np.int64)


def sustains(
    num_nodes: int, tails: Int32Array, heads: Int32Array, capacity: Int64Array, trees: Int64Array
) -> bool:
    """Return whether every rank can be sent a unit from each tree: Theorem 25's condition.

    It is necessary for out-trees within the capacities. It is sufficient if there are no switches (Theorem
    30), or if switches are balanced (`topologies.trees.switch_removal`). Sinks that passed join the sources,
    as in `models.bounds.bottleneck_cut`.

    Parameters
    ----------
    num_nodes
        Ranks 0..len(trees)-1, then switches.
    tails, heads, capacity
        The arcs, shape (arcs,).
    trees
        The number of trees of each root, shape (ranks,).
    """
    network = fed_network(num_nodes, tails, heads, trees, DinicNetwork)
    network.set_capacities(np.arange(len(tails)), capacity)
    network.absorb(num_nodes)
    total = int(trees.sum())
    for sink in range(len(trees)):
        if network.grow(sink, total) < total:
            return False
        network.absorb(sink)
    return True


def _whole(num_ranks: int, weights: Iterable[Fraction | int] | None) -> Rationals:
    """Return the weights, checked."""
    given = Rationals.of([1] * num_ranks if weights is None else weights)
    if len(given) != num_ranks or (given.numerators < 0).any() or not given.numerators.any():
        raise InputError(f"trees: give {num_ranks} weights, one a rank, none negative and not all zero")
    return given

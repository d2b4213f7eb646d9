r"""The best forest of a given number of trees a root: Algorithm 5 (dissertation 4.5.5 and B.5.4), exact.

With U trees per B/s, a link of bandwidth b carries ⌊U·b⌋ of them, and k trees a root take 1/x = U/k (Theorem
33). They exist if and only if U ≥ U* (Theorem 34), and U* is the smallest U at which every set S of nodes,
short of some rank, lets enough out:

.. math::

    \sum_{e \in δ^+(S)} ⌊U b_e⌋ \ge k·|S ∩ V_c|.

Algorithm 5 as printed bisects an interval of U by OR-Tools' max-flows (`bisected_density`). The faster
`raised_density` goes from cut to cut, as `models.bounds.bottleneck_cut` raises 1/x*. It starts at the U that
serves all sets around a single rank. When some rank can't be sent everything, its minimum cut S needs a
larger U. The smallest U that serves S is the next one to try. Every U that it tries is a lower bound of U*,
so the first to serve all ranks is U*, exactly. Theorem 35: U*/k ≤ 1/x* + 1/(k·min b). Since 1/x* itself is
not needed, capacities are numbers of trees, which fit 64 bits whatever the bandwidths.

Rounded capacities need not be balanced where the two directions of a link differ. Switch removal needs them
so at switches: spare units at a switch are taken off again where every rank can still be sent everything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from tutti.models.bounds.bottleneck_cut import node_cut
from tutti.topologies.errors import NoSchedule
from tutti.topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array, Rationals
from tutti.topologies.graphs.max_flow import DinicNetwork, FlowNetwork, fed_network
from tutti.topologies.topology import Topology
from tutti.topologies.trees.forest import MOST_TREES, sustains, trees_by_root


@dataclass(frozen=True, eq=False)
class RoundedArcs:
    """Arcs that carry whole trees: ⌊U·b⌋ each.

    Parameters
    ----------
    name
        The network's, for messages.
    num_nodes
        Ranks, then switches.
    tails, heads
        int32, shape (arcs,).
    bandwidth
        b, exact, shape (arcs,).
    """

    name: str
    num_nodes: int
    tails: Int32Array
    heads: Int32Array
    bandwidth: Rationals

    @classmethod
    def of(cls, topology: Topology) -> RoundedArcs:
        """Return the links of a network."""
        return cls(topology.name, topology.num_nodes, topology.source, topology.target, topology.bandwidth)

    @cached_property
    def _classes(self) -> tuple[tuple[Fraction, ...], Int64Array]:
        """The distinct bandwidths, and the place among them of each arc's."""
        distinct, place = np.unique(self.bandwidth.numerators, return_inverse=True)
        return tuple(Fraction(b, self.bandwidth.denominator) for b in distinct.tolist()), place

    def rounded(self, density: Fraction) -> Int64Array:
        """Return ⌊U·b⌋ of each arc.

        Raises
        ------
        NoSchedule
            If an arc would carry more trees than fit 64 bits.
        """
        values, place = self._classes
        units = [int(density * b) for b in values]
        most = INT64_MAX // len(place)
        if max(units) > most:
            raise NoSchedule(
                f"{self.name} with a fixed number of trees: a link can carry {max(units)}, at most {most} "
                "are allowed; its bandwidths are too far apart"
            )
        return np.array(units, dtype=np.int64)[place]

    def least_density(self, exits: BoolArray, needed: int, density: Fraction) -> Fraction:
        """Return the smallest U, at least `density`, at which the arcs of a cut carry `needed` trees.

        Without rounding this U would be needed / B⁺(S). Rounding loses less than one tree an arc, so from
        there it is only a few steps, each to the next U at which some ⌊U·b⌋ rises.
        """
        values, place = self._classes
        counts = np.bincount(place[exits], minlength=len(values)).tolist()
        classes = [(b, count) for b, count in zip(values, counts, strict=True) if count and b]
        density = max(density, Fraction(needed) / sum(b * count for b, count in classes))
        while sum(int(density * b) * count for b, count in classes) < needed:
            density = min(Fraction(int(density * b) + 1) / b for b, _ in classes)
        return density


DensitySearch = Callable[[RoundedArcs, Int64Array, Fraction], Fraction]
"""A search for U*, given arcs, the number of trees of each root, and a lower bound."""


@dataclass(frozen=True, eq=False)
class FixedK:
    """The smallest capacities that carry the trees.

    Parameters
    ----------
    k
        Trees a root (times its weight, see `topologies.trees.forest.trees_by_root`).
    ratio
        1/x in s/B, comparable with the bottleneck cut's 1/x*: U*/k with weights 1.
    capacity
        int64, shape (links,): trees that each link carries, at most ⌊U*·b⌋; balanced at switches.
    """

    k: int
    ratio: Fraction
    capacity: Int64Array


def fixed_k_ratio(
    topology: Topology,
    k: int,
    weights: Iterable[Fraction | int] | None = None,
    search: DensitySearch | None = None,
) -> Fraction:
    """Return 1/x of the best forest with k trees a root, in s/B: U*/k with weights 1.

    Parameters
    ----------
    topology
        The network.
    k
        1 to `topologies.trees.forest.MOST_TREES`.
    weights
        As `models.bounds.bottleneck_cut.bottleneck_cut`; default 1 each.
    search
        `raised_density` (default) or `bisected_density`: how U* is found, which is the same.

    Raises
    ------
    InputError
        If k or the weights are out of range.
    NoSchedule
        If a root would have more than `topologies.trees.forest.MOST_TREES` trees, or a link more than
        fit 64 bits.
    """
    shares = Rationals.of([1] * topology.num_ranks if weights is None else weights)
    trees = trees_by_root(topology.num_ranks, k, shares)
    if int(trees.max()) > MOST_TREES:
        raise NoSchedule(
            f"{topology.name} with a fixed number of trees: {int(trees.max())} at a root; "
            f"at most {MOST_TREES}"
        )
    tree = _share(shares) / k
    least = node_cut(topology, shares).ratio / tree
    return (search or raised_density)(RoundedArcs.of(topology), trees, least) * tree


def fixed_k_capacities(
    topology: Topology,
    k: int,
    weights: Iterable[Fraction | int] | None = None,
    search: DensitySearch | None = None,
) -> FixedK:
    """Return the capacities of the best forest with k trees a root; parameters as `fixed_k_ratio`.

    Raises
    ------
    InputError
        If k or the weights are out of range.
    NoSchedule
        As `fixed_k_ratio`, and if rounding leaves a switch unbalanced beyond repair.

    Examples
    --------
    >>> from tutti.topologies.families.machines import mi250
    >>> [str(32 / fixed_k_capacities(mi250(2), k).ratio / 10**9) for k in (1, 2, 3)]
    ['320', '1024/3', '2400/7']
    """
    shares = Rationals.of([1] * topology.num_ranks if weights is None else weights)
    ratio = fixed_k_ratio(topology, k, shares, search)
    density = ratio * k / _share(shares)
    capacity = RoundedArcs.of(topology).rounded(density)
    if topology.num_switches:
        _balance(topology, capacity, trees_by_root(topology.num_ranks, k, shares))
    return FixedK(k, ratio, capacity)


def _share(weights: Rationals) -> Fraction:
    """Return the weight of k trees: the weights' greatest common divisor."""
    return Fraction(int(np.gcd.reduce(weights.numerators)), weights.denominator)


def raised_density(arcs: RoundedArcs, trees: Int64Array, density: Fraction) -> Fraction:
    """Return U*, in trees per B/s, raised from cut to cut.

    Parameters
    ----------
    arcs
        The network's.
    trees
        int64, shape (ranks,): trees of each root.
    density
        A lower bound of U*.

    Raises
    ------
    NoSchedule
        If an arc would carry more trees than fit 64 bits.
    """
    total, every = int(trees.sum()), np.arange(len(arcs.tails))
    network = fed_network(arcs.num_nodes, arcs.tails, arcs.heads, trees, DinicNetwork)
    network.set_capacities(every, arcs.rounded(density))
    network.absorb(arcs.num_nodes)
    for sink in range(len(trees)):
        # As U grows capacities do, so sinks that passed are safe and join the sources.
        while network.grow(sink, total) < total:
            inside = network.cut()[: arcs.num_nodes]
            exits, needed = inside[arcs.tails] & ~inside[arcs.heads], trees[inside[: len(trees)]]
            density = arcs.least_density(exits, int(needed.sum()), density)
            network.set_capacities(every, arcs.rounded(density))
        network.absorb(sink)
    return density


def bisected_density(arcs: RoundedArcs, trees: Int64Array, density: Fraction) -> Fraction:
    """Return U* by Algorithm 5 as printed: the reference. Parameters and raises as `raised_density`.

    The paper's bandwidths are integers. Here they are made integers by their greatest common divisor.
    """
    total, bandwidth = int(trees.sum()), arcs.bandwidth
    unit = Fraction(int(np.gcd.reduce(bandwidth.numerators)), bandwidth.denominator)
    largest = int(max(bandwidth) / unit)
    low, high = density * unit, Fraction(total - int(trees.min()))
    network = fed_network(arcs.num_nodes, arcs.tails, arcs.heads, trees, FlowNetwork)
    every = np.arange(len(arcs.tails))
    while high - low >= Fraction(1, largest**2):
        middle = (low + high) / 2
        network.set_capacities(every, arcs.rounded(middle / unit))
        if all(network.solve(arcs.num_nodes, sink) == total for sink in range(len(trees))):
            high = middle
        else:
            low = middle
    return ((low + high) / 2).limit_denominator(largest) / unit


def _balance(topology: Topology, capacity: Int64Array, trees: Int64Array) -> None:
    """Take spare units off the links of unbalanced switches; all trees still fit."""
    while True:
        excess = np.zeros(topology.num_nodes, dtype=np.int64)
        np.add.at(excess, topology.target, capacity)
        np.subtract.at(excess, topology.source, capacity)
        excess[: topology.num_ranks] = 0
        uneven = np.flatnonzero(excess)
        if not len(uneven):
            return
        if not any(_relieve(topology, capacity, trees, int(node), int(excess[node])) for node in uneven):
            node = int(uneven[0])
            label, units = topology.labels[node], abs(excess[node])
            more, less = ("in", "out") if excess[node] > 0 else ("out", "in")
            raise NoSchedule(
                f"{topology.name} with a fixed number of trees: rounding leaves switch {label} with room for "
                f"{units} more {more} than {less}; try another number, or leave it open"
            )


def _relieve(topology: Topology, capacity: Int64Array, trees: Int64Array, node: int, excess: int) -> bool:
    """Take up to |excess| units off the links into a switch (out of it, if negative); tell whether any went.

    Links of ranks go first, since ranks need no balance.
    """
    near, far = (topology.target, topology.source) if excess > 0 else (topology.source, topology.target)
    links = sorted(np.flatnonzero(near == node).tolist(), key=lambda link: (int(far[link]), link))
    left = abs(excess)
    for link in links:
        spare = _spare(topology, capacity, trees, link, left)
        capacity[link] -= spare
        left -= spare
        if not left:
            break
    return left < abs(excess)


def _spare(topology: Topology, capacity: Int64Array, trees: Int64Array, link: int, most: int) -> int:
    """Return how many units a link can lose, at most `most`: by bisection."""

    def falls_short(units: int) -> bool:
        less = capacity.copy()
        less[link] -= units
        return not sustains(topology.num_nodes, topology.source, topology.target, less, trees)

    return bisect_right(range(1, min(most, int(capacity[link])) + 1), False, key=falls_short)

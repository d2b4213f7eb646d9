r"""The throughput bottleneck cut of a network (ForestColl; dissertation 4.4, 4.5.2 and B.5.1).

In an allgather, whatever starts inside a set S of nodes must leave it if some rank is outside. So with
w(S) the data that starts in S and B⁺(S) the bandwidth of the links that leave it,

.. math::

    T \ge \max_{S \not\supseteq D} \frac{w(S)}{B^+(S)}          \qquad (\star)

where D are the sinks, the ranks that must end with everything. With weight 1 at every rank the maximum is
the paper's 1/x* (ranks per B/s, so that allgather takes 1/x* · M/N); with the shares of M as weights it
is the time in units of M. Weights at the root only give broadcast, one sink alone gives gather, and the
transposed network gives reduce-scatter, reduce and scatter.

Max-flows tell whether a ratio 1/x is at least the maximum (Theorem 23). Join a source s to every node v by an
arc of capacity w(v)·x; then 1/x ≥ 1/x* if and only if every sink can be sent w(V)·x. If a sink can't, the
minimum cut between s and it has a ratio above 1/x. All numbers are integers: with 1/x = p/q in
units of the bandwidths' greatest common divisor, links get capacity p·b and source arcs q·w.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT64_MAX, BoolArray, Int64Array, Rationals, frozen
from tutti.topologies.graphs.max_flow import DinicNetwork, FlowNetwork, MaxFlow, Network, fed_network
from tutti.topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class Cut:
    """A set of nodes that data must leave: a certificate of (★), checked by adding up its links.

    Parameters
    ----------
    inside
        bool, shape (nodes,): the nodes of S.
    weight
        w(S), in the units of the weights (ranks, or shares of M).
    exit_bandwidth
        B⁺(S), bytes/s.
    """

    inside: BoolArray
    weight: Fraction
    exit_bandwidth: Fraction

    @property
    def ratio(self) -> Fraction:
        """w(S) / B⁺(S): of the bottleneck cut, 1/x*."""
        return self.weight / self.exit_bandwidth if self.weight else Fraction(0)


def exit_bandwidth(topology: Topology, inside: BoolArray) -> Fraction:
    """Return the bandwidth of the links that leave these nodes, bytes/s."""
    leaving = inside[topology.source] & ~inside[topology.target]
    total = sum(topology.bandwidth.numerators[leaving].tolist())
    return Fraction(total, topology.bandwidth.denominator)


def cut_nodes(topology: Topology, inside: BoolArray) -> dict[str, list[int]]:
    """Return the ranks and switches inside, as certificates have them."""
    nodes, ranks = np.flatnonzero(inside), topology.num_ranks
    return {"ranks": nodes[nodes < ranks].tolist(), "switches": nodes[nodes >= ranks].tolist()}


def bottleneck_cut(
    topology: Topology, weights: Iterable[Fraction | int] | None = None, sinks: Sequence[int] | None = None
) -> Cut:
    """Return a cut of the largest ratio, found by Newton's method on cuts.

    Start from the worst cut around one sink. While some sink can't be sent everything at the present ratio,
    take the ratio of its minimum cut, which is larger (Dinkelbach's method). When all can, the present cut is
    the maximum. A sink t that passed is safe at every larger ratio, so from then on only cuts with t inside
    matter. So t becomes a source, its flow stays, and the next sink needs only the flow that its surroundings
    lack. So there is one cheap flow a sink, and few expensive ones.

    Parameters
    ----------
    topology
        The network.
    weights
        Non-negative, one a rank; default 1 each.
    sinks
        The ranks of which at least one is outside; default all.

    Returns
    -------
    Cut
        Its `ratio` is exactly the maximum; 0 if no data has to move.

    Raises
    ------
    InputError
        If weights or sinks are wrong, or the scaled bandwidths do not fit 64 bits.

    Examples
    --------
    >>> from tutti.topologies import Link
    >>> path = Topology.from_links("path", 3, [Link(0, 1), Link(1, 2), Link(2, 1), Link(1, 0)])
    >>> bottleneck_cut(path).ratio * 50 * 10**9
    Fraction(2, 1)
    """
    demand = _CutProblem(topology, weights, sinks)
    cut = demand.worst_node_cut()
    if cut.ratio == 0:
        return cut
    network = demand.network(DinicNetwork)
    network.absorb(demand.super_source)
    full = demand.load(network, cut.ratio)
    for sink in demand.sinks:
        while network.grow(sink, full) < full:
            cut = demand.evaluate(network.cut())
            full = demand.load(network, cut.ratio)
        network.absorb(sink)
    return cut


def node_cut(topology: Topology, weights: Iterable[Fraction | int] | None = None) -> Cut:
    """Return the worst of the cuts that leave one rank outside: a lower bound of 1/x* without any flow.

    Parameters and raises as `bottleneck_cut`, but for bandwidths that only its flows can't hold.
    """
    return _CutProblem(topology, weights).worst_node_cut()


def binary_search_cut(
    topology: Topology, weights: Iterable[Fraction | int] | None = None, sinks: Sequence[int] | None = None
) -> Cut:
    """Return a cut of the largest ratio by Algorithm 1 (dissertation 4.5.2): the reference.

    The paper's l, r and tolerance 1/X², with X a bound of the denominator of 1/x*, are generalised to
    weights. By B.5.1 w(S*) is at most w(V) less the smallest weight of a sink, so B⁺(S*) is at most that over
    l. Midpoints are fractions of denominator at most 2X². They stay within the middle half of [l, r], so that
    the search still ends, and int64 capacities hold. A last round verifies the ratio.

    Parameters, returns and raises as `bottleneck_cut`; refuses a larger part of the networks, since X² enters
    the capacities.
    """
    demand = _CutProblem(topology, weights, sinks)
    cut = demand.worst_node_cut()
    if cut.ratio == 0:
        return cut
    low, high = cut.ratio / demand.ratio_unit, Fraction(demand.total)
    largest = int((demand.total - min(int(demand.weight[t]) for t in demand.sinks)) / low)
    network = demand.network(FlowNetwork)
    while high - low >= Fraction(1, largest**2):
        middle = ((low + high) / 2).limit_denominator(2 * largest**2)
        found = _overwhelmed(demand, network, middle * demand.ratio_unit)
        if found is None:
            high = middle
        else:
            low, cut = middle, found
    exact = ((low + high) / 2).limit_denominator(largest) * demand.ratio_unit
    # The cut last found has a ratio in (low, 1/x*] of denominator at most X, where only 1/x* is.
    if cut.ratio != exact or _overwhelmed(demand, network, exact) is not None:
        raise InputError(f"bottleneck cut of {topology.name}: the search ended at {exact}, which is wrong")
    return cut


class _CutProblem:
    """A maximum (★) to find, in integers: bandwidths over `unit`, weights over `weight_unit`."""

    def __init__(
        self,
        topology: Topology,
        weights: Iterable[Fraction | int] | None = None,
        sinks: Sequence[int] | None = None,
    ) -> None:
        given = Rationals.of([1] * topology.num_ranks if weights is None else weights)
        self.sinks = tuple(range(topology.num_ranks)) if sinks is None else tuple(int(t) for t in sinks)
        where, ranks = f"bottleneck cut of {topology.name}", topology.num_ranks
        if len(given) != ranks or (given.numerators < 0).any():
            raise InputError(f"{where}: give {ranks} weights, one a rank and none negative")
        if not self.sinks or not all(0 <= sink < ranks for sink in self.sinks):
            raise InputError(f"{where}: sinks must be ranks 0..{ranks - 1}, and at least one")
        self.name, self.source, self.target = topology.name, topology.source, topology.target
        self.bandwidth, self.unit = _divided(topology.bandwidth)
        weight, self.weight_unit = _divided(given)
        self.weight = np.concatenate([weight, np.zeros(topology.num_switches, dtype=np.int64)])
        self.total, self.super_source = sum(weight.tolist()), len(self.weight)
        self.ratio_unit = self.weight_unit / self.unit

    def evaluate(self, inside: BoolArray) -> Cut:
        """Return the cut of these nodes (a mask that may hold the super-source last)."""
        mask = frozen(inside[: self.super_source], np.bool_)
        exits = self.bandwidth[mask[self.source] & ~mask[self.target]]
        weight = sum(self.weight[mask].tolist())
        return Cut(mask, weight * self.weight_unit, sum(exits.tolist()) * self.unit)

    def worst_node_cut(self) -> Cut:
        """Return the best of the cuts that leave one sink outside: Algorithm 1's first lower bound."""
        ingress = [0] * self.super_source
        for node, bandwidth in zip(self.target.tolist(), self.bandwidth.tolist(), strict=True):
            ingress[node] += bandwidth
        total, weight = self.total, self.weight.tolist()
        worst = max(self.sinks, key=lambda t: (Fraction(total - weight[t], ingress[t]), -t))
        inside = np.ones(self.super_source, dtype=bool)
        inside[worst] = False
        return self.evaluate(inside)

    def load(self, network: MaxFlow, ratio: Fraction) -> int:
        """Set the capacities for 1/x = `ratio`; return what every sink must be sent."""
        scaled = ratio / self.ratio_unit
        p, q = scaled.numerator, scaled.denominator
        full, links = self.total * q, sum(self.bandwidth.tolist()) * p
        if full + links > INT64_MAX:
            raise InputError(
                f"bottleneck cut of {self.name}: bandwidths and weights scaled to integers add up to "
                f"{full + links}, which does not fit 64 bits (at most {INT64_MAX}); give them a larger "
                "common divisor, or ForestColl a fixed number of trees (--option trees=4)"
            )
        fed = self.weight[self.weight > 0]
        capacities = np.concatenate([self.bandwidth * p, fed * q])
        network.set_capacities(np.arange(len(capacities)), capacities)
        return full

    def network(self, backend: Callable[..., Network]) -> Network:
        """Return the network of Figure 4.6(b), whose capacities `load` sets."""
        return fed_network(self.super_source, self.source, self.target, self.weight, backend)


def _overwhelmed(demand: _CutProblem, network: FlowNetwork, ratio: Fraction) -> Cut | None:
    """Return a cut whose ratio exceeds `ratio`, or None if there is none: a max-flow to each sink."""
    full = demand.load(network, ratio)
    for sink in demand.sinks:
        if network.solve(demand.super_source, sink) < full:
            return demand.evaluate(network.cut())
    return None


def _divided(values: Rationals) -> tuple[Int64Array, Fraction]:
    """Return the values as integers without a common divisor, and their unit."""
    common = max(int(np.gcd.reduce(values.numerators)), 1)
    return values.numerators // common, Fraction(common, values.denominator)

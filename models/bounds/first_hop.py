r"""The bound that a link brings a neighbour's own data, or pays α twice.

Over a link e = (x, v) rank v has by T at most b(e) (T - α(e)) bytes, and no more than x's own if none of
them came to x over another link. Otherwise e waited for such data, or carried another message before. Either
way it loses one α more: its own, or the least α of a link into x. The first T at which all links together
may have brought all data that v needs is a bound. The same holds with links and time reversed. Proof:
``docs/proofs.md``.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tutti.models.bounds.bound import SECONDS, Bound
from tutti.models.bounds.traffic import Traffic
from tutti.topologies.exact import INT64_MAX, FloatArray, json_number
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

HALVINGS = 40
"""Number of halvings of an interval of times, enough to find the rank that is last."""


def first_hop_bound(topology: Topology, traffic: Traffic, size: Fraction) -> Bound | None:
    """Return the largest over all ranks and both directions, or None if nothing goes from one rank to others.

    Parameters
    ----------
    topology, traffic
        The problem.
    size
        M, bytes.
    """
    found = None
    for direction, network, way in (("in", topology, traffic), ("out", transpose(topology), traffic.reverse)):
        arrivals = _NeighbourArrivals(network, way, size)
        node = int(np.argmax(arrivals.times()))
        time = arrivals.time(node)
        if time and (found is None or time > found.value):
            certificate = {
                "node": node,
                "direction": direction,
                "size_bytes": json_number(size),
                "time": json_number(time),
            }
            found = Bound("first_hop", time, SECONDS, certificate)
    return found


class _NeighbourArrivals:
    """The data that each rank needs from others, and that each link into it may bring.

    Parameters
    ----------
    topology, traffic
        The problem.
    size
        M, bytes.

    Attributes
    ----------
    denominator
        Denominator of shares.
    needs
        int64, shape (ranks,): shares.
    own
        int64, shape (links,): the share that the link's tail has itself and its head needs.
    again
        int64, shape (links,): the α that is lost in addition with other data, over α's denominator.
    """

    def __init__(self, topology: Topology, traffic: Traffic, size: Fraction) -> None:
        self.topology, self.size, self.denominator = topology, size, traffic.denominator
        ranks, nodes = traffic.num_ranks, topology.num_nodes
        source, target, alpha = topology.source, topology.target, topology.alpha.numerators
        pairs = traffic.pairs
        ends, place = np.unique(pairs.start.astype(np.int64) * nodes + pairs.end, return_inverse=True)
        shares = np.zeros(len(ends) + 1, dtype=np.int64)
        np.add.at(shares, place, pairs.share)
        joined = source.astype(np.int64) * nodes + target
        found = np.searchsorted(ends, joined)
        self.own = np.where(np.append(ends, -1)[found] == joined, shares[found], 0)
        self.needs = np.zeros(ranks, dtype=np.int64)
        np.add.at(self.needs, pairs.end, pairs.share)
        for members, places in zip(traffic.members, traffic.of_group, strict=True):
            spread, member = np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=bool)
            spread[members], member[members] = traffic.spread[places], True
            self.own += np.where(member[target], spread[source], 0)
            self.needs[members] += spread.sum() - spread[members]
        into = np.full(nodes, INT64_MAX)
        np.minimum.at(into, target, alpha)
        self.again = np.minimum(into[source], alpha)

    def times(self) -> FloatArray:
        """Return an estimate of the first time at which each rank may have all it needs."""
        alpha = self.topology.alpha.numerators / self.topology.alpha.denominator
        again = self.again / self.topology.alpha.denominator
        unit = float(self.size / self.denominator)
        rate, target = self.topology.bandwidth.floats, self.topology.target
        low, needs = np.zeros(self.topology.num_nodes), np.zeros(self.topology.num_nodes)
        needs[: len(self.needs)] = self.needs * unit
        high = np.where(needs > 0, needs / rate.min() + 2 * alpha.max(), 0.0)
        for _ in range(HALVINGS):
            time = (low + high) / 2
            first = rate * (time[target] - alpha)
            most = np.maximum(np.minimum(first, self.own * unit), first - rate * again)
            enough = np.bincount(target, np.maximum(most, 0.0), self.topology.num_nodes) >= needs
            low, high = np.where(enough, low, time), np.where(enough, time, high)
        return low[: len(self.needs)]

    def time(self, node: int) -> Fraction:
        """Return exactly the first time at which a rank may have all; between bends it lies on a line."""
        topology, share = self.topology, self.size / self.denominator
        links = [
            (
                topology.bandwidth[link],
                topology.alpha[link],
                share * int(self.own[link]),
                Fraction(int(self.again[link]), topology.alpha.denominator),
            )
            for link in np.flatnonzero(topology.target == node).tolist()
        ]
        needs = share * int(self.needs[node])

        def brought(time: Fraction) -> Fraction:
            total = Fraction(0)
            for rate, alpha, own, again in links:
                later = rate * (time - alpha - again)
                total += max(min(own, rate * (time - alpha)), later, Fraction(0))
            return total

        moments = {
            alpha + lost + filled
            for rate, alpha, own, again in links
            for lost in (Fraction(0), again)
            for filled in (Fraction(0), own / rate)
        }
        early = [moment for moment in moments if brought(moment) < needs]
        if not early:
            return Fraction(0)
        before = max(early)
        after = min((moment for moment in moments if moment > before), default=before + 1)
        slope = (brought(after) - brought(before)) / (after - before)
        return before + (needs - brought(before)) / slope if slope else Fraction(0)

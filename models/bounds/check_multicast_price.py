"""The check of ``multicast_price``: what links can earn by a time from prices of data that is copied.

It shares no code with `models.bounds.multicast_price`, which finds the prices. Proof: ``docs/proofs.md``,
*multicast_price*.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from tutti.models.bounds.certificate import Certificate, dijkstra, exact, inward
from tutti.schedules.collective import Collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT64_MAX, Int64Array
from tutti.topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class TimedNetwork:
    """A network over time, which is the same for all items. A bin lies between each moment and the next.

    Parameters
    ----------
    topology
        The network.
    moments
        Seconds, rising from 0; the last one is the time.
    """

    topology: Topology
    moments: Sequence[Fraction]

    @property
    def bins(self) -> int:
        """The number of bins."""
        return len(self.moments) - 1

    def leaves_in(self, time: Fraction) -> int:
        """Return the bin of what leaves at a time: the bin that begins then or has begun."""
        return bisect_right(self.moments, time) - 1

    @cached_property
    def turns(self) -> dict[Fraction, Int64Array]:
        """For each α: how often data may leave over a link to be forwarded, once for each other holder.

        Shape (bins, bins), by the bin in which it leaves and that from which it is there; α apart.
        """
        found = {alpha: np.zeros((self.bins,) * 2, dtype=np.int64) for alpha in set(self.topology.alpha)}
        for alpha, table in found.items():
            for bin_, moment in enumerate(self.moments[:-1]):
                for turn in range(int(self.topology.holders.sum()) - 1):
                    leaving = moment + turn * alpha
                    if leaving >= self.moments[-1]:
                        break
                    table[self.leaves_in(leaving), bin_] += 1
        return found

    @cached_property
    def before(self) -> dict[Fraction, Int64Array]:
        """For each α: for what arrives in each bin, the last bin in which it had come to the link's tail."""
        ends = self.moments[1:]
        return {
            alpha: np.array([bisect_left(self.moments, end - alpha) - 1 for end in ends])
            for alpha in self.turns
        }

    def most(self, worth: Int64Array, alpha: Fraction) -> Fraction:
        """Return the largest sum over messages of what they earn, with bytes measured by their seconds.

        Parameters
        ----------
        worth
            Shape (bins, bins): the value of a byte that leaves in the one bin and arrives in the other.
        alpha
            α of the link.
        """
        unit = math.lcm(alpha.denominator, *(moment.denominator for moment in self.moments))
        at, held = [int(moment * unit) for moment in self.moments], int(alpha * unit)
        gains, best = worth.tolist(), [0]
        for q in range(1, self.bins + 1):
            ways = ((at[q] - at[p] - held, p) for p in range(q))
            sums = (best[p] + room * gains[p][q - 1] for room, p in ways if room > 0)
            best.append(max(best[-1], *sums, 0))
        return Fraction(best[-1], unit)


@dataclass(frozen=True, eq=False)
class Delivery:
    """Prices of a byte of one item; see ``docs/proofs.md``.

    Parameters
    ----------
    clock
        The network in time.
    start
        The rank where the item starts.
    come
        α-distances over α's denominator, from `start` to each node.
    ends
        Shape (nodes,): the price at each end, 0 elsewhere.
    passing
        Shape (nodes, bins): the price of a byte that passes a node.
    ending, going
        Shape (links, bins): the cost of a byte that leaves for the end of a link, and of one that is
        forwarded.
    """

    clock: TimedNetwork
    start: int
    come: Sequence[int]
    ends: Int64Array
    passing: Int64Array
    ending: Int64Array
    going: Int64Array

    @cached_property
    def held(self) -> Int64Array:
        """Shape (nodes, bins): the price of a byte that a node holds from a bin on."""
        # The cost of all departures over each link of a byte that is there from a bin on.
        leaves = np.where(self.topology.holders[self.topology.target][:, None], self.ending, 0)
        for alpha, turns in self.clock.turns.items():
            alike = [link for link, one in enumerate(self.topology.alpha) if one == alpha]
            leaves[alike] += self.going[alike] @ turns
        held = np.repeat(self.ends[:, None], self.clock.bins, axis=1)
        np.add.at(held, self.topology.source, leaves)
        return held

    @property
    def topology(self) -> Topology:
        """The network."""
        return self.clock.topology

    @property
    def cost(self) -> int:
        """The price of a byte at all ends, less the cost of its departures from its start."""
        return int(self.ends.sum()) - int(self.held[self.start, 0])

    def worth(self, link: int) -> Int64Array:
        """Return the most that a byte earns on a link, by the bins in which it leaves and arrives."""
        tail, head = int(self.topology.source[link]), int(self.topology.target[link])
        bins, unit = self.clock.bins, Fraction(1, self.topology.alpha.denominator)
        worth = np.zeros((bins, bins), dtype=np.int64)
        if head == self.start or min(self.come[tail], self.come[head]) < 0:
            return worth
        first, stays = self.clock.leaves_in(self.come[tail] * unit), self.topology.holders[head]
        if tail != self.start:
            there = np.maximum(self.passing[head], self.held[head]) if stays else self.passing[head]
            before = self.clock.before[self.topology.alpha[link]]
            gain = np.where(before >= first, there - self.passing[tail, before], 0)
            if not self.topology.bandwidth.uniform:  # it may have left a slower link later than this one
                gain = np.maximum.accumulate(gain[::-1])[::-1]
            worth[first:] = np.maximum(gain, np.append(gain[1:], 0))  # it may end as the next bin begins
        if self.topology.holders[tail]:
            worth[first:] = np.maximum(worth[first:], self.passing[head] - self.going[link, first:, None])
            if stays:
                worth[first:] = np.maximum(worth[first:], self.held[head] - self.ending[link, first:, None])
        return np.maximum(worth, 0)


def earned(clock: TimedNetwork, items: Sequence[Delivery]) -> Fraction:
    """Return the most that all links earn together."""
    topology, seen = clock.topology, dict[tuple[bytes, Fraction], Fraction]()
    total = Fraction(0)
    for link, (alpha, bandwidth) in enumerate(zip(topology.alpha, topology.bandwidth, strict=True)):
        worth = np.maximum.reduce([item.worth(link) for item in items])
        key = worth.tobytes(), alpha
        if key not in seen:
            seen[key] = clock.most(worth, alpha)
        total += seen[key] * bandwidth
    return total


def prove_multicast_price(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``multicast_price`` proves."""
    size, time, tick = exact(certificate, "size_bytes", "time", "tick")
    ways, items = inward(certificate, topology, collective)
    moved = [item for item in items if item.share and len(item.ends) > 1]
    starts = certificate.get("starts", [min(item.starts) for item in moved])
    moments = [*(mark * tick for mark in certificate["moments"]), time]
    if sorted(set(moments)) != moments or moments[0] or size <= 0 or not moved:
        raise InputError(
            "multicast_price bound: it needs bytes for several ranks, and moments that rise from 0"
        )
    ends, passing, leaving = (
        np.array(certificate[name], dtype=np.int64) for name in ("ends", "passing", "leaving")
    )
    bins = len(moments) - 1
    if passing.shape != (len(ends), bins) or leaving.shape[::2] != (2, bins):
        raise InputError(f"multicast_price bound: each row of prices must have {bins} bins")
    tables = [ends[:, None], passing, leaving]
    most = INT64_MAX // (4 * topology.num_links * topology.num_nodes)
    if any((np.diff(table) > 0).any() or table.min() < 0 or table.max() > most for table in tables):
        raise InputError(f"multicast_price bound: prices must be from 0 to {most}, and not rise")
    deliveries, clock = [], TimedNetwork(ways, moments)
    rows = zip(certificate["nodes"], certificate["links"], strict=True)
    for item, start, (nodes, links) in zip(moved, starts, rows, strict=True):
        if start not in item.starts:
            raise InputError(f"multicast_price bound: rank {start} does not start with what its item needs")
        if len(nodes) != ways.num_nodes or len(links) != ways.num_links or min(*nodes, *links) < 0:
            raise InputError("multicast_price bound: each item has a row of prices for each node and link")
        paid = ends[nodes] * np.isin(np.arange(ways.num_nodes), list(item.ends - {start}))
        come = dijkstra(ways, start)[0]
        deliveries.append(Delivery(clock, start, come, paid, passing[nodes], *leaving[:, links]))
    cost = size * sum(item.share * one.cost for item, one in zip(moved, deliveries, strict=True))
    gains = earned(clock, deliveries)
    if cost <= gains:
        raise InputError(f"multicast_price bound: links may earn {gains} in {time} s, no less than {cost}")
    return time

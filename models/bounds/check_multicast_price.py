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

from tutti.models.bounds.certificate import Certificate, dijkstra, items_of
from tutti.schedules.collective import Collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT64_MAX, BoolArray, Int64Array
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose
from tutti.topologies.units import exact_number


@dataclass(frozen=True, eq=False)
class Windows:
    """Moments from 0 to a time; a bin lies between each and the next.

    Parameters
    ----------
    moments
        Seconds, rising from 0; the last one is the time.
    """

    moments: Sequence[Fraction]

    @property
    def bins(self) -> int:
        """The number of bins."""
        return len(self.moments) - 1

    def leaves_in(self, time: Fraction) -> int:
        """Return the bin of what leaves at a time: the bin that begins then or has begun."""
        return bisect_right(self.moments, time) - 1

    def turns(self, alpha: Fraction, often: int) -> Int64Array:
        """Return how often data that is there from a bin on may leave in each bin, α apart, `often` at most.

        Shape (bins, bins), by the bin in which it leaves and that from which it is there.
        """
        found = np.zeros((self.bins, self.bins), dtype=np.int64)
        for bin_, moment in enumerate(self.moments[:-1]):
            for turn in range(often):
                if moment + turn * alpha >= self.moments[-1]:
                    break
                found[self.leaves_in(moment + turn * alpha), bin_] += 1
        return found

    def before(self, alpha: Fraction) -> Int64Array:
        """Return the bins of what has arrived α before the end of each bin, -1 for none."""
        return np.array([bisect_left(self.moments, end - alpha) - 1 for end in self.moments[1:]])

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
class TimedNetwork:
    """The part of a network over time that is the same for all items.

    Parameters
    ----------
    topology
        The network.
    windows
        The bins of time.
    """

    topology: Topology
    windows: Windows

    @cached_property
    def holds(self) -> BoolArray:
        """Shape (nodes,): whether data stays there: at a rank, or a switch that copies or adds."""
        keep = {*range(self.topology.num_ranks), *self.topology.multicast, *self.topology.aggregate}
        return np.array([node in keep for node in range(self.topology.num_nodes)])

    @cached_property
    def turns(self) -> dict[Fraction, Int64Array]:
        """For each α: how often data may leave over a link to be forwarded, once for each other holder."""
        often = int(self.holds.sum()) - 1
        return {alpha: self.windows.turns(alpha, often) for alpha in set(self.topology.alpha)}

    @cached_property
    def before(self) -> dict[Fraction, Int64Array]:
        """For each α: for what arrives in each bin, the last bin in which it had come to the link's tail."""
        return {alpha: self.windows.before(alpha) for alpha in set(self.topology.alpha)}


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
    def _leaves(self) -> Int64Array:
        """Shape (links, bins): the cost of all departures of a byte that is there from a bin on."""
        found = np.zeros_like(self.going)
        for alpha, turns in self.clock.turns.items():
            alike = [link for link, one in enumerate(self.topology.alpha) if one == alpha]
            found[alike] = self.going[alike] @ turns
        return found + np.where(self.clock.holds[self.topology.target][:, None], self.ending, 0)

    @cached_property
    def held(self) -> Int64Array:
        """Shape (nodes, bins): the price of a byte that a node holds from a bin on."""
        held = np.repeat(self.ends[:, None], self.clock.windows.bins, axis=1)
        np.add.at(held, self.topology.source, self._leaves)
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
        bins, unit = self.clock.windows.bins, Fraction(1, self.topology.alpha.denominator)
        worth = np.zeros((bins, bins), dtype=np.int64)
        if head == self.start or min(self.come[tail], self.come[head]) < 0:
            return worth
        first, stays = self.clock.windows.leaves_in(self.come[tail] * unit), self.clock.holds[head]
        if tail != self.start:
            there = np.maximum(self.passing[head], self.held[head]) if stays else self.passing[head]
            before = self.clock.before[self.topology.alpha[link]]
            gain = np.where(before >= first, there - self.passing[tail, before], 0)
            if not self.topology.bandwidth.uniform:  # it may have left a slower link later than this one
                gain = np.maximum.accumulate(gain[::-1])[::-1]
            worth[first:] = np.maximum(gain, np.append(gain[1:], 0))  # it may end as the next bin begins
        if self.clock.holds[tail]:
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
            seen[key] = clock.windows.most(worth, alpha)
        total += seen[key] * bandwidth
    return total


def prove_multicast_price(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``multicast_price`` proves."""
    size, time, tick = (exact_number(str(certificate[name])) for name in ("size_bytes", "time", "tick"))
    outward = certificate["direction"] == "out"
    ways = transpose(topology) if outward else topology
    sides = (
        (item.ends, item.starts) if outward else (item.starts, item.ends) for item in items_of(collective)
    )
    shares = (item.share for item in items_of(collective))
    moved = [
        (have, need, share)
        for (have, need), share in zip(sides, shares, strict=True)
        if share and len(need) > 1
    ]
    starts = certificate.get("starts", [min(have) for have, _, _ in moved])
    windows = Windows([*(mark * tick for mark in certificate["moments"]), time])
    if sorted(set(windows.moments)) != windows.moments or windows.moments[0] or size <= 0 or not moved:
        raise InputError(
            "multicast_price bound: it needs bytes for several ranks, and moments that rise from 0"
        )
    ends, passing, leaving = (
        np.array(certificate[name], dtype=np.int64) for name in ("ends", "passing", "leaving")
    )
    if passing.shape != (len(ends), windows.bins) or leaving.shape[::2] != (2, windows.bins):
        raise InputError(f"multicast_price bound: each row of prices must have {windows.bins} bins")
    tables = [ends[:, None], passing, leaving]
    most = INT64_MAX // (4 * topology.num_links * topology.num_nodes)
    if any((np.diff(table) > 0).any() or table.min() < 0 or table.max() > most for table in tables):
        raise InputError(f"multicast_price bound: prices must be from 0 to {most}, and not rise")
    items, clock = [], TimedNetwork(ways, windows)
    rows = zip(certificate["nodes"], certificate["links"], strict=True)
    for (have, need, _), start, (nodes, links) in zip(moved, starts, rows, strict=True):
        if start not in have:
            raise InputError(f"multicast_price bound: rank {start} does not start with what its item needs")
        if len(nodes) != ways.num_nodes or len(links) != ways.num_links or min(*nodes, *links) < 0:
            raise InputError("multicast_price bound: each item has a row of prices for each node and link")
        paid = ends[nodes] * np.isin(np.arange(ways.num_nodes), list(need - {start}))
        come = dijkstra(ways, start)[0]
        items.append(Delivery(clock, start, come, paid, passing[nodes], *leaving[:, links]))
    cost = size * sum(share * item.cost for item, (_, _, share) in zip(items, moved, strict=True))
    gains = earned(clock, items)
    if cost <= gains:
        raise InputError(f"multicast_price bound: links may earn {gains} in {time} s, no less than {cost}")
    return time

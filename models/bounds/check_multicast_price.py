"""What links can earn by a time from prices of what is copied: what the check of `deliveries` needs.

It shares no code with `models.deliveries`, which finds the prices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from tutti.models.bounds.windows import Windows
from tutti.topologies.exact import BoolArray, Int64Array
from tutti.topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class Clock:
    """A network in time: what all items see alike.

    Parameters
    ----------
    topology
        The network.
    windows
        Of time.
    """

    topology: Topology
    windows: Windows

    @cached_property
    def holds(self) -> BoolArray:
        """Shape (nodes,): whether data stay there: at a rank, or a switch that copies or adds."""
        keep = {*range(self.topology.num_ranks), *self.topology.multicast, *self.topology.aggregate}
        return np.array([node in keep for node in range(self.topology.num_nodes)])

    @cached_property
    def turns(self) -> dict[Fraction, Int64Array]:
        """By α: how often what leaves over a link and goes on may do so, for each other node that holds."""
        often = int(self.holds.sum()) - 1
        return {alpha: self.windows.turns(alpha, often) for alpha in set(self.topology.alpha)}

    @cached_property
    def before(self) -> dict[Fraction, Int64Array]:
        """By α: the bins in which what arrives in a bin had come to the link's tail at the latest."""
        return {alpha: self.windows.before(alpha) for alpha in set(self.topology.alpha)}


@dataclass(frozen=True, eq=False)
class Delivery:
    """Prices of a byte of one item; see `models.bounds.check`.

    Parameters
    ----------
    clock
        The network in time.
    start
        The rank where the item starts.
    come
        α-distances over α's denominator, from there to each node.
    ends
        Shape (nodes,): the price at each end, 0 elsewhere.
    passing
        Shape (nodes, bins): the price of a byte that passes a node.
    ending, going
        Shape (links, bins): what it costs to let a byte leave for the end of a link, and to let it go on.
    """

    clock: Clock
    start: int
    come: Sequence[int]
    ends: Int64Array
    passing: Int64Array
    ending: Int64Array
    going: Int64Array

    @cached_property
    def _leaves(self) -> Int64Array:
        """Shape (links, bins): all that it costs to let a byte leave that is there from a bin on."""
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
        """The price of a byte at all ends, less what it costs to let it leave its start."""
        return int(self.ends.sum()) - int(self.held[self.start, 0])

    def worth(self, link: int) -> Int64Array:
        """Return what a byte earns on a link at most, by the bins in which it leaves and arrives."""
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


def earned(clock: Clock, items: Sequence[Delivery]) -> Fraction:
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

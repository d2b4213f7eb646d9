"""What links can earn by a time from prices of what is copied: what the check of `deliveries` needs.

It shares no code with `models.timetables`, which finds the prices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from models.bounds.windows import Windows
from topologies.exact import Int64Array
from topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class Delivery:
    """Prices of a byte of one item; see `models.bounds.check`.

    Parameters
    ----------
    topology
        The network.
    windows
        Of time.
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

    topology: Topology
    windows: Windows
    start: int
    come: Sequence[int]
    ends: Int64Array
    passing: Int64Array
    ending: Int64Array
    going: Int64Array

    def holds(self, node: int) -> bool:
        """Return whether data stay at a node: a rank, or a switch that copies."""
        return node < self.topology.num_ranks or node in self.topology.multicast

    @cached_property
    def _leaves(self) -> Int64Array:
        """Shape (links, bins): all that it costs to let a byte leave that is there from a bin on."""
        holders = sum(self.holds(node) for node in range(self.topology.num_nodes))
        found = np.zeros_like(self.going)
        for link, prices in enumerate(self.going):
            if self.holds(int(self.topology.target[link])):
                found[link] += self.ending[link]
            for turn in range(holders - 1):
                later = self.windows.whole(turn * self.topology.alpha[link])
                if later >= self.windows.bins:
                    break
                found[link, : self.windows.bins - later] += prices[later:]
        return found

    @cached_property
    def held(self) -> Int64Array:
        """Shape (nodes, bins): the price of a byte that a node holds from a bin on."""
        held = np.repeat(self.ends[:, None], self.windows.bins, axis=1)
        np.add.at(held, self.topology.source, self._leaves)
        return held

    @property
    def cost(self) -> int:
        """The price of a byte at all ends, less what it costs to let it leave its start."""
        return int(self.ends.sum()) - int(self.held[self.start, 0])

    def worth(self, link: int) -> Int64Array:
        """Return what a byte earns on a link at most, by the bins in which it leaves and arrives."""
        tail, head = int(self.topology.source[link]), int(self.topology.target[link])
        bins, unit = self.windows.bins, Fraction(1, self.topology.alpha.denominator)
        worth = np.zeros((bins, bins), dtype=np.int64)
        if head == self.start or min(self.come[tail], self.come[head]) < 0:
            return worth
        first, whole = (
            self.windows.whole(time) for time in (self.come[tail] * unit, self.topology.alpha[link])
        )
        stays = self.holds(head)
        if tail != self.start and first + whole < bins:
            there = np.maximum(self.passing[head], self.held[head]) if stays else self.passing[head]
            gain = np.zeros(bins, dtype=np.int64)
            gain[first + whole :] = there[first + whole :] - self.passing[tail, first : bins - whole]
            if not self.topology.bandwidth.uniform:  # it may have left a slower link later than this one
                gain = np.maximum.accumulate(gain[::-1])[::-1]
            worth[first:] = gain
        if self.holds(tail):
            worth[first:] = np.maximum(worth[first:], self.passing[head] - self.going[link, first:, None])
            if stays:
                worth[first:] = np.maximum(worth[first:], self.held[head] - self.ending[link, first:, None])
        return np.maximum(worth, 0)


@dataclass(frozen=True, eq=False)
class Deliveries:
    """The items' prices, and what links earn."""

    topology: Topology
    windows: Windows
    items: Sequence[Delivery]
    seen: dict[tuple[bytes, Fraction], Fraction] = field(default_factory=dict)

    def earned(self) -> Fraction:
        """Return the most that all links earn together."""
        return sum((self._earned(link) for link in range(self.topology.num_links)), Fraction(0))

    def _earned(self, link: int) -> Fraction:
        worth = np.maximum.reduce([item.worth(link) for item in self.items])
        key = worth.tobytes(), self.topology.alpha[link]
        if key not in self.seen:
            self.seen[key] = self.windows.most(worth, self.topology.alpha[link])
        return self.seen[key] * self.topology.bandwidth[link]

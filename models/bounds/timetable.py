"""What links can earn by a time from prices in time: what the check of `timetables` needs.

It shares no code with `models.allreduce.timetables`, which finds the prices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from topologies.exact import Int64Array
from topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class Timetable:
    """Prices of a byte of each pair at each node in each tick; see `models.bounds.check`.

    Parameters
    ----------
    topology
        The network.
    time, tick
        Seconds.
    transfer
        The price of a byte that a message takes from its sender.
    come, left
        α-distances over α's denominator, of each pair: from its start to each node, from each to its end.
    prices
        int64, shape (nodes, ticks), of each pair: they do not rise.
    """

    topology: Topology
    time: Fraction
    tick: Fraction
    transfer: int
    come: Sequence[Sequence[int]]
    left: Sequence[Sequence[int]]
    prices: Sequence[Int64Array]
    seen: dict[tuple[bytes, Fraction, Fraction, int], Fraction] = field(default_factory=dict)

    def earned(self, seconds: Sequence[int]) -> Fraction:
        """Return the most that all links earn together, the price of a second of each's bytes given."""
        total = Fraction(0)
        for link, second in enumerate(seconds):
            alpha, bandwidth = self.topology.alpha[link], self.topology.bandwidth[link]
            worth = self._worth(link)
            key = worth.tobytes(), alpha, bandwidth, second
            if key not in self.seen:
                self.seen[key] = self._most(worth, alpha, bandwidth, second)
            total += self.seen[key] + second * bandwidth * self.time
        return total

    @cached_property
    def last(self) -> int:
        """The tick in which the time ends."""
        return int(self.time / self.tick)

    def _ticks(self, alpha: int) -> int:
        """Return α, over its denominator, in whole ticks."""
        return int(alpha / (self.tick * self.topology.alpha.denominator))

    def _worth(self, link: int) -> Int64Array:
        """Return what a byte earns at most in a message that holds the link from tick p to q; by p and q."""
        tail, head = int(self.topology.source[link]), int(self.topology.target[link])
        whole = self._ticks(int(self.topology.alpha.numerators[link]))
        begins, through = np.zeros((2, self.last + 1, self.last + 1), dtype=np.int64)
        for come, left, prices in zip(self.come, self.left, self.prices, strict=True):
            if come[tail] < 0 or left[head] < 0:
                continue
            late = self.time - Fraction(left[head], self.topology.alpha.denominator)
            p, q = self._ticks(come[tail]), int(late // self.tick) + 1
            first = p + whole  # no message is let go before
            if q <= first:
                continue
            begins[p:, first:q] += np.maximum(prices[head, first:q] - prices[tail, p:, None], 0)
            gain = np.maximum(prices[head, first:q] - prices[tail, first - whole : q - whole], 0)
            if not self.topology.bandwidth.uniform:  # it may have left a slower link later than this one
                gain = np.maximum.accumulate(gain[::-1])[::-1]
            through[p:, first:q] += gain
        sent = begins + self.transfer if tail < self.topology.num_ranks else 0
        return np.maximum(sent, through)

    def _most(self, worth: Int64Array, alpha: Fraction, bandwidth: Fraction, second: int) -> Fraction:
        """Return the largest sum over disjoint windows of what messages earn beyond their time's price."""
        lengths = [min((ticks + 1) * self.tick, self.time) - alpha for ticks in range(self.last + 1)]
        unit = math.lcm(alpha.denominator, *(length.denominator for length in lengths))
        held = int(alpha * unit) * second
        room = [max(int(length * unit), 0) for length in lengths]
        whole, gains = int(alpha / self.tick), (worth - second).tolist()
        best = [0] * (self.last + 1)
        for q in range(1, self.last + 1):
            ways = (best[p] + room[q - p] * gains[p][q] - held for p in range(q - whole + 1) if q > p)
            best[q] = max(best[q - 1], *ways, 0)
        return bandwidth * Fraction(best[-1], unit)

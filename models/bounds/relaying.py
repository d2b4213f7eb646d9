"""What moving data costs and what links can earn by a time: what the check of `relays` needs.

It shares no code with `models.all_to_all.relays`, which finds the prices.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from topologies.topology import Topology

Prices = Sequence[Sequence[int]]
"""Of a byte on a link: by the distance that it came from (row), and by the one that it still has to go."""


@dataclass(frozen=True, eq=False)
class Relaying:
    """Prices of classes of data on links; see `models.bounds.check`.

    Parameters
    ----------
    topology
        The network.
    known
        The distances K over α's denominator, in order, 0 first.
    prices
        Of each link.
    """

    topology: Topology
    known: Sequence[int]
    prices: Sequence[Prices]

    def costs(self, origin: int, distance: Sequence[int]) -> list[int]:
        """Return what a byte from `origin` to each node costs at least; -1 where there is no way.

        `distance` has the α from there to each node. A state is a node and how far it is still to go (rounded
        down to a K).
        """
        come = [self._level(d) for d in distance]
        best: dict[tuple[int, int], int] = {}
        heap = [(0, origin, left) for left in range(len(self.known))]
        while heap:
            cost, node, left = heapq.heappop(heap)
            if (node, left) in best:
                continue
            best[node, left] = cost
            for link, head, later in self._ways[node].get(left, ()):
                heapq.heappush(heap, (cost + self.prices[link][come[node]][later], head, later))
        return [best.get((node, 0), -1) for node in range(self.topology.num_nodes)]

    def earned(self, time: Fraction) -> Fraction:
        """Return the most that all links earn together in so many seconds, for bytes in messages."""
        unit = time.denominator * self.topology.alpha.denominator
        until, known = int(time * unit), [k * time.denominator for k in self.known]
        moments = sorted({moment for k in known if k <= until for moment in (k, until - k)})
        first = [bisect_right(known, moment) - 1 for moment in moments]
        last = [bisect_right(known, until - moment) - 1 for moment in moments]
        seen: dict[tuple[int, int], int] = {}
        total = Fraction(0)
        for link, prices in enumerate(self.prices):
            alpha = int(self.topology.alpha.numerators[link]) * time.denominator
            if (id(prices), alpha) not in seen:
                seen[id(prices), alpha] = _most(prices, alpha, moments, first, last)
            total += seen[id(prices), alpha] * self.topology.bandwidth[link]
        return total / unit

    @cached_property
    def _ways(self) -> list[dict[int, list[tuple[int, int, int]]]]:
        """Of each node, by how far it is to go: the links out, where they lead, and how far it is then."""
        ways: list[dict[int, list[tuple[int, int, int]]]] = [{} for _ in range(self.topology.num_nodes)]
        ends = zip(self.topology.source.tolist(), self.topology.target.tolist(), strict=True)
        for link, (tail, head) in enumerate(ends):
            for later, k in enumerate(self.known):
                left = self._level(k + int(self.topology.alpha.numerators[link]))
                ways[tail].setdefault(left, []).append((link, head, later))
        return ways

    def _level(self, distance: int) -> int:
        return bisect_right(self.known, distance) - 1


def _most(
    prices: Prices, alpha: int, moments: Sequence[int], first: Sequence[int], last: Sequence[int]
) -> int:
    """Return the largest sum over disjoint messages of price times (length - α)."""
    best = [0]
    for end in range(1, len(moments)):
        ways = [best[-1]]
        for begin in range(end):
            price = max(max(row[: last[end] + 1]) for row in prices[: first[begin] + 1])
            ways.append(best[begin] + price * (moments[end] - moments[begin] - alpha))
        best.append(max(ways))
    return best[-1]

"""What messages over a cut can serve at most, counted tick by tick: what the check of `crossings` needs.

It shares no code with `models.bounds.crossings`, which finds the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from topologies.exact import Int64Array
from topologies.topology import Topology

PARTS = 2**42
"""M is counted in so many parts: what can be served upwards, what must be downwards."""
MOST_RANKS = 1024
"""So that sums fit 64 bits."""

Count = Callable[[int], Sequence[int]]
"""X of every node until a tick of `reachability`."""


@dataclass(frozen=True, eq=False)
class Crossing:
    """I and O of `models.bounds.check`, and what links serve.

    Parameters
    ----------
    topology
        The network.
    distance
        α-distances over α's denominator, from each node to each, -1 for none.
    inside
        S.
    heard, told
        Of whom a node can depend, and who can hear of it.
    share
        What a pair has at most, in parts of M.
    of_start, for_end
        Whether what a start has is its own, and what an end gets.
    """

    topology: Topology
    distance: Sequence[Sequence[int]]
    inside: frozenset[int]
    heard: Count
    told: Count
    share: Fraction
    of_start: bool
    for_end: bool

    def serve(self, needed: Fraction, size: Fraction, tick: Fraction, parts: int, ticks: int) -> bool:
        """Return whether links can serve so many parts of M in that many ticks, cut in parts, at most."""
        most, left = -(-PARTS * self.share.numerator // self.share.denominator), int(PARTS * needed)
        total, known = 0, dict[object, int]()
        for (tail, head, alpha, bandwidth), count in self._entries().items():
            starts = [self._dependent(tail, moment // parts, tick) for moment in range(ticks + 1)]
            ends = [self._hearing(head, (ticks - moment) // parts, tick) for moment in range(ticks + 1)]
            key = tuple(starts), tuple(ends), alpha, bandwidth
            if key not in known:
                rate = bandwidth * PARTS / size
                lasting = [(number * tick / parts - alpha) * rate for number in range(1, ticks + 2)]
                room = np.array([max(0, min(left, -(-n.numerator // n.denominator))) for n in lasting])
                known[key] = self._most(np.array(starts), np.array(ends), room, most, left)
            total += count * known[key]
        return total >= left

    def _most(self, starts: Int64Array, ends: Int64Array, room: Int64Array, most: int, left: int) -> int:
        """Return what messages on a link serve, from the last moment at which one begins to the first."""
        ticks = len(room)
        served = np.zeros(ticks + 1, dtype=np.int64)
        for begin in range(ticks - 1, -1, -1):
            i, o = int(starts[begin]), ends[begin:]
            limit = most * (i if self.of_start else 1) * (o if self.for_end else np.int64(1))
            each = np.minimum(room[: ticks - begin], limit)
            worth = each * (1 if self.of_start else i) * (1 if self.for_end else o)
            together = np.where(worth > 0, np.minimum(left, worth + served[begin:ticks]), 0)
            served[begin] = max(served[begin + 1], int(together.max()))
        return int(served[0])

    def _entries(self) -> Mapping[tuple[int, int, Fraction, Fraction], int]:
        """Return the links into S that are not the same: ends, α, bandwidth, and how many there are."""
        links = zip(
            self.topology.source.tolist(),
            self.topology.target.tolist(),
            self.topology.alpha,
            self.topology.bandwidth,
            strict=True,
        )
        return Counter(link for link in links if link[0] not in self.inside and link[1] in self.inside)

    @property
    def _holders(self) -> frozenset[int]:
        """Ranks, and switches that copy or add."""
        return self.topology.multicast | self.topology.aggregate | frozenset(range(self.topology.num_ranks))

    def _dependent(self, tail: int, now: int, tick: Fraction) -> int:
        """Return I of links out of a node, at a whole tick."""
        away = [(node, self._ticks(node, tail, tick)) for node in self._holders - self.inside]
        return max((self.heard(now - d)[node] for node, d in away if 0 <= d <= now), default=0)

    def _hearing(self, head: int, left: int, tick: Fraction) -> int:
        """Return O of links into a node, so many whole ticks before all is over."""
        away = [(node, self._ticks(head, node, tick)) for node in self._holders]
        return max((self.told(left - d)[node] for node, d in away if 0 <= d <= left), default=0)

    def _ticks(self, tail: int, head: int, tick: Fraction) -> int:
        """Return the whole ticks of the way from node to node; -1 for none."""
        away = self.distance[tail][head]
        return int(away / (tick * self.topology.alpha.denominator)) if away >= 0 else -1

"""The check of ``unicast_price``: what moving data costs at given prices, and what links can earn by a time.

Prices are those of a byte on a link, by how far it has come and has to go. It shares no code with
`models.all_to_all.unicast_price`, which finds them. Proof: ``docs/proofs.md``, *unicast_price*.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from tutti.models.bounds.certificate import (
    Certificate,
    Item,
    check_one_to_one,
    dijkstra,
    exact,
    items_of,
    links_of,
)
from tutti.schedules.collective import Collective
from tutti.topologies.errors import InputError
from tutti.topologies.topology import Topology
from tutti.topologies.units import exact_number

_MOST_DISTANCES = 64
"""Largest number of distances in a certificate; more would take minutes to check."""

Prices = Sequence[Sequence[int]]
"""Prices of a byte on a link: by the distance that it has come (row), and that it still has to go."""


@dataclass(frozen=True, eq=False)
class Relaying:
    """Prices of classes of data on links; see ``docs/proofs.md``.

    Parameters
    ----------
    topology
        The network.
    known
        The distances K over α's denominator, in order, 0 first.
    prices
        The prices of each link.
    own
        Bytes that go from each link's tail to its head; None where an α is less than the first K after 0.
    """

    topology: Topology
    known: Sequence[int]
    prices: Sequence[Prices]
    own: Sequence[Fraction] | None

    def costs(self, origin: int, distance: Sequence[int]) -> list[int]:
        """Return the least cost of a byte from `origin` to each node; -1 where there is no path.

        `distance` has the α from there to each node. A state is a node and the distance still to go (rounded
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
        """Return the most that all links earn together in `time` seconds, for bytes in messages."""
        unit = time.denominator * self.topology.alpha.denominator
        until, known = int(time * unit), [k * time.denominator for k in self.known]
        moments = sorted({moment for k in known if k <= until for moment in (k, until - k)})
        first = [bisect_right(known, moment) - 1 for moment in moments]
        last = [bisect_right(known, until - moment) - 1 for moment in moments]
        scarce = None
        if self.own and len(known) > 1 and 2 * known[1] < until:
            scarce = moments.index(known[1]), moments.index(until - known[1])
        day = _Day(moments, first, last, scarce)
        seen: dict[tuple[int, int, Fraction], Fraction] = {}
        total = Fraction(0)
        for link, (prices, bandwidth) in enumerate(zip(self.prices, self.topology.bandwidth, strict=True)):
            alpha = int(self.topology.alpha.numerators[link]) * time.denominator
            own = min(self.own[link] / bandwidth * unit, Fraction(until - alpha)) if self.own else Fraction(0)
            key = id(prices), alpha, own
            if key not in seen:
                seen[key] = day.most(prices, alpha, own)
            total += seen[key] * bandwidth
        return total / unit

    @cached_property
    def _ways(self) -> list[dict[int, list[tuple[int, int, int]]]]:
        """For each node and level still to go: the links out, their heads, and the level from there."""
        ways: list[dict[int, list[tuple[int, int, int]]]] = [{} for _ in range(self.topology.num_nodes)]
        ends = zip(self.topology.source.tolist(), self.topology.target.tolist(), strict=True)
        for link, (tail, head) in enumerate(ends):
            for later, k in enumerate(self.known):
                left = self._level(k + int(self.topology.alpha.numerators[link]))
                ways[tail].setdefault(left, []).append((link, head, later))
        return ways

    def _level(self, distance: int) -> int:
        return bisect_right(self.known, distance) - 1


@dataclass(frozen=True)
class _Day:
    """The moments at which messages may begin and end.

    Parameters
    ----------
    moments
        The moments, in order.
    first, last
        For each moment the last K up to it, and the last K up to the time that is left.
    scarce
        The moments between which a message has only data of the two ends of its link; None if any may go.
    """

    moments: Sequence[int]
    first: Sequence[int]
    last: Sequence[int]
    scarce: tuple[int, int] | None

    def most(self, prices: Prices, alpha: int, own: Fraction) -> Fraction:
        """Return the largest sum over disjoint messages of price times (length - α), or of own data."""
        best = [Fraction(0)]
        for end in range(1, len(self.moments)):
            ways = [best[-1]]
            for begin in range(end):
                far, left = self.first[begin], self.last[end]
                if far or left or not self.scarce:
                    price = max(max(row[: left + 1]) for row in prices[: far + 1])
                    ways.append(best[begin] + price * (self.moments[end] - self.moments[begin] - alpha))
                if (begin, end) == self.scarce:
                    ways.append(best[begin] + prices[0][0] * own)
            best.append(max(ways))
        return best[-1]


def prove_unicast_price(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``unicast_price`` proves."""
    size, time = exact(certificate, "size_bytes", "time")
    known = [int(exact_number(str(d)) * topology.alpha.denominator) for d in certificate["distances"]]
    tables, rows = certificate["prices"], certificate["rows"]
    if known != sorted(set(known)) or known[:1] != [0] or len(known) > _MOST_DISTANCES:
        raise InputError(
            f"unicast_price bound: distances must rise, 0 first, and be at most {_MOST_DISTANCES}"
        )
    square = all([len(row) for row in table] == [len(known)] * len(known) for table in tables)
    if not square or any(type(n) is not int or n < 0 for table in tables for row in table for n in row):
        raise InputError(
            "unicast_price bound: prices must be whole numbers, not negative, for each two distances"
        )
    if len(rows) != topology.num_links or size <= 0 or time <= 0:
        raise InputError(
            "unicast_price bound: it takes a table of prices a link, and a positive size and time"
        )
    check_one_to_one("unicast_price", collective)
    own = None
    if len(known) > 1 and topology.alpha.numerators.min() >= known[1]:
        shares: defaultdict[tuple[int, int], Fraction] = defaultdict(Fraction)
        for item in items_of(collective):
            shares[min(item.starts), min(item.ends)] += item.share * size
        own = [shares[link.source, link.target] for link in links_of(topology)]
    relaying = Relaying(topology, known, [tables[row] for row in rows], own)
    items: defaultdict[int, list[Item]] = defaultdict(list)
    for item in items_of(collective):
        items[min(item.starts)].append(item)
    cost = Fraction(0)
    for start, moved in items.items():
        costs = relaying.costs(start, dijkstra(topology, start)[0])
        cost += sum(item.share * costs[min(item.ends)] for item in moved)
    earned = relaying.earned(time)
    if size * cost <= earned:
        raise InputError(
            f"unicast_price bound: links may earn {earned} in {time} s, as much as the {size * cost} to pay"
        )
    return time

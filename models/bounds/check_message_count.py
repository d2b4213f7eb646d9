"""The check of ``message_count``: how much messages can have brought by each time, counted tick by tick.

A message costs α and holds only what its sender had. Proof: ``docs/proofs.md``, *message_count*.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

import numpy as np

from tutti.models.bounds.certificate import MOST_TICKS, Certificate, Item, all_distances, exact, inward
from tutti.schedules.collective import Collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import Int64Array
from tutti.topologies.topology import Topology
from tutti.topologies.units import exact_number

PARTS = 2**44
"""Number of parts into which M is cut: what can come is rounded up, what must come down."""
_CASES = np.array([(0, 1, 0), (0, 0, 1), (1, 1, 1)])
"""For a last message: what it adds to (X or Z), what adds to its stock (X or Z), and the stock (tail or
before)."""


@dataclass(frozen=True)
class ReceiptDemand:
    """The ranks that start with data, their shares of M, and the ranks that need all of it.

    Parameters
    ----------
    starts
        The share of each rank that starts with something.
    ends
        The ranks that need all.
    adds
        Whether two ranks together start with as much as both do, or (sums) with as much as one.
    """

    starts: Mapping[int, Fraction]
    ends: frozenset[int]
    adds: bool

    @cached_property
    def _exact(self) -> tuple[dict[int, int], int]:
        """The shares over a common denominator."""
        denominator = math.lcm(*(share.denominator for share in self.starts.values()))
        return {rank: int(share * denominator) for rank, share in self.starts.items()}, denominator

    def so_far(self, ranks: Iterable[int], places: Iterable[int]) -> list[int]:
        """Return the parts of M with which the first ranks start, as many as each place says; rounded up."""
        exact, denominator = self._exact
        shares = [0, *(exact[rank] for rank in ranks)]
        together = list(accumulate(shares) if self.adds else accumulate(shares, max))
        return [-(-PARTS * together[place] // denominator) for place in places]

    def together(self, ranks: Iterable[int]) -> int:
        """Return the parts of M with which these ranks start together, rounded down."""
        shares = [self.starts[rank] for rank in ranks]
        return int(PARTS * (sum(shares) if self.adds else max(shares, default=Fraction(0))))

    def most(self, ranks: Iterable[int]) -> int:
        """Return the same, with each rank's data rounded up, so that what is left without some is no less."""
        parts = [math.ceil(PARTS * self.starts[rank]) for rank in ranks]
        return sum(parts) if self.adds else max(parts, default=0)


@dataclass(frozen=True, eq=False)
class Receipt:
    """X and H of ``docs/proofs.md``.

    Parameters
    ----------
    topology
        The network, links and time reversed where the bound is ``out``.
    distance
        α-distances over α's denominator, from each node to each, of that network.
    demand
        The data that must come.
    others
        The sets S in addition to each hub alone.
    known
        The distances K over α's denominator, in order, 0 first.
    tick, size
        Length of a tick in seconds; M in bytes.
    seen
        What `nearer` has returned.
    """

    topology: Topology
    distance: Sequence[Sequence[int]]
    demand: ReceiptDemand
    others: Sequence[frozenset[int]]
    known: Sequence[int]
    tick: Fraction
    size: Fraction
    seen: dict[tuple[int, int], list[list[int]]] = field(default_factory=dict)

    def all_come(self, ticks: int) -> bool:
        """Return whether by that tick all data that the ends need can have come."""
        table = _ReceiptColumns(self)
        # X and Z; the stock for a message from a link's tail, and for one that comes through.
        come, stock = np.zeros((2, 2, ticks + 1, len(table.rate)), dtype=np.int64)
        last = np.zeros((len(_CASES), len(table.rate)), dtype=np.int64)
        held = np.zeros((ticks + 1, 2, len(self.known) + 1), dtype=np.int64)
        for now in range(ticks + 1):
            begun_there, come_through, through_alone = table.brought(now, last, come, stock)
            come[0, now] = np.minimum(np.maximum(begun_there, come_through), table.there)
            come[1, now] = np.minimum(through_alone, table.there)
            held[now] = table.most_held(come[0, now])
            table.fill(stock[:, now], come[0, now], held, now)
        tests = (
            (number, end) for number, inside in enumerate(self.sets) for end in inside & self.demand.ends
        )
        return all(self._come(come[0], number, end) for number, end in tests)

    @cached_property
    def hubs(self) -> list[int]:
        """The nodes that hold data: ranks, and switches that copy or add and that ranks reach."""
        able = self.topology.multicast | self.topology.aggregate
        return [*range(self.topology.num_ranks), *sorted(v for v in able if self.distance[0][v] >= 0)]

    @cached_property
    def sets(self) -> list[frozenset[int]]:
        """All sets S."""
        return [*(frozenset([hub]) for hub in self.hubs), *self.others]

    @cached_property
    def entries(self) -> list[tuple[int, int]]:
        """Each set, by number, with each link into it that a hub outside reaches."""
        ends = list(zip(self.topology.source.tolist(), self.topology.target.tolist(), strict=True))
        return [
            (number, link)
            for number, inside in enumerate(self.sets)
            for link, (tail, head) in enumerate(ends)
            if head in inside and tail not in inside
            if any(hub not in inside and self.distance[hub][tail] >= 0 for hub in self.hubs)
        ]

    @cached_property
    def needs(self) -> list[list[int]]:
        """The data that each set needs from outside, from each distance K on, rounded down."""
        return self._from_outside(self.demand.together)

    @cached_property
    def there(self) -> list[list[int]]:
        """The most that can come to each set from outside, from each distance K on."""
        return self._from_outside(self.demand.most)

    def _from_outside(self, together: Callable[[Iterable[int]], int]) -> list[list[int]]:
        """Return the data together of the ranks outside each set that are at a distance K or farther."""
        return [
            [together([rank for rank, away in outside.items() if away >= least]) for least in self.known]
            for outside in self.outside
        ]

    def senders(self, number: int, tail: int) -> dict[tuple[int, int], list[list[list[int]]]]:
        """Return the senders over a link out of `tail` into a set, the α up to it, and what is `nearer`.

        A message may come through other nodes, so all hubs outside may send. `tail` has its own number, any
        rank the number after the hubs, and any other hub the one after that.
        """
        found: dict[tuple[int, int], list[list[list[int]]]] = {}
        for index, hub in enumerate(self.hubs):
            alpha = self.distance[hub][tail]
            if hub not in self.sets[number] and alpha >= 0:
                who = index if hub == tail else len(self.hubs) + (hub >= self.topology.num_ranks)
                found.setdefault((who, alpha), []).append(self.nearer(number, hub))
        return found

    def sources(self) -> list[list[int]]:
        """Return for each entry those into the node where its link begins, without those from its S."""
        into: dict[int, list[tuple[int, int]]] = {}
        for row, (number, link) in enumerate(self.entries):
            if number < len(self.hubs):
                into.setdefault(self.hubs[number], []).append((row, int(self.topology.source[link])))
        return [
            [
                row
                for row, tail in into.get(int(self.topology.source[link]), [])
                if tail not in self.sets[number]
            ]
            for number, link in self.entries
        ]

    @cached_property
    def outside(self) -> list[dict[int, int]]:
        """For each set the ranks outside that start with something, and their distances."""
        return [
            {
                rank: min(self.distance[rank][v] for v in inside)
                for rank in self.demand.starts
                if rank not in inside
            }
            for inside in self.sets
        ]

    def nearer(self, number: int, hub: int) -> list[list[int]]:
        """Return by K, then K', what starts K or farther from a set but nearer than K' to a hub."""
        if (number, hub) not in self.seen:
            found, outside = [], self.outside[number]
            for least in self.known:
                ordered = [near for near in self.nearest[hub] if outside.get(near[1], -1) >= least]
                places = [bisect_left(ordered, (limit, -1)) for limit in self.known]
                found.append(self.demand.so_far((rank for _, rank in ordered), [*places, len(ordered)]))
            self.seen[number, hub] = found
        return self.seen[number, hub]

    @cached_property
    def nearest(self) -> dict[int, list[tuple[int, int]]]:
        """The distances to each hub from the ranks that start with something, and these, in order."""
        return {
            hub: sorted((self.distance[rank][hub], rank) for rank in self.demand.starts) for hub in self.hubs
        }

    def ticks(self, alpha: int) -> int:
        """Return α, over its denominator, in whole ticks."""
        return int(alpha / (self.tick * self.topology.alpha.denominator))

    def _come(self, x: Int64Array, number: int, end: int) -> bool:
        """Return whether all from outside a set can have come to one of its ranks."""
        total = np.zeros(len(self.known), dtype=np.int64)
        for row, (inside, link) in enumerate(self.entries):
            if inside == number:
                away = self.distance[int(self.topology.target[link])][end]
                when = len(x) - 1 - self.ticks(away)
                if away >= 0 <= when:  # else there is no path, or no time
                    total += x[when].reshape(-1, len(self.known))[row]
        return bool((total >= self.needs[number]).all())


class _ReceiptColumns:
    """The columns of X: entries times distances K. H is by hub and distance, and 0 beyond all.

    Attributes
    ----------
    alpha, rate, there
        For each column of X: ticks, rounded down; parts of M in a tick, rounded up; the data to bring.
    own, most
        Shape (hubs, K + 1): the data that each starts with, and that can come to it.
    into
        For each entry the hub that it leads to, or one beyond all.
    sources, first
        For each entry, from `first` on: the entries into the hub where its link begins, not from its set.
    entry, sender, before, nearer
        For each sender over an entry: the entry, its number (`Receipt.senders`), ticks, what is nearer.
    ranks
        Number of hubs that are ranks.
    adds
        See `ReceiptDemand`.
    """

    def __init__(self, receipt: Receipt) -> None:
        topology, steps, hubs = receipt.topology, len(receipt.known), len(receipt.hubs)
        self.ranks, self.adds = topology.num_ranks, receipt.demand.adds
        self.own, self.most = np.zeros((2, hubs, steps + 1), dtype=np.int64)
        for rank in receipt.demand.starts:
            self.own[rank, 0] = receipt.demand.so_far([rank], [1])[0]
        self.most[:, :steps] = receipt.there[:hubs]
        columns, senders = [], []
        for row, (number, link) in enumerate(receipt.entries):
            rate = -int(-PARTS * topology.bandwidth[link] * receipt.tick // receipt.size)
            alpha = receipt.ticks(int(topology.alpha.numerators[link]))
            columns += [(alpha, min(PARTS, rate), there) for there in receipt.there[number]]
            senders += [
                (row, who, receipt.ticks(before), np.array(nearer).max(axis=0))
                for (who, before), nearer in receipt.senders(number, int(topology.source[link])).items()
            ]
        self.alpha, self.rate, self.there = map(np.array, zip(*columns, strict=True))
        self.entry, self.sender, self.before, self.nearer = map(np.array, zip(*senders, strict=True))
        self.into = np.array([min(number, hubs) for number, _ in receipt.entries])
        sources = receipt.sources()
        self.first = np.array([0, *accumulate(map(len, sources))])
        self.sources = np.array([row for rows in sources for row in rows], dtype=np.int64)
        # For each hub the number of entries that lead to it or to one before.
        self._until = np.searchsorted(self.into, np.arange(hubs), side="right")
        # Senders at a link's tail, and senders before it: their places, the entries, and the first of each.
        kinds = np.flatnonzero(self.sender < hubs), np.flatnonzero(self.sender >= hubs)
        self._kinds = [(of, *np.unique(self.entry[of], return_index=True)) for of in kinds]

    def brought(self, now: int, last: Int64Array, come: Int64Array, stock: Int64Array) -> Int64Array:
        """Return what each column can have brought until now, in each of `_CASES`.

        By time, the last message adds to what came before. By stock, all messages like it hold no more than
        the stock, and what else came adds to that. Its beginning is written to `last`; it rises with `now`.
        """
        columns, latest = np.arange(len(self.rate)), now - self.alpha
        before, besides, held = _CASES.T[..., None]

        def offer(start: Int64Array) -> tuple[Int64Array, Int64Array]:
            at, after = np.maximum(start, 0), np.clip(start + 1, 0, come.shape[1] - 1)
            by_time = come[before, at, columns] + self.rate * (latest - start)
            return by_time, come[besides, after, columns] + stock[held, after, columns]

        # A later start leaves less time and finds more in stock. This looks for the start where they cross.
        by_time, in_stock = offer(last)
        while (short := (in_stock < by_time) & (last < latest)).any():
            last += short
            by_time, in_stock = offer(last)
        sooner = np.where(last > 0, np.minimum(*offer(last - 1)), 0)
        best = np.maximum(np.minimum(by_time, in_stock), sooner)
        return np.where(self.alpha < 2, self.rate * now, np.where(latest < 0, 0, best))

    def most_held(self, x: Int64Array) -> Int64Array:
        """Return H, the most of any rank, and of any other hub."""
        hubs, steps = self.own.shape[0], self.own.shape[1] - 1
        passed = np.vstack([np.zeros(steps, dtype=np.int64), x.reshape(-1, steps).cumsum(axis=0)])
        come = passed[self._until]
        come[1:] -= come[:-1].copy()
        rows = self.held(come, np.arange(hubs))
        return np.vstack([rows[: self.ranks].max(axis=0), rows[self.ranks :].max(axis=0, initial=0)])

    def held(self, come: Int64Array, hubs: Int64Array) -> Int64Array:
        """Return the data of these hubs if `come` has come to each."""
        most = self.most[hubs]
        rows = np.zeros_like(most)
        np.minimum(come, most[:, :-1], out=rows[:, :-1])
        for near in reversed(range(come.shape[1] - 1)) if self.adds else ():
            farther = rows[:, near + 1] + most[:, near] - most[:, near + 1]
            rows[:, near] = np.minimum(rows[:, near], farther)
        own = self.own[hubs]
        return own + rows if self.adds else np.maximum(own, rows)

    def fill(self, stock: Int64Array, x: Int64Array, held: Int64Array, now: int) -> None:
        """Write the stock for a message that enters each column's link now, from its tail or before."""
        when, begun = now - self.before, self.sender < len(self.own)
        had = held[np.maximum(when, 0), np.maximum(self.sender - len(self.own), 0)]
        entry, steps = self.entry[begun], held.shape[2] - 1
        passed = np.vstack(
            [np.zeros(steps, dtype=np.int64), x.reshape(-1, steps)[self.sources].cumsum(axis=0)]
        )
        had[begun] = self.held(passed[self.first[entry + 1]] - passed[self.first[entry]], self.sender[begun])
        there = (self.nearer + had[:, None, :]).min(axis=2) * (when >= 0)[:, None]
        for which, (of, rows, start) in enumerate(self._kinds):
            if len(rows):
                stock[which].reshape(-1, steps)[rows] = np.maximum.reduceat(there[of], start, axis=0)


def prove_message_count(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``message_count`` proves."""
    ticks, (tick, size) = int(certificate["ticks"]), exact(certificate, "tick", "size_bytes")
    known = [int(exact_number(str(d)) * topology.alpha.denominator) for d in certificate["distances"]]
    others = [frozenset([*cut["ranks"], *cut["switches"]]) for cut in certificate["cuts"]]
    if tick <= 0 or size <= 0 or not 0 < ticks <= MOST_TICKS:
        raise InputError(f"message_count bound: {ticks} ticks of {tick} s; 1 to {MOST_TICKS} positive ones")
    if known != sorted(set(known)) or known[:1] != [0]:
        raise InputError("message_count bound: distances must rise, 0 first")
    ways, items = inward(certificate, topology, collective)
    demand = _hearing(items) if certificate["heard"] else _demand(items)
    # If bytes take no time, the slowest link brings everything in a tick.
    counted = min(topology.bandwidth) * tick if certificate["heard"] else size
    receipt = Receipt(ways, all_distances(ways), demand, others, known, tick, counted)
    if receipt.all_come(ticks):
        raise InputError(f"message_count bound: all may have come after {ticks} ticks of {tick} s")
    return ticks * tick


def _demand(items: Sequence[Item]) -> ReceiptDemand:
    """Return the data each rank starts with and the ranks that need all."""
    ends = {item.ends for item in items if item.share and item.starts != item.ends}
    starts: defaultdict[int, Fraction] = defaultdict(Fraction)
    summed = [item for item in items if len(item.starts) > 1]
    for item in summed or (item for item in items if item.starts != item.ends):
        for rank in item.starts:
            starts[rank] += item.share
    ends |= {item.starts for item in summed}
    alike = {item.ends for item in summed} | {item.starts for item in summed}
    if len(ends) != 1 or len(alike) > 1:
        raise InputError("message_count bound: the same ranks must need all data")
    return ReceiptDemand({rank: share for rank, share in starts.items() if share}, ends.pop(), not summed)


def _hearing(items: Sequence[Item]) -> ReceiptDemand:
    """Return a demand in which each rank has an equal share and needs all; data of each must go to each."""
    moved = [item for item in items if item.share]
    members = frozenset().union(*(item.starts | item.ends for item in moved))
    heard = {(start, end) for item in moved for start in item.starts for end in item.ends if start != end}
    if len(heard) < len(members) * (len(members) - 1):
        raise InputError("message_count bound: not every rank needs data of every other")
    return ReceiptDemand(dict.fromkeys(members, Fraction(1, len(members))), members, adds=True)

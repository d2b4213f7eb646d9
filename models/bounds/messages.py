r"""The bound that counts messages and bytes at once: a message costs α, and holds only what its sender had.

Over a link e into a set S of nodes (one rank, or a side of a cut) let X(e, c, t) be the most bytes from
sources at an α-distance of K(c) or more from S that messages can bring until t, H(u, c, t) the most that u
can have of what starts at a distance of K(c) or more from u, its own included where K(c) = 0. The last
message on e begins at some s, takes α(e), and brings no more than a sender u had when the message left it:

    X(e, c, t) = max over s of X(e, c, s) + min(b(e) (t - α(e) - s), max over u of F(u, c, s - α(u, e))),
    F(u, c, t) = min over c' of H(u, c', t) + what starts at K(c) or more from S but nearer than K(c') to u.

Where u alone sends over e, all of its messages together bring no more than that. H is a sum of X over the
links into u. The first t at which what every S needs from outside can have come, to S and from there to each
rank in it, is a bound. The last message of a link so waits for what it brings, or the link needs one more:
both cost α. Proof: `models.bounds.check`.

Time is in ticks: a message may begin up to a tick early, so that no X is too small.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from models.bounds.bandwidth import cut_nodes
from models.bounds.bound import SECONDS, Bound
from models.bounds.latency import AlphaDistances
from models.bounds.traffic import Traffic
from topologies.exact import BoolArray, Int64Array, json_number, offsets_of
from topologies.topology import Topology
from topologies.transforms import transpose

UNITS = 2**40
"""M in the unit that bytes are counted in; upwards, where they are no whole number of it."""
MOST_TICKS = 1024
"""Of a search: at its end what is not complete takes longer."""
TICKS_AN_ALPHA = 100
"""No finer: a message begins up to a tick early, so that a hundredth of α is lost."""
MOST_TIMES = Fraction(5, 2)
"""The ticks reach to so many times the other bounds."""
MOST_CELLS, MOST_SENDERS = 2**13, 2**18
"""Links times distances, and hubs that may send over each times distances twice: fewer distances, so that no
network takes more than some seconds."""
FEWEST_DISTANCES, MOST_DISTANCES = 4, 16
SHORTEST = 2
"""Ticks of α from which on messages count; what comes over other links flows."""
MOST_CUTS = 8
MOST_NODES = 2048


def messages_bound(
    topology: Topology,
    traffic: Traffic,
    distances: AlphaDistances,
    size: Fraction,
    least: Fraction,
    cuts: Sequence[BoolArray],
) -> Bound | None:
    """Return the time before which not all that some rank needs can have come in messages, or None.

    None where it is no larger than the others, for several groups, for all-to-all, where no message costs α
    that matters beside the bytes, and on networks that are too large. The certificate has the direction
    (``in``: what a rank ends with, ``out``: what it starts with, links and time reversed), the distances K,
    the length of a tick and how many of them, and the cuts.

    Parameters
    ----------
    topology, traffic, distances
        The problem.
    size
        M, bytes.
    least
        Seconds: the largest of the other bounds.
    cuts
        Masks over nodes: sets that are looked at besides single ranks.
    """
    share = _shares(traffic)
    if share is None or topology.num_nodes > MOST_NODES:
        return None
    network, apart = topology, distances.nodes
    if not share.inward:
        network, apart = transpose(topology), apart.T
    receipt = _Receipt.of(network, apart, share, cuts)
    clock = receipt.clock(least, size)
    ticks = _Search.of(receipt, clock).ticks() if clock else 0
    if not clock or ticks * clock.tick <= least:
        return None
    certificate = {
        "size_bytes": json_number(size),
        "direction": "in" if share.inward else "out",
        "distances": [json_number(Fraction(away, topology.alpha.denominator)) for away in clock.distances],
        "tick": json_number(clock.tick),
        "ticks": ticks,
        "cuts": [cut_nodes(topology, cut) for cut in receipt.sets[len(receipt.hubs) :]],
    }
    return Bound("messages", ticks * clock.tick, SECONDS, certificate)


@dataclass(frozen=True, eq=False)
class _Shares:
    """What each rank starts with, in units of M / `UNITS`, rounded up; who needs all of it.

    With `sums` the data of all ranks is added up: each starts with as much as all together.
    """

    exact: Sequence[Fraction]
    ends: Int64Array
    inward: bool
    sums: bool = False

    @cached_property
    def own(self) -> Int64Array:
        """What each starts with."""
        return np.array([-(-share.numerator * UNITS // share.denominator) for share in self.exact])

    def of(self, sources: BoolArray) -> int:
        """Return what these start with together, rounded down."""
        chosen = [share for share, among in zip(self.exact, sources.tolist(), strict=True) if among]
        return int((max if self.sums else sum)([*chosen, Fraction(0)]) * UNITS)


def _shares(traffic: Traffic) -> _Shares | None:
    """Return them where everything goes from one rank to all, or to one rank, or the reverse."""
    if len(traffic.members) > 1:
        return None
    members, ranks = traffic.members[0].astype(np.int64), len(traffic.group)
    if not len(traffic.pairs.start) and not traffic.spread.any() and not traffic.collect.any():
        one = Fraction(int(traffic.both[0]), traffic.denominator)
        return _Shares([one * (rank in members) for rank in range(ranks)], members, inward=True, sums=True)
    for inward, way in ((True, traffic), (False, traffic.reverse)):
        if way.both.any() or way.collect.any():
            continue
        ends = np.unique(way.pairs.end).astype(np.int64)
        if way.spread.any() and not len(ends):
            share, ends = way.spread, members
        elif not way.spread.any() and len(ends) == 1:
            share = np.zeros(ranks, dtype=np.int64)
            np.add.at(share, way.pairs.start, way.pairs.share)
        else:
            continue
        return _Shares([Fraction(int(s), way.denominator) for s in share], ends, inward)
    return None


@dataclass(frozen=True, eq=False)
class _Clock:
    """The ticks of a search, and the distances K over α's denominator; M in bytes."""

    tick: Fraction
    distances: Sequence[int]
    size: Fraction


@dataclass(frozen=True, eq=False)
class _Receipt:
    """The links over which something is received, and from whom.

    Parameters
    ----------
    topology
        The network.
    apart
        int64, shape (nodes, nodes): α-distances over α's denominator.
    share
        What is received.
    hubs
        The nodes that hold data: ranks, and switches that copy or add.
    sets
        Masks over nodes: the sets S, each hub alone first.
    place, link
        A row for each link into each S: which S, and the link.
    row, sender, before
        A row for each hub that may send over such a link: which row, who, and the α from it to the link.
    """

    topology: Topology
    apart: Int64Array
    share: _Shares
    hubs: Sequence[int]
    sets: Sequence[BoolArray]
    place: Int64Array
    link: Int64Array
    row: Int64Array
    sender: Int64Array
    before: Int64Array

    @classmethod
    def of(cls, topology: Topology, apart: Int64Array, share: _Shares, cuts: Sequence[BoolArray]) -> _Receipt:
        hubs = [*range(topology.num_ranks), *sorted(topology.multicast | topology.aggregate)]
        number = {hub: index for index, hub in enumerate(hubs)}
        kept = [cut for cut in cuts if cut[share.ends].any() and not cut[: topology.num_ranks].all()]
        sets = [*(np.arange(topology.num_nodes) == hub for hub in hubs), *kept[:MOST_CUTS]]
        upstream: dict[int, dict[int, int]] = {}
        entries: list[tuple[int, int]] = []
        senders: list[tuple[int, int, int]] = []
        for place, inside in enumerate(sets):
            for link in np.flatnonzero(inside[topology.target] & ~inside[topology.source]).tolist():
                tail = int(topology.source[link])
                if tail not in upstream:
                    upstream[tail] = _senders(topology, tail, number)
                found = [(number[hub], alpha) for hub, alpha in upstream[tail].items() if not inside[hub]]
                senders += [(len(entries), *sender) for sender in found]
                entries += [(place, link)] * bool(found)
        columns = (*zip(*entries, strict=True), *zip(*senders, strict=True))
        return cls(topology, apart, share, hubs, sets, *(np.array(c, dtype=np.int64) for c in columns))

    def clock(self, least: Fraction, size: Fraction) -> _Clock | None:
        """Return ticks that reach beyond the other bounds; None where they are too long to tell messages."""
        alpha = self.topology.alpha
        away = np.unique(self.apart[: self.topology.num_ranks, : self.topology.num_ranks])
        few = min(MOST_CELLS // len(self.link), math.isqrt(MOST_SENDERS // len(self.row)), MOST_DISTANCES)
        positive = alpha.numerators[alpha.numerators > 0]
        if few < min(len(away), FEWEST_DISTANCES) or not len(positive) or not least:
            return None
        chosen = away[np.unique(np.linspace(0, len(away) - 1, min(few, len(away))).astype(np.int64))]
        finest = Fraction(int(positive.min()), alpha.denominator)
        ticks_an_alpha = min(TICKS_AN_ALPHA, int(finest * MOST_TICKS / (least * MOST_TIMES)))
        if ticks_an_alpha < SHORTEST:
            return None
        return _Clock(finest / ticks_an_alpha, chosen.tolist(), size)

    def needs(self, away: int) -> Int64Array:
        """Return what each S must have from ranks outside at a distance of `away` or more."""
        ranks = self.topology.num_ranks
        near = (self.apart[:ranks][:, inside].min(axis=1) for inside in self.sets)
        return np.array(
            [self.share.of((d >= away) & ~s[:ranks]) for d, s in zip(near, self.sets, strict=True)]
        )

    def nearer(self, distances: Sequence[int]) -> Int64Array:
        """Return what starts at K(c) or more from S but nearer than K(c') to the sender.

        Shape (senders, K, K + 1): by sender, c, c'; the last c' is beyond all.
        """
        own, ranks, known = self.share.own, self.topology.num_ranks, np.array(distances)
        far = [
            (self.apart[:ranks][:, inside].min(axis=1) >= known[:, None]) & ~inside[:ranks]
            for inside in self.sets
        ]
        near = [
            np.append(self.apart[:ranks, hub, None] < known, np.ones((ranks, 1), dtype=bool), axis=1)
            for hub in self.hubs
        ]
        found = np.empty((len(self.row), len(known), len(known) + 1), dtype=np.int64)
        for index, (row, sender) in enumerate(zip(self.row.tolist(), self.sender.tolist(), strict=True)):
            found[index] = (far[self.place[row]] * own) @ near[sender]
        return np.minimum(found, own.max()) if self.share.sums else found


def _senders(topology: Topology, tail: int, hubs: Mapping[int, int]) -> dict[int, int]:
    """Return the hubs whose messages may enter a link out of `tail`, and the α of each up to there."""
    heap, seen, found = [(0, tail)], set(), {}
    offsets, links = topology.in_links
    while heap:
        alpha, node = heapq.heappop(heap)
        if node in seen:
            continue
        seen.add(node)
        if node in hubs:
            found[node] = alpha
        if node >= topology.num_ranks:
            for link in links[offsets[node] : offsets[node + 1]].tolist():
                before = alpha + int(topology.alpha.numerators[link])
                heapq.heappush(heap, (before, int(topology.source[link])))
    return found


@dataclass(frozen=True, eq=False)
class _Search:
    """X and H in ticks. Columns of X: rows of links times distances. H: hubs, distances, and 0 beyond all.

    Parameters
    ----------
    count
        How many distances there are.
    alpha, rate
        Of each column of X: α of the link in whole ticks, and what it brings in a tick at most.
    alone
        bool: whether one hub sends all that comes.
    needs
        Of each column of X: what there is to bring.
    own
        Shape (hubs, K + 1): what each starts with, in the first column.
    additive
        Whether data of several ranks is as much as they have together.
    into
        Of each row of links: the hub that it leads to, or one more than there are.
    first, sender, lag, nearer
        Of each row of links: the first of its senders. Of those: which hub, how many ticks before the link,
        and `_Receipt.nearer`.
    tests
        What must have come for some end: the rows of links, the ticks from each to the end, and how much.
    """

    count: int
    alpha: Int64Array
    rate: Int64Array
    alone: BoolArray
    needs: Int64Array
    own: Int64Array
    additive: bool
    into: Int64Array
    first: Int64Array
    sender: Int64Array
    lag: Int64Array
    nearer: Int64Array
    tests: Sequence[tuple[Int64Array, Int64Array, Int64Array]]

    @classmethod
    def of(cls, receipt: _Receipt, clock: _Clock) -> _Search:
        """Return a search before its first tick."""
        topology, link, count = receipt.topology, receipt.link, len(clock.distances)
        tick = clock.tick * topology.alpha.denominator

        def ticks(alphas: Int64Array) -> Int64Array:
            return alphas * tick.denominator // tick.numerator

        rates = {b: min(UNITS, -(-b * clock.tick * UNITS // clock.size)) for b in set(topology.bandwidth)}
        own = np.zeros((len(receipt.hubs), count + 1), dtype=np.int64)
        own[: topology.num_ranks, 0] = receipt.share.own
        needs = np.stack([receipt.needs(away) for away in clock.distances], axis=1)
        senders = np.bincount(receipt.row, minlength=len(link))
        tests = [
            (rows, ticks(receipt.apart[topology.target[link[rows]], end]), needs[place])
            for place, inside in enumerate(receipt.sets)
            for rows in [np.flatnonzero(receipt.place == place)]
            for end in receipt.share.ends[inside[receipt.share.ends]].tolist()
        ]
        return cls(
            count=count,
            alpha=np.repeat(ticks(topology.alpha.numerators[link]), count),
            rate=np.repeat(np.array([rates[topology.bandwidth[e]] for e in link], dtype=np.int64), count),
            alone=np.repeat(senders == 1, count),
            needs=needs[receipt.place].ravel(),
            own=own,
            additive=not receipt.share.sums,
            into=np.minimum(receipt.place, len(receipt.hubs)),
            first=offsets_of(senders)[:-1],
            sender=receipt.sender,
            lag=ticks(receipt.before),
            nearer=receipt.nearer(clock.distances),
            tests=tests,
        )

    def ticks(self) -> int:
        """Return after how many ticks some rank still can't have all that it needs."""
        columns = len(self.alpha)
        x = np.zeros((MOST_TICKS + 1, columns), dtype=np.int64)
        stock = np.zeros_like(x)
        held = np.zeros((MOST_TICKS + 1, *self.own.shape), dtype=np.int64)
        begin, fluid = np.zeros(columns, dtype=np.int64), self.alpha < SHORTEST
        tests = list(self.tests)
        for now in range(MOST_TICKS + 1):
            last = np.where(fluid, -1, now - self.alpha)
            x[now] = np.maximum(x[now - 1] if now else 0, np.where(fluid, self.rate * now, 0))
            while True:  # the later the last message begins, the more there is to bring, and the less time
                tail = np.minimum(begin, last)
                room, full = self._last_message(x, stock, tail, last)
                np.maximum(x[now], np.where(tail >= 0, np.minimum(room, full), 0), out=x[now])
                later = (full < room) & (begin < last)
                if not later.any():
                    break
                begin += later
            np.minimum(x[now], self.needs, out=x[now])
            held[now] = self._held(x[now])
            stock[now] = self._stock(held, now)
            while tests and self._passed(x, now, *tests[-1]):
                tests.pop()
            if not tests:
                return now - 1
        return MOST_TICKS

    def _last_message(
        self, x: Int64Array, stock: Int64Array, tail: Int64Array, last: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Return what comes if the last message begins in the tick after `tail`: by time, by stock."""
        at, every = np.maximum(tail, 0) + 1, np.arange(len(tail))
        at = np.minimum(at, len(x) - 1)
        before = x[at, every]
        return before + self.rate * (last - tail), np.where(self.alone, 0, before) + stock[at, every]

    def _held(self, x: Int64Array) -> Int64Array:
        """Return H at the tick of this row of X."""
        hubs = len(self.own)
        come, needs = np.zeros((2, hubs + 1, self.count + 1), dtype=np.int64)
        np.add.at(come[:, :-1], self.into, x.reshape(-1, self.count))
        needs[self.into, :-1] = self.needs.reshape(-1, self.count)
        held = np.minimum(come, needs)[:hubs]
        if not self.additive:
            return np.maximum(self.own, held)
        for nearer in range(self.count - 2, -1, -1):  # and no more of the nearer than there is
            between = needs[:hubs, nearer] - needs[:hubs, nearer + 1]
            np.minimum(held[:, nearer], held[:, nearer + 1] + between, out=held[:, nearer])
        return self.own + held

    def _stock(self, held: Int64Array, now: int) -> Int64Array:
        """Return what there is for a message that enters each link by this tick."""
        when = now - self.lag
        farther = held[np.maximum(when, 0), self.sender] * (when >= 0)[:, None]
        there = (self.nearer * (when >= 0)[:, None, None] + farther[:, None, :]).min(axis=2)
        stock: Int64Array = np.maximum.reduceat(there, self.first, axis=0).ravel()
        return stock

    def _passed(self, x: Int64Array, now: int, rows: Int64Array, lag: Int64Array, needs: Int64Array) -> bool:
        """Return whether all of a test can have come."""
        when = now - lag
        here = x.reshape(len(x), -1, self.count)[np.maximum(when, 0), rows]
        return bool((here[when >= 0].sum(axis=0) >= needs).all())

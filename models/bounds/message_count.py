r"""The bound that counts messages and bytes at once: a message costs α, and holds only what its sender had.

Over a link e from w into a set S of nodes (one rank, or a side of a cut) let X(e, c, t) be the most bytes
from sources at an α-distance of K(c) or more from S that messages can bring until t, Z(e, c, t) the most in
those that only come through w, and H(u, c, t) the most that u can have of what starts at a distance of K(c)
or more from u, its own included where K(c) = 0. The last message on e begins at some s and takes α(e). By
then its sender u had, as the message left it, at most

    F(u, c, s) = min over c' of H(u, c', s - α(u, w)) + what starts far from S but nearer than K(c') to u,
    X(e, c, t) = max over s of min(X(e, c, s) + b(e) (t - α(e) - s), F(w, c, s) + Z(e, c, s)), or, through w,
                 max over s of X(e, c, s) + min(b(e) (t - α(e) - s), max over u of F(u, c, s)); so is Z.

H is a sum of X over the links into u; of w, over those that do not come from S, which has had what comes over
them. The first t at which what every S needs from outside can have come, to S and from there to each rank in
it, is a bound. The last message of a link so waits for what it brings, or the link needs one more: both cost
α. Proof: ``docs/proofs.md``.

Time is in ticks: a message finds what is there up to a tick later, so that no X is too small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tutti.models.bounds.bandwidth import cut_nodes
from tutti.models.bounds.bound import SECONDS, Bound
from tutti.models.bounds.latency import AlphaDistances
from tutti.models.bounds.traffic import Traffic
from tutti.topologies.errors import Unsupported
from tutti.topologies.exact import INT64_MAX, BoolArray, Int64Array, json_number, offsets_of
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

UNITS = 2**40
"""M in the unit that bytes are counted in; upwards, where they are no whole number of it."""
MOST_TICKS = 2048
"""Of a search: at its end what is not complete takes longer."""
TICKS_AN_ALPHA = 200
"""No finer: a message finds what comes up to a tick later, so that a two-hundredth of α is lost."""
REACH = 2
"""The ticks reach to so many times the other bounds, or beyond them to so many of the longest ways."""
MOST_CELLS, MOST_SENDERS = 2**13, 2**18
"""Links times distances, and hubs that may send over each times distances twice: fewer distances, so that no
network takes more than some seconds."""
FEWEST_DISTANCES, MOST_DISTANCES, MOST_BEFORE = 4, 16, 32
SHORTEST = 2
"""Ticks of α from which on messages count; what comes over other links flows."""
MOST_TOGETHER = 2**20
"""Senders times distances twice times ticks."""
MOST_CUTS = 8
MOST_NODES = 2048


def message_count_bound(
    topology: Topology,
    traffic: Traffic,
    distances: AlphaDistances,
    size: Fraction,
    least: Fraction,
    cuts: Sequence[BoolArray],
) -> Bound | None:
    """Return the time before which not all that some rank needs can have come in messages, or None.

    None where it is no larger than the others, for several groups, where no message costs α that matters
    beside the bytes, and on networks that are too large. Of an all-to-all no bytes count: each rank must have
    heard of all (``heard``), as it must in an allreduce too. The certificate has that, the direction (``in``:
    what a rank ends with, ``out``: what it starts with, links and time reversed), the distances K, the length
    of a tick and how many of them, and the cuts.

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
    denominator, bounds = topology.alpha.denominator, list[Bound]()
    for share in _shares(topology, traffic) if topology.num_nodes <= MOST_NODES else ():
        longest = Fraction(int(distances.nodes.max()), denominator)
        tick = _tick(topology, min(least * REACH, least + longest * REACH))
        receipt = None if tick is None else _received(topology, distances.nodes, share, cuts)
        if tick is None or receipt is None:
            continue
        ticks = _ReceiptArrays(receipt, tick, size).ticks()
        if ticks * tick <= least:
            continue
        certificate = {
            "size_bytes": json_number(size),
            "heard": share.heard,
            "direction": "in" if share.inward else "out",
            "distances": [json_number(Fraction(d, denominator)) for d in receipt.known.tolist()],
            "tick": json_number(tick),
            "ticks": ticks,
            "cuts": [cut_nodes(topology, cut) for cut in receipt.sets[len(receipt.hubs) :]],
        }
        bounds.append(Bound("message_count", ticks * tick, SECONDS, certificate))
    return max(bounds, key=lambda bound: bound.value, default=None)


def _received(
    topology: Topology, apart: Int64Array, share: _Shares, cuts: Sequence[BoolArray]
) -> _Receipt | None:
    """Return over which links it is received; None for too many."""
    with suppress(Unsupported):
        return _Receipt(topology, apart, share, cuts)
    return None


def _tick(topology: Topology, until: Fraction) -> Fraction | None:
    """Return ticks that reach so far; None where they are too long to tell messages."""
    alpha = topology.alpha
    positive = alpha.numerators[alpha.numerators > 0]
    if not len(positive) or not until:
        return None
    finest = Fraction(int(positive.min()), alpha.denominator)
    ticks = min(TICKS_AN_ALPHA, int(finest * MOST_TICKS / until))
    return finest / ticks if ticks >= SHORTEST else None


@dataclass(frozen=True, eq=False)
class _Shares:
    """What each rank starts with, in units of M / `UNITS`, rounded up; who needs all of it.

    With `sums` the data of all ranks is added up: each starts with as much as all together. With `heard`
    bytes take no time: each rank must have heard of all.
    """

    exact: Sequence[Fraction]
    ends: Int64Array
    inward: bool
    sums: bool = False
    heard: bool = False

    @cached_property
    def own(self) -> Int64Array:
        """What each starts with."""
        return np.array([-(-share.numerator * UNITS // share.denominator) for share in self.exact])

    def of(self, sources: BoolArray) -> int:
        """Return what these start with together, rounded down."""
        chosen = [share for share, among in zip(self.exact, sources.tolist(), strict=True) if among]
        return int((max if self.sums else sum)([*chosen, Fraction(0)]) * UNITS)


def _shares(topology: Topology, traffic: Traffic) -> Iterator[_Shares]:
    """Yield them where all goes from one rank to all, or to one rank, or the reverse; or has to be heard."""
    if len(traffic.members) > 1:
        return
    members, ranks = traffic.members[0].astype(np.int64), traffic.num_ranks
    summed = bool(traffic.both[0])
    if summed and not (len(traffic.pairs.start) or traffic.spread.any() or traffic.collect.any()):
        one = Fraction(int(traffic.both[0]), traffic.denominator)
        yield _Shares([one * (rank in members) for rank in range(ranks)], members, inward=True, sums=True)
    for inward, way in ((True, traffic), (False, traffic.reverse)):
        if way.both.any() or way.collect.any():
            continue
        ends = np.unique(way.pairs.end).astype(np.int64)
        if way.spread.any() and not len(ends):
            share, ends = np.zeros(ranks, dtype=np.int64), members
            share[members] = way.spread
        elif not way.spread.any() and len(ends) == 1:
            share = np.zeros(ranks, dtype=np.int64)
            np.add.at(share, way.pairs.start, way.pairs.share)
        else:
            continue
        yield _Shares([Fraction(int(s), way.denominator) for s in share], ends, inward)
        return
    if topology.num_nodes == ranks + len(topology.multicast | topology.aggregate):  # then it is the distance
        return
    pairs = np.unique(np.stack([traffic.pairs.start, traffic.pairs.end], axis=1), axis=0)
    if summed or len(pairs) == len(members) * (len(members) - 1):
        one = Fraction(1, len(members))
        yield _Shares([one * (rank in members) for rank in range(ranks)], members, inward=True, heard=True)


class _Receipt:
    """The links over which something is received, and from whom; on the network backwards if not inward.

    Parameters
    ----------
    topology
        The network.
    apart
        int64, shape (nodes, nodes): α-distances over α's denominator.
    share
        What is received.
    cuts
        Sets that are looked at besides single hubs.

    Attributes
    ----------
    hubs
        The nodes that hold data: ranks, and switches that copy or add and hear from ranks.
    sets
        Masks over nodes: the sets S, each hub alone first.
    known
        int64: the distances K over α's denominator, 0 first.
    place, link
        A row for each link into each S over which it hears from a hub: which S, and the link.
    behind
        int64, shape (2, pairs): rows of links, and those of links into their tail that come from their S.
    row, sender, before, nearer
        A row for those that may send over such a link from one α-distance: which row of links, who (a hub
        where the link begins, else any rank, numbered after the hubs, or any other hub, after that), the α up
        to the link, and the most that starts at K(c) or more from S but nearer than K(c') to one of them:
        shape (rows, K, K + 1), the last c' beyond all.
    needs
        What each S must have from ranks outside, from each distance K on; shape (sets, K).

    Raises
    ------
    Unsupported
        If there are too many.
    """

    def __init__(
        self, topology: Topology, apart: Int64Array, share: _Shares, cuts: Sequence[BoolArray]
    ) -> None:
        if not share.inward:
            topology, apart = transpose(topology), apart.T
        self.topology, self.apart, self.share = topology, apart, share
        ranks = topology.num_ranks
        able = [switch for switch in sorted(topology.multicast | topology.aggregate) if apart[0, switch] >= 0]
        hubs = np.array([*range(ranks), *able])
        kept = [cut for cut in cuts if cut[share.ends].any() and not cut[:ranks].all()]
        sets = [*(np.arange(topology.num_nodes) == hub for hub in hubs), *kept[:MOST_CUTS]]
        entries = [
            (place, link)
            for place, inside in enumerate(sets)
            for reached in [(apart[hubs[~inside[hubs]]] >= 0).any(axis=0) & ~inside]
            for link in np.flatnonzero(inside[topology.target] & reached[topology.source]).tolist()
        ]
        away, before = np.unique(apart[:ranks, :ranks]), np.unique(apart[hubs])
        before = before[before >= 0][:: -(-len(before) // MOST_BEFORE)]
        rounded = before[np.searchsorted(before, apart[hubs], side="right") - 1]
        up_to = np.where(apart[hubs] >= 0, rounded, -1)
        most = min(MOST_CELLS // len(entries), math.isqrt(MOST_SENDERS // (len(entries) * len(before))))
        if most < min(len(away), FEWEST_DISTANCES):
            raise Unsupported(f"message_count bound: {len(entries)} links into sets are too many")
        known = away[
            np.unique(np.linspace(0, len(away) - 1, min(most, MOST_DISTANCES, len(away))).astype(int))
        ]
        near = apart[:ranks, hubs, None] < np.append(known, INT64_MAX)
        senders = [
            (row, *sender)
            for row, (place, link) in enumerate(entries)
            for tail in [int(topology.source[link])]
            for sender in _senders(sets[place], up_to[:, tail], tail, hubs, ranks)
        ]
        far = [_far(inside, apart, known, ranks) for inside in sets]
        own = share.own.astype(np.float64)  # sums of these are exact: far less than 2^53
        flat = near.reshape(ranks, -1).astype(np.float64)
        started = [((mask * own) @ flat).reshape(len(known), len(hubs), -1).astype(np.int64) for mask in far]
        nearer = np.array([started[entries[row][0]][:, who].max(axis=1) for row, _, _, who in senders])
        self.hubs, self.sets, self.known = hubs.tolist(), sets, known
        self.place, self.link = place, link = np.array(entries, dtype=np.int64).T
        alone = np.flatnonzero(place < len(hubs))
        behind = [
            (row, other)
            for row, (inside, tail) in enumerate(zip(place.tolist(), topology.source[link], strict=True))
            for other in alone[hubs[place[alone]] == tail].tolist()
            if sets[inside][topology.source[link[other]]]
        ]
        self.behind = np.array(behind, dtype=np.int64).reshape(-1, 2).T
        self.row, self.sender, self.before = np.array([each[:3] for each in senders], dtype=np.int64).T
        self.nearer = np.minimum(nearer, int(own.max() if share.sums else INT64_MAX))
        self.needs = np.array([[share.of(mask) for mask in masks] for masks in far])


def _far(inside: BoolArray, apart: Int64Array, known: Int64Array, ranks: int) -> BoolArray:
    """Return for each distance K the ranks outside a set that are so far from it or farther."""
    mask: BoolArray = (apart[:ranks, inside].min(axis=1) >= known[:, None]) & ~inside[:ranks]
    return mask


def _senders(
    inside: BoolArray, up_to_tail: Int64Array, tail: int, hubs: Int64Array, ranks: int
) -> Iterator[tuple[int, int, Int64Array]]:
    """Yield those outside that may send over a link: who, the α up to it, and their places among the hubs.

    A message may come through ranks without a stop, so that all may. `up_to_tail` is the α from each hub.
    """
    there = ~inside[hubs] & (up_to_tail >= 0)
    for place in np.flatnonzero(there & (hubs == tail)).tolist():
        yield place, 0, np.array([place])
    for kind, among in enumerate((hubs < ranks, hubs >= ranks)):
        others = there & among & (hubs != tail)
        for alpha in np.unique(up_to_tail[others]).tolist():
            yield len(hubs) + kind, alpha, np.flatnonzero(others & (up_to_tail == alpha))


class _Cases(NamedTuple):
    """What the last message on a link adds to: columns of what comes, of what comes besides, and of stocks.

    Begun at the link's tail, with what came before by time; by stock, all messages from there hold no more
    than the tail has, besides what came through. Come through, with what came before; and that alone.
    """

    before: Int64Array
    besides: Int64Array
    stock: Int64Array


class _ReceiptArrays:
    """X and H in ticks. Columns of X: rows of links times distances. H: hubs, distances, and 0 beyond all.

    Parameters
    ----------
    receipt
        What is received, and from whom.
    tick, size
        Seconds, bytes.

    Attributes
    ----------
    count
        How many distances there are.
    alpha, rate
        Of each column of X: α of the link in whole ticks, and what it brings in a tick at most.
    needs
        Of each column of X: what there is to bring.
    own
        Shape (hubs, K + 1): what each starts with, in the first column.
    ranks
        How many of the hubs are ranks.
    additive
        Whether data of several ranks is as much as they have together.
    alone, place
        How many rows of links there are into hubs alone, and the first row into each.
    behind
        As of `_Receipt`.
    first, sender, lag
        Of each row of links: the first of its senders. Of those: which hub, and how many ticks before it.
    nearer
        `_Receipt.nearer`, by K' first; shape (K + 1, 1, senders, K).
    tails
        Those senders that are the tail of their link, and the rows of links that have them.
    most
        What there is to come to each hub, and to the tails, and what they start with.
    tests
        What must have come for some end: the rows of links, the ticks from each to the end, and how much.
    """

    def __init__(self, receipt: _Receipt, tick: Fraction, size: Fraction) -> None:
        topology, link, count = receipt.topology, receipt.link, len(receipt.known)
        unit = tick * topology.alpha.denominator

        def ticks(alphas: Int64Array) -> Int64Array:
            return alphas * unit.denominator // unit.numerator

        counted = min(topology.bandwidth) * tick if receipt.share.heard else size  # else all of it in a tick
        rates = {b: min(UNITS, -(-b * tick * UNITS // counted)) for b in set(topology.bandwidth)}
        self.count, self.ranks, self.additive = count, topology.num_ranks, not receipt.share.sums
        self.alpha = np.repeat(ticks(topology.alpha.numerators[link]), count)
        self.rate = np.repeat(np.array([rates[topology.bandwidth[e]] for e in link], dtype=np.int64), count)
        self.needs = receipt.needs[receipt.place].ravel()
        self.own = np.zeros((len(receipt.hubs), count + 1), dtype=np.int64)
        self.own[: topology.num_ranks, 0] = receipt.share.own
        self.alone = int((receipt.place < len(receipt.hubs)).sum())
        self.place = np.searchsorted(receipt.place, np.arange(len(receipt.hubs)))
        self.behind, self.sender, self.lag = receipt.behind, receipt.sender, ticks(receipt.before)
        self.nearer = np.ascontiguousarray(np.moveaxis(receipt.nearer, 2, 0)[:, None])
        self.first = offsets_of(np.bincount(receipt.row, minlength=len(link)))[:-1]
        senders = np.flatnonzero(self.sender < len(self.own))
        self.tails = np.stack([senders, np.searchsorted(self.first, senders, side="right") - 1])
        there, tails = receipt.needs[receipt.place][self.place], self.sender[senders]
        self.most = np.concatenate([there, there[tails]]), np.concatenate([self.own, self.own[tails]])
        self.tests = [
            (rows, ticks(receipt.apart[topology.target[link[rows]], end]), receipt.needs[place])
            for place, inside in enumerate(receipt.sets)
            for rows in [np.flatnonzero(receipt.place == place)]
            for end in receipt.share.ends[inside[receipt.share.ends]].tolist()
        ]

    def ticks(self) -> int:
        """Return after how many ticks some rank still can't have all that it needs.

        What comes in a message began the shortest α before, or sooner: about so many ticks are looked at
        together.
        """
        columns, tests, reached = len(self.alpha), self.tests.copy(), 0
        # Side by side X and Z, what comes in all messages and in those that come through; so their stocks.
        come, stock = np.zeros((2, MOST_TICKS + 1, 2 * columns), dtype=np.int64)
        held = np.zeros((MOST_TICKS + 1, 2, self.count + 1), dtype=np.int64)
        # Begun at the tail; come through, with what came before; and come through alone.
        sides = np.array([[0, 0, 1], [1, 0, 1], [0, 1, 1]])[..., None]
        cases = _Cases(*(sides * columns + np.arange(columns)).reshape(3, -1))
        last = _LastMessages(np.tile(self.alpha, 3), np.tile(self.rate, 3), cases, come, stock)
        flow = np.where(self.alpha < SHORTEST, self.rate, 0)
        for start in range(0, MOST_TICKS + 1, self._together):
            now = np.arange(start, min(start + self._together, MOST_TICKS + 1))
            brought = last.brought(now).reshape(len(now), 3, columns)
            brought[:, 0] = np.maximum(brought[:, 0], brought[:, 1])
            most = np.minimum(np.maximum(brought[:, ::2], (now[:, None] * flow)[:, None]), self.needs)
            come[now] = most.reshape(len(now), -1)
            stock[now] = self._stock(most[:, 0].reshape(len(now), -1, self.count), held, now)
            last.add(now)
            while tests:
                passed = np.flatnonzero(self._passed(come[:, :columns], now[reached - start :], *tests[-1]))
                if not len(passed):
                    break
                reached += int(passed[0])
                tests.pop()
            if not tests:
                return reached - 1
            reached = start + len(now)
        return MOST_TICKS

    @cached_property
    def _together(self) -> int:
        """How many ticks are looked at together."""
        shortest = self.alpha.min(where=self.alpha >= SHORTEST, initial=MOST_TICKS)
        return int(max(1, min(shortest - 1, MOST_TOGETHER // self.nearer.size)))

    def _stock(self, x: Int64Array, held: Int64Array, now: Int64Array) -> Int64Array:
        """Return what there is for a message that enters each link by these ticks: at its tail, and before.

        Writes what is held by these ticks at most.
        """
        come: Int64Array = np.add.reduceat(x[:, : self.alone], self.place, axis=1)
        (tails, rows), hubs = self.tails, len(self.own)
        besides = come[:, self.sender[tails]] - self._behind(x)[:, rows]
        h = self._held(np.concatenate([come, besides], axis=1))
        held[now, 0] = h[:, : self.ranks].max(axis=1)
        held[now, 1] = h[:, self.ranks : hubs].max(axis=1, initial=0)
        when = now[:, None] - self.lag
        begun = (when >= 0)[..., None]
        farther = held[np.maximum(when, 0), np.maximum(self.sender - hubs, 0)]
        farther[:, tails] = h[:, hubs:]
        there = (self.nearer + np.moveaxis(farther, 2, 0)[..., None]).min(axis=0) * begun
        at_tail = np.zeros_like(x)
        at_tail[:, rows] = there[:, tails]
        there[:, tails] = 0
        through = np.maximum.reduceat(there, self.first, axis=1)
        return np.concatenate([at_tail, through], axis=1).reshape(len(now), -1)

    def _held(self, come: Int64Array) -> Int64Array:
        """Return H if so much has come to each hub, and to the tails."""
        there, own = self.most
        if self.additive:  # no more than there is
            lack = np.minimum.accumulate((come - there)[..., ::-1], axis=2)[..., ::-1]
            come = there + np.minimum(lack, 0)
        held = np.zeros((*come.shape[:2], self.count + 1), dtype=np.int64)
        np.minimum(come, there, out=held[..., :-1])
        return own + held if self.additive else np.maximum(own, held)

    def _behind(self, x: Int64Array) -> Int64Array:
        """Return what has come from S to the tails of links into S."""
        sums, (row, other) = np.zeros_like(x), self.behind
        if len(row):
            begin = np.flatnonzero(np.diff(row, prepend=-1))
            sums[:, row[begin]] = np.add.reduceat(x[:, other], begin, axis=1)
        return sums

    def _passed(
        self, x: Int64Array, now: Int64Array, rows: Int64Array, lag: Int64Array, needs: Int64Array
    ) -> BoolArray:
        """Return by which of these ticks all of a test can have come."""
        when = now[:, None] - lag
        here = x.reshape(len(x), -1, self.count)[np.maximum(when, 0), rows]
        passed: BoolArray = ((here * (when >= 0)[..., None]).sum(axis=1) >= needs).all(axis=1)
        return passed


class _LastMessages:
    """What comes with the last message on each link, in the cases of `_Cases`, some ticks at a time.

    The later it begins, the more there is to bring, and the less time: the best is the first beginning with
    less time than there is to bring, or the one before, which brings all.

    Parameters
    ----------
    alpha, rate
        In whole ticks, and what comes in a tick at most.
    cases
        Columns of `come` and `stock`.
    come, stock
        What has come by each tick, and what there is for a message then; written elsewhere.
    """

    def __init__(
        self, alpha: Int64Array, rate: Int64Array, cases: _Cases, come: Int64Array, stock: Int64Array
    ) -> None:
        self.alpha, self.rate, self.cases, self.come, self.stock = alpha, rate, cases, come, stock
        self.enough = np.zeros((MOST_TICKS + 2, len(alpha)), dtype=np.int16)  # by when so many more bring all
        self.begin, self.until = np.zeros((2, len(alpha)), dtype=np.int64)

    def brought(self, now: Int64Array) -> Int64Array:
        """Return what has come by these ticks, 0 where no message has."""
        begin = self.begin + self.enough[now].cumsum(axis=0)
        self.begin = begin[-1]
        time = now[:, None] - self.alpha - begin
        in_time = _at(self.come, begin, self.cases.before) + self.rate * time
        sooner = np.where(begin > 0, self._there(begin), 0)
        brought = np.maximum(sooner, np.minimum(in_time, self._there(begin + 1)))
        return np.where((time >= 0) & (self.alpha >= SHORTEST), brought, 0)

    def add(self, now: Int64Array) -> None:
        """Count those that begin a tick before these by when they bring all."""
        now = now[now > 0][:, None]
        lack = self._there(now) - self.come[now - 1, self.cases.before]
        until = np.concatenate([self.until[None], now + self.alpha + np.maximum(lack, 0) // self.rate])
        np.maximum.accumulate(until, axis=0, out=until)
        self.until = until[-1]
        place = np.minimum(until[1:], MOST_TICKS + 1) * len(self.alpha) + np.arange(len(self.alpha))
        np.add.at(self.enough.reshape(-1), place.ravel(), np.int16(1))  # flat and of one type: far faster

    def _there(self, at: Int64Array) -> Int64Array:
        """Return all that there is for messages begun a tick before, and those like them."""
        return _at(self.come, at, self.cases.besides) + _at(self.stock, at, self.cases.stock)


def _at(table: Int64Array, row: Int64Array, column: Int64Array) -> Int64Array:
    """Return ``table[row, column]``, which takes longer."""
    return table.reshape(-1).take(row * table.shape[1] + column)

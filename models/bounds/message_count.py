r"""The bound that counts messages and bytes: a message costs α, and holds only what its sender had.

Let e be a link from w into a set S of nodes (one rank, or a side of a cut). X(e, c, t) is the most bytes from
sources at an α-distance of K(c) or more from S that messages over e can bring until t. Z(e, c, t) is the most
in those that only come through w. H(u, c, t) is the most that u can have of what starts at a distance of K(c)
or more from u, its own included where K(c) = 0. The last message on e begins at some s and takes α(e). When
it left its sender u, u had at most F, so that

    F(u, c, s) = min over c' of H(u, c', s - α(u, w)) + what starts far from S but nearer than K(c') to u.
    P(e, c, t) = max over s of min(X(e, c, s) + b(e) (t - α(e) - s), F(w, c, s) + Z(e, c, s)).
    Q(e, c, t) = max over s of X(e, c, s) + min(b(e) (t - α(e) - s), max over u of F(u, c, s)).
    X(e, c, t) = max(P, Q), as the last message began at w or came through w.
    Z(e, c, t) = Q with Z in place of X.

H is a sum of X over the links into u. For w, links from S are left out, as S has had what comes over them.
The first t at which what every S needs from outside can have come, to S and from there to each rank in it, is
a bound. The last message of a link so waits for what it brings, or the link needs one more: both cost α.
Proof: ``docs/proofs.md``.

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

from tutti.models.bounds.bottleneck_cut import cut_nodes
from tutti.models.bounds.bound import SECONDS, Bound
from tutti.models.bounds.spreading import AlphaDistances
from tutti.models.bounds.traffic import Traffic
from tutti.topologies.errors import Unsupported
from tutti.topologies.exact import INT64_MAX, BoolArray, Int64Array, json_number, offsets_of
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

UNITS = 2**40
"""Number of units of M in which bytes are counted: what can come is rounded up, what must come down."""
MOST_TICKS = 2048
"""Largest number of ticks of a search; what is not complete at its end takes longer."""
TICKS_AN_ALPHA = 200
"""Finest time resolution: 200 ticks in the least α. A message finds what comes up to a tick later."""
REACH = 2
"""The ticks reach to this multiple of the other bounds, or beyond them by this multiple of the largest
α-distance, whichever is less."""
MOST_CELLS, MOST_SENDERS = 2**13, 2**18
"""Largest number of links times distances, and of senders over all links times distances squared. Larger
networks have fewer distances, so that none takes more than some seconds."""
FEWEST_DISTANCES, MOST_DISTANCES, MOST_BEFORE = 4, 16, 32
SHORTEST = 2
"""Least α, in ticks, with which messages count; data flows over links with less."""
MOST_TOGETHER = 2**20
"""Largest number of senders times distances squared times ticks that are computed together."""
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
    """Return a time before which some rank can't have all that it needs, as data comes in messages; or None.

    None where it is no larger than the others, for several groups, where α hardly matters beside the bytes,
    and on networks that are too large. In an all-to-all no bytes count: each rank must receive data of every
    other (``heard``), as it must in an allreduce too. The certificate has that, the direction (``in``: what a
    rank ends with, ``out``: what it starts with, links and time reversed), the distances K, the length of a
    tick, the number of ticks, and the cuts.

    Parameters
    ----------
    topology, traffic, distances
        The problem.
    size
        M, bytes.
    least
        Seconds: the largest of the other bounds.
    cuts
        Masks over nodes: sets that are tried in addition to single ranks.
    """
    denominator, bounds = topology.alpha.denominator, list[Bound]()
    for share in _shares(topology, traffic) if topology.num_nodes <= MOST_NODES else ():
        longest = Fraction(int(distances.nodes.max()), denominator)
        tick = _tick(topology, min(least * REACH, least + longest * REACH))
        receipt = None
        with suppress(Unsupported):  # there are too many links over which the data is received
            receipt = _Receipt(topology, distances.nodes, share, cuts) if tick else None
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


def _tick(topology: Topology, until: Fraction) -> Fraction | None:
    """Return a tick such that the ticks reach `until`; None if it is too long to tell messages apart."""
    alpha = topology.alpha
    positive = alpha.numerators[alpha.numerators > 0]
    if not len(positive) or not until:
        return None
    finest = Fraction(int(positive.min()), alpha.denominator)
    ticks = min(TICKS_AN_ALPHA, int(finest * MOST_TICKS / until))
    return finest / ticks if ticks >= SHORTEST else None


@dataclass(frozen=True, eq=False)
class _Shares:
    """The data that each rank starts with, in units of M / `UNITS`, rounded up, and who needs all of it.

    With `sums` the data is reduced: each rank starts with as much as all together. With `heard` bytes take no
    time, and each rank must have data of each.
    """

    exact: Sequence[Fraction]
    ends: Int64Array
    inward: bool
    sums: bool = False
    heard: bool = False

    @cached_property
    def own(self) -> Int64Array:
        """The data that each rank starts with, in units."""
        return np.array([-(-share.numerator * UNITS // share.denominator) for share in self.exact])

    def of(self, sources: BoolArray) -> int:
        """Return the data that these ranks start with together, in units, rounded down."""
        chosen = [share for share, among in zip(self.exact, sources.tolist(), strict=True) if among]
        return int((max if self.sums else sum)([*chosen, Fraction(0)]) * UNITS)

    def most(self, sources: BoolArray) -> int:
        """Return the same, with each rank's data rounded up, so that what is left without some is no less."""
        chosen = self.own[sources]
        return int(chosen.max(initial=0) if self.sums else chosen.sum())


def _shares(topology: Topology, traffic: Traffic) -> Iterator[_Shares]:
    """Yield the shares if all data goes to all ranks or to one, or so in reverse; else by mere receipt."""
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
    """The links over which data is received, and its senders; on the reversed network if not inward.

    Parameters
    ----------
    topology
        The network.
    apart
        int64, shape (nodes, nodes): α-distances over α's denominator.
    share
        The data that is received.
    cuts
        Sets that are tried in addition to single hubs.

    Attributes
    ----------
    hubs
        The nodes that hold data: ranks, and switches that copy or add and that ranks reach.
    sets
        Masks over nodes: the sets S, each hub alone first.
    known
        int64: the distances K over α's denominator, 0 first.
    place, link
        A row for each link into each S that a hub outside reaches: which S, and the link.
    behind
        int64, shape (2, pairs): rows of links, and those of links into their tail that come from their S.
    row, sender, before, nearer
        A row for the senders over such a link from one α-distance: its row of links, its kind and the α up to
        the link. Then the most that starts at K(c) or more from S but nearer than K(c') to one of them. The
        kind is the hub where the link begins, or the number after all hubs for any rank, or the next one for
        any other hub. The last array has shape (rows, K, K + 1), with the last c' beyond all.
    needs, there
        The data that each S must have from ranks outside, from each distance K on; shape (sets, K). In
        `needs` it is rounded down, and in `there`, the most that can come, up.

    Raises
    ------
    Unsupported
        If there are too many links.
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
        count = min(most, MOST_DISTANCES, len(away))
        known = away[np.unique(np.linspace(0, len(away) - 1, count).astype(int))]
        near = apart[:ranks, hubs, None] < np.append(known, INT64_MAX)
        senders = [
            (row, *sender)
            for row, (place, link) in enumerate(entries)
            for tail in [int(topology.source[link])]
            for sender in _senders(sets[place], up_to[:, tail], tail, hubs, ranks)
        ]
        # For each set and distance K the ranks outside that are that far from the set or farther.
        far = [(apart[:ranks, inside].min(axis=1) >= known[:, None]) & ~inside[:ranks] for inside in sets]
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
        self.there = np.array([[share.most(mask) for mask in masks] for masks in far])


def _senders(
    inside: BoolArray, up_to_tail: Int64Array, tail: int, hubs: Int64Array, ranks: int
) -> Iterator[tuple[int, int, Int64Array]]:
    """Yield the senders over a link: their kind, the α up to the link, and their places among the hubs.

    A message may come through ranks without a stop, so all ranks may send. `up_to_tail` is the α from each
    hub.
    """
    there = ~inside[hubs] & (up_to_tail >= 0)
    for place in np.flatnonzero(there & (hubs == tail)).tolist():
        yield place, 0, np.array([place])
    for kind, among in enumerate((hubs < ranks, hubs >= ranks)):
        others = there & among & (hubs != tail)
        for alpha in np.unique(up_to_tail[others]).tolist():
            yield len(hubs) + kind, alpha, np.flatnonzero(others & (up_to_tail == alpha))


class _Cases(NamedTuple):
    """Columns of what the last message on a link adds to: data by time, data beside its stock, and the stock.

    A message that began at the link's tail adds by time to what came before. By stock, all messages from the
    tail hold no more than the tail has, and what came through adds to that. A message that came through adds
    to what came before; for Z, to what came through.
    """

    before: Int64Array
    besides: Int64Array
    stock: Int64Array


class _ReceiptArrays:
    """X and H in ticks. X has columns of rows of links times distances; H has hubs, distances, and a last 0.

    Parameters
    ----------
    receipt
        The links over which data is received, and its senders.
    tick, size
        Length of a tick in seconds; M in bytes.

    Attributes
    ----------
    count
        Number of distances.
    alpha, rate
        For each column of X: α of the link in whole ticks, and the most that it brings in a tick.
    there
        For each column of X: the data that there is to bring.
    own
        Shape (hubs, K + 1): the data that each starts with, in the first column.
    ranks
        Number of hubs that are ranks.
    additive
        Whether several ranks' data is as much as they have together.
    alone, place
        Number of rows of links into single hubs, and the first row into each.
    behind
        See `_Receipt`.
    first, sender, lag
        For each row of links its first sender. For each sender its hub, and how many ticks it is before.
    nearer
        `_Receipt.nearer`, with K' as the first axis; shape (K + 1, 1, senders, K).
    tails
        The senders that are the tail of their link, and the rows of links that have them.
    most
        The data that there is to come to each hub and to the tails, and the data that they start with.
    tests
        What must have come for some end: the rows of links, the ticks from each to the end, and the amounts.
    """

    def __init__(self, receipt: _Receipt, tick: Fraction, size: Fraction) -> None:
        topology, link, count = receipt.topology, receipt.link, len(receipt.known)
        unit = tick * topology.alpha.denominator

        def ticks(alphas: Int64Array) -> Int64Array:
            return alphas * unit.denominator // unit.numerator

        counted = min(topology.bandwidth) * tick if receipt.share.heard else size  # or a tick brings all
        rates = {b: min(UNITS, -(-b * tick * UNITS // counted)) for b in set(topology.bandwidth)}
        self.count, self.ranks, self.additive = count, topology.num_ranks, not receipt.share.sums
        self.alpha = np.repeat(ticks(topology.alpha.numerators[link]), count)
        self.rate = np.repeat(np.array([rates[topology.bandwidth[e]] for e in link], dtype=np.int64), count)
        self.there = receipt.there[receipt.place].ravel()
        self.own = np.zeros((len(receipt.hubs), count + 1), dtype=np.int64)
        self.own[: topology.num_ranks, 0] = receipt.share.own
        self.alone = int((receipt.place < len(receipt.hubs)).sum())
        self.place = np.searchsorted(receipt.place, np.arange(len(receipt.hubs)))
        self.behind, self.sender, self.lag = receipt.behind, receipt.sender, ticks(receipt.before)
        self.nearer = np.ascontiguousarray(np.moveaxis(receipt.nearer, 2, 0)[:, None])
        self.first = offsets_of(np.bincount(receipt.row, minlength=len(link)))[:-1]
        senders = np.flatnonzero(self.sender < len(self.own))
        self.tails = np.stack([senders, np.searchsorted(self.first, senders, side="right") - 1])
        there, tails = receipt.there[receipt.place][self.place], self.sender[senders]
        self.most = np.concatenate([there, there[tails]]), np.concatenate([self.own, self.own[tails]])
        self.tests = [
            (rows, ticks(receipt.apart[topology.target[link[rows]], end]), receipt.needs[place])
            for place, inside in enumerate(receipt.sets)
            for rows in [np.flatnonzero(receipt.place == place)]
            for end in receipt.share.ends[inside[receipt.share.ends]].tolist()
        ]

    def ticks(self) -> int:
        """Return the number of ticks after which some rank still can't have all that it needs.

        What comes in a message began the shortest α before, or sooner. So about that many ticks are computed
        together.
        """
        columns, tests, reached = len(self.alpha), self.tests.copy(), 0
        # X and Z side by side: what comes in all messages, and in those that come through; so their stocks.
        come, stock = np.zeros((2, MOST_TICKS + 1, 2 * columns), dtype=np.int64)
        held = np.zeros((MOST_TICKS + 1, 2, self.count + 1), dtype=np.int64)
        # The last message began at the tail; it came through, for X; and it came through, for Z.
        sides = np.array([[0, 0, 1], [1, 0, 1], [0, 1, 1]])[..., None]
        cases = _Cases(*(sides * columns + np.arange(columns)).reshape(3, -1))
        last = _LastMessages(np.tile(self.alpha, 3), np.tile(self.rate, 3), cases, come, stock)
        flow = np.where(self.alpha < SHORTEST, self.rate, 0)
        for start in range(0, MOST_TICKS + 1, self._together):
            now = np.arange(start, min(start + self._together, MOST_TICKS + 1))
            brought = last.brought(now).reshape(len(now), 3, columns)
            brought[:, 0] = np.maximum(brought[:, 0], brought[:, 1])
            most = np.minimum(np.maximum(brought[:, ::2], (now[:, None] * flow)[:, None]), self.there)
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
        """The number of ticks that are computed together."""
        shortest = self.alpha.min(where=self.alpha >= SHORTEST, initial=MOST_TICKS)
        return int(max(1, min(shortest - 1, MOST_TOGETHER // self.nearer.size)))

    def _stock(self, x: Int64Array, held: Int64Array, now: Int64Array) -> Int64Array:
        """Return the data for a message that enters each link by these ticks: at its tail, and before.

        Writes into `held` the most that is held by these ticks.
        """
        come: Int64Array = np.add.reduceat(x[:, : self.alone], self.place, axis=1)
        (tails, rows), hubs = self.tails, len(self.own)
        sums, (row, other) = np.zeros_like(x), self.behind
        if len(row):
            begin = np.flatnonzero(np.diff(row, prepend=-1))
            sums[:, row[begin]] = np.add.reduceat(x[:, other], begin, axis=1)
        besides = come[:, self.sender[tails]] - sums[:, rows]
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
        """Return H if `come` has come to each hub, and to the tails."""
        there, own = self.most
        if self.additive:  # no more than there is
            lack = np.minimum.accumulate((come - there)[..., ::-1], axis=2)[..., ::-1]
            come = there + np.minimum(lack, 0)
        held = np.zeros((*come.shape[:2], self.count + 1), dtype=np.int64)
        np.minimum(come, there, out=held[..., :-1])
        return own + held if self.additive else np.maximum(own, held)

    def _passed(
        self, x: Int64Array, now: Int64Array, rows: Int64Array, lag: Int64Array, needs: Int64Array
    ) -> BoolArray:
        """Return for each of these ticks whether all data of a test can have come by it."""
        when = now[:, None] - lag
        here = x.reshape(len(x), -1, self.count)[np.maximum(when, 0), rows]
        passed: BoolArray = ((here * (when >= 0)[..., None]).sum(axis=1) >= needs).all(axis=1)
        return passed


class _LastMessages:
    """The data that comes with the last message on each link, by the cases of `_Cases`, some ticks at a time.

    If the message begins later, there is more to bring and less time. The best is the first beginning with
    less time than there is to bring, or the one before, which brings all.

    Parameters
    ----------
    alpha, rate
        α in whole ticks, and the most that comes in a tick.
    cases
        Columns of `come` and `stock`.
    come, stock
        The data that has come by each tick, and the data for a message then; written elsewhere.
    """

    def __init__(
        self, alpha: Int64Array, rate: Int64Array, cases: _Cases, come: Int64Array, stock: Int64Array
    ) -> None:
        self.alpha, self.rate, self.cases, self.come, self.stock = alpha, rate, cases, come, stock
        self.enough = np.zeros((MOST_TICKS + 2, len(alpha)), dtype=np.int16)  # more beginnings that bring all
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
        """Count the messages that begin a tick before these by the tick at which they bring all."""
        now = now[now > 0][:, None]
        lack = self._there(now) - self.come[now - 1, self.cases.before]
        until = np.concatenate([self.until[None], now + self.alpha + np.maximum(lack, 0) // self.rate])
        np.maximum.accumulate(until, axis=0, out=until)
        self.until = until[-1]
        place = np.minimum(until[1:], MOST_TICKS + 1) * len(self.alpha) + np.arange(len(self.alpha))
        np.add.at(self.enough.reshape(-1), place.ravel(), np.int16(1))  # flat and of one type: far faster

    def _there(self, at: Int64Array) -> Int64Array:
        """Return all data for messages that begin a tick before, and what adds to that."""
        return _at(self.come, at, self.cases.besides) + _at(self.stock, at, self.cases.stock)


def _at(table: Int64Array, row: Int64Array, column: Int64Array) -> Int64Array:
    """Return ``table[row, column]``, by a faster way."""
    return table.reshape(-1).take(row * table.shape[1] + column)

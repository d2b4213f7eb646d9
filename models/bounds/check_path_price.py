"""The check of ``path_price``: the value of a message is at most the cost of the links on its route.

It shares no code with `models.bounds.path_price`, which finds the prices. Proof: ``docs/proofs.md``,
*path_price*.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil

import numpy as np

from tutti.models.bounds.certificate import Certificate, dijkstra, exact, inward, links_of
from tutti.schedules.collective import Collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT64_MAX, Int64Array, IntArray, common_divisor
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Link, Topology

_MOST_TICKS_AT_ONCE = 512
"""Largest number of ticks in a certificate: the check tries messages from every tick to every later one."""
_NEVER = INT64_MAX // 4
"""A number above any sum of link costs."""
UNIT = 2**16
"""Number of units in the largest bandwidth in which a message's speed is counted, rounded up."""

Datum = tuple[frozenset[int], frozenset[int]]
"""The ranks where a datum starts, and those that must receive all of it."""


@dataclass(frozen=True, eq=False)
class Itineraries:
    """Prices of pairs' data at nodes and of links, by tick; see ``docs/proofs.md``.

    Parameters
    ----------
    topology
        The network.
    data
        The data that is moved.
    sizes
        Bytes of each datum.
    pairs
        For each pair a datum, one of its starts and one of its ends, in order of data.
    tick
        Length of a tick in seconds.
    symmetries
        int64, shape (symmetries, nodes): the image of each node. Rows of `prices` are for classes of a pair
        and a node, rows of `rents` for classes of links, in the order of their first ones.
    prices
        int64, shape (classes, ticks).
    transfer
        The price of sending a byte of a sum, if all that add to it need it.
    rents
        int64, shape (classes, ticks + 1): the price V of a link at each tick.
    """

    topology: Topology
    data: Sequence[Datum]
    sizes: Sequence[Fraction]
    pairs: Sequence[tuple[int, int, int]]
    tick: Fraction
    symmetries: Int64Array
    prices: Int64Array
    transfer: int
    rents: Int64Array

    @cached_property
    def row(self) -> Int64Array:
        """Shape (pairs, nodes): the row in `prices`."""
        nodes, place = self.topology.num_nodes, {pair: number for number, pair in enumerate(self.pairs)}
        goes, known = [], {datum: number for number, datum in enumerate(self.data)}
        for to in self.symmetries.tolist():
            image = [known[taken(starts, to), taken(ends, to)] for starts, ends in self.data]
            goes.append(
                [
                    place[image[datum], to[start], to[end]] * nodes + to[node]
                    for datum, start, end in self.pairs
                    for node in range(nodes)
                ]
            )
        return _classes(len(self.pairs) * nodes, goes).reshape(-1, nodes)

    @cached_property
    def kind(self) -> Int64Array:
        """Shape (links,): the class of each link."""
        links = links_of(self.topology)
        first = {link: number for number, link in reversed([*enumerate(links)])}
        maps = range(self.topology.num_nodes), *self.symmetries.tolist()
        return _classes(len(links), [[first[_image(link, to)] for link in links] for to in maps])

    @cached_property
    def alpha(self) -> Int64Array:
        """Shape (links,): α in ticks, rounded down."""
        most = self.prices.shape[1] + 1
        return np.array([min(int(alpha / self.tick), most) for alpha in self.topology.alpha])

    def sums(self, datum: int) -> bool:
        """Return whether each byte of a datum must be sent twice for each of its ranks but one."""
        starts, ends = self.data[datum]
        return starts == ends and not (self.topology.multicast or self.topology.aggregate)

    def cost(self, shares: Sequence[Fraction]) -> Fraction:
        """Return the price of moving all data, for each byte of M."""
        total = Fraction(0)
        for number, (datum, start, end) in enumerate(self.pairs):
            row = self.row[number]
            total += shares[datum] * int(self.prices[row[end], -1] - self.prices[row[start], 0])
        for datum, share in enumerate(shares):
            total += share * self.sums(datum) * 2 * (len(self.data[datum][0]) - 1) * self.transfer
        return total

    @property
    def earned(self) -> Fraction:
        """The most that all links can be paid, in bytes."""
        paid = sum((self.rents[self.kind, -1] - self.rents[self.kind, 0]).tolist())
        return paid * self.tick * max(self.topology.bandwidth)

    @cached_property
    def rates(self) -> list[int]:
        """For each link its bandwidth, in the largest unit of which all are a whole number."""
        unit = common_divisor(self.topology.bandwidth)
        return [int(rate / unit) for rate in self.topology.bandwidth]

    @property
    def fits(self) -> bool:
        """Whether all that is counted fits 64 bits."""
        ticks, hops = self.prices.shape[1], self.topology.num_nodes * (self.prices.shape[1] + 1)
        many = max(Counter(datum for datum, _, _ in self.pairs).values())
        worth = (many * int(self.prices.max()) + self.transfer) * ticks
        return max(worth * UNIT, int(self.rents.max()) * hops * UNIT, max(self.rates) * 2 * ticks) < _NEVER

    @property
    def most(self) -> Int64Array:
        """For each datum its size, in parts of what the fastest link moves in a tick, rounded up."""
        part = self.tick * max(self.topology.bandwidth) / UNIT
        return np.array([min(ceil(size / part), (self.prices.shape[1] + 1) * UNIT) for size in self.sizes])

    def none_is_worth_more(self, apart: Int64Array) -> bool:
        """Return whether no message has a value above the cost of its links.

        Parameters
        ----------
        apart
            Shape (nodes, nodes): ticks from each node to each, by whole ticks of links; -1: no path.
        """
        topology, pairs, rates = self.topology, np.array(self.pairs), np.array(self.rates)
        rents = self.rents[self.kind]
        holds = np.flatnonzero(topology.holders)
        sums = np.array([self.sums(one) for one in range(len(self.data))])
        links = *(end.astype(np.int64) for end in (topology.source, topology.target)), self.alpha, rates
        orbit = _classes(topology.num_nodes, self.symmetries.tolist())
        for first in np.unique(orbit[holds], return_index=True)[1].tolist():
            ways = apart[pairs[:, 1]], apart[:, pairs[:, 2]].T.copy()
            ends = holds[first], holds[holds != holds[first]]
            asked = pairs[:, 0].copy(), sums * self.transfer, self.most, self.prices, self.row
            if any(_pays(asked, ends, ways, rents, links, slowest) for slowest in np.unique(rates)):
                return False
        return True


def _image(link: Link, to: Sequence[int]) -> Link:
    """Return the image of a link under a symmetry."""
    return replace(link, source=to[link.source], target=to[link.target])


def taken(nodes: Iterable[int], to: Sequence[int]) -> frozenset[int]:
    """Return the images of nodes under a symmetry."""
    return frozenset(to[node] for node in nodes)


def _classes(size: int, goes: Sequence[Sequence[int]]) -> Int64Array:
    """Return the classes of 0..size - 1, in order of their first, where each is with its images."""
    least, maps = np.arange(size), [np.array(to) for to in goes]
    while True:
        before = least.copy()
        for to in maps:
            together = np.minimum(least, least[to])
            np.minimum.at(together, to, together.copy())
            least = together[together]
        if (least == before).all():
            return np.unique(least, return_inverse=True)[1].reshape(-1)


PairPrices = tuple[Int64Array, Int64Array, Int64Array, Int64Array, Int64Array]
Links = tuple[Int64Array, Int64Array, Int64Array, Int64Array]
Ways = tuple[Int64Array, Int64Array]
"""Arguments of kernels; `_pays` says what they hold."""


@kernel
def _gained(asked: PairPrices, ways: Ways, sender: int, begin: int, node: int, end: int) -> Ways:
    """Return the gain of a byte of each datum, the largest first, and the number of its bytes."""
    (datum, sent, most, prices, row), (come, left), ticks = asked, ways, asked[3].shape[1]
    gains = sent.copy()
    for pair in range(len(datum)):
        if 0 <= come[pair, sender] <= begin and 0 <= left[pair, node] <= ticks - end:
            gain = prices[row[pair, node], end - 1] - prices[row[pair, sender], begin]
            gains[datum[pair]] += max(0, gain)
    order = np.argsort(-gains)
    return gains[order], most[order]


@kernel
def _worth(gains: Int64Array, most: Int64Array, before: int, speed: int) -> int:
    """Return the value of a message with `before` bytes before its last tick, and `speed` more in it.

    In the last tick all bytes are of the dearest datum that is left when it begins.
    """
    total = 0
    for datum in range(len(gains)):
        if before < most[datum]:
            return total + gains[datum] * (before + speed)
        total += gains[datum] * most[datum]
        before -= most[datum]
    return total


@kernel
def _pays(
    asked: PairPrices, ends: tuple[int, Int64Array], ways: Ways, rents: Int64Array, links: Links, slowest: int
) -> bool:
    """Return whether a message's value exceeds the cost of its links, if one of this rate is the slowest.

    `asked` has the datum of each pair, the value of sending a byte of each datum, the number of its bytes,
    the prices and their rows. `ends` is the sender and the nodes that hold data. `ways` has the ticks from
    each pair's start to each node, and from each node to its end. `links` has sources, targets, α in ticks
    and rates.
    """
    (sender, holds), (ticks, nodes) = ends, (asked[3].shape[1], asked[4].shape[1])
    speed = -(-slowest * UNIT // links[3].max())
    rent = np.empty((ticks + 1, ticks + 1, nodes), dtype=np.int64)
    for begin in range(ticks):
        for long in range(1, ticks - begin + 1):
            least = _least(rents, links, slowest, (sender, begin, long), nodes)
            rent[long, : len(least)] = least
        for node in holds:
            for end in range(begin + 1, ticks + 1):
                gains, most = _gained(asked, ways, sender, begin, node, end)
                if gains[0] <= 0:
                    continue
                # A message that holds its slowest link for `long` ticks has at most as many bytes as fit into
                # these.
                for long in range(1, end - begin + 1):
                    least_rent = rent[long, end - long, node]
                    owed = _worth(gains, most, (long - 1) * speed, speed)
                    if least_rent < _NEVER and owed > least_rent * UNIT:
                        return True
    return False


@kernel
def _least(
    rents: Int64Array, links: Links, slowest: int, message: tuple[int, int, int], nodes: int
) -> Int64Array:
    """Return the least cost of a message whose head is at a node by a moment, its slowest link passed."""
    (source, target, alpha, rates), (sender, begin, long) = links, message
    last = rents.shape[1] - 1 - long
    before = np.full((last + 1, nodes), _NEVER)
    after = before.copy()
    before[begin, sender] = 0
    for now in range(begin, last + 1):
        if now > begin:
            before[now] = np.minimum(before[now], before[now - 1])
            after[now] = np.minimum(after[now], after[now - 1])
        changed = True
        while changed:  # links may have no α
            changed = False
            for link in range(len(source)):
                there = now + alpha[link]
                if rates[link] < slowest or there > last:
                    continue
                head, ways = target[link], (before[now, source[link]], after[now, source[link]])
                slow = rates[link] == slowest
                early, late = _paid(rents[link], alpha[link], slowest, rates[link], now, long)
                sooner = _NEVER if slow else ways[0] + early
                later = min(ways) + early if slow else ways[1] + late
                changed |= there == now and (sooner < before[there, head] or later < after[there, head])
                before[there, head] = min(before[there, head], sooner)
                after[there, head] = min(after[there, head], later)
    return after


@kernel
def _paid(rents: Int64Array, alpha: int, slowest: int, rate: int, now: int, long: int) -> tuple[int, int]:
    """Return the cost of a link that is entered now, and the least cost if its message may wait for it."""
    if rate == slowest:
        rent = rents[now + alpha + long] - rents[now]
        return rent, rent
    held = alpha + slowest * max(0, long - 2) // rate
    wait, least = -((slowest - rate) * (long + 2) // rate), _NEVER
    for entry in range(max(0, now - 1), min(now + 1 + wait, len(rents) - 1 - held) + 1):
        least = min(least, rents[entry + held] - rents[entry])
    return rents[now + held] - rents[now], least


def prove_path_price(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``path_price`` proves."""
    if certificate["direction"] == "out" and not topology.bandwidth.uniform:
        raise InputError("path_price bound: time can be reversed only where all links are equally fast")
    topology, items = inward(certificate, topology, collective)
    size, time = exact(certificate, "size_bytes", "time")
    moved = defaultdict[Datum, Fraction](Fraction)
    for item in items:
        if item.share and len(item.starts | item.ends) > 1:
            moved[item.starts, item.ends] += item.share
    prices, rents = (np.array(certificate[name], dtype=np.int64) for name in ("prices", "rents"))
    ticks, transfer = int(certificate["ticks"]), int(certificate["transfer"])
    to = np.array(certificate["symmetries"], dtype=np.int64).reshape(-1, topology.num_nodes)
    _check_symmetries(to, topology, moved)
    if min(size, time) <= 0 or not moved or not 0 < ticks <= _MOST_TICKS_AT_ONCE:
        raise InputError(
            f"path_price bound: it needs time, bytes, data to move, and 1 to {_MOST_TICKS_AT_ONCE} ticks"
        )
    pairs = [(datum, start, end) for datum, start, end in certificate["pairs"]]
    _check_heard(pairs, to, list(moved))
    sizes = [size * share for share in moved.values()]
    found = Itineraries(topology, list(moved), sizes, pairs, time / ticks, to, prices, transfer, rents)
    shapes = (int(found.row.max()) + 1, ticks), (int(found.kind.max()) + 1, ticks + 1)
    if (prices.shape, rents.shape) != shapes:
        raise InputError(f"path_price bound: shapes of prices and of rents; they must be {shapes}")
    if min(transfer, prices.min(), rents.min(), np.diff(rents).min(), np.diff(-prices).min(initial=0)) < 0:
        raise InputError("path_price bound: prices must not rise, rents not fall, and none be negative")
    if not found.fits:
        raise InputError("path_price bound: prices are too large to be counted")
    cost = size * found.cost(list(moved.values()))
    if cost <= found.earned:
        raise InputError(f"path_price bound: links may earn {found.earned} in {time} s, no less than {cost}")
    come = [dijkstra(topology, v, lengths=found.alpha.tolist())[0] for v in range(topology.num_nodes)]
    if not found.none_is_worth_more(np.array(come)):
        raise InputError("path_price bound: some message has a value above the cost of its links")
    return time


def _check_symmetries(to: IntArray, topology: Topology, moved: Mapping[Datum, Fraction]) -> None:
    """Raise `InputError` if some row does not take nodes to nodes, links to links, and data to data."""
    links, able = Counter(links_of(topology)), (topology.multicast, topology.aggregate)
    ranks = set(range(topology.num_ranks))
    for row in to.tolist():
        image = Counter(_image(link, row) for link in links.elements())
        goes = {(taken(starts, row), taken(ends, row)): share for (starts, ends), share in moved.items()}
        kept = sorted(row) == list(range(topology.num_nodes)) and taken(ranks, row) == ranks
        if not kept or image != links or goes != moved or any(taken(one, row) != one for one in able):
            raise InputError("path_price bound: some row is no symmetry of the network and the data")


def _check_heard(pairs: Sequence[tuple[int, int, int]], to: IntArray, data: Sequence[Datum]) -> None:
    """Raise `InputError` unless all pairs are of the data, in order, and taken to pairs by symmetries."""
    number = {datum: which for which, datum in enumerate(data)}
    for datum, start, end in pairs:
        if not (
            0 <= datum < len(data) and start in data[datum][0] and end in data[datum][1] and start != end
        ):
            raise InputError(f"path_price bound: {[datum, start, end]} is no pair of a datum")
    for row in to.tolist():
        image = [number[taken(starts, row), taken(ends, row)] for starts, ends in data]
        if {(image[datum], row[start], row[end]) for datum, start, end in pairs} != set(pairs):
            raise InputError("path_price bound: symmetries must take pairs to pairs")
    if not pairs or sorted(set(pairs)) != list(pairs):
        raise InputError("path_price bound: pairs must be in order, and once each")

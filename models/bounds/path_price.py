"""The bound ``path_price``: prices in time for the whole route of a message; proof in ``docs/proofs.md``.

Time is in K ticks. φ(c, k) is the price of a byte of a pair's data in tick k at a node, where c is the class
of both. π is the price of sending a byte of a sum. V(o, k) is the price of a link of class o up to moment k.
The best prices are a linear program:

    maximize    sum over pairs of share (φ(end, K - 1) - φ(start, 0)) + π · transfers.
    subject to  sum over the links of its route (V(o, until) - V(o, from))
                    ≥ sum over data of bytes (π + sum over the pairs of the datum of gains)  for every
                    message.
                gain ≥ φ(v, q - 1) - φ(u, p), gain ≥ 0                            from u at p to v at q.
                φ(c, k) ≥ φ(c, k + 1),  V(o, k + 1) ≥ V(o, k).
                sum over links V(o, K) = 1.

A message has at most all bytes of each datum, though its last tick's are of one. Bytes are in units of what
the fastest link moves in a tick. If that is less than the maximum times M, K ticks are too little. Rows of
messages are added where prices violate them. These prices lie between the program's optimum and the best that
are proven, for which fewer rows suffice (Ben-Ameur and Neto, Networks 49, 2007, in-out separation).
Programs for several K lead to the largest time that prices prove to be too little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tutti.models.bounds.bound import ASKED_SECONDS, SECONDS, Bound, secant
from tutti.models.bounds.message_pricing import Asked, Most, TickNetwork, coefficients, violated
from tutti.models.bounds.symmetry_classes import RankPairs
from tutti.models.solvers import HighsOptions, solve
from tutti.models.solvers.compiled import Rows, normalized
from tutti.schedules.collective import Collective
from tutti.topologies.exact import NONE, BoolArray, FloatArray, Int64Array, json_number, offsets_of
from tutti.topologies.graphs.shortest_paths import length_distances
from tutti.topologies.kernels import now
from tutti.topologies.progress import tell
from tutti.topologies.topology import Topology

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_COLUMNS, MOST_TICKS, MOST_PARTS = 2**13, 256, 64
"""Largest number of columns of prices, of ticks of a time, and of ticks of the least α."""
MOST_WORK = 2**27
"""Largest number of ticks, cubed, times arcs: a message begins, lasts and continues at each tick."""
STAGES = (Fraction(1, 4), Fraction(6, 5)), (Fraction(1), Fraction(101, 100))
"""For each stage: the fraction of the largest numbers of columns and ticks, and the largest ratio of a
program's ticks to the proven ones. A coarse first stage finds the time approximately."""
NEAR = 1, 2
"""For sums that all need, how many of the largest distances of pairs count: first one, which is quick."""
LATE, MANY = 16, 2**15
"""One distance must do if the time is longer than `LATE` of the largest α, or for more than `MANY` pairs
times nodes."""
MOST_PROGRAMS = 8
"""Largest number of programs for one length of ticks. A larger value takes longer and proves more."""
BELOW = Fraction(2**20 - 1, 2**20)
"""Factor by which the value of a linear program is reduced, as a safety margin, before it counts as
proven."""
if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_ROUNDS, NEARLY = 100, 1e-3
"""Rows are no longer added after this many rounds, or if proven prices are this near to the best
(relatively)."""
BROKEN = 1e-4
"""Least violation of a row that is added, relative to the largest price of a link."""
INWARD = 0.5
"""Position between the optimum and proven prices at which rows are looked for: such rows cut off more."""
MOST_PRICE = 10
"""Upper limit of a price: if all pairs had it, moving the data would cost this multiple of M."""
ACCURACY = 1e-6
"""Accuracy of the program's optimum; prices are proven separately."""
TIDY, LOOSE = 4, 0.1
"""Rounds between which loose rows are dropped, and their least slack relative to the largest link price."""
UNIT = 2**16
"""Number of units in the largest bandwidth in which speeds are counted, rounded up."""
NEVER = 2**40
"""A number above any number of ticks."""
GREATEST, COUNTED = 2**30, 2**60
"""Largest price, and largest value or cost of a message in `UNIT`: the check adds in 64 bits."""


def path_price_bound(
    topology: Topology, collective: Collective, size: Fraction, least: Fraction
) -> Bound | None:
    """Return the bound by the prices that the linear programs find, within seconds to minutes.

    The certificate has the size, the time and its number of ticks, and the direction (``out`` for reduced
    data, on the network backwards). It has the pairs as rows of a datum, a start and an end, and the
    symmetries under which prices are equal, as images of the nodes. It has prices by class and tick, the
    price of being sent, and prices of links by class and moment.

    Parameters
    ----------
    topology, collective
        The problem.
    size
        M, bytes.
    least
        Seconds: the largest of the other bounds.

    Returns
    -------
    Bound or None
        None where it is no larger than the others, where no link has an α, and on large networks with
        little symmetry.
    """
    if not topology.alpha.numerators.any():
        return None
    unit = Fraction(int(topology.alpha.numerators.max()), topology.alpha.denominator)
    best: tuple[Fraction, StartPrices, RankPairs] | None = None
    until = now() + ASKED_SECONDS
    for near in NEAR:
        time = best[0] if best else least
        if near > 1 and time > LATE * unit:
            break
        pairs = RankPairs.of(topology, collective, near)
        if pairs is None or (near > 1 and len(pairs.start) * topology.num_nodes > MANY):
            break
        found = _finest(pairs, size, time, until)
        best = (*found, pairs) if found else best
        if not pairs.partial:
            break
    if best is None:
        return None
    time, (_, prices), pairs = best
    certificate = {
        "size_bytes": json_number(size),
        "time": json_number(time),
        "ticks": prices.price.shape[1],
        "direction": "out" if pairs.backwards else "in",
        "pairs": np.stack([pairs.datum, pairs.start, pairs.end], axis=1).tolist(),
        "symmetries": pairs.group.nodes.tolist(),
        "prices": prices.price.tolist(),
        "transfer": prices.transfer,
        "rents": prices.rent.tolist(),
    }
    return Bound("path_price", time, SECONDS, certificate)


def _finest(
    pairs: RankPairs, size: Fraction, least: Fraction, until: float
) -> tuple[Fraction, StartPrices] | None:
    """Return the largest time that is proven and its prices; None if it is at most `least`."""
    alpha = pairs.topology.alpha
    unit = Fraction(int(alpha.numerators[alpha.numerators > 0].min()), alpha.denominator)
    most = min(MOST_TICKS, round((MOST_WORK / len(pairs.spots[1])) ** (1 / 3)))
    best: tuple[Fraction, StartPrices] | None = None
    for finer, step in STAGES:
        time, start = best or (least, None)
        parts = min(int(most * unit / time * finer), MOST_PARTS)
        columns = int(MOST_COLUMNS * finer)
        found = _longest(pairs, size, unit / parts, time, step, columns, until, start) if parts else None
        if found and found[0] > time:
            best = found
    return best


def _longest(
    pairs: RankPairs,
    size: Fraction,
    tick: Fraction,
    least: Fraction,
    step: Fraction,
    columns: int,
    until: float,
    start: StartPrices | None,
) -> tuple[Fraction, StartPrices] | None:
    """Return the largest time that is proven, with ticks of this length or less, and its prices."""
    topology = pairs.topology
    denominator = topology.alpha.denominator * tick
    alpha = topology.alpha.numerators * denominator.denominator // denominator.numerator
    moved = size / max(topology.bandwidth)
    ticks, low, high = max(2, int(least / tick)), 0, 0
    shortest = tick * (1 - Fraction(1, ticks))  # the shortest tick for which data is counted
    most = np.array([math.ceil(share * moved / shortest * UNIT) / UNIT for share in pairs.data.values()])
    program = ItineraryProgram(pairs, alpha, most, columns, until)
    tried, reciprocals = list[float](), list[float]()
    best: tuple[Fraction, StartPrices] | None = None
    while len(tried) < MOST_PROGRAMS and now() < until:
        tell(f"path_price: {ticks} ticks; ends within {math.ceil(until - now())} s")
        found = program.solved(ticks, tick / moved, start)
        if found is None:
            break
        most_value, value, prices = found
        proven, start = min(tick, value * moved * BELOW), StartPrices(tick / moved, prices)
        if proven >= shortest and (best is None or ticks * proven > best[0]):
            best = ticks * proven, start
        tried.append(float(ticks))
        reciprocals.append(float(tick / moved) / most_value)
        if proven == tick:
            low = ticks
        else:
            high = ticks
        if high and high - low <= 1:
            break
        ahead = max(low + 1, round(secant(tried, reciprocals)))
        ticks = min(ahead, high - 1) if high else min(ahead, int(low * step) + 1)
    return best


class PathPrices(NamedTuple):
    """Whole numbers: φ by class and tick, π, and V by class and moment."""

    price: Int64Array
    transfer: int
    rent: Int64Array


class Point(NamedTuple):
    """The same prices as floats, with π in an array of one entry."""

    price: FloatArray
    transfer: FloatArray
    rent: FloatArray


class StartPrices(NamedTuple):
    """Prices that are proven, and the data that the fastest link moves in one of their ticks, in M."""

    tick: Fraction
    prices: PathPrices


class MessageTerms(NamedTuple):
    """The result of `coefficients`, and each message's last moment and the bytes that it sends at a price."""

    rents: FloatArray
    prices: FloatArray
    last: Int64Array
    sent: FloatArray

    def only(self, kept: BoolArray) -> MessageTerms:
        """Return the chosen messages."""
        number, tables = np.cumsum(kept) - 1, []
        for table in (self.rents, self.prices):
            message = table[:, 0].astype(np.int64)
            some = table[kept[message]]
            some[:, 0] = number[message[kept[message]]]
            tables.append(some)
        return MessageTerms(tables[0], tables[1], self.last[kept], self.sent[kept])


@dataclass(frozen=True, eq=False)
class ItineraryProgram:
    """The linear programs of all numbers of ticks of one length.

    Parameters
    ----------
    pairs
        The pairs of ranks of which the second must receive the first's data.
    alpha
        int64, shape (links,): α of each link in ticks, rounded down.
    most
        float64, shape (data,): size of each datum, in what the fastest link moves in a tick, rounded up.
    columns
        Largest number of columns of φ, unless there are more classes. Ticks share columns where needed.
    until
        When it ends, in the seconds of `topologies.kernels.now`.
    pool
        The messages whose rows the programs have.
    """

    pairs: RankPairs
    alpha: Int64Array
    most: FloatArray
    columns: int
    until: float
    pool: list[MessageTerms] = field(default_factory=list)

    @cached_property
    def network(self) -> TickNetwork:
        """The network for kernels."""
        topology, first = self.pairs.topology, np.unique(self.pairs.kind, return_index=True)[1]
        rates = [topology.bandwidth[link] for link in first.tolist()]
        speeds = sorted(set(rates))
        return TickNetwork(
            *self.pairs.spots,
            alpha=self.alpha[first],
            speed=np.array([math.ceil(speed / speeds[-1] * UNIT) / UNIT for speed in speeds]),
            part=np.array([[_part(speed, rate) for rate in rates] for speed in speeds]),
        )

    @cached_property
    def asked(self) -> Asked:
        """The data for kernels."""
        pairs, network, (come, left) = self.pairs, self.network, self._window
        holders = pairs.topology.holders
        own = network.node[:, :1]
        spots = (network.node != NONE) & (network.node != own) & holders[network.node]
        found = [
            pairs.sorts(own[sender, 0], network.node[sender, spot]) for sender, spot in np.argwhere(spots)
        ]
        many = np.zeros(spots.size, dtype=np.int64)
        many[spots.ravel()] = [len(sorts.datum) for sorts in found]
        datum, data, entries, (here, there), count = (
            np.concatenate(each, axis=-1) for each in zip(*found, strict=True)
        )
        return Asked(
            sorts=offsets_of(many),
            sums=pairs.transfers[datum] > 0,
            most=self.most[datum] * data,
            first=offsets_of(entries),
            entry=np.stack([here, there, come[here], left[there], count], axis=1),
        )

    @cached_property
    def share(self) -> FloatArray:
        """The share of each pair's datum."""
        return np.array([float(share) for share in self.pairs.data.values()])[self.pairs.datum]

    @cached_property
    def links(self) -> Int64Array:
        """The number of links of each class."""
        return np.bincount(self.pairs.kind)

    @cached_property
    def _window(self) -> tuple[Int64Array, Int64Array]:
        """Ticks from the start of a pair, and to its end, for each row of prices; `NEVER` without a path."""
        pairs, apart = self.pairs, length_distances(self.pairs.topology, self.alpha)
        pair, node = np.divmod(np.unique(pairs.row, return_index=True)[1], pairs.topology.num_nodes)
        ticks = np.stack([apart[pairs.start[pair], node], apart[node, pairs.end[pair]]]).astype(np.int64)
        come, left = np.where(ticks < 0, NEVER, ticks)
        return come, left

    @property
    def sent(self) -> float:
        """The data for which π is paid, in M."""
        shares = [float(share) for share in self.pairs.data.values()]
        return float(np.dot(shares, self.pairs.transfers))

    def value(self, prices: PathPrices) -> Fraction:
        """Return the cost of moving all data over the sum of link prices; in a tick's bytes, over M."""
        pairs, (starts, ends) = self.pairs, self.pairs.ends
        gains = prices.price[ends, -1] - prices.price[starts, 0]
        moved = np.add.reduceat(gains, pairs.first[:-1]) + pairs.transfers * prices.transfer
        cost = sum(share * each for share, each in zip(pairs.data.values(), moved.tolist(), strict=True))
        rents = int(self.links @ prices.rent[:, -1])
        return Fraction(cost) / rents if rents else Fraction(0)

    def solved(
        self, ticks: int, asked: Fraction, start: StartPrices | None
    ) -> tuple[float, Fraction, PathPrices] | None:
        """Return the last program's maximum, the largest proven value, and its prices; None for none.

        It ends where one of them tells whether the value asked for is reached, to within one tick of all. It
        starts from prices for another number of ticks, if there are some. Messages are added to the pool.
        """
        self.pool[:] = [one.only(one.last <= ticks) for one in self.pool]
        best: tuple[Fraction, PathPrices] | None = None
        inner: Point | None = None
        if start is not None:
            point = self._whole(_stretched(self._point(start.prices), ticks, float(asked / start.tick)))
            best = self._raised(point, self._broken(point)[0])
            if best[0] > asked:
                return float(best[0]), *best
            inner = self._point(best[1])
        tidied = most = math.inf
        for turn in range(MOST_ROUNDS):
            prune = turn % TIDY == 0 and (not turn or most < tidied * (1 - NEARLY))  # else the same come back
            tidied = most if prune else tidied
            found = self._optimum(ticks, prune=prune)
            if found is None:
                break
            most, outer = found
            point, proven, messages = self._tested(inner, outer)
            if best is None or proven[0] > best[0]:
                best, inner = proven, self._point(proven[1])
            told = best[0] > asked or most < asked * (1 - Fraction(1, ticks))
            if told or best[0] > most * (1 - NEARLY) or not len(messages) or now() > self.until:
                break
            prices = point.price, float(point.transfer[0]), point.rent
            *tables, sent, last = coefficients(self.network, self.asked, messages, prices)
            rents, worth = (np.array(each, dtype=np.float64).reshape(-1, 4) for each in tables)
            self.pool.append(MessageTerms(rents, worth, last, sent))
        return best and (most, *best)

    def _tested(
        self, inner: Point | None, outer: Point
    ) -> tuple[Point, tuple[Fraction, PathPrices], Int64Array]:
        """Return prices between, what they prove, and messages whose value exceeds their cost there.

        If there are no such messages, the outer prices are tested.
        """
        sides = zip(inner or outer, outer, strict=True)
        point = self._whole(Point(*(INWARD * one + (1 - INWARD) * other for one, other in sides)))
        over, begun, ended = self._broken(point)
        proven = self._raised(point, over)
        messages = _chosen(begun, ended, BROKEN * float(point.rent.max()))
        if inner and not len(messages):
            point, other, messages = self._tested(None, outer)
            proven = max(proven, other, key=lambda one: one[0])
        return point, proven, messages

    def _broken(self, point: Point) -> tuple[float, Most, Most]:
        return violated(self.network, self.asked, point.price, float(point.transfer[0]), point.rent)

    def _raised(self, point: Point, over: float) -> tuple[Fraction, PathPrices]:
        """Return prices with links' prices raised until no message gains more than it pays, and their value.

        The value is 0 if the raised prices are too large for the checker, which adds in 64 bits.
        """
        price, transfer, rent = (one.astype(np.int64) for one in point)
        raised = rent + (int(np.ceil(over)) + 1) * np.arange(rent.shape[1])
        prices = PathPrices(price, int(transfer[0]), raised)
        sums = int(raised.max()) * UNIT * self.pairs.topology.num_nodes * raised.shape[1]
        return self.value(prices) if sums <= COUNTED else Fraction(0), prices

    def _optimum(self, ticks: int, *, prune: bool) -> tuple[float, Point] | None:
        """Return the maximum under the pool's rows, and the prices there."""
        from scipy.sparse import vstack

        come, left = self._window
        first, last = np.where(come == NEVER, 0, come), np.where(left == NEVER, 0, ticks - left)
        open_ = np.maximum(last - first, 1)
        many = np.minimum(open_, max(self.columns // len(open_), 1))
        place = np.clip(np.arange(ticks) - first[:, None], 0, open_[:, None] - 1)
        phi, kinds = offsets_of(many)[:-1, None] + place * many[:, None] // open_[:, None], len(self.links)
        V = phi.max() + 1 + np.arange(kinds * (ticks + 1)).reshape(kinds, ticks + 1)
        transfer = int(V.max()) + 1
        always, falls = Rows(), np.diff(phi) > 0
        always.add((1, phi[:, :-1][falls]), (-1, phi[:, 1:][falls]))
        always.add((1, V[:, 1:]), (-1, V[:, :-1]))
        always.add(*zip(self.links, V[:, -1:], strict=True))
        parts = [_matrix(one, phi, V, transfer) for one in self.pool]
        matrix = vstack([*parts, always.matrix(transfer + 1)]).tocsr()
        value, (starts, ends) = np.zeros(transfer + 1), self.pairs.ends
        np.add.at(value, phi[ends, -1], self.share)
        value[-1] = self.sent
        upper = np.full(transfer + 1, MOST_PRICE / self.share.sum())
        upper[V], upper[V[:, 0]], upper[phi[starts]] = np.inf, 0, 0
        upper[-1] = MOST_PRICE / self.sent if self.sent else 0
        model = normalized("path_price", matrix, value)
        options = HighsOptions(
            method="ipm", crossover=False, tolerance=ACCURACY, time_limit=max(self.until - now(), 1.0)
        )
        result = solve(replace(model, upper=upper), "highs", options)
        if result.values is None or not result.objective:
            return None
        values = np.maximum(result.values, 0)
        price = np.minimum.accumulate(values[phi], axis=1)
        price[starts] = 0
        rent = np.maximum.accumulate(values[V], axis=1)
        if prune:
            most = LOOSE * float(rent.max())
            loose = zip(self.pool, parts, strict=True)
            self.pool[:] = [one.only(rows @ values <= most) for one, rows in loose]
        return float(result.objective), Point(price, values[-1:], rent - rent[:, :1])

    def _whole(self, point: Point) -> Point:
        """Return prices as whole numbers, as large as can be counted."""
        many = max(int(np.diff(self.pairs.first).max()) + 1, self.pairs.topology.num_nodes)
        most = min(GREATEST, COUNTED // (UNIT * point.rent.shape[1] * many))
        unit = most / max(float(one.max()) for one in point)
        return Point(*(np.rint(one * unit) for one in point))

    def _point(self, prices: PathPrices) -> Point:
        """Return the prices, scaled so that those of links add up to 1."""
        rents = float(self.links @ prices.rent[:, -1])
        return Point(prices.price / rents, np.array([prices.transfer / rents]), prices.rent / rents)


def _stretched(point: Point, ticks: int, longer: float) -> Point:
    """Return prices over `ticks` ticks with the same course over time; data is `longer` times as dear."""
    old = point.price.shape[1]
    sooner = np.arange(ticks) * old // ticks
    moments = np.arange(ticks + 1) * (old / ticks)
    rents = [np.interp(moments, np.arange(old + 1), rent) for rent in point.rent]
    return Point(point.price[:, sooner] * longer, point.transfer * longer, np.array(rents))


def _part(speed: Fraction, rate: Fraction) -> float:
    """Return the part of its time on a link of `speed` that a message takes at `rate`; 1 only if equal."""
    part = float(speed / rate)
    return part if part != 1.0 or speed == rate else float(np.nextafter(1.0, 2.0 * (speed > rate)))


def _chosen(begun: Most, ended: Most, least: float) -> Int64Array:
    """Return messages whose value exceeds their cost by more than `least`, as `coefficients` takes them."""
    sender, begin, spot = np.nonzero(begun.over > least)
    first = np.stack([sender, begin, spot, *begun.message[sender, begin, spot].T])
    sender, spot, end = np.nonzero(ended.over > least)
    begin, long, speed = ended.message[sender, spot, end].T
    last = np.stack([sender, begin, spot, end, long, speed])
    return np.unique(np.hstack([first, last]), axis=1).T


def _matrix(messages: MessageTerms, phi: Int64Array, V: Int64Array, transfer: int) -> csr_array:
    """Return the rows of messages."""
    from scipy.sparse import csr_array

    parts = []
    for table, columns in ((messages.rents, V), (messages.prices, phi)):
        message, row, moment = table[:, :3].astype(np.int64).T
        parts.append((message, columns[row, moment], table[:, 3]))
    sent = np.arange(len(messages.sent))
    parts.append((sent, np.full(len(sent), transfer), -messages.sent))
    row, column, factor = (np.concatenate(each) for each in zip(*parts, strict=True))
    return csr_array((factor, (row, column)), shape=(len(sent), transfer + 1))

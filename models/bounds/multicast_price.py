"""The bound ``multicast_price``: prices in time of data that goes from one rank to several, or the reverse.

The largest time that prices prove to be too little is found by linear programs for a few times. The proof is
in ``docs/proofs.md``. Time is cut into bins. Nodes and links that are equivalent as seen from the start s of
an item form a class, and a class has one price in each bin. For a byte of an item,

    ρ(v)        is the price at its end v;
    h(v, i)     is the price at a node v that holds it from bin i on;
    τ(v, i)     is the price at a node v that it passes in bin i;
    θ(e, i)     is the price at which it leaves over link e in bin i for the end of e;
    γ(e, i)     is the price at which it leaves over link e in bin i, to be forwarded by the end of e.

Messages over link e = (u, v) earn V(e, q) up to moment q. The prices that refute a time T best are those that

    maximize    sum over items of share (sum over ends ρ(v) - h(s, 0))
    subject to  V(e, q) ≥ V(e, p) + b (q - p - α) gain              for a message from moment p to moment q
                gain = h(v, i) - θ(e, k) or τ(v, i) - γ(e, k)       if it leaves u: for v, or through v
                gain ≥ h(v, i) - τ(u, i - α), τ(v, i) - τ(u, i - α)          if it comes through u
                h(v, i) = ρ(v), if v is an end, + sum over links e out of v (θ(e, i) + Σ_j γ(e, i + j α))
                sum over links V(e, T) = 1.

Here i is the bin before q and k the bin after p. A byte that v holds is forwarded over e at most once for
each node behind e, the j-th time at least j α later, j = 0, 1, ... If the maximum exceeds 1, T is too short.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from tutti.models.bounds.bound import ASKED_SECONDS, SECONDS, STEP, Bound, secant
from tutti.models.bounds.symmetry_classes import Views
from tutti.models.solvers import HighsOptions, solve
from tutti.models.solvers.compiled import Rows, normalized
from tutti.schedules.collective import Collective
from tutti.topologies.exact import FloatArray, Int64Array, json_number
from tutti.topologies.kernels import now
from tutti.topologies.progress import tell
from tutti.topologies.topology import Topology

MOST_BINS = 128
"""Largest number of bins of time. A larger value takes longer and proves more."""
MOST_ROWS = 2**18
"""Largest number of rows of a program, approximately, which takes seconds to minutes. If there would be more,
there are fewer bins."""
MOST_PROGRAMS, CLOSE = 6, 1e-3
"""The search ends after `MOST_PROGRAMS` programs, or if the next time is no more than the fraction `CLOSE`
above the proven one."""
HALVINGS = 30
"""Number of halvings of an interval of times."""
GREATEST_PRICE = 2**30
"""The largest price in whole numbers. With a larger value, rounding changes the solver's prices less."""
FLOAT_SLACK = 1e-7
"""Relative tolerance of times and sums. Sums of doubles err by far less. A larger value weakens bounds."""
GROWTH = 0.01
"""Largest excess of the ratio of steps over the least that is possible."""


def multicast_price_bound(
    topology: Topology, collective: Collective, size: Fraction, least: Fraction
) -> Bound | None:
    """Return the bound by the prices that the linear programs find, within seconds.

    The certificate has the size, the time, the length of a tick, and the moments in ticks. It has the
    direction (``out`` for reduced data, on the network backwards) and the start of each item. For each item
    it has its row of prices for each node (``nodes``) and link (``links``). The rows have prices at ends,
    prices of what passes, by bin, and prices of what leaves, by bin.

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
        None where it is no larger than the others, for scatters, gathers and all-to-alls, where no link has
        an α, and on large networks.
    """
    seen = Views.of(topology, collective)
    alphas = topology.alpha.numerators[topology.alpha.numerators > 0]
    if seen is None or not len(alphas):
        return None
    alpha = Fraction(int(alphas.min()), topology.alpha.denominator)
    most = min(MOST_BINS, math.isqrt(MOST_ROWS // sum(map(len, seen.uses))))
    found = _largest_time(partial(DeliveryProgram, seen, size), partial(graded, alpha, most), least)
    if found is None:
        return None
    prices, moments = found
    certificate = {
        "size_bytes": json_number(size),
        "time": json_number(moments.time),
        "tick": json_number(moments.tick),
        "moments": moments.at[:-1].tolist(),
        "direction": "out" if seen.backwards else "in",
        "starts": [item.start for item in seen.items],
        "nodes": seen.node.tolist(),
        "links": seen.view.tolist(),
        "ends": prices.end.tolist(),
        "passing": prices.passing[:, : moments.bins].tolist(),
        "leaving": prices.leaving[..., : moments.bins].tolist(),
    }
    return Bound("multicast_price", moments.time, SECONDS, certificate)


def _largest_time(
    program: Callable[[Moments], DeliveryProgram], moments: Callable[[Fraction], Moments], least: Fraction
) -> tuple[MulticastPrices, Moments] | None:
    """Return the prices of the largest time that is proven, and its moments; None if it is at most `least`.

    A program whose maximum is less than 1 proves nothing, often not even a shorter time. So programs are
    solved for times from below.

    Parameters
    ----------
    program
        Returns the program for moments.
    moments
        Returns the moments for a time in seconds.
    least
        Seconds: the first time.
    """
    end = now() + ASKED_SECONDS
    times, reciprocals = [1.0], list[float]()
    low, high = 1.0, math.inf
    found = list[tuple[MulticastPrices, Moments]]()
    while len(reciprocals) < MOST_PROGRAMS and (not reciprocals or times[-1] > low * (1 + CLOSE)):
        left = end - now()
        if left <= 0:
            break
        tell(f"multicast_price: linear program {len(reciprocals) + 1} of at most {MOST_PROGRAMS}")
        until = moments(Fraction(times[-1]) * least)
        reciprocal, prices = program(until).solved(left)
        reciprocals.append(reciprocal)
        if reciprocal >= 1:
            high = times[-1]
        elif prices is not None:
            found.append((prices, _proven(program, prices, until, least)))
            low = max(float(proven.time / least) for _, proven in found)
        if reciprocals[0] >= 1:
            break
        aim = secant(times, reciprocals) * (1 - CLOSE)  # from below
        times.append(aim if aim < high else min((low + high) / 2, low * STEP))
    better = [one for one in found if one[1].time > least]
    return max(better, key=lambda one: one[1].time, default=None)


def _proven(
    program: Callable[[Moments], DeliveryProgram], prices: MulticastPrices, moments: Moments, least: Fraction
) -> Moments:
    """Return moments of about the largest time that prices prove to be too little, at most their own."""
    low, high = 1.0, float(int(moments.at[-1]) * moments.tick / least) * (1 - FLOAT_SLACK)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        until = replace(moments, time=Fraction(middle) * least)
        low, high = (middle, high) if program(until).refuted(prices) else (low, middle)
    return replace(moments, time=Fraction(low * (1 - FLOAT_SLACK)) * least)


@dataclass(frozen=True)
class Moments:
    """Some whole ticks from 0 on, up to a time, and that time; a *bin* lies between each and the next.

    Parameters
    ----------
    time, tick
        Seconds.
    marks
        The ticks, rising from 0; those not before the time do not count.
    """

    time: Fraction
    tick: Fraction
    marks: tuple[int, ...]

    @cached_property
    def at(self) -> Int64Array:
        """Shape (bins + 1,): the moments, in ticks, the last one rounded up."""
        end = -int(-self.time // self.tick)
        return np.array([*(mark for mark in self.marks if mark < end), end])

    @property
    def bins(self) -> int:
        """The number of bins."""
        return len(self.at) - 1

    @cached_property
    def ticks(self) -> FloatArray:
        """Shape (bins + 1,): the moments, in ticks."""
        return np.minimum(self.at.astype(np.float64), float(self.time / self.tick))

    def whole(self, alpha: Int64Array | int, denominator: int) -> Int64Array:
        """Return α, over its denominator, in whole ticks, rounded down."""
        unit = self.tick * denominator
        return np.asarray(alpha) * unit.denominator // unit.numerator

    def bin_of(self, ticks: Int64Array) -> Int64Array:
        """Return the bins that begin at or before given ticks."""
        return np.searchsorted(self.at[:-1], ticks, side="right") - 1

    def before(self, ticks: int) -> Int64Array:
        """Return for each bin the one in which the moment `ticks` before its end lies; -1 for none."""
        return np.searchsorted(self.at[:-1], self.at[1:] - ticks, side="left") - 1

    def windows(self, alpha: float) -> tuple[Int64Array, Int64Array, FloatArray]:
        """Return the two moments of each message longer than α, and the time for its bytes; in ticks."""
        begin, end = np.nonzero(np.triu(np.ones((self.bins + 1,) * 2, dtype=np.bool_), 1))
        room = self.ticks[end] - self.ticks[begin] - alpha
        long = room > 0
        return begin[long], end[long], room[long]

    def most(self, worth: Int64Array, alpha: float) -> float:
        """Return the most that messages of a link earn, if each byte takes a tick.

        Parameters
        ----------
        worth
            Shape (bins, bins): the value of a byte that leaves in the one bin and arrives in the other.
        alpha
            α of the link, in ticks.
        """
        begin, end, room = self.windows(alpha)
        table = np.full((self.bins + 1,) * 2, -np.inf)
        table[begin, end] = room * worth[begin, end - 1]
        best = np.zeros(self.bins + 1)
        for moment in range(1, self.bins + 1):
            best[moment] = max(best[moment - 1], (best[:moment] + table[:moment, moment]).max())
        return float(best[-1])


def graded(alpha: Fraction, most: int, time: Fraction) -> Moments:
    """Return at most `most` moments: parts of α apart or, in a long time, α apart at first and at last.

    In the middle of a long time the distances grow by a constant ratio.
    """
    length = time / alpha
    if length <= most:
        parts = int(most / length)
        return Moments(time, alpha / parts, tuple(range(math.ceil(length * parts))))
    growth, half = 1.0, math.ceil(length / 2)
    marks = list(range(half))
    while 2 * len(marks) > most:
        growth += GROWTH
        marks, at, step = [0], 1.0, 1.0
        while at < half:
            marks.append(int(at))
            step *= growth
            at += step
    return Moments(time, alpha, tuple(sorted({*marks, *(math.ceil(length) - mark for mark in marks[1:])})))


@dataclass(frozen=True, eq=False)
class MulticastPrices:
    """Prices in whole numbers. A *view* is a class of links as items see them (`Views.views`).

    Parameters
    ----------
    end
        int64, shape (classes of nodes,): ρ.
    passing
        int64, shape (classes of nodes, bins): τ.
    leaving
        int64, shape (2, views, bins): θ, for the link's end, and then γ, to be forwarded.
    """

    end: Int64Array
    passing: Int64Array
    leaving: Int64Array


class Columns(NamedTuple):
    """The columns of a program's variables: ρ, τ, θ and γ, h, the gains of what comes through u, and V."""

    end: Int64Array
    passing: Int64Array
    leaving: Int64Array
    held: Int64Array
    gain: Int64Array
    earned: Int64Array


@dataclass(frozen=True, eq=False)
class DeliveryProgram:
    """The linear program for a time. Amounts of data are in units of M.

    Parameters
    ----------
    seen
        The network as each item sees it, with its classes of nodes and links.
    size
        M in bytes.
    moments
        The time T, and the moments that cut it into bins.
    """

    seen: Views
    size: Fraction
    moments: Moments

    @cached_property
    def rate(self) -> FloatArray:
        """The bandwidth of the links of each use (`Views.uses`), in M a tick."""
        first = [links[0] for links in self.seen.links]
        return self.seen.topology.bandwidth.floats[first] * float(self.moments.tick / self.size)

    @cached_property
    def alpha(self) -> Int64Array:
        """The α of each view, over α's denominator."""
        links = np.unique(self.seen.view, return_index=True)[1] % self.seen.topology.num_links
        return self.seen.topology.alpha.numerators[links]

    @cached_property
    def before(self) -> list[Int64Array]:
        """For each view and bin: the bin of the moment α before its end; -1 if that is before 0."""
        return [self.moments.before(int(whole)) for whole in self._ticks(self.alpha)]

    @cached_property
    def earliest(self) -> Int64Array:
        """For each view: the first bin in which data can leave."""
        return self.moments.bin_of(self._ticks(np.array([view.come for view in self.seen.views])))

    @cached_property
    def nearest(self) -> Int64Array:
        """For each class of nodes: the first bin in which data may arrive."""
        come = np.array([self.seen.apart[example] for example in self.seen.example])
        return self.moments.bin_of(self._ticks(come))

    @cached_property
    def turns(self) -> list[tuple[list[Int64Array], list[Int64Array]]]:
        """For each view: the bins in which a byte leaves to be kept at the link's end, and to be forwarded.

        Each is a list with an array for each departure: entry i is its bin if the tail holds the byte from
        bin i on. Departures after T are left out, so later arrays are shorter.
        """
        seen, at, found = self.seen, self.moments.at, list[tuple[list[Int64Array], list[Int64Array]]]()
        for view, alpha in zip(seen.views, self.alpha, strict=True):
            further = self._ticks(np.arange(seen.holders - 1) * alpha)
            forwarded = [
                self.moments.bin_of(at[: np.searchsorted(at, at[-1] - later)] + later)
                for later in further[further < at[-1]].tolist()
            ]
            # θ exists only where the link's end holds data.
            found.append(([np.arange(self.moments.bins)] * int(seen.holder[view.head]), forwarded))
        return found

    def _departures(self) -> Iterator[tuple[int, int, int, int, Int64Array]]:
        """Yield all departures of bytes from nodes that hold them.

        Each is a class of nodes, the number of links out of it, 0 for θ or 1 for γ, the class of these links,
        and bins. Entry i of the bins is the bin in which bytes leave that are there from bin i on.
        """
        for number, leaves in enumerate(self.seen.leaves):
            for view, count in leaves.items():
                for side, turns in enumerate(self.turns[view]):
                    for leave in turns:
                        yield number, count, side, view, leave

    def _ticks(self, alpha: Int64Array) -> Int64Array:
        return self.moments.whole(alpha, self.seen.topology.alpha.denominator)

    @cached_property
    def columns(self) -> Columns:
        """The columns of all variables.

        Bins in which data cannot be there yet have the column of the first bin in which it can.
        """
        seen, bins = self.seen, self.moments.bins
        classes, views, uses = len(seen.example), len(seen.views), len(seen.uses)
        shapes = [
            *((classes,), (classes, bins), (2, views, bins), (classes, bins), (views, bins), (uses, bins + 1))
        ]
        cuts = np.cumsum([math.prod(shape) for shape in shapes])
        parts = np.split(np.arange(cuts[-1]), cuts[:-1])
        columns = Columns(*(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)))
        for table, first in ((columns.passing, self.nearest), (columns.leaving, self.earliest)):
            late = np.maximum(np.arange(bins), np.minimum(first[:, None], bins - 1))
            table[:] = np.take_along_axis(table, np.broadcast_to(late, table.shape), axis=-1)
        return columns

    def solved(self, seconds: float) -> tuple[float, MulticastPrices | None]:
        """Return the reciprocal of the program's maximum, 0 if none is found in time, and its prices."""
        seen, columns = self.seen, self.columns
        value = np.zeros(int(columns.earned[-1, -1]) + 1)
        for item, node in zip(seen.items, seen.node, strict=True):
            np.add.at(value, columns.end[node[item.ends]], float(item.share))
            value[columns.held[node[item.start], 0]] -= float(item.share)
        model = normalized("multicast_price", self._rows().matrix(len(value)), value)
        result = solve(model, "highs", HighsOptions(method="ipm", crossover=False, time_limit=seconds))
        if result.values is None or not result.objective:
            return 0.0, None
        # ρ, τ, θ and γ come first, and h follows from them.
        asked = np.maximum(result.values, 0)[: columns.held[0, 0]]
        whole = np.rint(asked * (GREATEST_PRICE / (asked.max() or 1))).astype(np.int64)
        # Invariant: prices do not rise with the bin, whatever the solver's tolerance.
        falling = (np.minimum.accumulate(whole[part], axis=-1) for part in (columns.passing, columns.leaving))
        return 1 / result.objective, MulticastPrices(whole[columns.end], *falling)

    def _rows(self) -> Rows:
        """Return the constraints, each as a sum that must be 0 or more; the last one must be 1."""
        seen, columns, rows = self.seen, self.columns, Rows()
        for falling in (columns.passing, columns.leaving):
            rows.add((1, falling[..., :-1]), (-1, falling[..., 1:]))
        rows.add((1, columns.earned[:, 1:]), (-1, columns.earned[:, :-1]))
        self._held_rows(rows)
        self._through_rows(rows)
        for use, views in enumerate(seen.uses):
            windows = self.moments.windows(self._length(views[0]))
            for view in views:
                self._window_rows(rows, use, view, windows)
        rows.add((-1, columns.earned[:, 0]))
        links = [len(links) for links in seen.links]
        rows.add(*zip(links, columns.earned[:, -1:], strict=True))
        return rows

    def _held_rows(self, rows: Rows) -> None:
        """Add rows for h: the price of a byte at a node that holds it is ρ and that of its departures."""
        columns, bins = self.columns, self.moments.bins
        row = rows.add((1, columns.held)) + np.arange(columns.held.size).reshape(columns.held.shape)
        for number in np.flatnonzero(self.seen.end).tolist():
            rows.extend(row[number], -np.ones(bins), np.full(bins, columns.end[number]))
        for number, count, side, view, leave in self._departures():
            factors = np.full(len(leave), -float(count))
            rows.extend(row[number, : len(leave)], factors, columns.leaving[side, view, leave])

    def _through_rows(self, rows: Rows) -> None:
        """Add rows for the gain of a byte that comes through the tail of a link."""
        seen, columns = self.seen, self.columns
        for gain, view, before in zip(columns.gain, seen.views, self.before, strict=True):
            if view.useless or seen.start[view.tail]:
                continue
            there = np.flatnonzero(before >= 0)
            sooner = np.maximum(there - 1, 0)  # a message may end as the next bin begins
            for table in (columns.passing, *([columns.held] if seen.holder[view.head] else [])):
                passed = columns.passing[view.tail, before[there]]
                for bins in (there, sooner):
                    rows.add((1, gain[bins]), (-1, table[view.head, there]), (1, passed))
            # Where bandwidths differ, a message may be at v later than its time on the link ends.
            if not seen.topology.bandwidth.uniform:
                rows.add((1, gain[:-1]), (-1, gain[1:]))

    def _window_rows(
        self, rows: Rows, use: int, number: int, windows: tuple[Int64Array, Int64Array, FloatArray]
    ) -> None:
        """Add rows for V: what a message over a link earns from each moment to each later one (a window)."""
        seen, columns, view = self.seen, self.columns, self.seen.views[number]
        if view.useless:
            return
        begin, end, room = windows
        kept = begin >= self.earliest[number]
        p, q, brings = begin[kept], end[kept], self.rate[use] * room[kept]
        each = (1, columns.earned[use, q]), (-1, columns.earned[use, p])
        if not seen.start[view.tail]:
            rows.add(*each, (-brings, columns.gain[number, q - 1]))
        if seen.holder[view.tail]:
            ends, forwarded = columns.leaving[:, number, p]
            if seen.holder[view.head]:
                rows.add(*each, (-brings, columns.held[view.head, q - 1]), (brings, ends))
            rows.add(*each, (-brings, columns.passing[view.head, q - 1]), (brings, forwarded))

    def _length(self, number: int) -> float:
        """Return α of a view, measured in ticks."""
        denominator = self.seen.topology.alpha.denominator
        return float(Fraction(int(self.alpha[number]), denominator) / self.moments.tick)

    def refuted(self, prices: MulticastPrices) -> bool:
        """Return whether links earn less in the time than moving the data costs: then it is too short."""
        seen, held, cost = self.seen, self._held(prices), 0.0
        for item, node in zip(seen.items, seen.node, strict=True):
            cost += float(item.share) * int(prices.end[node[item.ends]].sum() - held[node[item.start], 0])
        return cost > self._earned(prices, held) * (1 + FLOAT_SLACK)

    def _held(self, prices: MulticastPrices) -> Int64Array:
        """Return the price of a byte at a node that holds it, by class and bin."""
        seen, bins = self.seen, self.moments.bins
        held = np.repeat((prices.end * seen.end)[:, None], bins, axis=1)
        for number, count, side, view, leave in self._departures():
            held[number, : len(leave)] += count * prices.leaving[side, view, leave]
        return held

    def _earned(self, prices: MulticastPrices, held: Int64Array) -> float:
        """Return what all links earn at most."""
        seen, bins, total = self.seen, self.moments.bins, 0.0
        for views, links, rate in zip(seen.uses, seen.links, self.rate, strict=True):
            value = np.zeros((bins, bins), dtype=np.int64)
            # A message may have bytes of several items: it earns as much as the most expensive of them.
            for number in views:
                first = self.earliest[number]
                if not seen.views[number].useless:
                    value[first:] = np.maximum(value[first:], self._value(number, prices, held)[first:])
            total += len(links) * rate * self.moments.most(value, self._length(views[0]))
        return total

    def _value(self, number: int, prices: MulticastPrices, held: Int64Array) -> Int64Array:
        """Return what a byte earns on a link at most, by the bins in which it leaves and arrives."""
        seen, bins, view = self.seen, self.moments.bins, self.seen.views[number]
        passing, holds = prices.passing[view.head, :bins], seen.holder[view.head]
        gain = np.zeros(bins, dtype=np.int64)
        if not seen.start[view.tail]:
            there = np.maximum(passing, held[view.head]) if holds else passing
            before = self.before[number]
            gain = np.where(before >= self.earliest[number], there - prices.passing[view.tail, before], 0)
            # The same relaxations as in `_through_rows`: any later bin, and the bin after q.
            if not seen.topology.bandwidth.uniform:
                gain = np.maximum.accumulate(gain[::-1])[::-1]
            gain = np.maximum(gain, np.append(gain[1:], 0))
        value = np.broadcast_to(gain, (bins, bins))
        if seen.holder[view.tail]:
            ends, forwarded = prices.leaving[:, number, :bins, None]
            value = np.maximum(value, passing - forwarded)
            if holds:
                value = np.maximum(value, held[view.head] - ends)
        return value

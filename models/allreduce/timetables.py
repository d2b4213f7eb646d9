"""The bound ``timetables``: prices of what pairs of ranks hear, in time; proof in `models.bounds.check`.

The best prices for a time T are a linear program over windows of time, in ticks, on classes of nodes and
links that look alike. φ(c, k) is the price in tick k of a byte of a pair's data at a node of class c (as the
pair sees nodes), π that of a transfer, μ(o) that of a second of a link of class o, and V(o, k) what such a
link can earn by tick k:

    maximize    sum over pairs (φ(end, last) - φ(start, 0)) + 2 (N - 1) π
    subject to  V(o, q) ≥ V(o, p) + b (q + 1 - p - α) (π + sum over pairs of gains - μ) - b α μ
                gain ≥ φ(v, q) - φ(u, p), gain ≥ 0        from u to v, in a message from tick p to q
                φ(c, k) ≥ φ(c, k + 1)
                sum over o of links_o (V(o, last) + b T μ(o)) = 1

A message that comes through u gets no π, and φ(u, q - α) stands for φ(u, p). If the maximum exceeds 1, T is
too little. It falls about as 1 / (T - c): secants of its reciprocal lead to where it is 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from models.bounds.bound import SECONDS, Bound
from models.solvers import CompiledModel, HighsOptions, solve
from models.solvers.rows import Rows
from models.solvers.secant import secant
from schedules.collective import Collective, Kind
from topologies.exact import FloatArray, Int64Array, json_number
from topologies.graphs.shortest_paths import alpha_distances
from topologies.graphs.symmetry import UInt64Array, link_kinds, mixed, refine
from topologies.topology import Topology

MOST_TICKS = 64
"""From the beginning to the end, about; the least α has one at least."""
MOST_ROWS = 2**17
"""Of a program, about: minutes. Where there would be more, ticks are longer."""
MOST_WORK = 2**32
"""Pairs times nodes, and times links, of the networks that are looked at."""
MOST_PROGRAMS, CLOSE = 4, 2e-3
"""When secants end: after so many, or with times so near to each other (relatively)."""
GREATEST_PRICE = 2**30
FLOAT_SLACK = 1e-7
"""Of times, relatively: sums of doubles err by far less."""
HALVINGS = 30
"""Of an interval of times."""


def timetables_bound(
    topology: Topology, collective: Collective, size: Fraction, least: Fraction
) -> Bound | None:
    """Return the bound by the prices that the linear programs find, within minutes.

    The certificate has the size, the time, the length of a tick, the pairs, and for each its table of which
    row of prices each node has; the prices by tick, that of a transfer, and those of a second of each link.

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
        None where it is no larger than the others, but for an allreduce of all ranks, where a link has no α
        or much less than T, where switches copy or add, and on large networks with little symmetry.
    """
    able = topology.multicast or topology.aggregate or not topology.alpha.numerators.all()
    if able or collective.kind is not Kind.ALLREDUCE or collective.groups is not None:
        return None
    pairs = _Pairs.of(topology)
    found = pairs and _search(pairs, size, least)
    if not pairs or not found:
        return None
    prices, time = found
    certificate = {
        "size_bytes": json_number(size),
        "time": json_number(time),
        "tick": json_number(prices.tick),
        "pairs": pairs.ends.tolist(),
        "rows": pairs.node.tolist(),
        "prices": prices.node[:, : int(time / prices.tick) + 1].tolist(),
        "transfer": prices.transfer,
        "seconds": prices.second[pairs.use].tolist(),
    }
    return Bound("timetables", time, SECONDS, certificate)


class _Way(NamedTuple):
    """How pairs see links alike: classes of their ends, and their class.

    `come` and `left` are the distances from the pair's start to the tail, and from the head to its end.
    """

    tail: int
    head: int
    kind: int
    come: int
    left: int


class _Use(NamedTuple):
    """How all pairs may use a link of a class at once: how often in each way."""

    kind: int
    ways: Counter[int]


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs of ranks as far apart as can be, all alike, and how each sees the network.

    Parameters
    ----------
    topology
        The network.
    ends
        Shape (pairs, 2).
    node
        Shape (pairs, nodes): classes of nodes, alike where a pair sees nodes alike.
    kind
        Shape (links,): the class of each link.
    apart
        Shape (nodes, nodes): α-distances over α's denominator.
    """

    topology: Topology
    ends: Int64Array
    node: Int64Array
    kind: Int64Array
    apart: Int64Array

    @classmethod
    def of(cls, topology: Topology) -> _Pairs | None:
        """Return the most that are alike; None for too many."""
        ranks, links = topology.num_ranks, topology.num_links
        apart = alpha_distances(topology)
        away = apart[:ranks, :ranks]
        ends = np.argwhere(away == away.max())
        if len(ends) * (topology.num_nodes + links) > MOST_WORK // MOST_TICKS**2:
            return None
        kinds = np.array([mixed(np.uint64(one)) for one in link_kinds(topology)], np.uint64)

        def seen(*marked: int) -> UInt64Array:
            colours = np.full(topology.num_nodes, mixed(np.uint64(0)), np.uint64)
            colours[:ranks] = mixed(np.uint64(1))
            for number, rank in enumerate(marked):
                colours[rank] = mixed(np.uint64(2 + number))
            return refine(colours, topology.source, topology.target, kinds)[0]

        views = np.array([seen(start, end) for start, end in ends.tolist()])
        _, alike, count = np.unique(np.sort(views), axis=0, return_inverse=True, return_counts=True)
        most = np.flatnonzero(alike.ravel() == count.argmax())
        node, ends = np.unique(views[most], return_inverse=True)[1].reshape(len(most), -1), ends[most]
        plain = seen()
        sides = np.stack([plain[topology.source], plain[topology.target], kinds])
        return cls(topology, ends, node, np.unique(sides, axis=1, return_inverse=True)[1].ravel(), apart)

    @cached_property
    def first(self) -> Int64Array:
        """A link of each class."""
        return np.unique(self.kind, return_index=True)[1]

    @cached_property
    def _seen(self) -> tuple[list[_Way], Int64Array]:
        """How pairs see links, and which way each pair sees each, -1 where it is of no use to it."""
        source, target, away = self.topology.source, self.topology.target, self.apart
        sides = np.stack(
            [
                *(self.node[:, source], self.node[:, target]),
                np.broadcast_to(self.kind, (len(self.ends), len(source))),
                *(away[self.ends[:, 0]][:, source], away[target][:, self.ends[:, 1]].T),
            ]
        )
        ways, which = np.unique(sides.reshape(5, -1), axis=1, return_inverse=True)
        of_use = (ways >= 0).all(axis=0)
        number = np.where(of_use, np.cumsum(of_use) - 1, -1)[which.ravel()]
        return [_Way(*way) for way in ways[:, of_use].T.tolist()], number.reshape(sides.shape[1:])

    @property
    def ways(self) -> list[_Way]:
        """How pairs see links."""
        return self._seen[0]

    @cached_property
    def _used(self) -> tuple[list[list[int]], Int64Array]:
        columns = np.vstack([self.kind, np.sort(self._seen[1], axis=0)])
        found, use = np.unique(columns, axis=1, return_inverse=True)
        return found.T.tolist(), use.ravel()

    @cached_property
    def uses(self) -> list[_Use]:
        """How pairs may use links."""
        return [_Use(kind, Counter(way for way in ways if way >= 0)) for kind, *ways in self._used[0]]

    @property
    def use(self) -> Int64Array:
        """Shape (links,): which of these each link has."""
        return self._used[1]

    @cached_property
    def links(self) -> Int64Array:
        """How many links have each."""
        return np.bincount(self.use)

    @property
    def transfers(self) -> int:
        """Of a byte."""
        return 2 * (self.topology.num_ranks - 1)

    @property
    def goal(self) -> tuple[int, int]:
        """The classes of the first pair's start and end, as of all."""
        start, end = self.node[0][self.ends[0]].tolist()
        return start, end


@dataclass(frozen=True, eq=False)
class _Prices:
    """Whole numbers: by class of nodes and tick, of a transfer, and of a byte's time on links by use."""

    tick: Fraction
    node: Int64Array
    transfer: int
    second: Int64Array


class _Columns(NamedTuple):
    """Columns of a program: of φ, V, μ, π, the gains of what begins and of what comes through by way."""

    phi: Int64Array
    V: Int64Array
    second: Int64Array
    transfer: Int64Array
    begins: list[Int64Array]
    through: list[Int64Array]
    size: int


def _search(pairs: _Pairs, size: Fraction, least: Fraction) -> tuple[_Prices, Fraction] | None:
    """Return the prices of the largest time that is proven, and this; None for none."""
    times, reciprocals = [1.0], list[float]()
    best: tuple[_Prices, Fraction] | None = None
    while len(reciprocals) < MOST_PROGRAMS and (len(times) < 2 or abs(times[-1] - times[-2]) > CLOSE):
        time = Fraction(times[-1]) * least
        tick = _tick(pairs, time)
        if tick is None:
            break
        reciprocal, prices = _Program(pairs, size, time, tick).solved()
        reciprocals.append(reciprocal)
        if reciprocals[0] >= 1:
            break
        if prices is not None:
            proven = _proven(pairs, size, prices, least)
            best = max(best or (prices, least), (prices, proven), key=lambda found: found[1])
        times.append(secant(times, reciprocals))
    return best if best and best[1] > least else None


def _tick(pairs: _Pairs, time: Fraction) -> Fraction | None:
    """Return a part of the least α that gives as many ticks as there is room for; None for less than α."""
    topology = pairs.topology
    alpha = Fraction(int(topology.alpha.numerators.min()), topology.alpha.denominator)
    most = min(MOST_TICKS, math.isqrt(MOST_ROWS // (len(pairs.ways) + len(pairs.uses))))
    parts = int(most * alpha / time)
    return alpha / parts if parts else None


def _proven(pairs: _Pairs, size: Fraction, prices: _Prices, least: Fraction) -> Fraction:
    """Return the largest time that prices prove to be too little, about."""
    low, high = 1.0, float(prices.tick * prices.node.shape[1] / least) * (1 - FLOAT_SLACK)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        program = _Program(pairs, size, Fraction(middle) * least, prices.tick)
        low, high = (middle, high) if program.refuted(prices) else (low, middle)
    return Fraction(low * (1 - FLOAT_SLACK)) * least


@dataclass(frozen=True, eq=False)
class _Program:
    """The linear program for a time. Bytes are in units of M."""

    pairs: _Pairs
    size: Fraction
    time: Fraction
    tick: Fraction

    @cached_property
    def last(self) -> int:
        """The last tick."""
        return int(self.time / self.tick)

    @cached_property
    def alpha(self) -> FloatArray:
        """Of each class of links, in ticks."""
        alpha = self.pairs.topology.alpha
        return alpha.numerators[self.pairs.first] / float(self.tick * alpha.denominator)

    @cached_property
    def whole(self) -> Int64Array:
        """The same in whole ticks."""
        return self._ticks(self.pairs.topology.alpha.numerators[self.pairs.first])

    @cached_property
    def rate(self) -> FloatArray:
        """Of each class of links, in a tick."""
        return self.pairs.topology.bandwidth.floats[self.pairs.first] * float(self.tick / self.size)

    @cached_property
    def windows(self) -> list[tuple[Int64Array, Int64Array, FloatArray]]:
        """Of each class of links: first and last ticks of messages, and what these bring at most."""
        begin, end = np.nonzero(np.triu(np.ones((self.last + 1,) * 2, dtype=np.bool_), 1))
        found = []
        for whole, alpha, rate in zip(self.whole, self.alpha, self.rate, strict=True):
            long = end - begin >= whole
            p, q = begin[long], end[long]
            room = np.minimum(q + 1 - p, float(self.time / self.tick)) - alpha
            found.append((p, q, rate * np.maximum(room, 0)))
        return found

    @cached_property
    def used(self) -> list[tuple[_Way, Int64Array]]:
        """Each way of seeing a link, and which of its windows are neither too early nor too late."""
        found = []
        for way in self.pairs.ways:
            p, q, _ = self.windows[way.kind]
            late = self.time - Fraction(way.left, self.pairs.topology.alpha.denominator)
            found.append((way, np.flatnonzero((p >= self._ticks(way.come)) & (q <= late // self.tick))))
        return found

    def _ticks(self, alpha: Int64Array | int) -> Int64Array:
        unit = self.tick * self.pairs.topology.alpha.denominator
        return np.asarray(alpha) * unit.denominator // unit.numerator

    def _begins(self, kind: int) -> bool:
        """Whether messages begin where these links do: at ranks."""
        topology = self.pairs.topology
        return int(topology.source[self.pairs.first[kind]]) < topology.num_ranks

    def solved(self) -> tuple[float, _Prices | None]:
        """Return the reciprocal of the program's maximum, 0 if it has none, and its prices."""
        columns = self._columns
        start, end = self.pairs.goal
        value = np.zeros(columns.size)
        value[columns.phi[end, -1]] += len(self.pairs.ends)
        value[columns.phi[start, 0]] -= len(self.pairs.ends)
        value[columns.transfer] = self.pairs.transfers
        matrix = self._rows().matrix(columns.size)
        above = np.append(np.full(matrix.shape[0] - 1, np.inf), 1.0)
        below = np.append(np.zeros(matrix.shape[0] - 1), 1.0)
        model = CompiledModel.of_matrix("timetables", matrix, value, below, above, maximize=True)
        result = solve(model, "highs", HighsOptions(method="ipm", crossover=False))
        if result.values is None or not result.objective:
            return 0.0, None
        found = np.maximum(result.values[: columns.transfer[0] + 1], 0)
        whole = np.rint(found * (GREATEST_PRICE / (found.max() or 1))).astype(np.int64)
        node = np.minimum.accumulate(whole[columns.phi], axis=1)
        prices = _Prices(self.tick, node, int(whole[columns.transfer[0]]), whole[columns.second])
        return 1 / result.objective, prices

    @cached_property
    def _columns(self) -> _Columns:
        classes, moments, uses = int(self.pairs.node.max()) + 1, self.last + 1, len(self.pairs.uses)
        gains = [len(used) for _, used in self.used]
        ends = np.cumsum([classes * moments, uses * moments, uses, 1, *gains, *gains])
        phi, V, second, transfer, *rest = np.split(np.arange(ends[-1]), ends[:-1])
        return _Columns(
            *(phi.reshape(classes, moments), V.reshape(uses, moments), second, transfer),
            *(rest[: len(gains)], rest[len(gains) :], int(ends[-1])),
        )

    def _rows(self) -> Rows:
        phi, V, second, transfer, begins, through, _ = self._columns
        rows = Rows()
        rows.add((1, phi[:, :-1]), (-1, phi[:, 1:]))
        rows.add((1, V[:, 1:]), (-1, V[:, :-1]))
        for (way, used), begun, passed in zip(self.used, begins, through, strict=True):
            p, q = self.windows[way.kind][0][used], self.windows[way.kind][1][used]
            rows.add((1, begun), (-1, phi[way.head, q]), (1, phi[way.tail, p]))
            rows.add((1, passed), (-1, phi[way.head, q]), (1, phi[way.tail, q - self.whole[way.kind]]))
        for number, (kind, ways) in enumerate(self.pairs.uses):
            p, q, brings = self.windows[kind]
            lost = brings + self.rate[kind] * self.alpha[kind]
            each = (1, V[number, q]), (-1, V[number, p]), (lost, np.broadcast_to(second[number], len(p)))
            paid = (-brings, np.broadcast_to(transfer, len(p)))
            sorts = [(through, rows.add(*each))]
            if self._begins(kind):
                sorts.append((begins, rows.add(*each, paid)))
            for gains, first in sorts:
                for one, often in ways.items():
                    used = self.used[one][1]
                    rows.extend(first + used, -brings[used] * often, gains[one])
        rate = self.rate[[kind for kind, _ in self.pairs.uses]]
        offered = self.pairs.links * rate * float(self.time / self.tick)
        rows.add(*zip(self.pairs.links, V[:, -1:], strict=True), *zip(offered, second[:, None], strict=True))
        return rows

    def refuted(self, prices: _Prices) -> bool:
        """Return whether links earn less by then than what is moved costs."""
        start, end = self.pairs.goal
        chain = float(prices.node[end, self.last] - prices.node[start, 0])
        cost = len(self.pairs.ends) * chain + self.pairs.transfers * prices.transfer
        return cost > sum(self._earned(prices)) * (1 + FLOAT_SLACK)

    def _earned(self, prices: _Prices) -> Sequence[float]:
        """Return what all links of each class earn at most."""
        found = []
        for (kind, ways), second, links in zip(
            self.pairs.uses, prices.second.tolist(), self.pairs.links.tolist(), strict=True
        ):
            p, q, brings = self.windows[kind]
            begins, through = np.zeros((2, len(p)))
            for number, often in ways.items():
                way, used = self.used[number]
                there = prices.node[way.head, q[used]]
                begins[used] += often * np.maximum(there - prices.node[way.tail, p[used]], 0)
                through[used] += often * self._through(prices, way, q[used])
            worth = np.maximum(begins + prices.transfer, through) if self._begins(kind) else through
            table = np.full((self.last + 1,) * 2, -np.inf)
            table[p, q] = brings * (worth - second) - self.rate[kind] * self.alpha[kind] * second
            best = np.zeros(self.last + 1)
            for tick in range(1, self.last + 1):
                best[tick] = max(best[tick - 1], (best[:tick] + table[:tick, tick]).max())
            whole = second * self.rate[kind] * float(self.time / self.tick)
            found.append(float(links * (best[-1] + whole)))
        return found

    def _through(self, prices: _Prices, way: _Way, q: Int64Array) -> Int64Array:
        """Return the gains of what comes through: the most of any later tick where links are unlike."""
        whole = int(self.whole[way.kind])
        gain = np.zeros(self.last + 1, dtype=np.int64)
        latest = int(q.max(initial=-1)) + 1
        gain[whole:latest] = (
            prices.node[way.head, whole:latest] - prices.node[way.tail, : max(latest - whole, 0)]
        )
        gain = np.maximum(gain, 0)
        if not self.pairs.topology.bandwidth.uniform:
            gain = np.maximum.accumulate(gain[::-1])[::-1]
        return gain[q]

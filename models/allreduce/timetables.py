"""The bound ``timetables``: prices of what pairs of ranks hear, in time; proof in `models.bounds.check`.

Prices stand at knots, moments from 0 to T, and are linear between. φ(c, t) is that of a byte of a pair's data
at a node of class c (as the pair sees nodes), π that of a transfer, and V(o, t) what a link of class o has
earned by t at most. The best for T are a linear program on classes of nodes and links that look alike:

    maximize    sum over pairs (φ(end, T) - φ(start, 0)) + 2 (N - 1) π
    subject to  V(o, e) - V(o, s) ≥ (e - s - α) (π + sum over pairs of gains)    for messages from s to e
                gain ≥ φ(v, e) - φ(u, s), gain ≥ 0                               from u to v
                φ(c, k) ≥ φ(c, k + 1)
                sum over o of links_o b V(o, T) = 1

A message that comes through u gets no π, and φ(u, e - α) stands for φ(u, s). If the maximum exceeds 1, T is
too little. Four kinds of rows for each two cells between knots (`corners`), for each choice of pairs that
gain, imply it for all moments. They are added where prices break them. The maximum falls about as
1 / (T - c): secants of its reciprocal lead to where it is 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from models.bounds.bound import SECONDS, Bound
from models.solvers import HighsOptions, solve
from models.solvers.rows import Rows, normalized
from models.solvers.secant import STEP, secant
from schedules.collective import Collective, Kind
from topologies.exact import FloatArray, Int64Array, json_number
from topologies.graphs.shortest_paths import alpha_distances
from topologies.graphs.symmetry import UInt64Array, link_kinds, mixed, refine
from topologies.topology import Topology

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_KNOTS, MOST_COLUMNS, MOST_SEEN = 72, 4500, 1300
"""Of a program, and of knots times ways to see a link: minutes. Where there are more, knots are fewer."""
MOST_PARTS, NEAR, STRETCH, MOST_STRETCH = 8, 8, 1.1, 4
"""Knots to an α; α's from either end where cells begin to grow if they must; how much each, and at most."""
MOST_WORK = 2**20
"""Pairs times nodes, and times links, of the networks that are looked at."""
MOST_ROUNDS, NEARLY = 40, 4e-3
"""When rows are added no more: after so many times, or with prices so near to the best (relatively)."""
BROKEN = 1e-4
"""By how much rows are broken that are added, relatively to what a link earns."""
MOST_PRICE = 10
"""Of all pairs and of all transfers; the maximum is about 1."""
ACCURACY = 1e-5
"""Of the program's optimum: prices are proven anyway."""
MOST_PROGRAMS, CLOSE, AIM = 6, 1e-3, 3e-4
"""When secants end: after so many, or with times so near to each other; where: above 1 (relatively)."""
UNITS = 2**16
"""Of time, in T at least."""
MOST_VALUE = 2**60
"""Of whole numbers."""
FLOAT_SLACK = 1e-7
"""Of sums, relatively: doubles err by far less."""
HALVINGS = 12
"""Of an interval of times."""


def timetables_bound(
    topology: Topology, collective: Collective, size: Fraction, least: Fraction
) -> Bound | None:
    """Return the bound by the prices that the linear programs find, within minutes.

    The certificate has the size, the time, its unit and knots, the pairs, and for each which row of prices
    each node has; the prices by knot, that of a transfer, and which row each link has of what is earned by
    each knot, by price and unit of time.

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
        None where it is no larger than the others, but for an allreduce of all ranks, where no link has an
        α, where switches copy or add, and on large networks with little symmetry.
    """
    able = topology.multicast or topology.aggregate or not topology.alpha.numerators.any()
    if able or collective.kind is not Kind.ALLREDUCE or collective.groups is not None:
        return None
    pairs = _Pairs.of(topology)
    if pairs is None:
        return None
    # Of many knots the rounds may end before anything is proven.
    found = _search(pairs, size, least, MOST_KNOTS) or _search(pairs, size, least, MOST_KNOTS // 2)
    if found is None:
        return None
    prices, knots = found
    unit = _unit(pairs, least)
    time = int(knots[-1]) * unit
    certificate = {
        "size_bytes": json_number(size),
        "time": json_number(time),
        "unit": json_number(unit),
        "knots": knots.tolist(),
        "pairs": pairs.ends.tolist(),
        "rows": pairs.node.tolist(),
        "prices": prices.node.tolist(),
        "transfer": prices.transfer,
        "links": pairs.use.tolist(),
        "earned": prices.earned.tolist(),
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
        if len(ends) * (topology.num_nodes + links) > MOST_WORK:
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
    """Whole numbers: by class of nodes and knot, of a transfer, and what links earn, by use and knot."""

    node: Int64Array
    transfer: int
    earned: Int64Array


Table = npt.NDArray[Any]
"""Of whole numbers or floats."""


class _Corner(NamedTuple):
    """Of two cells, or a cell and a knot, or two knots: how far each reaches, and what is multiplied.

    The first of `terms` are the knots of the gain, the others those of the bytes; numbers are from the cells'
    first knots.
    """

    begin: int
    end: int
    terms: list[tuple[tuple[int, int], tuple[int, int]]]


CORNERS = [
    _Corner(
        *(begin, end),
        [((s, e), (begin - s, end - e)) for s in range(begin + 1) for e in range(end + 1)],
    )
    for begin in range(2)
    for end in range(2)
]
"""A gain and the bytes are linear in s and in e; of their product these have the Bernstein coefficients."""


def corners(gain: Table, room: Table) -> Iterator[Table]:
    """Return the coefficients of two tables' products, times how many terms each has."""
    begins, ends = gain.shape
    for begin, end, terms in CORNERS:
        shape = begins - begin, ends - end
        yield np.sum([_part(gain, one, shape) * _part(room, two, shape) for one, two in terms], axis=0)


def _part(table: Table, first: tuple[int, int], shape: tuple[int, int]) -> Table:
    return table[first[0] : first[0] + shape[0], first[1] : first[1] + shape[1]]


def _unit(pairs: _Pairs, least: Fraction) -> Fraction:
    """Return the unit of time: every α is some whole number of them."""
    unit = Fraction(1, pairs.topology.alpha.denominator)
    return unit / max(1, int(UNITS * unit / least))


def _knots(pairs: _Pairs, time: int, unit: Fraction, most: int) -> Int64Array:
    """Return knots from 0 to a time, the same from either end, as many as there is room for."""
    topology = pairs.topology
    alphas = topology.alpha.numerators[topology.alpha.numerators > 0]
    alpha = float(alphas.min() / (topology.alpha.denominator * unit))
    seen = max(len(use.ways) for use in pairs.uses)
    most = min(most, MOST_COLUMNS // (int(pairs.node.max()) + 1 + len(pairs.uses)), MOST_SEEN // seen)
    parts, stretch = MOST_PARTS, 1.0
    while True:
        half, step = [0.0], alpha / parts
        while half[-1] + step * 1.5 < time / 2:
            half.append(half[-1] + step)
            step *= stretch if half[-1] >= NEAR * alpha else 1.0
        if 2 * len(half) <= most or stretch > MOST_STRETCH:
            first = np.rint(half).astype(np.int64)
            return np.concatenate([first, time - first[::-1]])
        parts, stretch = max(parts - 1, 1), stretch * STRETCH if parts == 1 else 1.0


def _search(pairs: _Pairs, size: Fraction, least: Fraction, most: int) -> tuple[_Prices, Int64Array] | None:
    """Return the prices of the largest time that is proven, and its knots; None for none."""
    unit = _unit(pairs, least)
    times, reciprocals = [1.0], list[float]()
    best: tuple[_Prices, Int64Array] | None = None
    while len(reciprocals) < MOST_PROGRAMS and (
        len(times) < 2 or abs(times[-1] - times[-2]) > CLOSE or reciprocals[-1] > 1
    ):
        knots = _knots(pairs, int(Fraction(times[-1]) * least / unit) + 1, unit, most)
        program = _Program(pairs, size, unit, knots)
        found = program.solved()
        if found is None:
            break
        reciprocals.append((1 + AIM) / program.excess(found))
        if reciprocals[0] >= 1 + AIM:
            break
        proven = _proven(program, found)
        if proven and (best is None or proven[1][-1] > best[1][-1]):
            best = proven
        # as if all time earned alike, which is too late
        later = times[-1] / reciprocals[-1]
        times.append(secant(times, reciprocals) if len(times) > 1 else min(later, times[-1] * STEP))
    return best if best and int(best[1][-1]) * unit > least else None


def _proven(program: _Program, prices: _Prices) -> tuple[_Prices, Int64Array] | None:
    """Return prices and knots of about the largest time that prices prove to be too little, if any.

    The middle cell becomes longer or shorter.
    """
    knots = program.knots
    middle = len(knots) // 2
    high = int(knots[middle] - knots[middle - 1]) // 2
    low = -high
    best: tuple[_Prices, Int64Array] | None = None
    for _ in range(HALVINGS):
        moved = np.append(knots[:middle], knots[middle:] + (low + high) // 2)
        other = replace(program, knots=moved)
        repaired = other.repaired(prices)
        if other.excess(repaired) > 1 + FLOAT_SLACK:
            best, low = (repaired, moved), (low + high) // 2
        else:
            high = (low + high) // 2
    return best


class _Columns(NamedTuple):
    """Columns of a program."""

    phi: Int64Array
    V: Int64Array
    transfer: int


class _Broken(NamedTuple):
    """Rows that prices break: of a use, from where on it is, at a corner of cells by s and e."""

    use: int
    through: bool
    corner: _Corner
    s: Int64Array
    e: Int64Array


@dataclass(frozen=True, eq=False)
class _Program:
    """The linear program for a time. Bytes are in units of M, knots in units of time."""

    pairs: _Pairs
    size: Fraction
    unit: Fraction
    knots: Int64Array

    @cached_property
    def alpha(self) -> Int64Array:
        """Of each class of links."""
        alpha = self.pairs.topology.alpha
        unit = self.unit * alpha.denominator
        return alpha.numerators[self.pairs.first] * unit.denominator // unit.numerator

    @cached_property
    def rate(self) -> FloatArray:
        """Of each use, in a unit."""
        rate = self.pairs.topology.bandwidth.floats[self.pairs.first] * float(self.unit / self.size)
        return self.pairs.links * rate[[kind for kind, _ in self.pairs.uses]]

    @cached_property
    def rooms(self) -> list[Int64Array]:
        """Of each class of links: what a message from a knot to another brings at most, in time."""
        length = self.knots - self.knots[:, None]
        return [np.maximum(length - alpha, 0) for alpha in self.alpha.tolist()]

    @cached_property
    def before(self) -> list[Int64Array]:
        """Of each class of links: knots not before α ago.

        From one knot to the next they go one knot on at most, or both are too late, so that prices are
        no lower than what is linear between theirs.
        """
        found = []
        for alpha in self.alpha.tolist():
            ago = np.searchsorted(self.knots, self.knots - alpha)
            ago[:-1] = np.maximum(ago[:-1], ago[1:] - 1)
            found.append(ago)
        return found

    @cached_property
    def useful(self) -> list[tuple[int, int]]:
        """Of each way: the last knot before which it is of no use, and the first after which."""
        unit = self.unit * self.pairs.topology.alpha.denominator
        found = []
        for way in self.pairs.ways:
            come, left = (distance * unit.denominator // unit.numerator for distance in (way.come, way.left))
            first = int(np.searchsorted(self.knots, come, side="right")) - 1
            found.append((first, int(np.searchsorted(self.knots, self.knots[-1] - left))))
        return found

    @cached_property
    def columns(self) -> _Columns:
        """Of φ and V by knot, and of π."""
        classes, uses, knots = int(self.pairs.node.max()) + 1, len(self.pairs.uses), len(self.knots)
        phi, V = np.split(np.arange((classes + uses) * knots), [classes * knots])
        return _Columns(phi.reshape(-1, knots), V.reshape(-1, knots), (classes + uses) * knots)

    @cached_property
    def value(self) -> FloatArray:
        """What is maximized, by column."""
        value = np.zeros(self.columns.transfer + 1)
        each = np.arange(len(self.pairs.ends))
        start, end = (self.pairs.node[each, self.pairs.ends[:, side]] for side in (0, 1))
        np.add.at(value, self.columns.phi[end, -1], 1)
        np.add.at(value, self.columns.phi[start, 0], -1)
        value[-1] = self.pairs.transfers
        return value

    def excess(self, prices: _Prices) -> float:
        """Return what is moved costs over what links earn."""
        cost = float(self.value[:-1][self.columns.phi].ravel() @ prices.node.ravel())
        cost += self.pairs.transfers * prices.transfer
        return cost / max(float(self.rate @ prices.earned[:, -1]), 1e-300)

    def solved(self) -> _Prices | None:
        """Return the best prices, whole numbers that keep all rows; None for none."""
        from scipy.sparse import vstack

        rows, most = self._rows(self._first(), None), 0.0
        best: _Prices | None = None
        for _ in range(MOST_ROUNDS):
            found = self._optimum(rows)
            if found is None:
                break
            objective, values = found
            prices = self.repaired(self._whole(values))
            if self.excess(prices) > most:
                best, most = prices, self.excess(prices)
            if most > objective * (1 - NEARLY):
                break
            broken = list(self._broken(values))
            if not broken:
                break
            rows = vstack([rows, self._rows(broken, values)])
        return best

    def _optimum(self, rows: csr_array) -> tuple[float, FloatArray] | None:
        """Return the program's maximum with these rows, about, and the values of its columns."""
        from scipy.sparse import vstack

        phi, V, transfer = self.columns
        always = Rows()
        always.add((1, phi[:, :-1]), (-1, phi[:, 1:]))
        always.add((1, V[:, 1:]), (-1, V[:, :-1]))
        always.add(*zip(self.rate * float(self.knots[-1]), V[:, -1:], strict=True))
        matrix = vstack([rows, always.matrix(transfer + 1)]).tocsr()
        model = normalized("timetables", matrix, self.value)
        upper = np.full(transfer + 1, MOST_PRICE / len(self.pairs.ends))
        upper[V], upper[V[:, 0]], upper[transfer] = np.inf, 0, MOST_PRICE / self.pairs.transfers
        options = HighsOptions(method="ipm", crossover=False, tolerance=ACCURACY)
        result = solve(replace(model, upper=upper), "highs", options)
        if result.values is None or not result.objective:
            return None
        return result.objective, np.maximum(result.values, 0)

    def _whole(self, values: FloatArray) -> _Prices:
        """Return whole numbers in proportion to what columns are."""
        phi, V, transfer = self.columns
        last = int(self.knots[-1])
        most = MOST_VALUE // (8 * last * (len(self.pairs.ends) + 1))
        scale = most / max(float(values[phi].max()), float(values[transfer]), 1e-300)
        node = np.minimum.accumulate(np.rint(values[phi] * scale).astype(np.int64), axis=1)
        earned = np.maximum.accumulate(np.rint(values[V] * (scale * last)).astype(np.int64), axis=1)
        return _Prices(node, int(values[transfer] * scale), earned)

    def _first(self) -> Iterator[_Broken]:
        """Return the rows to begin with: of short messages, from knot to knot."""
        length = self.knots - self.knots[:, None]
        for number, (kind, _) in enumerate(self.pairs.uses):
            alpha = self.alpha[kind]
            short = (length > alpha) & ((length <= 4 * alpha) | np.eye(len(length), k=1, dtype=np.bool_))
            if self._begins(kind):
                yield _Broken(number, False, CORNERS[0], *np.nonzero(short))

    def _begins(self, kind: int) -> bool:
        """Whether messages begin where these links do: at ranks."""
        topology = self.pairs.topology
        return int(topology.source[self.pairs.first[kind]]) < topology.num_ranks

    def _chained(self, number: int, through: bool, prices: Table) -> Sequence[Int64Array]:
        """Return, by s and e, the columns of the prices between which a way gains.

        Of what comes through, those of the later knot that gains most where links are unlike.
        """
        way, (first, last) = self.pairs.ways[number], self.useful[number]
        phi, end = self.columns.phi, np.arange(last + 1)
        if not through:
            return np.broadcast_arrays(phi[way.head, end], phi[way.tail, first:, None])
        before = self.before[way.kind]
        if not self.pairs.topology.bandwidth.uniform:
            gains = (prices[phi[way.head, end]] - prices[phi[way.tail, before[end]]])[::-1]
            risen = np.append(True, gains[1:] > np.maximum.accumulate(gains)[:-1])
            end = last - np.maximum.accumulate(np.where(risen, np.arange(last + 1), 0))[::-1]
        shape = len(self.knots) - first, last + 1
        return [
            np.broadcast_to(phi[way.head, end], shape),
            np.broadcast_to(phi[way.tail, before[end]], shape),
        ]

    def _worth(self, use: _Use, prices: Table) -> dict[bool, list[Table]]:
        """Return the corners of what messages are worth, by whether they come through; prices by column."""
        room = self.rooms[use.kind]
        none = [np.zeros_like(corner, dtype=prices.dtype) for corner in corners(room, room)]
        found = {True: none}
        if self._begins(use.kind):
            found[False] = [prices[-1] * corner for corner in corners(np.ones_like(room), room)]
        for number, often in use.ways.items():
            first, last = self.useful[number]
            if last <= first:
                continue
            for through, worth in found.items():
                after, before = self._chained(number, through, prices)
                gains = corners(prices[after] - prices[before], room[first:, : last + 1])
                for corner, gain in zip(worth, gains, strict=True):
                    corner[first:, : gain.shape[1]] += often * np.maximum(gain, 0)
        return found

    def _broken(self, values: FloatArray) -> Iterator[_Broken]:
        """Return rows that values break, of each knot's the most."""
        last = float(self.knots[-1])
        for number, use in enumerate(self.pairs.uses):
            V = values[self.columns.V[number]]
            earned = corners(V - V[:, None], np.ones((len(V),) * 2))
            allowed = [part * last for part in earned]
            for through, worth in self._worth(use, values).items():
                for corner, costs, room in zip(CORNERS, worth, allowed, strict=True):
                    over = np.triu(costs - room, max(corner.begin, 1 - corner.end))
                    over /= last * len(corner.terms)
                    most = (over == over.max(axis=0)) | (over == over.max(axis=1)[:, None])
                    s, e = np.nonzero(most & (over > BROKEN * V[-1]))
                    if len(s):
                        yield _Broken(number, through, corner, s, e)

    def _rows(self, broken: Iterable[_Broken], values: FloatArray | None) -> csr_array:
        """Return rows for the pairs that gain by these values, or for all."""
        _, V, transfer = self.columns
        rows = Rows()
        for number, through, corner, s, e in broken:
            use = self.pairs.uses[number]
            numbers = rows.count + np.arange(len(s))
            rows.count += len(s)
            room = self.rooms[use.kind] / (float(self.knots[-1]) * len(corner.terms))
            part = np.full(len(s), 1 / len(corner.terms))
            brings = [room[s + p, e + q] for _, (p, q) in corner.terms]
            for (p, q), _ in corner.terms:
                rows.extend(numbers, part, V[number, e + q])
                rows.extend(numbers, -part, V[number, s + p])
            if not through:
                rows.extend(numbers, -np.sum(brings, axis=0), np.full(len(s), transfer))
            for one, often in use.ways.items():
                first, last = self.useful[one]
                on = np.flatnonzero((s >= first) & (e + corner.end <= last))
                if not len(on):
                    continue
                sides = self._chained(one, through, np.zeros(transfer + 1) if values is None else values)
                at = np.array([(s[on] + p - first, e[on] + q) for (p, q), _ in corner.terms])
                after, before = (side[at[:, 0], at[:, 1]] for side in sides)
                brought = often * np.array(brings)[:, on]
                if values is not None:
                    gains = (brought * (values[after] - values[before])).sum(axis=0) > 0
                    on, after, before, brought = (
                        on[gains],
                        after[:, gains],
                        before[:, gains],
                        brought[:, gains],
                    )
                each = np.tile(numbers[on], len(corner.terms))
                rows.extend(each, -brought.ravel(), after.ravel())
                rows.extend(each, brought.ravel(), before.ravel())
        return rows.matrix(transfer + 1)

    def repaired(self, prices: _Prices) -> _Prices:
        """Return the same prices, with what links earn no less than these and enough for all rows."""
        flat = np.append(prices.node.ravel(), prices.transfer)
        found = []
        for number, use in enumerate(self.pairs.uses):
            worth = [np.maximum.reduce(sums) for sums in zip(*self._worth(use, flat).values(), strict=True)]
            found.append(_repaired(worth, np.diff(prices.earned[number])))
        return replace(prices, earned=np.array(found))


def _repaired(worth: Sequence[Int64Array], steps: Int64Array) -> Int64Array:
    """Return the least sums of steps no less than these that keep all rows, knot by knot."""
    knots, ending, beginning, cells = worth
    V = np.zeros(len(steps) + 1, dtype=np.int64)
    for last, step in enumerate(steps.tolist()):
        knot, twice = last + 1, V[:last] + V[1 : last + 1]
        V[knot] = max(
            V[last] + step,
            (V[:knot] + knots[:knot, knot]).max(),
            V[last] + beginning[last, knot],
            (2 * V[:knot] + ending[:knot, last]).max() - V[last],
            ((twice + beginning[:last, knot] + 1) // 2).max(initial=0),
            (twice + (cells[:last, last] + 1) // 2).max(initial=0) - V[last],
        )
    return V

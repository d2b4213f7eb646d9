"""The bound ``deliveries``: prices of data that are copied, in time; proof in `models.bounds.check`.

The best prices for a time T are a linear program over windows of time, in bins, on classes of nodes and
links that look alike from where an item starts. Of a byte of the item, ρ(v) is the price at its end v,
h(v, i) that of a node v that holds it from bin i on, τ(v, i) of one that it passes. What leaves over link e
costs θ(e, i) if it is for the end of e, and γ(e, i) if it goes on:

    maximize    sum over items of share (sum over ends ρ(v) + ρ(s) - h(s, 0))
    subject to  V(e, q) ≥ V(e, p) + b (q - p - α) gain             a message from moment p to moment q
                gain = h(v, i) - θ(e, k), τ(v, i) - γ(e, k)        it leaves u, for v or through v
                gain ≥ h(v, i) - τ(u, i - α), τ(v, i) - τ(u, i - α)        it comes through u
                h(v, i) = ρ(v) + sum over links e out of v (θ(e, i) + Σ_j γ(e, i + j α))
                sum over links V(e, T) = 1

with i the bin before q and k that after p; a byte goes on over e once for each node behind it at most, j = 0,
1, ... If the maximum exceeds 1, T is too little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from models.bounds.bound import SECONDS, Bound
from models.solvers.rows import Rows
from models.timetables.search import FLOAT_SLACK, largest_time, maximum, whole_prices
from models.timetables.windows import Moments, graded
from schedules.collective import EVERYONE, Collective
from topologies.exact import BoolArray, FloatArray, Int64Array, json_number
from topologies.graphs.shortest_paths import alpha_distances
from topologies.graphs.symmetry import UInt64Array, link_kinds, mixed, refine
from topologies.topology import Topology
from topologies.transforms import transpose

MOST_BINS = 64
"""From the beginning to the end, about; the least α has one at least."""
MOST_ROWS = 2**16
"""Of a program, about: seconds. Where there would be more, ticks are longer."""
_TAIL, _HEAD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
"""Odd factors, by which colours are hashed."""
MOST_WORK = 2**20
"""Items times nodes, and times links, of the networks that are looked at."""


def deliveries_bound(
    topology: Topology, collective: Collective, size: Fraction, least: Fraction
) -> Bound | None:
    """Return the bound by the prices that the linear programs find, within seconds.

    The certificate has the size, the time, the length of a tick, the moments in ticks, the direction
    (``out``: of what is added up, on the network backwards), for each item the row of prices of each node
    (``nodes``) and link (``links``), and these: at ends, of what passes, by bin, and of what leaves, by bin.

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
        None where it is no larger than the others, but for data that go from one rank to all or from all to
        one, where no link has an α, and on large networks.
    """
    seen = _Views.of(topology, collective)
    alphas = topology.alpha.numerators[topology.alpha.numerators > 0]
    if seen is None or not len(alphas):
        return None
    alpha = Fraction(int(alphas.min()), topology.alpha.denominator)
    most = min(MOST_BINS, math.isqrt(MOST_ROWS // sum(map(len, seen.uses))))
    found = largest_time(
        lambda moments: _Program(seen, size, moments), lambda time: graded(time, alpha, most), least
    )
    if found is None:
        return None
    prices, moments = found
    certificate = {
        "size_bytes": json_number(size),
        "time": json_number(moments.time),
        "tick": json_number(moments.tick),
        "moments": moments.at[:-1].tolist(),
        "direction": "out" if seen.backwards else "in",
        "nodes": seen.node.tolist(),
        "links": seen.way.tolist(),
        "ends": prices.end.tolist(),
        "passing": prices.passing[:, : moments.bins].tolist(),
        "leaving": prices.leaving[..., : moments.bins].tolist(),
    }
    return Bound("deliveries", moments.time, SECONDS, certificate)


class _Item(NamedTuple):
    """What starts at one rank, and where it must end."""

    start: int
    ends: BoolArray
    share: Fraction


class _Way(NamedTuple):
    """How items see links alike: classes of their ends and theirs, and how far the tail is from the start."""

    tail: int
    head: int
    kind: int
    come: int
    useless: bool
    """Whether it leads to the start, or nothing comes there."""


@dataclass(frozen=True, eq=False)
class _Views:
    """How each item sees the network.

    Parameters
    ----------
    topology
        The network, backwards for what is added up.
    backwards
        Whether it is.
    items
        What is moved.
    node
        Shape (items, nodes): classes of nodes, alike where items see nodes alike.
    kinds
        Shape (links,): alike where links are.
    apart
        Shape (items, nodes): from the start, over α's denominator.
    """

    topology: Topology
    backwards: bool
    items: list[_Item]
    node: Int64Array
    kinds: Int64Array
    apart: Int64Array

    @classmethod
    def of(cls, topology: Topology, collective: Collective) -> _Views | None:
        """Return them; None for none, and too many."""
        table = collective.items
        copied = (table.start != EVERYONE) & (table.end == EVERYONE)
        backwards = not copied.any()
        starts, kept = (table.end, table.start == EVERYONE) if backwards else (table.start, copied)
        kept &= starts != EVERYONE
        if not kept.any() or kept.sum() * (topology.num_nodes + topology.num_links) > MOST_WORK:
            return None
        ways = transpose(topology) if backwards else topology
        items = list[_Item]()
        for row in np.flatnonzero(kept).tolist():
            there = np.zeros(ways.num_nodes, dtype=np.bool_)
            there[list(collective.members[table.group[row]])] = True
            there[starts[row]] = False
            if table.share[row] and there.any():
                items.append(_Item(int(starts[row]), there, table.share[row]))
        kinds = link_kinds(ways)
        coloured = np.array([mixed(np.uint64(kind)) for kind in kinds], np.uint64)
        shares = sorted({item.share for item in items})
        holds = _holders(ways)
        views = list[UInt64Array]()
        for item in items:
            marks = np.where(item.ends, 2, holds)
            marks[item.start] = 3 + shares.index(item.share)
            colours = np.array([mixed(np.uint64(mark)) for mark in marks], np.uint64)
            views.append(refine(colours, ways.source, ways.target, coloured)[0])
        if not items:
            return None
        # Colours tell of nodes only where all links look alike.
        colours = np.array(views)
        links = colours[:, ways.source] * _TAIL + colours[:, ways.target] * _HEAD + coloured
        alike = np.unique(np.sort(links), axis=0, return_inverse=True)[1].reshape(-1, 1).astype(np.uint64)
        sides = np.stack([np.broadcast_to(alike, (len(items), ways.num_nodes)), colours])
        node = np.unique(sides.reshape(2, -1), axis=1, return_inverse=True)[1].reshape(len(items), -1)
        apart = alpha_distances(ways, [item.start for item in items])
        return cls(ways, backwards, items, node, np.unique(kinds, return_inverse=True)[1], apart)

    @cached_property
    def _seen(self) -> tuple[list[_Way], Int64Array]:
        source, target = self.topology.source, self.topology.target
        kinds = np.broadcast_to(self.kinds, (len(self.items), len(source)))
        come = self.apart[:, source]
        useless = (target == np.array([[item.start] for item in self.items])) | (come < 0)
        sides = np.stack([self.node[:, source], self.node[:, target], kinds, come, useless])
        ways, which = np.unique(sides.reshape(5, -1), axis=1, return_inverse=True)
        return [_Way(*way) for way in ways.T.tolist()], which.reshape(sides.shape[1:])

    @property
    def ways(self) -> list[_Way]:
        """How items see links."""
        return self._seen[0]

    @property
    def way(self) -> Int64Array:
        """Shape (items, links): which of these each link is."""
        return self._seen[1]

    @cached_property
    def _used(self) -> dict[tuple[int, ...], list[int]]:
        found: dict[tuple[int, ...], list[int]] = {}
        for link, ways in enumerate(self.way.T.tolist()):
            found.setdefault(tuple(sorted(set(ways))), []).append(link)
        return found

    @property
    def uses(self) -> list[tuple[int, ...]]:
        """The ways in which items may see one link."""
        return list(self._used)

    @cached_property
    def links(self) -> list[list[int]]:
        """The links of each."""
        return list(self._used.values())

    @cached_property
    def example(self) -> list[tuple[int, int]]:
        """An item and a node of each class."""
        first = np.unique(self.node, return_index=True)[1]
        return [divmod(int(one), self.node.shape[1]) for one in first]

    @property
    def holders(self) -> int:
        """How many nodes hold data."""
        return int(_holders(self.topology).sum())

    @cached_property
    def holder(self) -> BoolArray:
        """Shape (classes of nodes,): whether they hold data."""
        return _holders(self.topology)[[node for _, node in self.example]]

    @cached_property
    def start(self) -> BoolArray:
        """Shape (classes of nodes,): whether an item starts there."""
        return np.array([self.items[item].start == node for item, node in self.example])

    @cached_property
    def end(self) -> BoolArray:
        """Shape (classes of nodes,): whether an item ends there."""
        return np.array([bool(self.items[item].ends[node]) for item, node in self.example])

    @cached_property
    def leaves(self) -> list[dict[int, int]]:
        """By class of nodes that hold data: how many links of each way leave it."""
        found = list[dict[int, int]]()
        for (item, node), holds in zip(self.example, self.holder, strict=True):
            out = self.topology.source == node
            ways, count = np.unique(self.way[item, out], return_counts=True)
            found.append(dict(zip(ways.tolist(), count.tolist(), strict=True)) if holds else {})
        return found


def _holders(topology: Topology) -> BoolArray:
    """Return which nodes hold data: ranks, and switches that copy."""
    holds = np.arange(topology.num_nodes) < topology.num_ranks
    holds[list(topology.multicast)] = True
    return holds


@dataclass(frozen=True, eq=False)
class _Prices:
    """Whole numbers: of an end by class; by bin of what passes by class, and of what leaves by way.

    What leaves has two prices, shape (2, ways, bins): for the link's end, and going on.
    """

    end: Int64Array
    passing: Int64Array
    leaving: Int64Array


class _Columns(NamedTuple):
    """Columns of a program: ρ, τ, θ and γ, h, the gains of what comes through by way, and V."""

    end: Int64Array
    passing: Int64Array
    leaving: Int64Array
    held: Int64Array
    gain: Int64Array
    earned: Int64Array


@dataclass(frozen=True, eq=False)
class _Program:
    """The linear program for a time. Bytes are in units of M."""

    seen: _Views
    size: Fraction
    moments: Moments

    @cached_property
    def rate(self) -> FloatArray:
        """Of a link of each use, in M a tick."""
        first = [links[0] for links in self.seen.links]
        return self.seen.topology.bandwidth.floats[first] * float(self.moments.tick / self.size)

    @cached_property
    def alpha(self) -> Int64Array:
        """Of each way, over α's denominator."""
        links = np.unique(self.seen.way, return_index=True)[1] % self.seen.topology.num_links
        return self.seen.topology.alpha.numerators[links]

    @cached_property
    def before(self) -> list[Int64Array]:
        """Of each way and bin: the bin in which what has arrived was at the tail at the latest, or -1."""
        return [self.moments.before(int(whole)) for whole in self._ticks(self.alpha)]

    @cached_property
    def earliest(self) -> Int64Array:
        """Of each way: the first bin in which data leave."""
        return self.moments.bin_of(self._ticks(np.array([way.come for way in self.seen.ways])))

    @cached_property
    def nearest(self) -> Int64Array:
        """Of each class of nodes: the first bin in which data may arrive."""
        come = np.array([self.seen.apart[example] for example in self.seen.example])
        return self.moments.bin_of(self._ticks(come))

    @cached_property
    def turns(self) -> list[tuple[list[Int64Array], list[Int64Array]]]:
        """Of each way: the bins in which a byte, there from each bin on, may leave to end, and to go on."""
        seen, at, found = self.seen, self.moments.at, list[tuple[list[Int64Array], list[Int64Array]]]()
        for way, alpha in zip(seen.ways, self.alpha, strict=True):
            further = self._ticks(np.arange(seen.holders - 1) * alpha)
            goes_on = [
                self.moments.bin_of(at[: np.searchsorted(at, at[-1] - later)] + later)
                for later in further[further < at[-1]].tolist()
            ]
            found.append(([np.arange(self.moments.bins)] * int(seen.holder[way.head]), goes_on))
        return found

    def _ticks(self, alpha: Int64Array) -> Int64Array:
        return self.moments.whole(alpha, self.seen.topology.alpha.denominator)

    def solved(self) -> tuple[float, _Prices | None]:
        """Return the reciprocal of the program's maximum, 0 if it has none, and its prices."""
        seen, bins = self.seen, self.moments.bins
        classes, ways, uses = len(seen.example), len(seen.ways), len(seen.uses)
        shapes = [
            *((classes,), (classes, bins), (2, ways, bins), (classes, bins), (ways, bins), (uses, bins + 1))
        ]
        cuts = np.cumsum([math.prod(shape) for shape in shapes])
        parts = np.split(np.arange(cuts[-1]), cuts[:-1])
        columns = _Columns(*(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)))
        # Where nothing is that early a price would have no limit.
        for table, first in ((columns.passing, self.nearest), (columns.leaving, self.earliest)):
            early = np.minimum(first[:, None], bins - 1)
            table[:] = np.take_along_axis(
                table, np.maximum(np.arange(bins), np.broadcast_to(early, table.shape)), axis=-1
            )
        value = np.zeros(cuts[-1])
        for number, item in enumerate(seen.items):
            np.add.at(value, columns.end[seen.node[number, item.ends]], float(item.share))
            value[columns.held[seen.node[number, item.start], 0]] -= float(item.share)
        reciprocal, found = maximum(self._rows(columns), value)
        if found is None:
            return reciprocal, None
        whole = whole_prices(found[: columns.held[0, 0]])
        falling = (np.minimum.accumulate(whole[part], axis=-1) for part in (columns.passing, columns.leaving))
        return reciprocal, _Prices(whole[columns.end], *falling)

    def _rows(self, columns: _Columns) -> Rows:
        seen, rows = self.seen, Rows()
        for falling in (columns.passing, columns.leaving):
            rows.add((1, falling[..., :-1]), (-1, falling[..., 1:]))
        rows.add((1, columns.earned[:, 1:]), (-1, columns.earned[:, :-1]))
        self._held_rows(rows, columns)
        self._through_rows(rows, columns)
        for use, ways in enumerate(seen.uses):
            for way in ways:
                self._window_rows(rows, columns, use, way)
        rows.add((-1, columns.earned[:, 0]))
        links = [len(links) for links in seen.links]
        rows.add(*zip(links, columns.earned[:, -1:], strict=True))
        return rows

    def _held_rows(self, rows: Rows, columns: _Columns) -> None:
        """Say what a byte is worth at a node that holds it: its price there, and all that may leave."""
        seen, bins = self.seen, self.moments.bins
        for number, leaves in enumerate(seen.leaves):
            first = rows.add((1, columns.held[number]))
            if seen.end[number]:
                rows.extend(
                    np.arange(first, first + bins), -np.ones(bins), np.full(bins, columns.end[number])
                )
            for way, count in leaves.items():
                for prices, turns in zip(columns.leaving[:, way], self.turns[way], strict=True):
                    for leave in turns:
                        every = np.arange(first, first + len(leave))
                        rows.extend(every, np.full(len(every), -float(count)), prices[leave])

    def _through_rows(self, rows: Rows, columns: _Columns) -> None:
        """Say what a byte gains that comes through the node where a link begins."""
        seen = self.seen
        for gain, way, before in zip(columns.gain, seen.ways, self.before, strict=True):
            if way.useless or seen.start[way.tail]:
                continue
            there = before >= 0
            for table in (columns.passing, *([columns.held] if seen.holder[way.head] else [])):
                passed = columns.passing[way.tail, before[there]]
                rows.add((1, gain[there]), (-1, table[way.head, there]), (1, passed))
            if not seen.topology.bandwidth.uniform:
                rows.add((1, gain[:-1]), (-1, gain[1:]))

    def _window_rows(self, rows: Rows, columns: _Columns, use: int, number: int) -> None:
        """Say what messages over a link earn."""
        seen, way = self.seen, self.seen.ways[number]
        if way.useless:
            return
        begin, end, room = self.moments.windows(self._length(number))
        kept = begin >= self.earliest[number]
        p, q, brings = begin[kept], end[kept], self.rate[use] * room[kept]
        each = (1, columns.earned[use, q]), (-1, columns.earned[use, p])
        if not seen.start[way.tail]:
            rows.add(*each, (-brings, columns.gain[number, q - 1]))
        if seen.holder[way.tail]:
            ends, goes_on = columns.leaving[:, number, p]
            if seen.holder[way.head]:
                rows.add(*each, (-brings, columns.held[way.head, q - 1]), (brings, ends))
            rows.add(*each, (-brings, columns.passing[way.head, q - 1]), (brings, goes_on))

    def _length(self, number: int) -> float:
        """Return the α of a way in ticks."""
        denominator = self.seen.topology.alpha.denominator
        return float(Fraction(int(self.alpha[number]), denominator) / self.moments.tick)

    def refuted(self, prices: _Prices) -> bool:
        """Return whether links earn less by then than what is moved costs."""
        seen, held, cost = self.seen, self._held(prices), 0.0
        for item, node in zip(seen.items, seen.node, strict=True):
            cost += float(item.share) * int(prices.end[node[item.ends]].sum() - held[node[item.start], 0])
        return cost > self._earned(prices, held) * (1 + FLOAT_SLACK)

    def _held(self, prices: _Prices) -> Int64Array:
        """Return the price of a byte at a node that holds it, by class and bin."""
        seen, bins = self.seen, self.moments.bins
        held = np.repeat((prices.end * seen.end)[:, None], bins, axis=1)
        for number, leaves in enumerate(seen.leaves):
            for way, count in leaves.items():
                for leaving, turns in zip(prices.leaving[:, way], self.turns[way], strict=True):
                    for leave in turns:
                        held[number, : len(leave)] += count * leaving[leave]
        return held

    def _earned(self, prices: _Prices, held: Int64Array) -> float:
        """Return what all links earn at most."""
        seen, bins, total = self.seen, self.moments.bins, 0.0
        for ways, links, rate in zip(seen.uses, seen.links, self.rate, strict=True):
            worth = np.zeros((bins, bins), dtype=np.int64)
            for number in ways:
                first = self.earliest[number]
                if not seen.ways[number].useless:
                    worth[first:] = np.maximum(worth[first:], self._worth(number, prices, held)[first:])
            total += len(links) * rate * self.moments.most(worth, self._length(ways[0]))
        return total

    def _worth(self, number: int, prices: _Prices, held: Int64Array) -> Int64Array:
        """Return what a byte earns on a link at most, by the bins in which it leaves and arrives."""
        seen, bins, way = self.seen, self.moments.bins, self.seen.ways[number]
        passing, holds = prices.passing[way.head, :bins], seen.holder[way.head]
        gain = np.zeros(bins, dtype=np.int64)
        if not seen.start[way.tail]:
            there = np.maximum(passing, held[way.head]) if holds else passing
            before = self.before[number]
            gain = np.where(before >= self.earliest[number], there - prices.passing[way.tail, before], 0)
            if not seen.topology.bandwidth.uniform:
                gain = np.maximum.accumulate(gain[::-1])[::-1]
        worth = np.broadcast_to(gain, (bins, bins))
        if seen.holder[way.tail]:
            ends, goes_on = prices.leaving[:, number, :bins, None]
            worth = np.maximum(worth, passing - goes_on)
            if holds:
                worth = np.maximum(worth, held[way.head] - ends)
        return worth

r"""The allreduce of one size in the time clock: every message of optimal trees given its place.

M is cut into pieces, each of one in-tree and one out-tree, and `justified` lists what they send. With K
messages on the busiest link a schedule without gaps takes

.. math::

    \text{bound} + \alpha K,

so few pieces are best as long as no link need wait, which leaves for every link put off (`branches`). Numbers
of pieces around a guess are tried, as long as they help.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from models.allreduce.branches import Branches, branches_of, height, levels, with_leaves
from models.allreduce.cuts import Arcs
from models.allreduce.justified import Tables, Work, justified, tables_of
from models.allreduce.ticks import FarApartError, check_reach, message_ticks
from models.allreduce.trees import HalfTrees as Trees
from schedules.intervals import IntervalTransfers as Legs
from schedules.intervals import interval_schedule as flow_of
from schedules.method import Problem
from schedules.schedule import Clock, Schedule
from topologies.exact import INT64_MAX, FloatArray, Int64Array, offsets_of
from topologies.topology import Topology

MOST_EVENTS = 2**17
"""Pieces times cells of the largest schedule that is tried: a few tenths of a second's worth."""
MOST_RANKS, MOST_LINKS = 128, 2048
"""Networks that are tried."""
ROWS, MOST_ROWS = 64, 512
"""Trees of each half, alike ones counted apart: at least so many; and all alike in weight up to so many."""
LEAVES = (8, 12)
"""One part in so many of what a busy link carries goes to or from leaves, of each half: tried in turn."""
ENOUGH = 0.005
"""A time so near to the optimum, relatively, is not tried to be shortened."""
BUSY = 0.98
"""A link is busy if it is used for so much of the time, at least."""
PASSES = 12
SEEDS = 3
PATIENCE = 2
"""Numbers of pieces that do not help, after which no more are tried on that side of the guess."""
STEP = 2 ** (1 / 4)
_STEPS = 24
_FEW = 2**20
"""M has so many units at least where pieces cannot be cut evenly: then they differ by one."""


def can_be_timed(topology: Topology) -> bool:
    """Whether messages are given places in time: no switches, and not too many ranks and links.

    Examples
    --------
    >>> from topologies.families import ring
    >>> can_be_timed(ring(4))
    True
    """
    return (
        not topology.num_switches
        and 1 < topology.num_ranks <= MOST_RANKS
        and topology.num_links <= MOST_LINKS
    )


class Halves(NamedTuple):
    """In-trees, turned round, and out-trees; their arcs are links."""

    up: Branches
    down: Branches


def leafy(arcs: Arcs, up: Trees, down: Trees, part: int) -> Halves:
    """Return trees that load links as these do, cut finely, with leaves for every busy link.

    Parameters
    ----------
    arcs
        All single links.
    up, down
        As `schedule.allreduce_schedule` takes them.
    part
        One part in so many of what a busy link carries should go to or from leaves, of each half.
    """
    total = sum(down.forest.weight.tolist())
    scale = -(-ROWS // total)
    quantum = 1 if scale * total <= MOST_ROWS else total // ROWS
    topology = arcs.topology
    ends = _ends(topology)
    forward = _of_links(branches_of(down, (down.arcs.tails, down.arcs.heads), scale, quantum), down)
    turned = _of_links(branches_of(up, (up.arcs.heads, up.arcs.tails), scale, quantum), up)
    load = _load(forward, topology) + _load(turned, topology)
    use = load / topology.bandwidth.floats
    need = np.where(use >= BUSY * use.max(), -(-load // part), 0)
    return Halves(with_leaves(turned, ends[::-1], need), with_leaves(forward, ends, need))


def _ends(topology: Topology) -> tuple[Int64Array, Int64Array]:
    """Return where each link begins and ends."""
    return topology.source.astype(np.int64), topology.target.astype(np.int64)


def _of_links(trees: Branches, half: Trees) -> Branches:
    """Return the same over links in place of a half's own arcs, each of which is one link."""
    via = np.where(trees.via >= 0, half.arcs.links[trees.via].astype(np.int64), -1)
    return Branches(trees.root, trees.weight, via)


def _load(trees: Branches, topology: Topology) -> Int64Array:
    """Return the weight on each link."""
    load = np.zeros(topology.num_links, dtype=np.int64)
    used = trees.via >= 0
    np.add.at(load, trees.via[used], np.broadcast_to(trees.weight[:, None], used.shape)[used])
    return load


class _Pieces(NamedTuple):
    """Piece i is units begin[i] to end[i] - 1 of `units`, of a segment, due at its root at moment[i] of 1."""

    units: int
    segment: Int64Array
    begin: Int64Array
    end: Int64Array
    moment: FloatArray


class _Made(NamedTuple):
    """A schedule of pieces: starts in ticks, and its time in seconds."""

    pieces: _Pieces
    start: Int64Array
    tick: Fraction
    seconds: Fraction


def timed_schedule(problem: Problem, arcs: Arcs, up: Trees, down: Trees) -> Schedule | None:
    """Return the shortest schedule found in the time clock; None if it would be too large, or too long.

    Parameters
    ----------
    problem
        An allreduce of all ranks, with a size, where `can_be_timed`.
    arcs
        All single links.
    up, down
        As `schedule.allreduce_schedule` takes them.
    """
    best: tuple[Fraction, Schedule] | None = None
    for part in LEAVES:
        halves = leafy(arcs, up, down, part)
        shop = _Workshop.of(problem, halves)
        if shop is None:
            return None
        try:
            made = _shortest(shop)
        except FarApartError:
            break
        if best is None or made.seconds < best[0]:
            best = made.seconds, shop.table(made).replace(stats=_heights(problem.topology, halves))
        if best[0] <= shop.bound * Fraction(1 + ENOUGH):
            break
    return None if best is None else best[1]


def _heights(topology: Topology, halves: Halves) -> dict[str, float]:
    """Return hops up and down the highest trees, and on average."""
    ends = _ends(topology)
    ways = zip(halves, (ends[::-1], ends), strict=True)
    high = [levels(trees, way).max(axis=1) for trees, way in ways]
    mean = sum(
        float(np.average(hops, weights=trees.weight)) for hops, trees in zip(high, halves, strict=True)
    )
    return {"height": sum(int(hops.max()) for hops in high), "mean_height": mean}


def _shortest(shop: _Workshop) -> _Made:
    """Search numbers of pieces around the guess."""
    best = shop.made(shop.guess, 0)
    count = len(best.pieces.segment)
    for way in (STEP, 1 / STEP):
        best, count = _walked(shop, best, count, way)
    for seed in range(1, SEEDS):
        best = min(best, shop.made(count, seed), key=lambda made: made.seconds)
    return best


def _walked(shop: _Workshop, best: _Made, count: int, way: float) -> tuple[_Made, int]:
    """Change the number of pieces step by step, as long as that helps."""
    since = 0
    for number in shop.numbers(count, way):
        if shop.least(number) >= best.seconds:
            break
        made = shop.made(number, 0)
        since += 1
        if made.seconds < best.seconds:
            best, count, since = made, number, 0
        if since >= PATIENCE:
            break
    return best, count


@dataclass(frozen=True, eq=False)
class _Workshop:
    """What all schedules of these trees have in common.

    Parameters
    ----------
    rows
        Of each segment in both halves.
    bounds
        int64, shape (segments + 1,): where segments begin, in units of weight.
    tables
        Of the segments' cells.
    early
        Shape (segments, cells): hops before (negative) or after the moment at the root.
    share
        Of M on each link.
    """

    problem: Problem
    size: Fraction
    bounds: Int64Array
    tables: Tables
    early: Int64Array
    share: FloatArray
    hops: int

    @classmethod
    def of(cls, problem: Problem, halves: Halves) -> _Workshop | None:
        """Return it; None if the least pieces are too many."""
        topology = problem.topology
        up, down = halves
        bounds = np.union1d(offsets_of(up.weight), offsets_of(down.weight))
        rows = tuple(
            np.searchsorted(offsets_of(trees.weight), bounds[:-1], side="right") - 1 for trees in halves
        )
        ends = _ends(topology)
        turned = ends[::-1]
        parents = tuple(
            np.where(trees.via >= 0, end[trees.via], -1) for trees, end in ((up, turned[0]), (down, ends[0]))
        )
        if (len(bounds) - 1) * 2 * topology.num_ranks > MOST_EVENTS:
            return None
        whole = math.lcm(problem.collective.items.share.reduced.denominator, int(bounds[-1]))
        if whole > INT64_MAX // (MOST_EVENTS * _FEW):
            return None
        tables = tables_of(up, down, (rows[0], rows[1]), (parents[0], parents[1]))
        early = np.concatenate([-levels(up, turned)[rows[0]], levels(down, ends)[rows[1]]], axis=1)
        share = (_load(up, topology) + _load(down, topology)) / float(bounds[-1])
        hops = height(up, turned) + height(down, ends)
        size = Fraction(0) if problem.size is None else Fraction(problem.size)
        return cls(problem, size, bounds, tables, early, share, hops)

    @property
    def bound(self) -> Fraction:
        """Return for how long the busiest link is held by the bytes alone, in seconds, nearly."""
        return Fraction(float((self.share / self.problem.topology.bandwidth.floats).max())) * self.size

    @property
    def guess(self) -> int:
        """About how many pieces are best."""
        topology = self.problem.topology
        seconds = float(self.bound)
        alpha = float(topology.alpha.floats.mean())
        messages = math.sqrt(self.hops * seconds / alpha) / 2 if alpha > 0 else float(MOST_EVENTS)
        return self._possible(messages / float(self.share.max()))

    def numbers(self, count: int, way: float) -> Iterator[int]:
        """Yield possible numbers of pieces, step by step from a count; each is one to be had exactly."""
        numbers = (self._possible(count * way**step) for step in range(1, _STEPS))
        whole = (int(self._parts(number).sum()) for number in numbers)
        yield from (number for number in dict.fromkeys(whole) if number != count)

    def _parts(self, count: int) -> Int64Array:
        """Return in how many pieces each segment is cut, about `count` in all."""
        weight = np.diff(self.bounds)
        return np.maximum(np.rint(count / float(self.bounds[-1]) * weight).astype(np.int64), 1)

    def _possible(self, count: float) -> int:
        most = MOST_EVENTS // self.tables.there.link.shape[1]
        return round(min(max(count, len(self.bounds) - 1), most))

    def least(self, count: int) -> Fraction:
        """Return a time that no schedule of so many pieces can beat by much: of the busiest link."""
        topology = self.problem.topology
        seconds = self.share * (float(self.size) / topology.bandwidth.floats + count * topology.alpha.floats)
        return Fraction(float(seconds.max()) * (1 - 1e-3))

    def made(self, count: int, seed: int) -> _Made:
        """Return a schedule of about so many pieces."""
        pieces = self._cut(count, seed)
        amounts, which = np.unique(pieces.end - pieces.begin, return_inverse=True)
        kind, table, tick = message_ticks(self.problem.topology, amounts, self.size / pieces.units)
        link = self.tables.there.link[pieces.segment]
        ticks = np.where(link >= 0, table[kind[link], which[:, None]], 0)
        busy = np.bincount(link[link >= 0], weights=ticks[link >= 0].astype(np.float64))
        length, hop = int(busy.max()), float(ticks[link >= 0].mean())
        due = pieces.moment[:, None] * length + self.early[pieces.segment] * hop
        check_reach(float(ticks.sum(dtype=np.float64)), float(np.abs(due).max()))  # no event starts later
        priority = np.rint(due).astype(np.int64)
        start = justified(self.tables, Work(pieces.segment, ticks), priority, PASSES, length)
        return _Made(pieces, start, tick, tick * int((start + ticks)[link >= 0].max()))

    def _cut(self, count: int, seed: int) -> _Pieces:
        """Cut each segment into pieces as even as can be, about `count` in all; segments take turns."""
        weight, rng = np.diff(self.bounds), np.random.default_rng(seed)
        total, segments = int(self.bounds[-1]), len(weight)
        parts = self._parts(count)
        whole = math.lcm(self.problem.collective.items.share.reduced.denominator, total)
        even = math.lcm(*np.unique(parts).tolist())
        units = whole * (even if even <= _FEW else _FEW)
        segment = np.repeat(np.arange(segments), parts)
        place = np.arange(len(segment)) - np.repeat(offsets_of(parts)[:-1], parts)
        size = weight * (units // total)
        before = (self.bounds[:-1] * (units // total))[segment]
        begin = before + place * size[segment] // parts[segment]
        end = before + (place + 1) * size[segment] // parts[segment]
        turn = (rng.permutation(segments) + 0.5) / segments
        return _Pieces(units, segment, begin, end, (place + turn[segment]) / parts[segment])

    def table(self, made: _Made) -> Schedule:
        """Return the rows of a schedule, by start."""
        pieces, ranks = made.pieces, self.problem.topology.num_ranks
        link = self.tables.there.link[pieces.segment]
        piece, cell = np.nonzero(link >= 0)
        order = np.argsort(made.start[piece, cell], kind="stable")
        piece, cell = piece[order], cell[order]
        turn = np.where(cell < ranks, -1, 1)
        legs = Legs(pieces.begin[piece], pieces.end[piece], link[piece, cell].astype(np.int64), turn)
        rows, leg = flow_of(self.problem.topology, self.problem.collective, legs, pieces.units)
        start = made.start[piece, cell]
        return rows.replace(clock=Clock.TIME, order=start[leg], tick=made.tick, size=self.size)

"""Plans of planes joined by rails: what rails bring, how planes pass it on, and the search for the best plan.

Rails bring all ranks the same pieces at the same time, and never wait. A rank needs the shards of the P - 1
others of its rail. A *piece* is a part of one of them; its sender is some number of planes before the
receiver. Pieces get smaller towards the end, so that the plane is soon done with the last.

* Through a switch a rank has one link for all. Messages follow each other without a gap. A rank that has
  begun to get the first c shards, its own and those of the planes before it, gets the next ones from the rank
  c planes before, as far as that has them by then. So there are few messages, about as many as a postal tree
  has levels (Bar-Noy, Kipnis, SPAA 1992), as data arrives 2 α after it was sent, while the
  next message can leave after α.
* With a link from every other rank of the rail, all owners send at the same time.

If rails are slower than planes, the time of the rails is what counts: no allgather is faster than a rail at
(P - 1)/N M bytes a rank. Messages of a rail wait for nothing, so they follow each other without a gap, an α
each. The choice left is how small they get towards the end, as a plane must be done with all before when the
last comes. More messages take more α, fewer leave more to do at the end. Of the plans tried, the one that
ends first becomes the schedule of all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tutti.heuristics.rails.machines import ShardMoves, shard_schedule
from tutti.heuristics.rails.planes import (
    Net,
    Planes,
    RouteEdges,
    Spread,
    Trees,
    amounts,
    edges_of,
    net_of,
    planes_of,
    spread,
    trees_of,
)
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Routes, Schedule
from tutti.topologies.exact import NONE, FloatArray, Int64Array, entries_of, joined_rows, offsets_of, rows_at
from tutti.topologies.topology import Topology


class RailPlaneTuning(NamedTuple):
    """Limits on the networks of planes, and the waits that are tried."""

    most_cells: int
    """Largest number of planes times places squared, which is the size of what a plane's messages carry."""
    most_ranks: int
    """Largest number of ranks."""
    most_links: int
    """Largest number of links."""
    most_linked: int
    """Largest number of ranks where rails are links, as these bring more pieces."""
    patience: tuple[float, ...]
    """Multiples of α for which a link waits for the next data. With a little more than one α, two messages
    become one."""


TUNING = RailPlaneTuning(
    most_cells=2**17, most_ranks=1024, most_links=2**17, most_linked=128, patience=(0.0, 0.1, 0.5, 1.5, 5.0)
)

SHARES, LEAST = (0.1, 0.2, 0.3, 0.5, 1.0), (1.0, 4.0, 16.0)
"""Fractions of the rest that a rail sends in a message, and least sizes in α: all pairs are tried first."""
ROUNDS, FACTORS = 3, (1.25, 1.1, 1.04)
"""Next, this many times for each factor, values that differ from the best by it are tried."""
FORESTS = ((0, 4), (0, 6), (0, 9), (1, 8), (2, 16))
"""Pairs (slack, rounds): extra hops that a place may have, and the largest number of trees of a place."""


class Rail(NamedTuple):
    """P planes, the units of a shard; seconds a unit and α of a link; whether there is a switch."""

    planes: int
    shard: int
    seconds: float
    alpha: float
    switched: bool


class Feed(NamedTuple):
    """The pieces by arrival; the first is a rank's own shard, which it has.

    Parameters
    ----------
    start, arrive
        Seconds, shape (pieces,). Pieces of one message start together.
    hop
        int64: the number of planes that the sender is before; 0 for the own shard.
    owner
        int64: the owner, as the number of planes before.
    low, high
        int64: the units of that shard.
    """

    start: FloatArray
    arrive: FloatArray
    hop: Int64Array
    owner: Int64Array
    low: Int64Array
    high: Int64Array

    @property
    def size(self) -> Int64Array:
        """Units of each piece."""
        return self.high - self.low


def feed(rail: Rail, share: float, least: int) -> Feed:
    """Return the pieces that a rank receives.

    Parameters
    ----------
    rail
        The rail.
    share, least
        A message has this share of the rest, but at least `least` units, if the rest has as many.
    """
    pieces = (_in_turn if rail.switched else _at_once)(rail, share, least)
    columns = np.array([(0.0, 0.0, 0, 0, 0, rail.shard), *pieces]).T
    return Feed(*columns[:2].copy(), *columns[2:].astype(np.int64))


def _in_turn(rail: Rail, share: float, least: int) -> list[tuple[float, ...]]:
    """Return the pieces through a switch: their shards follow each other, the nearest owner's first."""
    pieces: list[tuple[float, ...]] = []
    arrived = [(0.0, rail.shard)]  # a time, and the last unit of all shards in that order by then
    free, cut, whole, known = 0.0, rail.shard, rail.planes * rail.shard, 0
    while cut < whole:
        while known + 1 < len(arrived) and arrived[known + 1][0] <= free * (1 + 1e-12):
            known += 1
        hop = cut // rail.shard
        until = min(whole, hop * rail.shard + arrived[known][1])
        end = min(until, cut + max(least, int(share * (whole - cut)), 1))
        start, free = free, free + rail.alpha + (end - cut) * rail.seconds
        arrive = free + rail.alpha
        for owner in range(hop, -(-end // rail.shard)):
            low, high = max(cut - owner * rail.shard, 0), min(end - owner * rail.shard, rail.shard)
            pieces.append((start, arrive, hop, owner, low, high))
        arrived.append((arrive, end))
        cut = end
    return pieces


def _at_once(rail: Rail, share: float, least: int) -> list[tuple[float, ...]]:
    """Return the pieces over links from all owners."""
    pieces: list[tuple[float, ...]] = []
    free, cut = 0.0, 0
    while cut < rail.shard:
        end = min(rail.shard, cut + max(least, int(share * (rail.shard - cut)), 1))
        start, free = free, free + rail.alpha + (end - cut) * rail.seconds
        pieces += [(start, free, hop, hop, cut, end) for hop in range(1, rail.planes)]
        cut = end
    return pieces


@dataclass(frozen=True, eq=False)
class PlanePlan:
    """A timeline of planes: the pieces, the trees along which they continue, and the messages."""

    shard: int
    feed: Feed
    trees: Trees
    edges: RouteEdges
    total: Int64Array
    spread: Spread


class _MessageParts(NamedTuple):
    """The contents of messages, part by part, shape (parts,).

    At `start` a rank at place `place` of every plane receives, by route `route`, units `low` to `high` of the
    shard of the rank at place `origin` of the plane `owner` before. Routes are numbered in a plane: those of
    the plane, then those from `hop` planes before to place, at routes + (hop - 1) places + place.
    """

    start: FloatArray
    route: Int64Array
    origin: Int64Array
    owner: Int64Array
    low: Int64Array
    high: Int64Array


def schedule_of_planes(problem: Problem, planes: Planes, plan: PlanePlan) -> Schedule:
    """Return the allgather in which all planes send what the plan says, in the step clock."""
    number, places = planes.rank.shape
    # The pieces that rails bring, to one place after the other.
    brought = rows_at(plan.feed, np.repeat(np.arange(1, len(plan.feed.hop)), places))
    place = np.tile(np.arange(places), len(plan.feed.hop) - 1)
    route = len(planes.local.source) + (brought.hop - 1) * places + place
    along = _MessageParts(brought.start, route, place, brought.owner, brought.low, brought.high)
    parts = joined_rows([along, _spread(plan)])
    order = np.argsort(parts.start, kind="stable")
    parts = rows_at(parts, (order, None))
    plane = np.arange(number)
    item = planes.rank[(plane - parts.owner) % number, parts.origin]
    step = np.unique(parts.start, return_inverse=True)[1].reshape(-1, 1) + 1
    moved = ShardMoves.of(step, parts.route * number + plane, item, parts.low, parts.high)
    return shard_schedule(problem, plan.shard, moved, plan_routes(planes))


def _spread(plan: PlanePlan) -> _MessageParts:
    """Return the parts that are sent inside a plane, each piece by itself."""
    spread, feed = plan.spread, plan.feed
    part, place = entries_of(spread.high - spread.low)
    piece = spread.low[part] + place
    tree = plan.edges.tree[spread.edge[part]]
    # A tree takes the units of a piece that follow those of earlier trees of the same root.
    size = np.diff(plan.total, axis=0)
    root = plan.trees.root[tree]
    offset = np.cumsum(size, axis=1) - size
    low = feed.low[piece] + offset[piece, tree] - offset[piece, np.searchsorted(plan.trees.root, root)]
    message = np.repeat(np.arange(len(spread.route)), np.diff(spread.first))[part]
    parts = _MessageParts(
        spread.start[message], spread.route[message], root, feed.owner[piece], low, low + size[piece, tree]
    )
    return rows_at(parts, parts.high > parts.low)


def plan_routes(planes: Planes) -> Routes:
    """Return the routes: each of a plane in all planes, then each of a rail to all its ranks."""
    inside = planes.local.links.transpose(1, 0, 2).reshape(-1, 2)
    along = planes.rail.transpose(0, 2, 1, 3).reshape(-1, 2)
    links = np.concatenate([inside, along])
    used = links != NONE
    return Routes(offsets_of(used.sum(axis=1)), links[used].astype(np.int32))


@dataclass(frozen=True)
class PlanParameters:
    """The choices of a plan: the share and least α of rails' messages; trees; patience in α."""

    share: float
    least: float
    forest: tuple[int, int] = FORESTS[0]
    patience: float = 0.0


class PlanSearch:
    """The data that plans of one division into planes share, and the end of each."""

    def __init__(self, topology: Topology, planes: Planes, shard: Fraction, units: int) -> None:
        self.planes = planes
        unit = float(shard / units)
        link = int(planes.rail[0, 0, 0, 0])
        alpha, seconds = topology.alpha.floats, unit / topology.bandwidth.floats
        number, self.places = planes.rank.shape
        self.rail = Rail(number, units, float(seconds[link]), float(alpha[link]), planes.switched)
        self.net: Net = net_of(planes.local, self.places, alpha, seconds)
        self._forests: dict[tuple[int, int], tuple[Trees, RouteEdges]] = {}
        self._ends: dict[PlanParameters, float] = {}

    @cached_property
    def least(self) -> float:
        """A lower bound in seconds: rails bring what they must, and each place takes in its part."""
        sent = self.rail.planes - 1 if self.rail.switched else 1
        last = np.where(self.net.second < 0, self.net.first, self.net.second)
        place, link = np.unique(np.stack([self.net.target, last]), axis=1)
        slowest = np.bincount(place, 1 / self.net.seconds[link], minlength=self.places).min()
        inside = self.rail.planes * (self.places - 1) / slowest
        return self.rail.shard * max(sent * self.rail.seconds, float(inside))

    def forest(self, choice: tuple[int, int]) -> tuple[Trees, RouteEdges]:
        """Return the trees, and their edges."""
        if choice not in self._forests:
            slack, rounds = choice
            most = max(1, TUNING.most_cells // (self.rail.planes * self.places**2))
            trees = trees_of(self.net, slack, min(rounds, most))
            self._forests[choice] = trees, edges_of(self.net, trees)
        return self._forests[choice]

    def played(self, choice: PlanParameters) -> tuple[PlanePlan, float]:
        """Return the plan, and its end."""
        trees, edges = self.forest(choice.forest)
        least = int(choice.least * (self.rail.alpha / self.rail.seconds))
        brought = feed(self.rail, choice.share, least)
        total = amounts(trees, brought.size)
        done, end = spread(self.net, edges, brought.arrive, total, choice.patience * self.rail.alpha)
        return PlanePlan(self.rail.shard, brought, trees, edges, total, done), end

    def end(self, choice: PlanParameters) -> float:
        """Return the end of the plan."""
        if choice not in self._ends:
            self._ends[choice] = self.played(choice)[1]
        return self._ends[choice]

    def best(self) -> PlanParameters:
        """Return the best choice found: neighbours of the best so far are tried, as long as one is better."""
        best = min((PlanParameters(share, least) for share in SHARES for least in LEAST), key=self.end)
        for factor in FACTORS:
            for _ in range(ROUNDS):
                before = best
                best = min((before, *_neighbours(before, factor)), key=self.end)
                if best == before:
                    break
        return best


def _neighbours(choice: PlanParameters, factor: float) -> Iterator[PlanParameters]:
    for times in (factor, 1 / factor):
        yield replace(choice, share=min(1.0, choice.share * times))
        yield replace(choice, least=choice.least * times)
    yield from (replace(choice, forest=forest) for forest in FORESTS)
    yield from (replace(choice, patience=patience) for patience in TUNING.patience)


def planes_in_reach(topology: Topology) -> list[Planes]:
    """Return the divisions of a network into planes and rails that are not too large to be planned."""
    if topology.num_ranks > TUNING.most_ranks or topology.num_links > TUNING.most_links:
        return []
    return [
        planes
        for planes in planes_of(topology)
        if planes.rank.size * planes.rank.shape[1] <= TUNING.most_cells
        and (planes.switched or planes.rank.size <= TUNING.most_linked)
    ]


def fastest_plan(
    topology: Topology, ways: list[Planes], shard: Fraction, units: int
) -> tuple[Planes, PlanePlan]:
    """Return the plan that ends first, and its planes.

    Parameters
    ----------
    topology, ways
        The network, and its divisions into planes.
    shard, units
        Bytes of a shard, and the number of units into which it is cut.
    """
    searches = [PlanSearch(topology, planes, shard, units) for planes in ways]
    searches.sort(key=lambda search: search.least)
    best, choice = searches[0], searches[0].best()
    for search in searches[1:]:
        if search.least < best.end(choice):
            other = search.best()
            if search.end(other) < best.end(choice):
                best, choice = search, other
    return best.planes, best.played(choice)[0]

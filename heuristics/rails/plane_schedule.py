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

from tutti.heuristics.rails.planes import Net, Planes, Trees, net_of, planes_of, trees_of
from tutti.heuristics.rails.spreading import RouteEdges, Spread, amounts, edges_of, spread
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule
from tutti.topologies.exact import NONE, FloatArray, Int64Array, offsets_of
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


class Sizes(NamedTuple):
    """A message has this `share` of the rest, but at least `least` units, if the rest has as many."""

    share: float
    least: int


@dataclass(frozen=True, eq=False)
class Feed:
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


_Piece = tuple[float, float, int, int, int, int]


def feed(rail: Rail, sizes: Sizes) -> Feed:
    """Return the pieces that a rank receives."""
    own: _Piece = (0.0, 0.0, 0, 0, 0, rail.shard)
    pieces = [own, *(_in_turn(rail, sizes) if rail.switched else _at_once(rail, sizes))]
    times, whose = zip(*((piece[:2], piece[2:]) for piece in pieces), strict=True)
    return Feed(*np.array(times).T.copy(), *np.array(whose, dtype=np.int64).T.copy())


def _in_turn(rail: Rail, sizes: Sizes) -> list[_Piece]:
    """Return the pieces through a switch: their shards follow each other, the nearest owner's first."""
    pieces: list[_Piece] = []
    arrived = [(0.0, rail.shard)]  # a time, and the last unit of all shards in that order by then
    free, cut, whole, known = 0.0, rail.shard, rail.planes * rail.shard, 0
    while cut < whole:
        while known + 1 < len(arrived) and arrived[known + 1][0] <= free * (1 + 1e-12):
            known += 1
        hop = cut // rail.shard
        until = min(whole, hop * rail.shard + arrived[known][1])
        end = min(until, cut + max(sizes.least, int(sizes.share * (whole - cut)), 1))
        start, free = free, free + rail.alpha + (end - cut) * rail.seconds
        arrive = free + rail.alpha
        for owner in range(hop, -(-end // rail.shard)):
            low, high = max(cut - owner * rail.shard, 0), min(end - owner * rail.shard, rail.shard)
            pieces.append((start, arrive, hop, owner, low, high))
        arrived.append((arrive, end))
        cut = end
    return pieces


def _at_once(rail: Rail, sizes: Sizes) -> list[_Piece]:
    """Return the pieces over links from all owners."""
    pieces: list[_Piece] = []
    free, cut = 0.0, 0
    while cut < rail.shard:
        end = min(rail.shard, cut + max(sizes.least, int(sizes.share * (rail.shard - cut)), 1))
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


@dataclass(frozen=True, eq=False)
class _MessageParts:
    """The contents of messages, part by part, shape (parts,).

    At `start` a rank at place `place` of every plane receives, by route `route`, units `low` to `high` of the
    shard of the rank at place `origin` of the plane `owner` before. Routes are numbered in a plane: those of
    the plane, then those from `hop` planes before to place, at routes + (hop - 1) places + place.
    """

    start: np.ndarray
    route: Int64Array
    origin: Int64Array
    owner: Int64Array
    low: Int64Array
    high: Int64Array

    def taken(self, rows: np.ndarray) -> _MessageParts:
        return _MessageParts(*(column[rows] for column in vars(self).values()))


def schedule_of_planes(problem: Problem, planes: Planes, plan: PlanePlan) -> Schedule:
    """Return the allgather in which all planes send what the plan says, in the step clock."""
    brought, spread = _brought(planes, plan), _spread(plan)
    joined = zip(vars(brought).values(), vars(spread).values(), strict=True)
    parts = _MessageParts(*(np.concatenate(pair) for pair in joined))
    parts = parts.taken(np.argsort(parts.start, kind="stable"))
    cuts = [_cuts(parts, plan.shard, place) for place in range(planes.rank.shape[1])]
    first, chunks = _chunks(planes, plan.shard, cuts)
    chunk, count = _runs(planes, parts, cuts, first)
    step = np.unique(parts.start, return_inverse=True)[1].ravel() + 1
    number = len(planes.rank)
    route = (parts.route[:, None] * number + np.arange(number)).ravel()
    step, routes = np.repeat(step, number), plan_routes(planes)
    return problem.schedule(Clock.STEP, chunks, chunk, route, step, count=count, routes=routes)


def _brought(planes: Planes, plan: PlanePlan) -> _MessageParts:
    """Return the pieces that rails bring, to one place after the other."""
    feed, places = plan.feed, planes.rank.shape[1]
    place = np.tile(np.arange(places), len(feed.hop) - 1)
    column = {name: np.repeat(values[1:], places) for name, values in vars(feed).items()}
    route = len(planes.local.source) + (column["hop"] - 1) * places + place
    return _MessageParts(column["start"], route, place, column["owner"], column["low"], column["high"])


def _spread(plan: PlanePlan) -> _MessageParts:
    """Return the parts that are sent inside a plane, each piece by itself."""
    spread, feed = plan.spread, plan.feed
    number = spread.high - spread.low
    part = np.repeat(np.arange(len(number)), number)
    piece = spread.low[part] + np.arange(len(part)) - offsets_of(number)[part]
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
    return parts.taken(parts.high > parts.low)


def _cuts(parts: _MessageParts, shard: int, place: int) -> Int64Array:
    """Return where shards of ranks at a place are cut."""
    own = parts.origin == place
    return np.unique(np.concatenate([[0, shard], parts.low[own], parts.high[own]])).astype(np.int64)


def _chunks(planes: Planes, shard: int, cuts: list[Int64Array]) -> tuple[Int64Array, Chunks]:
    """Return the first chunk of each rank, and the chunks."""
    place = np.empty(planes.rank.size, dtype=np.int64)
    place[planes.rank.ravel()] = np.tile(np.arange(planes.rank.shape[1]), len(planes.rank))
    number = np.array([len(cut) - 1 for cut in cuts])[place]
    item = np.repeat(np.arange(len(place), dtype=np.int32), number)
    size = np.concatenate([np.diff(cuts[at]) for at in place])
    return offsets_of(number), Chunks(item, size, len(place) * shard)


def _runs(
    planes: Planes, parts: _MessageParts, cuts: list[Int64Array], first: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Return the first chunk and the number of chunks of each part, in one plane after the other."""
    number = len(planes.rank)
    low, high = np.empty_like(parts.low), np.empty_like(parts.high)
    for place, cut in enumerate(cuts):
        own = parts.origin == place
        low[own], high[own] = np.searchsorted(cut, parts.low[own]), np.searchsorted(cut, parts.high[own])
    plane = (np.arange(number) - parts.owner[:, None]) % number
    owner = planes.rank[plane, parts.origin[:, None]]
    return (first[owner] + low[:, None]).ravel(), np.repeat(high - low, number)


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

    def feed(self, choice: PlanParameters) -> Feed:
        """Return the pieces that rails bring."""
        alphas = self.rail.alpha / self.rail.seconds
        return feed(self.rail, Sizes(choice.share, int(choice.least * alphas)))

    def played(self, choice: PlanParameters) -> tuple[PlanePlan, float]:
        """Return the plan, and its end."""
        trees, edges = self.forest(choice.forest)
        brought = self.feed(choice)
        total = amounts(trees, brought.size)
        done, end = spread(self.net, edges, brought.arrive, total, choice.patience * self.rail.alpha)
        return PlanePlan(self.rail.shard, brought, trees, edges, total, done), end

    def end(self, choice: PlanParameters) -> float:
        """Return the end of the plan."""
        if choice not in self._ends:
            self._ends[choice] = self.played(choice)[1]
        return self._ends[choice]

    def plan(self, choice: PlanParameters) -> PlanePlan:
        """Return the plan."""
        return self.played(choice)[0]

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
    return best.planes, best.plan(choice)

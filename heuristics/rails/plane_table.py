"""From what rails bring and how a plane spreads it to the schedule of all ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heuristics.rails.feed import Feed
from heuristics.rails.planes import NONE, Planes
from heuristics.rails.spreading import Edges, Spread
from heuristics.rails.trees import Trees
from schedules.method import Problem
from schedules.schedule import Chunks, Clock, Routes, Schedule, step_numbers
from topologies.exact import Int64Array, offsets_of


@dataclass(frozen=True, eq=False)
class Plan:
    """A timeline of planes: what comes, along which trees it goes on, and when; shards have so many units."""

    shard: int
    feed: Feed
    trees: Trees
    edges: Edges
    total: Int64Array
    spread: Spread


@dataclass(frozen=True, eq=False)
class _Parts:
    """What messages carry, part by part, shape (parts,).

    At `start` a rank at place `place` of every plane is sent, by route `route`, units `low` to `high` of the
    shard of the rank at place `origin` of the plane `owner` before. Routes are numbered in a plane: those of
    the plane, then `hop` planes before to place, at routes + (hop - 1) places + place.
    """

    start: np.ndarray
    route: Int64Array
    origin: Int64Array
    owner: Int64Array
    low: Int64Array
    high: Int64Array

    def taken(self, rows: np.ndarray) -> _Parts:
        return _Parts(*(column[rows] for column in vars(self).values()))


def schedule_of_planes(problem: Problem, planes: Planes, plan: Plan) -> Schedule:
    """Return the allgather in which all planes do what the plan says, in the step clock."""
    brought, spread = _brought(planes, plan), _spread(plan)
    joined = zip(vars(brought).values(), vars(spread).values(), strict=True)
    parts = _Parts(*(np.concatenate(pair) for pair in joined))
    parts = parts.taken(np.argsort(parts.start, kind="stable"))
    cuts = [_cuts(parts, plan.shard, place) for place in range(planes.rank.shape[1])]
    first, chunks = _chunks(planes, plan.shard, cuts)
    chunk, count = _runs(planes, parts, cuts, first)
    step = np.unique(parts.start, return_inverse=True)[1].ravel() + 1
    number = len(planes.rank)
    routes = plan_routes(planes)
    return Schedule(
        topology=problem.topology,
        collective=problem.collective,
        clock=Clock.STEP,
        chunks=chunks,
        chunk=chunk.astype(np.int32),
        count=count.astype(np.int32),
        route=(parts.route[:, None] * number + np.arange(number)).ravel().astype(np.int32),
        order=step_numbers(np.repeat(step, number)),
        routes=routes,
    )


def _brought(planes: Planes, plan: Plan) -> _Parts:
    """Return what rails bring, to one place after the other."""
    feed, places = plan.feed, planes.rank.shape[1]
    place = np.tile(np.arange(places), len(feed.hop) - 1)
    column = {name: np.repeat(values[1:], places) for name, values in vars(feed).items()}
    route = len(planes.local.source) + (column["hop"] - 1) * places + place
    return _Parts(column["start"], route, place, column["owner"], column["low"], column["high"])


def _spread(plan: Plan) -> _Parts:
    """Return what is sent inside a plane, each piece apart."""
    spread, feed = plan.spread, plan.feed
    number = spread.high - spread.low
    part = np.repeat(np.arange(len(number)), number)
    piece = spread.low[part] + np.arange(len(part)) - offsets_of(number)[part]
    tree = plan.edges.tree[spread.edge[part]]
    # What a tree takes of a piece follows what earlier trees of the same root take.
    size = np.diff(plan.total, axis=0)
    root = plan.trees.root[tree]
    offset = np.cumsum(size, axis=1) - size
    low = feed.low[piece] + offset[piece, tree] - offset[piece, np.searchsorted(plan.trees.root, root)]
    message = np.repeat(np.arange(len(spread.route)), np.diff(spread.first))[part]
    parts = _Parts(
        spread.start[message], spread.route[message], root, feed.owner[piece], low, low + size[piece, tree]
    )
    return parts.taken(parts.high > parts.low)


def _cuts(parts: _Parts, shard: int, place: int) -> Int64Array:
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
    planes: Planes, parts: _Parts, cuts: list[Int64Array], first: Int64Array
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

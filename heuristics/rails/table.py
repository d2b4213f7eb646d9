"""From one rank's timeline to the schedule of all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from heuristics.rails.machines import Machines
from heuristics.rails.timeline import Line, Load
from schedules.method import Problem
from schedules.schedule import Chunks, Clock, Routes, Schedule, step_numbers
from topologies.exact import Int64Array, offsets_of


class Part(NamedTuple):
    """What a message carries of one shard.

    `machine` and `place` say whose: of the receiver's machine less `machine` modulo B, and place less `place`
    modulo G. The units are those from `low` to `high`. The sender is `hop` machines or, if that is 0,
    `distance` places before the receiver.
    """

    start: float
    hop: int
    distance: int
    place: int
    machine: int
    low: int
    high: int


def schedule_of(problem: Problem, found: Machines, load: Load, line: Line) -> Schedule:
    """Return the allgather in which all ranks do what the timeline says, in the step clock."""
    parts = sorted(_parts(load, line), key=lambda part: part.start)
    cuts = np.unique([0, load.shard, *(end for part in parts for end in (part.low, part.high))])
    ranks = problem.topology.num_ranks
    columns = [_rows(found, part, cuts) for part in parts]
    step = np.unique([(part.start, part.hop > 0) for part in parts], axis=0, return_inverse=True)[1]
    chunks = Chunks(
        np.repeat(np.arange(ranks, dtype=np.int32), len(cuts) - 1),
        np.tile(np.diff(cuts), ranks),
        ranks * load.shard,
    )
    chunk, count, route = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Schedule(
        topology=problem.topology,
        collective=problem.collective,
        clock=Clock.STEP,
        chunks=chunks,
        chunk=chunk.astype(np.int32),
        count=count.astype(np.int32),
        route=route.astype(np.int32),
        order=step_numbers(np.repeat(step.ravel() + 1, ranks)),
        routes=_routes(found),
    )


def _parts(load: Load, line: Line) -> Iterator[Part]:
    sent, pieces, tails = line.counts
    port, adapter = line.port, line.adapter
    for m in range(sent):
        for place in np.flatnonzero(port.high[m] > port.low[m]).tolist():
            for shard in _of_shards(load.shard, port.low[m, place], port.high[m, place]):
                yield Part(float(port.start[m]), 0, int(port.distance[m]), place, *shard)
    for m in range(pieces + tails):
        for shard in _of_shards(load.shard, adapter.low[m], adapter.high[m]):
            for place in range(load.ranks if m >= pieces else 1):
                yield Part(float(adapter.start[m]), int(adapter.hop[m]), 0, place, *shard)


def _of_shards(shard: int, low: Any, high: Any) -> Iterator[tuple[int, int, int]]:
    """Yield a range of a stream by shards: the shard's number in the stream, and a range of it."""
    low, high = int(low), int(high)
    for number in range(low // shard, -(-high // shard)):
        yield number, max(low - number * shard, 0), min(high - number * shard, shard)


def _rows(found: Machines, part: Part, cuts: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return chunk, count and route of what all ranks receive."""
    boxes, ranks = found.rank.shape
    machine, place = np.indices((boxes, ranks)).reshape(2, -1)
    item = found.rank[(machine - part.machine) % boxes, (place - part.place) % ranks]
    low, high = np.searchsorted(cuts, [part.low, part.high])
    way = part.distance - 1 if part.hop == 0 else ranks - 1 + part.hop - 1
    # The routes of one way are in the order of their receivers.
    route = way * boxes * ranks + np.arange(boxes * ranks)
    return item * (len(cuts) - 1) + low, np.full(len(item), high - low), route


def _routes(found: Machines) -> Routes:
    """Return the routes to all ranks in turn, from 1, 2, ... places before, then from 1, 2, ... machines."""
    boxes, ranks = found.rank.shape
    machine, place = np.indices((boxes, ranks)).reshape(2, -1)
    target = found.rank.ravel()
    links = []
    for distance in range(1, ranks):
        source = found.rank[machine, (place - distance) % ranks]
        links.append(np.stack([found.port[0, source], found.port[1, target]], axis=1))
    for hop in range(1, boxes):
        source = found.rank[(machine - hop) % boxes, place]
        links.append(np.stack([found.adapter[0, source], found.adapter[1, target]], axis=1))
    flat = np.concatenate(links).ravel()
    return Routes(offsets_of(np.full(len(flat) // 2, 2)), flat.astype(np.int32))

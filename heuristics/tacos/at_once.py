"""Mixed collectives: unlike kinds at the same time, each over groups of its own (2023 version, VI-E).

Each part is made by itself, in chunks of about the same size, and then all transfers are placed one after
the other, in a tick that suits all, as early as their data and the links allow (`retimed`). Which goes first
where two want a link matters: they are tried in the order of their planned starts, and in the order of how
much must still follow in their part, the end of which is then aligned with the others'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from heuristics.tacos.copying import bytes_of_chunk
from heuristics.tacos.options import TacosOptions
from heuristics.tacos.retiming import retimed
from heuristics.tacos.switches import tick_of
from schedules.collective import Collective
from schedules.method import Problem
from schedules.mixing import side_by_side
from schedules.schedule import Schedule


def at_once(
    problem: Problem, size: Fraction, options: TacosOptions, make: Callable[[Problem, TacosOptions], Schedule]
) -> Schedule:
    """Return the schedule of a mixed collective that ends first of those tried.

    Parameters
    ----------
    problem
        Its collective has parts.
    size
        M in bytes.
    options
        ``chunks`` is for the shards of the smallest size; larger ones are cut into more.
    make
        Returns the schedule of one part, given it and its options.
    """
    what = problem.collective
    own = options.shared(len(what.parts))
    parts = [
        make(Problem(problem.topology, part, size), replace(own, chunks=chunks))
        for part, chunks in zip(what.parts, _chunks(what, options.chunks), strict=True)
    ]
    sizes = {bytes_of_chunk(part.chunks, size) for part in parts}
    tick = tick_of(problem.topology, sizes, sum(map(len, parts)))
    together = side_by_side(what, [_in_ticks(part, tick) for part in parts])
    placed = (retimed(turn) for turn in _turns(together))
    return min(placed, key=lambda schedule: schedule.stats["ticks"])


def _chunks(what: Collective, chunks: int) -> list[int]:
    """Return the chunks a shard of each part, for sizes as alike as they can be."""
    shards = [part.items.share[0] for part in what.parts]
    return [chunks * math.ceil(shard / min(shards)) for shard in shards]


def _in_ticks(part: Schedule, tick: Fraction) -> Schedule:
    """Return a part with its starts in other ticks, rounded down: only their order is of use."""
    start = np.zeros(0, np.int64) if part.order is None else part.order.astype(np.int64)
    ratio = (part.tick or tick) / tick
    if ratio.denominator == 1:
        return part.replace(order=start * int(ratio), tick=tick)
    floors = [moment * ratio.numerator // ratio.denominator for moment in start.tolist()]
    return part.replace(order=np.array(floors, np.int64), tick=tick)


def _turns(schedule: Schedule) -> Iterator[Schedule]:
    """Yield the schedule with its rows in the orders to be tried; the order column only numbers them."""
    start = np.zeros(0, np.int64) if schedule.order is None else schedule.order.astype(np.int64)
    part = _part_of_row(schedule)
    ends = np.zeros(len(schedule.collective.parts), np.int64)
    np.maximum.at(ends, part, start)
    for key in (start, start - ends[part]):
        rows = np.argsort(key, kind="stable")
        yield schedule.replace(
            chunk=schedule.chunk[rows],
            route=schedule.route[rows],
            order=np.arange(len(rows)),
            reduce=None if schedule.reduce is None else schedule.reduce[rows],
        )


def _part_of_row(schedule: Schedule) -> np.ndarray:
    """Return which part of the collective each row is of."""
    items = np.cumsum([len(part.items) for part in schedule.collective.parts])
    return np.searchsorted(items, schedule.chunks.item[schedule.chunk], side="right")

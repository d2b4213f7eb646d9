"""Schedules of several collectives, put side by side: one schedule of the mixed collective.

The chunk tables follow each other as the items do, and the rows are merged by step or start. No row is
moved: in the step clock links that several parts use in one step carry the sum; in the time clock they may
collide, and whoever puts the parts together has to give them new times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from schedules.collective import Collective
from schedules.schedule import Chunks, Clock, Routes, Schedule, step_numbers
from topologies.errors import InputError
from topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array, IntArray, common_divisor


def side_by_side(what: Collective, parts: Sequence[Schedule]) -> Schedule:
    """Return the schedule that does all parts at once.

    Parameters
    ----------
    what
        The mixed collective (`schedules.collective.concurrent`).
    parts
        A schedule for each of its parts, in order: on one topology, in one clock and, in the time clock,
        made for one size.

    Raises
    ------
    InputError
        If they do not fit each other, or their chunks have no common denominator, or their starts no common
        tick, that fits 64 bits.
    """
    _check(what, parts)
    first = parts[0]
    chunks, base = _joined_chunks(what, parts)
    counts = [len(part) for part in parts]
    order, tick = _joined_order(parts)
    rows = np.arange(sum(counts)) if order is None else np.argsort(order, kind="stable")
    routes, shift = _joined_routes(parts)
    chunk = np.concatenate([part.chunk + np.int32(b) for part, b in zip(parts, base, strict=True)])
    route = np.concatenate([part.route + np.int32(s) for part, s in zip(parts, shift, strict=True)])
    return Schedule(
        topology=first.topology,
        collective=what,
        clock=first.clock,
        chunks=chunks,
        chunk=chunk[rows],
        route=route[rows],
        order=None if order is None else order[rows],
        count=_joined_counts(parts, rows),
        reduce=_joined_reduces(parts, rows),
        routes=routes,
        tick=tick,
        size=first.size,
    )


def _check(what: Collective, parts: Sequence[Schedule]) -> None:
    if tuple(part.collective for part in parts) != what.parts:
        raise InputError(f"the parts of {what} are not what the {len(parts)} schedules do, in that order")
    for part in parts[1:]:
        if part.topology != parts[0].topology:
            raise InputError(f"topologies {parts[0].topology.name} and {part.topology.name} differ")
        if part.clock is not parts[0].clock or part.size != parts[0].size:
            raise InputError("the parts' schedules must be in one clock and made for one size")


def _joined_chunks(what: Collective, parts: Sequence[Schedule]) -> tuple[Chunks, list[int]]:
    """Return the chunks of all parts over one denominator, and the number of each part's first chunk."""
    tables = [part.chunks for part in parts]
    denominator = math.lcm(*(table.denominator for table in tables))
    items = np.cumsum([0, *(len(part.items) for part in what.parts)])
    item = np.concatenate(
        [table.item + np.int32(base) for table, base in zip(tables, items[:-1], strict=True)]
    )
    sizes = [table.size.astype(object) * (denominator // table.denominator) for table in tables]
    base = np.cumsum([0, *map(len, tables)])[:-1].tolist()
    try:
        return Chunks(item, np.concatenate(sizes).astype(np.int64), denominator), base
    except OverflowError:
        raise InputError("the chunks of the parts do not fit 64 bits over their common denominator") from None


def _joined_order(parts: Sequence[Schedule]) -> tuple[IntArray | None, Fraction | None]:
    """Return the orders of all rows, in one tick, and that."""
    orders = [part.order for part in parts if part.order is not None]
    if parts[0].clock is Clock.FLOW or len(orders) < len(parts):
        return None, None
    ticks = [part.tick for part in parts if part.tick is not None]
    if parts[0].clock is Clock.STEP or not ticks:
        return step_numbers(np.concatenate(orders)), None
    tick = common_divisor(ticks)
    factors = [int(own / tick) for own in ticks]
    if any(int(own.max(initial=0)) * by > INT64_MAX for own, by in zip(orders, factors, strict=True)):
        raise InputError("the starts of the parts do not fit 64 bits in a common tick")
    scaled = [order.astype(np.int64) * factor for order, factor in zip(orders, factors, strict=True)]
    return np.concatenate(scaled), tick


def _joined_routes(parts: Sequence[Schedule]) -> tuple[Routes | None, list[int]]:
    """Return a table with the routes of all parts, and where those of each begin; None: routes are links."""
    if all(part.routes is None for part in parts):
        return None, [0] * len(parts)
    tables = [part.route_table for part in parts]
    lengths = np.concatenate([np.diff(table.offsets) for table in tables])
    links = np.concatenate([table.links for table in tables])
    return Routes(np.concatenate([[0], np.cumsum(lengths)]), links), np.cumsum([0, *map(len, tables)])[
        :-1
    ].tolist()


def _joined_counts(parts: Sequence[Schedule], rows: Int64Array) -> Int32Array | None:
    if all(part.count is None for part in parts):
        return None
    ones = [np.ones(len(part), np.int32) if part.count is None else part.count for part in parts]
    return np.concatenate(ones)[rows]


def _joined_reduces(parts: Sequence[Schedule], rows: Int64Array) -> BoolArray | None:
    if all(part.reduce is None for part in parts):
        return None
    none = [np.zeros(len(part), np.bool_) if part.reduce is None else part.reduce for part in parts]
    return np.concatenate(none)[rows]

"""Combines schedules of collectives that run at the same time, over groups of ranks, into one schedule.

`side_by_side` joins the chunk tables in the order of the items, and merges the rows by step or start. No row
is moved. In the step clock links that several parts use in one step carry the sum. In the time clock they may
collide, and the caller has to give them new times.

`together` does so. It knows from simulations when each message starts in its own part. It sorts the messages
of all parts in several orders: by these starts, by the fraction of the part that has passed, by the time
until the part ends, and part by part. In each order every message starts as early as its data and its links
allow (`schedules.retiming`). The fastest result is kept, or the parts side by side if these are faster. The
last orders are the parts one after the other, with whatever fits filled in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tutti.schedules.collective import Collective
from tutti.schedules.message_durations import sizes_of, tick_of
from tutti.schedules.retiming import retimed
from tutti.schedules.schedule import (
    NO_COPY,
    Chunks,
    Clock,
    Routes,
    Schedule,
    joined_adds,
    joined_counts,
    step_numbers,
)
from tutti.schedules.simulation.pipelining import best_slices
from tutti.schedules.simulation.simulate import SimulationOptions, simulate
from tutti.schedules.verify import VerificationError, verify
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import (
    INT64_MAX,
    FloatArray,
    Int32Array,
    Int64Array,
    IntArray,
    common_divisor,
)


def parts_of(what: Collective) -> list[tuple[Fraction, Collective]]:
    """Return the collectives of which one consists, each with its M over that of the whole.

    For a mixed collective they are its parts; for several groups there is one for each group.
    """
    if what.parts:
        return list(zip(what.part_weights, what.parts, strict=True))
    return [(Fraction(1), what.with_group(number)) for number in range(len(what.members))]


@dataclass(frozen=True, eq=False)
class _Played:
    """The rows of a part in a table of whole messages, and the start of each if the part is alone.

    Parameters
    ----------
    schedule
        The part; a flow that travels in slices is cut into pieces.
    message
        int64, shape (rows,): the number of each row's message.
    start
        The start of each row's message in seconds, shape (rows,).
    seconds
        The time in seconds when all is complete.
    """

    schedule: Schedule
    message: Int64Array
    start: FloatArray
    seconds: float

    @classmethod
    def of(cls, schedule: Schedule, size: Fraction) -> _Played:
        """Return a part with the times of its simulation with M = `size` bytes."""
        slices, seconds = best_slices(schedule, size)
        if schedule.chunks.copy_of is not None:
            slices = 1
        found = simulate(schedule, size, SimulationOptions(slices=slices))
        cut, row, piece = _in_slices(schedule, slices)
        message = found.message[row].astype(np.int64) + piece
        return cls(cut, message, found.start[message], seconds)


def together(what: Collective, parts: Sequence[Schedule], size: Fraction) -> Schedule:
    """Return the fastest schedule found of all parts together.

    Parameters
    ----------
    what
        A mixed collective, or one of several groups.
    parts
        A legal schedule of each of `parts_of`, in order, on one network.
    size
        M of the whole in bytes.

    Returns
    -------
    Schedule
        The schedule. Its ``stats`` have ``alone``, the seconds of each part by itself.

    Raises
    ------
    InputError
        As `side_by_side`.
    NoSchedule
        If no compared schedule is legal.
    """
    played = [_Played.of(part, size * w) for (w, _), part in zip(parts_of(what), parts, strict=True)]
    found, least = None, math.inf
    for each in _candidates(what, parts, played, size):
        seconds = best_slices(each, size)[1]
        if seconds < least and _is_legal(each):
            found, least = each, seconds
    if found is None:
        raise NoSchedule(f"{what}: its parts' schedules do not fit together")
    return found.replace(stats={"alone": tuple(part.seconds for part in played)})


def _candidates(
    what: Collective, parts: Sequence[Schedule], played: Sequence[_Played], size: Fraction
) -> Iterator[Schedule]:
    """Yield the schedules that are compared."""
    clocks = {part.clock for part in parts}
    if len(clocks) == 1 and Clock.TIME not in clocks:
        made = side_by_side(what, [part.replace(size=None) for part in parts])
        yield made if all(part.size is None for part in parts) else made.replace(size=size)
    yield _in_turn(what, played, size)
    pieces = [part.schedule.replace(order=None, clock=Clock.FLOW, tick=None, size=None) for part in played]
    table = side_by_side(what, pieces)
    tick = tick_of(table.topology, sizes_of(table.chunks, size), len(table))
    of_row = np.repeat(np.arange(len(played)), [len(part.schedule) for part in played])
    last = np.array([part.start.max(initial=0.0) for part in played])[of_row]
    base = np.cumsum([0, *(int(part.message.max(initial=-1)) + 1 for part in played)])
    message = np.concatenate([part.message + first for part, first in zip(played, base, strict=False)])
    start = np.concatenate([part.start for part in played])
    for first, then in (
        (start, of_row),
        (start / np.maximum(last, np.finfo(float).tiny), of_row),
        (start - last, of_row),
        (of_row, start),
        (-of_row, start),
    ):
        rows = np.lexsort((message, then, first))
        _, number = np.unique(message[rows], return_index=True)  # the first row of each message
        order = np.empty(base[-1], np.int64)
        order[np.unique(message)] = number
        starts = order[message[rows]]
        yield retimed(table.taking(rows, clock=Clock.TIME, order=starts, tick=tick, size=size))


def _is_legal(schedule: Schedule) -> bool:
    """Whether the verifier accepts it. It may refuse an exchange of sums in a step if a message is late.

    Sorted by starts, the late message follows the other one, whose data is then already added to its own.
    """
    try:
        verify(schedule)
    except VerificationError:
        return False
    return True


def _in_turn(what: Collective, played: Sequence[_Played], size: Fraction) -> Schedule:
    """Return the parts one after the other, in steps: on every link a part's messages precede the next's.

    Messages enter the first links of their routes in the order of their own schedule.
    """
    steps, first = [], 0
    for part in played:
        own, order = part.schedule, part.schedule.order
        if own.clock is Clock.STEP and order is not None:
            rows, step = np.arange(len(own)), order.astype(np.int64)
        else:
            rows = np.argsort(part.start, kind="stable")
            step = np.unique(part.start[rows], return_inverse=True)[1] + 1
        number = step_numbers(step + first)
        steps.append(own.taking(rows, clock=Clock.STEP, order=number, tick=None, size=None))
        first += int(step.max(initial=0))
    return side_by_side(what, steps).replace(size=size)


def _in_slices(schedule: Schedule, slices: int) -> tuple[Schedule, Int64Array, Int64Array]:
    """Return a flow with every chunk in `slices` pieces, and the old row and the piece of each row."""
    if slices == 1:
        return schedule, np.arange(len(schedule)), np.zeros(len(schedule), np.int64)
    chunks = schedule.chunks
    if chunks.denominator * slices > INT64_MAX:
        raise InputError("the chunks, cut into slices, do not fit 64 bits over their denominator")
    item, size = np.repeat(chunks.item, slices), np.repeat(chunks.size, slices)
    count = schedule.counts.astype(np.int64)
    of_row = np.repeat(np.arange(len(schedule)), count * slices)
    place = np.arange(len(of_row)) - np.repeat(np.cumsum(count * slices) - count * slices, count * slices)
    piece, within = np.divmod(place, count[of_row])
    chunk = (schedule.chunk[of_row] + within) * slices + piece
    cut = schedule.taking(
        of_row,
        chunks=Chunks(item, size, chunks.denominator * slices),
        chunk=chunk,
        count=None,
    )
    return cut, of_row, piece


def side_by_side(what: Collective, parts: Sequence[Schedule]) -> Schedule:
    """Return the schedule that does all parts at the same time, without moving a row.

    Parameters
    ----------
    what
        A mixed collective (`schedules.collective.concurrent`), or one of several groups.
    parts
        A schedule of each of `parts_of`, in order: on one topology, in one clock and, in the time clock, made
        for one M of the whole.

    Raises
    ------
    InputError
        If they do not fit each other, or if their chunks have no common denominator, or their starts no
        common tick, that fits 64 bits.
    """
    asked = parts_of(what)
    if [part.collective for part in parts] != [part for _, part in asked]:
        raise InputError(f"the parts of {what} are not what the {len(parts)} schedules do, in that order")
    whole = {None if part.size is None else part.size / w for part, (w, _) in zip(parts, asked, strict=True)}
    for part in parts[1:]:
        if part.topology != parts[0].topology:
            raise InputError(f"topologies {parts[0].topology.name} and {part.topology.name} differ")
        if part.clock is not parts[0].clock or len(whole) > 1:
            raise InputError("the parts' schedules must be in one clock and made for one size")
    first = parts[0]
    chunks, base = _joined_chunks(what, parts)
    counts, adds = joined_counts(parts), joined_adds(parts)
    order, tick = _mixed_order(parts)
    rows = np.arange(sum(map(len, parts))) if order is None else np.argsort(order, kind="stable")
    tables, routes = [part.route_table for part in parts], None
    if any(part.routes is not None for part in parts):
        routes = Routes.joined(tables)
    shift = [0] * len(parts) if routes is None else np.cumsum([0, *map(len, tables)])[:-1].tolist()
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
        count=None if counts is None else counts[rows],
        reduce=None if adds is None else adds[rows],
        routes=routes,
        tick=tick,
        size=None if first.size is None else first.size / parts_of(what)[0][0],
    )


def _joined_chunks(what: Collective, parts: Sequence[Schedule]) -> tuple[Chunks, list[int]]:
    """Return the chunks of all parts over one denominator, and the number of each part's first chunk."""
    tables = [part.chunks for part in parts]
    units = [w / table.denominator for (w, _), table in zip(parts_of(what), tables, strict=True)]
    denominator = math.lcm(*(unit.denominator for unit in units))
    items = np.cumsum([0, *(len(part.items) for _, part in parts_of(what))])
    item = np.concatenate(
        [table.item + np.int32(base) for table, base in zip(tables, items[:-1], strict=True)]
    )
    sizes = [
        table.size.astype(object) * int(unit * denominator) for table, unit in zip(tables, units, strict=True)
    ]
    base = np.cumsum([0, *map(len, tables)])[:-1].tolist()
    try:
        size = np.concatenate(sizes).astype(np.int64)
    except OverflowError:
        raise InputError("the chunks of the parts do not fit 64 bits over their common denominator") from None
    return Chunks(item, size, denominator, np.concatenate(list(map(_copies, tables, base)))), base


def _copies(table: Chunks, first: int) -> Int32Array:
    """Return the original of each copy, with the chunks of the table numbered from `first` on."""
    if table.copy_of is None:
        return np.full(len(table), NO_COPY, dtype=np.int32)
    return np.where(table.copy_of == NO_COPY, NO_COPY, table.copy_of + np.int32(first))


def _mixed_order(parts: Sequence[Schedule]) -> tuple[IntArray | None, Fraction | None]:
    """Return the orders of all rows in a common tick, and that tick."""
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

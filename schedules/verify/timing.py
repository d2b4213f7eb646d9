"""The order of a replay: the rows that read their sources, and the rows that deliver, one after the other.

In the time clock the order is by moments. It also determines which transfer is on a link at which moment: two
transfers on one link at one moment clash.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.schedules.message_durations import Messages, transfer_ticks
from tutti.schedules.schedule import Clock, Schedule, TransferColumns
from tutti.topologies.errors import InputError, VerificationError
from tutti.topologies.exact import INT64_MAX, NONE, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.heaps import pop_event, push_event
from tutti.topologies.kernels import kernel


class ReplaySpans(NamedTuple):
    """The order of a replay: span i reads the sources of rows first[i] to last[i] - 1, or delivers them.

    Parameters
    ----------
    first, last
        int32: the rows of spans; if a span delivers, its first row is written ``~first[i]``.
    each
        Whether each row reads and delivers before the next instead (the flow clock).
    under_way
        An upper limit on the number of chunks that are read and not yet delivered.
    """

    first: Int32Array
    last: Int32Array
    each: bool
    under_way: int

    def reading(self, row: int) -> int:
        """Return the span in which a row reads its source."""
        spans = np.flatnonzero(self.first >= 0)
        return int(spans[np.searchsorted(self.first[spans], row, side="right") - 1])


def spans(schedule: Schedule, when: Timing | None) -> ReplaySpans:
    """Return the order of a replay. In the time clock, `when` says when rows leave and arrive."""
    rows, units = len(schedule), units_of(schedule)
    widest = int(np.diff(units).max(initial=1))
    if when is not None:
        first, last = arrival_order(when.order, when.kind, when.arrival)
        under_way = _most_under_way(when.order, units, int(when.arrival.max(initial=1)))
        return ReplaySpans(first, last, False, max(1, under_way))
    if schedule.clock is Clock.FLOW or schedule.order is None:
        return ReplaySpans(np.zeros(1, np.int32), np.array([rows], np.int32), True, widest)
    changes = np.flatnonzero(schedule.order[1:] != schedule.order[:-1]) + 1
    bounds = np.concatenate([[0], changes, [rows]])
    in_turn = np.stack([bounds[:-1], ~bounds[:-1]], axis=1).ravel().astype(np.int32)
    most = np.diff(units[bounds] if len(units) else bounds).max(initial=1)
    return ReplaySpans(in_turn, np.repeat(bounds[1:], 2).astype(np.int32), False, int(most))


def units_of(schedule: Schedule) -> Int64Array:
    """Return offsets that number the chunks that rows carry; empty if each carries one."""
    if schedule.count is None:
        return np.zeros(0, dtype=np.int64)
    return offsets_of(schedule.count)


@kernel(light=1)
def _most_under_way(order: Int64Array, units: Int64Array, longest: int) -> int:
    """Return the largest number of chunks that start within `longest` ticks."""
    most, since = 0, 0
    for row in range(len(order)):
        while order[since] <= order[row] - max(longest, 1):
            since += 1
        most = max(most, unit_at(units, row + 1) - unit_at(units, since))
    return most


@kernel(inline="always")
def unit_at(units: Int64Array, row: int) -> int:
    """Return the number of the first chunk of a row, by `units_of`."""
    return row if len(units) == 0 else units[row]


_FIRST_CAPACITY = 1024


class Timing(NamedTuple):
    """The moments at which the messages of a time-clock schedule enter links and arrive.

    Parameters
    ----------
    order
        int64, shape (transfers,): the start of each row in ticks.
    kind
        int32, shape (transfers,): the number of the (route, load) of the row's message. All rows of a message
        but the first have its complement, ``~kind``.
    arrival
        int64, shape (kinds,): ticks from start to arrival.
    begin
        int64, shape (kinds,): the first entry of the route's links in `enter` and `hold`.
    enter, hold
        int64: ticks from the start until the head enters the link, and ticks for which it is held from then.
    """

    order: Int64Array
    kind: Int32Array
    arrival: Int64Array
    begin: Int64Array
    enter: Int64Array
    hold: Int64Array


def timing(schedule: Schedule) -> Timing:
    """Return the moments at which the messages of a time-clock schedule enter links and arrive.

    Raises
    ------
    VerificationError
        If it lacks a positive tick or size, or a load or a time does not fit 64 bits.
    """
    order = np.zeros(0, np.int64) if schedule.order is None else schedule.order.astype(np.int64, copy=False)
    kind, route, load = _kinds(
        order,
        schedule.columns,
        schedule.chunks.offset,
        len(schedule.route_table),
    )
    if (load < 0).any():
        raise VerificationError(
            f"the load of a message does not fit 64 bits over {schedule.chunks.denominator}; "
            "give the chunks a smaller denominator"
        )
    examples = Messages(np.arange(len(route), dtype=np.int32), route, np.zeros_like(load), load)
    try:
        durations = transfer_ticks(schedule, examples)
    except InputError as error:
        raise VerificationError(str(error)) from None
    alike = durations.kind  # several (route, load) may last the same
    arrival, begin = durations.arrival[alike], durations.offsets[alike]
    when = Timing(order, kind, arrival, begin, durations.enter, durations.hold)
    latest = max(_largest(arrival), _largest(when.enter) + _largest(when.hold))
    if _largest(order) + latest > INT64_MAX:
        raise VerificationError("the last arrival is at a tick that does not fit 64 bits; use a longer tick")
    return when


def _largest(values: Int64Array) -> int:
    return int(values.max(initial=0))


@kernel(light=1)
def _kinds(
    order: Int64Array, rows: TransferColumns, offset: Int64Array, num_routes: int
) -> tuple[Int32Array, Int32Array, Int64Array]:
    """Number the (route, load) of messages by first occurrence; a load beyond 64 bits becomes -1.

    Return the number of each row (its complement for a message's rows after the first), and the route and the
    load of each number.
    """
    chunk, runs, route = rows
    of_row = np.empty(len(order), dtype=np.int32)
    total = np.zeros(num_routes, dtype=np.int64)
    begun = np.zeros(num_routes, dtype=np.bool_)
    known = np.empty((_FIRST_CAPACITY, 2), dtype=np.int64)
    slots = np.full(2 * _FIRST_CAPACITY, NONE, dtype=np.int32)
    length, begin = 0, 0
    while begin < len(order):
        end = begin
        # The rows of one moment over one route are one message, so their loads add up.
        while end < len(order) and order[end] == order[begin]:
            run = 1 if len(runs) == 0 else runs[end]
            total[route[end]] = _add(total[route[end]], offset[chunk[end] + run] - offset[chunk[end]])
            begun[route[end]] = False
            end += 1
        for row in range(begin, end):
            known, slots = _with_room(known, slots, length)
            slot = _slot(known, slots, route[row], total[route[row]])
            if slots[slot] == NONE:
                slots[slot], known[length, 0], known[length, 1] = length, route[row], total[route[row]]
                length += 1
            of_row[row] = ~slots[slot] if begun[route[row]] else slots[slot]
            begun[route[row]] = True
        for row in range(begin, end):
            total[route[row]] = 0
        begin = end
    return of_row, known[:length, 0].astype(np.int32), known[:length, 1].copy()


@kernel
def _add(total: int, load: int) -> int:
    """Return the sum of two loads, -1 if it or one of them is beyond 64 bits."""
    return NONE if total < 0 or total + load < 0 else total + load


@kernel
def _slot(known: Int64Array, slots: Int32Array, route: int, load: int) -> np.int64:
    """Return the slot of (route, load) in a hash table, or the free slot where it belongs."""
    mixed = np.uint64(load) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(route)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    slot = np.int64(mixed >> np.uint64(33)) % len(slots)
    while slots[slot] != NONE and (known[slots[slot], 0] != route or known[slots[slot], 1] != load):
        slot = (slot + 1) % len(slots)
    return slot


@kernel
def _with_room(known: Int64Array, slots: Int32Array, length: int) -> tuple[Int64Array, Int32Array]:
    """Return the hash table, doubled if it is full."""
    if length < len(known):
        return known, slots
    known = np.concatenate((known, np.empty_like(known)))
    slots = np.full(2 * len(slots), NONE, dtype=np.int32)
    for entry in range(length):
        slots[_slot(known, slots, known[entry, 0], known[entry, 1])] = entry
    return known, slots


class Clash(NamedTuple):
    """Two messages on one link at the same time: the first row of each, the later one first."""

    row: int
    other: int
    link: int


def first_clash(schedule: Schedule, when: Timing) -> Clash | None:
    """Return the first row whose message enters a link that an earlier row's message still holds, or None.

    Two messages clash if each enters the link before the other has left it.
    """
    table = schedule.route_table
    row, other, link = _first_clash(
        when,
        schedule.route,
        table.offsets,
        table.links,
        schedule.topology.num_links,
    )
    return None if row == NONE else Clash(row, other, link)


@kernel(light=1)
def _first_clash(
    when: Timing,
    route: Int32Array,
    offsets: Int64Array,
    links: Int32Array,
    num_links: int,
) -> tuple[int, int, int]:
    """Go through the messages by start; each link keeps a list of the uses that may still matter.

    A use is (enter, leave, first row, next use of the link); one that ends before the current
    start can't meet a later message.
    """
    order, kind, _, at, enter, hold = when
    head = np.full(num_links, NONE, dtype=np.int64)
    uses = np.empty((_FIRST_CAPACITY, 4), dtype=np.int64)
    free, used = NONE, 0
    for row in range(len(order)):
        if kind[row] < 0:  # it goes with an earlier row
            continue
        first = offsets[route[row]]
        for hop in range(offsets[route[row] + 1] - first):
            link = links[first + hop]
            begin = order[row] + enter[at[kind[row]] + hop]
            end = begin + hold[at[kind[row]] + hop]
            free = _forget(uses, head, free, link, order[row])
            use = head[link]
            while use != NONE:
                if begin < uses[use, 1] and uses[use, 0] < end:
                    return row, uses[use, 2], link
                use = uses[use, 3]
            if free == NONE:
                if used == len(uses):
                    uses = np.concatenate((uses, np.empty_like(uses)))
                free, used = used, used + 1
                uses[free, 3] = NONE
            use, free = free, uses[free, 3]
            uses[use, 0], uses[use, 1], uses[use, 2], uses[use, 3] = begin, end, row, head[link]
            head[link] = use
    return NONE, NONE, NONE


@kernel
def _forget(uses: Int64Array, head: Int64Array, free: int, link: int, now: int) -> int:
    """Move the link's uses that end by `now` to the list of free ones; return its head."""
    before, use = NONE, head[link]
    while use != NONE:
        following = uses[use, 3]
        if uses[use, 1] <= now:
            if before == NONE:
                head[link] = following
            else:
                uses[before, 3] = following
            uses[use, 3] = free
            free = use
        else:
            before = use
        use = following
    return free


@kernel(light=1)
def arrival_order(order: Int64Array, kind: Int32Array, arrival: Int64Array) -> tuple[Int32Array, Int32Array]:
    """Return the spans of rows that leave or arrive, in order of time.

    Before a row leaves, all rows that are due by then arrive, by (arrival, row). A binary heap holds the rows
    that are under way.

    Parameters
    ----------
    order, kind
        As in `Timing`.
    arrival
        Ticks from start to arrival, one per kind.

    Returns
    -------
    first, last
        int32: span i is rows first[i] to last[i] - 1; if they arrive, its first is written ``~first[i]``.
    """
    first, last = np.empty(_FIRST_CAPACITY, dtype=np.int32), np.empty(_FIRST_CAPACITY, dtype=np.int32)
    ends = order + arrival[np.maximum(kind, ~kind)]
    heap = np.empty(_FIRST_CAPACITY, dtype=np.int64)  # the rows under way
    size, length = 0, 0
    for row in range(len(order) + 1):
        # All that is due by the row's start arrives first; after the last row, all the rest.
        while size > 0 and (row == len(order) or ends[heap[0]] <= order[row]):
            arrived = pop_event(heap, ends, size)
            size -= 1
            first, last, length = _append(first, last, length, ~arrived, arrived + 1)
        if row < len(order):
            if size == len(heap):
                heap = np.concatenate((heap, np.empty_like(heap)))
            push_event(heap, ends, size, row)
            size += 1
            first, last, length = _append(first, last, length, row, row + 1)
    return first[:length], last[:length]


@kernel
def _append(
    first: Int32Array, last: Int32Array, length: int, begin: int, end: int
) -> tuple[Int32Array, Int32Array, int]:
    """Add a span of one row, or lengthen the last span if the row continues it."""
    if length > 0 and last[length - 1] == end - 1 and (first[length - 1] < 0) == (begin < 0):
        last[length - 1] = end
        return first, last, length
    if length == len(first):
        first = np.concatenate((first, np.empty_like(first)))
        last = np.concatenate((last, np.empty_like(last)))
    first[length], last[length] = begin, end
    return first, last, length + 1

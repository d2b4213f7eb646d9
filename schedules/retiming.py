"""Earliest starts for messages taken one after the other: list scheduling with links as the resources.

A message over several links enters each a little after the one before (the sum of α so far) and holds it
for α + bytes/bandwidth. It starts as soon as all of its chunks that stand before it and are for its source
are there and each link of its route is free from the moment at which it is entered, be it in a gap that
messages taken before have left. One that brings a copy starts once what that is a copy of is there too.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.schedules.message_durations import Durations, messages, transfer_ticks
from tutti.schedules.schedule import Schedule, TransferColumns
from tutti.topologies.exact import Int32Array, Int64Array, offsets_of
from tutti.topologies.kernels import kernel


def retimed(schedule: Schedule, *, delayed: bool = False) -> Schedule:
    """Return the schedule with each message as early as its data and its links allow, in table order.

    Parameters
    ----------
    schedule
        In the time clock. Its rows give the order; those with one route and one start are a message.
    delayed
        Whether no message starts earlier than it does now: one that fits where it is stays there.
    """
    grouped = messages(schedule)
    rows = np.argsort(grouped.of_row, kind="stable")
    start = _earliest(
        schedule.columns,
        schedule.chunks.copy_of_or_empty,
        rows,
        offsets_of(np.bincount(grouped.of_row, minlength=len(grouped))),
        transfer_ticks(schedule, grouped),
        schedule.route_table.offsets,
        schedule.route_table.links,
        schedule.route_source,
        schedule.route_target,
        grouped.order if delayed else np.zeros(len(grouped), np.int64),
        np.zeros((schedule.topology.num_nodes, len(schedule.chunks)), np.int64),
        schedule.topology.num_links,
    )[grouped.of_row]
    rows = np.argsort(start, kind="stable")
    return schedule.taking(rows, order=start[rows])


def ends(schedule: Schedule) -> Fraction:
    """Return when the last transfer of a time-clock schedule arrives, in seconds."""
    grouped = messages(schedule)
    arrival = grouped.order + transfer_ticks(schedule, grouped).until_arrival
    return int(arrival.max(initial=0)) * (schedule.tick or Fraction(0))


class _Uses(NamedTuple):
    """When each link is held, in order of time.

    Parameters
    ----------
    first
        int64, shape (links + 1,): where the uses of each link stand.
    length
        int64, shape (links,): how many there are so far.
    begin, end
        int64.
    """

    first: Int64Array
    length: Int64Array
    begin: Int64Array
    end: Int64Array


@kernel
def _earliest(
    columns: TransferColumns,
    copy_of: Int32Array,
    rows: Int64Array,
    first: Int64Array,
    durations: Durations,
    offsets: Int64Array,
    links: Int32Array,
    source: Int32Array,
    target: Int32Array,
    not_before: Int64Array,
    ready: Int64Array,
    num_links: int,
) -> Int64Array:
    """Return the start of each message m, which carries rows[first[m] : first[m + 1]].

    `ready` is when each node has each chunk, and is written to.
    """
    chunk, count, route = columns
    taken = route[rows[first[:-1]]]
    uses, start = _no_uses(taken, offsets, links, num_links), not_before.copy()
    for message in range(len(start)):
        there, here = target[taken[message]], source[taken[message]]
        on = links[offsets[taken[message]] : offsets[taken[message] + 1]]
        at = durations.offsets[durations.kind[message]]
        delays, holds = durations.enter[at : at + len(on)], durations.hold[at : at + len(on)]
        carried = rows[first[message] : first[message + 1]]
        for row in carried:
            run = count[row] if len(count) else 1
            for cell in range(chunk[row], chunk[row] + run):
                needed = max(ready[here, cell], _originals_ready(ready, copy_of, here, there, cell))
                start[message] = max(start[message], needed)
        start[message] = _first_fit(uses, on, delays, holds, start[message])
        # Invariant: no two uses of a link overlap, whatever is taken next.
        for hop in range(len(on)):
            enter = start[message] + delays[hop]
            _insert(uses, on[hop], enter, enter + holds[hop])
        arrival = start[message] + durations.arrival[durations.kind[message]]
        for row in carried:
            for cell in range(chunk[row], chunk[row] + (count[row] if len(count) else 1)):
                ready[there, cell] = max(ready[there, cell], arrival)
    return start


@kernel
def _originals_ready(ready: Int64Array, copy_of: Int32Array, here: int, there: int, chunk: int) -> int:
    """Return when both nodes have what a chunk is a copy of, and what that is a copy of, and so on."""
    latest = 0
    while len(copy_of) > 0 and copy_of[chunk] >= 0:
        chunk = copy_of[chunk]
        latest = max(latest, ready[here, chunk], ready[there, chunk])
    return latest


@kernel
def _no_uses(route: Int32Array, offsets: Int64Array, links: Int32Array, num_links: int) -> _Uses:
    """Return links that are free for ever, with room for the transfers."""
    first = np.zeros(num_links + 1, np.int64)
    for row in range(len(route)):
        for hop in range(offsets[route[row]], offsets[route[row] + 1]):
            first[links[hop] + 1] += 1
    for link in range(num_links):
        first[link + 1] += first[link]
    room = first[num_links]
    return _Uses(first, np.zeros(num_links, np.int64), np.empty(room, np.int64), np.empty(room, np.int64))


@kernel
def _first_fit(uses: _Uses, links: Int32Array, delays: Int64Array, holds: Int64Array, now: int) -> int:
    """Return the first tick from `now` on at which a transfer over some links can start."""
    moved = True
    while moved:
        moved = False
        for hop in range(len(links)):
            begin = now + delays[hop]
            use = _not_before(uses, links[hop], begin)
            last = uses.first[links[hop]] + uses.length[links[hop]]
            while use < last and uses.begin[use] < begin + holds[hop]:
                begin = uses.end[use]
                use += 1
            if begin != now + delays[hop]:
                now, moved = begin - delays[hop], True
    return now


@kernel
def _not_before(uses: _Uses, link: int, moment: int) -> int:
    """Return the first use of a link that ends after a moment."""
    low = uses.first[link]
    high = low + uses.length[link]
    while low < high:
        middle = (low + high) // 2
        if uses.end[middle] > moment:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def _insert(uses: _Uses, link: int, begin: int, end: int) -> None:
    place = _not_before(uses, link, begin)
    for use in range(uses.first[link] + uses.length[link], place, -1):
        uses.begin[use], uses.end[use] = uses.begin[use - 1], uses.end[use - 1]
    uses.begin[place], uses.end[place] = begin, end
    uses.length[link] += 1

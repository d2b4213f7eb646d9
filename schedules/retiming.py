"""Earliest starts for messages taken one after the other: list scheduling with links as the resources.

A message over several links enters each a little after the previous one (by the sum of α so far) and holds it
for α + bytes/bandwidth. It starts as soon as two conditions hold. The chunks that earlier rows bring to its
source have arrived. Each link of its route is free from the moment at which it is entered, perhaps in a gap
between earlier messages. A message with a copy also waits until both of its ends have the original.
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
    """Return the schedule; each message, in table order, starts as early as its data and links allow.

    Parameters
    ----------
    schedule
        A schedule in the time clock. Rows give the order; rows with one route and one start are a message.
    delayed
        Whether messages may only become later: a message that fits at its present start stays there.
    """
    grouped, table, links = messages(schedule), schedule.route_table, schedule.topology.num_links
    often = np.repeat(np.bincount(grouped.route, minlength=len(table)), np.diff(table.offsets))
    first = offsets_of(np.bincount(table.links, weights=often, minlength=links).astype(np.int64))
    uses = _Uses(
        first, np.zeros(links, np.int64), np.empty(first[-1], np.int64), np.empty(first[-1], np.int64)
    )
    rows = np.argsort(grouped.of_row, kind="stable")
    start = _earliest(
        schedule.columns,
        schedule.chunks.copy_of_or_empty,
        rows,
        offsets_of(np.bincount(grouped.of_row, minlength=len(grouped))),
        transfer_ticks(schedule, grouped),
        table.offsets,
        table.links,
        schedule.route_source,
        schedule.route_target,
        grouped.order if delayed else np.zeros(len(grouped), np.int64),
        np.zeros((schedule.topology.num_nodes, len(schedule.chunks)), np.int64),
        uses,
    )[grouped.of_row]
    rows = np.argsort(start, kind="stable")
    return schedule.taking(rows, order=start[rows])


def ends(schedule: Schedule) -> Fraction:
    """Return when the last transfer of a time-clock schedule arrives, in seconds."""
    grouped = messages(schedule)
    arrival = grouped.order + transfer_ticks(schedule, grouped).until_arrival
    return int(arrival.max(initial=0)) * (schedule.tick or Fraction(0))


class _Uses(NamedTuple):
    """The times at which each link is held, in order.

    Parameters
    ----------
    first
        int64, shape (links + 1,): the first entry of each link.
    length
        int64, shape (links,): the number of uses so far.
    begin, end
        int64: the ticks at which uses begin and end.
    """

    first: Int64Array
    length: Int64Array
    begin: Int64Array
    end: Int64Array


@kernel(light=1)
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
    uses: _Uses,
) -> Int64Array:
    """Return the start of each message m, which carries rows[first[m] : first[m + 1]].

    `ready` is the time when each node has each chunk; it is updated, as are `uses`.
    """
    chunk, count, route = columns
    taken = route[rows[first[:-1]]]
    start = not_before.copy()
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
    """Return when both nodes have the original of a copy, the original of that, and so on."""
    latest = 0
    while len(copy_of) > 0 and copy_of[chunk] >= 0:
        chunk = copy_of[chunk]
        latest = max(latest, ready[here, chunk], ready[there, chunk])
    return latest


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

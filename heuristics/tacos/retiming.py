"""Earliest starts for transfers taken one after the other: list scheduling with links as the resources.

A transfer over several links enters each a little after the one before (the sum of α so far) and holds it
for α + bytes/bandwidth. It starts as soon as all of its chunk that stands before it and is for its source is
there and each link of its route is free from the moment at which it is entered, be it in a gap that
transfers taken before have left.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numba import njit

from schedules.message_durations import Durations, messages, transfer_ticks
from schedules.schedule import Schedule
from topologies.exact import Int32Array, Int64Array


def retimed(schedule: Schedule) -> Schedule:
    """Return the schedule with each transfer as early as its data and its links allow, row after row.

    Rows must carry one chunk each, and be no messages together. ``stats["ticks"]`` says when all has arrived.
    """
    grouped = messages(schedule)
    durations = transfer_ticks(schedule, grouped)
    table = schedule.route_table
    start, arrival = _earliest(
        schedule.chunk,
        schedule.route,
        durations._replace(kind=durations.kind[grouped.of_row]),
        table.offsets,
        table.links,
        schedule.route_source,
        schedule.route_target,
        schedule.topology.num_links,
        np.zeros((schedule.topology.num_ranks, len(schedule.chunks)), np.int64),
    )
    rows = np.argsort(start, kind="stable")
    return schedule.replace(
        chunk=schedule.chunk[rows],
        route=schedule.route[rows],
        order=start[rows],
        reduce=None if schedule.reduce is None else schedule.reduce[rows],
        stats={**schedule.stats, "ticks": int(arrival.max(initial=0))},
    )


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


@njit(cache=True)
def _earliest(
    chunk: Int32Array,
    route: Int32Array,
    durations: Durations,
    offsets: Int64Array,
    links: Int32Array,
    source: Int32Array,
    target: Int32Array,
    num_links: int,
    ready: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """Return starts and arrivals; `ready` is when each rank has each chunk, and is written to."""
    uses = _no_uses(route, offsets, links, num_links)
    start, arrival = np.empty(len(chunk), np.int64), np.empty(len(chunk), np.int64)
    for row in range(len(chunk)):
        taken = links[offsets[route[row]] : offsets[route[row] + 1]]
        at = durations.offsets[durations.kind[row]]
        delays, holds = durations.enter[at : at + len(taken)], durations.hold[at : at + len(taken)]
        now = _first_fit(uses, taken, delays, holds, ready[source[route[row]], chunk[row]])
        # Invariant: no two uses of a link overlap, whatever is taken next.
        for hop in range(len(taken)):
            _insert(uses, taken[hop], now + delays[hop], now + delays[hop] + holds[hop])
        start[row], arrival[row] = now, now + durations.arrival[durations.kind[row]]
        there = target[route[row]]
        ready[there, chunk[row]] = max(ready[there, chunk[row]], arrival[row])
    return start, arrival


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
def _insert(uses: _Uses, link: int, begin: int, end: int) -> None:
    place = _not_before(uses, link, begin)
    for use in range(uses.first[link] + uses.length[link], place, -1):
        uses.begin[use], uses.end[use] = uses.begin[use - 1], uses.end[use - 1]
    uses.begin[place], uses.end[place] = begin, end
    uses.length[link] += 1

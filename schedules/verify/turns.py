"""What happens in turn in a replay: which rows read their sources, and which deliver."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from schedules.schedule import Clock, Schedule
from schedules.verify.timing import Timing, arrival_order
from topologies.exact import Int32Array, Int64Array, offsets_of


class Spans(NamedTuple):
    """What happens in turn: span i reads the sources of rows first[i] to last[i] - 1, or delivers them.

    Parameters
    ----------
    first, last
        int32: where a span delivers, its first is written ``~first[i]``.
    each
        Whether instead each row reads and delivers before the next (the flow clock).
    under_way
        At least as many chunks as are ever read and not yet delivered.
    """

    first: Int32Array
    last: Int32Array
    each: bool
    under_way: int

    def reading(self, row: int) -> int:
        """Return the span in which a row reads its source."""
        spans = np.flatnonzero(self.first >= 0)
        return int(spans[np.searchsorted(self.first[spans], row, side="right") - 1])


def spans(schedule: Schedule, when: Timing | None) -> Spans:
    """Return what happens in turn. In the time clock, `when` says when rows leave and arrive."""
    rows, units = len(schedule), units_of(schedule)
    widest = int(np.diff(units).max(initial=1))
    if when is not None:
        first, last = arrival_order(when.order, when.kind, when.arrival)
        under_way = _most_under_way(when.order, units, int(when.arrival.max(initial=1)))
        return Spans(first, last, False, max(1, under_way))
    if schedule.clock is Clock.FLOW or schedule.order is None:
        return Spans(np.zeros(1, np.int32), np.array([rows], np.int32), True, widest)
    changes = np.flatnonzero(schedule.order[1:] != schedule.order[:-1]) + 1
    bounds = np.concatenate([[0], changes, [rows]])
    in_turn = np.stack([bounds[:-1], ~bounds[:-1]], axis=1).ravel().astype(np.int32)
    most = np.diff(units[bounds] if len(units) else bounds).max(initial=1)
    return Spans(in_turn, np.repeat(bounds[1:], 2).astype(np.int32), False, int(most))


def units_of(schedule: Schedule) -> Int64Array:
    """Return offsets that number the chunks that rows carry; empty where each carries one."""
    if schedule.count is None:
        return np.zeros(0, dtype=np.int64)
    return offsets_of(schedule.count)


@njit(cache=True)
def _most_under_way(order: Int64Array, units: Int64Array, longest: int) -> int:
    """Return the most chunks that start within `longest` ticks."""
    most, since = 0, 0
    for row in range(len(order)):
        while order[since] <= order[row] - max(longest, 1):
            since += 1
        most = max(most, unit_at(units, row + 1) - unit_at(units, since))
    return most


@njit(cache=True, inline="always")
def unit_at(units: Int64Array, row: int) -> int:
    """Return the number of the first chunk of a row, by `units_of`."""
    return row if len(units) == 0 else units[row]

"""Which transfer spoilt a reduction: the replay of one chunk with sets of contributors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schedules.schedule import Schedule
from schedules.verify.errors import VerificationError, chunk_name, wrong_transfer
from schedules.verify.turns import Spans
from topologies.exact import Int64Array

_MANY = 2
"""Contributions are counted up to here: often enough is too often."""


@dataclass(frozen=True)
class _Value:
    """What a node holds: how often each member of the group is in it, and when that was first too often."""

    times: npt.NDArray[np.int8]
    doubled: tuple[int, int] | None = None
    """The span and the row that put in something for a second time."""

    def plus(self, other: _Value, place: tuple[int, int]) -> _Value:
        """Return the sum made by the row at this place."""
        times = np.minimum(self.times + other.times, _MANY)
        blames = [value.doubled for value in (self, other) if value.doubled is not None]
        if not blames and times.max() == _MANY:
            blames = [place]
        return _Value(times, min(blames, default=None))


def reduction_error(schedule: Schedule, turns: Spans, chunk: int) -> VerificationError:
    """Return the error for a chunk whose required sums are wrong.

    It names the first transfer that put a contribution a second time into a value that ends where the sum
    should be; where there is none, the first rank with a contribution missing.
    """
    item = int(schedule.chunks.item[chunk])
    group = int(schedule.collective.items.group[item])
    members = schedule.collective.members[group]
    start = int(schedule.collective.items.start[item])
    givers = members if start < 0 else (start,)
    end = int(schedule.collective.items.end[item])
    held = _replay(schedule, turns, chunk, givers)
    nobody = _Value(np.zeros(len(givers), dtype=np.int8))
    required = [(rank, held.get(rank, nobody)) for rank in (members if end < 0 else (end,))]
    places = [value.doubled for _, value in required if value.doubled is not None]
    if places:
        return wrong_transfer(schedule, min(places)[1], chunk, "it adds a contribution a second time")
    labels = schedule.topology.labels
    rank, value = next((rank, value) for rank, value in required if value.times.min() == 0)
    absent = labels[givers[int(value.times.argmin())]]
    return VerificationError(
        f"{chunk_name(schedule, chunk)}: the contribution of rank {absent} is missing at rank {labels[rank]} "
        "at the end"
    )


def _replay(schedule: Schedule, turns: Spans, chunk: int, givers: tuple[int, ...]) -> dict[int, _Value]:
    """Return what each node holds of a chunk, to which some ranks contribute, at the end."""
    rows = _rows_of(schedule, chunk)
    sources, targets = (
        schedule.route_source[schedule.route[rows]],
        schedule.route_target[schedule.route[rows]],
    )
    reduces = np.zeros(len(rows), dtype=bool) if schedule.reduce is None else schedule.reduce[rows]
    own = np.eye(len(givers), dtype=np.int8)
    held = {rank: _Value(own[place]) for place, rank in enumerate(givers)}
    read: dict[int, _Value] = {}
    for span, first, last, delivers in _spans_of(turns, rows):
        for index in range(first, last):
            source, target, row = int(sources[index]), int(targets[index]), int(rows[index])
            if not delivers:
                read[index] = held[source]
            if delivers or turns.each:
                value = read.pop(index)
                before = held.get(target)
                added = bool(reduces[index]) and before is not None
                held[target] = before.plus(value, (span, row)) if added and before else value
    return held


def _rows_of(schedule: Schedule, chunk: int) -> Int64Array:
    """Return the rows that carry a chunk."""
    if schedule.count is None:
        return np.flatnonzero(schedule.chunk == chunk)
    return np.flatnonzero((schedule.chunk <= chunk) & (chunk - schedule.chunk < schedule.count))


def _spans_of(turns: Spans, rows: Int64Array) -> list[tuple[int, int, int, bool]]:
    """Return the spans as they are within `rows`: (span, first, last, whether it delivers)."""
    delivers = turns.first < 0
    first = np.searchsorted(rows, np.where(delivers, ~turns.first, turns.first))
    last = np.searchsorted(rows, turns.last)
    some = np.flatnonzero(first < last)
    columns = (some, first[some], last[some], delivers[some])
    return list(zip(*(column.tolist() for column in columns), strict=True))

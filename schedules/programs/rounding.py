"""Rounding of chunks to whole units: buffers hold no thirds of an element, and files no billion chunks."""

from __future__ import annotations

from fractions import Fraction
from math import gcd

import numpy as np

from tutti.schedules.retiming import retimed
from tutti.schedules.schedule import NO_COPY, Chunks, Clock, Schedule
from tutti.topologies.exact import offsets_of

GRAIN = 1024
"""Largest number of units of an item, unless another number is given."""


def rounded(schedule: Schedule, grain: int = GRAIN) -> Schedule:
    """Return the schedule with chunks of whole units, at most `grain` for each item.

    If its chunks have that form, the schedule is returned unchanged. Otherwise the cuts between chunks are
    rounded, each by at most half a unit, and chunks that become empty are removed. In the time clock the
    messages get new times in their old order.
    """
    chunks, share = schedule.chunks, schedule.collective.items.share.reduced
    unit = int(np.gcd.reduce(chunks.size, initial=0)) or 1
    step = gcd(*share.numerators.tolist()) or 1
    weight = share.numerators // step
    largest = int(weight.max(initial=1))
    exact = Fraction(chunks.denominator, unit) * Fraction(step, share.denominator) * largest
    if exact.denominator == 1 and exact <= max(grain, largest):
        return schedule
    length = weight * max(1, grain // largest)
    tiling = chunks.tiling_size
    whole = np.add.reduceat(tiling, chunks.first[:-1]) if len(chunks) else tiling
    end = offsets_of(tiling)[1:] - offsets_of(tiling)[chunks.first[chunks.item]]
    part = end / np.maximum(whole, 1)[chunks.item]
    cut = np.rint(part * length[chunks.item]).astype(np.int64)
    before = np.where(np.arange(len(cut)) == chunks.first[chunks.item], 0, np.roll(cut, 1))
    units = max(1, grain // largest) * Fraction(share.denominator, step)
    sizes = ((cut - before) * units.denominator)[chunks.original]
    kept = (sizes > 0) | (length[chunks.item] == 0)
    place = offsets_of(kept)
    of = chunks.copy_of
    copies = None if of is None else np.where(of == NO_COPY, NO_COPY, place[of])[kept]
    first, last = place[schedule.chunk], place[schedule.chunk + schedule.counts]
    rows = last > first
    result = schedule.taking(
        rows,
        chunks=Chunks(chunks.item[kept], sizes[kept], units.numerator, copies),
        chunk=first[rows],
        count=(last - first)[rows],
        claims={},
    )
    return retimed(result) if result.clock is Clock.TIME else result

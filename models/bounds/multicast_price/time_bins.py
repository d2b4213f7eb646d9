"""Moments of time, the messages between them, and the most that messages over a link can earn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from tutti.topologies.exact import FloatArray, Int64Array

GROWTH = 0.01
"""Largest excess of the ratio of steps over the least that is possible."""


@dataclass(frozen=True)
class Moments:
    """Some whole ticks from 0 on, up to a time, and that time; a *bin* lies between each and the next.

    Parameters
    ----------
    time, tick
        Seconds.
    marks
        The ticks, rising from 0; those not before the time do not count.
    """

    time: Fraction
    tick: Fraction
    marks: tuple[int, ...]

    @cached_property
    def at(self) -> Int64Array:
        """Shape (bins + 1,): the moments, in ticks, the last one rounded up."""
        end = -int(-self.time // self.tick)
        return np.array([*(mark for mark in self.marks if mark < end), end])

    @property
    def bins(self) -> int:
        """The number of bins."""
        return len(self.at) - 1

    @cached_property
    def ticks(self) -> FloatArray:
        """Shape (bins + 1,): the moments, in ticks."""
        return np.minimum(self.at.astype(np.float64), float(self.time / self.tick))

    def whole(self, alpha: Int64Array | int, denominator: int) -> Int64Array:
        """Return α, over its denominator, in whole ticks, rounded down."""
        unit = self.tick * denominator
        return np.asarray(alpha) * unit.denominator // unit.numerator

    def bin_of(self, ticks: Int64Array) -> Int64Array:
        """Return the bins that begin at or before given ticks."""
        return np.searchsorted(self.at[:-1], ticks, side="right") - 1

    def before(self, ticks: int) -> Int64Array:
        """Return for each bin the one in which the moment `ticks` before its end lies; -1 for none."""
        return np.searchsorted(self.at[:-1], self.at[1:] - ticks, side="left") - 1

    def windows(self, alpha: float) -> tuple[Int64Array, Int64Array, FloatArray]:
        """Return the two moments of each message longer than α, and the time for its bytes; in ticks."""
        begin, end = np.nonzero(np.triu(np.ones((self.bins + 1,) * 2, dtype=np.bool_), 1))
        room = self.ticks[end] - self.ticks[begin] - alpha
        long = room > 0
        return begin[long], end[long], room[long]

    def most(self, worth: Int64Array, alpha: float) -> float:
        """Return the most that messages of a link earn, if each byte takes a tick.

        Parameters
        ----------
        worth
            Shape (bins, bins): the value of a byte that leaves in the one bin and arrives in the other.
        alpha
            α of the link, in ticks.
        """
        begin, end, room = self.windows(alpha)
        table = np.full((self.bins + 1,) * 2, -np.inf)
        table[begin, end] = room * worth[begin, end - 1]
        best = np.zeros(self.bins + 1)
        for moment in range(1, self.bins + 1):
            best[moment] = max(best[moment - 1], (best[:moment] + table[:moment, moment]).max())
        return float(best[-1])


def graded(time: Fraction, alpha: Fraction, most: int) -> Moments:
    """Return at most `most` moments: parts of α apart or, in a long time, α apart at first and at last.

    In the middle of a long time the distances grow by a constant ratio.
    """
    length = time / alpha
    if length <= most:
        parts = int(most / length)
        return Moments(time, alpha / parts, tuple(range(math.ceil(length * parts))))
    growth, half = 1.0, math.ceil(length / 2)
    marks = list(range(half))
    while 2 * len(marks) > most:
        growth += GROWTH
        marks, at, step = [0], 1.0, 1.0
        while at < half:
            marks.append(int(at))
            step *= growth
            at += step
    return Moments(time, alpha, tuple(sorted({*marks, *(math.ceil(length) - mark for mark in marks[1:])})))

"""Moments of time, the messages between them, and the most that messages over a link can earn."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from topologies.exact import FloatArray, Int64Array


@dataclass(frozen=True)
class Moments:
    """Every tick from 0 until a time, and that time; between each and the next lies a *bin*.

    Parameters
    ----------
    time, tick
        Seconds.
    """

    time: Fraction
    tick: Fraction

    @cached_property
    def bins(self) -> int:
        """How many."""
        return -int(-self.time // self.tick)

    @cached_property
    def ticks(self) -> FloatArray:
        """Shape (bins + 1,): the moments."""
        return np.minimum(np.arange(self.bins + 1.0), float(self.time / self.tick))

    def whole(self, alpha: Int64Array | int, denominator: int) -> Int64Array:
        """Return α, over its denominator, in whole ticks, rounded down."""
        unit = self.tick * denominator
        return np.asarray(alpha) * unit.denominator // unit.numerator

    def windows(self, alpha: float) -> tuple[Int64Array, Int64Array, FloatArray]:
        """Return two moments of each message that takes α and bytes, and how long these take; in ticks."""
        begin, end = np.nonzero(np.triu(np.ones((self.bins + 1,) * 2, dtype=np.bool_), 1))
        room = self.ticks[end] - self.ticks[begin] - alpha
        long = room > 0
        return begin[long], end[long], room[long]

    def most(self, worth: Int64Array, alpha: float) -> float:
        """Return the most that messages of a link earn, of which each byte takes a tick.

        Parameters
        ----------
        worth
            Shape (bins, bins): of a byte that leaves in the one bin and arrives in the other.
        alpha
            Of the link, in ticks.
        """
        begin, end, room = self.windows(alpha)
        table = np.full((self.bins + 1,) * 2, -np.inf)
        table[begin, end] = room * worth[begin, end - 1]
        best = np.zeros(self.bins + 1)
        for moment in range(1, self.bins + 1):
            best[moment] = max(best[moment - 1], (best[:moment] + table[:moment, moment]).max())
        return float(best[-1])

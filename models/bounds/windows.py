"""Windows of time, exactly: the most that messages over a link can earn. It is for checks of certificates.

It shares no code with `models.timetables`, which finds the prices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from topologies.exact import Int64Array


@dataclass(frozen=True)
class Windows:
    """Every tick from 0 to a time; between each and the next, or the time, lies a bin.

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
        return math.ceil(self.time / self.tick)

    def whole(self, time: Fraction) -> int:
        """Return a time in whole ticks, rounded down."""
        return math.floor(time / self.tick)

    def most(self, worth: Int64Array, alpha: Fraction) -> Fraction:
        """Return the largest sum over messages of what they earn, bytes measured by their seconds.

        Parameters
        ----------
        worth
            Shape (bins, bins): of a byte that leaves in the one bin and arrives in the other.
        alpha
            Of the link.
        """
        moments = [*(bin_ * self.tick for bin_ in range(self.bins)), self.time]
        unit = math.lcm(alpha.denominator, *(moment.denominator for moment in moments))
        at, held = [int(moment * unit) for moment in moments], int(alpha * unit)
        gains, best = worth.tolist(), [0]
        for q in range(1, self.bins + 1):
            ways = ((at[q] - at[p] - held, p) for p in range(q))
            sums = (best[p] + room * gains[p][q - 1] for room, p in ways if room > 0)
            best.append(max(best[-1], *sums, 0))
        return Fraction(best[-1], unit)

"""Windows of time, exactly: the most that messages over a link can earn. It is for checks of certificates.

It shares no code with `models.deliveries`, which finds the prices.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tutti.topologies.exact import Int64Array


@dataclass(frozen=True, eq=False)
class Windows:
    """Moments from 0 to a time; between each and the next lies a bin.

    Parameters
    ----------
    moments
        Seconds, rising from 0; the last one is the time.
    """

    moments: Sequence[Fraction]

    @property
    def bins(self) -> int:
        """How many."""
        return len(self.moments) - 1

    def leaves_in(self, time: Fraction) -> int:
        """Return the bin of what leaves at a time: that which begins then or has begun."""
        return bisect_right(self.moments, time) - 1

    def turns(self, alpha: Fraction, often: int) -> Int64Array:
        """Return how often what is there from a bin on may leave in each bin, if α apart and no oftener.

        Shape (bins, bins), by the bin in which it leaves and that from which it is there.
        """
        found = np.zeros((self.bins, self.bins), dtype=np.int64)
        for bin_, moment in enumerate(self.moments[:-1]):
            for turn in range(often):
                if moment + turn * alpha >= self.moments[-1]:
                    break
                found[self.leaves_in(moment + turn * alpha), bin_] += 1
        return found

    def before(self, alpha: Fraction) -> Int64Array:
        """Return the bins of what has arrived α before the end of each bin, -1 for none."""
        return np.array([bisect_left(self.moments, end - alpha) - 1 for end in self.moments[1:]])

    def most(self, worth: Int64Array, alpha: Fraction) -> Fraction:
        """Return the largest sum over messages of what they earn, bytes measured by their seconds.

        Parameters
        ----------
        worth
            Shape (bins, bins): of a byte that leaves in the one bin and arrives in the other.
        alpha
            Of the link.
        """
        unit = math.lcm(alpha.denominator, *(moment.denominator for moment in self.moments))
        at, held = [int(moment * unit) for moment in self.moments], int(alpha * unit)
        gains, best = worth.tolist(), [0]
        for q in range(1, self.bins + 1):
            ways = ((at[q] - at[p] - held, p) for p in range(q))
            sums = (best[p] + room * gains[p][q - 1] for room, p in ways if room > 0)
            best.append(max(best[-1], *sums, 0))
        return Fraction(best[-1], unit)

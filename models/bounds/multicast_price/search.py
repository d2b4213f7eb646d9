"""Finds the largest time that prices prove to be too little, by programs for a few times."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from tutti.models.bounds.bound import ASKED_SECONDS
from tutti.models.bounds.multicast_price.program import FLOAT_SLACK, DeliveryProgram, MulticastPrices
from tutti.models.bounds.multicast_price.time_bins import Moments
from tutti.models.solvers.rows import STEP, secant
from tutti.topologies.kernels import now
from tutti.topologies.progress import tell

MOST_PROGRAMS, CLOSE = 6, 1e-3
"""The search ends after `MOST_PROGRAMS` programs, or if the next time is no more than the fraction `CLOSE`
above the proven one."""
HALVINGS = 30
"""Number of halvings of an interval of times."""


def largest_time(
    program: Callable[[Moments], DeliveryProgram],
    moments: Callable[[Fraction], Moments],
    least: Fraction,
    seconds: float = ASKED_SECONDS,
) -> tuple[MulticastPrices, Moments] | None:
    """Return the prices of the largest time that is proven, and its moments; None if it is at most `least`.

    A program whose maximum is less than 1 proves nothing, often not even a shorter time. So programs are
    solved for times from below.

    Parameters
    ----------
    program
        Returns the program for moments.
    moments
        Returns the moments for a time in seconds.
    least
        Seconds: the first time.
    seconds
        Largest number of seconds for solving.
    """
    end = now() + seconds
    times, reciprocals = [1.0], list[float]()
    low, high = 1.0, math.inf
    best: tuple[MulticastPrices, Moments] | None = None
    while len(reciprocals) < MOST_PROGRAMS and (not reciprocals or times[-1] > low * (1 + CLOSE)):
        if (left := end - now()) <= 0:
            break
        tell(f"multicast_price: linear program {len(reciprocals) + 1} of at most {MOST_PROGRAMS}")
        until = moments(Fraction(times[-1]) * least)
        reciprocal, prices = program(until).solved(left)
        reciprocals.append(reciprocal)
        if reciprocal >= 1:
            high = times[-1]
        elif prices is not None:
            proven = _proven(program, prices, until, least)
            best = max(best or (prices, proven), (prices, proven), key=lambda found: found[1].time)
            low = float(best[1].time / least)
        if reciprocals[0] >= 1:
            break
        aim = secant(times, reciprocals) * (1 - CLOSE)  # from below
        times.append(aim if aim < high else min((low + high) / 2, low * STEP))
    return best if best and best[1].time > least else None


def _proven(
    program: Callable[[Moments], DeliveryProgram], prices: MulticastPrices, moments: Moments, least: Fraction
) -> Moments:
    """Return moments of about the largest time that prices prove to be too little, at most their own."""
    low, high = 1.0, float(int(moments.at[-1]) * moments.tick / least) * (1 - FLOAT_SLACK)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        until = replace(moments, time=Fraction(middle) * least)
        low, high = (middle, high) if program(until).refuted(prices) else (low, middle)
    return replace(moments, time=Fraction(low * (1 - FLOAT_SLACK)) * least)

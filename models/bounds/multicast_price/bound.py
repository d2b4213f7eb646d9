"""The bound ``multicast_price`` for data that goes from one rank to several, or is reduced at one rank.

The largest time that prices prove to be too little is found by programs for a few times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial

from tutti.models.bounds.bound import ASKED_SECONDS, SECONDS, Bound
from tutti.models.bounds.multicast_price.program import (
    FLOAT_SLACK,
    DeliveryProgram,
    Moments,
    MulticastPrices,
    graded,
)
from tutti.models.bounds.multicast_price.symmetry_classes import Views
from tutti.models.solvers.rows import STEP, secant
from tutti.schedules.collective import Collective
from tutti.topologies.exact import json_number
from tutti.topologies.kernels import now
from tutti.topologies.progress import tell
from tutti.topologies.topology import Topology

MOST_BINS = 128
"""Largest number of bins of time. A larger value takes longer and proves more."""
MOST_ROWS = 2**18
"""Largest number of rows of a program, approximately, which takes seconds to minutes. If there would be more,
there are fewer bins."""
MOST_PROGRAMS, CLOSE = 6, 1e-3
"""The search ends after `MOST_PROGRAMS` programs, or if the next time is no more than the fraction `CLOSE`
above the proven one."""
HALVINGS = 30
"""Number of halvings of an interval of times."""


def multicast_price_bound(
    topology: Topology, collective: Collective, size: Fraction, least: Fraction
) -> Bound | None:
    """Return the bound by the prices that the linear programs find, within seconds.

    The certificate has the size, the time, the length of a tick, and the moments in ticks. It has the
    direction (``out`` for reduced data, on the network backwards) and the start of each item. For each item
    it has its row of prices for each node (``nodes``) and link (``links``). The rows have prices at ends,
    prices of what passes, by bin, and prices of what leaves, by bin.

    Parameters
    ----------
    topology, collective
        The problem.
    size
        M, bytes.
    least
        Seconds: the largest of the other bounds.

    Returns
    -------
    Bound or None
        None where it is no larger than the others, for scatters, gathers and all-to-alls, where no link has
        an α, and on large networks.
    """
    seen = Views.of(topology, collective)
    alphas = topology.alpha.numerators[topology.alpha.numerators > 0]
    if seen is None or not len(alphas):
        return None
    alpha = Fraction(int(alphas.min()), topology.alpha.denominator)
    most = min(MOST_BINS, math.isqrt(MOST_ROWS // sum(map(len, seen.uses))))
    found = _largest_time(partial(DeliveryProgram, seen, size), partial(graded, alpha, most), least)
    if found is None:
        return None
    prices, moments = found
    certificate = {
        "size_bytes": json_number(size),
        "time": json_number(moments.time),
        "tick": json_number(moments.tick),
        "moments": moments.at[:-1].tolist(),
        "direction": "out" if seen.backwards else "in",
        "starts": [item.start for item in seen.items],
        "nodes": seen.node.tolist(),
        "links": seen.way.tolist(),
        "ends": prices.end.tolist(),
        "passing": prices.passing[:, : moments.bins].tolist(),
        "leaving": prices.leaving[..., : moments.bins].tolist(),
    }
    return Bound("multicast_price", moments.time, SECONDS, certificate)


def _largest_time(
    program: Callable[[Moments], DeliveryProgram], moments: Callable[[Fraction], Moments], least: Fraction
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
    """
    end = now() + ASKED_SECONDS
    times, reciprocals = [1.0], list[float]()
    low, high = 1.0, math.inf
    found = list[tuple[MulticastPrices, Moments]]()
    while len(reciprocals) < MOST_PROGRAMS and (not reciprocals or times[-1] > low * (1 + CLOSE)):
        left = end - now()
        if left <= 0:
            break
        tell(f"multicast_price: linear program {len(reciprocals) + 1} of at most {MOST_PROGRAMS}")
        until = moments(Fraction(times[-1]) * least)
        reciprocal, prices = program(until).solved(left)
        reciprocals.append(reciprocal)
        if reciprocal >= 1:
            high = times[-1]
        elif prices is not None:
            found.append((prices, _proven(program, prices, until, least)))
            low = max(float(proven.time / least) for _, proven in found)
        if reciprocals[0] >= 1:
            break
        aim = secant(times, reciprocals) * (1 - CLOSE)  # from below
        times.append(aim if aim < high else min((low + high) / 2, low * STEP))
    better = [one for one in found if one[1].time > least]
    return max(better, key=lambda one: one[1].time, default=None)


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

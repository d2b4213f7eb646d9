"""The bound ``path_price``: the search for the largest time that prices prove to be too little."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tutti.models.bounds.bound import ASKED_SECONDS, SECONDS, Bound
from tutti.models.bounds.path_price.commodities import RankPairs
from tutti.models.bounds.path_price.program import (
    UNIT,
    ItineraryProgram,
    MessageTerms,
    PathPrices,
    StartPrices,
)
from tutti.models.solvers.rows import secant
from tutti.schedules.collective import Collective
from tutti.topologies.exact import json_number
from tutti.topologies.kernels import now
from tutti.topologies.progress import tell
from tutti.topologies.topology import Topology

MOST_COLUMNS, MOST_TICKS, MOST_PARTS = 2**13, 256, 64
"""Largest number of columns of prices, of ticks of a time, and of ticks of the least α."""
MOST_WORK = 2**27
"""Largest number of ticks, cubed, times arcs: a message begins, lasts and continues at each tick."""
STAGES = (Fraction(1, 4), Fraction(6, 5)), (Fraction(1), Fraction(101, 100))
"""For each stage: the fraction of the largest numbers of columns and ticks, and the largest ratio of a
program's ticks to the proven ones. A coarse first stage finds the time approximately."""
NEAR = 1, 2
"""For sums that all need, how many of the largest distances of pairs count: first one, which is quick."""
LATE, MANY = 16, 2**15
"""One distance must do if the time is longer than `LATE` of the largest α, or for more than `MANY` pairs
times nodes."""
MOST_PROGRAMS = 8
"""Largest number of programs for one length of ticks. A larger value takes longer and proves more."""
BELOW = Fraction(2**20 - 1, 2**20)
"""Factor by which the value of a linear program is reduced, as a safety margin, before it counts as
proven."""


def path_price_bound(
    topology: Topology, collective: Collective, size: Fraction, least: Fraction
) -> Bound | None:
    """Return the bound by the prices that the linear programs find, within seconds to minutes.

    The certificate has the size, the time and its number of ticks, and the direction (``out`` for reduced
    data, on the network backwards). It has the pairs as rows of a datum, a start and an end, and the
    symmetries under which prices are equal, as images of the nodes. It has prices by class and tick, the
    price of being sent, and prices of links by class and moment.

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
        None where it is no larger than the others, where no link has an α, and on large networks with
        little symmetry.
    """
    if not topology.alpha.numerators.any():
        return None
    unit = Fraction(int(topology.alpha.numerators.max()), topology.alpha.denominator)
    best: tuple[Fraction, PathPrices, RankPairs] | None = None
    until = now() + ASKED_SECONDS
    for near in NEAR:
        time = best[0] if best else least
        if near > 1 and time > LATE * unit:
            break
        pairs = RankPairs.of(topology, collective, near)
        if pairs is None or (near > 1 and len(pairs.start) * topology.num_nodes > MANY):
            break
        found = _finest(pairs, size, time, until)
        best = (*found, pairs) if found else best
        if not pairs.partial:
            break
    if best is None:
        return None
    time, prices, pairs = best
    certificate = {
        "size_bytes": json_number(size),
        "time": json_number(time),
        "ticks": prices.price.shape[1],
        "direction": "out" if pairs.backwards else "in",
        "pairs": np.stack([pairs.datum, pairs.start, pairs.end], axis=1).tolist(),
        "symmetries": pairs.group.nodes.tolist(),
        "prices": prices.price.tolist(),
        "transfer": prices.transfer,
        "rents": prices.rent.tolist(),
    }
    return Bound("path_price", time, SECONDS, certificate)


def _finest(
    pairs: RankPairs, size: Fraction, least: Fraction, until: float
) -> tuple[Fraction, PathPrices] | None:
    """Return the largest time that is proven and its prices; None if it is at most `least`."""
    alpha = pairs.topology.alpha
    unit = Fraction(int(alpha.numerators[alpha.numerators > 0].min()), alpha.denominator)
    most = min(MOST_TICKS, round((MOST_WORK / len(pairs.spots[1])) ** (1 / 3)))
    best: tuple[Fraction, PathPrices] | None = None
    start: StartPrices | None = None
    for finer, step in STAGES:
        time = best[0] if best else least
        parts = min(int(most * unit / time * finer), MOST_PARTS)
        columns = int(MOST_COLUMNS * finer)
        found = _longest(pairs, size, unit / parts, time, step, columns, until, start) if parts else None
        if found and found[0] > time:
            best = found[0], found[1].prices
            start = found[1]
    return best


def _longest(
    pairs: RankPairs,
    size: Fraction,
    tick: Fraction,
    least: Fraction,
    step: Fraction,
    columns: int,
    until: float,
    start: StartPrices | None,
) -> tuple[Fraction, StartPrices] | None:
    """Return the largest time that is proven, with ticks of this length or less, and its prices."""
    topology = pairs.topology
    denominator = topology.alpha.denominator * tick
    alpha = topology.alpha.numerators * denominator.denominator // denominator.numerator
    moved = size / max(topology.bandwidth)
    ticks, low, high = max(2, int(least / tick)), 0, 0
    shortest = tick * (1 - Fraction(1, ticks))  # the shortest tick for which data is counted
    most = np.array([math.ceil(share * moved / shortest * UNIT) / UNIT for share in pairs.data.values()])
    program, pool = ItineraryProgram(pairs, alpha, most, columns, until), list[MessageTerms]()
    tried, reciprocals = list[float](), list[float]()
    best: tuple[Fraction, StartPrices] | None = None
    while len(tried) < MOST_PROGRAMS and now() < until:
        tell(f"path_price: {ticks} ticks; ends within {math.ceil(until - now())} s")
        found = program.solved(ticks, pool, tick / moved, start)
        if found is None:
            break
        most_value, value, prices = found
        proven, start = min(tick, value * moved * BELOW), StartPrices(tick / moved, prices)
        if proven >= shortest and (best is None or ticks * proven > best[0]):
            best = ticks * proven, start
        tried.append(float(ticks))
        reciprocals.append(float(tick / moved) / most_value)
        if proven == tick:
            low = ticks
        else:
            high = ticks
        if high and high - low <= 1:
            break
        ahead = max(low + 1, round(secant(tried, reciprocals)))
        ticks = min(ahead, high - 1) if high else min(ahead, int(low * step) + 1)
    return best

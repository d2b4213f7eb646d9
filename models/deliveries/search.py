"""The largest time that prices prove to be too little: programs for a few times, and whole prices of each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Protocol, TypeVar

import numpy as np

from models.deliveries.windows import Moments
from models.solvers import CompiledModel, HighsOptions, solve
from models.solvers.rows import Rows
from models.solvers.secant import STEP, secant
from topologies.exact import FloatArray, Int64Array

GREATEST_PRICE = 2**30
FLOAT_SLACK = 1e-7
"""Of times, relatively: sums of doubles err by far less."""
MOST_PROGRAMS, CLOSE = 6, 1e-3
"""When the search ends: after so many, or so near to what is proven (relatively)."""
HALVINGS = 30
"""Of an interval of times."""

Prices = TypeVar("Prices")


class Program(Protocol[Prices]):
    """A linear program for a time, and what its prices prove."""

    def solved(self) -> tuple[float, Prices | None]:
        """Return the reciprocal of the program's maximum, 0 if it has none, and its prices."""

    def refuted(self, prices: Prices) -> bool:
        """Return whether links earn less by then than what is moved costs."""


def largest_time(
    program: Callable[[Moments], Program[Prices]], moments: Callable[[Fraction], Moments], least: Fraction
) -> tuple[Prices, Moments] | None:
    """Return the prices of the largest time that is proven, and this; None if it is no more than the least.

    Prices of a program whose maximum is less than 1 prove nothing, often not even of less time: programs are
    solved for times from below.

    Parameters
    ----------
    program
        That of a time.
    moments
        For a time, in seconds.
    least
        Seconds: the first time.
    """
    times, reciprocals = [1.0], list[float]()
    low, high = 1.0, math.inf
    best: tuple[Prices, Moments] | None = None
    while len(reciprocals) < MOST_PROGRAMS and (not reciprocals or times[-1] > low * (1 + CLOSE)):
        until = moments(Fraction(times[-1]) * least)
        reciprocal, prices = program(until).solved()
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
    program: Callable[[Moments], Program[Prices]], prices: Prices, moments: Moments, least: Fraction
) -> Moments:
    """Return the largest time that prices prove to be too little, about; at most as long as they are for."""
    low, high = 1.0, float(int(moments.at[-1]) * moments.tick / least) * (1 - FLOAT_SLACK)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        until = replace(moments, time=Fraction(middle) * least)
        low, high = (middle, high) if program(until).refuted(prices) else (low, middle)
    return replace(moments, time=Fraction(low * (1 - FLOAT_SLACK)) * least)


def maximum(rows: Rows, value: FloatArray) -> tuple[float, FloatArray | None]:
    """Return the reciprocal of the most of a value where the last row is 1, and where it is; 0 if nowhere."""
    matrix = rows.matrix(len(value))
    above = np.append(np.full(matrix.shape[0] - 1, np.inf), 1.0)
    below = np.append(np.zeros(matrix.shape[0] - 1), 1.0)
    model = CompiledModel.of_matrix("timetables", matrix, value, below, above, maximize=True)
    result = solve(model, "highs", HighsOptions(method="ipm", crossover=False))
    if result.values is None or not result.objective:
        return 0.0, None
    return 1 / result.objective, np.maximum(result.values, 0)


def whole_prices(found: FloatArray) -> Int64Array:
    """Return prices as whole numbers."""
    return np.rint(found * (GREATEST_PRICE / (found.max() or 1))).astype(np.int64)

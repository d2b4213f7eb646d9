"""Whether an answer keeps a mixed-integer program's constraints, and what it is worth, in own arithmetic.

The whole columns are rounded. Where there are no others, rows and objective are computed in integers and
fractions: the answer keeps them or does not. Where there are others, their best values with the whole ones
fixed are a linear program, which is solved; its solution is then put into the rows, in fractions, and may
exceed a side by `KEPT`, as a float can't do better.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array

from models.solvers import CompiledModel, HighsOptions, SolutionStatus, solve
from topologies.exact import BoolArray, FloatArray, frozen

KEPT = 1e-6
"""By how much a row with continuous columns may be exceeded, relative to its side or 1."""
MOST = 2.0**53
"""Sums of whole numbers below are exact."""
LEAST_TOLERANCE = 1e-9
SECONDS = 20.0
"""Of the linear program."""


def worth(model: CompiledModel, values: FloatArray) -> Fraction | None:
    """Return the exact objective of the values, their whole columns rounded; None if they break a row.

    Parameters
    ----------
    model
        The program.
    values
        float64, one a column.
    """
    rounded = np.where(model.integer, np.rint(values), values)
    tolerance = 0.0
    if not model.integer.all():
        completed = _completed(model, rounded)
        if completed is None:
            return None
        rounded, tolerance = completed, KEPT
    in_bounds = _within(rounded, model.lower, model.upper, tolerance)
    if not (in_bounds and _rows_hold(model, rounded, tolerance)):
        return None
    used = np.flatnonzero(model.cost * rounded)
    terms = zip(model.cost[used].tolist(), rounded[used].tolist(), strict=True)
    return sum((Fraction(cost) * Fraction(value) for cost, value in terms), Fraction(model.offset))


def _completed(model: CompiledModel, values: FloatArray) -> FloatArray | None:
    """Return the best continuous columns for the whole ones given; None if there are none."""
    fixed = replace(
        model,
        integer=frozen(np.zeros(model.num_columns), np.bool_),
        lower=frozen(np.where(model.integer, values, model.lower), np.float64),
        upper=frozen(np.where(model.integer, values, model.upper), np.float64),
    )
    options = HighsOptions(method="simplex", tolerance=LEAST_TOLERANCE, time_limit=SECONDS)
    result = solve(fixed, "highs", options)
    if result.status is not SolutionStatus.OPTIMAL or result.values is None:
        return None
    return np.where(model.integer, values, result.values)


def _rows_hold(model: CompiledModel, values: FloatArray, tolerance: float) -> bool:
    """Whether the rows hold: whole numbers are summed as such, others as fractions."""
    shape = (model.num_rows, model.num_columns)
    whole = bool((model.value == np.rint(model.value)).all() and (values == np.rint(values)).all())
    if whole and float(np.abs(model.value).sum()) * float(np.abs(values).max(initial=1)) < MOST:
        matrix = csr_array((model.value, model.index, model.starts), shape=shape)
        return _within(matrix @ values, model.row_lower, model.row_upper, tolerance)
    exact = [Fraction(value) for value in values.tolist()]
    for row in range(model.num_rows):
        entries = slice(model.starts[row], model.starts[row + 1])
        pairs = zip(model.value[entries].tolist(), model.index[entries].tolist(), strict=True)
        total = Fraction(sum(Fraction(a) * exact[column] for a, column in pairs if exact[column]))
        if not _between(total, model.row_lower[row], model.row_upper[row], tolerance):
            return False
    return True


def _within(values: FloatArray, low: FloatArray, high: FloatArray, tolerance: float) -> bool:
    room_low, room_high = (
        tolerance * np.maximum(1.0, np.abs(side)) if tolerance else 0.0 for side in (low, high)
    )
    below: BoolArray = values < low - room_low
    above: BoolArray = values > high + room_high
    return not (below.any() or above.any())


def _between(value: Fraction, low: float, high: float, tolerance: float) -> bool:
    room = Fraction(tolerance)
    above = low == -np.inf or value >= Fraction(low) - room * Fraction(max(1.0, abs(low)))
    below = high == np.inf or value <= Fraction(high) + room * Fraction(max(1.0, abs(high)))
    return bool(above and below)

r"""The exact vertex that a solver's basis means, in rationals.

A basis says which rows are equalities and which columns may differ from 0. On these A is square, and the
solution of A z = r is the vertex. One factorization in doubles, applied repeatedly to the exact residual,
gives z to any number of digits (Wilkinson's iterative refinement), and enough digits determine the rationals
(Gleixner, Steffy, Wolter 2016). The result is exact, because A z = r is then checked in integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti.models.solvers.outcome import Basis, BasisStatus

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_STEP = 30
"""Bits of each refinement. With a larger value fewer factorizations are precise enough to make progress."""

Ratios = tuple[list[int], int]
"""Numerators, and their denominator."""


def basic_solution(
    matrix: csr_array, basis: Basis | None, right: Sequence[int], cost: Sequence[int]
) -> tuple[list[int], list[int]] | None:
    """Return the basic solution of maximize cost x, A x <= right, x >= 0: columns and row duals, up to scale.

    Parameters
    ----------
    matrix
        A, of small whole numbers.
    basis
        The basis of a solver's solution.
    right, cost
        Whole numbers, one a row and one a column.

    Returns
    -------
    tuple or None
        Numerators of x, and of y, over one denominator each; None if the basis is singular or its rationals
        are too long.
    """
    from scipy.sparse import csr_array

    if basis is None:
        return None
    columns = np.flatnonzero(np.asarray(basis.columns) == BasisStatus.BASIC).tolist()
    rows = np.flatnonzero(np.asarray(basis.rows) != BasisStatus.BASIC).tolist()
    if len(columns) != len(rows) or not len(rows):
        return None
    square = csr_array(matrix[rows][:, columns])
    x = solve_exactly(square, [right[row] for row in rows])
    y = solve_exactly(csr_array(square.T), [cost[column] for column in columns]) if x else None
    if x is None or y is None or min(x[0]) < 0:
        return None
    values, duals = [0] * matrix.shape[1], [0] * matrix.shape[0]
    for whole, places, (numerators, _) in ((values, columns, x), (duals, rows, y)):
        for place, numerator in zip(places, numerators, strict=True):
            whole[place] = numerator
    return values, duals


def solve_exactly(square: csr_array, right: Sequence[int]) -> Ratios | None:
    """Return z with A z = right in rationals, or None.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> solve_exactly(csr_array(np.array([[2.0, 1.0], [0.0, 3.0]])), [1, 1])
    ([1, 1], 3)
    """
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu

    try:
        factors = splu(csc_array(square))
    except RuntimeError:  # exactly singular
        return None
    whole = _Whole(square)
    digits = np.array([0] * len(right), dtype=object)
    goal = np.array([int(value) for value in right], dtype=object)
    for steps in range(1, 33):  # longer rationals are useless
        # Invariant: digits / 2^(30 (steps - 1)) is near z, and `rest` is its residual in the same units.
        rest = (goal << (steps - 1) * _STEP) - whole.times(digits)
        if steps > 1 and max(abs(value) for value in rest) > 2**_STEP:  # the factorization is too rough
            return None
        more = (factors.solve(rest.astype(float)) * 2.0**_STEP).tolist()
        digits = (digits << _STEP) + np.array([round(value) for value in more], dtype=object)
        if steps in (2, 4, 8, 16, 32):
            found = _rationals(digits.tolist(), steps * _STEP)
            if found and (whole.times(np.array(found[0], dtype=object)) == goal * found[1]).all():
                return found
    return None


class _Whole:
    """A sparse matrix of whole numbers that multiplies vectors of Python's integers."""

    def __init__(self, matrix: csr_array) -> None:
        self.index = matrix.indices
        self.value = np.array([int(value) for value in matrix.data], dtype=object)
        self.starts = matrix.indptr[:-1]

    def times(self, vector: Any) -> Any:
        """Return the product; no row is empty, because the matrix is not singular."""
        return np.add.reduceat(self.value * vector[self.index], self.starts)


def _rationals(digits: list[int], bits: int) -> Ratios | None:
    """Return the simplest rationals within 2^-(bits - 10) of digits / 2^bits, over one denominator."""
    # A denominator up to 2^(bits / 2 - 10) is unique within the error, `slack` in the last digits.
    common, most = 1, 1 << (bits // 2 - 10)
    slack = 1 << 10
    for value in digits:
        off = (value * common) % (1 << bits)
        if min(off, (1 << bits) - off) <= slack * common:
            continue
        common = math.lcm(common, Fraction(value, 1 << bits).limit_denominator(most).denominator)
        if common > most:
            return None
    half = 1 << (bits - 1)
    return [(value * common + half) >> bits for value in digits], common

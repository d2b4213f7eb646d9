"""Linear programs for prices: their rows, given by arrays of columns, and the time at which they prove 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tutti.models.solvers.compiled import CompiledModel
from tutti.topologies.exact import NONE, FloatArray, Int64Array

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Rows:
    """Rows of a program; each must add up to 0 or more."""

    def __init__(self) -> None:
        self._terms: list[tuple[Int64Array, Int64Array, FloatArray]] = []
        self.count = 0

    def add(self, *terms: tuple[npt.ArrayLike, Int64Array]) -> int:
        """Add a row for each entry of the arrays of columns; a term has one factor, or one for each entry.

        Return the number of the first of these rows.
        """
        first, self.count = self.count, self.count + terms[0][1].size
        for factor, columns in terms:
            factors = np.broadcast_to(np.asarray(factor, dtype=np.float64), columns.size)
            self.extend(np.arange(first, self.count), factors, columns.ravel())
        return first

    def extend(self, rows: Int64Array, factors: FloatArray, columns: Int64Array) -> None:
        """Add terms to existing rows."""
        kept = columns != NONE
        self._terms.append((rows[kept], columns[kept], factors[kept]))

    def matrix(self, columns: int) -> csr_array:
        """Return their matrix."""
        from scipy.sparse import csr_array

        row, column, factor = (np.concatenate(parts) for parts in zip(*self._terms, strict=True))
        return csr_array((factor, (row, column)), shape=(self.count, columns))


def normalized(name: str, matrix: csr_array, value: FloatArray) -> CompiledModel:
    """Return the model that maximizes a value where every row is 0 or more, and the last one is 1."""
    above = np.append(np.full(matrix.shape[0] - 1, np.inf), 1.0)
    below = np.append(np.zeros(matrix.shape[0] - 1), 1.0)
    return CompiledModel.of_matrix(name, matrix, value, below, above, maximize=True)


STEP = 1.2
"""Factor from the first time to the second, and beyond times for which there is no maximum."""


def secant(times: Sequence[float], reciprocals: Sequence[float]) -> float:
    """Return where a falling number reaches 1, by the line through its last two reciprocals.

    It is no less than the first time.

    Examples
    --------
    >>> secant([1.0, 2.0], [0.5, 0.75])
    3.0
    """
    if len(times) > 1 and reciprocals[-1] != reciprocals[-2]:
        slope = (reciprocals[-1] - reciprocals[-2]) / (times[-1] - times[-2])
        return min(max(times[-1] + (1 - reciprocals[-1]) / slope, times[0]), 2 * times[-1])
    return times[-1] * STEP

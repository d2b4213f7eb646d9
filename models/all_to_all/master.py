"""The restricted master of the column generation, kept warm in HiGHS between rounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.all_to_all.orbits import ReducedProblem
from topologies.errors import TuttiError
from topologies.exact import FloatArray, Int64Array


class Master:
    """Minimize θ over convex combinations of columns; loads are in units of the first trees' mean.

    Column 0 is θ; then one a tree, in the order in which they are added. Row O < orbits is the capacity of
    link orbit O, divided by it; row orbits + s is the convexity of source s.
    """

    def __init__(self, problem: ReducedProblem, mean: float) -> None:
        import highspy

        self._problem, self._highspy = problem, highspy
        self._factor = 1.0 / (problem.capacity * mean)
        self._highs: Any = highspy.Highs()
        self._highs.setOptionValue("output_flag", False)
        orbits, rows = problem.num_orbits, problem.num_orbits + len(problem.sources)
        lower, upper = np.full(rows, -np.inf), np.zeros(rows)
        lower[orbits:] = upper[orbits:] = 1.0
        nothing = np.empty(0, dtype=np.int32)
        self._accept(
            self._highs.addRows(rows, lower, upper, 0, np.zeros(rows, np.int32), nothing, np.empty(0))
        )
        index = np.arange(orbits, dtype=np.int32)
        self._accept(self._highs.addCol(1.0, 0.0, np.inf, orbits, index, np.full(orbits, -1.0)))

    def add(self, row: int, load: Int64Array) -> None:
        """Add a tree of source `row` with these loads (orbits,)."""
        orbits = np.flatnonzero(load)
        index = np.append(orbits, self._problem.num_orbits + row).astype(np.int32)
        value = np.append((load * self._factor)[orbits] * self._problem.weights[row], 1.0)
        self._accept(self._highs.addCol(0.0, 0.0, np.inf, len(index), index, value))

    def solve(self) -> tuple[FloatArray, FloatArray]:
        """Return the shares λ of the trees and the lengths (orbits,), as floats.

        Raises
        ------
        TuttiError
            If the solver fails on what has a solution.
        """
        self._accept(self._highs.run())
        if self._highs.getModelStatus() != self._highspy.HighsModelStatus.kOptimal:
            raise TuttiError(f"HiGHS stopped on a master problem: {self._highs.getModelStatus()}")
        solution = self._highs.getSolution()
        duals = np.array(solution.row_dual)[: self._problem.num_orbits]
        return np.array(solution.col_value)[1:], np.maximum(-duals, 0) / self._problem.capacity

    def _accept(self, status: Any) -> None:
        if status == self._highspy.HighsStatus.kError:
            raise TuttiError("HiGHS refused a master problem")

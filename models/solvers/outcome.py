"""The start that a solver takes beside its model, and its answer: why it stopped, and what it found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np

from tutti.models.solvers.compiled import CompiledModel
from tutti.models.solvers.options import Feature
from tutti.topologies.errors import InputError
from tutti.topologies.exact import FloatArray

ROUNDING = 1e-6
"""Largest absolute or relative distance of a solver's floats from the numbers that they stand for. With a
larger value more floats count as exact."""
TOLERANCE = 1e-7
"""Default tolerance of solvers: the amount by which values may violate a row."""
SAME = 1e-9
"""Relative difference up to which floats count as equal. Rounding errors of sums are far smaller."""


class BasisStatus(IntEnum):
    """The place of a column or row in a basis."""

    LOWER = 0
    BASIC = 1
    UPPER = 2
    FREE = 3
    NONBASIC = 4


@dataclass(frozen=True, eq=False)
class Basis:
    """A basis: a `BasisStatus` for every column and every row, int8."""

    columns: Any
    rows: Any

    def grown(self, model: CompiledModel) -> Basis:
        """Return this basis for its model after it has grown: new columns at 0, new rows slack."""
        columns = np.full(model.num_columns, BasisStatus.LOWER, np.int8)
        columns[: len(self.columns)] = self.columns
        rows = np.full(model.num_rows, BasisStatus.BASIC, np.int8)
        rows[: len(self.rows)] = self.rows
        return Basis(columns, rows)


@dataclass(frozen=True, eq=False)
class Start:
    """A point from which a solver may begin; each part may be None.

    Parameters
    ----------
    values, duals
        float64, one a column and one a row, as in `Outcome`.
    basis
        The basis of an LP solved before.
    """

    values: FloatArray | None = None
    duals: FloatArray | None = None
    basis: Basis | None = None

    @property
    def needs(self) -> frozenset[Feature]:
        """The features that a back-end needs to use it."""
        wanted = {Feature.BASIS} if self.basis is not None else set()
        return frozenset(wanted | ({Feature.START} if self.values is not None else set()))

    def check(self, name: str, columns: int, rows: int) -> None:
        """Raise unless its parts have a model's sizes and are finite.

        Raises
        ------
        InputError
            If a part is wrong; the message names it.
        """
        basis = self.basis
        parts = [
            ("values", self.values, columns),
            ("duals", self.duals, rows),
            ("basis columns", basis.columns if basis else None, columns),
            ("basis rows", basis.rows if basis else None, rows),
        ]
        for what, array, count in parts:
            if array is None:
                continue
            if np.shape(array) != (count,):
                raise InputError(f"model {name}: start has {len(array)} {what}; the model has {count}")
            if not np.isfinite(array).all():
                raise InputError(f"model {name}: start has {what} that are not finite")


@dataclass(frozen=True)
class Progress:
    """The progress of branch and cut.

    Parameters
    ----------
    seconds
        Seconds since it began.
    incumbent, bound
        The best objective found, and a bound that the optimum can't beat; None where there is none yet.
    """

    seconds: float
    incumbent: float | None
    bound: float | None


Trace = Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class Extras:
    """Optional inputs of a back-end: a start, and a function to which it reports progress."""

    start: Start | None = None
    trace: Trace | None = None


NOTHING = Extras()


def finite(value: float) -> float | None:
    """Return a number as solvers give it, or None for one that stands for infinity: 1e20 or more."""
    return float(value) if abs(value) < 1e20 else None


def least_whole(bound: float) -> int:
    """Return the least whole number that a solver's bound allows."""
    return math.ceil(bound - ROUNDING)


class Termination(StrEnum):
    """The reason why a solver stopped."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    INFEASIBLE_OR_UNBOUNDED = "infeasible or unbounded"
    TIME_LIMIT = "time limit"
    MEMORY_LIMIT = "memory limit"
    ITERATION_LIMIT = "iteration limit"
    INTERRUPTED = "interrupted"
    ERROR = "error"
    UNKNOWN = "unknown"


class SolutionStatus(StrEnum):
    """The kind of solution that a solver found."""

    OPTIMAL = "optimal"
    """Values within tolerance of an optimum."""

    FEASIBLE = "feasible"
    """Values that keep all constraints within tolerance."""

    NONE = "none"
    """It found no values to use."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The answer of a back-end; objective and bound are in the model's own sense, offset included.

    Parameters
    ----------
    termination, status
        Why it stopped and what it found.
    objective
        Objective of the values; None without any.
    bound
        Bound on the optimum, from below when minimizing (the dual side); None where the solver gives none.
    values
        float64, one a column; None without a solution.
    duals
        float64, one a row: the change of the objective with the row's bound; None where not available.
    basis
        The basis of a basic optimum, to start from again; None where the solver gives none.
    iterations
        Iterations of the algorithm that ran; None if unknown.
    nodes
        Nodes of branch and bound, or CP-SAT's branches; None if unknown.
    stopped
        How it was stopped from outside (killed, crashed); empty if it stopped by itself.
    """

    termination: Termination
    status: SolutionStatus
    objective: float | None = None
    bound: float | None = None
    values: FloatArray | None = None
    duals: FloatArray | None = None
    basis: Basis | None = None
    iterations: int | None = None
    nodes: int | None = None
    stopped: str = ""

    @classmethod
    def found(
        cls, why: Termination, objective: float, bound: float | None, values: FloatArray, **more: Any
    ) -> Outcome:
        """Return the outcome of a solver that has values; they are optimal if it stopped at an optimum."""
        status = SolutionStatus.OPTIMAL if why is Termination.OPTIMAL else SolutionStatus.FEASIBLE
        return Outcome(why, status, objective, bound, values, **more)


@dataclass(frozen=True, eq=False, kw_only=True)
class SolverResult(Outcome):
    """A model's solution: the outcome, its cost, and its values by the model's components.

    Parameters
    ----------
    model
        The matrices; None if the model was found infeasible while they were made.
    solver, version
        Name and version of the solver.
    compile_s, solve_s
        Seconds to make the matrices, and to pass them on, solve and read the answer.
    peak_rss_mb
        Most memory resident, in MB; known where it was solved in a process of its own.
    cpu_s
        CPU seconds of all threads; unknown for a solver that was killed.
    """

    model: CompiledModel | None
    solver: str
    version: str
    compile_s: float
    solve_s: float
    peak_rss_mb: float | None = None
    cpu_s: float | None = None

    @property
    def gap(self) -> float | None:
        """The solver's own relative gap, |objective - bound| / |objective|; None where one is missing."""
        if self.objective is None or self.bound is None:
            return None
        difference = abs(self.objective - self.bound)
        return difference / abs(self.objective) if difference else 0.0

    @property
    def rows(self) -> int:
        """The number of the model's constraints."""
        return 0 if self.model is None else self.model.num_rows

    @property
    def columns(self) -> int:
        """The number of the model's variables."""
        return 0 if self.model is None else self.model.num_columns

    @property
    def nonzeros(self) -> int:
        """Coefficients of the constraints."""
        return 0 if self.model is None else self.model.num_nonzeros

    def value(self, variable: Any) -> float:
        """Return the value of one Pyomo variable (``m.x[1, 2]``).

        Raises
        ------
        InputError
            If there is no solution, or the variable occurs in no constraint and not in the objective.
        """
        if self.values is None or self.model is None:
            raise InputError(f"no value of {variable.name}: {self.solver} stopped with '{self.termination}'")
        return float(self.values[self.model.place_of(variable)])

    def is_one(self, variable: Any) -> bool:
        """Return whether a binary variable is 1, as near as a solver's floats come to it."""
        return self.value(variable) > 0.5

    def dual(self, constraint: Any) -> float:
        """Return the dual value of one Pyomo constraint (a range has one side active at most).

        Raises
        ------
        InputError
            If there are no duals, or the constraint has no row.
        """
        if self.duals is None or self.model is None:
            raise InputError(f"no dual of {constraint.name}: {self.solver} returned none")
        return float(self.duals[self.model.place_of(constraint)])


@dataclass
class Effort:
    """The programs that a row needed and their cost, for its columns.

    Parameters
    ----------
    program
        The kind of program; empty: the row does not say.
    solver
        Name and version of the last one's solver, or why none was needed.
    build_s, solve_s
        Seconds to make the programs, and to solve them.
    variables, constraints
        Of all programs, of the last or of the largest, as the method says.
    programs
        The number of programs solved.
    """

    program: str = ""
    solver: str = ""
    build_s: float = 0.0
    solve_s: float = 0.0
    variables: int = 0
    constraints: int = 0
    programs: int = 0

    def add(self, result: SolverResult, build_s: float = 0.0) -> None:
        """Count one more program, of the size of the last one."""
        self.build_s += build_s
        self.solve_s += result.solve_s
        self.variables, self.constraints = result.columns, result.rows
        self.solver = f"{result.solver} {result.version}"
        self.programs += 1

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a row."""
        named = {"program": self.program} if self.program else {}
        names = ("build_s", "solve_s", "variables", "constraints", "solver")
        return named | {name: getattr(self, name) for name in names}

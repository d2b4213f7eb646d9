"""Matrices handed to the solvers of OR-Tools, and what they answer."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_matrix

from models.solvers.compiled import CompiledModel
from models.solvers.options import SolverOptions
from models.solvers.outcome import Outcome, SolutionStatus, Termination
from models.solvers.printing import printing_to
from models.solvers.start import Extras, Progress
from topologies.errors import InputError

# ortools/linear_solver/python/model_builder_helper: SolveStatus. FEASIBLE and NOT_SOLVED mean some limit.
TERMINATIONS = {
    "OPTIMAL": Termination.OPTIMAL,
    "INFEASIBLE": Termination.INFEASIBLE,
    "UNBOUNDED": Termination.UNBOUNDED,
    "CANCELLED_BY_USER": Termination.INTERRUPTED,
    "ABNORMAL": Termination.ERROR,
    "MODEL_INVALID": Termination.ERROR,
    "INVALID_SOLVER_PARAMETERS": Termination.ERROR,
    "INCOMPATIBLE_OPTIONS": Termination.ERROR,
    "SOLVER_TYPE_UNAVAILABLE": Termination.ERROR,
}

LIMITED = frozenset({"FEASIBLE", "NOT_SOLVED"})
_Options = TypeVar("_Options", bound=SolverOptions)
MOST = 0.5
"""Of its time limit: who stops then without a solution that is proven has given up for lack of time."""
ALMOST = 0.99
"""Of its time limit: who stops then, GLOP with ABNORMAL too, has reached it."""


@dataclass(frozen=True, eq=False)
class Run:
    """A solver of OR-Tools that has stopped.

    Parameters
    ----------
    solver
        The native object.
    seconds
        That it took.
    """

    solver: Any
    seconds: float

    def termination(self, options: SolverOptions) -> Termination:
        """Return why it stopped."""
        native = self.solver.status().name
        late = options.time_limit is not None and self.seconds >= ALMOST * options.time_limit
        if native in TERMINATIONS and not (late and native == "ABNORMAL"):
            return TERMINATIONS[native]
        if late or self._gave_up(native, options):
            return Termination.TIME_LIMIT
        return Termination.UNKNOWN if options.iteration_limit is None else Termination.ITERATION_LIMIT

    def _gave_up(self, native: str, options: SolverOptions) -> bool:
        """Whether it stopped before its time: CP-SAT does if its next step might take it past the limit."""
        limit = options.time_limit
        return (
            limit is not None
            and options.iteration_limit is None
            and native in LIMITED
            and self.seconds >= MOST * limit
        )


def run_native(
    native: str, model: CompiledModel, options: SolverOptions, parameters: str, extras: Extras
) -> Run:
    """Hand the arrays to a solver of OR-Tools and solve.

    Parameters
    ----------
    native
        Its name there.
    model, options, extras
        As a back-end's; of a start the values are used, where there are any.
    parameters
        In the solver's own text format.

    Raises
    ------
    InputError
        If it refuses the model or an option.
    """
    from ortools.linear_solver.python import model_builder_helper

    begin = time.perf_counter()
    helper: Any = model_builder_helper.ModelBuilderHelper()
    shape = (model.num_rows, model.num_columns)
    # It asks for writable arrays, hence the copies.
    matrix = csr_matrix((model.value, model.index, model.starts), shape=shape, copy=True)
    vectors = (model.lower, model.upper, model.cost, model.row_lower, model.row_upper)
    helper.fill_model_from_sparse_data(*(vector.copy() for vector in vectors), matrix)
    for column in np.flatnonzero(model.integer).tolist():
        helper.set_var_integrality(column, True)
    if extras.start is not None and extras.start.values is not None:
        for column, value in enumerate(extras.start.values.tolist()):
            helper.add_hint(column, value)
    helper.set_maximize(model.maximize)
    helper.set_objective_offset(model.offset)
    solver = model_builder_helper.ModelSolverHelper(native)
    solver.enable_output(options.log is not None)
    if options.time_limit is not None:
        solver.set_time_limit_in_seconds(float(options.time_limit))
    solver.set_solver_specific_parameters(parameters)
    with printing_to(options.log):
        solver.solve(helper)
    if solver.status().name in ("INVALID_SOLVER_PARAMETERS", "MODEL_INVALID"):
        why = solver.status_string()
        raise InputError(f"{options.SOLVER} does not accept model {model.name} or its options: {why}")
    return Run(solver, time.perf_counter() - begin)


@contextmanager
def telling(
    options: _Options, extras: Extras, read: Callable[[str], Iterable[Progress]]
) -> Iterator[_Options]:
    """Give options with a log where a trace is asked for, and tell afterwards what the log says.

    Parameters
    ----------
    options, extras
        As a back-end's.
    read
        From a log's text to what it tells.
    """
    if extras.trace is None:
        yield options
        return
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log") if options.log is None else Path(options.log)
        begin = log.stat().st_size if log.exists() else 0  # logs are appended to
        yield replace(options, log=log)
        with log.open("rb") as file:
            file.seek(begin)
            for progress in read(file.read().decode(errors="replace")):
                extras.trace(progress)


def read_whole(run: Run, options: SolverOptions) -> Outcome:
    """Return the outcome of a mixed-integer program: incumbent and bound, no duals."""
    termination = run.termination(options)
    if not run.solver.has_solution():
        return Outcome(termination, SolutionStatus.NONE)
    status = SolutionStatus.OPTIMAL if termination is Termination.OPTIMAL else SolutionStatus.FEASIBLE
    bound = float(run.solver.best_objective_bound())
    return Outcome(
        termination,
        status,
        float(run.solver.objective_value()),
        bound if np.isfinite(bound) else None,
        run.solver.variable_values(),
    )

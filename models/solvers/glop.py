"""GLOP, OR-Tools' simplex, by arrays."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from scipy.sparse import csr_matrix

from models.solvers.backend import Backend
from models.solvers.compiled import CompiledModel
from models.solvers.features import Feature
from models.solvers.options import SolverOptions, check_choice, check_count
from models.solvers.outcome import Outcome, SolutionStatus, Termination
from models.solvers.printing import printing_to
from models.solvers.start import NOTHING, Extras
from topologies.errors import InputError

METHODS = ("primal", "dual")


@dataclass(frozen=True, kw_only=True)
class GlopOptions(SolverOptions):
    """Options of GLOP (`ortools/glop/parameters.proto`). It runs on one thread.

    Parameters
    ----------
    method
        ``"primal"`` or ``"dual"`` simplex.
    seed
        Of its random choices.

    The others are those of `SolverOptions`; the default tolerance is GLOP's 1e-8.
    """

    SOLVER: ClassVar[str] = "glop"

    method: str = "primal"
    seed: int = 1

    def __post_init__(self) -> None:
        """Check the ranges."""
        super().__post_init__()
        check_choice("glop", "method", self.method, METHODS)
        check_count("glop", "seed", self.seed, 0)


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


def run(model: CompiledModel, options: GlopOptions, extras: Extras = NOTHING) -> Outcome:
    """Hand the arrays to GLOP, solve and read the answer; it takes no start.

    Raises
    ------
    InputError
        If GLOP refuses the model or an option.
    """
    begin = time.perf_counter()
    solver = _solve(model, options)
    if solver.status().name == "INFEASIBLE" and options.presolve:
        # From GLOP's presolve this may also mean unbounded; the simplex itself tells the two apart.
        solver = _solve(model, replace(options, presolve=False))
    termination = _termination(solver, options, time.perf_counter() - begin)
    if not solver.has_solution():
        return Outcome(termination, SolutionStatus.NONE)
    objective = float(solver.objective_value())
    if termination is not Termination.OPTIMAL:
        return Outcome(termination, SolutionStatus.FEASIBLE, objective, None, solver.variable_values())
    values, duals = solver.variable_values(), solver.dual_values()
    return Outcome(termination, SolutionStatus.OPTIMAL, objective, objective, values, duals)


def _solve(model: CompiledModel, options: GlopOptions) -> Any:
    from ortools.linear_solver.python import model_builder_helper

    helper: Any = model_builder_helper.ModelBuilderHelper()
    shape = (model.num_rows, model.num_columns)
    # It asks for writable arrays, hence the copies.
    matrix = csr_matrix((model.value, model.index, model.starts), shape=shape, copy=True)
    vectors = (model.lower, model.upper, model.cost, model.row_lower, model.row_upper)
    helper.fill_model_from_sparse_data(*(vector.copy() for vector in vectors), matrix)
    helper.set_maximize(model.maximize)
    helper.set_objective_offset(model.offset)
    solver = model_builder_helper.ModelSolverHelper("glop")
    solver.enable_output(options.log is not None)
    if options.time_limit is not None:
        solver.set_time_limit_in_seconds(float(options.time_limit))
    solver.set_solver_specific_parameters(_native_options(options))
    with printing_to(options.log):
        solver.solve(helper)
    if solver.status().name in ("INVALID_SOLVER_PARAMETERS", "MODEL_INVALID"):
        raise InputError(f"glop does not accept model {model.name} or its options: {solver.status_string()}")
    return solver


def _native_options(options: GlopOptions) -> str:
    """Return GlopParameters in protobuf's text format."""
    native: dict[str, Any] = {
        "use_dual_simplex": str(options.method == "dual").lower(),
        "use_preprocessing": str(options.presolve).lower(),
        "max_number_of_iterations": options.iteration_limit,
        "primal_feasibility_tolerance": options.tolerance,
        "dual_feasibility_tolerance": options.tolerance,
        "random_seed": options.seed,
        "log_search_progress": None if options.log is None else "true",
    }
    return " ".join(f"{name}: {value}" for name, value in native.items() if value is not None)


def _termination(solver: Any, options: GlopOptions, elapsed: float) -> Termination:
    native = solver.status().name
    if native in TERMINATIONS:
        return TERMINATIONS[native]
    if options.time_limit is not None and elapsed >= options.time_limit:
        return Termination.TIME_LIMIT
    return Termination.UNKNOWN if options.iteration_limit is None else Termination.ITERATION_LIMIT


BACKEND = Backend(
    name="glop",
    package="ortools",
    distribution="ortools",
    features=frozenset({Feature.LP, Feature.SIMPLEX, Feature.DUALS, Feature.SEED}),
    options=GlopOptions,
    run=run,
    install="pip install ortools",
    modules=("ortools.linear_solver.python.model_builder_helper",),
)

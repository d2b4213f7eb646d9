"""GLOP, OR-Tools' simplex, by arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from models.solvers.backend import Backend
from models.solvers.compiled import CompiledModel
from models.solvers.features import Feature
from models.solvers.options import SolverOptions, check_choice, check_count
from models.solvers.ortools_models import Run, run_native
from models.solvers.outcome import Outcome, SolutionStatus, Termination
from models.solvers.start import NOTHING, Extras

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


def run(model: CompiledModel, options: GlopOptions, extras: Extras = NOTHING) -> Outcome:
    """Hand the arrays to GLOP, solve and read the answer; it takes no start.

    Raises
    ------
    InputError
        If GLOP refuses the model or an option.
    """
    done = run_native("glop", model, options, _native_options(options), NOTHING)
    if done.solver.status().name == "INFEASIBLE" and options.presolve:
        # From GLOP's presolve this may also mean unbounded; the simplex itself tells the two apart.
        plain = replace(options, presolve=False)
        again = run_native("glop", model, plain, _native_options(plain), NOTHING)
        done = Run(again.solver, done.seconds + again.seconds)
    solver, termination = done.solver, done.termination(options)
    if not solver.has_solution():
        return Outcome(termination, SolutionStatus.NONE)
    objective = float(solver.objective_value())
    if termination is not Termination.OPTIMAL:
        return Outcome(termination, SolutionStatus.FEASIBLE, objective, None, solver.variable_values())
    values, duals = solver.variable_values(), solver.dual_values()
    return Outcome(termination, SolutionStatus.OPTIMAL, objective, objective, values, duals)


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

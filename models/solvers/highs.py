"""HiGHS through highspy, by arrays: simplex and interior point for LPs, branch and cut for MILPs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from models.solvers.backend import Backend
from models.solvers.compiled import CompiledModel
from models.solvers.features import Feature
from models.solvers.options import check_choice, check_count, check_positive
from models.solvers.outcome import Outcome, SolutionStatus, Termination
from topologies.errors import InputError

METHODS = ("choose", "simplex", "ipm")


@dataclass(frozen=True)
class HighsOptions:
    """Options of HiGHS (https://ergo-code.github.io/HiGHS/stable/options/definitions/).

    Parameters
    ----------
    method
        ``"choose"``, ``"simplex"`` or ``"ipm"`` (option ``solver``).
    time_limit
        Seconds; None for no limit.
    iteration_limit
        Of simplex or interior-point iterations; None for no limit.
    threads
        At least 1.
    tolerance
        Primal and dual feasibility; None for HiGHS's 1e-7.
    crossover
        Whether interior point ends in a basic solution.
    presolve
        Whether the model is reduced first.
    relative_gap
        At which branch and cut stops; None for HiGHS's 1e-4.
    seed
        Of its random choices.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    method: str = "choose"
    time_limit: float | None = None
    iteration_limit: int | None = None
    threads: int = 1
    tolerance: float | None = None
    crossover: bool = True
    presolve: bool = True
    relative_gap: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges."""
        check_choice("highs", "method", self.method, METHODS)
        check_positive("highs", "time_limit", self.time_limit, "a positive number of seconds")
        check_positive("highs", "tolerance", self.tolerance, "a positive number")
        check_positive("highs", "relative_gap", self.relative_gap, "a positive number")
        check_count("highs", "iteration_limit", self.iteration_limit, 0)
        check_count("highs", "threads", self.threads, 1)
        check_count("highs", "seed", self.seed, 0)


# https://ergo-code.github.io/HiGHS/stable/structures/enums/#HighsModelStatus
TERMINATIONS = {
    "kLoadError": Termination.ERROR,
    "kModelError": Termination.ERROR,
    "kPresolveError": Termination.ERROR,
    "kSolveError": Termination.ERROR,
    "kPostsolveError": Termination.ERROR,
    "kModelEmpty": Termination.OPTIMAL,
    "kOptimal": Termination.OPTIMAL,
    "kInfeasible": Termination.INFEASIBLE,
    "kUnboundedOrInfeasible": Termination.INFEASIBLE_OR_UNBOUNDED,
    "kUnbounded": Termination.UNBOUNDED,
    "kTimeLimit": Termination.TIME_LIMIT,
    "kIterationLimit": Termination.ITERATION_LIMIT,
    "kMemoryLimit": Termination.MEMORY_LIMIT,
    "kInterrupt": Termination.INTERRUPTED,
    "kHighsInterrupt": Termination.INTERRUPTED,
}


def run(model: CompiledModel, options: HighsOptions) -> Outcome:
    """Hand the arrays to HiGHS, solve and read the answer.

    Raises
    ------
    InputError
        If HiGHS refuses an option or the model.
    """
    import highspy

    highs = highspy.Highs()
    for name, value in _native_options(options).items():
        # HiGHS goes on with its previous setting after a refusal, so every status counts.
        if highs.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise InputError(f"highs does not accept option {name} = {value!r} in this installation")
    highspy.Highs.resetGlobalScheduler(True)  # else the first model's thread count is everyone's
    _pass_model(highspy, highs, model)
    highs.run()
    return _read(highspy, highs, model)


def _native_options(options: HighsOptions) -> dict[str, Any]:
    native = {
        "output_flag": False,
        "solver": options.method,
        "threads": options.threads,
        "random_seed": options.seed,
        "presolve": "on" if options.presolve else "off",
        "run_crossover": "on" if options.crossover else "off",
        "time_limit": options.time_limit,
        "simplex_iteration_limit": options.iteration_limit,
        "ipm_iteration_limit": options.iteration_limit,
        "primal_feasibility_tolerance": options.tolerance,
        "dual_feasibility_tolerance": options.tolerance,
        "mip_rel_gap": options.relative_gap,
    }
    return {name: value for name, value in native.items() if value is not None}


def _pass_model(highspy: Any, highs: Any, model: CompiledModel) -> None:
    sense = highspy.ObjSense.kMaximize if model.maximize else highspy.ObjSense.kMinimize
    status = highs.passModel(
        model.num_columns,
        model.num_rows,
        model.num_nonzeros,
        int(highspy.MatrixFormat.kRowwise),
        int(sense),
        model.offset,
        model.cost,
        model.lower,
        model.upper,
        model.row_lower,
        model.row_upper,
        model.starts,
        model.index,
        model.value,
        model.integer.astype(np.int32),
    )
    if status == highspy.HighsStatus.kError:
        raise InputError(f"highs does not accept model {model.name}")


def _read(highspy: Any, highs: Any, model: CompiledModel) -> Outcome:
    native = highs.getModelStatus()
    termination = TERMINATIONS.get(native.name, Termination.UNKNOWN)
    info, solution = highs.getInfo(), highs.getSolution()
    optimal = termination is Termination.OPTIMAL
    found = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
    if not (found or optimal):
        return Outcome(termination, SolutionStatus.NONE)
    objective = float(info.objective_function_value)
    whole = bool(model.integer.any())
    proven = info.mip_dual_bound if whole else objective if optimal else None
    return Outcome(
        termination,
        SolutionStatus.OPTIMAL if optimal else SolutionStatus.FEASIBLE,
        objective,
        None if proven is None or not np.isfinite(proven) else float(proven),
        np.array(solution.col_value),
        np.array(solution.row_dual) if solution.dual_valid and optimal and not whole else None,
    )


BACKEND = Backend(
    name="highs",
    package="highspy",
    distribution="highspy",
    features=frozenset({Feature.LP, Feature.MILP, Feature.SIMPLEX, Feature.IPM, Feature.DUALS}),
    options=HighsOptions,
    run=run,
    install='pip install "highspy<1.15"',
)

"""CP-SAT, OR-Tools' solver of whole numbers, for MILPs, by arrays.

It knows whole numbers only: where some columns are whole and others are not, the others take multiples of
1/`grid` (unless its presolve removes them, or finds a scale that makes them whole), and coefficients are
rounded to whole numbers within its own precision (``mip_wanted_precision``, 1e-6). So what it proves then
holds on the grid only: the answer is called feasible, never optimal, and has no bound. Of models of whole
columns alone it has both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from models.solvers.backend import Backend
from models.solvers.compiled import CompiledModel
from models.solvers.features import Feature
from models.solvers.options import NUMBER, SolverOptions, check_count, check_positive
from models.solvers.ortools_models import read_whole, run_native, telling
from models.solvers.outcome import Outcome, SolutionStatus
from models.solvers.start import NOTHING, Extras
from models.solvers.traces import cpsat_trace


@dataclass(frozen=True, kw_only=True)
class CpsatOptions(SolverOptions):
    """Options of CP-SAT (`ortools/sat/sat_parameters.proto`).

    Parameters
    ----------
    grid
        Columns that are not whole take multiples of 1/grid (``mip_var_scaling``).
    relative_gap
        At which it stops; None for CP-SAT's 0.
    threads
        At least 1 (``num_workers``).
    seed
        Of its random choices.

    The others are those of `SolverOptions`.
    """

    SOLVER: ClassVar[str] = "cp-sat"

    grid: int = 1000
    relative_gap: float | None = None
    threads: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges."""
        super().__post_init__()
        check_count("cp-sat", "grid", self.grid, 1)
        check_positive("cp-sat", "relative_gap", self.relative_gap, NUMBER)
        check_count("cp-sat", "threads", self.threads, 1)
        check_count("cp-sat", "seed", self.seed, 0)


def run(model: CompiledModel, options: CpsatOptions, extras: Extras = NOTHING) -> Outcome:
    """Hand the arrays to CP-SAT, solve and read the answer; its log is the source of a trace.

    Raises
    ------
    InputError
        If CP-SAT refuses the model or an option.
    """
    read = partial(cpsat_trace, maximize=model.maximize)
    with telling(options, extras, read) as logged:
        outcome = read_whole(run_native("sat", model, logged, _parameters(logged), extras), options)
    if model.integer.all() or outcome.status is SolutionStatus.NONE:
        return outcome
    return replace(outcome, status=SolutionStatus.FEASIBLE, bound=None)


def _parameters(options: CpsatOptions) -> str:
    """Return SatParameters in protobuf's text format."""
    native: dict[str, Any] = {
        "mip_var_scaling": float(options.grid),
        "relative_gap_limit": options.relative_gap,
        "num_workers": options.threads,
        "random_seed": options.seed,
        "cp_model_presolve": str(options.presolve).lower(),
        "mip_presolve_level": None if options.presolve else 0,
        "max_number_of_conflicts": options.iteration_limit,
        "log_search_progress": None if options.log is None else "true",
    }
    return " ".join(f"{name}: {value}" for name, value in native.items() if value is not None)


BACKEND = Backend(
    name="cp-sat",
    package="ortools",
    distribution="ortools",
    features=frozenset({Feature.MILP, Feature.START, Feature.SEED, Feature.THREADS}),
    options=CpsatOptions,
    run=run,
    install="pip install ortools",
    modules=("ortools.linear_solver.python.model_builder_helper",),
)

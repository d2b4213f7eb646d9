"""SCIP, as OR-Tools bundles it, by arrays: branch and cut for MILPs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from models.solvers.backend import Backend
from models.solvers.compiled import CompiledModel
from models.solvers.features import Feature
from models.solvers.options import NUMBER, SolverOptions, check_count, check_positive
from models.solvers.ortools_models import read_whole, run_native, telling
from models.solvers.outcome import Outcome
from models.solvers.start import NOTHING, Extras
from models.solvers.traces import scip_trace

NODES = 10
"""After so many nodes a traced SCIP writes a line of its table; otherwise after 100."""


@dataclass(frozen=True, kw_only=True)
class ScipOptions(SolverOptions):
    """Options of SCIP (https://www.scipopt.org/doc/html/PARAMETERS.php). It runs on one thread.

    Parameters
    ----------
    relative_gap
        At which branch and cut stops (``limits/gap``); None for SCIP's 0.
    seed
        Of its random choices (``randomization/randomseedshift``).

    The others are those of `SolverOptions`; `iteration_limit` is ``limits/totalnodes``.
    """

    SOLVER: ClassVar[str] = "scip"

    relative_gap: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges."""
        super().__post_init__()
        check_positive("scip", "relative_gap", self.relative_gap, NUMBER)
        check_count("scip", "seed", self.seed, 0)


def run(model: CompiledModel, options: ScipOptions, extras: Extras = NOTHING) -> Outcome:
    """Hand the arrays to SCIP, solve and read the answer; its log is the source of a trace.

    Raises
    ------
    InputError
        If SCIP refuses the model or an option.
    """
    frequency = None if extras.trace is None else NODES
    with telling(options, extras, scip_trace) as logged:
        settings = _parameters(logged, frequency)
        return read_whole(run_native("scip", model, logged, settings, extras), options)


def _parameters(options: ScipOptions, frequency: int | None) -> str:
    """Return SCIP's settings, one a line."""
    native = {
        "display/freq": frequency,
        "limits/gap": options.relative_gap,
        "limits/totalnodes": options.iteration_limit,
        "randomization/randomseedshift": options.seed,
        "numerics/feastol": options.tolerance,
        "presolving/maxrounds": None if options.presolve else 0,
    }
    return "\n".join(f"{name} = {value}" for name, value in native.items() if value is not None)


BACKEND = Backend(
    name="scip",
    package="ortools",
    distribution="ortools",
    features=frozenset({Feature.MILP, Feature.START, Feature.SEED}),
    options=ScipOptions,
    run=run,
    install="pip install ortools",
    modules=("ortools.linear_solver.python.model_builder_helper",),
)

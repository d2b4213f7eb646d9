"""The solvers of OR-Tools that take a model by arrays: GLOP, its simplex, and SCIP and CP-SAT for MILPs.

CP-SAT knows whole numbers only. Where some columns are whole and others are not, the others take multiples of
1/`grid`, unless its presolve removes them, or finds a scale that makes them whole. Coefficients are rounded
to whole numbers within its own precision (``mip_wanted_precision``, 1e-6). So what it proves then holds on
the grid only: the answer is called feasible, never optimal, and has no bound. A model of whole columns alone
gets both.

The interface has no callbacks, so incumbents and bounds over time are read from the logs. CP-SAT writes a
line for each better solution and each better bound. Brackets hold the range of the next solution's objective,
which is empty once the last one is optimal:

.. code-block:: text

    #1       0.12s best:7     next:[3,6]      main
    #Bound   0.13s best:7     next:[6,6]      main

SCIP writes a table, with seconds to a tenth and its two bounds to six digits; ``--`` stands for none:

.. code-block:: text

     time | node  | left  |LP iter| ... |  dualbound   | primalbound  |  gap   | compl.
    p 3.3s|     1 |     0 |     0 | ... | 4.000000e+00 | 2.900000e+01 | 625.00%| unknown
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np

from tutti.models.solvers.backend import Backend, printing_to, tiny
from tutti.models.solvers.compiled import CompiledModel
from tutti.models.solvers.options import Feature, Positive, Seed, SolverOptions, Threads
from tutti.models.solvers.outcome import (
    NOTHING,
    Extras,
    Outcome,
    Progress,
    SolutionStatus,
    Termination,
    finite,
)
from tutti.topologies.errors import InputError
from tutti.topologies.options import Choice, Whole

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

ORTOOLS = partial(
    Backend,
    package="ortools",
    distribution="ortools",
    install="pip install ortools",
    modules=("ortools.linear_solver.python.model_builder_helper", "scipy.sparse"),
)
"""The fields that the back-ends of this package share."""
LIMITED = frozenset({"FEASIBLE", "NOT_SOLVED"})
_Options = TypeVar("_Options", bound=SolverOptions)
ALMOST = 0.99
"""Fraction of the time limit. A solver that stops after it, GLOP with ABNORMAL too, has reached the limit.
With a smaller value more stops count as such."""
GLOP_METHODS = ("primal", "dual")
CPSAT_LINE = re.compile(
    r"^#(?:\d+|Bound|Done)\s+([\d.]+)s (?:.*?best:(\S+)\s+next:\[([^\]]*)\])?", re.MULTILINE
)
SCIP_HEAD = "dualbound"
NODES = re.compile(r"^(?:Solving Nodes +|branches): +(\d+)", re.MULTILINE)
"""The line of SCIP's and CP-SAT's logs that has the nodes or branches."""
MOST_WHOLE = 2**40
"""Largest whole number in a program for CP-SAT. With a larger value its sums may exceed 64 bits."""


@dataclass(frozen=True, eq=False)
class Stopped:
    """A solver of OR-Tools that has stopped.

    Parameters
    ----------
    solver
        The native object.
    seconds
        Seconds that it took.
    """

    solver: Any
    seconds: float

    def termination(self, options: SolverOptions) -> Termination:
        """Return why it stopped."""
        native, limit = self.solver.status().name, options.time_limit
        late = limit is not None and self.seconds >= ALMOST * limit
        if native in TERMINATIONS and not (late and native == "ABNORMAL"):
            return TERMINATIONS[native]
        if options.iteration_limit is not None:
            return Termination.TIME_LIMIT if late else Termination.ITERATION_LIMIT
        # CP-SAT stops after half of its time if its next step might exceed the limit.
        gave_up = limit is not None and native in LIMITED and self.seconds >= limit / 2
        return Termination.TIME_LIMIT if late or gave_up else Termination.UNKNOWN


def run_native(
    native: str, model: CompiledModel, options: SolverOptions, parameters: str, extras: Extras
) -> Stopped:
    """Pass the arrays to a solver of OR-Tools and solve.

    Parameters
    ----------
    native
        The solver's name in OR-Tools.
    model, options, extras
        As a back-end's `run` takes them; the values of a start are used, if it has any.
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
    vectors = (model.lower, model.upper, model.cost, model.row_lower, model.row_upper, model.matrix())
    helper.fill_model_from_sparse_data(*(each.copy() for each in vectors))  # which asks for writable arrays
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
        raise InputError(f"{options.OWNER} does not accept model {model.name} or its options: {why}")
    return Stopped(solver, time.perf_counter() - begin)


def run_traced(
    native: str,
    model: CompiledModel,
    options: _Options,
    extras: Extras,
    parameters: Callable[[_Options], str],
    read: Callable[[str], Iterable[Progress]],
) -> tuple[Stopped, str]:
    """Solve as `run_native`; with a trace, also keep a log, report its progress, and return its text.

    Parameters
    ----------
    native, model, options, extras
        As `run_native`.
    parameters
        Makes the solver's own text format from options.
    read
        Makes the progress from a log's text.
    """
    if extras.trace is None:
        return run_native(native, model, options, parameters(options), extras), ""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log") if options.log is None else Path(options.log)
        begin = log.stat().st_size if log.exists() else 0  # logs are appended to
        logged = replace(options, log=log)
        stopped = run_native(native, model, logged, parameters(logged), extras)
        with log.open("rb") as file:
            file.seek(begin)
            text = file.read().decode(errors="replace")
    for progress in read(text):
        extras.trace(progress)
    return stopped, text


def read_whole(run: Stopped, options: SolverOptions, log: str) -> Outcome:
    """Return the outcome of a mixed-integer program: incumbent and bound, no duals; nodes by the log."""
    termination = run.termination(options)
    counted = NODES.findall(log)
    nodes = int(counted[-1]) if counted else None
    if not run.solver.has_solution():
        return Outcome(termination, SolutionStatus.NONE, nodes=nodes)
    objective, bound = float(run.solver.objective_value()), finite(run.solver.best_objective_bound())
    return Outcome.found(termination, objective, bound, run.solver.variable_values(), nodes=nodes)


@dataclass(frozen=True, kw_only=True)
class GlopOptions(SolverOptions):
    """Options of GLOP (`ortools/glop/parameters.proto`). It runs on one thread.

    Parameters
    ----------
    method
        ``"primal"`` or ``"dual"`` simplex.
    seed
        Seed of its random choices.

    The others are those of `SolverOptions`; the default tolerance is GLOP's 1e-8.
    """

    OWNER: ClassVar[str] = "glop"

    method: Annotated[str, Choice(GLOP_METHODS)] = "primal"
    seed: Seed = 1


def run_glop(model: CompiledModel, options: GlopOptions, extras: Extras = NOTHING) -> Outcome:
    """Pass the arrays to GLOP, solve and read the answer; it takes no start.

    Raises
    ------
    InputError
        If GLOP refuses the model or an option.
    """
    done = run_native("glop", model, options, _glop_parameters(options), NOTHING)
    if done.solver.status().name == "INFEASIBLE" and options.presolve:
        # From GLOP's presolve this may also mean unbounded; the simplex itself distinguishes them.
        plain = replace(options, presolve=False)
        again = run_native("glop", model, plain, _glop_parameters(plain), NOTHING)
        done = Stopped(again.solver, done.seconds + again.seconds)
    solver, termination = done.solver, done.termination(options)
    if not solver.has_solution():
        return Outcome(termination, SolutionStatus.NONE)
    objective, values = float(solver.objective_value()), solver.variable_values()
    if termination is not Termination.OPTIMAL:
        return Outcome.found(termination, objective, None, values)
    return Outcome.found(termination, objective, objective, values, duals=solver.dual_values())


def _text_format(native: Mapping[str, Any]) -> str:
    """Return parameters in protobuf's text format; None is the solver's own."""
    return " ".join(f"{name}: {value}" for name, value in native.items() if value is not None)


def _glop_parameters(options: GlopOptions) -> str:
    """Return GlopParameters."""
    native: dict[str, Any] = {
        "use_dual_simplex": str(options.method == "dual").lower(),
        "use_preprocessing": str(options.presolve).lower(),
        "max_number_of_iterations": options.iteration_limit,
        "primal_feasibility_tolerance": options.tolerance,
        "dual_feasibility_tolerance": options.tolerance,
        "random_seed": options.seed,
        "log_search_progress": None if options.log is None else "true",
    }
    return _text_format(native)


GLOP = ORTOOLS(
    name="glop",
    features=frozenset({Feature.LP, Feature.SIMPLEX, Feature.DUALS, Feature.SEED}),
    options=GlopOptions,
    run=run_glop,
    rehearse=partial(run_glop, tiny(), GlopOptions()),
    tolerance=1e-8,
)


@dataclass(frozen=True, kw_only=True)
class ScipOptions(SolverOptions):
    """Options of SCIP (https://www.scipopt.org/doc/html/PARAMETERS.php). It runs on one thread.

    Parameters
    ----------
    relative_gap
        Relative gap at which branch and cut stops (``limits/gap``); None for SCIP's 0.
    seed
        Seed of its random choices (``randomization/randomseedshift``).

    The others are those of `SolverOptions`; `iteration_limit` is ``limits/totalnodes``.
    """

    OWNER: ClassVar[str] = "scip"

    relative_gap: Positive = None
    seed: Seed = 0


def run_scip(model: CompiledModel, options: ScipOptions, extras: Extras = NOTHING) -> Outcome:
    """Pass the arrays to SCIP, solve and read the answer; its log is the source of a trace.

    Raises
    ------
    InputError
        If SCIP refuses the model or an option.
    """
    stopped, log = run_traced("scip", model, options, extras, _scip_parameters, scip_trace)
    return read_whole(stopped, options, log)


def _scip_parameters(options: ScipOptions) -> str:
    native = {
        "display/freq": None if options.log is None else 10,  # nodes for a line of its table
        "limits/gap": options.relative_gap,
        "limits/totalnodes": options.iteration_limit,
        "randomization/randomseedshift": options.seed,
        "numerics/feastol": options.tolerance,
        "presolving/maxrounds": None if options.presolve else 0,
    }
    return "\n".join(f"{name} = {value}" for name, value in native.items() if value is not None)


SCIP = ORTOOLS(
    name="scip",
    features=frozenset({Feature.MILP, Feature.START, Feature.SEED}),
    options=ScipOptions,
    run=run_scip,
    rehearse=partial(run_scip, tiny(whole=True), ScipOptions()),
    tolerance=1e-6,
)


@dataclass(frozen=True, kw_only=True)
class CpsatOptions(SolverOptions):
    """Options of CP-SAT (`ortools/sat/sat_parameters.proto`).

    Parameters
    ----------
    grid
        Columns that are not whole take multiples of 1/grid (``mip_var_scaling``).
    relative_gap
        Relative gap at which it stops; None for CP-SAT's 0.
    threads
        At least 1 (``num_workers``).
    seed
        Seed of its random choices.

    The others are those of `SolverOptions`.
    """

    OWNER: ClassVar[str] = "cp-sat"

    grid: Annotated[int, Whole(1)] = 1000
    relative_gap: Positive = None
    threads: Threads = 1
    seed: Seed = 0


def run_cpsat(model: CompiledModel, options: CpsatOptions, extras: Extras = NOTHING) -> Outcome:
    """Pass the arrays to CP-SAT, solve and read the answer; its log is the source of a trace.

    Raises
    ------
    InputError
        If CP-SAT refuses the model or an option.
    """
    read = partial(cpsat_trace, maximize=model.maximize)
    stopped, log = run_traced("sat", model, options, extras, _cpsat_parameters, read)
    outcome = read_whole(stopped, options, log)
    if model.integer.all() or outcome.status is SolutionStatus.NONE:
        return outcome
    return replace(outcome, status=SolutionStatus.FEASIBLE, bound=None)


def _cpsat_parameters(options: CpsatOptions) -> str:
    """Return SatParameters."""
    native: dict[str, Any] = {
        "mip_var_scaling": float(options.grid),
        "mip_wanted_precision": options.tolerance,
        "relative_gap_limit": options.relative_gap,
        "num_workers": options.threads,
        "random_seed": options.seed,
        "cp_model_presolve": str(options.presolve).lower(),
        "mip_presolve_level": None if options.presolve else 0,
        "max_number_of_conflicts": options.iteration_limit,
        "log_search_progress": None if options.log is None else "true",
    }
    return _text_format(native)


CPSAT = ORTOOLS(
    name="cp-sat",
    features=frozenset({Feature.MILP, Feature.START, Feature.SEED, Feature.THREADS}),
    options=CpsatOptions,
    run=run_cpsat,
    rehearse=partial(run_cpsat, tiny(whole=True), CpsatOptions()),
    tolerance=1e-6,
)


def cpsat_trace(log: str, *, maximize: bool) -> Iterator[Progress]:
    """Yield the progress in a log of CP-SAT, in order.

    Parameters
    ----------
    log
        Its text, which was written with ``log_search_progress``.
    maximize
        The model's sense: which end of the range that is still possible is the bound.

    Examples
    --------
    >>> list(cpsat_trace("#Bound 0.1s best:inf next:[3,15] main", maximize=False))
    [Progress(seconds=0.1, incumbent=None, bound=3.0)]
    """
    incumbent: float | None = None
    bound: float | None = None
    for seconds, best, left in CPSAT_LINE.findall(log):
        if best:
            incumbent = _number(best)
            ends = [_number(end) for end in left.split(",")] if left else [incumbent]
            bound = ends[-1] if maximize else ends[0]
        yield Progress(float(seconds), incumbent, bound)


def scip_trace(log: str) -> Iterator[Progress]:
    """Yield the progress in the table of a log of SCIP, in order."""
    places: tuple[int, int] | None = None
    for line in log.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if SCIP_HEAD in cells:
            places = cells.index(SCIP_HEAD), cells.index("primalbound")
        elif places is not None and len(cells) > max(places):
            seconds = re.search(r"([\d.]+)s$", cells[0])
            if seconds is not None:
                dual, primal = (_number(cells[place]) for place in places)
                yield Progress(float(seconds[1]), primal, dual)


def _number(text: str) -> float | None:
    """Return a number, or None for one that is infinite, or for other text."""
    try:
        return finite(float(text))
    except ValueError:
        return None

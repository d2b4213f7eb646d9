"""HiGHS through highspy, by arrays: simplex, interior point and PDLP for LPs, branch and cut for MILPs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from tutti.models.solvers.backend import Backend, Extra, printing_to, tiny
from tutti.models.solvers.compiled import CompiledModel
from tutti.models.solvers.options import Feature, Positive, Seed, SolverOptions, Threads
from tutti.models.solvers.outcome import (
    NOTHING,
    Basis,
    BasisStatus,
    Extras,
    Outcome,
    Progress,
    SolutionStatus,
    Start,
    Termination,
    Trace,
    finite,
)
from tutti.topologies.errors import InputError
from tutti.topologies.options import Choice

METHODS = {
    "choose": None,
    "simplex": Feature.SIMPLEX,
    "ipm": Feature.IPM,
    "hipo": Feature.HIPO,
    "pdlp": Feature.PDLP,
}
"""The values of HiGHS's option ``solver``, and the feature that each needs."""
STRATEGIES = {"choose": 0, "dual": 1, "primal": 4}
"""Names of strategies, and their values of HiGHS's option ``simplex_strategy``."""
SUFFIXES = (".mps", ".lp")
"""Suffixes of files that a model may be written to."""
IN_FILES = str.maketrans("[] -", "()_~")
"""Characters of Pyomo's names that CPLEX LP does not allow, and their replacements in files."""
STUFFING_FAULT = "1.14."
"""The beginning of the versions whose presolve loses optima of models with whole and continuous columns.

It stuffs the continuous columns of a row as if the whole columns were continuous, too, and calls what is left
optimal (ERGO-Code/HiGHS issues 2957, 3043, 3073 and 3094). It is right in 1.13 and again from 1.15 on, which
can't share a process with ortools. No option turns this one rule off, so presolve is left out there.
"""
MIXED_PRESOLVE = (
    "HiGHS 1.14 loses optima of programs with whole and continuous columns: give it presolve = false"
)
"""The reason why a study does not run such a version on such a program."""


def presolve_loses_optima(model: CompiledModel) -> bool:
    """Whether the installed version's presolve has a fault on such a model (`STUFFING_FAULT`)."""
    mixed = bool(model.integer.any() and not model.integer.all())
    return mixed and HIGHS.version.startswith(STUFFING_FAULT)


@dataclass(frozen=True, kw_only=True)
class HighsOptions(SolverOptions):
    """Options of HiGHS (https://ergo-code.github.io/HiGHS/stable/options/definitions/).

    Parameters
    ----------
    method
        ``"choose"``, ``"simplex"``, ``"ipm"`` (IPX), ``"hipo"`` or ``"pdlp"`` (option ``solver``).
    strategy
        Strategy of the simplex: ``"dual"``, ``"primal"`` or ``"choose"``.
    threads
        At least 1.
    crossover
        Whether interior point ends in a basic solution.
    relative_gap
        Relative gap at which branch and cut stops; None for HiGHS's 1e-4.
    seed
        Seed of its random choices.

    The others are those of `SolverOptions`.
    """

    OWNER: ClassVar[str] = "highs"
    ALGORITHMS = METHODS

    method: Annotated[str, Choice(METHODS)] = "choose"
    strategy: Annotated[str, Choice(STRATEGIES)] = "dual"
    threads: Threads = 1
    crossover: bool = True
    relative_gap: Positive = None
    seed: Seed = 0


# https://ergo-code.github.io/HiGHS/stable/structures/enums/#HighsModelStatus
TERMINATIONS = {
    **dict.fromkeys(
        ("kLoadError", "kModelError", "kPresolveError", "kSolveError", "kPostsolveError"), Termination.ERROR
    ),
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


def run(model: CompiledModel, options: HighsOptions, extras: Extras = NOTHING) -> Outcome:
    """Pass the arrays to HiGHS, solve and read the answer.

    Raises
    ------
    InputError
        If HiGHS refuses an option, the model or the start.
    """
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("log_to_console", False)
    native = _native_options(options)
    if presolve_loses_optima(model):
        native["presolve"] = "off"
    for name, value in native.items():
        # HiGHS keeps its previous setting after a refusal, so every status counts.
        if highs.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise InputError(f"highs does not accept option {name} = {value!r} in this installation")
    highspy.Highs.resetGlobalScheduler(True)  # else all models have the first one's thread count
    _pass_model(highspy, highs, model)
    if extras.start is not None:
        _pass_start(highspy, highs, model, extras.start)
    if extras.trace is not None and model.integer.any():
        _subscribe(highs, model, extras.trace)
    with printing_to(options.log if options.method == "pdlp" else None):
        highs.run()
    return _read(highspy, highs, model)


def write_model(model: CompiledModel, path: Path | str) -> None:
    """Write a model as free MPS or CPLEX LP, with the names of its variables and constraints.

    CPLEX LP allows neither brackets nor minus signs in names. They become parentheses and tildes: ``y(0,3)``
    is ``y[0,3]``. Columns and rows of matrices that no Pyomo model stands behind are called c0, c1, ... and
    r0, r1, ...

    Raises
    ------
    InputError
        If the suffix is another, or the file can't be written.

    Examples
    --------
    >>> write_model(None, "model.txt")
    Traceback (most recent call last):
    ...
    tutti.topologies.errors.InputError: model.txt: a model is written as .mps or .lp
    """
    check_path(path)
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    _pass_model(highspy, highs, model, maximize=model.maximize)
    for components, name in ((model.variables, highs.passColName), (model.constraints, highs.passRowName)):
        for place, component in enumerate(components):
            name(place, component.name.translate(IN_FILES))
    if highs.writeModel(str(path)) == highspy.HighsStatus.kError:
        raise InputError(f"{path}: can't write model {model.name}")


def check_path(path: Path | str) -> None:
    """Refuse a path that no model can be written to, before one is built.

    Raises
    ------
    InputError
        If the suffix is another, or there is no such folder.
    """
    file = Path(path)
    if file.suffix not in SUFFIXES:
        raise InputError(f"{path}: a model is written as {' or '.join(SUFFIXES)}")
    if not file.parent.is_dir():
        raise InputError(f"{path}: there is no folder {file.parent}")


def _native_options(options: HighsOptions) -> dict[str, Any]:
    # HiGHS checks PDLP's answer against these afterwards, and calls it unknown if it is within PDLP's own
    # tolerance but not within these. They keep HiGHS's defaults.
    checked = None if options.method == "pdlp" else options.tolerance
    native = {
        "output_flag": options.log is not None,
        "log_file": None if options.log is None else str(options.log),
        "solver": options.method,
        "simplex_strategy": STRATEGIES[options.strategy],
        "threads": options.threads,
        "random_seed": options.seed,
        "presolve": "on" if options.presolve else "off",
        "run_crossover": "on" if options.crossover else "off",
        "time_limit": options.time_limit,
        "simplex_iteration_limit": options.iteration_limit,
        "ipm_iteration_limit": options.iteration_limit,
        "pdlp_iteration_limit": options.iteration_limit,
        "primal_feasibility_tolerance": checked,
        "dual_feasibility_tolerance": checked,
        "mip_feasibility_tolerance": checked,
        "ipm_optimality_tolerance": options.tolerance,
        "pdlp_optimality_tolerance": options.tolerance,
        "mip_rel_gap": options.relative_gap,
    }
    return {name: value for name, value in native.items() if value is not None}


def _pass_model(highspy: Any, highs: Any, model: CompiledModel, *, maximize: bool = False) -> None:
    """Pass the arrays, a maximum as a minimum of the negative unless `maximize`.

    HiGHS 1.14 with ``solver=pdlp`` postsolves a maximum that presolve has solved with duals of the wrong
    sign, and then calls it unknown.
    """
    sense = highspy.ObjSense.kMaximize if maximize else highspy.ObjSense.kMinimize
    sign = 1.0 if maximize else model.sign
    sizes = model.num_columns, model.num_rows, model.num_nonzeros
    kinds = int(highspy.MatrixFormat.kRowwise), int(sense)
    bounds = model.lower, model.upper, model.row_lower, model.row_upper
    matrix = model.starts, model.index, model.value
    aim = sign * model.offset, sign * model.cost
    status = highs.passModel(*sizes, *kinds, *aim, *bounds, *matrix, model.integer.astype(np.int32))
    if status == highspy.HighsStatus.kError:
        raise InputError(f"highs does not accept model {model.name}")


def _pass_start(highspy: Any, highs: Any, model: CompiledModel, start: Start) -> None:
    """Pass a start: a basis for the simplex; values for branch and cut, or by a crossover for the simplex."""
    if start.basis is not None:
        basis = highspy.HighsBasis()
        places = [highspy.HighsBasisStatus(code) for code in range(len(BasisStatus))]
        basis.col_status = [places[code] for code in start.basis.columns]
        basis.row_status = [places[code] for code in start.basis.rows]
        basis.valid = True
        _accept(highspy, highs.setBasis(basis), model, "basis")
    elif start.values is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start.values.tolist()
        solution.value_valid = True
        if start.duals is not None:
            solution.row_dual = (model.sign * start.duals).tolist()
            solution.dual_valid = True
        _accept(highspy, highs.setSolution(solution), model, "values")


def _accept(highspy: Any, status: Any, model: CompiledModel, what: str) -> None:
    if status == highspy.HighsStatus.kError:
        raise InputError(f"highs does not accept the start of model {model.name}: its {what}")


def _subscribe(highs: Any, model: CompiledModel, trace: Trace) -> None:
    """Report incumbent and bound at each better solution, each line of the log, and at times in between."""
    sign = model.sign
    known: list[tuple[float | None, float | None]] = [(None, None)]

    def report(event: Any) -> None:
        data = event.data_out
        now = finite(sign * data.mip_primal_bound), finite(sign * data.mip_dual_bound)
        if now != known[0]:
            known[0] = now
            trace(Progress(float(data.running_time), *now))

    for happening in (highs.cbMipImprovingSolution, highs.cbMipLogging, highs.cbMipInterrupt):
        happening.subscribe(report)


def _read(highspy: Any, highs: Any, model: CompiledModel) -> Outcome:
    """Return HiGHS's answer, with signs as the model has them: a maximum was passed as a minimum."""
    native = highs.getModelStatus()
    termination = TERMINATIONS.get(native.name, Termination.UNKNOWN)
    info, solution = highs.getInfo(), highs.getSolution()
    optimal = termination is Termination.OPTIMAL
    found = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
    counts = (info.simplex_iteration_count, info.ipm_iteration_count, info.pdlp_iteration_count)
    iterations = sum(max(count, 0) for count in counts)
    whole = bool(model.integer.any())
    nodes = int(info.mip_node_count) if whole else None
    if not (found or optimal):
        return Outcome(termination, SolutionStatus.NONE, iterations=iterations, nodes=nodes)
    objective = model.sign * float(info.objective_function_value)
    proven = model.sign * info.mip_dual_bound if whole else objective if optimal else np.inf
    duals, basis = None, None
    if optimal and not whole:
        duals = model.sign * np.array(solution.row_dual) if solution.dual_valid else None
        basis = _basis(highs.getBasis())
    values = np.array(solution.col_value)
    return Outcome.found(
        termination,
        objective,
        finite(proven),
        values,
        duals=duals,
        basis=basis,
        iterations=iterations,
        nodes=nodes,
    )


def _basis(native: Any) -> Basis | None:
    sides = (np.array([int(s) for s in part], np.int8) for part in (native.col_status, native.row_status))
    return Basis(*sides) if native.valid else None


HIGHS = Backend(
    name="highs",
    package="highspy",
    distribution="highspy",
    features=frozenset(Feature) - {Feature.QP},
    options=HighsOptions,
    run=run,
    install='pip install "highspy<1.15"',
    modules=("highspy",),
    rehearse=partial(run, tiny(), HighsOptions()),
    tolerance=1e-7,
    extras=(
        Extra(
            Feature.HIPO,
            "highspy-extras",
            'pip install "highspy[extras]>=1.15" without ortools: the two can\'t share a process',
        ),
    ),
)

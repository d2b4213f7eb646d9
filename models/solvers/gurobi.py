"""Gurobi through gurobipy's matrix interface, for LPs and MILPs.

Written against the documented interface
(https://docs.gurobi.com/projects/optimizer/en/current/reference/python.html) and not run by this project's
tests, which have no licence; only its options and its refusal are tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from tutti.models.solvers.backend import Backend
from tutti.models.solvers.compiled import CompiledModel
from tutti.models.solvers.options import Feature, Positive, Seed, SolverOptions, Threads
from tutti.models.solvers.outcome import (
    NOTHING,
    Extras,
    Outcome,
    Progress,
    SolutionStatus,
    Termination,
    Trace,
)
from tutti.topologies.errors import Unsupported
from tutti.topologies.options import Choice

METHODS = {"choose": -1, "primal": 0, "dual": 1, "ipm": 2, "pdlp": 6}
"""Parameter ``Method``."""
FEATURE_OF = {"primal": Feature.SIMPLEX, "dual": Feature.SIMPLEX, "ipm": Feature.IPM, "pdlp": Feature.PDLP}


@dataclass(frozen=True, kw_only=True)
class GurobiOptions(SolverOptions):
    """Parameters of Gurobi.

    Parameters
    ----------
    method
        ``"choose"``, ``"primal"``, ``"dual"``, ``"ipm"`` or ``"pdlp"`` (Gurobi 13) (``Method``).
    threads, seed
        ``Threads`` and ``Seed``.
    crossover
        Whether the barrier ends in a basic solution (``Crossover``).
    relative_gap
        Relative gap at which branch and cut stops (``MIPGap``); None for Gurobi's 1e-4.

    The others are those of `SolverOptions`. `memory_limit` is also passed on as ``SoftMemLimit``.
    """

    OWNER: ClassVar[str] = "gurobi"
    ALGORITHMS = FEATURE_OF

    method: Annotated[str, Choice(METHODS)] = "choose"
    threads: Threads = 1
    seed: Seed = 0
    crossover: bool = True
    relative_gap: Positive = None


# https://docs.gurobi.com/projects/optimizer/en/current/reference/numericcodes/statuscodes.html
TERMINATIONS = {
    2: Termination.OPTIMAL,
    3: Termination.INFEASIBLE,
    4: Termination.INFEASIBLE_OR_UNBOUNDED,
    5: Termination.UNBOUNDED,
    7: Termination.ITERATION_LIMIT,
    9: Termination.TIME_LIMIT,
    11: Termination.INTERRUPTED,
    12: Termination.ERROR,
    17: Termination.MEMORY_LIMIT,
}


def run(model: CompiledModel, options: GurobiOptions, extras: Extras = NOTHING) -> Outcome:
    """Pass the arrays to Gurobi, solve and read the answer.

    Raises
    ------
    Unsupported
        If the licence is the restricted one of the wheel and the model is larger than that allows.
    """
    import gurobipy

    try:
        return _run(gurobipy, model, options, extras)
    except gurobipy.GurobiError as error:
        if error.errno != gurobipy.GRB.Error.SIZE_LIMIT_EXCEEDED:
            raise
        raise Unsupported(
            "gurobi's restricted licence, that of its wheel, is for smaller programs"
        ) from error


def _run(gurobipy: Any, model: CompiledModel, options: GurobiOptions, extras: Extras) -> Outcome:
    with gurobipy.Env(
        params={"OutputFlag": 0 if options.log is None else 1, "LogToConsole": 0}
    ) as environment:
        for name, value in _native_options(options).items():
            environment.setParam(name, value)
        with gurobipy.Model(model.name, env=environment) as native:
            columns, sides = _pass_model(gurobipy, native, model)
            if extras.start is not None and extras.start.values is not None:
                setattr(columns, "Start" if model.integer.any() else "PStart", extras.start.values)
            if extras.trace is not None and model.integer.any():
                native.optimize(_teller(gurobipy, extras.trace))
            else:
                native.optimize()
            return _read(native, columns, sides, model)


def _native_options(options: GurobiOptions) -> dict[str, Any]:
    native = {
        "LogFile": None if options.log is None else str(options.log),
        "Method": METHODS[options.method],
        "Threads": options.threads,
        "Seed": options.seed,
        "Presolve": -1 if options.presolve else 0,
        "Crossover": -1 if options.crossover else 0,
        "TimeLimit": options.time_limit,
        "SoftMemLimit": None if options.memory_limit is None else options.memory_limit / 1e9,  # in GB
        "IterationLimit": options.iteration_limit,
        "BarIterLimit": options.iteration_limit,
        "FeasibilityTol": options.tolerance,
        "OptimalityTol": options.tolerance,
        "IntFeasTol": options.tolerance,
        "BarConvTol": options.tolerance,
        "MIPGap": options.relative_gap,
    }
    return {name: value for name, value in native.items() if value is not None}


def _pass_model(gurobipy: Any, native: Any, model: CompiledModel) -> tuple[Any, list[tuple[Any, Any]]]:
    """Return the columns, and for each side the rows that have it, and its constraints.

    Gurobi has no ranges in matrix form, so a range is two constraints.
    """
    matrix = model.matrix()
    kinds = np.where(model.integer, gurobipy.GRB.INTEGER, gurobipy.GRB.CONTINUOUS)
    columns = native.addMVar(model.num_columns, lb=model.lower, ub=model.upper, vtype=kinds)
    sense = gurobipy.GRB.MAXIMIZE if model.maximize else gurobipy.GRB.MINIMIZE
    native.setObjective(model.cost @ columns + model.offset, sense)
    equal = model.row_lower == model.row_upper
    at_least = np.flatnonzero(np.isfinite(model.row_lower))
    at_most = np.flatnonzero(np.isfinite(model.row_upper) & ~equal)
    senses = np.where(equal[at_least], "=", ">")
    above = native.addMConstr(matrix[at_least], columns, senses, model.row_lower[at_least])
    below = native.addMConstr(matrix[at_most], columns, "<", model.row_upper[at_most])
    native.update()
    return columns, [(at_least, above), (at_most, below)]


def _teller(gurobipy: Any, trace: Trace) -> Any:
    codes = gurobipy.GRB.Callback

    def report(native: Any, where: int) -> None:
        if where == codes.MIPSOL:
            told = (float(native.cbGet(code)) for code in (codes.MIPSOL_OBJBST, codes.MIPSOL_OBJBND))
            known = (value if abs(value) < gurobipy.GRB.INFINITY else None for value in told)
            trace(Progress(native.cbGet(codes.RUNTIME), *known))

    return report


def _read(native: Any, columns: Any, sides: list[tuple[Any, Any]], model: CompiledModel) -> Outcome:
    termination = TERMINATIONS.get(native.Status, Termination.UNKNOWN)
    optimal, whole = termination is Termination.OPTIMAL, bool(model.integer.any())
    iterations = int(native.IterCount) + int(native.BarIterCount)
    nodes = int(native.NodeCount) if whole else None
    if native.SolCount == 0:
        return Outcome(termination, SolutionStatus.NONE, iterations=iterations, nodes=nodes)
    objective = float(native.ObjVal)
    bound = float(native.ObjBound) if whole else objective if optimal else None
    duals = None
    if optimal and not whole:  # of a range's two sides one has 0
        duals = np.zeros(model.num_rows)
        for rows, constraints in sides:
            duals[rows] += np.array(constraints.Pi)
    values = np.array(columns.X)
    return Outcome.found(
        termination, objective, bound, values, duals=duals, iterations=iterations, nodes=nodes
    )


GUROBI = Backend(
    name="gurobi",
    package="gurobipy",
    distribution="gurobipy",
    features=frozenset(Feature) - {Feature.QP, Feature.HIPO, Feature.BASIS},
    options=GurobiOptions,
    run=run,
    install="pip install gurobipy, and a licence from https://www.gurobi.com/",
    modules=("gurobipy", "scipy.sparse"),
    tolerance=1e-6,
)

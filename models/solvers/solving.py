"""One function for all solvers: `solve(model, solver, options)`."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pyomo.environ as pyo
from pyomo.common.errors import InfeasibleConstraintException

from models.solvers.compiled import CompiledModel, compile_model, required_features
from models.solvers.features import Feature
from models.solvers.outcome import Outcome, SolutionStatus, SolverResult, Termination
from models.solvers.registry import find_backend
from topologies.errors import InputError


def solve(
    model: pyo.ConcreteModel | CompiledModel,
    solver: str = "highs",
    options: Any = None,
    needs: Iterable[Feature] = (),
) -> SolverResult:
    """Solve a linear Pyomo model, or one already compiled.

    Parameters
    ----------
    model
        A `ConcreteModel` with one objective, or what `compile_model` made of one.
    solver
        A name in `BACKENDS`.
    options
        That back-end's options; None for its defaults.
    needs
        Further features to insist on (``Feature.DUALS``), besides what the model itself asks for.

    Raises
    ------
    InputError
        If the solver is unknown or not installed, or the options are another solver's.
    Unsupported
        If the solver can't do it (said before anything is compiled), or the model is not linear.

    Examples
    --------
    >>> m = pyo.ConcreteModel()
    >>> m.x = pyo.Var(bounds=(0, 4))
    >>> m.cost = pyo.Objective(expr=3 * m.x, sense=pyo.maximize)
    >>> result = solve(m)
    >>> str(result.termination), result.objective, result.value(m.x)
    ('optimal', 12.0, 4.0)
    """
    compiled = model if isinstance(model, CompiledModel) else None
    asked = compiled.features if compiled else required_features(model)
    backend = find_backend(solver, asked | frozenset(needs))
    chosen = backend.options() if options is None else options
    if not isinstance(chosen, backend.options):
        wanted = backend.options.__name__
        raise InputError(f"solver {solver} takes {wanted}, not {type(chosen).__name__}")
    if compiled is None:
        begin = time.perf_counter()
        try:
            compiled = compile_model(model)
        except InfeasibleConstraintException:
            nothing = Outcome(Termination.INFEASIBLE, SolutionStatus.NONE)
            compile_s = time.perf_counter() - begin
            return SolverResult(nothing, None, solver, backend.version, compile_s, 0.0)
    begin = time.perf_counter()
    outcome = backend.run(compiled, chosen)
    solve_s = time.perf_counter() - begin
    return SolverResult(outcome, compiled, solver, backend.version, compiled.compile_s, solve_s)

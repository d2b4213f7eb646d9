"""One function for all solvers: `solve(model, solver, options)`."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from models.solvers.backend import Backend
from models.solvers.compiled import CompiledModel, compile_model, required_features
from models.solvers.features import Feature
from models.solvers.options import SolverOptions
from models.solvers.outcome import Outcome, SolutionStatus, SolverResult, Termination
from models.solvers.process import solve_apart
from models.solvers.registry import find_backend
from models.solvers.start import Extras, Start, Trace
from topologies.errors import InputError

if TYPE_CHECKING:
    import pyomo.environ as pyo


def solve(
    model: pyo.ConcreteModel | CompiledModel,
    solver: str = "highs",
    options: Any = None,
    needs: Iterable[Feature] = (),
    start: Start | None = None,
    trace: Trace | None = None,
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
        Further features to insist on (``Feature.DUALS``), besides what the model itself, the options and
        the start ask for.
    start
        A basis, or values, to begin from.
    trace
        Is told incumbents and bounds of a MILP, where the back-end can.

    Raises
    ------
    InputError
        If the solver is unknown or not installed, or the options are another solver's.
    Unsupported
        If the solver can't do it (said before anything is compiled), or the model is not linear.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> m = pyo.ConcreteModel()
    >>> m.x = pyo.Var(bounds=(0, 4))
    >>> m.cost = pyo.Objective(expr=3 * m.x, sense=pyo.maximize)
    >>> result = solve(m)
    >>> str(result.termination), result.objective, result.value(m.x)
    ('optimal', 12.0, 4.0)
    """
    given = model if isinstance(model, CompiledModel) else None
    kind = given.features if given else required_features(model)
    backend = find_backend(solver, kind)
    chosen = _options(backend, options)
    find_backend(solver, kind | chosen.needs | frozenset(needs) | (start.needs if start else frozenset()))
    begin = time.perf_counter()
    compiled = _compiled(model) if given is None else given
    if compiled is None:
        nothing = Outcome(Termination.INFEASIBLE, SolutionStatus.NONE)
        return SolverResult(nothing, None, solver, backend.version, time.perf_counter() - begin, 0.0)
    if start is not None:
        start.check(compiled.name, compiled.num_columns, compiled.num_rows)
    outcome, wall, peak, cpu = _run(compiled, backend, chosen, Extras(start, trace))
    return SolverResult(outcome, compiled, solver, backend.version, compiled.compile_s, wall, peak, cpu)


def _compiled(model: Any) -> CompiledModel | None:
    """Return a Pyomo model's matrices; None if a constraint of constants does not hold."""
    from pyomo.common.errors import InfeasibleConstraintException

    try:
        return compile_model(model)
    except InfeasibleConstraintException:
        return None


def _options(backend: Backend, options: Any) -> SolverOptions:
    chosen = backend.options() if options is None else options
    if not isinstance(chosen, backend.options):
        wanted = backend.options.__name__
        raise InputError(f"solver {backend.name} takes {wanted}, not {type(chosen).__name__}")
    return chosen


def _run(
    model: CompiledModel, backend: Backend, options: SolverOptions, extras: Extras
) -> tuple[Outcome, float, float | None, float | None]:
    """Return the outcome, seconds, peak memory in MB (of a process of its own), and processor seconds."""
    if options.apart:
        measured = solve_apart(model, backend, options, extras)
        return measured.outcome, measured.seconds, measured.peak_rss_mb, measured.cpu_s
    backend.load()
    begin, cpu = time.perf_counter(), time.process_time()
    outcome = backend.run(model, options, extras)
    return outcome, time.perf_counter() - begin, None, time.process_time() - cpu

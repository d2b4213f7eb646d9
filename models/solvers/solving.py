"""One function for all solvers: `solve(model, solver, options)`, in this process or in one of its own.

No back-end always keeps its limits: a factorization or a presolve may exceed a time limit, and none limits
the memory of an LP. So a helper, a `topologies.processes.Worker`, holds the solver where limits matter. It is
used again for the next solve; after it had to be killed, the next solve starts another. A crash of the solver
is an outcome, too.
"""

from __future__ import annotations

import atexit
import inspect
import os
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tutti.models.solvers.backend import Backend
from tutti.models.solvers.compiled import CompiledModel, compile_model, required_features
from tutti.models.solvers.options import Feature, SolverOptions
from tutti.models.solvers.outcome import (
    Extras,
    Outcome,
    Progress,
    SolutionStatus,
    SolverResult,
    Start,
    Termination,
    Trace,
)
from tutti.models.solvers.registry import find_backend
from tutti.topologies.errors import InputError, TuttiError, raised
from tutti.topologies.kernels import COMPILATION
from tutti.topologies.processes import CallEnd, Caller, Ended, Worker, peak_memory, reset_peak_memory
from tutti.topologies.units import MEGA

if TYPE_CHECKING:
    import pyomo.environ as pyo

GRACE = 0.05
"""Time that a solver has to stop by itself after its time limit, as a fraction of the limit, or of 10 s if
that is more. With a larger value a solver that hangs is killed later."""
KEPT_MB = 300.0
"""Memory, in MB, up to which a helper is used again: what it keeps counts as the next solve's memory. With a
larger value more memory may be counted twice."""
_WATCHERS: list[Callable[[], Trace]] = []


@contextmanager
def watching(watcher: Callable[[], Trace]) -> Iterator[None]:
    """Trace each mixed-integer program that is solved in the ``with`` block: `watcher` returns its trace."""
    _WATCHERS.append(watcher)
    try:
        yield
    finally:
        _WATCHERS.remove(watcher)


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
        Further features that are required (``Feature.DUALS``), in addition to those of the model, the options
        and the start.
    start
        A basis, or values, to begin from.
    trace
        A function that is called with incumbents and bounds of a MILP, where the back-end can.

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
    chosen = backend.options() if options is None else options
    if not isinstance(chosen, backend.options):
        wanted = backend.options.__name__
        raise InputError(f"solver {backend.name} takes {wanted}, not {type(chosen).__name__}")
    find_backend(solver, kind | chosen.needs | frozenset(needs) | (start.needs if start else frozenset()))
    begin = time.perf_counter()
    compiled = _compiled(model) if given is None else given
    compile_s = time.perf_counter() - begin if compiled is None else compiled.compile_s
    if compiled is not None and start is not None:
        start.check(compiled.name, compiled.num_columns, compiled.num_rows)
    run = _Measured(Outcome(Termination.INFEASIBLE, SolutionStatus.NONE), 0.0, None)
    if compiled is not None:
        watched = [watcher() for watcher in _WATCHERS] if compiled.integer.any() and trace is None else []
        run = _run(compiled, backend, chosen, Extras(start, trace or next(iter(watched), None)))
        for each in watched:
            each(Progress(run.seconds, run.outcome.objective, run.outcome.bound))
    return SolverResult(
        **vars(run.outcome),
        model=compiled,
        solver=solver,
        version=backend.version,
        compile_s=compile_s,
        solve_s=run.seconds,
        peak_rss_mb=run.peak_rss_mb,
        cpu_s=run.cpu_s,
    )


def _compiled(model: Any) -> CompiledModel | None:
    """Return a Pyomo model's matrices; None if a constraint of constants does not hold."""
    from pyomo.common.errors import InfeasibleConstraintException

    try:
        return compile_model(model)
    except InfeasibleConstraintException:
        return None


def _run(model: CompiledModel, backend: Backend, options: SolverOptions, extras: Extras) -> _Measured:
    if options.apart:
        return _solve_apart(model, backend, options, extras)
    backend.load()
    return _measured_run(backend, model, options, extras)


def _processor_seconds() -> float:
    """Return the CPU seconds of this process and of programs that it ran."""
    every = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in every)


def _measured_run(
    backend: Backend, model: CompiledModel, options: SolverOptions, extras: Extras
) -> _Measured:
    begin, cpu = time.perf_counter(), _processor_seconds()
    found: Any = backend.run(model, options, extras)
    if not isinstance(found, Outcome):
        raise TuttiError(f"solver {backend.name} returned {type(found).__name__}; it must return an Outcome")
    return _Measured(found, time.perf_counter() - begin, None, _processor_seconds() - cpu)


@dataclass(frozen=True, eq=False)
class _Measured:
    """An outcome with what it took.

    Parameters
    ----------
    seconds
        Seconds to pass the arrays, solve and read the answer; for a solver that was killed, until then.
    peak_rss_mb
        The most memory resident meanwhile, in MB, the helper's own included; None without a helper.
    cpu_s
        CPU seconds; None for a solver that was killed.
    """

    outcome: Outcome
    seconds: float
    peak_rss_mb: float | None
    cpu_s: float | None = None


_idle: list[Worker] = []
"""The helper that is idle, if any."""
_known: WeakKeyDictionary[Worker, set[str]] = WeakKeyDictionary()
"""Names of the back-ends that each helper has loaded."""


def end_idle() -> None:
    """End the idle helper: the next one finds what can be imported by now."""
    while _idle:
        _idle.pop().end()


atexit.register(end_idle)
os.register_at_fork(after_in_child=_idle.clear)  # it is the parent's


def _helper() -> Worker:
    """Return an idle helper that lives, or a new one."""
    while _idle:
        helper = _idle.pop()
        if helper.process.exitcode is None:
            return helper
        helper.end()
    with COMPILATION:
        return Worker.fresh("tutti.models.solvers.solving:help_solving")


def _solve_apart(model: CompiledModel, backend: Backend, options: SolverOptions, extras: Extras) -> _Measured:
    """Solve in the helper, which is killed if it exceeds `options`' time or memory limit.

    Raises
    ------
    InputError
        If the solver refuses the model or an option.
    TuttiError
        If the helper can't start, or the back-end has a fault.
    """
    limit = options.time_limit
    seconds = None if limit is None else limit + GRACE * max(limit, 10.0)
    call = _Solve(backend, model.bare, options, extras.start, traced=extras.trace is not None)
    helper = _helper()
    ended = _loaded(helper, backend)
    if ended is None:
        ended = _ask(helper, call, seconds, options.memory_limit, extras.trace)
    measured = _measured(ended, options)
    if ended.how is CallEnd.ANSWER and (measured.peak_rss_mb or 0.0) < KEPT_MB:
        _idle.append(helper)
    else:
        helper.end()
    return measured


def _loaded(helper: Worker, backend: Backend) -> Ended | None:
    """Let a helper load a back-end that is new to it; return how it died, if it did."""
    known = _known.setdefault(helper, set())
    if backend.name in known:
        return None
    known.add(backend.name)
    with COMPILATION:  # no part of any method's time
        ended = _ask(helper, backend)
    return None if ended.how is CallEnd.ANSWER else ended


def _ask(helper: Worker, *call: Any) -> Ended:
    try:
        helper.give(*call)
        return helper.finish()
    except BaseException:
        helper.end()
        raise


def _measured(ended: Ended, options: SolverOptions) -> _Measured:
    if ended.how is CallEnd.DEATH:
        crash = Outcome(Termination.ERROR, SolutionStatus.NONE, stopped=f"crashed: {ended.cause}")
        return _Measured(crash, ended.seconds, ended.peak_mb)
    if ended.how is not CallEnd.ANSWER:
        exceeded = Termination.TIME_LIMIT if ended.how is CallEnd.TIME else Termination.MEMORY_LIMIT
        killed = Outcome(exceeded, SolutionStatus.NONE, stopped="killed")
        return _Measured(killed, ended.seconds, ended.peak_mb)
    answer: _Measured = ended.answer
    peak, allowed = max(answer.peak_rss_mb or 0.0, ended.peak_mb), options.memory_limit
    measured = replace(answer, peak_rss_mb=peak)
    if allowed is None or peak * MEGA <= allowed:
        return measured
    # more than was allowed, if only for a moment between two measurements
    return replace(measured, outcome=Outcome(Termination.MEMORY_LIMIT, SolutionStatus.NONE))


@dataclass(frozen=True, eq=False)
class _Solve:
    """A request to the helper: a back-end, its inputs, and whether it reports progress.

    The first request that names a back-end is the back-end alone, to be loaded.
    """

    backend: Backend
    model: CompiledModel
    options: SolverOptions
    start: Start | None
    traced: bool


def help_solving(caller: Caller) -> None:
    """Be the helper: load back-ends and solve what is asked."""

    def help_with(call: Backend | _Solve) -> _Measured | None:
        with _blaming(call.backend if isinstance(call, _Solve) else call):
            if isinstance(call, _Solve):
                return _solve_here(call, caller)
            call.load()
            return None

    caller.serve(help_with)


@contextmanager
def _blaming(backend: Backend) -> Iterator[None]:
    """Name the back-end in an error that it raises."""
    try:
        yield
    except TuttiError:
        raise
    except Exception as error:
        code = getattr(inspect.unwrap(backend.run), "__code__", None)
        own = () if code is None else (code.co_filename,)
        raise TuttiError(f"solver {backend.name}: {raised(error, own)}") from error


def _solve_here(call: _Solve, caller: Caller) -> _Measured:
    backend, extras = call.backend, Extras(call.start, caller.tell if call.traced else None)
    reset_peak_memory()
    caller.start_clock()
    begin, cpu = time.perf_counter(), _processor_seconds()
    try:
        measured = _measured_run(backend, call.model, call.options, extras)
    except MemoryError:
        outcome = Outcome(Termination.MEMORY_LIMIT, SolutionStatus.NONE, stopped="out of memory")
        measured = _Measured(outcome, time.perf_counter() - begin, None, _processor_seconds() - cpu)
    return replace(measured, peak_rss_mb=peak_memory())

"""A task of a study: one solver on one instance with one seed; its row, whatever happens."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.study.config import Entrant
from experiments.study.instances import Instance, find_model
from experiments.tasks import Outcome, Row, Task, Workplace, failure
from models.solvers import Feature, SolverOptions, SolverResult, Termination, find_backend, solve
from models.solvers.registry import BACKENDS
from topologies.errors import InputError, TuttiError, Unsupported
from topologies.text import parse_topology

MEGABYTE = 10**6
LIMITS = frozenset({Termination.TIME_LIMIT, Termination.MEMORY_LIMIT, Termination.ITERATION_LIMIT})
RIGHT, WRONG, UNPROVEN = "right", "wrong", "unproven"
TOLERANCE = 1e-6
"""How far outside the proven interval, relatively, an objective may lie and be right."""
TINY = Fraction(1, 10**12)
"""An optimum below this is judged absolutely."""
EXACT = ("lower_exact", "upper_exact")
"""What a row proved, as fractions; columns of no table, for the intersection over all rows."""


@dataclass(frozen=True)
class StudyTask(Task):
    """One solve.

    Parameters
    ----------
    model, builder
        Which linear program on the topology, and how it is made.
    entrant
        The solver.
    order
        The seed: the order of rows and columns, and the solver's own.
    time_limit, memory_limit
        Seconds and bytes.
    log
        The file of the solver's log, None for none.

    The others are those of any task; `sizes` is one 0, as a linear program has no size of M.
    """

    model: str
    builder: str
    entrant: Entrant
    order: int
    time_limit: float
    memory_limit: float | None
    log: Path | None

    def __str__(self) -> str:
        return f"{self.model} {self.topology} {self.entrant.label} seed={self.order}"

    def rows(self, status: str, message: str = "") -> list[Row]:
        """Return its row with what is known without running it."""
        (row,) = super().rows(status, message)
        return [
            row
            | {
                "seed": self.order,
                "model": self.model,
                "builder": self.builder,
                "solver": self.entrant.solver,
                "limit_s": self.time_limit,
                "limit_mb": None if self.memory_limit is None else self.memory_limit / MEGABYTE,
            }
        ]


def perform(task: StudyTask, place: Workplace) -> Outcome:
    """Run a task; whatever goes wrong becomes its row."""
    try:
        return _solve(task)
    except Unsupported as outcome:
        return Outcome("unsupported", task.rows("unsupported", str(outcome)))
    except TuttiError as error:
        return failure(task, str(error), traceback.format_exc())
    except Exception as error:  # noqa: BLE001 (one solver's fault is one task's row)
        return failure(task, f"{type(error).__name__}: {error}".partition("\n")[0], traceback.format_exc())


def _solve(task: StudyTask) -> Outcome:
    options = _options(task)
    try:
        backend = find_backend(task.entrant.solver, options.needs)
    except InputError as error:  # not installed: the study goes on without it
        return Outcome("unsupported", task.rows("unsupported", str(error)))
    instance = _instance(task.model, task.topology)
    result = solve(instance.compiled.permuted(task.order), backend.name, options)
    result = _in_own_order(result, instance, task.order)
    begin = time.perf_counter()
    lower, upper = instance.bounds(result)
    certify_s = time.perf_counter() - begin
    status, message = _status(result)
    (row,) = task.rows(status, message)
    row |= _measured(instance, result) | {"certify_s": certify_s}
    row |= {name: str(value) for name, value in zip(EXACT, (lower, upper), strict=True) if value is not None}
    row["log"] = None if task.log is None else f"{task.log.parent.name}/{task.log.name}"
    return Outcome(status, [row])


def _options(task: StudyTask) -> SolverOptions:
    limits = {"time_limit": task.time_limit, "memory_limit": task.memory_limit}
    seeded = Feature.SEED in BACKENDS[task.entrant.solver].features
    own = {"seed": task.order} if seeded else {}
    return task.entrant.options(**limits, **own, log=task.log, own_process=True)


@lru_cache(maxsize=1)
def _instance(model: str, topology: str) -> Instance:
    return find_model(model).build(parse_topology(topology))


def _in_own_order(result: SolverResult, instance: Instance, order: int) -> SolverResult:
    """Return a permuted model's answer in the order of the model itself."""
    rows, columns = instance.compiled.orders(order)
    outcome = result.outcome
    outcome = replace(
        outcome,
        values=None if outcome.values is None else outcome.values[np.argsort(columns)],
        duals=None if outcome.duals is None else outcome.duals[np.argsort(rows)],
    )
    return replace(result, outcome=outcome, model=instance.compiled)


def _status(result: SolverResult) -> tuple[str, str]:
    how = f" ({result.outcome.stopped})" if result.outcome.stopped else ""
    if result.termination is Termination.OPTIMAL:
        return "ok", ""
    text = f"stopped with '{result.termination}'{how}"
    return ("timeout" if result.termination in LIMITS else "failed"), text


def _measured(instance: Instance, result: SolverResult) -> dict[str, Any]:
    return {
        "solver": f"{result.solver} {result.version}",
        "termination": str(result.termination),
        "solution_status": str(result.status),
        "objective": result.objective,
        "certified_by": instance.certified_by,
        "variables": result.columns,
        "constraints": result.rows,
        "nonzeros": result.nonzeros,
        "iterations": result.outcome.iterations,
        "build_s": instance.build_s,
        "solve_s": result.solve_s,
        "peak_rss_mb": result.peak_rss_mb,
    }


def judged(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with what all of them together prove of their instances, and who is wrong.

    Raises
    ------
    TuttiError
        If two proofs contradict each other.
    """
    proven = {key: _intersection(key, group) for key, group in _by_instance(rows).items()}
    return [_judged(row, *proven[_key(row)]) for row in rows]


def _key(row: Row) -> tuple[str, str]:
    return row["model"], row["topology"]


def _by_instance(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault(_key(row), []).append(row)
    return groups


def _intersection(key: tuple[str, str], rows: Sequence[Row]) -> tuple[Fraction | None, Fraction | None]:
    """Return the largest lower and the least upper bound of an instance."""
    lowers, uppers = ([Fraction(row[name]) for row in rows if row.get(name)] for name in EXACT)
    lower, upper = max(lowers, default=None), min(uppers, default=None)
    if lower is not None and upper is not None and lower > upper:
        raise TuttiError(f"{' '.join(key)}: its optimum is proven to be at least {lower} and at most {upper}")
    return lower, upper


def _judged(row: Row, lower: Fraction | None, upper: Fraction | None) -> Row:
    exact = str(lower) if lower is not None and lower == upper else None
    certified = {"certified_lower": lower, "certified_upper": upper}
    more: Row = {name: None if bound is None else float(bound) for name, bound in certified.items()}
    more["certified_exact"] = exact
    if row["status"] == "ok" and row.get("objective") is not None:
        error = _error(row["objective"], lower, upper)
        known = lower is not None and upper is not None
        more["relative_error"] = error if known else None
        more["answer"] = WRONG if error > TOLERANCE else RIGHT if known else UNPROVEN
    return {name: value for name, value in row.items() if name not in EXACT} | more


def _error(objective: float, lower: Fraction | None, upper: Fraction | None) -> float:
    """Return how far an objective lies outside of an interval, relative to the end that it passed."""
    below = 0 if lower is None else (lower - Fraction(objective)) / max(abs(lower), TINY)
    above = 0 if upper is None else (Fraction(objective) - upper) / max(abs(upper), TINY)
    return float(max(below, above, 0))

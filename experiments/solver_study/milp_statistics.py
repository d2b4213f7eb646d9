r"""What a study of mixed-integer programs says besides times: primal integrals, incumbents, gaps left.

With p(t) the incumbent at time t and p* the best known value, the primal gap is

.. math::

    γ(t) = 0 \text{ if } p(t) = p^*, \quad 1 \text{ before the first incumbent or if } p(t) p^* < 0, \quad
    \frac{|p(t) - p^*|}{\max(|p(t)|, |p^*|)} \text{ else},

and the primal integral its integral from 0 to the limit (Berthold, Measuring the impact of primal heuristics,
Operations Research Letters 41, 2013, section 2). Here p* is the best incumbent of any solver that own
arithmetic confirmed. An incumbent beyond it, by a grid's or a tolerance's rounding, has gap 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tutti.experiments.report.standings import shifted_geometric_mean
from tutti.experiments.solver_study.statistics import (
    MIXED_SHIFT,
    TOLERANCE,
    Row,
    by_solver,
    charged,
    comparable,
    missing,
    solved,
    taken,
)

Point = tuple[float, float | None, float | None]
"""Seconds, incumbent, bound."""


def is_mixed_row(row: Row) -> bool:
    """Whether a row is a mixed-integer program's that was solved or tried."""
    return not missing(row.get("integers"))


def trace_of(row: Row) -> list[Point]:
    """Return incumbents and bounds over time, by the study's clock: that of the solver is stretched to it."""
    text = row.get("trace")
    if missing(text) or not text:
        return []
    wall = float(row["solve_s"])
    stretch = taken(row) / wall if wall > 0 else 1.0
    return [(seconds * stretch, incumbent, bound) for seconds, incumbent, bound in json.loads(text)]


def best_known(row: Row) -> float | None:
    """Return the best objective that was confirmed for a row's program."""
    value = row["certified_lower" if row["maximize"] else "certified_upper"]
    return None if missing(value) else float(value)


def primal_gap(value: float | None, best: float, *, maximize: bool = False) -> float:
    """Return γ of an incumbent.

    Examples
    --------
    >>> primal_gap(10.0, 8.0), primal_gap(None, 8.0), primal_gap(-1.0, 2.0, maximize=True)
    (0.2, 1.0, 1.0)
    """
    if value is None:
        return 1.0
    if (value >= best) if maximize else (value <= best):
        return 0.0
    if value * best < 0:
        return 1.0
    return abs(value - best) / max(abs(value), abs(best))


def primal_integral(
    trace: Sequence[Point], best: float | None, limit: float, *, maximize: bool = False
) -> float:
    """Return the seconds of gap 1 that an answer's course counts as, from 0 to the limit.

    Parameters
    ----------
    trace
        In order of time.
    best
        p*; None: nothing is known, and all counts as gap 1.
    limit
        Seconds.
    maximize
        The program's sense.
    """
    if best is None:
        return limit
    at = [0.0, *(min(seconds, limit) for seconds, _, _ in trace), limit]
    gaps = [1.0, *(primal_gap(incumbent, best, maximize=maximize) for _, incumbent, _ in trace)]
    return math.fsum(gap * (after - before) for gap, (before, after) in zip(gaps, pairwise(at), strict=True))


def scored(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the rows, those of mixed-integer programs with their primal integral: the limit if wrong."""
    return [{**row, **({"primal_integral": _integral(row)} if is_mixed_row(row) else {})} for row in rows]


def _integral(row: Row) -> float:
    limit = float(row["limit_s"])
    if row.get("answer") == "wrong":
        return limit
    return primal_integral(trace_of(row), best_known(row), limit, maximize=bool(row["maximize"]))


def gap_left(row: Row) -> float:
    """Return |incumbent - bound| over the larger at the end; 1 where one is missing or the answer wrong."""
    if any(missing(row.get(key)) for key in ("objective", "bound")) or row.get("answer") == "wrong":
        return 1.0
    objective, bound = float(row["objective"]), float(row["bound"])
    largest = max(abs(objective), abs(bound))
    return 0.0 if solved(row) or not largest else min(1.0, abs(objective - bound) / largest)


def has_best(row: Row) -> bool:
    """Whether a row's confirmed incumbent is the best known."""
    best, worth = best_known(row), row.get("worth")
    if best is None or missing(worth) or worth is None or row.get("answer") == "wrong":
        return False
    return abs(float(worth) - best) <= TOLERANCE * max(1.0, abs(best))


@dataclass(frozen=True)
class MixedStanding:
    """How a solver did.

    Parameters
    ----------
    solver
        Its label.
    tried, proven
        Rows, and those whose optimum it proved.
    found, best
        Rows with an incumbent that was confirmed, and with the best known one.
    grid, wrong, failed
        Rows that are optimal on the solver's grid only, refuted, or ended in an error.
    mean_s
        Shifted geometric mean of the charged seconds, shift `MIXED_SHIFT`.
    integral
        Mean of the primal integral over the limit.
    gap
        Mean gap left.
    """

    solver: str
    tried: int
    proven: int
    found: int
    best: int
    grid: int
    wrong: int
    failed: int
    mean_s: float
    integral: float
    gap: float


def mixed_standings(rows: Iterable[Row]) -> list[MixedStanding]:
    """Return a line for each solver that ran all problems (`comparable`), the least mean first."""
    lines = (_standing(solver, own) for solver, own in by_solver(comparable(rows)[0]).items())
    return sorted(lines, key=lambda line: (line.mean_s, line.integral))


def _standing(solver: str, rows: Sequence[Row]) -> MixedStanding:
    shares = [share_of_limit(row) for row in rows]
    return MixedStanding(
        solver,
        len(rows),
        sum(map(solved, rows)),
        sum(row.get("feasible") is True for row in rows),
        sum(map(has_best, (row for row in rows if is_mixed_row(row)))),
        sum(row["status"] == "grid" for row in rows),
        sum(row.get("answer") == "wrong" for row in rows),
        sum(row["status"] == "failed" for row in rows),
        shifted_geometric_mean(map(charged, rows), MIXED_SHIFT),
        math.fsum(shares) / len(shares),
        math.fsum(map(gap_left, rows)) / len(rows),
    )


def share_of_limit(row: Row) -> float:
    """Return a row's primal integral over the limit; 1 where it has none."""
    value: Any = row.get("primal_integral")
    return 1.0 if missing(value) else float(value) / float(row["limit_s"])

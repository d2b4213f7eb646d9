r"""What a study says: means, profiles, primal integrals, gaps left, and which solver to choose when.

The shifted geometric mean of seconds t_1, ..., t_n with shift s is exp(mean of log(t_i + s)) - s; small times
then count little. A performance profile (Dolan and Moré 2002) tells for each ratio τ the share of problems
that a solver solves within τ times the least time of any solver. A problem is one instance with one seed.
Whoever reached a limit, failed, or gave a wrong answer is charged the limit in means, and has not solved it.

Mixed-integer programs have a primal gap, too. With p(t) the incumbent at time t and p* the best known value
it is

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
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, pairwise
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from tutti.experiments.report.standings import shifted_geometric_mean

Row = Mapping[str, Any]
Point = tuple[float, float | None, float | None]
"""Seconds, incumbent, bound."""
R = TypeVar("R", bound=Mapping[str, Any])
K = TypeVar("K", bound=Hashable)

SHIFT = 1.0
"""Seconds."""
MIXED_SHIFT = 10.0
"""The same where mixed-integer programs are solved."""
LEAST_SECONDS = 1e-3
"""Times below are measured too coarsely to be compared: in profiles they count as this."""
SIZES: tuple[tuple[str, float], ...] = (("small", 1e4), ("medium", 1e5), ("large", math.inf))
"""Classes of instances by the nonzeros that they stay below."""
SAME = 1.1
"""Means whose quotient is less tell no solvers apart."""
TOLERANCE = 1e-6
"""Largest relative distance of a correct objective from the proven interval, or between two that agree."""
MIXED_TOLERANCE = 1e-5
"""The same for mixed-integer programs, whose solvers satisfy rows and integrality to 1e-6."""
NOT_RUN = "unsupported"


def grouped(rows: Iterable[R], key: Callable[[R], K]) -> dict[K, list[R]]:
    """Return rows by a key, in order of appearance."""
    groups: dict[K, list[R]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def instance_of(row: Row) -> tuple[str, str]:
    """Return the model and the topology of a row."""
    return row["model"], row["topology"]


def solved(row: Row) -> bool:
    """Whether a row has an answer that is not wrong, within its limits."""
    return bool(row["status"] == "ok" and row.get("answer") != "wrong")


def shift_of(rows: Iterable[Row]) -> float:
    """Return the shift of means: 10 s where there are mixed-integer programs, 1 s where there are none."""
    return MIXED_SHIFT if any(not missing(row.get("integers")) for row in rows) else SHIFT


def taken(row: Row) -> float:
    """Return the seconds of a solve by the study's clock."""
    return float(row["solve_s"] if missing(row.get("timed_s")) else row["timed_s"])


def charged(row: Row) -> float:
    """Return the seconds that a row counts for in means."""
    limit = float(row["limit_s"])
    return min(taken(row), limit) if solved(row) else limit


def problem(row: Row) -> tuple[str, str, int]:
    """Return what a row is about, whoever solved it."""
    return row["model"], row["topology"], int(row["seed"])


def size_class(row: Row) -> str:
    """Return the class of a row's instance; empty where its size is not known."""
    nonzeros: Any = row.get("nonzeros")
    return "" if missing(nonzeros) else next(name for name, end in SIZES if nonzeros < end)


def missing(value: Any) -> bool:
    """Whether a table has no value there."""
    return value is None or value != value


def comparable(rows: Iterable[Row]) -> list[list[Row]]:
    """Return rows in groups in which every solver ran the same problems, the largest group first.

    There is one for each set of problems that some solver ran, with all solvers that ran at least these; one
    without rows if none ran.
    """
    rows = list(rows)
    ran = {solver: frozenset(map(problem, own)) for solver, own in by_solver(rows).items()}
    sets = sorted(set(ran.values()), key=len, reverse=True)
    return [
        [row for row in rows if problem(row) in own and ran.get(row["method"], frozenset()) >= own]
        for own in sets
    ] or [[]]


@dataclass(frozen=True)
class SolverStanding:
    """How a solver did.

    Parameters
    ----------
    solver
        Its label.
    tried, right, timeouts, wrong, failed
        Rows; `right` counts those solved, within the limits and not wrong.
    mean_s
        Shifted geometric mean of the charged seconds.
    worst_error
        The largest relative error of an answer; None where none was judged.
    found, best, grid
        Of mixed-integer programs the rows with an incumbent that was confirmed, and with the best known one;
        and those that are optimal on the solver's grid only.
    integral, gap
        Means of the primal integral over the limit, and of the gap left.
    """

    solver: str
    tried: int
    right: int
    timeouts: int
    wrong: int
    failed: int
    mean_s: float
    worst_error: float | None
    found: int
    best: int
    grid: int
    integral: float
    gap: float


def standings(rows: Iterable[Row]) -> list[SolverStanding]:
    """Return a line for each solver that ran all problems (`comparable`), the best mean first."""
    rows = comparable(rows)[0]
    lines = (_standing(name, group, shift_of(rows)) for name, group in by_solver(rows).items())
    return sorted(lines, key=lambda line: (line.mean_s, line.integral))


def by_solver(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each solver that ran, in order of appearance."""
    return grouped((row for row in rows if row["status"] != NOT_RUN), lambda row: row["method"])


def _standing(name: str, rows: Sequence[Row], shift: float) -> SolverStanding:
    errors = [row["relative_error"] for row in rows if not missing(row.get("relative_error"))]
    states = [row["status"] for row in rows]
    return SolverStanding(
        name,
        len(rows),
        sum(map(solved, rows)),
        states.count("timeout"),
        sum(row.get("answer") == "wrong" for row in rows),
        states.count("failed"),
        shifted_geometric_mean(map(charged, rows), shift),
        max(errors, default=None),
        sum(row.get("feasible") is True for row in rows),
        sum(map(has_best, rows)),
        states.count("grid"),
        math.fsum(map(share_of_limit, rows)) / len(rows),
        math.fsum(map(gap_left, rows)) / len(rows),
    )


def profile(rows: Iterable[Row]) -> dict[str, list[float]]:
    """Return for each solver the ratios to the least time of its solved problems, increasing.

    The share of problems solved within τ is the number of ratios up to τ over `problems_of`.
    """
    groups = by_solver(rows)
    times = {
        solver: {problem(row): max(taken(row), LEAST_SECONDS) for row in group if solved(row)}
        for solver, group in groups.items()
    }
    best: dict[tuple[str, str, int], float] = {}
    for own in times.values():
        for key, seconds in own.items():
            best[key] = min(best.get(key, math.inf), seconds)
    return {name: sorted(seconds / best[key] for key, seconds in own.items()) for name, own in times.items()}


def not_run(rows: Sequence[Row]) -> list[str]:
    """Return who was not run on how many problems, and why, in words."""
    tried = {solver: len(own) for solver, own in grouped(rows, lambda row: str(row["method"])).items()}
    left_out = grouped(
        (row for row in rows if row["status"] == NOT_RUN), lambda row: (str(row["method"]), row["message"])
    )
    return [
        f"{solver}: {f'{len(own)} of {tried[solver]} problems: ' if len(own) < tried[solver] else ''}{why}"
        for (solver, why), own in left_out.items()
    ]


def problems_of(rows: Iterable[Row]) -> int:
    """Return how many problems were tried."""
    return len({problem(row) for row in rows if row["status"] != NOT_RUN})


@dataclass(frozen=True)
class SolverChoice:
    """Whom to choose for a model and a size.

    Parameters
    ----------
    model, size
        The class; `instances` of it were run.
    lines
        Standings, the best first.
    equals
        The solvers whose mean is as good as the best (within `SAME`) and who solved as many.
    """

    model: str
    size: str
    instances: int
    lines: tuple[SolverStanding, ...]
    equals: tuple[str, ...]


def choices(rows: Sequence[Row]) -> list[SolverChoice]:
    """Return a choice for each model and size class that was run: most solved first, then least mean."""
    # Rows that died before they knew their size have that of other rows of the instance.
    sizes = {instance_of(row): size for row in rows if (size := size_class(row))}
    ran = (row for row in rows if row["status"] != NOT_RUN and instance_of(row) in sizes)
    groups = grouped(ran, lambda row: (row["model"], sizes[instance_of(row)]))
    order = {name: place for place, (name, _) in enumerate(SIZES)}
    models = list(dict.fromkeys(row["model"] for row in rows))
    keys = sorted(groups, key=lambda key: (models.index(key[0]), order[key[1]]))
    return [_choice(*key, groups[key]) for key in keys]


def _choice(model: str, size: str, rows: Sequence[Row]) -> SolverChoice:
    lines = sorted(standings(rows), key=lambda s: (-s.right, s.mean_s))
    best = lines[0]
    near = max(SAME * best.mean_s, best.mean_s + LEAST_SECONDS)
    equals = tuple(s.solver for s in lines if s.right == best.right and s.mean_s <= near)
    return SolverChoice(model, size, len({row["topology"] for row in rows}), tuple(lines), equals)


def building(rows: Sequence[Row]) -> list[Any]:
    """Return what making the matrices costs beside solving, of instances that some solver solved.

    Returns
    -------
    list of named tuples
        For each `model`, `builder` and `size` class the number of `instances`; `build_s`, the geometric mean;
        `solve_s`, that of the least time of any solver; and `share`, the mean of build / (build + solve).
    """
    what, times = ["model", "builder", "size"], ["build_s", "solve_s"]
    lines = [
        (
            own[-1]["model"],
            own[-1]["builder"],
            size_class(own[-1]),
            *(max(min(row[name] for row in own), 1e-9) for name in times),
        )
        for own in grouped(filter(solved, rows), instance_of).values()
    ]
    frame = pd.DataFrame(lines, columns=[*what, *times])
    frame["share"] = frame.build_s / (frame.build_s + frame.solve_s)
    frame[times] = np.log(frame[times])
    groups = frame.groupby(what, sort=False)
    found = groups.mean().assign(instances=groups.size()).reset_index()
    found[times] = np.exp(found[times])
    return list(found.itertuples(index=False))


def disagreements(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return every two answers to one problem that differ by more than `TOLERANCE`, relatively."""
    answered = (row for row in rows if row["status"] == "ok" and not missing(row.get("objective")))
    pairs = (combinations(group, 2) for group in grouped(answered, problem).values())
    return [
        (a, b)
        for a, b in chain.from_iterable(pairs)
        if abs(a["objective"] - b["objective"]) > TOLERANCE * max(abs(a["objective"]), abs(b["objective"]))
    ]


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
    worth: Any = row.get("worth")
    best = None if missing(worth) else best_known(row)
    if best is None or row.get("answer") == "wrong":
        return False
    return abs(float(worth) - best) <= TOLERANCE * max(1.0, abs(best))


def share_of_limit(row: Row) -> float:
    """Return a row's primal integral over the limit; 1 where it has none."""
    value: Any = row.get("primal_integral")
    return 1.0 if missing(value) else float(value) / float(row["limit_s"])

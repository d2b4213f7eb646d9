r"""What a study says: shifted geometric means, performance profiles, and which solver to choose when.

The shifted geometric mean of seconds t_1, ..., t_n with shift s is exp(mean of log(t_i + s)) - s; small times
then count little. A performance profile (Dolan and Moré 2002) tells for each ratio τ the share of problems
that a solver solves within τ times the least time of any solver. A problem is one instance with one seed.
Whoever reached a limit, failed, or gave a wrong answer is charged the limit in means, and has not solved it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any, TypeVar

from tutti.experiments.report.standings import shifted_geometric_mean

Row = Mapping[str, Any]
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
    """

    solver: str
    tried: int
    right: int
    timeouts: int
    wrong: int
    failed: int
    mean_s: float
    worst_error: float | None


def standings(rows: Iterable[Row]) -> list[SolverStanding]:
    """Return a line for each solver that ran all problems (`comparable`), the best mean first."""
    rows = comparable(rows)[0]
    lines = (_standing(name, group, shift_of(rows)) for name, group in by_solver(rows).items())
    return sorted(lines, key=lambda s: s.mean_s)


def by_solver(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each solver that ran, in order of appearance."""
    return grouped((row for row in rows if row["status"] != NOT_RUN), lambda row: row["method"])


def _standing(name: str, rows: Sequence[Row], shift: float) -> SolverStanding:
    errors = [row["relative_error"] for row in rows if not missing(row.get("relative_error"))]
    return SolverStanding(
        name,
        len(rows),
        sum(map(solved, rows)),
        sum(row["status"] == "timeout" for row in rows),
        sum(row.get("answer") == "wrong" for row in rows),
        sum(row["status"] == "failed" for row in rows),
        shifted_geometric_mean(map(charged, rows), shift),
        max(errors, default=None),
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


@dataclass(frozen=True)
class Building:
    """What making the matrices costs beside solving, for a model, builder and size class.

    Parameters
    ----------
    build_s
        Geometric mean over instances.
    solve_s
        Geometric mean of the least time of any solver.
    share
        The mean of build / (build + solve) over instances.
    """

    model: str
    builder: str
    size: str
    instances: int
    build_s: float
    solve_s: float
    share: float


def building(rows: Sequence[Row]) -> list[Building]:
    """Return the cost of model building, for instances that some solver solved."""
    groups: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for own in grouped(filter(solved, rows), instance_of).values():
        key = (own[-1]["model"], own[-1]["builder"], size_class(own[-1]))
        build, solve = (min(float(row[name]) for row in own) for name in ("build_s", "solve_s"))
        groups.setdefault(key, []).append((build, solve))
    return [_building(*key, times) for key, times in groups.items()]


def _building(model: str, builder: str, size: str, times: Sequence[tuple[float, float]]) -> Building:
    builds, solves = zip(*times, strict=True)
    share = math.fsum(build / (build + solve) for build, solve in times) / len(times)
    return Building(model, builder, size, len(times), _mean(builds), _mean(solves), share)


def _mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(math.log(max(value, 1e-9)) for value in values) / len(values))


@dataclass(frozen=True)
class Disagreement:
    """Two solvers whose optima of one instance differ, and who of them is wrong by the certificate."""

    model: str
    topology: str
    solvers: tuple[str, str]
    objectives: tuple[float, float]
    wrong: tuple[str, ...]


def disagreements(rows: Sequence[Row]) -> list[Disagreement]:
    """Return every pair of answers to one problem that differ by more than `TOLERANCE`, relatively."""
    answered = (row for row in rows if row["status"] == "ok" and not missing(row.get("objective")))
    answers, found = grouped(answered, problem), []
    for a, b in chain.from_iterable(combinations(group, 2) for group in answers.values()):
        first, second = float(a["objective"]), float(b["objective"])
        if abs(first - second) > TOLERANCE * max(abs(first), abs(second)):
            wrong = tuple(row["method"] for row in (a, b) if row.get("answer") == "wrong")
            methods = (a["method"], b["method"])
            found.append(Disagreement(a["model"], a["topology"], methods, (first, second), wrong))
    return found

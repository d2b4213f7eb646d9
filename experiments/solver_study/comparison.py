"""Solvers compared on the same problems: intervals of differences, pairwise wins, PAR10, the virtual best.

A solver may not have run all problems of a study: a licence is for small programs, a solver has one thread,
or its presolve has a fault on some. So solvers are compared in groups that ran the same problems
(`statistics.comparable`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tutti.experiments.report.standings import shifted_geometric_mean
from tutti.experiments.report.tables import Cell, PageTable, Said, number, seconds
from tutti.experiments.solver_study.statistics import (
    LEAST_SECONDS,
    NOT_RUN,
    SAME,
    Row,
    by_solver,
    charged,
    grouped,
    instance_of,
    missing,
    problem,
    shift_of,
    solved,
    taken,
)
from tutti.topologies.exact import FloatArray

if TYPE_CHECKING:
    from collections.abc import Callable


class ComparisonRules(NamedTuple):
    """How solvers are compared."""

    confidence: float
    """Probability with which all intervals of a table hold together; each has its share (Bonferroni)."""
    resamples: int
    """Samples of the bootstrap. A larger value makes the ends of intervals less random."""
    fewest: int
    """Programs below which there are no intervals. With a smaller value they are too narrow."""
    penalty: float
    """Limits that PAR charges for an unsolved problem."""
    count_shift: float
    """Shift of the geometric means of nodes and iterations. With a larger value small counts matter less."""


RULES = ComparisonRules(confidence=0.95, resamples=9999, fewest=10, penalty=10.0, count_shift=100.0)
VIRTUAL_BEST = "virtual best"


@dataclass(frozen=True)
class Difference:
    """Two solvers on the same problems, with intervals.

    Parameters
    ----------
    solvers
        Both labels.
    ratio, ratio_interval
        The first one's shifted geometric mean over the second's.
    solved, solved_interval
        The share of problems that the first one solves less that of the second.
    """

    solvers: tuple[str, str]
    ratio: float
    ratio_interval: tuple[float, float]
    solved: float
    solved_interval: tuple[float, float]

    @property
    def faster(self) -> str:
        """Who is faster on average; empty where the interval allows both."""
        low, high = (round(end, 2) for end in self.ratio_interval)
        return self.solvers[0] if high < 1 else self.solvers[1] if low > 1 else ""

    @property
    def solves_more(self) -> str:
        """Who solves more problems; empty where the interval allows both."""
        low, high = self.solved_interval
        return self.solvers[0] if low > 0 else self.solvers[1] if high < 0 else ""


def differences(rows: Sequence[Row]) -> list[Difference]:
    """Return every pair of solvers that ran the same problems; none of fewer programs than `RULES.fewest`.

    Where there are solvers with more threads, each is compared with itself with another count of them.

    The intervals are percentiles of a paired bootstrap: programs are drawn with replacement, each with both
    solvers and all its seeds, as seeds of a program are no independent observations. Those of all pairs hold
    together with probability `RULES.confidence`.
    """
    programs = sorted(set(map(instance_of, rows)))
    if len(programs) < RULES.fewest:
        return []
    shift = shift_of(rows)
    groups = {solver: grouped(own, instance_of) for solver, own in by_solver(rows).items()}

    def means(of: Callable[[Row], float]) -> dict[str, FloatArray]:
        return {s: np.array([np.mean([*map(of, own[p])]) for p in programs]) for s, own in groups.items()}

    logs, shares = means(lambda row: math.log(charged(row) + shift)), means(lambda row: float(solved(row)))
    ordered = sorted(logs, key=lambda solver: float(logs[solver].mean()))
    single = {
        row["method"]: str(row["method"]).removesuffix(f", {int(row.get('threads') or 1)} threads")
        for row in rows
    }
    alone = all(solver == one for solver, one in single.items())
    pairs = [(a, b) for a, b in combinations(ordered, 2) if alone or single[a] == single[b]]

    def mean(values: FloatArray, axis: int) -> FloatArray:
        return np.maximum(np.exp(values.mean(axis=axis)) - shift, LEAST_SECONDS)

    def ratio(a: FloatArray, b: FloatArray, axis: int = -1) -> FloatArray:
        return mean(a, axis) / mean(b, axis)

    def lead(a: FloatArray, b: FloatArray, axis: int = -1) -> FloatArray:
        return a.mean(axis=axis) - b.mean(axis=axis)

    confidence = 1 - (1 - RULES.confidence) / max(len(pairs), 1)
    found = []
    for a, b in pairs:
        times, rates = (logs[a], logs[b]), (shares[a], shares[b])
        found.append(
            Difference(
                (a, b),
                float(ratio(*times)),
                _interval(times, ratio, confidence),
                float(lead(*rates)),
                _interval(rates, lead, confidence),
            )
        )
    return found


def _interval(
    data: tuple[FloatArray, FloatArray], statistic: Callable[..., FloatArray], confidence: float
) -> tuple[float, float]:
    from scipy.stats import bootstrap  # slow to import

    found = bootstrap(
        data,
        statistic,
        paired=True,
        vectorized=True,
        n_resamples=RULES.resamples,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(found.low), float(found.high)


def difference_table(rows: Sequence[Row]) -> PageTable:
    """Return the differences as a table, with what they say in words."""
    lines: list[tuple[str, list[Said]]] = []
    for one in differences(rows):
        (a, b), (low, high), (least, most) = one.solvers, one.ratio_interval, one.solved_interval
        cells = [
            f"{one.ratio:.2f} ({low:.2f} to {high:.2f})",
            f"{one.faster} is faster" if one.faster else "no difference",
            f"{100 * one.solved:+.1f} % ({100 * least:+.1f} to {100 * most:+.1f})",
            f"{one.solves_more} solves more" if one.solves_more else "no difference",
        ]
        lines.append(("", [Cell(f"{a} / {b}", "name"), *cells]))
    return PageTable.of("differences", lines)


def par(row: Row) -> float:
    """Return the seconds of a solved row, and `RULES.penalty` limits of another: penalized runtime."""
    return taken(row) if solved(row) else RULES.penalty * float(row["limit_s"])


def virtual_best(rows: Sequence[Row]) -> list[Row]:
    """Return for each problem the row of who did it best: what a perfect choice of the solver would reach."""
    return [
        min(own, key=lambda row: (not solved(row), charged(row))) for own in grouped(rows, problem).values()
    ]


def wins(rows: Sequence[Row]) -> dict[tuple[str, str], int]:
    """Return for each ordered pair of solvers on how many problems the first beats the second.

    It does if it solves a problem that the second does not solve, or takes `SAME` times less.
    """
    own = {solver: {problem(row): row for row in group} for solver, group in by_solver(rows).items()}

    def beats(a: Row, b: Row) -> bool:
        slower = max(taken(b), LEAST_SECONDS) > SAME * max(taken(a), LEAST_SECONDS) if solved(b) else True
        return solved(a) and slower

    return {
        (a, b): sum(beats(own[a][key], own[b][key]) for key in own[a].keys() & own[b].keys())
        for a in own
        for b in own
        if a != b
    }


def win_table(rows: Sequence[Row]) -> PageTable:
    """Return pairwise wins as a table: the solver of a line beats that of a column so often."""
    counts, solvers = wins(rows), list(by_solver(rows))
    lines: list[tuple[str, list[Said]]] = [
        ("", [Cell(a, "name"), *(str(counts.get((a, b), "")) for b in solvers)]) for a in solvers
    ]
    return PageTable.of("wins", lines, [f"{solver}#" for solver in solvers])


OUTCOMES: Mapping[str, Callable[[Row], bool]] = {
    "solved": solved,
    "wrong": lambda row: row.get("answer") == "wrong",
    "time": lambda row: row["status"] == "timeout" and row.get("termination") == "time limit",
    "memory": lambda row: row["status"] == "timeout" and row.get("termination") == "memory limit",
    "iterations": lambda row: row["status"] == "timeout" and row.get("termination") == "iteration limit",
    "on a grid": lambda row: row["status"] == "grid",
    "error": lambda row: row["status"] == "failed",
    "not run": lambda row: row["status"] == NOT_RUN,
}
"""What a row may come to, the first that holds counts."""


def outcome_table(rows: Sequence[Row]) -> PageTable:
    """Return what became of the problems of each solver, those that it was not run on included."""
    lines: list[tuple[str, list[Said]]] = []
    for solver, own in grouped(rows, lambda row: str(row["method"])).items():
        ends = [next((name for name, holds in OUTCOMES.items() if holds(row)), "error") for row in own]
        lines.append(("", [Cell(solver, "name"), *(str(ends.count(name) or "") for name in OUTCOMES)]))
    return PageTable.of("outcomes", lines, [f"{name}#" for name in OUTCOMES])


def measure_table(rows: Sequence[Row]) -> PageTable:
    """Return means and their quotients, PAR10, memory, nodes and violations of solvers."""
    shift, groups = shift_of(rows), by_solver(rows)
    groups[VIRTUAL_BEST] = virtual_best(rows)
    means = {solver: shifted_geometric_mean(map(charged, own), shift) for solver, own in groups.items()}
    best = min((means[solver] for solver in groups if solver != VIRTUAL_BEST), default=0.0)
    lines: list[tuple[str, list[Said]]] = []
    for solver, own in sorted(groups.items(), key=lambda item: means[item[0]]):
        virtual = solver == VIRTUAL_BEST
        tolerances = "" if virtual else ", ".join(f"{v:g}" for v in sorted(set(_values(own, "tolerance"))))
        cells: list[Said] = [
            tolerances,
            seconds(means[solver]),
            f"{means[solver] / best:.2f}" if best else "",
            f"{sum(map(solved, own))} of {len(own)}",
            seconds(math.fsum(map(par, own)) / len(own)),
            *(_effort(own) if not virtual else [""] * 6),
        ]
        lines.append(("", [Cell(solver, "name"), *cells]))
    return PageTable.of("measures", lines, penalty=RULES.penalty)


def _effort(rows: Sequence[Row]) -> Iterator[str]:
    """Yield mean and most memory, mean nodes and iterations, and the largest violations."""
    memory = _values(rows, "peak_rss_mb")
    yield f"{shifted_geometric_mean(memory, 0.0):,.0f} MB" if memory else ""
    yield f"{max(memory):,.0f} MB" if memory else ""
    for name in ("tree_nodes", "iterations"):
        counts = _values(rows, name)
        yield number(round(shifted_geometric_mean(counts, RULES.count_shift), 1)) if counts else ""
    for name in ("integrality", "violation"):
        most = max(_values(rows, name), default=None)
        yield "" if most is None else f"{most:.1e}" if most else "0"


def _values(rows: Sequence[Row], name: str) -> list[float]:
    return [float(row[name]) for row in rows if not missing(row.get(name))]

"""Times against those of `optimum`, the best schedule of given chunks: what one chunk a shard allows.

It is no lower bound: schedules of more chunks may be faster, which the table then shows as a negative gap.
Nor is it always proven best: then the part by which it may be too slow stands beside it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from experiments.report.results import OK, TIE, Case, Results, Row
from experiments.report.series import Series
from experiments.report.text import microseconds, percent, size

METHOD = "optimum"
"""The table is for runs in which it occurs."""


@dataclass(frozen=True)
class YardstickRow:
    """One case.

    Parameters
    ----------
    best
        The time of `optimum`.
    open
        By how many percent it may exceed the true optimum of its chunks; empty where it is proven.
    cells
        For each series how many percent it takes longer; empty where it has no time.
    """

    case: Case
    size: str
    best: str
    open: str
    cells: list[str]


@dataclass(frozen=True)
class Yardstick:
    """The other series, a line a case, and of each series the mean, the worst and how often it is as fast."""

    series: list[Series]
    rows: list[YardstickRow]
    means: list[str]
    worst: list[str]
    met: list[str]


def yardstick(results: Results) -> Yardstick | None:
    """Return the gaps to `optimum`; None where it has no time."""
    cases = {case: best for case in results.cases if (best := _best(results, case)) is not None}
    if not cases:
        return None
    present = {key for case in cases for key, row in results.cases[case].items() if row.status == OK}
    series = [one for one in results.series if one.number in present and one.method != METHOD]
    gaps = [
        [_gap(results.cases[case].get(one.number), best) for case, best in cases.items()] for one in series
    ]
    known = [[gap for gap in line if gap is not None] for line in gaps]
    return Yardstick(
        series,
        list(_rows(cases, gaps)),
        [percent(statistics.mean(line)) if line else "" for line in known],
        [percent(max(line)) if line else "" for line in known],
        [f"{sum(gap <= TIE for gap in line)} of {len(line)}" for line in known],
    )


def _best(results: Results, case: Case) -> Row | None:
    rows = (row for row in results.cases[case].values() if row.method == METHOD and row.ok)
    return min(rows, key=lambda row: row.time_us or 0.0, default=None)


def _gap(row: Row | None, best: Row) -> float | None:
    if row is None or not row.ok or not row.time_us or not best.time_us:
        return None
    return row.time_us / best.time_us - 1


def _rows(cases: dict[Case, Row], gaps: list[list[float | None]]) -> Iterator[YardstickRow]:
    for place, (case, best) in enumerate(cases.items()):
        left = best.solver_gap or 0.0
        cells = [percent(line[place]) for line in gaps]
        yield YardstickRow(
            case, size(case[2]), microseconds(best.time_us), percent(left) if left > TIE else "", cells
        )

"""The tables of the report: gaps of a topology, and the summary of a run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tutti.experiments.report.results import TIE, Results, Row, best_time, is_best, is_optimal
from tutti.experiments.report.series import Series
from tutti.experiments.report.standings import standings
from tutti.experiments.report.text import describe, microseconds, number, percent, seconds, size, times

SHORT = {"unsupported": "n/a", "infeasible": "none", "timeout": "timeout", "failed": "failed"}
"""What a cell says instead of a gap; its note says why."""


@dataclass(frozen=True)
class Cell:
    """A gap, or a number or word instead.

    Parameters
    ----------
    text
        What it says.
    looks
        Style classes: ``best``, ``optimal``, ``none``, ``wrong``, shades.
    tip
        Its tooltip.
    note
        The number of its footnote.
    name
        Whose it is, where the line does not say.
    """

    text: str = ""
    looks: str = ""
    tip: str = ""
    note: int | None = None
    name: str = ""

    def bold(self, form: str, escaped: Callable[[str], str] = str) -> str:
        """Return the text, escaped; if it is the best, in a form such as ``"**%s**"``."""
        return (form if "best" in self.looks.split() else "%s") % escaped(self.text)


@dataclass(frozen=True)
class GapRow:
    """One size of one collective: a cell a series."""

    size: str
    bound: str
    bound_kind: str
    cells: list[Cell]


@dataclass
class GapTable:
    """The gaps on one topology.

    Parameters
    ----------
    series
        The columns.
    groups
        For each collective its name and rows.
    notes
        Footnotes, numbered from 1.
    """

    series: list[Series]
    groups: list[tuple[str, list[GapRow]]] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """How many rows it has."""
        return sum(len(rows) for _, rows in self.groups)


def _bandwidth(_: Results, row: Row) -> str:
    return " / ".join("–" if rate is None else number(rate) for rate in (row.algbw_gbps, row.busbw_gbps))


CELLS: dict[str, Callable[[Results, Row], str]] = {
    "gaps": lambda _, row: percent(row.gap) if row.gap is not None else microseconds(row.time_us),
    "bandwidth": _bandwidth,
    "speedup": lambda results, row: times(results.speedup(row)),
}
"""What a cell may say of a row that has a time."""


def gap_table(
    results: Results, topology: str, text: Callable[[Results, Row], str] = CELLS["gaps"]
) -> GapTable:
    """Return the gaps, or what else `text` says, of every series that ran on a topology."""
    present = {results.number[row.method, row.options] for row in results.rows if row.topology == topology}
    table = GapTable([series for series in results.series if series.number in present])
    for collective in results.collectives:
        cases = results.of(topology, collective)
        rows = [_gap_row(table, bytes_, cells, partial(text, results)) for bytes_, cells in cases.items()]
        if rows:
            table.groups.append((collective, rows))
    return table


def _gap_row(table: GapTable, bytes_: float, rows: Mapping[int, Row], text: Callable[[Row], str]) -> GapRow:
    best = best_time(rows.values())
    bound = next((row for row in rows.values() if row.bound_us is not None), None)
    cells = [_cell(table, series.label, rows.get(series.number), best, text) for series in table.series]
    least, kind = (microseconds(bound.bound_us), bound.bound_kind) if bound else ("", "")
    return GapRow(size(bytes_), least, kind, cells)


def _cell(
    table: GapTable, label: str, row: Row | None, best: float | None, text: Callable[[Row], str]
) -> Cell:
    if row is None:
        return Cell()
    tip = describe(label, row)
    if not row.ok:
        reason = f"{row.status}: {row.message}" if row.message else row.status
        return Cell(SHORT.get(row.status, row.status), "none", tip, _note(table, reason))
    holds = {"best": is_best(row, best), "optimal": is_optimal(row), "wrong": is_wrong(row)}
    looks = [name for name, there in holds.items() if there]
    note = _note(table, "not verified: don't rely on this number") if row.verified is False else None
    return Cell(text(row), " ".join(looks), tip, note)


def is_wrong(row: Row) -> bool:
    """Whether a row claims the impossible: to be faster than its lower bound."""
    return row.ok and row.gap is not None and row.gap < 0 and not is_optimal(row)


def _note(table: GapTable, reason: str) -> int:
    return table.notes.setdefault(reason, len(table.notes) + 1)


@dataclass(frozen=True)
class Overview:
    """One topology in the summary.

    Parameters
    ----------
    topology, cases
        Its name, and how many cases it has.
    lines
        Statistics of the gaps: name and a cell a series.
    wins
        For each series in how many cases it is best.
    """

    topology: str
    cases: int
    lines: list[tuple[str, list[Cell]]]
    wins: list[Cell]


def overview(results: Results, topology: str) -> Overview:
    """Return a topology's part of the summary."""
    cases = {case: cells for case, cells in results.cases.items() if case[0] == topology}
    found = standings(results, cases)
    lines = {
        "median": [one.median for one in found],
        "at the largest size": [max(one.ends[1].values(), default=None) for one in found],
        "worst": [one.worst[1] if one.worst else None for one in found],
    }
    tried = [one.tried > 0 for one in found]
    wins = [Cell(str(len(one.won)) if one.gaps else "–" if one.tried else "") for one in found]
    named = [(name, _least_in_bold(values, tried)) for name, values in lines.items()]
    return Overview(topology, len(cases), named, wins)


def _least_in_bold(values: Sequence[float | None], tried: Sequence[bool]) -> list[Cell]:
    """Return gaps as cells; a dash where a series has none."""
    least = min((value for value in values if value is not None), default=math.inf)
    return [
        Cell("–" if ran else "", "none" if ran else "")
        if value is None
        else Cell(percent(value), "best" if value <= least + TIE else "")
        for value, ran in zip(values, tried, strict=True)
    ]


def states(results: Results) -> dict[str, int]:
    """Return how many rows have each status, most first."""
    return dict(Counter(row.status for row in results.rows).most_common())


@dataclass(frozen=True)
class Solved:
    """What a series solved for one topology and collective; of several sizes or seeds the longest solve."""

    series: Series
    row: Row

    @property
    def cells(self) -> list[str]:
        """Variables, constraints, seconds to build and to solve, and the gap that the solver left, in %."""
        row = self.row
        counts = ["" if count is None else f"{count:,.0f}" for count in (row.variables, row.constraints)]
        build_s = row.build_s if row.variables else None  # of no model: making the schedule
        left = "" if row.solver_gap is None else percent(row.solver_gap)
        return [*counts, seconds(build_s), seconds(row.solve_s), left]


def solved_programs(results: Results) -> list[Solved]:
    """Return the programs that solvers were given, in the order of the run."""
    longest: dict[tuple[str, str, int], Row] = {}
    for row in results.rows:
        key = row.topology, row.collective, results.number[row.method, row.options]
        if not row.program and not row.variables:
            continue
        if key not in longest or (row.solve_s or 0) > (longest[key].solve_s or 0):
            longest[key] = row
    return [Solved(results.series[number], row) for (_, _, number), row in longest.items()]

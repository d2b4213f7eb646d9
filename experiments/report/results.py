"""A finished run as its directory holds it: rows, series and manifest."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from tutti.experiments.old_names import current_label
from tutti.experiments.report.series import Series, make_series, short_names
from tutti.experiments.runner.results import CSV, PARQUET, current_row, read_csv, read_frame, schedule_path
from tutti.topologies.errors import InputError, TuttiError, suggestion
from tutti.topologies.files import read_text
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology

OK = "ok"
TIE = 1e-9
"""Relative: simulated times that differ by less are the same time."""


@dataclass(frozen=True)
class Row:
    """One row of the results; None where the run's column is empty or missing.

    Parameters
    ----------
    gap
        Time over bound, minus one.
    algbw_gbps
        M / time in 1e9 bytes/s.
    tb_factor
        T_B in units of M/B; `tb_text` has it exactly (``"15/16"``) where the file does.
    predicted_tl, predicted_tb, prediction
        T_L, and T_B as exact text, that theorems predict of an expansion; whether T_B is ``equal`` to that
        or ``at most`` that.
    schedule
        The content hash that names its file, or None.
    slices
        In how many its time was simulated, of a flow schedule.
    rank_egress, rank_ingress, link_traffic
        In units of M: what the busiest rank sends and receives, and what all links carry.
        ``..._unicast``: the same where no switch multicasts or aggregates.

    The other fields are the columns of those names.
    """

    topology: str
    collective: str
    size_bytes: float
    method: str
    kind: str = ""
    options: str = ""
    seed: str = ""
    status: str = OK
    exact_for: str = ""
    message: str = ""
    note: str = ""
    algorithm: str = ""
    program: str = ""
    solver: str = ""
    nodes: float | None = None
    switches: float | None = None
    links: float | None = None
    synth_s: float | None = None
    peak_rss_mb: float | None = None
    build_s: float | None = None
    solve_s: float | None = None
    variables: float | None = None
    constraints: float | None = None
    solver_gap: float | None = None
    time_us: float | None = None
    algbw_gbps: float | None = None
    busbw_gbps: float | None = None
    global_bytes: float | None = None
    clock: str = ""
    tl_steps: float | None = None
    tb_factor: float | None = None
    tb_text: str = ""
    predicted_tl: float | None = None
    predicted_tb: str = ""
    prediction: str = ""
    bound_us: float | None = None
    bound_kind: str = ""
    bound_s: float | None = None
    gap: float | None = None
    seeds: float | None = None
    course: str = ""
    sequential_us: float | None = None
    alone_us: str = ""
    verified: bool | None = None
    schedule: str | None = None
    slices: float | None = None
    rank_egress: float | None = None
    rank_egress_unicast: float | None = None
    rank_ingress: float | None = None
    rank_ingress_unicast: float | None = None
    link_traffic: float | None = None
    link_traffic_unicast: float | None = None

    @property
    def told_kind(self) -> str:
        """Its kind, with the sense in which an exact method is optimal."""
        return f"{self.kind} for {self.exact_for}" if self.exact_for else self.kind

    @property
    def tries(self) -> list[tuple[float, float]]:
        """Of each seed, in order, the seconds of its synthesis and its time in microseconds."""
        words = (entry.split() for entry in self.course.split("; ") if entry)
        return [(float(spent), float(time)) for spent, time in words]

    @property
    def ok(self) -> bool:
        """Whether it has a time."""
        return self.status == OK and self.time_us is not None

    @property
    def case(self) -> Case:
        """What was to be done, whoever did it."""
        return (self.topology, self.collective, self.size_bytes)


Case = tuple[str, str, float]


@dataclass(frozen=True)
class Results:
    """A finished run.

    Parameters
    ----------
    directory
        Where it lies.
    rows
        In the order of the file.
    manifest
        The content of ``manifest.json``; empty where there is none.
    others
        Where further runs lie that are joined to it.
    baseline
        The method that others are compared with, if there is one.
    """

    directory: Path
    rows: tuple[Row, ...]
    manifest: Mapping[str, Any]
    others: tuple[Path, ...] = ()
    baseline: str | None = None

    @property
    def name(self) -> str:
        """What the run calls itself, or else its directory."""
        return str(self.manifest.get("name") or self.directory.resolve().name)

    def kept(self, row: Row) -> Path | None:
        """Return the file of a row's schedule, None where it was not kept."""
        folders = (directory / "schedules" for directory in (self.directory, *self.others))
        paths = (schedule_path(folder, row.schedule) for folder in folders if row.schedule is not None)
        return next((path for path in paths if path is not None), None)

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """The methods, each with each set of options that it ran with, in order of appearance."""
        kinds = {(row.method, row.options): row.told_kind for row in self.rows}
        return make_series(kinds)

    @cached_property
    def number(self) -> Mapping[tuple[str, str], int]:
        """The number of the series of a (method, options)."""
        return {(series.method, series.options): series.number for series in self.series}

    @cached_property
    def topologies(self) -> list[str]:
        """Names, in order of appearance."""
        return list(dict.fromkeys(row.topology for row in self.rows))

    @cached_property
    def networks(self) -> Mapping[str, Topology | None]:
        """Each topology by its text; None where that is none any more, such as a file that has gone."""
        return {name: _network(name) for name in self.topologies}

    @cached_property
    def short(self) -> Mapping[str, str]:
        """For each topology a short name, for tables."""
        return short_names(self.topologies)

    @cached_property
    def collectives(self) -> list[str]:
        """Names, in order of appearance."""
        return list(dict.fromkeys(row.collective for row in self.rows))

    @cached_property
    def states(self) -> Mapping[str, int]:
        """How many rows have each status, most first."""
        return dict(Counter(row.status for row in self.rows).most_common())

    @cached_property
    def cases(self) -> Mapping[Case, Mapping[int, Row]]:
        """For each case, in order, the row of each series: its best seed, or one that says why not."""
        table: dict[Case, dict[int, Row]] = {}
        for row in self.rows:
            cells = table.setdefault(row.case, {})
            number = self.number[row.method, row.options]
            if number not in cells or _time(row) < _time(cells[number]):
                cells[number] = row
        return table

    @cached_property
    def tries(self) -> Mapping[tuple[Case, int], list[tuple[float, float]]]:
        """Seconds and microseconds of each seed, of each case and series that has several."""
        found: dict[tuple[Case, int], list[tuple[float, float]]] = {}
        for row in self.rows:
            if row.ok and row.time_us is not None:
                tries = row.tries or [(row.synth_s or 0.0, row.time_us)]
                found.setdefault((row.case, self.number[row.method, row.options]), []).extend(tries)
        return {key: tries for key, tries in found.items() if len(tries) > 1}

    @cached_property
    def bounds(self) -> Mapping[Case, Row]:
        """The row with the largest bound of each case, whoever proved it: it holds for all of the case."""
        found: dict[Case, Row] = {}
        for row in self.rows:
            known = found.get(row.case)
            if row.ok and row.bound_us and (known is None or row.bound_us > (known.bound_us or 0.0)):
                found[row.case] = row
        return found

    @cached_property
    def bound_s(self) -> Mapping[Case, float]:
        """The seconds that the bound of each case took, where they are known."""
        found: dict[Case, float] = {}
        for row in self.rows:
            if row.bound_s is not None:
                found[row.case] = max(row.bound_s, found.get(row.case, 0.0))
        return found

    @cached_property
    def best(self) -> Mapping[Case, float]:
        """The best known time of each case in microseconds: the upper bound that the run found."""
        found = {case: best_time(cells.values()) for case, cells in self.cases.items()}
        return {case: time for case, time in found.items() if time}

    def gap(self, row: Row) -> float | None:
        """Return a row's gap, (UB - LB)/LB, to the largest bound of its case."""
        bound = self.bounds[row.case].bound_us if row.case in self.bounds else None
        if not row.ok or row.gap is None or not row.time_us or row.bound_us == bound or not bound:
            return row.gap if row.ok else None
        return row.time_us / bound - 1

    @cached_property
    def base(self) -> frozenset[int]:
        """The series of the baseline: all of a method, or the one of that label or with those options."""
        return frozenset(
            one.number
            for one in self.series
            if self.baseline in (one.method, one.label, f"{one.method} {one.options}".strip())
        )

    def speedup(self, row: Row) -> float | None:
        """Return the baseline's least time of the same case over that of a row."""
        cells = self.cases[row.case]
        least = best_time(cells[number] for number in self.base & cells.keys())
        return least / row.time_us if least and row.time_us else None

    def of(self, topology: str, collective: str) -> dict[float, Mapping[int, Row]]:
        """Return the cases of one panel: size to rows by series, sizes increasing."""
        chosen = {case[2]: cells for case, cells in self.cases.items() if case[:2] == (topology, collective)}
        return dict(sorted(chosen.items()))


def _network(text: str) -> Topology | None:
    try:
        return parse_topology(text)
    except (TuttiError, OSError):
        return None


def best_time(rows: Iterable[Row]) -> float | None:
    """Return the shortest time in microseconds, None where no row has one."""
    return min((row.time_us for row in rows if row.ok and row.time_us is not None), default=None)


def is_best(row: Row, best: float | None) -> bool:
    """Whether a row has the best time, ties included."""
    return row.ok and row.time_us is not None and best is not None and row.time_us <= best * (1 + TIE)


def winners(cells: Mapping[int, Row]) -> list[int]:
    """Return the series with the best time of a case, ties included."""
    best = best_time(cells.values())
    return [key for key, row in cells.items() if is_best(row, best)]


def is_optimal(row: Row) -> bool:
    """Whether a row's time is proven to be the least possible: it equals its lower bound."""
    return row.ok and row.gap is not None and abs(row.gap) <= TIE


def is_tb_optimal(row: Row, least: Fraction | None) -> bool:
    """Whether a row's T_B is proven to be the least possible, by exact comparison."""
    return row.ok and row.tb_factor is not None and least is not None and Fraction(row.tb_text) == least


def read_results(directory: Path, *others: Path, baseline: str | None = None) -> Results:
    """Return the run in `directory`, joined with those in others: their rows as if one run had made them.

    Parameters
    ----------
    directory, others
        Where they lie; one that is named twice counts once.
    baseline
        The method that others are compared with; None: the first that a run's config names.

    Raises
    ------
    InputError
        If one holds no readable results, or no row is of the baseline.
    """
    places = {each.resolve(): each for each in (directory, *others)}
    runs = [_run(each) for each in places.values()]
    named = baseline or next((run.baseline for run in runs if run.baseline), None)
    named = named and current_label(named)
    results = replace(_joined(runs), baseline=named)
    if baseline is not None and not results.base:
        labels = [name for one in results.series for name in (one.method, one.label)]
        raise InputError(f"{directory}: no rows of method '{baseline}'{suggestion(baseline, labels)}")
    return results


def _run(directory: Path) -> Results:
    manifest = _manifest(directory / "manifest.json")
    settings = manifest.get("settings")
    baseline = settings.get("baseline") if isinstance(settings, Mapping) else None
    rows = tuple(_rows(_frame(directory)))
    return Results(directory, rows, manifest, baseline=None if baseline is None else str(baseline))


def _joined(runs: Sequence[Results]) -> Results:
    first, *others = runs
    if not others:
        return first
    name = " and ".join(dict.fromkeys(run.name for run in runs))
    manifest = {"name": name} | {str(run.directory): run.manifest for run in runs}
    rows = tuple(row for run in runs for row in run.rows)
    return Results(first.directory, rows, manifest, tuple(run.directory for run in others))


def _time(row: Row) -> float:
    return row.time_us if row.ok and row.time_us is not None else math.inf


def _frame(directory: Path) -> pd.DataFrame:
    csv = directory / CSV
    try:
        if (directory / PARQUET).exists():
            return read_frame(directory)
        if csv.exists():
            return read_csv(csv)
    except pd.errors.EmptyDataError:
        return pd.DataFrame()
    except (InputError, ValueError) as error:
        raise InputError(f"{directory}: can't read the results: {_one_line(error)}") from error
    raise InputError(f"{directory}: no {PARQUET} or {CSV}; give the directory of a finished run")


def _manifest(path: Path) -> Mapping[str, Any]:
    if not path.exists():
        return {}
    try:
        content = json.loads(read_text(path))
    except (InputError, ValueError) as error:
        return {"manifest.json": f"not readable: {_one_line(error)}"}
    return content if isinstance(content, dict) else {"manifest.json": content}


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


_NUMBERS = {field.name for field in fields(Row) if field.type == "float | None"} - {"tb_factor"}
_TEXTS = {field.name for field in fields(Row) if field.type == "str"} - {"status", "tb_text"}


def _rows(frame: pd.DataFrame) -> Iterator[Row]:
    """Yield the rows that say what they are about; further columns are left alone."""
    if not {"topology", "collective", "size_bytes", "method"} <= set(frame.columns):
        return
    for record in frame.to_dict("records"):
        values = {str(name): None if _empty(value) else value for name, value in record.items()}
        size = _number(values.get("size_bytes"))
        if size is not None:
            yield _row(current_row(values), size)


def _row(values: Mapping[str, Any], size: float) -> Row:
    texts: dict[str, Any] = {name: str(values[name]) for name in _TEXTS if values.get(name) is not None}
    if isinstance(values.get("seed"), float) and values["seed"].is_integer():
        texts["seed"] = str(int(values["seed"]))  # an integer column with gaps is read as floats
    numbers: dict[str, Any] = {name: _number(values.get(name)) for name in _NUMBERS}
    verified, schedule = values.get("verified"), values.get("schedule")
    tb = values.get("tb_factor") if values.get("tb_exact") is None else values["tb_exact"]
    return Row(
        **(texts | {name: texts.get(name, "") for name in ("topology", "collective", "method")}),
        **numbers,
        size_bytes=size,
        status=str(values.get("status") or OK),
        tb_factor=_number(tb),
        tb_text="" if tb is None else str(tb),
        verified=None if verified is None else str(verified).lower() in ("true", "1", "1.0"),
        schedule=None if schedule is None else str(schedule),
    )


def _empty(value: Any) -> bool:
    return value is None or value == "" or (not isinstance(value, (list, dict, str)) and bool(pd.isna(value)))


def _number(value: Any) -> float | None:
    """Return a finite float of a number or of exact text such as ``15/16``."""
    try:
        number = float(Fraction(value)) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None
    return number if math.isfinite(number) else None

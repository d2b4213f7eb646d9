"""A finished run as its directory holds it: rows, manifest, and series.

A *series* is a method with its options, which has one colour, marker and dash throughout. `short_names`
shortens the names of networks, because settings that all of a run share need not be repeated in each cell.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa

from tutti.experiments.old_names import current_label
from tutti.experiments.runner.results import (
    COLUMNS,
    CSV,
    PARQUET,
    current_row,
    read_csv,
    read_frame,
    schedule_path,
)
from tutti.topologies.errors import InputError, TuttiError, suggestion
from tutti.topologies.files import read_text
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology

LINKS = ("bandwidth", "alpha")
"""Settings of links in a topology's text. All else that follows its ``?`` changes the network itself
(failures, subsets of ranks) and stays."""

TEMPLATES = Path(__file__).parent / "templates"
LOOKS: Mapping[str, Any] = tomllib.loads((TEMPLATES / "looks.toml").read_text(encoding="utf-8"))
"""Colours, markers and dashes, and the theme of charts."""
LIMITS = frozenset({"time_limit", "memory"})
"""Options that do not change the algorithm. If all series of a method have one, their labels leave it out."""


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return a short name for each topology's text, all different.

    Bandwidth and α are left out, except where they tell a topology from another of the same shape.

    Examples
    --------
    >>> list(short_names(["rfs:2x4x8?bandwidth=200GB/s,100GB/s,50GB/s", "mesh:4x4?drop_nodes=7,9"]).values())
    ['rfs:2x4x8', 'mesh:4x4?drop_nodes=7,9']
    >>> texts = ["ring:8?bandwidth=25GB/s&alpha=1us", "ring:8?bandwidth=50GB/s&alpha=1us"]
    >>> list(short_names(texts).values())
    ['ring:8?bandwidth=25GB/s', 'ring:8?bandwidth=50GB/s']
    """
    shapes: dict[str, dict[str, dict[str, str]]] = {}
    for name in dict.fromkeys(names):
        head, _, tail = name.partition("?")
        parts = [part.partition("=") for part in tail.split("&")]
        rest = "&".join("".join(part) for part in parts if part[0] not in LINKS)
        links = {key: value for key, _, value in parts if key in LINKS}
        shapes.setdefault(f"{head}?{rest}" if rest else head, {})[name] = links
    short = {}
    for shape, same in shapes.items():
        telling = [key for key in LINKS if len({links.get(key) for links in same.values()}) > 1]
        for name, links in same.items():
            kept = "&".join(f"{key}={links[key]}" for key in telling if key in links)
            short[name] = shape + ("&" if "?" in shape else "?") * bool(kept) + kept
    return short if len(set(short.values())) == len(short) else {name: name for name in short}


@dataclass(frozen=True)
class Series:
    """A method with one set of options.

    Parameters
    ----------
    number
        Its place, from 0, which determines its colour, marker and dash.
    label
        The method's name with its options: first those that not all series of the method have, then those
        that all have, without `LIMITS`.
    """

    number: int
    method: str
    options: str
    kind: str
    label: str

    @property
    def colour(self) -> int:
        """The number of its colour."""
        return self.number % len(LOOKS["light"])

    @property
    def shape(self) -> int:
        """The number of its marker, shifted by one each time that the colours start again."""
        return (self.number + self.number // len(LOOKS["light"])) % len(LOOKS["markers"])

    @property
    def pattern(self) -> int:
        """The number of its dashes."""
        return self.number // len(LOOKS["light"]) % len(LOOKS["dashes"])

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns that say in a chart's rows which series they are of."""
        return {"method": self.label, "series": self.number, "dash": self.pattern}


def drawn_as(looks: Any, keys: Iterable[Any]) -> dict[str, list[str | int]]:
    """Return the columns that say which series rows are of: `looks` has the series by the keys of rows.

    Examples
    --------
    >>> drawn_as({"a": Series(0, "bfb", "", "exact", "bfb")}, ["a", "a"])
    {'method': ['bfb', 'bfb'], 'series': [0, 0], 'dash': [0, 0]}
    """
    found = [looks[key].columns for key in keys]
    return {name: [columns[name] for columns in found] for name in ("method", "series", "dash")}


def make_series(kinds: Mapping[tuple[str, str], str]) -> tuple[Series, ...]:
    """Return a series for every (method, options), mapped to the method's kind, in order.

    Examples
    --------
    >>> made = make_series({("tacos", "chunks=1"): "heuristic", ("tacos", "chunks=4"): "heuristic"})
    >>> [series.label for series in made]
    ['tacos chunks=1', 'tacos chunks=4']
    """
    series = []
    for number, ((method, options), kind) in enumerate(kinds.items()):
        common = set.intersection(*(set(text.split()) for name, text in kinds if name == method))
        telling = [word for word in options.split() if word not in common]
        shared = [w for w in options.split() if w in common and w.partition("=")[0] not in LIMITS]
        series.append(Series(number, method, options, kind, " ".join([method, *telling, *shared])))
    return tuple(series)


OK = "ok"
TIE = 1e-9
"""Largest relative difference of simulated times that count as the same time."""
CASE = ["topology", "collective", "size_bytes"]
Case = tuple[str, str, float]
Row = Any
"""A row of a frame as a named tuple. Missing numbers are NaN, missing texts are empty."""

ABSENT = SimpleNamespace(ok=False, won=False, status="", time_us=math.nan)
"""Stands for the row of a method that was not asked for a case."""


def frame_of(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return rows as a frame of these columns: missing numbers are NaN, missing texts are empty."""
    frame = pd.DataFrame(list(rows), columns=list(columns), dtype=object)
    for name, kind in columns.items():
        if kind == pa.string():
            frame[name] = frame[name].fillna("").astype(str)
        elif kind != pa.bool_():
            numbers = pd.to_numeric(frame[name], errors="coerce").astype(float)
            frame[name] = numbers.where(numbers.abs() < math.inf)
    return frame


@dataclass(frozen=True, eq=False)
class Results:
    """A finished run.

    Parameters
    ----------
    directory
        The folder of the run.
    rows
        All rows in the order of the file, with the columns of `runner.results.COLUMNS`. `number` is the
        number of the row's series and `case` that of its case. A row has a `time_us` only if it is `ok`.
    manifest
        The content of ``manifest.json``; empty where there is none.
    others
        The folders of further runs that are joined to it.
    baseline
        The method that others are compared with, if there is one.
    """

    directory: Path
    rows: pd.DataFrame
    manifest: Mapping[str, Any] = field(default_factory=dict)
    others: tuple[Path, ...] = ()
    baseline: str | None = None

    @classmethod
    def of(cls, directory: Path, rows: Iterable[Mapping[str, Any]], *more: Any, **further: Any) -> Results:
        """Return the run with these rows, of any version and with any types; other columns are left out."""
        frame = frame_of(map(current_row, rows), COLUMNS)
        frame = frame.dropna(subset="size_bytes").reset_index(drop=True)
        frame["status"] = frame.status.where(frame.status != "", OK)
        frame["time_us"] = frame.time_us.where(frame.status == OK)
        frame["ok"] = frame.time_us.notna()
        factors = frame.tb_factor.map(str).where(frame.tb_factor.notna(), "")
        frame["tb_exact"] = frame.tb_exact.where(frame.tb_exact != "", factors)
        frame["number"] = frame.groupby(["method", "options"], sort=False).ngroup()
        frame["case"] = frame.groupby(CASE, sort=False).ngroup()
        return cls(directory, frame, *more, **further)

    @property
    def name(self) -> str:
        """The name in the manifest, or else that of the directory."""
        return _name(self.directory, self.manifest)

    def kept(self, row: Row) -> Path | None:
        """Return the file of a row's schedule, None where it was not kept."""
        folders = (directory / "schedules" for directory in (self.directory, *self.others))
        paths = (schedule_path(folder, row.schedule) for folder in folders if row.schedule)
        return next((path for path in paths if path is not None), None)

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """The methods, each with each set of options that it ran with, in order of appearance."""
        rows = self.rows
        kinds = rows.kind + (" for " + rows.exact_for).where(rows.exact_for != "", "")
        return make_series(dict(zip(zip(rows.method, rows.options, strict=True), kinds, strict=True)))

    @cached_property
    def topologies(self) -> list[str]:
        """Names, in order of appearance."""
        return list(self.rows.topology.unique())

    @cached_property
    def networks(self) -> Mapping[str, Topology | None]:
        """Each topology by its text; None where the text names none, such as a file that was removed."""
        return {name: _network(name) for name in self.topologies}

    @cached_property
    def short(self) -> Mapping[str, str]:
        """For each topology a short name, for tables."""
        return short_names(self.topologies)

    @cached_property
    def collectives(self) -> list[str]:
        """Names, in order of appearance."""
        return list(self.rows.collective.unique())

    @cached_property
    def states(self) -> Mapping[str, int]:
        """The number of rows of each status, most first."""
        return dict(Counter(self.rows.status).most_common())

    @cached_property
    def base(self) -> frozenset[int]:
        """The series of the baseline: all of a method, or the one of that label or with those options."""
        names = {one: (one.method, one.label, f"{one.method} {one.options}".strip()) for one in self.series}
        return frozenset(one.number for one, own in names.items() if self.baseline in own)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row for each case and series, case by case: its best seed, or one that says why it has no time.

        Further columns are `lower_us`, `lower_kind` and `lower_s`, the largest bound of the case by any
        method, and the seconds that bounds took. `best_us` is the least time of the case; it is `won` by
        those that have it (ties count for all). `open` is the gap to the largest bound. The time may be
        proven `optimal`. `speedup` is the least time of the baseline over its own.
        """
        rows = self.rows
        slow = rows.time_us.fillna(math.inf)
        frame = rows.loc[slow.groupby([rows.case, rows.number], sort=False).idxmin()]
        frame = frame.sort_values("case", kind="stable", ignore_index=True)
        bounds = rows[rows.ok & (rows.bound_us > 0)].groupby("case").bound_us
        proven = rows.loc[bounds.idxmax()].set_index("case")
        frame["lower_us"] = frame.case.map(proven.bound_us)
        frame["lower_kind"] = frame.case.map(proven.bound_kind).astype(object).fillna("")
        frame["lower_s"] = frame.case.map(rows.groupby("case").bound_s.max())
        frame["best_us"] = frame.groupby("case").time_us.transform("min")
        frame["won"] = frame.time_us <= frame.best_us * (1 + TIE)
        frame["gap"] = frame.gap.where(frame.ok)
        own = frame.gap.isna() | (frame.bound_us == frame.lower_us) | frame.lower_us.isna()
        frame["open"] = frame.gap.where(own, frame.time_us / frame.lower_us - 1)
        frame["optimal"] = frame.gap.abs() <= TIE
        compared = frame.time_us.where(frame.number.isin(self.base))
        frame["speedup"] = compared.groupby(frame.case).transform("min") / frame.time_us
        return frame

    @cached_property
    def cases(self) -> Mapping[Case, Mapping[int, Row]]:
        """For each case, in order, the row of each series."""
        table: dict[Case, dict[int, Row]] = {}
        for row in self.frame.itertuples():
            table.setdefault((row.topology, row.collective, row.size_bytes), {})[row.number] = row
        return table

    @cached_property
    def tries(self) -> pd.DataFrame:
        """A row for each seed of each case and series that has several.

        Beside the columns of a case, `case` and `number` they have the `seed`, counted from 0, its `seconds`
        and its `time_us`.
        """
        rows = self.rows[self.rows.ok]
        single = zip(rows.course, rows.synth_s, rows.time_us, strict=True)
        courses = [[one.split() for one in text.split("; ") if one] or [own] for text, *own in single]
        entries = pd.Series(courses, rows.index, dtype=object)
        found = rows[[*CASE, "case", "number"]].assign(course=entries).explode("course", ignore_index=True)
        found["seconds"] = found.course.str[0].astype(float).fillna(0.0)
        found["time_us"] = found.course.str[1].astype(float)
        groups = found.groupby(["case", "number"])
        found["seed"] = groups.cumcount()
        return found[groups.seed.transform("size") > 1]

    def timed(self, topology: str, collective: str) -> pd.DataFrame:
        """Return the rows of `frame` of one panel that have a time, sizes increasing."""
        frame = self.frame
        own = frame[frame.ok & (frame.topology == topology) & (frame.collective == collective)]
        return own.sort_values("size_bytes", kind="stable")

    def panel(self, topology: str, collective: str) -> dict[float, Mapping[int, Row]]:
        """Return the cases of one panel: size to rows by series, sizes increasing."""
        chosen = {case[2]: cells for case, cells in self.cases.items() if case[:2] == (topology, collective)}
        return dict(sorted(chosen.items()))


def _network(text: str) -> Topology | None:
    try:
        return parse_topology(text)
    except (TuttiError, OSError):
        return None


def is_tb_optimal(row: Row, least: Fraction | None) -> bool:
    """Whether a row's T_B is proven to be the least possible, by exact comparison."""
    return bool(row.ok and row.tb_exact) and Fraction(row.tb_exact) == least


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
    first, *more = places = list({each.resolve(): each for each in (directory, *others)}.values())
    rows = [row for place in places for row in _rows(place)]
    runs = {place: _manifest(place / "manifest.json") for place in places}
    settings = [run["settings"] for run in runs.values() if isinstance(run.get("settings"), Mapping)]
    named = baseline or next(filter(None, (of.get("baseline") for of in settings)), None)
    manifest = runs[first]
    if more:
        name = " and ".join(dict.fromkeys(_name(place, run) for place, run in runs.items()))
        manifest = {"name": name} | {str(place): run for place, run in runs.items()}
    results = Results.of(first, rows, manifest, tuple(more), named and current_label(str(named)))
    if baseline is not None and not results.base:
        labels = [name for one in results.series for name in (one.method, one.label)]
        raise InputError(f"{directory}: no rows of method '{baseline}'{suggestion(baseline, labels)}")
    return results


def _name(directory: Path, manifest: Mapping[str, Any]) -> str:
    return str(manifest.get("name") or directory.resolve().name)


def _rows(directory: Path) -> list[dict[str, Any]]:
    """Return the rows of a run that say what they are about, None where a cell is empty."""
    kind = next((name for name in (PARQUET, CSV) if (directory / name).exists()), None)
    if kind is None:
        raise InputError(f"{directory}: no {PARQUET} or {CSV}; give the directory of a finished run")
    try:
        frame = (read_frame(directory) if kind == PARQUET else read_csv(directory / CSV)).astype(object)
    except pd.errors.EmptyDataError:
        return []
    except (InputError, ValueError) as error:
        raise InputError(f"{directory}: can't read the results: {_one_line(error)}") from error
    return frame.where(frame.notna(), None).to_dict("records") if {*CASE, "method"} <= set(frame) else []


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

"""What differs between two folders of results: how they were made, their rows, and what synthesis took.

Only `results.csv` and `manifest.json` are read. Columns that earlier versions did not write are empty.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.runner.manifest import read_manifest
from experiments.runner.results import CSV, read_csv
from topologies.errors import InputError

KEY = ("topology", "collective", "model", "size_bytes", "method", "options", "seed")
"""What a row is of; the seed only where no other was tried."""
NEEDED = {"topology", "method", "status"}
MODEL = "model"
"""A column that studies of solvers have, and no others."""
SOLVED = ("timed_s", "solve_s")
"""The seconds of a solve; the first versions had not the former."""
OK = "ok"
TIE = 1e-9
"""Relative: numbers that differ by less are the same."""
QUARTILES = (0.25, 0.5, 0.75)
MADE_WITH = ("name", "versions", "plugins", "machine", "settings")
Key = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A row: its status, time and bound in microseconds, gap, and the seconds of its synthesis.

    Of a study of solvers: no time, bound and gap, and the seconds of the solver.
    """

    status: str
    time: float | None
    bound: float | None
    gap: float | None
    seconds: float | None


@dataclass(frozen=True)
class Folder:
    """Results as a folder holds them; `solvers`: whether of a study of solvers."""

    path: Path
    solvers: bool
    rows: Mapping[Key, Row]
    manifest: Mapping[str, Any]

    @property
    def made_with(self) -> dict[str, str]:
        """How they were made, name by name."""
        config = self.manifest.get("config")
        found = {"config": str(config.get("sha256"))} if isinstance(config, Mapping) else {}
        for part in MADE_WITH:
            found |= dict(_flat(part, self.manifest.get(part)))
        return found


@dataclass(frozen=True)
class Change:
    """A row of two folders; None where it is in one of them only."""

    key: Key
    was: Row | None
    now: Row | None

    @property
    def status(self) -> str:
        """What became of its status; empty if it has the same."""
        was, now = (None if row is None else row.status for row in (self.was, self.now))
        if was is None:
            return f"gained ({now})"
        if now is None:
            return f"lost ({was})"
        return "" if was == now else f"{was} to {now}"

    @property
    def broken(self) -> bool:
        """Whether it was ok and is no longer."""
        return self.was is not None and self.was.status == OK and (self.now is None or self.now.status != OK)

    @cached_property
    def rises(self) -> dict[str, float]:
        """By which share each has risen; of a gap: time over bound."""
        if self.was is None or self.now is None:
            return {}
        pairs = {
            "time": (self.was.time, self.now.time),
            "gap": (_plus(self.was.gap), _plus(self.now.gap)),
            "bound": (self.was.bound, self.now.bound),
        }
        return {name: rise for name, pair in pairs.items() if (rise := _rise(*pair))}

    def fails(self, most: float) -> bool:
        """Whether it is no longer ok, or its time, or its time over its bound, rose by more than `most`."""
        return self.broken or max(self.rises.get("time", 0.0), self.rises.get("gap", 0.0)) > most * (1 + TIE)

    @property
    def size(self) -> float:
        """By which changes are put in order: another status first, rows of one folder last."""
        if self.was is None:
            return -2.0
        if self.now is None:
            return -1.0
        return math.inf if self.status else max((abs(math.log1p(x)) for x in self.rises.values()), default=0)


@dataclass(frozen=True)
class Effort:
    """What a method's (or a solver's) rows took in each folder, where both have them ok.

    Parameters
    ----------
    method
        Its name.
    was, now
        Seconds of each row.
    """

    method: str
    was: list[float] = field(default_factory=list)
    now: list[float] = field(default_factory=list)

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Of the ratios, now over was."""
        low, middle, high = np.quantile(np.array(self.now) / np.array(self.was), QUARTILES)
        return float(low), float(middle), float(high)


@dataclass(frozen=True)
class Difference:
    """Two folders, the second against the first."""

    was: Folder
    now: Folder

    @property
    def made_with(self) -> list[tuple[str, str | None, str | None]]:
        """What was another when they were made: its name, what it was and what it is."""
        was, now = self.was.made_with, self.now.made_with
        names = dict.fromkeys([*was, *now])
        return [(name, was.get(name), now.get(name)) for name in names if was.get(name) != now.get(name)]

    @cached_property
    def changes(self) -> list[Change]:
        """The rows that are not the same in both, the largest changes first."""
        keys = dict.fromkeys([*self.was.rows, *self.now.rows])
        every = (Change(key, self.was.rows.get(key), self.now.rows.get(key)) for key in keys)
        return sorted((one for one in every if one.status or one.rises), key=lambda one: -one.size)

    @property
    def common(self) -> int:
        """How many rows are in both."""
        return len(self.was.rows.keys() & self.now.rows.keys())

    @property
    def efforts(self) -> list[Effort]:
        """What the methods took, the largest changes first."""
        found: dict[str, Effort] = {}
        seen = set()
        for key in self.was.rows.keys() & self.now.rows.keys():
            was, now = self.was.rows[key], self.now.rows[key]
            named = dict(zip(KEY, key, strict=False))
            # the rows of one synthesis, at several sizes, say the same
            synthesis = (*(text for name, text in named.items() if name != "size_bytes"), was.seconds)
            if was.status == now.status == OK and was.seconds and now.seconds and synthesis not in seen:
                seen.add(synthesis)
                effort = found.setdefault(named["method"], Effort(named["method"]))
                effort.was.append(was.seconds)
                effort.now.append(now.seconds)
        return sorted(found.values(), key=lambda one: (-abs(math.log(one.quartiles[1])), one.method))


def difference(was: Path, now: Path) -> Difference:
    """Return what differs between two folders of results.

    Raises
    ------
    InputError
        If one holds no results, or they are of two kinds.
    """
    folders = read_folder(was), read_folder(now)
    if folders[0].solvers != folders[1].solvers:
        one = next(folder.path for folder in folders if folder.solvers)
        raise InputError(f"{one} is of a study of solvers, and the other is not: they have no row in common")
    return Difference(*folders)


def read_folder(path: Path) -> Folder:
    """Return the results that a folder holds.

    Raises
    ------
    InputError
        If there are none, or they can't be read.
    """
    if not (path / CSV).is_file():
        raise InputError(f"{path}: no {CSV}; give the folder of a finished run")
    try:
        frame = read_csv(path / CSV)
    except pd.errors.EmptyDataError:
        frame = pd.DataFrame(columns=list(NEEDED))
    except ValueError as error:
        raise InputError(f"{path / CSV}: no table: {' '.join(str(error).split())[:100]}") from error
    missing = NEEDED - set(frame.columns)
    if missing:
        lacks = f"{path / CSV}: no column {', '.join(sorted(missing))}"
        raise InputError(f"{lacks}; only rows of methods and of solvers can be compared")
    solvers = MODEL in frame.columns
    return Folder(path, solvers, _rows(frame.to_dict("records"), solvers=solvers), read_manifest(path))


def _rows(records: Iterable[Mapping[Any, Any]], *, solvers: bool) -> dict[Key, Row]:
    """Return rows by what they are of; one that occurs again has a number."""
    rows: dict[Key, Row] = {}
    seen: Counter[Key] = Counter()
    for record in records:
        named = {name: _text(record.get(name)) for name in KEY}
        if (_number(record.get("seeds")) or 1) > 1:
            named["seed"] = ""
        key = tuple(named.values())
        seen[key] += 1
        rows[key if seen[key] == 1 else (*key, str(seen[key]))] = _row(record, solvers=solvers)
    return rows


def _row(record: Mapping[Any, Any], *, solvers: bool) -> Row:
    status = _text(record.get("status")) or OK
    if solvers:
        answer = _text(record.get("answer"))
        status = answer if status == OK and answer == "wrong" else status
        solved = (_number(record.get(name)) for name in SOLVED)
        return Row(status, None, None, None, next(filter(None, solved), None))
    time, bound, gap, seconds = (
        _number(record.get(name)) for name in ("time_us", "bound_us", "gap", "synth_s")
    )
    return Row(status, time, bound, gap, seconds)


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for inner, one in value.items():
            yield from _flat(inner if name in MADE_WITH else f"{name}.{inner}", one)
    elif value not in (None, []):
        yield name, str(value)


def _plus(gap: float | None) -> float | None:
    return None if gap is None else 1 + gap


def _rise(was: float | None, now: float | None) -> float:
    """Return by which share a number rose; 0 if it is the same, or one of them is none or nought."""
    if not was or not now or was < 0 or now < 0 or math.isclose(was, now, rel_tol=TIE):
        return 0.0
    return now / was - 1


def _text(value: Any) -> str:
    if value is None or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _number(value: Any) -> float | None:
    """Return a finite number, None of anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None

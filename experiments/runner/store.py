"""The directory of a run: each finished task at once, the tables and the manifest at the end."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, TextIO

import psutil

from experiments import plugins
from experiments.runner.judge import GAPS, INSTANCE, ProvenBound, gap_table
from experiments.runner.kept_schedules import drop_damaged, drop_schedules
from experiments.runner.results import replacing, write_csv, write_results
from experiments.runner.tasks import Outcome, Row, Task
from topologies.errors import InputError
from topologies.files import read_text

MANIFEST = "manifest.json"
FORMAT = "tutti.run/1"
DISTRIBUTION = "tutti"
NOT_RUN = "not run"
"""Stands for the status of rows that a run leaves for another, such as with ``--only``."""
CODE = ("topologies", "schedules", "models", "heuristics", "expansions", "experiments/methods")
"""The folders that results depend on; the runner and the report only arrange them."""
TASKS, SCHEDULES, LOCK = "tasks", "schedules", ".lock"
SAVED = frozenset({"status", "time_limit", "rows", "bounds", "trace"})
"""The keys of a task's file that are read again."""
CHECKSUM = "sha256"
"""The key of the hash of all that a task's file says besides."""
AGAIN = frozenset({"failed"})
"""Outcomes that are tried again when a run is continued."""


class Store:
    """A run's directory, held by one run at a time; use it in a ``with`` block.

    Raises
    ------
    InputError
        If another run holds it.
    OSError
        If it can't be made or written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / TASKS).mkdir(parents=True, exist_ok=True)
        self._lock: TextIO = (directory / LOCK).open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise InputError(f"{directory}: another run is writing there; wait for it or use --out") from None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *unused: object) -> None:
        self._lock.close()

    @property
    def schedules(self) -> Path:
        """Where schedules go."""
        return self.directory / SCHEDULES

    def save(self, task: Task, outcome: Outcome, limit: float | None) -> None:
        """Write what became of a task, all or nothing."""
        document = {
            "task": str(task),
            "status": outcome.status,
            "time_limit": limit,
            "rows": outcome.rows,
            "bounds": {key: [str(bound.seconds), bound.kind] for key, bound in outcome.bounds.items()},
            "trace": outcome.trace,
        }
        document[CHECKSUM] = _checksum(document)
        _replace(self._path(task), json.dumps(document, indent=1))

    def load(self, task: Task) -> Outcome | None:
        """Return what became of a task earlier, None if nothing did or its file is damaged."""
        document = self._document(task)
        if document is None:
            return None
        bounds = {key: ProvenBound(Fraction(s), kind) for key, (s, kind) in document["bounds"].items()}
        return Outcome(document["status"], document["rows"], bounds, document["trace"])

    def documents(self) -> Iterator[tuple[float, dict[str, Any]]]:
        """Yield the time and the content of every file of a task, of this code or of other, that is whole.

        One that earlier code wrote has no checksum: who reads it must expect anything in its values.
        """
        for path in (self.directory / TASKS).glob("*.json"):
            document = _read(path)
            if document is not None and document.get(CHECKSUM, _checksum(document)) == _checksum(document):
                yield path.stat().st_mtime, document

    def settled(self, task: Task, limit: float | None) -> bool:
        """Whether a task needs no (other) try: it is done, and not by failing or under another limit."""
        document = self._document(task)
        if document is None or document["status"] in AGAIN:
            return False
        return document["status"] != "timeout" or document["time_limit"] == limit

    def damaged(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Path]]:
        """Yield the tasks of which the file, or that of the schedule, is not as it was written.

        Such schedules are removed: no other would be written over them.
        """
        known: dict[str, Path | None] = {}
        for task in tasks:
            path, outcome = self._path(task), self.load(task)
            if outcome is None:
                if path.exists():
                    yield task, path
                continue
            for digest in {row["schedule"] for row in outcome.rows if row.get("schedule")}:
                if digest not in known:
                    known[digest] = drop_damaged(self.schedules, digest)
                broken = known[digest]
                if broken is not None:
                    yield task, broken

    def forget(self, tasks: Iterable[Task]) -> None:
        """Remove what is known of these tasks."""
        for task in tasks:
            self._path(task).unlink(missing_ok=True)

    def holds_others(self, tasks: Iterable[Task]) -> bool:
        """Whether there are files of other tasks than these."""
        own = {self._path(task) for task in tasks}
        return any(path not in own for path in (self.directory / TASKS).glob("*.json"))

    def sessions(self) -> list[Mapping[str, str]]:
        """Return when this run was begun and continued before."""
        try:
            sessions = json.loads(read_text(self.directory / MANIFEST))["sessions"]
        except (InputError, ValueError, KeyError, TypeError):
            return []
        return sessions if isinstance(sessions, list) else []

    def write_tables(self, rows: Sequence[Row]) -> None:
        """Write the results and the gap table."""
        write_results(rows, self.directory)
        write_csv(gap_table(rows), self.directory / GAPS)

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest."""
        _replace(self.directory / MANIFEST, json.dumps(manifest, indent=1) + "\n")

    def prune_schedules(self, rows: Iterable[Row], keep: str) -> None:
        """Remove the schedules that no row names, or with ``keep="best"`` that are nobody's best."""
        done = [row for row in rows if row.get("schedule")]
        if keep == "best":
            best: dict[tuple[Any, ...], Row] = {}
            for row in done:
                key = tuple(row[name] for name in INSTANCE)
                if key not in best or row["time_us"] < best[key]["time_us"]:
                    best[key] = row
            done = list(best.values())
        drop_schedules(self.schedules, set() if keep == "none" else {row["schedule"] for row in done})

    def _path(self, task: Task) -> Path:
        return self.directory / TASKS / f"{task.key}.json"

    def _document(self, task: Task) -> dict[str, Any] | None:
        document = _read(self._path(task))
        if document is None or document.get(CHECKSUM) != _checksum(document) or not _is_of(document, task):
            return None
        return document


def _read(path: Path) -> dict[str, Any] | None:
    """Return the content of a task's file; None if there is none, or not all that `Store.save` writes."""
    try:
        document = json.loads(read_text(path)) if path.exists() else None
    except (InputError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and document.keys() >= SAVED else None


def _checksum(document: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in document.items() if key != CHECKSUM}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _is_of(document: Mapping[str, Any], task: Task) -> bool:
    asked = [(row["topology"], row["method"], row["size_bytes"]) for row in document["rows"]]
    return asked == [(task.topology, task.method, size) for size in task.sizes]


def in_config_order(tasks: Sequence[Task], outcomes: Mapping[str, Outcome]) -> list[Row]:
    """Return the rows of finished tasks by network, collective, size and method, each as in the config."""
    place: dict[tuple[Any, ...], int] = {}
    for task in tasks:
        for size in task.sizes:
            place.setdefault((task.topology, str(task.collective)), len(place))
            place.setdefault((task.topology, str(task.collective), size), len(place))
    rows = [row for task in tasks if task.key in outcomes for row in outcomes[task.key].rows]
    return sorted(rows, key=lambda row: _place(row, place))


def _place(row: Row, place: Mapping[tuple[Any, ...], int]) -> tuple[int, int]:
    topology, what, size = (row[name] for name in INSTANCE)
    return place[topology, what], place[topology, what, size]


def _replace(path: Path, text: str) -> None:
    with replacing(path) as draft:
        draft.write_text(text)


@cache
def code_digest() -> str:
    """Return a hash of the source of every package that a result depends on."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for package in CODE:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def versions() -> dict[str, str]:
    """Return the version of Python, of tutti and of everything that it depends on."""
    names = {re.split(r"[^\w.-]", text, maxsplit=1)[0] for text in _requirements()}
    found = {name: version for name in sorted(names) if (version := _version(name))}
    own = _version(DISTRIBUTION) or "unknown"
    return {"python": platform.python_version(), DISTRIBUTION: own, "code": code_digest(), **found}


def _requirements() -> list[str]:
    try:
        return importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return []


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """Return what the run was made on."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    named = re.search(r"model name\s*:\s*(.*)", text)
    return named[1] if named else platform.processor()


def now() -> str:
    """Return the time in UTC, to the second, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def describe(
    config_path: str,
    config_text: str,
    *,
    seeds: Iterable[int],
    settings: Mapping[str, Any],
    statuses: Iterable[str],
    sessions: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the manifest of a run.

    Parameters
    ----------
    config_path, config_text
        The config file.
    seeds
        All that occur.
    settings
        Workers, time limit and the like, as used.
    statuses
        One a row.
    sessions
        ``{"started", "ended"}`` of each time that the run was begun or continued.
    """
    return {
        "format": FORMAT,
        "config": {
            "path": config_path,
            "sha256": hashlib.sha256(config_text.encode()).hexdigest(),
            "text": config_text,
        },
        "settings": dict(settings),
        "seeds": sorted(set(seeds)),
        "rows": dict(sorted(Counter(statuses).items())),
        "sessions": list(sessions),
        "versions": versions(),
        "plugins": plugins.manifest(),
        "machine": machine(),
    }

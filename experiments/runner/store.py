"""The directory of a run: each finished task at once, in one table; the rows and the manifest at the end.

The table is a SQLite file: what a task gave is in it, on the disk, before the next is looked at, so that a
run that is killed loses what was under way and nothing else. A hash of each entry tells what is not as it was
written.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tutti.experiments.runner.judge import (
    GAP_DIGITS,
    GAPS,
    INSTANCE,
    GapTableBuilder,
    ProvenBound,
    bound_columns,
    too_fast,
)
from tutti.experiments.runner.kept_schedules import (
    SCHEDULES,
    drop_damaged,
    drop_schedules,
    keep_file,
    schedule_path,
)
from tutti.experiments.runner.manifest import (
    FORMAT,
    MANIFEST,
    NOT_RUN,
    code_digest,
    made_with,
    now,
    read_manifest,
)
from tutti.experiments.runner.results import CSV, current_row, tables, to_table, write_csv
from tutti.experiments.runner.study import Row, Study, Task, TaskOutcome, on_disk
from tutti.topologies.errors import InputError
from tutti.topologies.files import drop_drafts, read_text, replacing
from tutti.topologies.text import parse_topology
from tutti.topologies.units import MICRO

TABLE = "tasks.sqlite"
FILES = "tasks"
"""The folder in which earlier versions kept a file a task."""
SAVED = frozenset({"status", "time_limit", "rows", "bounds", "trace"})
"""The keys of what is kept of a task that are read again."""
CHECKSUM = "sha256"
"""The key of the hash in a file of an earlier version."""
AGAIN = frozenset({"failed"})
"""Outcomes that are tried again when a run is continued."""
SYSTEM = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_PERM: errno.EACCES,
}
"""What the system said, by what SQLite says of it."""
LAYOUT = """
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA cache_size = -32000;
CREATE TABLE IF NOT EXISTS tasks (
    key TEXT PRIMARY KEY, made REAL, status TEXT, time_limit REAL, schedule TEXT, document TEXT, sha256 TEXT
);
CREATE TABLE IF NOT EXISTS arranged (of TEXT, said TEXT);
CREATE TABLE IF NOT EXISTS schedules (digest TEXT PRIMARY KEY, bytes INTEGER, changed INTEGER) WITHOUT ROWID;
"""
"""What became of each task, by its key; of what the tables are; how the files of schedules looked when they
were last read. One process alone has it, so that no memory is shared and a network's folder serves; what is
written is on the disk."""


TAKEN = frozenset({"ok", "timeout", "infeasible"})
SAME = ("nodes", "switches", "links", "kind")
"""Columns in which the rows must agree with the task, as the text alone is only that of the store's key."""
NEEDED = ("size_bytes", "time_us", "bound_us", "bound_kind")
"""Columns that are read from rows with a time. From other rows only the first column is read."""
NAMED = ("collective", "method", "options")
"""Columns that stand, in this order, in the text of a task."""

Document = dict[str, Any]


class TaskRecord(NamedTuple):
    """What became of a task: when, how, under which limit in seconds, and its schedule's content hash."""

    made: float
    status: str
    time_limit: float | None
    schedule: str | None

    def settles(self, task: Task) -> bool:
        """Whether the task needs no other try: it did not fail, and ran out of no other time."""
        return self.status not in AGAIN and (self.status != "timeout" or self.time_limit == task.time_limit)


class Store:
    """A run's directory, held by one run at a time; use it in a ``with`` block.

    Parameters
    ----------
    directory
        Made if it is not there. What earlier versions left in it is taken into the table.

    Raises
    ------
    InputError
        If another run holds it, or the table is none.
    OSError
        If it can't be made or written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._table = self._open()
        for folder in (directory, self.schedules):
            drop_drafts(folder)
        with self._said():
            self._broken = [*self._take_files(), *self._drop_damaged()]

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._table.close()
        if isinstance(error, sqlite3.Error):
            raise _reason(error, self.directory / TABLE) from error

    @property
    def schedules(self) -> Path:
        """Where schedules go."""
        return self.directory / SCHEDULES

    def prepare(self, study: Study, tasks: Sequence[Task], *, fresh: bool, rejudged: bool) -> list[str]:
        """Make it ready for some tasks of a study; return what was damaged, and removed.

        Parameters
        ----------
        study, tasks
            What is to be done of what.
        fresh
            Whether what is known of the tasks is removed.
        rejudged
            Whether what other code made of them is taken over (`rejudge`).
        """
        for name in study.folders:
            (self.directory / name).mkdir(exist_ok=True)
        if fresh:
            self._forget(with_parts(tasks))
        if rejudged:
            rejudge(self, tasks)
        return self._damaged()

    def settles(self, study: Study, task: Task) -> bool:
        """Whether a task is done, and its schedule on disk if it is to be kept."""
        entry, keep = self.entry(task), study.keep_schedules
        if entry is None or not entry.settles(task):
            return False
        if entry.status != "ok":
            return not task.is_part
        if keep == "none" or (keep == "best" and entry.schedule and not task.is_part):  # it may be dropped
            return True
        return entry.schedule is not None and schedule_path(self.schedules, entry.schedule) is not None

    def bounds(self, study: Study, tasks: Iterable[Task]) -> dict[str, Any]:
        """Return the bounds of the rows of some tasks, where other rows of the study have them."""
        wanted = {key for task in tasks for key in task.bound_keys}
        related = (task for task in study.tasks if not wanted.isdisjoint(task.bound_keys))
        return {key: bound for _, outcome in self.outcomes(related) for key, bound in outcome.bounds.items()}

    def merge(self, task: Task) -> TaskOutcome:
        """Return what became of a task that its parts decide, and keep it in their place."""
        outcome = task.combined([outcome for _, outcome in self.outcomes(task.parts)])
        if len(task.parts) > 1:
            self.save(task, outcome)
            if outcome.status == "ok":
                self._forget(task.parts)
        return outcome

    def finish(self, study: Study, ran: Mapping[str, Any], started: str) -> tuple[Counter[str], bool, bool]:
        """Write tables and manifest.

        Parameters
        ----------
        study
            Whose tasks they are of.
        ran, started
            Where it ran, and since when.

        Returns
        -------
        statuses, same, others
            How many rows have each status; whether the tables were of these very outcomes before; and whether
            there are entries of other tasks.
        """
        said = self._arranged(study)
        counted = self._arrange(study) if said is None else said
        statuses: Counter[str] = Counter()
        for task in study.tasks:
            entry = self.entry(task)
            statuses[entry.status if entry else NOT_RUN] += task.num_rows
        before = read_manifest(self.directory).get("sessions")
        sessions = [*(before if isinstance(before, list) else []), {"started": started, "ended": now()}]
        config = study.config
        manifest = {
            "name": config.name,
            "format": FORMAT,
            "config": {"path": config.path, "sha256": _hash(config.text), "text": config.text},
            "settings": {**ran, **study.settings, **counted},
            "seeds": sorted(study.seeds),
            "rows": {status: count for status, count in sorted(statuses.items()) if count},
            "sessions": sessions,
            **made_with(),
        }
        with replacing(self.directory / MANIFEST) as draft:
            draft.write_text(json.dumps(manifest, indent=1) + "\n")
        own = {task.key for task in with_parts(study.tasks)}
        others = any(key not in own for (key,) in self._table.execute("SELECT key FROM tasks"))
        return statuses, said is not None, others

    def save(self, task: Task, outcome: TaskOutcome) -> None:
        """Write what became of a task, all or nothing, to the disk.

        Raises
        ------
        DiskError
            If it can't be written.
        """
        document = {
            "task": str(task),
            "status": outcome.status,
            "time_limit": task.time_limit,
            "rows": outcome.rows,
            "bounds": {key: [str(bound.seconds), bound.kind] for key, bound in outcome.bounds.items()},
            "trace": outcome.trace,
        }
        with on_disk():
            for name, data in outcome.files.items():
                keep_file(name, data, self.schedules)
            with self._said():
                self._insert(task.key, time.time(), document)

    def load(self, task: Task) -> TaskOutcome | None:
        """Return what became of a task earlier, None if nothing did."""
        found = self._table.execute("SELECT document FROM tasks WHERE key = ?", (task.key,)).fetchone()
        if found is None:
            return None
        document = json.loads(found[0])
        bounds = {key: ProvenBound(Fraction(s), kind) for key, (s, kind) in document["bounds"].items()}
        return TaskOutcome(document["status"], document["rows"], bounds, document["trace"])

    def outcomes(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, TaskOutcome]]:
        """Yield the tasks that ended, with what became of them."""
        for task in tasks:
            outcome = self.load(task)
            if outcome is not None:
                yield task, outcome

    def entries(self) -> Iterator[Document]:
        """Yield the content of every entry, of this code or of other, in the order in which they were made.

        One that earlier code wrote had no checksum: who reads it must expect anything in its values.
        """
        for (document,) in self._table.execute("SELECT document FROM tasks ORDER BY made, rowid"):
            yield json.loads(document)

    def entry(self, task: Task) -> TaskRecord | None:
        """Return what is known of a task without its rows, None if nothing is."""
        query = "SELECT made, status, time_limit, schedule FROM tasks WHERE key = ?"
        found = self._table.execute(query, (task.key,)).fetchone()
        return found and TaskRecord(*found)

    def _damaged(self) -> list[str]:
        """Remove what is not as it was written, and return what each was: its task is not done then.

        Schedules are read again where the file has changed since; no other would be written over them.
        """
        broken = self._broken
        known = {digest: seen for digest, *seen in self._table.execute("SELECT * FROM schedules")}
        named = self._table.execute("SELECT DISTINCT schedule FROM tasks WHERE schedule IS NOT NULL")
        for (digest,) in named.fetchall():
            path = schedule_path(self.schedules, digest)
            if path is None or _looks(path) == known.get(digest):
                continue
            if drop_damaged(self.schedules, digest):
                broken.append(str(path))
                self._table.execute("DELETE FROM tasks WHERE schedule = ?", (digest,))
            else:
                self._table.execute("REPLACE INTO schedules VALUES (?, ?, ?)", (digest, *_looks(path)))
        return list(dict.fromkeys(broken))

    def _forget(self, tasks: Iterable[Task]) -> None:
        """Remove what is known of these tasks."""
        with self._at_once():
            self._table.executemany("DELETE FROM tasks WHERE key = ?", ((task.key,) for task in tasks))

    def _arranged(self, study: Study) -> dict[str, Any] | None:
        """Return what was said of the tables, if they are of these very tasks and outcomes; None if not."""
        found = self._table.execute("SELECT of, said FROM arranged").fetchone()
        if found is None or found[0] != self._state(study) or not (self.directory / CSV).exists():
            return None
        said: dict[str, Any] = json.loads(found[1])
        return said

    def _arrange(self, study: Study) -> dict[str, Any]:
        """Write the tables and remove the schedules that are not to be kept; return what is counted."""
        kept, gaps = dict[Any, tuple[float, str]](), GapTableBuilder()
        counted = {name: Counter[str]() for name in study.counted}
        with tables(self.directory, study.columns) as write:
            for rows in study.arrange(study.tasks, self.outcomes):
                write(rows)
                if study.keep_schedules != "none":
                    _keep(kept, rows, every=study.keep_schedules == "all")
                for name, column in study.counted.items():
                    counted[name].update(row.get(column) or "none" for row in rows)
                if study.gaps:
                    gaps.add(rows)
        if study.gaps:
            write_csv(gaps.frame(), self.directory / GAPS)
        if all(self.entry(task) for task in study.tasks):
            drop_schedules(self.schedules, {digest for _, digest in kept.values()})
        said = {name: dict(values) for name, values in counted.items()}
        with self._at_once():
            self._table.execute("DELETE FROM arranged")
            self._table.execute("INSERT INTO arranged VALUES (?, ?)", (self._state(study), json.dumps(said)))
        return said

    def _state(self, study: Study) -> str:
        """Return a hash of the tasks in their order, and of when each was made."""
        digest = hashlib.sha256(repr((code_digest(("experiments",)), study.settings)).encode())
        for task in study.tasks:
            entry = self.entry(task)
            digest.update(f"{task.key} {entry and entry.made}\n".encode())
        return digest.hexdigest()

    def _open(self) -> sqlite3.Connection:
        path = self.directory / TABLE
        with self._said():
            table = sqlite3.connect(path, isolation_level=None, timeout=0)
        try:
            table.executescript(LAYOUT)
        except sqlite3.Error as error:
            table.close()
            raise _reason(error, path) from error
        return table

    @contextmanager
    def _said(self) -> Iterator[None]:
        """Say what SQLite meets as what the system met."""
        try:
            yield
        except sqlite3.Error as error:
            raise _reason(error, self.directory / TABLE) from error

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """Write all or nothing."""
        with self._said():
            self._table.execute("BEGIN")
            with self._table:
                yield

    def _insert(self, key: str, made: float, document: Mapping[str, Any]) -> None:
        text = json.dumps(document)
        schedule = next((row["schedule"] for row in document["rows"] if row.get("schedule")), None)
        entry = (key, made, document["status"], document["time_limit"], schedule, text, _hash(text))
        self._table.execute("REPLACE INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?)", entry)

    def _take_files(self) -> list[str]:
        """Move the files of earlier versions into the table; return those that are damaged."""
        paths = sorted((self.directory / FILES).glob("*.json"))
        broken = []
        with self._at_once():
            for path in paths:
                document = _read(path)
                if document is None:
                    broken.append(str(path))
                else:
                    self._insert(path.stem, path.stat().st_mtime, document)
        for path in paths:
            path.unlink()
        if paths and not any((self.directory / FILES).iterdir()):
            (self.directory / FILES).rmdir()
        return broken

    def _drop_damaged(self) -> list[str]:
        """Remove the entries that are not as they were written; return what they were."""
        entries = self._table.execute("SELECT key, document, sha256 FROM tasks")
        broken = [key for key, text, digest in entries if not isinstance(text, str) or _hash(text) != digest]
        with self._at_once():
            self._table.executemany("DELETE FROM tasks WHERE key = ?", ((key,) for key in broken))
        return [f"{self.directory / TABLE}: {key}" for key in broken]


def with_parts(tasks: Iterable[Task]) -> Iterator[Task]:
    """Yield tasks, and the parts of those that are divided."""
    for task in tasks:
        yield task
        yield from (part for part in task.parts if part.is_part)


def _reason(error: sqlite3.Error, path: Path) -> Exception:
    """Return what a person is told when SQLite can't."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return InputError(f"{path.parent}: another run is writing there; wait for it or use --out")
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
        return InputError(f"{path}: no table of tasks, or a damaged one; move it away to start over")
    if path.exists() and not os.access(path, os.W_OK):  # SQLite says so in several ways
        code = sqlite3.SQLITE_PERM
    number = SYSTEM.get(code, errno.EIO)
    return OSError(number, os.strerror(number), str(path))


def _read(path: Path) -> dict[str, Any] | None:
    """Return the content of a file of an earlier version; None if it is not all that was written."""
    try:
        document = json.loads(read_text(path))
    except (InputError, ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not document.keys() >= SAVED:
        return None
    digest = document.pop(CHECKSUM, None)  # the first versions had none
    whole = digest is None or digest == _hash(json.dumps(document, sort_keys=True))
    rows = document["rows"]
    whole = whole and isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    return document if whole else None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _looks(path: Path) -> list[int]:
    """Return the size of a file and when it was changed: as they were, it is not read again."""
    seen = path.stat()
    return [seen.st_size, seen.st_mtime_ns]


def _keep(kept: dict[Any, tuple[float, str]], rows: Iterable[Row], *, every: bool) -> None:
    """Add the schedules of rows to those that stay: each, or that of the fastest row of each instance."""
    for row in rows:
        if row.get("schedule"):
            key = row["schedule"] if every else tuple(row[name] for name in INSTANCE)
            if key not in kept or row["time_us"] < kept[key][0]:
                kept[key] = row["time_us"], row["schedule"]


def rejudge(store: Store, tasks: Iterable[Any]) -> None:
    """Take over what other code made of these tasks, with the bounds of this code.

    A result of another version of the code is normally made anew (`experiments.runner.plan`). Where only the
    bounds have become better, that is a waste: a gap is a time over a bound, and the times are known. So a
    result is taken over if it is of the same task, with

    - status ok: its times, and for each size the larger of this code's bound and of the one that its own
      method proved (a certificate that was checked when it was made). A time below the bound is no result:
      that task is left to be made anew, which says what is wrong;
    - status timeout or infeasible: as it is. What was unsupported or failed is asked again.

    A topology read from a file is left out, for its content may be another by now.

    Raises
    ------
    OSError
        If the results can't be written.
    """
    open_ = [task for task in tasks if store.load(task) is None and not Path(task.topology).exists()]
    documents = {
        _name(document["task"], [row["size_bytes"] for row in document["rows"]]): document
        for document in map(_current, filter(_is_taken, store.entries()))
    }  # of each task the newest
    common = _common(documents.values())
    bounds: dict[str, ProvenBound] = {}
    for task in open_:
        document = documents.get(_name(str(task), task.sizes))
        if document is None or not _alike(document, task):
            continue
        found = TaskOutcome(document["status"], document["rows"])
        outcome = judged_again(task, found, bounds, common)
        if outcome is not None:
            store.save(replace(task, time_limit=document["time_limit"]), outcome)


def judged_again(
    task: Any, outcome: TaskOutcome, bounds: dict[str, ProvenBound], common: Mapping[str, Fraction]
) -> TaskOutcome | None:
    """Return an outcome with bounds of this code; None where a time is below its bound.

    Parameters
    ----------
    task, outcome
        What was to be done, and what became of it earlier.
    bounds
        Of this code, by `Task.bound_keys`; those computed here are added.
    common
        Of the code that made it: the bounds in seconds that were no method's own.
    """
    if outcome.status != "ok":
        return outcome
    rows, used = [], {}
    for row, key in zip(outcome.rows, task.bound_keys, strict=True):
        if key not in bounds:
            size = Fraction(row["size_bytes"])
            bounds[key] = ProvenBound.of(parse_topology(task.topology), task.collective, size)
        used[key] = bounds[key]
        rows.append(row | bound_columns(row["time_us"], _larger(bounds[key], row, common.get(key))))
    if any(map(too_fast, rows)):
        return None
    return TaskOutcome("ok", rows, used)


def _larger(bound: ProvenBound, row: Row, common: Fraction | None) -> ProvenBound:
    """Return this code's bound, or the one that the row's method proved if that is larger."""
    old = Fraction(row["bound_us"]) / MICRO
    own = common is not None and old > common * (1 + Fraction(10) ** -GAP_DIGITS)  # more than rounding
    return max(bound, ProvenBound(old, row["bound_kind"]), key=lambda b: b.seconds) if own else bound


def _current(document: Document) -> Document:
    """Return an entry with the names of today: of methods, options and bounds."""
    rows = [current_row(row) for row in document["rows"]]
    before, after = (
        " ".join(str(row[name]) for row in few for name in NAMED if row.get(name))
        for few in (document["rows"][:1], rows[:1])
    )
    return {**document, "task": document["task"].replace(before, after, 1), "rows": rows}


def _is_taken(document: Document) -> bool:
    """Whether it is of an outcome that is taken, and its values are what they should be."""
    if document["status"] not in TAKEN or not isinstance(document.get("task"), str):
        return False
    needed = NEEDED if document["status"] == "ok" else NEEDED[:1]
    try:
        to_table(document["rows"])  # each value is of its column's type
        _common([document])
        return all(row[name] is not None for row in document["rows"] for name in needed)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError, pa.ArrowException):
        return False


def _name(task: str, sizes: Iterable[int]) -> str:
    return json.dumps([task, list(sizes)])


def _common(documents: Iterable[Document]) -> dict[str, Fraction]:
    """Return the largest bound of each topology, collective and size that was no method's own."""
    common: dict[str, Fraction] = {}
    for document in documents:
        for key, (seconds, _) in document["bounds"].items():
            common[key] = max(common.get(key, Fraction(0)), Fraction(seconds))
    return common


def _alike(document: Document, task: Any) -> bool:
    """Whether an entry is of the same network and of as many seeds."""
    alike = all(row.get(name) == getattr(task, name) for row in document["rows"] for name in SAME)
    seeds = {row.get("seeds", len(task.seeds)) for row in document["rows"]}
    return alike and seeds == {len(task.seeds)}

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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from tutti.experiments.runner.judge import GAPS, INSTANCE, GapTableBuilder, ProvenBound
from tutti.experiments.runner.manifest import (
    FORMAT,
    MANIFEST,
    NOT_RUN,
    code_digest,
    made_with,
    now,
    read_manifest,
)
from tutti.experiments.runner.results import (
    CSV,
    SCHEDULES,
    drop_damaged,
    drop_schedules,
    keep_file,
    schedule_path,
    tables,
    write_csv,
)
from tutti.experiments.runner.study import Row, Study, Task, TaskOutcome, on_disk
from tutti.topologies.errors import InputError
from tutti.topologies.files import drop_drafts, read_text, replacing

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


class TaskRecord(NamedTuple):
    """What became of a task: when, how, under which limit in seconds, and its schedule's content hash."""

    made: float
    status: str
    time_limit: float | None
    schedule: str | None

    def settles(self, task: Task) -> bool:
        """Whether the task needs no other try: it did not fail, and ran out of no other time."""
        return self.status not in AGAIN and (self.status != "timeout" or self.time_limit == task.time_limit)


class Parts(Collection[Task]):
    """What is left to do of some tasks, one part after the other, and how far each task is.

    Whoever takes one after the other gets none of a task after one that has no schedule.

    Parameters
    ----------
    tasks
        Those to do.
    settled
        Whether a part is done already.
    bounds
        Of the rows of the tasks, where other rows of the study have them.
    """

    def __init__(
        self, tasks: Sequence[Task], settled: Callable[[Task], bool], bounds: dict[str, Any]
    ) -> None:
        self.tasks, self.bounds = tasks, bounds
        self._whole: dict[str, Task] = {}  # of parts
        self._left: dict[str, set[int]] = {}
        self._lost: dict[str, int] = {}
        self._todo: list[Task] = []
        for task in tasks:
            # A task that was stopped between its last part and itself has its last part done again.
            left = [part for part in task.parts if not settled(part)] or task.parts[-1:]
            self._todo += left
            if left[0].is_part:
                self._whole |= {part.key: task for part in left}
                self._left[task.key] = {part.place for part in left}

    def __len__(self) -> int:
        return len(self._todo)

    def __contains__(self, part: object) -> bool:
        return part in self._todo

    def __iter__(self) -> Iterator[Task]:
        return (part for part in self._todo if part.place < self._lost.get(self._task(part).key, inf))

    def ended(self, part: Task, outcome: TaskOutcome) -> Task | None:
        """Note that a part has ended; return its task if that is decided by it."""
        task = self._task(part)
        if task is part:
            return task
        left = self._left.get(task.key)
        if left is None:
            return None
        left.discard(part.place)
        if outcome.status != "ok":
            self._lost[task.key] = min(part.place, self._lost.get(task.key, part.place))
        if any(first < self._lost.get(task.key, inf) for first in left):
            return None
        del self._left[task.key]
        return task

    def _task(self, part: Task) -> Task:
        """Return what it is a part of; itself, if it is whole."""
        return self._whole.get(part.key, part)


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
        self.directory, self.schedules = directory, directory / SCHEDULES
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

    def begin(
        self, study: Study, chosen: Sequence[Task], tell: Callable[[str], None], *, fresh: bool, rejudge: bool
    ) -> Parts:
        """Return what is left to do of some tasks of a study.

        Parameters
        ----------
        study, chosen
            What to do of what.
        tell
            Is told what was not as it was written, and is removed.
        fresh
            Whether what is known of the tasks is removed.
        rejudge
            Whether what other code made of them is taken over.

        Raises
        ------
        OSError
            If it can't be written.
        """
        for name in study.folders:
            (self.directory / name).mkdir(exist_ok=True)
        if fresh:
            self._forget(_with_parts(chosen))
        if rejudge and study.rejudge is not None:
            open_ = [task for task in chosen if self.load(task) is None]
            # What earlier code wrote had no checksum: who reads it must expect anything in its values.
            entries = self._table.execute("SELECT document FROM tasks ORDER BY made, rowid")
            for task, outcome in study.rejudge(open_, (json.loads(document) for (document,) in entries)):
                self.save(task, outcome)
        for what in self._damaged():
            tell(f"{what}: damaged; made again")
        settled = partial(self._settles, study)
        tasks = [task for task in chosen if not settled(task)]
        wanted = {key for task in tasks for key in task.bound_keys}
        related = (task for task in study.tasks if not wanted.isdisjoint(task.bound_keys))
        bounds = {
            key: bound for _, outcome in self._outcomes(related) for key, bound in outcome.bounds.items()
        }
        self._parts = Parts(tasks, settled, bounds)
        return self._parts

    def _settles(self, study: Study, task: Task) -> bool:
        """Whether a task is done, and its schedule on disk if it is to be kept."""
        entry, keep = self._entry(task), study.keep_schedules
        if entry is None or not entry.settles(task):
            return False
        if entry.status != "ok":
            return not task.is_part
        if keep == "none" or (keep == "best" and entry.schedule and not task.is_part):  # it may be dropped
            return True
        return entry.schedule is not None and schedule_path(self.schedules, entry.schedule) is not None

    def take(self, part: Task, outcome: TaskOutcome) -> Iterator[tuple[Task, TaskOutcome]]:
        """Keep what became of a part; yield its task and what became of that, if it is decided now.

        Raises
        ------
        DiskError
            If it can't be written.
        """
        self.save(part, outcome)
        task = self._parts.ended(part, outcome)
        if task is part:
            yield task, outcome
        elif task is not None:
            whole = task.combined([outcome for _, outcome in self._outcomes(task.parts)])
            self.save(task, whole)
            if whole.status == "ok":
                self._forget(task.parts)
            yield task, whole

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
            entry = self._entry(task)
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
        own = {task.key for task in _with_parts(study.tasks)}
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

    def _outcomes(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, TaskOutcome]]:
        """Yield the tasks that ended, with what became of them."""
        for task in tasks:
            outcome = self.load(task)
            if outcome is not None:
                yield task, outcome

    def _entry(self, task: Task) -> TaskRecord | None:
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
            for rows in study.arrange(study.tasks, self._outcomes):
                write(rows)
                if study.keep_schedules != "none":
                    _keep(kept, rows, every=study.keep_schedules == "all")
                for name, column in study.counted.items():
                    counted[name].update(row.get(column) or "none" for row in rows)
                if study.gaps:
                    gaps.add(rows)
        if study.gaps:
            write_csv(gaps.frame(), self.directory / GAPS)
        if all(self._entry(task) for task in study.tasks):
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
            entry = self._entry(task)
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


def _with_parts(tasks: Iterable[Task]) -> Iterator[Task]:
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

"""The directory of a run: each task is kept when it ends, in one table; rows and manifest come at the end.

The table is a SQLite file. The outcome of a task is in it, on the disk, before the next is looked at, so that
a run that is killed loses what was under way and nothing else. A hash of each entry shows what is not as it
was written.
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
from operator import itemgetter
from pathlib import Path
from typing import Any

from tutti.experiments.runner.judge import GAPS, INSTANCE, GapTableBuilder, ProvenBound
from tutti.experiments.runner.results import (
    CSV,
    FORMAT,
    MANIFEST,
    NOT_RUN,
    SCHEDULES,
    code_digest,
    drop_schedules,
    is_whole,
    keep_file,
    made_with,
    now,
    read_manifest,
    schedule_path,
    tables,
    write_csv,
)
from tutti.experiments.runner.study import Study, Task, TaskOutcome, on_disk
from tutti.topologies.errors import InputError
from tutti.topologies.files import check_folder, drop_drafts, read_text, replacing

TABLE = "tasks.sqlite"
FILES = "tasks"
"""The folder in which earlier versions kept a file a task."""
SAVED = frozenset({"status", "time_limit", "rows", "bounds", "trace"})
"""The keys of what is kept of a task that are read again."""
CHECKSUM = "sha256"
"""The key of the hash in a file of an earlier version."""
SYSTEM = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_PERM: errno.EACCES,
}
"""Error numbers of the system, by SQLite's."""
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
"""The tables: the outcome of each task, by its key; what the written tables are of; and size and time of the
files of schedules when they were last read. One process alone has the file, so that no memory is shared and a
network's folder serves; what is written is on the disk."""


class Parts(Collection[Task]):
    """The parts that are left to do of some tasks, in order.

    Iterating over them yields no part of a task after one that has no schedule.

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
        # A task that was stopped between its last part and itself has its last part done again.
        left = [[part for part in task.parts if not settled(part)] or task.parts[-1:] for task in tasks]
        self._todo = [part for parts in left for part in parts]
        self._whole = {part.key: task for task, parts in zip(tasks, left, strict=True) for part in parts}
        keys = (task.key for task in tasks)
        self._left = {key: {one.around for one in parts} for key, parts in zip(keys, left, strict=True)}

    def __len__(self) -> int:
        return len(self._todo)

    def __contains__(self, part: object) -> bool:
        return part in self._todo

    def __iter__(self) -> Iterator[Task]:
        return (part for part in self._todo if part.around in self._left.get(self._whole[part.key].key, ()))

    def ended(self, part: Task, outcome: TaskOutcome) -> Task | None:
        """Note that a part has ended; return its task if that is decided by it."""
        task = self._whole[part.key]
        if (left := self._left.get(task.key)) is None:
            return None
        left -= {one for one in left if one == part.around or (outcome.status != "ok" and one > part.around)}
        if not left:
            del self._left[task.key]
        return None if left else task


class Store:
    """A run's directory, held by one run at a time; use it in a ``with`` block.

    Parameters
    ----------
    directory
        Made if it is not there. What earlier versions left in it is taken into the table.

    Raises
    ------
    InputError
        If it can't be made or written, another run holds it, or the table is none.
    """

    def __init__(self, directory: Path) -> None:
        self.directory, self.schedules = directory, directory / SCHEDULES
        check_folder(directory)
        with _said(directory / TABLE):
            self._table = sqlite3.connect(directory / TABLE, timeout=0)
            try:
                self._table.executescript(LAYOUT)
            except sqlite3.Error:
                self._table.close()
                raise
        self._table.row_factory = sqlite3.Row
        for folder in (directory, self.schedules):
            drop_drafts(folder)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._table.close()
        with _said(self.directory / TABLE):
            if isinstance(error, sqlite3.Error):
                raise error

    def begin(
        self, study: Study, chosen: Sequence[Task], tell: Callable[[str], None], *, fresh: bool, rejudge: bool
    ) -> Parts:
        """Return what is left to do of some tasks of a study.

        Parameters
        ----------
        study, chosen
            The study, and those of its tasks that are to be done.
        tell
            Is given a line about everything that was not as it was written, and is removed.
        fresh
            Whether what is known of the tasks is removed.
        rejudge
            Whether what other code made of them is taken over.

        Raises
        ------
        OSError
            If it can't be written.
        """
        damaged = [*self._take_files(), *self._drop_damaged()]
        for name in study.folders:
            (self.directory / name).mkdir(exist_ok=True)
        if fresh:
            self._forget(task.key for task in _with_parts(chosen))
        if rejudge and study.rejudge is not None:
            open_ = [task for task in chosen if self.load(task) is None]
            # What earlier code wrote had no checksum: who reads it must expect anything in its values.
            entries = self._table.execute("SELECT document FROM tasks ORDER BY made, rowid")
            for task, outcome in study.rejudge(open_, (json.loads(document) for (document,) in entries)):
                self.save(task, outcome)
        for what in dict.fromkeys([*damaged, *self._drop_schedules()]):
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
        """Whether a task needs no other try, and its schedule is on disk if it is to be kept."""
        entry, keep = self._entry(task), study.keep_schedules
        if entry is None or entry["status"] == "failed":
            return False
        status, limit, digest = entry["status"], entry["time_limit"], entry["schedule"]
        if status != "ok":  # what ran out of another time is tried again
            return not task.is_part and (status != "timeout" or limit == task.time_limit)
        if keep == "none" or (keep == "best" and digest and not task.is_part):  # it may be dropped
            return True
        return digest is not None and schedule_path(self.schedules, digest) is not None

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
                self._forget(part.key for part in task.parts)
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
        found = self._table.execute("SELECT of, said FROM arranged").fetchone()
        # whether the tables are of these very tasks and outcomes
        fresh = found is not None and found[0] == self._state(study) and (self.directory / CSV).exists()
        counted = json.loads(found[1]) if fresh else self._arrange(study)
        statuses: Counter[str] = Counter()
        for task in study.tasks:
            entry = self._entry(task)
            statuses[entry["status"] if entry else NOT_RUN] += task.num_rows
        before, config = read_manifest(self.directory).get("sessions"), study.config
        manifest = {
            "name": config.name,
            "format": FORMAT,
            "config": {"path": config.path, "sha256": _hash(config.text), "text": config.text},
            "settings": {**ran, **study.settings, **counted},
            "seeds": sorted(study.seeds),
            "rows": {status: count for status, count in sorted(statuses.items()) if count},
            "sessions": [*(before if isinstance(before, list) else []), {"started": started, "ended": now()}],
            **made_with(),
        }
        with replacing(self.directory / MANIFEST) as draft:
            draft.write_text(json.dumps(manifest, indent=1) + "\n")
        own = {task.key for task in _with_parts(study.tasks)}
        return statuses, fresh, any(key not in own for (key,) in self._table.execute("SELECT key FROM tasks"))

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
        with on_disk(), _said(self.directory / TABLE), self._table:
            for name, data in outcome.files.items():
                keep_file(name, data, self.schedules)
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
        return ((task, outcome) for task in tasks if (outcome := self.load(task)) is not None)

    def _entry(self, task: Task) -> Any:
        """Return when, how and under which limit in seconds a task ended, and its schedule; or None."""
        query = "SELECT made, status, time_limit, schedule FROM tasks WHERE key = ?"
        return self._table.execute(query, (task.key,)).fetchone()

    def _forget(self, keys: Iterable[str]) -> None:
        """Remove what is known of the tasks with these keys."""
        with self._table:
            self._table.executemany("DELETE FROM tasks WHERE key = ?", ((key,) for key in keys))

    def _arrange(self, study: Study) -> dict[str, Any]:
        """Write the tables and remove the schedules that are not to be kept; return what is counted."""
        kept, gaps = dict[Any, tuple[float, str]](), GapTableBuilder()
        counted = {name: Counter[str]() for name in study.counted}
        with tables(self.directory, study.columns) as write:
            for rows in study.arrange(study.tasks, self._outcomes):
                write(rows)
                for row in rows if study.keep_schedules != "none" else ():
                    if name := row.get("schedule"):  # each one, or that of the fastest row of each instance
                        key = name if study.keep_schedules == "all" else tuple(row[one] for one in INSTANCE)
                        mine = (row["time_us"], name)
                        kept[key] = min(kept.get(key, mine), mine, key=itemgetter(0))
                for name, column in study.counted.items():
                    counted[name].update(row.get(column) or "none" for row in rows)
                if study.gaps:
                    gaps.add(rows)
        if study.gaps:
            write_csv(gaps.frame(), self.directory / GAPS)
        if all(self._entry(task) for task in study.tasks):
            drop_schedules(self.schedules, {digest for _, digest in kept.values()})
        said = {name: dict(values) for name, values in counted.items()}
        with self._table:
            self._table.execute("DELETE FROM arranged")
            self._table.execute("INSERT INTO arranged VALUES (?, ?)", (self._state(study), json.dumps(said)))
        return said

    def _state(self, study: Study) -> str:
        """Return a hash of the tasks in their order, and of when each was made."""
        digest = hashlib.sha256(repr((code_digest(("experiments",)), study.settings)).encode())
        for task in study.tasks:
            entry = self._entry(task)
            digest.update(f"{task.key} {entry and entry['made']}\n".encode())
        return digest.hexdigest()

    def _insert(self, key: str, made: float, document: Mapping[str, Any]) -> None:
        text = json.dumps(document)
        schedule = next((row["schedule"] for row in document["rows"] if row.get("schedule")), None)
        entry = (key, made, document["status"], document["time_limit"], schedule, text, _hash(text))
        self._table.execute("REPLACE INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?)", entry)

    def _take_files(self) -> list[str]:
        """Move the files of earlier versions into the table; return those that are damaged."""
        folder, broken = self.directory / FILES, []
        paths = sorted(folder.glob("*.json"))
        with self._table:
            for path in paths:
                if (document := _read(path)) is None:
                    broken.append(str(path))
                else:
                    self._insert(path.stem, path.stat().st_mtime, document)
        for path in paths:
            path.unlink()
        if paths and not any(folder.iterdir()):
            folder.rmdir()
        return broken

    def _drop_damaged(self) -> list[str]:
        """Remove the entries that are not as they were written; return what they were."""
        entries = self._table.execute("SELECT key, document, sha256 FROM tasks")
        broken = [key for key, text, digest in entries if not isinstance(text, str) or _hash(text) != digest]
        self._forget(broken)
        return [f"{self.directory / TABLE}: {key}" for key in broken]

    def _drop_schedules(self) -> Iterator[str]:
        """Remove damaged schedules, and yield what each was: its task is not done then.

        Schedules are read again where the file has changed since; no other would be written over them.
        """
        known = {digest: seen for digest, *seen in self._table.execute("SELECT * FROM schedules")}
        named = self._table.execute("SELECT DISTINCT schedule FROM tasks WHERE schedule IS NOT NULL")
        for (digest,) in named.fetchall():
            path = schedule_path(self.schedules, digest)
            if path is None or known.get(digest) == (seen := [path.stat().st_size, path.stat().st_mtime_ns]):
                continue
            with self._table:
                if is_whole(path, digest):
                    self._table.execute("REPLACE INTO schedules VALUES (?, ?, ?)", (digest, *seen))
                else:
                    path.unlink()
                    self._table.execute("DELETE FROM tasks WHERE schedule = ?", (digest,))
                    yield str(path)


def _with_parts(tasks: Iterable[Task]) -> Iterator[Task]:
    """Yield tasks, and the parts of those that are divided."""
    for task in tasks:
        yield task
        yield from (part for part in task.parts if part.is_part)


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """Raise what SQLite meets in the ``with`` block as what the system, or the file, has."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            said = f"{path.parent}: another run is writing there; wait for it or use --out"
            raise InputError(said) from error
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            said = f"{path}: no table of tasks, or a damaged one; move it away to start over"
            raise InputError(said) from error
        if path.exists() and not os.access(path, os.W_OK):  # SQLite has several codes for that
            code = sqlite3.SQLITE_PERM
        number = SYSTEM.get(code, errno.EIO)
        raise OSError(number, os.strerror(number), str(path)) from error


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

"""The runner: run what of a study is not done yet, keep everything, arrange it.

A task of many seeds is divided into parts, each a task of its own for workers and store; then one again. How
it is divided depends on nothing but its seeds, so that a row is the same wherever its parts ran.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from tutti.experiments import plugins
from tutti.experiments.runner.cluster import DaskCluster, check_address
from tutti.experiments.runner.config import read_config
from tutti.experiments.runner.judge import GAPS
from tutti.experiments.runner.kept_schedules import schedule_path
from tutti.experiments.runner.manifest import FORMAT, NOT_RUN, machine, now, versions
from tutti.experiments.runner.plan import select, study_of
from tutti.experiments.runner.pool import KEPT, DiskError, Pool, Setting, load_methods, one_line
from tutti.experiments.runner.progress import Reporter
from tutti.experiments.runner.results import read_csv, read_rows
from tutti.experiments.runner.store import Store, rejudge
from tutti.experiments.runner.study import REPORT, Study
from tutti.experiments.runner.tasks import Row, Task, TaskOutcome
from tutti.topologies.errors import InputError

REGISTRY = Setting.registry
MOST_SEEDS = 25
"""Most seeds of a part of a task. With a larger value there are fewer parts, and fewer workers share a
task."""
SUMMED = ("seeds", "synth_s", "verify_s")
"""Columns that are summed over all parts. The peak of memory is the largest; all others are those of the
best part."""


@dataclass(frozen=True)
class RunOptions:
    """How to run a study; the command line's options.

    Parameters
    ----------
    out
        Where results go; None: ``results/<name>``.
    workers
        Processes; None: as in the config, or one a core.
    fresh
        Start over.
    rejudge
        Take over what other code made, with this code's bounds (`experiments.runner.store.rejudge`).
    only
        A shell pattern: run only the tasks it matches.
    quiet
        Write nothing but failures.
    scheduler
        The address of a Dask scheduler, or ``"local:N"`` for one here.
    registry
        ``"module:NAME"`` of the methods.
    """

    out: Path | None = None
    workers: int | None = None
    fresh: bool = False
    rejudge: bool = False
    only: str | None = None
    quiet: bool = False
    scheduler: str | None = None
    registry: str = REGISTRY


@dataclass(frozen=True)
class Summary:
    """What a run came to.

    Parameters
    ----------
    directory
        Where its files are.
    counts
        How many rows of all finished tasks have each status.
    missing
        Rows of tasks that have not been run.
    interrupted
        Whether it was stopped.
    report
        The report, if there is one.
    stale
        Whether there are results of tasks that are not this run's: made by other code, or another config.
    """

    directory: Path
    counts: Counter[str] = field(default_factory=Counter)
    missing: int = 0
    interrupted: bool = False
    report: Path | None = None
    stale: bool = False

    @property
    def failed(self) -> int:
        """How many rows failed."""
        return self.counts["failed"]

    @property
    def done(self) -> int:
        """How many rows there are."""
        return self.counts.total()

    @cached_property
    def rows(self) -> Sequence[Row]:
        """Those of all finished tasks, in the order of the config."""
        return read_rows(self.directory)

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """The gap table (`GapTableBuilder`) of a study that has gaps."""
        return read_csv(self.directory / GAPS)


def run(
    config_path: Path | str,
    options: RunOptions,
    console: Console,
    write_report: Callable[[Path], Path] | None = None,
) -> Summary:
    """Run a config of methods, or the rest of it, and write its results; as `carry_out`."""
    study = study_of(read_config(config_path), load_methods(options.registry), write_report)
    return carry_out(study, options, console)


def carry_out(study: Study, options: RunOptions, console: Console) -> Summary:
    """Run a study, or the rest of it, and write its results.

    Parameters
    ----------
    study
        What to do.
    options
        How to run it.
    console
        Progress and failures are written there.

    Raises
    ------
    InputError
        If an option is wrong; nothing has run then.
    DiskError, OSError
        If results can't be written; those written stay.
    """
    chosen = study.tasks if options.only is None else select(study.tasks, options.only)
    where = _where(options, study)
    if options.rejudge and not study.gaps:
        why = "only the bounds of a plain comparison of methods are computed again"
        raise InputError(f"--rejudge: {study.path} is another study; {why}")
    with Store(options.out or Path("results") / study.name) as store:
        started = now()
        todo = _todo(store, study, chosen, options, console)
        interrupted = not _perform(store, study, todo, options, where, console)
        said = store.arranged(study)
        counted = store.arrange(study) if said is None else said
        statuses = _statuses(store, study)
        ran = {"workers" if isinstance(where, int) else "scheduler": where}
        sessions = [*store.sessions(), {"started": started, "ended": now()}]
        store.write_manifest(_manifest(study, {**ran, **study.settings, **counted}, statuses, sessions))
        missing = statuses.pop(NOT_RUN, 0)
        report = None if interrupted else _report(study, store.directory, console, fresh=said is not None)
        others = store.holds_others(with_parts(study.tasks))
        return Summary(store.directory, statuses, missing, interrupted, report, others)


def _todo(
    store: Store, study: Study, chosen: Sequence[Task], options: RunOptions, console: Console
) -> list[Task]:
    """Make the directory ready, and return which of the chosen tasks are not done in it."""
    for name in study.folders:
        (store.directory / name).mkdir(exist_ok=True)
    if options.fresh:
        store.forget(with_parts(chosen))
    if options.rejudge:
        rejudge(store, chosen)
    for what in store.damaged():
        console.print(f"{what}: damaged; made again", soft_wrap=True, markup=False, highlight=False)
    return [task for task in chosen if not _settled(store, study, task)]


def _where(options: RunOptions, study: Study) -> str | int:
    """Return the address of a scheduler, or how many processes: as asked, else as the config has it.

    Raises
    ------
    InputError
        If both are asked for at one place, the address is none, or there are no processes.
    """
    places = (
        ("", "--scheduler", options.scheduler, "--workers", options.workers),
        (f"{study.path}: {study.table}: ", "scheduler", study.scheduler, "workers", study.workers),
    )
    for place, one, scheduler, other, workers in places:
        if scheduler is not None and workers is not None:
            raise InputError(f"{place}{one} and {other}: a cluster has workers of its own; give one of them")
        if scheduler is not None:
            check_address(scheduler)
            return scheduler
        if workers is not None and workers < 1:
            raise InputError(f"{place}{other} is {workers}; at least 1 is needed")
        if workers is not None:
            return workers
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _settled(store: Store, study: Study, task: Task) -> bool:
    """Whether a task is done, and its schedule on disk if it is to be kept."""
    entry, keep = store.entry(task), study.keep_schedules
    if entry is None or not entry.settles(task):
        return False
    if entry.status != "ok":
        return not task.is_part
    if keep == "none":
        return True
    digest = entry.schedule
    dropped = keep == "best" and not task.is_part
    return digest is not None and (dropped or schedule_path(store.schedules, digest) is not None)


def _perform(
    store: Store, study: Study, todo: Sequence[Task], options: RunOptions, where: str | int, console: Console
) -> bool:
    """Run tasks, writing each as it ends; return whether all of them ended."""
    if not todo:
        where = 0  # no worker is needed
    place = where if isinstance(where, str) else f"{where} processes of this machine" if where else ""
    schedules = None if study.keep_schedules == "none" else store.schedules
    setting = Setting(options.registry, schedules, study.perform)
    parts = Parts(todo, partial(_settled, store, study))
    executor = DaskCluster(where, setting, len(parts)) if isinstance(where, str) else Pool(where, setting)
    shown = study.tasks if options.only is None else todo
    with (
        contextlib.suppress(KeyboardInterrupt),
        Reporter(console, shown, todo, place, quiet=options.quiet) as reporter,
        executor,
    ):
        reporter.running, reporter.lacks = executor.running, executor.lacks
        for part, outcome in executor.run(parts, _bounds(store, study, todo)):
            _save(store, part, outcome)
            task = parts.ended(part, outcome)
            if task is not None:
                reporter.finished(task, _whole(store, task, outcome))
        return True
    return False


def _bounds(store: Store, study: Study, todo: Iterable[Task]) -> dict[str, Any]:
    """Return the bounds of the rows that are to be made, where other rows have them."""
    wanted = {task.bound_key(size) for task in todo for size in task.sizes}
    related = (task for task in study.tasks if any(task.bound_key(size) in wanted for size in task.sizes))
    return {key: bound for _, outcome in store.outcomes(related) for key, bound in outcome.bounds.items()}


def _whole(store: Store, task: Task, last: TaskOutcome) -> TaskOutcome:
    """Return what became of a task, decided by its last part, and keep it in the place of its parts."""
    if not divided(task):
        return last
    outcome = combined(task, [outcome for _, outcome in store.outcomes(parts_of(task))])
    _save(store, task, outcome)
    if outcome.status == "ok":
        store.forget(parts_of(task))
    return outcome


def _save(store: Store, task: Task, outcome: TaskOutcome) -> None:
    try:
        store.save(task, outcome, task.time_limit)
    except OSError as error:
        raise DiskError(f"{one_line(error)}; {KEPT}") from error


def _manifest(
    study: Study, settings: Mapping[str, Any], statuses: Counter[str], sessions: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """Return the manifest of a run: its settings as used, and the times at which it began and ended."""
    digest = hashlib.sha256(study.text.encode()).hexdigest()
    return {
        "name": study.name,
        "format": FORMAT,
        "config": {"path": study.path, "sha256": digest, "text": study.text},
        "settings": settings,
        "seeds": sorted({seed for task in study.tasks if task.seeded for seed in task.seeds}),
        "rows": {status: count for status, count in sorted(statuses.items()) if count},
        "sessions": sessions,
        "versions": versions(),
        "plugins": plugins.manifest(),
        "machine": machine(),
    }


def _statuses(store: Store, study: Study) -> Counter[str]:
    """Return how many rows have each status."""
    counts: Counter[str] = Counter()
    for task in study.tasks:
        entry = store.entry(task)
        counts[entry.status if entry else NOT_RUN] += len(task.sizes)
    return counts


def _report(study: Study, directory: Path, console: Console, *, fresh: bool) -> Path | None:
    """Return the report, written anew unless it is fresh; if that fails, say why: the results stand."""
    if study.report is None:
        return None
    if fresh and (directory / REPORT).exists():
        return directory / REPORT
    try:
        return study.report(directory)
    except Exception as error:  # noqa: BLE001 (a report is made of results that are complete without it)
        console.print(f"the report was not written: {type(error).__name__}: {error}", highlight=False)
        return None


def divided(task: Task) -> bool:
    """Whether a task has more than one part."""
    return len(task.seeds) > MOST_SEEDS


def parts_of(task: Task) -> list[Task]:
    """Return the parts of a task, in the order of its seeds; of one that is not divided itself."""
    if not divided(task):
        return [task]
    count = len(task.seeds)
    parts = []
    for first in range(0, count, MOST_SEEDS):
        seeds, key = task.seeds[first : first + MOST_SEEDS], f"{task.key}-{first}"
        after = count - first - len(seeds)
        parts.append(replace(task, seeds=seeds, key=key, before=first, after=after))
    return parts


def with_parts(tasks: Iterable[Task]) -> Iterator[Task]:
    """Yield tasks, and the parts of those that are divided."""
    for task in tasks:
        yield task
        if divided(task):
            yield from parts_of(task)


def combined(task: Task, outcomes: Sequence[TaskOutcome]) -> TaskOutcome:
    """Return what became of a task: what would have, had its seeds been tried one after the other.

    Parameters
    ----------
    task
        All of it.
    outcomes
        Of its parts, in order, up to the first without a schedule at least: that ends the row, as one
        synthesis would have. Else the schedule is the fastest at the largest size, the first of equal ones.
    """
    lost = next((outcome for outcome in outcomes if outcome.status != "ok"), None)
    if lost is not None:
        return replace(lost, rows=task.rows(lost.status, lost.rows[0]["message"]))
    largest = task.sizes.index(max(task.sizes))
    best = min(outcomes, key=lambda outcome: outcome.rows[largest]["time_us"])
    firsts = [outcome.rows[0] for outcome in outcomes]
    every = {name: sum(row[name] for row in firsts) for name in SUMMED}
    every["peak_rss_mb"] = max(row["peak_rss_mb"] for row in firsts)
    bounds = {key: bound for outcome in outcomes for key, bound in outcome.bounds.items()}
    rows, ends = [row | every for row in best.rows], [outcome.rows[largest] for outcome in outcomes]
    courses = (end.get("course") or f"{end['synth_s']:.6g} {end['time_us']:.9g}" for end in ends)
    rows[largest]["course"] = "; ".join(courses)
    return TaskOutcome("ok", rows, bounds)


class Parts(Collection[Task]):
    """What is left to do of some tasks, one part after the other, and how far each task is.

    Whoever takes one after the other gets none of a task after one that has no schedule.

    Parameters
    ----------
    tasks
        Those to do.
    settled
        Whether a part is done already.
    """

    def __init__(self, tasks: Iterable[Task], settled: Callable[[Task], bool]) -> None:
        self._whole: dict[str, Task] = {}  # of parts
        self._left: dict[str, set[int]] = {}
        self._lost: dict[str, int] = {}
        self._todo: list[Task] = []
        for task in tasks:
            # A task that was stopped between its last part and itself has its last part done again.
            left = [part for part in parts_of(task) if not settled(part)] or parts_of(task)[-1:]
            self._todo += left
            if divided(task):
                self._whole |= {part.key: task for part in left}
                self._left[task.key] = {part.before for part in left}

    def __len__(self) -> int:
        return len(self._todo)

    def __contains__(self, part: object) -> bool:
        return part in self._todo

    def __iter__(self) -> Iterator[Task]:
        return (part for part in self._todo if part.before < self._lost.get(self._task(part).key, inf))

    def ended(self, part: Task, outcome: TaskOutcome) -> Task | None:
        """Note that a part has ended; return its task if that is decided by it."""
        task = self._task(part)
        if task is part:
            return task
        left = self._left.get(task.key)
        if left is None:
            return None
        left.discard(part.before)
        if outcome.status != "ok":
            self._lost[task.key] = min(part.before, self._lost.get(task.key, part.before))
        if any(first < self._lost.get(task.key, inf) for first in left):
            return None
        del self._left[task.key]
        return task

    def _task(self, part: Task) -> Task:
        """Return what it is a part of; itself, if it is whole."""
        return self._whole.get(part.key, part)

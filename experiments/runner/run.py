"""The runner: run what of a study is not done yet, keep everything, arrange it."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
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
from tutti.experiments.runner.parts import Parts, combined, divided, parts_of, with_parts
from tutti.experiments.runner.plan import select, study_of
from tutti.experiments.runner.pool import KEPT, DiskError, Pool, Setting, load_methods, one_line
from tutti.experiments.runner.progress import Reporter
from tutti.experiments.runner.rejudging import rejudge
from tutti.experiments.runner.results import read_csv, read_rows
from tutti.experiments.runner.store import Store
from tutti.experiments.runner.study import REPORT, Study
from tutti.experiments.runner.tasks import Row, Task, TaskOutcome
from tutti.topologies.errors import InputError

REGISTRY = Setting.registry


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
        Take over what other code made, with this code's bounds (`experiments.runner.rejudging`).
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
        raise InputError(f"--rejudge: {study.path} is a study of solvers, which has no bounds")
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
    store: Store,
    study: Study,
    todo: Sequence[Task],
    options: RunOptions,
    where: str | int,
    console: Console,
) -> bool:
    """Run tasks, writing each as it ends; return whether all of them ended."""
    if not todo:
        where = 0  # no worker is needed
    place = where if isinstance(where, str) else f"{where} processes of this machine" if where else ""
    schedules = None if study.keep_schedules == "none" else store.schedules
    setting = Setting(options.registry, schedules, study.perform)
    parts = Parts(todo, partial(_settled, store, study))
    executor = _executor(where, setting, len(parts))
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


def _executor(where: str | int, setting: Setting, most: int) -> DaskCluster | Pool:
    """Return what runs tasks: a cluster, of which at most so many workers are started here, or processes."""
    return DaskCluster(where, setting, most) if isinstance(where, str) else Pool(where, setting)


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

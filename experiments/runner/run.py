"""The experiment runner: plan, run what is not done yet, keep everything, arrange it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.runner.config import Config, read_config
from experiments.runner.kept_schedules import schedule_path
from experiments.runner.manifest import NOT_RUN, describe, now
from experiments.runner.plan import make_plan, select, time_limit
from experiments.runner.pool import KEPT, DiskError, Pool, Setting, load_methods, one_line
from experiments.runner.progress import Reporter
from experiments.runner.rejudging import rejudge
from experiments.runner.store import Store, in_config_order
from experiments.runner.tasks import Outcome, Row, Task
from topologies.errors import InputError

REGISTRY = Setting.registry


@dataclass(frozen=True)
class RunOptions:
    """How to run a config; the command line's options.

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
        The address of a Dask scheduler.
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
    rows
        Those of all finished tasks, in the order of the config.
    missing
        Rows of tasks that have not been run.
    interrupted
        Whether it was stopped.
    report
        The report, if it was written.
    stale
        Whether there are results of tasks that are not this run's: made by other code, or another config.
    """

    directory: Path
    rows: Sequence[Row]
    missing: int
    interrupted: bool
    report: Path | None = None
    stale: bool = False

    @property
    def failed(self) -> int:
        """How many rows failed."""
        return sum(row["status"] == "failed" for row in self.rows)


def run(
    config_path: Path | str,
    options: RunOptions,
    console: Console,
    write_report: Callable[[Path], Path] | None = None,
) -> Summary:
    """Run a config, or the rest of it, and write its results.

    Parameters
    ----------
    config_path
        A TOML file.
    options
        How to run it.
    console
        Progress and failures are written there.
    write_report
        Writes the report of a folder of results and returns its path; None: no report is written.

    Raises
    ------
    InputError
        If the config or an option is wrong; nothing has run then.
    DiskError, OSError
        If results can't be written; those written stay.
    """
    config = read_config(config_path)
    tasks = make_plan(config, load_methods(options.registry))
    limit = time_limit(config)
    chosen = tasks if options.only is None else select(tasks, options.only)
    workers = available_workers(options.workers, config.run.workers, config.path, "[run]")
    _refuse_scheduler(options.scheduler)
    with Store(options.out or Path("results") / config.name) as store:
        if options.fresh:
            store.forget(chosen)
        if options.rejudge:
            rejudge(store, chosen)
        session = {"started": now()}
        say_damaged(store, console)
        todo = [task for task in chosen if not _settled(store, task, limit, config.run.keep_schedules)]
        interrupted = not _perform(store, tasks, todo, _Terms(config, options, workers, limit), console)
        rows = in_config_order(tasks, store.outcomes(tasks))
        missing = sum(len(task.sizes) for task in tasks) - len(rows)
        sessions = [*store.sessions(), {**session, "ended": now()}]
        store.write_tables(rows)
        statuses = [*(row["status"] for row in rows), *[NOT_RUN] * missing]
        store.write_manifest(
            _manifest(config, tasks, statuses, sessions, workers=workers, time_limit_s=limit)
        )
        if not missing:
            store.prune_schedules(rows, config.run.keep_schedules)
        report = None
        if write_report is not None and not interrupted:
            report = written_report(write_report, store.directory, console)
        return Summary(store.directory, rows, missing, interrupted, report, store.holds_others(tasks))


@dataclass(frozen=True)
class _Terms:
    config: Config
    options: RunOptions
    workers: int
    limit: float | None


def available_workers(given: int | None, configured: int | None, path: str, table: str) -> int:
    """Return how many processes: as given on the command line, else in the config, else one a core.

    Raises
    ------
    InputError
        If it is not positive.
    """
    count = given if given is not None else configured
    if count is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count < 1:
        where = "--workers" if given is not None else f"{path}: {table}: workers"
        raise InputError(f"{where} is {count}; at least 1 is needed")
    return count


def _refuse_scheduler(address: str | None) -> None:
    if address is not None:
        raise InputError(f"--scheduler {address}: not supported yet; leave it out to run on this machine")


def say_damaged(store: Store, console: Console) -> None:
    """Remove what is damaged in a store, and say each."""
    for what in store.damaged():
        console.print(f"{what}: damaged; made again", soft_wrap=True, markup=False, highlight=False)


def _settled(store: Store, task: Task, limit: float | None, keep: str) -> bool:
    """Whether a task is done, and its schedule on disk if it is to be kept."""
    if not store.settled(task, limit):
        return False
    status, digest = store.status(task), store.schedule_of(task)
    if status != "ok" or keep == "none":
        return True
    return digest is not None and (keep == "best" or schedule_path(store.schedules, digest) is not None)


def _perform(
    store: Store, tasks: Sequence[Task], todo: Sequence[Task], terms: _Terms, console: Console
) -> bool:
    """Run tasks, writing each as it ends; return whether all of them ended."""
    wanted = {task.bound_key(size) for task in todo for size in task.sizes}
    related = (task for task in tasks if any(task.bound_key(size) in wanted for size in task.sizes))
    bounds = {key: bound for _, outcome in store.outcomes(related) for key, bound in outcome.bounds.items()}
    rest = sum(len(task.sizes) for task in todo)
    total = sum(len(task.sizes) for task in tasks) if terms.options.only is None else rest
    keep = terms.config.run.keep_schedules != "none"
    setting = Setting(terms.options.registry, store.schedules if keep else None)
    with (
        contextlib.suppress(KeyboardInterrupt),
        Reporter(console, total, total - rest, quiet=terms.options.quiet) as reporter,
        Pool(terms.workers, setting, terms.limit) as pool,
    ):
        for task, outcome in pool.run(todo, bounds, reporter.started):
            _save(store, task, outcome, terms.limit)
            reporter.finished(task, outcome)
        return True
    return False


def _save(store: Store, task: Task, outcome: Outcome, limit: float | None) -> None:
    try:
        store.save(task, outcome, limit)
    except OSError as error:
        raise DiskError(f"{one_line(error)}; {KEPT}") from error


def _manifest(
    config: Config,
    tasks: Sequence[Task],
    statuses: Sequence[str],
    sessions: Sequence[Mapping[str, str]],
    **settings: Any,
) -> dict[str, Any]:
    return {
        "name": config.name,
        **describe(
            config.path,
            config.text,
            seeds=[seed for task in tasks if task.seeded for seed in task.seeds],
            settings={**settings, "keep_schedules": config.run.keep_schedules},
            statuses=statuses,
            sessions=sessions,
        ),
    }


def written_report(write: Callable[[Path], Path], directory: Path, console: Console) -> Path | None:
    """Write a report and return its path; if that fails, say why: the results stand without it."""
    try:
        return write(directory)
    except Exception as error:  # noqa: BLE001 (a report is made of results that are complete without it)
        console.print(f"the report was not written: {type(error).__name__}: {error}", highlight=False)
        return None

"""The runner: run what of a study is not done yet, keep everything, arrange it.

A task of many seeds is divided into parts, each a task of its own for workers and store; then one again.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import pandas as pd
from rich.console import Console

from tutti.experiments.runner.cluster import DaskCluster, check_address
from tutti.experiments.runner.config import REPORT, MachinesTable, read_config
from tutti.experiments.runner.judge import GAPS
from tutti.experiments.runner.pool import Pool, Setting
from tutti.experiments.runner.progress import Reporter
from tutti.experiments.runner.results import NOT_RUN, now, read_csv, read_rows
from tutti.experiments.runner.store import Parts, Store
from tutti.experiments.runner.study import Row, Study, select, study_of
from tutti.topologies.errors import InputError
from tutti.topologies.processes import load

REGISTRY = Setting.registry


@dataclass(frozen=True)
class RunOptions:
    """Options of a run, those of the command line.

    Parameters
    ----------
    out
        Where results go; None: ``results/<name>``.
    workers
        Processes; None: as in the config, or one a core.
    fresh
        Start over.
    rejudge
        Take over what other code made, with this code's bounds (`experiments.runner.plan.rejudge`).
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
    """The outcome of a run.

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
    counts: Counter[str]
    missing: int
    interrupted: bool = False
    report: Path | None = None
    stale: bool = False

    @property
    def failed(self) -> int:
        """Number of rows that failed."""
        return self.counts["failed"]

    @property
    def done(self) -> int:
        """Number of rows that there are."""
        return self.counts.total()

    @property
    def stopped(self) -> str:
        """The line for a run that was stopped."""
        return f"stopped; {self.done} of {self.done + self.missing} rows are kept, the same command continues"

    @cached_property
    def rows(self) -> Sequence[Row]:
        """The rows of all finished tasks, in the order of the config."""
        return read_rows(self.directory)

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """The gap table (`GapTableBuilder`) of a study that has gaps."""
        return read_csv(self.directory / GAPS)


def run(config_path: Path | str, options: RunOptions, console: Console) -> Summary:
    """Run a config of any kind, or the rest of it, and write its results; as `carry_out`."""
    return carry_out(study_of(read_config(config_path), load(options.registry)), options, console)


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
    if options.rejudge and study.rejudge is None:
        why = "only the bounds of a plain comparison of methods are computed again"
        raise InputError(f"--rejudge: {study.config.path} is another study; {why}")
    with Store(options.out or Path("results") / study.config.name) as store:
        started = now()
        tell = partial(console.print, soft_wrap=True, markup=False, highlight=False)
        parts = store.begin(study, chosen, tell, fresh=options.fresh, rejudge=options.rejudge)
        interrupted = not _perform(store, study, parts, options, where, console)
        ran = {"workers" if isinstance(where, int) else "scheduler": where}
        statuses, same, others = store.finish(study, ran, started)
        missing = statuses.pop(NOT_RUN, 0)
        report = None if interrupted else _report(study, store.directory, console, fresh=same)
        return Summary(store.directory, statuses, missing, interrupted, report, others)


def _where(options: RunOptions, study: Study) -> str | int:
    """Return the address of a scheduler, or how many processes: as asked, else as the config has it.

    Raises
    ------
    InputError
        If both are asked for at one place, the address is none, or there are no processes.
    """
    own = study.machines
    places: list[tuple[str, str, RunOptions | MachinesTable]] = [
        ("", "--", options),
        (f"{study.config.path}: {own.PLACE}: ", "", own),
    ]
    for place, dashes, given in places:
        if given.scheduler is not None and given.workers is not None:
            both = f"{place}{dashes}scheduler and {dashes}workers"
            raise InputError(f"{both}: a cluster has workers of its own; give one of them")
        if given.scheduler is not None:
            check_address(given.scheduler)
            return given.scheduler
        if given.workers is not None and given.workers < 1:
            raise InputError(f"{place}{dashes}workers is {given.workers}; at least 1 is needed")
        if given.workers is not None:
            return given.workers
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _perform(
    store: Store, study: Study, parts: Parts, options: RunOptions, where: str | int, console: Console
) -> bool:
    """Run tasks, writing each as it ends; return whether all of them ended."""
    if not parts.tasks:
        where = 0  # no worker is needed
    place = where if isinstance(where, str) else f"{where} processes of this machine" if where else ""
    kept = study.keep_schedules != "none"
    setting = Setting(options.registry, store.directory.absolute(), kept)  # workers may stand elsewhere
    executor = DaskCluster(where, setting, len(parts)) if isinstance(where, str) else Pool(where, setting)
    shown = study.tasks if options.only is None else parts.tasks
    with (
        contextlib.suppress(KeyboardInterrupt),
        Reporter(console, shown, parts.tasks, place, quiet=options.quiet) as reporter,
        executor,
    ):
        reporter.running, reporter.lacks = executor.running, executor.lacks
        for part, outcome in executor.run(parts, parts.bounds):
            for task, whole in store.take(part, outcome):
                reporter.finished(task, whole)
        return True
    return False


def _report(study: Study, directory: Path, console: Console, *, fresh: bool) -> Path | None:
    """Return the report, written again unless it is fresh; if that fails, say why: the results stand."""
    try:
        old = directory / REPORT
        return old if fresh and old.exists() else study.write_report(directory)
    except Exception as error:  # noqa: BLE001 (a report is made of results that are complete without it)
        console.print(f"the report was not written: {type(error).__name__}: {error}", highlight=False)
        return None

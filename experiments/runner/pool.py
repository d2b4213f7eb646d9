"""The runner's worker processes: a task goes to each that is idle, and whatever happens there is its rows.

A worker that dies (killed, out of memory, a fault in a solver) or exceeds the time limit is replaced, and
only its task is lost.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tutti.experiments import plugins
from tutti.experiments.plugins import Loaded
from tutti.experiments.runner.results import SCHEDULES, keep_schedule, packed
from tutti.experiments.runner.study import (
    JUDGE,
    KEPT,
    SYNTHESIZE,
    Task,
    TaskOutcome,
    Workplace,
    failure,
    on_disk,
    perform,
)
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import TuttiError
from tutti.topologies.kernels import COMPILATION
from tutti.topologies.processes import WAITS, CallEnd, Caller, Ended, Worker, load, step_all
from tutti.topologies.units import MEGA

PRELOADED = ("tutti.experiments.runner.tasks",)
"""Modules that a server imports once; workers are forked from it. It has run nothing and has no threads."""


@dataclass(frozen=True)
class Setting:
    """The things that all tasks of a run have in common.

    Parameters
    ----------
    registry
        ``"module:NAME"`` of the mapping that holds the methods.
    directory
        The folder of the run, for files of tasks.
    schedules
        Whether schedules are kept.
    plugins
        The plug-ins that are loaded here, and so there.
    """

    registry: str = "tutti.experiments.registry:METHODS"
    directory: Path = Path()
    schedules: bool = False
    plugins: Loaded = field(default_factory=plugins.loaded)


@dataclass(frozen=True)
class Call:
    """A task, what is known of its bounds, and the setting where the worker has none of its own."""

    task: Task
    bounds: Mapping[str, Any]
    setting: Setting | None = None


def work(caller: Caller, own: Setting | None = None) -> None:
    """Be a worker: perform each task that comes, with the bounds that are known.

    A worker with a setting of its own keeps the schedules. For another one the setting comes with each task,
    and the schedules go back as files in the outcome.
    """
    COMPILATION.watchers.append((caller.pause_clock, caller.resume_clock))
    clock = {SYNTHESIZE: caller.start_clock, JUDGE: caller.stop_clock}  # only a synthesis has a time limit
    files: dict[str, bytes] = {}

    def keep(schedule: Schedule) -> str:
        if own is not None:
            with on_disk():
                return keep_schedule(schedule, own.directory / SCHEDULES)
        digest, name, files[name] = packed(schedule)
        return digest

    @cache
    def place_of(setting: Setting) -> Workplace:
        kept, notify = keep if setting.schedules else None, lambda stage: clock[stage]()
        return Workplace(load(setting.registry), kept, notify=notify, directory=setting.directory)

    def performed(call: Call) -> TaskOutcome:
        files.clear()
        setting = own or call.setting or Setting()
        place_of(setting).bounds.update(call.bounds)
        with on_disk():
            plugins.load_same(setting.plugins)
        return replace(perform(call.task, place_of(setting)), files=dict(files))

    if own is not None:
        place_of(own)  # what ends a worker here costs no task, as it is not ready
    caller.serve(performed)


class Running(NamedTuple):
    """A task that runs: its text, for how many seconds, and where."""

    task: str
    seconds: float
    where: str


class Pool:
    """Worker processes for tasks; use it in a ``with`` block.

    Parameters
    ----------
    workers
        How many processes.
    setting
        What they share.
    """

    def __init__(self, workers: int, setting: Setting) -> None:
        self._size, self._setting = workers, setting
        self._tasks: dict[Worker, Task | None] = {}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        for worker in self._tasks:
            worker.end(WAITS.shutdown if kind is None and not worker.busy else 0.0)
        self._tasks = {}

    def run(self, tasks: Collection[Task], bounds: dict[str, Any]) -> Iterator[tuple[Task, TaskOutcome]]:
        """Yield each task with its outcome, in the order in which they finish.

        A task is asked for when there is room for it. `bounds` are known ones; those that the tasks compute
        are added.

        Raises
        ------
        DiskError
            If a worker can't write a schedule.
        TuttiError
            If a worker process can't start, or all are killed before they are ready.
        """
        stillborn, waiting, left = 0, iter(tasks), len(tasks) > 0
        while len(self._tasks) < min(self._size, len(tasks)):
            self._start()
        while left or any(self._tasks.values()):
            for worker, ended in step_all(self._tasks):
                task = self._tasks.pop(worker)
                if ended.how is CallEnd.ANSWER:
                    self._tasks[worker] = None
                else:
                    stillborn += not worker.ready
                    if stillborn > 10:  # in a row
                        raise TuttiError(f"{cause(ended)} before it was ready, as were all others; {KEPT}")
                    self._start()
                if task is not None:
                    stillborn = 0
                    outcome = outcome_of(task, ended)
                    bounds.update(outcome.bounds)
                    yield task, outcome
            for worker in self._tasks:
                if worker.ready and not worker.busy and left:
                    task = self._tasks[worker] = next(waiting, None)
                    if task is None:
                        left = False
                        break
                    worker.watched = task.memory is not None
                    worker.give(Call(task, known_bounds(task, bounds)), task.time_limit, task.memory)

    def running(self) -> list[Running]:
        """Return what runs now."""
        now, busy = time.monotonic(), list(self._tasks.items())  # a copy: another thread asks
        return [
            Running(str(task), now - worker.given, f"process {worker.process.pid}")
            for worker, task in busy
            if task is not None
        ]

    def lacks(self) -> str:
        """Return nothing: what a row needs is here."""
        return ""

    def _start(self) -> None:
        worker = Worker.forked("tutti.experiments.runner.pool:work", self._setting, PRELOADED)
        self._tasks[worker] = None


def outcome_of(task: Task, ended: Ended) -> TaskOutcome:
    """Return what became of a task whose call ended so."""
    if ended.how is CallEnd.ANSWER:
        return ended.answer
    if ended.how is CallEnd.TIME:
        return TaskOutcome("timeout", task.rows("timeout", task.stopped(ended.stops)))
    if ended.how is CallEnd.MEMORY:
        most = (task.memory or 0) / MEGA
        return failure(task, f"it took {ended.peak_mb:.0f} MB of memory; its limit is {most:g} MB")
    return failure(task, cause(ended))


def known_bounds(task: Task, bounds: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a task's rows."""
    return {key: bounds[key] for key in task.bound_keys if key in bounds}


def cause(ended: Ended) -> str:
    """Return the cause of a worker's end, in words."""
    if ended.cause.startswith("SIG"):
        hint = ": often out of memory" if ended.cause == "SIGKILL" else ""
        return f"the worker process was killed by {ended.cause}{hint}"
    return f"the worker process ended by itself ({ended.cause})"

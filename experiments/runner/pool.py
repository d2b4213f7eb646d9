"""The runner's worker processes: a task goes to each that is idle, and whatever happens there is its rows.

A worker that dies (killed, out of memory, a fault in a solver) or exceeds the time limit is replaced, and
only its task is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
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
from tutti.schedules.method import Method
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import TuttiError
from tutti.topologies.kernels import COMPILATION
from tutti.topologies.processes import WAITS, CallEnd, Caller, Ended, Worker, load, step_all
from tutti.topologies.units import MEGA

PRELOADED = ("tutti.experiments.runner.tasks",)
"""Imported once, by a server that has run nothing and has no threads; workers are forked from it at once."""


@dataclass(frozen=True)
class Setting:
    """What is the same for all tasks of a run.

    Parameters
    ----------
    registry
        ``"module:NAME"`` of the mapping that holds the methods.
    directory
        Of the run, for files of tasks.
    schedules
        Whether schedules are kept.
    plugins
        The plug-ins that are loaded here, and so there.
    """

    registry: str = "tutti.experiments.registry:METHODS"
    directory: Path = Path()
    schedules: bool = False
    plugins: Loaded = field(default_factory=plugins.loaded)


def load_methods(registry: str) -> Mapping[str, Method]:
    """Return the methods under ``"module:NAME"``."""
    methods: Mapping[str, Method] = load(registry)
    return methods


def work(caller: Caller, setting: Setting) -> None:
    """Be a worker: perform each task that comes, with the bounds that are known."""
    COMPILATION.watchers.append((caller.pause_clock, caller.resume_clock))
    keep = partial(keep_schedule, directory=setting.directory / SCHEDULES)
    caller.serve(partial(_perform, setting, _workplace(setting, keep, caller)))


def work_afar(caller: Caller) -> None:
    """Be a worker for whoever has the setting with each task, and keeps the schedules itself."""
    COMPILATION.watchers.append((caller.pause_clock, caller.resume_clock))
    files: dict[str, bytes] = {}
    places: dict[Setting, Workplace] = {}

    def keep(schedule: Schedule) -> str:
        digest, name, data = packed(schedule)
        files[name] = data
        return digest

    def perform(call: Any) -> TaskOutcome:
        files.clear()
        setting = call.setting
        if setting not in places:
            places[setting] = _workplace(setting, keep, caller)
        outcome = _perform(setting, places[setting], call)
        return replace(outcome, files=dict(files))

    caller.serve(perform)


def _workplace(setting: Setting, keep: Callable[[Schedule], str], caller: Caller) -> Workplace:
    clock = {SYNTHESIZE: caller.start_clock, JUDGE: caller.stop_clock}  # only a synthesis has a time limit

    def kept(schedule: Schedule) -> str:
        with on_disk():
            return keep(schedule)

    methods, told = load_methods(setting.registry), lambda stage: clock[stage]()
    return Workplace(methods, kept if setting.schedules else None, notify=told, directory=setting.directory)


@dataclass(frozen=True)
class Call:
    """A task, what is known of its bounds, and the setting where the worker has none of its own."""

    task: Task
    bounds: Mapping[str, Any]
    setting: Setting | None = None


def _perform(setting: Setting, place: Workplace, call: Call) -> TaskOutcome:
    place.bounds.update(call.bounds)
    with on_disk():
        plugins.load_same(setting.plugins)
    return perform(call.task, place)


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
        self._size = workers
        self._setting = setting
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
                    call = Call(task, known_bounds(task, bounds))
                    worker.give(call, task.time_limit, task.memory)

    def running(self) -> list[Running]:
        """Return what runs now."""
        now, busy = time.monotonic(), list(self._tasks.items())  # at once: another thread asks
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
        outcome: TaskOutcome = ended.answer
        return outcome
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
    """Return of what a worker died, in words."""
    if ended.cause.startswith("SIG"):
        hint = ": often out of memory" if ended.cause == "SIGKILL" else ""
        return f"the worker process was killed by {ended.cause}{hint}"
    return f"the worker process ended by itself ({ended.cause})"

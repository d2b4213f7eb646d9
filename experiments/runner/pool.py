"""A small pool of worker processes that survives what happens in them.

A worker that dies (killed, out of memory, a fault in a solver) or exceeds the time limit is replaced, and
only its task is lost. The standard pools either hang or give up then.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from experiments.runner.tasks import SYNTHESIZE, Outcome, Task, failure
from experiments.runner.worker import DISK, DONE, PAUSE, READY, RESUME, STAGE, Setting, work
from topologies.errors import TuttiError

LONGEST_WAIT = 3600.0
"""Seconds; what the system waits for is bounded, and a time limit is not."""
SHUTDOWN_SECONDS = 2.0
"""How long a worker may take to leave by itself."""


PRELOADED = ["experiments.runner.tasks"]
"""Imported once, by a server that has run nothing and has no threads; workers are forked from it at once."""


KEPT = "what is done is kept, the same command continues"


class DiskError(TuttiError):
    """A result could not be written; the run stops and what is done is kept."""


def _nobody(task: Task) -> None:
    """Tell nobody."""


@contextmanager
def _inherited() -> Iterator[None]:
    """Make what is started find our modules, and not hear a Ctrl-C before it can ignore it."""
    resource_tracker.ensure_running()  # else it starts below, and its start unblocks SIGINT again
    path, old = os.environ.get("PYTHONPATH"), signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    try:
        yield
    finally:
        os.environ.pop("PYTHONPATH")
        os.environ.update({} if path is None else {"PYTHONPATH": path})
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


@dataclass
class _Worker:
    """A process, its pipe, and what it is doing."""

    process: Any
    pipe: Connection
    ready: bool = False
    task: Task | None = None
    deadline: float | None = None
    left: float | None = None
    judged: int = 0

    @classmethod
    def start(cls, setting: Setting) -> _Worker:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        mine, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, setting), daemon=True)
        with _inherited():
            process.start()
        theirs.close()
        return cls(process, mine)

    def give(self, task: Task, bounds: Mapping[str, Any]) -> None:
        self.task, self.deadline, self.left, self.judged = task, None, None, 0
        self.pipe.send((task, bounds))

    def hear(self, what: str, stage: str | None, limit: float | None) -> None:
        """Take note of how far the process is; only a synthesis has a deadline, and compilation stops it."""
        now = time.monotonic()
        if what == READY:
            self.ready = True
        elif what == STAGE:
            self.judged += stage != SYNTHESIZE
            self.deadline = now + limit if stage == SYNTHESIZE and limit is not None else None
        elif what == PAUSE and self.deadline is not None:
            self.left, self.deadline = self.deadline - now, None
        elif what == RESUME and self.left is not None:
            self.deadline, self.left = now + self.left, None

    def end(self, *, patience: float = 0.0) -> None:
        self.pipe.close()
        if patience:
            self.process.join(patience)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


class Pool:
    """Worker processes for tasks; use it in a ``with`` block.

    Parameters
    ----------
    workers
        How many processes.
    setting
        What they share.
    time_limit
        Seconds for each synthesis, None for no limit.
    """

    def __init__(self, workers: int, setting: Setting, time_limit: float | None = None) -> None:
        self._size = workers
        self._setting = setting
        self._limit = time_limit
        self._workers: list[_Worker] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        for worker in self._workers:
            worker.end(patience=SHUTDOWN_SECONDS if kind is None and worker.task is None else 0.0)
        self._workers = []

    def run(
        self,
        tasks: Sequence[Task],
        bounds: dict[str, Any],
        started: Callable[[Task], None] = _nobody,
    ) -> Iterator[tuple[Task, Outcome]]:
        """Yield each task with its outcome, in the order in which they finish.

        `bounds` are known ones; those that the tasks compute are added.

        Raises
        ------
        DiskError
            If a worker can't write a schedule.
        TuttiError
            If a worker process can't start.
        """
        waiting = list(reversed(tasks))
        while len(self._workers) < min(self._size, len(tasks)):
            self._workers.append(_Worker.start(self._setting))
        running = len(waiting)
        while running:
            for task, outcome in self._step():
                running -= 1
                bounds.update(outcome.bounds)
                yield task, outcome
            for worker in self._workers:
                if worker.ready and worker.task is None and waiting:
                    task = waiting.pop()
                    started(task)
                    worker.give(task, {key: bounds[key] for key in _bound_keys(task) if key in bounds})

    def _step(self) -> Iterable[tuple[Task, Outcome]]:
        """Wait for a message, a death or a deadline; return what has finished."""
        now = time.monotonic()
        deadlines = [worker.deadline for worker in self._workers if worker.deadline is not None]
        patience = min(max(min(deadlines) - now, 0.0), LONGEST_WAIT) if deadlines else None
        happened = wait([worker.pipe for worker in self._workers], patience)
        finished = []
        for number, worker in enumerate(self._workers):
            if worker.pipe in happened:
                finished += self._listen(number, worker)
            elif worker.deadline is not None and worker.deadline <= time.monotonic():
                finished += self._overdue(number, worker)
        return finished

    def _listen(self, number: int, worker: _Worker) -> list[tuple[Task, Outcome]]:
        try:
            what, value = worker.pipe.recv()
        except (EOFError, OSError):
            return self._died(number, worker)
        if what == DISK:
            raise DiskError(f"{value}; {KEPT}")
        if what == DONE and worker.task is not None:
            task, worker.task, worker.deadline = worker.task, None, None
            return [(task, value)]
        worker.hear(what, value, self._limit)
        return []

    def _died(self, number: int, worker: _Worker) -> list[tuple[Task, Outcome]]:
        worker.end(patience=SHUTDOWN_SECONDS)
        if not worker.ready:
            raise TuttiError("a worker process could not start; what it printed stands above")
        self._workers[number] = _Worker.start(self._setting)
        if worker.task is None:
            return []
        return [(worker.task, failure(worker.task, _cause(worker.process.exitcode)))]

    def _overdue(self, number: int, worker: _Worker) -> list[tuple[Task, Outcome]]:
        task = worker.task
        worker.end()
        self._workers[number] = _Worker.start(self._setting)
        if task is None:
            return []
        which = f" (synthesis {worker.judged + 1} of {len(task.seeds)})" if len(task.seeds) > 1 else ""
        message = f"a synthesis exceeded the time limit of {self._limit:g} s{which}"
        return [(task, Outcome("timeout", task.rows("timeout", message)))]


def _bound_keys(task: Task) -> list[str]:
    return [task.bound_key(size) for size in task.sizes]


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = ": often out of memory" if name == "SIGKILL" else ""
        return f"the worker process was killed by {name}{hint}"
    return f"the worker process ended by itself (exit status {code})"

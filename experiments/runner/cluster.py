"""The same tasks on a Dask cluster: each row in a process of its own, which a Dask task only watches.

A synthesis is minutes of native code that may hold the interpreter, and Dask takes a worker that doesn't
answer for dead. So a Dask task gives the row to a process as the pool's, with the row's limits, waits for it
without holding anything, and ends it where the scheduler no longer waits for the row. Rows and schedules come
back as bytes; the process that asked keeps them.

A cluster can also be started on this machine: Dask's own local cluster. Dask runs any code that it is sent.
All connections are therefore encrypted, and both ends must show a certificate. This process creates the
certificate and gives it to the processes that it starts. No other user of the machine has it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import signal
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from itertools import chain
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

from tutti.experiments.plugins import Loaded
from tutti.experiments.runner.pool import Call, Running, Setting, known_bounds, outcome_of
from tutti.experiments.runner.results import versions
from tutti.experiments.runner.study import KEPT, Task, TaskOutcome, failure
from tutti.topologies.errors import InputError, TuttiError, installing
from tutti.topologies.processes import WAITS, Worker, inherited
from tutti.topologies.units import format_size

ADDRESS = re.compile(r"[a-z]+://.+:\d+")
HERE = "local:"
"""Beginning of an address, before a number of workers, that starts a cluster on this machine."""
NOISY = frozenset({"distributed", "tornado", "asyncio"})
"""Packages that log for themselves; some of their loggers have levels of their own."""


class ClusterLimits(NamedTuple):
    """Limits on the waits for a cluster, and on the rows that it gets."""

    answer: float
    """Seconds in which a scheduler must answer. A larger value waits longer for one that is not running."""
    look: float
    """Seconds between two checks whether a row was withdrawn, workers came or left, or a local one ended.
    With a larger value each is noticed later."""
    ahead: int
    """Rows that are sent ahead for each thread of the cluster: one runs and the others wait. With a larger
    value threads idle less, and rows that differ in memory are distributed worse."""
    here: int
    """Most workers on this machine. A larger number is taken for a typing error."""


LIMITS = ClusterLimits(answer=10.0, look=0.5, ahead=3, here=256)
WORKING = frozenset({"running", "paused", "closing_gracefully"})
"""Statuses of a Dask worker that may still deliver a row."""
RUNS = "tutti"
"""The name of rows on the cluster, and of the workers' metric that lists the rows that they run."""
MEMORY = "memory"
"""The Dask resource, in bytes, that a row with a limit of memory takes where workers have it."""


class DaskCluster:
    """Tasks on a Dask cluster; use it in a ``with`` block.

    Parameters
    ----------
    address
        The address of a scheduler, or ``"local:N"``.
    setting
        What the tasks share.
    most
        Largest number of workers that are started here.

    Raises
    ------
    InputError
        If nobody answers there, or what answers has other versions of anything that results depend on.
    """

    def __init__(self, address: str, setting: Setting, most: int = LIMITS.here) -> None:
        self.address, self._setting, self._most, self._stack = address, setting, most, ExitStack()
        self._here: Any = None
        self._threads, self._looked = 1, -LIMITS.look
        self._fit, self._named = set[str](), dict[str, Task]()

    def __enter__(self) -> DaskCluster:
        with ExitStack() as stack:
            security = None
            if self.address.startswith(HERE):
                self._here = stack.enter_context(_cluster_here(min(count_of(self.address), self._most)))
                self.address, security = self._here.scheduler_address, self._here.security
            self._client = stack.enter_context(_client(self.address, security))
            if self._here is not None:
                self._client.wait_for_workers(1)
            self._check()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def run(self, tasks: Collection[Task], bounds: dict[str, Any]) -> Iterator[tuple[Task, TaskOutcome]]:
        """Yield each task with its outcome, as `Pool.run`; one whose worker is lost runs again elsewhere.

        Raises
        ------
        TuttiError
            If the scheduler is lost, or a worker differs from this process.
        """
        waiting, running = iter(tasks), set[str]()
        done = _dask(self.address).as_completed(loop=self._client.loop, with_results=True, raise_errors=False)
        while True:
            while len(running) < self._room() and (task := next(waiting, None)) is not None:
                future = self._submit(task, known_bounds(task, bounds))
                self._named[future.key] = task
                running.add(future.key)
                done.add(future)
            if not running:
                return
            future, result = next(done)
            running.remove(future.key)
            task = self._named[future.key]
            outcome = self._outcome(task, future, result)
            bounds.update(outcome.bounds)
            yield task, outcome
            future.release()

    def running(self) -> list[Running]:
        """Return what runs now, as the workers say."""
        return [
            Running(str(self._named[key]), seconds, where)
            for where, worker in self._client.scheduler_info(n_workers=-1)["workers"].items()
            for key, seconds in worker["metrics"].get(RUNS, {}).items()
            if key in self._named
        ]

    def lacks(self) -> str:
        """Return what rows wait for that the cluster has not; nothing where it has all."""
        if not (workers := self._workers()):
            return "workers"
        most = max(worker["resources"].get(MEMORY, 0) for worker in workers)
        waiting = [key for key, state in [*self._client.futures.items()] if state.status == "pending"]
        large = [key for key in waiting if key in self._named and (self._named[key].memory or 0) > most]
        placed = set(chain(*self._client.processing().values())) if large else ()
        for task in (self._named[key] for key in large if key not in placed):
            needed, there = (format_size(int(size)) for size in (task.memory or 0, most))
            return f"{needed} of memory for {task} (of the workers none has more than {there})"
        return ""

    @property
    def workers(self) -> list[int]:
        """The processes of the workers that were started here."""
        return [] if self._here is None else [nanny.pid for nanny in self._here.workers.values()]

    def _submit(self, task: Task, known: Mapping[str, Any]) -> Any:
        """Return the future of a task, whose key is a hash of all that determines its outcome."""
        setting = replace(self._setting, directory=Path())
        determined = repr((task.key, task.time_limit, task.memory, setting)).encode()
        key = f"{RUNS}-{hashlib.sha256(determined).hexdigest()}"  # Dask takes the word before for the kind
        counted = any(MEMORY in worker["resources"] for worker in self._workers())
        needs = {} if task.memory is None or not counted else {MEMORY: task.memory}
        call = Call(task, known, self._setting)
        return self._client.submit(supervise, call, versions(), key=key, pure=False, resources=needs)

    def _room(self) -> int:
        """Return how many rows may be with the cluster; it is asked now and then, as workers come and go."""
        if time.monotonic() - self._looked >= LIMITS.look:
            workers = self._client.nthreads()
            self._threads = max(1, sum(workers.values()))
            if not self._fit.issuperset(workers):
                self._check()
            self._looked = time.monotonic()
        return LIMITS.ahead * self._threads

    def _workers(self) -> Sequence[Any]:
        return [*self._client.scheduler_info(n_workers=-1)["workers"].values()]

    def _check(self) -> None:
        """Refuse workers that differ; each is asked once."""
        new = [where for where in self._client.nthreads() if where not in self._fit]
        said = self._client.run(unfit, versions(), workers=new, on_error="return") if new else {}
        there = self._client.nthreads()
        for where, what in said.items():
            if where in there and isinstance(what, Exception):
                raise InputError(f"worker {where} lacks tutti, or has another version: {_in_words(what)}")
            if where in there and what:
                raise InputError(f"worker {where} {what}")
        self._fit.update(said)

    def _outcome(self, task: Task, future: Any, result: Any) -> TaskOutcome:
        """Return what became of a task; `result` is an error where the future's status says so."""
        if future.status == "finished":
            return result
        error = future.exception() if future.status == "error" else None
        if isinstance(error, _dask(self.address).KilledWorker):
            many = error.allowed_failures + 1
            return failure(task, f"{many} Dask workers were lost while they ran it: often out of memory")
        if isinstance(error, TuttiError):
            raise error
        if error is not None:
            raise TuttiError(f"{self.address}: a worker can't run {task}: {_in_words(error)}; {KEPT}")
        raise TuttiError(f"{self.address}: the scheduler is lost; {KEPT}")


def count_of(address: str) -> int:
    """Return the number of workers in ``local:N``.

    Raises
    ------
    InputError
        If there is none, or too large a one.
    """
    text = address.removeprefix(HERE)
    if not text.isdecimal() or len(text) > len(str(LIMITS.here)) or not 0 < int(text) <= LIMITS.here:
        form = f"local:4 for a scheduler and 4 workers here, {LIMITS.here} at most"
        raise InputError(f"--scheduler {address}: write {form}")
    return int(text)


def hush() -> None:
    """Keep Dask, which is imported, from writing what it meets: we say it, in one line."""
    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in NOISY]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def _cluster_here(count: int) -> Iterator[Any]:
    """Yield a Dask cluster of a scheduler in this process and `count` workers, which Dask starts again."""
    try:
        security = import_module("distributed").Security.temporary()
    except ImportError:
        what = f"--scheduler {HERE}N needs Dask and cryptography"
        raise InputError(f"{what}: {installing('cluster')}") from None
    how = {"n_workers": count, "threads_per_worker": 1, "memory_limit": 0, "preload": __name__}
    port = {"dashboard_address": "127.0.0.1:0"}  # of statistics over HTTP, which has no fixed number
    with inherited():  # by Dask's thread and what that starts
        made = import_module("distributed").LocalCluster(
            **how, security=security, dashboard_address=None, scheduler_kwargs=port
        )
    hush()
    with made:
        yield made


def dask_setup(worker: Any) -> None:
    """Leave Ctrl-C and messages to the process that started a worker; Dask calls this in workers here."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hush()


def check_address(address: str) -> None:
    """Refuse what is no address of a scheduler.

    Raises
    ------
    InputError
        If it is neither ``"tcp://host:port"`` nor ``"local:N"``.
    """
    if address.startswith(HERE):
        count_of(address)
    elif not ADDRESS.fullmatch(address):
        raise InputError(f"--scheduler {address}: write tcp://host:8786, or local:4 for 4 workers here")


def supervise(row: Call, theirs: Mapping[str, str]) -> TaskOutcome:
    """Be a Dask task: give a row to this thread's process, and wait for it while it is wanted.

    Raises
    ------
    TuttiError
        If something stops all rows, as in `Pool.run`, or this worker, which came late, differs from who asks.
    """
    worker = import_module("distributed").get_worker()
    if said := unfit(theirs):
        raise TuttiError(f"worker {worker.address} {said}; {KEPT}")
    key = worker.get_current_task()
    _began[key] = time.monotonic()
    worker.metrics[RUNS] = began_here
    try:
        return _attended(row, key, worker)
    finally:
        del _began[key]


def _attended(row: Call, key: str, worker: Any) -> TaskOutcome:
    process = _process(None if row.setting is None else row.setting.plugins)
    process.watched = row.task.memory is not None
    process.give(row, row.task.time_limit, row.task.memory)
    while True:
        patience = process.patience()
        wait([process.pipe], LIMITS.look if patience is None else min(patience, LIMITS.look))
        if (ended := process.step()) is not None:
            return outcome_of(row.task, ended)
        if not _wanted(key, worker):
            process.end()
            raise import_module("distributed").Reschedule  # elsewhere, if it is wanted again


def unfit(theirs: Mapping[str, str]) -> str:
    """Return in what this worker differs from who asks; nothing where it is fit."""
    ours = versions()
    said = ", ".join(
        f"{name} {str(ours.get(name, 'is missing'))[:12]} (here {str(theirs.get(name, 'none'))[:12]})"
        for name in sorted({*ours, *theirs})
        if ours.get(name) != theirs.get(name)
    )
    return f"differs: {said}" if said else ""


_began: dict[str, float] = {}
"""The time on the monotonic clock at which each row that runs here began."""


def began_here(worker: Any) -> dict[str, float]:
    """Return for how many seconds each row has run that runs here; each heartbeat tells the scheduler."""
    return {key: time.monotonic() - began for key, began in list(_began.items())}


_here = threading.local()


def _process(plugins: Loaded | None) -> Worker:
    """Return this thread's process, a new one where the last has ended, or has loaded other plug-ins."""
    process: Worker | None = getattr(_here, "process", None)
    if process is not None and _here.plugins != plugins:
        process.end(WAITS.shutdown)
    if process is None or process.process.exitcode is not None:
        process = _here.process = Worker.fresh("tutti.experiments.runner.pool:work")
        _here.plugins = plugins
    return process


def _wanted(key: str, worker: Any) -> bool:
    """Whether the scheduler still waits for a task that runs here, and the worker is not about to end."""
    known = worker.state.tasks.get(key)
    return worker.status.name in WORKING and known is not None and known.state != "cancelled"


def _in_words(error: Exception) -> str:
    """Return an error of a worker in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _dask(address: str) -> Any:
    """Return the package, which is slow to import and may not be installed."""
    try:
        return import_module("distributed")
    except ImportError:
        raise InputError(f"--scheduler {address} needs Dask: {installing('cluster')}") from None


@contextmanager
def _client(address: str, security: Any = None) -> Iterator[Any]:
    """Yield a client of a scheduler that has answered. The default of `security` is that of Dask's config."""
    check_address(address)
    dask = _dask(address)
    hush()
    security = dask.Security() if security is None else security
    try:
        if (kind := asyncio.run(_kind(address, security))) != "Scheduler":
            raise InputError(f"--scheduler {address}: that is a {kind}, no Dask scheduler")
        client = dask.Client(address, timeout=LIMITS.answer, set_as_default=False, security=security)
    except OSError as error:
        raise InputError(f"--scheduler {address}: nobody answers within {LIMITS.answer:g} s") from error
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"--scheduler {address}: {error}") from error
    with client:
        version = client.get_versions()["scheduler"]["packages"]["distributed"]
        if version != (ours := dask.__version__):
            raise InputError(f"--scheduler {address} has distributed {version}, not {ours} as here")
        yield client


async def _kind(address: str, security: Any) -> str:
    """Return what answers at an address: a client would wait endlessly for anything but a scheduler."""
    how = security.get_connection_args("client")
    async with _dask(address).rpc(address, timeout=LIMITS.answer, connection_args=how) as there:
        return (await asyncio.wait_for(there.identity(), LIMITS.answer))["type"]

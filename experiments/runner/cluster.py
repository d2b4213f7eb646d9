"""The same tasks on a Dask cluster: each row in a process of its own, which a Dask task only watches.

A synthesis is minutes of native code that may hold the interpreter, and Dask takes a worker that doesn't
answer for dead. So a Dask task gives the row to a process as the pool's, with the row's limits, waits for it
without holding anything, and ends it where nobody wants the row any more. Rows and schedules come back as
bytes; who asked keeps them.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from itertools import chain
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from uuid import uuid4

from experiments.plugins import Loaded
from experiments.runner.local_cluster import HERE, MOST_HERE, LocalCluster, count_of, hush
from experiments.runner.manifest import versions
from experiments.runner.pool import (
    KEPT,
    Call,
    DiskError,
    Running,
    Setting,
    known_bounds,
    one_line,
    outcome_of,
)
from experiments.runner.state import Detached
from experiments.runner.tasks import Outcome, Task, failure
from topologies.errors import InputError, TuttiError, installing
from topologies.files import replacing
from topologies.processes import POLL_SECONDS, SHUTDOWN_SECONDS, Worker
from topologies.units import format_size

ADDRESS = re.compile(r"[a-z]+://.+:\d+")
ANSWER_SECONDS = 10.0
"""How long a scheduler may take to answer."""
LOOK_SECONDS = 0.5
"""Between two looks at whether a row is still wanted."""
AHEAD = 3
"""So many rows are with the cluster for each of its threads: one to run, the others to go on with."""
BATCH = 500
"""So many rows are left with a scheduler at once."""
WORKING = frozenset({"running", "paused", "closing_gracefully"})
"""What a Dask worker is while it may still hand in a row."""
RUNS = "tutti"
"""What rows are called on the cluster, and the workers' word on those that they run among their metrics."""
MEMORY = "memory"
"""The Dask resource, in bytes, that a row with a limit of memory takes where workers have it."""


class Cluster:
    """Tasks on a Dask cluster; use it in a ``with`` block.

    Parameters
    ----------
    address
        Of a scheduler, or ``"local:N"``.
    setting
        What the tasks share.
    most
        So many workers at most are started here.
    study
        What tasks are called that were left with the scheduler, or are to be; None: there are none.

    Raises
    ------
    InputError
        If nobody answers there, or what answers has other versions of anything that results depend on, or
        can't reach the shared folder.
    """

    def __init__(
        self, address: str, setting: Setting, most: int = MOST_HERE, study: str | None = None
    ) -> None:
        self.address, self._setting, self._most, self._stack = address, setting, most, ExitStack()
        self._study, self._left = study, set[str]()
        self._here: LocalCluster | None = None
        self._threads, self._looked = 1, -LOOK_SECONDS
        self._fit = set[str]()
        self._named = dict[str, Task]()

    def __enter__(self) -> Cluster:
        with ExitStack() as stack:
            security = None
            if self.address.startswith(HERE):
                self._here = stack.enter_context(LocalCluster(min(count_of(self.address), self._most)))
                self.address, security = self._here.address, self._here.security
            self._client = stack.enter_context(_client(self.address, security))
            if self._here is not None:
                self._client.wait_for_workers(1)
            self._check()
            if self._study is not None:
                self._left = {name.rpartition(" ")[2] for name in _names(self._client, self._study)}
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def run(self, tasks: Collection[Task], bounds: dict[str, Any]) -> Iterator[tuple[Task, Outcome]]:
        """Yield each task with its outcome, as `Pool.run`; one whose worker is lost runs again elsewhere.

        Those that were left with the scheduler, or whose outcomes lie in the shared folder, don't run again.

        Raises
        ------
        TuttiError
            If the scheduler is lost, or a worker differs from this process.
        """
        there, waiting, running = _files(self._setting.shared), self._keys(tasks), set[str]()
        done = _dask(self.address).as_completed(loop=self._client.loop, with_results=True, raise_errors=False)
        while True:
            while len(running) < self._room() and (key := next(waiting, None)) is not None:
                task = self._named[key]
                if key in there:
                    yield task, _fetched(there[key])
                    self._forget(key)
                else:
                    running.add(key)
                    done.add(self._submit(key, task, known_bounds(task, bounds)))
            if not running:
                break
            future, result = next(done)
            key = future.key
            running.remove(key)
            if self._failed_before(future):
                self._forget(key)
                future.release()
                while key in self._client.futures:  # until another thread has let it go
                    time.sleep(POLL_SECONDS)
                waiting = chain([key], waiting)
                continue
            outcome = self._outcome(self._named[key], future, result)
            bounds.update(outcome.bounds)
            yield self._named[key], outcome
            self._forget(key)
            future.release()
        self._sweep()

    def _keys(self, tasks: Iterable[Task]) -> Iterator[str]:
        """Yield what tasks are called on the cluster, each when it is asked for."""
        for task in tasks:
            key = self._key(task)
            self._named[key] = task
            yield key

    def leave(self, tasks: Iterable[Task]) -> None:
        """Give the scheduler what it doesn't have of these, to keep them and their results without us."""
        wanted = {self._key(task): task for task in tasks}
        self._unpublish(self._left - wanted.keys())  # as of a config that has changed
        there = self._left.union(_files(self._setting.shared))
        missing = [(key, task) for key, task in wanted.items() if key not in there]
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            kept = {f"{self._study} {key}": self._submit(key, task, {}) for key, task in batch}
            self._client.publish_dataset(kept)
            self._left.update(key for key, _ in batch)

    def running(self) -> list[Running]:
        """Return what runs now, as the workers say."""
        return [
            Running(str(self._named[key]), seconds, where)
            for where, began in _began_there(self._client).items()
            for key, seconds in began.items()
            if key in self._named
        ]

    def lacks(self) -> str:
        """Return what rows wait for that the cluster has not; nothing where it has all."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        if not workers:
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
        return [] if self._here is None else self._here.processes

    def _key(self, task: Task) -> str:
        """Return a hash of all that determines what comes of a task, what it may take included."""
        setting = replace(self._setting, schedules=None, shared=None), self._setting.schedules is None
        determined = repr((task.key, task.time_limit, task.memory, setting)).encode()
        return f"{RUNS}-{hashlib.sha256(determined).hexdigest()}"  # alike to Dask, by the word before

    def _submit(self, key: str, task: Task, known: Mapping[str, Any]) -> Any:
        """Return the future of a task: the one that was left, or a new one."""
        if key in self._left:
            return self._client.get_dataset(f"{self._study} {key}")
        needs = {} if task.memory is None or not self._counts_memory else {MEMORY: task.memory}
        call = Call(task, known, self._setting)
        return self._client.submit(supervise, call, versions(), key=key, pure=False, resources=needs)

    def _failed_before(self, future: Any) -> bool:
        """Whether what stops all rows, such as a full disk, met this one when nobody was there."""
        killed = _dask(self.address).KilledWorker
        return (
            future.status == "error"
            and future.key in self._left
            and not isinstance(future.exception(), killed)
        )

    def _forget(self, key: str) -> None:
        """Let the scheduler and the shared folder forget a task, as its outcome is kept here."""
        self._unpublish(self._left & {key})
        if self._setting.shared is not None:
            (self._setting.shared / key).unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Let go of what was left for tasks that are none any more, and of drafts in the shared folder."""
        self._unpublish(self._left)
        for name, path in _files(self._setting.shared).items():
            if name.strip(".").partition(".")[0] in self._named:
                path.unlink(missing_ok=True)

    def _unpublish(self, keys: Collection[str]) -> None:
        """Let the scheduler forget what was left with it."""
        if keys:
            self._client.unpublish_dataset([f"{self._study} {key}" for key in keys])
            self._left = self._left.difference(keys)

    def _room(self) -> int:
        """Return how many rows may be with the cluster; it is asked now and then, as workers come and go."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            workers = self._client.nthreads()
            self._threads = max(1, sum(workers.values()))
            if not self._fit.issuperset(workers):
                self._check()
            self._looked = time.monotonic()
        return AHEAD * self._threads

    @property
    def _counts_memory(self) -> bool:
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return any(MEMORY in worker["resources"] for worker in workers)

    def _check(self) -> None:
        """Refuse workers that differ, or that can't reach the shared folder; each is asked once."""
        shared = self._setting.shared
        with ExitStack() as stack:
            probe = ""
            if shared is not None:
                shared.mkdir(parents=True, exist_ok=True)
                probe = stack.enter_context(NamedTemporaryFile(dir=shared, suffix=".part")).name
            new = [where for where in self._client.nthreads() if where not in self._fit]
            asked = unfit, versions(), shared, probe
            said = self._client.run(*asked, workers=new, on_error="return") if new else {}
        there = self._client.nthreads()
        for where, what in said.items():
            if where in there and isinstance(what, Exception):
                raise InputError(f"worker {where} lacks tutti, or has another version: {_in_words(what)}")
            if where in there and what:
                raise InputError(f"worker {where} {what}")
        self._fit.update(said)

    def _outcome(self, task: Task, future: Any, result: Any) -> Outcome:
        """Return what became of a task; `result` is an error where the future's status says so."""
        if future.status == "finished":
            return _fetched(Path(result)) if isinstance(result, str) else result
        error = future.exception() if future.status == "error" else None
        if isinstance(error, _dask(self.address).KilledWorker):
            many = error.allowed_failures + 1
            return failure(task, f"{many} Dask workers were lost while they ran it: often out of memory")
        if isinstance(error, TuttiError):
            raise error
        if error is not None:
            raise TuttiError(f"{self.address}: a worker can't run {task}: {_in_words(error)}; {KEPT}")
        raise TuttiError(f"{self.address}: the scheduler is lost; {KEPT}")


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


def supervise(row: Call, theirs: Mapping[str, str]) -> Outcome | str:
    """Be a Dask task: give a row to this thread's process, and wait for it while it is wanted.

    Returns
    -------
    What became of it, or the file in the shared folder that says so.

    Raises
    ------
    TuttiError
        If something stops all rows, as in `Pool.run`, or this worker, which came late, differs from who asks.
    """
    worker = import_module("distributed").get_worker()
    shared = None if row.setting is None else row.setting.shared
    said = unfit(theirs, shared)
    if said:
        raise TuttiError(f"worker {worker.address} {said}; {KEPT}")
    key = worker.get_current_task()
    if shared is not None and (shared / key).exists():  # it was lost with another worker, its outcome was not
        return str(shared / key)
    _began[key] = time.monotonic()
    worker.metrics[RUNS] = began_here
    try:
        outcome = _attended(row, key, worker)
    finally:
        del _began[key]
    return outcome if shared is None else _left_in(shared, key, outcome)


def _attended(row: Call, key: str, worker: Any) -> Outcome:
    process = _process(None if row.setting is None else row.setting.plugins)
    process.watched = row.task.memory is not None
    process.give(row, row.task.time_limit, row.task.memory)
    ended = None
    while ended is None:
        patience = process.patience()
        wait([process.pipe], LOOK_SECONDS if patience is None else min(patience, LOOK_SECONDS))
        ended = process.step()
        if ended is None and not _wanted(key, worker):
            process.end()
            raise import_module("distributed").Reschedule  # elsewhere, if somebody wants it again
    return outcome_of(row.task, ended)


def unfit(theirs: Mapping[str, str], shared: Path | None, probe: str = "") -> str:
    """Return in what this worker differs from who asks; nothing where it is fit.

    Parameters
    ----------
    theirs
        The versions that they have.
    shared
        A folder that both must reach.
    probe
        A file that they have put there.
    """
    said = _differences(theirs, versions())
    if said:
        return f"differs: {said}"
    if shared is not None and not (os.access(shared, os.W_OK) and (shared / probe).exists()):
        return f"can't reach the shared folder {shared}"
    return ""


_began: dict[str, float] = {}
"""When each row began that runs here, on the monotonic clock."""


def began_here(worker: Any) -> dict[str, float]:
    """Return for how many seconds each row has run that runs here; each heartbeat tells the scheduler."""
    return {key: time.monotonic() - began for key, began in list(_began.items())}


_here = threading.local()


def _process(plugins: Loaded | None) -> Worker:
    """Return this thread's process, a new one where the last has ended, or has loaded other plug-ins."""
    process: Worker | None = getattr(_here, "process", None)
    if process is not None and _here.plugins != plugins:
        process.end(SHUTDOWN_SECONDS)
    if process is None or process.process.exitcode is not None:
        process = _here.process = Worker.fresh("experiments.runner.pool:work_afar")
        _here.plugins = plugins
    return process


def _wanted(key: str, worker: Any) -> bool:
    """Whether the scheduler still waits for a task that runs here, and the worker is not about to end."""
    known = worker.state.tasks.get(key)
    return worker.status.name in WORKING and known is not None and known.state != "cancelled"


def _left_in(shared: Path, key: str, outcome: Outcome) -> str:
    """Write an outcome to the shared folder, whole or not at all, and return the file."""
    try:
        whole = shared / f"{key}.{uuid4().hex}"  # another worker may run the same row
        with replacing(whole) as draft:
            draft.write_bytes(import_module("distributed.protocol").serialize_bytes(outcome))
        whole.replace(shared / key)
    except OSError as error:
        raise DiskError(f"{one_line(error)}; {KEPT}") from error
    return str(shared / key)


def _fetched(path: Path) -> Outcome:
    """Return the outcome in a file of the shared folder."""
    try:
        outcome: Outcome = import_module("distributed.protocol").deserialize_bytes(path.read_bytes())
    except OSError as error:
        raise DiskError(f"{one_line(error)}; {KEPT}") from error
    except Exception as error:
        raise TuttiError(f"{path}: it is damaged; remove it, and the row runs again; {KEPT}") from error
    return outcome


def _files(folder: Path | None) -> dict[str, Path]:
    """Return what is in a folder, by name."""
    if folder is None:
        return {}
    with os.scandir(folder) as entries:
        return {entry.name: Path(entry.path) for entry in entries}


def _names(client: Any, study: str) -> list[str]:
    """Return the names under which the tasks of a study were left with a scheduler."""
    return [name for name in client.list_datasets() if isinstance(name, str) and name.startswith(f"{study} ")]


def _began_there(client: Any) -> dict[str, dict[str, float]]:
    """Return for how many seconds each row has run, of each worker."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return {where: worker["metrics"].get(RUNS, {}) for where, worker in workers.items()}


def withdraw(held: Detached) -> None:
    """Let a scheduler forget a study; what runs ends.

    Raises
    ------
    InputError
        If it does not answer.
    """
    with _client(held.scheduler) as client:
        client.unpublish_dataset(_names(client, held.study))


def look(held: Detached) -> dict[str, Any]:
    """Return how many tasks of a study are with a scheduler, how many have ended, and what workers run.

    Raises
    ------
    InputError
        As `withdraw`.
    """
    with _client(held.scheduler) as client:
        keys = {name.rpartition(" ")[2] for name in _names(client, held.study)}
        ended = sum(key in keys and bool(workers) for key, workers in client.who_has().items())
        rows = _began_there(client)
        running = sum(key in keys for began in rows.values() for key in began)
        return {"tasks": len(keys), "ended": ended, "workers": len(rows), "running": running}


def _in_words(error: Exception) -> str:
    """Return an error of a worker in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _dask(address: str) -> Any:
    """Return the package, which is slow to import, and which not everyone has."""
    try:
        return import_module("distributed")
    except ImportError:
        raise InputError(f"--scheduler {address} needs Dask: {installing('cluster')}") from None


def _differences(own: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """Return what is of another version there."""
    return ", ".join(
        f"{name} {str(theirs.get(name, 'is missing'))[:12]} (here {str(own.get(name, 'none'))[:12]})"
        for name in sorted({*own, *theirs})
        if own.get(name) != theirs.get(name)
    )


@contextmanager
def _client(address: str, security: Any = None) -> Iterator[Any]:
    """Yield a client of a scheduler that has answered. The default of `security` is that of Dask's config."""
    check_address(address)
    dask = _dask(address)
    hush()
    security = dask.Security() if security is None else security
    try:
        kind = asyncio.run(_kind(address, security))
        if kind != "Scheduler":
            raise InputError(f"--scheduler {address}: that is a {kind}, no Dask scheduler")
        client = dask.Client(address, timeout=ANSWER_SECONDS, set_as_default=False, security=security)
    except OSError as error:
        raise InputError(f"--scheduler {address}: nobody answers within {ANSWER_SECONDS:g} s") from error
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"--scheduler {address}: {error}") from error
    with client:
        version = client.get_versions()["scheduler"]["packages"]["distributed"]
        if version != dask.__version__:
            raise InputError(
                f"--scheduler {address} has distributed {version}, not {dask.__version__} as here"
            )
        yield client


async def _kind(address: str, security: Any) -> str:
    """Return what answers at an address: a client would wait endlessly for anything but a scheduler."""
    how = security.get_connection_args("client")
    async with _dask(address).rpc(address, timeout=ANSWER_SECONDS, connection_args=how) as there:
        kind: str = (await asyncio.wait_for(there.identity(), ANSWER_SECONDS))["type"]
        return kind

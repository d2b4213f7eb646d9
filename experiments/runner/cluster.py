"""The same tasks on a Dask cluster: each row in a process of its own, which a Dask task only watches.

A synthesis is minutes of native code that may hold the interpreter, and Dask takes a worker that doesn't
answer for dead. So a Dask task gives the row to a process as the pool's, with the row's limits, waits for it
without holding anything, and ends it where nobody wants the row any more. Rows and schedules come back as
bytes; who asked keeps them.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from multiprocessing.connection import wait
from typing import Any

from experiments.runner.manifest import versions
from experiments.runner.pool import KEPT, Call, Setting, cause, known_bounds, nobody, outcome_of
from experiments.runner.tasks import Outcome, Task, failure
from topologies.errors import InputError, TuttiError
from topologies.processes import Caller, End, Worker

ADDRESS = re.compile(r"[a-z]+://.+:\d+")
HERE = "local:"
"""An address that begins so starts a cluster on this machine, of so many workers."""
ANSWER_SECONDS = 10.0
"""How long a scheduler may take to answer."""
LOOK_SECONDS = 0.5
"""Between two looks at whether a row is still wanted."""
AHEAD = 3
"""So many rows are with the cluster for each of its threads: one to run, the others to go on with."""
NOISY = frozenset({"distributed", "tornado", "asyncio"})
"""Packages that log for themselves; some of their loggers have levels of their own."""
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

    Raises
    ------
    InputError
        If nobody answers there, or what answers has other versions of anything that results depend on.
    """

    def __init__(self, address: str, setting: Setting) -> None:
        self.address, self._setting, self._stack = address, setting, ExitStack()
        self._here: _Here | None = None
        self._threads, self._looked = 1, -LOOK_SECONDS

    def __enter__(self) -> Cluster:
        with ExitStack() as stack:
            if self.address.startswith(HERE):
                self._here = stack.enter_context(_Here(_count(self.address)))
                self.address = self._here.address
            self._client = stack.enter_context(_client(self.address))
            self._check()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def run(
        self,
        tasks: Sequence[Task],
        bounds: dict[str, Any],
        started: Callable[[Task], None] = nobody,
    ) -> Iterator[tuple[Task, Outcome]]:
        """Yield each task with its outcome, as `Pool.run`; one whose worker is lost runs again elsewhere.

        Raises
        ------
        TuttiError
            If the scheduler is lost.
        """
        waiting, running = deque(tasks), dict[str, Task]()
        done = _dask(self.address).as_completed(loop=self._client.loop, with_results=True, raise_errors=False)
        while waiting or running:
            while waiting and len(running) < self._room():
                task = waiting.popleft()
                running[task.key] = task
                started(task)
                done.add(self._submit(task, known_bounds(task, bounds)))
            future, result = next(done)
            task = running.pop(future.key)
            outcome = _outcome(task, future, result, self.address)
            bounds.update(outcome.bounds)
            yield task, outcome
            future.release()

    @property
    def workers(self) -> list[int]:
        """The processes of the workers that were started here."""
        return [] if self._here is None else self._here.processes

    def _submit(self, task: Task, known: Mapping[str, Any]) -> Any:
        needs = {} if task.memory is None or not self._counts_memory else {MEMORY: task.memory}
        call = Call(task, known, self._setting)
        return self._client.submit(supervise, call, versions(), key=task.key, pure=False, resources=needs)

    def _room(self) -> int:
        """Return how many rows may be with the cluster; it is asked now and then, as workers come and go."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._threads = max(1, sum(self._client.nthreads().values()))
            self._looked = time.monotonic()
        return AHEAD * self._threads

    @property
    def _counts_memory(self) -> bool:
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return any(MEMORY in worker["resources"] for worker in workers)

    def _check(self) -> None:
        """Refuse workers with other versions."""
        own = versions()
        if self._here is not None:
            self._client.wait_for_workers(1)
        for where, theirs in self._client.run(their_versions, on_error="return").items():
            if isinstance(theirs, Exception):
                raise InputError(f"worker {where}: {type(theirs).__name__}: {theirs}".partition("\n")[0])
            said = _differences(own, theirs)
            if said:
                raise InputError(f"worker {where} differs: {said}")


def supervise(row: Call, theirs: Mapping[str, str]) -> Outcome:
    """Be a Dask task: give a row to this thread's process, and wait for it while it is wanted.

    Raises
    ------
    TuttiError
        If something stops all rows, as in `Pool.run`, or this worker, which came late, has other versions
        than who asks.
    """
    said = _differences(theirs, versions())
    if said:
        raise TuttiError(
            f"worker {import_module('distributed').get_worker().address} differs: {said}; {KEPT}"
        )
    process = _process()
    process.give(row, row.task.time_limit, row.task.memory)
    ended = None
    while ended is None:
        patience = process.patience()
        wait([process.pipe], LOOK_SECONDS if patience is None else min(patience, LOOK_SECONDS))
        ended = process.step()
        if ended is None and not _wanted(row.task.key):
            process.end()
            return failure(row.task, "nobody wants it any more")
    return outcome_of(row.task, ended)


def their_versions() -> dict[str, str]:
    """Return the versions that a worker has."""
    return versions()


_here = threading.local()


def _process() -> Worker:
    """Return this thread's process, a new one where the last has ended."""
    process: Worker | None = getattr(_here, "process", None)
    if process is None or process.process.exitcode is not None:
        process = _here.process = Worker.fresh("experiments.runner.pool:work_afar")
    return process


def _wanted(key: str) -> bool:
    """Whether the scheduler still waits for a task that runs here."""
    known = import_module("distributed").get_worker().state.tasks.get(key)
    return known is not None and known.state != "cancelled"


def _outcome(task: Task, future: Any, result: Any, address: str) -> Outcome:
    """Return what became of a task; `result` is an error where the future's status says so."""
    dask = _dask(address)
    if future.status == "finished":
        outcome: Outcome = result
        return outcome
    error = future.exception() if future.status == "error" else None
    if isinstance(error, dask.KilledWorker):
        many = error.allowed_failures + 1
        return failure(task, f"{many} Dask workers were lost while they ran it: often out of memory")
    if isinstance(error, Exception):
        raise error
    raise TuttiError(f"{address}: the scheduler is lost; {KEPT}")


def _dask(address: str) -> Any:
    """Return the package, which is slow to import, and which not everyone has."""
    try:
        return import_module("distributed")
    except ImportError:
        raise InputError(f"--scheduler {address} needs Dask: pip install 'tutti[cluster]'") from None


def _hush() -> None:
    """Keep Dask, which is imported, from writing what it meets: we say it, in one line."""
    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in NOISY]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _count(address: str) -> int:
    text = address.removeprefix(HERE)
    if not text.isdigit() or not int(text):
        raise InputError(f"--scheduler {address}: write local:4 for a scheduler and 4 workers here")
    return int(text)


def _differences(own: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """Return what is of another version there."""
    return ", ".join(
        f"{name} {str(theirs.get(name, 'is missing'))[:12]} (here {str(own.get(name, 'none'))[:12]})"
        for name in sorted({*own, *theirs})
        if own.get(name) != theirs.get(name)
    )


@contextmanager
def _client(address: str) -> Iterator[Any]:
    """Give a client of a scheduler, once it has answered."""
    if not ADDRESS.fullmatch(address):
        raise InputError(f"--scheduler {address}: write tcp://host:8786, or local:4 for 4 workers here")
    dask = _dask(address)
    _hush()
    try:
        kind = asyncio.run(_kind(address))
        if kind != "Scheduler":
            raise InputError(f"--scheduler {address}: that is a {kind}, no Dask scheduler")
        client = dask.Client(address, timeout=ANSWER_SECONDS, set_as_default=False)
    except OSError as error:
        raise InputError(f"--scheduler {address}: nobody answers within {ANSWER_SECONDS:g} s") from error
    except (ValueError, TypeError) as error:
        raise InputError(f"--scheduler {address}: {error}") from error
    with client:
        version = client.get_versions()["scheduler"]["packages"]["distributed"]
        if version != dask.__version__:
            raise InputError(
                f"--scheduler {address} has distributed {version}, not {dask.__version__} as here"
            )
        yield client


async def _kind(address: str) -> str:
    """Return what answers at an address; a client would wait for ever for one that never is a scheduler."""
    async with _dask(address).rpc(address, timeout=ANSWER_SECONDS) as there:
        kind: str = (await asyncio.wait_for(there.identity(), ANSWER_SECONDS))["type"]
        return kind


class _Here:
    """A scheduler and workers on this machine, each in a process of its own; use it in a ``with`` block."""

    def __init__(self, count: int) -> None:
        self._count, self._workers = count, list[Worker]()
        self._closing = threading.Event()
        self._watch = threading.Thread(target=self._mend, daemon=True)

    def __enter__(self) -> _Here:
        self._scheduler, self.address = _served("experiments.runner.cluster:be_scheduler", None)
        self._watch.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._closing.set()
        self._watch.join()
        for process in (*self._workers, self._scheduler):
            process.end()

    @property
    def processes(self) -> list[int]:
        """The numbers of the workers' processes."""
        return [worker.process.pid for worker in self._workers]

    def _mend(self) -> None:
        """Start workers, and others for those that have ended."""
        while True:
            self._workers = [worker for worker in self._workers if worker.process.exitcode is None]
            while len(self._workers) < self._count and not self._closing.is_set():
                self._workers.append(_served("experiments.runner.cluster:be_worker", self.address)[0])
            if self._closing.wait(LOOK_SECONDS):
                return


def _served(entry: str, call: Any) -> tuple[Worker, str]:
    """Start a process that serves Dask, and return it with its address."""
    process = Worker.fresh(entry)
    process.give(call)
    ended = process.finish()
    if ended.how is not End.ANSWER:
        raise TuttiError(f"a Dask process could not start: {cause(ended)}")
    return process, ended.answer


def be_scheduler(caller: Caller) -> None:
    """Be a Dask scheduler until whoever started it is gone."""
    dask = import_module("distributed")
    place = {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
    _serve(caller, lambda call: dask.Scheduler(**place))


def be_worker(caller: Caller) -> None:
    """Be a Dask worker of one thread until whoever started it is gone."""
    dask = import_module("distributed")
    _serve(caller, lambda address: dask.Worker(address, host="127.0.0.1", nthreads=1, memory_limit=0))


def _serve(caller: Caller, make: Callable[[Any], Any]) -> None:
    _hush()

    async def served(call: Any) -> str:
        server = await make(call)
        address: str = server.address
        return address

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    caller.serve(lambda call: asyncio.run_coroutine_threadsafe(served(call), loop).result())

"""A Dask cluster on this machine: a scheduler and workers, each in a process of its own.

Dask runs any code that it is sent. All connections are therefore encrypted, and both ends must show a
certificate. This process creates the certificate and gives it to the processes that it starts. No other user
of the machine has it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tutti.experiments.runner.pool import cause
from tutti.topologies.errors import InputError, TuttiError, installing
from tutti.topologies.processes import CallEnd, Caller, Worker

HERE = "local:"
"""An address that begins so starts a cluster on this machine, of so many workers."""
MOST_HERE = 256
"""More workers than this on one machine are a slip of the hand."""
LOOK_SECONDS = 0.5
"""Between two looks at whether a worker has ended."""
NOISY = frozenset({"distributed", "tornado", "asyncio"})
"""Packages that log for themselves; some of their loggers have levels of their own."""


def count_of(address: str) -> int:
    """Return the number of workers in ``local:N``.

    Raises
    ------
    InputError
        If there is none, or too large a one.
    """
    text = address.removeprefix(HERE)
    if not text.isdecimal() or len(text) > len(str(MOST_HERE)) or not 0 < int(text) <= MOST_HERE:
        raise InputError(
            f"--scheduler {address}: write local:4 for a scheduler and 4 workers here, {MOST_HERE} at most"
        )
    return int(text)


def hush() -> None:
    """Keep Dask, which is imported, from writing what it meets: we say it, in one line."""
    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in NOISY]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


class LocalCluster:
    """A scheduler and workers on this machine; use it in a ``with`` block.

    Parameters
    ----------
    count
        Workers.

    Attributes
    ----------
    address
        Of the scheduler.
    security
        The certificate and its key, which live in memory as long as the cluster.
    """

    def __init__(self, count: int) -> None:
        self.security = _certificate()
        self._count, self._workers = count, list[Worker]()
        self._closing = threading.Event()
        self._watch = threading.Thread(target=self._mend, daemon=True)

    def __enter__(self) -> LocalCluster:
        self._scheduler, self.address = _served(
            "tutti.experiments.runner.local_cluster:be_scheduler", self.security
        )
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
                call = self.address, self.security
                self._workers.append(_served("tutti.experiments.runner.local_cluster:be_worker", call)[0])
            if self._closing.wait(LOOK_SECONDS):
                return


def _certificate() -> Any:
    """Return a new certificate in Dask's form. This needs the optional libraries Dask and cryptography."""
    try:
        return import_module("distributed").Security.temporary()
    except ImportError:
        what = f"--scheduler {HERE}N needs Dask and cryptography"
        raise InputError(f"{what}: {installing('cluster')}") from None


def _served(entry: str, call: Any) -> tuple[Worker, str]:
    """Start a process that serves Dask, and return it with its address."""
    process = Worker.fresh(entry)
    process.give(call)
    ended = process.finish()
    if ended.how is not CallEnd.ANSWER:
        raise TuttiError(f"a Dask process could not start: {cause(ended)}")
    return process, ended.answer


def be_scheduler(caller: Caller) -> None:
    """Be a Dask scheduler until the parent process ends."""
    dask = import_module("distributed")
    place = {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
    _serve(caller, lambda security: dask.Scheduler(**place, protocol="tls", security=security))


def be_worker(caller: Caller) -> None:
    """Be a Dask worker of one thread until the parent process ends."""
    dask = import_module("distributed")
    place = {"host": "127.0.0.1", "nthreads": 1, "memory_limit": 0}
    _serve(caller, lambda call: dask.Worker(call[0], **place, protocol="tls", security=call[1]))


def _serve(caller: Caller, make: Callable[[Any], Any]) -> None:
    hush()

    async def served(call: Any) -> str:
        server = await make(call)
        address: str = server.address
        return address

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    caller.serve(lambda call: asyncio.run_coroutine_threadsafe(served(call), loop).result())

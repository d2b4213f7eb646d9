"""A worker process: performs tasks one after the other until its pipe closes."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from schedules.method import Method
from topologies.errors import TuttiError

READY, STAGE, PAUSE, RESUME, DONE, DISK = "ready", "stage", "pause", "resume", "done", "disk"
"""What a worker tells: it can begin; the stage of its task; compilation, which no time limit counts, has
begun or ended; what became of the task; the disk is full or can't be written."""


@dataclass(frozen=True)
class Setting:
    """What is the same for all tasks of a run.

    Parameters
    ----------
    registry
        ``"module:NAME"`` of the mapping that holds the methods.
    schedules
        The directory that schedules go to; None keeps none.
    perform
        ``"module:NAME"`` of the function that performs a task.
    """

    registry: str = "experiments.registry:METHODS"
    schedules: Path | None = None
    perform: str = "experiments.runner.tasks:perform"


def load_methods(registry: str) -> Mapping[str, Method]:
    """Return the methods under ``"module:NAME"``."""
    methods: Mapping[str, Method] = load(registry)
    return methods


def load(place: str) -> Any:
    """Return what stands at ``"module:NAME"``."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def work(connection: Connection, setting: Setting) -> None:
    """Receive ``(task, bounds)``; send what is said above, each with its stage, outcome or message."""
    _obey_parent()
    # Imported here: this module is for both sides, and what follows is heavy.
    from experiments.runner.tasks import CompilationListener, Workplace

    perform = load(setting.perform)
    CompilationListener(lambda: connection.send((PAUSE, None)), lambda: connection.send((RESUME, None)))
    place = Workplace(load_methods(setting.registry), setting.schedules, {}, _teller(connection))
    connection.send((READY, None))
    while True:
        try:
            task, bounds = connection.recv()
        except EOFError:
            return
        place.bounds.update(bounds)
        try:
            connection.send((DONE, perform(task, place)))
        except BrokenPipeError:
            return
        except (OSError, TuttiError) as error:
            connection.send((DISK, one_line(error)))


def one_line(error: Exception) -> str:
    """Return an error of the system as ``"file: reason"``."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _teller(connection: Connection) -> Callable[[str], None]:
    def tell(stage: str) -> None:
        connection.send((STAGE, stage))

    return tell


def _obey_parent() -> None:
    """Leave Ctrl-C to the parent, end with it even if it was killed, and say what solvers print to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if sys.stdout is not None and sys.stderr is not None:  # closed ones (``>&-``) print nothing anyway
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)

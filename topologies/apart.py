"""Calls that end at their time limit, whatever they do: each runs in a copy of this process, which is killed.

An exception that a signal's handler raises can't end a kernel or a solver. If it is raised in Python code
that compiled code has called, it can end the process (`topologies.interruption`). A process can be killed at
any moment, and its death counts as an answer: `best` continues with its next method, also after a crash.

The copy is made by ``fork``, so that it has every kernel, network and method that is loaded here, and needs
no import. It lives from one call to the next, and keeps what calls load and cache; after it was killed the
next call makes another, in some 10 ms. A call costs two messages (less than a millisecond) and the pickling
of its argument and of its result.

Copies do no harm, for these reasons. A copy has one thread and never returns into the code that made it. It
ends by ``_exit``, which flushes no buffer and runs no handler of the parent's. Locks that other threads hold
at the fork stay locked in the copy, so the copy must not need them. It writes through its own pipe and
streams. The thread that forks holds the lock of numba's compiler. Python and the C library reset their own
locks. The copy leaves Ctrl-C to its parent and ends with it. A copy that hangs is killed at its limit.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from tutti.topologies import progress
from tutti.topologies.kernels import COMPILATION
from tutti.topologies.processes import CallEnd, Caller, Ended, Worker

STARTED, FINISHED = True, False
"""A copy sends these when it starts and finishes compiling. A text that it sends is a progress report."""


class Apart:
    """Calls of one function in a copy of this process; use it in a ``with`` block, which ends the copy.

    Parameters
    ----------
    perform
        The function that the copy calls. Its argument and its result are pickled.
    """

    def __init__(self, perform: Callable[[Any], Any]) -> None:
        self._perform = perform
        self._worker: Worker | None = None

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill the copy, if there is one."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()

    def call(self, value: Any, limit: float | None = None) -> Ended:
        """Call the function, for at most `limit` seconds unless that is None, and return how the call ended.

        Both the clock and this process's own (`COMPILATION`) stand still while the copy compiles kernels.
        """
        depth = 0

        def hear(message: Any) -> None:
            nonlocal depth
            if isinstance(message, str):
                progress.tell(message)
            elif message is STARTED:
                depth += 1
                COMPILATION.start()
            else:
                depth -= 1
                COMPILATION.end()

        ended, compiling = None, COMPILATION.seconds
        try:
            self.begin(value, limit, hear)
            ended = self.answer()
        finally:
            for _ in range(depth):
                COMPILATION.end()
            if ended is None:
                self.end()
        if ended.how is not CallEnd.ANSWER:
            return ended
        answer, seconds = ended.answer
        COMPILATION.seconds = compiling + seconds  # as the copy measured it
        return replace(ended, answer=answer)

    def begin(
        self, value: Any, limit: float | None = None, notify: Callable[[Any], None] | None = None
    ) -> None:
        """Begin a call beside this process; its limit counts from when `answer` waits for it."""
        if self._worker is None:
            with _compiler_lock() or contextlib.nullcontext():
                self._worker = Worker.copied(self._serve)
        self._worker.give(value, limit, notify=notify)

    def answer(self) -> Ended:
        """Wait for the call that was begun: how it ended, with its result and the seconds of compiling."""
        ended = cast(Worker, self._worker).finish()
        if ended.exitcode is not None:
            self.end()
        return ended

    def _serve(self, caller: Caller) -> None:
        """Serve calls in the copy."""
        lock = _compiler_lock()
        if lock is not None:
            lock.release()  # this thread has held it since before the fork

        def before() -> None:
            caller.pause_clock()
            caller.tell(STARTED)

        def after() -> None:
            caller.tell(FINISHED)
            caller.resume_clock()

        def perform(value: Any) -> Any:
            caller.start_clock()
            compiling = COMPILATION.seconds
            return self._perform(value), COMPILATION.seconds - compiling

        COMPILATION.watchers[:] = [(before, after)]
        with progress.listening_alone(caller.tell):
            caller.serve(perform)


def _compiler_lock() -> Any:
    """Return the lock of numba's compiler; None if that is not loaded."""
    module = sys.modules.get("numba.core.compiler_lock")
    return None if module is None else module.global_compiler_lock._lock  # noqa: SLF001

"""Exceptions of signal handlers (Ctrl-C, time limits), raised only where they can do no harm.

Python runs a signal's handler between any two instructions of the main thread, so also in a Python function
that compiled code has called. If an exception is raised there, that code may take the missing result for an
object. numba does so when a kernel is handed a `numpy.random.Generator`: it calls ``ctypes.cast`` and reads
an attribute of what that returned, and if it returned nothing the process ends by SIGSEGV at address 8. It
does so, too, with the constructor of a named tuple that a kernel returns. Elsewhere the exception is printed
and lost (finalizers, callbacks of weak references, of ctypes and of llvmlite), or taken for a failed import.
No list of such places can be complete.

This module therefore lists the safe places instead. An exception is raised only in *own* code. Everywhere
else the handler returns and looks again soon (`AGAIN_SECONDS`). Own code is Python of this project or of its
caller: typed by hand, or from a file outside the standard library and outside of installed packages. Own code
is called by Python or by C code that checks for errors: no kernel calls it, and it is no object's finalizer.
Functions of the standard library that wait (`WAITS`) count as own code, because otherwise a wait could not be
ended. Nothing is raised while a module is imported, while numba is at work, or while a handler runs further
out on the stack. So no exception passes through code that does not expect one. The worst case is a delay
until a kernel, a solver or an import is done. What must not be delayed is called in a process that can be
killed (`topologies.apart`).
"""

from __future__ import annotations

import atexit
import math
import os
import signal
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_stack
from types import FrameType

FOREVER = 1e9
"""A time in seconds that is longer than the system's timers can hold. It means no limit."""
AGAIN_SECONDS, HALVINGS = 0.002, 9
"""The longest time in seconds until the next look, and one more than the number of times it may be halved.

The number of halvings is random. If kernels take all the time, a signal always arrives during one and is
handled in the constructor of what the kernel returns. A short time then hits own code between two kernels.
A larger longest time ends calls later and costs less.
"""
OWN = f"{Path(__file__).parents[1]}{os.sep}"
"""The folder of this package. Its files count as own code also where they are installed."""
LIBRARY = Path(sysconfig.get_path("stdlib"))
INSTALLED = (str(LIBRARY), f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
"""Parts of the names of files of the standard library and of installed packages."""
WAITS = tuple(
    str(LIBRARY.joinpath(*parts))
    for parts in (
        ("selectors.py",),
        ("subprocess.py",),
        ("threading.py",),
        ("multiprocessing", "connection.py"),
        ("concurrent", "futures", "thread.py"),
    )
)
"""Files of the standard library whose functions wait."""
WHOLE = ("<frozen importlib", f"{os.sep}numba{os.sep}", f"{os.sep}llvmlite{os.sep}")
"""Parts of files' names. Nothing is raised while one of these files is on the stack."""


class Wanted:
    """The exceptions that the handler of SIGALRM has still to raise in this process.

    Attributes
    ----------
    stop
        Whether to raise KeyboardInterrupt as soon as possible.
    left
        Returns the seconds until a time limit's exception is due; infinity means no limit.
    error
        The time limit's exception.
    """

    def __init__(self) -> None:
        self.stop = False
        self.left: Callable[[], float] = _never
        self.error: type[BaseException] = KeyboardInterrupt

    def look(self, number: int, frame: FrameType | None) -> None:
        """Signal handler: raise what is due, or set the timer for another look."""
        left = 0.0 if self.stop else self.left()
        if left > 0 or not may_raise(frame):
            self.look_in(max(left, AGAIN_SECONDS / 2 ** (time.perf_counter_ns() % HALVINGS)))
            return
        error, self.stop = KeyboardInterrupt if self.stop else self.error, False
        self.look_in(math.inf)
        raise error

    def look_in(self, seconds: float) -> None:
        """Set the timer for the next look, in seconds; if they are infinite there is none."""
        signal.setitimer(signal.ITIMER_REAL, 0 if math.isinf(seconds) else min(seconds, FOREVER))

    def forget(self) -> None:
        """Raise nothing more: the process is about to end, and no code would handle an exception."""
        self.stop, self.left = False, _never
        self.look_in(math.inf)


def _never() -> float:
    return math.inf


WANTED = Wanted()


def may_raise(frame: FrameType | None) -> bool:
    """Return whether it is safe to raise an exception in a frame that a signal interrupted."""
    if frame is None:
        return False
    file = frame.f_code.co_filename
    theirs = not file.startswith(os.sep) or any(part in file for part in INSTALLED)
    typed = frame.f_globals.get("__name__") == "__main__"
    if theirs and not typed and not file.startswith((OWN, *WAITS)):
        return False
    codes = [place.f_code for place, _ in walk_stack(frame)]
    return not any(code in _HANDLERS or part in code.co_filename for code in codes for part in WHOLE)


def stop(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt as soon as that is safe; the second time immediately, even if it is not.

    It is a handler for ``signal.signal``.
    """
    signal.signal(number, signal.default_int_handler)
    if not WANTED.stop:
        atexit.register(WANTED.forget)
    WANTED.stop = True
    signal.signal(signal.SIGALRM, WANTED.look)
    WANTED.look(signal.SIGALRM, frame)


_HANDLERS = (Wanted.look.__code__, stop.__code__)
"""The code of this module's handlers. Nothing is raised while one is on the stack, because an exception in a
handler passes to the code that it interrupted."""


class OutOfTime(BaseException):
    """The time limit has ended. It is no `Exception`, so that code that ignores errors does not catch it."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the ``with`` block if it takes longer.

    It is raised where that does no harm (`topologies.interruption`), so a kernel that is running ends first,
    and what is being compiled or imported is kept whole. A call that must end immediately runs in another
    process (`topologies.apart`). Blocks must not be nested. In threads other than the main one there is no
    limit, because Python handles signals in the main thread alone.

    Parameters
    ----------
    seconds
        Above 0, on a clock that stands still while kernels are compiled; beyond `FOREVER` there is no limit.
    """
    from tutti.topologies.kernels import (
        COMPILATION,
        now,
    )  # this imports numpy, which ``tutti --version`` does not need

    if seconds > FOREVER or threading.current_thread() is not threading.main_thread():
        yield
        return
    until, never = now() + seconds, WANTED.left

    def left() -> float:
        return max(until - now(), AGAIN_SECONDS if COMPILATION.under_way else 0.0)

    before = signal.signal(signal.SIGALRM, WANTED.look)
    WANTED.left, WANTED.error = left, OutOfTime
    try:
        WANTED.look_in(seconds)
        yield
    finally:
        WANTED.left = never
        if not WANTED.stop:
            WANTED.look_in(math.inf)
            signal.signal(signal.SIGALRM, before)

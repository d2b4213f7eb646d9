"""Time limits and Ctrl-C inside this process, raised only where an exception can do no harm.

Python runs a signal's handler between any two instructions of the main thread, so also in a Python function
that compiled code has called. If an exception is raised there, that code may take the missing result for an
object. numba does so when a kernel is handed a `numpy.random.Generator`: it calls ``ctypes.cast`` and reads
an attribute of what that returned, and if it returned nothing the process ends by SIGSEGV at address 8. It
does so, too, with the constructor of a named tuple that a kernel returns. Elsewhere the exception is printed
and lost (finalizers, callbacks of weak references, of ctypes and of llvmlite), or taken for a failed import.
No list of such places can be complete.

So here it is the other way round: an exception is raised only in *own* code, and everywhere else the handler
returns and looks again soon (`AGAIN_SECONDS`). Own code is Python from a file, of this project or of whoever
calls it: outside the standard library and outside of installed packages. What calls own code is Python, or C
code that checks for errors, since kernels call none and nobody installs own code as a finalizer. Functions of
the standard library that wait (`WAITS`) count as own code, or a wait could not be ended. While a module is
imported, numba is at work or a handler runs further out on the stack, nothing is raised either. So no
exception ever passes through code that does not expect one, and the worst that happens is a delay, until a
kernel, a solver or an import is done. What must not be delayed is called in a process that can be killed
(`topologies.apart`).
"""

from __future__ import annotations

import math
import os
import signal
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_stack
from types import FrameType

from topologies.kernels import COMPILATION, now

FOREVER = 1e9
"""More seconds than the system's timers can hold: no limit."""
AGAIN_SECONDS, HALVINGS = 0.002, 9
"""The longest time until the next look, where nothing may be raised yet, and how often it may be halved.

Times are drawn by chance. Where kernels take all the time, a signal always comes while one runs, and is
looked at in the constructor of what it returns: then one of the shortest finds own code between two kernels.
"""
ROOT = Path(__file__).parents[1]
OWN = tuple(
    f"{ROOT / folder}{os.sep}"
    for folder in ("topologies", "schedules", "models", "heuristics", "expansions", "experiments")
)
"""Where this project's code is, which may itself be installed."""
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
"""Parts of files' names: nothing is raised while one of these runs, or what it has called."""


class OutOfTime(BaseException):
    """The time is over. No `Exception`: a method that passes over others' faults does not pass over this."""


class _Wanted:
    """What is to be raised: `OutOfTime` at a moment of `now`, or KeyboardInterrupt as soon as possible."""

    until = math.inf
    stop = False

    def look(self, number: int, frame: FrameType | None) -> None:
        """Raise what is due, as a signal's handler, or see to it that there is another look."""
        left = 0.0 if self.stop else self.until - now()
        if left > 0 or (COMPILATION.under_way and not self.stop) or not may_raise(frame):
            soon = AGAIN_SECONDS / 2 ** (time.perf_counter_ns() % HALVINGS)
            signal.setitimer(signal.ITIMER_REAL, min(max(left, soon), FOREVER))
        elif self.stop:
            self.stop = False
            raise KeyboardInterrupt
        else:
            raise OutOfTime


_WANTED = _Wanted()


def may_raise(frame: FrameType | None) -> bool:
    """Return whether an exception does no harm in a frame, the one that a signal interrupted."""
    if frame is None:
        return False
    file = frame.f_code.co_filename
    theirs = not file.startswith(os.sep) or any(part in file for part in INSTALLED)
    if theirs and not file.startswith((*OWN, *WAITS)):
        return False
    codes = [place.f_code for place, _ in walk_stack(frame)]
    return not any(code in _HANDLERS or part in code.co_filename for code in codes for part in WHOLE)


def stop(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt as soon as that does no harm; the second time at once, whatever that harms.

    It is a handler for ``signal.signal``.
    """
    signal.signal(number, signal.default_int_handler)
    _WANTED.stop = True
    if math.isinf(_WANTED.until):
        signal.signal(signal.SIGALRM, _WANTED.look)
    _WANTED.look(signal.SIGALRM, frame)


_HANDLERS = (_Wanted.look.__code__, stop.__code__)
"""What these raise passes to the code that they interrupted, and so does what is raised in these."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the ``with`` block if it takes longer.

    It is raised where that does no harm, so a kernel that is running ends first, and what is being compiled
    or imported is kept whole. Blocks are not to be nested. In threads other than the main one, which alone
    hear of signals, there is no limit.

    Parameters
    ----------
    seconds
        Above 0, on a clock that stands still while kernels are compiled; beyond `FOREVER` there is no limit.
    """
    if seconds > FOREVER or threading.current_thread() is not threading.main_thread():
        yield
        return
    _WANTED.until = now() + seconds
    before = signal.signal(signal.SIGALRM, _WANTED.look)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        _WANTED.until = math.inf  # a look that comes now raises nothing
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS if _WANTED.stop else 0)
        if not _WANTED.stop:
            signal.signal(signal.SIGALRM, before)

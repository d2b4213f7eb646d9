"""A time limit for calls that have none of their own: when it is over, they end by an exception."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from topologies.interruption import raise_in
from topologies.kernels import COMPILATION, now

FOREVER = 1e9
"""More than the system's timers know."""
AGAIN_SECONDS = 0.02
"""Until the next look, where a call can't be ended yet."""


class OutOfTime(BaseException):
    """The time is over. No `Exception`: a method that passes over others' faults does not pass over this."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the ``with`` block if it takes longer.

    It is raised as soon as Python runs, so a kernel that is running ends first, and what is being compiled or
    imported is kept whole. Blocks are not to be nested. In threads other than the main one, which alone hear
    of signals, there is no limit.

    Parameters
    ----------
    seconds
        Above 0, on a clock that stands still while kernels are compiled; beyond `FOREVER` there is no limit.
    """
    if seconds > FOREVER or threading.current_thread() is not threading.main_thread():
        yield
        return

    until = now() + seconds

    def over(number: int, frame: FrameType | None) -> None:
        left = until - now()
        if left <= 0 and not COMPILATION.under_way:
            raise_in(frame, OutOfTime())
        else:
            signal.setitimer(signal.ITIMER_REAL, max(left, AGAIN_SECONDS))

    before = signal.signal(signal.SIGALRM, over)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

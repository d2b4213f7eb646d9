"""A time limit for calls that have none of their own: when it is over, they end by an exception."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tutti.topologies.interruption import AGAIN_SECONDS, FOREVER, WANTED
from tutti.topologies.kernels import COMPILATION, now


class OutOfTime(BaseException):
    """The time is over. No `Exception`: a method that passes over others' faults does not pass over this."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the ``with`` block if it takes longer.

    It is raised where that does no harm (`topologies.interruption`), so a kernel that is running ends first,
    and what is being compiled or imported is kept whole. A call that must end immediately runs in another
    process (`topologies.apart`). Blocks are not to be nested. In threads other than the main one there is no
    limit, because Python handles signals in the main thread alone.

    Parameters
    ----------
    seconds
        Above 0, on a clock that stands still while kernels are compiled; beyond `FOREVER` there is no limit.
    """
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

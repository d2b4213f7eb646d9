"""What a computation took: seconds without just-in-time compilation, and peak memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from numba.core import event

COMPILING = "numba:compiler_lock"
"""Numba's event for compiling a kernel or loading a compiled one."""
MEGABYTE = 10**6
KIBIBYTE = 2**10
STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""What, written to `CLEAR_REFS`, sets the peak back to what is resident now (proc(5))."""


class Stopwatch:
    """Seconds spent inside the ``with`` block, less those in which numba compiled or loaded kernels.

    Attributes
    ----------
    seconds, compiling
        The two parts.
    """

    def __init__(self) -> None:
        self.seconds = self.compiling = 0.0

    def __enter__(self) -> Stopwatch:
        self._listener: Any = event.TimingListener()
        event.register(COMPILING, self._listener)
        self._start = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        elapsed = time.perf_counter() - self._start
        event.unregister(COMPILING, self._listener)
        self.compiling = self._listener.duration if self._listener.done else 0.0
        self.seconds = max(elapsed - self.compiling, 0.0)


class CompilationListener(event.Listener):
    """Calls `started` and `ended` around each stretch in which numba compiles or loads kernels."""

    def __init__(self, started: Callable[[], None], ended: Callable[[], None]) -> None:
        self._started, self._ended, self._depth = started, ended, 0
        event.register(COMPILING, self)

    def on_start(self, event: Any) -> None:
        """Count one level more."""
        self._depth += 1
        if self._depth == 1:
            self._started()

    def on_end(self, event: Any) -> None:
        """Count one level less."""
        self._depth -= 1
        if self._depth == 0:
            self._ended()


def reset_peak_memory() -> None:
    """Forget the peak so far, where the system can; elsewhere it is that of the whole process."""
    try:
        CLEAR_REFS.write_text(RESET_PEAK)
    except OSError:
        return


def peak_memory() -> float:
    """Return the most memory resident since `reset_peak_memory`, in MB (10^6 bytes)."""
    try:
        lines = STATUS.read_text().splitlines()
        kibibytes = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        kibibytes = peak // KIBIBYTE if sys.platform == "darwin" else peak
    return kibibytes * KIBIBYTE / MEGABYTE

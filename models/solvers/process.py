"""A solver in a process of its own, where limits hold: it is killed when it exceeds one.

No back-end keeps its limits always: a factorization or a presolve runs on past a time limit, and of an
LP's memory none keeps any. So a helper process holds the solver, and
this one watches its clock and its resident memory. The helper lives on from one solve to the next; after it
had to be killed the next solve starts another. A crash of the solver is an outcome, too.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from models.solvers.backend import Backend
from models.solvers.compiled import CompiledModel
from models.solvers.options import SolverOptions
from models.solvers.outcome import Outcome, SolutionStatus, Termination
from models.solvers.start import NOTHING, Extras, Progress
from topologies.errors import TuttiError

GRACE_SECONDS = 0.5
GRACE_SHARE = 0.05
"""How long past its time limit a solver may take to stop by itself: seconds, and a share of the limit."""
POLL_SECONDS = 0.02
START_SECONDS = 120.0
"""How long the helper may take to import a solver."""
KEPT_MB = 300.0
"""A helper that held more is not used again: what it keeps would count as the next solve's memory."""
MEGABYTE = 1e6
KIBIBYTE = 1024
BEGIN, TRACE, DONE, REFUSED, FAULT = "begin", "trace", "done", "refused", "fault"
PR_SET_PDEATHSIG = 1
RUN = """
import importlib.util, sys
for name in ("models", "topologies"):
    sys.modules[name] = importlib.util.module_from_spec(importlib.util.find_spec(name))
from models.solvers.process import main
main()
"""
"""The helper: of the two packages it needs few modules, and none of what their ``__init__`` imports."""


@dataclass(frozen=True, eq=False)
class Measured:
    """An outcome with what it took.

    Parameters
    ----------
    seconds
        To hand the arrays over, solve and read the answer; of a solver that was killed, until then.
    peak_rss_mb
        The most memory resident meanwhile, in MB, the helper's own included.
    cpu_s
        Seconds of processors; None of a solver that was killed.
    """

    outcome: Outcome
    seconds: float
    peak_rss_mb: float
    cpu_s: float | None = None


@dataclass(eq=False)
class _Helper:
    """The helper process and the pipe to it."""

    process: subprocess.Popen[bytes]
    pipe: Connection

    @classmethod
    def start(cls) -> _Helper:
        mine, theirs = Pipe()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-c", RUN, str(theirs.fileno()), str(os.getpid())]
        process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL
        )
        theirs.close()
        return cls(process, mine)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.wait()


_helpers: list[_Helper] = []
"""The one that is idle, if any."""


def _close_helpers() -> None:
    while _helpers:
        _helpers.pop().end()


atexit.register(_close_helpers)


def solve_apart(
    model: CompiledModel, backend: Backend, options: SolverOptions, extras: Extras = NOTHING
) -> Measured:
    """Solve in the helper process and kill it if it exceeds `options`' time or memory limit.

    Raises
    ------
    InputError
        If the solver refuses the model or an option.
    TuttiError
        If the helper can't start, or the back-end has a fault.
    """
    helper = _helpers.pop() if _helpers else _Helper.start()
    if not helper.alive:
        helper.end()
        helper = _Helper.start()
    try:
        plain = replace(model, variables=(), constraints=())
        inner = Extras(extras.start, None)
        helper.pipe.send((backend.name, plain, options, inner, extras.trace is not None))
        _expect_begin(helper, backend)
        measured = _watch(helper, options, extras)
    except BaseException:
        helper.end()
        raise
    if helper.alive and measured.peak_rss_mb < KEPT_MB:
        _helpers.append(helper)
    else:
        helper.end()
    return measured


def _expect_begin(helper: _Helper, backend: Backend) -> None:
    try:
        heard = helper.pipe.recv() if helper.pipe.poll(START_SECONDS) else None
    except (EOFError, OSError):
        heard = None
    if heard is None or heard[0] != BEGIN:
        reason = heard[1] if heard else "the process for it could not start"
        raise TuttiError(f"solver {backend.name}: {reason}")


def _watch(helper: _Helper, options: SolverOptions, extras: Extras) -> Measured:
    """Wait for the answer, a limit or a death."""
    begin, peak = time.monotonic(), 0.0
    limit = options.time_limit
    deadline = None if limit is None else begin + limit + max(GRACE_SECONDS, GRACE_SHARE * limit)
    while True:
        try:
            if helper.pipe.poll(POLL_SECONDS):
                what, value = helper.pipe.recv()
                if what == DONE:
                    outcome, seconds, own_peak, cpu_s = value
                    return _within(options, Measured(outcome, seconds, max(peak, own_peak), cpu_s))
                _hear(what, value, extras)
        except (EOFError, OSError):
            return Measured(_death(helper), time.monotonic() - begin, peak)
        peak = max(peak, _resident(helper.process.pid))
        exceeded = _exceeded(options, peak, deadline)
        if exceeded is not None:
            helper.process.kill()
            helper.process.wait()
            return Measured(
                Outcome(exceeded, SolutionStatus.NONE, stopped="killed"), time.monotonic() - begin, peak
            )


def _within(options: SolverOptions, measured: Measured) -> Measured:
    """Return an answer, or none where it took more memory than was allowed, if only for a moment."""
    limit = options.memory_limit
    if limit is None or measured.peak_rss_mb * MEGABYTE <= limit:
        return measured
    return replace(measured, outcome=Outcome(Termination.MEMORY_LIMIT, SolutionStatus.NONE))


def _hear(what: str, value: Any, extras: Extras) -> None:
    if what == TRACE and extras.trace is not None:
        extras.trace(value)
    elif what == REFUSED:
        raise value
    elif what == FAULT:
        raise TuttiError(value)


def _exceeded(options: SolverOptions, peak: float, deadline: float | None) -> Termination | None:
    if options.memory_limit is not None and peak * MEGABYTE > options.memory_limit:
        return Termination.MEMORY_LIMIT
    return Termination.TIME_LIMIT if deadline is not None and time.monotonic() > deadline else None


def _death(helper: _Helper) -> Outcome:
    code = helper.process.wait()
    name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    return Outcome(Termination.ERROR, SolutionStatus.NONE, stopped=f"crashed: {name}")


def _resident(pid: int) -> float:
    try:
        return float(psutil.Process(pid).memory_info().rss) / MEGABYTE
    except psutil.Error:
        return 0.0


def _serve(pipe: Connection) -> None:
    """Solve what comes through the pipe until it closes."""
    from models.solvers.registry import BACKENDS

    while True:
        try:
            name, model, options, extras, traced = pipe.recv()
        except EOFError:
            return
        try:
            BACKENDS[name].load()
        except ImportError as error:
            pipe.send((FAULT, f"{type(error).__name__}: {error}"))
            continue
        _reset_peak()
        pipe.send((BEGIN, None))
        pipe.send(_answer(BACKENDS[name], model, options, _told(pipe, extras) if traced else extras))


def _told(pipe: Connection, extras: Extras) -> Extras:
    def tell(progress: Progress) -> None:
        pipe.send((TRACE, progress))

    return replace(extras, trace=tell)


def _answer(backend: Backend, model: CompiledModel, options: Any, extras: Extras) -> tuple[str, Any]:
    begin, cpu = time.perf_counter(), time.process_time()
    try:
        outcome = backend.run(model, options, extras)
    except TuttiError as error:
        return REFUSED, error
    except MemoryError:
        outcome = Outcome(Termination.MEMORY_LIMIT, SolutionStatus.NONE, stopped="out of memory")
    except Exception as error:  # noqa: BLE001 (a solver's fault is told to who asked)
        return FAULT, f"solver {backend.name}: {type(error).__name__}: {error}"
    return DONE, (outcome, time.perf_counter() - begin, _own_peak(), time.process_time() - cpu)


def _reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # proc(5): the peak is what is resident now


def _own_peak() -> float:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0.0
    peak = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
    return peak * KIBIBYTE / MEGABYTE


def main() -> None:
    """Be the helper: leave Ctrl-C to the parent, end when it does, and keep the pipe to ourselves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == int(sys.argv[2]):
        os.dup2(2, 1)  # what a solver prints is no answer
        _serve(Connection(int(sys.argv[1])))


if __name__ == "__main__":
    main()

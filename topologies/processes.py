"""Worker processes perform one call after another within limits; the death of a worker is an answer, too.

A solver does not always keep its limits of time and memory, and a fault in it ends its process. So code that
may misbehave runs in a `Worker`: this process watches the worker's clock and its resident memory, kills it
beyond a limit, and learns how it died. The clock runs only where the call says so, and stands still while
kernels are compiled. A worker is a new Python, one that a server forks, or a copy of this process with all
that is loaded here (`topologies.apart`). It ignores Ctrl-C, which is its parent's, and ends with its parent
even if that was killed. The libraries for this do less: loky's executor has no limits and breaks when a
worker dies; pebble's has a time limit that can't pause, no limit of memory and no messages from a running
call.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing import parent_process, resource_tracker
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tutti.topologies.errors import TuttiError
from tutti.topologies.units import MEGA


class WorkerWaits(NamedTuple):
    """Times, in seconds, that a run waits for workers, and the number of servers that may fail."""

    poll: float
    """Time between two looks at a watched worker's memory. A larger value notices too much memory later."""
    longest: float
    """Longest wait that the system is asked for. A time limit may be longer."""
    shutdown: float
    """Time for a worker to exit by itself, before it is killed. A larger value kills later."""
    servers: int
    """Servers in a row that may be killed before one has forked a worker. Then starting a worker fails."""


WAITS = WorkerWaits(poll=0.02, longest=3600.0, shutdown=2.0, servers=5)

UNKNOWN = 255
"""The exit status that `multiprocessing` reports for a process whose server is dead: the real one is lost."""
QUIET_TRACKER = "ignore:resource_tracker"
"""A filter of warnings: the tracker cleans up locks that libraries made in a worker that was killed."""
READY, START, STOP, PAUSE, RESUME, TELL, DONE, RAISE = range(8)
"""The kinds of message that a worker sends: it is ready; the clock of its call starts, stops, pauses or
resumes; progress; the answer of the call; an error that the parent is to raise."""


class CallEnd(StrEnum):
    """The possible ends of a call."""

    ANSWER = "answer"
    TIME = "time limit"
    MEMORY = "memory limit"
    DEATH = "death"


@dataclass(frozen=True)
class Ended:
    """A call that ended.

    Parameters
    ----------
    how
        Whether by itself, by a limit, or by the death of its process.
    answer
        What the call returned, where it ended by itself.
    exitcode
        The exit code of a process that died: minus the number of a signal, or its exit status.
    seconds
        The seconds since its clock was last started.
    stops
        The number of times that its clock was stopped.
    peak_mb
        The most memory seen resident, in MB; 0 where it was not watched.
    """

    how: CallEnd
    answer: Any
    exitcode: int | None
    seconds: float
    stops: int
    peak_mb: float

    @property
    def cause(self) -> str:
        """The signal that the process died of, or its exit status."""
        code = self.exitcode
        return signal.Signals(-code).name if code is not None and code < 0 else f"exit status {code}"


@dataclass
class _Clock:
    """The clock of a call: its limit in seconds, when it started and ends, and how often it was stopped."""

    limit: float | None = None
    began: float = field(default_factory=time.monotonic)
    deadline: float | None = None
    left: float | None = None
    stops: int = 0

    def note(self, what: int) -> None:
        now = time.monotonic()
        if what == START:
            self.began, self.deadline = now, None if self.limit is None else now + self.limit
        elif what == STOP:
            self.deadline, self.stops = None, self.stops + 1
        elif what == PAUSE and self.deadline is not None:
            self.left, self.deadline = self.deadline - now, None
        elif what == RESUME and self.left is not None:
            self.deadline, self.left = now + self.left, None


class Worker:
    """A process for calls, one at a time.

    Parameters
    ----------
    process
        A `multiprocessing.Process`, or an object with its `pid`, `exitcode` and `join`.
    pipe
        The connection to the process.
    watched
        Whether to watch its memory, which a limit of memory requires.

    Attributes
    ----------
    given
        When the last call began, on the monotonic clock.
    """

    def __init__(self, process: Any, pipe: Connection, *, watched: bool = False) -> None:
        self.process, self.pipe, self.watched = process, pipe, watched
        # The system's process of that number, never a later one; None if it has ended.
        self._system: psutil.Process | None = None
        with contextlib.suppress(psutil.NoSuchProcess):
            self._system = psutil.Process(process.pid)
        self.ready = self.busy = False
        self.given = 0.0
        self._clock, self._memory, self._peak = _Clock(), float("inf"), 0.0
        self._notify: Callable[[Any], None] = _ignore

    @classmethod
    def fresh(cls, entry: str) -> Worker:
        """Start a new Python that calls ``"module:NAME"`` with a `Caller`; its memory is watched."""
        mine, theirs = Pipe()
        with inherited(tracked=False):
            process = _FreshPython(theirs.fileno(), entry)
        theirs.close()
        return cls(process, mine, watched=True)

    @classmethod
    def forked(cls, entry: str, setting: Any, preload: Sequence[str]) -> Worker:
        """Fork a worker from a server that imported `preload`. It calls ``entry(caller, setting)``.

        Raises
        ------
        TuttiError
            If several servers in a row are killed.
        """
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*preload])
        for _ in range(WAITS.servers):
            mine, theirs = context.Pipe()
            process = context.Process(target=_run_forked, args=(entry, theirs, setting), daemon=True)
            with theirs, contextlib.suppress(ConnectionError, EOFError):  # the server died meanwhile
                with inherited():
                    process.start()
                return cls(process, mine)
            mine.close()
            time.sleep(WAITS.poll)
        raise TuttiError("the server that forks worker processes was killed again and again")

    @classmethod
    def copied(cls, serve: Callable[[Caller], None]) -> Worker:
        """Start a copy of this process, with all that is loaded here. It runs `serve` and then ends."""
        with _COPYING, inherited(tracked=False):
            mine, theirs = Pipe()
            process = _Copy(serve, theirs)
            theirs.close()  # under the lock, so that no copy of another thread inherits this end
        return cls(process, mine)

    def give(
        self,
        call: Any,
        seconds: float | None = None,
        memory: float | None = None,
        notify: Callable[[Any], None] | None = None,
    ) -> None:
        """Begin a call.

        Parameters
        ----------
        call
            The argument of the worker's function.
        seconds, memory
            Its limits, in seconds on its clock and in bytes resident; None for none.
        notify
            Is called with each progress report of the call.
        """
        self.busy, self._clock, self._peak = True, _Clock(seconds), 0.0
        self.given = self._clock.began
        self._memory = float("inf") if memory is None else memory / MEGA
        self._notify = _ignore if notify is None else notify
        with contextlib.suppress(ConnectionError):  # the next step notices a dead process
            self.pipe.send(call)

    def finish(self) -> Ended:
        """Wait until the call has ended."""
        while True:
            wait([self.pipe], self.patience())
            ended = self.step()
            if ended is not None:
                return ended

    def patience(self) -> float | None:
        """Return the seconds after which to check it even if it has sent nothing; None: no limit."""
        if self.busy and self.watched:
            return WAITS.poll
        deadline = self._clock.deadline
        return None if deadline is None else min(max(deadline - time.monotonic(), 0.0), WAITS.longest)

    def step(self) -> Ended | None:
        """Handle a message, if there is one, and check the limits; return how the call ended, or None.

        Raises
        ------
        TuttiError
            If the process could not start, or if the call raised one.
        """
        try:
            message = self.pipe.recv() if self.pipe.poll() else None
        except (EOFError, OSError):
            self.end(WAITS.shutdown)
            if not self.ready and 0 <= self.process.exitcode < UNKNOWN:
                raise TuttiError("a worker process could not start; what it printed stands above") from None
            return self._ended(CallEnd.DEATH)
        ended = None if message is None else self._hear(*message)
        return self._over_limits() if ended is None else ended

    def _over_limits(self) -> Ended | None:
        if self.busy and self.watched:
            self._peak = max(self._peak, resident_memory(self.process.pid))
        deadline = self._clock.deadline
        over_time = deadline is not None and deadline <= time.monotonic()
        if self._peak <= self._memory and not over_time:
            return None
        self.end()
        return self._ended(CallEnd.TIME if self._peak <= self._memory else CallEnd.MEMORY)

    def end(self, patience: float = 0.0) -> None:
        """End the process: wait `patience` seconds until it exits by itself, then kill it."""
        self.pipe.close()
        if patience:
            self.process.join(patience)
        if self._system is not None:  # if its server was killed, `process` wrongly takes it for dead
            with contextlib.suppress(psutil.NoSuchProcess):
                self._system.kill()
        self.process.join()

    def _hear(self, what: int, value: Any) -> Ended | None:
        if what == DONE:
            return self._ended(CallEnd.ANSWER, value)
        if what == RAISE:
            self.busy = False
            raise value
        if what == TELL:
            self._notify(value)
        elif what == READY:
            self.ready = True
        else:
            self._clock.note(what)
        return None

    def _ended(self, how: CallEnd, answer: Any = None) -> Ended:
        clock, self.busy, self._clock = self._clock, False, _Clock()
        seconds = time.monotonic() - clock.began
        code = None if how is CallEnd.ANSWER else self.process.exitcode
        return Ended(how, answer, code, seconds, clock.stops, self._peak)


def _ignore(told: Any) -> None:
    """Ignore a progress report."""


def step_all(workers: Collection[Worker]) -> list[tuple[Worker, Ended]]:
    """Wait until a worker sends something or a limit is reached; return the calls that ended."""
    limits = [seconds for worker in workers if (seconds := worker.patience()) is not None]
    wait([worker.pipe for worker in workers], min(limits, default=None))
    return [(worker, ended) for worker in workers if (ended := worker.step()) is not None]


class _FreshPython:
    """A new Python, with the part of a `multiprocessing.Process` that `Worker` needs."""

    def __init__(self, pipe: int, entry: str) -> None:
        code = "from tutti.topologies.processes import run_fresh; run_fresh()"
        command = [sys.executable, "-c", code, str(pipe), str(os.getpid()), entry]
        self._popen = subprocess.Popen(command, pass_fds=[pipe], stdin=subprocess.DEVNULL)
        self.pid = self._popen.pid

    @property
    def exitcode(self) -> int | None:
        return self._popen.poll()

    def join(self, timeout: float | None = None) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout)


_COPYING = threading.Lock()
_COPIES_MB: list[float] = []
"""Peak resident memory of each copy or program that has ended since `reset_peak_memory`, in MB."""


class _Copy:
    """A copy of this process, with the part of a `multiprocessing.Process` that `Worker` needs."""

    def __init__(self, serve: Callable[[Caller], None], pipe: Connection) -> None:
        self.exitcode: int | None = None
        parent = os.getpid()
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                _be_copy(parent)
                serve(Caller(pipe))
                status = 0
            finally:
                os._exit(status)  # it never returns into the code that made it

    def join(self, timeout: float | None = None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        while self.exitcode is None:
            pid, status, usage = os.wait4(self.pid, 0 if until is None else os.WNOHANG)
            if pid:
                self.exitcode = os.waitstatus_to_exitcode(status)
                _COPIES_MB.append(_megabytes(usage.ru_maxrss))
            elif until is not None and time.monotonic() > until:
                return
            else:
                time.sleep(WAITS.poll)


def _be_copy(parent: int) -> None:
    """Leave signals to the parent, end with it, and write only to stderr, through streams of its own."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.stdout = sys.stderr = None
    with contextlib.suppress(OSError):
        os.dup2(2, 1)
        sys.stdout = sys.stderr = open(2, "w", errors="replace", closefd=False)  # noqa: SIM115
    _obey_parent()
    _die_with(parent)


@contextlib.contextmanager
def inherited(*, tracked: bool = True) -> Iterator[None]:
    """Let processes that are started here find our modules, and block Ctrl-C until they can ignore it.

    Parameters
    ----------
    tracked
        Whether `multiprocessing` starts them, with its resource tracker.
    """
    if tracked:  # otherwise the tracker would start below, which unblocks SIGINT again
        with _environment("PYTHONWARNINGS", QUIET_TRACKER):
            resource_tracker.ensure_running()
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _environment("PYTHONPATH", os.pathsep.join(filter(None, sys.path))):
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for processes that are started meanwhile."""
    old = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        os.environ.update({} if old is None else {name: old})


@dataclass(frozen=True)
class Caller:
    """The worker's end of its pipe. Through it a call reports to the process that waits for it.

    Parameters
    ----------
    pipe
        The connection to that process.
    owner
        The process that may use the pipe; processes that a call has forked may not.
    """

    pipe: Connection
    owner: int = field(default_factory=os.getpid)

    def start_clock(self) -> None:
        """Start the clock of the time limit from zero."""
        self._send(START)

    def stop_clock(self) -> None:
        """Stop the clock of the time limit."""
        self._send(STOP)

    def pause_clock(self) -> None:
        """Pause the clock of the time limit, for example during compilation."""
        self._send(PAUSE)

    def resume_clock(self) -> None:
        """Resume the clock of the time limit."""
        self._send(RESUME)

    def tell(self, value: Any) -> None:
        """Report progress."""
        self._send(TELL, value)

    def serve(self, perform: Callable[[Any], Any]) -> None:
        """Answer each call by ``perform(call)`` until the pipe closes; the parent raises a `TuttiError`."""
        with contextlib.suppress(BrokenPipeError):  # the parent has closed the pipe: no call comes
            self._send(READY)
        while True:
            try:
                call = self.pipe.recv()
            except (EOFError, ConnectionError):
                return
            except (AttributeError, ImportError) as error:  # scripts and notebooks can't be imported
                self._send(RAISE, TuttiError(f"another process lacks what it was sent: {error}"))
                continue
            try:
                self._send(DONE, perform(call))
            except BrokenPipeError:
                return
            except TuttiError as error:
                self._send(RAISE, error)

    def _send(self, what: int, value: Any = None) -> None:
        if os.getpid() != self.owner:  # a fork's answer would be taken for that of the next call
            os._exit(0)
        self.pipe.send((what, value))


def load(place: str) -> Any:
    """Return the object at ``"module:NAME"``."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def run_fresh() -> None:
    """Be a worker started by `Worker.fresh`."""
    pipe, parent, entry = sys.argv[1:]
    _obey_parent()
    _die_with(int(parent))
    load(entry)(Caller(Connection(int(pipe))))


def _die_with(parent: int) -> None:
    """End this process when its parent ends, where the system supports that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the request
        os._exit(1)


def _run_forked(entry: str, pipe: Connection, setting: Any) -> None:
    _obey_parent()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    load(entry)(Caller(pipe), setting)


def _obey_parent() -> None:
    """Leave Ctrl-C to the parent, and send what solvers print to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if sys.stdout is not None and sys.stderr is not None:  # closed ones (``>&-``) print nothing anyway
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def resident_memory(pid: int) -> float:
    """Return the memory in MB that a process, or the largest copy of it, has resident; 0 if it has ended."""
    try:
        every = [psutil.Process(pid), *map(psutil.Process, _copies(pid))]
        return max(float(process.memory_info().rss) for process in every) / MEGA
    except psutil.Error:
        return 0.0


def _copies(pid: int) -> list[int]:
    """Return the copies that a process's main thread has forked; none where the system does not list them."""
    try:
        place = Path("/proc")
        children = (place / f"{pid}/task/{pid}/children").read_text().split()
        command = (place / f"{pid}/cmdline").read_bytes()
        return [int(child) for child in children if (place / child / "cmdline").read_bytes() == command]
    except OSError:
        return []


def run_program(command: Sequence[str], output: Any, seconds: float | None, memory: float | None) -> CallEnd:
    """Run another program to its end, or until this process ends; its peak counts in `peak_memory`.

    Parameters
    ----------
    command
        The program and its arguments.
    output
        An open file for what it prints.
    seconds, memory
        Limits, in seconds and in bytes resident, beyond which it is killed; None for none.

    Returns
    -------
    CallEnd
        Whether it ended by itself or by a limit.
    """
    how, wait_s, parent = CallEnd.ANSWER, WAITS.poll / 20, os.getpid()
    deadline = None if seconds is None else time.monotonic() + seconds
    program = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: _die_with(parent),  # noqa: PLW1509 (nothing else runs between fork and exec)
    )
    try:
        while True:
            pid, status, usage = os.wait4(program.pid, os.WNOHANG)
            if pid:
                break
            if memory is not None and resident_memory(program.pid) * MEGA > memory:
                how = CallEnd.MEMORY
                program.kill()
            elif deadline is not None and time.monotonic() > deadline:
                how = CallEnd.TIME
                program.kill()
            time.sleep(wait_s)
            wait_s = min(1.5 * wait_s, WAITS.poll)
    except BaseException:
        program.kill()
        program.wait()
        raise
    program.returncode = os.waitstatus_to_exitcode(status)
    _COPIES_MB.append(_megabytes(usage.ru_maxrss))
    return how


def reset_peak_memory() -> None:
    """Reset the peak, where the system can; elsewhere it stays the peak of the whole process."""
    _COPIES_MB.clear()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # proc(5): the peak is what is resident now


def peak_memory() -> float:
    """Return the most memory resident since `reset_peak_memory`, here or in a copy, in MB (10^6 bytes)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 2**10 / MEGA
    except (OSError, StopIteration):
        peak = _megabytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return max([peak, *_COPIES_MB])


def _megabytes(most: int) -> float:
    """Return a value of ``getrusage`` in MB; it is in bytes on a Mac and in KiB elsewhere."""
    return most * (1 if sys.platform == "darwin" else 2**10) / MEGA

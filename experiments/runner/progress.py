"""How far a run is: a bar on a terminal, a few plain lines elsewhere. And that one synthesis goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from experiments.printable import printable
from experiments.runner.tasks import Outcome, Task
from topologies.progress import listening

PLAIN_SECONDS = 10.0
"""Between two lines where there is no terminal."""

SILENT_SECONDS = 1.0
"""What takes less needs no word on it."""

BESIDE = 12
"""Columns of a terminal that a wait takes beside its text: what turns, and the time."""

WIDE = 120
"""Columns of a terminal on which the present task has room beside the bar."""


class Reporter:
    """Counts rows as tasks start and finish; use it in a ``with`` block.

    Parameters
    ----------
    console
        Where to write.
    total
        Rows of the run.
    kept
        Rows done by an earlier run.
    quiet
        Write nothing but failures.
    """

    def __init__(self, console: Console, total: int, kept: int, *, quiet: bool = False) -> None:
        self._console, self._total, self._kept, self._quiet = console, total, kept, quiet
        self.done, self._running, self._failed = kept, 0, 0
        self._started = self._spoke = time.monotonic()
        self._bar = _bar(console) if console.is_terminal and not quiet else None

    def __enter__(self) -> Reporter:
        if self._bar is not None:
            self._bar.start()
            self._line = self._bar.add_task("", total=self._total, completed=self._kept, counts="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def started(self, task: Task) -> None:
        """Note that a task runs."""
        self._running += len(task.sizes)
        self._show(str(task))

    def finished(self, task: Task, outcome: Outcome) -> None:
        """Note how a task ended; failures and timeouts are written out."""
        self._running -= len(task.sizes)
        self.done += len(task.sizes)
        if outcome.status in ("failed", "timeout"):
            self._failed += len(task.sizes) if outcome.status == "failed" else 0
            self._console.print(
                f"{outcome.status}: {task}: {outcome.rows[0]['message']}", markup=False, highlight=False
            )
        self._show(str(task))

    def _show(self, text: str) -> None:
        counts = f"{self.done}/{self._total} rows, {self._running} running, {self._failed} failed"
        if self._bar is not None:
            self._bar.update(self._line, completed=self.done, counts=counts, description=printable(text))
        elif not self._quiet and time.monotonic() - self._spoke >= PLAIN_SECONDS:
            self._spoke = time.monotonic()
            self._console.print(f"{counts}, {self._left()} left", markup=False, highlight=False)

    def _left(self) -> str:
        """Return a guess of the time left, from the rows done in this run."""
        fresh = self.done - self._kept
        if not fresh:
            return "unknown time"
        seconds = (time.monotonic() - self._started) / fresh * (self._total - self.done)
        return f"about {seconds:.0f} s"


def _bar(console: Console) -> Progress:
    columns = [
        BarColumn(bar_width=20),
        TextColumn("{task.fields[counts]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    ]
    if console.width >= WIDE:
        columns.append(TextColumn("{task.description}", markup=False))
    return Progress(*columns, console=console, transient=True)


class _Lines:
    """Writes what is told as plain lines, the latest every `PLAIN_SECONDS`."""

    def __init__(self, console: Console, text: str) -> None:
        self._console, self._text, self._spoke = console, text, time.monotonic()

    def tell(self, more: str) -> None:
        """Write a line, unless one was written just now."""
        if time.monotonic() - self._spoke >= PLAIN_SECONDS:
            self._spoke = time.monotonic()
            self._console.print(f"{self._text}: {more}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def waiting(console: Console, text: str, *, quiet: bool = False) -> Iterator[None]:
    """Show that something goes on, for how long, and what it tells of itself, while it lasts.

    A line that is erased, not before `SILENT_SECONDS`; where there is no terminal, a line now and then.

    Parameters
    ----------
    console
        Where to write.
    text
        What goes on; cut where a line has no room for it.
    quiet
        Write nothing.
    """
    if quiet:
        yield
        return
    if not console.is_interactive:
        with listening(_Lines(console, text).tell):
            yield
        return
    room = console.width - BESIDE
    line = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=console,
        refresh_per_second=4,
        transient=True,
        redirect_stdout=False,  # what a command prints is none of this line's business
        redirect_stderr=False,
    )

    def shown(more: str = "") -> str:
        words = printable(f"{text}: {more}" if more else text)
        return words if len(words) <= room else f"{words[: room - 1]}…"

    task = line.add_task(shown(), total=None)
    begin = threading.Timer(SILENT_SECONDS, line.start)
    begin.daemon = True
    begin.start()
    try:
        with listening(lambda more: line.update(task, description=shown(more))):
            yield
    finally:
        begin.cancel()
        begin.join()
        line.stop()

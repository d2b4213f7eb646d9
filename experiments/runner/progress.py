"""Progress of a run: a bar on a terminal, a line a minute elsewhere; and a line while a synthesis lasts."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from tutti.experiments.printable import complaint, printable
from tutti.experiments.runner.pool import Running
from tutti.experiments.runner.study import Task, TaskOutcome
from tutti.topologies.progress import listening


class Pace(NamedTuple):
    """Times in seconds between two writings of progress, and limits on it. Larger times write less."""

    silent: float
    """A synthesis that takes less time than this is not shown on a terminal."""
    look: float
    """Time between two looks at the tasks that run."""
    plain: float
    """Time between two lines on one synthesis where there is no terminal; also the time for which workers may
    be missing before a line says so."""
    log: float
    """Time between two lines on a run where there is no terminal."""
    named: int
    """Most methods, and most running tasks, that are named below the bar."""


PACE = Pace(silent=1.0, look=1.0, plain=10.0, log=60.0, named=5)


class Reporter:
    """Counts rows as tasks finish, and looks at what runs; use it in a ``with`` block.

    Parameters
    ----------
    console
        Where to write.
    tasks
        The tasks of the run, with those that were done before.
    todo
        Those that are not done.
    where
        They run, in words.
    quiet
        Write nothing but failures.

    Attributes
    ----------
    running
        Returns what runs now.
    lacks
        Returns what it waits for, in words; nothing where it waits for nothing.
    """

    def __init__(
        self, console: Console, tasks: Iterable[Task], todo: Iterable[Task], where: str, quiet: bool = False
    ) -> None:
        self._console, self._where, self._quiet = console, where, quiet
        self._all, self._left = _rows(tasks), _rows(todo)
        self._total, self._fresh, self._failed = self._all.total(), 0, 0
        self._started = self._logged = self._manned = time.monotonic()
        self._now: Sequence[Running] = ()
        self._waits = ""
        self._bar = _Bar(console) if console.is_terminal and not quiet else None
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look_on, daemon=True)
        self.running: Callable[[], Sequence[Running]] = list
        self.lacks: Callable[[], str] = str

    def __enter__(self) -> Reporter:
        if self._bar is not None:
            self._bar.start()
            self._line = self._bar.add_task("", total=self._total, completed=self._done, counts="")
        self._watch.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._watch.join(PACE.look)  # which may wait for a cluster that has ended
        if self._bar is not None:
            self._bar.stop()

    def finished(self, task: Task, outcome: TaskOutcome) -> None:
        """Note how a task ended; failures and timeouts are written out."""
        self._left[task.names[-1]] -= task.num_rows
        self._fresh += task.num_rows
        if outcome.status in ("failed", "timeout"):
            self._failed += task.num_rows if outcome.status == "failed" else 0
            self._print(complaint(f"{outcome.status}: {task}: {outcome.rows[0]['message']}"))
        if self._bar is not None:
            self._bar.update(self._line, completed=self._done, counts=self._counts())

    @property
    def _done(self) -> int:
        return self._total - self._left.total()

    def _look_on(self) -> None:
        while not (self._quiet or self._over.wait(PACE.look)):
            self._now, lacks = (), "workers"
            with contextlib.suppress(Exception):  # the run itself meets what is wrong, and says it
                self._now, lacks = self.running(), self.lacks()
            self._mind(lacks)
            longest = sorted(self._now, key=lambda one: -one.seconds)[: PACE.named]
            lines = [f"{timedelta(seconds=round(s))} {task} ({place})" for task, s, place in longest]
            if self._bar is not None:
                most = [(name, left) for name, left in self._left.most_common(PACE.named) if left]
                methods = (f"{name} {self._all[name] - left}/{self._all[name]}" for name, left in most)
                self._bar.below = [", ".join(methods), *lines]
                self._bar.update(self._line, counts=self._counts())
            elif time.monotonic() - self._logged >= PACE.log:
                self._logged = time.monotonic()
                self._print("; ".join([self._counts(), self._end(), *lines[:1]]))

    def _mind(self, lacks: str) -> None:
        """Say what it waits for, when that lasts, and that it waits no more."""
        if not lacks:
            self._manned = time.monotonic()
        waits = lacks if time.monotonic() - self._manned > PACE.plain else ""
        if waits != self._waits and not self._over.is_set():
            self._waits = waits
            self._print(f"waiting for {waits} at {self._where}" if waits else "workers have come")

    def _counts(self) -> str:
        return f"{self._done}/{self._total} rows, {len(self._now)} running, {self._failed} failed"

    def _end(self) -> str:
        """Return a guess of when it ends, from the rows done in this run; with the date if on another day."""
        if self._waits or not self._fresh:
            return "its end is not known yet"
        seconds = (time.monotonic() - self._started) / self._fresh * self._left.total()
        try:
            then = datetime.now().astimezone() + timedelta(seconds=seconds)
        except OverflowError:
            return "ends about never"
        return f"ends about {then:%H:%M}" if seconds < 24 * 3600 else f"ends about {then:%Y-%m-%d %H:%M}"

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _rows(tasks: Iterable[Task]) -> Counter[str]:
    """Return how many rows tasks have, by method."""
    rows: Counter[str] = Counter()
    for task in tasks:
        rows[task.names[-1]] += task.num_rows
    return rows


class _Bar(Progress):
    """A bar with lines below it."""

    def __init__(self, console: Console) -> None:
        self.below: list[str] = []
        super().__init__(
            BarColumn(bar_width=20),
            TextColumn("{task.fields[counts]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bar and the lines."""
        yield from super().get_renderables()
        for line in filter(None, self.below):
            yield Text(f"  {printable(line)}", no_wrap=True, overflow="ellipsis")


class Lines:
    """Writes messages as plain lines. If they come faster than `PACE` allows, only the latest are written."""

    def __init__(self, console: Console, text: str) -> None:
        self._console, self._text, self._spoke = console, text, time.monotonic()

    def tell(self, more: str) -> None:
        """Write a line, unless one was written just now."""
        if time.monotonic() - self._spoke >= PACE.plain:
            self._spoke = time.monotonic()
            self._console.print(f"{self._text}: {more}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def waiting(console: Console, text: str, *, quiet: bool = False) -> Iterator[None]:
    """Show while the block runs that it does, for how long, and its messages.

    On a terminal this is one line, which is erased at the end; elsewhere it is a line from time to time.

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
        with listening(Lines(console, text).tell):
            yield
        return
    room = console.width - 12  # what turns, and the time, take the rest
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
    begin = threading.Timer(PACE.silent, line.start)
    begin.daemon = True
    begin.start()
    try:
        with listening(lambda more: line.update(task, description=shown(more))):
            yield
    finally:
        begin.cancel()
        begin.join()
        line.stop()

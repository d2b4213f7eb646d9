"""Studies of any kind: their tasks, the place of work of a worker, and the arrangement of their rows."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from tutti.experiments import plugins
from tutti.experiments.old_names import current_pattern
from tutti.experiments.runner.config import KINDS, Config, MachinesTable
from tutti.experiments.runner.results import COLUMNS
from tutti.schedules.method import Method
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError, NoSchedule, TuttiError, Unsupported, VerificationError, raised
from tutti.topologies.processes import load
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology

Row = dict[str, Any]
Document = dict[str, Any]
"""An entry of a store: all that is kept of a task."""
SYNTHESIZE, JUDGE = "synthesize", "judge"
"""The stages that `Workplace.notify` is given; a time limit counts the first."""


@dataclass(frozen=True)
class TaskOutcome:
    """The outcome of a task.

    Parameters
    ----------
    status
        The status of all its rows: ok, unsupported, timeout, infeasible or failed, or a kind's own.
    rows
        At least one.
    bounds
        Those computed for it, by `Task.bound_keys`.
    trace
        The place where it failed, for developers.
    files
        Schedules that are still to be kept: the content of a file by its name.
    """

    status: str
    rows: list[Row]
    bounds: Mapping[str, Any] = field(default_factory=dict)
    trace: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)


class DiskError(TuttiError):
    """A result could not be written; the run stops and what is done is kept."""


KEPT = "what is done is kept, the same command continues"


@contextmanager
def on_disk() -> Iterator[None]:
    """Add to errors in the ``with`` block that the run stops, and that what is done is kept.

    Raises
    ------
    DiskError
        Where something went wrong.
    """
    try:
        yield
    except (OSError, TuttiError) as error:
        said = str(error)
        if isinstance(error, OSError) and error.strerror:
            said = ": ".join(filter(None, [error.filename, error.strerror]))
        raise DiskError(f"{said}; {KEPT}") from error


_parsed = lru_cache(maxsize=4)(parse_topology)


@dataclass(frozen=True)
class Workplace:
    """The things that a worker needs to perform tasks.

    Parameters
    ----------
    methods
        The methods by name.
    keep
        Keeps a schedule and returns its content hash; None keeps none.
    bounds
        Computed before, here or by other workers.
    notify
        Is given each stage, `SYNTHESIZE` or `JUDGE`.
    topology
        Returns the network of a text.
    directory
        The run's, for files beside the results; the machine where the worker is may not have it.
    """

    methods: Mapping[str, Method] = field(default_factory=dict)
    keep: Callable[[Schedule], str] | None = None
    bounds: MutableMapping[str, Any] = field(default_factory=dict)
    notify: Callable[[str], None] = lambda stage: None
    topology: Callable[[str], Topology] = _parsed
    directory: Path = Path()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(ABC):
    """Work of one process, from which come rows; its text is what it is called.

    Parameters
    ----------
    key
        A hash of all that determines the result.
    time_limit, memory
        Seconds between two stages, and bytes that it may take; None for no limit.
    around
        Numbers of seeds of the same rows that other parts of a task try, before and after its own.
    """

    key: str
    time_limit: float | None = None
    memory: float | None = None
    around: tuple[int, int] = (0, 0)

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Texts by which ``--only`` picks it, beside the whole text; the last is that of a progress bar."""

    @abstractmethod
    def rows(self, status: str, message: str = "") -> list[Row]:
        """Return its rows with what is known without running it."""

    @abstractmethod
    def run(self, place: Workplace) -> TaskOutcome:
        """Return what comes of it; what is raised is `perform`'s."""

    @property
    def num_rows(self) -> int:
        """The number of rows that it counts as."""
        return 1

    @property
    def bound_keys(self) -> tuple[str, ...]:
        """Texts of all that the bounds of its rows depend on."""
        return ()

    @property
    def is_part(self) -> bool:
        """Whether other tasks make candidates for the same rows."""
        return any(self.around)

    @property
    def parts(self) -> Sequence[Task]:
        """The tasks into which it is divided for workers and store, in order; only itself if it is not."""
        return (self,)

    def combined(self, outcomes: Sequence[TaskOutcome]) -> TaskOutcome:
        """Return what became of it, given the outcomes of its parts up to the first without a result."""
        return outcomes[0]

    def stopped(self, stops: int) -> str:
        """Return what is said if it runs out of time after `stops` stages that ended in time."""
        return f"a synthesis exceeded the time limit of {self.time_limit:g} s"


def perform(task: Task, place: Workplace) -> TaskOutcome:
    """Run a task; whatever goes wrong becomes its rows.

    Raises
    ------
    DiskError
        If a schedule can't be written.
    """
    try:
        return task.run(place)
    except DiskError:
        raise
    except (Unsupported, NoSchedule) as answer:
        return TaskOutcome(status_of(answer), task.rows(status_of(answer), str(answer)))
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 (a method's fault is a row)
        said = str(error) if isinstance(error, TuttiError) else plugins.blame(error) or raised(error)
        illegal = "illegal schedule: " * isinstance(error, VerificationError)
        return failure(task, f"{illegal}{said}", traceback.format_exc())


def status_of(answer: TuttiError) -> str:
    """Return the status of a method's answer that is no schedule; all else raised is a failure."""
    return "unsupported" if isinstance(answer, Unsupported) else "infeasible"


def failure(task: Task, message: str, trace: str = "") -> TaskOutcome:
    """Return the outcome of a task that did not finish through a fault."""
    return TaskOutcome("failed", task.rows("failed", message), {}, trace)


Outcomes = Callable[[Iterable[Task]], Iterator[tuple[Any, TaskOutcome]]]
"""Gives those of some tasks that ended, with what became of them."""


def in_order(tasks: Sequence[Task], outcomes: Outcomes) -> Iterator[list[Row]]:
    """Yield the rows of each task as they are."""
    return (outcome.rows for _, outcome in outcomes(tasks))


@dataclass(frozen=True)
class Study:
    """A config of any kind, read and planned.

    Parameters
    ----------
    config
        What it is called, and what stands in its file.
    tasks
        In the config's order.
    machines
        Processes here, or the address of a Dask cluster. Of neither: one process a core.
    report
        Function that writes the report of a folder of results and returns its path. Without it the page is
        drawn as `KINDS` has it; a kind that is not there has none.
    arrange
        Returns the rows of what is done, in their order, some at a time; given `tasks` and the outcomes.
    columns
        Names and types of the table's.
    keep_schedules
        The schedules that are kept: "all", "best" or "none".
    folders
        The folders of files beside the results, which tasks write.
    gaps
        Whether rows have gaps to bounds.
    rejudge
        Yields what of the store's entries, made by other code, is taken over as the outcome of tasks; None:
        nothing ever is.
    seeds, settings
        For the manifest.
    counted
        For the manifest: columns whose values are counted there, and under which name.
    """

    config: Config
    tasks: Sequence[Task]
    machines: MachinesTable = field(default_factory=MachinesTable)
    report: Callable[[Path], Path] | None = None
    arrange: Callable[[Sequence[Any], Outcomes], Iterator[list[Row]]] = in_order
    columns: Mapping[str, Any] = field(default_factory=lambda: COLUMNS)
    keep_schedules: str = "none"
    folders: tuple[str, ...] = ()
    gaps: bool = False
    rejudge: Callable[[Any, Iterable[Document]], Iterator[tuple[Any, TaskOutcome]]] | None = None
    seeds: frozenset[int] = frozenset()
    settings: Mapping[str, Any] = field(default_factory=dict)
    counted: Mapping[str, str] = field(default_factory=dict)

    def write_report(self, directory: Path) -> Path | None:
        """Write the report of a folder of results, and return its path; None if the kind has none."""
        if self.report is not None:
            return self.report(directory)
        return KINDS[self.config.kind].draw(directory) if self.config.kind in KINDS else None


def select(tasks: Sequence[Task], pattern: str) -> list[Task]:
    """Return the tasks of which a name, or the whole text, matches a shell pattern; methods' old names do.

    Raises
    ------
    InputError
        If none does.
    """
    patterns = (pattern, current_pattern(pattern))
    chosen = [task for task in tasks if any(matches(text, patterns) for text in (*task.names, str(task)))]
    if not chosen:
        names = sorted({name for task in tasks for name in task.names})
        raise InputError(f"--only '{pattern}' matches none of the {len(tasks)} tasks; try one of {names}")
    return chosen


def matches(text: str, patterns: Sequence[str] | None) -> bool:
    """Whether one of the shell patterns matches a text; without patterns, whether it does at all: yes."""
    return patterns is None or any(fnmatchcase(text, pattern) for pattern in patterns)


def study_of(config: Config, methods: Mapping[str, Method]) -> Study:
    """Return the study of a config of any kind.

    Raises
    ------
    InputError
        If anything in the config is wrong.
    """
    return load(f"tutti.experiments.{KINDS[config.kind].plan}:study_of")(config, methods)

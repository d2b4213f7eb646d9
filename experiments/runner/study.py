"""What a config asks for, whatever its kind: tasks, and what becomes of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tutti.experiments.runner.results import COLUMNS
from tutti.experiments.runner.tasks import Row, Task, TaskOutcome

REPORT = "report.html"
"""What every kind's report is called."""
Outcomes = Callable[[Iterable[Task]], Iterator[tuple[Task, TaskOutcome]]]
"""Gives those of some tasks that ended, with what became of them."""


@dataclass(frozen=True)
class Study:
    """A config of any kind, read and planned.

    Parameters
    ----------
    name, path, text
        Of the study, of its file, and what stands in it.
    tasks
        In the config's order.
    arrange
        Returns the rows of what is done, in their order, some at a time; given `tasks` and the outcomes.
    report
        Writes the report of a folder of results and returns its path; None: no report is written.
    perform
        ``"module:NAME"`` of the function that performs a task.
    table
        Of the config, in which the next two stand.
    workers, scheduler
        Processes here; or the address of a Dask cluster. Of neither: one process a core.
    keep_schedules
        Which schedules stay: "all", "best" or "none".
    folders
        Of files beside the results, which tasks write.
    columns
        Names and types of the table's.
    gaps
        Whether rows have gaps to bounds, and are judged again when the bounds are better.
    settings
        For the manifest.
    counted
        For the manifest: columns whose values are counted there, and under which name.
    """

    name: str
    path: str
    text: str
    tasks: Sequence[Task]
    arrange: Callable[[Sequence[Task], Outcomes], Iterator[list[Row]]]
    report: Callable[[Path], Path] | None = None
    perform: str = "tutti.experiments.runner.tasks:perform"
    table: str = "[run]"
    workers: int | None = None
    scheduler: str | None = None
    keep_schedules: str = "none"
    folders: tuple[str, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=lambda: COLUMNS)
    gaps: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    counted: Mapping[str, str] = field(default_factory=dict)


def in_order(tasks: Sequence[Task], outcomes: Outcomes) -> Iterator[list[Row]]:
    """Yield the rows of each task as they are."""
    return (outcome.rows for _, outcome in outcomes(tasks))

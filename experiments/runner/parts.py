"""Tasks of many seeds in parts, each a task of its own for workers and store; then one again.

How a task is divided depends on nothing but its seeds, so that a row is the same wherever its parts ran.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf

from tutti.experiments.runner.tasks import Task, TaskOutcome

MOST_SEEDS = 25
"""Of a task that is not divided, and of a part."""
SUMMED = ("seeds", "synth_s", "verify_s")
"""Columns that count all parts; all others but the peak of memory are the best one's."""


def divided(task: Task) -> bool:
    """Whether a task has more than one part."""
    return len(task.seeds) > MOST_SEEDS


def parts_of(task: Task) -> list[Task]:
    """Return the parts of a task, in the order of its seeds; of one that is not divided itself."""
    if not divided(task):
        return [task]
    tried = [
        (first, task.seeds[first : first + MOST_SEEDS]) for first in range(0, len(task.seeds), MOST_SEEDS)
    ]
    return [
        replace(
            task,
            seeds=seeds,
            key=f"{task.key}-{first}",
            before=first,
            after=len(task.seeds) - first - len(seeds),
        )
        for first, seeds in tried
    ]


def with_parts(tasks: Iterable[Task]) -> Iterator[Task]:
    """Yield tasks, and the parts of those that are divided."""
    for task in tasks:
        yield task
        if divided(task):
            yield from parts_of(task)


def combined(task: Task, outcomes: Sequence[TaskOutcome]) -> TaskOutcome:
    """Return what became of a task: what would have, had its seeds been tried one after the other.

    Parameters
    ----------
    task
        All of it.
    outcomes
        Of its parts, in order, up to the first without a schedule at least: that ends the row, as one
        synthesis would have. Else the schedule is the fastest at the largest size, the first of equal ones.
    """
    lost = next((outcome for outcome in outcomes if outcome.status != "ok"), None)
    if lost is not None:
        return replace(lost, rows=task.rows(lost.status, lost.rows[0]["message"]))
    largest = task.sizes.index(max(task.sizes))
    best = min(outcomes, key=lambda outcome: outcome.rows[largest]["time_us"])
    firsts = [outcome.rows[0] for outcome in outcomes]
    every = {name: sum(row[name] for row in firsts) for name in SUMMED}
    every["peak_rss_mb"] = max(row["peak_rss_mb"] for row in firsts)
    bounds = {key: bound for outcome in outcomes for key, bound in outcome.bounds.items()}
    return TaskOutcome("ok", [row | every for row in best.rows], bounds)


class Parts(Collection[Task]):
    """What is left to do of some tasks, one part after the other, and how far each task is.

    Whoever takes one after the other gets none of a task after one that has no schedule.

    Parameters
    ----------
    tasks
        Those to do.
    settled
        Whether a part is done already.
    """

    def __init__(self, tasks: Iterable[Task], settled: Callable[[Task], bool]) -> None:
        self._whole: dict[str, Task] = {}  # of parts
        self._left: dict[str, set[int]] = {}
        self._lost: dict[str, int] = {}
        self._todo: list[Task] = []
        for task in tasks:
            # A task that was stopped between its last part and itself has its last part done again.
            left = [part for part in parts_of(task) if not settled(part)] or parts_of(task)[-1:]
            self._todo += left
            if divided(task):
                self._whole |= {part.key: task for part in left}
                self._left[task.key] = {part.before for part in left}

    def __len__(self) -> int:
        return len(self._todo)

    def __contains__(self, part: object) -> bool:
        return part in self._todo

    def __iter__(self) -> Iterator[Task]:
        return (part for part in self._todo if part.before < self._lost.get(self._task(part).key, inf))

    def ended(self, part: Task, outcome: TaskOutcome) -> Task | None:
        """Note that a part has ended; return its task if that is decided by it."""
        task = self._task(part)
        if task is part:
            return task
        left = self._left.get(task.key)
        if left is None:
            return None
        left.discard(part.before)
        if outcome.status != "ok":
            self._lost[task.key] = min(part.before, self._lost.get(task.key, part.before))
        if any(first < self._lost.get(task.key, inf) for first in left):
            return None
        del self._left[task.key]
        return task

    def _task(self, part: Task) -> Task:
        """Return what it is a part of; itself, if it is whole."""
        return self._whole.get(part.key, part)

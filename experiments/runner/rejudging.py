"""Results of other code, judged again: times stay as they were simulated, bounds are this code's.

A run's directory keeps what each version of the code made; a result of another version is normally made
anew (`experiments.runner.plan`). Where only the bounds have become better, that is a waste: a gap is a time
over a bound, and the times are known. So a result is taken over if it is of the same task, with

- status ok: its times, and for each size the larger of this code's bound and of the one that its own method
  proved (a certificate that was checked when it was made). A time below the bound is no result: that task is
  left to be made anew, which says what is wrong;
- status timeout or infeasible: as it is. What was unsupported or failed is asked again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

from tutti.experiments.runner.judge import MICRO, ProvenBound, bound_columns, too_fast
from tutti.experiments.runner.results import current_row, to_table
from tutti.experiments.runner.store import Store
from tutti.experiments.runner.tasks import Row, Task, TaskOutcome
from tutti.topologies.text import parse_topology

TAKEN = frozenset({"ok", "timeout", "infeasible"})
SAME = ("nodes", "switches", "links", "kind")
"""What else the rows must say as the task does; the text alone is that of the store's key."""
NEEDED = ("size_bytes", "time_us", "bound_us", "bound_kind")
"""What is read of the rows, where there is a time; elsewhere the first alone."""
NAMED = ("collective", "method", "options")
"""Columns that stand, in this order, in the text of a task."""
OWN = 1 + 1e-12
"""Times the bound that is common to all methods: above it, a row's bound is its method's own."""

Known = dict[str, ProvenBound]
Document = dict[str, Any]


def rejudge(store: Store, tasks: Sequence[Task]) -> int:
    """Take over what other code made of these tasks, with the bounds of this code; return how many.

    A topology read from a file is left out, for its content may be another by now.

    Raises
    ------
    OSError
        If the results can't be written.
    """
    open_ = [task for task in tasks if store.load(task) is None and not Path(task.topology).exists()]
    documents = _newest(store.entries())
    common = _common(documents.values())
    bounds: Known = {}
    taken = 0
    for task in open_:
        document = documents.get(_name(str(task), task.sizes))
        if document is None or not _alike(document, task):
            continue
        found = TaskOutcome(document["status"], document["rows"])
        outcome = judged_again(task, found, bounds, common)
        if outcome is not None:
            store.save(task, outcome, document["time_limit"])
            taken += 1
    return taken


def judged_again(
    task: Task, outcome: TaskOutcome, bounds: Known, common: Mapping[str, Fraction]
) -> TaskOutcome | None:
    """Return an outcome with bounds of this code; None where a time is below its bound.

    Parameters
    ----------
    task, outcome
        What was to be done, and what became of it earlier.
    bounds
        Of this code, by `Task.bound_key`; those computed here are added.
    common
        Of the code that made it: the bounds in seconds that were no method's own.
    """
    if outcome.status != "ok":
        return outcome
    rows, used = [], {}
    for row in outcome.rows:
        key = task.bound_key(row["size_bytes"])
        if key not in bounds:
            size = Fraction(row["size_bytes"])
            bounds[key] = ProvenBound.of(parse_topology(task.topology), task.collective, size)
        used[key] = bounds[key]
        rows.append(row | bound_columns(row["time_us"], _larger(bounds[key], row, common.get(key))))
    if any(map(too_fast, rows)):
        return None
    return TaskOutcome("ok", rows, used)


def _larger(bound: ProvenBound, row: Row, common: Fraction | None) -> ProvenBound:
    """Return this code's bound, or the one that the row's method proved if that is larger."""
    old = Fraction(row["bound_us"]) / MICRO
    own = common is not None and old > common * Fraction(OWN)
    return max(bound, ProvenBound(old, row["bound_kind"]), key=lambda b: b.seconds) if own else bound


def _newest(entries: Iterable[tuple[str, float, Document]]) -> dict[str, Document]:
    """Return for each task the content of its newest entry that may be taken."""
    in_time = sorted(entries, key=lambda entry: entry[1])
    taken = (_current(document) for _, _, document in in_time if _is_taken(document))
    return {
        _name(document["task"], [row["size_bytes"] for row in document["rows"]]): document
        for document in taken
    }


def _current(document: Document) -> Document:
    """Return an entry with the names of today: of methods, options and bounds."""
    rows = [current_row(row) for row in document["rows"]]
    before, after = (
        " ".join(str(row[name]) for row in few for name in NAMED if row.get(name))
        for few in (document["rows"][:1], rows[:1])
    )
    return {**document, "task": document["task"].replace(before, after, 1), "rows": rows}


def _is_taken(document: Document) -> bool:
    """Whether it is of an outcome that is taken, and its values are what they should be."""
    if document["status"] not in TAKEN or not isinstance(document.get("task"), str):
        return False
    needed = NEEDED if document["status"] == "ok" else NEEDED[:1]
    try:
        to_table(document["rows"])  # each value is of its column's type
        _common([document])
        return all(row[name] is not None for row in document["rows"] for name in needed)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError, pa.ArrowException):
        return False


def _name(task: str, sizes: Iterable[int]) -> str:
    return json.dumps([task, list(sizes)])


def _common(documents: Iterable[Document]) -> dict[str, Fraction]:
    """Return the largest bound of each topology, collective and size that was no method's own."""
    common: dict[str, Fraction] = {}
    for document in documents:
        for key, (seconds, _) in document["bounds"].items():
            common[key] = max(common.get(key, Fraction(0)), Fraction(seconds))
    return common


def _alike(document: Document, task: Task) -> bool:
    """Whether an entry is of the same network and of as many seeds."""
    alike = all(row.get(name) == getattr(task, name) for row in document["rows"] for name in SAME)
    seeds = {row.get("seeds", len(task.seeds)) for row in document["rows"]}
    return alike and seeds == {len(task.seeds)}

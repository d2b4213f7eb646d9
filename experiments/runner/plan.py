"""The tasks of a config: everything is checked here, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tutti.experiments.old_names import current_label, current_options
from tutti.experiments.registry import find_method
from tutti.experiments.runner.config import (
    CollectiveTable,
    Config,
    MethodTable,
    PartTable,
    Placed,
    ReportTable,
    RunTable,
    TopologyTable,
    at,
    distinct_seeds,
    positive,
)
from tutti.experiments.runner.judge import (
    GAP_DIGITS,
    ProvenBound,
    bound_columns,
    grouped,
    is_named,
    method_label,
    too_fast,
    with_busbw,
    with_speedups,
)
from tutti.experiments.runner.results import current_row, task_key, to_table
from tutti.experiments.runner.study import Document, Outcomes, Row, Study, TaskOutcome, matches
from tutti.experiments.runner.tasks import SynthesisTask, topology_digest
from tutti.schedules.collective import Collective, Kind, asked_collective, concurrent
from tutti.schedules.method import Method, Problem, first_seeds
from tutti.topologies.errors import InputError, suggestion
from tutti.topologies.exact import INT64_MAX
from tutti.topologies.options import build_options, options_text
from tutti.topologies.text import parse_topology
from tutti.topologies.units import MICRO, exact_number, format_size, parse_size, parse_time

TAKEN = frozenset({"ok", "timeout", "infeasible"})
SAME = ("nodes", "switches", "links", "kind")
"""Columns in which the rows must agree with the task, as the text alone is only that of the store's key."""
NEEDED = ("size_bytes", "time_us", "bound_us", "bound_kind")
"""Columns that are read from rows with a time. From other rows only the first column is read."""
NAMED = ("collective", "method", "options")
"""Columns that stand, in this order, in the text of a task."""
ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, pa.ArrowException)
"""Errors of entries whose values are not what they should be: what earlier code wrote had no checksum."""

TASK_FORMAT = "tutti.task/1"
MOST_TASKS = 10**6
"""Most syntheses of a run. Larger numbers are taken for typing errors."""


class Approach(NamedTuple):
    """A method with its options, the seeds of each of its tasks, and what it is for (None: everything).

    `note` is said beside its rows; `memory` is in bytes.
    """

    where: str
    method: Method
    given: Mapping[str, Any]
    options: Any
    seeds: tuple[tuple[int, ...], ...]
    note: str = ""
    topologies: list[str] | None = None
    collectives: list[str] | None = None
    sizes: tuple[int, ...] = ()
    memory: float | None = None

    def sizes_for(self, topology: str, collective: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the sizes at which it is for a topology and a collective; none if no pattern matches."""
        if not (matches(topology, self.topologies) and matches(collective, self.collectives)):
            return ()
        return tuple(size for size in sizes if not self.sizes or size in self.sizes)


def make_plan(config: Config, methods: Mapping[str, Method]) -> list[SynthesisTask]:
    """Return the tasks of a config, in its order: by topology, collective and method.

    Raises
    ------
    InputError
        If anything in the config is wrong, or asks for the same row twice.
    """
    memory = positive(parse_size, config.table(RunTable, "run").memory, f"{config.path}: [run]: memory")
    networks = config.tables(TopologyTable, "topology")
    collectives = config.tables(CollectiveTable, "collective")
    approaches = [_approach(placed, methods, memory) for placed in config.tables(MethodTable, "method")]
    _refuse_merging(approaches)
    given = {placed.where: _sizes(placed.where, placed.table.sizes) for placed in collectives}
    limit, tasks, idle = time_limit(config), list[SynthesisTask](), {a.where: a for a in approaches}
    for placed in networks:
        text = placed.table.spec.strip()
        topology = at(placed.where, parse_topology, text)
        digest = topology_digest(topology)
        for asked in collectives:
            what, own = at(f"{asked.where} on {text}", _collective, asked.table, topology.num_ranks)
            problem, sizes = Problem(topology, what), given[asked.where] or _own_size(own, asked.where)
            for approach in approaches:
                if mine := approach.sizes_for(text, str(what), sizes):
                    idle.pop(approach.where, None)
                    tasks += _tasks(text, digest, problem, approach, mine, limit)
                    if len(tasks) > MOST_TASKS:
                        raise InputError(f"{config.path}: more than {MOST_TASKS} tasks; make several configs")
    for left in idle.values():  # patterns that leave a method nothing to do are a slip of the hand
        sizes_text = f" at {', '.join(map(format_size, left.sizes))}" if left.sizes else ""
        both = f"topologies = {left.topologies or ['*']} and collectives = {left.collectives or ['*']}"
        raise InputError(f"{left.where}: nothing in the config matches both {both}{sizes_text}")
    _refuse_duplicates(tasks, config.path)
    return tasks


def study_of(config: Config, methods: Mapping[str, Method]) -> Study:
    """Return the study of a config of methods.

    Raises
    ------
    InputError
        As `make_plan`.
    """
    run, tasks = config.table(RunTable, "run"), make_plan(config, methods)
    baseline, keep = _baseline(config, tasks), run.keep_schedules
    return Study(
        config,
        tasks,
        run,
        arrange=partial(by_instance, baseline=baseline),
        keep_schedules=keep,
        gaps=True,
        rejudge=rejudge,
        seeds=frozenset(seed for task in tasks if task.seeded for seed in task.seeds),
        settings={"time_limit_s": time_limit(config), "keep_schedules": keep, "baseline": baseline},
    )


def _baseline(config: Config, tasks: Sequence[SynthesisTask]) -> str | None:
    """Return the method that the others are compared with, by its name, or by that and its options."""
    if (asked := config.table(ReportTable, "report").baseline) is None:
        return None
    wanted = current_label(asked)
    rows = [{"method": task.method, "options": options_text(task.options)} for task in tasks]
    if not any(is_named(wanted, row) for row in rows):
        known = dict.fromkeys(name for row in rows for name in (row["method"], method_label(row)))
        said = f"baseline '{wanted}' is no method of this config{suggestion(wanted, known)}"
        raise InputError(f"{config.path}: [report]: {said}")
    return wanted


def by_instance(
    tasks: Sequence[SynthesisTask], outcomes: Outcomes, baseline: str | None = None
) -> Iterator[list[Row]]:
    """Yield the rows of each topology and collective, by size and then method, all as in the config."""
    for group in grouped(tasks, lambda task: (task.topology, str(task.collective))).values():
        place = {size: i for i, size in enumerate(dict.fromkeys(s for task in group for s in task.sizes))}
        rows = [with_busbw(row, task.collective) for task, outcome in outcomes(group) for row in outcome.rows]
        rows = rows if baseline is None else with_speedups(rows, baseline)
        yield sorted(rows, key=lambda row: place[row["size_bytes"]])


def tasks_of(
    problem: Problem, method: Method, given: Mapping[str, Any], sizes: tuple[int, ...], seeds: int = 1
) -> list[SynthesisTask]:
    """Return the tasks of one method, without a config, on a network known by its name.

    Parameters
    ----------
    problem
        The network and the collective.
    method, given
        The method and its options.
    sizes
        M in bytes.
    seeds
        The number of seeds of which the best is kept.

    Raises
    ------
    InputError
        If an option, or the number of seeds, is wrong.
    """
    tries, note = _seeds(method, seeds)
    approach = Approach(method.name, method, given, build_options(method, given), tries, note)
    topology = problem.topology
    return list(_tasks(topology.name, topology_digest(topology), problem, approach, sizes, None))


def time_limit(config: Config) -> float | None:
    """Return the time limit of a synthesis in seconds, None where there is none."""
    return positive(parse_time, config.table(RunTable, "run").time_limit, f"{config.path}: [run]: time_limit")


def _approach(placed: Placed[MethodTable], methods: Mapping[str, Method], memory: float | None) -> Approach:
    table = placed.table
    method = at(placed.where, find_method, table.name, methods)
    given = at(placed.where, current_options, method.name, table.options)
    options = at(placed.where, build_options, method, given)
    seeds, note = at(placed.where, _seeds, method, table.seeds)
    wanted = (table.topologies, table.collectives, _sizes(placed.where, table.sizes))
    most = positive(parse_size, table.memory, f"{placed.where}: memory") or memory
    return Approach(placed.where, method, given, options, seeds, note, *wanted, most)


def _refuse_merging(approaches: Iterable[Approach]) -> None:
    """Refuse a method again with the same options and other seeds: both would share a column, and be one."""
    first: dict[tuple[str, str], Approach] = {}
    for approach in approaches:
        before = first.setdefault((approach.method.name, options_text(approach.given)), approach)
        if before.seeds != approach.seeds:
            name = before.where.partition(": ")[2] or before.where
            same = f"method {approach.method.name} has the same options in {name}, with other seeds"
            raise InputError(f"{approach.where}: {same}; give all seeds in one of them, or use two configs")


def _seeds(method: Method, seeds: int | list[int] | None) -> tuple[tuple[tuple[int, ...], ...], str]:
    """Return the seeds of each task, and a note where several are asked of a method without randomness.

    A number of seeds makes one task, a list of them one for each. A method without randomness has one task.
    """
    one_try = f"{method.name} has no randomness, so seeds = {seeds} is one try"
    note = "" if method.seeded or seeds in (None, 1) else one_try
    if isinstance(seeds, list):
        if max(distinct := distinct_seeds(seeds)) > INT64_MAX:
            raise InputError(f"seeds = {seeds}; a seed must be below 2^63")
        return tuple((seed,) for seed in distinct) if method.seeded else ((0,),), note
    return (tuple(first_seeds(method, 1 if seeds is None else seeds)),), note


def _own_size(own: Fraction | None, where: str) -> tuple[int]:
    """Return M as the collective itself says it."""
    if own is None:
        have = "only a matrix from a file, and parts that all have a size, have bytes of their own"
        raise InputError(f"{where}: key 'sizes' is missing; {have}")
    return (whole_size(f"{own} B", where),)


def _sizes(where: str, given: Sequence[str] | None) -> tuple[int, ...]:
    texts = given or []
    sizes = [whole_size(text, f"{where}: sizes") for text in texts]
    if twice := next((texts[i] for i, size in enumerate(sizes) if size in sizes[:i]), None):
        raise InputError(f"{where}: size '{twice}' occurs twice")
    return tuple(sizes)


def whole_size(text: str, where: str) -> int:
    """Return a size in bytes that is positive, whole and fits 64 bits.

    Raises
    ------
    InputError
        If it is not.
    """
    size: Fraction = at(where, parse_size, text)
    if size <= 0 or size.denominator != 1 or size > INT64_MAX:
        raise InputError(f"{where}: size '{text}' must be a positive whole number of bytes below 2^63")
    return int(size)


def _collective(table: CollectiveTable, num_ranks: int) -> tuple[Collective, Fraction | None]:
    """Return the collective, and M in bytes where it says it itself."""
    if table.size is not None:
        raise InputError("size is for one of the parts; the whole has sizes")
    if not isinstance(table.groups, str) and (table.parts is None) == (table.kind == Kind.MIXED):
        raise InputError(f"parts are for kind '{Kind.MIXED}', and needed there; this is '{table.kind}'")
    if table.parts is None:
        return _part(table, num_ranks)
    if (table.root, table.shards, table.groups, table.matrix) != (None, None, None, None):
        raise InputError("a mixed collective has no root, shards, groups and matrix; its parts have")
    if any(isinstance(part.groups, str) for part in table.parts):
        raise InputError("parts have groups as lists of ranks; groups by dimensions say what each does")
    sizes = [whole_size(part.size, "parts") for part in table.parts if part.size is not None]
    if sizes and len(sizes) < len(table.parts):
        raise InputError("only some of the parts have a size; all or none must")
    what = concurrent([_part(part, num_ranks)[0] for part in table.parts], sizes or None)
    return what, Fraction(max(sizes)) if sizes else None


def _part(table: PartTable, num_ranks: int) -> tuple[Collective, Fraction | None]:
    shards = None if table.shards is None else [exact_number(str(share)) for share in table.shards]
    how = {"root": table.root, "shards": shards, "matrix": table.matrix}
    return asked_collective(table.kind, num_ranks, table.groups, **how)


def _tasks(
    text: str, digest: str, problem: Problem, approach: Approach, sizes: tuple[int, ...], limit: float | None
) -> Iterator[SynthesisTask]:
    """Yield a task for each entry of the seeds; and for each size, where the schedule depends on it."""
    method, topology, options = approach.method, problem.topology, approach.options
    dependent = method.size_dependent(problem, options)
    counts = {"nodes": topology.num_nodes, "switches": topology.num_switches, "links": topology.num_links}
    kind, exact_for = method.kind_of(problem, options), method.exactness(options, problem) or None
    known = counts | {"kind": kind, "exact_for": exact_for, "note": approach.note}
    for group in [(size,) for size in sizes] if dependent else [sizes]:
        for seeds in approach.seeds:
            what = [digest, text, str(problem.collective), method.name]
            key = task_key(TASK_FORMAT, *what, approach.given, seeds, group, approach.note)
            yield SynthesisTask(
                topology=text,
                collective=problem.collective,
                method=method.name,
                options=approach.given,
                known=known,
                seeded=method.seeded,
                seeds=seeds,
                sizes=group,
                key=key,
                time_limit=limit,
                memory=approach.memory,
                network=digest,
            )


def _refuse_duplicates(tasks: Iterable[SynthesisTask], path: str) -> None:
    seen = set()
    for task in tasks:
        how = (task.topology, str(task.collective), task.method, options_text(task.options), task.seeds)
        for size in task.sizes:
            if (row := (*how, size)) in seen:
                raise InputError(f"{path}: {task} at {size} B is asked for twice; remove one of the tables")
            seen.add(row)


def rejudge(
    tasks: Iterable[SynthesisTask], entries: Iterable[Document]
) -> Iterator[tuple[SynthesisTask, TaskOutcome]]:
    """Yield what is taken over of what other code made of these tasks, with the bounds of this code.

    A result of another version of the code is normally computed again (`experiments.runner.plan`). Where only
    the bounds have become better, that is a waste: a gap is a time over a bound, and the times are known. So
    a result is taken over if it is of the same task, with

    - status ok: its times, and for each size the larger of this code's bound and of the one that its own
      method proved (a certificate that was checked when it was made). A time below the bound is no result:
      that task is left to be done again, which says what is wrong;
    - status timeout or infeasible: as it is. What was unsupported or failed is asked again.

    A topology read from a file is left out, for its content may be another by now.
    """
    found: dict[tuple[str, tuple[int, ...]], tuple[Document, dict[str, Fraction]]] = {}  # the newest of each
    for document in entries:
        with suppress(*ODD):
            rows = [current_row(row) for row in document["rows"]]
            to_table(rows)  # each value is of its column's type
            proven = {key: Fraction(seconds) for key, (seconds, _) in document["bounds"].items()}
            needed = NEEDED if document["status"] == "ok" else NEEDED[:1]
            whole = all(row[name] is not None for row in rows for name in needed)
            if document["status"] in TAKEN and whole:
                before, after = (
                    " ".join(str(row[name]) for name in NAMED if row.get(name))
                    for row in (document["rows"][0], rows[0])
                )
                case = document["task"].replace(before, after, 1), tuple(row["size_bytes"] for row in rows)
                found[case] = {**document, "rows": rows}, proven
    common: dict[str, Fraction] = {}  # the largest bound of each case that was no method's own
    for _, proven in found.values():
        for key, seconds in proven.items():
            common[key] = max(common.get(key, seconds), seconds)
    bounds: dict[str, ProvenBound] = {}
    for task in tasks:
        document, _ = found.get((str(task), task.sizes), ({}, {}))
        if document and _is_of(document["rows"], task) and not Path(task.topology).exists():
            kept = TaskOutcome(document["status"], document["rows"])
            if (outcome := judged_again(task, kept, bounds, common)) is not None:
                yield replace(task, time_limit=document["time_limit"]), outcome


def judged_again(
    task: SynthesisTask, outcome: TaskOutcome, bounds: dict[str, ProvenBound], common: Mapping[str, Fraction]
) -> TaskOutcome | None:
    """Return an outcome with bounds of this code; None where a time is below its bound.

    For each row the bound is this code's, or that which the row's method proved if that is larger.

    Parameters
    ----------
    task, outcome
        What was to be done, and what became of it earlier.
    bounds
        Of this code, by `Task.bound_keys`; those computed here are added.
    common
        Of the code that made it: the bounds in seconds that were no method's own.
    """
    if outcome.status != "ok":
        return outcome
    rows, used = [], {}
    for row, key in zip(outcome.rows, task.bound_keys, strict=True):
        if key not in bounds:
            size = Fraction(row["size_bytes"])
            bounds[key] = ProvenBound.of(parse_topology(task.topology), task.collective, size)
        used[key] = largest = bounds[key]
        old = ProvenBound(Fraction(row["bound_us"]) / MICRO, row["bound_kind"])
        if key in common and old.seconds > common[key] * (1 + Fraction(10) ** -GAP_DIGITS):  # beyond rounding
            largest = max(largest, old, key=lambda bound: bound.seconds)
        rows.append(row | bound_columns(row["time_us"], largest))
    return None if any(map(too_fast, rows)) else TaskOutcome("ok", rows, used)


def _is_of(rows: Sequence[Row], task: SynthesisTask) -> bool:
    """Whether rows are of the task's network and of as many seeds."""
    seeds = {row.get("seeds", len(task.seeds)) for row in rows}
    return seeds == {len(task.seeds)} and all(row.get(one) == task.known[one] for row in rows for one in SAME)

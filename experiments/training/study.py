"""A study of training on the one runner: a task a job and method, its row the iteration taken apart.

Its config has ``[[job]]``, ``[[method]]`` and ``[[stated]]`` tables, read strictly. `claims` compares what
papers state with ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import AfterValidator, Field

from tutti.experiments.old_names import current_label, current_name, current_options
from tutti.experiments.registry import find_method
from tutti.experiments.runner.config import Config, MachinesTable, Table, TimeText, at, read_tables
from tutti.experiments.runner.results import MANIFEST, config_tables, task_key, typed
from tutti.experiments.runner.study import Row, Study, Task, TaskOutcome, Workplace, matches
from tutti.experiments.training.iteration import (
    BACKWARD,
    FORWARD,
    Iteration,
    Job,
    Plan,
    check_length,
    iterate,
    stage_order,
)
from tutti.experiments.training.models import TrainingSetup, find_model
from tutti.experiments.training.networks import BOUND, Network, Scheduled
from tutti.experiments.training.readers import read_calculon, read_simai
from tutti.experiments.training.workload import (
    GROUPS,
    SEND,
    WEIGHTS,
    Communication,
    Formula,
    Parallelism,
    check_groups,
)
from tutti.schedules.collective import KINDS
from tutti.schedules.method import Method
from tutti.topologies.errors import InputError, suggestion
from tutti.topologies.options import build_options, options_text
from tutti.topologies.units import exact_number, parse_bandwidth, parse_size, parse_time

FORMULA = "formula"
"""Stands for a method: collectives take a number of α and of M/B."""
OWN = "own"
"""Stands for a method: the networks of Calculon's system."""
COLUMNS = typed("""
    job text, model text, parallelism text, ranks int, method text, options text, networks text,
    status text, message text, time_s float, compute_s float, bubble_s float, activations_s float,
    weights_s float, exposed_s float, communication_s float, optimal_s float, optimal_activations_s float,
    optimal_weights_s float, optimal_communication_s float, saving float, bucket_bytes int,
    operations int, communication text, timeline text, note text
""")
"""Name and type of every column. All times are seconds of an iteration. ``time_s`` is the sum of
``compute_s`` (of the stage that computes longest), ``bubble_s`` (waiting for other stages),
``activations_s`` (what collectives of tp, ep and pp add) and ``weights_s`` (what those of dp, fsdp and edp
add then). ``exposed_s`` are the last two. ``communication_s`` are all collectives on the busiest network of
each group, ``communication`` the same by group, as JSON. The columns ``optimal_...`` are the same were every
collective as fast as its proven bound, and ``saving`` is the share of ``time_s`` that this saves.
``timeline`` is a JSON list of [stream, part, what, start, end]."""
STATED_COLUMNS = tuple(name for name, kind in COLUMNS.items() if kind == pa.float64())


Name = Annotated[str, AfterValidator(current_name)]
"""A method's name; one of an earlier version becomes that of today."""
Label = Annotated[str, AfterValidator(current_label)]
"""The same, perhaps with options."""


class JobTable(Table):
    """``[[job]]``: a model or another tool's file, how it is divided, and how an iteration is run."""

    name: str
    model: str | None = None
    simai: str | None = None
    calculon: dict[str, str] | None = None
    device: str | None = None
    efficiency: float | None = None
    batch: int | None = None
    sequence: int | None = None
    microbatches: int | None = None
    chunks: int | None = None
    recompute: bool = False
    number: int | None = None
    matrix: str | None = None
    compute: TimeText | None = None
    parallel: dict[str, int] = Field(default_factory=dict)
    ranks: int | None = None
    networks: dict[str, str] = Field(default_factory=dict)
    schedule: str | None = None
    bucket: str | None = None
    prefetch: int | None = None
    overlap: bool = True


class Entrant(Table):
    """``[[method]]``: who makes the schedules; `others` says who makes those of some kinds.

    `networks` takes the place of the jobs', `jobs` are shell patterns of their names.
    """

    name: Name
    label: Label = ""
    options: dict[str, Any] = Field(default_factory=dict)
    others: dict[str, Name] = Field(default_factory=dict)
    networks: dict[str, str] = Field(default_factory=dict)
    formula: dict[str, Any] = Field(default_factory=dict)
    jobs: list[str] = Field(default=["*"], min_length=1)

    def does(self, job: str) -> bool:
        """Whether it takes part in a job."""
        return matches(job, self.jobs)

    def on(self, job: Job) -> dict[str, Network]:
        """Return the network of each group; groups with the same text share one.

        Raises
        ------
        InputError
            If a group that communicates has none, or one of another size, or a formula lacks a collective.
        """
        found: dict[str, Any] = dict(job.networks) | self.networks
        if self.name == FORMULA:
            formula = _formula(self.formula)
            for what in job.workload.communications:
                if job.workload.parallelism.size(what.group) > 1:
                    formula.time(what)  # refuses what it lacks
            return dict.fromkeys(GROUPS, formula)
        texts = {group: text for group, text in found.items() if isinstance(text, str)}
        if texts and self.name == OWN:
            group, text = next(iter(texts.items()))
            raise InputError(f"'{OWN}' is for the networks of Calculon's system; {group} has {text}")
        made = {text: Scheduled(text, self.name, self.others, self.options) for text in texts.values()}
        networks = found | {group: made[text] for group, text in texts.items()}
        check_groups(job.workload, {group: network.ranks for group, network in networks.items()})
        return networks


class StatedTable(Table):
    """``[[stated]]``: a paper's number: a column of a row over one of another, the mean of the jobs."""

    where: str
    what: str
    value: float
    column: str = "time_s"
    job: str
    method: Label
    over_column: str | None = None
    over_method: Label | None = None
    note: str = ""


def read_training(config: Config) -> tuple[list[Job], list[Entrant], list[StatedTable]]:
    """Return what is trained, by which collectives, and papers' numbers.

    The files that a config names are found from its folder.

    Raises
    ------
    InputError
        If a file can't be read, a table or key is wrong, or a job's groups don't fit its ranks or networks.
    """
    where, folder = config.path, Path(config.path).parent
    jobs = [at(one.where, _job, one.table, folder) for one in config.tables(JobTable, "job")]
    entrants = [at(one.where, _entrant, one.table) for one in config.tables(Entrant, "method")]
    _refuse_twice([job.name for job in jobs], f"{where}: [[job]]: name")
    for job in jobs:
        if not (theirs := [entrant for entrant in entrants if entrant.does(job.name)]):
            raise InputError(f"{where}: job '{job.name}' has no method; some [[method]] must name it in jobs")
        _refuse_twice([entrant.label for entrant in theirs], f"{where}: [[method]]: label")
        for entrant in theirs:
            at(f"{where}: job '{job.name}', method {entrant.label}", entrant.on, job)
    stated = config.tables(StatedTable, "stated")
    for one in stated:
        at(one.where, _check_stated, one.table, jobs, entrants)
    return jobs, entrants, [one.table for one in stated]


def stated_in(directory: Path) -> list[StatedTable]:
    """Return the numbers of papers in the config that a folder of results was made by.

    Raises
    ------
    InputError
        If a table of them is wrong.
    """
    tables = config_tables(directory).get("stated", [])
    return [one.table for one in read_tables(StatedTable, tables, str(directory / MANIFEST), "stated")]


def _refuse_twice(names: list[str], where: str) -> None:
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise InputError(f"{where} '{twice}' occurs twice; give each its own")


def _job(table: JobTable, folder: Path) -> Job:
    given = [name for name in ("model", "simai", "calculon") if getattr(table, name) is not None]
    if len(given) != 1:
        raise InputError(f"{' and '.join(given) or 'no model'}; a job has one of model, simai and calculon")
    groups = [one.name for one in fields(Parallelism)]
    if (unknown := next((name for name in table.parallel if name not in groups), None)) is not None:
        raise InputError(f"parallel: unknown group '{unknown}'{suggestion(unknown, groups)}")
    networks: dict[str, str | Formula] = {}
    parallelism, said = Parallelism(**table.parallel), table.model_dump(exclude_none=True)
    if table.bucket is not None:
        said["bucket"] = parse_size(table.bucket)

    def given_of(names: Iterable[str]) -> dict[str, Any]:
        return {name: said[name] for name in names if name in said}

    plan = Plan(**given_of(field.name for field in fields(Plan)))
    if table.model is not None:
        load = TrainingSetup(parallelism, **given_of(field.name for field in fields(TrainingSetup)))
        workload = find_model(table.model).workload(load, **given_of(("microbatches", "chunks")))
    elif table.simai is not None:
        workload = read_simai(folder / table.simai, parallelism if table.parallel else None)
    else:
        files = dict(table.calculon or {})
        if sorted(files) != ["execution", "model", "system"]:
            has = ", ".join(sorted(files)) or "nothing"
            raise InputError(f"calculon has {has}; it names a model, a system and an execution")
        read = read_calculon(*(folder / files[name] for name in ("model", "system", "execution")))
        workload, plan, networks = read.workload, read.plan, dict(read.networks)
    if table.ranks is not None:
        workload.parallelism.check(table.ranks)
    if table.compute is not None:
        workload = workload.taking(float(parse_time(table.compute)))
    check_length(workload)
    next(stage_order(workload, plan.schedule, 0), None)  # refuses what does not fit
    return Job(table.name, workload, plan, networks | table.networks)


def _entrant(given: Entrant) -> Entrant:
    """Return it checked, with a label and its options' names of today."""
    name, options = given.name, current_options(given.name, given.options)
    for kind, other in given.others.items():
        if kind not in KINDS:
            raise InputError(f"others: unknown collective '{kind}'{suggestion(kind, KINDS)}")
        if other != BOUND:
            find_method(other)
    if given.formula and name != FORMULA:
        raise InputError(f"formula is for name = '{FORMULA}'")
    if name not in (FORMULA, BOUND, OWN):
        build_options(find_method(name), options)
    if name == FORMULA:
        _formula(given.formula)
    return given.model_copy(update={"options": options, "label": given.label or name})


def _formula(given: Mapping[str, Any]) -> Formula:
    """Return what a table of α, B and pairs of steps and factors says: steps α + factor M/B."""
    left = dict(given)
    alpha, bandwidth = parse_time(left.pop("alpha", None)), parse_bandwidth(left.pop("bandwidth", None))
    constants: dict[str, tuple[float, float]] = {}
    for kind, pair in left.items():
        if kind not in (*KINDS, SEND):
            raise InputError(f"formula: unknown collective '{kind}'{suggestion(kind, [*KINDS, SEND])}")
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError(f"formula: {kind} is {pair!r}; it is [steps, factor], of α and of M/B")
        steps, factor = (exact_number(str(one)) for one in pair)
        if steps < 0 or factor < 0:
            raise InputError(f"formula: {kind} is {pair!r}; neither is negative")
        constants[kind] = (float(steps * alpha), float(factor / bandwidth))
    return Formula(constants, "formula")


def _check_stated(table: StatedTable, jobs: list[Job], entrants: list[Entrant]) -> None:
    for name in (table.column, table.over_column or table.column):
        if name not in STATED_COLUMNS:
            raise InputError(f"unknown column '{name}'{suggestion(name, STATED_COLUMNS)}")
    if not (found := [job.name for job in jobs if fnmatchcase(job.name, table.job)]):
        raise InputError(f"no job matches '{table.job}'")
    theirs = [{entrant.label for entrant in entrants if entrant.does(job)} for job in found]
    known = sorted(set.intersection(*theirs))
    for label in (table.method, table.over_method or table.method):
        if label not in known:
            asked = f"{', '.join(found)}{suggestion(label, known)}"
            raise InputError(f"method '{label}' does not do all of {asked}")
    if table.over_column is None and table.over_method is None:
        raise InputError("neither over_column nor over_method; a stated number is a ratio")


@dataclass(frozen=True)
class Claim:
    """A number of a paper, and ours; None where a row is missing."""

    HEADS: ClassVar = ("where", "what", "stated", "ours", "off")

    stated: StatedTable
    ours: float | None

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """Return the cells of a table's line, as `HEADS`."""
        ours, value = self.ours, self.stated.value
        known = ("not run", "") if ours is None else (f"{ours:.3g}", f"{ours / value - 1:+.0%}")
        return (self.stated.where, self.stated.what, f"{value:.3g}", *known)


def claims(rows: Sequence[Mapping[str, Any]], stated: Sequence[StatedTable]) -> list[Claim]:
    """Return every stated number beside ours: the mean, over the jobs that it is about, of the ratio."""
    found = {(row["job"], row["method"]): row for row in rows if row["status"] == "ok"}
    jobs, made = list(dict.fromkeys(row["job"] for row in rows)), []
    for one in stated:
        whole, matched = [], [job for job in jobs if fnmatchcase(job, one.job)]
        for job in matched:
            above, below = found.get((job, one.method)), found.get((job, one.over_method or one.method))
            if above and below and (divisor := below[one.over_column or one.column]):
                whole.append(above[one.column] / divisor)
        made.append(Claim(one, sum(whole) / len(whole) if whole and len(whole) == len(matched) else None))
    return made


TASK_FORMAT = "tutti.training/1"
MOST_BARS = 400
"""Most bars of a timeline that is stored."""


@dataclass(frozen=True, kw_only=True)
class TrainingTask(Task):
    """A job with a method."""

    job: Job
    entrant: Entrant

    def __str__(self) -> str:
        return f"{self.job.name} {self.entrant.label}"

    @property
    def names(self) -> tuple[str, ...]:
        """The job's name, and the method's label."""
        return self.job.name, self.entrant.label

    def rows(self, status: str, message: str = "") -> list[Row]:
        """Return its row with what is known without running it."""
        workload, entrant = self.job.workload, self.entrant
        networks = {**self.job.networks, **entrant.networks} if entrant.name != FORMULA else {}
        shown = {group: text for group, text in networks.items() if isinstance(text, str)}
        return [
            {
                "job": self.job.name,
                "model": workload.name,
                "parallelism": str(workload.parallelism),
                "ranks": workload.parallelism.ranks,
                "method": entrant.label,
                "options": options_text(entrant.options),
                "networks": " ".join(f"{group}={text}" for group, text in shown.items()),
                "status": status,
                "message": message,
                "note": workload.source,
            }
        ]

    def run(self, place: Workplace) -> TaskOutcome:
        """Take an iteration apart, and one with optimal collectives."""
        return TaskOutcome("ok", [self.rows("ok")[0] | _columns(self.job, self.entrant.on(self.job))])


def _columns(job: Job, networks: Mapping[str, Network]) -> Row:
    def shared(group: str) -> str:
        """Return what the group's collectives hold: those on one network take turns."""
        return networks[group].name

    made = iterate(job.workload, cache(lambda what: networks[what.group].time(what)), shared, job.plan)
    best = iterate(job.workload, cache(lambda what: networks[what.group].bound(what)), shared, job.plan)
    parts = ("compute", "bubble", "activations", "weights", "exposed")
    return {
        "time_s": made.seconds,
        **{f"{part}_s": getattr(made, part) for part in parts},
        "communication_s": sum(made.communication.values()),
        "communication": json.dumps(made.communication),
        "optimal_s": best.seconds,
        **{f"optimal_{part}_s": getattr(best, part) for part in ("activations", "weights")},
        "optimal_communication_s": sum(best.communication.values()),
        "saving": 1 - best.seconds / made.seconds if made.seconds else 0.0,
        "bucket_bytes": int(made.bucket) or None,
        "operations": len(made.operations),
        "timeline": json.dumps(timeline(made)),
    }


def timeline(made: Iteration) -> list[list[Any]]:
    """Return the bars of a Gantt chart: stream, part, what, start and end in seconds.

    Equal neighbours are one bar if the gap between them can't be seen, being shorter than a thousandth of the
    iteration. That limit is doubled until there are at most `MOST_BARS`, or it is a tenth of the iteration.
    If there are more then, the first `MOST_BARS` are returned.
    """
    gap = 1 / 1000
    while len(bars := _bars(made, gap * made.seconds)) > MOST_BARS and gap < 0.1:
        gap *= 2
    return bars[:MOST_BARS]


def _bars(made: Iteration, gap: float) -> list[list[Any]]:
    bars: list[list[Any]] = []
    last: dict[str, list[Any]] = {}
    for (start, end), one in sorted(zip(made.times, made.operations, strict=True), key=lambda pair: pair[0]):
        if end <= start:
            continue
        if isinstance(one.label, Communication):
            part = "weights" if one.label.group in WEIGHTS else "activations"
            what, place = f"{one.label.kind} ({one.label.group})", one.label.group
        else:
            part, place = "compute", "compute"
            what = FORWARD if one.label.endswith(FORWARD) else BACKWARD
        stream = f"stage {one.stage + 1}, {place}"
        if (before := last.get(stream)) and before[2] == what and start - before[4] <= gap:
            before[4] = end
        else:
            last[stream] = [stream, part, what, start, end]
            bars.append(last[stream])
    return bars


def study_of(config: Config, methods: Mapping[str, Method]) -> Study:
    """Return the study of a config.

    Raises
    ------
    InputError
        As `read_training`.
    """
    jobs, entrants, _ = read_training(config)
    tasks = [
        TrainingTask(key=task_key(TASK_FORMAT, repr(job), repr(entrant)), job=job, entrant=entrant)
        for job in jobs
        for entrant in entrants
        if entrant.does(job.name)
    ]
    return Study(config, tasks, config.table(MachinesTable, "run"), columns=COLUMNS)

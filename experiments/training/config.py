"""The config of a study of training: ``[[job]]``, ``[[method]]`` and ``[[stated]]`` tables, read strictly.

`Scheduled` says how long a collective takes: by a method's verified schedule, or by a proven bound. `claims`
sets what papers state beside ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from tutti.experiments.old_names import current_label, current_name, current_options
from tutti.experiments.registry import find_method
from tutti.experiments.runner.config import Config, Table, TimeText, at, read_tables
from tutti.experiments.runner.manifest import MANIFEST, config_tables
from tutti.experiments.runner.results import typed
from tutti.experiments.runner.study import matches
from tutti.experiments.runner.tasks import synthesize_best
from tutti.experiments.training.iteration import Job, Plan, check_length, stage_order
from tutti.experiments.training.models import TrainingSetup, find_model
from tutti.experiments.training.readers import read_calculon, read_simai
from tutti.experiments.training.workload import (
    GROUPS,
    SEND,
    Communication,
    Formula,
    Parallelism,
    check_groups,
)
from tutti.models.bounds import best_bound
from tutti.schedules.collective import KINDS, collective
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.pipelining import best_slices
from tutti.topologies.errors import InputError, suggestion
from tutti.topologies.graphs.shortest_paths import shortest_routes
from tutti.topologies.options import build_options
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import exact_number, parse_bandwidth, parse_size, parse_time

SIZES_APART = 4
"""A method whose schedule depends on the size makes one for each power of this; other sizes use the nearest.
With a larger value there are fewer schedules, made for sizes that are less near."""
BOUND = "bound"
"""Stands for a method: every collective takes as long as is proven."""
_network = cache(parse_topology)


@cache
def least_time(network: str, kind: str, size: Fraction) -> float:
    """Return the largest lower bound that is proven, in seconds; for what a stage sends, the time."""
    topology = _network(network)
    if kind == SEND:
        return sending(topology, size)
    return float(best_bound(topology, collective(kind, topology.num_ranks), size).time(size))


@dataclass
class Scheduled:
    """A network of the project's, on which a method makes the schedules.

    One group has it for itself: its ranks are all ranks of the network. Other groups that share its links are
    not simulated.

    Parameters
    ----------
    name
        The text of the topology.
    methods
        The name of the method of each kind of collective; None: of the others.
    options
        Options of the method for the others.
    """

    name: str
    methods: Mapping[str | None, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    _schedules: dict[Any, Schedule] = field(default_factory=dict, repr=False)

    @property
    def ranks(self) -> int:
        """All of the network."""
        return _network(self.name).num_ranks

    def time(self, what: Communication) -> float:
        """Return the simulated seconds of the method's schedule; a method that is none is the bound."""
        name = self.methods.get(what.kind, self.methods[None])
        if what.kind == SEND or name == BOUND:
            return self.bound(what)
        method, size = find_method(name), rounded(what.size)
        own = self.options if method.name == self.methods[None] else {}
        options = build_options(method, {**method.quick, **own})
        problem = Problem(_network(self.name), collective(what.kind, self.ranks))
        if method.size_dependent(problem, options):
            problem = replace(problem, size=size)
        if (key := (what.kind, problem.size)) not in self._schedules:
            self._schedules[key] = synthesize_best(method, problem, options, (0,), size).schedule
        return best_slices(self._schedules[key], what.size)[1]

    def bound(self, what: Communication) -> float:
        """Return `least_time` of a collective."""
        return least_time(self.name, what.kind, what.size)


def rounded(size: Fraction) -> Fraction:
    """Return the nearest power of `SIZES_APART`, in bytes.

    Examples
    --------
    >>> [int(rounded(Fraction(size))) for size in (1, 1000, 3000, 10**6)]
    [1, 1024, 4096, 1048576]
    """
    return Fraction(SIZES_APART) ** round(math.log(size, SIZES_APART))


def sending(topology: Topology, size: Fraction) -> float:
    """Return the most seconds that a message from a rank to the next takes, when it is the only one.

    It takes a route of fewest links; switches and ranks on it pass on what arrives, so that its α add up and
    its slowest link counts.
    """
    ranks = np.arange(topology.num_ranks)
    offsets, links = shortest_routes(topology, ranks[:-1], ranks[1:])

    def seconds(start: int, end: int) -> float:
        route, alpha = links[start:end].tolist(), topology.alpha
        slowest = min(topology.bandwidth[link] for link in route)
        return float(sum(alpha[link] for link in route) + size / slowest)

    return max(map(seconds, offsets[:-1].tolist(), offsets[1:].tolist()))


Network = Scheduled | Formula
"""The network of a group's collectives. It has a name, a number of ranks (None: any), times and bounds."""

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
    compute: TimeText | None = None
    parallel: dict[str, int] = Field(default_factory=dict)
    ranks: int | None = None
    networks: dict[str, str] = Field(default_factory=dict)
    schedule: str | None = None
    bucket: str | None = None
    prefetch: int | None = None
    overlap: bool = True


class TrainingMethodTable(Table):
    """``[[method]]``: who makes the schedules; `others` says who makes those of some kinds.

    `networks` takes the place of the jobs', `jobs` are shell patterns of their names.
    """

    name: str
    label: str = ""
    options: dict[str, Any] = Field(default_factory=dict)
    others: dict[str, str] = Field(default_factory=dict)
    networks: dict[str, str] = Field(default_factory=dict)
    formula: dict[str, Any] = Field(default_factory=dict)
    jobs: list[str] = Field(default=["*"], min_length=1)


class StatedTable(Table):
    """``[[stated]]``: a paper's number: a column of a row over one of another, the mean of the jobs."""

    where: str
    what: str
    value: float
    column: str = "time_s"
    job: str
    method: str
    over_column: str | None = None
    over_method: str | None = None
    note: str = ""


@dataclass(frozen=True)
class Entrant:
    """A method, and what it is for: as its table."""

    label: str
    table: TrainingMethodTable
    formula: Formula | None

    def does(self, job: str) -> bool:
        """Whether it takes part in a job."""
        return matches(job, self.table.jobs)

    def on(self, job: Job) -> dict[str, Network]:
        """Return the network of each group; groups with the same text share one.

        Raises
        ------
        InputError
            If a group that communicates has none, or one of another size, or a formula lacks a collective.
        """
        found: dict[str, Any] = dict(job.networks) | self.table.networks
        if self.formula is not None:
            for what in job.workload.communications:
                if job.workload.parallelism.size(what.group) > 1:
                    self.formula.time(what)  # refuses what it lacks
            return dict.fromkeys(GROUPS, self.formula)
        texts = {group: text for group, text in found.items() if isinstance(text, str)}
        if texts and self.table.name == OWN:
            group, text = next(iter(texts.items()))
            raise InputError(f"'{OWN}' is for the networks of Calculon's system; {group} has {text}")
        methods = {None: self.table.name, **self.table.others}
        made = {text: Scheduled(text, methods, self.table.options) for text in texts.values()}
        networks = found | {group: made[text] for group, text in texts.items()}
        check_groups(job.workload, {group: network.ranks for group, network in networks.items()})
        return networks


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
    methods = config.tables(TrainingMethodTable, "method")
    entrants = [at(one.where, _entrant, one.table) for one in methods]
    _refuse_twice([job.name for job in jobs], f"{where}: [[job]]: name")
    for job in jobs:
        theirs = [entrant for entrant in entrants if entrant.does(job.name)]
        if not theirs:
            raise InputError(f"{where}: job '{job.name}' has no method; some [[method]] must name it in jobs")
        _refuse_twice([entrant.label for entrant in theirs], f"{where}: [[method]]: label")
        for entrant in theirs:
            at(f"{where}: job '{job.name}', method {entrant.label}", entrant.on, job)
    stated = []
    for one in config.tables(StatedTable, "stated"):
        stated.append(_current_stated(one.table))
        at(one.where, _check_stated, stated[-1], jobs, entrants)
    return jobs, entrants, stated


def stated_in(directory: Path) -> list[StatedTable]:
    """Return the numbers of papers in the config that a folder of results was made by.

    Raises
    ------
    InputError
        If a table of them is wrong.
    """
    tables = config_tables(directory).get("stated", [])
    placed = read_tables(StatedTable, tables, str(directory / MANIFEST), "stated")
    return [_current_stated(one.table) for one in placed]


def _refuse_twice(names: list[str], where: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{where} '{twice}' occurs twice; give each its own")


def _job(table: JobTable, folder: Path) -> Job:
    given = [name for name in ("model", "simai", "calculon") if getattr(table, name) is not None]
    if len(given) != 1:
        raise InputError(f"{' and '.join(given) or 'no model'}; a job has one of model, simai and calculon")
    networks: dict[str, str | Formula] = {}
    groups, said = _groups(table.parallel), table.model_dump(exclude_none=True)
    if table.bucket is not None:
        said["bucket"] = parse_size(table.bucket)

    def given_of(names: Iterable[str]) -> dict[str, Any]:
        return {name: said[name] for name in names if name in said}

    plan = Plan(**given_of(field.name for field in fields(Plan)))
    if table.model is not None:
        load = TrainingSetup(groups, **given_of(field.name for field in fields(TrainingSetup)))
        workload = find_model(table.model).workload(load, **given_of(("microbatches", "chunks")))
    elif table.simai is not None:
        workload = read_simai(folder / table.simai, groups if table.parallel else None)
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


def _groups(given: Mapping[str, int]) -> Parallelism:
    names = ("tp", "pp", "dp", "fsdp", "ep")
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise InputError(f"parallel: unknown group '{unknown}'{suggestion(unknown, names)}")
    return Parallelism(**given)


def _entrant(given: TrainingMethodTable) -> Entrant:
    name, others = current_name(given.name), {kind: current_name(one) for kind, one in given.others.items()}
    own = {"name": name, "others": others, "options": current_options(name, given.options)}
    for kind, other in others.items():
        if kind not in KINDS:
            raise InputError(f"others: unknown collective '{kind}'{suggestion(kind, KINDS)}")
        if other != BOUND:
            find_method(other)
    if given.formula and name != FORMULA:
        raise InputError(f"formula is for name = '{FORMULA}'")
    if name not in (FORMULA, BOUND, OWN):
        build_options(find_method(name), own["options"])
    formula = _formula(given.formula) if name == FORMULA else None
    return Entrant(current_label(given.label or name), given.model_copy(update=own), formula)


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


def _current_stated(table: StatedTable) -> StatedTable:
    """Return a paper's number with the names of today, as rows are read with them."""
    over = table.over_method and current_label(table.over_method)
    return table.model_copy(update={"method": current_label(table.method), "over_method": over})


def _check_stated(table: StatedTable, jobs: list[Job], entrants: list[Entrant]) -> None:
    for name in (table.column, table.over_column or table.column):
        if name not in STATED_COLUMNS:
            raise InputError(f"unknown column '{name}'{suggestion(name, STATED_COLUMNS)}")
    found = [job.name for job in jobs if fnmatchcase(job.name, table.job)]
    if not found:
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
    jobs = list(dict.fromkeys(row["job"] for row in rows))
    made = []
    for one in stated:
        whole, matched = [], [job for job in jobs if fnmatchcase(job, one.job)]
        for job in matched:
            above, below = found.get((job, one.method)), found.get((job, one.over_method or one.method))
            if above and below and (divisor := below[one.over_column or one.column]):
                whole.append(above[one.column] / divisor)
        made.append(Claim(one, sum(whole) / len(whole) if whole and len(whole) == len(matched) else None))
    return made

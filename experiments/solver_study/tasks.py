"""The tasks of a study of solvers, one solver on one instance with one seed each, and the judge of answers.

The config of a study has ``[[instance]]`` and ``[[solver]]`` tables, which are read strictly.

`StudyTask.run` makes a row with what one solve claims, and the bounds that exact arithmetic proves from its
answer. `judged` intersects the bounds of all rows of an instance, and says which answers are right or wrong.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import groupby, permutations, product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from tutti.experiments.runner.config import (
    Config,
    MachinesTable,
    Table,
    TimeText,
    at,
    distinct_seeds,
    positive,
)
from tutti.experiments.runner.results import task_key
from tutti.experiments.runner.study import Outcomes, Row, Study, Task, TaskOutcome, Workplace
from tutti.experiments.runner.tasks import Stopwatch, topology_digest
from tutti.experiments.solver_study.instances import Bounds, SolverInstance
from tutti.experiments.solver_study.milp_instances import (
    find_model,
    integrality,
    is_mixed,
    model_text,
    violation,
)
from tutti.experiments.solver_study.statistics import COLUMNS, MIXED_TOLERANCE, TOLERANCE, instance_of, scored
from tutti.models.solvers import (
    CompiledModel,
    Feature,
    HighsOptions,
    Progress,
    SolutionStatus,
    SolverOptions,
    SolverResult,
    Termination,
    find_backend,
    solve,
)
from tutti.models.solvers.highs import MIXED_PRESOLVE, presolve_loses_optima
from tutti.models.solvers.registry import BACKENDS
from tutti.schedules.collective import collective
from tutti.schedules.method import Method
from tutti.topologies.errors import InputError, TuttiError, Unsupported, suggestion
from tutti.topologies.options import options_text
from tutti.topologies.text import parse_topology
from tutti.topologies.units import MEGA, parse_size, parse_time

OF_THE_RUN = {"time_limit", "memory_limit", "seed", "log", "own_process", "relative_gap"}
"""Options that the study sets for all solvers."""


class InstanceTable(Table):
    """``[[instance]]``: a program; the limit and the seeds are those of ``[study]`` if absent."""

    model: str
    topology: str
    options: dict[str, Any] = Field(default_factory=dict)
    time_limit: TimeText | None = None
    seeds: list[int] | None = Field(default=None, min_length=1)


class SolverTable(Table):
    """``[[solver]]``: a back-end with options, under a label, which is its name if absent."""

    name: str
    label: str = ""
    options: dict[str, Any] = Field(default_factory=dict)

    def checked(self, **more: Any) -> SolverOptions:
        """Return the back-end's options, with those of the run."""
        values: dict[str, Any] = {
            name: float(value) if isinstance(value, Decimal) else value
            for name, value in self.options.items()
        }
        return BACKENDS[self.name].options(**values, **more)


class StudyTable(MachinesTable):
    """``[study]``: what is the same for all solves.

    The first count of `threads` is for all programs, the others for every `threads_every`-th.
    """

    PLACE: ClassVar[str] = "[study]"

    time_limit: TimeText
    memory_limit: str | None = None
    seeds: list[int] = Field(default=[0], min_length=1)
    keep_logs: bool = True
    clock: Literal["wall", "cpu"] = "wall"
    relative_gap: Decimal = Field(default=Decimal("1e-6"), gt=0, lt=1)
    tolerance: Decimal | None = Field(default=None, gt=0, lt=1)
    threads: list[Annotated[int, Field(ge=1)]] = Field(default=[1], min_length=1)
    threads_every: int = Field(default=1, ge=1)


class StudyProgram(NamedTuple):
    """A program of the study.

    Parameters
    ----------
    where
        Its place in the config.
    model, topology
        What it is; the model with its options (`milp_instances.find_model`).
    seeds
        Orders of rows and columns, and the solver's own seed where it has one.
    time_limit
        Seconds of a solve.
    threads
        How many a solver has; each of these is another row.
    """

    where: str
    model: str
    topology: str
    seeds: tuple[int, ...]
    time_limit: float | None
    threads: tuple[int, ...]


class StudyConfig(NamedTuple):
    """A study, read.

    Parameters
    ----------
    table
        What is the same for all solves: ``clock`` says what means and profiles count, ``relative_gap`` where
        branch and cut stops, and ``tolerance`` is that of all solvers that have none in their options.
    programs
        What is solved, in order.
    solvers
        The solvers that are compared.
    memory_limit
        Bytes of a solve; None for none.
    """

    table: StudyTable
    programs: tuple[StudyProgram, ...]
    solvers: tuple[SolverTable, ...]
    memory_limit: float | None

    @property
    def mixed(self) -> bool:
        """Whether it is about mixed-integer programs."""
        return any(is_mixed(program.model) for program in self.programs)


def read_study(config: Config) -> StudyConfig:
    """Return the study of a config.

    Raises
    ------
    InputError
        If a table or key in it is wrong.
    """
    where, study = config.path, config.table(StudyTable, "study")
    instances = config.tables(InstanceTable, "instance")
    seeds = at(f"{where}: [study]", distinct_seeds, study.seeds)
    limit = positive(parse_time, study.time_limit, f"{where}: [study]: time_limit")
    programs = tuple(
        StudyProgram(
            placed.where,
            model_text(table.model, table.options),
            table.topology.strip(),
            seeds if table.seeds is None else at(placed.where, distinct_seeds, table.seeds),
            positive(parse_time, table.time_limit, f"{placed.where}: time_limit") or limit,
            tuple(dict.fromkeys(study.threads if number % study.threads_every == 0 else study.threads[:1])),
        )
        for number, placed in enumerate(instances, start=1)
        for table in (placed.table,)
    )
    found: dict[str, SolverTable] = {}
    for each in config.tables(SolverTable, "solver"):
        solver, name, label = each.table, each.table.name, each.table.label or each.table.name
        if label in found:
            raise InputError(f"{each.where}: label '{label}' occurs twice; give each its own label")
        if name not in BACKENDS:
            raise InputError(f"{each.where}: unknown solver '{name}'{suggestion(name, BACKENDS)}")
        fields = {field.name for field in dataclasses.fields(BACKENDS[name].options)} - OF_THE_RUN
        for option in solver.options:
            asked = f"{each.where}: option '{option}'"
            if option in OF_THE_RUN:
                raise InputError(f"{asked} is the same for all solvers; [study] sets it")
            if option not in fields:
                known = suggestion(option, fields)
                raise InputError(f"{each.where}: solver {name} has no option '{option}'{known}")
        at(each.where, solver.checked)
        found[label] = solver.model_copy(update={"label": label})
    memory = positive(parse_size, study.memory_limit, f"{where}: [study]: memory_limit")
    return StudyConfig(study, programs, tuple(found.values()), memory)


TASK_FORMAT = "tutti.solve/1"
"""A part of every task's key; results of another format are not continued."""
LIMITS = frozenset({Termination.TIME_LIMIT, Termination.MEMORY_LIMIT, Termination.ITERATION_LIMIT})
NO_ANSWER = frozenset({Termination.INFEASIBLE, Termination.UNBOUNDED, Termination.INFEASIBLE_OR_UNBOUNDED})
RIGHT, WRONG, UNPROVEN, AGREED = "right", "wrong", "unproven", "agreed"
"""The values of column ``answer``; an unproven optimum that two solvers claim is agreed."""
MOST_POINTS = 300
"""The largest number of points of a trace that are kept, in addition to those with a better incumbent."""
TINY = Fraction(1, 10**12)
"""The error of an optimum below this is relative to this number."""
LOGS = "logs"
"""The folder of a run that has the solvers' logs."""
EXACT = ("lower_exact", "upper_exact")
"""The bounds that a row proved, as texts of fractions: `judged` intersects and removes them."""


@dataclass(frozen=True, kw_only=True)
class StudyTask(Task):
    """One solve; the time limit is the solver's.

    Parameters
    ----------
    known
        The columns of its row that say what is solved: ``model``, ``topology`` and what the network is.
    solver, table
        As the config has them.
    order
        The seed: the order of rows and columns, and the solver's own.
    memory_limit
        Bytes.
    threads
        The number of threads of the solver.
    """

    known: Row
    solver: SolverTable
    table: StudyTable
    order: int
    memory_limit: float | None
    threads: int = 1

    def __str__(self) -> str:
        return f"{self.known['model']} {self.known['topology']} {self.method} seed={self.order}"

    @property
    def method(self) -> str:
        """The solver's label, with its threads if they are several."""
        return self.solver.label if self.threads == 1 else f"{self.solver.label}, {self.threads} threads"

    @property
    def names(self) -> tuple[str, ...]:
        """The texts by which ``--only`` chooses it: model, topology and solver."""
        return self.known["model"], self.known["topology"], self.solver.label

    def rows(self, status: str, message: str = "") -> list[Row]:
        """Return its row with what is known without running it."""
        limit_mb = None if self.memory_limit is None else self.memory_limit / MEGA
        row = self.known | {"method": self.method, "seed": self.order, "solver": self.solver.name}
        row |= {"limit_s": self.time_limit, "limit_mb": limit_mb, "threads": self.threads}
        return [row | {"options": options_text(self.solver.options), "status": status, "message": message}]

    def run(self, place: Workplace) -> TaskOutcome:
        """Solve it, and check the answer."""
        logs, model = place.directory / LOGS, self.known["model"]
        # A worker on another machine may not see the folder of the run.
        log = logs / f"{self.key[:16]}.log" if self.table.keep_logs and logs.is_dir() else None
        options = self._options(log)
        needs = {Feature.MILP if is_mixed(model) else Feature.LP, *options.needs}
        needs |= {Feature.THREADS} if self.threads > 1 else set()
        try:
            backend = find_backend(self.solver.name, needs)
        except InputError as error:  # not installed: the study continues without it
            return TaskOutcome("unsupported", self.rows("unsupported", str(error)))
        instance = _instance(model, self.known["topology"])
        presolved = isinstance(options, HighsOptions) and options.presolve
        if presolved and presolve_loses_optima(instance.compiled):
            raise Unsupported(MIXED_PRESOLVE)
        points: list[Progress] = []
        # The seed also permutes rows and columns; the answer is put back into the model's own order.
        result = solve(instance.compiled.permuted(self.order), backend.name, options, trace=points.append)
        given = zip((result.values, result.duals), instance.compiled.orders(self.order)[::-1], strict=True)
        values, duals = (None if own is None else own[np.argsort(places)] for own, places in given)
        result = replace(result, values=values, duals=duals, model=instance.compiled)
        with Stopwatch() as watch:
            proven = lower, upper = instance.bounds(result)
        status, message = _status(result)
        (row,) = self.rows(status, message)
        row |= {column: getattr(result, name) for column, name in MEASURED.items()}
        row |= {"solver": f"{result.solver} {result.version}", "termination": str(result.termination)}
        row |= {"certified_by": instance.certified_by, "build_s": instance.build_s}
        row |= {"solution_status": str(result.status), "certify_s": watch.seconds}
        row["tolerance"] = options.tolerance or backend.tolerance
        if result.values is not None:
            row["violation"] = float(violation(instance.compiled, result.values))
        row["timed_s"] = result.cpu_s if self.table.clock == "cpu" else result.solve_s
        if instance.compiled.integer.any():
            row |= _mixed(instance.compiled, result, points, lower if instance.compiled.maximize else upper)
        row |= {name: str(value) for name, value in zip(EXACT, proven, strict=True) if value is not None}
        row["log"] = None if log is None else f"{LOGS}/{log.name}"
        return TaskOutcome(status, [row])

    def _options(self, log: Path | None) -> SolverOptions:
        backend = BACKENDS[self.solver.name]
        own: dict[str, Any] = {"seed": self.order} if Feature.SEED in backend.features else {}
        if self.table.tolerance is not None and backend.sets_tolerance:
            own["tolerance"] = float(self.table.tolerance)
        if self.threads > 1 and Feature.THREADS in backend.features:
            own["threads"] = self.threads
        own = {name: value for name, value in own.items() if name not in self.solver.options}
        if is_mixed(self.known["model"]) and Feature.MILP in backend.features:
            own["relative_gap"] = float(self.table.relative_gap)
        limits = {"time_limit": self.time_limit, "memory_limit": self.memory_limit}
        return self.solver.checked(**limits, **own, log=log, own_process=True)


@lru_cache(maxsize=1)
def _instance(model: str, topology: str) -> SolverInstance:
    return find_model(model).build(parse_topology(topology))


def _status(result: SolverResult) -> tuple[str, str]:
    if result.termination is Termination.OPTIMAL:
        whole = result.status is SolutionStatus.OPTIMAL
        return ("ok", "") if whole else ("grid", "optimal on the solver's own grid only")
    text = f"stopped with '{result.termination}'" + (f" ({result.stopped})" if result.stopped else "")
    return ("timeout" if result.termination in LIMITS else "failed"), text


MEASURED = {name: name for name in ("objective", "nonzeros", "iterations", "solve_s", "cpu_s", "peak_rss_mb")}
MEASURED |= {"variables": "columns", "constraints": "rows", "tree_nodes": "nodes"}
"""Columns that are a solver's result, and what it calls them."""


def _mixed(
    model: CompiledModel, result: SolverResult, points: Sequence[Progress], worth: Fraction | None
) -> dict[str, Any]:
    """Return the columns that only a mixed-integer program has."""
    # All better incumbents are kept, and bounds with even steps between.
    kept = [next(same) for _, same in groupby(points, key=lambda point: (point.incumbent, point.bound))]
    better = {i for i in range(len(kept)) if not i or kept[i].incumbent != kept[i - 1].incumbent}
    step, last = len(kept) // MOST_POINTS + 1, Progress(result.solve_s, result.objective, result.bound)
    shown = [*(point for i, point in enumerate(kept) if i in better or i % step == 0), last]
    # Solvers' logs round their seconds, and no point is later than the end.
    trace = [[min(p.seconds, last.seconds), p.incumbent, p.bound] for p in shown]
    return {
        "integers": int(model.integer.sum()),
        "maximize": model.maximize,
        "bound": result.bound,
        "worth": None if worth is None else float(worth),
        "feasible": None if result.values is None else worth is not None,
        "integrality": None if result.values is None else integrality(model, result.values),
        "trace": json.dumps(trace),
    }


def study_of(given: Config, methods: Mapping[str, Method]) -> Study:
    """Return the study of a config.

    Raises
    ------
    InputError
        As `make_tasks`.
    """
    config = read_study(given)
    table, tolerance = config.table, config.table.tolerance
    solvers = {one.label: f"{one.name} {options_text(one.options)}".strip() for one in config.solvers}
    return Study(
        given,
        make_tasks(config),
        table,
        arrange=_arranged,
        columns=COLUMNS,
        folders=(LOGS,) if table.keep_logs else (),
        seeds=frozenset(seed for program in config.programs for seed in program.seeds),
        settings={
            "memory_limit_bytes": config.memory_limit,
            "clock": table.clock,
            **({"relative_gap": float(table.relative_gap)} if config.mixed else {}),
            **({} if tolerance is None else {"tolerance": float(tolerance)}),
            "solvers": solvers,
        },
        counted={"answers": "answer"},
    )


def make_tasks(config: StudyConfig) -> list[StudyTask]:
    """Return the tasks in the config's order: by instance, solver and seed.

    Raises
    ------
    InputError
        If a model or topology is unknown, an instance is asked for twice, or the models are of both kinds.
    """
    tasks: list[StudyTask] = []
    seen: dict[str, str] = {}
    table = config.table
    mixed = (table.clock, float(table.relative_gap)) if config.mixed else ()
    tolerance = {} if table.tolerance is None else {"tolerance": float(table.tolerance)}
    for program in config.programs:
        name = f"{program.model} {program.topology}"
        if name in seen:
            raise InputError(f"{program.where}: {name} is also {seen[name]}; remove one of them")
        seen[name] = program.where.partition(": ")[2] or program.where
        model = at(program.where, find_model, program.model)
        topology = at(program.where, parse_topology, program.topology)
        known = {number: getattr(topology, f"num_{number}") for number in ("nodes", "switches", "links")}
        known |= {"collective": str(collective(model.kind, topology.num_ranks)), "builder": "pyomo"}
        known |= {"topology": program.topology, "model": model.name}
        what = (TASK_FORMAT, topology_digest(topology), program.topology, program.model)
        for solver, threads, seed in product(config.solvers, program.threads, program.seeds):
            given = tolerance | ({"threads": threads} if threads > 1 else {})
            rest = (seed, config.memory_limit, *mixed, *filter(None, [given]))
            tasks.append(
                StudyTask(
                    key=task_key(*what, solver.label, solver.name, solver.options, *rest),
                    time_limit=program.time_limit,
                    known=known,
                    solver=solver,
                    table=table,
                    order=seed,
                    memory_limit=config.memory_limit,
                    threads=threads,
                )
            )
    kinds = {is_mixed(program.model): program for program in config.programs}
    if len(kinds) > 1:  # their means have other shifts, their reports other charts
        whole, other = kinds[True], kinds[False].model
        said = f"model '{whole.model}' is a mixed-integer program and '{other}' is not; make two studies"
        raise InputError(f"{whole.where}: {said}")
    return tasks


def _arranged(tasks: Sequence[Task], outcomes: Outcomes) -> Iterator[list[Row]]:
    """Yield all rows: the bounds that one row proved judge the others of its instance."""
    yield scored(judged([row for _, outcome in outcomes(tasks) for row in outcome.rows]))


def judged(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with what all of them together prove of their instances, and which are wrong.

    Raises
    ------
    TuttiError
        If two proofs contradict each other.
    """
    proven: dict[tuple[str, str], Bounds] = {}
    for key, own in groupby(sorted(rows, key=instance_of), instance_of):
        same = list(own)
        lowers, uppers = ([Fraction(row[name]) for row in same if row.get(name)] for name in EXACT)
        proven[key] = lower, upper = max(lowers, default=None), min(uppers, default=None)
        if lower is not None and upper is not None and lower > upper:
            said = f"its optimum is proven to be at least {lower} and at most {upper}"
            raise TuttiError(f"{' '.join(key)}: {said}")
    found = [_judged(row, *proven[instance_of(row)]) for row in rows]
    claims = [row for row in found if row.get("answer") == UNPROVEN and row.get("integers") is not None]
    for _, own in groupby(sorted(claims, key=instance_of), instance_of):
        for row, other in permutations(list(own), 2):
            near = abs(other["objective"] - row["objective"]) <= _room(row["objective"])
            if near and other["solver"] != row["solver"]:
                row["answer"] = AGREED  # two back-ends claim the same optimum
    return found


def _judged(row: Row, lower: Fraction | None, upper: Fraction | None) -> Row:
    """Return the row with what is proven of its instance, and whether its answer is wrong.

    An objective outside of the bounds by more than the tolerance is wrong. One inside is right if there are
    bounds on both sides and, in a mixed-integer program, they are within the tolerance of each other.
    """
    certified = {"certified_lower": lower, "certified_upper": upper}
    more: Row = {name: None if bound is None else float(bound) for name, bound in certified.items()}
    more["certified_exact"] = str(lower) if lower is not None and lower == upper else None
    mixed = row.get("integers") is not None
    if row["status"] == "ok" and row.get("objective") is not None:
        # How far the objective lies outside, relative to the end that it passed.
        below = 0 if lower is None else (lower - Fraction(row["objective"])) / max(abs(lower), TINY)
        above = 0 if upper is None else (Fraction(row["objective"]) - upper) / max(abs(upper), TINY)
        error = float(max(below, above, 0))
        right, more["relative_error"] = False, None
        if lower is not None and upper is not None:
            more["relative_error"] = error
            right = not mixed or float(upper - lower) <= _room(float(upper))
        tolerance = MIXED_TOLERANCE if mixed else TOLERANCE
        more["answer"] = WRONG if error > tolerance else RIGHT if right else UNPROVEN
    if mixed and _false(row, lower if row["maximize"] else upper):
        more["answer"] = WRONG
    return {name: value for name, value in row.items() if name not in EXACT} | more


def _false(row: Row, reached: Fraction | None) -> bool:
    """Whether a mixed-integer program's row makes a claim that exact arithmetic refutes.

    Either the incumbent breaks a constraint, or is worse than its objective says. Or the bound, or the claim
    that there is no solution, excludes a checked incumbent of the value `reached`.
    """
    objective, bound, value = row["objective"], row["bound"], row["worth"]
    sign = -1 if row["maximize"] else 1
    # With the sign, smaller values are better in both senses.
    flattered = None not in (objective, value) and sign * (value - objective) > _room(objective)
    if row["feasible"] is False or flattered:
        return True
    if reached is None:
        return False
    best = float(reached)
    return row["termination"] in NO_ANSWER or (bound is not None and sign * (bound - best) > _room(best))


def _room(value: float) -> float:
    """Return the tolerance for a value of a mixed-integer program."""
    return MIXED_TOLERANCE * max(1.0, abs(value))

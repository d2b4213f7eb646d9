"""Running a study: the same pool, store and manifest as any experiment, and a report of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from rich.console import Console

from tutti.experiments.runner.plan import task_key
from tutti.experiments.runner.run import RunOptions, Summary, carry_out
from tutti.experiments.runner.study import Outcomes, Study
from tutti.experiments.runner.tasks import Row, Task, topology_digest
from tutti.experiments.solver_study.config import COLUMNS, StudyConfig, StudyProgram, read_study
from tutti.experiments.solver_study.milp_instances import find_model, is_mixed
from tutti.experiments.solver_study.milp_statistics import scored
from tutti.experiments.solver_study.statistics import not_run
from tutti.experiments.solver_study.tasks import StudyTask, judged
from tutti.schedules.collective import collective
from tutti.topologies.errors import InputError, TuttiError
from tutti.topologies.options import options_text
from tutti.topologies.text import parse_topology

TASK_FORMAT = "tutti.solve/1"
LOGS = "logs"
PERFORM = "tutti.experiments.solver_study.tasks:perform"


def run_study(config_path: Path | str, options: RunOptions, console: Console) -> Summary:
    """Run a study of solvers, or the rest of it, and write its results and report; as `carry_out`.

    What a solver was not run on is said on the console.
    """
    summary = carry_out(study_of(read_study(config_path), options.out), options, console)
    if not (options.quiet or summary.interrupted):
        for line in not_run(summary.rows):
            console.print(f"not run: {line}", markup=False, highlight=False)
    return summary


def study_of(config: StudyConfig, directory: Path | None = None) -> Study:
    """Return the study of a config; logs go into a folder of `directory`, None for the study's own.

    Raises
    ------
    InputError
        As `make_tasks`.
    """
    logs = ((directory or Path("results") / config.name) / LOGS).absolute()  # workers may stand elsewhere
    return Study(
        name=config.name,
        path=config.path,
        text=config.text,
        tasks=make_tasks(config, logs if config.keep_logs else None),
        arrange=_judged,
        report=_write_report,
        perform=PERFORM,
        table="[study]",
        workers=config.workers,
        scheduler=config.scheduler,
        folders=(LOGS,) if config.keep_logs else (),
        columns=COLUMNS,
        settings={
            "memory_limit_bytes": config.memory_limit,
            "clock": config.clock,
            **({"relative_gap": config.relative_gap} if config.mixed else {}),
            **({} if config.tolerance is None else {"tolerance": config.tolerance}),
            "solvers": {e.label: f"{e.solver} {options_text(e.given)}".strip() for e in config.solvers},
        },
        counted={"answers": "answer"},
    )


def make_tasks(config: StudyConfig, logs: Path | None) -> list[StudyTask]:
    """Return the tasks in the config's order: by instance, solver and seed.

    Raises
    ------
    InputError
        If a model or topology is unknown, an instance is asked for twice, or the models are of both kinds.
    """
    tasks: list[StudyTask] = []
    seen: dict[tuple[str, str], str] = {}
    for program in config.programs:
        name = (program.model, program.topology)
        if name in seen:
            raise InputError(f"{program.where}: {' '.join(name)} is also {seen[name]}; remove one of them")
        seen[name] = program.where.partition(": ")[2] or program.where
        tasks += _tasks_of(program, config, logs)
    _check_kinds(config.programs)
    return tasks


def _check_kinds(programs: Sequence[StudyProgram]) -> None:
    """Refuse a study of both kinds of programs: their means have other shifts, their reports other charts."""
    kinds = {is_mixed(program.model): program for program in programs}
    if len(kinds) > 1:
        raise InputError(
            f"{kinds[True].where}: model '{kinds[True].model}' is a mixed-integer program and "
            f"'{kinds[False].model}' is not; make two studies"
        )


def _tasks_of(program: StudyProgram, config: StudyConfig, logs: Path | None) -> Iterator[StudyTask]:
    try:
        model = find_model(program.model)
        topology = parse_topology(program.topology)
    except TuttiError as error:
        raise InputError(f"{program.where}: {error}") from error
    what = (topology_digest(topology), program.topology, program.model)
    mixed = (config.clock, config.relative_gap) if config.mixed else ()
    for entrant in config.solvers:
        for threads, seed in product(program.threads, program.seeds):
            who = (entrant.label, entrant.solver, dict(entrant.given))
            more = {"tolerance": config.tolerance, "threads": threads if threads > 1 else None}
            given = {name: value for name, value in more.items() if value is not None}
            rest = (config.memory_limit, *mixed, *([given] if given else []))
            key = task_key(TASK_FORMAT, *what, *who, seed, *rest)
            log = None if logs is None else logs / f"{key[:16]}.log"
            yield StudyTask(
                topology=program.topology,
                nodes=topology.num_nodes,
                switches=topology.num_switches,
                links=topology.num_links,
                collective=collective(model.kind, topology.num_ranks),
                method=entrant.label if threads == 1 else f"{entrant.label}, {threads} threads",
                kind="exact",
                options=entrant.given,
                seeded=True,
                seeds=(seed,),
                sizes=(0,),
                size_dependent=False,
                key=key,
                model=model.name,
                entrant=entrant,
                order=seed,
                time_limit=program.time_limit,
                memory_limit=config.memory_limit,
                log=log,
                clock=config.clock,
                relative_gap=config.relative_gap,
                tolerance=config.tolerance,
                threads=threads,
            )


def _judged(tasks: Sequence[Task], outcomes: Outcomes) -> Iterator[list[Row]]:
    """Yield all rows: what one proved judges the others."""
    yield scored(judged([row for _, outcome in outcomes(tasks) for row in outcome.rows]))


def _write_report(directory: Path) -> Path:
    from tutti.experiments.solver_study.report import write_study_report  # drawing takes a while to import

    return write_study_report(directory)

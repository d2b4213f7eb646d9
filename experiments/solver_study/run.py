"""Running a study: the same pool, store and manifest as any experiment, and a report of its own."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments import plugins
from experiments.runner.manifest import code_digest, describe, now
from experiments.runner.options import options_text
from experiments.runner.plan import topology_digest
from experiments.runner.pool import KEPT, DiskError, Pool, Setting, one_line
from experiments.runner.progress import Reporter
from experiments.runner.results import write_results
from experiments.runner.run import RunOptions, Summary, available_workers, say_damaged, written_report
from experiments.runner.store import Store
from experiments.runner.tasks import Row
from experiments.solver_study.config import COLUMNS, Entrant, Program, StudyConfig, read_study
from experiments.solver_study.milp_statistics import scored
from experiments.solver_study.models import find_model, is_mixed
from experiments.solver_study.tasks import StudyTask, judged
from schedules.collective import collective
from topologies.errors import InputError, TuttiError
from topologies.text import parse_topology
from topologies.topology import Topology

TASK_FORMAT = "tutti.solve/1"
LOGS = "logs"
PERFORM = "experiments.solver_study.tasks:perform"


def run_study(config_path: Path | str, options: RunOptions, console: Console) -> Summary:
    """Run a study, or the rest of it, and write its results and report.

    Raises
    ------
    InputError
        If the config or an option is wrong; nothing has run then.
    DiskError, OSError
        If results can't be written; those written stay.
    """
    config = read_study(config_path)
    directory = options.out or Path("results") / config.name
    if options.scheduler is not None:
        raise InputError(f"--scheduler {options.scheduler}: a study times solvers on this machine only")
    tasks = make_tasks(config, directory / LOGS if config.keep_logs else None)
    chosen = tasks if options.only is None else select(tasks, options.only)
    workers = available_workers(options.workers, config.workers, config.path, "[study]")
    with Store(directory) as store:
        if config.keep_logs:
            (directory / LOGS).mkdir(exist_ok=True)
        if options.fresh:
            store.forget(chosen)
        started = now()
        say_damaged(store, console)
        todo = [task for task in chosen if not store.settled(task, task.time_limit)]
        interrupted = not _perform(store, todo, options, workers, console)
        rows = _judged_rows(store, tasks)
        sessions = [*store.sessions(), {"started": started, "ended": now()}]
        write_results(rows, directory, COLUMNS)
        store.write_manifest(_manifest(config, tasks, rows, sessions, workers))
        report = written_report(_write_report, directory, console)
        return Summary(
            directory, rows, len(tasks) - len(rows), interrupted, report, store.holds_others(tasks)
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


def _check_kinds(programs: Sequence[Program]) -> None:
    """Refuse a study of both kinds of programs: their means have other shifts, their reports other charts."""
    kinds = {is_mixed(program.model): program for program in programs}
    if len(kinds) > 1:
        raise InputError(
            f"{kinds[True].where}: model '{kinds[True].model}' is a mixed-integer program and "
            f"'{kinds[False].model}' is not; make two studies"
        )


def _tasks_of(program: Program, config: StudyConfig, logs: Path | None) -> Iterator[StudyTask]:
    try:
        model = find_model(program.model)
        topology = parse_topology(program.topology)
    except TuttiError as error:
        raise InputError(f"{program.where}: {error}") from error
    for entrant in config.solvers:
        for seed in program.seeds:
            key = _key(program, topology, entrant, (seed, config.memory_limit, *_of_mixed(config)))
            log = None if logs is None else logs / f"{key[:16]}.log"
            yield StudyTask(
                topology=program.topology,
                nodes=topology.num_nodes,
                switches=topology.num_switches,
                links=topology.num_links,
                collective=collective(model.kind, topology.num_ranks),
                method=entrant.label,
                kind="exact",
                options=entrant.given,
                seeded=True,
                seeds=(seed,),
                sizes=(0,),
                size_dependent=False,
                key=key,
                model=model.name,
                builder=model.builder,
                entrant=entrant,
                order=seed,
                time_limit=program.time_limit,
                memory_limit=config.memory_limit,
                log=log,
                clock=config.clock,
                relative_gap=config.relative_gap,
            )


def _of_mixed(config: StudyConfig) -> tuple[Any, ...]:
    return (config.clock, config.relative_gap) if config.mixed else ()


def _key(program: Program, topology: Topology, entrant: Entrant, more: tuple[Any, ...]) -> str:
    """Return a hash of everything that determines a row, the code that makes it included."""
    what = [topology_digest(topology), program.topology, program.model]
    who = [entrant.label, entrant.solver, dict(entrant.given)]
    code = [code_digest(), *plugins.digests(*what, *who)]
    text = json.dumps([TASK_FORMAT, *code, *what, *who, *more], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def select(tasks: Sequence[StudyTask], pattern: str) -> list[StudyTask]:
    """Return the tasks whose model, topology, solver or whole text matches a shell pattern.

    Raises
    ------
    InputError
        If none does.
    """
    chosen = [
        task
        for task in tasks
        if any(fnmatchcase(text, pattern) for text in (task.model, task.topology, task.method, str(task)))
    ]
    if not chosen:
        names = sorted({task.model for task in tasks} | {task.method for task in tasks})
        raise InputError(f"--only '{pattern}' matches none of the {len(tasks)} tasks; try one of {names}")
    return chosen


def _perform(
    store: Store, todo: Sequence[StudyTask], options: RunOptions, workers: int, console: Console
) -> bool:
    """Run tasks, writing each as it ends; return whether all of them ended."""
    limits = {task.key: task.time_limit for task in todo}
    with (
        contextlib.suppress(KeyboardInterrupt),
        Reporter(console, len(todo), 0, quiet=options.quiet) as reporter,
        Pool(workers, Setting(perform=PERFORM)) as pool,
    ):
        for task, outcome in pool.run(todo, {}, reporter.started):
            try:
                store.save(task, outcome, limits[task.key])
            except OSError as error:
                raise DiskError(f"{one_line(error)}; {KEPT}") from error
            reporter.finished(task, outcome)
        return True
    return False


def _judged_rows(store: Store, tasks: Sequence[StudyTask]) -> list[Row]:
    return scored(judged([row for _, outcome in store.outcomes(tasks) for row in outcome.rows]))


def _manifest(
    config: StudyConfig,
    tasks: Sequence[StudyTask],
    rows: Sequence[Row],
    sessions: Sequence[Mapping[str, str]],
    workers: int,
) -> dict[str, Any]:
    settings = {
        "workers": workers,
        "memory_limit_bytes": config.memory_limit,
        "clock": config.clock,
        **({"relative_gap": config.relative_gap} if config.mixed else {}),
        "solvers": {e.label: f"{e.solver} {options_text(e.given)}".strip() for e in config.solvers},
        "answers": dict(Counter(row.get("answer") or "none" for row in rows)),
    }
    return {
        "name": config.name,
        **describe(
            config.path,
            config.text,
            seeds=[task.order for task in tasks],
            settings=settings,
            statuses=[row["status"] for row in rows],
            sessions=sessions,
        ),
    }


def _write_report(directory: Path) -> Path:
    from experiments.solver_study.report import write_study_report  # drawing takes a while to import

    return write_study_report(directory)

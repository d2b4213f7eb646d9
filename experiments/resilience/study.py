"""A study of failures on the one runner: a task a sample, a row for each method and what is made of it.

Of each method there are three rows: its schedule of the whole network *rerouted* as a network does, the same
*repaired* (`schedules.repair`), and one made *anew* on what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from rich.console import Console

from tutti.experiments.registry import METHODS, find_method
from tutti.experiments.resilience.failures import ANEW, COLUMNS, DISCONNECTED, MADE, REROUTED, Failures
from tutti.experiments.runner.config import Config, read_config
from tutti.experiments.runner.judge import ProvenBound, bound_columns, too_fast
from tutti.experiments.runner.plan import make_plan, task_key, time_limit
from tutti.experiments.runner.run import RunOptions, Summary, carry_out
from tutti.experiments.runner.study import Study, in_order
from tutti.experiments.runner.tasks import (
    JUDGE,
    Row,
    Stopwatch,
    Synthesized,
    Task,
    TaskOutcome,
    Workplace,
    guarded,
    status_of,
    synthesize_best,
)
from tutti.models.bounds import own_bounds
from tutti.schedules.method import Problem
from tutti.schedules.repair import fastest_repair, rerouted
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.pipelining import best_slices
from tutti.schedules.simulation.simulate import SimulationOptions, simulate
from tutti.schedules.verify import verify
from tutti.topologies.errors import Disconnected, InputError, NoSchedule, TuttiError, Unsupported
from tutti.topologies.options import build_options, options_text
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import MICRO

TASK_FORMAT = "tutti.resilience/1"


@dataclass(frozen=True)
class FailureTask(Task):
    """A sample: what fails, and the tasks of the methods on the whole network, for one size.

    Of what any task has besides, method, kind and options mean nothing.
    """

    what: str
    count: int
    failed: str
    left: str
    whole: tuple[Task, ...]

    def __str__(self) -> str:
        return f"{self.left} {self.collective}"

    @property
    def names(self) -> tuple[str, ...]:
        """What it is picked by, besides the whole text."""
        return self.topology, self.left, str(self.collective)

    def rows(self, status: str, message: str = "") -> list[Row]:
        """Return one row with what is known without running it."""
        known = {
            name: getattr(self, name) for name in ("topology", "nodes", "switches", "links", "failed", "left")
        }
        known |= {"collective": str(self.collective), "size_bytes": self.sizes[0], "kind": self.what}
        return [known | {"failures": self.count, "status": status, "message": message}]


def perform(task: FailureTask, place: Workplace) -> TaskOutcome:
    """Run a task; whatever goes wrong becomes its row."""
    try:
        left = place.topology(task.left)
    except Disconnected as error:
        return TaskOutcome(DISCONNECTED, task.rows(DISCONNECTED, str(error)))

    def work() -> TaskOutcome:
        rows = [row for one in task.whole for row in _rows(task, one, left, place)]
        return TaskOutcome("ok", _judged(task, left, rows))

    return guarded(task, work, ())


_whole: dict[tuple[str, int], tuple[Schedule, int, float]] = {}
"""By a task's key and size, of this process: its schedule on the whole network, in which slices, its time."""
MOST_WHOLE = 16


def _on_whole(task: Task, size: int, place: Workplace) -> tuple[Schedule, int, float]:
    key = (task.key, size)
    if key not in _whole:
        if len(_whole) >= MOST_WHOLE:
            _whole.clear()
        made = _made(task, place.topology(task.topology), size, place).schedule
        _whole[key] = made, *best_slices(made, Fraction(size))
    return _whole[key]


def _made(task: Task, topology: Topology, size: int, place: Workplace) -> Synthesized:
    """Return the method's schedule on a network, verified."""
    method = find_method(task.method, place.methods)
    problem = Problem(topology, task.collective, Fraction(size) if task.size_dependent else None)
    options = build_options(method, task.options)
    return synthesize_best(method, problem, options, task.seeds, Fraction(size), place.notify)


def _rows(task: FailureTask, one: Task, left: Topology, place: Workplace) -> Iterator[Row]:
    """Yield the rows of a method with its schedules, timed, which are not set against a bound yet.

    What is changed stays in the slices that it was in.
    """
    size, known = Fraction(task.sizes[0]), {"method": one.method, "options": options_text(one.options)}
    try:
        whole, slices, seconds = _on_whole(one, task.sizes[0], place)
    except (Unsupported, NoSchedule) as error:
        yield task.rows(status_of(error), str(error))[0] | known
        return
    in_slices = SimulationOptions(slices)
    for made in MADE:
        row = task.rows("ok")[0] | known | {"made": made, "whole_us": seconds * MICRO}
        try:
            if made == ANEW:
                found = _made(one, left, task.sizes[0], place)
                schedule, took = found.schedule, found.synth_s
                time = best_slices(schedule, size)[1]
            else:
                place.notify(JUDGE)
                with Stopwatch() as watch:
                    if made == REROUTED:
                        schedule = rerouted(whole, left)
                    else:
                        schedule = fastest_repair(whole, left, size, slices)
                verify(schedule)
                took, row["changed"] = watch.seconds, schedule.stats["changed"]
                time = simulate(schedule, size, in_slices).time
        except (Unsupported, NoSchedule) as error:
            yield row | {"status": status_of(error), "message": str(error)}
            continue
        row |= {"transfers": len(schedule), "synth_s": took, "time_us": time * MICRO, "schedule": schedule}
        yield row | {"loss": time / seconds - 1 if seconds else None}


def _judged(task: FailureTask, left: Topology, rows: Sequence[Row]) -> list[Row]:
    """Return rows with gaps to the best bound that is known of what is left."""
    size, made = Fraction(task.sizes[0]), [row for row in rows if row["status"] == "ok"]
    bound = ProvenBound.of(left, task.collective, size)
    for row in made:
        bound = bound.or_better(own_bounds(row.pop("schedule")), size)
    for row in made:
        row |= bound_columns(row["time_us"], bound)
        if too_fast(row):
            raise TuttiError(f"{row['method']}, {row['made']}: {row['time_us']:.9g} us beats the bound")
    return list(rows)


def run_resilience(path: Path | str, options: RunOptions, console: Console) -> Summary:
    """Run a study of failures, or the rest of it, and write its results and page; as `carry_out`."""
    return carry_out(study_of(read_config(path)), options, console)


def study_of(config: Config) -> Study:
    """Return the study of a config.

    Raises
    ------
    InputError
        As `make_plan`, and for failures that make no sense or are for none of the networks.
    """
    return Study(
        name=config.name,
        path=config.path,
        text=config.text,
        tasks=list(_tasks(config)),
        arrange=in_order,
        report=_write_report,
        perform="tutti.experiments.resilience.study:perform",
        workers=config.run.workers,
        scheduler=config.run.scheduler,
        columns=COLUMNS,
        settings={"time_limit_s": time_limit(config)},
    )


def _tasks(config: Config) -> Iterator[FailureTask]:
    tables = [Failures(placed) for placed in config.failures]
    groups: dict[tuple[str, str, int], list[Task]] = {}
    for task in make_plan(config, METHODS):
        for size in task.sizes:
            groups.setdefault((task.topology, str(task.collective), size), []).append(task)
    networks = {text: parse_topology(text) for text, _, _ in groups}
    idle = next((table for table in tables if not any(map(table.is_for, networks))), None)
    if idle is not None:
        raise InputError(f"{idle.where}: topologies = {idle.topologies} match none of the networks")
    for (text, _, size), whole in groups.items():
        for table in tables if whole else []:
            if table.is_for(text):
                for count in table.counts:
                    for failed, left in table.broken(networks[text], count):
                        yield _task(table, count, failed, left, size, whole)


def _task(
    table: Failures, count: int, failed: str, left: str, size: int, whole: Sequence[Task]
) -> FailureTask:
    first = whole[0]
    return FailureTask(
        topology=first.topology,
        nodes=first.nodes,
        switches=first.switches,
        links=first.links,
        collective=first.collective,
        method="",
        kind="resilience",
        options={},
        seeded=False,
        seeds=(0,),
        sizes=(size,),
        size_dependent=True,
        key=task_key(TASK_FORMAT, left, size, *(task.key for task in whole)),
        time_limit=first.time_limit,
        memory=max((task.memory for task in whole if task.memory is not None), default=None),
        what=table.kind,
        count=count,
        failed=failed,
        left=left,
        whole=tuple(whole),
    )


def _write_report(directory: Path) -> Path:
    from tutti.experiments.resilience.report import write_page  # drawing takes a while to import

    return write_page(directory)

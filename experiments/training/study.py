"""A study of training on the one runner: a task a job and method, its row the iteration taken apart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from tutti.experiments.runner.plan import task_key
from tutti.experiments.runner.run import RunOptions, Summary, carry_out
from tutti.experiments.runner.study import Study, in_order
from tutti.experiments.runner.tasks import Row, Task, TaskOutcome, Workplace, guarded
from tutti.experiments.training.clock import Network
from tutti.experiments.training.config import (
    COLUMNS,
    Entrant,
    Job,
    StatedTable,
    TrainingConfig,
    read_training,
)
from tutti.experiments.training.iteration import BACKWARD, FORWARD, Iteration, iterate
from tutti.experiments.training.workload import WEIGHTS, Communication
from tutti.schedules.collective import Kind, collective
from tutti.topologies.options import options_text

TASK_FORMAT = "tutti.training/1"
MOST_BARS = 400
"""Most bars of a timeline that is stored."""


@dataclass(frozen=True)
class TrainingTask(Task):
    """A job with a method; of what any task has besides only key, ranks and method mean anything."""

    job: Job
    entrant: Entrant

    def __str__(self) -> str:
        return f"{self.job.name} {self.entrant.label}"

    @property
    def names(self) -> tuple[str, ...]:
        """What it is picked by, besides the whole text."""
        return self.job.name, self.entrant.label

    def rows(self, status: str, message: str = "") -> list[Row]:
        """Return its row with what is known without running it."""
        workload, table = self.job.workload, self.entrant.table
        networks = {**self.job.networks, **table.networks} if self.entrant.formula is None else {}
        shown = {group: text for group, text in networks.items() if isinstance(text, str)}
        return [
            {
                "job": self.job.name,
                "model": workload.name,
                "parallelism": str(workload.parallelism),
                "ranks": workload.parallelism.ranks,
                "method": self.entrant.label,
                "options": options_text(table.options),
                "networks": " ".join(f"{group}={text}" for group, text in shown.items()),
                "status": status,
                "message": message,
                "note": workload.source,
            }
        ]


def perform(task: TrainingTask, place: Workplace) -> TaskOutcome:
    """Run a task; whatever goes wrong becomes its row."""

    def work() -> TaskOutcome:
        networks = task.entrant.on(task.job)
        return TaskOutcome("ok", [task.rows("ok")[0] | _columns(task.job, networks)])

    return guarded(task, work)


def _columns(job: Job, networks: Mapping[str, Network]) -> Row:
    def shared(group: str) -> str:
        """Return what the group's collectives hold: those on one network take turns."""
        return networks[group].name

    def clock(what: Communication) -> float:
        return networks[what.group].time(what)

    def least(what: Communication) -> float:
        return networks[what.group].bound(what)

    made = iterate(job.workload, clock, shared, job.plan)
    best = iterate(job.workload, least, shared, job.plan)
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
    played = zip(made.times, made.operations, strict=True)
    for (start, end), one in sorted(played, key=lambda pair: pair[0]):
        if end <= start:
            continue
        if isinstance(one.label, Communication):
            part = "weights" if one.label.group in WEIGHTS else "activations"
            what, place = f"{one.label.kind} ({one.label.group})", one.label.group
        else:
            part, place = "compute", "compute"
            what = FORWARD if one.label.endswith(FORWARD) else BACKWARD
        stream = f"stage {one.stage + 1}, {place}"
        before = last.get(stream)
        if before and before[2] == what and start - before[4] <= gap:
            before[4] = end
        else:
            last[stream] = [stream, part, what, start, end]
            bars.append(last[stream])
    return bars


def run_training(path: Path | str, options: RunOptions, console: Console) -> Summary:
    """Run a study of training, or the rest of it, and write its results and page; as `carry_out`."""
    return carry_out(study_of(read_training(path)), options, console)


def study_of(config: TrainingConfig) -> Study:
    """Return the study of a config."""
    tasks = [
        _task(job, entrant) for job in config.jobs for entrant in config.entrants if entrant.does(job.name)
    ]
    return Study(
        name=config.name,
        path=config.path,
        text=config.text,
        tasks=tasks,
        arrange=in_order,
        report=partial(_write_report, stated=config.stated),
        perform="tutti.experiments.training.study:perform",
        workers=config.workers,
        scheduler=config.scheduler,
        columns=COLUMNS,
    )


def _task(job: Job, entrant: Entrant) -> TrainingTask:
    ranks = job.workload.parallelism.ranks
    parts = (repr(job), repr(entrant))
    return TrainingTask(
        topology=job.name,
        nodes=ranks,
        switches=0,
        links=0,
        collective=collective(Kind.ALLREDUCE, max(ranks, 2)),
        method=entrant.label,
        kind="training",
        options=entrant.table.options,
        seeded=False,
        seeds=(0,),
        sizes=(0,),
        size_dependent=False,
        key=task_key(TASK_FORMAT, *parts),
        job=job,
        entrant=entrant,
    )


def _write_report(directory: Path, stated: Sequence[StatedTable]) -> Path:
    from tutti.experiments.training.report import write_page  # drawing takes a while to import

    return write_page(directory, stated)

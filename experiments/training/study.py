"""A study of training on the one runner: a task a job and method, its row the iteration taken apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tutti.experiments.runner.config import Config, MachinesTable
from tutti.experiments.runner.manifest import task_key
from tutti.experiments.runner.study import Row, Study, Task, TaskOutcome, Workplace
from tutti.experiments.training.config import COLUMNS, Entrant, Network, read_training
from tutti.experiments.training.iteration import BACKWARD, FORWARD, Iteration, Job, iterate
from tutti.experiments.training.workload import WEIGHTS, Communication
from tutti.schedules.method import Method
from tutti.topologies.options import options_text

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

    def run(self, place: Workplace) -> TaskOutcome:
        """Take an iteration apart, and one with optimal collectives."""
        networks = self.entrant.on(self.job)
        return TaskOutcome("ok", [self.rows("ok")[0] | _columns(self.job, networks)])


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

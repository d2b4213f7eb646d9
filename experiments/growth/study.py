"""``tutti find --up-to`` as a study of the one runner: a task an N, its frontiers and Kautz graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tutti.expansions.finder import MOST_DEGREE, MOST_NODES
from tutti.experiments.growth.frontiers import ANY, BOTH_WAYS, COLUMNS, frontier_of, kautz_graphs
from tutti.experiments.runner.manifest import read_manifest
from tutti.experiments.runner.plan import task_key
from tutti.experiments.runner.study import Study, in_order
from tutti.experiments.runner.tasks import Row, Task, TaskOutcome, Workplace, guarded
from tutti.schedules.collective import Kind, collective
from tutti.topologies.errors import InputError

TASK_FORMAT = "tutti.growth/1"
COMMAND = "tutti find"
"""Stands in manifests for the path of a config; its text is the whole command then."""
FIRST_NODES = 2
"""The least N that is searched."""


@dataclass(frozen=True)
class GrowthSearch:
    """What is searched: all N from `FIRST_NODES` to `up_to`.

    Parameters
    ----------
    degree, up_to, bidirectional, most_hops
        d, the largest N, and what the finder is restricted to.

    Raises
    ------
    InputError
        If a number is out of range.
    """

    degree: int
    up_to: int
    bidirectional: bool = False
    most_hops: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not FIRST_NODES <= self.up_to <= MOST_NODES:
            raise InputError(
                f"--up-to is {self.up_to}; the finder searches {FIRST_NODES} to {MOST_NODES} nodes"
            )
        if not 1 <= self.degree <= MOST_DEGREE:
            raise InputError(f"--degree is {self.degree}; the finder searches 1 to {MOST_DEGREE}")
        if self.most_hops is not None and self.most_hops < 1:
            raise InputError(f"--max-diameter is {self.most_hops}; it must be at least 1")

    @property
    def search(self) -> str:
        """What is searched first; the second search is of networks whose links go both ways."""
        return BOTH_WAYS if self.bidirectional else ANY

    def rows(self, nodes: int) -> list[Row]:
        """Return all rows of one N, with the Kautz graphs of this degree and of those of Fig. A.7."""
        rows = frontier_of(nodes, self.degree, self.search, self.most_hops, spans=True)
        if not self.bidirectional:
            rows += frontier_of(nodes, self.degree, BOTH_WAYS, self.most_hops)
        rows += kautz_graphs(nodes, {2, 4, 8, 16, self.degree})
        return [row.document for row in rows]


@dataclass(frozen=True)
class GrowthTask(Task):
    """The networks of one N, its `nodes`; of what any task has besides only the key means anything."""

    growth: GrowthSearch

    def __str__(self) -> str:
        return f"{self.nodes} nodes of degree {self.growth.degree}"

    def rows(self, status: str, message: str = "") -> list[Row]:
        """Return a row that says what became of it."""
        known = {"search": self.growth.search, "degree": self.growth.degree, "nodes": self.nodes}
        return [known | {"status": status, "message": message}]


def perform(task: GrowthTask, place: Workplace) -> TaskOutcome:
    """Run a task; whatever goes wrong becomes its row."""
    return guarded(task, lambda: TaskOutcome("ok", task.growth.rows(task.nodes)), ())


def study_of(growth: GrowthSearch, report: Callable[[Path], Path] | None = None) -> Study:
    """Return the study; `report` draws its page."""
    limits = f"{' --bidirectional' * growth.bidirectional}" + (
        f" --max-diameter {growth.most_hops}" if growth.most_hops else ""
    )
    return Study(
        name=f"degree{growth.degree}",
        path=COMMAND,
        text=f"{COMMAND} --up-to {growth.up_to} --degree {growth.degree}{limits}",
        tasks=[_task(nodes, growth) for nodes in range(FIRST_NODES, growth.up_to + 1)],
        arrange=in_order,
        report=report,
        perform="tutti.experiments.growth.study:perform",
        columns=COLUMNS,
    )


def command_of(directory: Path) -> str | None:
    """Return the command that made a folder; None: no growth did."""
    config = read_manifest(directory).get("config")
    if isinstance(config, dict) and config.get("path") == COMMAND and "text" in config:
        return str(config["text"])
    return None


def _task(nodes: int, growth: GrowthSearch) -> GrowthTask:
    return GrowthTask(
        topology="",
        nodes=nodes,
        switches=0,
        links=nodes * growth.degree,
        collective=collective(Kind.ALLGATHER, nodes),
        method=growth.search,
        kind="exact",
        options={},
        seeded=False,
        seeds=(0,),
        sizes=(0,),
        size_dependent=False,
        key=task_key(TASK_FORMAT, nodes, growth.degree, growth.search, growth.most_hops),
        growth=growth,
    )

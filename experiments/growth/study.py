"""``tutti find --up-to`` as a study of the one runner: a task an N, its frontiers and Kautz graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tutti.expansions.finder import MOST_DEGREE, MOST_NODES
from tutti.experiments.growth.frontiers import ANY, BOTH_WAYS, COLUMNS, frontier_of, kautz_graphs
from tutti.experiments.runner.config import Config
from tutti.experiments.runner.manifest import read_manifest, task_key
from tutti.experiments.runner.study import Row, Study, Task, TaskOutcome, Workplace
from tutti.topologies.errors import InputError

TASK_FORMAT = "tutti.growth/1"
COMMAND = "tutti find"
"""Stands in manifests for the path of a config; its text is the whole command then."""
FIRST_NODES = 2
"""The least N that is searched."""


@dataclass(frozen=True)
class GrowthSearch:
    """A search of all N from `FIRST_NODES` to `up_to`.

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
            allowed = f"the finder searches {FIRST_NODES} to {MOST_NODES} nodes"
            raise InputError(f"--up-to is {self.up_to}; {allowed}")
        if not 1 <= self.degree <= MOST_DEGREE:
            raise InputError(f"--degree is {self.degree}; the finder searches 1 to {MOST_DEGREE}")
        if self.most_hops is not None and self.most_hops < 1:
            raise InputError(f"--max-diameter is {self.most_hops}; it must be at least 1")

    @property
    def search(self) -> str:
        """The first search; the second is of networks whose links all have one back."""
        return BOTH_WAYS if self.bidirectional else ANY

    def rows(self, nodes: int) -> list[Row]:
        """Return all rows of one N, with the Kautz graphs of this degree and of those of Fig. A.7."""
        rows = frontier_of(nodes, self.degree, self.search, self.most_hops, spans=True)
        if not self.bidirectional:
            rows += frontier_of(nodes, self.degree, BOTH_WAYS, self.most_hops)
        return [*rows, *kautz_graphs(nodes, {2, 4, 8, 16, self.degree})]


@dataclass(frozen=True, kw_only=True)
class GrowthTask(Task):
    """The networks of one N."""

    nodes: int
    growth: GrowthSearch

    def __str__(self) -> str:
        return f"{self.nodes} nodes of degree {self.growth.degree}"

    @property
    def names(self) -> tuple[str, ...]:
        """The text by which ``--only`` picks it, in addition to the whole text."""
        return (self.growth.search,)

    def rows(self, status: str, message: str = "") -> list[Row]:
        """Return a row with the status."""
        known = {"search": self.growth.search, "degree": self.growth.degree, "nodes": self.nodes}
        return [known | {"status": status, "message": message}]

    def run(self, place: Workplace) -> TaskOutcome:
        """Search the frontier of N, and return its rows."""
        return TaskOutcome("ok", self.growth.rows(self.nodes))


def study_of(growth: GrowthSearch, report: Callable[[Path], Path] | None = None) -> Study:
    """Return the study; `report` draws its page."""
    limits = " --bidirectional" * growth.bidirectional
    limits += f" --max-diameter {growth.most_hops}" if growth.most_hops else ""
    text = f"{COMMAND} --up-to {growth.up_to} --degree {growth.degree}{limits}"
    what, every = (growth.degree, growth.search, growth.most_hops), range(FIRST_NODES, growth.up_to + 1)
    keys = {nodes: task_key(TASK_FORMAT, nodes, *what) for nodes in every}
    tasks = [GrowthTask(key=key, nodes=nodes, growth=growth) for nodes, key in keys.items()]
    config = Config(COMMAND, text, f"degree{growth.degree}", "frontiers")
    return Study(config, tasks, report=report, columns=COLUMNS)


def command_of(directory: Path) -> str | None:
    """Return the command that made a folder; None: no growth did."""
    config = read_manifest(directory).get("config")
    if isinstance(config, dict) and config.get("path") == COMMAND and "text" in config:
        return str(config["text"])
    return None

"""The types that a method speaks: a problem goes in, a schedule comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np

from schedules.collective import Collective, Kind
from schedules.round_table import RoundTable
from schedules.schedule import Schedule
from topologies.errors import Unsupported
from topologies.topology import Topology
from topologies.units import format_bandwidth


@dataclass(frozen=True)
class Problem:
    """What is asked: a collective on a network, at a size where the answer depends on it.

    Parameters
    ----------
    topology, collective
        The network and what to do on it.
    size
        M in bytes, exact; None where the method's schedule does not depend on it.
    """

    topology: Topology
    collective: Collective
    size: Fraction | None = None


ToFile = Callable[[Path, Problem, Any, np.random.Generator, Callable[[int, float], None]], RoundTable]


@dataclass(frozen=True)
class NoOptions:
    """For methods that have none."""


def _always(problem: Problem, options: Any) -> None:
    """Support every problem."""


def _never(problem: Problem, options: Any) -> bool:
    return False


@dataclass(frozen=True)
class Method:
    """A way to make schedules, as the registry holds it.

    Parameters
    ----------
    name
        As on the command line.
    kind
        ``"exact"``, ``"heuristic"`` or ``"expansion"``.
    synthesize
        ``(problem, options, rng) -> Schedule``; raises `NoSchedule` where it finds none.
    options
        A frozen dataclass that checks itself (raising `InputError`); its fields are the options.
    supports
        ``(problem, options) -> None``; raises `Unsupported` before anything is built.
    size_dependent
        ``(problem, options) -> bool``: whether the schedule depends on the size.
    seeded
        Whether the schedule depends on the seed.
    summary
        One line for ``tutti list methods``.
    to_file
        Writes a schedule that outgrows memory round by round, where the method can:
        ``(path, problem, options, rng, tell) -> RoundTable``; `tell` is told how many rounds are made and
        what share of all transfers. An interrupted call is continued by the same call.
    """

    name: str
    kind: Literal["exact", "heuristic", "expansion"]
    synthesize: Callable[[Problem, Any, np.random.Generator], Schedule]
    options: type = NoOptions
    supports: Callable[[Problem, Any], None] = _always
    size_dependent: Callable[[Problem, Any], bool] = _never
    seeded: bool = False
    summary: str = ""
    to_file: ToFile | None = None

    def unsupported(self, reason: str) -> Unsupported:
        """Return the error that says why this method does not handle a problem."""
        return Unsupported(f"{self.name} {reason}")

    def check_kind(self, what: Collective, kinds: Sequence[Kind]) -> None:
        """Raise `Unsupported` unless the collective is of one of these kinds."""
        if what.kind not in kinds:
            raise self.unsupported(f"does {', '.join(kinds)}; not {what.kind}")

    def check_eulerian(self, topology: Topology) -> None:
        """Raise `Unsupported`, naming the node, if one takes in another bandwidth than it sends."""
        node = topology.eulerian_defect()
        if node is not None:
            into, out = (format_bandwidth(total[node]) for total in (topology.ingress, topology.egress))
            raise self.unsupported(
                f"needs a network with switches to be Eulerian; node {topology.labels[node]} of "
                f"{topology.name} has {into} in and {out} out"
            )

    def check_one_group(self, what: Collective) -> None:
        """Raise `Unsupported` for a collective over groups of the ranks."""
        if what.groups is None:
            return
        if len(what.groups) == 1:
            has = f"one of {len(what.groups[0])} of the {what.num_ranks}"
        else:
            has = str(len(what.groups))
        raise self.unsupported(f"needs one group of all ranks; this {what.kind} has {has}")

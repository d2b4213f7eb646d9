"""GOAL, the schedule text of LogGOPSim and ATLAHS: sends, receives, sums and their dependencies.

The text is that of ``txt2bin`` (spcl/LogGOPSim, ``src/LogGOPSim/txt2bin.re``). Neither simulator has a
network: a rank's messages contend only for its network interfaces. Here each end of a link is an interface,
first those of the links out of a rank, then those of the links into it, in the order of the network. So two
links out of a rank never contend, and neither do messages inside the network (on links between switches).

In LogGOPSim a receive occupies a processor of the rank while the bytes of its message arrive. Here processor
0 does everything. So messages that arrive over several links at the same time are received one after the
other, and a task that waits for them starts when the processor is free. With a processor for each interface,
this order would be lost. The times are those of a network where a rank receives over one link at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tutti.schedules.programs.moves import links_of_paths, rounded
from tutti.schedules.programs.tasks import Action, RankTask, Tasks, tasks_of, unit_bytes
from tutti.schedules.schedule import Schedule
from tutti.topologies.disk import write_text
from tutti.topologies.errors import InputError
from tutti.topologies.options import Options
from tutti.topologies.topology import Topology
from tutti.topologies.units import parse_size

MOST_NICS = 256
"""Largest number of interfaces of a rank: interface numbers have 8 bits."""
UNITS = {"ns": 10**9, "ps": 10**12, "fs": 10**15}
"""Units of time, the longest first, and the number of each in a second."""
MOST_TIME = 2**31
"""Parameters of LogGOPSim, in its unit of time, must be below this number."""


@dataclass(frozen=True)
class GoalOptions(Options):
    """Options for GOAL files.

    Parameters
    ----------
    size
        M, which is rounded up until each unit is a whole number of bytes.
    """

    OWNER: ClassVar[str] = "goal"
    size: str = "1MB"


OPTIONS = GoalOptions


def write(schedule: Schedule, path: Path, options: GoalOptions) -> dict[str, Any]:
    """Write a verified schedule.

    Raises
    ------
    TuttiError
        If the schedule doesn't fit the format.
    """
    schedule = rounded(schedule)
    size = parse_size(options.size)
    tasks = tasks_of(schedule, size)
    unit, said = unit_bytes(tasks.units, size)
    write_text(path, "".join(f"{line}\n" for line in _lines(tasks, unit, schedule)))
    return {"bytes": tasks.units * unit, "unit": unit, "parameters": _parameters(schedule.topology), **said}


class _Nics:
    """The interfaces at both ends of each route between two ranks."""

    def __init__(self, schedule: Schedule) -> None:
        topology = schedule.topology
        self.links = links_of_paths(schedule)
        # The number of the interface at the begin and at the end of each link; that of a switch is not used.
        self.leaving, self.entering = ([0] * topology.num_links for _ in range(2))
        for rank in range(topology.num_ranks):
            out, into = (
                incidence.links[incidence.offsets[rank] : incidence.offsets[rank + 1]].tolist()
                for incidence in (topology.out_links, topology.in_links)
            )
            if len(out) + len(into) > MOST_NICS:
                raise InputError(
                    f"does not fit: rank {rank} has {len(out) + len(into)} ends of links, each an interface; "
                    f"GOAL has at most {MOST_NICS} a rank"
                )
            for nic, link in enumerate(out):
                self.leaving[link] = nic
            for nic, link in enumerate(into, len(out)):
                self.entering[link] = nic

    def of(self, rank: int, task: RankTask) -> int:
        """Return the interface that a rank sends from or receives at."""
        if task.action is Action.SEND:
            return self.leaving[self.links[rank, task.peer, task.path][0]]
        return self.entering[self.links[task.peer, rank, task.path][-1]]


def _lines(played: Tasks, unit: int, schedule: Schedule) -> Iterator[str]:
    """Yield the lines of the file; `unit` is the bytes of a unit."""
    nics = _Nics(schedule)
    name = f"{schedule.collective} on {schedule.topology.name}"
    yield f"// {' '.join(name.split())}: {played.units * unit} bytes in {played.units} units of {unit}"
    yield f"// {_parameters(schedule.topology)}"
    yield "// network interfaces (nic) of a rank: its links out, then its links in"
    yield f"num_ranks {len(played.ranks)}"
    for rank, tasks in enumerate(played.ranks):
        yield ""
        yield f"rank {rank} {{"
        if not tasks:
            yield "t0: calc 0 cpu 0"
        for number, task in enumerate(tasks):
            if task.action is Action.SUM:  # sums take no time here, and only carry dependencies
                yield f"t{number}: calc 0 cpu 0"
            else:
                ends = f"{'to' if task.action is Action.SEND else 'from'} {task.peer}"
                place = f"tag {task.tag} cpu 0 nic {nics.of(rank, task)}"
                yield f"t{number}: {task.action} {task.units * unit}b {ends} {place}"
            yield from (f"t{number} requires t{other}" for other in task.after)
        yield "}"


def _parameters(topology: Topology) -> str:
    """Return the LogGOPSim parameters that give the network's times, or the reason why there are none.

    They are whole numbers below 2^31, in the longest unit of time in which rounding changes each by at most
    one thousandth. If there is none, it is the shortest unit in which they are below 2^31.
    """
    if not topology.homogeneous:
        return "the links differ, so no L and G hold for all of them"
    seconds = topology.alpha[0], 1 / topology.bandwidth[0]
    fitting = [
        (name, whole)
        for name, parts in UNITS.items()
        if max(whole := [round(value * parts) for value in seconds]) < MOST_TIME
    ]
    if not fitting:
        return "no unit of time has L and G as whole numbers"
    close = [
        (name, whole)
        for name, whole in fitting
        if all(
            abs(one / UNITS[name] - value) * 1000 <= value for one, value in zip(whole, seconds, strict=True)
        )
    ]
    name, (latency, gap) = (close or fitting[-1:])[0]
    # L is α and G the time of a byte; o, g and O are 0. Messages of fewer than S bytes need no rendezvous.
    return f"-L {latency} -o 0 -g 0 -O 0 -G {gap} -S 2147483647 (times in {name})"

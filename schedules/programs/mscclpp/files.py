"""Execution plans as a format of `schedules.programs.formats`: writes schedules and judges plans."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from tutti.schedules.files.schedule_file import write_text
from tutti.schedules.programs.interpreter import judge
from tutti.schedules.programs.lowering import FormatLimits, LoweringOptions
from tutti.schedules.programs.mscclpp.names import LIMITS, MEMORY, PACKETS, PORT, SIMPLE, check_plain
from tutti.schedules.programs.mscclpp.printer import Misfit, to_plan
from tutti.schedules.programs.mscclpp.reader import read_plan
from tutti.schedules.programs.one_sided import one_sided, with_proxies
from tutti.schedules.programs.program import WARP, Program
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError
from tutti.topologies.exact import BoolArray
from tutti.topologies.graphs.grid_structure import Hosts, hosts_of
from tutti.topologies.options import Choice, Whole
from tutti.topologies.topology import Topology
from tutti.topologies.units import whole_bytes

STEPS = (LIMITS.ops, 20, 12, 8, 6, 4)
"""Step limits of a two-sided block that are tried in turn. A step becomes up to eight operations, often
three."""


@dataclass(frozen=True)
class PlanOptions(LoweringOptions):
    """Options for execution plans.

    Parameters
    ----------
    protocol
        ``Simple``, or ``LL``, which sends packets with flags and is for small sizes.
    channels
        ``memory`` or ``port`` between all ranks; ``auto``: memory inside a host, ports between hosts.
    threads
        The number of threads of each block, a multiple of 32.
    min_bytes, max_bytes
        The range of sizes that the plan is for, as texts: sizes of the input or, in an allgather, the output.
    """

    OWNER: ClassVar[str] = "mscclpp"
    protocol: Annotated[str, Choice((SIMPLE, PACKETS))] = SIMPLE
    channels: Annotated[str, Choice(("auto", MEMORY, PORT))] = "auto"
    threads: Annotated[int, Whole(WARP, 1024)] = 1024
    min_bytes: str | None = None
    max_bytes: str = "1TiB"

    def __post_init__(self) -> None:
        """Check the number of threads."""
        super().__post_init__()
        if self.threads % WARP:
            raise InputError(f"mscclpp option threads is {self.threads}; it must be a multiple of {WARP}")


OPTIONS = PlanOptions


def write(schedule: Schedule, path: Path, options: PlanOptions) -> dict[str, Any]:
    """Write a verified schedule.

    Raises
    ------
    TuttiError
            If the format, or a limit of the runtime, can't represent the schedule.
    """
    program, text = plan_of(schedule, options)
    write_text(path, text)
    plan = json.loads(text)
    blocks = [block for gpu in plan["gpus"] for block in gpu["threadblocks"]]
    chunks = plan["gpus"][0]["output_chunks" if plan["collective"] == "allgather" else "input_chunks"]
    return {
        "units": program.units,
        "scratch": int(program.scratch.max()),
        "blocks": int(np.diff(program.first_block).max()),
        "ops": max(len(block["ops"]) for block in blocks),
        "channels": max(len(of["connected_to"]) for gpu in plan["gpus"] for of in gpu["channels"]),
        "multiple_of": f"{chunks * LIMITS.alignment} B",
        "most": f"{plan['max_message_size']} B",
    }


def read(path: Path, root: int | None = None) -> Program:
    """Return the one-sided program in a file. The file itself names the root.

    Raises
    ------
    InputError
        If the file holds no program.
    """
    return read_plan(path).program


def judged(path: Path, root: int | None, interleavings: int) -> None:
    """Judge the program in a file. The file itself names the root.

    Raises
    ------
    InputError
        If the file holds no program.
    ProgramError
        If the program isn't right.
    """
    judge(read_plan(path).program, interleavings=interleavings)


def loader(paths: Sequence[Path]) -> str:
    """Return, as shell comments, how a program loads these plans.

    Since 0.9 the runtime itself reads only its own plans, which have certain names.
    """
    calls = "".join(f"\n# mscclpp.ExecutionPlan({json.dumps(str(path))}, rank)" for path in paths)
    return f"# Nothing to set: in a program, each plan is loaded and given to mscclpp.Executor, by{calls}"


def plan_of(schedule: Schedule, options: PlanOptions) -> tuple[Program, str]:
    """Return the one-sided program of a verified schedule, which is judged, and its plan.

    Raises
    ------
    TuttiError
        As `write`.
    """
    check_plain(schedule.collective)
    packets = options.protocol == PACKETS
    proxied = _between_hosts(schedule.topology, options.channels)
    misfits = []
    for steps in STEPS:
        two_sided = options.lower(schedule, FormatLimits(LIMITS.blocks, steps))
        program = one_sided(two_sided, packets=packets, proxied=proxied)
        try:
            text = to_plan(
                program,
                packets=packets,
                proxied=proxied,
                threads=options.threads,
                min_bytes=0 if options.min_bytes is None else whole_bytes(options.min_bytes),
                max_bytes=whole_bytes(options.max_bytes),
            )
        except Misfit as error:
            misfits.append(error)
            continue
        judge(with_proxies(program, proxied), interleavings=2)
        return program, text
    raise misfits[0]


def _between_hosts(topology: Topology, channels: str) -> BoolArray:
    """Return for each pair of ranks whether a port connects them, shape (ranks, ranks)."""
    ranks = topology.num_ranks
    if channels != "auto":
        return np.full((ranks, ranks), channels == PORT)
    hosts = hosts_of(topology, infer=True)
    of = hosts.of if isinstance(hosts, Hosts) else topology.hosts
    if of is None or (of[:ranks] < 0).any():
        return np.zeros((ranks, ranks), dtype=np.bool_)
    return of[:ranks, None] != of[None, :ranks]

"""``tutti exec``: a program on real processes and real buffers."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tutti.experiments.cli.output import print_json, print_table
from tutti.experiments.cli.programs import read_program
from tutti.experiments.cli.ranks import on_ranks
from tutti.experiments.printable import say
from tutti.schedules.execution.profiling import predicted
from tutti.schedules.execution.session import RepeatTimes, SessionTask
from tutti.schedules.programs.program import Program
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import format_size, parse_size

MICRO, GIGA = 10**6, 10**9
RIVALS = {"mpi": "MPI"}
COLUMNS = ("size", "time (us)", "least", "most", "algbw (GB/s)", "busbw (GB/s)")


def execute(arguments: argparse.Namespace) -> int:
    """Play the program at each size, check what comes out, and say how long it took."""
    sizes = [parse_size(text) for text in arguments.size.split(",")]
    network = None if arguments.against_model is None else parse_topology(arguments.against_model)
    read: list[tuple[Program, Schedule | None]] = []

    def make(ranks: int | None) -> Sequence[SessionTask]:
        read.append(read_program(arguments.file))
        program, schedule = read[0]
        if ranks not in (None, program.num_ranks):
            raise InputError(f"{arguments.file} is for {program.num_ranks} ranks, not {ranks}")
        if network is not None and schedule is None:
            raise InputError(f"{arguments.file}: --against-model simulates schedules, and this is a program")
        return [
            SessionTask(program, _dividing(program, size, arguments.dtype), arguments.dtype) for size in sizes
        ]

    played = on_ranks(arguments, make)
    if played is None:
        return 0
    program, schedule = read[0]
    for size, task in zip(sizes, played[0], strict=True):
        if task.size != size:
            units = f"{program.units} units of whole elements ({task.dtype})"
            note = f"{format_size(size)} does not divide into {units}; played at {format_size(task.size)}"
            say(f"tutti: note: {note}", sys.stderr)
    documents = [
        {
            "file": str(arguments.file),
            "collective": str(program.collective),
            "ranks": program.num_ranks,
            "transport": arguments.transport,
            **measured(task, [times[number] for times in played[1]], RIVALS.get(arguments.transport, "")),
        }
        for number, task in enumerate(played[0])
    ]
    if network is not None and schedule is not None:
        _predict(documents, schedule, network)
    _report(documents, arguments)
    return 0


def measured(task: SessionTask, times: Sequence[RepeatTimes], rival: str) -> dict[str, Any]:
    """Return what a task took: of each repeat the slowest rank's time, of these the median.

    The bandwidths are those of nccl-tests: algbw is M over the time; busbw is that times what each rank must
    at least send or receive of M, so that it can be compared with a link's bandwidth.
    """
    ours = _slowest([one.ours for one in times])
    theirs = _slowest([one.rival for one in times])
    median = statistics.median(ours)
    algbw = task.size / median
    factor = task.program.collective.bus_factor
    document: dict[str, Any] = {
        "size_bytes": task.size,
        "time_us": median * MICRO,
        "least_us": min(ours) * MICRO,
        "most_us": max(ours) * MICRO,
        "algbw_gbps": algbw / GIGA,
        "busbw_gbps": None if factor is None else algbw * float(factor) / GIGA,
    }
    if theirs:
        other = statistics.median(theirs)
        document |= {"rival": rival, "rival_us": other * MICRO, "time_over_rival": median / other}
    return document


def _slowest(by_rank: Sequence[Sequence[float]]) -> list[float]:
    return [max(repeat) for repeat in zip(*by_rank, strict=True)]


def _dividing(program: Program, size: Fraction, dtype: str) -> int:
    """Return the least size that is not below `size` and of which each unit is a whole number of elements."""
    if size.denominator != 1:
        raise InputError(f"{float(size):g} bytes are no whole number of them")
    step = program.units * np.dtype(dtype).itemsize
    return -(-int(size) // step) * step


def _predict(documents: Sequence[dict[str, Any]], schedule: Schedule, network: Topology) -> None:
    for document in documents:
        model = predicted(schedule, network, document["size_bytes"])
        document["model_us"] = model * MICRO
        document["model_over_time"] = model * MICRO / document["time_us"]


def _report(documents: Sequence[dict[str, Any]], arguments: argparse.Namespace) -> None:
    if arguments.json:
        for document in documents:
            print_json(document)
        return
    first = documents[0]
    columns, keys = list(COLUMNS), ["time_us", "least_us", "most_us", "algbw_gbps", "busbw_gbps"]
    if "rival" in first:
        columns += [f"{first['rival']} (us)", f"time / {first['rival']}"]
        keys += ["rival_us", "time_over_rival"]
    if "model_us" in first:
        columns += ["model (us)", "model / time"]
        keys += ["model_us", "model_over_time"]
    title = (
        f"{first['collective']} of {Path(arguments.file).name} on {first['ranks']} processes over"
        f" {first['transport']}: all bytes right"
    )
    rows = [[format_size(one["size_bytes"]), *(_digits(one[key]) for key in keys)] for one in documents]
    print_table(title, columns, rows)


def _digits(value: float | None) -> str | None:
    """Return a measured number, of which no more than four digits mean anything."""
    return None if value is None else f"{value:.4g}" if value < 1000 else f"{value:.0f}"

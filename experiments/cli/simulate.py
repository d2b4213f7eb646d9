"""``tutti simulate``: the time of a schedule at a size."""

from __future__ import annotations

import argparse

import numpy as np

from tutti.experiments.cli.output import print_fields, print_json
from tutti.schedules.files.schedule_file import read_schedule
from tutti.schedules.simulation.simulate import SimulationOptions, simulate
from tutti.schedules.verify import verify
from tutti.topologies.units import duration, format_size, parse_size, throughput

GIGA, MICRO = 10**9, 10**6


def execute(arguments: argparse.Namespace) -> int:
    """Verify and simulate the schedule."""
    size = parse_size(arguments.size)
    options = SimulationOptions(arguments.slices, arguments.store_and_forward, arguments.overlap_alpha)
    schedule = read_schedule(arguments.file)
    verify(schedule)
    result = simulate(schedule, size, options)
    busiest = int(np.argmax(result.busy))
    used = float(result.busy[busiest]) / result.time if result.time else 0.0
    document = {
        "file": str(arguments.file),
        "topology": schedule.topology.name,
        "collective": str(schedule.collective),
        "size_bytes": size.numerator if size.denominator == 1 else str(size),
        "time_us": result.time * MICRO,
        "algbw_gbps": float(size) / result.time / GIGA if result.time else None,
        "busiest_link": schedule.topology.link_name(busiest),
        "busiest_share": used,
        "slices": options.slices,
        "store_and_forward": options.store_and_forward,
        "overlap_alpha": options.overlap_alpha,
    }
    if arguments.json:
        print_json(document)
        return 0
    rate = document["algbw_gbps"]
    print_fields(
        {
            "schedule": f"{schedule.collective} on {schedule.topology.name}",
            "time": f"{duration(result.time * MICRO)} at {format_size(size)}",
            "algbw": None if rate is None else throughput(float(str(rate))),
            "busiest link": f"{document['busiest_link']}, {used:.1%} of the time",
        }
    )
    return 0

"""``tutti simulate``: the time of a schedule at a size."""

from __future__ import annotations

import argparse

import numpy as np

from tutti.experiments.cli.output import print_answer
from tutti.schedules.files.schedule_file import read_schedule
from tutti.schedules.simulation.simulate import SimulationOptions, simulate
from tutti.schedules.verify import verify
from tutti.topologies.exact import json_number
from tutti.topologies.units import GIGA, MICRO, duration, format_size, parse_size, throughput


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
        "size_bytes": json_number(size),
        "time_us": result.time * MICRO,
        "algbw_gbps": float(size) / result.time / GIGA if result.time else None,
        "busiest_link": schedule.topology.link_name(busiest),
        "busiest_share": used,
        "slices": options.slices,
        "store_and_forward": options.store_and_forward,
        "overlap_alpha": options.overlap_alpha,
    }
    fields = {
        "schedule": f"{schedule.collective} on {schedule.topology.name}",
        "time": f"{duration(result.time * MICRO)} at {format_size(size)}",
        "algbw": throughput(float(size) / result.time / GIGA) if result.time else None,
        "busiest link": f"{document['busiest_link']}, {used:.1%} of the time",
    }
    print_answer(document, fields, as_json=arguments.json)
    return 0

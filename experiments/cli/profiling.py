"""``tutti profile``: α and β between all ranks, measured."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

from tutti.experiments.cli.output import print_fields, print_json
from tutti.experiments.cli.ranks import on_ranks
from tutti.schedules.execution.profiling import profile, tasks_of
from tutti.schedules.execution.session import SessionTask
from tutti.schedules.files.schedule_file import check_place
from tutti.topologies.errors import InputError
from tutti.topologies.files import to_node_link, write_topology
from tutti.topologies.units import duration, parse_size, throughput

MICRO, GIGA = 10**6, 10**9
FEWEST, MOST = 2, 64


def execute(arguments: argparse.Namespace) -> int:
    """Measure all pairs, and write the network."""
    sizes = [parse_size(text) for text in arguments.sizes.split(",")]
    if arguments.output is not None:
        check_place(arguments.output)

    def make(ranks: int | None) -> Sequence[SessionTask]:
        if ranks is None:
            raise InputError("--ranks N says how many there are")
        if not FEWEST <= ranks <= MOST:
            raise InputError(f"--ranks {ranks}; pairs are measured one after another: {FEWEST} to {MOST}")
        return tasks_of(ranks, [round(size) for size in sizes])

    played = on_ranks(arguments, make)
    if played is None:
        return 0
    tasks, times = played
    ranks = tasks[0].program.num_ranks
    network = profile(f"{ranks} ranks over {arguments.transport}, measured", tasks, times)
    if arguments.output is not None:
        write_topology(network, arguments.output)
    if arguments.json:
        print_json(to_node_link(network))
        return 0
    alphas = [float(link) * MICRO for link in network.alpha]
    speeds = [float(link) / GIGA for link in network.bandwidth]
    print_fields(
        {
            "links": f"{network.num_links}, from each of {ranks} ranks to each other",
            "alpha": f"{duration(statistics.median(alphas))}, from {duration(min(alphas))} to"
            f" {duration(max(alphas))}",
            "bandwidth": f"{throughput(statistics.median(speeds))}, from {throughput(min(speeds))} to"
            f" {throughput(max(speeds))}",
            "written": arguments.output,
        }
    )
    return 0

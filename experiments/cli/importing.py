"""``tutti import``: a program that somebody else's tool wrote, as a schedule."""

from __future__ import annotations

import argparse

from tutti.experiments.cli.output import print_fields, print_json
from tutti.schedules.files.schedule_file import check_target, write_schedule
from tutti.schedules.programs.formats import find_format
from tutti.schedules.programs.interpreter import judge
from tutti.schedules.programs.raising import implied_network, to_schedule
from tutti.topologies.errors import InputError
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import DEFAULT_ALPHA, DEFAULT_BANDWIDTH
from tutti.topologies.units import parse_bandwidth, parse_time


def execute(arguments: argparse.Namespace) -> int:
    """Read the program, judge it, and write the schedule that it carries out."""
    rates = (arguments.bandwidth, arguments.alpha)
    if arguments.topology is not None and rates != (None, None):
        raise InputError(
            "--bandwidth and --alpha are of the network that the program implies, not of a --topology"
        )
    check_target(arguments.output)
    form = find_format(arguments.format)
    form.check_imported()
    program = form.read(arguments.file, arguments.root)
    judge(program)
    if arguments.topology is not None:
        topology = parse_topology(arguments.topology)
    else:
        bandwidth = DEFAULT_BANDWIDTH if rates[0] is None else parse_bandwidth(rates[0])
        alpha = DEFAULT_ALPHA if rates[1] is None else parse_time(rates[1])
        topology = implied_network(program, bandwidth, alpha)
    schedule = to_schedule(program, topology)
    write_schedule(schedule, arguments.output)
    fields = {
        "file": str(arguments.output),
        "program": program.name,
        "collective": str(schedule.collective),
        "topology": topology.name,
        "links": topology.num_links,
        "clock": str(schedule.clock),
        "transfers": len(schedule),
    }
    if arguments.json:
        print_json(fields)
    else:
        print_fields(fields)
    return 0

"""``tutti synth NETWORK --repair FILE``: a schedule of a whole network, on what is left of it."""

from __future__ import annotations

import argparse
import sys
from fractions import Fraction
from typing import Any

from tutti.experiments.cli.output import print_fields, print_json
from tutti.experiments.cli.parser import DEFAULT_COLLECTIVE, DEFAULT_SIZE
from tutti.experiments.cli.problem import parse_amount
from tutti.experiments.printable import printable, say
from tutti.experiments.result import MICRO, Result
from tutti.experiments.runner.tasks import Stopwatch
from tutti.schedules.files.schedule_file import check_target, read_schedule
from tutti.schedules.repair import fastest_repair, rerouted
from tutti.schedules.simulation.pipelining import best_slices
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError
from tutti.topologies.text import parse_topology
from tutti.topologies.units import duration, parse_size

OF_THE_FILE: dict[str, Any] = {
    "method": None,
    "chunks": None,
    "option": [],
    "seeds": 1,
    "seed": None,
    "collective": DEFAULT_COLLECTIVE,
    "root": None,
    "shards": None,
    "groups": None,
    "matrix": None,
}
"""Arguments of ``tutti synth`` that the schedule answers, and what they are where nobody gives them."""


def execute(arguments: argparse.Namespace) -> int:
    """Repair the schedule, print what it is and what it was, and write it if asked to."""
    given = next((name for name, usual in OF_THE_FILE.items() if getattr(arguments, name) != usual), None)
    if given is not None:
        raise InputError(f"--repair and --{given}: a repair keeps what the file has; leave out --{given}")
    if arguments.output is not None:
        check_target(arguments.output)
    schedule, topology = read_schedule(arguments.repair), parse_topology(arguments.topology)
    verify(schedule)
    size = parse_amount(arguments, schedule.collective) or schedule.size or parse_size(DEFAULT_SIZE)
    slices, before = best_slices(schedule, Fraction(size))
    with Stopwatch() as watch:
        made = fastest_repair(schedule, topology, Fraction(size), slices)
    verify(made)
    old = rerouted(schedule, topology)
    verify(old)
    result = Result(made, Fraction(size), "repaired", seconds=watch.seconds)
    blindly = best_slices(old, result.size)[1]
    changed = made.stats["changed"]
    if arguments.output is not None:
        result.save(arguments.output)
    for note in result.notes:
        say(f"tutti: note: {note}", sys.stderr)
    if arguments.json:
        more = {"changed": changed, "transfers_before": len(schedule)}
        more |= {"before_s": before, "rerouted_s": blindly}
        print_json(result.document | more)
        return 0
    print_fields(
        result.fields
        | {
            "changed": f"{changed} of {len(schedule)} transfers of {printable(schedule.topology.name)}",
            "before": f"{duration(before * MICRO)} on the whole network",
            "rerouted": f"{duration(blindly * MICRO)}, had they taken shortest paths",
        }
    )
    return 0

"""Programs in files: ``tutti export`` and ``tutti import``, and how other commands read one."""

from __future__ import annotations

import argparse
from pathlib import Path

from tutti.experiments.cli.output import print_answer
from tutti.schedules.files.schedule_file import check_place, check_target, read_schedule, write_schedule
from tutti.schedules.programs.formats import FORMATS, find_format
from tutti.schedules.programs.interpreter import judge
from tutti.schedules.programs.lowering import lower
from tutti.schedules.programs.mscclpp.names import LIMITS
from tutti.schedules.programs.mscclpp.reader import is_plan, read_plan
from tutti.schedules.programs.program import Program
from tutti.schedules.programs.raising import implied_network, to_schedule
from tutti.schedules.schedule import Schedule
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError
from tutti.topologies.files import opened
from tutti.topologies.options import build_options, parse_assignments
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import DEFAULT_ALPHA, DEFAULT_BANDWIDTH
from tutti.topologies.units import parse_bandwidth, parse_time


def read_program(path: Path) -> tuple[Program, Schedule | None]:
    """Return the program in a file, and the schedule that it was made from if the file holds one.

    Parameters
    ----------
    path
        A schedule file, which is verified and lowered, one of a format that is imported (``.xml``), or a
        plan of MSCCL++.

    Raises
    ------
    InputError
        If there is none in it.
    VerificationError
        If the schedule is wrong.
    """
    loaded = [form for form in FORMATS.values() if form.imported and form.suffix == path.suffix]
    if loaded:
        return loaded[0].read(path), None
    if is_plan_file(path):
        return read_plan(path).program, None
    schedule = read_schedule(path)
    verify(schedule)
    return lower(schedule), schedule


def is_plan_file(path: Path) -> bool:
    """Whether a file is a plan of MSCCL++, by its keys."""
    if path.suffix != ".json":
        return False
    with opened(path) as file:
        data = file.read(LIMITS.plan + 1)
    return len(data) <= LIMITS.plan and is_plan(data)


def export(arguments: argparse.Namespace) -> int:
    """Verify the schedule, write it and say what was written."""
    form = find_format(arguments.format)
    options = build_options(form, parse_assignments(arguments.option))
    check_place(arguments.output, arguments.file)
    schedule = read_schedule(arguments.file)
    verify(schedule)
    said = form.write(schedule, arguments.output, options)
    fields = {
        "file": str(arguments.output),
        "format": form.name,
        "collective": str(schedule.collective),
        "topology": schedule.topology.name,
        **said,
    }
    print_answer(fields, fields, as_json=arguments.json)
    return 0


def imported(arguments: argparse.Namespace) -> int:
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
    print_answer(fields, fields, as_json=arguments.json)
    return 0

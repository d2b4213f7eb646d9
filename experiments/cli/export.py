"""``tutti export``: a schedule as a file that a runtime or a simulator loads."""

from __future__ import annotations

import argparse

from tutti.experiments.cli.output import print_fields, print_json
from tutti.schedules.files.schedule_file import check_place, read_schedule
from tutti.schedules.programs.formats import find_format
from tutti.schedules.verify import verify
from tutti.topologies.options import build_options, parse_assignments


def execute(arguments: argparse.Namespace) -> int:
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
    if arguments.json:
        print_json(fields)
    else:
        print_fields(fields)
    return 0

"""``tutti verify``: whether a schedule is legal."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.cli.output import print_json
from experiments.printable import say
from schedules.files.rounds import RoundTable, read_rounds
from schedules.files.schedule_file import is_round_file, read_schedule
from schedules.verify import VerificationError, verify


def execute(arguments: argparse.Namespace) -> int:
    """Replay the schedule; 0 if it is legal, 1 with the first wrong transfer if not."""
    schedule = (read_rounds if is_round_file(arguments.file) else read_schedule)(arguments.file)
    document: dict[str, Any] = {
        "file": str(arguments.file),
        "topology": schedule.topology.name,
        "collective": str(schedule.collective),
        "clock": str(schedule.clock),
        "transfers": schedule.transfers if isinstance(schedule, RoundTable) else len(schedule),
    }
    try:
        verify(schedule)
    except VerificationError as error:
        if arguments.json:
            print_json({**document, "verified": False, "row": error.row, "message": str(error)})
        raise
    if arguments.json:
        print_json({**document, "verified": True})
    else:
        what = f"{document['collective']} on {document['topology']}, {document['clock']} clock"
        say(f"legal: {document['transfers']} transfers, {what}")
    return 0

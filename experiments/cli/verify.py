"""``tutti verify``: whether a schedule is legal, or a program of MSCCL or MSCCL++ right."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from io import DEFAULT_BUFFER_SIZE
from typing import Any

from tutti.experiments.cli.output import print_json
from tutti.experiments.cli.programs import is_plan_file
from tutti.experiments.printable import say
from tutti.schedules.files.rounds import RoundTable, read_rounds
from tutti.schedules.files.schedule_file import is_round_file, read_schedule
from tutti.schedules.programs.faults import ProgramError
from tutti.schedules.programs.interpreter import Judgement, judge
from tutti.schedules.programs.msccl.files import depth_of, judge_algo
from tutti.schedules.programs.msccl.flavours import MSCCL, RCCL
from tutti.schedules.programs.msccl.lint import Finding, lint
from tutti.schedules.programs.msccl.reader import parse_algo
from tutti.schedules.programs.mscclpp.reader import read_plan
from tutti.schedules.programs.program import Program
from tutti.schedules.verify import VerificationError, verify
from tutti.topologies.files import opened, read_text
from tutti.topologies.xml_files import MOST_XML


def execute(arguments: argparse.Namespace) -> int:
    """Replay the schedule, or run the program; 0 if it is right, 1 with what is wrong first if not."""
    with opened(arguments.file) as file:
        head = file.read(DEFAULT_BUFFER_SIZE)
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return _judge_xml(arguments)
    if is_plan_file(arguments.file):
        program, warnings = read_plan(arguments.file)
        return _judge(arguments, warnings, lambda: [(program, judge(program))])
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


def _judge_xml(arguments: argparse.Namespace) -> int:
    """Say what runtimes would not take of an MSCCL program, and judge it."""
    text = read_text(arguments.file, MOST_XML)
    algo = parse_algo(text, str(arguments.file))
    found: dict[Finding, list[str]] = {}
    for flavour in (MSCCL, RCCL):
        for finding in lint(text, flavour):
            found.setdefault(finding, []).append(flavour.name)
    warnings = [f"{finding} ({', '.join(names)})" for finding, names in sorted(found.items())]
    return _judge(arguments, warnings, lambda: judge_algo(algo, arguments.root), depth_of(algo))


def _judge(
    arguments: argparse.Namespace,
    warnings: list[str],
    judged: Callable[[], list[tuple[Program, Judgement]]],
    depth: tuple[str, int] | None = None,
) -> int:
    """Print the warnings, and whether a program does its collective, for each of its places.

    `depth` is the protocol of the program's connections, if it has some, and how many messages one holds.
    """
    if not arguments.json:
        for warning in warnings:
            say(f"warning: {warning}")
    document: dict[str, Any] = {"file": str(arguments.file), "warnings": warnings}
    if depth is not None:
        document |= {"protocol": depth[0], "depth": depth[1]}
    try:
        programs, judgements = zip(*judged(), strict=True)
    except ProgramError as error:
        if arguments.json:
            print_json({**document, "verified": False, "message": str(error)})
        raise
    program = programs[0]
    document |= {
        "collective": str(program.collective),
        "ranks": program.num_ranks,
        "instructions": len(program),
        "in_place": [one.in_place for one in programs],
        "least_depth": max(judgement.least_depth for judgement in judgements),
        "verified": True,
    }
    if arguments.json:
        print_json(document)
    else:
        where = " and ".join("in place" if one.in_place else "out of place" for one in programs)
        what = f"{program.collective} of {program.num_ranks} ranks, {where}"
        holding = "" if depth is None else f", with {depth[1]} messages a connection ({depth[0]})"
        say(f"right: {len(program)} instructions, {what}{holding}")
    return 0

"""Schedules and programs in files: ``tutti verify``, ``simulate``, ``show``, ``export`` and ``import``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import DEFAULT_BUFFER_SIZE
from pathlib import Path
from typing import Any

import numpy as np

from tutti.experiments.cli.commands import (
    ExportCommand,
    ImportCommand,
    ShowCommand,
    SimulateCommand,
    VerifyCommand,
)
from tutti.experiments.cli.output import SHOWN, print_answer, print_json
from tutti.experiments.printable import say
from tutti.experiments.show.page import SUFFIXES, open_page, page_of, read_source
from tutti.schedules.files.rounds import RoundTable, read_rounds
from tutti.schedules.files.schedule_file import (
    check_place,
    check_target,
    is_round_file,
    read_schedule,
    write_schedule,
)
from tutti.schedules.programs.formats import FORMATS, find_format
from tutti.schedules.programs.interpreter import Judgement, ProgramError, judge
from tutti.schedules.programs.lowering import lower
from tutti.schedules.programs.msccl.files import depth_of, judge_algo
from tutti.schedules.programs.msccl.flavours import MSCCL, RCCL
from tutti.schedules.programs.msccl.lint import Finding, lint
from tutti.schedules.programs.msccl.reader import parse_algo
from tutti.schedules.programs.mscclpp.reader import is_plan, read_plan
from tutti.schedules.programs.mscclpp.runtime import LIMITS
from tutti.schedules.programs.program import Program
from tutti.schedules.programs.raising import implied_network, to_schedule
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import SimulationOptions, simulate
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError, VerificationError
from tutti.topologies.exact import json_number
from tutti.topologies.files import opened, read_text
from tutti.topologies.options import build_options, parse_assignments
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import DEFAULT_ALPHA, DEFAULT_BANDWIDTH
from tutti.topologies.units import (
    GIGA,
    MICRO,
    duration,
    exact_number,
    format_size,
    parse_bandwidth,
    parse_size,
    parse_time,
    throughput,
)
from tutti.topologies.xml_files import MOST_XML


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
    for form in FORMATS.values():
        if form.imported and form.suffix == path.suffix:
            return form.read(path), None
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


def do_export(arguments: ExportCommand) -> None:
    """Verify the schedule, write it and say what was written."""
    form = find_format(arguments.format)
    options = build_options(form, parse_assignments(arguments.option))
    check_place(arguments.output, arguments.file)
    schedule = read_schedule(arguments.file)
    verify(schedule)
    said = form.write(schedule, arguments.output, options)
    what = {"collective": str(schedule.collective), "topology": schedule.topology.name}
    fields = {"file": str(arguments.output), "format": form.name, **what, **said}
    print_answer(fields, fields, as_json=arguments.json)


def do_import(arguments: ImportCommand) -> None:
    """Read the program, judge it, and write the schedule that it carries out."""
    rates = (arguments.bandwidth, arguments.alpha)
    if arguments.topology is not None and rates != (None, None):
        whose = "the network that the program implies, not of a --topology"
        raise InputError(f"--bandwidth and --alpha are of {whose}")
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


def do_verify(arguments: VerifyCommand) -> None:
    """Replay the schedule, or run the program.

    Raises
    ------
    VerificationError, ProgramError
        If it is wrong; the message says what is wrong first.
    """
    path, known = arguments.file, dict[str, Any](file=str(arguments.file))
    with opened(path) as file:
        head = file.read(DEFAULT_BUFFER_SIZE)
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        text = read_text(path, MOST_XML)
        algo = parse_algo(text, str(path))
        found: dict[Finding, list[str]] = {}
        for flavour in (MSCCL, RCCL):
            for finding in lint(text, flavour):
                found.setdefault(finding, []).append(flavour.name)
        warnings = [f"{finding} ({', '.join(names)})" for finding, names in sorted(found.items())]
        _judge(arguments, warnings, lambda: judge_algo(algo, arguments.root), depth_of(algo))
    elif is_plan_file(path):
        program, warnings = read_plan(path)
        _judge(arguments, warnings, lambda: [(program, judge(program))])
    else:
        schedule = (read_rounds if is_round_file(path) else read_schedule)(path)
        count = schedule.transfers if isinstance(schedule, RoundTable) else len(schedule)
        what, where, clock = str(schedule.collective), schedule.topology.name, str(schedule.clock)
        known |= {"topology": where, "collective": what, "clock": clock, "transfers": count}
        with _also_as_json(known, arguments):
            verify(schedule)
        if arguments.json:
            print_json({**known, "verified": True})
        else:
            say(f"legal: {count} transfers, {what} on {where}, {clock} clock")


@contextmanager
def _also_as_json(known: Mapping[str, Any], arguments: VerifyCommand) -> Iterator[None]:
    """Print what is wrong as JSON too, if that is asked for."""
    try:
        yield
    except (VerificationError, ProgramError) as error:
        row = {"row": error.row} if isinstance(error, VerificationError) else {}
        if arguments.json:
            print_json({**known, "verified": False, **row, "message": str(error)})
        raise


Judged = Callable[[], list[tuple[Program, Judgement]]]
"""Returns a program in each of its places, judged."""


def _judge(
    arguments: VerifyCommand, warnings: list[str], judged: Judged, depth: tuple[str, int] | None = None
) -> None:
    """Print the warnings, and whether a program does its collective, for each of its places.

    `depth` is the protocol of the program's connections, if it has some, and how many messages one holds.
    """
    for warning in () if arguments.json else warnings:
        say(f"warning: {warning}")
    document: dict[str, Any] = {"file": str(arguments.file), "warnings": warnings}
    if depth is not None:
        document |= {"protocol": depth[0], "depth": depth[1]}
    with _also_as_json(document, arguments):
        programs, judgements = zip(*judged(), strict=True)
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


def do_simulate(arguments: SimulateCommand) -> None:
    """Verify and simulate the schedule."""
    size = parse_size(arguments.size)
    gamma = None if arguments.reduce is None else 1 / parse_bandwidth(arguments.reduce)
    options = SimulationOptions(
        arguments.slices,
        arguments.store_and_forward,
        arguments.overlap_alpha,
        gamma,
        exact_number(arguments.congestion),
    )
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
        "gamma": str(schedule.topology.gamma if gamma is None else gamma),
        "congestion": str(options.congestion),
    }
    fields = {
        "schedule": f"{schedule.collective} on {schedule.topology.name}",
        "time": f"{duration(result.time * MICRO)} at {format_size(size)}",
        "algbw": throughput(float(size) / result.time / GIGA) if result.time else None,
        "busiest link": f"{document['busiest_link']}, {used:.1%} of the time",
    }
    print_answer(document, fields, as_json=arguments.json)


def do_show(arguments: ShowCommand) -> None:
    """Write the page, say where it is, and open it."""
    size = None if arguments.size is None else parse_size(arguments.size)
    source = read_source(arguments.what)
    what = arguments.what
    stem = Path(what).name.partition(".")[0] if what.endswith(SUFFIXES) else what
    name = re.sub(r"[^A-Za-z0-9-]+", "_", stem).strip("_")[: SHOWN.name] or "page"
    path = arguments.output or Path(f"{name}.show.html")
    check_place(path, arguments.what)
    page_of(source, size).save(path)
    say(str(path))
    if not arguments.no_open:
        open_page(path)

"""MSCCL XML as a format of `schedules.programs.formats`: writes schedules and reads programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np

from tutti.schedules.files.schedule_file import write_text
from tutti.schedules.programs.faults import ProgramError
from tutti.schedules.programs.interpreter import Judgement, judge
from tutti.schedules.programs.lowering import FormatLimits, LoweringOptions, TooShallow, steps_of
from tutti.schedules.programs.msccl.flavours import DEPTHS, LIMITS, SIMPLE, find_flavour
from tutti.schedules.programs.msccl.printer import XmlOptions, check_connections, check_fits, to_xml
from tutti.schedules.programs.msccl.reader import parse_algo, places, program_of, read_msccl
from tutti.schedules.programs.program import Program
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError
from tutti.topologies.files import read_text
from tutti.topologies.options import Whole
from tutti.topologies.xml_files import MOST_XML, Element


@dataclass(frozen=True)
class MscclOptions(XmlOptions, LoweringOptions):
    """Options for MSCCL XML: `XmlOptions` and `LoweringOptions`."""

    units: Annotated[int, Whole(1, 4096)] = 64


OPTIONS = MscclOptions

LENGTHS = (LIMITS.chunks, 16, 4, 1)
"""Lengths of a message in units that are tried, the longest first. Shorter messages need less deep
connections but more steps."""


def lowered(schedule: Schedule, options: MscclOptions) -> Program:
    """Return the program to write: the first tried one that fits and has no deadlock.

    Raises
    ------
    TuttiError
        If the flavour doesn't have the collective, if every program has a deadlock at the connections' depth
        in this protocol, or as `lower`.
    """
    flavour, depth = find_flavour(options.flavour), DEPTHS[options.proto]
    flavour.collective(schedule.collective.kind)
    check_fits(schedule.collective, len(schedule))  # before lowering: each transfer is at least one step
    limits = FormatLimits(flavour.blocks, flavour.steps, peers=LIMITS.peers)
    hanging: list[ProgramError] = []
    fitting: list[Program] = []
    for length, most in product(LENGTHS, (depth, None)):
        try:
            program = options.lower(schedule, replace(limits, length=length, depth=most))
            if blocks_of(program) > LIMITS.awaited:
                program = program.with_awaited_first()
            check_connections(program, options.proto)
        except TooShallow:
            continue
        except ProgramError as error:
            hanging.append(error)
            continue
        if steps_of(program).max(initial=0) <= limits.steps and blocks_of(program) <= limits.blocks:
            return program
        fitting.append(program)
    if not fitting:
        raise InputError(f"{schedule.collective} does not fit: {hanging[0]}")
    return fitting[0]


def blocks_of(program: Program) -> int:
    """Return the largest number of thread blocks of a rank."""
    return int(np.diff(program.first_block).max())


def write(schedule: Schedule, path: Path, options: MscclOptions) -> dict[str, Any]:
    """Write a verified schedule.

    Raises
    ------
    TuttiError
        If the format, or a limit of the runtime, can't represent the schedule.
    """
    program = lowered(schedule, options)
    write_text(path, to_xml(program, options))
    return {
        "flavour": options.flavour,
        "units": program.units,
        "channels": int(program.code.channel.max(initial=0)) + 1,
        "blocks": blocks_of(program),
        "instructions": int(np.diff(program.begin).max(initial=0)),
    }


def read(path: Path, root: int | None = None) -> Program:
    """Return the program in a file.

    Raises
    ------
    InputError
        If the file holds no program.
    """
    return read_msccl(path, root=root)


def judged(path: Path, root: int | None, interleavings: int) -> None:
    """Judge the program in a file as `judge_algo` does.

    Raises
    ------
    InputError, ProgramError
        As `judge_algo`.
    """
    judge_algo(parse_algo(read_text(path, MOST_XML), str(path)), root, interleavings)


def judge_algo(
    algo: Element, root: int | None = None, interleavings: int = 20
) -> list[tuple[Program, Judgement]]:
    """Judge a program out of place, in place or both, with connections as deep as those of its protocol.

    Raises
    ------
    InputError
        If the element describes no program.
    ProgramError
        If the program isn't right.
    """
    found = []
    for program in (program_of(algo, root=root, in_place=place) for place in places(algo)):
        judgement = judge(program, interleavings=interleavings)
        depth = check_connections(program, depth_of(algo)[0])
        found.append((program, replace(judgement, least_depth=depth)))
    return found


def depth_of(algo: Element) -> tuple[str, int]:
    """Return a file's protocol (by default Simple) and the number of messages that its connections hold."""
    proto = algo.attributes.get("proto", SIMPLE)
    known = proto if proto in DEPTHS else SIMPLE
    return known, DEPTHS[known]


def loader(paths: Sequence[Path]) -> str:
    """Return shell lines that make MSCCL or RCCL load these files."""
    return f"export MSCCL_XML_FILES={quote(':'.join(map(str, paths)))} NCCL_ALGO=MSCCL,RING,TREE"

"""MSCCL XML as a format of `schedules.programs.formats`: from a schedule to a file, and back to a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np

from schedules.files.schedule_file import write_text
from schedules.programs.lowering import Limits, LoweringOptions
from schedules.programs.msccl.flavours import MOST_COUNT, find_flavour
from schedules.programs.msccl.printer import XmlOptions, to_xml
from schedules.programs.msccl.reader import read_msccl
from schedules.programs.program import Program
from schedules.schedule import Schedule
from topologies.ranges import Whole


@dataclass(frozen=True)
class MscclOptions(XmlOptions, LoweringOptions):
    """How a schedule is made a file: `XmlOptions` and `LoweringOptions`."""

    units: Annotated[int, Whole(1, 4096)] = 64


OPTIONS = MscclOptions


def lowered(schedule: Schedule, options: MscclOptions) -> Program:
    """Return the program that is written.

    Raises
    ------
    TuttiError
        If the flavour doesn't have the collective, or as `lower`.
    """
    flavour = find_flavour(options.flavour)
    flavour.collective(schedule.collective.kind)
    return options.lower(schedule, Limits(flavour.blocks, flavour.steps, MOST_COUNT))


def write(schedule: Schedule, path: Path, options: MscclOptions) -> dict[str, Any]:
    """Write a verified schedule.

    Raises
    ------
    TuttiError
        If the format, or the runtime within its limits, can't have it.
    """
    program = lowered(schedule, options)
    text = to_xml(program, options)
    write_text(path, text)
    return {
        "flavour": options.flavour,
        "units": program.units,
        "channels": int(program.code.channel.max(initial=0)) + 1,
        "blocks": int(np.diff(program.first_block).max()),
        "instructions": int(np.diff(program.begin).max(initial=0)),
    }


def read(path: Path, root: int | None = None) -> Program:
    """Return the program in a file.

    Raises
    ------
    InputError
        If it holds none.
    """
    return read_msccl(path, root=root)


def loader(paths: Sequence[Path]) -> str:
    """Return the lines of a shell that make MSCCL or RCCL load these files."""
    return f"export MSCCL_XML_FILES={quote(':'.join(map(str, paths)))} NCCL_ALGO=MSCCL,RING,TREE"

"""MSCCL XML as a format of `schedules.programs.formats`: from a schedule to a file, and back to a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from schedules.files.schedule_file import write_whole
from schedules.programs.lowering import Limits, lower
from schedules.programs.msccl.flavours import MOST_COUNT, find_flavour
from schedules.programs.msccl.printer import XmlOptions, to_xml
from schedules.programs.msccl.reader import read_msccl
from schedules.programs.program import Program
from schedules.schedule import Schedule
from topologies.ranges import Whole
from topologies.units import parse_size


@dataclass(frozen=True)
class MscclOptions(XmlOptions):
    """How a schedule is made a file.

    Parameters
    ----------
    in_place
        Whether input and output are one memory.
    instances
        Each chunk is cut in so many, which go over channels of their own.
    units
        Of the largest item, at most; chunks that are none are rounded.
    size
        M, at which the order of what is independent is found.
    """

    in_place: bool = False
    instances: Annotated[int, Whole(1, 32)] = 1
    units: Annotated[int, Whole(1, 4096)] = 64
    size: str = "64MB"


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
    return lower(
        schedule,
        in_place=options.in_place,
        instances=options.instances,
        limits=Limits(flavour.blocks, flavour.steps, MOST_COUNT),
        grain=options.units,
        size=parse_size(options.size),
    )


def write(schedule: Schedule, path: Path, options: MscclOptions) -> dict[str, Any]:
    """Write a verified schedule.

    Raises
    ------
    TuttiError
        If the format, or the runtime within its limits, can't have it.
    """
    program = lowered(schedule, options)
    text = to_xml(program, options)
    write_whole(path, lambda file: file.write(text.encode()))
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
    return f"export MSCCL_XML_FILES={':'.join(map(str, paths))} NCCL_ALGO=MSCCL,RING,TREE"

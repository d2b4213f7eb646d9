"""``tutti show``: a network drawn, or a schedule played on it, as a page for the browser."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from experiments.cli.programs import is_plan_file
from experiments.printable import say
from experiments.show.page import Page, open_page, schedule_page, topology_page
from schedules.files.schedule_file import check_place, read_schedule
from schedules.programs.formats import FORMATS
from schedules.programs.interpreter import judge
from schedules.programs.program import Program
from schedules.programs.raising import implied_network, to_schedule
from schedules.schedule import Schedule
from schedules.verify import verify
from topologies.errors import InputError
from topologies.files import exact_json, read_text
from topologies.importing import formats
from topologies.text import parse_topology
from topologies.topology import DEFAULT_ALPHA, DEFAULT_BANDWIDTH, Topology
from topologies.units import parse_size

SCHEDULES = (".json", ".json.gz", ".npz", ".csv", ".rounds", ".xml")
"""How names of files end that hold more than a network."""
LONGEST = 60
"""Characters of a file's name that is made of a text."""


def execute(arguments: argparse.Namespace) -> int:
    """Write the page, say where it is, and open it."""
    size = None if arguments.size is None else parse_size(arguments.size)
    path = arguments.output or Path(f"{_name(arguments.what)}.show.html")
    check_place(path)
    found = _read(arguments.what)
    page: Page = topology_page(found) if isinstance(found, Topology) else schedule_page(found, size)
    page.save(path)
    say(str(path))
    if not arguments.no_open:
        open_page(path)
    return 0


def _name(text: str) -> str:
    """Return a name for the page of a file or of a network's text."""
    stem = Path(text).name.partition(".")[0] if text.endswith(SCHEDULES) else text
    return re.sub(r"[^A-Za-z0-9-]+", "_", stem).strip("_")[:LONGEST] or "page"


def _read(text: str) -> Topology | Schedule:
    """Return the network, or the schedule, verified, that a text describes or a file holds.

    A program is the schedule that it carries out, on the network that it implies.

    Raises
    ------
    InputError, VerificationError, ProgramError
        If it is none of these, or wrong.
    """
    if not text.endswith(SCHEDULES) or text.partition(":")[0] in formats.FORMATS:
        return parse_topology(text)
    path = Path(text)
    for form in FORMATS.values():
        if form.imported and form.suffix == path.suffix:
            return _raised(form.read(path))
    if is_plan_file(path):
        raise InputError(f"{path}: a plan of MSCCL++ makes no schedule; show the one that it was made from")
    if path.suffix == ".json" and _is_network(path):
        return parse_topology(text)
    schedule = read_schedule(path)
    verify(schedule)
    return schedule


def _is_network(path: Path) -> bool:
    """Whether a JSON file is a network, by its keys."""
    document = exact_json(read_text(path), str(path), "schedule or network")
    return isinstance(document, dict) and "nodes" in document


def _raised(program: Program) -> Schedule:
    judge(program)
    return to_schedule(program, implied_network(program, DEFAULT_BANDWIDTH, DEFAULT_ALPHA))

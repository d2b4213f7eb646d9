"""What a text names that can be shown: a network, or a schedule, in a file or a program too."""

from __future__ import annotations

from pathlib import Path

from tutti.schedules.files.schedule_file import read_schedule
from tutti.schedules.programs.formats import FORMATS
from tutti.schedules.programs.interpreter import judge
from tutti.schedules.programs.mscclpp.reader import is_plan
from tutti.schedules.programs.program import Program
from tutti.schedules.programs.raising import implied_network, to_schedule
from tutti.schedules.schedule import Schedule
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError
from tutti.topologies.files import exact_json, read_text
from tutti.topologies.importing import formats
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import DEFAULT_ALPHA, DEFAULT_BANDWIDTH, Topology

SUFFIXES = (".json", ".json.gz", ".npz", ".csv", ".rounds", ".xml")
"""How the names of files end that may hold more than a network."""


def read_source(text: str) -> Topology | Schedule:
    """Return the network, or the schedule, verified, that a text describes or a file holds.

    A program is the schedule that it carries out, on the network that it implies.

    Raises
    ------
    InputError, VerificationError, ProgramError
        If it is none of these, or wrong.
    """
    if not text.endswith(SUFFIXES) or text.partition(":")[0] in formats.FORMATS:
        return parse_topology(text)
    path = Path(text)
    for form in FORMATS.values():
        if form.imported and form.suffix == path.suffix:
            return _raised(form.read(path))
    if path.suffix == ".json":
        content = read_text(path)
        if is_plan(content.encode()):
            raise InputError(f"{path}: a plan of MSCCL++ makes no schedule; show the one it was made from")
        document = exact_json(content, text, "schedule or network")
        if isinstance(document, dict) and "nodes" in document:
            return parse_topology(text)
    schedule = read_schedule(path)
    verify(schedule)
    return schedule


def _raised(program: Program) -> Schedule:
    judge(program)
    return to_schedule(program, implied_network(program, DEFAULT_BANDWIDTH, DEFAULT_ALPHA))

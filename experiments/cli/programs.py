"""Programs in files: schedules, which are lowered, and what runtimes load."""

from __future__ import annotations

from pathlib import Path

from tutti.schedules.programs.formats import FORMATS
from tutti.schedules.programs.mscclpp.names import LIMITS
from tutti.schedules.programs.mscclpp.reader import is_plan, read_plan
from tutti.schedules.programs.program import Program
from tutti.schedules.schedule import Schedule
from tutti.topologies.files import opened


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
    from tutti.schedules.files.schedule_file import read_schedule
    from tutti.schedules.programs.lowering import lower
    from tutti.schedules.verify import verify

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

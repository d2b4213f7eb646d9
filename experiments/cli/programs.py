"""Programs in files: schedules, which are lowered, and what runtimes load."""

from __future__ import annotations

from pathlib import Path

from schedules.programs.formats import FORMATS
from schedules.programs.program import Program
from schedules.schedule import Schedule


def read_program(path: Path) -> tuple[Program, Schedule | None]:
    """Return the program in a file, and the schedule that it was made from if the file holds one.

    Parameters
    ----------
    path
        A schedule file, which is verified and lowered, or one of a format that is imported (``.xml``).

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
    from schedules.files.schedule_file import read_schedule
    from schedules.programs.lowering import lower
    from schedules.verify import verify

    schedule = read_schedule(path)
    verify(schedule)
    return lower(schedule), schedule

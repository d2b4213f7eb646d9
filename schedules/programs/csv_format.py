"""Schedules as CSV (`schedules.files.csv_file`), for spreadsheets and for every command of tutti."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tutti.schedules.files.csv_file import to_csv
from tutti.schedules.files.schedule_file import write_text
from tutti.schedules.method import NoOptions
from tutti.schedules.schedule import Schedule

OPTIONS = NoOptions


def write(schedule: Schedule, path: Path, options: NoOptions) -> dict[str, Any]:
    """Write a schedule.

    Raises
    ------
    InputError
        If the file can't be written.
    """
    write_text(path, to_csv(schedule))
    return {"transfers": len(schedule)}

"""The schedules that a run keeps, each under its content hash."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from tutti.schedules.files.schedule_file import (
    content_hash,
    read_schedule,
    schedule_bytes,
    write_schedule,
    write_whole,
)
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError

SCHEDULES = "schedules"
"""The folder of a run in which they are."""
MANY_TRANSFERS = 10**6
"""Most transfers of a schedule that is kept as readable JSON. A larger one is kept as arrays (.npz)."""
NAME = re.compile(r"([0-9a-f]{16,128})\.(json\.gz|npz)")


def keep_schedule(schedule: Schedule, directory: Path) -> str:
    """Write a schedule into `directory`, unless it is there, and return its content hash.

    Raises
    ------
    InputError, OSError
        If it can't be written; no half file is left behind.
    """
    digest = content_hash(schedule)
    path = directory / _name(schedule, digest)
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        write_schedule(schedule, path)
    return digest


def packed(schedule: Schedule) -> tuple[str, str, bytes]:
    """Return a schedule's content hash, and the name and the content of the file that would keep it."""
    digest = content_hash(schedule)
    name = _name(schedule, digest)
    return digest, name, schedule_bytes(schedule, name)


def keep_file(name: str, data: bytes, directory: Path) -> None:
    """Write a file that `packed` made into `directory`, unless it is there.

    Raises
    ------
    InputError, OSError
        As `keep_schedule`.
    """
    if not (directory / name).exists():
        directory.mkdir(parents=True, exist_ok=True)
        write_whole(directory / name, lambda file: file.write(data))


def _name(schedule: Schedule, digest: str) -> str:
    return f"{digest}.{'npz' if len(schedule) > MANY_TRANSFERS else 'json.gz'}"


def schedule_path(directory: Path, digest: str) -> Path | None:
    """Return the file of the schedule with that content hash, None if it was not kept."""
    paths = (directory / f"{digest}.{suffix}" for suffix in ("json.gz", "npz"))
    return next((path for path in paths if path.exists()), None)


def drop_damaged(directory: Path, digest: str) -> Path | None:
    """Remove the file of that content hash if it does not hold such a schedule; return the removed path."""
    path = schedule_path(directory, digest)
    if path is None:
        return None
    try:
        whole = content_hash(read_schedule(path)) == digest
    except InputError:
        whole = False
    if whole:
        return None
    path.unlink()
    return path


def drop_schedules(directory: Path, keep: Collection[str]) -> None:
    """Remove the schedules whose content hash is not in `keep`; other files stay."""
    for path in directory.glob("*") if directory.is_dir() else ():
        name = NAME.fullmatch(path.name)
        if name and name[1] not in keep:
            path.unlink()

"""Tables of rounds on disk: written round by round, resumable; read through a memory map.

The file is

    magic | length of the header | header (JSON) | padding to 64 bytes | the array

where the array is that of `schedules.rounds.RoundTable`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from schedules.document import header_of, schedule_of
from schedules.rounds import Cells, RoundTable, width_of
from schedules.schedule import Chunks, Clock, Schedule
from topologies.errors import InputError
from topologies.exact import frozen

SUFFIX = ".rounds"
MAGIC = b"tutti.rounds/1\n\0"
ALIGNMENT = 64
_SCHEDULE, _CHUNKS, _MADE = "schedule", "chunks_per_item", "made"


class RoundWriter:
    """Writes a table; until it is whole its file is named `draft`, and a later writer continues it.

    Parameters
    ----------
    path
        The file.
    table
        What is written, without rounds yet.
    made
        What determines the rounds, as JSON values: a draft made otherwise is begun anew.

    Raises
    ------
    InputError
        If it can't be written.
    """

    def __init__(self, path: Path, table: RoundTable, made: Mapping[str, Any]) -> None:
        self.path, self.draft = path, path.with_name(f".{path.name}.part")
        self.row_bytes = table.cells.dtype.itemsize * table.topology.num_links
        self.width = table.cells.dtype
        header = {_SCHEDULE: header_of(_frame(table)), _CHUNKS: _per_item(table), _MADE: dict(made)}
        try:
            self.begin, self.rounds = self._continued(header)
            self.file = self.draft.open("r+b" if self.rounds else "wb")
            if not self.rounds:
                self.begin = write_head(self.file, header)
            self.file.truncate(self.begin + self.rounds * self.row_bytes)
            self.file.seek(0, os.SEEK_END)
        except OSError as error:
            raise _unwritable(path, error) from None

    file: BinaryIO

    def _continued(self, header: Mapping[str, Any]) -> tuple[int, int]:
        """Return where the draft's array begins and how many whole rounds it has: 0 if made otherwise."""
        try:
            found, begin = read_head(self.draft)
        except InputError:
            return 0, 0
        if found != header:
            return 0, 0
        return begin, (self.draft.stat().st_size - begin) // self.row_bytes

    def done(self) -> Cells:
        """Return the rounds that are in the draft: shape (rounds, links)."""
        links = self.row_bytes // self.width.itemsize
        if self.rounds == 0:
            return np.zeros((0, links), self.width)
        return np.memmap(self.draft, self.width, "r", self.begin, (self.rounds, links))

    def append(self, cells: Cells) -> None:
        """Write a round: what each link carries, shape (links,).

        Raises
        ------
        InputError
            If it can't be written.
        """
        try:
            self.file.write(cells.tobytes())
        except OSError as error:
            raise _unwritable(self.path, error) from None
        self.rounds += 1

    def close(self, *, whole: bool) -> None:
        """Close the file; if it is whole, give it its name."""
        try:
            self.file.close()
            if whole:
                self.draft.replace(self.path)
        except OSError as error:
            raise _unwritable(self.path, error) from None


def read_rounds(path: Path | str) -> RoundTable:
    """Return the table in a file, its array a memory map. Whether it is right is for `verify` to say.

    Raises
    ------
    InputError
        If it can't be read, is damaged, or is no such file.
    """
    path = Path(path)
    header, begin = read_head(path)
    for key in (_SCHEDULE, _CHUNKS):
        if not isinstance(header, dict) or key not in header:
            raise InputError(f"{path}: no key '{key}' in its header")
    frame = _read_frame(header[_SCHEDULE], header[_CHUNKS], str(path))
    width, links = width_of(len(frame.chunks)), frame.topology.num_links
    size = path.stat().st_size - begin
    rounds, rest = divmod(size, width.itemsize * links)
    if rest or size < 0:
        raise InputError(f"{path}: damaged: its last round is cut off")
    cells = np.memmap(path, width, "r", begin, (rounds, links)) if rounds else np.zeros((0, links), width)
    return RoundTable(frame.topology, frame.collective, frame.chunks, cells)


def _frame(table: RoundTable) -> Schedule:
    """Return a schedule without transfers, of which the header is written."""
    none = frozen([], np.int32)
    return Schedule(
        table.topology, table.collective, Clock.STEP, table.chunks, none, none, frozen([], np.uint16)
    )


def _read_frame(header: Any, per_item: Any, where: str) -> Schedule:
    none = np.zeros(0, np.int64)
    names = ("chunks.owner", "chunks.size", "transfers.chunk", "transfers.src", "transfers.dst")
    columns = dict.fromkeys((*names, "transfers.route", "transfers.order"), none)
    frame = schedule_of(header, columns, where)
    if not isinstance(per_item, int) or isinstance(per_item, bool):
        raise InputError(f"{where}: {_CHUNKS} is {per_item!r}; it must be an integer")
    return frame.replace(chunks=Chunks.even(frame.collective, per_item))


def _per_item(table: RoundTable) -> int:
    return len(table.chunks) // len(table.collective.items)


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path}: can't be written: {error.strerror or error}")


def write_head(file: BinaryIO, header: Mapping[str, Any]) -> int:
    """Write all before the array; return its length in bytes."""
    text = json.dumps(header).encode()
    used = len(MAGIC) + 8 + len(text)
    file.write(MAGIC + len(text).to_bytes(8, "little") + text + bytes(-used % ALIGNMENT))
    return used + -used % ALIGNMENT


def read_head(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header of a file and where its array begins.

    Raises
    ------
    InputError
        If it is no such file.
    """
    try:
        with path.open("rb") as file:
            magic, length = file.read(len(MAGIC)), int.from_bytes(file.read(8), "little")
            if magic != MAGIC or length > path.stat().st_size:
                raise InputError(f"{path}: not a table of rounds")
            header = json.loads(file.read(length))
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(f"{path}: damaged: {error}") from None
    used = len(MAGIC) + 8 + length
    return header, used + -used % ALIGNMENT

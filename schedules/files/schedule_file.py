"""Schedule files: ``.json``, ``.json.gz``, ``.npz`` for large ones, and ``.csv``, which is only read.

The JSON is ``{"format": "tutti.schedule/1", "topology": node-link, "collective": {...}, "clock": ...,
"denominator": D, "tick", "size_bytes", "chunks": {"owner", "for", "group", "size", "copy_of"},
"routes": [[links], ...],
"transfers": {"chunk", "count", "src", "dst", "route", "order", "reduce"}, "claims": {...}}``. The npz holds
the columns by names such as ``transfers.src``, the routes as ``routes.offsets`` and ``routes.links``, and the
rest as JSON text in ``header``. The same schedule always gives the same bytes. `content_hash`
identifies a schedule's content and names its file.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from tutti.schedules.files.csv_file import read_csv
from tutti.schedules.files.document import (
    Columns,
    check_column,
    columns_of,
    from_document,
    header_of,
    schedule_of,
    to_document,
)
from tutti.schedules.files.rounds import SUFFIX
from tutti.schedules.schedule import Schedule
from tutti.topologies.disk import check_place, write_text, write_whole
from tutti.topologies.errors import InputError
from tutti.topologies.files import MOST_TEXT, check_length, exact_json, opened

_T = TypeVar("_T")
_VERSION = "tutti.content/1"
_BLOCK = 2**20
"""Rows that are hashed at a time, as 64-bit integers. A larger value needs more memory for their copy."""


def content_hash(schedule: Schedule) -> str:
    """Return the SHA-256, in hexadecimal, of a schedule's content, however it is stored.

    It covers the network's links, the collective, the clock (with tick and size) and the tables; not names
    and labels, claims or stats.
    """
    topology, chunks, table = schedule.topology, schedule.chunks, schedule.route_table
    columns: list[Any] = [topology.source, topology.target]
    columns += [topology.bandwidth.reduced.numerators, topology.alpha.reduced.numerators]
    columns += [chunks.item, chunks.size // _common(schedule), table.offsets, table.links]
    columns += [schedule.chunk, schedule.route]
    columns += [schedule.order, _counts(schedule), _reduces(schedule), chunks.copy_of]
    digest = hashlib.sha256()
    digest.update(json.dumps(_frame(schedule), sort_keys=True).encode())
    for column in columns:
        if column is None:
            continue
        digest.update(len(column).to_bytes(8, "little"))
        for begin in range(0, len(column), _BLOCK):
            digest.update(column[begin : begin + _BLOCK].astype("<i8").tobytes())
    return digest.hexdigest()


def _frame(schedule: Schedule) -> dict[str, Any]:
    topology, what = schedule.topology, schedule.collective
    return {
        "version": _VERSION,
        "ranks": topology.num_ranks,
        "nodes": topology.num_nodes,
        "multicast": sorted(topology.multicast),
        "aggregate": sorted(topology.aggregate),
        "units": [topology.bandwidth.reduced.denominator, topology.alpha.reduced.denominator],
        "kind": what.kind,
        "root": what.root,
        "shards": _texts(what.shards),
        "groups": what.groups,
        "clock": schedule.clock,
        "tick": _texts([schedule.tick]),
        "size": _texts([schedule.size]),
        "denominator": schedule.chunks.denominator // _common(schedule),
        "counts": _counts(schedule) is not None,
        "reduces": _reduces(schedule) is not None,
        "orders": schedule.order is not None,
        **({"matrix": what.matrix.amounts.tolist()} if what.matrix is not None else {}),
        **({"parts": [str(part) for part in what.parts]} if what.parts else {}),
        **({"weights": _texts(what.weights)} if what.weights else {}),
        **({"copies": True} if schedule.chunks.copy_of is not None else {}),
    }


def _texts(values: Any) -> list[str] | None:
    return None if values is None else [str(Fraction(v)) if v is not None else "" for v in values]


def _common(schedule: Schedule) -> int:
    """Return the greatest common divisor of the sizes of chunks and their denominator."""
    sizes = int(np.gcd.reduce(schedule.chunks.size, initial=0))
    return math.gcd(schedule.chunks.denominator, sizes) or 1


def _counts(schedule: Schedule) -> npt.NDArray[Any] | None:
    """Return the counts, or None if each is 1."""
    return None if schedule.count is None or (schedule.count == 1).all() else schedule.count


def _reduces(schedule: Schedule) -> npt.NDArray[Any] | None:
    """Return the reduce flags, or None if none is set."""
    return None if schedule.reduce is None or not schedule.reduce.any() else schedule.reduce


__all__ = [
    "check_place",
    "check_target",
    "content_hash",
    "from_document",
    "is_round_file",
    "read_schedule",
    "to_document",
    "write_schedule",
    "write_text",
    "write_whole",
]

_HEADER = "header"
ZIP = b"PK\3\4"
"""The first bytes of an archive."""
_UNPACKED = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile)
"""Errors that unpacking raises for damaged bytes."""
_DAMAGED = (*_UNPACKED, ValueError, KeyError, RuntimeError, MemoryError, struct.error)
"""Errors that numpy raises for them."""
MOST_ARRAYS = 2**34
"""Largest number of bytes of arrays that are read. Several hundred million rows have as many."""


def write_schedule(schedule: Schedule, path: Path | str) -> None:
    """Write a schedule in the form that the suffix says. The file is written completely or not at all.

    Raises
    ------
    InputError
        If the suffix is unknown, or the file can't be written.
    """
    write = _of_form(_WRITERS, path)
    write_whole(Path(path), lambda file: write(schedule, file))


def schedule_bytes(schedule: Schedule, name: str) -> bytes:
    """Return the bytes that `write_schedule` writes to a file of that name.

    Raises
    ------
    InputError
        If the suffix is unknown.
    """
    file = io.BytesIO()
    _of_form(_WRITERS, name)(schedule, file)
    return file.getvalue()


def check_target(path: Path | str) -> None:
    """Refuse a name that `write_schedule` could not write to, as far as this is known beforehand.

    Raises
    ------
    InputError
        As `write_schedule`.
    """
    if not is_round_file(path):
        _of_form(_WRITERS, path)
    check_place(Path(path))


def read_schedule(path: Path | str) -> Schedule:
    """Return the schedule in a file. `schedules.verify` checks whether it is correct.

    Raises
    ------
    InputError
        If the file can't be read or is no schedule file.
    """
    return _of_form(_READERS, path)(Path(path))


def is_round_file(path: Path | str) -> bool:
    """Return whether a name is that of a table of rounds (`schedules.files.rounds`)."""
    return str(path).endswith(SUFFIX)


def _of_form(forms: Mapping[str, Callable[..., _T]], path: Path | str) -> Callable[..., _T]:
    """Return the function that reads or writes files of this name."""
    for form, action in forms.items():
        if str(path).endswith(form):
            return action
    if is_round_file(path):
        raise InputError(
            f"{path}: a table of rounds is made by tutti synth and read by tutti verify, no more"
        )
    *most, last = forms
    program = "; tutti import makes one of a program" if str(path).endswith(".xml") else ""
    raise InputError(f"{path}: a schedule file's name ends in {', '.join(most)} or {last}{program}")


def _write_json(schedule: Schedule, file: IO[bytes]) -> None:
    file.write(_text(schedule).encode())


def _write_gzip(schedule: Schedule, file: IO[bytes]) -> None:
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        packed.write(_text(schedule).encode())


def _text(schedule: Schedule) -> str:
    """Return the JSON, one key per line."""
    pairs = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in to_document(schedule).items()]
    return "{" + ",\n ".join(pairs) + "}\n"


def _write_npz(schedule: Schedule, file: IO[bytes]) -> None:
    header = np.frombuffer(json.dumps(header_of(schedule)).encode(), dtype=np.uint8)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:  # columns are regular
        for name, column in {_HEADER: header, **columns_of(schedule)}.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980, so that the bytes do not depend on the day
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(column), allow_pickle=False)


def _read_json(path: Path) -> Schedule:
    with opened(path) as file:
        return _parse(file.read(), str(path), from_document)


def _read_gzip(path: Path) -> Schedule:
    with opened(path) as file:
        try:
            text = gzip.GzipFile(fileobj=file).read(MOST_TEXT + 1)
        except _UNPACKED as error:
            raise InputError(f"{path}: damaged: {error}") from None
    check_length(path, len(text), MOST_TEXT)
    return _parse(text, str(path), from_document)


def _read_npz(path: Path) -> Schedule:
    where = str(path)
    try:
        with opened(path, MOST_ARRAYS) as file:
            begin = file.read(len(ZIP))
            file.seek(0)
            archive = np.load(file, allow_pickle=False) if begin == ZIP else None
            if not isinstance(archive, np.lib.npyio.NpzFile) or archive.zip is None:
                raise InputError(f"{where}: not an npz archive")
            check_length(path, sum(entry.file_size for entry in archive.zip.infolist()), MOST_ARRAYS)
            columns: Columns = {name: np.asarray(archive[name]) for name in archive.files}
    except _DAMAGED as error:
        text = "it holds Python objects" if "pickle" in str(error) else " ".join(str(error).split())
        raise InputError(f"{where}: damaged: {text}") from None
    header = columns.pop(_HEADER, None)
    if header is None or header.dtype != np.uint8:
        raise InputError(f"{where}: no array 'header' of bytes")
    checked = {name: check_column(name, column, where) for name, column in columns.items()}
    for column in checked.values():
        column.flags.writeable = False  # a schedule then takes it without a copy
    return _parse(header.tobytes(), where, lambda value, _: schedule_of(value, checked, where))


def _parse(data: bytes, where: str, make: Callable[[Any, str], Schedule]) -> Schedule:
    """Return the result of `make` for JSON in which every number is exact."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InputError(f"{where}: not UTF-8 text") from None
    return make(exact_json(text, where, "schedule"), where)


_WRITERS = {".json": _write_json, ".json.gz": _write_gzip, ".npz": _write_npz}
_READERS = {".json": _read_json, ".json.gz": _read_gzip, ".npz": _read_npz, ".csv": read_csv}

"""Schedules as CSV, the form that is easiest to make by hand or by another program.

The rows are the transfers, with one column for each name in the JSON's table ``transfers``. Lines ``# key:
value`` are the other keys of the JSON (`schedules.files.document`); each value is JSON or a plain text::

    # topology: ring:4
    # collective: broadcast
    chunk, src, dst, order
    0, 0, 1, 1
    0, 0, 3, 1
    0, 1, 2, 2

The defaults are the step clock, and one chunk for each datum.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from tutti.schedules.files.document import FORMAT, KEYS, TRANSFER_COLUMNS, from_document, to_document
from tutti.schedules.method import NoOptions
from tutti.schedules.schedule import Clock, Schedule
from tutti.topologies.disk import write_text
from tutti.topologies.errors import InputError, suggestion, within
from tutti.topologies.files import read_text
from tutti.topologies.units import exact_number

OPTIONS = NoOptions
_DEFAULTS = {"format": FORMAT, "clock": str(Clock.STEP), "chunks": 1}
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def read_csv(path: Path) -> Schedule:
    """Return the schedule in a CSV file. `schedules.verify` checks whether it is correct.

    Raises
    ------
    InputError
        If it can't be read or is no schedule; the message names the line.
    """
    where, lines = str(path), read_text(path).removeprefix("\ufeff").splitlines()
    header = _DEFAULTS | _header(lines, where)
    for key in ("topology", "collective"):
        if key not in header:
            raise InputError(f"{where}: no line '# {key}: ...'")
    rows = _rows(lines, where)
    if not rows:
        raise InputError(f"{where}: no line of column names, such as chunk,src,dst,order")
    first, names = rows.pop(0)
    _check_names(names, f"{where}, line {first}", flow=header["clock"] == Clock.FLOW)
    for number, row in rows:
        if len(row) != len(names):
            raise InputError(f"{where}, line {number}: {len(row)} values for {len(names)} columns")
    columns = {name: [_value(name, row[place]) for _, row in rows] for place, name in enumerate(names)}
    return from_document({**header, "transfers": columns}, where, [number for number, _ in rows])


def to_csv(schedule: Schedule) -> str:
    """Return a schedule as CSV, from which `read_csv` makes the same schedule."""
    document = to_document(schedule)
    columns = document.pop("transfers")
    header = [f"# {key}: {json.dumps(value)}" for key, value in document.items() if value != {}]
    rows = zip(*([json.dumps(value) for value in column] for column in columns.values()), strict=True)
    return "\n".join([*header, ",".join(columns), *map(",".join, rows)]) + "\n"


def write(schedule: Schedule, path: Path, options: NoOptions) -> dict[str, Any]:
    """Write a schedule.

    Raises
    ------
    InputError
        If the file can't be written.
    """
    write_text(path, to_csv(schedule))
    return {"transfers": len(schedule)}


def _header(lines: Iterable[str], where: str) -> dict[str, Any]:
    """Return the values of the lines ``# key: value``; a line without a colon is a remark."""
    header: dict[str, Any] = {}
    for number, line in enumerate(lines, 1):
        key, colon, text = (part.strip() for part in line.lstrip("# ").partition(":"))
        if not line.startswith("#") or not colon:
            continue
        place = f"{where}, line {number}"
        if key not in KEYS:
            raise InputError(f"{place}: unknown key '{key}'{suggestion(key, KEYS)}")
        if key in header:
            raise InputError(f"{place}: '{key}' occurs twice")
        header[key] = within(place, partial(_json_or_text, text))
    return header


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_float=exact_number)
    except (ValueError, RecursionError):
        return text


def _rows(lines: Iterable[str], where: str) -> list[tuple[int, list[str]]]:
    """Return the values of each line that has any, with its number."""
    reader = csv.reader(("" if line.startswith("#") else line for line in lines), strict=True)
    try:
        return [(reader.line_num, [value.strip() for value in row]) for row in reader if row]
    except csv.Error as error:
        raise InputError(f"{where}, line {reader.line_num}: not CSV: {error}") from None


def _check_names(names: list[str], where: str, *, flow: bool) -> None:
    """Refuse columns that are unknown, given twice or missing; a flow has no order."""
    for name in names:
        if name not in TRANSFER_COLUMNS:
            raise InputError(f"{where}: unknown column '{name}'{suggestion(name, TRANSFER_COLUMNS)}")
        if names.count(name) > 1:
            raise InputError(f"{where}: column '{name}' occurs twice")
    for name in ("chunk", "src", "dst", *(() if flow else ("order",))):
        if name not in names:
            raise InputError(f"{where}: no column '{name}'; there are {', '.join(names)}")


def _value(name: str, text: str) -> int | bool | str:
    """Return a value, or the text if it is none, which the document's reader then refuses."""
    if name == "reduce":
        return _TRUTH.get(text.lower(), text)
    return int(text) if _INTEGER.fullmatch(text) else text

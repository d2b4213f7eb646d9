"""How commands speak: JSON lines, or short tables, on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TextIO

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

PLAIN_WIDTH = 160
"""Of output that is no terminal."""

_LONG = ((172_800, 86_400, "d"), (7200, 3600, "h"), (600, 60, "min"), (0, 1, "s"))
"""Of times of a second and more: from how many seconds on a unit is used, its seconds, its name."""

_SLOW = ((1e-2, 1, "GB/s"), (1e-5, 1e3, "MB/s"), (1e-8, 1e6, "KB/s"), (0, 1e9, "B/s"))
"""Of bandwidths: from how many GB/s on a unit is used, how many of it are one GB/s, its name."""


def console(file: TextIO | None = None) -> Console:
    """Return a console on `file`, by default standard output."""
    stream = sys.stdout if file is None else file
    return Console(
        file=stream,
        width=None if stream.isatty() else PLAIN_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_json(document: Mapping[str, Any]) -> None:
    """Print one document on one line."""
    print(json.dumps(document, default=_plain))


def print_fields(fields: Mapping[str, object]) -> None:
    """Print names and values in two columns; what is None is left out."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in fields.items():
        if value is not None:
            table.add_row(name, str(value))
    console().print(table)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; numbers stand to the right, an empty cell is a dash."""
    if title:
        console().print(title, soft_wrap=True)  # a table's own title is folded to the table's width
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    body = [[_cell(value) for value in row] for row in rows]
    for number, name in enumerate(columns):
        numeric = all(_is_number(row[number]) for row in body)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in body:
        table.add_row(*row)
    console().print(table)


def short(value: float) -> str:
    """Return a number with six significant digits."""
    return f"{value:.6g}"


def duration(microseconds: float) -> str:
    """Return a time in microseconds, or from a second on in a unit that leaves it readable.

    Examples
    --------
    >>> duration(213.333333), duration(2.5e6), duration(1e14)
    ('213.333 us', '2.5 s', '1157.41 d')
    """
    seconds = microseconds / 1e6
    if seconds < 1:
        return f"{short(microseconds)} us"
    scale, unit = next((scale, unit) for least, scale, unit in _LONG if seconds >= least)
    return f"{short(seconds / scale)} {unit}"


def throughput(gigabytes: float) -> str:
    """Return a bandwidth in 10^9 bytes a second, or below a hundredth of that in a smaller unit.

    Examples
    --------
    >>> throughput(133.333333), throughput(0.05), throughput(3e-9)
    ('133.333 GB/s', '0.05 GB/s', '3 B/s')
    """
    scale, unit = next((scale, unit) for least, scale, unit in _SLOW if gigabytes >= least)
    return f"{short(gigabytes * scale)} {unit}"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return short(value) if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    """Whether it is a number, perhaps with a unit; a sentence may start with one too."""
    return len(text.split()) <= 2 and _starts_as_number(text)


def _starts_as_number(text: str) -> bool:
    return text == "-" or text[:1].isdigit() or text[:1] in "+-"


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")

"""The output of commands: JSON lines, or short tables, on standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TextIO

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tutti.experiments.printable import printable
from tutti.topologies.units import short


class Shown(NamedTuple):
    """Limits on what commands print. Larger values make longer lines and tables; ``--json`` has all."""

    width: int
    """Characters of a line if the output is not a terminal."""
    members: int
    """Most ranges of a set of nodes, nodes of a path, or classes of ranks in a line."""
    name: int
    """Most characters of a file's name that is made from a network's text."""
    fits: int
    """Most fitted pairs of ranks that are listed."""
    sizes: int
    """Most sizes or tables that are named in one line."""
    instances: int
    """Most lines of the table that ends a run. Longer tables are only in the report."""
    methods: int
    """Most methods that have a column in that table. If there are more, it names the best one only."""
    bounded: int
    """Ranks of the largest network whose bounds ``tutti topology`` finds; on more they take seconds each."""


SHOWN = Shown(width=160, members=8, name=60, fits=64, sizes=6, instances=40, methods=12, bounded=1024)


class _Screen(Console):
    """A console that writes out what would steer the terminal, wherever it stands in a text."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Return the text as it is shown."""
        return super().render_str(printable(text), **how)


def console(file: TextIO | None = None) -> Console:
    """Return a console on `file`, by default standard output."""
    stream = sys.stdout if file is None else file
    return _Screen(
        file=stream,
        width=None if stream.isatty() or "COLUMNS" in os.environ else SHOWN.width,
        force_interactive=None if stream.isatty() else False,  # though notebooks force colours
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_json(*documents: Mapping[str, Any]) -> None:
    """Print documents, each on one line."""
    for document in documents:
        print(json.dumps(document, default=_plain))


def print_answer(document: Mapping[str, Any], fields: Mapping[str, object], *, as_json: bool) -> None:
    """Print a document on one line, or for people these fields of it."""
    if as_json:
        print_json(document)
    else:
        print_fields(fields)


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
    body = [["-" if c is None else short(c) if isinstance(c, float) else str(c) for c in row] for row in rows]
    for number, name in enumerate(columns):  # of numbers, perhaps with a unit; a sentence may start with one
        words = [row[number] for row in body]
        numeric = all(len(w.split()) <= 2 and (w[:1].isdigit() or w[:1] in "+-") for w in words)
        whole = min(max(map(len, words), default=0), console().width // 4) if number == 0 else None
        table.add_column(name, justify="right" if numeric else "left", overflow="fold", min_width=whole)
    for row in body:
        table.add_row(*row)
    console().print(table)


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")

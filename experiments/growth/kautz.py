"""T_B of the generalized Kautz graphs of several degrees, all N up to some (Fig. A.7), kept as a table."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple, TextIO

from experiments.runner.results import replacing
from models.bfb.kautz import kautz_cost
from topologies.errors import InputError

TABLE = "kautz.csv"
FIGURE = (2, 4, 8, 16)
"""Degrees of Fig. A.7."""


class KautzRow(NamedTuple):
    """A row of ``kautz.csv``: d, N, T_L in steps and T_B in M/B, exactly."""

    degree: int
    nodes: int
    tl_steps: int
    tb_factor: Fraction


def write_kautz(
    directory: Path, degrees: Iterable[int], up_to: int, report: Callable[[int], None] = lambda degree: None
) -> None:
    """Measure what the directory's table lacks, all N from d + 2 to `up_to`, degree by degree.

    Raises
    ------
    InputError
        If the table is none of ours or can't be written.
    """
    known = {(row.degree, row.nodes): row for row in read_kautz(directory)}
    for degree in sorted(degrees):
        fresh = [n for n in range(degree + 2, up_to + 1) if (degree, n) not in known]
        known |= {(degree, n): KautzRow(degree, n, *kautz_cost(degree, n)) for n in fresh}
        if fresh:
            _write(directory / TABLE, known)
        report(degree)


def _write(path: Path, known: Mapping[tuple[int, int], KautzRow]) -> None:
    try:
        with replacing(path) as draft, draft.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(KautzRow._fields)
            writer.writerows(known[key] for key in sorted(known))
    except OSError as error:
        raise InputError(f"{path}: can't write there: {error.strerror}") from error


def read_kautz(directory: Path) -> list[KautzRow]:
    """Return the rows of the directory's table, by degree and N; none if there is no table.

    Raises
    ------
    InputError
        If it is none of ours.
    """
    path = directory / TABLE
    if not path.exists():
        return []
    try:
        with path.open(newline="") as file:
            lines = _lines(file)
        return sorted(KautzRow(int(d), int(n), int(tl), Fraction(tb)) for d, n, tl, tb in lines)
    except (OSError, ValueError, ZeroDivisionError) as error:
        raise InputError(f"{path}: not a table of generalized Kautz graphs: {error}") from error


def _lines(file: TextIO) -> list[list[str]]:
    """Return the lines below the header.

    Raises
    ------
    ValueError
        If the header is another one.
    """
    header, *lines = csv.reader(file)
    if header != list(KautzRow._fields):
        raise ValueError(f"its columns are {', '.join(header)}")
    return lines

"""Measured times as benchmarks print them: nccl-tests, the OSU micro-benchmarks, and CSV.

nccl-tests print a row a size; its times out of place are taken. OSU tables are a title, a head and a row a
size: the latency of a message, MB/s of windows of messages, or the latency of a collective. A window is one
transfer of all its bytes: its messages are sent at once, so that α is paid once, as TACCL's profiler has it
(section 4.1: n chunks at once take α + n·β·s). CSV has the columns source, destination, bytes and seconds.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from topologies.errors import InputError
from topologies.exact import FloatArray
from topologies.files import read_text

MOST_TEXT = 2**28
MOST_PAIRS, MOST_NAME = 2**17, 64
COLUMNS = ("source", "destination", "bytes", "seconds")
OSU_WINDOW = 64
"""Messages of a window of osu_bw, unless its output tells another number."""
MOST_BYTES, MOST_SECONDS = 2.0**60, 1e9
_OSU_TITLE = re.compile(r"#\s*OSU\s+(?:MPI\S*\s+)?(.*?)\s+Test\b.*")
_OSU_OTHERS = ("Bi-Directional", "Multiple", "Message Rate", "Put", "Get", "Accumulate")
_WINDOW = re.compile(r"window size:\s*([0-9]{1,6})")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_SHOWN = 40
_US, _MB = 1e-6, 1e6


@dataclass(frozen=True, eq=False)
class Series:
    """Times of one pair of devices, or of all together.

    Parameters
    ----------
    pair
        Source and destination, by label; None where the table does not tell.
    what
        What was timed, in words.
    size, seconds
        float64, shape (samples,): bytes, and the time they took.
    link
        Whether one message over one way is timed, not a collective.
    """

    pair: tuple[str, str] | None
    what: str
    size: FloatArray
    seconds: FloatArray
    link: bool


@dataclass
class _Rows:
    """Samples that are being read."""

    size: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, size: float, seconds: float, place: str) -> None:
        """Add a sample.

        Raises
        ------
        InputError
            If it is out of range.
        """
        if not 0 <= size <= MOST_BYTES:
            raise InputError(f"{place}: {size:g} bytes; from 0 to 2^60 are expected")
        if not 0 < seconds <= MOST_SECONDS:
            raise InputError(
                f"{place}: {seconds:g} seconds; above 0 and at most {MOST_SECONDS:g} are expected"
            )
        self.size.append(size)
        self.seconds.append(seconds)

    def series(self, pair: tuple[str, str] | None, what: str, *, link: bool) -> Series:
        """Return the samples as arrays."""
        return Series(pair, what, np.array(self.size), np.array(self.seconds), link)


def read_measurements(path: Path | str) -> list[Series]:
    """Return the measured times in a file, a series for each pair, or one.

    Raises
    ------
    InputError
        If the file can't be read, is none of the three kinds, or has a number out of range (naming the line).
    """
    where = str(path)
    lines = read_text(path, MOST_TEXT).removeprefix("\ufeff").splitlines()  # spreadsheets begin files so
    if any(_OSU_TITLE.match(line) for line in lines):
        return _osu(lines, where)
    if any(_is_head(line.split()) for line in lines):
        return [_nccl_tests(lines, where)]
    if any("source" in line for line in lines[:1]):
        return _csv(lines, where)
    raise InputError(
        f"{where}: no output of nccl-tests (a head with time, algbw, busbw), no OSU table (# OSU ... Test) "
        f"and no CSV with the columns {', '.join(COLUMNS)}"
    )


def _number(word: str, place: str) -> float:
    """Return a finite number of a table."""
    if not _NUMBER.fullmatch(word):
        shown = f"{word[:_SHOWN]}{'...' * (len(word) > _SHOWN)}"
        raise InputError(f"{place}: {shown!r} is not a finite number")
    return float(word)


def _numbered(lines: list[str], where: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the words of each line."""
    for number, line in enumerate(lines, start=1):
        yield f"{where}, line {number}", line.split()


def _is_head(words: list[str]) -> bool:
    return {"size", "time", "algbw", "busbw"} <= set(words)


def _nccl_tests(lines: list[str], where: str) -> Series:
    """Return the out-of-place times of a table of nccl-tests."""
    rows, head = _Rows(), [""]
    rates: tuple[float, float] = (0.0, 0.0)
    roots: set[str] = set()
    for place, words in _numbered(lines, where):
        if _is_head(words):
            head = [word for word in words if word != "#"]
        elif "time" in head and words and words[0].isdecimal():
            time = head.index("time")
            if len(words) < time + 3:
                raise InputError(f"{place}: {len(words)} columns; a row has {time + 3} or more")
            size, microseconds, algbw, busbw = (
                _number(words[i], place) for i in (0, time, time + 1, time + 2)
            )
            if size:  # of nothing only the launch is timed
                rows.add(size, microseconds * _US, place)
                rates = max(rates, (algbw, busbw))
            roots.update(word for name, word in zip(head, words, strict=False) if name == "root")
    if not rows.size:
        raise InputError(f"{where}: a head of nccl-tests without a row")
    # busbw is algbw times a factor of the collective, 1 where each rank sends and receives all once.
    link = rates[0] == rates[1] and roots <= {"-1"}
    return rows.series(None, "nccl-tests, " + ("point to point" if link else "a collective"), link=link)


def _osu(lines: list[str], where: str) -> list[Series]:
    """Return the tables of the OSU micro-benchmarks; latencies and bandwidths of messages together."""
    tables: dict[str, _Rows] = {}
    title, window = "", OSU_WINDOW
    for place, words in _numbered(lines, where):
        line = " ".join(words)
        match = _OSU_TITLE.match(line)
        if match:
            title = match[1]
            if title.startswith(_OSU_OTHERS) or not title.endswith(("Latency", "Bandwidth")):
                allowed = "Latency, Bandwidth and the latency of collectives"
                raise InputError(f"{place}: the OSU table {title[:_SHOWN]!r} is not read; allowed: {allowed}")
        elif found := _WINDOW.search(line):
            window = int(found[1])
        elif title and len(words) > 1 and words[0].isdecimal():
            size, value = (_number(word, place) for word in words[:2])
            rows = tables.setdefault("Latency" if title == "Bandwidth" else title, _Rows())
            if title != "Bandwidth":
                rows.add(size, value * _US, place)
            elif value:  # too slow for two decimals
                rows.add(window * size, window * size / (value * _MB), place)
    if not tables or not all(rows.size for rows in tables.values()):
        raise InputError(f"{where}: a title of an OSU table without a row above zero")
    return [
        rows.series(
            None, f"OSU, {'point to point' if title == 'Latency' else title}", link=title == "Latency"
        )
        for title, rows in tables.items()
    ]


def _csv(lines: list[str], where: str) -> list[Series]:
    """Return the series of each pair in a CSV file."""
    pairs: dict[tuple[str, str], _Rows] = {}
    reader = csv.reader(lines, strict=True)
    try:
        head = [word.strip() for word in next(reader)]
        if sorted(head) != sorted(COLUMNS):
            raise InputError(
                f"{where}: the columns are {', '.join(head)[:80]}; expected: {', '.join(COLUMNS)}"
            )
        column = [head.index(name) for name in COLUMNS]
        for row in reader:
            if not row:
                continue
            place = f"{where}, line {reader.line_num}"
            if len(row) != len(head):
                raise InputError(f"{place}: {len(row)} columns; the head has {len(head)}")
            source, destination, size, seconds = (row[index].strip() for index in column)
            names = {source, destination}
            if len(names) < 2 or not all(0 < len(name) <= MOST_NAME and name.isprintable() for name in names):
                raise InputError(f"{place}: source and destination must be two names of at most {MOST_NAME}")
            if len(pairs) > MOST_PAIRS:
                raise InputError(f"{place}: too many pairs; at most {MOST_PAIRS}")
            rows = pairs.setdefault((source, destination), _Rows())
            rows.add(_number(size, place), _number(seconds, place), place)
    except csv.Error as error:
        raise InputError(f"{where}, line {reader.line_num}: not CSV: {error}") from None
    if not pairs:
        raise InputError(f"{where}: no row below the columns")
    return [rows.series(pair, "CSV", link=True) for pair, rows in pairs.items()]

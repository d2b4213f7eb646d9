"""Measured times as benchmarks print them: nccl-tests, the OSU micro-benchmarks, and CSV.

A log may have several tables, of either benchmark; each is a separate series. An OSU table has a title, a
head and one row per size: the latency of a message, MB/s of windows of messages, or the latency of a
collective. A window counts as one transfer of all its bytes. Its messages are sent together and pay α once,
as in TACCL's profiler (section 4.1: n chunks sent together take α + n·β·s). A table of latencies and a table
of bandwidths form one series. A CSV file has the columns source, destination, bytes and seconds. It may have
a fifth column, messages: the number of messages in which the bytes were sent, one after the other.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import NamedTuple

from tutti.topologies.errors import SHOWN, InputError, visible
from tutti.topologies.files import read_text
from tutti.topologies.logs import LogLine, plain_lines, streams
from tutti.topologies.measurements import nccl_tests
from tutti.topologies.measurements.series import MeasuredTimes, Samples, is_number, number
from tutti.topologies.units import MEGA, MICROSECOND


class MeasurementLimits(NamedTuple):
    """Limits on a file that is read. Larger files are refused."""

    text: int
    """Most bytes of the file."""
    pairs: int
    """Most pairs of names."""
    name: int
    """Most characters of a name."""


LIMITS = MeasurementLimits(text=2**28, pairs=2**17, name=64)

COLUMNS = ("source", "destination", "bytes", "seconds")
MESSAGES = "messages"
"""An optional column; without it each row is one message."""
OSU_WINDOW = 64
"""Number of messages in a window of osu_bw, unless its output has another number."""
_OSU_TITLE = re.compile(r"#\s*OSU\s+(?:MPI\S*\s+)?(.*?)\s+Test\b.*")
_OSU_OTHERS = ("Bi-Directional", "Multiple", "Message Rate", "Put", "Get", "Accumulate")
_WINDOW = re.compile(r"window size:\s*([0-9]{1,6})")
_LATENCY, _BANDWIDTH = "Latency", "Bandwidth"


def read_measurements(path: Path | str, *, in_place: bool = False) -> list[MeasuredTimes]:
    """Return the measured times in a file, one series for each pair or table.

    Parameters
    ----------
    path
        The file.
    in_place
        Whether to take the in-place times of nccl-tests instead of the out-of-place times.

    Raises
    ------
    InputError
        If the file can't be read, has an unknown format, or has a number out of range (with its line).
    """
    where = str(path)
    text = read_text(path, LIMITS.text)
    if nccl_tests.is_json(text):
        return nccl_tests.read_json(text, where, in_place=in_place)
    lines = plain_lines(text)
    runs = [run for stream in streams(lines, _head_at) for run in _runs(stream)]
    of_nccl, of_osu = ([run for run in runs if _is_osu(run) == osu] for osu in (False, True))
    if in_place and not of_nccl:
        raise InputError(f"{where}: only the tables of nccl-tests have times in place")
    last = max((line.number for line in lines if line.text.strip()), default=0)
    found = [
        series
        for run in of_nccl
        for series in nccl_tests.read_tables(run, where, in_place=in_place, last=last)
    ]
    if runs:
        return found + (_osu([_osu_table(run, where) for run in of_osu], where) if of_osu else [])
    if any("source" in line.text for line in lines[:1]):
        return _csv([line.text for line in lines], where)
    raise InputError(
        f"{where}: no output of nccl-tests (a head with time, algbw, busbw), no OSU table (# OSU ... Test) "
        f"and no CSV with the columns {', '.join(COLUMNS)}"
    )


def _head_at(line: str) -> int | None:
    """Return where in a line the head or title of a table begins."""
    title = _OSU_TITLE.search(line)
    return nccl_tests.head_at(line) if title is None else title.start()


def _is_osu(run: list[LogLine]) -> bool:
    return _OSU_TITLE.match(run[0].text.lstrip()) is not None


def _runs(stream: list[LogLine]) -> list[list[LogLine]]:
    """Return the lines of each OSU table, and the lines of nccl-tests between two of them."""
    runs: list[list[LogLine]] = [[]]
    for line in stream:
        text = line.text.lstrip()
        if _OSU_TITLE.match(text) or (nccl_tests.starts(text) and runs[-1] and _is_osu(runs[-1])):
            runs.append([])
        runs[-1].append(line)
    return [
        run for run in runs if run and (_is_osu(run) or any(_head_at(line.text) is not None for line in run))
    ]


class _OsuTable(NamedTuple):
    """A table of the OSU micro-benchmarks."""

    title: str
    rows: Samples


def _osu_table(run: list[LogLine], where: str) -> _OsuTable:
    """Return the rows of a table, the first line of which is its title."""
    match = _OSU_TITLE.match(run[0].text.strip())
    title = match[1] if match else ""
    if title.startswith(_OSU_OTHERS) or not title.endswith((_LATENCY, _BANDWIDTH)):
        allowed = "Latency, Bandwidth and the latency of collectives"
        place = f"{where}, line {run[0].number}"
        raise InputError(f"{place}: the OSU table {title[:SHOWN]!r} is not read; allowed: {allowed}")
    table, window = _OsuTable(title, Samples()), OSU_WINDOW
    for line in run:
        if found := _WINDOW.search(line.text):
            window = int(found[1])
        words = line.text.split()
        if words and not words[0].startswith("#") and (words[0].isdecimal() or is_number(words[-1])):
            _add_osu_row(table, words, window, f"{where}, line {line.number}")
    return table


def _add_osu_row(table: _OsuTable, words: list[str], window: int, place: str) -> None:
    try:
        if len(words) < 2:
            raise InputError(f"{place}: {words[0][:SHOWN]!r} alone; a row has a size and a value")
        size, value = (number(word, place) for word in words[:2])
        if table.title != _BANDWIDTH:
            table.rows.add(size, value * MICROSECOND, place)
        elif value:  # zero: it was too slow for two decimals
            table.rows.add(window * size, window * size / (value * MEGA), place)
    except InputError as error:
        table.rows.bad.append(error)


def _osu(tables: list[_OsuTable], where: str) -> list[MeasuredTimes]:
    """Return the series of the tables. The n-th latencies and the n-th bandwidths of messages form one."""
    together: dict[tuple[str, int], list[_OsuTable]] = {}
    count: dict[str, int] = {}
    for table in tables:
        count[table.title] = count.get(table.title, 0) + 1
        title = _LATENCY if table.title == _BANDWIDTH else table.title
        together.setdefault((title, count[table.title]), []).append(table)
    found = []
    for (title, turn), group in together.items():
        rows = Samples()
        for table in group:
            rows.extend(table.rows)
        if not all(table.rows.size for table in group):
            raise (rows.bad or [InputError(f"{where}: a title of an OSU table without a row above zero")])[0]
        what = "point to point" if title == _LATENCY else title
        again = f", table {turn}" if turn > 1 else ""
        found.append(rows.series(None, f"OSU, {what}{again}", link=title == _LATENCY))
    return found


def _csv(lines: list[str], where: str) -> list[MeasuredTimes]:
    """Return the series of each pair in a CSV file."""
    pairs: dict[tuple[str, str], Samples] = {}
    reader = csv.reader(lines, strict=True)
    try:
        head = [word.strip() for word in next(reader)]
        counted = MESSAGES in head
        if sorted(head) != sorted((*COLUMNS, MESSAGES) if counted else COLUMNS):
            expected = f"{', '.join(COLUMNS)}, perhaps {MESSAGES}"
            raise InputError(
                f"{where}: the columns are {visible(', '.join(head)[:80])}; expected: {expected}"
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
            if len(names) < 2 or not all(
                0 < len(name) <= LIMITS.name and name.isprintable() for name in names
            ):
                raise InputError(
                    f"{place}: source and destination must be two names of at most {LIMITS.name}"
                )
            if len(pairs) > LIMITS.pairs:
                raise InputError(f"{place}: too many pairs; at most {LIMITS.pairs}")
            rows = pairs.setdefault((source, destination), Samples())
            messages = number(row[head.index(MESSAGES)].strip(), place) if counted else 1.0
            rows.add(number(size, place), number(seconds, place), place, messages)
    except csv.Error as error:
        raise InputError(f"{where}, line {reader.line_num}: not CSV: {error}") from None
    if not pairs:
        raise InputError(f"{where}: no row below the columns")
    return [rows.series(pair, "CSV", link=True) for pair, rows in pairs.items()]

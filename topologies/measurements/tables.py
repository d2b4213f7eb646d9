"""Measured times as benchmarks print them: nccl-tests, the OSU micro-benchmarks, and CSV.

A log may have several tables, of either benchmark; each is a separate series.

nccl-tests and rccl-tests print text, or with ``-J`` JSON. A row has a size and two times, out of place and in
place. Its algbw is the size over the time: a row that contradicts itself is torn, and left out. The line
``Collective test starting`` or the command names the test. Old versions print neither. Then the columns
decide whether one message over one route was timed. busbw is algbw times a factor of the collective, which is
1 if each rank sends and receives everything once.

An OSU table has a title, a head and one row per size: the latency of a message, MB/s of windows of messages,
or the latency of a collective. A window counts as one transfer of all its bytes. Its messages are sent
together and pay α once, as in TACCL's profiler (section 4.1: n chunks sent together take α + n·β·s). A table
of latencies and a table of bandwidths form one series.

A CSV file has the columns source, destination, bytes and seconds. It may have a fifth column, messages: the
number of messages in which the bytes were sent, one after the other.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tutti.topologies.errors import SHOWN, InputError, visible
from tutti.topologies.exact import BoolArray
from tutti.topologies.files import exact_json, read_text
from tutti.topologies.logs import LogLine, plain_lines, streams
from tutti.topologies.measurements.series import MeasuredTimes, Samples, is_number, number
from tutti.topologies.units import GIGA, MEGA, MICROSECOND


class MeasurementLimits(NamedTuple):
    """Limits on a file that is read. Larger files are refused."""

    text: int
    """Most bytes of the file."""
    pairs: int
    """Most pairs of names."""
    name: int
    """Most characters of a name."""


LIMITS = MeasurementLimits(text=2**28, pairs=2**17, name=64)


class Torn(NamedTuple):
    """Tolerances that distinguish a whole row from a torn one. Larger values accept more torn rows."""

    rounding: float
    """GB/s by which algbw may differ from size over time, because it has two decimals."""
    relative: float
    """Relative difference that is allowed in addition, because long times have two digits."""
    tail: int
    """A line that ends in this many numbers is taken for a row or for the rest of one."""


TORN = Torn(rounding=0.006, relative=0.05, tail=4)

_NCCL_HEAD = re.compile(r"#?\s*\bsize\b.*\btime\b.*\balgbw\b.*\bbusbw\b")
_NCCL_CPU_HEAD = re.compile(r"#?\s*\bsize\b.*\bcputime\b.*\balgbw\b")
_NCCL_START = re.compile(r"#\s*[nr]ccl-tests[ :]|#\s*Collective test starting:|#\s*nThread\b")
_NCCL_TEST = re.compile(r"\b([a-z_]+)_perf\b")
_NCCL_END = re.compile(r"#\s*(?:Out of bounds values|Avg bus bandwidth|Collective test concluded)")
_NCCL_RANK = re.compile(r"#\s+Rank\s+([0-9]{1,7})\b")
_ONE_HOP = ("broadcast", "reduce")
"""Collectives that are a single message over one route if there are two ranks."""

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
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        return _NcclTestsReader(where, in_place).times_of_json(text)
    lines = plain_lines(text)
    runs = [run for stream in streams(lines, _head_at) for run in _runs(stream)]
    of_nccl, of_osu = ([run for run in runs if _is_osu(run) == osu] for osu in (False, True))
    if in_place and not of_nccl:
        raise InputError(f"{where}: only the tables of nccl-tests have times in place")
    last = max((line.number for line in lines if line.text.strip()), default=0)
    found = [series for run in of_nccl for series in _NcclTestsReader(where, in_place).times(run, last)]
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
    return _nccl_head_at(line) if title is None else title.start()


def _is_osu(run: list[LogLine]) -> bool:
    return _OSU_TITLE.match(run[0].text.lstrip()) is not None


def _runs(stream: list[LogLine]) -> list[list[LogLine]]:
    """Return the lines of each OSU table, and the lines of nccl-tests between two of them."""
    runs: list[list[LogLine]] = [[]]
    for line in stream:
        text = line.text.lstrip()
        if _OSU_TITLE.match(text) or (_nccl_starts(text) and runs[-1] and _is_osu(runs[-1])):
            runs.append([])
        runs[-1].append(line)
    return [
        run for run in runs if run and (_is_osu(run) or any(_head_at(line.text) is not None for line in run))
    ]


@dataclass
class _NcclTable:
    """A table that is being read. `values` has each row's size (bytes), time (us), algbw, busbw (GB/s)."""

    where: str
    in_place: bool
    test: str = ""
    ranks: list[int] = field(default_factory=list)
    redops: set[str] = field(default_factory=set)
    roots: set[str] = field(default_factory=set)
    values: list[tuple[float, float, float, float]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    rows: Samples = field(default_factory=Samples)
    notes: list[str] = field(default_factory=list)
    ended: bool = False

    def add(self, row: tuple[float, float, float, float], place: str) -> None:
        """Add a row, unless its size is 0: then only the launch is timed.

        Raises
        ------
        InputError
            If its time or size is out of range.
        """
        if row[0]:
            Samples().add(row[0], row[1] * MICROSECOND, place)
            self.values.append(row)
            self.places.append(place)

    def series(self) -> MeasuredTimes:
        """Return the times.

        Raises
        ------
        InputError
            If no row is left.
        """
        notes = self.notes
        good = self._consistent()
        if not good.all() and 2 * good.sum() <= len(good):
            notes.append("most rows have an algbw that is not size / time; the times are taken")
            good[:] = True
        for (size, time, *_), place, fine in zip(self.values, self.places, good.tolist(), strict=True):
            if fine:
                self.rows.add(size, time * MICROSECOND, place)
            else:
                self.rows.bad.append(InputError(f"{place}: its algbw is not size / time"))
        if not self.rows.size:
            raise (self.rows.bad or [InputError(f"{self.where}: a head of nccl-tests without a row")])[0]
        link, doubt = self._link()
        if not self.ended:
            doubt.append("no line '# Avg bus bandwidth' ends the table, so rows may be missing")
        if len(set(self.ranks)) < len(self.ranks):
            doubt.append("the table lists a rank twice: its processes ran apart, as without MPI")
        place = "in place" if self.in_place else "out of place"
        test = f" {self.test}_perf" if self.test else ""
        what = f"nccl-tests{test}, {place}, {'point to point' if link else 'a collective'}"
        return self.rows.series(None, what, link=link, notes=(*doubt, *notes))

    def _consistent(self) -> BoolArray:
        """Return a mask of the rows whose algbw is size over time."""
        size, time, algbw, _ = np.array(self.values, dtype=np.float64).reshape(-1, 4).T
        expected = size / np.maximum(time, 1e-9) / (GIGA * MICROSECOND)
        return np.abs(algbw - expected) <= TORN.rounding + TORN.relative * expected

    def _link(self) -> tuple[bool, list[str]]:
        """Return whether a single message over one route was timed, and notes if that is doubtful."""
        if self.test:
            one_hop = self.test in _ONE_HOP and len(self.ranks) == 2
            return self.test == "sendrecv" or one_hop, []
        *_, algbw, busbw = max(self.values, key=lambda row: row[2])
        link = algbw == busbw and self.roots <= {"-1"}
        if link and self.redops - {"none"}:
            return True, [
                "the table does not name its test; it is taken for sendrecv_perf, as old versions print it, "
                "but all_reduce_perf of two ranks looks like it and pays alpha twice"
            ]
        return link, []


def _nccl_head_at(line: str) -> int | None:
    """Return where in a line the head of a table begins, or None."""
    match = _NCCL_HEAD.search(line) or _NCCL_CPU_HEAD.search(line)
    return None if match is None else match.start()


def _nccl_starts(line: str) -> bool:
    """Whether a line begins the output of a test."""
    return _NCCL_START.match(line.lstrip()) is not None


class _Torn(InputError):
    """A row of a table that is torn."""


class _NcclTestsReader:
    """The tables read so far, and the test and its ranks from the lines since the last table."""

    def __init__(self, where: str, in_place: bool) -> None:
        self.where, self.in_place = where, in_place
        self.tables: list[_NcclTable] = []
        self.lost: list[str] = []
        self.test, self.named, self.inside, self.begun = "", False, False, ""
        self.ranks: list[int] = []
        self.head: list[str] = []

    def times(self, lines: list[LogLine], last: int) -> list[MeasuredTimes]:
        """Return the times of each table in the lines of one run or several, without tags.

        Raises
        ------
        InputError
            If no table has a row, the times are those of the CPU, or the row in the `last` line of the file
            is cut off.
        """
        for line in lines:
            try:
                self.read(line.text.strip(), f"{self.where}, line {line.number}")
            except _Torn as error:
                if line.number == last:
                    raise InputError(str(error)) from None
                self.tables[-1].rows.bad.append(error)
        return self.series()

    def read(self, text: str, place: str) -> None:
        """Read a line.

        Raises
        ------
        InputError
            If it is the head of a table without the requested times, or (`_Torn`) a torn row.
        """
        if _nccl_head_at(text) is not None:
            self.head = [word for word in text.split() if word != "#"]
            _time_column(self.head, place, in_place=self.in_place)
            self.tables.append(_NcclTable(self.where, self.in_place, self.test, self.ranks))
            self.named, self.ranks, self.inside, self.begun = False, [], True, ""
        elif text.startswith("#") or not self.inside:
            self._between(text, place)
        else:
            try:
                _add_nccl_row(self.tables[-1], self.head, text.split(), place)
            except InputError as error:
                raise _Torn(str(error)) from None

    def _between(self, text: str, place: str) -> None:
        """Read a line that is no row: it may describe the next table or the last one."""
        if _nccl_starts(text):
            self.inside, self.ranks, self.begun = False, [], place
            self.test = "" if not self.named and "nThread" in text else self.test
        if _NCCL_END.match(text) and self.tables:
            self.tables[-1].ended = True
        if match := _NCCL_TEST.search(text):
            self.test, self.named = match[1], True
            if self.tables and "concluded" in text:
                self.tables[-1].test = self.tables[-1].test or self.test
        elif match := _NCCL_RANK.match(text):
            self.ranks.append(int(match[1]))
        elif not text.startswith("#") and _is_row(text.split()):
            self.lost.append(place)

    def series(self) -> list[MeasuredTimes]:
        """Return the times of each table that has any."""
        full = [table for table in self.tables if table.values] or self.tables[:1]
        if self.lost and full:
            full[0].notes.append(
                f"{len(self.lost)} rows have no head above them and are left out, the first in {self.lost[0]}"
            )
        if self.begun and full:
            full[-1].notes.append(f"the test that starts in {self.begun} has no table; is the file cut off?")
        if len(full) < len(self.tables):
            empty = len(self.tables) - len(full)
            full[0].notes.append(f"{empty} tables have a head but no row, and are left out")
        return [table.series() for table in full]

    def times_of_json(self, text: str) -> list[MeasuredTimes]:
        """Return the times in a file that ``-J`` wrote.

        Raises
        ------
        InputError
            If it is no such file.
        """
        document = exact_json(text.removeprefix("\ufeff"), self.where, "file of nccl-tests")
        results = document.get("results") if isinstance(document, Mapping) else None
        if not isinstance(results, list):
            raise InputError(f"{self.where}: JSON, but not what nccl-tests -J writes: no list 'results'")
        command = document.get("args")
        match = _NCCL_TEST.search(str(command[0])) if isinstance(command, list) and command else None
        config = document.get("config")
        devices = config.get("devices") if isinstance(config, Mapping) else None
        table = _NcclTable(self.where, self.in_place, match[1] if match else "", ended=True)
        table.ranks = list(range(len(devices))) if isinstance(devices, list) else []
        for index, result in enumerate(results):
            try:
                _add_nccl_result(table, result, f"{self.where}: results[{index}]")
            except InputError as error:
                table.rows.bad.append(error)
        return [table.series()]


def _time_column(head: list[str], place: str, *, in_place: bool) -> int:
    """Return the number of the column with the time."""
    times = [column for column, word in enumerate(head) if word == "time"]
    if not times:
        raise InputError(f"{place}: the times are the CPU's (-C 1), not those of the messages")
    if len(times) <= in_place:
        raise InputError(f"{place}: the table has no times in place")
    return times[in_place]


def _is_row(words: list[str]) -> bool:
    """Whether a line ends as a row does, with several numbers."""
    tail = words[-TORN.tail :]
    return len(tail) == TORN.tail and all(map(is_number, tail))


def _add_nccl_row(table: _NcclTable, head: list[str], words: list[str], place: str) -> None:
    """Add a row of a table. A line that is neither a row nor the rest of one is skipped.

    Raises
    ------
    InputError
        If the row is torn.
    """
    if not words or not (words[0].isdecimal() or _is_row(words)):
        return
    time = _time_column(head, place, in_place=table.in_place)
    if len(words) < time + 3:
        raise InputError(f"{place}: {len(words)} columns; a row has {time + 3} or more")
    if len(words) < len(head):
        raise InputError(f"{place}: {len(words)} columns; the head has {len(head)}")
    size, *values = (number(words[i], place) for i in (0, time, time + 1, time + 2))
    named = dict(zip(head, words, strict=False))
    table.add((size, values[0], values[1], values[2]), place)
    table.redops.add(named.get("redop", "none"))
    table.roots.add(named.get("root", "-1"))


def _add_nccl_result(table: _NcclTable, result: Any, place: str) -> None:
    key = "in_place" if table.in_place else "out_of_place"
    body = result.get(key) if isinstance(result, Mapping) else None
    if not isinstance(body, Mapping):
        raise InputError(f"{place}: no times '{key}'")
    if "time" not in body:
        raise InputError(f"{place}: no 'time'" + "; cpu_time (-C 1) is the CPU's" * ("cpu_time" in body))
    given = (result.get("size"), body["time"], body.get("alg_bw"), body.get("bus_bw"))
    size, time, algbw, busbw = (_float(value, place) for value in given)
    table.add((size, time, algbw, busbw), place)
    table.redops.add(str(result.get("redop", "none")))
    table.roots.add(str(result.get("root", "-1")).strip())


def _float(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise InputError(f"{place}: {str(value)[:SHOWN]!r} is not a number")
    return float(min(value, 10**300))


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

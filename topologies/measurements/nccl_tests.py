"""Reads tables of nccl-tests and rccl-tests: text, and the JSON of ``-J``.

A row has a size and two times, out of place and in place. Its algbw is the size over the time: a row that
contradicts itself is torn, and left out. The line ``Collective test starting`` or the command names the test.
Old versions print neither. Then the columns decide whether one message over one route was timed. busbw is
algbw times a factor of the collective, which is 1 if each rank sends and receives everything once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tutti.topologies.errors import SHOWN, InputError
from tutti.topologies.exact import BoolArray
from tutti.topologies.files import exact_json
from tutti.topologies.logs import LogLine
from tutti.topologies.measurements.series import MeasuredTimes, Samples, is_number, number
from tutti.topologies.units import GIGA, MICROSECOND


class Torn(NamedTuple):
    """Tolerances that distinguish a whole row from a torn one. Larger values accept more torn rows."""

    rounding: float
    """GB/s by which algbw may differ from size over time, because it has two decimals."""
    relative: float
    """Relative difference that is allowed in addition, because long times have two digits."""
    tail: int
    """A line that ends in this many numbers is taken for a row or for the rest of one."""


TORN = Torn(rounding=0.006, relative=0.05, tail=4)

_HEAD = re.compile(r"#?\s*\bsize\b.*\btime\b.*\balgbw\b.*\bbusbw\b")
_CPU_HEAD = re.compile(r"#?\s*\bsize\b.*\bcputime\b.*\balgbw\b")
_START = re.compile(r"#\s*[nr]ccl-tests[ :]|#\s*Collective test starting:|#\s*nThread\b")
_TEST = re.compile(r"\b([a-z_]+)_perf\b")
_END = re.compile(r"#\s*(?:Out of bounds values|Avg bus bandwidth|Collective test concluded)")
_RANK = re.compile(r"#\s+Rank\s+([0-9]{1,7})\b")
_ONE_HOP = ("broadcast", "reduce")
"""Collectives that are a single message over one route if there are two ranks."""


@dataclass
class _ResultTable:
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


def head_at(line: str) -> int | None:
    """Return where in a line the head of a table begins, or None."""
    match = _HEAD.search(line) or _CPU_HEAD.search(line)
    return None if match is None else match.start()


def starts(line: str) -> bool:
    """Whether a line begins the output of a test."""
    return _START.match(line.lstrip()) is not None


def read_tables(lines: list[LogLine], where: str, *, in_place: bool, last: int) -> list[MeasuredTimes]:
    """Return the times of each table in the lines of one run or several.

    Parameters
    ----------
    lines
        The lines, without tags.
    where
        The file, for errors.
    in_place
        Whether to take the in-place times.
    last
        The number of the last line of the file, which may be cut off.

    Raises
    ------
    InputError
        If no table has a row, the last row is cut off, or the times are those of the CPU.
    """
    reader = _NcclTestsReader(where, in_place)
    for line in lines:
        try:
            reader.read(line.text.strip(), f"{where}, line {line.number}")
        except _Torn as error:
            if line.number == last:
                raise InputError(str(error)) from None
            reader.tables[-1].rows.bad.append(error)
    return reader.series()


class _Torn(InputError):
    """A row of a table that is torn."""


class _NcclTestsReader:
    """The tables read so far, and the test and its ranks from the lines since the last table."""

    def __init__(self, where: str, in_place: bool) -> None:
        self.where, self.in_place = where, in_place
        self.tables: list[_ResultTable] = []
        self.lost: list[str] = []
        self.test, self.named, self.inside, self.begun = "", False, False, ""
        self.ranks: list[int] = []
        self.head: list[str] = []

    def read(self, text: str, place: str) -> None:
        """Read a line.

        Raises
        ------
        InputError
            If it is the head of a table without the requested times, or (`_Torn`) a torn row.
        """
        if head_at(text) is not None:
            self.head = [word for word in text.split() if word != "#"]
            _time_column(self.head, place, in_place=self.in_place)
            self.tables.append(_ResultTable(self.where, self.in_place, self.test, self.ranks))
            self.named, self.ranks, self.inside, self.begun = False, [], True, ""
        elif text.startswith("#") or not self.inside:
            self._between(text, place)
        else:
            try:
                _add_row(self.tables[-1], self.head, text.split(), place)
            except InputError as error:
                raise _Torn(str(error)) from None

    def _between(self, text: str, place: str) -> None:
        """Read a line that is no row: it may describe the next table or the last one."""
        if starts(text):
            self.inside, self.ranks, self.begun = False, [], place
            self.test = "" if not self.named and "nThread" in text else self.test
        if _END.match(text) and self.tables:
            self.tables[-1].ended = True
        if match := _TEST.search(text):
            self.test, self.named = match[1], True
            if self.tables and "concluded" in text:
                self.tables[-1].test = self.tables[-1].test or self.test
        elif match := _RANK.match(text):
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


def _add_row(table: _ResultTable, head: list[str], words: list[str], place: str) -> None:
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


def is_json(text: str) -> bool:
    """Whether a text looks like the JSON of nccl-tests."""
    return text.lstrip("\ufeff \t\r\n").startswith("{")


def read_json(text: str, where: str, *, in_place: bool) -> list[MeasuredTimes]:
    """Return the times in a file that ``-J`` wrote.

    Raises
    ------
    InputError
        If it is no such file.
    """
    document = exact_json(text.removeprefix("\ufeff"), where, "file of nccl-tests")
    results = document.get("results") if isinstance(document, Mapping) else None
    if not isinstance(results, list):
        raise InputError(f"{where}: JSON, but not what nccl-tests -J writes: no list 'results'")
    command = document.get("args")
    match = _TEST.search(str(command[0])) if isinstance(command, list) and command else None
    config = document.get("config")
    devices = config.get("devices") if isinstance(config, Mapping) else None
    table = _ResultTable(where, in_place, match[1] if match else "", ended=True)
    table.ranks = list(range(len(devices))) if isinstance(devices, list) else []
    for index, result in enumerate(results):
        try:
            _add_result(table, result, f"{where}: results[{index}]")
        except InputError as error:
            table.rows.bad.append(error)
    return [table.series()]


def _add_result(table: _ResultTable, result: Any, place: str) -> None:
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

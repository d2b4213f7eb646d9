"""The tables of a run as Markdown, for pages that are read without running anything.

A page marks where a table of the run goes, and ``python -m tutti.experiments.report.markdown DIR PAGE...``
fills it in; all else of the page stays::

    <!-- results: least 1GB 1KB -->
    ...
    <!-- end -->

===========================  ==========================================================================
``rows``                     the numbers of topologies, collectives, methods and rows, these by status
``least SIZE...``            the least gap and whose, a line a topology, of every collective
``gaps COLLECTIVE``          the least gap and whose, a line a topology, of every size
``map COLLECTIVE SIZE``      the gap of every method, a line each, on every topology
``cases TOPOLOGY``           bound, gap and time of every method, a line a collective and size
``summary [SIZE]``           the mean gap of every method on every network, over all sizes or at one
``exact``                    the times of other methods over those of exact ones
``parts``                    bound, best known time and what each method loses, a line a case
``bandwidth TOPOLOGY``       algbw / busbw of every method, a line a collective and size
``speedup TOPOLOGY``         the same of the speed-up over the baseline
``traffic COLLECTIVE SIZE``  the time of every method and what leaves hosts, on every topology
``methods``                  what became of each method's cases, its mean gap, its synthesis time
===========================  ==========================================================================
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tutti.experiments.printable import complaint, say
from tutti.experiments.report.comparisons import (
    CELLS,
    case_table,
    gap_map,
    gap_parts,
    nearest,
    over_exact,
    summary,
)
from tutti.experiments.report.results import ABSENT, OK, Results, Row, read_results
from tutti.experiments.report.standings import STATUSES, ranking
from tutti.experiments.report.tables import (
    TEXTS,
    PageTable,
    lines_of,
    markdown,
    megabytes,
    microseconds,
    percent,
    seconds,
    size,
    times,
)
from tutti.topologies.errors import InputError, TuttiError, suggestion
from tutti.topologies.files import replacing
from tutti.topologies.units import parse_size

BLOCK = re.compile(r"(<!-- results: ([^>]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
"""A place for a table: its first line, the words in it, the text that is replaced, and its last line."""


def filled(text: str, results: Results) -> str:
    """Return a page with every table that it asks for.

    Raises
    ------
    InputError
        If it asks for something else, or for what is not in the run.
    """
    return BLOCK.sub(lambda match: f"{match[1]}{_block(match[2].split(), results)}\n{match[4]}", text)


def counts(results: Results) -> str:
    """Return a line with the numbers of topologies, collectives, methods and rows."""
    states = ", ".join(f"{count:,} {status}" for status, count in results.states.items())
    numbers = map(len, (results.topologies, results.collectives, results.series, results.rows))
    return str(TEXTS["page"]["counts"]).format(*numbers, states)


def least(results: Results, *sizes: str) -> str:
    """Return the least gaps of every collective at some sizes, in percent."""
    head, columns = ["network"], []
    for text in sizes:
        for collective in results.collectives:
            bytes_ = _size_of(results, collective, text)
            head.append(f"{collective} {size(bytes_)}")
            columns.append([cells[1].said("%s") for _, cells in nearest(results, collective, [bytes_]).rows])
    names = map(_code, results.short.values())
    return lines_of(head, zip(names, *columns, strict=True))


def methods(results: Results) -> str:
    """Return every method with its mean gap, the outcomes of its cases and the median of its syntheses."""
    speedup = [f"speed-up over {results.baseline}"] * bool(results.base)
    head = ["method", "gap, %", "smallest size", "largest size", "slower than the best", *speedup]
    head += ["best in", "has a time", *STATUSES.values(), "synthesis, median"]
    lines = [
        [
            _code(one.series.label),
            *map(percent, (one.mean, one.smallest, one.largest)),
            *map(times, (one.slower, one.speedup)[: 1 + len(speedup)]),
            f"{one.won:.0f}",
            *(f"{count:.0f}" if (count := getattr(one, status)) else "" for status in (OK, *STATUSES)),
            seconds(one.seconds),
        ]
        for one in ranking(results).itertuples()
    ]
    return lines_of(head, lines)


def traffic(results: Results, collective: str, bytes_: str) -> str:
    """Return the time of every method that has one, and what leaves hosts, on every topology."""
    case = (_known(collective, results.collectives), float(parse_size(bytes_)))
    found = [results.cases.get((topology, *case), {}) for topology in results.topologies]
    said = {one.label: [_traffic(rows.get(one.number, ABSENT)) for rows in found] for one in results.series}
    head = ["method", *map(_code, results.short.values())]
    return lines_of(head, ([_code(label), *cells] for label, cells in said.items() if any(cells)))


def _traffic(row: Row) -> str:
    """Return a row's time, and the bytes that leave hosts if they are known; empty if it has no time."""
    if not row.ok:
        return ""
    sent = "" if math.isnan(row.global_bytes) else f", {megabytes(row.global_bytes)}"
    return f"{microseconds(row.time_us)}{sent}"


def _by_case(kind: str, results: Results, name: str) -> PageTable:
    """Return a table of one topology, a line a collective and size, with cells of a kind of `CELLS`."""
    return case_table(results, _known(name, results.topologies, "topology"), kind)


TABLES: dict[str, Callable[..., PageTable | str | None]] = {
    "rows": counts,
    "least": least,
    "gaps": lambda results, collective: nearest(results, _known(collective, results.collectives)),
    "map": lambda results, what, text: gap_map(results, what, _size_of(results, what, text)),
    **{"cases" if kind == "gaps" else kind: partial(_by_case, kind) for kind in CELLS},
    "summary": lambda results, bytes_=None: summary(results, bytes_ and float(parse_size(bytes_))),
    "exact": over_exact,
    "parts": gap_parts,
    "traffic": traffic,
    "methods": methods,
}
"""The function of each table; it takes the results and the words after the table's name."""


def _block(words: Sequence[str], results: Results) -> str:
    """Return the table that the words of a page ask for."""
    name, *arguments = words or [""]
    if name not in TABLES:
        raise InputError(f"results: unknown table '{name}'{suggestion(name, TABLES)}")
    try:
        made = TABLES[name](results, *arguments)
    except TypeError as error:
        raise InputError(f"results: {' '.join(words)}: wrong number of words") from error
    return markdown(made) if isinstance(made, PageTable) else made or ""


def _known(name: str, names: Sequence[str], what: str = "collective") -> str:
    """Return a name if the run has it, or raise `InputError`."""
    if name not in names:
        raise InputError(f"results: the run has no {what} '{name}'{suggestion(name, names)}")
    return name


def _size_of(results: Results, collective: str, text: str) -> float:
    """Return a size that a collective was run at."""
    own, wanted = results.rows.collective == _known(collective, results.collectives), float(parse_size(text))
    sizes = sorted(set(results.rows.size_bytes[own]))
    if wanted not in sizes:
        said = ", ".join(map(size, sizes))
        raise InputError(f"results: {collective} was not run at {size(wanted)}; its sizes are {said}")
    return wanted


def _code(text: str) -> str:
    return f"`{text}`"


def main(arguments: Sequence[str]) -> int:
    """Fill in pages from the directory of a run; return 0, or 2 where something is wrong."""
    try:
        if len(arguments) < 2:
            raise InputError("usage: python -m tutti.experiments.report.markdown DIR PAGE...")
        results = read_results(Path(arguments[0]))
        for page in map(Path, arguments[1:]):
            text = filled(page.read_text(encoding="utf-8"), results)
            with replacing(page) as draft:
                draft.write_text(text, encoding="utf-8")
    except (TuttiError, OSError) as error:
        say(complaint(f"tutti: {error}"), sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The tables of a run as Markdown, for pages that are read without running anything.

A page marks where a table of the run goes, and ``python -m tutti.experiments.report.markdown DIR PAGE...``
fills it in; all else of the page stays::

    <!-- results: least 1GB 1KB -->
    ...
    <!-- end -->

===========================  ==========================================================================
``rows``                     how many rows there are, by status, and of how much
``least SIZE...``            the least gap and whose, a line a topology, of every collective
``gaps COLLECTIVE``          the least gap and whose, a line a topology, of every size
``map COLLECTIVE SIZE``      the gap of every method, a line each, on every topology
``bandwidth TOPOLOGY``       algbw / busbw of every method, a line a collective and size
``speedup TOPOLOGY``         the same of the speed-up over the baseline
``traffic COLLECTIVE SIZE``  the time of every method and what leaves hosts, on every topology
``methods``                  what became of each method's cases, its mean gap, its synthesis time
===========================  ==========================================================================
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from tutti.experiments.printable import complaint, say
from tutti.experiments.report.overview import heat_map, nearest
from tutti.experiments.report.results import OK, Results, Row, read_results
from tutti.experiments.report.standings import mean, ranking
from tutti.experiments.report.tables import CELLS, Cell, gap_table, states
from tutti.experiments.report.text import megabytes, microseconds, percent, seconds, size, times
from tutti.topologies.errors import InputError, TuttiError, suggestion
from tutti.topologies.files import replacing
from tutti.topologies.units import parse_size

BLOCK = re.compile(r"(<!-- results: ([^>]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
OUTCOMES = {
    OK: "has a time",
    "unsupported": "not defined",
    "infeasible": "no schedule",
    "timeout": "time limit",
    "failed": "failed",
}


def filled(text: str, results: Results) -> str:
    """Return a page with every table that it asks for made anew.

    Raises
    ------
    InputError
        If it asks for something else, or for what is not in the run.
    """
    return BLOCK.sub(lambda match: f"{match[1]}{_block(match[2].split(), results)}\n{match[4]}", text)


def counts(results: Results) -> str:
    """Return a line on how much there is."""
    told = ", ".join(f"{count:,} {status}" for status, count in states(results).items())
    return (
        f"Topologies: {len(results.topologies)}; collectives: {len(results.collectives)}; "
        f"methods: {len(results.series)}; rows: {len(results.rows):,} ({told})."
    )


def least(results: Results, *sizes: str) -> str:
    """Return the least gaps of every collective at some sizes, in percent."""
    head, columns = ["topology"], []
    for bytes_ in map(_size, sizes):
        for collective in results.collectives:
            found = nearest(results, collective)
            place = _place(found.sizes, size(bytes_), collective)
            head.append(f"{collective} {size(bytes_)}")
            columns.append([_spot(spots[place]) for _, spots in found.lines])
    names = map(_code, results.short.values())
    return table(head, zip(names, *columns, strict=True))


def gaps(results: Results, collective: str) -> str:
    """Return the least gaps of one collective at every size, in percent."""
    found = nearest(results, _known(collective, results.collectives, "collective"))
    names = list(results.short.values())
    lines = [[_code(names[place]), *map(_spot, spots)] for place, spots in found.lines]
    return table(["topology", *found.sizes], lines)


def gap_map(results: Results, collective: str, bytes_: str) -> str:
    """Return the gap of every method on every topology, in percent."""
    sizes = nearest(results, _known(collective, results.collectives, "collective")).sizes
    _place(sizes, size(_size(bytes_)), collective)
    found = heat_map(results, collective, _size(bytes_))
    lines = [[_code(series.label), *(spot.text for spot in spots)] for series, spots in found.lines]
    return table(["gap, %", *map(_code, results.short.values())], lines)


def methods(results: Results) -> str:
    """Return every method with its mean gap, the outcomes of its cases and the median of its syntheses."""
    head = ["method", "mean gap, %", "smallest size", "largest size", "slower than the best"]
    head += [f"speed-up over {results.baseline}"] * bool(results.base)
    head += ["best in", *OUTCOMES.values(), "synthesis, median"]
    lines = [
        [
            _code(one.series.label),
            *(percent(gap) for gap in (one.mean, *(mean(end.values()) for end in one.ends))),
            times(one.slower),
            *([times(one.speedup)] * bool(results.base)),
            str(len(one.won)),
            *(str(one.counts.get(status) or "") for status in OUTCOMES),
            seconds(one.seconds),
        ]
        for one in ranking(results)
    ]
    return table(head, lines)


def by_case(kind: str, results: Results, topology: str) -> str:
    """Return what every method reaches on one topology; the best are bold."""
    _known(topology, results.topologies, "topology")
    found = gap_table(results, topology, CELLS[kind])
    head = ["collective", "size", *(_code(series.label) for series in found.series)]
    lines = [
        [collective, row.size, *(cell.bold("**%s**") for cell in row.cells)]
        for collective, rows in found.groups
        for row in rows
    ]
    return table(head, lines)


def traffic(results: Results, collective: str, bytes_: str) -> str:
    """Return the time of every method that has one, and what leaves hosts, on every topology."""
    _known(collective, results.collectives, "collective")
    found = [results.of(topology, collective).get(_size(bytes_), {}) for topology in results.topologies]
    lines = (
        [_code(series.label), *(_traffic(rows.get(series.number)) for rows in found)]
        for series in results.series
    )
    return table(["method", *map(_code, results.short.values())], [line for line in lines if any(line[1:])])


def _traffic(row: Row | None) -> str:
    if row is None or not row.ok:
        return ""
    sent = "" if row.global_bytes is None else f", {megabytes(row.global_bytes)}"
    return f"{microseconds(row.time_us)}{sent}"


TABLES: dict[str, Callable[..., str]] = {
    "rows": counts,
    "least": least,
    "gaps": gaps,
    "map": gap_map,
    "bandwidth": partial(by_case, "bandwidth"),
    "speedup": partial(by_case, "speedup"),
    "traffic": traffic,
    "methods": methods,
}


def _block(words: Sequence[str], results: Results) -> str:
    name, *arguments = words or [""]
    if name not in TABLES:
        raise InputError(f"results: unknown table '{name}'{suggestion(name, TABLES)}")
    try:
        return TABLES[name](results, *arguments)
    except TypeError as error:
        raise InputError(f"results: {' '.join(words)}: wrong number of words") from error


def _known(name: str, names: Sequence[str], what: str) -> str:
    if name not in names:
        raise InputError(f"results: the run has no {what} '{name}'{suggestion(name, names)}")
    return name


def _size(text: str) -> float:
    return float(parse_size(text))


def _place(sizes: list[str], wanted: str, collective: str) -> int:
    if wanted not in sizes:
        raise InputError(f"results: {collective} was not run at {wanted}; its sizes are {', '.join(sizes)}")
    return sizes.index(wanted)


def _spot(spot: Cell) -> str:
    return f"{spot.text} {spot.name}".strip()


def _code(text: str) -> str:
    return f"`{text}`"


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))


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

"""The answer of a run, in sentences made from its numbers: who is the fastest, and how near to the bound."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.report.overview import case_gap
from experiments.report.results import Case, Results, Row, best_time
from experiments.report.series import Series
from experiments.report.tables import winners
from experiments.report.text import percent, size

Cases = Mapping[Case, Mapping[int, Row]]
FEW = 3
"""So many names are listed; more are counted."""


@dataclass(frozen=True)
class Answer:
    """What a method does over the cases of a run that have a time.

    Parameters
    ----------
    series
        The method.
    won, timed
        The cases in which it is the fastest (ties count), and in how many it has a time.
    slower
        Its time over the best of the same case, the geometric mean.
    largest
        Its least and its largest gap at the largest size of each network and collective; None without any.
    size_bytes
        That size, if there is one only.
    """

    series: Series
    won: frozenset[Case]
    timed: int
    slower: float
    largest: tuple[float, float] | None
    size_bytes: float | None

    @property
    def best(self) -> int:
        """In how many cases it is the fastest."""
        return len(self.won)


def answers(results: Results) -> list[Answer]:
    """Return every method that has a time, by how often it is the fastest, then by how near it is to that."""
    cases = {case: cells for case, cells in results.cases.items() if best_time(cells.values())}
    found = [_answer(one, cases) for one in results.series]
    return sorted((one for one in found if one), key=lambda one: (-one.best, one.slower))


def _answer(series: Series, cases: Cases) -> Answer | None:
    mine = {case: cells[series.number] for case, cells in cases.items() if _timed(cells, series.number)}
    if not mine:
        return None
    ratios = [(row.time_us or 0.0) / (best_time(cases[case].values()) or 1.0) for case, row in mine.items()]
    last: dict[tuple[str, str], Case] = {}
    for case in cases:
        if case[:2] not in last or case[2] > last[case[:2]][2]:
            last[case[:2]] = case
    ends = [case for case in last.values() if case in mine]
    gaps = [gap for case in ends if (gap := case_gap(mine[case], cases[case].values())) is not None]
    sizes = {case[2] for case in ends}
    return Answer(
        series,
        frozenset(case for case in mine if series.number in winners(cases[case])),
        len(mine),
        statistics.geometric_mean(ratios),
        (min(gaps), max(gaps)) if gaps else None,
        sizes.pop() if len(sizes) == 1 else None,
    )


def _timed(cells: Mapping[int, Row], number: int) -> bool:
    return number in cells and cells[number].ok


def sentences(results: Results) -> list[str]:
    """Return the answer; nothing where no method has a time."""
    found = answers(results)
    if not found:
        return []
    first, *others = found
    alike = [one for one in others if one.won == first.won and one.best == one.timed]
    count = sum(best_time(cells.values()) is not None for cells in results.cases.values())
    said = [_first(results, first, alike, count)]
    if first.largest is not None:
        said.append(_near(first))
    others = [one for one in others if one not in alike]
    if others:
        said.append(_next(others[0]))
    return said


def _first(results: Results, one: Answer, alike: Sequence[Answer], count: int) -> str:
    names = [results.short[topology] for topology in results.topologies]
    where = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    where = where if len(names) <= FEW else f"{len(names)} networks"
    whole = f"On {where}, {one.series.label} is the fastest in {one.best:,} of {_count(count)}"
    if one.timed < count:
        all_of = one.best == one.timed
        whole += ", all that it has a schedule for" if all_of else f" (it has a schedule for {one.timed:,})"
    if alike:
        whole += f"; as fast there: {', '.join(other.series.label for other in alike)}"
    return f"{whole}."


def _count(cases: int) -> str:
    return f"{cases:,} case{'' if cases == 1 else 's'}"


def _near(one: Answer) -> str:
    low, high = (percent(max(0.0, gap)) for gap in one.largest or (0.0, 0.0))
    where = "At the largest size" if one.size_bytes is None else f"At {size(one.size_bytes)}"
    if high == "0":
        return f"{where} its times are the proven bound: no schedule can be faster."
    span = low if low == high else f"{low} to {high}"
    return f"{where} its times are {span} % above the proven bound."


def _next(one: Answer) -> str:
    often = f"it is the fastest in {one.best:,}" if one.best else "it is never the fastest"
    than = f"over its {_count(one.timed)} it takes {one.slower:.2f} times the best time (geometric mean)"
    return f"{one.series.label} comes next: {often}, and {than}."

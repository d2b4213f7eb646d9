"""The answer of a run, in sentences made from its numbers: who is the fastest, and how near to the bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tutti.experiments.report.results import Case, Results, best_time
from tutti.experiments.report.standings import SeriesStanding, ranking
from tutti.experiments.report.text import counted, percent, size

FEW = 3
"""So many names are listed; more are counted."""


def answers(results: Results) -> list[SeriesStanding]:
    """Return every method that has a time, by how often it is the fastest, then by how near it is to that."""
    found = [one for one in ranking(results) if one.gaps]
    return sorted(found, key=lambda one: (-len(one.won), one.slower or 0.0, one.series.number))


def sentences(results: Results) -> list[str]:
    """Return the answer; nothing where no method has a time."""
    found = answers(results)
    if not found:
        return []
    first, *others = found
    alike = [one for one in others if one.won == first.won and len(one.won) == len(one.gaps)]
    count = sum(best_time(cells.values()) is not None for cells in results.cases.values())
    said = [_first(results, first, alike, count)]
    if first.ends[1]:
        said.append(_near(first.ends[1]))
    others = [one for one in others if one not in alike]
    if others:
        said.append(_next(others[0]))
    return said


def _first(results: Results, one: SeriesStanding, alike: Sequence[SeriesStanding], count: int) -> str:
    names = [results.short[topology] for topology in results.topologies]
    where = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    where = where if len(names) <= FEW else f"{len(names)} networks"
    best, timed = len(one.won), len(one.gaps)
    whole = f"On {where}, {one.series.label} is the fastest in {best:,} of {counted(count, 'case')}"
    if timed < count:
        some = f" (it has a schedule for {timed:,})"
        whole += ", all that it has a schedule for" if best == timed else some
    if alike:
        whole += f"; as fast there: {', '.join(other.series.label for other in alike)}"
    return f"{whole}."


def _near(gaps: Mapping[Case, float]) -> str:
    low, high = (percent(max(0.0, gap)) for gap in (min(gaps.values()), max(gaps.values())))
    sizes = {case[2] for case in gaps}
    where = f"At {size(*sizes)}" if len(sizes) == 1 else "At the largest size"
    if high == "0":
        return f"{where} its times are the proven bound: no schedule can be faster."
    span = low if low == high else f"{low} to {high}"
    return f"{where} its times are {span} % above the proven bound."


def _next(one: SeriesStanding) -> str:
    often = f"it is the fastest in {len(one.won):,}" if one.won else "it is never the fastest"
    cases = counted(len(one.gaps), "case")
    than = f"over its {cases} it takes {one.slower:.2f} times the best time (geometric mean)"
    return f"{one.series.label} comes next: {often}, and {than}."

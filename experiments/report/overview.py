"""A run at a glance: which method comes how close to the bound, where, and what has no schedule.

For runs of many networks. Three kinds of tables:

- for each topology, collective and size the least gap and whose it is;
- for each collective, at the smallest and at the largest size, the gap of every method on every topology,
  shaded by how near it is;
- for each method what became of its cases, and its mean gap and synthesis time.

A gap here is a time over the largest bound of its case, minus one: a bound that one method proved holds for
all. Methods are ranked by their mean gap over the same cases (`common_cases`); the other means are over the
cases that a method has a time for, which differ from method to method. So beside them stands by what factor
(geometric mean) it is slower than the best of the same cases.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from experiments.report.results import TIE, Case, Results, Row, best_time, is_best
from experiments.report.series import Series
from experiments.report.text import describe, percent, size

FEWEST = 5
"""A run of fewer topologies than this is seen whole in the other tables."""
NEAR = ((0.001, 5), (0.01, 4), (0.1, 3), (1.0, 2), (math.inf, 1))
"""Up to which gap a cell has which shade: the nearer the stronger."""
SHADES = ((5, "up to 0.1"), (4, "up to 1"), (3, "up to 10"), (2, "up to 100"), (1, "more"))
"""The legend of `NEAR`."""
SIGNS = {"unsupported": "·", "timeout": "t", "infeasible": "–", "failed": "!"}
"""What stands in a cell instead of a gap."""


@dataclass(frozen=True)
class Spot:
    """A cell: a gap in percent or a sign, whose it is (where the line does not say), shade and tooltip."""

    text: str = ""
    name: str = ""
    looks: str = ""
    tip: str = ""


@dataclass(frozen=True)
class Nearest:
    """The least gaps of one collective: a line a topology (by its place), a cell a size."""

    collective: str
    number: int
    sizes: list[str]
    lines: list[tuple[int, list[Spot]]]


@dataclass(frozen=True)
class HeatMap:
    """The gaps of one collective at one size: a line a method, a cell a topology.

    Parameters
    ----------
    absent
        The methods that have no time here on any topology.
    """

    collective: str
    number: int
    size: str
    largest: bool
    lines: list[tuple[Series, list[Spot]]]
    absent: list[str]


@dataclass(frozen=True)
class Ranked:
    """One method over the whole run; the gaps are None where it has none.

    Parameters
    ----------
    counts
        Its cases by status.
    best
        In how many no other is faster.
    common
        Its mean gap over the cases that all ranked methods have; None where it is not ranked.
    mean, smallest, largest
        Its mean gap: of all its cases, and of those of the smallest and the largest size.
    slower
        Its time over the best of the case, the geometric mean.
    speedup
        The time of the baseline over its own, the same.
    seconds
        The median of its syntheses; `quick` is its place by that, from 1.
    """

    series: Series
    counts: Mapping[str, int]
    best: int
    common: float | None
    mean: float | None
    smallest: float | None
    largest: float | None
    slower: float | None
    speedup: float | None
    seconds: float | None
    quick: int | None = None


@dataclass(frozen=True)
class Glance:
    """The whole section; `topologies` are the short names in order."""

    topologies: list[tuple[str, str]]
    nearest: list[Nearest]
    maps: list[HeatMap]


def glance(results: Results, fewest: int = FEWEST) -> Glance | None:
    """Return the section; None for a run of fewer than so many topologies, or of one method."""
    if len(results.topologies) < fewest or len(results.series) < 2:
        return None
    return Glance(
        [(name, results.short[name]) for name in results.topologies],
        [nearest(results, collective) for collective in results.collectives],
        [heat_map(results, c, size) for c in results.collectives for size in _ends(results, c)],
    )


def case_gap(row: Row, rows: Iterable[Row]) -> float | None:
    """Return a row's gap to the largest bound of its case, whoever proved it."""
    bound = max((other.bound_us or 0.0 for other in rows if other.ok), default=0.0)
    if not row.ok or row.gap is None or row.time_us is None or row.bound_us == bound or not bound:
        return row.gap if row.ok else None
    return row.time_us / bound - 1


def least(results: Results, cells: Mapping[int, Row]) -> tuple[Series, Row, float | None] | None:
    """Return the first of the fastest of a case, its row and its gap; None where none has a time."""
    time = best_time(cells.values())
    found = next(((key, row) for key, row in cells.items() if is_best(row, time)), None)
    if found is None:
        return None
    return results.series[found[0]], found[1], case_gap(found[1], cells.values())


def nearest(results: Results, collective: str) -> Nearest:
    """Return the least gap of each topology and size."""
    sizes = _sizes(results, collective)
    lines = []
    for place, topology in enumerate(results.topologies):
        cases = results.of(topology, collective)
        lines.append((place, [_best_spot(results, cases.get(bytes_, {})) for bytes_ in sizes]))
    return Nearest(collective, results.collectives.index(collective), [*map(size, sizes)], lines)


def heat_map(results: Results, collective: str, bytes_: float) -> HeatMap:
    """Return the gaps of each method on each topology."""
    cases = [results.of(topology, collective).get(bytes_, {}) for topology in results.topologies]
    timed = {key for cells in cases for key, row in cells.items() if row.ok}
    return HeatMap(
        collective,
        results.collectives.index(collective),
        size(bytes_),
        bytes_ == max(_sizes(results, collective)),
        [(one, [_spot(one, cells) for cells in cases]) for one in results.series if one.number in timed],
        [one.label for one in results.series if one.number not in timed and _asked(one, cases)],
    )


def common_cases(results: Results) -> tuple[frozenset[int], list[Case]]:
    """Return the methods that can be ranked, and the cases in which all of them have a gap.

    From the method of the most cases down, a method is ranked if what all have in common stays at least half
    of what the first has: one that was asked for a few cases only does not decide by what the others are.
    """
    own: dict[int, dict[Case, None]] = {series.number: {} for series in results.series}
    for case, cells in results.cases.items():
        for number, row in cells.items():
            if case_gap(row, cells.values()) is not None:
                own[number][case] = None
    ranked: set[int] = set()
    common: list[Case] = []
    for number in sorted(own, key=lambda one: -len(own[one])):
        left = [case for case in common if case in own[number]] if ranked else list(own[number])
        if left and 2 * len(left) >= max(map(len, own.values())):
            ranked, common = ranked | {number}, left
    return frozenset(ranked), common


def ranking(results: Results) -> list[Ranked]:
    """Return every method: the ranked ones, the least mean gap first, the others by their own, none last."""
    members, common = common_cases(results)
    ranked = [_ranked(results, one, common if one.number in members else ()) for one in results.series]
    by_time = sorted((one for one in ranked if one.seconds is not None), key=lambda one: one.seconds or 0.0)
    places = {one.series.number: place for place, one in enumerate(by_time, 1)}
    placed = [replace(one, quick=places.get(one.series.number)) for one in ranked]
    return sorted(placed, key=lambda one: (_last(one.common), _last(one.mean)))


def _last(value: float | None) -> float:
    return math.inf if value is None else value


def _sizes(results: Results, collective: str) -> list[float]:
    return sorted({row.size_bytes for row in results.rows if row.collective == collective})


def _ends(results: Results, collective: str) -> list[float]:
    """Return the largest and the smallest size."""
    sizes = _sizes(results, collective)
    return list(dict.fromkeys([sizes[-1], sizes[0]]))


def _asked(series: Series, cases: Sequence[Mapping[int, Row]]) -> bool:
    return any(series.number in cells for cells in cases)


def _best_spot(results: Results, cells: Mapping[int, Row]) -> Spot:
    found = least(results, cells)
    if found is None:
        return Spot("–" if cells else "", looks="none")
    series, row, gap = found
    return Spot(percent(gap) or "?", _whose(series, row), _shade(gap), describe(series.label, row))


def _whose(series: Series, row: Row) -> str:
    """Return the method's label, and which of its algorithms, or of the portfolio's methods, it chose."""
    return f"{series.label} ({row.algorithm})" if row.algorithm else series.label


def _spot(series: Series, cells: Mapping[int, Row]) -> Spot:
    row = cells.get(series.number)
    if row is None:
        return Spot()
    tip = describe(series.label, row)
    if not row.ok:
        return Spot(SIGNS.get(row.status, row.status), looks="none", tip=tip)
    gap = case_gap(row, cells.values())
    best = " best" if is_best(row, best_time(cells.values())) else ""
    return Spot(_brief(gap), looks=_shade(gap) + best, tip=tip)


def _brief(gap: float | None) -> str:
    """Return a gap in percent in at most five characters."""
    if gap is None:
        return "?"
    return percent(gap) if gap < 99.995 else f"{100 * gap / 1000:.0f}k"


def near(gap: float) -> tuple[int, str]:
    """Return the shade of a gap, and up to how many percent it stands for."""
    place = next(place for place, (limit, _) in enumerate(NEAR) if gap <= limit)
    return SHADES[place]


def _shade(gap: float | None) -> str:
    if gap is None:
        return ""
    shade = f"u{near(gap)[0]}"
    return f"{shade} optimal" if abs(gap) <= TIE else shade


def _ranked(results: Results, series: Series, common: Sequence[Case]) -> Ranked:
    cases = {case: cells for case, cells in results.cases.items() if series.number in cells}
    timed = {case: cells[series.number] for case, cells in cases.items() if cells[series.number].ok}
    gaps = {case: case_gap(row, cases[case].values()) for case, row in timed.items()}
    ends = {collective: _ends(results, collective) for collective in results.collectives}
    return Ranked(
        series,
        counts=Counter(cells[series.number].status for cells in cases.values()),
        best=sum(is_best(row, best_time(cases[case].values())) for case, row in timed.items()),
        common=_mean(gaps[case] for case in common),
        mean=_mean(gaps.values()),
        smallest=_mean(gap for case, gap in gaps.items() if case[2] == ends[case[1]][-1]),
        largest=_mean(gap for case, gap in gaps.items() if case[2] == ends[case[1]][0]),
        slower=_geometric(_ratio(row, cases[case].values()) for case, row in timed.items()),
        speedup=_geometric(map(results.speedup, timed.values())),
        seconds=_synthesis(results, series),
    )


def _ratio(row: Row, rows: Iterable[Row]) -> float | None:
    best = best_time(rows)
    return row.time_us / best if row.time_us and best else None


def _geometric(ratios: Iterable[float | None]) -> float | None:
    known = [ratio for ratio in ratios if ratio]
    return statistics.geometric_mean(known) if known else None


def _mean(gaps: Iterable[float | None]) -> float | None:
    known = [gap for gap in gaps if gap is not None]
    return statistics.fmean(known) if known else None


def _synthesis(results: Results, series: Series) -> float | None:
    """Return the median of a method's syntheses; rows that share a schedule share its synthesis."""
    tasks = {
        (row.topology, row.collective, row.seed, row.schedule, row.synth_s): row.synth_s
        for row in results.rows
        if (row.method, row.options) == (series.method, series.options) and row.synth_s is not None
    }
    return statistics.median(tasks.values()) if tasks else None

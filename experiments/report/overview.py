"""A run of many networks at a glance: which method comes how close to the bound, where, what has no schedule.

For each topology, collective and size the least gap and whose it is; and for each collective, at the smallest
and at the largest size, the gap of every method on every topology, shaded by how near it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tutti.experiments.report.results import TIE, Results, Row, best_time, is_best
from tutti.experiments.report.series import Series
from tutti.experiments.report.standings import case_gap
from tutti.experiments.report.tables import Cell
from tutti.experiments.report.text import describe, percent, size

FEWEST = 5
"""A run of fewer topologies than this is seen whole in the other tables."""
NEAR = ((0.001, 5), (0.01, 4), (0.1, 3), (1.0, 2), (math.inf, 1))
"""Up to which gap a cell has which shade: the nearer the stronger."""
SHADES = ((5, "up to 0.1"), (4, "up to 1"), (3, "up to 10"), (2, "up to 100"), (1, "more"))
"""The legend of `NEAR`."""
SIGNS = {"unsupported": "·", "timeout": "t", "infeasible": "–", "failed": "!"}
"""What stands in a cell instead of a gap."""


@dataclass(frozen=True)
class Nearest:
    """The least gaps of one collective: a line a topology (by its place), a cell a size."""

    collective: str
    number: int
    sizes: list[str]
    lines: list[tuple[int, list[Cell]]]


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
    lines: list[tuple[Series, list[Cell]]]
    absent: list[str]


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
    asked = set().union(*cases)
    return HeatMap(
        collective,
        results.collectives.index(collective),
        size(bytes_),
        bytes_ == max(_sizes(results, collective)),
        [(one, [_spot(one, cells) for cells in cases]) for one in results.series if one.number in timed],
        [one.label for one in results.series if one.number in asked - timed],
    )


def _sizes(results: Results, collective: str) -> list[float]:
    return sorted({row.size_bytes for row in results.rows if row.collective == collective})


def _ends(results: Results, collective: str) -> list[float]:
    """Return the largest and the smallest size."""
    sizes = _sizes(results, collective)
    return list(dict.fromkeys([sizes[-1], sizes[0]]))


def _best_spot(results: Results, cells: Mapping[int, Row]) -> Cell:
    found = least(results, cells)
    if found is None:
        return Cell("–" if cells else "", looks="none")
    series, row, gap = found
    chosen = f" ({row.algorithm})" if row.algorithm else ""
    tip = describe(series.label, row)
    return Cell(percent(gap) or "?", _shade(gap), tip, name=f"{series.label}{chosen}")


def _spot(series: Series, cells: Mapping[int, Row]) -> Cell:
    row = cells.get(series.number)
    if row is None:
        return Cell()
    tip = describe(series.label, row)
    if not row.ok:
        return Cell(SIGNS.get(row.status, row.status), looks="none", tip=tip)
    gap = case_gap(row, cells.values())
    best = " best" if is_best(row, best_time(cells.values())) else ""
    brief = percent(gap) or "?"
    if gap is not None and gap >= 99.995:  # more than five characters
        brief = f"{100 * gap / 1000:.0f}k"
    return Cell(brief, looks=_shade(gap) + best, tip=tip)


def near(gap: float) -> tuple[int, str]:
    """Return the shade of a gap, and up to how many percent it stands for."""
    place = next(place for place, (limit, _) in enumerate(NEAR) if gap <= limit)
    return SHADES[place]


def _shade(gap: float | None) -> str:
    if gap is None:
        return ""
    shade = f"u{near(gap)[0]}"
    return f"{shade} optimal" if abs(gap) <= TIE else shade

r"""The fastest method at each size, and the sizes between which that changes.

Times are known at the sizes run. Between two of them a method's time is taken for known where it is a line in
M, which is known in one of two forms:

- *exact*: at both sizes it is :math:`T_L \alpha + T_B M / B`, its schedule's cost. That is
  what the schedule takes at most at any size, and meets on symmetric networks;
- *measured*: one schedule, and its times at both sizes and at a third beside them lie on a line. A schedule
  whose messages keep their order takes a maximum of lines in M, which is convex: if three of its points lie
  on a line, so does everything between.

Where the fastest at both sizes are lines, the lower envelope of all lines says who is the fastest between,
and the crossings are computed; elsewhere the change is only known to lie between the two sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from typing import NamedTuple

from tutti.experiments.report.results import TIE, Results, Row, Series
from tutti.experiments.report.tables import Cell, PageTable, Said, percent, size
from tutti.experiments.show.drawing import amount
from tutti.topologies.topology import Topology
from tutti.topologies.units import MICRO, format_size

Cells = Mapping[float, Mapping[int, Row]]
"""The rows of a topology and collective that have a time: size to series to row, sizes increasing."""


class TimeLine(NamedTuple):
    """A time in microseconds that is a line in M: `start` + `slope` M."""

    start: Fraction
    slope: Fraction
    exact: bool

    def at(self, size: Fraction) -> Fraction:
        """Return the time at M = `size` bytes."""
        return self.start + self.slope * size

    def meets(self, row: Row) -> bool:
        """Return whether a row's time is on the line; both are rounded to floats."""
        time = self.at(Fraction(row.size_bytes))
        return abs(Fraction(row.time_us) - time) <= Fraction(TIE) * abs(time)


class Stretch(NamedTuple):
    """Sizes at which one method is the fastest.

    Parameters
    ----------
    series
        The method.
    also
        Others that are as fast at all of these sizes.
    low, high
        It becomes the fastest at M = `low` = `high` bytes, or somewhere between; None at the smallest size.
    exact
        Whether the lines that cross there are exact.
    """

    series: Series
    also: tuple[Series, ...] = ()
    low: Fraction | None = None
    high: Fraction | None = None
    exact: bool = False

    @property
    def since(self) -> str:
        """The size, about it, or the two sizes between which it lies; empty at the smallest size."""
        if self.low is None or self.high is None:
            return ""
        if self.low < self.high:
            return f"{format_size(self.low)} to {format_size(self.high)}"
        return f"{'' if self.exact else '≈ '}{amount(float(self.low), 4)}"


class SwitchOver(NamedTuple):
    """One topology and collective.

    Parameters
    ----------
    topology, collective
        Their names.
    sizes
        The smallest and the largest size run, with units.
    stretches
        By size.
    alone, loss
        The method whose worst loss against the fastest is least, of those that have a time at all sizes, and
        that loss in percent; None and empty where there is none.
    """

    topology: str
    collective: str
    sizes: tuple[str, str]
    stretches: tuple[Stretch, ...]
    alone: Series | None
    loss: str


def switch_overs(results: Results) -> Iterator[SwitchOver]:
    """Yield a line for each topology and collective of several sizes and methods."""
    for topology, network in results.networks.items():
        alike = network is not None and network.homogeneous and network.node_bandwidth is not None
        for collective in results.collectives:
            timed = results.timed(topology, collective)
            times = timed.pivot(index="size_bytes", columns="number", values="time_us")
            if min(times.shape) > 1:
                known = results.panel(topology, collective)
                cells = {m: {key: row for key, row in known[m].items() if row.ok} for m in times.index}
                losses = (times.div(times.min(axis=1), axis=0) - 1).dropna(axis=1).max()
                stretches = tuple(_stretches(results.series, cells, network if alike else None))
                alone = None if losses.empty else results.series[losses.idxmin()]
                ends = (size(min(cells)), size(max(cells)))
                yield SwitchOver(topology, collective, ends, stretches, alone, percent(losses.min()))


def switch_table(results: Results) -> PageTable | None:
    """Return the fastest by size, a line a topology and collective; None where there is only one."""
    rows: list[tuple[str, list[Said]]] = []
    for one in switch_overs(results):
        place = results.topologies.index(one.topology)
        looks = f"t{place} k{results.collectives.index(one.collective)}"
        name = Cell(results.short[one.topology], tip=one.topology, link=f"t{place}")
        alone = "" if one.alone is None else one.alone.label
        story = [one.sizes[0]]
        for part in one.stretches:
            change = f"│ {part.since} │ " if part.since else ""
            story.append(change + part.series.label + (f" (+ {len(part.also)})" if part.also else ""))
        told = Cell(" ".join([*story, one.sizes[1]]), "where")
        rows.append((looks, [name, one.collective, told, alone, one.loss]))
    return PageTable.of("switch", rows) if rows else None


def _stretches(series: Sequence[Series], cells: Cells, network: Topology | None) -> Iterator[Stretch]:
    """Yield who is the fastest from the smallest size on, as few different ones as the sizes run allow."""
    runs = _runs(cells)
    first, *also = runs[0][0]
    yield Stretch(series[first], tuple(series[key] for key in also))
    for (before, _, last), (after, begin, _) in pairwise(runs):
        lines = _lines(cells, (last, begin), network)
        steps = _envelope(lines, before, after, (Fraction(last), Fraction(begin)))
        for place, (key, low, high, exact) in enumerate(steps, 1):
            others = tuple(series[k] for k in after if k != key) if place == len(steps) else ()
            yield Stretch(series[key], others, low, high, exact)


def _runs(cells: Cells) -> list[tuple[list[int], float, float]]:
    """Return (series that are the fastest at all sizes of a run, its first size, its last size)."""
    runs: list[tuple[list[int], float, float]] = []
    for bytes_, rows in cells.items():
        fastest = sorted(key for key, row in rows.items() if row.won)
        common = [key for key in runs[-1][0] if key in fastest] if runs else []
        if common:
            runs[-1] = (common, runs[-1][1], bytes_)
        else:
            runs.append((fastest, bytes_, bytes_))
    return runs


def _envelope(
    lines: Mapping[int, TimeLine], before: Sequence[int], after: Sequence[int], ends: Sequence[Fraction]
) -> list[tuple[int, Fraction, Fraction, bool]]:
    """Return which become the fastest from one size to another, and where, as a `Stretch` has it.

    Parameters
    ----------
    lines
        The series whose times are lines between the two sizes.
    before, after
        The fastest at the two sizes.
    ends
        The two sizes.
    """
    steps: list[tuple[int, Fraction, Fraction, bool]] = []
    here = next((key for key in before if key in lines), None)
    pairs = [(a, b) for a, b in combinations(lines.values(), 2) if a.slope != b.slope]
    crossings = {(b.start - a.start) / (a.slope - b.slope) for a, b in pairs}
    cuts = [ends[0], *sorted(size for size in crossings if ends[0] < size < ends[1]), ends[1]]
    for low, high in pairwise(cuts):
        if here is None:
            break
        times = {key: line.at((low + high) / 2) for key, line in lines.items()}
        least = min(times, key=lambda key: times[key])
        if times[least] < times[here]:
            steps.append((least, low, low, lines[here].exact and lines[least].exact))
            here = least
    return steps if here in after else [(after[0], ends[0], ends[1], False)]


def _lines(cells: Cells, ends: tuple[float, float], network: Topology | None) -> dict[int, TimeLine]:
    """Return the line of each series that has one between two neighbouring sizes."""
    low, high = (cells[end] for end in ends)
    found = {key: _line(cells, row, high[key], network) for key, row in low.items() if key in high}
    return {key: line for key, line in found.items() if line is not None}


def _line(cells: Cells, low: Row, high: Row, network: Topology | None) -> TimeLine | None:
    """Return T_L α + T_B M/B if it is the time of both rows, which are of schedules of that cost.

    Or else return the line through both, if a third row beside them lies on it too, all of one schedule.
    """
    if network and low.tb_exact and (low.tl_steps, low.tb_exact) == (high.tl_steps, high.tb_exact):
        slope = Fraction(low.tb_exact) / Fraction(network.node_bandwidth or 0)
        line = TimeLine(Fraction(low.tl_steps) * network.alpha[0] * MICRO, slope * MICRO, exact=True)
        if line.meets(low) and line.meets(high):
            return line
    if not (math.isnan(low.slices) and math.isnan(high.slices) and low.schedule == high.schedule):
        return None
    x, y = Fraction(low.size_bytes), Fraction(high.size_bytes)
    slope = (Fraction(high.time_us) - Fraction(low.time_us)) / (y - x)
    line = TimeLine(Fraction(low.time_us) - slope * x, slope, exact=False)
    sizes = list(cells)
    place = sizes.index(low.size_bytes)
    beside = [cells[size].get(low.number) for size in (*sizes[:place][-1:], *sizes[place + 2 :][:1])]
    return line if any(row and row.schedule == low.schedule and line.meets(row) for row in beside) else None

r"""Which method is the fastest at which sizes, and the sizes between which that changes.

Times are known at the sizes run. Between two of them a method's time is taken for known where it is a line in
M, in one of two ways:

- *exact*: at both sizes it is :math:`T_L \alpha + T_B M / B`, its schedule's cost. That is
  what the schedule takes at most at any size, and meets on symmetric networks;
- *measured*: one schedule, and its times at both sizes and at a third beside them lie on a line. A schedule
  whose messages keep their order takes a maximum of lines in M, which is convex: if three of its points lie
  on a line, so does everything between.

Where the fastest at both sizes are lines, the lower envelope of all lines says who is the fastest between,
and the crossings are computed; elsewhere the change is only known to lie between the two sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from tutti.experiments.report.results import TIE, Results, Row, best_time, winners
from tutti.experiments.report.series import Series
from tutti.experiments.report.tables import Cell, PageTable, Said, percent, size
from tutti.topologies.topology import Topology
from tutti.topologies.units import MICRO, format_size

Cells = Mapping[float, Mapping[int, Row]]
"""The rows of a topology and collective: size to series to row, sizes increasing."""


class TimeLine(NamedTuple):
    """A time in microseconds that is a line in M: `start` + `slope` M."""

    start: Fraction
    slope: Fraction
    exact: bool

    def at(self, size: Fraction) -> Fraction:
        """Return the time at M = `size` bytes."""
        return self.start + self.slope * size


@dataclass(frozen=True)
class Change:
    """Where another method becomes the fastest: at `low` = `high`, or somewhere between.

    Parameters
    ----------
    low, high
        M in bytes.
    exact
        Whether both lines are.
    """

    low: Fraction
    high: Fraction
    exact: bool = False

    @property
    def text(self) -> str:
        """The size, about it, or the two sizes between which it lies."""
        if self.low < self.high:
            return f"{format_size(self.low)} to {format_size(self.high)}"
        return f"{'' if self.exact else '≈ '}{rounded(self.low)}"


@dataclass(frozen=True)
class Stretch:
    """Sizes at which one method is the fastest.

    Parameters
    ----------
    series
        The method.
    also
        Others that are as fast at all of these sizes.
    since
        Where it becomes so; None at the smallest size run.
    """

    series: Series
    also: tuple[Series, ...] = ()
    since: Change | None = None


@dataclass(frozen=True)
class SwitchOver:
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


def switch_overs(results: Results) -> list[SwitchOver]:
    """Return a line for each topology and collective of several sizes and methods."""
    found = []
    for topology in results.topologies:
        network = results.networks[topology]
        alike = network is not None and network.homogeneous and network.node_bandwidth is not None
        for collective in results.collectives:
            cells = {
                bytes_: timed
                for bytes_, rows in results.of(topology, collective).items()
                if (timed := {key: row for key, row in rows.items() if row.ok})
            }
            methods = {key for rows in cells.values() for key in rows}
            if len(cells) > 1 and len(methods) > 1:
                found.append(_switch_over(results, (topology, collective), cells, network if alike else None))
    return found


def switch_table(results: Results) -> PageTable | None:
    """Return the fastest by size, a line a topology and collective; None where there is only one."""
    rows: list[tuple[str, list[Said]]] = []
    for one in switch_overs(results):
        place = results.topologies.index(one.topology)
        looks = f"t{place} k{results.collectives.index(one.collective)}"
        name = Cell(results.short[one.topology], tip=one.topology, link=f"t{place}")
        alone = "" if one.alone is None else one.alone.label
        rows.append((looks, [name, one.collective, Cell(" ".join(_story(one)), "where"), alone, one.loss]))
    return PageTable.of("switch", rows) if rows else None


def _story(one: SwitchOver) -> Iterator[str]:
    yield one.sizes[0]
    for part in one.stretches:
        change = f"│ {part.since.text} │ " if part.since else ""
        yield change + part.series.label + (f" (+ {len(part.also)})" if part.also else "")
    yield one.sizes[1]


def _switch_over(
    results: Results, name: tuple[str, str], cells: Cells, network: Topology | None
) -> SwitchOver:
    sizes = list(cells)
    alone, loss = _alone(cells)
    return SwitchOver(
        *name,
        (size(sizes[0]), size(sizes[-1])),
        tuple(_stretches(results.series, cells, network)),
        None if alone is None else results.series[alone],
        percent(loss),
    )


def _alone(cells: Cells) -> tuple[int | None, float | None]:
    """Return the series of least worst loss, and the loss; (None, None) if none has all sizes."""
    best = {bytes_: best_time(rows.values()) or 0.0 for bytes_, rows in cells.items()}
    losses = {
        key: max((rows[key].time_us or 0.0) / best[bytes_] - 1 for bytes_, rows in cells.items())
        for key in next(iter(cells.values()))
        if all(key in rows for rows in cells.values()) and all(best.values())
    }
    if not losses:
        return None, None
    alone = min(losses, key=lambda key: losses[key])
    return alone, losses[alone]


def _stretches(series: Sequence[Series], cells: Cells, network: Topology | None) -> list[Stretch]:
    """Return who is the fastest from the smallest size on, as few different ones as the sizes run allow."""
    runs = _runs(cells)
    first, also = runs[0][0], runs[0][0][1:]
    found = [Stretch(series[first[0]], tuple(series[key] for key in also))]
    for (before, last, _), (after, _, begin) in pairwise([(w, high, low) for w, low, high in runs]):
        lines = _lines(cells, (last, begin), network)
        steps = _envelope(lines, before, after, (Fraction(last), Fraction(begin)))
        for place, (key, change) in enumerate(steps, 1):
            others = tuple(series[k] for k in after if k != key) if place == len(steps) else ()
            found.append(Stretch(series[key], others, change))
    return found


def _runs(cells: Cells) -> list[tuple[list[int], float, float]]:
    """Return (series that are the fastest at all sizes of a run, its first size, its last size)."""
    runs: list[tuple[list[int], float, float]] = []
    for bytes_, rows in cells.items():
        fastest = sorted(winners(rows))
        common = [key for key in runs[-1][0] if key in fastest] if runs else []
        if common:
            runs[-1] = (common, runs[-1][1], bytes_)
        else:
            runs.append((fastest, bytes_, bytes_))
    return runs


def _envelope(
    lines: Mapping[int, TimeLine],
    before: Sequence[int],
    after: Sequence[int],
    ends: tuple[Fraction, Fraction],
) -> list[tuple[int, Change]]:
    """Return who becomes the fastest from one size to another, and where.

    Parameters
    ----------
    lines
        Of the series whose times are lines between the two sizes.
    before, after
        The fastest at the two sizes.
    ends
        The two sizes.
    """
    here = next((key for key in before if key in lines), None)
    last = next((key for key in after if key in lines), None)
    if here is None or last is None:
        return [(after[0], Change(*ends))]
    steps: list[tuple[int, Change]] = []
    while here != last:
        old, now = lines[here], ends[0] if not steps else steps[-1][1].high
        flatter = {key: line for key, line in lines.items() if line.slope < old.slope}
        crossings = {k: (new.start - old.start) / (old.slope - new.slope) for k, new in flatter.items()}
        later = {k: size for k, size in crossings.items() if now - _slack(now) <= size}
        # Of those that cross at one size the flattest is the fastest from there on.
        then = min(later, key=lambda k: (later[k], lines[k].slope), default=None)
        if then is None or later[then] > ends[1] + _slack(ends[1]):
            return [(after[0], Change(*ends))]  # equal but for rounding
        steps.append((then, Change(later[then], later[then], old.exact and lines[then].exact)))
        here = then
    return steps


def _slack(size: Fraction) -> Fraction:
    return size * Fraction(TIE)


def _lines(cells: Cells, ends: tuple[float, float], network: Topology | None) -> dict[int, TimeLine]:
    """Return the line of each series that has one between two neighbouring sizes."""
    found = {}
    for key in cells[ends[0]]:
        line = _exact_line([cells[end].get(key) for end in ends], network)
        line = line or _measured_line(cells, key, ends)
        if line is not None:
            found[key] = line
    return found


def _exact_line(rows: Sequence[Row | None], network: Topology | None) -> TimeLine | None:
    """Return T_L α + T_B M/B if it is the time of all rows, which are of schedules of that cost."""
    costs = {(row.tl_steps, row.tb_text) for row in rows if row is not None}
    steps, factor = costs.pop() if len(costs) == 1 else (None, "")
    if network is None or network.node_bandwidth is None or steps is None or not factor:
        return None
    start = Fraction(steps) * network.alpha[0] * MICRO
    line = TimeLine(start, Fraction(factor) / network.node_bandwidth * MICRO, exact=True)
    return line if all(row is not None and _is_on(line, row) for row in rows) else None


def _measured_line(cells: Cells, key: int, ends: tuple[float, float]) -> TimeLine | None:
    """Return the line through two sizes, if a third beside them lies on it too, all of one schedule."""
    sizes = list(cells)
    place = sizes.index(ends[0])
    here = [cells[end].get(key) for end in ends]
    if any(row is None or row.slices is not None for row in here):
        return None
    low, high = (row for row in here if row is not None)
    x, y = (Fraction(row.size_bytes) for row in (low, high))
    slope = (Fraction(high.time_us or 0) - Fraction(low.time_us or 0)) / (y - x)
    line = TimeLine(Fraction(low.time_us or 0) - slope * x, slope, exact=False)
    beside = [cells[sizes[i]].get(key) for i in (place - 1, place + 2) if 0 <= i < len(sizes)]
    same = [row for row in [high, *beside] if row is not None and row.schedule == low.schedule]
    return line if high in same and any(_is_on(line, row) for row in same if row is not high) else None


def _is_on(line: TimeLine, row: Row) -> bool:
    """Whether a row's time is the line's; both are rounded to floats."""
    time = line.at(Fraction(row.size_bytes))
    return row.time_us is not None and abs(Fraction(row.time_us) - time) <= Fraction(TIE) * abs(time)


def rounded(value: Fraction) -> str:
    """Return a size to four digits.

    Examples
    --------
    >>> rounded(Fraction(200_000)), rounded(Fraction(3_200_000, 17)), rounded(Fraction(5, 3))
    ('200 KB', '188.2 KB', '1.667 B')
    """
    scale, unit = next(
        ((s, u) for s, u in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")) if value >= s), (1, "B")
    )
    return f"{float(value / scale):.4g} {unit}"

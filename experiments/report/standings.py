r"""Who is the fastest, over a whole run and at each size, and how near to the bounds, at what cost.

A gap here is (UB - LB)/LB with the largest bound of its case: a bound that one method proved holds for all.
Gaps go from 0 to many times 100 %, so that their arithmetic mean is that of a few large ones: means are
shifted geometric ones (`shifted_mean`). Methods are ranked by that mean over the same cases (`common_cases`);
other numbers are over the cases that a method has a time for, which differ from method to method. A further
column therefore has the geometric mean of a method's time over the best time of the same cases.

`sentences` is the answer of a run, made from these numbers: who is the fastest, and how near to the bound.

`switch_overs` has the fastest method at each size, and the sizes between which that changes. Times are known
at the sizes run. Between two of them a method's time is used only where it is linear in M. There are two such
cases:

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
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tutti.experiments.report.results import CASE, LOOKS, OK, TIE, Results, Row, Series, is_tb_optimal
from tutti.experiments.report.tables import TEXTS, Cell, PageTable, Said, counted, percent, size
from tutti.experiments.show.drawing import amount
from tutti.topologies.topology import Topology
from tutti.topologies.units import MICRO, format_size

GAP_RULES = SimpleNamespace(**LOOKS["rules"]["gaps"])
"""Rules by which gaps and times are averaged, compared and written."""
STATUSES: Mapping[str, str] = TEXTS["statuses"]
"""The statuses of a case without a time, in words."""
LeastTB = Mapping[tuple[str, str], Fraction | None]
"""The bandwidth bound of each (topology, collective) in M/B, None where it is not known."""


def common_cases(results: Results) -> tuple[set[int], list[int]]:
    """Return the methods that can be ranked, and the cases in which all of them have a gap.

    From the method of the most cases down, a method is ranked if what all have in common stays at least half
    of what the first has. So one that was asked for few cases does not decide by what the others are ranked.
    """
    known = results.frame.pivot(index="case", columns="number", values="open").notna()
    counts = known.sum().sort_values(ascending=False, kind="stable")
    ranked, common = set[int](), known.any(axis=1)
    for number in counts.index:
        left = common & known[number]
        if left.any() and 2 * left.sum() >= counts.max():
            ranked, common = ranked | {number}, left
    return ranked, common.index[common].tolist()


def ranking(results: Results, least: LeastTB | None = None) -> pd.DataFrame:
    """Return a row for each series: the ranked ones, the least mean gap first, the others by their own.

    Returns
    -------
    DataFrame
        The columns are the `series`; `tried`, the number of its cases, and of those of each status; the cases
        that it has `timed` or `won`, or in which its time is proven `optimal` or its T_B is (`tb_optimal`;
        NaN where that is known of none). `common` is the mean of its gaps over the cases that all ranked
        methods have (NaN where it is not ranked); `mean`, `median` and `worst` are over its own, and `where`
        is the worst; `smallest` and `largest` are means at these sizes of each network and collective.
        `slower` and `speedup` are geometric means of its time over the best of the case, and of that of the
        baseline over its own. `synthesis` and `seconds` are the sum and the median of its syntheses; rows
        that share a schedule share its synthesis.
    """
    frame, (ranked, common) = results.frame, common_cases(results)
    timed, gaps = frame[frame.ok], frame.dropna(subset="open")
    by, own = timed.groupby("number"), gaps.groupby("number")
    worst = gaps.loc[own.open.idxmax()].set_index("number")
    where = [f"{row.topology}, {row.collective}, {size(row.size_bytes)}" for row in worst.itertuples()]
    pairs = timed[CASE[:2]].itertuples(index=False, name=None)
    tb = timed.assign(least=[(least or {}).get(pair) for pair in pairs])
    tb = tb[(tb.tb_exact != "") & tb.least.notna()]
    reached = pd.Series([is_tb_optimal(row, row.least) for row in tb.itertuples()], tb.index, dtype=float)
    made = results.rows.dropna(subset="synth_s")
    made = made.drop_duplicates(["topology", "collective", "number", "seed", "schedule", "synth_s"])
    found = {
        "series": pd.Series(results.series, dtype=object),
        "tried": frame.groupby("number").size(),
        **{status: (frame.status == status).groupby(frame.number).sum() for status in (OK, *STATUSES)},
        "timed": by.size(),
        "won": by.won.sum(),
        "optimal": by.optimal.sum(),
        "tb_optimal": reached.groupby(tb.number).sum(),
        "common": _mean(gaps[gaps.number.isin(ranked) & gaps.case.isin(common)]),
        "mean": _mean(gaps),
        "median": own.open.median(),
        "worst": worst.open,
        "where": pd.Series(where, worst.index, dtype=object),
        "smallest": _mean(_at_end(frame, "min")),
        "largest": _mean(_at_end(frame, "max")),
        "slower": _geometric(timed.time_us / timed.best_us, timed.number),
        "speedup": _geometric(timed.speedup, timed.number),
        "synthesis": made.groupby("number").synth_s.sum(),
        "seconds": made.groupby("number").synth_s.median(),
    }
    lines = pd.DataFrame(found, index=range(len(results.series)))
    return lines.sort_values(["common", "mean"], kind="stable")


def _at_end(frame: pd.DataFrame, end: str) -> pd.DataFrame:
    """Return the gaps at the least (``"min"``) or largest size with a time of each network and collective."""
    sizes = frame[frame.ok].groupby(CASE[:2]).size_bytes.transform(end)
    return frame[frame.size_bytes.eq(sizes) & frame.open.notna()]


def _mean(gaps: pd.DataFrame) -> pd.Series[Any]:
    return gaps.groupby("number").open.agg(shifted_mean)


def _geometric(ratios: pd.Series[Any], by: pd.Series[Any]) -> pd.Series[Any]:
    return np.exp(np.log(ratios.where(ratios > 0)).groupby(by).mean())


def shifted_geometric_mean(values: Iterable[float], shift: float) -> float:
    """Return exp(mean of log(value + shift)) - shift.

    Raises
    ------
    ValueError
        If there are no values, or one is not above -shift.

    Examples
    --------
    >>> round(shifted_geometric_mean([0.0, 3.0], 1), 12)
    1.0
    """
    return statistics.geometric_mean(value + shift for value in values) - shift


def shifted_mean(gaps: Iterable[float]) -> float:
    """Return the shifted geometric mean of the gaps that there are; below the bound counts as 0.

    Examples
    --------
    >>> round(shifted_mean([0.0, 0.03, math.nan]), 4)  # 1 and 4 % with the shift: their geometric mean is 2 %
    0.01
    """
    known = [max(gap, 0.0) for gap in gaps if not math.isnan(gap)]
    return shifted_geometric_mean(known, GAP_RULES.shift) if known else math.nan


def answers(results: Results) -> pd.DataFrame:
    """Return the `ranking` of methods that have a time, those first that are the fastest most often.

    Of equally many the nearest to the fastest is first.
    """
    found = ranking(results)
    found = found[found.timed > 0].sort_index()
    return found.sort_values(["won", "slower"], ascending=[False, True], kind="stable")


def sentences(results: Results) -> list[str]:
    """Return the answer; nothing where no method has a time."""
    found, frame = answers(results), results.frame
    if found.empty:
        return []
    first, *others = found.itertuples()
    won = frame[frame.won].groupby("number").case.agg(frozenset)
    alike = [one for one in others if won.get(one.Index) == won.get(first.Index) and one.won == one.timed]
    count = frame[frame.ok].case.nunique()
    said = [_first(results, first, alike, count), *_near(frame, first.Index)]
    proven = frame[frame.optimal].case.nunique()
    said.append(f"Proven optimal: the best time of {proven:,} of {counted(count, 'case')}.")
    one = next((one for one in others if one not in alike), None)
    if one is not None:
        often = f"it is the fastest in {one.won:,.0f}" if one.won else "it is never the fastest"
        cases = counted(int(one.timed), "case")
        than = f"over its {cases} it takes {one.slower:.2f} times the best time (geometric mean)"
        said.append(f"{one.series.label} comes next: {often}, and {than}.")
    return said


def _first(results: Results, one: Row, alike: Sequence[Row], count: int) -> str:
    """Return where the first is the fastest: up to three networks by their names."""
    names = [results.short[topology] for topology in results.topologies]
    where = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    where = where if len(names) <= 3 else f"{len(names)} networks"
    whole = f"On {where}, {one.series.label} is the fastest in {one.won:,.0f} of {counted(count, 'case')}"
    if one.timed < count:
        some = f" (it has a schedule for {one.timed:,.0f})"
        whole += ", all that it has a schedule for" if one.won == one.timed else some
    if alike:
        whole += f"; as fast there: {', '.join(other.series.label for other in alike)}"
    return f"{whole}."


def _near(frame: pd.DataFrame, number: int) -> list[str]:
    """Return how near a series is to the bound at the largest sizes; nothing where it has no gap there."""
    gaps = _at_end(frame, "max")
    gaps = gaps[gaps.number == number]
    if gaps.empty:
        return []
    low, high = (percent(max(0.0, gap)) for gap in (gaps.open.min(), gaps.open.max()))
    sizes = gaps.size_bytes.unique()
    where = f"At {size(*sizes)}" if len(sizes) == 1 else "At the largest size"
    if high == "0":
        return [f"{where} its times are the proven bound: no schedule can be faster."]
    span = low if low == high else f"{low} to {high}"
    return [f"{where} its times are {span} % above the proven bound."]


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

"""How each method does over a whole run: how near to the bounds, how often the best, at what cost.

A gap here is (UB - LB)/LB with the largest bound of its case: a bound that one method proved holds for all.
Gaps go from 0 to many times 100 %, so that their arithmetic mean is that of a few large ones: means are
shifted geometric ones (`shifted_mean`). Methods are ranked by that mean over the same cases (`common_cases`);
other numbers are over the cases that a method has a time for, which differ from method to method. So beside
them stands by what factor (geometric mean) it is slower than the best of the same cases.

`sentences` is the answer of a run, made from these numbers: who is the fastest, and how near to the bound.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from tutti.experiments.report.results import Case, Results, Row, best_time, is_optimal, is_tb_optimal, winners
from tutti.experiments.report.series import Series
from tutti.experiments.report.tables import counted, percent, size


class GapRules(NamedTuple):
    """How gaps and times are averaged, compared and written."""

    shift: float
    """Shift of the means of gaps. With a larger value small gaps count less."""
    digits: int
    """Digits of times beside gaps. With fewer one can't check the gap from the times."""
    fewest_networks: int
    """Networks below which no table has all of them: they are seen whole in the others."""
    fewest_seeds: int
    """Seeds below which there is no interval."""
    coincide: float
    """Largest relative difference of curves that can't be told apart in a chart. With a larger value more
    curves are drawn in stripes."""


GAP_RULES = GapRules(shift=0.01, digits=5, fewest_networks=5, fewest_seeds=3, coincide=0.005)
Cases = Mapping[Case, Mapping[int, Row]]
LeastTB = Mapping[tuple[str, str], Fraction | None]
"""The bandwidth bound of each (topology, collective) in M/B, None where it is not known."""


@dataclass(frozen=True)
class SeriesStanding:
    """One method over the whole run; a number is None where it has none.

    Parameters
    ----------
    counts
        Its cases by status.
    gaps
        Of the cases that it has a time for.
    won
        The cases in which no other is faster (ties count for all).
    optimal, tb_optimal
        In how many cases its time is proven optimal, and its T_B is (None where that is known of none).
    common
        Its `shifted_mean` gap over the cases that all ranked methods have; None where it is not ranked.
    ends
        Its gaps at the smallest and at the largest size of each network and collective.
    slower, speedup
        Geometric means: its time over the best of the case, and that of the baseline over its own.
    syntheses
        Seconds of each; rows that share a schedule share its synthesis.
    """

    series: Series
    counts: Mapping[str, int]
    gaps: Mapping[Case, float | None]
    won: frozenset[Case]
    optimal: int
    tb_optimal: int | None
    common: float | None
    ends: tuple[Mapping[Case, float], Mapping[Case, float]]
    slower: float | None
    speedup: float | None
    syntheses: Sequence[float]

    @property
    def tried(self) -> int:
        """How many cases it was asked for."""
        return sum(self.counts.values())

    @property
    def known(self) -> dict[Case, float]:
        """The gaps that there are."""
        return {case: gap for case, gap in self.gaps.items() if gap is not None}

    @property
    def mean(self) -> float | None:
        """Over its own cases."""
        return shifted_mean(self.known.values())

    @property
    def median(self) -> float | None:
        """Of its gaps."""
        return statistics.median(self.known.values()) if self.known else None

    @property
    def worst(self) -> tuple[Case, float] | None:
        """The first case of its largest gap."""
        return max(self.known.items(), key=lambda found: found[1], default=None)

    @property
    def seconds(self) -> float | None:
        """The median of its syntheses."""
        return statistics.median(self.syntheses) if self.syntheses else None


def common_cases(results: Results) -> tuple[frozenset[int], list[Case]]:
    """Return the methods that can be ranked, and the cases in which all of them have a gap.

    From the method of the most cases down, a method is ranked if what all have in common stays at least half
    of what the first has: one that was asked for a few cases only does not decide by what the others are.
    """
    own: dict[int, dict[Case, None]] = {series.number: {} for series in results.series}
    for case, cells in results.cases.items():
        for number, row in cells.items():
            if results.gap(row) is not None:
                own[number][case] = None
    ranked: set[int] = set()
    common: list[Case] = []
    for number in sorted(own, key=lambda one: -len(own[one])):
        left = [case for case in common if case in own[number]] if ranked else list(own[number])
        if left and 2 * len(left) >= max(map(len, own.values())):
            ranked, common = ranked | {number}, left
    return frozenset(ranked), common


def ranking(results: Results, least: LeastTB | None = None) -> list[SeriesStanding]:
    """Return every method: the ranked ones, the least mean gap first, the others by their own, none last."""
    found = standings(results, results.cases, least)
    return sorted(found, key=lambda one: (_last(one.common), _last(one.mean)))


def standings(results: Results, cases: Cases, least: LeastTB | None = None) -> list[SeriesStanding]:
    """Return every method, in the order of the run, over some of its cases."""
    members, common = common_cases(results)
    sizes: dict[tuple[str, str], list[float]] = {}
    for case, cells in cases.items():
        if best_time(cells.values()) is not None:
            sizes.setdefault(case[:2], []).append(case[2])
    ends = [{(*key, end(own)) for key, own in sizes.items()} for end in (min, max)]
    ranked = [case for case in common if case in cases]
    return [
        _standing(results, cases, one, ranked if one.number in members else (), ends, least or {})
        for one in results.series
    ]


def _last(value: float | None) -> float:
    return math.inf if value is None else value


def _standing(
    results: Results,
    cases: Cases,
    series: Series,
    common: Sequence[Case],
    ends: Sequence[set[Case]],
    least: LeastTB,
) -> SeriesStanding:
    rows = {case: cells[series.number] for case, cells in cases.items() if series.number in cells}
    timed = {case: row for case, row in rows.items() if row.ok}
    gaps = {case: results.gap(row) for case, row in timed.items()}
    first, last = ({case: gap for case in end if (gap := gaps.get(case)) is not None} for end in ends)
    tb = [
        is_tb_optimal(row, bound)
        for row in timed.values()
        if row.tb_factor is not None and (bound := least.get(row.case[:2])) is not None
    ]
    syntheses = {
        (row.topology, row.collective, row.seed, row.schedule, row.synth_s): row.synth_s
        for row in results.rows
        if (row.method, row.options) == (series.method, series.options) and row.synth_s is not None
    }
    return SeriesStanding(
        series,
        counts=Counter(row.status for row in rows.values()),
        gaps=gaps,
        won=frozenset(case for case in timed if series.number in winners(cases[case])),
        optimal=sum(map(is_optimal, timed.values())),
        tb_optimal=sum(tb) if tb else None,
        common=shifted_mean(gaps[case] for case in common),
        ends=(first, last),
        slower=_geometric(
            row.time_us / best
            for case, row in timed.items()
            if row.time_us and (best := best_time(cases[case].values()))
        ),
        speedup=_geometric(map(results.speedup, timed.values())),
        syntheses=list(syntheses.values()),
    )


def _geometric(ratios: Iterable[float | None]) -> float | None:
    known = [ratio for ratio in ratios if ratio]
    return statistics.geometric_mean(known) if known else None


def shifted_geometric_mean(values: Iterable[float], shift: float) -> float:
    """Return exp(mean of log(value + shift)) - shift.

    Raises
    ------
    ValueError
        If there are no values.

    Examples
    --------
    >>> round(shifted_geometric_mean([0.0, 3.0], 1), 12)
    1.0
    """
    logs = [math.log(value + shift) for value in values]
    if not logs:
        raise ValueError("the mean of no values")
    return math.exp(math.fsum(logs) / len(logs)) - shift


def shifted_mean(gaps: Iterable[float | None]) -> float | None:
    """Return the shifted geometric mean of the gaps that there are; below the bound counts as 0.

    Examples
    --------
    >>> round(shifted_mean([0.0, 0.03, None]), 4)  # 1 and 4 % with the shift: their geometric mean is 2 %
    0.01
    """
    known = [max(gap, 0.0) for gap in gaps if gap is not None]
    return shifted_geometric_mean(known, GAP_RULES.shift) if known else None


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
    proven = sum(any(map(is_optimal, cells.values())) for cells in results.cases.values())
    said.append(f"Proven optimal: the best time of {proven:,} of {counted(count, 'case')}.")
    one = next((one for one in others if one not in alike), None)
    if one is not None:
        often = f"it is the fastest in {len(one.won):,}" if one.won else "it is never the fastest"
        cases = counted(len(one.gaps), "case")
        than = f"over its {cases} it takes {one.slower:.2f} times the best time (geometric mean)"
        said.append(f"{one.series.label} comes next: {often}, and {than}.")
    return said


def _first(results: Results, one: SeriesStanding, alike: Sequence[SeriesStanding], count: int) -> str:
    """Return where the first is the fastest: up to three networks by their names."""
    names = [results.short[topology] for topology in results.topologies]
    where = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    where = where if len(names) <= 3 else f"{len(names)} networks"
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

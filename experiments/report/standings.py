"""Standings of the methods over a whole run: how near to the bounds, how often the best, at what cost.

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
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from tutti.experiments.report.results import CASE, LOOKS, OK, Results, Row, is_tb_optimal
from tutti.experiments.report.tables import TEXTS, counted, percent, size

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

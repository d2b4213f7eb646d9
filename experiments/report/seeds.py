"""What the seed does: the spread of each seeded method, and whether one differs from another by chance.

Of a method that tried several seeds (``seeds = 20`` keeps the best, ``seeds = [0, 1, ..]`` each) every seed
has a time. With gap g(s, i) of seed s on case i (a topology, collective and size) a *seed's gap* is the
shifted geometric mean of g(s, i) over the cases, from the mean of y(s, i) = log(g(s, i) + shift). Seeds are
independent, cases are the ones that were asked for, so over n seeds the mean has the interval

    mean ± t_{0.975, n-1} · s / √n        (Student's t; s the standard deviation over the seeds)

in these logarithms. Two methods are compared on the cases that both have, seed by seed: the interval of the
differences of y, which is one of a ratio. Synthesis times are compared by their logarithms too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.stats import t as student

from tutti.experiments.report.charts import Figure
from tutti.experiments.report.results import TIE, Case, Results
from tutti.experiments.report.series import Series
from tutti.experiments.report.standings import GAP_RULES
from tutti.experiments.report.tables import Cell, PageTable, percent, seconds

LEVEL = 0.95
"""Confidence of the intervals."""

Values = Mapping[Case, Sequence[float]]
"""A value for each case and seed."""


@dataclass(frozen=True)
class ConfidenceInterval:
    """A mean with its confidence interval, of logarithms."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> ConfidenceInterval:
        """Return it for independent values, at least two.

        Examples
        --------
        >>> interval = ConfidenceInterval.of([1.0, 2.0, 3.0])
        >>> round(interval.mean, 6), round(interval.half, 3)
        (2.0, 2.484)
        """
        count = len(values)
        spread = float(np.std(values, ddof=1)) / math.sqrt(count)
        return cls(float(np.mean(values)), float(student.ppf((1 + LEVEL) / 2, count - 1)) * spread)

    @property
    def ends(self) -> tuple[float, float, float]:
        """The ends of the interval, and between them the mean."""
        return (self.mean - self.half, self.mean, self.mean + self.half)

    @property
    def powers(self) -> tuple[float, float, float]:
        """The same of what they are the logarithms of."""
        low, mean, high = map(math.exp, self.ends)
        return (low, mean, high)


@dataclass(frozen=True)
class SeedStanding:
    """One series over its seeds.

    Parameters
    ----------
    count, cases
        Seeds, and the cases that have all of them.
    gap
        Log of a seed's gap with the shift.
    best, worst
        The gap of the best and of the worst seed of each case: shifted geometric means.
    spread
        The worst seed's time over the best one's, minus one: the median of the cases, and the largest.
    synthesis
        Log of the seconds of one seed.
    spent
        Seconds of all seeds of all cases.
    apart
        Log of its gap over the first series', both with the shift, on `common` cases; None for the first.
    """

    series: Series
    count: int
    cases: int
    gap: ConfidenceInterval
    best: float
    worst: float
    spread: tuple[float, float]
    synthesis: ConfidenceInterval
    spent: float
    common: int = 0
    apart: ConfidenceInterval | None = None

    @property
    def verdict(self) -> str:
        """Whether the difference to the first series is more than chance."""
        if self.apart is None:
            return "compared with"
        low, _, high = self.apart.ends
        return "larger" if low > TIE else "smaller" if high < -TIE else "no different"


def seeds(results: Results) -> list[SeedStanding]:
    """Return the standing of each series with enough seeds (`GapRules`), compared with the first of them."""
    found: dict[int, dict[Case, list[tuple[float, float]]]] = {}
    for (case, number), tries in results.tries.items():
        if len(tries) >= GAP_RULES.fewest_seeds and case in results.bounds:
            found.setdefault(number, {})[case] = tries
    gaps: dict[int, Values] = {}
    standings = []
    for number, cases in sorted(found.items()):
        count = max(map(len, cases.values()))
        whole = {case: tries for case, tries in cases.items() if len(tries) == count}
        gaps[number] = {case: _gaps(results, case, tries) for case, tries in whole.items()}
        standings.append(_standing(results.series[number], whole, gaps[number]))
    return [_compared(one, gaps[one.series.number], next(iter(gaps.values()))) for one in standings]


def _gaps(results: Results, case: Case, tries: Sequence[tuple[float, float]]) -> list[float]:
    bound = results.bounds[case].bound_us or math.inf
    return [math.log(max(time / bound - 1, 0.0) + GAP_RULES.shift) for _, time in tries]


def _over_cases(values: Iterable[Sequence[float]]) -> list[float]:
    """Return the mean over the cases, one for each seed."""
    return [statistics.fmean(of_seed) for of_seed in zip(*values, strict=True)]


def _standing(
    series: Series, tries: Mapping[Case, Sequence[tuple[float, float]]], gaps: Values
) -> SeedStanding:
    """Return the standing; for its logarithm a synthesis takes at least a microsecond."""
    times = [[time for _, time in of] for of in tries.values()]
    spreads = [max(of) / min(of) - 1 for of in times]
    logs = [[math.log(max(spent, 1e-6)) for spent, _ in of] for of in tries.values()]
    best, worst = (
        math.exp(statistics.fmean(map(end, gaps.values()))) - GAP_RULES.shift for end in (min, max)
    )
    return SeedStanding(
        series,
        len(times[0]),
        len(times),
        ConfidenceInterval.of(_over_cases(gaps.values())),
        best,
        worst,
        (statistics.median(spreads), max(spreads)),
        ConfidenceInterval.of(_over_cases(logs)),
        sum(spent for of in tries.values() for spent, _ in of),
    )


def _compared(standing: SeedStanding, own: Values, first: Values) -> SeedStanding:
    """Return the standing with its difference to the first series."""
    common = [case for case in first if case in own and len(own[case]) == len(first[case])]
    if own is first or not common:
        return standing
    pairs = zip(_over_cases(own[c] for c in common), _over_cases(first[c] for c in common), strict=True)
    return replace(standing, common=len(common), apart=ConfidenceInterval.of([a - b for a, b in pairs]))


def seed_table(standings: Sequence[SeedStanding]) -> PageTable:
    """Return the spread of each seeded method."""
    rows = [(f"s{one.series.number}", _cells(one)) for one in standings]
    return PageTable.of("seeds", rows)


def _cells(one: SeedStanding) -> list[Cell | str]:
    low, mean, high = (percent(power - GAP_RULES.shift) for power in one.gap.powers)
    once = [seconds(power) for power in one.synthesis.powers]
    apart = "" if one.apart is None else "{1:.3f} ({0:.3f} to {2:.3f})".format(*one.apart.powers)
    return [
        Cell(one.series.label, series=one.series),
        str(one.count),
        str(one.cases),
        f"{mean} ({low} to {high})",
        *map(percent, (one.best, one.worst, *one.spread)),
        seconds(one.spent),
        f"{once[1]} ({once[0]} to {once[2]})",
        apart,
        str(one.common or ""),
        one.verdict,
    ]


def seed_figures(standings: Sequence[SeedStanding]) -> list[Figure]:
    """Return how the gap of each series compares with the first's, and the synthesis times."""
    if len(standings) < 2:
        return []
    rows = pd.DataFrame(map(_record, standings))
    first = standings[0].series.label
    return [
        Figure("seeds", f"gap of each method over that of {first}, with confidence intervals", data=rows),
        Figure("seed times", "synthesis time of each method, with confidence intervals", data=rows),
    ]


def _record(standing: SeedStanding) -> dict[str, object]:
    apart = standing.apart or ConfidenceInterval(0.0, 0.0)
    ends = ("low", "mean", "high")
    return {
        **standing.series.columns,
        **{f"gap_{end}": power for end, power in zip(ends, apart.powers, strict=True)},
        **{f"time_{end}": power for end, power in zip(ends, standing.synthesis.powers, strict=True)},
        "told": f"{percent(standing.gap.powers[1] - GAP_RULES.shift)} %, {standing.cases} cases",
        "synthesis": seconds(standing.synthesis.powers[1]),
    }

"""What the seed does: means over seeds with confidence intervals, and paired differences.

For runs that keep each of several seeds (``seeds = [0, 1, ..]``). With gap g(s, i) of seed s on case i (a
topology, collective and size), the *mean gap of seed s* is the mean of g(s, i) over the cases. Seeds are
independent, cases are the ones that were asked for, so the mean over n seeds has the interval

    mean ± t_{0.975, n-1} · s / √n        (Student's t; s the standard deviation over the seeds).

Two series are compared on the cases that both have, seed by seed: the interval of the differences. Synthesis
times are compared by their logarithms, so that means are geometric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.stats import t as student

from tutti.experiments.report.charts import Figure
from tutti.experiments.report.results import TIE, Case, Results, Row
from tutti.experiments.report.series import Series
from tutti.experiments.report.text import seconds, size

LEVEL = 0.95
"""Confidence of the intervals."""

Values = Mapping[Case, Mapping[str, float]]
"""A value for each case and seed."""


@dataclass(frozen=True)
class ConfidenceInterval:
    """A mean with its confidence interval."""

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
    def ends(self) -> tuple[float, float]:
        """The interval's."""
        return (self.mean - self.half, self.mean + self.half)

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.half:.2f}" if self.half > TIE else f"{self.mean:.2f}"


@dataclass(frozen=True)
class SeedStanding:
    """One series over its seeds.

    Parameters
    ----------
    cases
        That have all seeds.
    gap
        In percent, of a seed, over the cases.
    best
        In percent: the least gap of the seeds, mean over the cases.
    synthesis
        Decimal logarithm of seconds: the geometric mean over the cases.
    apart
        By how much its mean gap is above the first series', in percentage points, on `common` cases;
        None for the first.
    """

    series: Series
    cases: int
    gap: ConfidenceInterval
    best: float
    synthesis: ConfidenceInterval
    common: int = 0
    apart: ConfidenceInterval | None = None

    @property
    def seconds(self) -> str:
        """The synthesis time, with the ends of its interval."""
        low, high = (seconds(10**end) for end in self.synthesis.ends)
        return f"{seconds(10**self.synthesis.mean)} ({low} to {high})"

    @property
    def verdict(self) -> str:
        """Whether the difference to the first series is more than chance."""
        if self.apart is None:
            return "compared with"
        low, high = self.apart.ends
        return "larger" if low > 0 else "smaller" if high < 0 else "no different"


@dataclass(frozen=True)
class Seeds:
    """All that is said of seeds.

    Parameters
    ----------
    count
        How many there are.
    standings
        Of each series that has them.
    lines
        For each case its name and the text and style of each series' mean gap.
    figures
        Differences of gaps, and synthesis times.
    """

    count: int
    standings: list[SeedStanding]
    lines: list[tuple[str, list[tuple[str, str]]]]
    figures: tuple[Figure, Figure]


def seeds(results: Results) -> Seeds | None:
    """Return it, None for a run that keeps fewer than 3 seeds of each series: they give no interval."""
    gaps = _collected(results, lambda row: None if row.gap is None else 100 * row.gap)
    times = _collected(results, lambda row: row.synth_s)
    count = max((len(own) for of_case in gaps.values() for own in of_case.values()), default=0)
    if count < 3:
        return None
    whole = {
        key: {case: own for case, own in found.items() if len(own) == count} for key, found in gaps.items()
    }
    whole = {key: found for key, found in whole.items() if found}
    standings = [_standing(results.series[key], found, times[key]) for key, found in whole.items()]
    first = next(iter(whole.values()))
    compared = [_compared(standing, whole[standing.series.number], first) for standing in standings]
    return Seeds(count, compared, list(_lines(results, whole)), _figures(compared))


def _collected(
    results: Results, value: Callable[[Row], float | None]
) -> dict[int, dict[Case, dict[str, float]]]:
    """Return a value of each row, by series, case and seed."""
    found: dict[int, dict[Case, dict[str, float]]] = {}
    for row in results.rows:
        measured = value(row) if row.ok and row.seed else None
        if measured is not None:
            series = results.number[row.method, row.options]
            found.setdefault(series, {}).setdefault(row.case, {})[row.seed] = measured
    return dict(sorted(found.items()))


def _over_cases(values: Values, cases: Iterable[Case]) -> list[float]:
    """Return the mean over the cases, one for each seed."""
    chosen = [values[case] for case in cases]
    return [float(np.mean([own[seed] for own in chosen])) for seed in chosen[0]]


def _standing(series: Series, gaps: Values, times: Values) -> SeedStanding:
    """Return the standing; for its logarithm a synthesis takes at least a microsecond."""
    logarithms = {
        case: {seed: math.log10(max(times[case][seed], 1e-6)) for seed in own}
        for case, own in gaps.items()
        if case in times
    }
    return SeedStanding(
        series,
        len(gaps),
        ConfidenceInterval.of(_over_cases(gaps, gaps)),
        float(np.mean([min(own.values()) for own in gaps.values()])),
        ConfidenceInterval.of(_over_cases(logarithms, logarithms)),
    )


def _compared(standing: SeedStanding, own: Values, first: Values) -> SeedStanding:
    """Return the standing with its difference to the first series."""
    common = [case for case in first if case in own and own[case].keys() == first[case].keys()]
    if own is first or not common:
        return standing
    pairs = zip(_over_cases(own, common), _over_cases(first, common), strict=True)
    apart = ConfidenceInterval.of([a - b for a, b in pairs])
    return replace(standing, common=len(common), apart=apart)


def _lines(results: Results, gaps: Mapping[int, Values]) -> Iterable[tuple[str, list[tuple[str, str]]]]:
    """Yield a row of means for each case; the least, and those that can't be told from it, are bold."""
    for case in results.cases:
        means = {
            key: ConfidenceInterval.of(list(found[case].values()))
            for key, found in gaps.items()
            if case in found
        }
        if not means:
            continue
        least = min(means.values(), key=lambda interval: interval.mean)
        looks = {key: "best" if mean.ends[0] <= least.ends[1] else "" for key, mean in means.items()}
        cells = [(str(means.get(key, "")), looks.get(key, "none")) for key in gaps]
        topology, collective, bytes_ = case
        yield f"{topology}, {collective}, {size(bytes_)}", cells


def _figures(standings: Sequence[SeedStanding]) -> tuple[Figure, Figure]:
    """Return how far the gap of each series is from the first's, and the synthesis times."""
    rows = pd.DataFrame(_record(standing) for standing in standings)
    first = standings[0].series.label
    return (
        Figure("seeds", f"gap of each method less that of {first}, with confidence intervals", data=rows),
        Figure("seed times", "synthesis time of each method, with confidence intervals", data=rows),
    )


def _record(standing: SeedStanding) -> dict[str, object]:
    apart = standing.apart or ConfidenceInterval(0.0, 0.0)
    low, high = (10**end for end in standing.synthesis.ends)
    return {
        "method": standing.series.label,
        "series": standing.series.number,
        "gap_low": apart.ends[0],
        "gap_mean": apart.mean,
        "gap_high": apart.ends[1],
        "time_low": low,
        "time_mean": 10**standing.synthesis.mean,
        "time_high": high,
        "told": f"{standing.gap}%, {standing.cases} cases",
        "synthesis": standing.seconds,
    }

"""The spread of each seeded method over its seeds, and whether one differs from another by chance.

Of a method that tried several seeds (``seeds = 20`` keeps the best, ``seeds = [0, 1, ..]`` each) every seed
has a time. Let g(s, i) be the gap of seed s on case i (a topology, collective and size). A *seed's gap* is
the shifted geometric mean of g(s, i) over the cases, from the mean of y(s, i) = log(g(s, i) + shift). Seeds
are independent, cases are the ones that were asked for, so over n seeds the mean has the interval

    mean ± t_{0.975, n-1} · s / √n        (Student's t; s the standard deviation over the seeds)

in these logarithms. Two methods are compared on the cases that both have, seed by seed: the interval of the
differences of y, which is one of a ratio. Synthesis times are compared by their logarithms too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import sem
from scipy.stats import t as student

from tutti.experiments.report.charts import Figure
from tutti.experiments.report.results import TIE, Results, Row
from tutti.experiments.report.standings import GAP_RULES
from tutti.experiments.report.tables import Cell, PageTable, Panel, percent, seconds
from tutti.topologies.exact import FloatArray

LEVEL = 0.95
"""Confidence of the intervals."""


def interval(values: Sequence[float]) -> FloatArray:
    """Return the low end of a mean's confidence interval, the mean, and the high end.

    Parameters
    ----------
    values
        Independent values, at least two.

    Examples
    --------
    >>> interval([1.0, 2.0, 3.0]).round(3).tolist()
    [-0.484, 2.0, 4.484]
    """
    half = student.ppf((1 + LEVEL) / 2, len(values) - 1) * sem(values)
    return np.mean(values) + half * np.array([-1, 0, 1])


def seeds(results: Results) -> list[Row]:
    """Return a row for each series with enough seeds (`GAP_RULES`), compared with the first of them.

    Returns
    -------
    list of named tuples
        The `series`, its `count` of seeds, and the `cases` that have all of them. `gap` and `synthesis` are
        confidence intervals (`interval`) of the gap of a seed, with the shift, and of its seconds; `spent` is
        the seconds of all. `best` and `worst` are the shifted geometric means of the best and of the worst
        seed of each case, `spread` and `largest` the median and the largest of the worst seed's time over the
        best one's, minus one. `apart` is the interval of its gap over that of the first series, both with the
        shift, on their `common` cases, and `verdict` says whether it differs by more than chance.
    """
    bounds = results.frame[["case", "number", "lower_us"]]
    tries = results.tries.merge(bounds, on=["case", "number"]).dropna(subset="lower_us")
    count = tries.groupby(["case", "number"]).seed.transform("size")
    enough = count.where(count >= GAP_RULES.fewest_seeds)
    tries = tries[count == enough.groupby(tries.number).transform("max")]
    gaps = np.log((tries.time_us / tries.lower_us - 1).clip(0) + GAP_RULES.shift)
    rows: list[dict[str, Any]] = []
    first = pd.DataFrame()
    for number, own in tries.assign(gap=gaps, log_s=np.log(tries.seconds.clip(1e-6))).groupby("number"):
        values = own.pivot(index="case", columns="seed", values="gap")
        apart = (values - first).dropna(how="any") if values.columns.equals(first.columns) else pd.DataFrame()
        first = first if len(rows) else values
        times = own.groupby("case").time_us
        spread = times.max() / times.min() - 1
        rows.append(
            {
                "series": results.series[number],
                "count": values.shape[1],
                "cases": len(values),
                "gap": np.exp(interval(values.mean())),
                "best": np.exp(values.min(axis=1).mean()) - GAP_RULES.shift,
                "worst": np.exp(values.max(axis=1).mean()) - GAP_RULES.shift,
                "spread": spread.median(),
                "largest": spread.max(),
                "spent": own.seconds.sum(),
                "synthesis": np.exp(interval(own.groupby("seed").log_s.mean())),
                "common": len(apart),
                "apart": np.exp(interval(apart.mean())) if len(apart) else None,
            }
        )
    return list(pd.DataFrame(rows).itertuples())


def seed_table(standings: Sequence[Row]) -> PageTable | None:
    """Return the spread of each seeded method; None where there is none."""
    rows = [(f"s{one.series.number}", _cells(one)) for one in standings]
    return PageTable.of("seeds", rows) if rows else None


def _cells(one: Row) -> list[Cell | str]:
    low, mean, high = (percent(end - GAP_RULES.shift) for end in one.gap)
    once = [seconds(end) for end in one.synthesis]
    apart, verdict = "", "compared with"
    if one.apart is not None:
        least, _, most = np.log(one.apart)
        apart = "{1:.3f} ({0:.3f} to {2:.3f})".format(*one.apart)
        verdict = "larger" if least > TIE else "smaller" if most < -TIE else "no different"  # than by chance
    return [
        Cell(one.series.label, series=one.series),
        str(one.count),
        str(one.cases),
        f"{mean} ({low} to {high})",
        *map(percent, (one.best, one.worst, one.spread, one.largest)),
        seconds(one.spent),
        f"{once[1]} ({once[0]} to {once[2]})",
        apart,
        str(one.common or ""),
        verdict,
    ]


def seed_panels(standings: Sequence[Row]) -> list[Panel]:
    """Return how the gap of each series compares with the first's, and the synthesis times."""
    if len(standings) < 2:
        return []
    ends, rows = ("low", "mean", "high"), []
    for one in standings:
        apart = np.ones(3) if one.apart is None else one.apart
        rows.append(
            {
                **one.series.columns,
                **{f"gap_{end}": power for end, power in zip(ends, apart, strict=True)},
                **{f"time_{end}": power for end, power in zip(ends, one.synthesis, strict=True)},
                "told": f"{percent(one.gap[1] - GAP_RULES.shift)} %, {one.cases} cases",
                "synthesis": seconds(one.synthesis[1]),
            }
        )
    data, said = pd.DataFrame(rows), "with confidence intervals"
    gaps = f"gap of each method over that of {standings[0].series.label}, {said}"
    times = f"synthesis time of each method, {said}"
    figures = (Figure("seeds", gaps, data=data), Figure("seed times", times, data=data))
    return [Panel("", "", figure) for figure in figures]

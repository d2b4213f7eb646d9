"""The charts of a study.

Linear programs have performance profiles, time against size, and errors against the certified values;
mixed-integer ones have incumbents and bounds over time, and primal integrals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import altair as alt
import pandas as pd

from tutti.experiments.report.charts import (
    COLOUR,
    DASH,
    LIMIT,
    METHODS,
    MUTED,
    OPACITY,
    Drawn,
    Figure,
    named_rows,
    page_charts,
    points,
    specs_of,
    stepped,
    steps,
    tips_of,
)
from tutti.experiments.report.panels import shares
from tutti.experiments.report.results import Row
from tutti.experiments.report.series import LOOKS, Series, drawn_as
from tutti.experiments.solver_study.statistics import (
    LEAST_SECONDS,
    MIXED_TOLERANCE,
    TOLERANCE,
    problems_of,
    profile,
    trace_of,
)

Look = Mapping[str, Series]
"""The series of each solver's label."""


DRAWN = SimpleNamespace(**LOOKS["limits"]["study"])
"""Limits on what the charts of a study draw."""


def study_charts(series: Sequence[Series]) -> dict[str, Any]:
    """Return what the page of a study draws its charts from."""
    return page_charts(_specs(), series)


@cache
def _specs() -> str:
    axis = alt.Axis(title="time over the fastest solver's (τ)", tickCount=5)
    ratio = alt.X("value:Q", scale=alt.Scale(type="log"), axis=axis)
    part = alt.X("value:Q", title="primal integral over the limit", scale=alt.Scale(domain=[0, 1]))
    charts: dict[str, Drawn] = {
        "profile": steps(ratio, "problems solved (%)", "told:N|that is"),
        "integral": steps(part, "problems (%)"),
        "scaling": _scaling(),
        "errors": _errors(),
        "trace": _trace("objective", zero=True),
        "trace cut": _trace("objective (axis cut)", zero=False),
    }
    return specs_of(charts)


def _scaling() -> Drawn:
    """Return seconds against nonzeros, and the limit."""
    x = alt.X("nonzeros:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s", tickCount=4, grid=False))
    y = alt.Y("seconds:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format="~r", tickCount=5))
    tips = tips_of("method:N|solver", "topology:N", "nonzeros:Q", "seconds:Q", "solved:N")
    line = named_rows().mark_line(strokeWidth=1.8).encode(x, y, COLOUR, DASH, opacity=OPACITY)
    limit = named_rows().mark_rule(**LIMIT).encode(y=alt.Y("max(limit):Q", title="seconds"))
    return alt.layer(limit, line, points(x, y, tips)).properties(height=DRAWN.height)


def _errors() -> Drawn:
    """Return the errors of each solver's answers; a rule where an answer is wrong."""
    ticks = [0, *(10.0**power for power in range(-13, 1, 3))]
    scale = alt.Scale(type="symlog", constant=DRAWN.error)
    axis = alt.Axis(title="relative error against the certified value", values=ticks, format="~g")
    x = alt.X("error:Q", scale=scale, axis=axis)
    tips = tips_of("method:N|solver", "program:N", "seed:Q", "error:Q")
    wrong = named_rows().mark_rule(**LIMIT).encode(x=alt.datum(TOLERANCE))
    return alt.layer(wrong, points(x, METHODS, tips)).properties(height=alt.Step(26))


def _trace(title: str, zero: bool) -> Drawn:
    """Return incumbents, with a marker at each better one, and bounds (dotted) over time."""
    x = alt.X("seconds:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format="~r", tickCount=5, grid=False))
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=zero))
    tips = tips_of("method:N|solver", "what:N", "value:Q", "seconds:Q")
    dashes = alt.Scale(domain=["incumbent", "bound"], range=[[1, 0], [2, 2.5]])
    dotted = alt.StrokeDash("what:N", scale=dashes, legend=None)
    better = named_rows().transform_filter("datum.better")
    best = named_rows().mark_rule(**LIMIT, color=MUTED).encode(y=alt.Y("max(best):Q", title=title))
    lines = stepped(x, y, dotted, tips=tips)
    return alt.layer(best, lines, points(x, y, tips, better)).properties(height=DRAWN.height)


def profile_chart(frame: pd.DataFrame, looks: Look, title: str) -> Figure:
    """Return the performance profiles: the share of problems solved within each ratio to the fastest."""
    ratios, total = profile(frame), problems_of(frame)
    furthest = min(max([2.0, *(r for own in ratios.values() for r in own)]), DRAWN.ratio)
    shown = {looks[solver]: [r for r in own if r <= furthest] for solver, own in ratios.items()}
    fastest = {solver: sum(r <= 1.0 for r in own) for solver, own in ratios.items()}
    told = {key: f"fastest on {fastest[key]} of {total}, solved {len(own)}" for key, own in ratios.items()}
    data = shares(shown, total, (1.0, furthest))
    data = data.assign(told=data.method.map(told)) if len(data) else data
    return Figure("profile", f"performance profiles, {title}", data=data)


def scaling_chart(frame: pd.DataFrame, looks: Look, title: str) -> Figure:
    """Return charged seconds (mean over seeds) against the nonzeros of the matrix, a line a solver."""
    known = frame[frame.ran].dropna(subset="nonzeros").assign(charged=frame.charged.clip(LEAST_SECONDS))
    groups = known.groupby(["method", "topology"], sort=False)
    data = groups.agg(nonzeros=("nonzeros", "first"), seconds=("charged", "mean"), solved=("solved", "sum"))
    data["solved"] = data.solved.map(str) + " of " + groups.size().map(str)
    data = data.reset_index("topology").sort_values("nonzeros", kind="stable")
    data = data.assign(limit=frame.limit_s.max(), **drawn_as(looks, data.index))
    return Figure("scaling", f"time against size, {title}", data=data.sort_values("series", kind="stable"))


def error_chart(frame: pd.DataFrame, looks: Look) -> Figure:
    """Return the relative error of every answer against its certified value, a line of dots a solver."""
    known = frame[frame.ran].dropna(subset="relative_error")
    error = known.relative_error.mask(known.relative_error < DRAWN.error, 0.0)
    data = pd.DataFrame({"error": error, **known[["program", "seed"]], **drawn_as(looks, known.method)})
    data = data.sort_values("series", kind="stable")
    return Figure("errors", "errors against the certified values", data=data)


def trace_chart(frame: pd.DataFrame, looks: Look, title: str) -> Figure | None:
    """Return incumbents and bounds over time, a colour a solver; None without any.

    Parameters
    ----------
    frame
        The rows of one program, one a solver.
    looks
        The series of each solver.
    title
        What is read to those who can't see the chart.
    """
    data = pd.DataFrame(
        {"seconds": at, "value": value, "what": what, "better": better, **looks[row.method].columns}
        for row in frame.itertuples()
        for part, what in ((1, "incumbent"), (2, "bound"))
        for at, value, better in _milp_steps(row, part)
    )
    if data.empty:
        return None
    best = frame.best_known.iloc[0]
    values = [*data.value, *([] if pd.isna(best) else [best])]
    # The axis is cut if over half of it would be empty, unless tolerances are all by which the values differ.
    cut = max(values) / 2 < min(values) < max(values) * (1 - MIXED_TOLERANCE)
    return Figure("trace cut" if cut else "trace", title, data=data.assign(best=best))


def _milp_steps(row: Row, part: int) -> list[tuple[float, float, bool]]:
    """Return (seconds, value, whether it is a better incumbent) of incumbents (1) or bounds (2)."""
    found: list[tuple[float, float, bool]] = []
    for point in trace_of(row):
        at, value = max(point[0], DRAWN.earliest), point[part]
        negative = part == 2 and value is not None and value < 0 <= row.best_known  # no program here has one
        if value is None or negative or abs(value) > DRAWN.beyond * max(1.0, abs(row.best_known)):
            continue
        found.append((at, value, part == 1 and (not found or found[-1][1] != value)))
    end = max(row.taken, DRAWN.earliest)
    return [*found, (end, found[-1][1], False)] if found and found[-1][0] < end else found


def integral_chart(frame: pd.DataFrame, looks: Look) -> Figure:
    """Return the share of problems whose primal integral is at most a share of the limit, a line a solver."""
    parts = frame.part.clip(upper=1.0)[frame.ran].groupby(frame.method, sort=False)
    own = {looks[solver]: values for solver, values in parts}
    data = shares(own, problems_of(frame), (0.0, 1.0))
    return Figure("integral", "primal integrals, all models", data=data)

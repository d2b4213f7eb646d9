"""The charts of a study: performance profiles, time against size, and errors against the certified values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from experiments.report.series import Series
from experiments.report.svg import (
    Frame,
    Point,
    Scale,
    group,
    log_with_zero,
    logarithmic,
    marker,
    polyline,
    series_class,
    spread,
    tag,
)
from experiments.report.text import seconds
from experiments.study.statistics import (
    LEAST_SECONDS,
    TOLERANCE,
    by_solver,
    charged,
    problems_of,
    profile,
    solved,
)

Row = Mapping[str, Any]
Look = Mapping[str, Series]
"""The series of each solver's label."""

FURTHEST = 1000.0
"""Ratios above are not drawn; the share of problems solved at all stands there."""
NAMES = 124.0
"""Pixels beside a chart for the names of its lines."""
STEP = 26.0
"""Pixels from one solver to the next in the chart of errors."""
LEAST_ERROR = 1e-14
"""Errors below are rounding, and drawn as 0."""


def profile_chart(rows: Sequence[Row], looks: Look, title: str) -> Markup:
    """Return the performance profiles: the share of problems solved within each ratio to the fastest."""
    ratios, total = profile(rows), problems_of(rows)
    frame = Frame(width=440, height=300, right=NAMES)
    furthest = min(max([2.0, *(r for own in ratios.values() for r in own)]), FURTHEST)
    x = logarithmic([1.0, furthest], frame.across, lambda v: f"{v:g}")
    y = _shares(frame)
    parts = [frame.axes(x, y, "time over the fastest solver's (τ)", "share of problems solved")]
    ends = []
    for solver, own in ratios.items():
        points, tips = _steps(own, total, furthest)
        places = [(x.place(ratio), y.place(share)) for ratio, share in points]
        line = polyline(
            places, class_="line", stroke_dasharray=dash_of(looks[solver]), data_tip=f"{solver}: {tips}"
        )
        parts.append(group([line], class_=series_class(looks[solver])))
        ends.append((looks[solver], places[-1]))
    parts.append(names_beside(ends, frame))
    return frame.chart(parts, f"performance profiles, {title}")


def _shares(frame: Frame) -> Scale:
    foot, head = frame.up
    marks = (0.0, 0.25, 0.5, 0.75, 1.0)
    return Scale(lambda v: foot + (head - foot) * v, tuple((m, f"{m:.0%}") for m in marks))


def _steps(ratios: Sequence[float], total: int, furthest: float) -> tuple[list[Point], str]:
    """Return the corners of the step function from ratio 1 to the furthest, and a sentence on it."""
    shown = [ratio for ratio in ratios if ratio <= furthest]
    corners: list[Point] = [(1.0, sum(r <= 1.0 for r in shown) / total)]
    for count, ratio in enumerate(shown, start=1):
        if ratio > 1.0:
            corners += [(ratio, (count - 1) / total), (ratio, count / total)]
    corners.append((furthest, len(shown) / total))
    fastest = sum(r <= 1.0 for r in ratios)
    return corners, f"fastest on {fastest} of {total}, solved {len(ratios)}"


def scaling_chart(rows: Sequence[Row], looks: Look, title: str) -> Markup:
    """Return charged seconds (mean over seeds) against the nonzeros of the matrix, a line a solver."""
    lines = {solver: _by_size(own) for solver, own in by_solver(rows).items()}
    frame = Frame(width=440, height=300, right=NAMES)
    limit = max(float(row["limit_s"]) for row in rows)
    sizes = [size for line in lines.values() for size, *_ in line]
    x = _decades(logarithmic(sizes, frame.across, _short))
    y = logarithmic([limit, *(t for line in lines.values() for _, t, _ in line)], frame.up, seconds)
    floor = y.place(limit)
    parts = [frame.axes(x, y, "nonzeros", "seconds")]
    parts.append(
        polyline([(frame.across[0], floor), (frame.across[1], floor)], class_="bound", data_tip="limit")
    )
    ends = []
    for solver, line in lines.items():
        places = [(x.place(size), y.place(time)) for size, time, _ in line]
        marks = [
            marker(looks[solver], p, f"{solver}\n{tip}") for p, (*_, tip) in zip(places, line, strict=True)
        ]
        path = polyline(places, class_="line", stroke_dasharray=dash_of(looks[solver]))
        parts.append(group([path, *marks], class_=series_class(looks[solver])))
        ends.append((looks[solver], places[-1]))
    parts.append(names_beside(ends, frame))
    return frame.chart(parts, f"time against size, {title}")


def _decades(scale: Scale) -> Scale:
    """Return a logarithmic scale ticked at powers of ten only, if there are any."""
    decades = tuple(tick for tick in scale.ticks if abs(math.log10(tick[0]) % 1) < 1e-9)
    return Scale(scale.place, decades or scale.ticks)


def _short(value: float) -> str:
    return f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"


def _by_size(rows: Sequence[Row]) -> list[tuple[float, float, str]]:
    """Return nonzeros, mean charged seconds and a tooltip of each instance, increasing."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("nonzeros") is not None and row["nonzeros"] == row["nonzeros"]:
            groups.setdefault(row["topology"], []).append(row)
    lines = []
    for topology, own in groups.items():
        mean = sum(max(charged(row), LEAST_SECONDS) for row in own) / len(own)
        nonzeros, count = float(own[0]["nonzeros"]), f"{sum(map(solved, own))} of {len(own)} solved"
        lines.append((nonzeros, mean, f"{topology}, {nonzeros:,.0f} nonzeros\n{seconds(mean)}, {count}"))
    return sorted(lines)


def error_chart(rows: Sequence[Row], looks: Look) -> Markup:
    """Return the relative error of every answer against its certified value, a line of dots a solver."""
    groups = {
        solver: [(_drawn(row["relative_error"]), row) for row in own if _judged(row)]
        for solver, own in by_solver(rows).items()
    }
    frame = Frame(width=620, height=STEP * len(groups) + 70, left=NAMES, right=20)
    errors = [TOLERANCE, LEAST_ERROR, *(error for own in groups.values() for error, _ in own)]
    x = log_with_zero(errors, frame.across, lambda v: f"{v:.0e}".replace("e-0", "e-"))
    parts = [frame.axes(x, Scale(float, ()), "relative error against the certified value", "")]
    at = x.place(TOLERANCE)
    parts.append(polyline([(at, frame.up[0]), (at, frame.top)], class_="bound", data_tip="wrong beyond 1e-6"))
    for place, (solver, own) in enumerate(groups.items()):
        y = frame.top + STEP * (place + 0.5)
        name = tag("text", looks[solver].brief, class_="label end", x=frame.left - 10, y=y + 3.5)
        marks = [marker(looks[solver], (x.place(error), y), _error_tip(solver, row)) for error, row in own]
        parts.append(group([name, *marks], class_=series_class(looks[solver])))
    return frame.chart(parts, "errors against the certified values")


def _judged(row: Row) -> bool:
    error = row.get("relative_error")
    return error is not None and error == error


def _drawn(error: float) -> float:
    return 0.0 if error < LEAST_ERROR else float(error)


def _error_tip(solver: str, row: Row) -> str:
    return (
        f"{solver}\n{row['model']} {row['topology']}, seed {row['seed']}\nerror {row['relative_error']:.2g}"
    )


def dash_of(series: Series) -> str | None:
    """Return a series' line pattern as SVG has it."""
    return " ".join(f"{length:g}" for length in series.dash) or None


def names_beside(ends: Sequence[tuple[Series, Point]], frame: Frame) -> Markup:
    """Return the names right of the lines' ends, moved apart where they would touch."""
    foot, head = frame.up
    places = spread([at[1] for _, at in ends], head, foot)
    edge = frame.across[1]
    parts = []
    for (series, (px, py)), place in zip(ends, places, strict=True):
        leader = polyline([(px + 4, py), (edge + 2, py), (edge + 11, place)], class_="leader")
        where = f"translate({edge + 17:.1f} {place:.1f}) scale(0.8)"
        mark = tag("path", class_="mark", d=series.marker, transform=where)
        text = tag("text", series.brief, class_="label", x=edge + 24, y=place + 3.5)
        parts.append(group([leader, mark, text], class_=series_class(series)))
    return group(parts)

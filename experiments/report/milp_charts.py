"""The charts of a study of mixed-integer programs: incumbents and bounds over time, and primal integrals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from experiments.report.series import Series
from experiments.report.study_charts import dash_of, names_beside
from experiments.report.svg import (
    CHARACTER,
    Frame,
    Point,
    Scale,
    from_zero,
    group,
    linear,
    logarithmic,
    marker,
    polyline,
    series_class,
)
from experiments.report.text import number, seconds
from experiments.study.milp_statistics import best_known, trace_of
from experiments.study.statistics import by_solver, problems_of, taken

Row = Mapping[str, Any]
Look = Mapping[str, Series]

CLOSE = 1e-5
"""Relative: values that differ by less are drawn as one, which solvers' tolerances may be all of."""
BESIDE = 25.0
"""Pixels beside the ticks' labels of the y axis, for its title."""
NAMES = 112.0
"""Pixels beside a chart for the names of its lines."""
EARLIEST = 0.01
"""Seconds before which nothing is told apart."""
BOUND_DASH = "2 2.5"
BEYOND = 4.0
"""Bounds and incumbents further from the best value than so many times are not drawn."""

Steps = list[tuple[float, float]]


def trace_chart(rows: Sequence[Row], looks: Look, title: str) -> Markup:
    """Return incumbents (with a mark at each) and bounds (dotted) over time, a colour a solver.

    Parameters
    ----------
    rows
        Of one program, one a solver.
    looks
        The series of each solver.
    title
        What is read to those who can't see the chart.
    """
    best = next((value for row in rows if (value := best_known(row)) is not None), None)
    lines = {row["method"]: (_steps(row, 1, best), _steps(row, 2, best)) for row in rows}
    values = [value for pair in lines.values() for steps in pair for _, value in steps]
    if not values:
        return Markup("")
    frame = Frame(width=430, height=270, left=56, right=NAMES)
    latest = max(seconds for pair in lines.values() for steps in pair for seconds, _ in steps)
    y, name = _objectives([*values, *([] if best is None else [best])], frame.up)
    frame = replace(frame, left=max(frame.left, CHARACTER * max(len(text) for _, text in y.ticks) + BESIDE))
    x = logarithmic([EARLIEST, max(latest, 10 * EARLIEST)], frame.across, _short)
    parts = [frame.axes(x, y, "seconds", name)]
    if best is not None:
        at = y.place(best)
        parts.append(
            polyline(
                [(frame.across[0], at), (frame.across[1], at)],
                class_="bound",
                data_tip=f"best known: {number(best, 6)}",
            )
        )
    ends = []
    for solver, pair in lines.items():
        if any(pair):
            look = looks[solver]
            parts.append(group(_pair(look, pair, (x, y)), class_=series_class(look)))
            last = (pair[0] or pair[1])[-1]
            ends.append((look, (x.place(last[0]), y.place(last[1]))))
    parts.append(names_beside(ends, frame))
    return frame.chart(parts, title)


def _objectives(values: Sequence[float], pixels: Point) -> tuple[Scale, str]:
    """Return a scale and its title, which says that the axis is cut: where over half of it were empty."""
    least, largest = min(values), max(values)
    if not largest / 2 < least < largest * (1 - CLOSE):
        return from_zero(values, pixels), "objective"
    scale = linear(values, pixels, low=least)
    return scale, f"objective (axis cut below {scale.ticks[0][1]})"


def _short(value: float) -> str:
    return f"{value:g}"


def _steps(row: Row, part: int, best: float | None) -> Steps:
    """Return (seconds, value) of the incumbents (1) or bounds (2) over time, the last until the end."""
    found: Steps = []
    for point in trace_of(row):
        at, value = max(point[0], EARLIEST), point[part]
        if value is None or (best is not None and abs(value) > BEYOND * max(1.0, abs(best))):
            continue
        if part == 2 and best is not None and value < 0 <= best:
            continue  # no program here has a negative value
        found.append((at, value))
    end = max(taken(row), EARLIEST)
    return [*found, (end, found[-1][1])] if found and found[-1][0] < end else found


def _corners(steps: Steps) -> Steps:
    """Return the corners of the step function."""
    corners: Steps = []
    for at, value in steps:
        if corners:
            corners.append((at, corners[-1][1]))
        corners.append((at, value))
    return corners


def _pair(look: Series, lines: tuple[Steps, Steps], scales: tuple[Scale, Scale]) -> list[Markup]:
    """Return the lines of incumbents and of bounds, and a mark at each better incumbent."""
    x, y = scales
    parts = []
    for steps, dash, what in zip(lines, (dash_of(look), BOUND_DASH), ("incumbent", "bound"), strict=True):
        if not steps:
            continue
        tip = f"{look.label}: {what} {number(steps[-1][1], 6)} after {seconds(steps[-1][0])}"
        places = [(x.place(at), y.place(value)) for at, value in _corners(steps)]
        if len(places) == 1:
            places.append((places[0][0] + 0.1, places[0][1]))
        parts.append(polyline(places, class_="line", stroke_dasharray=dash, data_tip=tip))
    before: float | None = None
    for at, value in lines[0]:
        if value != before:
            tip = f"{look.label}: {number(value, 6)} after {seconds(at)}"
            parts.append(marker(look, (x.place(at), y.place(value)), tip))
        before = value
    return parts


def integral_chart(rows: Sequence[Row], looks: Look) -> Markup:
    """Return the share of problems whose primal integral is at most a share of the limit, a line a solver."""
    total = problems_of(rows)
    frame = Frame(width=440, height=300, right=NAMES)
    x = linear([1.0], frame.across, 4)
    y = _shares(frame)
    parts = [frame.axes(x, y, "primal integral over the limit", "share of problems")]
    ends = []
    for solver, own in by_solver(rows).items():
        shares = sorted(_share(row) for row in own)
        places = [(x.place(at), y.place(up)) for at, up in _climb(shares, total)]
        line = polyline(places, class_="line", stroke_dasharray=dash_of(looks[solver]), data_tip=solver)
        parts.append(group([line], class_=series_class(looks[solver])))
        ends.append((looks[solver], places[-1]))
    parts.append(names_beside(ends, frame))
    return frame.chart(parts, "primal integrals, all models")


def _share(row: Row) -> float:
    value = row.get("primal_integral")
    return 1.0 if value is None or value != value else min(1.0, float(value) / float(row["limit_s"]))


def _climb(shares: Sequence[float], total: int) -> list[Point]:
    corners: list[Point] = [(0.0, 0.0)]
    for count, share in enumerate(shares, start=1):
        corners += [(share, (count - 1) / total), (share, count / total)]
    return [*corners, (1.0, len(shares) / total)]


def _shares(frame: Frame) -> Scale:
    foot, head = frame.up
    marks = (0.0, 0.25, 0.5, 0.75, 1.0)
    return Scale(lambda v: foot + (head - foot) * v, tuple((m, f"{m:.0%}") for m in marks))

"""The charts of a study.

Linear programs have performance profiles, time against size, and errors against the certified values;
mixed-integer ones have incumbents and bounds over time, and primal integrals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from experiments.report.series import Series
from experiments.report.svg import (
    CHARACTER,
    Frame,
    Point,
    Scale,
    from_zero,
    group,
    linear,
    log_with_zero,
    logarithmic,
    marker,
    polyline,
    series_class,
    spread,
    tag,
)
from experiments.report.text import number, seconds
from experiments.solver_study.milp_statistics import best_known, trace_of
from experiments.solver_study.statistics import (
    LEAST_SECONDS,
    TOLERANCE,
    by_solver,
    charged,
    problems_of,
    profile,
    solved,
    taken,
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


CLOSE = 1e-5
"""Relative: values that differ by less are drawn as one, which solvers' tolerances may be all of."""
BESIDE = 25.0
"""Pixels beside the ticks' labels of the y axis, for its title."""
MILP_NAMES = 112.0
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
    lines = {row["method"]: (_milp_steps(row, 1, best), _milp_steps(row, 2, best)) for row in rows}
    values = [value for pair in lines.values() for steps in pair for _, value in steps]
    if not values:
        return Markup("")
    frame = Frame(width=430, height=270, left=56, right=MILP_NAMES)
    latest = max(seconds for pair in lines.values() for steps in pair for seconds, _ in steps)
    y, name = _objectives([*values, *([] if best is None else [best])], frame.up)
    frame = replace(frame, left=max(frame.left, CHARACTER * max(len(text) for _, text in y.ticks) + BESIDE))
    x = logarithmic([EARLIEST, max(latest, 10 * EARLIEST)], frame.across, _milp_name)
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


def _milp_name(value: float) -> str:
    return f"{value:g}"


def _milp_steps(row: Row, part: int, best: float | None) -> Steps:
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
    frame = Frame(width=440, height=300, right=MILP_NAMES)
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

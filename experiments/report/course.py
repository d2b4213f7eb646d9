"""The course of link utilisation: how large a share of the links is busy, from start to end of a schedule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from experiments.report.panels import Panel
from experiments.report.results import Results
from experiments.report.series import Series
from experiments.report.svg import Frame, Point, Scale, group, linear, polyline, series_class, tag
from experiments.report.text import number, seconds, size
from experiments.report.utilisation import Usage, Usages

HUNDRED = 100.0
LONGEST = 3.0
"""Times the fastest: what takes longer runs out of the chart."""


def course_panel(results: Results, topology: str, collective: str, found: Usages) -> Panel | None:
    """Return busy links against time, a line a series (TACOS, Figs. 16b and 18); None without schedules.

    Time is in units of the fastest schedule's, as in the paper.
    """
    largest = max((usage.size_bytes for usage in found.shown), default=None)
    shown = [usage for usage in found.shown if usage.size_bytes == largest and usage.time > 0]
    if largest is None or not shown:
        return None
    fastest = min(usage.time for usage in shown)
    frame = Frame(height=250, right=30)
    longest = min(LONGEST, max(usage.time for usage in shown) / fastest)
    x = linear([longest], frame.across)
    foot, head = frame.up
    y = Scale(
        lambda v: foot + (head - foot) * v,
        tuple((share, f"{share:.0%}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)),
    )
    title = f"time, in units of the fastest ({seconds(fastest)} at {size(largest)})"
    parts = [frame.axes(x, y, title, "links busy")]
    parts += [_line(results.series[usage.series], usage, (x, y), (fastest, longest)) for usage in shown]
    chart = frame.chart(parts, f"links busy over time, {topology}, {collective}")
    return Panel(collective, results.collectives.index(collective), chart)


def _line(series: Series, usage: Usage, scales: tuple[Scale, Scale], times: tuple[float, float]) -> Markup:
    x, y = scales
    fastest, longest = times
    ends = np.linspace(0.0, usage.time / fastest, len(usage.course) + 1)
    points: list[Point] = []
    for begin, end, share in zip(ends[:-1], ends[1:], usage.course, strict=True):
        if begin < longest:
            high = y.place(float(share))
            points += [(x.place(float(begin)), high), (x.place(float(min(end, longest))), high)]
    if ends[-1] <= longest:
        points.append((points[-1][0], y.place(0.0)))
    mean = HUNDRED * float(usage.course.mean())
    tip = f"{series.label}\n{seconds(usage.time)}, links busy {number(mean, 3)}% of it on average"
    dash = " ".join(f"{length:g}" for length in series.dash) or None
    line = polyline(points, class_="line course", stroke_dasharray=dash, data_tip=tip)
    return group([line, tag("title", series.label)], class_=series_class(series))


def course_panels(results: Results, topology: str, found: Sequence[tuple[str, Usages]]) -> list[Panel]:
    """Return the panel of each collective that has one."""
    panels = (course_panel(results, topology, collective, usages) for collective, usages in found)
    return [panel for panel in panels if panel is not None]

"""Two sections on traffic: how many links are busy when, and what in-network multicast saves.

The course of link utilisation is the share of the links that is busy, from start to end of a schedule. What
switches that multicast or aggregate take off ranks and links is drawn in percent of what is without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from experiments.report.panels import Panel
from experiments.report.results import Results, Row
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


BAR = 19.0
"""Pixels from bar to bar."""
THICK = 11.0
"""Pixels: the height of a bar."""
HEAD = 20.0
"""Pixels for the name of a series, where there are several."""


@dataclass(frozen=True)
class Saving:
    """One measure of a schedule's traffic, in units of M, with its switches' help and without."""

    what: str
    less: float
    whole: float

    @property
    def percent(self) -> float:
        """What is left of it."""
        return 100 * self.less / self.whole if self.whole else 100.0


def traffic_panels(results: Results, topology: str, collectives: Sequence[str]) -> list[Panel]:
    """Return a panel for each collective that a schedule multicasts or aggregates in."""
    panels = []
    for collective in collectives:
        last: dict[int, Row] = {}
        for rows in results.of(topology, collective).values():
            last |= rows
        entries = [(results.series[key], _savings(row)) for key, row in sorted(last.items())]
        entries = [(series, savings) for series, savings in entries if savings]
        if entries:
            chart = _chart(entries, f"traffic with in-network multicast, {topology}, {collective}")
            panels.append(Panel(collective, results.collectives.index(collective), chart))
    return panels


def _savings(row: Row) -> list[Saving]:
    """Return the measures that a row has both ways; the schedule is the same at every size."""
    pairs = (
        ("busiest rank sends", row.rank_egress, row.rank_egress_unicast),
        ("... receives", row.rank_ingress, row.rank_ingress_unicast),
        ("all links carry", row.link_traffic, row.link_traffic_unicast),
    )
    return [Saving(what, a, b) for what, a, b in pairs if a is not None and b is not None]


def _chart(entries: Sequence[tuple[Series, Sequence[Saving]]], name: str) -> Markup:
    head = HEAD if len(entries) > 1 else 0.0
    height = sum(head + BAR * len(savings) for _, savings in entries)
    frame = Frame(height=height + 62, left=118, right=112, top=10)
    x = linear([100.0], frame.across, 4)
    parts = [frame.axes(x, Scale(float, ()), "% of the traffic without multicast and aggregation", "")]
    top = frame.top
    for series, savings in entries:
        marks = list(_bars(series, savings, x, top + head))
        if head:
            marks.append(tag("text", series.label, class_="label", x=frame.left, y=top + 13))
        parts.append(group(marks, class_=series_class(series)))
        top += head + BAR * len(savings)
    return frame.chart(parts, name)


def _bars(series: Series, savings: Sequence[Saving], x: Scale, top: float) -> Iterator[Markup]:
    """Yield a bar of what is left in the outline of what was."""
    start, whole = x.place(0.0), x.place(100.0)
    for place, saving in enumerate(savings):
        y = top + BAR * (place + 0.5)
        values = f"{number(saving.less, 3)} of {number(saving.whole, 3)} M"
        tip = f"{series.label}: {saving.what} {values} ({number(saving.percent - 100, 3)}%)"
        box = {"y": y - THICK / 2, "height": THICK, "data_tip": tip}
        yield tag("rect", class_="whole", x=start, width=whole - start, **box)
        yield tag("rect", class_="mark", x=start, width=x.place(saving.percent) - start, **box)
        yield tag("text", saving.what, class_="label end", x=start - 7, y=y + 3.5)
        yield tag("text", values, class_="label", x=whole + 7, y=y + 3.5)

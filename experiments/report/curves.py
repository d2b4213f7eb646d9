"""A chart of many curves over N: lines or dots, named at their right ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from experiments.report.series import LIGHT
from experiments.report.svg import Frame, Point, Scale, group, linear, logarithmic, polyline, spread, tag
from experiments.report.text import number

NAMES = 132.0
"""Pixels right of a chart for the names of its curves."""
WIDE, HIGH = 540.0, 330.0


@dataclass(frozen=True)
class Curve:
    """A named set of points.

    Parameters
    ----------
    name
        As it is written beside the chart.
    points
        (x, y), x growing.
    look
        Which colour, from 0; -1: a dashed grey line, for a bound.
    dots
        Whether the points are not joined.
    band
        (x, y) of a second edge: what lies between is filled. Empty: no band.
    """

    name: str
    points: tuple[Point, ...]
    look: int
    dots: bool = False
    band: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Axes:
    """The titles of a chart and its axes, and whether the axes are logarithmic."""

    title: str
    across: str
    up: str
    log_up: bool = False
    log_across: bool = False


def curves_chart(curves: Sequence[Curve], axes: Axes) -> Markup:
    """Return the chart; curves without points are left out."""
    shown = [curve for curve in curves if curve.points]
    if not shown:
        return Markup("")
    frame = Frame(width=WIDE, height=HIGH, left=66, right=NAMES)
    points = [point for curve in shown for point in (*curve.points, *curve.band)]
    scale = logarithmic if axes.log_across else linear
    x = scale([x for x, _ in points], frame.across)
    values = [y for _, y in points]
    y = logarithmic(values, frame.up) if axes.log_up else _near(values, frame.up)
    parts = [frame.axes(x, y, axes.across, axes.up)]
    parts += [_drawn(curve, x, y) for curve in shown]
    parts.append(_ends(shown, frame, x, y))
    return frame.chart(parts, axes.title)


def _near(values: Sequence[float], pixels: Point) -> Scale:
    """Return a linear scale from zero, or from 1 where all values are ratios a little above it."""
    if min(values) < 1 - 1e-9 or max(values) > 4:
        return linear(values, pixels)
    above = linear([value - 1 for value in values], pixels)
    return Scale(lambda value: above.place(value - 1), tuple((m + 1, number(m + 1)) for m, _ in above.ticks))


def _drawn(curve: Curve, x: Scale, y: Scale) -> Markup:
    places = [(x.place(a), y.place(b)) for a, b in curve.points]
    class_ = "bound" if curve.look < 0 else "line"
    mark = _dots(places) if curve.dots else polyline(places, class_=class_)
    edge = [(x.place(a), y.place(b)) for a, b in curve.band]
    band = [polyline([*places, *reversed(edge)], class_="band")] if edge else []
    return group([*band, mark], class_=_colour(curve), data_tip=curve.name)


def _dots(places: Sequence[Point]) -> Markup:
    return tag("path", class_="dots", d="".join(f"M{x:.1f} {y:.1f}h0" for x, y in places))


def _colour(curve: Curve) -> str:
    return "s" if curve.look < 0 else f"s c{curve.look % len(LIGHT)}"


def _ends(curves: Sequence[Curve], frame: Frame, x: Scale, y: Scale) -> Markup:
    """Return the names right of the curves' last points, spread so that none overlap."""
    foot, head = frame.up
    last = [(x.place(curve.points[-1][0]), y.place(curve.points[-1][1])) for curve in curves]
    places = spread([at[1] for at in last], head + 4, foot)
    edge = frame.across[1]
    parts = []
    for curve, (px, py), place in zip(curves, last, places, strict=True):
        leader = polyline([(px + 2, py), (max(px + 2, edge + 2), py), (edge + 9, place)], class_="leader")
        key = tag("path", class_="dots" if curve.dots else "line", d=f"M{edge + 12:.1f} {place:.1f}h7")
        if curve.look < 0:
            key = tag("path", class_="bound", d=f"M{edge + 11:.1f} {place:.1f}h9")
        elif curve.dots:
            key = tag("path", class_="dots", d=f"M{edge + 15:.1f} {place:.1f}h0")
        text = tag("text", curve.name, class_="label", x=edge + 23, y=place + 3.5)
        parts.append(group([*([] if curve.dots else [leader]), key, text], class_=_colour(curve)))
    return group(parts)

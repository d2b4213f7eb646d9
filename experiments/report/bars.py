"""The chart of a collective that ran at one size: a bar a method."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from experiments.report.results import Row
from experiments.report.series import Series
from experiments.report.svg import Frame, Scale, group, linear, polyline, series_class, tag
from experiments.report.text import describe, number

ROW = 22.0
"""Pixels from bar to bar."""
THICK = 12.0
"""Pixels: the height of a bar."""
NAMES = 132.0
"""Pixels left of the bars for the methods' names."""
NUMBERS = 44.0
"""Pixels right of them for the longest bar's number."""


def bars(
    entries: Sequence[tuple[Series, Row]], limit: tuple[float, str] | None, name: str, size: str
) -> Markup:
    """Return a bar of algbw a method, and the limit as a dashed line.

    Parameters
    ----------
    entries
        Rows that have an algbw, with their series.
    limit
        The algbw in GB/s that no schedule exceeds, and its tooltip; None where it is not known.
    name
        What is read to those who can't see it.
    size
        M, as text.
    """
    frame = Frame(height=ROW * len(entries) + 78, left=NAMES, right=NUMBERS, top=26)
    values = [row.algbw_gbps or 0.0 for _, row in entries]
    x = linear([*values, limit[0]] if limit else values, frame.across)
    parts = [frame.axes(x, Scale(float, ()), f"algbw at {size} (GB/s)", "")]
    middles = [frame.top + ROW * (place + 0.5) for place in range(len(entries))]
    parts += [_bar(series, row, x, y) for (series, row), y in zip(entries, middles, strict=True)]
    parts += _limit(*limit, x, frame) if limit else []
    return frame.chart(parts, f"algbw, {name}")


def _bar(series: Series, row: Row, x: Scale, y: float) -> Markup:
    start, end = x.place(0.0), x.place(row.algbw_gbps or 0.0)
    tip = describe(series.label, row)
    parts = [
        tag("text", series.brief, class_="label end", x=start - 18, y=y + 3.5),
        tag("path", class_="mark", d=series.marker, transform=f"translate({start - 9:.1f} {y:.1f})"),
        tag(
            "rect", class_="mark", x=start, y=y - THICK / 2, width=end - start, height=THICK, data_tip=tip
        ),
        tag("text", number(row.algbw_gbps or 0.0), class_="label", x=end + 5, y=y + 3.5),
    ]  # fmt: skip
    return group(parts, class_=series_class(series))


def _limit(value: float, tip: str, x: Scale, frame: Frame) -> list[Markup]:
    at = x.place(value)
    line = polyline([(at, frame.up[0]), (at, frame.top - 6)], class_="bound", data_tip=tip)
    text = tag("text", f"limit {number(value)}", class_="label mid", x=at, y=frame.top - 11)
    return [group([line, text], class_="bound-name")]

"""The charts of a collective: algbw against size, T_L against T_B, synthesis time against gap.

A collective that ran at one size has bars instead, a bar a method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from markupsafe import Markup

from experiments.report.results import Results, Row, is_tb_optimal
from experiments.report.series import LONGEST, Series
from experiments.report.svg import (
    LINE,
    Frame,
    Point,
    Scale,
    from_zero,
    group,
    linear,
    log_with_zero,
    logarithmic,
    marker,
    place_labels,
    polyline,
    series_class,
    sizes_scale,
    spread,
    tag,
)
from experiments.report.text import describe, microseconds, number, percent, seconds, size

LABEL_MARGIN = 116.0
"""Pixels right of an algbw chart for the names of its lines."""
FASTEST_SHOWN = 1e-4
"""Seconds: shorter synthesis times are drawn here; the clock says nothing about them."""
BESIDE = 8.0
"""Pixels between markers that share a point ..."""
ABREAST = 24.0
"""... which overlap rather than be further apart than this."""

Cells = Mapping[float, Mapping[int, Row]]
"""The rows of a panel: size to series to row."""


@dataclass(frozen=True)
class Panel:
    """A chart, and what is to be said of it or instead of it.

    Parameters
    ----------
    collective
        What it shows.
    number
        The place of the collective in the run, which the page's filter goes by.
    lines
        Which lines it has that the section explains: ``frontier``, ``least``.
    """

    collective: str
    number: int
    chart: Markup
    note: str = ""
    lines: frozenset[str] = frozenset()


def algbw_panel(results: Results, topology: str, collective: str) -> Panel:
    """Return algbw against size: a line a series and the limit, linear and logarithmic; bars for one size."""
    cells = results.of(topology, collective)
    which = results.collectives.index(collective)
    lines = {
        series.number: [
            (s, row) for s, rows in cells.items() if (row := rows.get(series.number)) and _has_algbw(row)
        ]
        for series in results.series
    }
    lines = {key: rows for key, rows in lines.items() if rows}
    if not lines:
        return Panel(collective, which, Markup(""), "No method has a time.")
    if len(cells) == 1:
        return Panel(collective, which, _bars(results, lines, _bound_line(cells), (topology, collective)))
    charts = (
        _algbw_chart(results, lines, _bound_line(cells), (topology, collective), kind)
        for kind in ("linear", "log")
    )
    return Panel(collective, which, Markup("").join(charts))


def _has_algbw(row: Row) -> bool:
    return row.ok and row.algbw_gbps is not None and row.algbw_gbps > 0


def _bound_line(cells: Cells) -> list[tuple[float, float, str]]:
    """Return size, the algbw that no schedule exceeds in GB/s, and a tooltip."""
    line = []
    for bytes_, rows in cells.items():
        row = next((row for row in rows.values() if row.bound_us), None)
        if row is not None and row.bound_us:
            best = bytes_ / row.bound_us / 1e3
            kind = f" ({row.bound_kind})" if row.bound_kind else ""
            proof = f"lower bound on time {microseconds(row.bound_us)}{kind}"
            line.append((bytes_, best, f"limit, {size(bytes_)}\nalgbw {number(best)} GB/s\n{proof}"))
    return line


def _bars(
    results: Results,
    lines: Mapping[int, Sequence[tuple[float, Row]]],
    bound: Sequence[tuple[float, float, str]],
    title: tuple[str, str],
) -> Markup:
    entries = [(results.series[key], row) for key, line in lines.items() for _, row in line]
    limit = next(((best, tip) for _, best, tip in bound), None)
    return bars(entries, limit, ", ".join(title), size(entries[0][1].size_bytes))


def _algbw_chart(
    results: Results,
    lines: Mapping[int, Sequence[tuple[float, Row]]],
    bound: Sequence[tuple[float, float, str]],
    title: tuple[str, str],
    kind: str,
) -> Markup:
    frame = Frame(height=max(280.0, LINE * (len(lines) + 1) + 70), left=52, right=LABEL_MARGIN)
    values = [row.algbw_gbps or 0.0 for line in lines.values() for _, row in line] + [b for _, b, _ in bound]
    sizes = [s for line in lines.values() for s, _ in line] + [s for s, _, _ in bound]
    x = sizes_scale(sizes, frame.across)
    y = linear(values, frame.up) if kind == "linear" else logarithmic(values, frame.up)
    parts = [frame.axes(x, y, "size M", "algbw (GB/s)"), *_bound_marks(bound, x, y)]
    parts += [
        _line_marks(results.series[key], [((x.place(s), y.place(r.algbw_gbps or 0)), r) for s, r in line])
        for key, line in lines.items()
    ]
    ends = [(results.series[key], line[-1][0], line[-1][1].algbw_gbps or 0.0) for key, line in lines.items()]
    parts.append(_end_labels(ends, bound, frame, x, y))
    label = f"algbw against size, {title[0]}, {title[1]}, {kind} scale"
    return frame.chart(parts, label, f"y-{kind}")


def _bound_marks(bound: Sequence[tuple[float, float, str]], x: Scale, y: Scale) -> Iterator[Markup]:
    points = [(x.place(s), y.place(value)) for s, value, _ in bound]
    if points:
        yield polyline(points, class_="bound")
    for (px, py), (_, _, tip) in zip(points, bound, strict=True):
        yield tag("circle", class_="bound-dot", cx=px, cy=py, r=2.2, data_tip=tip)


def _line_marks(series: Series, line: Sequence[tuple[Point, Row]]) -> Markup:
    dash = " ".join(f"{length:g}" for length in series.dash) or None
    path = polyline([point for point, _ in line], class_="line", stroke_dasharray=dash)
    marks = [marker(series, point, describe(series.label, row)) for point, row in line]
    return group([path, *marks], class_=series_class(series))


def _end_labels(
    ends: Sequence[tuple[Series, float, float]],
    bound: Sequence[tuple[float, float, str]],
    frame: Frame,
    x: Scale,
    y: Scale,
) -> Markup:
    """Return the names right of the lines' last points, spread so that none overlap."""
    names = [(s.brief, s.marker, series_class(s), (x.place(v), y.place(w))) for s, v, w in ends]
    if bound:
        last = (x.place(bound[-1][0]), y.place(bound[-1][1]))
        names.append(("limit", "", "bound-name", last))
    foot, head = frame.up
    places = spread([at[1] for *_, at in names], head, foot)
    edge = frame.across[1]
    parts = []
    for (name, mark, class_, (px, py)), place in zip(names, places, strict=True):
        leader = polyline([(px + 6, py), (edge + 2, py), (edge + 11, place)], class_="leader")
        where = f"translate({edge + 17:.1f} {place:.1f}) scale(0.8)"
        text = tag("text", name, class_="label", x=edge + (24 if mark else 13), y=place + 3.5)
        parts.append(
            group([leader, tag("path", class_="mark", d=mark, transform=where), text], class_=class_)
        )
    return group(parts)


def pareto_panel(results: Results, topology: str, collective: str, least: Fraction | None) -> Panel:
    """Return T_B against T_L of the step schedules, with the frontier and the least T_B there can be."""
    which = results.collectives.index(collective)
    rows = [row for cells in results.of(topology, collective).values() for row in cells.items()]
    points: dict[Point, dict[int, Row]] = {}
    for key, row in rows:
        if row.ok and row.tl_steps is not None and row.tb_factor is not None:
            points.setdefault((row.tl_steps, row.tb_factor), {}).setdefault(key, row)
    without = _left_out(results, [row for _, row in rows])
    if not points:
        return Panel(collective, which, Markup(""), f"No step schedule with a T_B. {without}".strip())
    chart = _pareto_chart(results, points, least, f"T_B against T_L, {topology}, {collective}")
    lines = {"frontier": len(_frontier(list(points))) > 1, "least": least is not None}
    return Panel(collective, which, chart, without, frozenset(name for name, drawn in lines.items() if drawn))


def _left_out(results: Results, rows: Sequence[Row]) -> str:
    """Return a sentence on the series that have a time but no T_L or T_B, and why; empty without any."""
    reasons: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.ok and row.clock and (row.tl_steps is None or row.tb_factor is None):
            reason = "no T_B: links differ" if row.tl_steps is not None else f"{row.clock} clock: no steps"
            label = results.series[results.number[row.method, row.options]].label
            reasons.setdefault(reason, {})[label] = None
    texts = [f"{', '.join(labels)} ({reason})" for reason, labels in reasons.items()]
    return f"Left out: {'; '.join(texts)}." if texts else ""


def _pareto_chart(
    results: Results, points: Mapping[Point, Mapping[int, Row]], least: Fraction | None, name: str
) -> Markup:
    frame = Frame()
    x = from_zero([tl for tl, _ in points], frame.across)
    y = from_zero([tb for _, tb in points] + ([float(least)] if least else []), frame.up)
    spots = {point: (x.place(point[0]), y.place(point[1])) for point in points}
    frontier = [spots[point] for point in _frontier(list(points))]
    parts = [frame.axes(x, y, "T_L (α)", "T_B (M/B)")]
    lines = []
    if least:
        at = y.place(float(least))
        tip = f"bandwidth bound: T_B is at least {least} M/B"
        parts.append(polyline([(frame.across[0], at), (frame.across[1], at)], class_="bound", data_tip=tip))
        lines.append((frame.across[0], at - 1, frame.across[1], at + 1))
    if len(frontier) > 1:
        parts.append(polyline(_stairs(frontier), class_="frontier"))
    parts += [_coincident(results, rows, spots[point]) for point, rows in points.items()]
    texts = [_point_name(results, rows, least) for rows in points.values()]
    reach = [_abreast(rows) / 2 for rows in points.values()]
    looks = [series_class(results.series[min(rows)]) if len(rows) == 1 else "" for rows in points.values()]
    parts += place_labels(list(spots.values()), texts, frame, lines, reach, looks)
    return frame.chart(parts, name)


def _point_name(results: Results, rows: Mapping[int, Row], least: Fraction | None) -> str:
    """Return the names of the series at a point, with a check where its T_B is the least possible."""
    check = " ✓" if any(is_tb_optimal(row, least) for row in rows.values()) else ""
    return _names([results.series[key] for key in rows]) + check


def _frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that no other equals or betters in both coordinates, by T_L."""
    kept: list[tuple[float, float]] = []
    for point in sorted(points):
        if not kept or point[1] < kept[-1][1]:
            kept.append(point)
    return kept


def _stairs(points: Sequence[Point]) -> list[Point]:
    corners = [(after[0], before[1]) for before, after in pairwise(points)]
    return [points[0], *(p for pair in zip(corners, points[1:], strict=True) for p in pair)]


def _names(every: Sequence[Series]) -> str:
    whole = ", ".join(series.label for series in every)
    if len(every) > 1 and len(whole) <= LONGEST:
        return whole
    return every[0].brief + (f" + {len(every) - 1} more" if len(every) > 1 else "")


def _abreast(rows: Mapping[int, Row]) -> float:
    """Return how far apart the first and the last of the markers at one point stand."""
    return min(BESIDE * (len(rows) - 1), ABREAST)


def _coincident(results: Results, rows: Mapping[int, Row], at: Point) -> Markup:
    """Return the markers of series that share a point, side by side so that each is seen."""
    marks = []
    step = _abreast(rows) / max(1, len(rows) - 1)
    for place, (key, row) in enumerate(rows.items()):
        series = results.series[key]
        beside = (at[0] + step * (place - (len(rows) - 1) / 2), at[1])
        mark = marker(series, beside, describe(series.label, row))
        marks.append(group([mark], class_=series_class(series)))
    return group(marks)


def effort_panel(results: Results, topology: str, collective: str) -> Panel:
    """Return the gap against the synthesis time: a point a series, a whisker over its sizes.

    The panels of a topology have the same axes.
    """
    which = results.collectives.index(collective)
    runs = _efforts(results.of(topology, collective))
    if not runs:
        return Panel(collective, which, Markup(""), "No method has both a synthesis time and a gap.")
    frame = Frame()
    of_all = [_efforts(results.of(topology, each)) for each in results.collectives]
    every = [row for each in of_all for rows in each.values() for row in rows]
    x = logarithmic([_shown(row.synth_s) for row in every], frame.across, seconds)
    y = log_with_zero([_gap(row) for row in every], frame.up, lambda value: f"{number(value)}%")
    spots = {key: (x.place(_shown(rows[-1].synth_s)), y.place(_gap(rows[-1]))) for key, rows in runs.items()}
    parts = [frame.axes(x, y, "synthesis time", "gap")]
    spans = {key: _span(rows, y) for key, rows in runs.items()}
    parts += [_whisker(results.series[key], rows[-1], spots[key], spans[key]) for key, rows in runs.items()]
    lines = [(spots[key][0] - 1, low, spots[key][0] + 1, high) for key, (low, high) in spans.items()]
    names = [results.series[key].brief for key in runs]
    looks = [series_class(results.series[key]) for key in runs]
    parts += place_labels(list(spots.values()), names, frame, lines, looks=looks)
    name = f"gap against synthesis time, {topology}, {collective}"
    return Panel(collective, which, frame.chart(parts, name))


def _efforts(cells: Cells) -> dict[int, list[Row]]:
    """Return the rows of each series that have a gap and a synthesis time, sizes increasing."""
    runs: dict[int, list[Row]] = {}
    for rows in cells.values():
        for key, row in rows.items():
            if row.ok and row.synth_s is not None and row.gap is not None:
                runs.setdefault(key, []).append(row)
    return runs


def _shown(synth_s: float | None) -> float:
    return max(synth_s or 0.0, FASTEST_SHOWN)


def _gap(row: Row) -> float:
    """Return the gap in percent; rounding errors of an optimal one are zero."""
    text = percent(row.gap)
    return 0.0 if text == "0" else max(0.0, 100 * (row.gap or 0.0))


def _span(rows: Sequence[Row], y: Scale) -> Point:
    """Return the pixels of the highest and the lowest gap of all sizes."""
    heights = [y.place(_gap(row)) for row in rows]
    return (min(heights), max(heights))


def _whisker(series: Series, row: Row, at: Point, span: Point) -> Markup:
    """Return the marker of the row of the largest size, and a line over the gaps of all sizes."""
    line = tag("line", class_="whisker", x1=at[0], x2=at[0], y1=span[0], y2=span[1])
    parts = [line] if span[1] - span[0] > 1 else []
    parts.append(marker(series, at, describe(series.label, row)))
    return group(parts, class_=series_class(series))


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

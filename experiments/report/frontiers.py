"""T_L against T_B of all networks of a run that share N and degree: their Pareto frontier and its bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from expansions.finder import bandwidth_factor
from experiments.report.panels import Panel
from experiments.report.results import Results, Row
from experiments.report.svg import (
    Frame,
    Point,
    Scale,
    group,
    linear,
    place_labels,
    polyline,
    series_class,
    tag,
)
from experiments.report.text import number
from schedules.collective import Kind
from schedules.cost import moore_optimal_steps
from topologies.errors import TuttiError
from topologies.text import parse_topology

SHOWN = (Kind.ALLGATHER.value, Kind.REDUCE_SCATTER.value)
"""Collectives for which Moore's bound and (N - 1)/N hold as they are."""
LONGEST_NAME = 34
"""Characters of a network's name beside its point."""


class Place(NamedTuple):
    """A network with a method's T_L and T_B."""

    topology: str
    series: int
    row: Row


def frontier_panels(results: Results) -> list[Panel]:
    """Return a chart for every N, degree and collective in which at least two networks have a T_B."""
    degrees = {name: _degree(name) for name in results.topologies}
    found: dict[tuple[int, int, str], dict[tuple[str, int], Place]] = {}
    for (topology, collective, _), cells in results.cases.items():
        degree = degrees[topology]
        for key, row in cells.items() if degree is not None and collective in SHOWN else ():
            if row.ok and row.tl_steps is not None and row.tb_factor is not None and row.nodes is not None:
                group_key = (int(row.nodes), degree or 0, collective)
                found.setdefault(group_key, {}).setdefault((topology, key), Place(topology, key, row))
    return [
        _panel(results, key, list(places.values()))
        for key, places in sorted(found.items(), key=lambda entry: entry[0][:2])
        if len({place.topology for place in places.values()}) > 1
    ]


def _degree(name: str) -> int | None:
    try:
        return parse_topology(name).degree
    except (TuttiError, OSError):
        return None


def _panel(results: Results, key: tuple[int, int, str], places: list[Place]) -> Panel:
    nodes, degree, collective = key
    title = f"{collective}, {nodes:,} nodes of degree {degree}"
    return Panel(title, results.collectives.index(collective), _chart(results, key, places, title))


def _chart(results: Results, key: tuple[int, int, str], places: list[Place], title: str) -> Markup:
    frame = Frame(width=540, height=320, right=26)
    steps, factor = moore_optimal_steps(*key[:2]), float(bandwidth_factor(key[0]))
    spots = [_values(place.row) for place in places]
    x = _steps([steps, *(int(tl) for tl, _ in spots)], frame)
    y = _heights([factor, *(tb for _, tb in spots)], frame)
    at = [(x.place(tl), y.place(tb)) for tl, tb in spots]
    parts = [frame.axes(x, y, "T_L (α)", "T_B (M/B)"), *_bounds(steps, factor, x, y, frame)]
    line = [at[spots.index(best)] for best in _frontier(spots)]
    parts += [polyline(_stairs(line), class_="frontier")] if len(line) > 1 else []
    parts += [_mark(results, place, point) for place, point in zip(places, at, strict=True)]
    here: dict[Point, dict[str, None]] = {}
    for place, point in zip(places, at, strict=True):
        here.setdefault(point, {})[_name(place.topology)] = None
    labels = [_label(list(names)) for names in here.values()]
    bounds = [[(x.place(steps), frame.up[0]), (x.place(steps), frame.up[1])]]
    bounds.append([(frame.across[0], y.place(factor)), (frame.across[1], y.place(factor))])
    boxes = [box for way in (_stairs(line), *bounds) for box in _boxes(way)]
    parts += place_labels(list(here), labels, frame, boxes)
    return frame.chart(parts, f"T_B against T_L, {title}")


def _values(row: Row) -> Point:
    return (row.tl_steps or 0.0, row.tb_factor or 0.0)


def _steps(values: list[int], frame: Frame) -> Scale:
    """Return a scale of whole steps, from 0 to one more than the largest."""
    (left, right), last = frame.across, max(values) + 1
    stride = math.ceil(last / 8)
    ticks = tuple((float(mark), str(mark)) for mark in range(0, last + 1, stride))
    return Scale(lambda value: left + (right - left) * value / last, ticks)


def _heights(values: list[float], frame: Frame) -> Scale:
    """Return a scale that starts a little below the bound, ticked at round numbers."""
    low, high = min(values), max(values)
    room = max((high - low) * 0.12, 0.01)
    low, high = low - room, high + room
    step = linear([high - low], frame.up).ticks[1][0]
    marks = [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    foot, head = frame.up
    ticks = tuple((mark, number(mark)) for mark in marks)
    return Scale(lambda value: foot + (head - foot) * (value - low) / (high - low), ticks)


def _bounds(steps: int, factor: float, x: Scale, y: Scale, frame: Frame) -> Iterator[Markup]:
    foot, head = frame.up
    left, right = frame.across
    moore, height = x.place(steps), y.place(factor)
    tip = f"Moore bound: T_L is at least {steps} α on any network of this N and degree"
    yield polyline([(moore, foot), (moore, head)], class_="bound", data_tip=tip)
    tip = f"T_B is at least {number(factor)} M/B on any network of this N"
    yield polyline([(left, height), (right, height)], class_="bound", data_tip=tip)


def _mark(results: Results, place: Place, at: Point) -> Markup:
    series, row = results.series[place.series], place.row
    tip = f"{_name(place.topology, 200)}, {series.label}\nT_L {row.tl_steps:g} α, T_B {row.tb_text} M/B"
    where = f"translate({at[0]:.1f} {at[1]:.1f})"
    path = tag("path", class_="mark", d=series.marker, transform=where, data_tip=tip)
    return group([path], class_=series_class(series))


def _name(topology: str, longest: int = LONGEST_NAME) -> str:
    """Return a network's name without its link parameters.

    Examples
    --------
    >>> _name("L^3(C(16,{3,4}))?bandwidth=25Gb/s&alpha=10us")
    'L^3(C(16,{3,4}))'
    """
    plain = topology.partition("?")[0]
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def _label(names: list[str]) -> str:
    return names[0] + (f" + {len(names) - 1} more" if len(names) > 1 else "")


def _frontier(points: list[Point]) -> list[Point]:
    kept: list[Point] = []
    for point in sorted(points):
        if not kept or point[1] < kept[-1][1]:
            kept.append(point)
    return kept


def _stairs(points: list[Point]) -> list[Point]:
    corners = [(after[0], before[1]) for before, after in pairwise(points)]
    return [points[0], *(p for pair in zip(corners, points[1:], strict=True) for p in pair)]


def _boxes(way: list[Point]) -> list[tuple[float, float, float, float]]:
    """Return thin boxes around a line of level and upright parts, for labels to keep clear of."""
    return [
        (min(a[0], b[0]) - 1, min(a[1], b[1]) - 1, max(a[0], b[0]) + 1, max(a[1], b[1]) + 1)
        for a, b in pairwise(way)
    ]

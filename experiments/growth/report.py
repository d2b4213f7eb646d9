"""The page of ``tutti find --up-to``: how the best networks of a degree grow (Figs 3.3, 3.7, A.4, A.7).

A chart has many curves over N, lines or dots, named at their right ends.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from expansions.finder import bandwidth_factor
from expansions.prediction import predict
from experiments.growth import baselines as plain
from experiments.growth.baselines import Workload, least_hops
from experiments.growth.frontiers import BOTH_WAYS, KAUTZ, FrontierRow, read_frontiers
from experiments.growth.study import Growth
from experiments.report.page import palette, source, template
from experiments.report.series import LIGHT
from experiments.report.svg import Frame, Point, Scale, group, linear, logarithmic, polyline, spread, tag
from experiments.report.text import number
from schedules.cost import moore_optimal_steps
from topologies.families.expressions import Base, Expression, Line, parse_notation
from topologies.files import replacing

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


PAGE, TIMES = "growth.html", "times.csv"
"""Not what every kind's report is called, which stays where no row changed: these depend on sizes too."""
COLOURED = 4
"""Ways of building that have a colour of their own; the rarer ones share the next."""
OTHERS = "rest"
BOTH = "best bidirectional"
LARGEST_LINE = 100_000
"""Nodes of the largest line graph in the chart of Fig. 3.3."""


class Time(NamedTuple):
    """A row of ``times.csv``: what a network of N nodes takes; None where it has no value."""

    nodes: int
    size_bytes: float
    network: str
    topology: str
    allreduce_us: float
    all_to_all_low_us: float | None
    all_to_all_high_us: float | None


def write_page(directory: Path, growth: Growth, workloads: Sequence[Workload]) -> Path:
    """Write ``growth.html`` and ``times.csv`` beside the frontiers and return the page's path.

    Raises
    ------
    InputError, OSError
        If the frontiers can't be read or the files not written.
    """
    every = read_frontiers(directory)
    rows = [row for row in every if row.search == growth.search]
    both = [] if growth.bidirectional else [row for row in every if row.search == BOTH_WAYS]
    kautz = sorted(row for row in every if row.search == KAUTZ)
    times = {
        workload: [*times_of(rows, growth.degree, workload), *times_both_ways(both, workload)]
        for workload in workloads
    }
    with replacing(directory / TIMES) as draft, draft.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Time._fields)
        writer.writerows(chain(*times.values()))
    with replacing(directory / PAGE) as draft:
        draft.write_text(_render(rows, growth, kautz, times), encoding="utf-8")
    return directory / PAGE


def times_both_ways(rows: Sequence[FrontierRow], workload: Workload) -> Iterator[Time]:
    """Yield the least allreduce of each N on these frontiers, of networks whose links go both ways."""
    for nodes, of_one in groupby((row for row in rows if row.points), key=lambda row: row.nodes):
        best = min(of_one, key=lambda row: workload.allreduce_us(row.tl_steps, row.tb_factor))
        allreduce = workload.allreduce_us(best.tl_steps, best.tb_factor)
        yield Time(nodes, float(workload.size), BOTH, best.topology, allreduce, None, None)


def _known(
    workload: Workload, nodes: int, name: str, text: str, allreduce: float, *factors: float | Fraction
) -> Time:
    """Return the times of one network; `factors`: of an all-to-all, one if exact, else an interval."""
    low, high = ([workload.all_to_all_us(f) for f in factors] * 2)[:2] if factors else (None, None)
    return Time(nodes, float(workload.size), name, text, allreduce, low, high)


def times_of(rows: Sequence[FrontierRow], degree: int, workload: Workload) -> Iterator[Time]:
    """Yield the times of every N: the finder's best, first and last networks, the baselines, the bound."""
    for nodes, of_one in groupby(rows, key=lambda row: row.nodes):
        front = [row for row in of_one if row.points]
        known = partial(_known, workload, nodes)
        if front:
            best = min(front, key=lambda row: workload.allreduce_us(row.tl_steps, row.tb_factor))
            ends = {"best": best, "least T_L": front[0], "least T_B": front[-1]}
            for name, row in ends.items():
                allreduce = workload.allreduce_us(row.tl_steps, row.tb_factor)
                spans = [f for f in (row.all_to_all_low, row.all_to_all_high) if f is not None]
                yield known(name, row.topology, allreduce, *spans)
        if degree == plain.DEGREE and nodes > plain.DEGREE:
            yield from _baselines(nodes, workload, known)
        steps, factor = moore_optimal_steps(nodes, degree), bandwidth_factor(nodes)
        hops = Fraction(least_hops(nodes, degree), nodes)
        yield known("bound", "", workload.allreduce_us(steps, factor), hops)


def _baselines(nodes: int, workload: Workload, known: Callable[..., Time]) -> Iterator[Time]:
    sides = plain.torus_sides(nodes)
    if sides is not None:
        name = f"torus:{sides[0]}x{sides[1]}"
        yield known("torus", name, plain.torus_allreduce_us(sides, workload), plain.torus_all_to_all(sides))
    rings = plain.rings_all_to_all(nodes)
    yield known("shifted rings", "", plain.rings_allreduce_us(nodes, workload), rings)
    tree = plain.double_tree_all_to_all(nodes)
    yield known("double binary tree", "", plain.double_tree_allreduce_us(nodes, workload), tree)


def _render(
    rows: Sequence[FrontierRow],
    growth: Growth,
    kautz: Sequence[FrontierRow],
    times: Mapping[Workload, Sequence[Time]],
) -> str:
    return template("growth.html").render(
        style=source("report.css") + palette(),
        growth=growth,
        frontiers=len({row.nodes for row in rows if row.points}),
        networks=sum(row.points > 0 for row in rows),
        sections=[(workload, _section(rows, own)) for workload, own in times.items()],
        all_to_all=_all_to_all_chart(next(iter(times.values()))),
        kautz=_kautz_chart(kautz),
        lines=_lines_chart(growth.degree),
        baselines=growth.degree == plain.DEGREE,
    )


class _Section(NamedTuple):
    best: Markup
    counts: list[tuple[str, int]]
    allreduce: Markup


def _section(rows: Sequence[FrontierRow], times: Sequence[Time]) -> _Section:
    best = {time.nodes: time for time in times if time.network == "best"}
    built = {(row.nodes, row.topology): row.family for row in rows}
    family = {nodes: built[nodes, time.topology] for nodes, time in best.items()}
    counts = Counter(family.values()).most_common()
    return _Section(_best_chart(times, family), counts, _allreduce_chart(times))


def _best_chart(times: Sequence[Time], family: Mapping[int, str]) -> Markup:
    """Return Fig. A.4: the least allreduce time of each N over the bound, coloured by what attains it."""
    bound = {time.nodes: time.allreduce_us for time in times if time.network == "bound"}
    order = [name for name, _ in Counter(family.values()).most_common()]
    named = order if len(order) <= COLOURED + 1 else order[:COLOURED]
    points: dict[str, list[Point]] = {name: [] for name in (*named, OTHERS, BOTH)}
    for time in times:
        if time.network == "best":
            name = family[time.nodes] if family[time.nodes] in named else OTHERS
            points[name].append((float(time.nodes), time.allreduce_us / bound[time.nodes]))
        elif time.network == BOTH:
            points[BOTH].append((float(time.nodes), time.allreduce_us / bound[time.nodes]))
    shown = [(name, tuple(dots)) for name, dots in points.items() if dots]
    curves = [Curve(name, dots, look, dots=True) for look, (name, dots) in enumerate(shown)]
    curves.sort(key=lambda curve: curve.name != BOTH)  # beneath the others: often the best is one of these
    return curves_chart(curves, Axes("least allreduce time", "N", "allreduce over the bound"))


def _curve(
    times: Sequence[Time], network: str, look: int, column: str = "allreduce_us", dots: bool = False
) -> Curve:
    values = [(float(time.nodes), getattr(time, column)) for time in times if time.network == network]
    points = tuple((nodes, value) for nodes, value in values if value)
    return Curve("finder's best" if network == "best" else network, points, look, dots)


def _allreduce_chart(times: Sequence[Time]) -> Markup:
    """Return Fig. 3.7, left."""
    names = ("best", "torus", "shifted rings", "double binary tree")
    curves = [_curve(times, name, look, dots=name in ("best", "torus")) for look, name in enumerate(names)]
    axes = Axes("allreduce against N", "N", "allreduce (us)", log_up=True)
    return curves_chart([*curves, _curve(times, "bound", -1)], axes)


def _all_to_all_chart(times: Sequence[Time]) -> Markup:
    """Return Fig. 3.7, right: a band of least T_L holds the optimum; dots where a curve jumps."""
    low, high = (_curve(times, "least T_L", 0, f"all_to_all_{end}_us") for end in ("low", "high"))
    curves = [replace(low, band=high.points)]
    for look, name in enumerate(("least T_B", "torus", "shifted rings", "double binary tree"), 1):
        curves.append(_curve(times, name, look, "all_to_all_low_us", dots=name != "shifted rings"))
    curves.append(_curve(times, "bound", -1, "all_to_all_low_us"))
    return curves_chart(curves, Axes("all-to-all against N", "N", "all-to-all (us)", log_up=True))


def _kautz_chart(rows: Sequence[FrontierRow]) -> Markup:
    """Return Fig. A.7: T_B of the generalized Kautz graphs over the least there is, degrees growing."""
    curves = []
    for look, (degree, of_one) in enumerate(groupby(rows, key=lambda row: row.degree)):
        ratios = ((float(row.nodes), float(row.tb_factor / bandwidth_factor(row.nodes))) for row in of_one)
        curves.append(Curve(f"d = {degree}", tuple(ratios), look, dots=True))
    return curves_chart(curves, Axes("T_B of generalized Kautz graphs", "N", "T_B / T_B*"))


def _lines_chart(degree: int) -> Markup:
    """Return Fig. 3.3: what line graphs of Moore and BW-optimal bases keep of their T_B."""
    if degree == 1:
        return Markup("")  # line graphs of rings are rings
    bases: dict[str, Expression] = {
        f"K_{{{degree},{degree}}}": Base("complete_bipartite", (degree,)),
        f"K_{degree + 1}": Base("complete", (degree + 1,)),
        "directed circulant": Base("directed_circulant", (degree,)),
    }
    if degree == plain.DEGREE:
        bases["H(2,3)"] = parse_notation("H(2,3)")
    curves = [Curve(name, tuple(_lines(base)), look) for look, (name, base) in enumerate(bases.items())]
    return curves_chart(curves, Axes("T_B of line graphs", "N", "T_B / T_B*", log_across=True))


def _lines(base: Expression) -> Iterator[tuple[float, float]]:
    cost, times = predict(base), 0
    while cost.nodes <= LARGEST_LINE:
        yield float(cost.nodes), float(cost.tb / bandwidth_factor(cost.nodes))
        times += 1
        cost = predict(Line(base, times))

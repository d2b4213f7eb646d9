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
from typing import Any, NamedTuple

import altair as alt
import pandas as pd
from markupsafe import Markup

from tutti.expansions.finder import bandwidth_factor
from tutti.expansions.prediction import predict
from tutti.experiments.growth import baselines as plain
from tutti.experiments.growth.baselines import CostParameters, least_hops
from tutti.experiments.growth.frontiers import BOTH_WAYS, KAUTZ, FrontierRow, read_frontiers
from tutti.experiments.growth.study import GrowthSearch
from tutti.experiments.report.charts import (
    COLOUR,
    MUTED,
    OPACITY,
    Figure,
    bounding,
    named_rows,
    page_charts,
    specs_of,
)
from tutti.experiments.report.page import render
from tutti.experiments.report.series import Series
from tutti.experiments.report.tables import TEXTS, PageBlock, Panel, Section, explained
from tutti.schedules.cost import moore_optimal_steps
from tutti.topologies.families.expressions import Base, Expression, LineGraph, parse_notation
from tutti.topologies.files import replacing

Point = tuple[float, float]


@dataclass(frozen=True)
class Curve:
    """A named set of points.

    Parameters
    ----------
    name
        As the legend has it.
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


class Charts:
    """The charts of a page, each with axes of its own."""

    def __init__(self) -> None:
        """Begin without any."""
        self.specs: dict[str, Any] = {}

    def of(self, curves: Sequence[Curve], axes: Axes) -> Figure | None:
        """Return the chart of some curves; those without points are left out, None without any."""
        shown = [curve for curve in curves if curve.points]
        if not shown:
            return None
        colours = sorted({curve.look: curve.name for curve in shown if curve.look >= 0}.items())
        series = [Series(look, name, "", "", name) for look, name in colours]
        page = page_charts(specs_of({axes.title: _spec(axes)}), series)
        self.specs |= page["specs"]
        return Figure(axes.title, axes.title, data=pd.DataFrame(chain.from_iterable(map(_rows, shown))))

    @property
    def page(self) -> dict[str, Any]:
        """What the page draws them from."""
        return page_charts("{}", ()) | {"specs": self.specs}


def _rows(curve: Curve) -> Iterator[dict[str, Any]]:
    kind = "bound" if curve.look < 0 else "dots" if curve.dots else "line"
    edge: list[float | None] = [value for _, value in curve.band]
    edge = edge or [None] * len(curve.points)
    for (across, up), other in zip(curve.points, edge, strict=True):
        yield {"x": across, "y": up, "y2": other, "method": curve.name, "series": curve.look, "kind": kind}


def _spec(axes: Axes) -> alt.LayerChart | alt.FacetChart:
    """Return dots, lines, the band between two of them, and the bound as a dashed line."""
    x = alt.X("x:Q", title=axes.across, scale=alt.Scale(type="log" if axes.log_across else "linear"))
    scale = alt.Scale(type="log") if axes.log_up else alt.Scale(zero=False)
    y = alt.Y("y:Q", title=axes.up, scale=scale, axis=alt.Axis(tickCount=5))
    tips = [
        alt.Tooltip("method:N", title="network"),
        alt.Tooltip("x:Q", title="N"),
        alt.Tooltip("y:Q", title=axes.up),
    ]
    kinds = ("line", "dots", "bound")
    line, dots, bound = (named_rows().transform_filter(f"datum.kind === '{kind}'") for kind in kinds)
    band = named_rows().transform_filter("isValid(datum.y2)").mark_area(opacity=0.18)
    return alt.layer(
        bounding(bound.mark_line(color=MUTED)).encode(x, y),
        band.encode(x, y, COLOUR, y2="y2:Q"),
        line.mark_line(strokeWidth=1.8).encode(x, y, COLOUR, opacity=OPACITY, tooltip=tips),
        dots.mark_circle(size=9, opacity=1).encode(x, y, COLOUR, opacity=OPACITY, tooltip=tips),
    ).properties(height=280)


PAGE, TIMES = "growth.html", "times.csv"
"""Not what every kind's report is called, which stays where no row changed: these depend on sizes too."""
COLOURED = 4
"""Ways of building that have a colour of their own; the rarer ones share the next."""
OTHERS = "rest"
BOTH = "best bidirectional"


class Time(NamedTuple):
    """A row of ``times.csv``: what a network of N nodes takes; None where it has no value."""

    nodes: int
    size_bytes: float
    network: str
    topology: str
    allreduce_us: float
    all_to_all_low_us: float | None
    all_to_all_high_us: float | None


def write_page(directory: Path, growth: GrowthSearch, workloads: Sequence[CostParameters]) -> Path:
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


def times_both_ways(rows: Sequence[FrontierRow], workload: CostParameters) -> Iterator[Time]:
    """Yield the least allreduce of each N on these frontiers, of networks whose links go both ways."""
    for nodes, of_one in groupby((row for row in rows if row.points), key=lambda row: row.nodes):
        best = min(of_one, key=lambda row: workload.allreduce_us(row.tl_steps, row.tb_factor))
        allreduce = workload.allreduce_us(best.tl_steps, best.tb_factor)
        yield Time(nodes, float(workload.size), BOTH, best.topology, allreduce, None, None)


def _known(
    workload: CostParameters, nodes: int, name: str, text: str, allreduce: float, *factors: float | Fraction
) -> Time:
    """Return the times of one network; `factors`: of an all-to-all, one if exact, else an interval."""
    low, high = ([workload.all_to_all_us(f) for f in factors] * 2)[:2] if factors else (None, None)
    return Time(nodes, float(workload.size), name, text, allreduce, low, high)


def times_of(rows: Sequence[FrontierRow], degree: int, workload: CostParameters) -> Iterator[Time]:
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


def _baselines(nodes: int, workload: CostParameters, known: Callable[..., Time]) -> Iterator[Time]:
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
    growth: GrowthSearch,
    kautz: Sequence[FrontierRow],
    times: Mapping[CostParameters, Sequence[Time]],
) -> str:
    charts = Charts()
    sections = [_section(charts, rows, own, workload, growth) for workload, own in times.items()]
    others = _panels(all_to_all=_all_to_all_chart(charts, next(iter(times.values()))))
    near = _panels(kautz=_kautz_chart(charts, kautz), lines=_lines_chart(charts, growth.degree))
    texts = TEXTS["growth"]
    words = texts["words"] | (texts["baselines"] if growth.degree == plain.DEGREE else {})
    sections += [
        Section(f"All-to-all, M = {next(iter(times))}", [PageBlock("", "", "", (), others, looks="two")]),
        Section("Close to optimal bandwidth", [PageBlock("", "", texts["close"], (), near, looks="two")]),
        Section("What the times are", words=explained(words, degree=growth.degree)),
    ]
    frontiers = len({row.nodes for row in rows if row.points})
    ways = " whose links go both ways" if growth.bidirectional else ""
    ways += "" if growth.most_hops is None else f" of diameter at most {growth.most_hops}"
    return render(
        "page.html",
        title=f"Networks of degree {growth.degree}: tutti",
        heading=f"Networks of degree {growth.degree}, up to {growth.up_to:,} nodes",
        lead=f"{frontiers:,} sizes with a network{ways}, {sum(row.points > 0 for row in rows):,} networks on "
        "their Pareto frontiers of T_L against T_B.",
        sections=sections,
        charts=charts.page,
    )


def _panels(**charts: Figure | None) -> list[Panel]:
    """Return the panels of some charts, by their titles' names."""
    titles = TEXTS["growth"]["titles"]
    return [Panel(titles[name], "", chart, "" if chart else "None.") for name, chart in charts.items()]


def _section(
    charts: Charts,
    rows: Sequence[FrontierRow],
    times: Sequence[Time],
    workload: CostParameters,
    growth: GrowthSearch,
) -> Section:
    """Return what the page says of a size: the best networks, and how they are built."""
    best = {time.nodes: time for time in times if time.network == "best"}
    built = {(row.nodes, row.topology): row.family for row in rows}
    family = {nodes: built[nodes, time.topology] for nodes, time in best.items()}
    texts = TEXTS["growth"]
    counts = ", ".join(f"{name} {count}" for name, count in Counter(family.values()).most_common())
    said = Markup(texts["text"]).format(
        counts=counts, both="" if growth.bidirectional else Markup(texts["both"])
    )
    panels = _panels(
        best=_best_chart(charts, times, family, workload), allreduce=_allreduce_chart(charts, times, workload)
    )
    return Section(f"M = {workload}", [PageBlock("", "", said, (), panels, looks="two")])


def _best_chart(
    charts: Charts, times: Sequence[Time], family: Mapping[int, str], workload: CostParameters
) -> Figure | None:
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
    return charts.of(curves, Axes(f"least allreduce time, M = {workload}", "N", "allreduce over the bound"))


def _curve(
    times: Sequence[Time], network: str, look: int, column: str = "allreduce_us", dots: bool = False
) -> Curve:
    values = [(float(time.nodes), getattr(time, column)) for time in times if time.network == network]
    points = tuple((nodes, value) for nodes, value in values if value)
    return Curve("finder's best" if network == "best" else network, points, look, dots)


def _allreduce_chart(charts: Charts, times: Sequence[Time], workload: CostParameters) -> Figure | None:
    """Return Fig. 3.7, left."""
    names = ("best", "torus", "shifted rings", "double binary tree")
    curves = [_curve(times, name, look, dots=name in ("best", "torus")) for look, name in enumerate(names)]
    axes = Axes(f"allreduce against N, M = {workload}", "N", "allreduce (us)", log_up=True)
    return charts.of([*curves, _curve(times, "bound", -1)], axes)


def _all_to_all_chart(charts: Charts, times: Sequence[Time]) -> Figure | None:
    """Return Fig. 3.7, right: a band of least T_L holds the optimum; dots where a curve jumps."""
    low, high = (_curve(times, "least T_L", 0, f"all_to_all_{end}_us") for end in ("low", "high"))
    curves = [replace(low, band=high.points)]
    for look, name in enumerate(("least T_B", "torus", "shifted rings", "double binary tree"), 1):
        curves.append(_curve(times, name, look, "all_to_all_low_us", dots=name != "shifted rings"))
    curves.append(_curve(times, "bound", -1, "all_to_all_low_us"))
    return charts.of(curves, Axes("all-to-all against N", "N", "all-to-all (us)", log_up=True))


def _kautz_chart(charts: Charts, rows: Sequence[FrontierRow]) -> Figure | None:
    """Return Fig. A.7: T_B of the generalized Kautz graphs over the least there is, degrees growing."""
    curves = []
    for look, (degree, of_one) in enumerate(groupby(rows, key=lambda row: row.degree)):
        ratios = ((float(row.nodes), float(row.tb_factor / bandwidth_factor(row.nodes))) for row in of_one)
        curves.append(Curve(f"d = {degree}", tuple(ratios), look, dots=True))
    return charts.of(curves, Axes("T_B of generalized Kautz graphs", "N", "T_B / T_B*"))


def _lines_chart(charts: Charts, degree: int) -> Figure | None:
    """Return Fig. 3.3: what line graphs of Moore and BW-optimal bases keep of their T_B."""
    if degree == 1:
        return None  # line graphs of rings are rings
    bases: dict[str, Expression] = {
        f"K_{{{degree},{degree}}}": Base("complete_bipartite", (degree,)),
        f"K_{degree + 1}": Base("complete", (degree + 1,)),
        "directed circulant": Base("directed_circulant", (degree,)),
    }
    if degree == plain.DEGREE:
        bases["H(2,3)"] = parse_notation("H(2,3)")
    curves = [Curve(name, tuple(_lines(base)), look) for look, (name, base) in enumerate(bases.items())]
    return charts.of(curves, Axes("T_B of line graphs", "N", "T_B / T_B*", log_across=True))


def _lines(base: Expression) -> Iterator[tuple[float, float]]:
    """Yield N and T_B over the least T_B of each line graph of a base, up to 100,000 nodes."""
    cost, times = predict(base), 0
    while cost.nodes <= 100_000:
        yield float(cost.nodes), float(cost.tb / bandwidth_factor(cost.nodes))
        times += 1
        cost = predict(LineGraph(base, times))

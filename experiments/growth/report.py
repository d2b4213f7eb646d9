"""The page of ``tutti find --up-to``: how the best networks of a degree grow (Figs 3.3, 3.7, A.4, A.7).

A chart has many curves over N, lines or dots, named at their right ends.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

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


class Charts:
    """The charts of a page, each with axes of its own."""

    def __init__(self) -> None:
        """Begin without any."""
        self.specs: dict[str, Any] = {}

    def of(self, curves: Sequence[pd.DataFrame], title: str, y: str, log_x: bool = False) -> Figure | None:
        """Return the chart of some curves over N, None without points; times have a logarithmic axis.

        Parameters
        ----------
        curves
            As `_curve` returns them.
        title, y
            Of the chart, and of its axis.
        log_x
            Whether the axis of N is logarithmic.
        """
        data = pd.concat(curves)
        if data.empty:
            return None
        looks = sorted({*zip(data.series, data.method, strict=True)})
        series = [Series(look, name, "", "", name) for look, name in looks if look >= 0]
        page = page_charts(specs_of({title: _spec(y, log_x)}), series)
        self.specs |= page["specs"]
        return Figure(title, title, data=data)

    @property
    def page(self) -> dict[str, Any]:
        """What the page draws them from."""
        return page_charts("{}", ()) | {"specs": self.specs}


def _curve(points: Any, name: str, look: int, kind: str = "line") -> pd.DataFrame:
    """Return a curve as a ``line``, as ``dots``, or as the dashed grey line of a ``bound``.

    Parameters
    ----------
    points
        Pairs of N and a value, or a frame of two columns.
    name, look
        As the legend has it; which colour, from 0, -1 for a bound.

    Returns
    -------
    DataFrame
        ``x`` and ``y``; ``y2``, a second edge up to which the curve is filled, NaN without; and what it is.
    """
    made = pd.DataFrame(points).set_axis(["x", "y"], axis=1).astype(float)
    return made.assign(y2=math.nan, method=name, series=look, kind=kind)


def _spec(title: str, log_x: bool) -> alt.LayerChart | alt.FacetChart:
    """Return dots, lines, the band between two of them, and the bound as a dashed line."""
    x = alt.X("x:Q", title="N", scale=alt.Scale(type="log" if log_x else "linear"))
    scale = alt.Scale(type="log") if title.endswith("(us)") else alt.Scale(zero=False)
    y = alt.Y("y:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5))
    tips = [
        alt.Tooltip("method:N", title="network"),
        alt.Tooltip("x:Q", title="N"),
        alt.Tooltip("y:Q", title=title),
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


Time = tuple[int, float, str, str, float, float | None, float | None]
"""A row of ``times.csv``: what a network of N nodes takes; None where it has no value."""
TIME_COLUMNS = [
    *("nodes", "size_bytes", "network", "topology"),
    *("allreduce_us", "all_to_all_low_us", "all_to_all_high_us"),
]


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
        workload: pd.DataFrame(
            [*times_of(rows, growth.degree, workload), *times_both_ways(both, workload)], columns=TIME_COLUMNS
        )
        for workload in workloads
    }
    with replacing(directory / TIMES) as draft:
        pd.concat(times.values()).to_csv(draft, index=False)
    with replacing(directory / PAGE) as draft:
        draft.write_text(_render(rows, growth, kautz, times), encoding="utf-8")
    return directory / PAGE


def times_both_ways(rows: Sequence[FrontierRow], workload: CostParameters) -> Iterator[Time]:
    """Yield the least allreduce of each N on these frontiers, of networks whose links go both ways."""
    for nodes, of_one in groupby((row for row in rows if row.points), key=lambda row: row.nodes):
        best = min(of_one, key=lambda row: workload.allreduce_us(row.tl_steps, row.tb_factor))
        allreduce = workload.allreduce_us(best.tl_steps, best.tb_factor)
        yield (nodes, float(workload.size), BOTH, best.topology, allreduce, None, None)


def _known(
    workload: CostParameters, nodes: int, name: str, text: str, allreduce: float, *factors: float | Fraction
) -> Time:
    """Return the times of one network; `factors`: of an all-to-all, one if exact, else an interval."""
    low, high = ([workload.all_to_all_us(f) for f in factors] * 2)[:2] if factors else (None, None)
    return (nodes, float(workload.size), name, text, allreduce, low, high)


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
    times: Mapping[CostParameters, pd.DataFrame],
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
    times: pd.DataFrame,
    workload: CostParameters,
    growth: GrowthSearch,
) -> Section:
    """Return what the page says of a size: the best networks, and how they are built."""
    best = times[times.network == "best"]
    built = {(row.nodes, row.topology): row.family for row in rows}
    family = {nodes: built[nodes, name] for nodes, name in zip(best.nodes, best.topology, strict=True)}
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
    charts: Charts, times: pd.DataFrame, family: Mapping[int, str], workload: CostParameters
) -> Figure | None:
    """Return Fig. A.4: the least allreduce time of each N over the bound, coloured by what attains it."""
    bound = times[times.network == "bound"].set_index("nodes").allreduce_us
    order = [name for name, _ in Counter(family.values()).most_common()]
    named = order if len(order) <= COLOURED + 1 else order[:COLOURED]
    shown = times[times.network.isin(["best", BOTH])]
    points = pd.DataFrame({"x": shown.nodes, "y": shown.allreduce_us / shown.nodes.map(bound)})
    built = shown.nodes.map(family).where(lambda names: names.isin(named), OTHERS)
    groups = points.groupby(built.where(shown.network == "best", BOTH))
    here = [name for name in (*named, OTHERS, BOTH) if name in groups.groups]
    curves = [_curve(groups.get_group(name), name, look, "dots") for look, name in enumerate(here)]
    if BOTH in here:
        curves.insert(0, curves.pop())  # beneath the others: often the best is one of these
    return charts.of(curves, f"least allreduce time, M = {workload}", "allreduce over the bound")


def _of(
    times: pd.DataFrame, network: str, look: int, column: str = "allreduce_us", kind: str = "line"
) -> pd.DataFrame:
    """Return the curve of a network's times, where it has some."""
    own = times[(times.network == network) & (times[column] > 0)]
    name = "finder's best" if network == "best" else network
    return _curve(own[["nodes", column]], name, look, kind)


def _allreduce_chart(charts: Charts, times: pd.DataFrame, workload: CostParameters) -> Figure | None:
    """Return Fig. 3.7, left."""
    kinds = {"best": "dots", "torus": "dots", "shifted rings": "line", "double binary tree": "line"}
    curves = [_of(times, name, look, kind=kind) for look, (name, kind) in enumerate(kinds.items())]
    curves.append(_of(times, "bound", -1, kind="bound"))
    return charts.of(curves, f"allreduce against N, M = {workload}", "allreduce (us)")


def _all_to_all_chart(charts: Charts, times: pd.DataFrame) -> Figure | None:
    """Return Fig. 3.7, right: a band of least T_L holds the optimum; dots where a curve jumps."""
    low, column = "least T_L", "all_to_all_low_us"
    band = _of(times, low, 0, "all_to_all_high_us").y
    curves = [_of(times, low, 0, column).assign(y2=band)]
    kinds = {"least T_B": "dots", "torus": "dots", "shifted rings": "line", "double binary tree": "dots"}
    curves += [_of(times, name, look, column, kind) for look, (name, kind) in enumerate(kinds.items(), 1)]
    curves.append(_of(times, "bound", -1, column, "bound"))
    return charts.of(curves, "all-to-all against N", "all-to-all (us)")


def _kautz_chart(charts: Charts, rows: Sequence[FrontierRow]) -> Figure | None:
    """Return Fig. A.7: T_B of the generalized Kautz graphs over the least there is, degrees growing."""
    curves = []
    for look, (degree, of_one) in enumerate(groupby(rows, key=lambda row: row.degree)):
        points = [(row.nodes, float(row.tb_factor / bandwidth_factor(row.nodes))) for row in of_one]
        curves.append(_curve(points, f"d = {degree}", look, "dots"))
    title = "T_B of generalized Kautz graphs"
    return charts.of(curves, title, "T_B / T_B*") if curves else None


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
    curves = [_curve([*_lines(base)], name, look) for look, (name, base) in enumerate(bases.items())]
    return charts.of(curves, "T_B of line graphs", "T_B / T_B*", log_x=True)


def _lines(base: Expression) -> Iterator[tuple[float, float]]:
    """Yield N and T_B over the least T_B of each line graph of a base, up to 100,000 nodes."""
    cost, times = predict(base), 0
    while cost.nodes <= 100_000:
        yield float(cost.nodes), float(cost.tb / bandwidth_factor(cost.nodes))
        times += 1
        cost = predict(LineGraph(base, times))

"""``tutti find --up-to``: how the best networks of a degree grow with N (Figs 3.3, 3.7, A.4, A.7).

It is a study of the one runner, with a task for each N. `write_page` draws its page, whose charts have curves
over N, as lines or dots, and a table of times; `_section` has the charts of one size, and `_contents` the
others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
from markupsafe import Markup

from tutti.expansions.finder import MOST_DEGREE, MOST_NODES
from tutti.expansions.prediction import bandwidth_factor, predict
from tutti.experiments.growth.networks import (
    ANY,
    BOTH_WAYS,
    COLUMNS,
    DEGREE,
    KAUTZ,
    CostParameters,
    baselines,
    frontier_of,
    kautz_graphs,
    read_frontiers,
)
from tutti.experiments.report.charts import (
    COLOUR,
    MUTED,
    OPACITY,
    Figure,
    bounding,
    named_rows,
    page_charts,
    specs_of,
    tips_of,
)
from tutti.experiments.report.page import write_page as write
from tutti.experiments.report.results import Series
from tutti.experiments.report.tables import TEXTS, PageBlock, Panel, Section, explained
from tutti.experiments.runner.config import Config
from tutti.experiments.runner.results import read_manifest, task_key
from tutti.experiments.runner.study import Row, Study, Task, TaskOutcome, Workplace
from tutti.topologies.errors import InputError
from tutti.topologies.families.expressions import Base, Expression, LineGraph, parse_notation
from tutti.topologies.files import written

TASK_FORMAT = "tutti.growth/1"
COMMAND = "tutti find"
"""Stands in manifests for the path of a config; its text is the whole command then."""
FIRST_NODES = 2
"""The least N that is searched."""


@dataclass(frozen=True)
class GrowthSearch:
    """A search of all N from `FIRST_NODES` to `up_to`.

    Parameters
    ----------
    degree, up_to, bidirectional, most_hops
        d, the largest N, and what the finder is restricted to.

    Raises
    ------
    InputError
        If a number is out of range.
    """

    degree: int
    up_to: int
    bidirectional: bool = False
    most_hops: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not FIRST_NODES <= self.up_to <= MOST_NODES:
            allowed = f"the finder searches {FIRST_NODES} to {MOST_NODES} nodes"
            raise InputError(f"--up-to is {self.up_to}; {allowed}")
        if not 1 <= self.degree <= MOST_DEGREE:
            raise InputError(f"--degree is {self.degree}; the finder searches 1 to {MOST_DEGREE}")
        if self.most_hops is not None and self.most_hops < 1:
            raise InputError(f"--max-diameter is {self.most_hops}; it must be at least 1")

    @property
    def search(self) -> str:
        """The first search; the second is of networks whose links all have one back."""
        return BOTH_WAYS if self.bidirectional else ANY

    def rows(self, nodes: int) -> list[Row]:
        """Return all rows of one N, with the Kautz graphs of this degree and of those of Fig. A.7."""
        rows = frontier_of(nodes, self.degree, self.search, self.most_hops, spans=True)
        if not self.bidirectional:
            rows += frontier_of(nodes, self.degree, BOTH_WAYS, self.most_hops)
        return [*rows, *kautz_graphs(nodes, {2, 4, 8, 16, self.degree})]


@dataclass(frozen=True, kw_only=True)
class GrowthTask(Task):
    """The networks of one N."""

    nodes: int
    growth: GrowthSearch

    def __str__(self) -> str:
        return f"{self.nodes} nodes of degree {self.growth.degree}"

    @property
    def names(self) -> tuple[str, ...]:
        """The text by which ``--only`` picks it, in addition to the whole text."""
        return (self.growth.search,)

    def rows(self, status: str, message: str = "") -> list[Row]:
        """Return a row with the status."""
        known = {"search": self.growth.search, "degree": self.growth.degree, "nodes": self.nodes}
        return [known | {"status": status, "message": message}]

    def run(self, place: Workplace) -> TaskOutcome:
        """Search the frontier of N, and return its rows."""
        return TaskOutcome("ok", self.growth.rows(self.nodes))


def study_of(growth: GrowthSearch, report: Callable[[Path], Path] | None = None) -> Study:
    """Return the study; `report` draws its page."""
    limits = " --bidirectional" * growth.bidirectional
    limits += f" --max-diameter {growth.most_hops}" if growth.most_hops else ""
    text = f"{COMMAND} --up-to {growth.up_to} --degree {growth.degree}{limits}"
    what, every = (growth.degree, growth.search, growth.most_hops), range(FIRST_NODES, growth.up_to + 1)
    keys = {nodes: task_key(TASK_FORMAT, nodes, *what) for nodes in every}
    tasks = [GrowthTask(key=key, nodes=nodes, growth=growth) for nodes, key in keys.items()]
    config = Config(COMMAND, text, f"degree{growth.degree}", "frontiers")
    return Study(config, tasks, report=report, columns=COLUMNS)


def command_of(directory: Path) -> str | None:
    """Return the command that made a folder; None: no growth did."""
    config = read_manifest(directory).get("config")
    if isinstance(config, dict) and config.get("path") == COMMAND and "text" in config:
        return str(config["text"])
    return None


Specs = dict[str, Any]
"""The specs of a page's charts, each of which has axes of its own."""


def _chart(
    specs: Specs, curves: Iterable[pd.DataFrame], title: str, y: str, log_x: bool = False
) -> Figure | None:
    """Add the spec of some curves over N, and return the chart, None without points.

    Parameters
    ----------
    specs
        The specs of the page, to which this one is added.
    curves
        As `_curve` returns them.
    title, y
        The titles of the chart and of its vertical axis, which is logarithmic for times.
    log_x
        Whether the axis of N is logarithmic.
    """
    data = pd.concat([*curves] or [pd.DataFrame()])
    if data.empty:
        return None
    looks = data[data.series >= 0].drop_duplicates("series").sort_values("series")
    series = [Series(look, name, "", "", name) for look, name in zip(looks.series, looks.method, strict=True)]
    specs |= page_charts(specs_of({title: _spec(y, log_x)}), series)["specs"]
    return Figure(title, title, data=data)


def _curve(points: Any, name: str, look: int, kind: str = "line") -> pd.DataFrame:
    """Return a curve as a ``line``, as ``dots``, or as the dashed grey line of a ``bound``.

    Parameters
    ----------
    points
        Pairs of N and a value, or a frame of two columns.
    name, look
        The name in the legend; the number of the colour, from 0, or -1 for a bound.

    Returns
    -------
    DataFrame
        ``x`` and ``y``; ``y2``, the other edge of a band, else NaN; ``method``, ``series`` and ``kind``.
    """
    made = pd.DataFrame(points).set_axis(["x", "y"], axis=1).astype(float)
    return made.assign(y2=math.nan, method=name, series=look, kind=kind)


def _spec(title: str, log_x: bool) -> alt.LayerChart | alt.FacetChart:
    """Return dots, lines, the band between two of them, and the bound as a dashed line."""
    x = alt.X("x:Q", title="N", scale=alt.Scale(type="log" if log_x else "linear"))
    scale = alt.Scale(type="log") if title.endswith("(us)") else alt.Scale(zero=False)
    y = alt.Y("y:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5))
    tips = tips_of("method:N|network", "x:Q|N", f"y:Q|{title}")
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
"""Names of the page and the table. They depend on sizes too, so they are written even if no row changed."""
COLOURED = 4
"""The number of families that have a colour of their own; the rarer ones share the next."""
OTHERS = "rest"
"""The name of the rarer families together."""
BOTH = "best bidirectional"
"""The name of the best network whose links all have one back."""


TIME_COLUMNS = [
    *("nodes", "size_bytes", "network", "topology"),
    *("allreduce_us", "all_to_all_low_us", "all_to_all_high_us"),
]
"""Columns of ``times.csv``: the times of a network of N nodes, empty where they are not known."""


def write_page(directory: Path, growth: GrowthSearch, workloads: Sequence[CostParameters]) -> Path:
    """Write ``growth.html`` and ``times.csv`` beside the frontiers and return the page's path.

    Raises
    ------
    InputError
        If the frontiers can't be read or the files not written.
    """
    rows = read_frontiers(directory)
    times = {workload: times_of(rows, growth, workload) for workload in workloads}
    written(directory / TIMES, pd.concat(times.values()).to_csv(index=False).encode(), "table")
    return write(_contents(rows, growth, times), directory / PAGE)


def times_of(rows: pd.DataFrame, growth: GrowthSearch, workload: CostParameters) -> pd.DataFrame:
    """Return the times of every N (`TIME_COLUMNS`).

    They are those of the finder's best network and of both ends of its frontier, of the baselines, and of the
    bound. Then come those of the best network whose links all have one back, unless only such are searched.
    """
    factors = rows[["all_to_all_low", "all_to_all_high"]].astype(float)
    rows = rows.join(factors.mul(workload.all_to_all_us(1)).add_suffix("_us"))
    rows["allreduce_us"] = list(map(workload.allreduce_us, rows.tl_steps, rows.tb_factor))
    found = rows[rows.points > 0]
    front, both = found[found.search == growth.search], found[found.search == BOTH_WAYS]
    ends = {"best": _best(front), "least T_L": front[front.point == 1]}
    ends |= {"least T_B": front[front.point == front.points]}
    known = [
        (nodes, network, text, allreduce, *[workload.all_to_all_us(factor)] * 2)
        for nodes in rows.nodes[rows.search == growth.search].unique().tolist()
        for network, text, allreduce, factor in baselines(nodes, growth.degree, workload)
    ]
    beside = pd.DataFrame(known, columns=["nodes", *TIME_COLUMNS[2:]])
    named = [own.assign(network=name) for name, own in ends.items()]
    made = [pd.concat([*named, beside]).sort_values("nodes", kind="stable")]
    if not growth.bidirectional:
        made.append(_best(both).assign(network=BOTH, **dict.fromkeys(TIME_COLUMNS[-2:], math.nan)))
    return pd.concat(made).assign(size_bytes=float(workload.size))[TIME_COLUMNS]


def _best(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the network of least allreduce time of each N."""
    return rows.loc[rows.groupby("nodes").allreduce_us.idxmin()]


def _contents(
    rows: pd.DataFrame, growth: GrowthSearch, times: Mapping[CostParameters, pd.DataFrame]
) -> dict[str, Any]:
    """Return the contents of the page, whose charts of all-to-all are of the first size."""
    specs: Specs = {}
    first, front = next(iter(times)), rows[(rows.search == growth.search) & (rows.points > 0)]
    sections = [_section(specs, front, own, workload, growth) for workload, own in times.items()]
    # Fig. 3.7, right: a band of least T_L holds the optimum; dots where a curve jumps.
    kinds = {"least T_L": "line", "least T_B": "dots", "torus": "dots"}
    kinds |= {"shifted rings": "line", "double binary tree": "dots"}
    curves = _curves(times[first], kinds, "all_to_all_low_us", band="least T_L")
    others = _panels(all_to_all=_chart(specs, curves, "all-to-all against N", "all-to-all (us)"))
    near = _panels(kautz=_kautz_chart(specs, rows), lines=_lines_chart(specs, growth.degree))
    texts = TEXTS["growth"]
    words = texts["words"] | (texts["baselines"] if growth.degree == DEGREE else {})
    sections += [
        Section(f"All-to-all, M = {first}", [PageBlock("", "", "", (), others, looks="two")]),
        Section("Close to optimal bandwidth", [PageBlock("", "", texts["close"], (), near, looks="two")]),
        Section("What the times are", words=explained(words, degree=growth.degree)),
    ]
    kind = " whose links go both ways" if growth.bidirectional else ""
    kind += "" if growth.most_hops is None else f" of diameter at most {growth.most_hops}"
    found = f"{front.nodes.nunique():,} sizes with a network{kind}, {len(front):,} networks"
    return {
        "title": f"Networks of degree {growth.degree}: tutti",
        "heading": f"Networks of degree {growth.degree}, up to {growth.up_to:,} nodes",
        "lead": f"{found} on their Pareto frontiers of T_L against T_B.",
        "sections": sections,
        "charts": page_charts("{}", ()) | {"specs": specs},
    }


def _panels(**charts: Figure | None) -> list[Panel]:
    """Return the panels of some charts, by their titles' names."""
    titles = TEXTS["growth"]["titles"]
    return [Panel(titles[name], "", chart, "" if chart else "None.") for name, chart in charts.items()]


def _section(
    specs: Specs, front: pd.DataFrame, times: pd.DataFrame, workload: CostParameters, growth: GrowthSearch
) -> Section:
    """Return the section of one size: its best networks, and how they are built."""
    best = times[times.network == "best"].merge(front[["nodes", "topology", "family"]])
    family, texts = best.set_index("nodes").family, TEXTS["growth"]
    counts = ", ".join(f"{name} {count}" for name, count in Counter(family).most_common())
    both = "" if growth.bidirectional else Markup(texts["both"])
    said = Markup(texts["text"]).format(counts=counts, both=both)
    # Fig. 3.7, left.
    kinds = {"best": "dots", "torus": "dots", "shifted rings": "line", "double binary tree": "line"}
    title = f"allreduce against N, M = {workload}"
    allreduce = _chart(specs, _curves(times, kinds), title, "allreduce (us)")
    panels = _panels(best=_best_chart(specs, times, family, workload), allreduce=allreduce)
    return Section(f"M = {workload}", [PageBlock("", "", said, (), panels, looks="two")])


def _best_chart(
    specs: Specs, times: pd.DataFrame, family: pd.Series[str], workload: CostParameters
) -> Figure | None:
    """Return Fig. A.4: the least allreduce time of each N over the bound, coloured by family."""
    bound = times[times.network == "bound"].set_index("nodes").allreduce_us
    order = [name for name, _ in Counter(family).most_common()]
    named = order if len(order) <= COLOURED + 1 else order[:COLOURED]
    shown = times[times.network.isin(["best", BOTH])]
    points = pd.DataFrame({"x": shown.nodes, "y": shown.allreduce_us / shown.nodes.map(bound)})
    built = shown.nodes.map(family).where(lambda names: names.isin(named), OTHERS)
    groups = points.groupby(built.where(shown.network == "best", BOTH))
    here = [name for name in (*named, OTHERS, BOTH) if name in groups.groups]
    curves = [_curve(groups.get_group(name), name, look, "dots") for look, name in enumerate(here)]
    if BOTH in here:
        curves.insert(0, curves.pop())  # beneath the others: often the best is one of these
    return _chart(specs, curves, f"least allreduce time, M = {workload}", "allreduce over the bound")


def _curves(
    times: pd.DataFrame, kinds: Mapping[str, str], column: str = "allreduce_us", band: str = ""
) -> Iterator[pd.DataFrame]:
    """Yield the curve of each network's times and that of the bound, without times that are not known.

    The curve of network `band` is filled up to its larger all-to-all times.
    """
    looks = {name: (look, kind) for look, (name, kind) in enumerate(kinds.items())} | {"bound": (-1, "bound")}
    for network, (look, kind) in looks.items():
        own = times[(times.network == network) & (times[column] > 0)]
        curve = _curve(own[["nodes", column]], "finder's best" if network == "best" else network, look, kind)
        yield curve.assign(y2=own.all_to_all_high_us) if network == band else curve


def _kautz_chart(specs: Specs, rows: pd.DataFrame) -> Figure | None:
    """Return Fig. A.7: T_B of the generalized Kautz graphs over the least possible, a curve a degree."""
    kautz = rows[rows.search == KAUTZ].sort_values(["degree", "nodes"])
    ratios = (kautz.tb_factor / kautz.nodes.map(bandwidth_factor)).astype(float)
    points = pd.DataFrame({"nodes": kautz.nodes, "ratio": ratios})
    degrees = enumerate(points.groupby(kautz.degree))
    curves = (_curve(own, f"d = {degree}", look, "dots") for look, (degree, own) in degrees)
    return _chart(specs, curves, "T_B of generalized Kautz graphs", "T_B / T_B*")


def _lines_chart(specs: Specs, degree: int) -> Figure | None:
    """Return Fig. 3.3: T_B of line graphs of Moore and BW-optimal bases, over the least possible."""
    if degree == 1:
        return None  # line graphs of rings are rings
    bases: dict[str, Expression] = {
        f"K_{{{degree},{degree}}}": Base("complete_bipartite", (degree,)),
        f"K_{degree + 1}": Base("complete", (degree + 1,)),
        "directed circulant": Base("directed_circulant", (degree,)),
    }
    if degree == DEGREE:
        bases["H(2,3)"] = parse_notation("H(2,3)")
    curves = []
    for look, (name, base) in enumerate(bases.items()):  # up to 100,000 nodes
        costs = (predict(LineGraph(base, times) if times else base) for times in count())
        shown = takewhile(lambda cost: cost.nodes <= 100_000, costs)
        points = [(float(cost.nodes), float(cost.tb / bandwidth_factor(cost.nodes))) for cost in shown]
        curves.append(_curve(points, name, look))
    return _chart(specs, curves, "T_B of line graphs", "T_B / T_B*", log_x=True)

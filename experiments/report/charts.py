"""The charts of a report: declarative specs (Vega-Lite, by Altair) over data frames.

A spec says which column is drawn how; scales, ticks and labels are the library's. A function here makes each
spec, and `run_specs` names them. The page has every spec and the rows of the run once: a `Figure` names a
spec and chooses rows, or brings its own. `templates/charts.js` draws it, and ``tutti report`` writes it for
papers. Colours come from the theme (`theme`), so that one spec serves light and dark pages.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from tutti.experiments.report.results import LOOKS, Results, Series

ROWS = "rows"
"""The name by which specs refer to rows: those of the run, or those that a figure brings."""
Spec = dict[str, Any]
Drawn = alt.LayerChart | alt.FacetChart

MUTED: str = LOOKS["theme"]["rule"]["color"]
SHADES = ("up to 0.1", "up to 1", "up to 10", "up to 100", "more")
"""The gaps in percent that each shade stands for."""
NEAR = (0.001, 0.01, 0.1, 1.0, math.inf)
"""The largest gap of each of `SHADES`; smaller gaps have stronger colours."""
HEIGHT = 220
ALGBW = "algbw"
MEASURES = {ALGBW: "algbw (GB/s)", "busbw": "busbw (GB/s)", "speedup": "speed-up"}
"""The measures of a chart against size, and the titles of their axes."""
HOT = "hot === null || hot === datum.series"
"""An expression of Vega: no method is pointed at, or the one of this mark is."""


@dataclass(frozen=True)
class Figure:
    """A chart with the rows that it shows.

    Parameters
    ----------
    chart
        The name of its spec.
    description
        The text that a screen reader says.
    where
        Columns and their values in the rows of the run that it shows.
    data
        Rows of its own, shown instead of the run's.
    """

    chart: str
    description: str
    where: Mapping[str, Any] = field(default_factory=dict)
    data: pd.DataFrame | None = None

    @property
    def columns(self) -> Spec | None:
        """Its own rows as the page has them."""
        return None if self.data is None else columns(self.data)

    def measured(self, measures: Mapping[str, str]) -> Iterator[Figure]:
        """Yield the chart for each measure, or itself if it shows none; on the page one chart has all."""
        for measure, name in measures.items() if self.chart in (ALGBW, f"bars {ALGBW}") else [(ALGBW, ALGBW)]:
            words = self.description.replace(ALGBW, name)
            yield replace(self, chart=self.chart.replace(ALGBW, measure), description=words)


def measures(results: Results) -> dict[str, str]:
    """Return the measures that a chart against size can show: the part of the spec's name, and a title."""
    busbw = {"busbw": "busbw"} if (results.rows.busbw_gbps > 0).any() else {}
    over = {"speedup": f"speed-up over {results.baseline}"} if results.base else {}
    return {ALGBW: ALGBW, **busbw, **over}


def columns(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a frame for JSON: a column of texts as its different texts and the number of one for each row.

    Examples
    --------
    >>> columns(pd.DataFrame({"gap": [0.25, None], "method": ["bfb", "bfb"]}))
    {'gap': [0.25, None], 'method': {'levels': ['bfb'], 'codes': [0, 0]}}
    """
    found: dict[str, Any] = {}
    for name, values in frame.items():
        if pd.api.types.is_integer_dtype(values) or values.dtype == bool:
            found[str(name)] = values.astype(int).tolist()
        elif pd.api.types.is_numeric_dtype(values):
            found[str(name)] = [None if pd.isna(value) else float(f"{value:.7g}") for value in values]
        else:
            codes, levels = pd.factorize(values)
            found[str(name)] = {"levels": levels.tolist(), "codes": codes.tolist()}
    return found


def theme() -> Spec:
    """Return the configuration of a light figure; the page has its own, from the style sheet."""
    ranges = {"category": LOOKS["light"], "ordinal": LOOKS["shades"], "heatmap": LOOKS["levels"]}
    return {**LOOKS["theme"], "view": {"stroke": None}, "range": ranges}


LABELS, SYMBOLS_OF, PANELS = (["$labels"], ["$symbols"], ["$panels"])
"""Placeholders in a spec, which `page_charts` replaces: the methods, their markers, the panels in order."""
LEGEND = alt.Legend(title=None, values=alt.ExprRef("present"), symbolOpacity=1)
"""One legend of colours and markers, with the methods that have marks."""
COLOUR = alt.Color("method:N", scale=alt.Scale(domain=LABELS), legend=LEGEND)
SHAPE = alt.Shape("method:N", scale=alt.Scale(domain=LABELS, range=SYMBOLS_OF), legend=LEGEND)
PATTERNS = [dash or [1, 0] for dash in LOOKS["dashes"]]
DASHES = alt.Scale(domain=list(range(len(PATTERNS))), range=PATTERNS)
DASH = alt.StrokeDash("dash:O", scale=DASHES, legend=None)
"""The pattern of a line, by number: the legend of colours and markers then does not show it."""
METHODS = alt.Y("method:N", title=None, sort=LABELS)
"""An axis with a line for each method, in their order."""
OPACITY = alt.condition(HOT, alt.value(1.0), alt.value(0.13))
LIMIT: Any = {"strokeDash": [5, 3]}
BOUND = "proven bound"
"""The name of the proven bound in the legend of each chart that has it."""
OWN_DASH = alt.ExprRef(f"datum.twins > 1 ? [6, 6 * (datum.twins - 1)] : {PATTERNS}[datum.dash]")
STRIPES: Any = {"strokeDash": OWN_DASH, "strokeDashOffset": alt.ExprRef("-6 * datum.twin")}
"""A curve has its own pattern, or its share of the stripes, 6 pixels each, of all that coincide with it."""
BESIDE_TWINS = alt.ExprRef("(datum.twin - (datum.twins - 1) / 2) * 8")
"""Pixels by which a marker stands beside its point, so that those of curves that coincide are all seen."""
BESIDE: Any = {"left": 5, "top": 5, "bottom": 5, "right": 70}
"""Room right of bars for their numbers."""
POINT: Any = {"filled": True, "size": 50, "opacity": 1}
LOG = alt.Scale(type="log")
AXES: Mapping[str, Any] = LOOKS["axes"]


def page_charts(specs: str, series: Sequence[Series], panels: Sequence[str] = ()) -> dict[str, Any]:
    """Return the theme and the specs of a page (`specs_of`), for its methods."""
    symbols = [LOOKS["markers"][one.shape]["vega"] for one in series]
    labels = [one.label for one in series]
    for sign, values in ((LABELS, labels), (SYMBOLS_OF, symbols), (PANELS, list(panels))):
        specs = specs.replace(json.dumps(sign), json.dumps(values))
    return {"theme": theme(), "specs": json.loads(specs), "rows": {}}


def specs_of(charts: Mapping[str, Drawn]) -> str:
    """Return specs as JSON, with parameters: the methods that have marks, and the one that is pointed at."""
    params = (alt.param("present", value=LABELS), alt.param("hot", value=None))
    specs = {name: chart.add_params(*params).to_dict() for name, chart in charts.items()}
    for spec in specs.values():
        del spec["config"]  # the page and `figures` give theirs, see `theme`
    return json.dumps(specs)


@cache
def run_specs() -> str:
    """Return the specs of the page of a run."""
    same = named_rows().mark_rule(**LIMIT).encode(x=alt.datum(1))
    charts: dict[str, Drawn] = {
        "share": _share(),
        "heat": _heat(),
        **{name: _by_size(name, "linear") for name in MEASURES},
        **{f"{name} log": _by_size(name, "log") for name in MEASURES},
        **{f"bars {name}": _bars(name) for name in MEASURES},
        "pareto": _pareto(),
        "effort": _effort(),
        "search": _search(),
        "programs": _programs(),
        "profile": steps(alt.X("value:Q", title="τ", scale=LOG), "cases (%)"),
        "ecdf": steps(alt.X("value:Q", **AXES["gap"]), "cases (%)"),
        "seeds": _intervals("gap", {"title": "times the gap of the first", "scale": LOG}, same),
        "seed times": _intervals("time", AXES["seconds"]),
        "frontier": _frontier(),
        "course": _course(),
        "histogram": _histogram(),
        "matrix": _matrix(),
        "parts": _parts(),
        "lengths": _lengths(),
        "gain": _gain(),
    }
    return specs_of(charts)


def tips_of(*texts: str) -> list[alt.Tooltip]:
    """Return tooltips from texts: each is a column, or ``column|title`` or ``column|title|format``."""
    names = ("shorthand", "title", "format")
    said: list[dict[str, Any]] = [dict(zip(names, text.split("|"), strict=False)) for text in texts]
    return [alt.Tooltip(**one) for one in said]


def named_rows() -> alt.Chart:
    """Return a chart over a figure's rows, to be given marks."""
    return alt.Chart(alt.NamedData(name=ROWS))


def points(x: Any, y: Any, tips: list[alt.Tooltip], base: alt.Chart | None = None, **look: Any) -> alt.Chart:
    """Return a marker a row, in colour and shape of its method; `base` chooses the rows."""
    marks = (base or named_rows()).mark_point(**POINT | look)
    return marks.encode(x, y, COLOUR, SHAPE, opacity=OPACITY, tooltip=tips)


def stepped(x: Any, y: Any, *more: Any, tips: list[alt.Tooltip] | None = None, **look: Any) -> alt.Chart:
    """Return a line of steps a method, in its colour."""
    line = named_rows().mark_line(interpolate="step-after", strokeWidth=1.8, **look)
    return line.encode(x, y, COLOUR, *more, opacity=OPACITY, tooltip=tips or alt.Undefined)


def bounding(chart: alt.Chart) -> alt.Chart:
    """Return the chart with its lines dashed, and named as the proven bound in the legend."""
    legend = alt.Legend(title=None, symbolType="stroke", symbolStrokeColor=MUTED, symbolStrokeWidth=1.5)
    scale = alt.Scale(domain=[BOUND], range=[LIMIT["strokeDash"]])
    dash = alt.StrokeDash("bound:N", scale=scale, legend=legend)
    return chart.transform_calculate(bound=f"'{BOUND}'").encode(dash)


TIPS = tips_of(
    *("method:N", "collective:N", "topology:N", "size:N", "time_us:Q|time, us|,.5~r"),
    *("slowest_us:Q|of its slowest seed, us|,.5~r", "algbw_gbps:Q|algbw, GB/s|,.4~r"),
    *("busbw_gbps:Q|busbw, GB/s|,.4~r", "limit_gbps:Q|its limit, GB/s|,.4~r"),
    *("speedup:Q|speed-up|,.4~r", "gap_percent:Q|gap, %|,.3~r"),
)


def _lines(base: alt.Chart, x: alt.X, y: alt.Y, limit: alt.Chart) -> Drawn:
    """Return a line with markers a method over the size, the limit, and a band down to its slowest seed."""
    column = str(y.shorthand).partition(":")[0]  # a measure that is inverse to the time
    spread = base.transform_filter("isValid(datum.slowest_us)").transform_calculate(
        low=f"datum.{column} * datum.time_us / datum.slowest_us"
    )
    shade = alt.condition(HOT, alt.value(0.25), alt.value(0.05))
    band = spread.mark_area().encode(x, y, alt.Y2("low:Q"), COLOUR, opacity=shade)
    line = base.mark_line(strokeWidth=1.8, **STRIPES).encode(x, y, COLOUR, opacity=OPACITY)
    return alt.layer(limit, band, line, points(x, y, TIPS, base, xOffset=BESIDE_TWINS))


def _share() -> Drawn:
    """Return algbw over its limit against size, a panel a network and collective."""
    whole = alt.Axis(title=None, values=[0, 50, 100], labelExpr="datum.label + ' %'")
    y = alt.Y("share_percent:Q", scale=alt.Scale(domain=[0, 100]), axis=whole)
    best = bounding(alt.Chart().mark_rule()).encode(y=alt.datum(100))
    header = alt.Header(labelAnchor="start", labelPadding=2)
    panel = alt.Facet("panel:N", title=None, sort=PANELS, header=header)
    base = alt.Chart().transform_filter("isValid(datum.share_percent)")
    layers = _lines(base, alt.X(**AXES["size"], title=None), y, best).properties(width=220, height=90)
    return layers.facet(panel, columns=4, spacing=12, data=alt.NamedData(name=ROWS))


def _measured(measure: str) -> tuple[alt.Chart, str]:
    """Return a chart over the rows that have a measure, with its `limit`, and the measure's column."""
    column = measure if measure == "speedup" else f"{measure}_gbps"
    base = named_rows().transform_filter(f"isValid(datum.{column})")
    limit = f"datum.limit_gbps && datum.{column} * datum.limit_gbps / datum.algbw_gbps"
    return base.transform_calculate(limit=limit), column


def _by_size(measure: str, scale: Any) -> Drawn:
    """Return a measure against size, and the limit that the proven bound sets to it."""
    (base, column), title, x = _measured(measure), MEASURES[measure], alt.X(**AXES["size"], title="size M")
    axis = alt.Axis(tickCount=4, format=",~r")
    y = alt.Y(f"{column}:Q", title=title, scale=alt.Scale(type=scale), axis=axis)
    limit = base.transform_filter("isValid(datum.limit)").mark_line(color=MUTED)
    limit = bounding(limit).encode(x, alt.Y("max(limit):Q", title=title))
    return _lines(base, x, y, limit).properties(height=HEIGHT)


def _bars(measure: str) -> Drawn:
    """Return a bar a method, for a collective that ran at one size."""
    (base, column), title = _measured(measure), MEASURES[measure]
    x = alt.X(f"{column}:Q", title=title)
    bars = base.mark_bar().encode(x, METHODS, COLOUR, opacity=OPACITY, tooltip=TIPS)
    text = base.mark_text(align="left", dx=4).encode(x, METHODS, text=alt.Text(f"{column}:Q", format=",.4~r"))
    limit = bounding(base.mark_rule()).encode(x=alt.X("max(limit):Q", title=title))
    return alt.layer(bars, text, limit).properties(height=alt.Step(22), padding=BESIDE)


def _pareto() -> Drawn:
    """Return T_B against T_L; methods at one point stand side by side."""
    axis, zero = alt.Axis(grid=False, tickMinStep=1, tickCount=6), alt.Scale(zero=True)
    x = alt.X("tl_steps:Q", title="T_L (α)", scale=zero, axis=axis)
    y = alt.Y("tb_factor:Q", title="T_B (M/B)")
    tips = tips_of("method:N", "tl_steps:Q|T_L, α", "tb:N|T_B, M/B", "tb_optimal:N|T_B is the least possible")
    optimal = named_rows().transform_filter("datum.tb_optimal === 'yes'")
    check = optimal.mark_text(text="✓", dy=-10).encode(x, y)
    marks = points(x, y, tips, xOffset=alt.ExprRef("datum.beside * 8"))
    return alt.layer(*_costs(x, y), marks, check).properties(height=HEIGHT)


def _costs(x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """Return the least T_B, and the Pareto frontier as steps."""
    least = bounding(named_rows().mark_rule()).encode(y=alt.Y("max(least_tb):Q", title="T_B (M/B)"))
    shown = named_rows().transform_filter("datum.frontier")
    return [least, shown.mark_line(interpolate="step-after", color=MUTED, strokeWidth=1).encode(x, y)]


def _effort() -> Drawn:
    """Return the gap at the largest size against the synthesis time, and the span of all sizes' gaps."""
    x, y = alt.X("seconds:Q", **AXES["seconds"]), alt.Y("gap_percent:Q", **AXES["gap"])
    ends: Any = {"low": "min(gap_percent)", "high": "max(gap_percent)", "last": "max(size_bytes)"}
    known = named_rows().transform_filter("isValid(datum.gap_percent) && isValid(datum.seconds)")
    spans = known.transform_joinaggregate(**ends, groupby=["method"])
    base = spans.transform_filter("datum.size_bytes === datum.last")
    low, high = alt.Y("low:Q", title="gap"), alt.Y2("high:Q")
    span = base.mark_rule(strokeDash=[1, 0]).encode(x, low, high, COLOUR, opacity=OPACITY)
    tips = [*TIPS, *tips_of("seconds:Q|synthesis, s|.3~r")]
    zero = bounding(named_rows().mark_rule()).encode(y=alt.datum(0))
    return alt.layer(zero, span, points(x, y, tips, base)).properties(height=HEIGHT)


def _search() -> Drawn:
    """Return the gap of the best schedule so far over time, and the bound from when it was computed."""
    x, y = alt.X("seconds:Q", **AXES["seconds"]), alt.Y("gap_percent:Q", **AXES["gap"])
    tips = tips_of("method:N", "seconds:Q|after, s|.3~r", "time_us:Q|time, us|,.5~r")
    tips += tips_of("bound_us:Q|lower bound, us|,.5~r")
    since = alt.X("max(bound_s):Q")
    proven = bounding(named_rows().mark_rule()).encode(since, x2=alt.value("width"), y=alt.datum(0))
    return alt.layer(stepped(x, y), points(x, y, tips, size=25), proven).properties(height=HEIGHT)


def _programs() -> Drawn:
    """Return the gap of incumbent and bound over time, a line a program."""
    x, y = alt.X("seconds:Q", **AXES["seconds"]), alt.Y("gap_percent:Q", **AXES["gap"])
    tips = tips_of("method:N", "seconds:Q|after, s|.3~r", "incumbent:Q||.5~r", "proven:Q|bound|.5~r")
    lines = stepped(x, y, alt.Detail("solve:N"))
    return alt.layer(lines, points(x, y, tips, size=25)).properties(height=HEIGHT)


def steps(x: alt.X, title: str, *more: str) -> Drawn:
    """Return the share of the cases up to each value, a line a method, with markers at its ends."""
    y = alt.Y("percent:Q", title=title, scale=alt.Scale(domain=[0, 100]))
    tips = tips_of("method:N", "value:Q|value|.4~r", "percent:Q|percent|.4~r", *more)
    ends = named_rows().transform_filter("datum.end")
    lines = stepped(x, y, tips=tips, **STRIPES)
    return alt.layer(lines, points(x, y, tips, ends, xOffset=BESIDE_TWINS)).properties(height=HEIGHT)


def _intervals(column: str, axis: Any, *below: alt.Chart) -> Drawn:
    """Return a mean with its confidence interval a method."""
    tips = tips_of("method:N", "told:N|gap", "synthesis:N")
    low, mean = (alt.X(f"{column}_{end}:Q", **axis) for end in ("low", "mean"))
    span = named_rows().mark_rule(strokeDash=[1, 0], strokeWidth=1.5)
    span = span.encode(low, METHODS, COLOUR, x2=f"{column}_high", opacity=OPACITY, tooltip=tips)
    return alt.layer(*below, span, points(mean, METHODS, tips)).properties(height=alt.Step(24))


def _frontier() -> Drawn:
    """Return T_B against T_L of networks of one N and degree, the Pareto frontier and the bounds on both."""
    x = alt.X("tl_steps:Q", title="T_L (α)", axis=alt.Axis(grid=False, tickMinStep=1, format="d"))
    y = alt.Y("tb_factor:Q", title="T_B (M/B)", scale=alt.Scale(zero=False))
    moore = bounding(named_rows().mark_rule()).encode(x=alt.X("max(moore):Q", title="T_L (α)"))
    tips = tips_of("network:N", "method:N", "tl_steps:Q", "tb:N")
    names = named_rows().transform_filter("datum.frontier").mark_text(align="left", dx=8, dy=-6)
    names = names.encode(x, y, text="name:N")
    return alt.layer(moore, *_costs(x, y), points(x, y, tips), names).properties(height=280)


def _heat() -> Drawn:
    """Return the gap of every method on every network, the nearer to the bound the stronger."""
    x = alt.X("network:N", title=None, sort=None, axis=alt.Axis(orient="top", labelAngle=-45))
    legend = alt.Legend(title="gap to the proven bound, %", orient="bottom", columns=len(SHADES))
    colour = alt.Color("near:O", scale=alt.Scale(domain=list(SHADES)), sort=None, legend=legend)
    base = named_rows().transform_filter("isValid(datum.gap_percent)")
    cells = base.mark_rect().encode(x, METHODS, colour, tooltip=TIPS)
    text = base.mark_text().encode(x, METHODS, text="gap:N")
    return alt.layer(cells, text).properties(height=alt.Step(18))


def _course() -> Drawn:
    """Return the share of the links that is busy over time."""
    x = alt.X("time:Q", title="time, in units of the fastest", axis=alt.Axis(grid=False))
    y = alt.Y("busy:Q", title="links busy (%)", scale=alt.Scale(domain=[0, 100]))
    tips = tips_of("method:N", "mean:Q|links busy on average, %|.3~r")
    return alt.layer(stepped(x, y, DASH, tips=tips)).properties(height=180)


def _histogram() -> Drawn:
    """Return a histogram of links by the share of the time in which they are busy."""
    x = alt.X("level:N", title="share of the time busy", sort=None, axis=alt.Axis(labelAngle=-45))
    tips = tips_of("level:N|busy", "links:Q|links|,")
    bars = named_rows().mark_bar().encode(x, alt.Y("percent:Q", title="links (%)"), tooltip=tips)
    return alt.layer(bars).properties(height=150)


def _matrix() -> Drawn:
    """Return how busy the links are, source by destination."""
    axis: Any = {"labelAngle": 0, "ticks": False, "domain": False}
    axis |= {"labelOverlap": "greedy", "labelSeparation": 10}  # as many labels as fit
    x = alt.X("destination:O", axis=alt.Axis(orient="top", **axis))
    y = alt.Y("source:O", axis=alt.Axis(**axis))
    levels = alt.Scale(domain=list(range(len(LOOKS["levels"]))), range="heatmap")
    colour = alt.Color("level:O", scale=levels, legend=None)
    tips = tips_of("from:N", "to:N", "busy:Q|busy, %|.4~r")
    cells = named_rows().mark_rect().encode(x, y, colour, tooltip=tips)
    frame = alt.ViewBackground(stroke=MUTED, strokeWidth=0.5)
    return alt.layer(cells, view=frame).properties(height=200)


def _parts() -> Drawn:
    """Return bars of parts in the outline of their wholes."""
    y = alt.Y("what:N", title=None, sort=None, axis=alt.Axis(labelLimit=260))
    x = alt.X("percent:Q", title="%", scale=alt.Scale(domain=[0, 100]))
    tips = tips_of("what:N", "told:N|that is")
    full, part = named_rows().encode(y, x=alt.datum(100)), named_rows().mark_bar().encode(x, y, tooltip=tips)
    whole = full.mark_bar(fill=None, stroke=MUTED, strokeWidth=1).encode(tooltip=tips)
    text = full.mark_text(align="left", dx=4).encode(text="told:N")
    return alt.layer(whole, part, text).properties(height=alt.Step(22), padding=BESIDE)


def _lengths() -> Drawn:
    """Return the lengths of links in a linear program's dual, longest first."""
    x = alt.X("links:Q", title="links, longest first", axis=alt.Axis(grid=False, format=",d"))
    y = alt.Y("percent:Q", title="length (% of the longest)", scale=alt.Scale(domain=[0, 100]))
    area = named_rows().mark_area(interpolate="step-after", line=True, opacity=0.3)
    return alt.layer(area.encode(x, y)).properties(height=180)


def _gain() -> Drawn:
    """Return what an allreduce gains over a reduce-scatter and then an allgather."""
    y = alt.Y("what:N", title=None, sort=None, axis=alt.Axis(labelLimit=200))
    x = alt.X("algbw_gbps:Q", title="algbw for large M, at best (GB/s)")
    bars = named_rows().mark_bar().encode(x, y)
    text = named_rows().mark_text(align="left", dx=4).encode(x, y, text="told:N")
    return alt.layer(bars, text).properties(height=alt.Step(26), padding=BESIDE)

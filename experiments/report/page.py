"""The page of a run: every section of a report put into one file that needs nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from tutti.experiments.registry import METHODS
from tutti.experiments.report.bottleneck import Bottlenecks, bottlenecks
from tutti.experiments.report.charts import Figure, measures, run_charts
from tutti.experiments.report.comparisons import (
    case_table,
    exact_sentence,
    gap_map,
    gap_parts,
    ideal_table,
    is_wrong,
    method_table,
    nearest,
    over_exact,
    predictions,
    solved_programs,
    summary,
)
from tutti.experiments.report.panels import (
    algbw_panel,
    effort_panel,
    frontier_panels,
    pareto_panel,
    profile_panels,
    run_rows,
    search_panels,
)
from tutti.experiments.report.results import Results, Row, read_results
from tutti.experiments.report.seeds import seed_figures, seed_table, seeds
from tutti.experiments.report.series import DARK, LIGHT, Series
from tutti.experiments.report.standings import GAP_RULES, sentences
from tutti.experiments.report.switch_over import switch_table
from tutti.experiments.report.tables import (
    TEMPLATES,
    TEXTS,
    PageBlock,
    PageTable,
    Panel,
    Section,
    block,
    counted,
    explained,
    number,
    size,
)
from tutti.experiments.report.utilisation import (
    LEVELS,
    Usages,
    broadcast_panels,
    course_panels,
    least_tb,
    level_name,
    traffic_panels,
    usage_panels,
    usages,
)
from tutti.experiments.runner.manifest import NOT_RUN
from tutti.experiments.runner.study import REPORT
from tutti.experiments.show.page import source as network_source
from tutti.experiments.show.svg import as_it_is, tag, templates
from tutti.topologies.files import written
from tutti.topologies.topology import Topology
from tutti.topologies.units import format_bandwidth, format_time


class PageLimits(NamedTuple):
    """Limits above which parts of the page are folded away or left out."""

    panels: int
    """Most panels of the first picture, which should fit on the first screen."""
    rows: int
    """Rows of the results up to which topologies have a section."""


LIMITS = PageLimits(panels=16, rows=5000)
NOTHING: Mapping[str, Any] = {
    **dict.fromkeys(("alarm", "lead", "key"), ""),
    **dict.fromkeys(("answer", "series"), ()),
    "picture": None,
}
"""What a page without it leaves out."""


THEMES = ("theme", "theme", [("", "as the system"), ("light", "light"), ("dark", "dark")])
"""What any page lets one choose: a name, its label, and the values with their texts."""


def render(name: str, /, **shown: Any) -> str:
    """Return a page by its template, with the style and the scripts of all pages."""
    style = source("report.css") + palette()
    levels = [level_name(level) for level in range(LEVELS + 1)]
    own = {"style": style, "scripts": scripts(), "swatch": swatch, "levels": levels}
    return templates(TEMPLATES).get_template(name).render({**NOTHING, **own, **shown})


def source(name: str) -> Markup:
    """Return a file as it is, such as a style or a script."""
    return as_it_is(TEMPLATES / name)


def scripts() -> list[Markup]:
    """Return what a page runs: its own script, the library of charts, what draws them, and of networks."""
    own = [source(name) for name in ("report.js", "vega.min.js", "charts.js")]
    return [*own, network_source("network.js")]


def write_report(directory: Path, *others: Path, page: Path | None = None) -> Path:
    """Write the page of a finished run, or of several that are joined, and return its path.

    Parameters
    ----------
    directory
        Holds ``results.parquet`` (or ``results.csv``) and, where they were kept, ``manifest.json`` and
        ``schedules/``.
    others
        Of further runs.
    page
        Where it is written; None: ``report.html`` in `directory`.

    Raises
    ------
    InputError
        If there are no readable results, or the page can't be written.
    """
    return write_page(contents(read_results(directory, *others)), page or directory / REPORT)


def write_page(shown: Mapping[str, Any], page: Path) -> Path:
    """Write a page: its ``title``, ``heading``, ``sections`` and ``charts``, and what else `NOTHING` names.

    Raises
    ------
    InputError
        If it can't be written.
    """
    return written(page, render("page.html", **shown).encode(), "report")


def contents(results: Results) -> dict[str, Any]:
    """Return all that the page of a run says, by the names that its template has for it."""
    used = {(t, c): usages(results, t, c) for t in results.topologies for c in results.collectives}
    least = {case: least_tb(found) for case, found in used.items()}
    rows, shown = run_rows(results, least), shown_topologies(results)
    drawn = [_bottlenecks(results, name, used) for name in shown]
    topologies = [
        _section(results, name, used, found, rows, folded=place > 0)
        for place, (name, found) in enumerate(zip(shown, drawn, strict=True))
    ]
    left = "Left out: the rows of more topologies than fit here are in results.csv."
    topologies += [
        Section(name, lead=[left], id=f"t{place}")
        for place, name in enumerate(results.topologies[len(shown) :], len(shown))
    ]
    told = summaries(results)
    methods = {method: Markup("{}.").format(meaning) for method, meaning in told.items()}
    words = Section(
        "Words of this page", words=explained(TEXTS["words"]) | methods, id="glossary", folded=True
    )
    return {
        "title": f"{results.name}: tutti report",
        "heading": results.name,
        "answer": [*filter(None, [*sentences(results), exact_sentence(results)])],
        "alarm": alarm(results),
        "picture": picture_of(results),
        "lead": lead(results, len(shown)),
        "series": results.series if results.rows else (),
        "tips": [_tip(one, told) for one in results.series],
        "picks": list(_picks(results)),
        "key": TEXTS["page"]["key"] + TEXTS["page"]["shaded"] * bool(results.tries),
        "sections": [_summary(results, least, shown, drawn), *_glance(results), *topologies, words],
        "manifest": list(manifest_lines(results.manifest)),
        "charts": run_charts(results.series, rows),
        "rows": rows,
        "measures": measures(results),
    }


def alarm(results: Results) -> str:
    """Return what is said where rows are faster than their bounds; empty where none is."""
    wrong = sum(map(is_wrong, results.rows))
    said = "claims" if wrong == 1 else "claim"
    return TEXTS["page"]["wrong"].format(counted(wrong, "row"), said) if wrong else ""


def _tip(one: Series, told: Mapping[str, str]) -> str:
    kind = ": ".join(filter(None, [one.kind, told.get(one.method, "")]))
    return "\n".join(filter(None, [f"{one.method} {one.options}".strip(), kind]))


def _picks(results: Results) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Yield what one can choose: a name, its label, and the values with their texts."""
    for name, texts in (("topology", results.topologies), ("collective", results.collectives)):
        yield name, name, [("", "all"), *((str(place), text) for place, text in enumerate(texts))]
    yield "measure", "against size", list(measures(results).items())
    yield "axis", "its axis", [("log", "logarithmic"), ("linear", "linear")]
    yield THEMES


def lead(results: Results, sections: int) -> str:
    """Return how much the run has, and what the page leaves out."""
    counts, texts = results.manifest.get("rows"), TEXTS["page"]
    not_run = counts.get(NOT_RUN) if isinstance(counts, Mapping) else None
    whole = {"topology": results.topologies, "collective": results.collectives, "method": results.series}
    said = ", ".join(counted(len(every), word) for word, every in whole.items())
    states = ", ".join(f"{count} {state}" for state, count in results.states.items())
    text: str = texts["lead"].format(said, counted(len(results.rows), "row"), states or "none")
    if isinstance(not_run, int):
        text += texts["part"].format(not_run, "row was" if not_run == 1 else "rows were")
    left = len(results.topologies) - sections
    return text + (texts["left"].format(left, LIMITS.rows) if left else "")


def _panels_of(figures: Sequence[Figure]) -> list[Panel]:
    return [Panel("", "", figure) for figure in figures]


def _summary(
    results: Results, least: Mapping[Any, Any], shown: Sequence[str], drawn: Sequence[Bottlenecks]
) -> Section:
    """Return the section on the methods, over all topologies."""
    if not results.rows:
        return Section("Methods", lead=["This run has no rows."], id="summary")
    spread = seeds(results)
    few = results.best and len({case[2] for case in results.best}) > 1
    largest = summary(results, max(case[2] for case in results.best)) if few else None
    gains = {name: found.gain for name, found in zip(shown, drawn, strict=True) if found.gain}
    blocks = [
        *block("ranking", method_table(results, least)),
        *block("exact", over_exact(results)),
        *block("profiles", *profile_panels(results), looks="two"),
        *block("summary", summary(results) if results.best else None, largest),
        *block("parts", gap_parts(results)),
        *block(
            "seeds", seed_table(spread) if spread else None, *_panels_of(seed_figures(spread)), looks="two"
        ),
        *block("switch", switch_table(results), folded=True),
        *block("ideal", ideal_table(results), folded=True),
        *block("programs", solved_programs(results), folded=True),
        *block("predictions", predictions(results), folded=True),
        *block("frontiers", *frontier_panels(results), looks="two", folded=True),
        *block("gain", _gains(results, gains), folded=True),
    ]
    return Section("Methods", blocks, id="summary")


def _gains(results: Results, gains: Mapping[str, Any]) -> PageTable | None:
    rows = [
        (f"t{results.topologies.index(name)}", [results.short[name], *gain.cells, gain.proven])
        for name, gain in gains.items()
    ]
    return PageTable.of("gain", rows) if rows else None


def _glance(results: Results) -> list[Section]:
    """Return the section on many networks at a glance; none for a run of few, or of one method."""
    if len(results.topologies) < GAP_RULES.fewest_networks or len(results.series) < 2:
        return []
    blocks: list[PageBlock] = []
    for collective in results.collectives:
        sizes = sorted({row.size_bytes for row in results.rows if row.collective == collective})
        blocks += block("nearest", nearest(results, collective), collective=collective)
        for bytes_ in dict.fromkeys([sizes[-1], sizes[0]]):
            folded, told = bytes_ < sizes[-1], {"collective": collective, "size": size(bytes_)}
            blocks += block("map", gap_map(results, collective, bytes_), folded=folded, **told)
    return [Section("At a glance", blocks, id="glance")]


def figures_of(shown: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield every chart of a page's contents, in each measure, but for what is drawn on networks."""
    panels = [
        panel
        for section in shown["sections"]
        for each in section.blocks
        if each.key != "links"
        for panel in each.panels
    ]
    for panel in filter(None, (shown["picture"], *panels)):
        if isinstance(panel.chart, Figure):
            yield from panel.chart.measured(shown["measures"])


def picture_of(results: Results) -> Panel | None:
    """Return the picture that the page begins with: how near to the bound each method is, and where.

    A panel a network and collective; of many the gaps of the first collective at its largest size. None where
    there is no gap to show.
    """
    timed = {(row.topology, row.collective) for row in results.rows if row.ok and row.gap is not None}
    if not timed:
        return None
    if len(results.topologies) < GAP_RULES.fewest_networks and len(timed) <= LIMITS.panels:
        told = "algbw as a part of its limit, against size: at 100 % no schedule can be faster"
        return Panel(
            told,
            "",
            Figure("share", "algbw as a part of its limit, against size, a panel a network and collective"),
        )
    collective = next(name for name in results.collectives if any(case[1] == name for case in timed))
    bytes_ = max(row.size_bytes for row in results.rows if row.collective == collective)
    told = f"gap to the proven bound of each method on each network, {collective} of {size(bytes_)}"
    return Panel(told, "", Figure("heat", told, {"collective": collective, "size_bytes": bytes_}))


def shown_topologies(results: Results) -> list[str]:
    """Return the topologies that have a section: the first, and those that all fit."""
    rows = Counter(row.topology for row in results.rows)
    ends = accumulate(rows[topology] for topology in results.topologies)
    return [
        topology
        for place, (topology, end) in enumerate(zip(results.topologies, ends, strict=True))
        if place == 0 or end <= LIMITS.rows
    ]


def summaries(results: Results) -> dict[str, str]:
    """Return what each method of a run is; one that has gone since is left out."""
    names = dict.fromkeys(series.method for series in results.series)
    return {name: METHODS[name].summary for name in names if name in METHODS}


def palette() -> Markup:
    """Return the colours of series, shades and dark pages as style rules; print is always light."""
    light = ";".join(f"--c{i}:{colour}" for i, colour in enumerate(LIGHT))
    dark = source("dark.css") + ";".join(f"--c{i}:{colour}" for i, colour in enumerate(DARK))
    classes = "".join(f".c{i}{{--c:var(--c{i})}}" for i in range(len(LIGHT)))
    classes += "".join(f".u{i}{{fill:var(--u{i});background:var(--u{i})}}" for i in range(LEVELS + 1))
    rules = (
        f":root{{{light}}}"
        f"@media screen{{:root[data-theme=dark]{{{dark}}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}}}{classes}"
    )
    return Markup(rules)


def swatch(series: Series) -> Markup:
    """Return a piece of a series' line with its marker, for legends."""
    dash = " ".join(f"{length:g}" for length in series.dash) or None
    line = tag("path", class_="line", d="M1 7H29", stroke_dasharray=dash)
    mark = tag("path", class_="mark", d=series.marker, transform="translate(15 7)")
    return tag("svg", line, mark, class_=f"swatch c{series.colour}", viewBox="0 0 30 14", aria_hidden="true")


def _bottlenecks(results: Results, name: str, used: Mapping[tuple[str, str], Usages]) -> Bottlenecks:
    return bottlenecks(_topology(results, name, used), _own(results, name, used), results.collectives.index)


def _own(results: Results, name: str, used: Mapping[tuple[str, str], Usages]) -> dict[str, Usages]:
    """Return what was replayed of each collective of a topology."""
    ran = {row.collective for row in results.rows if row.topology == name}
    return {collective: used[name, collective] for collective in results.collectives if collective in ran}


def _topology(results: Results, name: str, used: Mapping[tuple[str, str], Usages]) -> Topology | None:
    """Return a network, as the files of its schedules have it or else by its name."""
    networks = (usage.topology for found in _own(results, name, used).values() for usage in found.shown)
    return next(networks, results.networks[name])


def _section(
    results: Results,
    name: str,
    everything: Mapping[tuple[str, str], Usages],
    drawn: Bottlenecks,
    rows: pd.DataFrame,
    *,
    folded: bool,
) -> Section:
    """Return everything that the page says of one topology."""
    used = _own(results, name, everything)
    facts = network_facts(
        _topology(results, name, everything), next(r for r in results.rows if r.topology == name)
    )
    each = [(results, name, collective) for collective in used]
    more = "Choose the measure under Filter and legend. " if len(measures(results)) > 1 else ""
    drawn_rows = rows[rows["topology"] == name] if len(rows) else rows
    blocks = [
        *block("algbw", *(algbw_panel(*one) for one in each), measures=more),
        *block("pareto", *(pareto_panel(*one) for one in each), **_lines(drawn_rows)),
        *block("effort", *(effort_panel(*one) for one in each)),
        *block("search", *search_panels(results, name, list(used))),
        *block("gaps", case_table(results, name)),
        *block("bottlenecks", *drawn.panels),
        *block("traffic", *traffic_panels(results, name, list(used))),
        *block("broadcast", *broadcast_panels(results, name), folded=True),
        *block("course", *course_panels(results, name, list(used.items()))),
        *block("links", *usage_panels(results, name, used), looks="maps", folded=True),
    ]
    place = results.topologies.index(name)
    bounds = list(_bound_facts(results, name, list(used)))
    said = [f"{', '.join(facts)}.", *([f"{'; '.join(bounds)}."] if bounds else [])]
    return Section(name, blocks, said, id=f"t{place}", looks=f"topology t{place}", folded=folded)


def _lines(rows: pd.DataFrame) -> dict[str, Any]:
    """Return what the whole and the dashed line of the charts of T_L against T_B are, if drawn."""
    joined = rows.groupby("collective")["frontier"].sum().max() > 1 if len(rows) else False
    least = bool(len(rows)) and rows["least_tb"].notna().any()
    return {
        "frontier": " The line joins those that no other equals or betters in both." if joined else "",
        "least": " Dashed: the bandwidth bound, the least T_B there can be; ✓: T_B equals it, exactly."
        if least
        else "",
    }


def network_facts(topology: Topology | None, row: Row) -> list[str]:
    """Return what a topology is, from the network itself or else from a row of the results."""
    if topology is None:
        counts = (("node", row.nodes), ("switch", row.switches), ("link", row.links))
        return [counted(int(value), word) for word, value in counts if value is not None]
    degree, out = topology.degree, topology.out_degrees[: topology.num_ranks].tolist()
    degrees, same = _range(out, str), min(out) == max(out)
    ranks = "a rank" if same else "the ranks"
    return [
        counted(topology.num_ranks, "rank"),
        counted(topology.num_switches, "switch"),
        counted(topology.num_links, "link"),
        f"degree {degree}" if degree is not None else f"out-degree{'' if same else 's'} of {ranks} {degrees}",
        f"{_range(topology.bandwidth, format_bandwidth)} and {_range(topology.alpha, format_time)} a link",
    ]


def _range(values: Any, text: Callable[[Any], str]) -> str:
    low, high = min(values), max(values)
    return text(low) if low == high else f"{text(low)} to {text(high)}"


def _bound_facts(results: Results, topology: str, collectives: list[str]) -> Iterator[str]:
    """Yield, for each collective, the algbw that is proven to be out of reach at the largest size."""
    for collective in collectives:
        rows = [row for cells in results.of(topology, collective).values() for row in cells.values()]
        last = max((row for row in rows if row.bound_us), key=lambda row: row.size_bytes, default=None)
        if last is not None and last.bound_us:
            algbw = number(last.size_bytes / last.bound_us / 1e3)
            yield f"{collective} of {size(last.size_bytes)}: at most {algbw} GB/s ({last.bound_kind} bound)"


def manifest_lines(manifest: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the entries of a manifest as (dotted name, text); texts of several lines stay whole.

    Examples
    --------
    >>> list(manifest_lines({"machine": {"cores": 2}, "seeds": [0, 1]}))
    [('machine.cores', '2'), ('seeds', '0, 1')]
    """
    for key, value in manifest.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from manifest_lines(value, f"{name}.")
        elif isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
            for place, entry in enumerate(value, 1):
                yield from manifest_lines({str(place): entry}, f"{name}.")
        elif isinstance(value, list):
            yield name, ", ".join(map(str, value))
        else:
            yield name, "" if value is None else str(value)

"""The page of a run: all sections of a report in one file that needs no others.

`contents` collects the sections, and `write_page` fills the template with them. The title and the text of a
block are in ``texts.toml`` under the block's key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
from markupsafe import Markup

from tutti.experiments.registry import METHODS
from tutti.experiments.report.bottleneck import Bottlenecks, bottlenecks
from tutti.experiments.report.charts import Figure, columns, measures, page_charts, run_specs
from tutti.experiments.report.comparisons import (
    case_table,
    exact_sentence,
    gap_map,
    gap_parts,
    ideal_table,
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
    program_panel,
    run_rows,
    search_panel,
)
from tutti.experiments.report.results import LOOKS, TEMPLATES, TIE, Results, Row, read_results
from tutti.experiments.report.seeds import seed_panels, seed_table, seeds
from tutti.experiments.report.standings import GAP_RULES, sentences, switch_table
from tutti.experiments.report.tables import (
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
    course_panel,
    least_tb,
    level_name,
    traffic_panel,
    usage_panels,
    usages,
)
from tutti.experiments.runner.results import NOT_RUN
from tutti.experiments.show.drawing import TEMPLATES as NETWORK_TEMPLATES
from tutti.experiments.show.drawing import templates
from tutti.topologies.files import written
from tutti.topologies.topology import Topology
from tutti.topologies.units import format_bandwidth, format_time

LIMITS = SimpleNamespace(**LOOKS["limits"]["page"])
"""Limits above which parts of the page are folded away or left out."""


THEMES = ("theme", "theme", [("", "as the system"), ("light", "light"), ("dark", "dark")])
"""The choice of any page: its name, its label, and the values with their texts."""


def run_contents(*directories: Path) -> dict[str, Any]:
    """Read finished runs, and return the contents of their page.

    Parameters
    ----------
    directories
        Each holds ``results.parquet`` (or ``results.csv``) and, where they were kept, ``manifest.json`` and
        ``schedules/``.

    Raises
    ------
    InputError
        If there are no readable results.
    """
    return contents(read_results(*directories))


def write_page(shown: Mapping[str, Any], page: Path) -> Path:
    """Write a page: its ``title``, ``heading``, ``sections`` and ``charts``, and what else the template has.

    All pages have the same style and scripts.

    Raises
    ------
    InputError
        If it can't be written.
    """
    own = {"looks": LOOKS, "levels": [level_name(level) for level in range(LEVELS + 1)]}
    text = templates(TEMPLATES, NETWORK_TEMPLATES).get_template("page.html").render(**own, **shown)
    return written(page, text.encode(), "report")


def contents(results: Results) -> dict[str, Any]:
    """Return the contents of the page of a run, by the names of the template's variables."""
    ran = results.rows.groupby("topology", sort=False).collective.agg(set)
    ordered = {name: [what for what in results.collectives if what in own] for name, own in ran.items()}
    used = {name: {what: usages(results, name, what) for what in own} for name, own in ordered.items()}
    least = {(name, what): least_tb(found) for name, own in used.items() for what, found in own.items()}
    rows, ends = run_rows(results, least), results.rows.topology.value_counts(sort=False).cumsum()
    # The topologies that have a section: the first, and those that all fit.
    shown = [name for place, (name, end) in enumerate(ends.items()) if place == 0 or end <= LIMITS.rows]
    kept = {name: chain.from_iterable(one.shown for one in used[name].values()) for name in shown}
    networks = {name: next((one.topology for one in kept[name]), results.networks[name]) for name in shown}
    drawn = {name: bottlenecks(networks[name], used[name], results.collectives.index) for name in shown}
    topologies = [_section(results, name, used[name], networks[name], drawn[name], rows) for name in shown]
    left = "Left out: the rows of more topologies than fit here are in results.csv."
    others = enumerate(results.topologies[len(shown) :], len(shown))
    topologies += [Section(name, lead=[left], id=f"t{place}") for place, name in others]
    panels = list(rows.panel.unique()) if len(rows) else []
    wrong = int((results.rows.ok & (results.rows.gap < -TIE)).sum())  # faster than their bounds
    claims = counted(wrong, "row")
    # A method that this version lacks is left out.
    summaries = {one.method: METHODS[one.method].summary for one in results.series if one.method in METHODS}
    methods = {method: Markup("{}.").format(meaning) for method, meaning in summaries.items()}
    names = [f"{one.method} {one.options}".strip() for one in results.series]
    kinds = [": ".join(filter(None, (one.kind, summaries.get(one.method)))) for one in results.series]
    meanings = explained(TEXTS["words"]) | methods
    words = Section("Words of this page", words=meanings, id="glossary", folded=True)
    return {
        "title": f"{results.name}: tutti report",
        "heading": results.name,
        "answer": [*filter(None, [*sentences(results), exact_sentence(results)])],
        "alarm": TEXTS["page"]["wrong"].format(claims, "claims" if wrong == 1 else "claim") if wrong else "",
        "picture": picture_of(results),
        "lead": lead(results, len(shown)),
        "series": results.series,
        "tips": ["\n".join(filter(None, both)) for both in zip(names, kinds, strict=True)],
        "picks": [
            *(
                (name, name, [("", "all"), *((str(place), text) for place, text in enumerate(texts))])
                for name, texts in (("topology", results.topologies), ("collective", results.collectives))
            ),
            ("measure", "against size", list(measures(results).items())),
            ("axis", "its axis", [("log", "logarithmic"), ("linear", "linear")]),
            THEMES,
        ],
        "key": TEXTS["page"]["key"] + TEXTS["page"]["shaded"] * (len(results.tries) > 0),
        "sections": [_summary(results, least, drawn), *_glance(results), *topologies, words],
        "manifest": list(manifest_lines(results.manifest)),
        "charts": page_charts(run_specs(), results.series, panels) | {"rows": columns(rows)},
        "rows": rows,
        "measures": measures(results),
    }


def lead(results: Results, sections: int) -> str:
    """Return a sentence with the numbers of topologies, methods and rows, and of what the page leaves out."""
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


def _summary(results: Results, least: Mapping[Any, Any], drawn: Mapping[str, Bottlenecks]) -> Section:
    """Return the section on the methods, over all topologies."""
    if results.rows.empty:
        return Section("Methods", lead=["This run has no rows."], id="summary")
    spread = seeds(results)
    sizes = results.frame.size_bytes[results.frame.ok]
    largest = summary(results, sizes.max()) if sizes.nunique() > 1 else None
    gained = {name: found.gain for name, found in drawn.items() if found.gain}
    places = {name: f"t{results.topologies.index(name)}" for name in gained}
    gains = [(places[name], [results.short[name], *gain.cells]) for name, gain in gained.items()]
    blocks = [
        *block("ranking", method_table(results, least)),
        *block("exact", over_exact(results)),
        *block("profiles", *profile_panels(results), looks="two"),
        *block("summary", None if sizes.empty else summary(results), largest),
        *block("parts", gap_parts(results)),
        *block("seeds", seed_table(spread), *seed_panels(spread), looks="two"),
        *block("switch", switch_table(results), folded=True),
        *block("ideal", ideal_table(results), folded=True),
        *block("programs", solved_programs(results), folded=True),
        *block("predictions", predictions(results), folded=True),
        *block("frontiers", *frontier_panels(results), looks="two", folded=True),
        *block("gain", PageTable.of("gain", gains) if gains else None, folded=True),
    ]
    return Section("Methods", blocks, id="summary")


def _glance(results: Results) -> list[Section]:
    """Return the section on many networks at a glance; none for a run of few, or of one method."""
    if len(results.topologies) < GAP_RULES.fewest_networks or len(results.series) < 2:
        return []
    blocks: list[PageBlock] = []
    for what in results.collectives:
        sizes = results.rows.size_bytes[results.rows.collective == what]
        blocks += block("nearest", nearest(results, what), collective=what)
        for each in dict.fromkeys([sizes.max(), sizes.min()]):
            drawn, folded = gap_map(results, what, each), each < sizes.max()
            blocks += block("map", drawn, folded=folded, collective=what, size=size(each))
    return [Section("At a glance", blocks, id="glance")]


def figures_of(shown: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield every chart of a page's contents, in each measure, except empty ones and pictures of networks."""
    blocks = chain.from_iterable(section.blocks for section in shown["sections"])
    panels = chain.from_iterable(each.panels for each in blocks if each.key != "links")
    for panel in filter(None, (shown.get("picture"), *panels)):
        if isinstance(panel.chart, Figure) and (panel.chart.data is None or len(panel.chart.data)):
            yield from panel.chart.measured(shown.get("measures", {}))


def tables_of(shown: Mapping[str, Any]) -> dict[str, PageTable]:
    """Return every table of a page's contents, each with a name of its own."""
    found: dict[str, PageTable] = {}
    for table in chain.from_iterable(each.tables for section in shown["sections"] for each in section.blocks):
        name = next(n for n in chain([table.name], (f"{table.name}-{c}" for c in count(2))) if n not in found)
        found[name] = replace(table, name=name)
    return found


def picture_of(results: Results) -> Panel | None:
    """Return the picture that the page begins with: how near to the bound each method is, and where.

    It has a panel for each network and collective. If they are many, it is a map of the gaps of the first
    collective at its largest size. None if no row has a gap.
    """
    timed = results.rows[results.rows.ok & results.rows.gap.notna()]
    if timed.empty:
        return None
    panels = len(timed.drop_duplicates(["topology", "collective"]))
    if len(results.topologies) < GAP_RULES.fewest_networks and panels <= LIMITS.panels:
        title = "algbw as a part of its limit, against size"
        figure = Figure("share", f"{title}, a panel a network and collective")
        return Panel(f"{title}: at 100 % no schedule can be faster", "", figure)
    collective = next(name for name in results.collectives if name in set(timed.collective))
    bytes_ = results.rows.size_bytes[results.rows.collective == collective].max()
    title = f"gap to the proven bound of each method on each network, {collective} of {size(bytes_)}"
    return Panel(title, "", Figure("heat", title, {"collective": collective, "size_bytes": bytes_}))


def _section(
    results: Results,
    name: str,
    used: Mapping[str, Usages],
    network: Topology | None,
    drawn: Bottlenecks,
    rows: pd.DataFrame,
) -> Section:
    """Return the section of one topology."""
    own = results.rows[results.rows.topology == name]
    each = [(results, name, collective) for collective in used]
    replayed = [(*one, found) for one, found in zip(each, used.values(), strict=True)]
    more = "Choose the measure under Filter and legend. " if len(measures(results)) > 1 else ""
    lines: dict[str, Any] = {"frontier": "", "least": ""}
    if len(rows):  # the meaning of the solid and the dashed line in charts of T_B against T_L, if drawn
        timed, texts = rows[rows.topology == name], TEXTS["pareto"]
        several = timed.groupby("collective").frontier.sum().max() > 1
        dashed = timed.least_tb.notna().any()
        lines = {"frontier": texts["joined"] if several else "", "least": texts["dashed"] if dashed else ""}
    blocks = [
        *block("algbw", *(algbw_panel(*one) for one in each), measures=more),
        *block("pareto", *(pareto_panel(*one) for one in each), **lines),
        *block("effort", *(effort_panel(*one) for one in each)),
        *block("search", *(search_panel(*one) for one in each)),
        *block("solves", *(program_panel(*one) for one in each)),
        *block("gaps", case_table(results, name)),
        *block("bottlenecks", *drawn.panels),
        *block("traffic", *(traffic_panel(*one) for one in each)),
        *block("broadcast", *broadcast_panels(results, name), folded=True),
        *block("course", *(course_panel(*one) for one in replayed)),
        *block("links", *chain(*(usage_panels(*one) for one in replayed)), looks="maps", folded=True),
    ]
    place = results.topologies.index(name)
    facts, bounds = network_facts(network, next(own.itertuples())), []
    for collective in used:  # the algbw that is proven to be out of reach at the largest size
        bounded = own[(own.collective == collective) & (own.bound_us > 0)]
        if len(bounded):
            last = bounded.loc[bounded.size_bytes.idxmax()]
            algbw = number(last.size_bytes / last.bound_us / 1e3)
            what = f"{collective} of {size(last.size_bytes)}"
            bounds.append(f"{what}: at most {algbw} GB/s ({last.bound_kind} bound)")
    said = [f"{', '.join(facts)}.", *([f"{'; '.join(bounds)}."] if bounds else [])]
    return Section(name, blocks, said, id=f"t{place}", looks=f"topology t{place}", folded=place > 0)


def network_facts(topology: Topology | None, row: Row) -> list[str]:
    """Return what a topology is, from the network itself or else from a row of the results."""
    if topology is None:
        counts = (("node", row.nodes), ("switch", row.switches), ("link", row.links))
        return [counted(int(value), word) for word, value in counts if pd.notna(value)]
    out = topology.out_degrees[: topology.num_ranks].tolist()
    of_each = "out-degree of a rank" if min(out) == max(out) else "out-degrees of the ranks"
    return [
        counted(topology.num_ranks, "rank"),
        counted(topology.num_switches, "switch"),
        counted(topology.num_links, "link"),
        f"{of_each} {_range(out, str)}" if topology.degree is None else f"degree {topology.degree}",
        f"{_range(topology.bandwidth, format_bandwidth)} and {_range(topology.alpha, format_time)} a link",
    ]


def _range(values: Any, text: Callable[[Any], str]) -> str:
    low, high = min(values), max(values)
    return text(low) if low == high else f"{text(low)} to {text(high)}"


def manifest_lines(manifest: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the entries of a manifest as (dotted name, text); texts of several lines stay whole.

    Examples
    --------
    >>> list(manifest_lines({"machine": {"cores": 2}, "seeds": [0, 1]}))
    [('machine.cores', '2'), ('seeds', '0, 1')]
    """
    for key, value in manifest.items():
        if isinstance(value, list):
            tables = any(isinstance(entry, Mapping) for entry in value)
            value = dict(enumerate(value, 1)) if tables else ", ".join(map(str, value))
        if isinstance(value, Mapping):
            yield from manifest_lines(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", "" if value is None else str(value)

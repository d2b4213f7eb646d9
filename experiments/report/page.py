"""The page: every section of a report put into one file that needs nothing else, by templates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from tutti.experiments.registry import METHODS
from tutti.experiments.report.against_optimum import ideal_table, yardstick
from tutti.experiments.report.bottleneck_chart import Bottlenecks, bottlenecks
from tutti.experiments.report.charts import Figure, measures, run_charts
from tutti.experiments.report.networks import broadcast_panels
from tutti.experiments.report.overview import FEWEST, SHADES, glance
from tutti.experiments.report.panels import (
    Panel,
    algbw_panel,
    effort_panel,
    frontier_panels,
    pareto_panel,
    run_rows,
)
from tutti.experiments.report.results import Results, Row, read_results
from tutti.experiments.report.seeds import seeds
from tutti.experiments.report.series import DARK, LIGHT, Series
from tutti.experiments.report.standings import LeastTB, common_cases, ranking, sentences
from tutti.experiments.report.switch_over import switch_overs
from tutti.experiments.report.tables import GapTable, gap_table, is_wrong, overview, solved_programs, states
from tutti.experiments.report.text import counted, number, percent, seconds, size, times
from tutti.experiments.report.utilisation import (
    LEVELS,
    Usages,
    caption,
    course_panels,
    has_matrix,
    least_tb,
    level_name,
    picture,
    traffic_panels,
    usages,
)
from tutti.experiments.runner.manifest import NOT_RUN
from tutti.experiments.runner.study import REPORT
from tutti.experiments.show.page import source as network_source
from tutti.experiments.show.svg import as_it_is, tag, templates
from tutti.topologies.files import written
from tutti.topologies.topology import Topology
from tutti.topologies.units import format_bandwidth, format_time

TEMPLATES = Path(__file__).parent / "templates"


class PageLimits(NamedTuple):
    """Limits above which parts of the page are folded away or left out."""

    pictures: int
    """Matrices of a topology above which they are folded away."""
    across: int
    """Matrices in a row."""
    gaps: int
    """Rows of a topology's table of gaps above which it is folded away."""
    switches: int
    """Rows of the table of the fastest methods above which it is folded away."""
    panels: int
    """Most panels of the first picture, which should fit on the first screen."""
    rows: int
    """Rows of the results up to which topologies have a section."""


LIMITS = PageLimits(pictures=30, across=6, gaps=12, switches=40, panels=16, rows=5000)


def render(name: str, /, **shown: Any) -> str:
    """Return a page by its template, with the style and the scripts of all pages."""
    style = source("report.css") + palette()
    return templates(TEMPLATES).get_template(name).render(shown, style=style, scripts=scripts())


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
    """Write the page of some contents and return its path.

    Raises
    ------
    InputError
        If it can't be written.
    """
    return written(page, render("report.html", **shown).encode(), "report")


def contents(results: Results) -> dict[str, Any]:
    """Return all that the page of a run says, by the names that its template has for it."""
    used = {(t, c): usages(results, t, c) for t in results.topologies for c in results.collectives}
    least = {case: least_tb(found) for case, found in used.items()}
    rows, counts = run_rows(results, least), results.manifest.get("rows")
    not_run = counts.get(NOT_RUN) if isinstance(counts, Mapping) else None
    return {
        "charts": run_charts(results.series, rows),
        "answer": sentences(results),
        "picture": picture_of(results),
        "name": results.name,
        "results": results,
        "states": states(results),
        "not_run": not_run if isinstance(not_run, int) else 0,
        "wrong": sum(is_wrong(row) for row in results.rows),
        "measures": measures(results),
        "times": times,
        "ranking": ranking(results, least),
        "common": len(common_cases(results)[1]),
        "longest_open": LIMITS.gaps,
        "programs": solved_programs(results),
        "summaries": summaries(results),
        "glance": glance(results),
        "shades": SHADES,
        "percent": percent,
        "size": size,
        "seconds": seconds,
        "overview": [overview(results, topology) for topology in results.topologies],
        "frontiers": frontier_panels(results),
        "seeds": seeds(results),
        "ideal": ideal_table(results),
        "yardstick": yardstick(results),
        "switch_overs": switch_overs(results),
        "folded_from": LIMITS.switches,
        "sections": [_section(results, topology, used, least) for topology in _shown(results)],
        "most_rows": f"{LIMITS.rows:,}",
        "swatch": swatch,
        "levels": [(level, level_name(level)) for level in range(LEVELS + 1)],
        "open_pictures": LIMITS.pictures,
        "manifest": list(manifest_lines(results.manifest)),
        "rows": rows,
    }


def figures_of(shown: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield every chart of a page's contents, in each measure, but for what is drawn on networks."""
    found = [shown["picture"], *(shown["seeds"].figures if shown["seeds"] else ())]
    panels = list(shown["frontiers"])
    for one in shown["sections"]:
        panels += [*one.algbw, *one.pareto, *one.effort, *one.bottlenecks.panels, *one.traffic, *one.course]
    for each in (*found, *(panel.chart for panel in panels)):
        if isinstance(each, Figure):
            yield from each.measured(shown["measures"])


def picture_of(results: Results) -> Figure | None:
    """Return the picture that the page begins with: how near to the bound each method is, and where.

    A panel a network and collective; of many the gaps of the first collective at its largest size. None where
    there is no gap to show.
    """
    timed = {(row.topology, row.collective) for row in results.rows if row.ok and row.gap is not None}
    if not timed:
        return None
    if len(results.topologies) < FEWEST and len(timed) <= LIMITS.panels:
        return Figure("share", "algbw as a part of its limit, against size, a panel a network and collective")
    collective = next(name for name in results.collectives if any(case[1] == name for case in timed))
    bytes_ = max(row.size_bytes for row in results.rows if row.collective == collective)
    told = f"gap to the proven bound of each method on each network, {collective} of {size(bytes_)}"
    return Figure("heat", told, {"collective": collective, "size_bytes": bytes_})


def _shown(results: Results) -> list[str]:
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


@dataclass(frozen=True)
class UtilisationSection:
    """The link utilisation of one collective: pictures with their captions, and sentences."""

    collective: str
    number: int
    pictures: list[tuple[Series, Figure, str]]
    notes: tuple[str, ...]

    @property
    def across(self) -> int:
        """How many pictures a full row has, so that the rows are about equally long."""
        count = max(1, len(self.pictures))
        return math.ceil(count / math.ceil(count / LIMITS.across))


@dataclass(frozen=True)
class TopologySection:
    """Everything that the page says of one topology."""

    name: str
    facts: list[str]
    bounds: list[str]
    table: GapTable
    algbw: list[Panel]
    pareto: list[Panel]
    effort: list[Panel]
    bottlenecks: Bottlenecks
    traffic: list[Panel]
    broadcast: list[Panel]
    course: list[Panel]
    usage: list[UtilisationSection]
    small: bool

    @property
    def lines(self) -> frozenset[str]:
        """The lines in its charts of T_L against T_B."""
        return frozenset().union(*(panel.lines for panel in self.pareto))

    @property
    def pictures(self) -> int:
        """How many matrices or histograms it has."""
        return sum(len(usage.pictures) for usage in self.usage)


def _section(
    results: Results, name: str, everything: Mapping[tuple[str, str], Usages], least: LeastTB
) -> TopologySection:
    rows = [row for row in results.rows if row.topology == name]
    collectives = [c for c in results.collectives if any(row.collective == c for row in rows)]
    used = {collective: everything[name, collective] for collective in collectives}
    networks = [usage.topology for found in used.values() for usage in found.shown]
    topology = networks[0] if networks else results.networks[name]

    def panels(make: Callable[[Results, str, str], Panel]) -> list[Panel]:
        return [make(results, name, collective) for collective in collectives]

    return TopologySection(
        name,
        _network_facts(topology, rows[0]),
        list(_bound_facts(results, name, collectives)),
        gap_table(results, name),
        panels(algbw_panel),
        [pareto_panel(results, name, collective, least[name, collective]) for collective in collectives],
        panels(effort_panel),
        bottlenecks(topology, used, {c: results.collectives.index(c) for c in collectives}),
        traffic_panels(results, name, collectives),
        broadcast_panels(results, name),
        course_panels(results, name, list(used.items())),
        [_usage(results, name, collective, found) for collective, found in used.items()],
        all(map(has_matrix, networks)),
    )


def _usage(results: Results, topology: str, collective: str, found: Usages) -> UtilisationSection:
    sizes = list(results.of(topology, collective))
    pictures = [
        (results.series[usage.series], picture(usage, f"{label}, {collective}"), caption(usage, sizes))
        for usage in found.shown
        for label in [results.series[usage.series].label]
    ]
    notes = found.notes if pictures or found.notes else ("No method has a time.",)
    return UtilisationSection(collective, results.collectives.index(collective), pictures, notes)


def _network_facts(topology: Topology | None, row: Row) -> list[str]:
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

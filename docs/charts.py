"""Charts of the site: static SVG in the theme's colours, made from the tables in docs/data/."""

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log10
from pathlib import Path
from statistics import median

from markupsafe import Markup

DATA = Path(__file__).parent / "data"
SIZES = ("1KB", "32KB", "1MB", "32MB", "1GB")
CLASSES = ((1, "up to 1 %"), (10, "10 %"), (25, "25 %"), (50, "50 %"), (float("inf"), "more"))
"""Upper limits of gaps in %, one for each shade, and their texts in the key."""
LABEL, CELL, ROW = 132, 34, 18
"""Pixels: the width of the labels of rows, the width of a cell, and the height of a row."""
WIDTH, EDGE = 340, 14
"""Pixels: width of a chart, at which a phone shows it at full size, and of the margins of its scale."""

Cells = Mapping[str, Mapping[str, Mapping[str, str]]]


def write() -> Iterator[tuple[str, str]]:
    """Yield the name and the HTML of each chart."""
    yield "sizes", _sizes()
    yield "every_method", _pictures(*map(_every_method, ("allgather", "allreduce", "all-to-all")))
    yield "small_optima", _small_optima()
    yield (
        "sccl_table_3_6",
        _seconds(
            "sccl_table_3_6",
            ("published SCCL (s)", "program (s)", "with start (s)"),
            (0.001, 0.1, 10, 10_000),
        ),
    )
    yield (
        "taccl_table_3_6",
        _seconds(
            "taccl_table_3_6",
            ("published seconds with symmetry", "seconds with symmetry"),
            (0.01, 1, 100, 10_000),
        ),
    )
    yield "resilience", _resilience()


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a table in docs/data/."""
    with (DATA / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _sizes() -> str:
    """Return a heat map for each collective, the key of the shades, and the folded tables."""
    cells: dict[str, dict[str, dict[str, dict[str, str]]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows("sizes"):
        cells[row["collective"]][row["network"]][row["size"]] = row
    figures = [_figure(_heat(of, name), name) for name, of in cells.items()]
    tables = [Markup("<p>{}</p>{}").format(name, _table(of)) for name, of in cells.items()]
    details = Markup("<details><summary>The numbers, in %, with the method</summary>{}</details>")
    return _pictures(*figures) + _key(text for _, text in CLASSES) + details.format(_joined(tables))


def _heat(of: Cells, title: str) -> Markup:
    width, height = LABEL + CELL * len(SIZES), ROW * (len(of) + 1)
    parts = [_text(LABEL + CELL * (i + 0.5), ROW / 2, size) for i, size in enumerate(SIZES)]
    for index, (network, by_size) in enumerate(of.items()):
        top = ROW * (index + 1)
        parts.append(_text(LABEL - 6, top + ROW / 2, network, "label"))
        for place, size in enumerate(SIZES):
            cell = by_size[size]
            shade = next(i for i, (most, _) in enumerate(CLASSES) if float(cell["gap_percent"]) <= most)
            said = f"{network}, {size}: {cell['gap_percent']} % by {cell['maker'] or cell['method']}"
            box = (LABEL + CELL * place, top, CELL - 2, ROW - 2)
            parts.append(_rect(f"b{shade + 1}", *box, said))
    return _svg(width, height, parts, f"The gap of {title} on {len(of)} networks at {len(SIZES)} sizes.")


def _table(of: Cells) -> Markup:
    head = _joined(Markup("<th scope='col'>{}</th>").format(size) for size in ("network", *SIZES))
    lines = [
        Markup("<tr><th scope='row'>{}</th>{}</tr>").format(
            network,
            _joined(Markup("<td>{gap_percent} {method}</td>").format(**by_size[size]) for size in SIZES),
        )
        for network, by_size in of.items()
    ]
    return Markup(
        '<div class="wide-table" tabindex="0" role="region" aria-label="table"><table><thead><tr>{}</tr>'
        "</thead><tbody>{}</tbody></table></div>"
    ).format(head, _joined(lines))


def _every_method(collective: str) -> Markup:
    """Return a row for each method, with a dot for its gap at 1 GB on each network."""
    gaps = {
        row["method"]: {
            f"{row['method']} on {network}: {value} %": (float(value), 1)
            for network, value in row.items()
            if network not in ("collective", "size", "method") and value
        }
        for row in rows("every_method")
        if (row["collective"], row["size"]) == (collective, "1GB")
    }
    order = sorted(gaps, key=lambda method: median(gap for gap, _ in gaps[method].values()))
    cut = "version=|chunks=|=ndv2-sk-1|_all_to_all"
    lines = [(re.sub(cut, "", method), gaps[method]) for method in order]
    title = f"{collective}, 1 GB: one dot for each network"
    return _figure(_dots(lines, (0.01, 1, 100, 10_000), "%", title), title)


def _small_optima() -> str:
    """Return a bar for each case: how far the bound is under the least time."""
    table = rows("small_optima")
    scale = (WIDTH - LABEL - 56 - EDGE) / max(float(row["bound under least (%)"]) for row in table)
    kinds: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in table:
        kinds[row["collective"]].append(row)
    figures = []
    for kind, cases in kinds.items():
        parts = []
        for index, row in enumerate(cases):
            under, name = float(row["bound under least (%)"]), row["network"].partition("?")[0]
            said = f"{row['network']}: {row['least (us)']} us, bound {row['bound (us)']} us ({row['kind']})"
            name += "?..." * ("?" in row["network"])
            parts.append(_text(LABEL - 6, ROW * (index + 0.5), name, "label"))
            parts.append(_rect("b3", LABEL, ROW * index + 2, max(1, under * scale), ROW - 4, said))
            parts.append(_text(LABEL + under * scale + 4, ROW * (index + 0.5), f"{under:g} %", "value"))
        title = f"{kind}: the bound is under the least time by"
        figures.append(_figure(_svg(WIDTH, ROW * len(cases), parts, title), title))
    return _pictures(*figures)


def _seconds(name: str, columns: Sequence[str], ticks: Sequence[float]) -> str:
    """Return a row for each network and number of chunks, with a dot for each column of seconds."""
    lines = []
    for row in rows(name):
        label = f"{row['network']}, {row['chunks']}"
        found = {column: re.match(r"[\d.]+$", row[column]) for column in columns}
        dots = {
            f"{label} chunks, {column}: {match[0]}": (float(match[0]), 1 + 2 * place)
            for place, (column, match) in enumerate(found.items())
            if match
        }
        lines.append((label, dots))
    said = "Network, chunks in a shard, and seconds. No dot: no schedule or no proof in time."
    chart = _figure(_dots(lines, ticks, " s", said), said)
    shades = [Markup('<i class="d{}"></i> {}').format(1 + 2 * i, text) for i, text in enumerate(columns)]
    return _pictures(chart) + Markup('<p class="legend">{}</p>').format(Markup(" · ").join(shades))


def _resilience() -> str:
    """Return a chart of losses for each collective and network, with a row for each count and schedule."""
    panels: dict[tuple[str, str, str], list[tuple[str, dict[str, tuple[float, int]]]]] = defaultdict(list)
    columns = {"median": "median loss (%)", "90th percentile": "90th percentile (%)", "worst": "worst (%)"}
    for row in rows("resilience"):
        label = f"{row['failed']} failed, {row['schedule']}"
        dots = {
            f"{label}, {name}: {row[column]} %": (float(row[column]), 5 - 2 * place)
            for place, (name, column) in enumerate(columns.items())
        }
        panels[row["collective"], row["network"], row["what failed"]].append((label, dots))
    figures = []
    for (collective, network, what), lines in panels.items():
        title = f"{collective} on {network}, failed {what.replace('nics', 'adapters')}: loss"
        ticks = (-25, 0, 25, 50, 75) if what == "nics" else (-50, 0, 100, 200)
        figures.append(_figure(_dots(lines, ticks, " %", title, log=False), title))
    shades = [Markup('<i class="d{}"></i> {}').format(5 - 2 * i, name) for i, name in enumerate(columns)]
    return _pictures(*figures) + Markup('<p class="legend">{}</p>').format(Markup(" · ").join(shades))


def _dots(
    lines: Sequence[tuple[str, Mapping[str, tuple[float, int]]]],
    ticks: Sequence[float],
    unit: str,
    said: str,
    *,
    log: bool = True,
) -> Markup:
    """Return a row for each line, with its dots (value and shade, by what they say) on an axis."""
    least, most, foot = ticks[0], ticks[-1], ROW * len(lines)

    def x(value: float) -> float:
        value = min(max(value, least), most)
        part = log10(value / least) / log10(most / least) if log else (value - least) / (most - least)
        return LABEL + EDGE + (WIDTH - LABEL - 2 * EDGE) * part

    parts = []
    for tick in ticks:
        parts.append(Markup('<path class="rule" d="M{:.1f} 0V{}"/>').format(x(tick), foot))
        last = tick == most
        text = f"{tick:g}{unit}"
        parts.append(_text(WIDTH if last else x(tick), foot + ROW / 2, text, "end" if last else "tick"))
    for index, (label, dots) in enumerate(lines):
        middle = ROW * (index + 0.5)
        parts.append(_text(LABEL - 6, middle, label, "label"))
        dot = Markup('<circle class="dot d{}" cx="{:.1f}" cy="{}" r="4"><title>{}</title></circle>')
        parts += [dot.format(shade, x(value), middle, text) for text, (value, shade) in dots.items()]
    return _svg(WIDTH, foot + ROW, parts, said)


def _key(texts: Iterable[str]) -> Markup:
    marks = [Markup('<i class="q{}"></i> {}').format(i + 1, text) for i, text in enumerate(texts)]
    return Markup('<p class="legend">Gap: {}</p>').format(Markup(" · ").join(marks))


def _text(x: float, y: float, text: str, kind: str = "tick") -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(kind, x, y, text)


def _rect(kind: str, x: float, y: float, width: float, height: float, said: str) -> Markup:
    size = Markup('x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"').format(x, y, width, height)
    return Markup('<rect class="{}" {}><title>{}</title></rect>').format(kind, size, said)


def _svg(width: float, height: float, parts: Iterable[Markup], said: str) -> Markup:
    return Markup(
        '<svg class="lanes chart" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}</svg>'
    ).format(width, height, said, _joined(parts))


def _figure(svg: Markup, text: str) -> Markup:
    return Markup("<figure>{}<figcaption>{}</figcaption></figure>").format(svg, text)


def _pictures(*figures: Markup) -> Markup:
    return Markup('<div class="pictures">{}</div>').format(_joined(figures))


def _joined(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)

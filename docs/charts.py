"""Charts of the site: static SVG in the theme's colours, made from the tables in docs/data/."""

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import log10
from pathlib import Path

from markupsafe import Markup

DATA = Path(__file__).parent / "data"
SIZES = ("1KB", "32KB", "1MB", "32MB", "1GB")
CLASSES = ((1, "up to 1 %"), (10, "10 %"), (25, "25 %"), (50, "50 %"), (float("inf"), "more"))
"""Upper limits of gaps in %, one for each shade, and their texts in the key."""
LABEL, CELL, ROW = 132, 34, 18
"""Pixels: the width of the labels of rows, the width of a cell, and the height of a row."""
WIDTH = 340
"""Pixels: width of a strip chart. A phone shows a letter of 12 pixels at full size."""


def write() -> Iterator[tuple[str, str]]:
    """Yield the name and the HTML of each chart."""
    yield "sizes", _sizes()
    for collective in ("allgather", "allreduce", "all-to-all"):
        yield f"every_method_{collective}", _every_method(collective)


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
    tables = [Markup("<h4>{}</h4>{}").format(name, _table(of)) for name, of in cells.items()]
    details = Markup("<details><summary>The numbers, in %, with the method</summary>{}</details>")
    return Markup('<div class="pictures">{}</div>{}{}').format(
        _joined(figures), _key(), details.format(_joined(tables))
    )


def _heat(of: Mapping[str, Mapping[str, Mapping[str, str]]], title: str) -> Markup:
    width, height = LABEL + CELL * len(SIZES), ROW * (len(of) + 1)
    parts = [_text(LABEL + CELL * (i + 0.5), ROW / 2, size) for i, size in enumerate(SIZES)]
    for index, (network, by_size) in enumerate(of.items()):
        top = ROW * (index + 1)
        parts.append(_text(LABEL - 6, top + ROW / 2, network, "label"))
        for place, size in enumerate(SIZES):
            cell = by_size[size]
            shade = next(i for i, (most, _) in enumerate(CLASSES) if float(cell["gap_percent"]) <= most)
            said = f"{network}, {size}: {cell['gap_percent']} % by {cell['maker'] or cell['method']}"
            parts.append(
                Markup(
                    '<rect class="b{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>'
                ).format(shade + 1, LABEL + CELL * place, top, CELL - 2, ROW - 2, said)
            )
    return _svg(width, height, parts, f"The gap of {title} on {len(of)} networks at {len(SIZES)} sizes.")


def _key() -> Markup:
    marks = [Markup('<i class="q{}"></i> {}').format(i + 1, text) for i, (_, text) in enumerate(CLASSES)]
    return Markup('<p class="legend">Gap: {}</p>').format(Markup(" · ").join(marks))


def _table(of: Mapping[str, Mapping[str, Mapping[str, str]]]) -> Markup:
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


def _every_method(collective: str) -> str:
    """Return a row for each method, with a dot for its gap at 1 GB on each network."""
    least, most = 0.01, 10_000.0
    gaps = {
        row["method"]: {
            network: float(value)
            for network, value in row.items()
            if network not in ("collective", "size", "method") and value
        }
        for row in rows("every_method")
        if (row["collective"], row["size"]) == (collective, "1GB")
    }
    order = sorted(gaps, key=lambda method: sorted(gaps[method].values())[len(gaps[method]) // 2])
    scale = (WIDTH - LABEL - 16) / log10(most / least)

    def x(gap: float) -> float:
        return LABEL + 8 + scale * log10(min(max(gap, least), most) / least)

    foot = ROW * len(order)
    parts = []
    for tick in (0.01, 1, 100, 10_000):
        parts.append(Markup('<path class="rule" d="M{:.1f} 0V{}"/>').format(x(tick), foot))
        parts.append(_text(x(tick), foot + ROW / 2, f"{tick:g}%"))
    for index, method in enumerate(order):
        middle = ROW * (index + 0.5)
        parts.append(_text(LABEL - 6, middle, method.replace("version=", "").replace("chunks=", ""), "label"))
        for network, gap in gaps[method].items():
            said = f"{method} on {network}: {gap:g} %"
            parts.append(
                Markup('<circle class="dot" cx="{:.1f}" cy="{}" r="4"><title>{}</title></circle>').format(
                    x(gap), middle, said
                )
            )
    said = f"Gap of each method for {collective}s of 1 GB, one dot for each network."
    return Markup('<div class="pictures">{}</div>').format(
        _figure(_svg(WIDTH, foot + ROW, parts, said), f"{collective}, 1 GB: one dot for each network")
    )


def _text(x: float, y: float, text: str, kind: str = "tick") -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(kind, x, y, text)


def _svg(width: float, height: float, parts: Iterable[Markup], said: str) -> Markup:
    return Markup(
        '<svg class="lanes chart" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}</svg>'
    ).format(width, height, said, _joined(parts))


def _figure(svg: Markup, text: str) -> Markup:
    return Markup("<figure>{}<figcaption>{}</figcaption></figure>").format(svg, text)


def _joined(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)

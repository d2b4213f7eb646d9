"""Pictures of docs/concepts.md: bars over time, as the simulator has them, and networks with marked links."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import networkx as nx
import numpy as np
from markupsafe import Markup, escape

import tutti
from tutti.experiments.result import Result
from tutti.experiments.show.drawing import LEVELS, draw
from tutti.experiments.show.page import film

MEGABYTE, GIGABYTE = Fraction(10**6), Fraction(10**9)
LEFT, WIDTH, LANE, BAR, FOOT = 112.0, 480.0, 30.0, 22.0, 22.0
"""Pixels: where bars begin, the whole width, the height of a lane, of its bar and of the axis."""
ENOUGH = 6.5
"""Pixels that a letter takes; a text that is wider than its bar is left out."""


class Bar(NamedTuple):
    """A bar: from, to, shade (0 is for α) and what is written in it."""

    begin: float
    end: float
    shade: int
    text: str = ""


Lane = tuple[str, Sequence[Bar]]


def write() -> Iterator[tuple[str, str]]:
    """Yield the name and the HTML of each picture."""
    yield "alpha_beta", _pictures(_alpha_beta())
    yield "clocks", _pictures(*_clocks())
    yield "steps", _pictures(*_steps())
    yield "cut", _pictures(_cut())
    yield "gap", _pictures(_gap())
    yield "bandwidth", _pictures(_bandwidth())


def two_triangles() -> nx.Graph:
    """Return the network of the page's cut: two triangles, joined by one link."""
    graph = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3)], name="two triangles")
    nx.set_edge_attributes(graph, "50GB/s", "bandwidth")
    nx.set_edge_attributes(graph, "0.5us", "alpha")
    return graph


def _alpha_beta() -> Markup:
    whole, half = 20.0, 10.0
    lanes = [
        ("one message", [Bar(0, 0.5, 0, "α"), Bar(0.5, 0.5 + whole, 1, "1 MB")]),
        (
            "two messages",
            [
                *(Bar(0, 0.5, 0, "α"), Bar(0.5, 0.5 + half, 1, "0.5 MB")),
                *(Bar(10.5, 11, 0, "α"), Bar(11, 11 + half, 2, "0.5 MB")),
            ],
        ),
        ("into a switch", [Bar(0, 0.5, 0, "α"), Bar(0.5, 0.5 + whole, 1, "1 MB")]),
        ("out of it", [Bar(0.5, 1, 0, "α"), Bar(1, 1 + whole, 1, "1 MB")]),
    ]
    said = (
        "One message of 1 MB holds a link until 20.5 µs, two of half the size until 21 µs. Through a switch"
    )
    return _figure(
        _lanes(lanes, 22, "µs", f"{said} the second link is held from 0.5 to 21 µs."),
        "Who holds a link when.",
    )


def _clocks() -> Iterator[Markup]:
    for method, options, caption in (
        ("sccl", {"chunks": 2}, "Step clock: two chunks, three steps; a step ends at each dashed line."),
        ("teccl", {"chunks": 2}, "Time clock: the same messages, and the schedule says when each starts."),
        ("forestcoll", {}, "Flow clock: here in 8 slices; each is passed on when it has come."),
    ):
        made = tutti.synthesize("mesh:3x1", "broadcast", size="1MB", method=method, **options)
        marks = [10.5, 21.0] if method == "sccl" else []
        lanes = _simulated(made, starts=method == "teccl")
        said = f"{caption} It takes {made.time * 1e6:.1f} µs."
        yield _figure(_lanes(lanes, 33, "µs", said, marks), said)


def _simulated(made: Result, *, starts: bool) -> list[Lane]:
    """Return a lane for each link that is used, with the simulator's messages."""
    shown, topology = film(made.schedule, made.size), made.schedule.topology
    lanes = []
    for link in sorted(set(shown.link.tolist())):
        which = np.flatnonzero(shown.link == link)
        bars = []
        for place, (begin, end) in enumerate(
            zip(shown.begin[which] * 1e6, shown.end[which] * 1e6, strict=True)
        ):
            text = f"at {begin:.1f} µs" if starts else str(place + 1)
            bars.append(Bar(begin, end, 1 + place % 2, text))
        lanes.append((topology.link_name(link).replace("->", " → "), bars))
    return lanes


def _steps() -> Iterator[Markup]:
    made = tutti.synthesize("ring:4", "allgather", size="1MB", method="bfb")
    shown, topology = film(made.schedule, made.size), made.schedule.topology
    shard = float(made.size) / topology.num_ranks
    for step in (1, 2):
        carried = np.zeros(topology.num_links)
        now = shown.step == step
        np.add.at(carried, shown.link[now], shown.bytes[now] / shard)
        shades = np.ceil(LEVELS * carried).astype(np.int64)
        (each,) = set(carried.tolist())
        said = f"Step {step}: each link carries {each:g} shard{'s' * (each > 1)}."
        yield _figure(draw(topology, shades=shades, said=f"{topology.name}. {said}"), said)


def _cut() -> Markup:
    net = tutti.topology(two_triangles())
    crossing = (net.source <= 2) & (net.target >= 3)
    said = "All that ranks 0, 1 and 2 have must cross the marked link."
    return _figure(draw(net, shades=LEVELS * crossing.astype(np.int64), said=said), said)


def _gap() -> Markup:
    lanes: list[Lane] = []
    for method in ("ring", "bfb"):
        made = tutti.synthesize("ring:4", "allgather", size="1MB", method=method)
        time, bound = made.time * 1e6, made.bound.seconds * 1e6
        lanes.append(
            (method, [Bar(0, bound, 1, f"{time:.1f} µs"), *[Bar(bound, time, 2)] * (time > bound + 1e-9)])
        )
    said = f"The bound is {bound:.1f} µs, the dashed line. What is beyond it is the gap."
    return _figure(_lanes(lanes, 10, "µs", said, [bound]), said)


def _bandwidth() -> Markup:
    lanes: list[Lane] = []
    for kind in ("allgather", "allreduce"):
        made = tutti.synthesize("ring:4", kind, size="1GB", method="bfb")
        for shade, name, value in ((1, "algbw", made.algbw / 1e9), (2, "busbw", made.busbw / 1e9)):
            lanes.append((f"{kind} {name}", [Bar(0, value, shade, f"{value:.1f} GB/s")]))
    said = "Both collectives use the rank's two links of 50 GB/s (dashed) to the full: busbw shows it."
    return _figure(_lanes(lanes, 140, "GB/s", said, [100.0]), said)


def _lanes(lanes: Sequence[Lane], end: float, unit: str, said: str, marks: Sequence[float] = ()) -> Markup:
    """Return lanes of bars over an axis from 0 to `end`, with dashed lines at the marks."""
    scale, foot = (WIDTH - LEFT - 24) / end, LANE * len(lanes)
    parts = []
    for row, (label, bars) in enumerate(lanes):
        top = row * LANE + (LANE - BAR) / 2
        middle = f'y="{top + BAR / 2:.1f}"'
        parts.append(f'<text class="label" x="{LEFT - 8:.0f}" {middle}>{escape(label)}</text>')
        for bar in bars:
            x, width = LEFT + bar.begin * scale, (bar.end - bar.begin) * scale
            size = f'x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{BAR:.0f}"'
            parts.append(f'<rect class="b{bar.shade}" {size}><title>{escape(bar.text)}</title></rect>')
            if len(bar.text) * ENOUGH <= width:
                parts.append(f'<text x="{x + width / 2:.1f}" {middle}>{escape(bar.text)}</text>')
    parts += [f'<path class="mark" d="M{LEFT + mark * scale:.1f} 0V{foot:.0f}"/>' for mark in marks]
    parts.append(f'<path class="axis" d="M{LEFT:.0f} {foot:.0f}H{LEFT + end * scale:.1f}"/>')
    step = next(step for step in (1, 2, 5, 10, 20, 50) if end / step <= 8)
    for tick in range(0, int(end) + 1, step):
        text = f"{tick} {unit}" if tick == 0 else tick
        parts.append(f'<text x="{LEFT + tick * scale:.1f}" y="{foot + FOOT / 2:.1f}">{text}</text>')
    box = f'viewBox="0 0 {WIDTH:.0f} {foot + FOOT:.0f}"'
    return Markup(f'<svg class="lanes" {box} role="img" aria-label="{escape(said)}">{"".join(parts)}</svg>')


def _figure(svg: Markup, text: str) -> Markup:
    return Markup("<figure>{}<figcaption>{}</figcaption></figure>").format(svg, text)


def _pictures(*figures: Markup) -> str:
    return f'<div class="pictures">{Markup("").join(figures)}</div>\n'

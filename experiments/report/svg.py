"""Drawing: escaped SVG elements, scales with their ticks, axes, and labels that don't overlap."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from experiments.report.series import Series
from experiments.report.text import number, size

CHARACTER = 6.1
"""Width of a character of a label, in pixels; generous for the 11 px font."""
LINE = 13.0
"""Height of a line of a label, in pixels."""
WIDEST_LINEAR = 60.0
"""A scale from zero serves values whose ratio is at most this; beyond, it is logarithmic."""

MARKER = 5.0
"""Half the width of a marker, in pixels."""
BELOW_FOOT = 7.0
"""Pixels that a label may hang below the x axis without touching the ticks' labels."""

Point = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels."""


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element with everything in it escaped.

    Attributes that are None are left out; ``_`` in a name stands for ``-``, but at the end for nothing.

    Examples
    --------
    >>> tag("text", "a<b", class_="x", data_tip='"')
    Markup('<text class="x" data-tip="&#34;">a&lt;b</text>')
    """
    pairs = (
        Markup(' {}="{}"').format(Markup(key.rstrip("_").replace("_", "-")), _text(value))
        for key, value in attributes.items()
        if value is not None
    )
    # `name` and the attributes' names are literals of this package.
    opening = Markup("<{}{}>").format(Markup(name), Markup("").join(pairs))
    inner = Markup("").join(escape(child) for child in children)
    return opening + inner + Markup("</{}>").format(Markup(name))


def group(parts: Iterable[object], **attributes: object) -> Markup:
    """Return the parts in a ``<g>``."""
    return tag("g", *parts, **attributes)


def _text(value: object) -> object:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value


@dataclass(frozen=True)
class Scale:
    """From values to pixels.

    Parameters
    ----------
    place
        Value to pixel.
    ticks
        Values with their labels, increasing.
    """

    place: Callable[[float], float]
    ticks: tuple[tuple[float, str], ...]


def linear(values: Sequence[float], pixels: Point, count: int = 5, low: float = 0.0) -> Scale:
    """Return a scale of about `count` ticks, from one not above `low` to one not below the largest value."""
    largest = max(values, default=low)
    largest = largest if largest > low else low + 1.0
    raw = (largest - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(largest / step - 1e-9)
    start, end = pixels
    digits = max(4, math.floor(math.log10(max(abs(first), abs(last)))) + 3)  # such that ticks differ
    ticks = tuple((step * i, number(step * i, digits)) for i in range(first, last + 1))
    return Scale(lambda v: start + (end - start) * (v / step - first) / (last - first), ticks)


def logarithmic(values: Sequence[float], pixels: Point, unit: Callable[[float], str] = number) -> Scale:
    """Return a logarithmic scale around positive values, ticked at powers of ten (and 2, 5 where few)."""
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.08, 0.05 * (high - low))
    low, high = low - room, high + room
    if high - low < 0.7:
        low, high = (low + high - 0.7) / 2, (low + high + 0.7) / 2
    start, end = pixels

    def place(value: float) -> float:
        return start + (end - start) * (math.log10(value) - low) / (high - low)

    return Scale(place, tuple((mark, unit(mark)) for mark in _log_marks(low, high)))


def _log_marks(low: float, high: float) -> list[float]:
    factors = (1.0,) if high - low > 3 else (1.0, 2.0, 5.0)
    stride = max(1, math.ceil((high - low) / 6))
    decades = [d for d in range(math.floor(low), math.ceil(high) + 1) if d % stride == 0 or high - low <= 3]
    marks = (10.0**decade * factor for decade in decades for factor in factors)
    return [mark for mark in marks if low <= math.log10(mark) <= high]


def from_zero(values: Sequence[float], pixels: Point) -> Scale:
    """Return a linear scale from zero, or a logarithmic one where that would crush the small values."""
    positive = [value for value in values if value > 0]
    if len(positive) == len(values) and max(positive) > WIDEST_LINEAR * min(positive):
        return logarithmic(positive, pixels)
    return linear(values, pixels)


ZERO_BAND = 22.0
"""Pixels between the zero of `log_with_zero` and the foot of its logarithmic part."""


def log_with_zero(values: Sequence[float], pixels: Point, unit: Callable[[float], str] = number) -> Scale:
    """Return a logarithmic scale with a separate place for zero at its start (0 is no power of ten)."""
    start, end = pixels
    positive = [value for value in values if value > 0] or [1.0]
    toward = math.copysign(ZERO_BAND, end - start)
    has_zero = any(value <= 0 for value in values)
    upper = logarithmic(positive, (start + toward if has_zero else start, end), unit)
    if not has_zero:
        return upper
    ticks = upper.ticks if any(value > 0 for value in values) else ()
    return Scale(lambda value: upper.place(value) if value > 0 else start, ((0.0, "0"), *ticks))


def sizes_scale(sizes: Sequence[float], pixels: Point) -> Scale:
    """Return a logarithmic scale ticked at the sizes themselves, as many as fit."""
    base = logarithmic(sizes, pixels)
    ticks: list[tuple[float, str]] = []
    edge = -math.inf
    for value in sorted(set(sizes)):
        label = size(value)
        half = len(label) * CHARACTER / 2 + 3
        if base.place(value) - half >= edge:
            ticks.append((value, label))
            edge = base.place(value) + half
    return Scale(base.place, tuple(ticks))


@dataclass(frozen=True)
class Frame:
    """The drawing area of a chart, in pixels.

    Parameters
    ----------
    width, height
        Of the picture.
    left, right, top, bottom
        Margins for the axes and labels.
    """

    width: float = 400
    height: float = 280
    left: float = 62
    right: float = 22
    top: float = 16
    bottom: float = 46

    @property
    def across(self) -> Point:
        """First and last pixel of the x axis."""
        return (self.left, self.width - self.right)

    @property
    def up(self) -> Point:
        """First and last pixel of the y axis, from its foot."""
        return (self.height - self.bottom, self.top)

    def chart(self, parts: Iterable[object], label: str, class_: str = "") -> Markup:
        """Return the whole picture; `label` is read to those who can't see it."""
        box = f"0 0 {self.width:g} {self.height:g}"
        return tag("svg", *parts, class_=f"chart {class_}".strip(), viewBox=box, role="img", aria_label=label)

    def axes(self, x: Scale, y: Scale, x_title: str, y_title: str) -> Markup:
        """Return grid, ticks and titles."""
        (left, right), (foot, head) = self.across, self.up
        parts = []
        for value, text in y.ticks:
            at = y.place(value)
            parts.append(tag("line", class_="grid", x1=left, x2=right, y1=at, y2=at))
            parts.append(tag("text", text, class_="tick end", x=left - 7, y=at + 3.5))
        for value, text in x.ticks:
            at = x.place(value)
            parts.append(tag("line", class_="axis", x1=at, x2=at, y1=foot, y2=foot + 4))
            parts.append(tag("text", text, class_="tick mid", x=at, y=foot + 17))
        parts.append(tag("line", class_="axis", x1=left, x2=right, y1=foot, y2=foot))
        parts.append(tag("text", x_title, class_="title mid", x=(left + right) / 2, y=self.height - 8))
        middle = (foot + head) / 2
        turn = f"translate(10 {middle:.1f}) rotate(-90)"
        parts.append(tag("text", y_title, class_="title mid", transform=turn))
        return group(parts)


def series_class(series: Series) -> str:
    """Return the style classes of a series' marks: for the page's legend, and its colour."""
    return f"s s{series.number} c{series.colour}"


def marker(series: Series, at: Point, tip: str) -> Markup:
    """Return a series' marker with its tooltip."""
    where = f"translate({at[0]:.1f} {at[1]:.1f})"
    return tag("path", class_="mark", d=series.marker, transform=where, data_tip=tip)


def polyline(points: Sequence[Point], **attributes: object) -> Markup:
    """Return a line through points."""
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return tag("path", d=path, **attributes)


def spread(wanted: Sequence[float], low: float, high: float, distance: float = LINE) -> list[float]:
    """Return places near the wanted ones, `distance` apart and within [low, high] where there is room.

    Examples
    --------
    >>> spread([50, 52, 10], 0, 60)
    [44.5, 57.5, 10.0]
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    gap = min(distance, (high - low) / max(1, len(wanted) - 1))
    # What touches moves as one block: [sum of (wanted - offset within the block), members].
    blocks: list[list[float]] = []
    for i in order:
        blocks.append([min(max(wanted[i], low), high), 1.0])
        while len(blocks) > 1 and _start(blocks[-2]) + gap * blocks[-2][1] > _start(blocks[-1]):
            total, members = blocks.pop()
            blocks[-1][0] += total - members * gap * blocks[-1][1]
            blocks[-1][1] += members
    placed = [_start(block) + gap * k for block in blocks for k in range(int(block[1]))]
    shifted = dict(zip(order, _within(placed, low, high, gap), strict=True))
    return [shifted[i] for i in range(len(wanted))]


def _start(block: list[float]) -> float:
    return block[0] / block[1]


def _within(places: list[float], low: float, high: float, gap: float) -> list[float]:
    """Push increasing places inwards from both ends, keeping their distances."""
    result = list(places)
    for i in range(len(result)):
        result[i] = max(result[i], low + gap * i)
    for i in range(len(result)):
        back = len(result) - 1 - i
        result[back] = min(result[back], high - gap * i)
    return [round(place, 1) for place in result]


_CANDIDATES = (
    (9, 4, "start"), (-9, 4, "end"), (0, -9, "mid"), (0, 18, "mid"),
    (8, -7, "start"), (8, 15, "start"), (-8, -7, "end"), (-8, 15, "end"),
    (14, -18, "start"), (14, 26, "start"), (-14, -18, "end"), (-14, 26, "end"),
)  # fmt: skip
"""Where a label may stand: from its point, with its anchor; best first."""
_FURTHER = tuple(
    (side * reach, rise * reach, anchor)
    for reach in (24, 36, 50, 68)
    for rise in (-0.5, 0.5, -1.0, 1.0)
    for side, anchor in ((1, "start"), (-1, "end"), (0, "mid"))
)
"""Where it may stand at the end of a thin line, where it has no place beside its point."""


def place_labels(
    points: Sequence[Point],
    texts: Sequence[str],
    frame: Frame,
    lines: Sequence[Box] = (),
    reach: Sequence[float] = (),
    looks: Sequence[str] = (),
) -> list[Markup]:
    """Return labels beside points, or near them at the end of a thin line.

    It covers a line only where it must; one that would cover a label or a marker wherever it stood is
    left out.

    Parameters
    ----------
    points, texts
        What to label, and how.
    frame
        That labels stay inside of.
    lines
        Boxes to keep clear of, if possible, besides the markers.
    reach
        How much further than a single marker the marks of each point extend sideways, in pixels.
    looks
        Style classes of each label.
    """
    further = reach or [0.0] * len(points)
    classes = looks or [""] * len(points)
    spans = zip(points, (MARKER + more for more in further), strict=True)
    taken = [(x - side, y - MARKER, x + side, y + MARKER) for (x, y), side in spans]
    labels = []
    for point, text, more, class_ in zip(points, texts, further, classes, strict=True):
        found = _place(point, text, more, frame, [*taken, *lines]) or _place(point, text, more, frame, taken)
        if found is None:
            continue
        at, anchor, far = found
        taken.append(_label_box(*at, anchor, text))
        labels += [_leader(point, at, anchor, class_)] if far else []
        labels.append(tag("text", text, class_=f"label {anchor} {class_}".rstrip(), x=at[0], y=at[1]))
    return labels


def _place(
    point: Point, text: str, reach: float, frame: Frame, taken: Sequence[Box]
) -> tuple[Point, str, bool] | None:
    """Return the best free place of a label, its anchor, and whether it needs a line to its point."""
    for rank, (dx, dy, anchor) in enumerate(_CANDIDATES + _FURTHER):
        at = (point[0] + dx + math.copysign(reach, dx) * (dx != 0), point[1] + dy)
        box = _label_box(*at, anchor, text)
        if _inside(box, frame) and not any(_overlap(box, other) for other in taken):
            return at, anchor, rank >= len(_CANDIDATES)
    return None


def _leader(point: Point, at: Point, anchor: str, class_: str) -> Markup:
    """Return the line from a point to its label's near end."""
    dx = {"start": -2.0, "mid": 0.0, "end": 2.0}[anchor]
    dy = -LINE / 3 if anchor != "mid" else 2.0 if at[1] < point[1] else -LINE
    end = (at[0] + dx, at[1] + dy)
    return polyline([point, end], class_=f"leader {class_}".rstrip())


def _label_box(x: float, y: float, anchor: str, text: str) -> Box:
    width = len(text) * CHARACTER + 4
    left = x - {"start": 2.0, "mid": width / 2, "end": width - 2}[anchor]
    return (left, y - LINE + 3, left + width, y + 3)


def _inside(box: Box, frame: Frame) -> bool:
    return (
        box[0] >= frame.left + 1
        and box[1] >= 0
        and box[2] <= frame.width
        and box[3] <= frame.up[0] + BELOW_FOOT
    )


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]

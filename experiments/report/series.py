"""The series of a report: a method has one colour, marker and dash throughout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.report.labels import brief_labels

LIGHT = ("#0a3a86", "#be210f", "#17746c", "#8b30b9", "#ae8c19", "#418eff")
"""On white. Chosen by search: the least distance of two (OKLab) is as large as possible also for red-,
green- and blue-blind eyes, each at least 3:1 against the page."""

DARK = ("#2f78f0", "#e87225", "#0dbead", "#b658a8", "#ffce14", "#a4f5f8")
"""The same on a dark page."""

SHAPES = {
    "circle": "M0-4.2a4.2 4.2 0 1 1 0 8.4a4.2 4.2 0 1 1 0-8.4z",
    "square": "M-3.7-3.7h7.4v7.4h-7.4z",
    "triangle": "M0-4.9L4.7 3.6H-4.7z",
    "diamond": "M0-5.2L5.2 0L0 5.2L-5.2 0z",
    "wedge": "M0 4.9L4.7-3.6H-4.7z",
    "plus": "M-1.6-4.8h3.2v3.2h3.2v3.2h-3.2v3.2h-3.2v-3.2h-3.2v-3.2h3.2z",
}
"""Markers as SVG paths around the origin, in pixels."""

MATPLOTLIB_MARKERS = ("o", "s", "^", "D", "v", "P")
"""The same in matplotlib's words."""

DASHES = ((), (6, 2.5), (2, 2.5))
"""Line patterns, in pixels on and off."""


LIMITS = frozenset({"time_limit", "memory"})
"""Options that name no other algorithm: where all of a method have one, it is left out of their labels."""


@dataclass(frozen=True)
class Series:
    """A method with one set of options.

    Parameters
    ----------
    number
        Its place, from 0; its look follows from it.
    label
        The method's name with its options, `telling` first; without `LIMITS` that its siblings have too.
    telling
        The options that tell it from its siblings, which are of the same method.
    brief
        The label as charts have it (`brief_labels`); empty: that of the label alone.
    """

    number: int
    method: str
    options: str
    kind: str
    label: str
    telling: str = ""
    brief: str = ""

    def __post_init__(self) -> None:
        """Have a brief label."""
        if not self.brief:
            object.__setattr__(self, "brief", brief_labels([self.label])[0])

    @property
    def colour(self) -> int:
        """Index into `LIGHT` and `DARK`."""
        return self.number % len(LIGHT)

    @property
    def shape(self) -> int:
        """Index into `SHAPES`; shifted by one each time that the colours start again."""
        return (self.number + self.number // len(LIGHT)) % len(SHAPES)

    @property
    def marker(self) -> str:
        """Its marker as an SVG path."""
        return list(SHAPES.values())[self.shape]

    @property
    def dash(self) -> tuple[float, ...]:
        """Its line pattern."""
        return DASHES[self.number // len(LIGHT) % len(DASHES)]


def make_series(kinds: Mapping[tuple[str, str], str]) -> tuple[Series, ...]:
    """Return a series for every (method, options), mapped to the method's kind, in order.

    Examples
    --------
    >>> made = make_series({("tacos", "chunks=1"): "heuristic", ("tacos", "chunks=4"): "heuristic"})
    >>> [series.label for series in made]
    ['tacos chunks=1', 'tacos chunks=4']
    """
    names = [_names(method, options, kinds) for method, options in kinds]
    brief = brief_labels([label for label, _ in names])
    return tuple(
        Series(number, method, options, kind, *names[number], brief[number])
        for number, ((method, options), kind) in enumerate(kinds.items())
    )


def _names(method: str, options: str, kinds: Mapping[tuple[str, str], str]) -> tuple[str, str]:
    """Return the label of a series, and the options that tell it from its siblings."""
    common = set.intersection(*(set(text.split()) for name, text in kinds if name == method))
    telling = [word for word in options.split() if word not in common]
    shared = [w for w in options.split() if w in common and w.partition("=")[0] not in LIMITS]
    return " ".join([method, *telling, *shared]), " ".join(telling)

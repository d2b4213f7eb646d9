"""The series of a report: a method has one colour, marker and dash throughout.

Networks have short names: what all of a run share need not be said in each cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

LINKS = ("bandwidth", "alpha")
"""What a topology's text may say of its links. All else that follows its ``?`` changes the network itself
(failures, subsets of ranks) and stays."""

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
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
"""The same in Vega's words."""
DASHES = ((), (6, 2.5), (2, 2.5))
"""Line patterns, in pixels on and off."""
LIMITS = frozenset({"time_limit", "memory"})
"""Options that name no other algorithm: where all of a method have one, it is left out of their labels."""


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return a short name for each topology's text: no two alike.

    Bandwidth and α are left out, but for those that tell a topology from another of the same shape.

    Examples
    --------
    >>> list(short_names(["rfs:2x4x8?bandwidth=200GB/s,100GB/s,50GB/s", "mesh:4x4?drop_nodes=7,9"]).values())
    ['rfs:2x4x8', 'mesh:4x4?drop_nodes=7,9']
    >>> texts = ["ring:8?bandwidth=25GB/s&alpha=1us", "ring:8?bandwidth=50GB/s&alpha=1us"]
    >>> list(short_names(texts).values())
    ['ring:8?bandwidth=25GB/s', 'ring:8?bandwidth=50GB/s']
    """
    shapes: dict[str, dict[str, Mapping[str, str]]] = {}
    for name in dict.fromkeys(names):
        shape, links = _split(name)
        shapes.setdefault(shape, {})[name] = links
    short = {
        name: _joined(shape, {key: links[key] for key in _telling(alike.values()) if key in links})
        for shape, alike in shapes.items()
        for name, links in alike.items()
    }
    return short if len(set(short.values())) == len(short) else {name: name for name in short}


def _split(name: str) -> tuple[str, dict[str, str]]:
    """Return a topology's text without what it says of its links, and that."""
    head, mark, tail = name.partition("?")
    parts = [part.partition("=") for part in tail.split("&")] if mark else []
    links = {key: value for key, _, value in parts if key in LINKS}
    rest = "&".join("".join(part) for part in parts if part[0] not in LINKS)
    return f"{head}?{rest}" if rest else head, links


def _telling(alike: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the keys in which networks of one shape differ."""
    every = list(alike)
    return [key for key in LINKS if len({links.get(key) for links in every}) > 1]


def _joined(shape: str, links: Mapping[str, str]) -> str:
    if not links:
        return shape
    return shape + ("&" if "?" in shape else "?") + "&".join(f"{key}={value}" for key, value in links.items())


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
    """

    number: int
    method: str
    options: str
    kind: str
    label: str
    telling: str = ""

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
    def pattern(self) -> int:
        """Index into `DASHES`."""
        return self.number // len(LIGHT) % len(DASHES)

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns by which a chart's rows know it."""
        return {"method": self.label, "series": self.number, "dash": self.pattern}

    @property
    def dash(self) -> tuple[float, ...]:
        """Its line pattern."""
        return DASHES[self.pattern]


def drawn_as(looks: Any, keys: Iterable[Any]) -> dict[str, list[str | int]]:
    """Return the columns by which charts know the series of some rows, given what each row's is found under.

    Examples
    --------
    >>> drawn_as({"a": Series(0, "bfb", "", "exact", "bfb")}, ["a", "a"])
    {'method': ['bfb', 'bfb'], 'series': [0, 0], 'dash': [0, 0]}
    """
    found = [looks[key].columns for key in keys]
    return {name: [columns[name] for columns in found] for name in ("method", "series", "dash")}


def make_series(kinds: Mapping[tuple[str, str], str]) -> tuple[Series, ...]:
    """Return a series for every (method, options), mapped to the method's kind, in order.

    Examples
    --------
    >>> made = make_series({("tacos", "chunks=1"): "heuristic", ("tacos", "chunks=4"): "heuristic"})
    >>> [series.label for series in made]
    ['tacos chunks=1', 'tacos chunks=4']
    """
    names = [_names(method, options, kinds) for method, options in kinds]
    return tuple(
        Series(number, method, options, kind, *names[number])
        for number, ((method, options), kind) in enumerate(kinds.items())
    )


def _names(method: str, options: str, kinds: Mapping[tuple[str, str], str]) -> tuple[str, str]:
    """Return the label of a series, and the options that tell it from its siblings."""
    common = set.intersection(*(set(text.split()) for name, text in kinds if name == method))
    telling = [word for word in options.split() if word not in common]
    shared = [w for w in options.split() if w in common and w.partition("=")[0] not in LIMITS]
    return " ".join([method, *telling, *shared]), " ".join(telling)

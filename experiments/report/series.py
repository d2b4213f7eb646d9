"""The series of a report: a method with its options has one colour, marker and dash throughout.

`short_names` shortens the names of networks, because the settings that all of a run share need not be
repeated in each cell.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LINKS = ("bandwidth", "alpha")
"""Settings of links in a topology's text. All else that follows its ``?`` changes the network itself
(failures, subsets of ranks) and stays."""

TEMPLATES = Path(__file__).parent / "templates"
LOOKS: Mapping[str, Any] = tomllib.loads((TEMPLATES / "looks.toml").read_text(encoding="utf-8"))
"""Colours, markers and dashes, and the theme of charts."""
LIMITS = frozenset({"time_limit", "memory"})
"""Options that do not change the algorithm. If all series of a method have one, their labels leave it out."""


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return a short name for each topology's text, all different.

    Bandwidth and α are left out, except where they tell a topology from another of the same shape.

    Examples
    --------
    >>> list(short_names(["rfs:2x4x8?bandwidth=200GB/s,100GB/s,50GB/s", "mesh:4x4?drop_nodes=7,9"]).values())
    ['rfs:2x4x8', 'mesh:4x4?drop_nodes=7,9']
    >>> texts = ["ring:8?bandwidth=25GB/s&alpha=1us", "ring:8?bandwidth=50GB/s&alpha=1us"]
    >>> list(short_names(texts).values())
    ['ring:8?bandwidth=25GB/s', 'ring:8?bandwidth=50GB/s']
    """
    shapes: dict[str, dict[str, dict[str, str]]] = {}
    for name in dict.fromkeys(names):
        head, _, tail = name.partition("?")
        parts = [part.partition("=") for part in tail.split("&")]
        rest = "&".join("".join(part) for part in parts if part[0] not in LINKS)
        links = {key: value for key, _, value in parts if key in LINKS}
        shapes.setdefault(f"{head}?{rest}" if rest else head, {})[name] = links
    short = {}
    for shape, same in shapes.items():
        telling = [key for key in LINKS if len({links.get(key) for links in same.values()}) > 1]
        for name, links in same.items():
            kept = "&".join(f"{key}={links[key]}" for key in telling if key in links)
            short[name] = shape + ("&" if "?" in shape else "?") * bool(kept) + kept
    return short if len(set(short.values())) == len(short) else {name: name for name in short}


@dataclass(frozen=True)
class Series:
    """A method with one set of options.

    Parameters
    ----------
    number
        Its place, from 0, which determines its colour, marker and dash.
    label
        The method's name with its options: first those that not all series of the method have, then those
        that all have, without `LIMITS`.
    """

    number: int
    method: str
    options: str
    kind: str
    label: str

    @property
    def colour(self) -> int:
        """The number of its colour."""
        return self.number % len(LOOKS["light"])

    @property
    def shape(self) -> int:
        """The number of its marker, shifted by one each time that the colours start again."""
        return (self.number + self.number // len(LOOKS["light"])) % len(LOOKS["markers"])

    @property
    def pattern(self) -> int:
        """The number of its dashes."""
        return self.number // len(LOOKS["light"]) % len(LOOKS["dashes"])

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns that say in a chart's rows which series they are of."""
        return {"method": self.label, "series": self.number, "dash": self.pattern}


def drawn_as(looks: Any, keys: Iterable[Any]) -> dict[str, list[str | int]]:
    """Return the columns that say which series rows are of: `looks` has the series by the keys of rows.

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
    series = []
    for number, ((method, options), kind) in enumerate(kinds.items()):
        common = set.intersection(*(set(text.split()) for name, text in kinds if name == method))
        telling = [word for word in options.split() if word not in common]
        shared = [w for w in options.split() if w in common and w.partition("=")[0] not in LIMITS]
        series.append(Series(number, method, options, kind, " ".join([method, *telling, *shared])))
    return tuple(series)

"""The series of a report: a method has one colour, marker and dash throughout, and short names.

What all networks of a run share need not be said in each cell, and a chart has room for few characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

LINKS = ("bandwidth", "alpha")
"""What a topology's text may say of its links. All else that follows its ``?`` changes the network itself
(failures, subsets of ranks) and stays."""

LONGEST = 16
"""Characters of a label in a chart; longer ones are cut, tooltips and legend have them whole."""
LEAST_NAME = 3
"""Characters left of a method's name where its options are shown whole."""

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


def brief_labels(labels: Sequence[str]) -> list[str]:
    """Return the labels as charts have them, of at most `LONGEST` characters: no two alike.

    Where a label is too long the method's name is cut, then its options are named by their values alone.

    Examples
    --------
    >>> brief_labels(["forestcoll trees=4", "swing version=bandwidth", "swing version=latency"])
    ['forestc… trees=4', 'swing bandwidth', 'swing latency']
    >>> brief_labels(["tacos pick=paper chunks=1024 tries=500", "tacos pick=paper chunks=1024 tries=600"])
    ['tacos tries=500', 'tacos tries=600']
    """
    every = list(dict.fromkeys(labels))
    brief = {label: _brief(label) for label in every}
    for tell in (_by_words, _by_first_difference):
        for alike in _alike(brief):
            brief |= dict(zip(alike, tell(alike), strict=True))
    for alike in _alike(brief):
        brief |= {label: _numbered(brief[label], i) for i, label in enumerate(alike, start=1)}
    return [brief[label] for label in labels]


def _brief(label: str) -> str:
    if len(label) <= LONGEST:
        return label
    name, _, options = label.partition(" ")
    values = " ".join(word.partition("=")[2] or word for word in options.split())
    for tail in filter(None, (options, values)):
        room = LONGEST - len(tail) - 1
        if len(name) <= room or room > LEAST_NAME:
            return f"{name if len(name) <= room else name[: room - 1] + '…'} {tail}"
    return f"{name} {values}"[: LONGEST - 1] + "…"


def _alike(brief: Mapping[str, str]) -> list[list[str]]:
    """Return the labels that would read alike."""
    groups: dict[str, list[str]] = {}
    for label, short in brief.items():
        groups.setdefault(short, []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def _by_words(labels: Sequence[str]) -> list[str]:
    """Return each with its method's name and the options that not all have."""
    common = set.intersection(*(set(label.split()) for label in labels))
    words = [label.split() for label in labels]
    return [_brief(" ".join([name, *(one for one in more if one not in common)])) for name, *more in words]


def _by_first_difference(labels: Sequence[str]) -> list[str]:
    """Return each cut in its middle, to go on where they first differ."""
    columns = enumerate(zip(*labels, strict=False))
    common = next((i for i, letters in columns if len(set(letters)) > 1), min(map(len, labels)))
    head = labels[0][: min(common, LONGEST // 2 - 1)]
    return [f"{head}…{label[common:]}"[:LONGEST] for label in labels]


def _numbered(text: str, number: int) -> str:
    mark = f"…{number}"
    return text[: LONGEST - len(mark)] + mark


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
    def pattern(self) -> int:
        """Index into `DASHES`."""
        return self.number // len(LIGHT) % len(DASHES)

    @property
    def dash(self) -> tuple[float, ...]:
        """Its line pattern."""
        return DASHES[self.pattern]


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

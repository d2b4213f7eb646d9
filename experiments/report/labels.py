"""Short names of topologies, for tables: what all networks of a run share need not be said in each cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

LINKS = ("bandwidth", "alpha")
"""What a topology's text may say of its links. All else that follows its ``?`` changes the network itself
(failures, subsets of ranks) and stays."""


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

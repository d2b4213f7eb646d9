"""What a method does and needs, found by asking its ``supports`` about small problems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from schedules.collective import KINDS, Kind, collective
from schedules.method import Method, Problem
from topologies.errors import Unsupported
from topologies.text import parse_topology
from topologies.topology import Topology

PLAIN = "BiRing(2,4)"
"""Four ranks, like links, no switch, in the papers' notation: what every method should take."""
NOTATION = "a network in the papers' notation"
SPECIAL = ("mesh:3x3", "dgx1", "dgx_a100:2")
"""For methods that take nothing like `PLAIN`, being made for one sort of network."""
PROBES = {
    NOTATION: "ring:4",
    "no switches": "dgx_a100:1",
    "links of one bandwidth and alpha": "mesh:2x2?bandwidth=50GB/s,25GB/s",
    "a power of two ranks": "BiRing(2,6)",
}
"""What a method needs that refuses the network beside it."""
SHAPES = {
    "a torus": ("mesh:4x4", "torus:4x4"),
    "a torus or mesh": ("complete:8", "torus:4x4"),
    "a circulant network": ("torus:4x4", "circulant:8,1,3"),
    "a network in dimensions, such as a torus or machines": ("circulant:8,1,3", "complete:8"),
    "links both ways": ("gen_kautz:2,8", "circulant:8,1,3"),
}
"""What shape a method needs that refuses the first network beside it and takes the second; the first such."""


@dataclass(frozen=True)
class Capabilities:
    """What a method, with its default options, does and needs.

    Parameters
    ----------
    collectives
        The kinds that it does on `PLAIN`, or else on one of `SPECIAL`.
    needs
        The keys of `PROBES` whose network it refuses, whatever the collective, and one of `SHAPES`; or the
        special network.
    """

    collectives: tuple[Kind, ...]
    needs: tuple[str, ...]


def capabilities(method: Method) -> Capabilities:
    """Return what the method does and needs."""
    plain = tuple(_kinds(method, PLAIN))
    if not plain:
        for text in SPECIAL:
            if kinds := tuple(_kinds(method, text)):
                return Capabilities(kinds, (f"a network such as {text}",))
    refused = {need: _network(text) for need, text in PROBES.items() if not any(_kinds(method, text))}
    if NOTATION in refused:  # what else it needs, only networks in the notation can tell
        refused = {n: t for n, t in refused.items() if n == NOTATION or t.expression is not None}
    shape = next((shape for shape in SHAPES if _needs_shape(method, *SHAPES[shape])), None)
    return Capabilities(plain, (*refused, *([] if shape is None else [shape])))


def _needs_shape(method: Method, without: str, having: str) -> bool:
    return not any(_kinds(method, without)) and any(_kinds(method, having))


@lru_cache
def _network(text: str) -> Topology:
    return parse_topology(text)


def _kinds(method: Method, text: str) -> Iterator[Kind]:
    topology, options = _network(text), method.options()
    for kind in KINDS:
        try:
            method.supports(Problem(topology, collective(kind, topology.num_ranks)), options)
        except Unsupported:
            continue
        yield kind

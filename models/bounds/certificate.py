"""Code that the checks of certificates share: the items of a collective, and distances in a network.

It imports nothing that finds bounds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tutti.schedules.collective import EVERYONE, Collective
from tutti.topologies.errors import InputError
from tutti.topologies.topology import Link, Topology
from tutti.topologies.transforms import transpose
from tutti.topologies.units import exact_number

Certificate = Mapping[str, Any]
"""The content of a certificate; each ``check_*`` module says which keys it needs."""


MOST_TICKS = 10**4
"""Largest number of ticks in a certificate; more would take minutes to count."""


@dataclass(frozen=True)
class Item:
    """A datum of a collective: the ranks that start with it, the ranks that need it, and its share of M."""

    starts: frozenset[int]
    ends: frozenset[int]
    share: Fraction

    @property
    def reversed(self) -> Item:
        """The item with starts and ends exchanged."""
        return Item(self.ends, self.starts, self.share)


def items_of(collective: Collective) -> Iterator[Item]:
    """Yield the items of a collective."""
    items = collective.items
    members = [frozenset(group) for group in collective.members]
    ends = zip(items.group.tolist(), items.start.tolist(), items.end.tolist(), items.share, strict=True)
    for group, start, end, share in ends:
        everyone = members[group]
        yield Item(
            everyone if start == EVERYONE else frozenset([start]),
            everyone if end == EVERYONE else frozenset([end]),
            share,
        )


def share_out(collective: Collective, inside: frozenset[int]) -> Fraction:
    """Return the shares of the items that start at a node inside and end at one outside, added up."""
    items, ranks = collective.items, np.isin(np.arange(collective.num_ranks), list(inside))
    members = [frozenset(group) for group in collective.members]
    leaves = np.array([not group.isdisjoint(inside) for group in members])[items.group]
    enters = np.array([not group <= inside for group in members])[items.group]
    starts = np.where(items.start == EVERYONE, leaves, ranks[items.start])
    crosses = starts & np.where(items.end == EVERYONE, enters, ~ranks[items.end])
    return Fraction(sum(items.share.numerators[crosses].tolist()), items.share.denominator)


def exact(certificate: Certificate, *names: str) -> Iterator[Fraction]:
    """Yield the numbers of a certificate with these names."""
    return (exact_number(str(certificate[name])) for name in names)


def inward(
    certificate: Certificate, topology: Topology, collective: Collective
) -> tuple[Topology, list[Item]]:
    """Return the network and the items; links and time are reversed if the certificate's direction is out."""
    items = list(items_of(collective))
    if certificate["direction"] != "out":
        return topology, items
    return transpose(topology), [item.reversed for item in items]


def check_one_to_one(kind: str, collective: Collective) -> None:
    """Raise `InputError` unless each item goes from one rank to one rank."""
    items = collective.items
    if (items.start == EVERYONE).any() or (items.end == EVERYONE).any():
        raise InputError(f"{kind} bound: it is for items from one rank to one rank, not for {collective}")


def strengthened(topology: Topology, able: Iterable[int]) -> Topology:
    """Return the network with these switches able to multicast and aggregate.

    Every schedule on the network is also a schedule on this one, so a bound on this one holds for both.

    Raises
    ------
    InputError
        If one of them is not a switch.
    """
    more = frozenset(able)
    if not more:
        return topology
    return replace(topology, multicast=topology.multicast | more, aggregate=topology.aggregate | more)


def links_of(topology: Topology) -> list[Link]:
    """Return all links."""
    return [topology.link(index) for index in range(topology.num_links)]


def entering_links(topology: Topology, inside: frozenset[int]) -> list[Link]:
    """Return the links into a set of nodes."""
    here = np.isin(np.arange(topology.num_nodes), list(inside))
    entering = np.flatnonzero(~here[topology.source] & here[topology.target])
    return [topology.link(index) for index in entering.tolist()]


def inside_of(certificate: Certificate, topology: Topology) -> frozenset[int]:
    """Return S: the given ranks and switches, or the set whose cut is around the given rank."""
    if "ranks" in certificate:
        return frozenset([*certificate["ranks"], *certificate["switches"]])
    alone = frozenset([certificate["node"]])
    return alone if certificate["direction"] == "out" else frozenset(range(topology.num_nodes)) - alone


def bandwidth_out(topology: Topology, inside: frozenset[int]) -> Fraction:
    """Return B⁺(S): the bandwidth of the links that leave a set of nodes."""
    leaving = entering_links(topology, frozenset(range(topology.num_nodes)) - inside)
    return sum((link.bandwidth for link in leaving), Fraction(0))


def shortest_path(topology: Topology, origin: int, goal: int) -> tuple[Fraction, list[int]]:
    """Return the least sum of α from node to node, and the nodes of a path that has it."""
    distance, before = dijkstra(topology, origin)
    path = [goal]
    while path[-1] != origin:
        path.append(before[path[-1]])
    return Fraction(distance[goal], topology.alpha.denominator), path[::-1]


def all_distances(topology: Topology, *, backwards: bool = False) -> list[list[int]]:
    """Return the α-distances from (to) each node, over the denominator of α; -1 where there is no path."""
    return [dijkstra(topology, v, backwards=backwards)[0] for v in range(topology.num_nodes)]


def dijkstra(
    topology: Topology, origin: int, *, backwards: bool = False, lengths: Sequence[int] | None = None
) -> tuple[list[int], list[int]]:
    """Return distances from (to) `origin` and the node before each; -1 where there is no path.

    They are over the denominator of α, unless other lengths are given.
    """
    offsets, links = topology.in_links if backwards else topology.out_links
    other = topology.source if backwards else topology.target
    alpha = topology.alpha.numerators if lengths is None else lengths
    distance, before = [-1] * topology.num_nodes, [-1] * topology.num_nodes
    heap = [(0, origin, -1)]
    while heap:
        so_far, node, via = heapq.heappop(heap)
        if distance[node] >= 0:
            continue
        distance[node], before[node] = so_far, via
        for link in links[offsets[node] : offsets[node + 1]]:
            heapq.heappush(heap, (so_far + int(alpha[link]), int(other[link]), node))
    return distance, before

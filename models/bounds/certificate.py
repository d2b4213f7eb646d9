"""Code that the checks of certificates share: items, distances in a network, and how far data can spread.

`Reachability` counts how many nodes the data of one node can have reached by each time, node by node, where a
message holds each link for α, one message at a time. The checks of ``broadcast_growth`` and ``cut_gossip``
use it. Nothing that finds bounds is imported here.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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


class Reachability:
    """X(u, t), X(w, t | u), R(c, u, t) and Y(c, t) of ``docs/proofs.md``, tick after tick.

    Parameters
    ----------
    topology
        The network.
    distances
        From each node to each, over α's denominator, -1 for none; against the links if not `outward`.
    counted
        The ranks that count.
    tick
        Seconds.
    outward
        Whether data goes along the links, or against them.

    Attributes
    ----------
    able
        Ranks, and switches that copy or add.
    out
        For each node its links in the direction of the data: the node each leads to, and its whole ticks.
    away
        For each node the distances to those that count, in whole ticks, in order.
    fabric
        For each switch that only forwards the first one of its fabric.
    receivers
        For each fabric the nodes in `able` that its links lead to.
    """

    def __init__(
        self,
        topology: Topology,
        distances: Sequence[Sequence[int]],
        counted: Collection[int],
        tick: Fraction,
        outward: bool,
    ) -> None:
        self.counted = counted
        self.out: list[list[tuple[int, int]]] = [[] for _ in range(topology.num_nodes)]
        ends = (topology.source, topology.target) if outward else (topology.target, topology.source)
        for tail, head, alpha in zip(*(end.tolist() for end in ends), topology.alpha, strict=True):
            self.out[tail].append((head, int(alpha / tick)))
        unit = tick * topology.alpha.denominator
        self.away = [sorted(int(row[end] / unit) for end in counted if row[end] >= 0) for row in distances]
        self.able = topology.multicast | topology.aggregate | frozenset(range(topology.num_ranks))
        self.fabric = _fabrics(self.out, self.able)
        self.receivers: dict[int, set[int]] = {c: set() for c in self.fabric.values()}
        for switch, c in self.fabric.items():
            self.receivers[c] |= {head for head, _ in self.out[switch]} & self.able
        self.x, self.y = list[list[int]](), list[dict[int, int]]()
        self.without, self.r = list[dict[tuple[int, int], int]](), list[dict[tuple[int, int], int]]()

    def until(self, ticks: int) -> list[int]:
        """Return X of every node at the last tick before `ticks`."""
        while len(self.x) < ticks:
            self._count()
        return self.x[ticks - 1]

    def _count(self) -> None:
        now = len(self.x)
        self._reach(now)
        row, without, beyond = [], {}, dict.fromkeys(self.receivers, 0)
        for node, out in enumerate(self.out):
            near = bisect_right(self.away[node], now)
            children, through = {}, {}
            whole = near
            if node in self.able and all(alpha for _, alpha in out):
                children = self._neighbours(node, now)
                through = {c: self._through(c, node, now) for c in self._fabrics_from(node)}
                whole = (node in self.counted) + sum(children.values()) + sum(through.values())
            elif node in self.fabric and all(alpha for _, alpha in out):
                whole = max((self.x[now - alpha][head] for head, alpha in out if alpha <= now), default=0)
            row.append(min(near, whole))
            for head, _ in out:
                without[head, node] = min(near, whole - children.get(head, 0))
            for c, nodes in self.receivers.items():
                if node in nodes:
                    beyond[c] = max(beyond[c], min(near, whole - through.get(c, 0)))
        self.x.append(row)
        self.without.append(without)
        self.y.append(beyond)

    def _reach(self, now: int) -> None:
        """Count R of each fabric and each node at it."""
        row: dict[tuple[int, int], int] = {}
        for node, out in enumerate(self.out):
            for c in {self.fabric[node]} if node in self.fabric else self._fabrics_from(node):
                most = len(self.receivers[c] | {node})
                after = [
                    [self._reached(c, head, now - time) for time in range(alpha, now + 1, alpha)]
                    for head, alpha in out
                    if alpha and (node in self.fabric or self.fabric.get(head) == c)
                ]
                if not all(alpha for _, alpha in out):
                    row[c, node] = most
                elif node in self.fabric:
                    row[c, node] = max((counts[0] for counts in after if counts), default=0)
                else:
                    row[c, node] = min(most, 1 + sum(map(sum, after)))
        self.r.append(row)

    def _reached(self, c: int, node: int, at: int) -> int:
        """Return R, 1 of a node that no link of the fabric leaves."""
        return self.r[at].get((c, node), 1)

    def _through(self, c: int, node: int, now: int) -> int:
        """Return how many can have the data by a fabric: in it and from there, or message by message."""
        in_it = sum(
            (self._reached(c, node, after) - self._reached(c, node, after - 1)) * self.y[now - after][c]
            for after in range(1, now + 1)
        )
        by_message = sum(
            self.x[now - time][head]
            for head, alpha in self.out[node]
            if self.fabric.get(head) == c
            for time in range(alpha, now + 1, alpha)
        )
        return min(in_it, by_message)

    def _fabrics_from(self, node: int) -> set[int]:
        """Return the fabrics that links from an able node lead to."""
        return {self.fabric[head] for head, _ in self.out[node] if head in self.fabric}

    def _neighbours(self, node: int, now: int) -> dict[int, int]:
        """Return X of each neighbour that keeps data, without this node."""
        found: dict[int, int] = {}
        for head, alpha in self.out[node]:
            if head in self.able:
                # X(head, at | node); X(head, at) where no link leads back
                at = now - alpha
                heard = self.without[at].get((node, head), self.x[at][head]) if at >= 0 else 0
                found[head] = max(found.get(head, 0), heard)
        return found


def _fabrics(out: Sequence[Sequence[tuple[int, int]]], able: frozenset[int]) -> dict[int, int]:
    """Return for each node that only forwards the first of those that are joined to it by such nodes."""
    first = {node: node for node in range(len(out)) if node not in able}
    joined = [(tail, head) for tail in first for head, _ in out[tail] if head in first]
    while True:
        lower = [(one, min(first[tail], first[head])) for tail, head in joined for one in (tail, head)]
        lower = [(node, least) for node, least in lower if least < first[node]]
        if not lower:
            return first
        for node, least in lower:
            first[node] = min(first[node], least)

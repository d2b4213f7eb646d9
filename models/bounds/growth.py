"""The bound that counts messages: each holds a link for α, so what one rank has spreads link by link.

Behind a switch that only forwards, a rank with one port tells one other at a time, however near all are:
the postal model (Bar-Noy and Kipnis, doi 10.1145/140901.140903), on any network. X(u, t) counts the ranks
that can at most have heard of u's data within t, H(e, t) those that can through one message that has t left
as it enters link e = (u, w):

    H(e, t) = X(w, t - α(e)),
    X(u, t) = min(ranks within α-distance t of u, 1 + Σ over links e out of u, j ≥ 0 of H(e, t - j α(e))).

Two things make it less. A switch that only forwards has the largest H instead of the sum: a message leaves it
over one link. And what a link joins to u without such a switch hears of it once, so that it counts once, for
the fastest link, and without u, from which it has it: X(w, t | u), where u is left out of the sum.
The first t at which X(u, t) is the number of ends of what starts at u is a bound; and so it is with links
reversed, for all that one end hears of. Without such switches it is the distance, and left out. Proof:
`models.bounds.check`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from models.bounds.bound import SECONDS, Bound
from models.bounds.latency import AlphaDistances
from models.bounds.traffic import Traffic
from topologies.exact import BoolArray, Int32Array, Int64Array, json_number
from topologies.topology import Topology

MOST_NODES = 2048
"""Larger networks are left out: every pair of nodes counts here."""
MOST_LINKS = 2**17
"""So are those with more links than this."""
MOST_GROUPS = 4
"""So many groups are looked at; those of one collective are mostly alike."""
DISTANCE_TICKS = 64
"""The largest α-distance has at most so many ticks: with finer α they are rounded down."""
MOST_TICKS = 512
"""Where the search ends: what is not reached by then takes longer."""


def growth_bound(topology: Topology, traffic: Traffic, distances: AlphaDistances) -> Bound | None:
    """Return the longest time in which one rank's data can reach all, or all data one rank.

    None where no switch only forwards, ranks are in several groups, or the network is too large. The
    certificate has the rank, the direction (``out``: what it starts with, ``in``: what it ends with), how
    many ranks that concerns, and the bound as a number of ticks.

    Parameters
    ----------
    topology, traffic
        The problem.
    distances
        The network's α-distances.
    """
    large = topology.num_nodes > MOST_NODES or topology.num_links > MOST_LINKS
    if large or len(traffic.disjoint_groups) > 1 or not _forwarding(topology).any():
        return None
    largest = sorted(range(len(traffic.members)), key=lambda group: -len(traffic.members[group]))
    found = [
        place
        for outward in (True, False)
        for group in largest[:MOST_GROUPS]
        for place in _slowest(topology, traffic if outward else traffic.reverse, distances, group, outward)
    ]
    if not found:
        return None
    slowest = max(found, key=lambda place: place.ticks)
    tick = Fraction(_tick(distances), topology.alpha.denominator)
    certificate = {
        "node": slowest.node,
        "direction": "out" if slowest.outward else "in",
        "needed": slowest.needed,
        "ticks": slowest.ticks,
        "tick": json_number(tick),
    }
    return Bound("growth", slowest.ticks * tick, SECONDS, certificate)


@dataclass(frozen=True)
class _Place:
    """The rank whose data (``outward``), or whose knowledge, takes so many ticks to reach all `needed`."""

    node: int
    outward: bool
    needed: int
    ticks: int


def _slowest(
    topology: Topology, traffic: Traffic, distances: AlphaDistances, group: int, outward: bool
) -> Iterator[_Place]:
    """Yield the slowest rank of a group among those whose data all of it needs, if there is one."""
    members, concerned = traffic.members[group], _concerned(traffic, group)
    if len(members) > 1 and len(concerned):
        ticks = _Growth(topology, distances, members, outward).ticks(concerned)
        worst = int(np.argmax(ticks))
        yield _Place(int(concerned[worst]), outward, len(members), int(ticks[worst]))


def _concerned(traffic: Traffic, group: int) -> Int32Array:
    """Return the members of a group whose data every other member needs."""
    members = traffic.members[group]
    joined = np.unique(np.stack([traffic.pairs.start, traffic.pairs.end], axis=1), axis=0)
    ends = np.bincount(joined[:, 0], minlength=traffic.num_ranks)[members]
    return members[
        (traffic.spread[traffic.of_group[group]] > 0) | (traffic.both[group] > 0) | (ends == len(members) - 1)
    ]


def _forwarding(topology: Topology) -> BoolArray:
    """Return which nodes only forward."""
    only = np.arange(topology.num_nodes) >= topology.num_ranks
    only[[*(topology.multicast | topology.aggregate)]] = False
    return only


def _tick(distances: AlphaDistances) -> int:
    """Return the length of a tick over α's denominator: their greatest divisor, if distances stay short."""
    divisor = max(1, int(np.gcd.reduce(distances.topology.alpha.numerators)))
    farthest = int(distances.nodes.max())
    return divisor * max(1, -(-farthest // (divisor * DISTANCE_TICKS)))


@dataclass(frozen=True, eq=False)
class _Links:
    """Links in the direction in which data spreads, α in ticks."""

    source: Int32Array
    target: Int32Array
    alpha: Int64Array

    def chosen(self, which: BoolArray | Int64Array) -> _Links:
        """Return some of them."""
        return _Links(self.source[which], self.target[which], self.alpha[which])

    def before(self, tick: int, table: Int64Array, column: Int32Array | None = None) -> Int64Array:
        """Return the table's entries an α before the tick: 0 before the beginning, and where α is 0.

        Nodes with a link without α need no sum.
        """
        column = np.arange(len(self.alpha), dtype=np.int32) if column is None else column
        known = (self.alpha > 0) & (self.alpha <= tick)
        return np.where(known, table[np.where(known, tick - self.alpha, 0), column], 0)


@dataclass(frozen=True, eq=False)
class _Growth:
    """X in ticks, towards the ends of links (``outward``) or against them."""

    topology: Topology
    distances: AlphaDistances
    members: Int32Array
    outward: bool

    def ticks(self, concerned: Int32Array) -> Int64Array:
        """Return the first tick at which X reaches all members, for each of these ranks."""
        nodes = self.topology.num_nodes
        weight, forwards = np.bincount(self.members, minlength=nodes), _forwarding(self.topology)
        at_once = np.isin(np.arange(nodes), self._links.source[self._links.alpha == 0])
        ports, near = self._links.chosen(forwards[self._links.target]), self._near
        joined, back = self._joined
        x = np.zeros((MOST_TICKS, nodes), dtype=np.int64)
        onward = np.zeros((MOST_TICKS, len(joined.source)), dtype=np.int64)
        sums = np.zeros((MOST_TICKS, len(ports.source)), dtype=np.int64)
        outlets = self._links.chosen(forwards[self._links.source])
        first = np.full(nodes, MOST_TICKS)
        for tick in range(MOST_TICKS):
            total, most = weight.copy(), np.zeros_like(weight)
            sums[tick] = ports.before(tick, x, ports.target) + ports.before(tick, sums)
            np.add.at(total, ports.source, sums[tick])
            heard = joined.before(tick, onward)
            np.add.at(total, joined.source, heard)
            np.maximum.at(most, outlets.source, outlets.before(tick, x, outlets.target))
            x[tick] = np.where(at_once, near[tick], np.minimum(near[tick], np.where(forwards, most, total)))
            without = total[joined.target] - np.where(back >= 0, heard[back], 0)
            onward[tick] = np.where(
                at_once[joined.target],
                near[tick][joined.target],
                np.minimum(near[tick][joined.target], without),
            )
            first[(x[tick] >= len(self.members)) & (first == MOST_TICKS)] = tick
            if (first[concerned] < MOST_TICKS).all():
                break
        return first[concerned]

    @cached_property
    def _links(self) -> _Links:
        topology = self.topology
        alpha = topology.alpha.numerators // _tick(self.distances)
        ends = (topology.source, topology.target) if self.outward else (topology.target, topology.source)
        return _Links(*ends, alpha)

    @cached_property
    def _joined(self) -> tuple[_Links, Int64Array]:
        """The fastest link between each two nodes that hear, and which of them leads back, -1 for none."""
        forwards, nodes = _forwarding(self.topology), self.topology.num_nodes
        links = self._links.chosen(~forwards[self._links.source] & ~forwards[self._links.target])
        pair = links.source.astype(np.int64) * nodes + links.target
        fastest = np.lexsort((links.alpha, pair))
        known, first = np.unique(pair[fastest], return_index=True)
        joined = links.chosen(fastest[first])
        backwards = joined.target.astype(np.int64) * nodes + joined.source
        place = np.minimum(np.searchsorted(known, backwards), max(0, len(known) - 1))
        return joined, np.where(known[place] == backwards, place, -1) if len(known) else place

    @cached_property
    def _near(self) -> Int64Array:
        """int64 (ticks, nodes): the members within so many ticks of each node."""
        distance = self.distances.nodes if self.outward else self.distances.nodes.T
        away = distance[:, self.members] // _tick(self.distances)
        node = np.broadcast_to(np.arange(len(away))[:, None], away.shape)
        there = (away >= 0) & (away < MOST_TICKS)
        count = np.zeros((MOST_TICKS, len(away)), dtype=np.int64)
        np.add.at(count, (away[there], node[there]), 1)
        return np.cumsum(count, axis=0)

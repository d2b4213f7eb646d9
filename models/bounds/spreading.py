r"""Bounds on the nodes that data can have reached by a time, from α-distances and from counts of messages.

`AlphaDistances` are the α's of shortest paths between ranks. `Growth` counts messages: each holds a link for
α, so what one rank has spreads link by link. A rank with one port behind a switch that only forwards sends to
one rank at a time, however near all are. This is the postal model (Bar-Noy and Kipnis, doi
10.1145/140901.140903), on any network. Switches that only forward and are joined by links are a *fabric* c;
nodes at it receive data through it. X(u, t) is the most ranks that can have u's data within t, and R(c, u, t)
the most nodes, u too, that can by c alone:

    R(c, u, t) = min(nodes at c, 1 + Σ over links e = (u, w) into c, j ≥ 0 of R(c, w, t - (j + 1) α(e))).
    P(c, u, t) = Σ over s ≤ t of (R(c, u, s) - R(c, u, s - 1)) Y(c, t - s).
    Q(c, u, t) = Σ over links e = (u, w) into c, j ≥ 0 of X(w, t - (j + 1) α(e)).
    X(u, t) = min(ranks within α-distance t of u, 1 + what links bring + Σ over c of min(P, Q)).

A message leaves a switch w of c over one link. So w has the largest R(c, w', t - α(e')) and X(w', t - α(e'))
of its links e' = (w, w') instead of the sum. Y(c, t) is the largest X(v, t | c) of the nodes v at c, in which
c is left out of the sum: R has counted what it brings. A node that a link joins to u without such a switch
receives u's data once. So it counts once, for the fastest link, as X(w, t | u), where u is left out.

The bounds ``broadcast_growth`` and ``cut_gossip`` count so. Proof: ``docs/proofs.md``, *broadcast_growth*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tutti.topologies.exact import BoolArray, Int32Array, Int64Array
from tutti.topologies.graphs.shortest_paths import alpha_distances
from tutti.topologies.topology import Topology, components
from tutti.topologies.transforms import transpose

BLOCK_CELLS = 2**24
"""Largest number of distances held in memory at a time."""
DISTANCE_TICKS = 64
"""Largest number of ticks in the largest α-distance; each α is rounded down to ticks."""
MOST_TICKS = 512
"""Largest number of ticks that the search counts; a rank that is not reached by then takes longer."""


@dataclass(frozen=True, eq=False)
class AlphaDistances:
    """The α-distances between ranks, in blocks of rows where the whole matrix would need much memory.

    Parameters
    ----------
    topology
        The network.
    """

    topology: Topology

    def blocks(self, *, towards: bool = False) -> Iterator[tuple[int, Int64Array]]:
        """Yield blocks of rows: the first rank of each, and the distances from its ranks to every rank.

        They are over the denominator of `topology.alpha`; with `towards`, those to the ranks of the block.
        """
        ranks = self.topology.num_ranks
        if ranks**2 <= BLOCK_CELLS:
            yield 0, self._all.T if towards else self._all
            return
        where = transpose(self.topology) if towards else self.topology
        height = max(1, BLOCK_CELLS // self.topology.num_nodes)
        for first in range(0, ranks, height):
            rows = np.arange(first, min(first + height, ranks))
            yield first, alpha_distances(where, rows)[:, :ranks]

    @cached_property
    def nodes(self) -> Int64Array:
        """Shape (nodes, nodes): all distances, also of switches; `UNREACHABLE` where there is no path."""
        return alpha_distances(self.topology)

    @property
    def _all(self) -> Int64Array:
        ranks = self.topology.num_ranks
        return self.nodes[:ranks, :ranks]


def forwarding(topology: Topology) -> BoolArray:
    """Return which nodes only forward."""
    only = np.arange(topology.num_nodes) >= topology.num_ranks
    only[[*(topology.multicast | topology.aggregate)]] = False
    return only


def tick_of(distances: AlphaDistances) -> int:
    """Return a tick over α's denominator: the common divisor of all α, if distances then have few ticks."""
    divisor = max(1, int(np.gcd.reduce(distances.topology.alpha.numerators)))
    farthest = int(distances.nodes.max())
    return divisor * max(1, -(-farthest // (divisor * DISTANCE_TICKS)))


@dataclass(frozen=True, eq=False)
class _SpreadingLinks:
    """Links in the direction in which data spreads, α in ticks."""

    source: Int32Array
    target: Int32Array
    alpha: Int64Array

    def chosen(self, which: BoolArray | Int64Array) -> _SpreadingLinks:
        """Return the chosen links."""
        return _SpreadingLinks(self.source[which], self.target[which], self.alpha[which])

    def before(self, tick: int, table: Int64Array, column: Int32Array | None = None) -> Int64Array:
        """Return the table's entry α before the tick for each link: 0 before the beginning, or without α.

        Nodes with a link without α need no sum.
        """
        column = np.arange(len(self.alpha), dtype=np.int32) if column is None else column
        known = (self.alpha > 0) & (self.alpha <= tick)
        return np.where(known, table[np.where(known, tick - self.alpha, 0), column], 0)


class _Fabric:
    """The nodes at each fabric, given the links of a network and the nodes that only forward.

    Attributes
    ----------
    of, node
        int32, shape (places,): a place is a fabric with one of its switches or with a node that a link joins
        to it.
    hears
        bool, shape (places,): whether the node keeps data and a link of the fabric leads to it.
    size
        int64, shape (fabrics,): the number of such nodes.
    links
        The links of fabrics, between places.
    forwards
        bool, shape (places,): whether the node is a switch of the fabric.
    """

    def __init__(self, links: _SpreadingLinks, forwards: BoolArray) -> None:
        inner = links.chosen(forwards[links.source] & forwards[links.target])
        label = components(len(forwards), inner.source, inner.target)[1]
        own = links.chosen(forwards[links.source] | forwards[links.target])
        of = np.unique(label[np.where(forwards[own.source], own.source, own.target)], return_inverse=True)[1]
        ends = np.concatenate([of, of]), np.concatenate([own.source, own.target])
        known, place = np.unique(np.stack(ends), axis=1, return_inverse=True)
        source, target = np.split(place.reshape(-1).astype(np.int32), 2)
        self.of, self.node = known.astype(np.int32)
        self.links, self.forwards = _SpreadingLinks(source, target, own.alpha), forwards[self.node]
        self.hears = np.isin(np.arange(len(self.node)), target) & ~self.forwards
        self.size = np.bincount(self.of[self.hears], minlength=int(self.of.max(initial=-1)) + 1)


class _Brought:
    """Sums, tick after tick, of the `values` at the ends of the messages over a fabric's links."""

    def __init__(self, fabric: _Fabric) -> None:
        self._fabric = fabric
        self.values = np.ones((MOST_TICKS, len(fabric.of)), dtype=np.int64)
        self._sums = np.zeros((MOST_TICKS, len(fabric.links.source)), dtype=np.int64)

    def at(self, tick: int) -> Int64Array:
        """Return the sum for each place where messages start; for a switch, the most of one link."""
        links = self._fabric.links
        first = links.before(tick, self.values, links.target)
        self._sums[tick] = first + links.before(tick, self._sums)
        total, most = np.zeros_like(self.values[tick]), np.zeros_like(self.values[tick])
        np.add.at(total, links.source, self._sums[tick])
        np.maximum.at(most, links.source, first)
        return np.where(self._fabric.forwards, most, total)


class Growth:
    """X in ticks, towards the ends of links (``outward``) or against them.

    Parameters
    ----------
    topology, distances
        The network and its α-distances.
    members
        The ranks that count.
    outward
        Whether data goes along the links, and X counts who can have a node's data; else whose data it can
        have.
    """

    def __init__(
        self, topology: Topology, distances: AlphaDistances, members: Int32Array, outward: bool
    ) -> None:
        self.topology, self.distances, self.members, self.outward = topology, distances, members, outward
        ends = (topology.source, topology.target) if outward else (topology.target, topology.source)
        self._links = _SpreadingLinks(*ends, topology.alpha.numerators // tick_of(distances))
        self._fabric = _Fabric(self._links, forwarding(topology))
        # whether a link out of each node has no α
        nodes = np.arange(topology.num_nodes)
        self._at_once = np.isin(nodes, self._links.source[self._links.alpha == 0])

    def ticks(self, concerned: Int32Array) -> Int64Array:
        """Return the first tick at which X reaches all members, for each of these ranks."""
        first = np.full(self.topology.num_nodes, MOST_TICKS)
        for tick, x in enumerate(self.rows()):
            first[(x >= len(self.members)) & (first == MOST_TICKS)] = tick
            if (first[concerned] < MOST_TICKS).all():
                break
        return first[concerned]

    def rows(self) -> Iterator[Int64Array]:
        """Yield X of each node that holds data, int64 of shape (nodes,), for the ticks 0, 1, ..."""
        weight = np.bincount(self.members, minlength=self.topology.num_nodes)
        near, (joined, back), fabric = self._near, self._joined, self._fabric
        most, at_once = fabric.size[fabric.of] + ~fabric.hears, self._at_once[fabric.node]
        reached, known = _Brought(fabric), _Brought(fabric)
        onward = np.zeros((MOST_TICKS, len(joined.source)), dtype=np.int64)
        beyond = np.zeros((MOST_TICKS, len(fabric.size)), dtype=np.int64)

        def at_most(tick: int, node: Int32Array, count: Int64Array) -> Int64Array:
            return np.where(self._at_once[node], near[tick][node], np.minimum(near[tick][node], count))

        for tick in range(MOST_TICKS):
            count = np.minimum(most, reached.at(tick) + ~fabric.forwards)
            reached.values[tick] = np.where(at_once, most, count)
            more = np.diff(reached.values[: tick + 1], axis=0)[::-1]
            brought = known.at(tick)
            through = np.minimum(brought, (more * beyond[:tick][:, fabric.of]).sum(axis=0))
            heard, total = joined.before(tick, onward), weight.copy()
            np.add.at(total, fabric.node, through)
            np.add.at(total, joined.source, heard)
            without = total[joined.target] - np.where(back >= 0, heard[back], 0)
            onward[tick] = at_most(tick, joined.target, without)
            x = at_most(tick, np.arange(len(weight), dtype=np.int32), total)
            passed_on = np.where(fabric.forwards, brought, x[fabric.node])
            known.values[tick] = at_most(tick, fabric.node, passed_on)
            others = at_most(tick, fabric.node, total[fabric.node] - through)
            np.maximum.at(beyond[tick], fabric.of, np.where(fabric.hears, others, 0))
            yield x

    @cached_property
    def _joined(self) -> tuple[_SpreadingLinks, Int64Array]:
        """The fastest link between each two nodes that keep data, and which leads back, -1 for none."""
        forwards, nodes = forwarding(self.topology), self.topology.num_nodes
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
        """int64 (ticks, nodes): the number of members within that many ticks of each node."""
        distance = self.distances.nodes if self.outward else self.distances.nodes.T
        away = distance[:, self.members] // tick_of(self.distances)
        node = np.broadcast_to(np.arange(len(away))[:, None], away.shape)
        there = (away >= 0) & (away < MOST_TICKS)
        count = np.zeros((MOST_TICKS, len(away)), dtype=np.int64)
        np.add.at(count, (away[there], node[there]), 1)
        return np.cumsum(count, axis=0)

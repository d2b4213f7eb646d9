"""The pairs of ranks whose data a collective moves, grouped by the symmetries of the network."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from tutti.schedules.collective import EVERYONE, Collective
from tutti.topologies.exact import NONE, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.shortest_paths import alpha_distances
from tutti.topologies.graphs.symmetry import AutomorphismGroup, automorphisms, orbits_of
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

Datum = tuple[frozenset[int], frozenset[int]]
"""The ranks where a datum starts, each of which adds to it if they are several, and those that need it."""

MOST_PLACES = 2**19
"""Largest number of pairs times nodes of a network that gets this bound."""
MOST_ELEMENTS = 2**10
"""Largest number of symmetries that are tried one by one, if not all generators keep the data."""


class Sorts(NamedTuple):
    """Data, in sorts; the pairs of all data of a sort have equal prices at two nodes.

    Parameters
    ----------
    datum, data, entries
        int64, shape (sorts,): a datum of each, the number of its data, and the number of its entries.
    rows
        int64, shape (2, entries): rows of prices, sort by sort.
    pairs
        int64, shape (entries,): the number of pairs of each datum with these prices.
    """

    datum: Int64Array
    data: Int64Array
    entries: Int64Array
    rows: Int64Array
    pairs: Int64Array


@dataclass(frozen=True, eq=False)
class RankPairs:
    """Pairs of ranks of which the second must receive the first's data, datum by datum.

    Parameters
    ----------
    topology
        The network, backwards for reduced data.
    backwards
        Whether it is reversed, as it is where links are equally fast and each datum is reduced at one rank.
    data
        The data that is moved, and its share of M.
    group
        Symmetries of the network and the data.
    start, end
        int64, shape (pairs,): in order of the data, by starts, then ends.
    first
        int64, shape (data + 1,): where the pairs of each datum begin.
    transfers
        int64, shape (data,): the least number of times that each byte must be sent from one rank to another,
        for sums that all need; 0 for others.
    """

    topology: Topology
    backwards: bool
    data: dict[Datum, Fraction]
    group: AutomorphismGroup
    start: Int64Array
    end: Int64Array
    first: Int64Array
    transfers: Int64Array

    @classmethod
    def of(cls, topology: Topology, collective: Collective, near: int) -> RankPairs | None:
        """Return the pairs; None if there are none, or too many.

        For a sum that all need who add to it, only pairs at one of the `near` largest distances count.
        """
        data = _data(collective)
        backwards = topology.bandwidth.uniform and all(len(ends) == 1 < len(starts) for starts, ends in data)
        if backwards:
            topology = transpose(topology)
            data = {(ends, starts): share for (starts, ends), share in data.items()}
        if _count(data) * topology.num_nodes > MOST_PLACES:
            return None
        apart = alpha_distances(topology)
        pairs = [sorted(_asked(datum, apart, near)) for datum in data]
        first = offsets_of([len(each) for each in pairs])
        if not first[-1]:
            return None
        start, end = np.array([pair for each in pairs for pair in each]).T
        whole = automorphisms(topology, whole=True)
        nodes, links = whole.nodes, whole.links
        kept = _kept(nodes, data)
        if not all(kept):
            elements = whole.elements(MOST_ELEMENTS) or automorphisms(topology).elements(MOST_ELEMENTS)
            if elements:
                nodes, links = elements
                kept = _kept(nodes, data)
        group = AutomorphismGroup(topology, nodes[kept], links[kept])
        able = topology.multicast | topology.aggregate
        sent = [2 * (len(ends) - 1) if starts == ends and not able else 0 for starts, ends in data]
        return cls(topology, backwards, data, group, start, end, first, np.array(sent))

    @property
    def datum(self) -> Int64Array:
        """int64, shape (pairs,): the datum of each."""
        return np.repeat(np.arange(len(self.data)), np.diff(self.first))

    @cached_property
    def row(self) -> Int32Array:
        """int32, shape (pairs, nodes): classes, equal where symmetries take one to another."""
        nodes, count, datum = self.topology.num_nodes, len(self.start), self.datum
        known = {one: number for number, one in enumerate(self.data)}
        number = np.zeros((len(known), nodes, nodes), dtype=np.int64)
        number[datum, self.start, self.end] = np.arange(count)
        maps = [np.arange(count * nodes)]
        for to in self.group.nodes:
            image = np.array([known[_image(one, to)] for one in self.data])
            pair = number[image[datum], to[self.start], to[self.end]]
            maps.append((pair[:, None] * nodes + to).ravel())
        orbits = orbits_of(np.array(maps), count * nodes)
        return np.unique(orbits, return_inverse=True)[1].reshape(count, -1).astype(np.int32)

    @property
    def ends(self) -> tuple[Int32Array, Int32Array]:
        """int32, shape (pairs,) each: the rows of prices of each pair at its start and at its end."""
        pairs = np.arange(len(self.start))
        return self.row[pairs, self.start], self.row[pairs, self.end]

    @cached_property
    def seen(self) -> Int32Array:
        """int32, shape (nodes, nodes): classes of two nodes, equal where symmetries take them to others."""
        nodes = self.topology.num_nodes
        maps = [np.arange(nodes**2), *((to[:, None] * nodes + to).ravel() for to in self.group.nodes)]
        return orbits_of(np.array(maps), nodes**2).reshape(nodes, nodes)

    @cached_property
    def kind(self) -> Int64Array:
        """int64, shape (links,): classes of links."""
        return np.unique(self.group.link_orbits, return_inverse=True)[1]

    @cached_property
    def senders(self) -> Int64Array:
        """int64: one node of each class of nodes that hold data."""
        return np.unique(self.group.node_orbits[self.topology.holders])

    @cached_property
    def spots(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """`node`, `arc` and `first` of `TickNetwork`; nodes that are equivalent for a sender are one."""
        topology = self.topology
        node = np.full((len(self.senders), topology.num_nodes), NONE)
        arcs = []
        for number, sender in enumerate(self.senders):
            one, spot = np.unique(self.seen[sender], return_index=True, return_inverse=True)[1:]
            own = np.r_[spot[sender], np.delete(np.arange(len(one)), spot[sender])]  # the sender's first
            node[number, : len(one)] = one[own]
            spot = np.argsort(own)[spot]
            ends = np.stack([spot[topology.source], spot[topology.target], self.kind])
            link = np.unique(ends, axis=1, return_index=True)[1]
            arcs.append(ends[:, link].T)
        width = int((node >= 0).sum(axis=1).max())
        return node[:, :width].copy(), np.concatenate(arcs), offsets_of([len(each) for each in arcs])

    def sorts(self, sender: int, node: int) -> Sorts:
        """Return the data, sorted by prices at a sender and at a node."""
        words = self.row[:, sender].astype(np.int64) * (int(self.row.max()) + 1) + self.row[:, node]
        words, word = np.unique(words, return_inverse=True)
        entry, pairs = np.unique(self.datum * len(words) + word, return_counts=True)
        datum, word = np.divmod(entry, len(words))
        entries = np.bincount(datum, minlength=len(self.data))
        place = np.arange(len(entry)) - offsets_of(entries)[datum]
        alike = np.full((len(self.data), int(entries.max()) + 1), NONE)
        alike[datum, place] = word * (int(pairs.max()) + 1) + pairs
        alike[:, -1] = np.unique([*self.data.values()], return_inverse=True)[1] * 2 + (self.transfers > 0)
        one, data = np.unique(alike, axis=0, return_index=True, return_counts=True)[1:]
        order = np.argsort(one)
        one, data = one[order], data[order]
        kept = np.isin(datum, one)
        rows = np.stack(np.divmod(words[word[kept]], int(self.row.max()) + 1))
        return Sorts(one, data, entries[one], rows, pairs[kept])

    @property
    def partial(self) -> bool:
        """Whether some pairs were left out as not far enough apart."""
        return len(self.start) < _count(self.data)


def _data(collective: Collective) -> dict[Datum, Fraction]:
    """Return all data and their shares, in order."""
    items, found = collective.items, defaultdict[Datum, Fraction](Fraction)
    rows = zip(items.group.tolist(), items.start.tolist(), items.end.tolist(), items.share, strict=True)
    for group, start, end, share in rows:
        members = frozenset(collective.members[group])
        sides = (members if side == EVERYONE else frozenset([side]) for side in (start, end))
        found[next(sides), next(sides)] += share
    return {datum: share for datum, share in found.items() if share and len(datum[0] | datum[1]) > 1}


def _count(data: Iterable[Datum]) -> int:
    """Return how many pairs of a start and another end there are."""
    return sum(len(starts) * len(ends) - len(starts & ends) for starts, ends in data)


def _asked(datum: Datum, apart: Int64Array, near: int) -> list[tuple[int, int]]:
    starts, ends = datum
    found = [(start, end) for start, end in product(starts, ends) if start != end]
    if starts != ends:
        return found
    farthest = sorted({apart[pair] for pair in found})[-near:]
    return [pair for pair in found if apart[pair] >= farthest[0]]


def _image(datum: Datum, nodes: Int32Array) -> Datum:
    starts, ends = (frozenset(nodes[list(side)].tolist()) for side in datum)
    return starts, ends


def _kept(nodes: Int32Array, data: dict[Datum, Fraction]) -> list[bool]:
    return [all(data.get(_image(datum, one)) == data[datum] for datum in data) for one in nodes]

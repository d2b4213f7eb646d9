"""The data of a collective, in classes that symmetries of the network make equal.

`Views` groups the nodes and links that are equivalent as seen from the start of an item; ``multicast_price``
uses it. `RankPairs` groups the pairs of a start and an end by automorphisms; ``path_price`` uses it. The
programs of these bounds have one price for a class.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from tutti.schedules.collective import EVERYONE, Collective
from tutti.topologies.exact import NONE, BoolArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.shortest_paths import alpha_distances
from tutti.topologies.graphs.symmetry import (
    AutomorphismGroup,
    UInt64Array,
    automorphisms,
    link_kinds,
    mixed,
    orbits_of,
    refine,
)
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

_TAIL, _HEAD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
"""Odd factors, by which colours are hashed."""
MOST_WORK = 2**20
"""Largest number of items times nodes and links for which ``multicast_price`` is found. A larger value
needs more time and memory."""
Datum = tuple[frozenset[int], frozenset[int]]
"""The ranks where a datum starts, each of which adds to it if they are several, and those that need it."""

MOST_PLACES = 2**19
"""Largest number of pairs times nodes for which ``path_price`` is found. A larger value needs more time and
memory."""
MOST_ELEMENTS = 2**10
"""Largest number of symmetries that are tried one by one, if not all generators keep the data."""


class ViewedItem(NamedTuple):
    """Data that starts at one rank, and the ranks that need it; for an allreduce, the data of one rank."""

    start: int
    ends: BoolArray
    share: Fraction


class LinkView(NamedTuple):
    """A class of links as items see them: classes of ends and link, the tail's distance from the start."""

    tail: int
    head: int
    kind: int
    come: int
    useless: bool
    """True if it leads to the start, or no data can come to its tail."""


class Views:
    """The network as each item sees it: classes of nodes and links that are equivalent.

    Parameters
    ----------
    topology
        The network, backwards for reduced data.
    backwards
        Whether the network is reversed.
    items
        The items that are moved.

    Attributes
    ----------
    apart
        Shape (items, nodes): distances from the start, over α's denominator.
    node
        Shape (items, nodes): classes of nodes, equal where items see equivalent nodes.
    views
        The classes of links, as items see them.
    view
        Shape (items, links): the class of each link.
    uses, links
        The different sets of classes that a link has for all items, and the links with each of them.
    example
        An item and a node of each class.
    holders
        The number of nodes that hold data.
    holder, start, end
        Shape (classes of nodes,): whether they hold data, and whether an item starts or ends there.
    leaves
        For each class of nodes that hold data: the number of links of each class that leave it.
    """

    def __init__(self, topology: Topology, backwards: bool, items: list[ViewedItem]) -> None:
        self.topology, self.backwards, self.items = topology, backwards, items
        source, target = topology.source, topology.target
        kinds = np.unique(link_kinds(topology), return_inverse=True)[1]
        self.apart = alpha_distances(topology, [item.start for item in items])
        self.node = _classes(topology, items, kinds)
        come = self.apart[:, source]
        useless = (target == np.array([[item.start] for item in items])) | (come < 0)
        of_all = np.broadcast_to(kinds, come.shape)
        sides = np.stack([self.node[:, source], self.node[:, target], of_all, come, useless])
        views, which = np.unique(sides.reshape(5, -1), axis=1, return_inverse=True)
        self.views = [LinkView(*view) for view in views.T.tolist()]
        self.view = which.reshape(come.shape)
        used = dict[tuple[int, ...], list[int]]()
        for link in range(topology.num_links):
            used.setdefault(tuple(np.unique(self.view[:, link]).tolist()), []).append(link)
        self.uses, self.links = list(used), list(used.values())
        first = np.unique(self.node, return_index=True)[1].tolist()
        self.example = [divmod(one, topology.num_nodes) for one in first]
        self.holders = int(topology.holders.sum())
        self.holder = topology.holders[[node for _, node in self.example]]
        self.start = np.array([items[item].start == node for item, node in self.example])
        self.end = np.array([bool(items[item].ends[node]) for item, node in self.example])
        self.leaves = list[dict[int, int]]()
        for (item, node), holds in zip(self.example, self.holder, strict=True):
            leaving = self.view[item, (source == node) & holds]
            number, count = np.unique(leaving, return_counts=True)
            self.leaves.append(dict(zip(number.tolist(), count.tolist(), strict=True)))

    @classmethod
    def of(cls, topology: Topology, collective: Collective) -> Views | None:
        """Return the views; None if there is no such item, or if there are too many."""
        table = collective.items
        backwards = not (table.end == EVERYONE).any()
        starts, ends = (table.end, table.start) if backwards else (table.start, table.end)
        rows = np.flatnonzero((ends == EVERYONE) & (table.share.numerators > 0))
        ways = transpose(topology) if backwards else topology
        if len(rows) * (topology.num_nodes + topology.num_links) > MOST_WORK:
            return None
        items, farthest = list[ViewedItem](), [_farthest(ways, members) for members in collective.members]
        for row in rows.tolist():
            there = np.zeros(ways.num_nodes, dtype=np.bool_)
            there[list(collective.members[table.group[row]])] = True
            start = farthest[table.group[row]] if starts[row] == EVERYONE else int(starts[row])
            there[start] = False
            if there.any():
                items.append(ViewedItem(start, there, table.share[row]))
        return cls(ways, backwards, items) if items else None


def _farthest(topology: Topology, ranks: Sequence[int]) -> int:
    """Return the rank with the longest path to another; of several, the one with the least bandwidth."""
    apart = alpha_distances(topology, ranks)[:, list(ranks)].max(axis=1)
    out = np.bincount(topology.source, topology.bandwidth.floats, topology.num_nodes)
    return max(ranks, key=lambda rank: (apart[ranks.index(rank)], -out[rank]))


def _classes(topology: Topology, items: Sequence[ViewedItem], kinds: Int64Array) -> Int64Array:
    """Return classes of nodes, shape (items, nodes): equal where items see equivalent nodes and links."""
    links = np.array([mixed(np.uint64(kind)) for kind in kinds], np.uint64)
    shares = sorted({item.share for item in items})
    views = list[UInt64Array]()
    for item in items:
        marks = np.where(item.ends, 2, topology.holders)
        marks[item.start] = 3 + shares.index(item.share)
        colours = np.array([mixed(np.uint64(mark)) for mark in marks], np.uint64)
        views.append(refine(colours, topology.source, topology.target, links)[0])
    colours = np.array(views)
    # Colours of nodes can be compared only between items that see the same colours of all links.
    hashed = colours[:, topology.source] * _TAIL + colours[:, topology.target] * _HEAD + links
    alike = np.unique(np.sort(hashed), axis=0, return_inverse=True)[1].reshape(-1, 1).astype(np.uint64)
    sides = np.stack([np.broadcast_to(alike, colours.shape), colours])
    return np.unique(sides.reshape(2, -1), axis=1, return_inverse=True)[1].reshape(colours.shape)


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

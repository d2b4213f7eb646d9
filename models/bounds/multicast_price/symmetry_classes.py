"""Classes of nodes and links that are equivalent, as seen from where each item starts that is copied."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.schedules.collective import EVERYONE, Collective
from tutti.topologies.exact import BoolArray, Int64Array
from tutti.topologies.graphs.shortest_paths import alpha_distances
from tutti.topologies.graphs.symmetry import UInt64Array, link_kinds, mixed, refine
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

_TAIL, _HEAD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
"""Odd factors, by which colours are hashed."""
MOST_WORK = 2**20
"""Largest number of items times nodes and links of a network that gets this bound."""


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
    ways, way
        The classes of links, as items see them; and shape (items, links): the class of each link.
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
        ways, which = np.unique(sides.reshape(5, -1), axis=1, return_inverse=True)
        self.ways = [LinkView(*way) for way in ways.T.tolist()]
        self.way = which.reshape(come.shape)
        used = dict[tuple[int, ...], list[int]]()
        for link in range(topology.num_links):
            used.setdefault(tuple(np.unique(self.way[:, link]).tolist()), []).append(link)
        self.uses, self.links = list(used), list(used.values())
        first = np.unique(self.node, return_index=True)[1].tolist()
        self.example = [divmod(one, topology.num_nodes) for one in first]
        self.holders = int(topology.holders.sum())
        self.holder = topology.holders[[node for _, node in self.example]]
        self.start = np.array([items[item].start == node for item, node in self.example])
        self.end = np.array([bool(items[item].ends[node]) for item, node in self.example])
        self.leaves = list[dict[int, int]]()
        for (item, node), holds in zip(self.example, self.holder, strict=True):
            leaving = self.way[item, (source == node) & holds]
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

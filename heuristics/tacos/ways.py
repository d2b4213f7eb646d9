"""Routes as resources, and trees of routes that pieces follow, as kernels read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topologies.exact import Int32Array, Int64Array

UP, DOWN = 0, 1
"""Towards the root, where pieces are reduced, and away from it."""


class Ways(NamedTuple):
    """The routes of a network, for pieces of one size.

    Parameters
    ----------
    offsets, links
        The links of route r are links[offsets[r] : offsets[r + 1]].
    delay, hold
        int64, like `links`: ticks after the start until the link is entered, and for which it is held.
    lasts
        int64, shape (routes,): ticks until the piece has arrived.
    """

    offsets: Int64Array
    links: Int32Array
    delay: Int64Array
    hold: Int64Array
    lasts: Int64Array

    @property
    def num_links(self) -> int:
        """How many links there are, at least."""
        return int(self.links.max(initial=-1)) + 1

    @property
    def reversed(self) -> Ways:
        """The same routes as they look from the end of time: entered so long before a piece has arrived."""
        lasts = np.repeat(self.lasts, np.diff(self.offsets))
        return self._replace(delay=np.maximum(lasts - self.delay - self.hold, 0))


class Trees(NamedTuple):
    """The trees of each piece, upwards and downwards; shape (2, pieces, nodes) where nothing else is said.

    Parameters
    ----------
    root
        int32, shape (pieces,): where what comes up goes down again.
    parent
        int32: -1 at the root, and everywhere if the piece does not move that way.
    way
        int32: the route of the hop from the node to its parent (upwards), or from its parent (downwards).
    first, child
        int64 (2, pieces, nodes + 1), int32: the nodes below v are child[first[v] : first[v + 1]].
    """

    root: Int32Array
    parent: Int32Array
    way: Int32Array
    first: Int64Array
    child: Int32Array

    @classmethod
    def of(cls, root: Int32Array, parent: Int32Array, way: Int32Array) -> Trees:
        """Return them with the tables of children."""
        nodes = parent.shape[2]
        child = np.argsort(parent, axis=2, kind="stable").astype(np.int32)
        above = np.take_along_axis(parent, child, axis=2).reshape(-1, nodes)
        first = np.stack([np.searchsorted(row, np.arange(nodes + 1)) for row in above])
        return cls(root, parent, way, first.reshape(*parent.shape[:2], nodes + 1).astype(np.int64), child)

    @property
    def reversed(self) -> Trees:
        """The same trees as they look from the end of time."""
        turned = (self.parent[::-1].copy(), self.way[::-1].copy())
        return Trees(self.root, *turned, self.first[::-1].copy(), self.child[::-1].copy())

"""Groups of ranks that wide arcs join (boxes), and how trees over groups and trees inside them fit together.

A tree over groups says from which group each other is entered; each entry takes a pair of ranks; and in each
group a tree spreads from the rank that was entered. Trees that enter every group once are made this way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy import sparse

from topologies.exact import Int32Array, Int64Array
from topologies.rows import Arcs

_LEVELS = 12
"""Thresholds of width tried for groups."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Nodes and the capacities between them, each pair once, sorted by head and tail."""

    nodes: int
    tails: Int32Array
    heads: Int32Array
    capacity: Int64Array

    @classmethod
    def of(cls, nodes: int, tails: Int32Array, heads: Int32Array, capacity: Int64Array) -> Pairs:
        """Return the pairs with capacity, sorted."""
        kept = np.flatnonzero(capacity > 0)
        kept = kept[np.lexsort((tails[kept], heads[kept]))]
        return cls(nodes, tails[kept], heads[kept], capacity[kept])

    def divided(self, quantum: int) -> Pairs:
        """Return how many batches of `quantum` trees each pair carries."""
        return Pairs.of(self.nodes, self.tails, self.heads, self.capacity // quantum)

    def arcs(self) -> Arcs:
        """Return the pairs with the indices that kernels need."""
        key = self.heads.astype(np.int64) * self.nodes + self.tails
        turned = self.tails.astype(np.int64) * self.nodes + self.heads
        place = np.searchsorted(key, turned)
        found = np.append(key, -1)[place] == turned
        out = np.argsort(turned, kind="stable")
        ends = np.arange(self.nodes + 1)
        return Arcs(
            self.tails.astype(np.int32),
            self.heads.astype(np.int32),
            self.capacity.astype(np.int64),
            np.searchsorted(self.heads, ends),
            out.astype(np.int32),
            np.searchsorted(self.tails[out], ends),
            np.where(found, place, -1).astype(np.int32),
        )

    def least_height(self, trees: Int64Array) -> int:
        """Return the largest distance from a root, in hops; -1 if some node can't be reached."""
        ones = np.ones(len(self.tails))
        graph = sparse.csr_matrix((ones, (self.tails, self.heads)), shape=(self.nodes, self.nodes))
        hops = sparse.csgraph.shortest_path(graph, unweighted=True, indices=np.flatnonzero(trees))
        return int(hops.max()) if np.isfinite(hops).all() else -1


class Between(NamedTuple):
    """Pairs that join groups: those from group g to h of n are first[g * n + h]:first[g * n + h + 1].

    `left` is what capacity they have left.
    """

    tails: Int32Array
    heads: Int32Array
    left: Int64Array
    first: Int64Array


def groupings(pairs: Pairs) -> Iterator[Int64Array]:
    """Yield labels of groups that arcs of at least some capacity join, the coarsest first."""
    seen: set[bytes] = set()
    widths = np.unique(pairs.capacity)
    if not len(widths):
        return
    for width in widths[np.unique(np.linspace(0, len(widths) - 1, _LEVELS).astype(np.int64))]:
        wide = pairs.capacity >= width
        ones = np.ones(int(wide.sum()))
        graph = sparse.coo_matrix((ones, (pairs.tails[wide], pairs.heads[wide])), shape=(pairs.nodes,) * 2)
        groups, label = sparse.csgraph.connected_components(graph, directed=False)
        if 1 < groups <= pairs.nodes // 2 and label.tobytes() not in seen:
            seen.add(label.tobytes())
            yield label.astype(np.int64)


def contracted(pairs: Pairs, label: Int64Array) -> Pairs:
    """Return the network of the groups."""
    groups = int(label.max()) + 1
    key = label[pairs.tails] * groups + label[pairs.heads]
    capacity = np.zeros(groups * groups, dtype=np.int64)
    np.add.at(capacity, key, pairs.capacity)
    capacity[:: groups + 1] = 0
    used = np.flatnonzero(capacity)
    tails, heads = np.divmod(used, groups)
    return Pairs.of(groups, tails.astype(np.int32), heads.astype(np.int32), capacity[used])


def part(pairs: Pairs, nodes: Int64Array) -> Pairs:
    """Return the network inside a group, its nodes numbered from 0."""
    local = np.full(pairs.nodes, -1, dtype=np.int32)
    local[nodes] = np.arange(len(nodes))
    tails, heads = local[pairs.tails], local[pairs.heads]
    kept = (tails >= 0) & (heads >= 0)
    return Pairs.of(len(nodes), tails[kept], heads[kept], pairs.capacity[kept])


def between(pairs: Pairs, label: Int64Array) -> Between:
    """Return the pairs that join groups."""
    groups = int(label.max()) + 1
    key = label[pairs.tails] * groups + label[pairs.heads]
    joining = np.flatnonzero(label[pairs.tails] != label[pairs.heads])
    order = joining[np.lexsort((pairs.heads[joining], pairs.tails[joining], key[joining]))]
    first = np.searchsorted(key[order], np.arange(groups * groups + 1))
    return Between(pairs.tails[order], pairs.heads[order], pairs.capacity[order].copy(), first)


@njit(cache=True)
def enter(
    pairs: Between, label: Int64Array, root: Int64Array, over: Int32Array, steps: Int64Array
) -> tuple[Int32Array, Int32Array]:
    """Choose, within what is left, the pair by which each tree enters each group; return its ends.

    Both have shape (trees, groups); `over[steps[t]]` are the groups' parents in tree t. First the roots' own
    pairs to other groups are given out, since they make the lowest trees; then, from the roots' groups on,
    those of the ranks entered; then any.
    """
    groups = over.shape[1]
    entry = np.full((len(root), groups), -1, dtype=np.int32)
    sender = np.full((len(root), groups), -1, dtype=np.int32)
    for own in (True, False):
        for t in range(len(root)):
            home = label[root[t]]
            entry[t, home] = root[t]
            for group in range(groups):
                if not own or over[steps[t], group] == home:
                    _enter_group(pairs, over[steps[t]], entry[t], sender[t], group, own)
    return entry, sender


@njit(cache=True)
def _enter_group(
    pairs: Between, over: Int32Array, entry: Int32Array, sender: Int32Array, group: int, own: bool
) -> None:
    """Enter a group, and before it those above it, by the sender's widest pair."""
    while entry[group] < 0:
        below = group
        while entry[over[below]] < 0:
            below = over[below]
        above = over[below]
        key = above * len(over) + below
        best, best_own = -1, False
        for a in range(pairs.first[key], pairs.first[key + 1]):
            mine = pairs.tails[a] == entry[above]
            better = (
                best < 0 or (mine and not best_own) or (mine == best_own and pairs.left[a] > pairs.left[best])
            )
            if pairs.left[a] > 0 and (mine or not own) and better:
                best, best_own = a, mine
        if best < 0:
            return
        pairs.left[best] -= 1
        entry[below], sender[below] = pairs.heads[best], pairs.tails[best]


@njit(cache=True)
def lay(
    parent: Int32Array,
    nodes: Int64Array,
    inside: Int32Array,
    rows: Int64Array,
    entry: Int32Array,
    sender: Int32Array,
) -> None:
    """Write a group's trees into the whole ones; `entry` receives from `sender`."""
    for t in range(len(rows)):
        for i in range(len(nodes)):
            above = inside[rows[t], i]
            if above >= 0:
                parent[t, nodes[i]] = nodes[above]
        parent[t, entry[t]] = sender[t]

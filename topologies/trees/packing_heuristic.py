"""Finds low trees by guessing: composed of trees over groups of ranks, or by local search.

Any spanning out-trees within the capacities are as good as Algorithm 4's (dissertation B.5.3), whose heights
and numbers are arbitrary. Two searches are tried, and the better forest is kept. That is the lower one or,
among equally low ones, the one with fewer different edges, because each edge is a message.

By groups: ranks that wide arcs join (a box) form a group. A tree over groups says from which group each other
group is entered. Each entry takes a pair of ranks, and in each group a tree spreads from the rank that was
entered. Equal groups are solved once, groups of groups in the same way, and trees are taken `quantum` at a
time if the roots' numbers allow it.

By search: each root begins with one tree of all its weight, grown by the widest residual arcs.
`topologies.trees.tree_local_search` relieves overloaded arcs, and splits trees where the capacities require
it. The height limit starts at the least height of any forest and rises by one at a time. All budgets are
numbers of moves, so that the same arguments give the same trees on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.topologies.exact import Int32Array, Int64Array, summed_pairs
from tutti.topologies.graphs.shortest_paths import UNREACHABLE, hops_from_each
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Neighbours, components
from tutti.topologies.trees.forest import Forest, LogicalNetwork, heights, sustains, trees_by_root
from tutti.topologies.trees.tree_local_search import CapacitatedArcs, GrowingTrees, grow_widest, relieve


class PackingTuning(NamedTuple):
    """Limits of the search for trees."""

    levels: int
    """Number of thresholds of width that are tried for groups."""
    most_entries: int
    """Most trees times nodes. Larger problems are left to the exact algorithm."""
    small: int
    """Trees times nodes up to which all quanta are tried."""
    most_searched: int
    """Largest number of rows times nodes of a search."""
    most_work: int
    """Largest number of rows times nodes times moves of a search."""
    few_nodes: int
    """Largest number of nodes for which a network is searched even if groups gave trees."""
    seed: int
    """Seed of the random numbers."""
    grown: int
    """Number of times that all trees are grown before they are mended."""
    patience: int
    """Moves without progress after which a search ends. A search of more than twice as many is long."""
    moves: int
    """Most moves of all tries of a search together. MI250 in two boxes takes 900,000."""
    each: int
    """Moves without progress for each row and node, after which a small search ends."""
    turn: int
    """Most moves of one try of a search."""
    hopeless: tuple[int, ...]
    """A search that leaves more than 1 / `hopeless` of the excess is given up: for short and long ones."""
    higher: int
    """The search tries heights up to this much above the least height. A larger value finds more forests,
    and higher ones."""


TUNING = PackingTuning(
    levels=12,
    most_entries=1 << 25,
    small=1 << 18,
    most_searched=1 << 26,
    most_work=1 << 35,
    few_nodes=32,
    seed=0x9E3779B97F4A7C15,
    grown=3,
    patience=20_000,
    moves=1_200_000,
    each=20,
    turn=200_000,
    hopeless=(5, 16),
    higher=4,
)


@dataclass(frozen=True, eq=False)
class CapacityPairs:
    """Nodes and the capacities between them, each pair once, sorted by head and tail."""

    nodes: int
    tails: Int32Array
    heads: Int32Array
    capacity: Int64Array

    @classmethod
    def of(cls, nodes: int, tails: Int32Array, heads: Int32Array, capacity: Int64Array) -> CapacityPairs:
        """Return the pairs with capacity, sorted."""
        kept = np.flatnonzero(capacity > 0)
        kept = kept[np.lexsort((tails[kept], heads[kept]))]
        return cls(nodes, tails[kept], heads[kept], capacity[kept])

    def divided(self, quantum: int) -> CapacityPairs:
        """Return the number of batches of `quantum` trees that each pair carries."""
        return CapacityPairs.of(self.nodes, self.tails, self.heads, self.capacity // quantum)

    def arcs(self) -> CapacitatedArcs:
        """Return the pairs with the indices that kernels need."""
        key = self.heads.astype(np.int64) * self.nodes + self.tails
        turned = self.tails.astype(np.int64) * self.nodes + self.heads
        place = np.searchsorted(key, turned)
        found = np.append(key, -1)[place] == turned
        out = np.argsort(turned, kind="stable")
        ends = np.arange(self.nodes + 1)
        return CapacitatedArcs(
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
        graph = Neighbours.of(self.tails, self.heads, self.nodes)
        hops = hops_from_each(graph, np.flatnonzero(trees))
        return -1 if (hops == UNREACHABLE).any() else int(hops.max())


class Between(NamedTuple):
    """Pairs that join groups: those from group g to h of n are first[g * n + h]:first[g * n + h + 1].

    `left` is the capacity that they have left.
    """

    tails: Int32Array
    heads: Int32Array
    left: Int64Array
    first: Int64Array


def groupings(pairs: CapacityPairs) -> Iterator[Int64Array]:
    """Yield labels of groups that arcs of at least some capacity join; the coarsest grouping comes first."""
    seen: set[bytes] = set()
    widths = np.unique(pairs.capacity)
    if not len(widths):
        return
    for width in widths[np.unique(np.linspace(0, len(widths) - 1, TUNING.levels).astype(np.int64))]:
        wide = pairs.capacity >= width
        groups, label = components(pairs.nodes, pairs.tails[wide], pairs.heads[wide])
        if 1 < groups <= pairs.nodes // 2 and label.tobytes() not in seen:
            seen.add(label.tobytes())
            yield label.astype(np.int64)


def contracted(pairs: CapacityPairs, label: Int64Array) -> CapacityPairs:
    """Return the network of the groups."""
    groups = int(label.max()) + 1
    ends = label[pairs.tails], label[pairs.heads]
    tails, heads, capacity = summed_pairs(groups, *ends, pairs.capacity)
    return CapacityPairs.of(groups, tails, heads, capacity * (tails != heads))


def part(pairs: CapacityPairs, nodes: Int64Array) -> CapacityPairs:
    """Return the network inside a group, its nodes numbered from 0."""
    local = np.full(pairs.nodes, -1, dtype=np.int32)
    local[nodes] = np.arange(len(nodes))
    tails, heads = local[pairs.tails], local[pairs.heads]
    kept = (tails >= 0) & (heads >= 0)
    return CapacityPairs.of(len(nodes), tails[kept], heads[kept], pairs.capacity[kept])


def between(pairs: CapacityPairs, label: Int64Array) -> Between:
    """Return the pairs that join groups."""
    groups = int(label.max()) + 1
    key = label[pairs.tails] * groups + label[pairs.heads]
    joining = np.flatnonzero(label[pairs.tails] != label[pairs.heads])
    order = joining[np.lexsort((pairs.heads[joining], pairs.tails[joining], key[joining]))]
    first = np.searchsorted(key[order], np.arange(groups * groups + 1))
    return Between(pairs.tails[order], pairs.heads[order], pairs.capacity[order].copy(), first)


@kernel
def enter(
    pairs: Between, label: Int64Array, root: Int64Array, over: Int32Array, steps: Int64Array
) -> tuple[Int32Array, Int32Array]:
    """Choose the pair by which each tree enters each group, within the remaining capacity; return its ends.

    Both have shape (trees, groups); `over[steps[t]]` are the groups' parents in tree t. First the roots' own
    pairs to other groups are assigned, since they give the lowest trees. Then, from the roots' groups on, the
    pairs of entered ranks are assigned, and last any pair.
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


@kernel
def _enter_group(
    pairs: Between, over: Int32Array, entry: Int32Array, sender: Int32Array, group: int, own: bool
) -> None:
    """Enter a group, and its ancestors first, by the sender's widest pair."""
    while entry[group] < 0:
        below = group
        # The highest ancestor that is not entered yet comes first.
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


@kernel
def lay(
    parent: Int32Array,
    nodes: Int64Array,
    inside: Int32Array,
    rows: Int64Array,
    entry: Int32Array,
    sender: Int32Array,
) -> None:
    """Write a group's trees into the whole trees; `entry` receives from `sender`."""
    for t in range(len(rows)):
        for i in range(len(nodes)):
            above = inside[rows[t], i]
            if above >= 0:
                parent[t, nodes[i]] = nodes[above]
        parent[t, entry[t]] = sender[t]


_TRIES = ((11, 1.0), (15, 1.0), (15, 0.0), (20, 1.0))
"""Pairs of the largest number of added rows, in tenths of the arcs (a basic solution has at most one per
arc), and of how much a growing tree avoids arcs that it would overload."""


def grow_trees(
    network: LogicalNetwork, k: int, weights: Iterable[Fraction | int] | None = None
) -> Forest | None:
    """Return low spanning trees within the capacities, or None if none were found.

    None does not prove that there are none: `packing.pack_trees` finds trees if there are any. The result is
    the same for the same arguments.

    Parameters
    ----------
    network
        Ranks and arcs; the capacities of a pair's arcs add up.
    k, weights
        They give the trees of each root, see `forest.trees_by_root`.

    Raises
    ------
    InputError
        If k or the weights are wrong.

    Examples
    --------
    >>> ring = LogicalNetwork(3, [0, 1, 2], [1, 2, 0], [2, 2, 2], [0, 1, 2, 3], [0, 1, 2])
    >>> grow_trees(ring, 1).parent.tolist()
    [[-1, 0, 1], [2, -1, 1], [2, 0, -1]]
    """
    trees = trees_by_root(network.num_ranks, k, weights)
    units = _Grower().grow(CapacityPairs.of(network.num_ranks, *network.pairs), trees)
    if units is None:
        return None
    rows: dict[bytes, int] = {}  # equal trees share a row
    place = np.array([rows.setdefault(row.tobytes(), len(rows)) for row in units.parent])
    _, first = np.unique(place, return_index=True)
    weight = np.zeros(len(rows), dtype=np.int64)
    np.add.at(weight, place, units.weight)
    return Forest(units.root[first].astype(np.int32), weight, units.parent[first])


@dataclass(frozen=True, eq=False)
class _Units:
    """Trees by root, the lowest of each root first: parent (rows, nodes), -1 at the root."""

    root: Int64Array
    parent: Int32Array
    height: Int32Array
    weight: Int64Array

    @classmethod
    def of(cls, root: Int64Array, parent: Int32Array, weight: Int64Array) -> _Units:
        """Sort the trees by root; the lowest trees of a root come first."""
        height = heights(Forest(root.astype(np.int32), weight, parent))
        order = np.lexsort((height, root))
        return cls(root[order], parent[order], height[order], weight[order])

    @property
    def rank(self) -> tuple[int, int]:
        """The quantities to minimize: the height, and the number of edges that differ from the row before."""
        new = (self.parent[1:] != self.parent[:-1]).sum(axis=1)
        return int(self.height.max()), int(new.sum())

    def in_turn(self, root: Int64Array) -> Int64Array:
        """Return a row for each wanted root; each row is used as often as its weight says.

        Lower trees are assigned first, in the same order in every group, so that they meet in the same whole
        trees.
        """
        rows = np.repeat(np.arange(len(self.root)), self.weight)
        result = np.empty(len(root), dtype=np.int64)
        result[np.argsort(root, kind="stable")] = rows
        return result


@dataclass(eq=False)
class _Grower:
    """Grows trees, and remembers the results for equal parts."""

    found: dict[bytes, _Units | None] = field(default_factory=dict)

    def grow(self, pairs: CapacityPairs, trees: Int64Array) -> _Units | None:
        """Return this many trees of each root, or None."""
        if pairs.nodes == 1:
            alone = np.full((1, 1), -1, dtype=np.int32)
            return _Units.of(np.zeros(1, dtype=np.int64), alone, trees[:1])
        parts = (np.array([pairs.nodes]), pairs.tails, pairs.heads, pairs.capacity, trees)
        key = b"".join(np.asarray(part, dtype=np.int64).tobytes() for part in parts)
        if key not in self.found:
            best: _Units | None = None
            least = pairs.least_height(trees) if pairs.nodes * int(trees.sum()) <= TUNING.small else 0
            common = int(np.gcd.reduce(trees))
            for quantum in (common // d for d in range(1, common + 1) if common % d == 0):
                entries = pairs.nodes * int(trees.sum()) // quantum
                if entries > (TUNING.small if best is not None else TUNING.most_entries):
                    break
                divided = pairs.divided(quantum)
                composed = (self._composed(divided, trees // quantum, label) for label in groupings(divided))
                units = next((found for found in composed if found is not None), None)
                if units is not None and (best is None or units.rank < best.rank):
                    best = replace(units, weight=units.weight * quantum)
                if best is not None and best.rank[0] <= least:
                    break
            if best is None or pairs.nodes <= TUNING.few_nodes:
                found = _searched(pairs, trees, pairs.nodes - 1 if best is None else best.rank[0])
                if found is not None and (best is None or found.rank < best.rank):
                    best = found
            self.found[key] = best
        return self.found[key]

    def _composed(self, pairs: CapacityPairs, trees: Int64Array, label: Int64Array) -> _Units | None:
        """Make trees over groups, then inside each group, and combine them."""
        groups = int(label.max()) + 1
        root = np.repeat(np.arange(pairs.nodes), trees)
        over = self.grow(contracted(pairs, label), np.bincount(label[root], minlength=groups))
        if over is None:
            return None
        entry, sender = enter(between(pairs, label), label, root, over.parent, over.in_turn(label[root]))
        parent = np.full((len(root), pairs.nodes), -1, dtype=np.int32)
        for group in range(groups):
            nodes = np.flatnonzero(label == group)
            local = np.searchsorted(nodes, entry[:, group])
            inside = self.grow(part(pairs, nodes), np.bincount(local, minlength=len(nodes)))
            if inside is None:
                return None
            rows = inside.in_turn(local)
            lay(parent, nodes, inside.parent, rows, entry[:, group].copy(), sender[:, group].copy())
        return _Units.of(root, parent, np.ones(len(root), dtype=np.int64))


def _searched(pairs: CapacityPairs, trees: Int64Array, most: int) -> _Units | None:
    """Search for trees of height at most `most`; the least height is tried first."""
    entries = int(np.count_nonzero(trees) + min(len(pairs.tails), _most_rows(pairs))) * pairs.nodes
    if entries > TUNING.most_searched:
        return None
    counts = (pairs.nodes, pairs.tails.astype(np.int32), pairs.heads.astype(np.int32), pairs.capacity)
    if not sustains(*counts, trees):
        return None
    least, moves = pairs.least_height(trees), min(TUNING.moves, TUNING.most_work // entries)
    for limit in range(least, min(least + TUNING.higher, most) + 1):
        units, moves = _search(pairs, trees, limit, moves)
        if units is not None:
            return units
    return None


def _most_rows(pairs: CapacityPairs) -> int:
    """Return the largest number of rows in addition to one per root, for the memory that they take."""
    return TUNING.most_entries // pairs.nodes


def _search(pairs: CapacityPairs, trees: Int64Array, limit: int, moves: int) -> tuple[_Units | None, int]:
    """Search for trees of height at most `limit`; if little excess is left, begin again with another `room`.

    Return the trees and the number of moves left.
    """
    arcs, state = pairs.arcs(), np.array([TUNING.seed], dtype=np.uint64)
    for room, sharp in _TRIES:
        rows = _begin(pairs, trees, limit, min(len(pairs.tails) * room // 10, _most_rows(pairs)))
        for _ in range(TUNING.grown):
            grow_widest(arcs, rows, state, sharp)
        begin = int(np.maximum(rows.load - arcs.capacity, 0).sum())
        turn = min(moves, TUNING.turn)
        left, unused = relieve(arcs, rows, state, turn, min(TUNING.patience, TUNING.each * rows.via.size))
        moves -= turn - unused
        if left == 0:
            count = int(rows.used[0])
            via = rows.via[:, :count].T
            parent = np.where(via >= 0, pairs.tails[via], -1).astype(np.int32)
            return _Units.of(rows.root[:count].astype(np.int64), parent, rows.weight[:count].copy()), moves
        hopeless = TUNING.hopeless[turn - unused > 2 * TUNING.patience]
        if left * hopeless > begin > hopeless:
            break
    return None, moves


def _begin(pairs: CapacityPairs, trees: Int64Array, limit: int, more: int) -> GrowingTrees:
    """Return a row for each root, and room for `more` rows."""
    root = np.flatnonzero(trees)
    spare = np.zeros(more, dtype=np.int64)
    size = len(root) + len(spare)
    table = np.full((2, pairs.nodes, size), -1, dtype=np.int32)
    return GrowingTrees(
        used=np.array([len(root)]),
        root=np.append(root, spare).astype(np.int32),
        limit=np.full(size, limit, dtype=np.int32),
        weight=np.append(trees[root], spare),
        via=table[0],
        depth=table[1],
        load=np.zeros(len(pairs.tails), dtype=np.int64),
        use=np.zeros((pairs.nodes, len(pairs.tails)), dtype=np.int32),
    )

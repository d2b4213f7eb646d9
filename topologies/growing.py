"""Trees by guessing: grown by arcs with room, low ones first, and mended by local search.

Any spanning out-trees within the capacities are as good as Algorithm 4's (dissertation B.5.3), whose heights
are what they happen to be. Two ways are tried, on trees taken `quantum` at a time where all roots' numbers
allow it, and the lower forest is kept.

By search: each tree gets a height limit, the least that any forest has at first, then one more at a time;
trees grow by the widest residual arcs, and `reparenting` relieves what is overloaded.

By groups: ranks that wide arcs join (a box) form a group. Trees are made over groups, then in each group over
its ranks from where the trees enter; a tree that enters every group once is their composition. Equal groups
are solved once. Groups of groups are treated the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice

import numpy as np
from numba import njit
from scipy import sparse

from topologies.exact import Int32Array, Int64Array
from topologies.forest import Forest, LogicalNetwork
from topologies.heights import heights
from topologies.packing import pair_capacities
from topologies.reparenting import Arcs, Trees, grow_widest, relieve
from topologies.scaling import sustains, trees_by_root

_MOST_ENTRIES = 1 << 25
"""Trees times nodes; more is left to the exact algorithm."""

_MOST_SEARCHED = 1 << 21
"""Trees times nodes of a search."""

_SMALL = 1 << 18
"""Trees times nodes below which all quanta are tried."""

_FEW_NODES = 32
"""Networks of so few nodes are searched even where groups served."""

_SEED = 0x9E3779B97F4A7C15
_GROWN = 3
_MOVES_AN_ENTRY, _PATIENCE_AN_ENTRY, _LEAST_PATIENCE = 200, 2, 20_000
"""Moves of a search; without progress it ends after some. Measured: 2-box MI250 takes about 35 an entry."""

_HIGHER = 6
"""How far above the least height a search goes on before it gives up."""

_LEVELS = 12
"""Thresholds of width tried for groups."""


def grow_trees(
    network: LogicalNetwork, k: int, weights: Iterable[Fraction | int] | None = None
) -> Forest | None:
    """Return spanning trees within the capacities, low ones, or None where none were found.

    None says nothing about whether there are any: `packing.pack_trees` finds them if there are. The result is
    the same for the same arguments.

    Parameters
    ----------
    network
        Ranks and arcs; the capacities of a pair's arcs add up.
    k, weights
        How many trees each rank roots, see `scaling.trees_by_root`.

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
    tails, heads, capacity = pair_capacities(network)
    units = _Grower().grow(_Pairs.of(network.num_ranks, tails, heads, capacity), trees)
    return None if units is None else _merged(units)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Nodes and the capacities between them, each pair once, sorted by head and tail."""

    nodes: int
    tails: Int32Array
    heads: Int32Array
    capacity: Int64Array

    @classmethod
    def of(cls, nodes: int, tails: Int32Array, heads: Int32Array, capacity: Int64Array) -> _Pairs:
        kept = np.flatnonzero(capacity > 0)
        kept = kept[np.lexsort((tails[kept], heads[kept]))]
        return cls(nodes, tails[kept], heads[kept], capacity[kept])

    def divided(self, quantum: int) -> _Pairs:
        """Return how many batches of `quantum` trees each pair carries."""
        return _Pairs.of(self.nodes, self.tails, self.heads, self.capacity // quantum)

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


@dataclass(frozen=True, eq=False)
class _Units:
    """Trees of equal weight, by root: parent (trees, nodes), -1 at the root; and each one's height."""

    root: Int64Array
    parent: Int32Array
    height: Int32Array
    weight: int

    @property
    def rank(self) -> tuple[int, int]:
        """What should be small."""
        return int(self.height.max()), int(self.height.sum()) * self.weight


@dataclass(eq=False)
class _Grower:
    """Grows trees; remembers what it found for equal parts."""

    found: dict[bytes, _Units | None] = field(default_factory=dict)

    def grow(self, pairs: _Pairs, trees: Int64Array) -> _Units | None:
        """Return this many trees of each root, or None."""
        if pairs.nodes == 1:
            count = int(trees[0])
            alone = np.full((1, 1), -1, dtype=np.int32)
            return _Units(np.zeros(1, dtype=np.int64), alone, np.zeros(1, dtype=np.int32), count)
        parts = (np.array([pairs.nodes]), pairs.tails, pairs.heads, pairs.capacity, trees)
        key = b"".join(np.asarray(part, dtype=np.int64).tobytes() for part in parts)
        if key not in self.found:
            self.found[key] = self._grow(pairs, trees)
        return self.found[key]

    def _grow(self, pairs: _Pairs, trees: Int64Array) -> _Units | None:
        """Try quanta, the largest first; where it is cheap all of them, until the least height is met."""
        best: _Units | None = None
        least = pairs.least_height(trees) if pairs.nodes * int(trees.sum()) <= _SMALL else 0
        for quantum in _divisors(int(np.gcd.reduce(trees))):
            entries = pairs.nodes * int(trees.sum()) // quantum
            if entries > (_SMALL if best is not None else _MOST_ENTRIES):
                break
            batches = trees // quantum
            units = self._solve(pairs.divided(quantum), batches, quantum, best)
            if units is not None and (best is None or units.rank < best.rank):
                best = units
            if best is not None and best.rank[0] <= least:
                break
        return best

    def _solve(self, pairs: _Pairs, trees: Int64Array, weight: int, best: _Units | None) -> _Units | None:
        """Compose by the coarsest groups; search where that fails or is cheap; then try finer groups."""
        entries = pairs.nodes * int(trees.sum())
        groupings = _groupings(pairs)
        units = None
        for label in islice(groupings, 1):
            units = self._composed(pairs, trees, weight, label)
        if entries <= _MOST_SEARCHED and (units is None or pairs.nodes <= _FEW_NODES):
            below = min((found.rank[0] for found in (units, best) if found is not None), default=pairs.nodes)
            units = _searched(pairs, trees, weight, below) or units
        for label in groupings:
            units = self._composed(pairs, trees, weight, label) if units is None else units
        return units

    def _composed(self, pairs: _Pairs, trees: Int64Array, weight: int, label: Int64Array) -> _Units | None:
        """Make trees over groups, then in each group, and put them together."""
        groups = int(label.max()) + 1
        root = np.repeat(np.arange(pairs.nodes), trees)
        over = self.grow(_contracted(pairs, label), np.bincount(label[root], minlength=groups))
        if over is None:
            return None
        steps = _in_turn(over, label[root])
        entry, sender = _enter(*_by_ends(pairs, label), label, root, over.parent, steps)
        parent = np.full((len(root), pairs.nodes), -1, dtype=np.int32)
        for group in range(groups):
            nodes = np.flatnonzero(label == group)
            local = np.searchsorted(nodes, entry[:, group])
            inside = self.grow(_part(pairs, nodes), np.bincount(local, minlength=len(nodes)))
            if inside is None:
                return None
            _lay(parent, nodes, inside.parent, _in_turn(inside, local), entry[:, group], sender[:, group])
        return _units(root, parent, weight)


def _searched(pairs: _Pairs, trees: Int64Array, weight: int, below: int) -> _Units | None:
    """Search for trees less than `below` high, the least height first."""
    counts = (pairs.nodes, pairs.tails.astype(np.int32), pairs.heads.astype(np.int32), pairs.capacity)
    if not sustains(*counts, trees):
        return None
    least, arcs = pairs.least_height(trees), pairs.arcs()
    root = np.repeat(np.arange(pairs.nodes), trees)
    entries = len(root) * pairs.nodes
    patience = max(_LEAST_PATIENCE, _PATIENCE_AN_ENTRY * entries)
    state = np.array([_SEED], dtype=np.uint64)
    for limit in range(least, min(least + _HIGHER, below - 1, pairs.nodes - 1) + 1):
        table = np.full((2, pairs.nodes, len(root)), -1, dtype=np.int32)
        limits = np.full(len(root), limit, dtype=np.int32)
        load = np.zeros(len(arcs.tail), dtype=np.int64)
        grown = Trees(root.astype(np.int32), limits, table[0], table[1], load)
        for _ in range(_GROWN):
            grow_widest(arcs, grown, state)
        if relieve(arcs, grown, state, _MOVES_AN_ENTRY * entries + _LEAST_PATIENCE, patience) == 0:
            parent = np.where(table[0] >= 0, arcs.tail[table[0]], -1).astype(np.int32)
            return _units(root, np.ascontiguousarray(parent.T), weight)
    return None


def _units(root: Int64Array, parent: Int32Array, weight: int) -> _Units:
    """Return the trees, of each root the lowest first."""
    height = heights(Forest(root.astype(np.int32), np.full(len(root), weight), parent))
    order = np.lexsort((height, root))
    return _Units(root[order], parent[order], height[order], weight)


def _merged(units: _Units) -> Forest:
    """Return the forest, alike trees in one row."""
    rows: dict[bytes, int] = {}
    place = np.array([rows.setdefault(row.tobytes(), len(rows)) for row in units.parent])
    _, first = np.unique(place, return_index=True)
    weight = np.bincount(place) * units.weight
    return Forest(units.root[first].astype(np.int32), weight, units.parent[first])


def _divisors(number: int) -> list[int]:
    """Return the divisors, the largest first."""
    low = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*low, *(number // d for d in low)}, reverse=True)


def _groupings(pairs: _Pairs) -> Iterator[Int64Array]:
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


def _contracted(pairs: _Pairs, label: Int64Array) -> _Pairs:
    """Return the network of the groups."""
    groups = int(label.max()) + 1
    key = label[pairs.tails] * groups + label[pairs.heads]
    capacity = np.zeros(groups * groups, dtype=np.int64)
    np.add.at(capacity, key, pairs.capacity)
    capacity[:: groups + 1] = 0
    used = np.flatnonzero(capacity)
    tails, heads = np.divmod(used, groups)
    return _Pairs.of(groups, tails.astype(np.int32), heads.astype(np.int32), capacity[used])


def _part(pairs: _Pairs, nodes: Int64Array) -> _Pairs:
    """Return the network inside a group, its nodes numbered from 0."""
    local = np.full(pairs.nodes, -1, dtype=np.int32)
    local[nodes] = np.arange(len(nodes))
    tails, heads = local[pairs.tails], local[pairs.heads]
    kept = (tails >= 0) & (heads >= 0)
    return _Pairs.of(len(nodes), tails[kept], heads[kept], pairs.capacity[kept])


def _in_turn(units: _Units, root: Int64Array) -> Int64Array:
    """Return for each wanted root a row of `units`, each row given out as often as its weight says.

    Lower trees go to those that come first, in every group alike, so that they meet in the same whole trees.
    """
    rows = np.repeat(np.arange(len(units.root)), units.weight)
    result = np.empty(len(root), dtype=np.int64)
    result[np.argsort(root, kind="stable")] = rows
    return result


def _by_ends(pairs: _Pairs, label: Int64Array) -> tuple[Int32Array, Int32Array, Int64Array, Int64Array]:
    """Return the pairs between groups (tails, heads, capacities) by group of tail and head, and their CSR."""
    groups = int(label.max()) + 1
    key = label[pairs.tails] * groups + label[pairs.heads]
    between = np.flatnonzero(label[pairs.tails] != label[pairs.heads])
    order = between[np.lexsort((pairs.heads[between], pairs.tails[between], key[between]))]
    first = np.searchsorted(key[order], np.arange(groups * groups + 1))
    return pairs.tails[order], pairs.heads[order], pairs.capacity[order].copy(), first


@njit(cache=True)
def _enter(tails, heads, left, first, label, root, over, steps):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Choose, within `left`, the pair by which each tree enters each group; return its ends, (trees, groups).

    `over[steps[t]]` are the groups' parents in tree t. First the roots' own pairs to other groups are given
    out, since they make the lowest trees; then, from the roots' groups on, those of the ranks entered; then
    any.
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
                    _enter_group(tails, heads, left, first, over[steps[t]], entry[t], sender[t], group, own)
    return entry, sender


@njit(cache=True)
def _enter_group(tails, heads, left, first, over, entry, sender, group, own):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Enter a group, and before it those above it, by the sender's widest pair."""
    while entry[group] < 0:
        below = group
        while entry[over[below]] < 0:
            below = over[below]
        above = over[below]
        key = above * len(over) + below
        best, best_own = -1, False
        for a in range(first[key], first[key + 1]):
            mine = tails[a] == entry[above]
            better = best < 0 or (mine and not best_own) or (mine == best_own and left[a] > left[best])
            if left[a] > 0 and (mine or not own) and better:
                best, best_own = a, mine
        if best < 0:
            return
        left[best] -= 1
        entry[below], sender[below] = heads[best], tails[best]


@njit(cache=True)
def _lay(parent, nodes, inside, rows, entry, sender):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Write a group's trees into the whole ones; the rank entered receives from the sender."""
    for t in range(len(rows)):
        for i in range(len(nodes)):
            above = inside[rows[t], i]
            if above >= 0:
                parent[t, nodes[i]] = nodes[above]
        parent[t, entry[t]] = sender[t]

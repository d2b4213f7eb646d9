"""Trees by guessing: composed of trees over groups of ranks, or found by local search; low ones first.

Any spanning out-trees within the capacities are as good as Algorithm 4's (dissertation B.5.3), whose heights
and numbers are what they happen to be. Two ways are tried, and the better forest is kept: the lower one, and
among equally low ones that of fewer different edges, each of which is a message.

By groups: ranks that wide arcs join (a box) form a group. Trees are made over groups, then in each group over
its ranks from where the trees enter (`grouping`). Equal groups are solved once, groups of groups likewise,
and trees are taken `quantum` at a time where the roots' numbers allow it.

By search: each root begins with one tree of all its weight, grown by the widest residual arcs; `reparenting`
relieves what is overloaded, and splits trees as the capacities need it. The height limit is the least that
any forest has at first, then one more at a time. All budgets are numbers of moves, so that the same arguments
give the same trees on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from topologies.exact import Int32Array, Int64Array
from topologies.forest import Forest, LogicalNetwork
from topologies.grouping import Pairs, between, contracted, enter, groupings, lay, part
from topologies.heights import heights
from topologies.packing import pair_capacities
from topologies.reparenting import relieve
from topologies.rows import Rows, grow_widest
from topologies.scaling import sustains, trees_by_root

_MOST_ENTRIES = 1 << 25
"""Trees times nodes; more is left to the exact algorithm."""

_SMALL = 1 << 18
"""Trees times nodes below which all quanta are tried."""

_MOST_SEARCHED = 1 << 26
"""Rows times nodes of a search."""

_MOST_WORK = 1 << 35
"""Rows times nodes times moves of a search."""

_FEW_NODES = 32
"""Networks of so few nodes are searched even where groups served."""

_SEED = 0x9E3779B97F4A7C15
_GROWN = 3
_PATIENCE = 20_000
_MOVES = 1_200_000
"""Moves of a search; without progress it ends after some, and so does one try of it. Measured: 2-box MI250
takes 900,000."""

_EACH = 20
"""Moves without progress for each row and node, after which a small search ends."""

_TURN = 200_000
_TRIES = ((11, 1.0), (15, 1.0), (15, 0.0), (20, 1.0))
"""How many rows are added at most, in tenths of the arcs (a basic solution has one an arc, or fewer); and
how much a tree that grows shuns what it would overload."""

_HOPELESS = (5, 16)
"""A search that leaves more than one part in so many of the excess is not tried again; if short, if long."""

_LONG = 2 * _PATIENCE
"""Moves."""

_HIGHER = 4
"""How far above the least height a search goes on before it gives up."""


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
    units = _Grower().grow(Pairs.of(network.num_ranks, tails, heads, capacity), trees)
    return None if units is None else _merged(units)


@dataclass(frozen=True, eq=False)
class _Units:
    """Trees by root, of each root the lowest first: parent (rows, nodes), -1 at the root."""

    root: Int64Array
    parent: Int32Array
    height: Int32Array
    weight: Int64Array

    @classmethod
    def of(cls, root: Int64Array, parent: Int32Array, weight: Int64Array) -> _Units:
        """Sort the trees; of each root the lowest come first."""
        height = heights(Forest(root.astype(np.int32), weight, parent))
        order = np.lexsort((height, root))
        return cls(root[order], parent[order], height[order], weight[order])

    @property
    def rank(self) -> tuple[int, int]:
        """What should be small: the height, and the edges that differ from the row before."""
        new = (self.parent[1:] != self.parent[:-1]).sum(axis=1)
        return int(self.height.max()), int(new.sum())

    def times(self, quantum: int) -> _Units:
        """Return so many of each tree."""
        return _Units(self.root, self.parent, self.height, self.weight * quantum)

    def in_turn(self, root: Int64Array) -> Int64Array:
        """Return for each wanted root a row, each row given out as often as its weight says.

        Lower trees go to those that come first, in every group alike, so that they meet in the same whole
        trees.
        """
        rows = np.repeat(np.arange(len(self.root)), self.weight)
        result = np.empty(len(root), dtype=np.int64)
        result[np.argsort(root, kind="stable")] = rows
        return result


@dataclass(eq=False)
class _Grower:
    """Grows trees; remembers what it found for equal parts."""

    found: dict[bytes, _Units | None] = field(default_factory=dict)

    def grow(self, pairs: Pairs, trees: Int64Array) -> _Units | None:
        """Return this many trees of each root, or None."""
        if pairs.nodes == 1:
            alone = np.full((1, 1), -1, dtype=np.int32)
            return _Units.of(np.zeros(1, dtype=np.int64), alone, trees[:1])
        parts = (np.array([pairs.nodes]), pairs.tails, pairs.heads, pairs.capacity, trees)
        key = b"".join(np.asarray(part, dtype=np.int64).tobytes() for part in parts)
        if key not in self.found:
            self.found[key] = self._grow(pairs, trees)
        return self.found[key]

    def _grow(self, pairs: Pairs, trees: Int64Array) -> _Units | None:
        """Compose; search where that fails or is cheap."""
        best = self._grouped(pairs, trees)
        if best is None or pairs.nodes <= _FEW_NODES:
            found = _searched(pairs, trees, pairs.nodes - 1 if best is None else best.rank[0])
            if found is not None and (best is None or found.rank < best.rank):
                best = found
        return best

    def _grouped(self, pairs: Pairs, trees: Int64Array) -> _Units | None:
        """Try quanta, the largest first; where it is cheap all of them, until the least height is met."""
        best: _Units | None = None
        least = pairs.least_height(trees) if pairs.nodes * int(trees.sum()) <= _SMALL else 0
        for quantum in _divisors(int(np.gcd.reduce(trees))):
            entries = pairs.nodes * int(trees.sum()) // quantum
            if entries > (_SMALL if best is not None else _MOST_ENTRIES):
                break
            divided = pairs.divided(quantum)
            composed = (self._composed(divided, trees // quantum, label) for label in groupings(divided))
            units = next((found for found in composed if found is not None), None)
            if units is not None and (best is None or units.rank < best.rank):
                best = units.times(quantum)
            if best is not None and best.rank[0] <= least:
                break
        return best

    def _composed(self, pairs: Pairs, trees: Int64Array, label: Int64Array) -> _Units | None:
        """Make trees over groups, then in each group, and put them together."""
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


def _searched(pairs: Pairs, trees: Int64Array, most: int) -> _Units | None:
    """Search for trees at most `most` high, the least height first."""
    entries = int(np.count_nonzero(trees) + min(len(pairs.tails), _most_rows(pairs))) * pairs.nodes
    if entries > _MOST_SEARCHED:
        return None
    counts = (pairs.nodes, pairs.tails.astype(np.int32), pairs.heads.astype(np.int32), pairs.capacity)
    if not sustains(*counts, trees):
        return None
    least, moves = pairs.least_height(trees), min(_MOVES, _MOST_WORK // entries)
    for limit in range(least, min(least + _HIGHER, most) + 1):
        units, moves = _search(pairs, trees, limit, moves)
        if units is not None:
            return units
    return None


def _most_rows(pairs: Pairs) -> int:
    """Return how many rows there may be beside one a root, for the memory that they take."""
    return _MOST_ENTRIES // pairs.nodes


def _search(pairs: Pairs, trees: Int64Array, limit: int, moves: int) -> tuple[_Units | None, int]:
    """Search for trees at most `limit` high; where little is left to mend, begin again, with another room.

    Returns them, and how many moves are left.
    """
    arcs, state = pairs.arcs(), np.array([_SEED], dtype=np.uint64)
    for room, sharp in _TRIES:
        rows = _begin(pairs, trees, limit, min(len(pairs.tails) * room // 10, _most_rows(pairs)))
        for _ in range(_GROWN):
            grow_widest(arcs, rows, state, sharp)
        begin = int(np.maximum(rows.load - arcs.capacity, 0).sum())
        turn = min(moves, _TURN)
        left, unused = relieve(arcs, rows, state, turn, min(_PATIENCE, _EACH * rows.via.size))
        moves -= turn - unused
        if left == 0:
            return _found(pairs, rows), moves
        hopeless = _HOPELESS[turn - unused > _LONG]
        if left * hopeless > begin > hopeless:
            break
    return None, moves


def _found(pairs: Pairs, rows: Rows) -> _Units:
    count = int(rows.used[0])
    via = rows.via[:, :count].T
    parent = np.where(via >= 0, pairs.tails[via], -1).astype(np.int32)
    return _Units.of(rows.root[:count].astype(np.int64), parent, rows.weight[:count].copy())


def _begin(pairs: Pairs, trees: Int64Array, limit: int, more: int) -> Rows:
    """Return a row for each root, and room for so many more."""
    root = np.flatnonzero(trees)
    spare = np.zeros(more, dtype=np.int64)
    size = len(root) + len(spare)
    table = np.full((2, pairs.nodes, size), -1, dtype=np.int32)
    return Rows(
        used=np.array([len(root)]),
        root=np.append(root, spare).astype(np.int32),
        limit=np.full(size, limit, dtype=np.int32),
        weight=np.append(trees[root], spare),
        via=table[0],
        depth=table[1],
        load=np.zeros(len(pairs.tails), dtype=np.int64),
        use=np.zeros((pairs.nodes, len(pairs.tails)), dtype=np.int32),
    )


def _merged(units: _Units) -> Forest:
    """Return the forest, alike trees in one row."""
    rows: dict[bytes, int] = {}
    place = np.array([rows.setdefault(row.tobytes(), len(rows)) for row in units.parent])
    _, first = np.unique(place, return_index=True)
    weight = np.zeros(len(rows), dtype=np.int64)
    np.add.at(weight, place, units.weight)
    return Forest(units.root[first].astype(np.int32), weight, units.parent[first])


def _divisors(number: int) -> list[int]:
    """Return the divisors, the largest first."""
    low = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*low, *(number // d for d in low)}, reverse=True)

"""Switch removal by guessing: a switch's capacity is spread evenly over its neighbours, then checked.

Any choice of how a switch passes its in-capacity on to its out-links is as good as Algorithm 3 (dissertation
B.5.2) if every rank can still be sent a unit from every tree (Theorem 30's condition). This check takes one
max-flow per rank, where the algorithm takes many for each pair of links. A guess is made so that its trees
are low. A switch between boxes gives each pair of boxes the same share, rank by rank, so that a rank reaches
each other box directly. A switch in a box gives each pair of ranks the same share. An arc into a switch and
an arc out of it are joined into one arc, with both routes. The shares of blocks of nodes are integers with
the sums that the capacities give, as even as possible. A block's share is dealt evenly to its nodes.

The switches farthest from ranks are removed first, then those of no host, then those with most neighbours.
The neighbours of a switch form blocks: the hosts or, if there are none, the components that remain without
the switch and others of its class. Nothing is sent from a block back into it.

Before that, capacity between switches that no forest needs is removed, so that groups are joined no more than
necessary. A tree enters each group of ranks (a leaf of a fat-tree, say) at least once. It is lowest if it
enters once, directly from its root, and spreads inside. Ports are scarce: a rank can't send inside its own
group what it sends to others. So where more capacity than is needed joins switches, spreading them over ranks
would waste ports. The links between switches are narrowed class by class, the classes farthest from ranks
first, to the least capacity with which every rank can still be sent a unit from every tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np

from tutti.topologies.exact import NONE, Int32Array, Int64Array
from tutti.topologies.graphs.shortest_paths import UNREACHABLE
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Neighbours, Topology, breadth_first, components
from tutti.topologies.trees.forest import LogicalNetwork, sustains, trees_by_root

_MOST_CLASSES = 4
"""Most kinds of links between switches. Networks with more are left unchanged."""


def trimmed_capacities(
    topology: Topology, capacity: Int64Array, trees: Int64Array, distance: Int64Array
) -> Int64Array:
    """Return the capacities, with those between switches as small as the trees allow.

    Parameters
    ----------
    topology
        The network.
    capacity
        Trees that each link can carry, shape (links,).
    trees
        The number of trees of each root, shape (ranks,).
    distance
        Each node's hops from the nearest rank, shape (nodes,).

    Examples
    --------
    >>> from tutti.topologies.families.clusters import fat_tree
    >>> capacity = np.full(20, 7)
    >>> topology = fat_tree(2, 4, 1)
    >>> distance = np.array([0] * 8 + [1, 1, 2])
    >>> trimmed_capacities(topology, capacity, np.ones(8, np.int64), distance).tolist()[-2:]
    [4, 4]
    """
    result = np.array(capacity, dtype=np.int64)
    between = (topology.source >= topology.num_ranks) & (topology.target >= topology.num_ranks)
    nearer = np.minimum(distance[topology.source], distance[topology.target])
    classes = np.unique(np.stack([-nearer[between], result[between]]), axis=1).T
    if len(classes) > _MOST_CLASSES:
        return result
    for away, units in classes.tolist():
        # The links of a class are equivalent: bisection finds the least capacity that suffices for all.
        links = between & (nearer == -away) & (capacity == units)
        low, high = 0, int(result[links].max())
        while low < high:
            result[links] = middle = (low + high) // 2
            if sustains(topology.num_nodes, topology.source, topology.target, result, trees):
                high = middle
            else:
                low = middle + 1
        result[links] = high
    return result


class JoinedArcs:
    """Arcs that touch a switch and, separately, arcs that no longer do; a joined arc is two older ones.

    Both are tables, int64 (4, arcs): the name, the tail, the head and the capacity of each arc.
    """

    def __init__(self, topology: Topology, capacity: Int64Array) -> None:
        self.target = topology.target
        self.num_ranks, self.count = topology.num_ranks, topology.num_links
        self.parts: list[Int64Array] = []
        self.open = self.done = np.empty((4, 0), dtype=np.int64)
        self._add(np.stack([np.arange(self.count), topology.source, topology.target, capacity]))

    def join(
        self,
        ins: Int64Array,
        row: Int64Array,
        outs: Int64Array,
        column: Int64Array,
        shares: SwitchShares,
    ) -> None:
        """Replace arcs by joined ones: `shares` are units from tail (by row) to head (by column)."""
        by_row, by_column = np.argsort(row, kind="stable"), np.argsort(column, kind="stable")
        first = np.searchsorted(row[by_row], np.arange(row.max() + 2))
        last = np.searchsorted(column[by_column], np.arange(column.max() + 2))
        left, right = self.open[3, ins[by_row]], self.open[3, outs[by_column]]
        one, two, units = pair_up(shares, Bundles(first, left), Bundles(last, right))
        before, after = self.open[:, ins[by_row][one]], self.open[:, outs[by_column][two]]
        self.parts.append(np.stack([before[0], after[0]]))
        name = self.count + np.arange(len(units))
        self.count += len(units)
        self.open = np.delete(self.open, np.union1d(ins, outs), axis=1)
        self._add(np.stack([name, before[1], after[2], units]))

    def _add(self, arcs: Int64Array) -> None:
        arcs = arcs[:, arcs[3] > 0]
        between_ranks = (arcs[1:3] < self.num_ranks).all(axis=0)
        self.open = np.concatenate([self.open, arcs[:, ~between_ranks]], axis=1)
        self.done = np.concatenate([self.done, arcs[:, between_ranks]], axis=1)

    def network(self) -> LogicalNetwork:
        """Return the arcs between ranks with their routes, by tail and head."""
        name, tail, head, capacity = self.done[:, np.lexsort(self.done[[0, 2, 1]])]
        parts = np.concatenate([np.empty((2, 0), dtype=np.int64), *self.parts], axis=1)
        offsets, links = _routes(name.copy(), np.ascontiguousarray(parts), self.target)
        return LogicalNetwork(self.num_ranks, tail, head, capacity, offsets, links.astype(np.int32))


@kernel
def _routes(names: Int64Array, parts: Int64Array, target: Int32Array) -> tuple[Int64Array, Int64Array]:
    """Return each arc's links in CSR form, unfolding joined arcs (links + i is parts[:, i]).

    A route that returns to a switch is cut short there, so that no route visits a node twice.
    """
    links = len(target)
    offsets = np.zeros(len(names) + 1, dtype=np.int64)
    flat = [np.int64(0) for _ in range(0)]
    stack = [np.int64(0) for _ in range(0)]
    for i in range(len(names)):
        stack.append(names[i])
        while len(stack):
            name = stack.pop()
            if name < links:
                keep = offsets[i]
                while keep < len(flat) and target[flat[keep]] != target[name]:
                    keep += 1
                if keep == len(flat):
                    flat.append(name)
                # The link leads to a node that the route has visited: what lies between is cut out.
                while len(flat) > keep + 1:
                    flat.pop()
            else:
                stack.append(parts[1, name - links])
                stack.append(parts[0, name - links])
        offsets[i + 1] = len(flat)
    return offsets, np.array(flat)


_MOST_BLOCKS = 1024
"""Most blocks of a switch. A switch with more is not spread: memory holds a share for each pair of blocks."""


def spread_switches(
    topology: Topology, capacity: Int64Array, k: int, weights: Iterable[Fraction | int] | None = None
) -> LogicalNetwork | None:
    """Return the network without its switches, by the first guess for which the forest is still possible.

    Parameters
    ----------
    topology
        The network.
    capacity
        Trees that each link can carry, shape (links,), from `forest.tree_capacities`.
    k, weights
        They give the trees of each root, see `forest.trees_by_root`.

    Returns
    -------
    LogicalNetwork or None
        Arcs within the capacity of every link that let every rank be sent a unit from every tree,
        checked exactly; None if no guess does.

    Raises
    ------
    InputError
        If k or the weights are wrong.

    Examples
    --------
    >>> from tutti.topologies.families.machines import dgx_a100
    >>> topology = dgx_a100(3)
    >>> capacity = np.where(topology.bandwidth.floats > 25e9, 24, 2)
    >>> spread = spread_switches(topology, capacity, 1)
    >>> [int(head) for head in spread.heads[(spread.tails == 0) & (spread.heads > 7)]]
    [8, 16]
    """
    trees = trees_by_root(topology.num_ranks, k, weights)
    seen: set[bytes] = set()
    whole = np.asarray(capacity, dtype=np.int64)
    narrow = trimmed_capacities(topology, whole, trees, _hops_from_ranks(topology).astype(np.int64))
    capacities = (narrow, whole) if (narrow < whole).any() else (whole,)
    # The guesses with the lowest trees come first.
    for units, transit, by_block, evenly in product(capacities, (False, True), (True, False), (False, True)):
        network = _spread(_Guess(topology, transit, by_block, evenly), units)
        print_of = network.tails.tobytes() + network.heads.tobytes() + network.capacity.tobytes()
        if print_of in seen:
            continue
        seen.add(print_of)
        if sustains(topology.num_ranks, network.tails, network.heads, network.capacity, trees):
            return network
    return None


@dataclass(frozen=True, eq=False)
class _Guess:
    """A rule by which a guess spreads the capacity of switches over their neighbours.

    Parameters
    ----------
    topology
        The network.
    transit
        Whether a switch with ranks also forwards from switch to switch.
    by_block
        Whether a switch is spread over blocks or over single nodes.
    evenly
        Whether all nodes of two blocks are paired, or each with few, in order.
    """

    topology: Topology
    transit: bool
    by_block: bool
    evenly: bool

    def order(self) -> list[tuple[tuple[int, int, int], int]]:
        """Return the switches with their class, in the order of their removal."""
        topology = self.topology
        away = _hops_from_ranks(topology).tolist()
        pairs = np.unique(np.stack([topology.source, topology.target]), axis=1)
        degree = np.bincount(pairs[0], minlength=topology.num_nodes)
        hosts = self._hosts
        switches = range(topology.num_ranks, topology.num_nodes)
        return sorted(((-away[w], int(hosts[w] >= 0), -int(degree[w])), w) for w in switches)

    def blocks(self, switch: int, gone: set[int], nodes: Int64Array) -> Int64Array:
        """Return the block of each of these neighbours. Those that no link joins to it are one block.

        Switches are in that block, too, if the switch has ranks and does not forward between switches.

        Parameters
        ----------
        switch
            The switch to remove.
        gone
            The switch, others of its class, and those removed before.
        nodes
            Its present neighbours, ranks first.
        """
        ranks, ends = self.topology.num_ranks, np.stack([self.topology.source, self.topology.target])
        far = ~np.isin(nodes, ends[:, (ends == switch).any(axis=0)])
        if not self.transit and (nodes < ranks).any():
            far |= nodes >= ranks
        block = nodes.astype(np.int64)
        if self.by_block:
            hosts = self._hosts
            hosted = (hosts[nodes] >= 0) & (hosts[nodes] != hosts[switch])
            parts = nodes.max() + 1 + hosts
            if (hosts[nodes] < 0).all():  # parts of the network without the removed switches
                _, parts = components(len(hosts), *ends[:, ~np.isin(ends, list(gone)).any(axis=0)])
            block = np.where(hosted | (hosts[nodes] < 0).all(), parts[nodes], block)
        return np.where(far, -1, block)

    @property
    def _hosts(self) -> Int32Array:
        hosts = self.topology.hosts
        return np.full(self.topology.num_nodes, NONE, dtype=np.int32) if hosts is None else hosts


def _spread(guess: _Guess, capacity: Int64Array) -> LogicalNetwork:
    """Remove the switches one by one."""
    topology = guess.topology
    arcs = JoinedArcs(topology, capacity)
    order = guess.order()
    for kind, switch in order:
        gone = {other for other_kind, other in order if other_kind <= kind}
        _, tail, head, units = arcs.open
        ins, outs = np.flatnonzero(head == switch), np.flatnonzero(tail == switch)
        if not (len(ins) and len(outs)):
            continue
        tails, row = np.unique(tail[ins], return_inverse=True)
        heads, column = np.unique(head[outs], return_inverse=True)
        nodes = np.union1d(tails, heads)
        _, block = np.unique(guess.blocks(switch, gone, nodes), return_inverse=True)
        if block.max() >= _MOST_BLOCKS:
            continue
        given = np.bincount(row, weights=units[ins]).astype(np.int64)
        taken = np.bincount(column, weights=units[outs]).astype(np.int64)
        before, after = block[np.searchsorted(nodes, tails)], block[np.searchsorted(nodes, heads)]
        dealt = shares(Side(given, before), Side(taken, after), int(block.max()) + 1, guess.evenly)
        arcs.join(ins, row, outs, column, dealt)
    return arcs.network()


def _hops_from_ranks(topology: Topology) -> Int32Array:
    """Return each node's hops from the nearest rank; unreachable nodes count as farthest."""
    num_nodes = topology.num_nodes
    graph = Neighbours.of(topology.source, topology.target, num_nodes)
    hops, queue = np.empty((2, num_nodes), np.int32)
    breadth_first(graph, np.arange(topology.num_ranks), hops, queue)
    return np.where(hops == UNREACHABLE, np.int32(num_nodes), hops)


_Share = tuple[int, int, int]


class Side(NamedTuple):
    """The units that each node on one side of a switch sends or takes, and its block; shape (nodes,)."""

    units: Int64Array
    block: Int64Array


class SwitchShares(NamedTuple):
    """The units from a row to a column, shape (shares,)."""

    row: Int64Array
    column: Int64Array
    units: Int64Array


class Bundles(NamedTuple):
    """Arcs by node: those of node i are first[i]:first[i + 1]; `left` is the capacity that they have left."""

    first: Int64Array
    left: Int64Array


@kernel
def _columns(table: list[_Share]) -> SwitchShares:
    result = np.empty((3, len(table)), dtype=np.int64)
    for i, (row, column, units) in enumerate(table):
        result[0, i], result[1, i], result[2, i] = row, column, units
    return SwitchShares(result[0], result[1], result[2])


@kernel
def _deal(rows: Int64Array, columns: Int64Array, apart: bool) -> Int64Array:
    """Return integers with these row and column sums (or less), as even as possible.

    With `apart`, rows and columns are the same blocks and the diagonal is 0.
    """
    result = _proportional(rows, columns, apart)
    row, column, total = rows.copy(), columns.copy(), 0
    for a in range(len(rows)):
        total += rows[a]
        for b in range(len(columns)):
            row[a] -= result[a, b]
            column[b] -= result[a, b]
    for most in (1, 1, total):
        _round(result, row, column, apart, most)
    if apart:
        _mend(result, row, column)
    return result


@kernel
def _proportional(rows: Int64Array, columns: Int64Array, apart: bool) -> Int64Array:
    """Round down even shares: row x column over all; apart, x_ab = u_a·v_b off the diagonal (Sinkhorn)."""
    u, v = rows.astype(np.float64), columns.astype(np.float64)
    for _ in range(60):  # the rest is dealt out afterwards
        for a in range(len(u)):
            rest = v.sum() - (v[a] if apart else 0.0)
            u[a] = rows[a] / rest if rest > 0 else 0.0
        for b in range(len(v)):
            rest = u.sum() - (u[b] if apart else 0.0)
            v[b] = columns[b] / rest if rest > 0 else 0.0
    result = np.zeros((len(rows), len(columns)), dtype=np.int64)
    left = columns.copy()
    for a in range(len(rows)):
        room = rows[a]
        for b in range(len(columns)):
            if not (apart and a == b):
                share = min(np.int64(u[a] * v[b] * (1 + 1e-9)), room, left[b])  # 1e-9 for rounding
                result[a, b] = share
                room -= share
                left[b] -= share
    return result


@kernel
def _round(result: Int64Array, row: Int64Array, column: Int64Array, apart: bool, most: int) -> None:
    """Deal up to `most` units to each pair in turn; the a-th row begins at the a-th open column."""
    open_ = np.arange(len(column)) if apart else np.flatnonzero(column)
    for step in range(1 if apart else 0, len(open_)):
        for a in range(len(row)):
            b = open_[(a + step) % len(open_)]
            if row[a] > 0 and column[b] > 0:
                share = min(most, row[a], column[b])
                result[a, b] += share
                row[a] -= share
                column[b] -= share


@kernel
def _mend(result: Int64Array, row: Int64Array, column: Int64Array) -> None:
    """If only the diagonal (a, a) is left, replace units of a pair (b, c) by units of (b, a) and (a, c)."""
    for a in range(len(row)):
        for b in range(len(row)):
            if row[a] == 0 or column[a] == 0:
                break
            for c in range(len(column)):
                share = min(row[a], column[a], result[b, c])
                if share > 0 and b != a and c != a:
                    result[b, c] -= share
                    result[b, a] += share
                    result[a, c] += share
                    row[a] -= share
                    column[a] -= share


@kernel
def shares(ins: Side, outs: Side, blocks: int, evenly: bool) -> SwitchShares:
    """Spread a switch over its blocks: each gets an even share, and each node an even part of that.

    Unless `evenly` asks to pair all nodes of two blocks, blocks of one size are spread place by place: the
    first nodes of all blocks over each other, then the second ones (rail by rail).
    """
    table = [(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
    size = len(ins.block) // blocks  # of each block, if they are equal on both sides
    sizes = np.concatenate(
        (np.bincount(ins.block, minlength=blocks), np.bincount(outs.block, minlength=blocks))
    )
    if size == 0 or (sizes != size).any() or evenly:
        _by_block(table, ins, outs, blocks, evenly)
        return _columns(table)
    rows, columns = np.argsort(ins.block, kind="mergesort"), np.argsort(outs.block, kind="mergesort")
    for place in range(size):
        mine, theirs = rows[place::size], columns[place::size]
        units = _deal(ins.units[mine], outs.units[theirs], True)
        _list(table, mine, theirs, units)
    return _columns(table)


@kernel
def _by_block(table: list[_Share], ins: Side, outs: Side, blocks: int, evenly: bool) -> None:
    """Spread blocks over blocks, then each block's part over its nodes."""
    given, before = ins.units, ins.block
    taken, after = outs.units, outs.block
    rows, columns = np.zeros(blocks, dtype=np.int64), np.zeros(blocks, dtype=np.int64)
    for i in range(len(given)):
        rows[before[i]] += given[i]
    for j in range(len(taken)):
        columns[after[j]] += taken[j]
    between = _deal(rows, columns, True)
    out = np.zeros((len(given), blocks), dtype=np.int64)
    into = np.zeros((len(taken), blocks), dtype=np.int64)
    # First each node's units are dealt to the other side's blocks, then nodes of two blocks are matched.
    for a in range(blocks):
        mine, theirs = np.flatnonzero(before == a), np.flatnonzero(after == a)
        if len(mine):
            out[mine] = _deal(given[mine], between[a], False)
        if len(theirs):
            into[theirs] = _deal(taken[theirs], between[:, a].copy(), False)
    for a in range(blocks):
        mine = np.flatnonzero(before == a)
        for b in range(blocks):
            if between[a, b] > 0:
                theirs = np.flatnonzero(after == b)
                _match(table, mine, out[mine, b], theirs, into[theirs, a], evenly)


@kernel
def _match(
    table: list[_Share], mine: Int64Array, out: Int64Array, theirs: Int64Array, into: Int64Array, evenly: bool
) -> None:
    """Match the units that one block's nodes send and the other's take: evenly, or in rank order."""
    even = _deal(out, into, False) if evenly else _in_order(out, into)
    _list(table, mine, theirs, even)


@kernel
def _list(table: list[_Share], rows: Int64Array, columns: Int64Array, units: Int64Array) -> None:
    """Add the shares that are not 0."""
    for i in range(len(rows)):
        for j in range(len(columns)):
            if units[i, j] > 0:
                table.append((rows[i], columns[j], units[i, j]))  # noqa: PERF401 (numba appends faster than it extends)


@kernel
def _in_order(rows: Int64Array, columns: Int64Array) -> Int64Array:
    """Return integers with these row and column sums (or less), by the north-west corner rule."""
    result = np.zeros((len(rows), len(columns)), dtype=np.int64)
    j, room = 0, columns[0]
    for i in range(len(rows)):
        rest = rows[i]
        while rest > 0 and j < len(columns):
            units = min(rest, room)
            result[i, j] += units
            rest -= units
            room -= units
            if room == 0:
                j += 1
                room = columns[j] if j < len(columns) else 0
    return result


@kernel
def pair_up(shares: SwitchShares, ins: Bundles, outs: Bundles) -> SwitchShares:
    """Assign units to arcs of the tail and of the head, in order; rows and columns become those arcs."""
    one, two = ins.first[:-1].copy(), outs.first[:-1].copy()
    left, right = ins.left, outs.left
    table = [(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
    for i in range(len(shares.units)):
        rest, r, c = shares.units[i], shares.row[i], shares.column[i]
        while rest > 0:
            # Invariant: arcs before one[r] and two[c] have no units left.
            while left[one[r]] == 0:
                one[r] += 1
            while right[two[c]] == 0:
                two[c] += 1
            amount = min(rest, left[one[r]], right[two[c]])
            table.append((np.int64(one[r]), np.int64(two[c]), amount))
            left[one[r]] -= amount
            right[two[c]] -= amount
            rest -= amount
    return _columns(table)

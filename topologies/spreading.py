"""Switch removal by guessing: a switch's capacity is spread evenly over what it joins, then checked.

Any way to pass a switch's in-capacity on to its out-links is as good as Algorithm 3 (dissertation B.5.2)
if every rank can still be sent a unit from every tree (Theorem 30's condition), and that takes one
max-flow a rank to check, where the algorithm takes many for each pair of links. A guess is made so that trees
in it are low: a switch between boxes gives each pair of boxes the same share, rank by rank, so that a rank
reaches each other box directly; a switch in a box gives each pair of ranks the same share.

The switches farthest from ranks go first, then those of no host, then those with most neighbours. What a
switch joins, its blocks, are the hosts (the components that remain without it and its like where there
are none). Nothing is sent from a block back into it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from numba import njit

from topologies.exact import Int32Array, Int64Array
from topologies.forest import LogicalNetwork
from topologies.scaling import sustains, trees_by_root
from topologies.topology import Topology

_MOST_BLOCKS = 1024
"""A switch that joins more is not spread: the shares of all pairs of blocks are kept at once."""

_SINKHORN_ROUNDS = 60
"""More than enough for even blocks; uneven ones need not be met exactly, as what is left is dealt out."""

_NUDGE = 1e-9
"""Lifts a share that is a whole number but for rounding; shares are capped by what there is."""


def spread_switches(
    topology: Topology, capacity: Int64Array, k: int, weights: Iterable[Fraction | int] | None = None
) -> LogicalNetwork | None:
    """Return the network without its switches, by the first guess that keeps the forest possible.

    Parameters
    ----------
    topology
        The network.
    capacity
        Trees that each link can carry, shape (links,), as `scaling.tree_capacities` gives them.
    k, weights
        How many trees each rank roots, see `scaling.trees_by_root`.

    Returns
    -------
    LogicalNetwork or None
        Arcs within the capacity of every link that let every rank be sent a unit from every tree,
        checked exactly; None where no guess does.

    Raises
    ------
    InputError
        If k or the weights are wrong.

    Examples
    --------
    >>> from topologies.platforms import dgx_a100
    >>> topology = dgx_a100(3)
    >>> capacity = np.where(topology.bandwidth.floats > 25e9, 24, 2)
    >>> spread = spread_switches(topology, capacity, 1)
    >>> [int(head) for head in spread.heads[(spread.tails == 0) & (spread.heads > 7)]]
    [8, 16]
    """
    trees = trees_by_root(topology.num_ranks, k, weights)
    seen: set[bytes] = set()
    for network in _guesses(topology, capacity):
        print_of = network.tails.tobytes() + network.heads.tobytes() + network.capacity.tobytes()
        if print_of in seen:
            continue
        seen.add(print_of)
        if sustains(topology.num_ranks, network.tails, network.heads, network.capacity, trees):
            return network
    return None


def _guesses(topology: Topology, capacity: Int64Array) -> Iterator[LogicalNetwork]:
    """Yield the guesses, those that leave the lowest trees first."""
    whole = np.asarray(capacity, dtype=np.int64)
    for transit, by_block, evenly in product((False, True), (True, False), (False, True)):
        yield _spread(_Plan(topology, transit, by_block, evenly), whole)


@dataclass(frozen=True, eq=False)
class _Plan:
    """A guess.

    Parameters
    ----------
    topology
        The network.
    transit
        Whether a switch that has ranks passes on from switch to switch.
    by_block
        Whether a switch is spread over blocks, or over single nodes.
    evenly
        Whether all nodes of two blocks are paired, or each with few in order.
    """

    topology: Topology
    transit: bool
    by_block: bool
    evenly: bool

    def order(self) -> list[tuple[tuple[int, int, int], int]]:
        """Return the switches with their class, in the order in which they go."""
        topology = self.topology
        away = _distances_to_ranks(topology)
        degree = np.zeros(topology.num_ranks + topology.num_switches, dtype=np.int64)
        pairs = np.unique(np.stack([topology.source, topology.target]), axis=1)
        np.add.at(degree, pairs[0], 1)
        hosts = self._hosts()
        switches = range(topology.num_ranks, len(degree))
        return sorted(((-away[w], int(hosts[w] >= 0), -int(degree[w])), w) for w in switches)

    def blocks(self, switch: int, gone: set[int], nodes: Int32Array, near: set[int]) -> Int64Array:
        """Return the block of each of these neighbours; those not `near`, or switches, are one block.

        Parameters
        ----------
        switch
            The switch to remove.
        gone
            It, its like and those removed before.
        nodes
            Its neighbours now, ranks first.
        near
            Its neighbours by links.
        """
        ranks = self.topology.num_ranks
        far = np.array([node not in near for node in nodes.tolist()])
        if not self.transit and (nodes < ranks).any():
            far |= nodes >= ranks
        block = nodes.astype(np.int64)
        if self.by_block:
            hosts, home = self._hosts(), self._hosts()[switch]
            hosted = (hosts[nodes] >= 0) & (hosts[nodes] != home)
            parts = _components(self.topology, gone) if (hosts[nodes] < 0).all() else nodes.max() + 1 + hosts
            block = np.where(hosted | (hosts[nodes] < 0).all(), parts[nodes], block)
        return np.where(far, -1, block)

    def _hosts(self) -> Int32Array:
        topology = self.topology
        none = np.full(topology.num_ranks + topology.num_switches, -1, dtype=np.int32)
        return none if topology.hosts is None else topology.hosts


def _spread(plan: _Plan, capacity: Int64Array) -> LogicalNetwork:
    """Remove the switches one by one."""
    topology = plan.topology
    arcs = _Arcs(topology, capacity)
    near = _neighbours(topology)
    order = plan.order()
    for kind, switch in order:
        gone = {other for other_kind, other in order if other_kind <= kind}
        ins, outs = arcs.take(switch)
        if not (len(ins) and len(outs)):
            continue
        tails, row = np.unique(arcs.tail[ins], return_inverse=True)
        heads, column = np.unique(arcs.head[outs], return_inverse=True)
        nodes = np.union1d(tails, heads)
        _, block = np.unique(plan.blocks(switch, gone, nodes, near[switch]), return_inverse=True)
        if block.max() >= _MOST_BLOCKS:
            continue
        given = np.bincount(row, weights=arcs.capacity[ins]).astype(np.int64)
        taken = np.bincount(column, weights=arcs.capacity[outs]).astype(np.int64)
        before, after = block[np.searchsorted(nodes, tails)], block[np.searchsorted(nodes, heads)]
        which, where, units = _shares(given, before, taken, after, int(block.max()) + 1, plan.evenly)
        arcs.join(ins, row, outs, column, (which, where, units))
    return arcs.network()


class _Arcs:
    """Arcs that touch a switch and, put aside, those that no longer do; a joined arc is two older ones."""

    def __init__(self, topology: Topology, capacity: Int64Array) -> None:
        self.num_ranks, self.links = topology.num_ranks, len(topology.source)
        self.parts: list[Int64Array] = []
        self.count = self.links
        self._done: list[tuple[Int64Array, Int32Array, Int32Array, Int64Array]] = []
        empty = np.empty(0, dtype=np.int64)
        self.name, self.tail, self.head = empty, empty.astype(np.int32), empty.astype(np.int32)
        self.capacity = empty
        self._add(np.arange(self.links), topology.source, topology.target, capacity)

    def take(self, switch: int) -> tuple[Int64Array, Int64Array]:
        """Return the positions of the arcs into and out of a switch."""
        return np.flatnonzero(self.head == switch), np.flatnonzero(self.tail == switch)

    def join(
        self,
        ins: Int64Array,
        row: Int64Array,
        outs: Int64Array,
        column: Int64Array,
        shares: tuple[Int64Array, Int64Array, Int64Array],
    ) -> None:
        """Replace arcs by joined ones: `shares` are units from tail (by row) to head (by column)."""
        by_row, by_column = np.argsort(row, kind="stable"), np.argsort(column, kind="stable")
        first = np.searchsorted(row[by_row], np.arange(row.max() + 2))
        last = np.searchsorted(column[by_column], np.arange(column.max() + 2))
        left, right = self.capacity[ins][by_row], self.capacity[outs][by_column]
        one, two, units = _pair_up(*shares, first, left, last, right)
        one, two = ins[by_row][one], outs[by_column][two]
        name = self.count + np.arange(len(one))
        self.count += len(one)
        self.parts.append(np.stack([self.name[one], self.name[two]]))
        tail, head = self.tail[one], self.head[two]
        used = np.union1d(ins, outs)
        self.name, self.capacity = np.delete(self.name, used), np.delete(self.capacity, used)
        self.tail, self.head = np.delete(self.tail, used), np.delete(self.head, used)
        self._add(name, tail, head, units)

    def _add(self, name: Int64Array, tail: Int32Array, head: Int32Array, capacity: Int64Array) -> None:
        live = capacity > 0
        open_ = live & ((tail >= self.num_ranks) | (head >= self.num_ranks))
        done = live & ~open_
        self._done.append((name[done], tail[done], head[done], capacity[done]))
        self.name, self.capacity = (
            np.append(self.name, name[open_]),
            np.append(self.capacity, capacity[open_]),
        )
        self.tail, self.head = np.append(self.tail, tail[open_]), np.append(self.head, head[open_])

    def network(self) -> LogicalNetwork:
        """Return the arcs between ranks with their routes, by tail and head."""
        name, tail, head, capacity = (np.concatenate(column) for column in zip(*self._done, strict=True))
        order = np.lexsort((name, head, tail))
        parts = np.concatenate([np.empty((2, 0), dtype=np.int64), *self.parts], axis=1)
        offsets, links = _routes(name[order], np.ascontiguousarray(parts), self.links)
        return LogicalNetwork(
            self.num_ranks, tail[order], head[order], capacity[order], offsets, links.astype(np.int32)
        )


def _neighbours(topology: Topology) -> dict[int, set[int]]:
    """Return what links join to each switch."""
    near: dict[int, set[int]] = {}
    for one, other in zip(topology.source.tolist(), topology.target.tolist(), strict=True):
        for switch, node in ((one, other), (other, one)):
            if switch >= topology.num_ranks:
                near.setdefault(switch, set()).add(node)
    return {
        w: near.get(w, set()) for w in range(topology.num_ranks, topology.num_ranks + topology.num_switches)
    }


def _distances_to_ranks(topology: Topology) -> list[int]:
    """Return each node's hops from the nearest rank, the nodes unreached counting as farthest."""
    total = topology.num_ranks + topology.num_switches
    away = [0] * topology.num_ranks + [total] * topology.num_switches
    leads: list[list[int]] = [[] for _ in range(total)]
    for one, other in zip(topology.source.tolist(), topology.target.tolist(), strict=True):
        if other >= topology.num_ranks:
            leads[one].append(other)
    queue = deque(range(topology.num_ranks))
    while queue:
        node = queue.popleft()
        for switch in leads[node]:
            if away[switch] == total:
                away[switch] = away[node] + 1
                queue.append(switch)
    return away


def _components(topology: Topology, gone: set[int]) -> Int64Array:
    """Return for each node the least node that it is joined to when some switches are gone."""
    total = topology.num_ranks + topology.num_switches
    least = np.arange(total)
    kept = ~np.isin(topology.source, list(gone)) & ~np.isin(topology.target, list(gone))
    one, other = topology.source[kept], topology.target[kept]
    while True:
        before = least.copy()
        np.minimum.at(least, one, least[other])
        np.minimum.at(least, other, least[one])
        least = least[least]
        if np.array_equal(before, least):
            return least


@njit(cache=True)
def _deal(rows, columns, apart):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Return integers with these row and column sums (or less), as even as can be.

    With `apart`, rows and columns are the same blocks and the diagonal is 0.
    """
    result = _proportional(rows, columns, apart)
    row, column = rows - result.sum(axis=1), columns - result.sum(axis=0)
    for most in (1, 1, max(rows.max(), 1)):
        _round(result, row, column, apart, most)
    if apart:
        _mend(result, row, column)
    return result


@njit(cache=True)
def _proportional(rows, columns, apart):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Round down even shares: row x column over all; apart, x_ab = u_a·v_b off the diagonal (Sinkhorn)."""
    u, v = rows.astype(np.float64), columns.astype(np.float64)
    for _ in range(_SINKHORN_ROUNDS):
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
                share = min(np.int64(u[a] * v[b] * (1 + _NUDGE)), room, left[b])
                result[a, b] = share
                room -= share
                left[b] -= share
    return result


@njit(cache=True)
def _round(result, row, column, apart, most):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Deal up to `most` to each pair in turn, the a-th row beginning at the a-th column."""
    for step in range(1 if apart else 0, len(column)):
        for a in range(len(row)):
            b = (a + step) % len(column)
            if row[a] > 0 and column[b] > 0:
                share = min(most, row[a], column[b])
                result[a, b] += share
                row[a] -= share
                column[b] -= share


@njit(cache=True)
def _mend(result, row, column):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Where only the diagonal is left, let another pair b, c give way: b to a and a to c."""
    for a in range(len(row)):
        for b in range(len(row)):
            for c in range(len(column)):
                share = min(row[a], column[a], result[b, c])
                if share > 0 and b != a and c != a:
                    result[b, c] -= share
                    result[b, a] += share
                    result[a, c] += share
                    row[a] -= share
                    column[a] -= share


@njit(cache=True)
def _shares(given, before, taken, after, blocks, evenly):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Spread a switch: return (row, column, units), from tails of `given` to heads of `taken` units.

    Blocks get even shares, and each node its even part of them.
    """
    rows, columns = np.zeros(blocks, dtype=np.int64), np.zeros(blocks, dtype=np.int64)
    for i in range(len(given)):
        rows[before[i]] += given[i]
    for j in range(len(taken)):
        columns[after[j]] += taken[j]
    between = _deal(rows, columns, True)
    out = np.zeros((len(given), blocks), dtype=np.int64)
    into = np.zeros((len(taken), blocks), dtype=np.int64)
    for a in range(blocks):
        mine, theirs = np.flatnonzero(before == a), np.flatnonzero(after == a)
        if len(mine):
            out[mine] = _deal(given[mine], between[a], False)
        if len(theirs):
            into[theirs] = _deal(taken[theirs], np.ascontiguousarray(between[:, a]), False)
    table = [(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
    for a in range(blocks):
        mine = np.flatnonzero(before == a)
        for b in range(blocks):
            if between[a, b] > 0:
                theirs = np.flatnonzero(after == b)
                _match(table, mine, out[mine, b], theirs, into[theirs, a], evenly)
    result = np.empty((3, len(table)), dtype=np.int64)
    for i, (row, column, units) in enumerate(table):
        result[0, i], result[1, i], result[2, i] = row, column, units
    return result[0], result[1], result[2]


@njit(cache=True)
def _match(table, mine, out, theirs, into, evenly):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Match what one block's nodes send with what the other's take: evenly, or in order (rank by rank)."""
    if evenly:
        even = _deal(out, into, False)
        for i in range(len(mine)):
            for j in range(len(theirs)):
                if even[i, j] > 0:
                    table.append((mine[i], theirs[j], even[i, j]))
        return
    j, room = 0, into[0]
    for i in range(len(mine)):
        rest = out[i]
        while rest > 0 and j < len(theirs):
            units = min(rest, room)
            if units > 0:
                table.append((mine[i], theirs[j], units))
            rest -= units
            room -= units
            if room == 0:
                j += 1
                room = into[j] if j < len(theirs) else 0


@njit(cache=True)
def _pair_up(row, column, units, first, left, last, right):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Lay units over arcs: those of row r are first[r]:first[r + 1] with capacity `left`, in order."""
    one, two = first[:-1].copy(), last[:-1].copy()
    table = [(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
    for i in range(len(units)):
        rest, r, c = units[i], row[i], column[i]
        while rest > 0:
            while left[one[r]] == 0:
                one[r] += 1
            while right[two[c]] == 0:
                two[c] += 1
            amount = min(rest, left[one[r]], right[two[c]])
            table.append((np.int64(one[r]), np.int64(two[c]), amount))
            left[one[r]] -= amount
            right[two[c]] -= amount
            rest -= amount
    result = np.empty((3, len(table)), dtype=np.int64)
    for i, (a, b, amount) in enumerate(table):
        result[0, i], result[1, i], result[2, i] = a, b, amount
    return result[0], result[1], result[2]


@njit(cache=True)
def _routes(names, parts, links):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Return each arc's links in CSR form, unfolding joined arcs (links + i is parts[:, i])."""
    offsets = np.zeros(len(names) + 1, dtype=np.int64)
    flat = [np.int64(0) for _ in range(0)]
    stack = [np.int64(0) for _ in range(0)]
    for i in range(len(names)):
        stack.append(names[i])
        while len(stack):
            name = stack.pop()
            if name < links:
                flat.append(name)
            else:
                stack.append(parts[1, name - links])
                stack.append(parts[0, name - links])
        offsets[i + 1] = len(flat)
    return offsets, np.array(flat)

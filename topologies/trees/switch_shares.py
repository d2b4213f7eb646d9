"""Shares of a switch: the amount that each node sends through it to each other node.

Blocks of nodes get even shares of each other: integers with the sums that the capacities give. The share of a
block is dealt evenly to its nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.topologies.exact import Int64Array
from tutti.topologies.kernels import kernel

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
    size = _block_size(ins, outs, blocks)
    if size == 0 or evenly:
        _by_block(table, ins, outs, blocks, evenly)
        return _columns(table)
    rows, columns = np.argsort(ins.block, kind="mergesort"), np.argsort(outs.block, kind="mergesort")
    for place in range(size):
        mine, theirs = rows[place::size], columns[place::size]
        units = _deal(ins.units[mine], outs.units[theirs], True)
        _list(table, mine, theirs, units)
    return _columns(table)


@kernel
def _block_size(ins: Side, outs: Side, blocks: int) -> int:
    """Return the number of nodes of each block, on both sides; 0 if blocks differ."""
    size = len(ins.block) // blocks
    for side in (ins.block, outs.block):
        if len(side) != size * blocks:
            return 0
        for block in range(blocks):
            if np.count_nonzero(side == block) != size:
                return 0
    return size


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

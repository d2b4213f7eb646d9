"""Weighted trees as arrays, and how they grow: kernels.

Random numbers are drawn by xorshift (Marsaglia 2003), so that the same seed gives the same trees on any
machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from topologies.exact import FloatArray, Int32Array, Int64Array

UInt64Array = npt.NDArray[np.uint64]


class Arcs(NamedTuple):
    """Pairs of nodes with capacity, sorted by head then tail, each pair once.

    Parameters
    ----------
    tail, head
        int32, shape (arcs,).
    capacity
        int64, shape (arcs,).
    into
        int64, shape (nodes + 1,): arcs into[v]:into[v + 1] end in v.
    out, out_of
        int32, shape (arcs,): arcs by tail; int64, shape (nodes + 1,): out[out_of[v]:out_of[v + 1]] leave v.
    back
        int32, shape (arcs,): the arc from head to tail, -1 where there is none.
    """

    tail: Int32Array
    head: Int32Array
    capacity: Int64Array
    into: Int64Array
    out: Int32Array
    out_of: Int64Array
    back: Int32Array


class Rows(NamedTuple):
    """Trees as they grow and change; only the first used[0] columns are in use.

    Parameters
    ----------
    used
        int64, shape (1,): how many rows there are.
    root, limit
        int32, shape (rows,): the root, and the most height allowed.
    weight
        int64, shape (rows,): unit trees.
    via, depth
        int32, shape (nodes, rows): the arc into each node (-1: none) and its hops from the root.
    load
        int64, shape (arcs,): unit trees that use the arc.
    use
        int32, shape (nodes, arcs): rows of a root that use the arc.
    """

    used: Int64Array
    root: Int32Array
    limit: Int32Array
    weight: Int64Array
    via: Int32Array
    depth: Int32Array
    load: Int64Array
    use: Int32Array


@njit(cache=True)
def grow_widest(arcs: Arcs, rows: Rows, state: UInt64Array, sharp: float) -> None:
    """Grow every tree anew in turn, by the arcs that it fills up least; lower ones first.

    An arc costs the part of its capacity then in use, and `sharp` times what part of the tree is too much.
    """
    nodes = len(rows.depth)
    cost, key = np.empty(len(arcs.tail)), np.empty(nodes)
    for t in range(rows.used[0]):
        weight = rows.weight[t]
        for v in range(nodes):
            if rows.via[v, t] >= 0:
                rows.load[rows.via[v, t]] -= weight
                rows.use[rows.root[t], rows.via[v, t]] -= 1
        for a in range(len(cost)):  # the shaken digits decide between equals
            over = (rows.load[a] + weight - arcs.capacity[a]) / weight
            part = (rows.load[a] + weight) / max(arcs.capacity[a], 1)
            cost[a] = sharp * max(over, 0.0) + part + 1e-6 * draw(state, 1000)
        if not _grow_by_cost(arcs, rows, t, cost, key):
            _grow_by_depth(arcs, rows, t, cost)
        for v in range(nodes):
            if rows.via[v, t] >= 0:
                rows.load[rows.via[v, t]] += weight
                rows.use[rows.root[t], rows.via[v, t]] += 1


@njit(cache=True)
def draw(state: UInt64Array, below: int) -> int:
    """Return a random integer of 0..below-1 and step the generator (uint64, shape (1,), not 0)."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return int(np.int64((x >> np.uint64(11)) % np.uint64(below)))


@njit(cache=True)
def _clear(rows: Rows, t: int) -> None:
    for v in range(len(rows.depth)):
        rows.via[v, t] = -1
        rows.depth[v, t] = -1
    rows.depth[rows.root[t], t] = 0


@njit(cache=True)
def _grow_by_cost(arcs: Arcs, rows: Rows, t: int, cost: FloatArray, key: FloatArray) -> bool:
    """Prim's way: the cheapest arc that leaves the tree, within the limit; False where some node is left."""
    nodes = len(key)
    _clear(rows, t)
    key[:] = np.inf
    v = np.int64(rows.root[t])
    for _ in range(nodes - 1):
        deep = rows.depth[v, t] + 1
        if deep <= rows.limit[t]:
            for s in range(arcs.out_of[v], arcs.out_of[v + 1]):
                a = arcs.out[s]
                w = arcs.head[a]
                if rows.depth[w, t] < 0 and cost[a] < key[w]:
                    key[w] = cost[a]
                    rows.via[w, t] = a
        v = np.int64(-1)
        for w in range(nodes):
            if rows.depth[w, t] < 0 and key[w] < np.inf and (v < 0 or key[w] < key[v]):
                v = np.int64(w)
        if v < 0:
            return False
        rows.depth[v, t] = rows.depth[arcs.tail[rows.via[v, t]], t] + 1
    return True


@njit(cache=True)
def _grow_by_depth(arcs: Arcs, rows: Rows, t: int, cost: FloatArray) -> None:
    """Breadth first, each node by its cheapest arc from the level before."""
    _clear(rows, t)
    for level in range(1, len(rows.depth)):
        grown = False
        for v in range(len(rows.depth)):
            if rows.depth[v, t] >= 0:
                continue
            for a in range(arcs.into[v], arcs.into[v + 1]):
                chosen = rows.via[v, t]
                if rows.depth[arcs.tail[a], t] == level - 1 and (chosen < 0 or cost[a] < cost[chosen]):
                    rows.via[v, t] = a
            if rows.via[v, t] >= 0:
                rows.depth[v, t] = level
                grown = True
        if not grown:
            return

"""Trees arc by arc, in rows of one weight; and leaves for every link, by exchange.

At the beginning of an allreduce a link can immediately send the data that it carries from leaves of in-trees.
At the end it can wait until the last moment with the data that it carries to leaves of out-trees. A link
without a leaf is idle until pieces have come up to it. Two trees of one weight may exchange the arcs by which
they enter a rank, and then every arc carries what it did. So capacities that are used up stay so. Such
exchanges are drawn at random, and fewer and fewer that make trees worse are accepted (threshold accepting:
Dueck, Scheuer, J. Comput. Phys. 1990). They give each busy link a share of leaves, and keep the trees low.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tutti.models.allreduce.trees import HalfTrees
from tutti.topologies.exact import Int32Array, Int64Array, offsets_of
from tutti.topologies.kernels import kernel
from tutti.topologies.trees.tree_local_search import UInt64Array, draw

HIGHER = 4
"""Hops by which trees may become higher. With a larger value more links have leaves, but α costs more."""


class LeafExchangeTuning(NamedTuple):
    """Parameters of the exchange."""

    price: int
    """Price in hops of a missing leaf. With a larger value trees become higher."""
    warm: int
    """Hops that an exchange may cost at first. With a larger value more exchanges are accepted."""
    moves: int
    """Exchanges that are tried for each rank of each tree, 5 million a second. A larger value gives more
    leaves."""


TUNING = LeafExchangeTuning(price=24, warm=6, moves=600)


@dataclass(frozen=True, eq=False)
class ArcTrees:
    """Spanning trees of the arcs that lead away from the root (of in-trees: turned round).

    Parameters
    ----------
    root, weight
        int64, shape (rows,): by root.
    via
        int64, shape (rows, ranks): the arc into each rank, -1 at the root.
    """

    root: Int64Array
    weight: Int64Array
    via: Int64Array


class _Net(NamedTuple):
    """The arcs' near ends; the arcs out of each rank in CSR; the far ends; the needed weight of leaves."""

    tail: Int64Array
    begin: Int64Array
    out: Int64Array
    head: Int64Array
    need: Int64Array


class _State(NamedTuple):
    """Arcs into ranks, and numbers of children, (rows, ranks); weights of rows; weight of leaves of arcs."""

    via: Int64Array
    kids: Int64Array
    weight: Int64Array
    leaves: Int64Array


def arc_trees(trees: HalfTrees, tails: Int32Array, heads: Int32Array, scale: int, quantum: int) -> ArcTrees:
    """Return trees arc by arc, cut into rows of weight `quantum` and smaller ones that are left over.

    Parameters
    ----------
    trees
        One half; arcs are numbered as in its network.
    tails, heads
        The ends of each arc, seen from the root.
    scale
        Weights and capacities are multiplied by this.
    quantum
        The largest weight of a row.
    """
    arcs: dict[tuple[int, int], list[int]] = {}
    for arc, pair in enumerate(zip(tails.tolist(), heads.tolist(), strict=True)):
        arcs.setdefault(pair, []).append(arc)
    left = [scale * capacity for capacity in trees.arcs.capacity.tolist()]
    todo: list[tuple[list[int], int]] = []
    rows: list[tuple[int, int, list[int]]] = []
    for parent, weight in zip(trees.forest.parent.tolist(), trees.forest.weight.tolist(), strict=True):
        full, rest = divmod(scale * weight, quantum)
        todo += [(parent, quantum)] * full + ([(parent, rest)] if rest else [])
    while todo:
        parent, weight = todo.pop()
        via = [
            max(arcs[above, rank], key=left.__getitem__) if above >= 0 else -1
            for rank, above in enumerate(parent)
        ]
        part = min([weight, *(left[arc] for arc in via if arc >= 0)])
        for arc in via:
            if arc >= 0:
                left[arc] -= part
        if part < weight:
            todo.append((parent, weight - part))
        rows.append((parent.index(-1), part, via))
    rows.sort(key=lambda row: row[0])
    root, weights, vias = zip(*rows, strict=True)
    return ArcTrees(np.array(root), np.array(weights), np.array(vias))


def with_leaves(trees: ArcTrees, tails: Int32Array, heads: Int32Array, need: Int64Array) -> ArcTrees:
    """Return trees that load every arc as these do, with more leaves on it where arcs need them.

    Parameters
    ----------
    trees
        The trees.
    tails, heads
        The ends of each arc, seen from the root.
    need
        int64, shape (arcs,): the weight of leaves that is enough.
    """
    rows, ranks = trees.via.shape
    tail, head = tails.astype(np.int64), heads.astype(np.int64)
    out = np.argsort(tail, kind="stable")
    net = _Net(tail, offsets_of(np.bincount(tail, minlength=ranks)), out, head, need)
    kids = np.stack([np.bincount(tail[via[via >= 0]], minlength=ranks) for via in trees.via])
    at_leaf = (kids == 0) & (trees.via >= 0)
    leaves = np.zeros(len(tail), dtype=np.int64)
    np.add.at(leaves, trees.via[at_leaf], np.broadcast_to(trees.weight[:, None], (rows, ranks))[at_leaf])
    state = _State(trees.via.copy(), kids, trees.weight, leaves)
    moves, dice = min(TUNING.moves * rows * ranks, 6_000_000), np.array([0x9E3779B97F4A7C15], dtype=np.uint64)
    _exchange(net, state, dice, height(trees, tails) + HIGHER, moves)
    return ArcTrees(trees.root, trees.weight, state.via)


def height(trees: ArcTrees, tails: Int32Array) -> int:
    """Return the hops from the root to the farthest rank, of the highest tree."""
    return int(levels(trees, tails).max())


def levels(trees: ArcTrees, tails: Int32Array) -> Int64Array:
    """Return each rank's hops from the root: int64 (rows, ranks); arcs begin at `tails`, seen from there."""
    above = np.where(trees.via >= 0, tails[trees.via], np.arange(trees.via.shape[1]))
    level = (trees.via >= 0).astype(np.int64)
    while (above != trees.root[:, None]).any():  # after i rounds, 2^i steps towards the root
        level = level + np.take_along_axis(level, above, axis=1)
        above = np.take_along_axis(above, above, axis=1)
    return level


@kernel
def _exchange(net: _Net, state: _State, dice: UInt64Array, limit: int, moves: int) -> None:
    """Let pairs of rows exchange their arcs into a rank; invariant: every arc carries the same as before."""
    rows, ranks = state.via.shape
    stack = np.empty((2, ranks), np.int64)
    for move in range(moves):
        v, t, s = int(draw(dice, ranks)), int(draw(dice, rows)), int(draw(dice, rows))
        a, b = state.via[t, v], state.via[s, v]
        if a == b or a < 0 or b < 0 or state.weight[t] != state.weight[s]:
            continue
        there, here = _entered(net, state, t, v, b), _entered(net, state, s, v, a)
        if there < 0 or here < 0:
            continue
        count, high = _under(net, state, t, v, stack)
        number, deep = _under(net, state, s, v, stack)
        if there + high > limit or here + deep > limit:
            continue
        longer = count * (there - _entered(net, state, t, v, a))
        longer += number * (here - _entered(net, state, s, v, b))
        short = _turn(net, state, t, v, b) + _turn(net, state, s, v, a)
        heat = TUNING.warm - TUNING.warm * move // moves
        # Threshold accepting with a random threshold: a worse exchange is undone by exchanging again.
        if TUNING.price * short + state.weight[t] * (longer - int(draw(dice, heat + 1))) > 0:
            _turn(net, state, t, v, a)
            _turn(net, state, s, v, b)


@kernel
def _entered(net: _Net, state: _State, t: int, v: int, arc: int) -> int:
    """Return the depth of `v` if it is entered by an arc, -1 if that closes a circle."""
    u, depth = net.tail[arc], 1
    while u != v and state.via[t, u] >= 0:
        u = net.tail[state.via[t, u]]
        depth += 1
    return -1 if u == v else depth


@kernel
def _under(net: _Net, state: _State, t: int, v: int, stack: Int64Array) -> tuple[int, int]:
    """Return the number of ranks in the subtree of `v`, with `v`, and their greatest depth below it."""
    stack[0, 0], stack[1, 0] = v, 0
    count, done = 1, 0
    while done < count:
        u, depth = stack[0, done], stack[1, done]
        done += 1
        if state.kids[t, u] == 0:
            continue
        for arc in net.out[net.begin[u] : net.begin[u + 1]]:
            if state.via[t, net.head[arc]] == arc:
                stack[0, count], stack[1, count] = net.head[arc], depth + 1
                count += 1
    return count, stack[1, count - 1]


@kernel
def _turn(net: _Net, state: _State, t: int, v: int, arc: int) -> int:
    """Let `v` be entered by another arc; return the change of the leaf weight that arcs lack."""
    old, weight = state.via[t, v], state.weight[t]
    p, q = net.tail[old], net.tail[arc]
    change = 0
    if state.kids[t, v] == 0:
        change += _count(net, state, old, -weight) + _count(net, state, arc, weight)
    state.kids[t, p] -= 1
    if state.kids[t, p] == 0 and state.via[t, p] >= 0:
        change += _count(net, state, state.via[t, p], weight)
    if state.kids[t, q] == 0 and state.via[t, q] >= 0:
        change += _count(net, state, state.via[t, q], -weight)
    state.kids[t, q] += 1
    state.via[t, v] = arc
    return change


@kernel
def _count(net: _Net, state: _State, arc: int, more: int) -> int:
    """Change an arc's weight of leaves; return the change of the weight that it lacks."""
    before = max(net.need[arc] - state.leaves[arc], 0)
    state.leaves[arc] += more
    return max(net.need[arc] - state.leaves[arc], 0) - before

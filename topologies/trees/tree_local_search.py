"""Local search for weighted trees within capacity and within a height: kernels on arrays.

A state is a set of rows, and the number of unit trees that use each arc. A row is a spanning out-tree within
its height limit, with a weight: the number of equal unit trees that it stands for. While some arc is
overloaded, a row that uses it is taken at random and the arc's head gets another parent. The new parent is
through an arc with room if there is one, otherwise through the arc that was chosen longest ago; the excess
then moves on, as in a random walk. The head may also change places with a child, since a pair of ranks that
fast links join may be entered at either rank. If a part of the row's weight relieves more than the whole, the
row splits, and the part that stays differs in that one edge. Rows that become equal are merged. So there are
hardly more rows than the capacities need, and the rows of a root have most edges in common.

Random numbers are drawn by xorshift (Marsaglia 2003), so that the same seed gives the same trees on any
machine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.topologies.exact import FloatArray, Int32Array, Int64Array
from tutti.topologies.kernels import kernel

UInt64Array = npt.NDArray[np.uint64]


class CapacitatedArcs(NamedTuple):
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
        int32, shape (arcs,): the arc from head to tail, -1 if there is none.
    """

    tail: Int32Array
    head: Int32Array
    capacity: Int64Array
    into: Int64Array
    out: Int32Array
    out_of: Int64Array
    back: Int32Array


class GrowingTrees(NamedTuple):
    """Trees that grow and change; only the first used[0] columns are in use.

    Parameters
    ----------
    used
        int64, shape (1,): the number of rows.
    root, limit
        int32, shape (rows,): the root, and the height limit.
    weight
        int64, shape (rows,): unit trees.
    via, depth
        int32, shape (nodes, rows): the arc into each node (-1: none) and its hops from the root.
    load
        int64, shape (arcs,): the number of unit trees that use the arc.
    use
        int32, shape (nodes, arcs): the number of a root's rows that use the arc.
    """

    used: Int64Array
    root: Int32Array
    limit: Int32Array
    weight: Int64Array
    via: Int32Array
    depth: Int32Array
    load: Int64Array
    use: Int32Array


@kernel
def grow_widest(arcs: CapacitatedArcs, rows: GrowingTrees, state: UInt64Array, sharp: float) -> None:
    """Grow every tree again from scratch, in turn, by the arcs that it fills up least; prefer lower trees.

    An arc costs the fraction of its capacity then in use, and `sharp` times the fraction of the tree's weight
    that is above the capacity.
    """
    nodes = len(rows.depth)
    cost, key = np.empty(len(arcs.tail)), np.empty(nodes)
    for t in range(rows.used[0]):
        weight = rows.weight[t]
        for v in range(nodes):
            if rows.via[v, t] >= 0:
                rows.load[rows.via[v, t]] -= weight
                rows.use[rows.root[t], rows.via[v, t]] -= 1
        for a in range(len(cost)):  # the random digits break ties
            over = (rows.load[a] + weight - arcs.capacity[a]) / weight
            part = (rows.load[a] + weight) / max(arcs.capacity[a], 1)
            cost[a] = sharp * max(over, 0.0) + part + 1e-6 * draw(state, 1000)
        if not _grow_by_cost(arcs, rows, t, cost, key):
            _grow_by_depth(arcs, rows, t, cost)
        for v in range(nodes):
            if rows.via[v, t] >= 0:
                rows.load[rows.via[v, t]] += weight
                rows.use[rows.root[t], rows.via[v, t]] += 1


@kernel
def draw(state: UInt64Array, below: int) -> int:
    """Return a random integer of 0..below-1 and step the generator (uint64, shape (1,), not 0)."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return int(np.int64((x >> np.uint64(11)) % np.uint64(below)))


@kernel
def _clear(rows: GrowingTrees, t: int) -> None:
    for v in range(len(rows.depth)):
        rows.via[v, t] = -1
        rows.depth[v, t] = -1
    rows.depth[rows.root[t], t] = 0


@kernel
def _grow_by_cost(
    arcs: CapacitatedArcs, rows: GrowingTrees, t: int, cost: FloatArray, key: FloatArray
) -> bool:
    """Grow a tree by the cheapest arc that leaves it, within its limit (Prim); False if a node is left."""
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
                # Prim's step: the cheapest arc into each node outside; a node at the limit offers none.
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


@kernel
def _grow_by_depth(arcs: CapacitatedArcs, rows: GrowingTrees, t: int, cost: FloatArray) -> None:
    """Grow a tree breadth first; each node takes its cheapest arc from the previous level."""
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


_Move = tuple[int, int, int, int, int]
"""Five numbers: the change of excess; 2 if the row splits, plus 1 if the arc is new to its root; the new arc,
-1 for no move; the child, -1 for none; the weight."""


class Excess(NamedTuple):
    """The overloaded arcs are the first totals[0] of `arcs`; place[a] is the place of arc a there, or -1.

    totals[1] is the excess of all arcs together.
    """

    arcs: Int64Array
    place: Int64Array
    totals: Int64Array


class LocalSearch(NamedTuple):
    """The trees while weight moves off overloaded arcs.

    Parameters
    ----------
    arcs, rows, excess
        The network, the trees, and the overloaded arcs.
    age
        int64, shape (arcs,): the move in which each arc was last chosen.
    stacks
        int64, shape (2, nodes): room for the nodes of two parts of a tree.
    """

    arcs: CapacitatedArcs
    rows: GrowingTrees
    excess: Excess
    age: Int64Array
    stacks: Int64Array


@kernel
def relieve(
    arcs: CapacitatedArcs, rows: GrowingTrees, state: UInt64Array, moves: int, patience: int
) -> tuple[int, int]:
    """Move weight off overloaded arcs, at most `moves` times; return the excess and the moves left.

    It stops if the least excess has not fallen for `patience` moves and for half of all moves.
    Height limits, and the total weight of a root's rows, stay satisfied throughout.
    """
    excess, age = _excess(arcs, rows), np.zeros(len(arcs.tail), dtype=np.int64)
    search = LocalSearch(arcs, rows, excess, age, np.empty((2, len(rows.depth)), dtype=np.int64))
    least, since, move = excess.totals[1], 0, 0
    while move < moves:
        if excess.totals[0] == 0 or move - since > max(patience, since):
            break
        move += 1
        arc = excess.arcs[draw(state, excess.totals[0])]
        t = _user(arcs, rows, arc, draw(state, rows.used[0]), draw(state, 2) > 0)
        best = _best_move(search, t, arc, int(draw(state, 2)))
        if best[2] < 0 or (best[0] > 0 and draw(state, 10) > 0):  # more excess than before: one in ten
            continue
        age[best[2]] = move
        if best[1] > 1:
            _split(rows, t, best[4])
        _apply(search, t, arc, best)
        _merge(rows, t)
        if excess.totals[1] < least:
            least, since = excess.totals[1], move
    return excess.totals[1], moves - move


@kernel
def _excess(arcs: CapacitatedArcs, rows: GrowingTrees) -> Excess:
    size = len(arcs.tail)
    found = Excess(np.empty(size, np.int64), np.full(size, -1, np.int64), np.zeros(2, np.int64))
    for a in range(size):
        if rows.load[a] > arcs.capacity[a]:
            found.place[a] = found.totals[0]
            found.arcs[found.totals[0]] = a
            found.totals[0] += 1
            found.totals[1] += rows.load[a] - arcs.capacity[a]
    return found


@kernel
def _shift_load(arcs: CapacitatedArcs, rows: GrowingTrees, excess: Excess, a: int, change: int) -> None:
    """Change an arc's load, and the list of overloaded arcs with it."""
    before = rows.load[a] - arcs.capacity[a]
    rows.load[a] += change
    after = before + change
    excess.totals[1] += max(after, 0) - max(before, 0)
    if before <= 0 < after:
        excess.place[a] = excess.totals[0]
        excess.arcs[excess.totals[0]] = a
        excess.totals[0] += 1
    elif after <= 0 < before:
        excess.totals[0] -= 1
        last = excess.arcs[excess.totals[0]]
        excess.arcs[excess.place[a]] = last
        excess.place[last] = excess.place[a]
        excess.place[a] = -1


@kernel
def _user(arcs: CapacitatedArcs, rows: GrowingTrees, arc: int, start: int, light: bool) -> int:
    """Return the first row from `start` on, cyclically, that uses an overloaded arc (some row does).

    If `light`, it is one whose whole weight is in excess, if there is one.
    """
    count, over, first = rows.used[0], rows.load[arc] - arcs.capacity[arc], -1
    via = rows.via[arcs.head[arc]]
    for step in range(count):
        t = start + step if start + step < count else start + step - count
        if via[t] == arc:
            if not light or rows.weight[t] <= over:
                return t
            if first < 0:
                first = t
    return first


@kernel
def _subtree(
    arcs: CapacitatedArcs, rows: GrowingTrees, t: int, top: int, without: int, stack: Int64Array
) -> tuple[int, int]:
    """List `top` and the nodes under it without a child's part; return their number and height."""
    stack[0] = top
    count, done, deepest = 1, 0, rows.depth[top, t]
    while done < count:
        v = stack[done]
        done += 1
        deepest = max(deepest, rows.depth[v, t])
        for s in range(arcs.out_of[v], arcs.out_of[v + 1]):
            w = arcs.head[arcs.out[s]]
            if rows.via[w, t] == arcs.out[s] and w != without:
                stack[count] = w
                count += 1
    return count, deepest - rows.depth[top, t]


@kernel
def _under(arcs: CapacitatedArcs, rows: GrowingTrees, t: int, node: int, top: int) -> bool:
    """Whether `node` is in the subtree of `top`."""
    level = rows.depth[top, t]
    while rows.depth[node, t] > level:
        node = arcs.tail[rows.via[node, t]]
    return node == top


@kernel
def _change(arcs: CapacitatedArcs, rows: GrowingTrees, gain: int, loss: int, weight: int) -> int:
    """Return the change of excess when `weight` moves from arc `loss` to arc `gain`."""
    room = max(arcs.capacity[gain] - rows.load[gain], 0)
    over = max(rows.load[loss] - arcs.capacity[loss], 0)
    return max(weight - room, 0) - min(weight, over)


@kernel
def _best_move(search: LocalSearch, t: int, arc: int, fresh: int) -> _Move:
    """Return the best move of the arc's head in row t.

    The child is -1 if only the parent changes; otherwise the head comes under that child, and the child under
    the new arc. Among equal moves, one without a split is preferred, then, if `fresh` is 1, one by an arc
    that the root uses already, then one by the arc that was chosen least recently.
    """
    arcs, rows, stack = search.arcs, search.rows, search.stacks[0]
    v, none = np.int64(arcs.head[arc]), np.int64(-1)  # 64 bits throughout: each helper is compiled once
    best: Any = (np.int64(1 << 60), np.int64(0), none, none, np.int64(0))
    _, height = _subtree(arcs, rows, t, v, none, stack)
    best = _offer(search, best, t, v, (v, none, arc, none, height), fresh)
    for s in range(arcs.out_of[v], arcs.out_of[v + 1]):
        down = arcs.out[s]
        child, up = np.int64(arcs.head[down]), np.int64(arcs.back[down])
        if up < 0 or rows.via[child, t] != down:
            continue
        _, rest = _subtree(arcs, rows, t, v, child, stack)
        _, below = _subtree(arcs, rows, t, child, none, stack)
        best = _offer(search, best, t, child, (v, child, arc, up, max(rest + 1, below)), fresh)
    return best


@kernel
def _offer(
    search: LocalSearch, best: _Move, t: int, node: int, turn: tuple[int, int, int, int, int], fresh: int
) -> _Move:
    """Return the better of `best` and the moves that enter `node`'s part of the tree by another arc.

    `turn` is (top of the part, child or -1, arc relieved, arc from child to top or -1, height of the part).
    """
    arcs, rows, age = search.arcs, search.rows, search.age
    top, child, arc, up, height = turn
    weight, full = rows.weight[t], rows.used[0] == len(rows.weight)
    over = min(weight, rows.load[arc] - arcs.capacity[arc])
    for a in range(arcs.into[node], arcs.into[node + 1]):
        tail = arcs.tail[a]
        if a == arc or rows.depth[tail, t] + 1 + height > rows.limit[t]:
            continue
        room = arcs.capacity[a] - rows.load[a]
        new = fresh * int(rows.use[rows.root[t], a] == 0)
        # A row may move whole, or only the weight that relieves the arc, which splits it.
        for amount in (weight, min(over, room) if room > 0 else over):
            if full and amount < weight:
                continue
            change = _change(arcs, rows, a, arc, amount)
            if child >= 0:
                change += _change(arcs, rows, up, np.int64(arcs.back[up]), amount)
            extra = 2 * int(amount < weight) + new
            equal = change == best[0] and extra == best[1]
            if (change, extra) > (best[0], best[1]) or (equal and age[a] >= age[best[2]]):
                continue
            if not _under(arcs, rows, t, tail, top):
                best = (change, extra, int(a), int(child), amount)
    return best


@kernel
def _split(rows: GrowingTrees, t: int, weight: int) -> None:
    """Leave row t with `weight`, and give the rest to a new row with the same tree."""
    new = rows.used[0]
    rows.used[0] += 1
    rows.root[new], rows.limit[new] = rows.root[t], rows.limit[t]
    rows.weight[new] = rows.weight[t] - weight
    rows.weight[t] = weight
    _copy(rows, t, new)
    for v in range(len(rows.via)):
        if rows.via[v, t] >= 0:
            rows.use[rows.root[t], rows.via[v, t]] += 1


@kernel
def _copy(rows: GrowingTrees, t: int, to: int) -> None:
    """Give row `to` the tree of row t."""
    for v in range(len(rows.via)):
        rows.via[v, to], rows.depth[v, to] = rows.via[v, t], rows.depth[v, t]


@kernel
def _merge(rows: GrowingTrees, t: int) -> None:
    """Add row t to another row with the same tree, if there is one; the last row takes its place."""
    for other in range(rows.used[0]):
        if other == t or rows.root[other] != rows.root[t]:
            continue
        same = True
        for v in range(len(rows.via)):
            if rows.via[v, other] != rows.via[v, t]:
                same = False
                break
        if same:
            rows.weight[other] += rows.weight[t]
            for v in range(len(rows.via)):
                if rows.via[v, t] >= 0:
                    rows.use[rows.root[t], rows.via[v, t]] -= 1
            # Invariant: rows 0..used - 1 are in use.
            last = rows.used[0] - 1
            rows.root[t], rows.limit[t], rows.weight[t] = rows.root[last], rows.limit[last], rows.weight[last]
            _copy(rows, last, t)
            rows.used[0] = last
            return


@kernel
def _apply(search: LocalSearch, t: int, arc: int, best: _Move) -> None:
    """Make a move of `_best_move`."""
    arcs, rows, excess, stacks = search.arcs, search.rows, search.excess, search.stacks
    v, new, child, weight = np.int64(arcs.head[arc]), best[2], best[3], best[4]
    level = rows.depth[arcs.tail[new], t] + 1
    count, _ = _subtree(arcs, rows, t, v, child, stacks[0])
    _shift_load(arcs, rows, excess, arc, -weight)
    _shift_load(arcs, rows, excess, new, weight)
    rows.use[rows.root[t], arc] -= 1
    rows.use[rows.root[t], new] += 1
    if child < 0:
        _lower(rows, t, stacks[0], count, level - rows.depth[v, t])
        rows.via[v, t] = new
        return
    # The part is entered below its top: the arc from child to top turns round.
    down = np.int64(rows.via[child, t])
    up = np.int64(arcs.back[down])
    below, _ = _subtree(arcs, rows, t, child, np.int64(-1), stacks[1])
    _shift_load(arcs, rows, excess, down, -weight)
    _shift_load(arcs, rows, excess, up, weight)
    rows.use[rows.root[t], down] -= 1
    rows.use[rows.root[t], up] += 1
    _lower(rows, t, stacks[1], below, level - rows.depth[child, t])
    _lower(rows, t, stacks[0], count, level + 1 - rows.depth[v, t])
    rows.via[child, t] = new
    rows.via[v, t] = up


@kernel
def _lower(rows: GrowingTrees, t: int, stack: Int64Array, count: int, hops: int) -> None:
    for i in range(count):
        rows.depth[stack[i], t] += hops

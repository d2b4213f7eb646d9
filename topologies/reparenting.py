"""Local search for trees within capacity and within a height: kernels on arrays.

A state is a spanning out-tree a root, each within its height limit, and how many trees use each arc. While
some arc is in more trees than it can carry, one such tree is taken at random and the arc's head gets another
parent: through an arc with room if there is one, else through the arc that was chosen longest ago (the
excess then moves on, as in a random walk). The head may also change places with a child, since a pair of
ranks that fast links join may be entered at either. Random numbers are drawn by xorshift (Marsaglia 2003),
so that the same seed gives the same trees on any machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from topologies.exact import Int32Array, Int64Array


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


class Trees(NamedTuple):
    """Trees as they grow and change.

    Parameters
    ----------
    root, limit
        int32, shape (trees,): the root, and the most height allowed.
    via, depth
        int32, shape (nodes, trees): the arc into each node (-1: none) and its hops from the root.
    load
        int64, shape (arcs,): trees that use the arc.
    """

    root: Int32Array
    limit: Int32Array
    via: Int32Array
    depth: Int32Array
    load: Int64Array


class Excess(NamedTuple):
    """The overloaded arcs: the first totals[0] of `arcs`; place[a] is where a stands, or -1.

    totals[1] is the excess of all.
    """

    arcs: Int64Array
    place: Int64Array
    totals: Int64Array


@njit(cache=True)
def grow_widest(arcs, trees, state):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Grow every tree anew in turn, by arcs with the most of their capacity left, lower ones first."""
    nodes = len(trees.depth)
    cost, key = np.empty(len(arcs.tail)), np.empty(nodes)
    for t in range(len(trees.root)):
        for v in range(nodes):
            if trees.via[v, t] >= 0:
                trees.load[trees.via[v, t]] -= 1
        for a in range(len(cost)):  # the shaken digits decide between equals
            cost[a] = (trees.load[a] + 1) / max(arcs.capacity[a], 1) + 1e-6 * draw(state, 1000)
        if not _grow_by_cost(arcs, trees, t, cost, key):
            _grow_by_depth(arcs, trees, t, cost)
        for v in range(nodes):
            if trees.via[v, t] >= 0:
                trees.load[trees.via[v, t]] += 1


@njit(cache=True)
def relieve(arcs, trees, state, moves, patience):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Move trees off overloaded arcs, at most `moves` times; return the excess left.

    It stops when the least excess so far was met neither within `patience` moves nor in half of all moves.
    Limits hold throughout.
    """
    nodes = len(trees.depth)
    excess = _excess(arcs, trees)
    age = np.zeros(len(arcs.tail), dtype=np.int64)
    stacks = np.empty((2, nodes), dtype=np.int64)
    least, since = excess.totals[1], 0
    for move in range(moves):
        if excess.totals[0] == 0 or move - since > max(patience, since):
            break
        arc = excess.arcs[draw(state, excess.totals[0])]
        t = _user(trees.via[arcs.head[arc]], arc, draw(state, len(trees.root)))
        best = _best_move(arcs, trees, age, stacks, t, arc)
        if best[0] > 1 and draw(state, 10) > 0:  # two new excesses for one: seldom
            continue
        if best[1] >= 0:
            age[best[1]] = move + 1
            _apply(arcs, trees, excess, stacks, t, arc, best)
        if excess.totals[1] < least:
            least, since = excess.totals[1], move
    return excess.totals[1]


@njit(cache=True)
def draw(state, below):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Return a random integer of 0..below-1 and step the generator (uint64, shape (1,), not 0)."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return np.int64((x >> np.uint64(11)) % np.uint64(below))


@njit(cache=True)
def _clear(trees, t):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    for v in range(len(trees.depth)):
        trees.via[v, t] = -1
        trees.depth[v, t] = -1
    trees.depth[trees.root[t], t] = 0


@njit(cache=True)
def _grow_by_cost(arcs, trees, t, cost, key):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Prim's way: the cheapest arc that leaves the tree, within the limit; False where some node is left."""
    nodes = len(key)
    _clear(trees, t)
    key[:] = np.inf
    v = trees.root[t]
    for _ in range(nodes - 1):
        deep = trees.depth[v, t] + 1
        if deep <= trees.limit[t]:
            for s in range(arcs.out_of[v], arcs.out_of[v + 1]):
                a = arcs.out[s]
                w = arcs.head[a]
                if trees.depth[w, t] < 0 and cost[a] < key[w]:
                    key[w] = cost[a]
                    trees.via[w, t] = a
        v = -1
        for w in range(nodes):
            if trees.depth[w, t] < 0 and key[w] < np.inf and (v < 0 or key[w] < key[v]):
                v = w
        if v < 0:
            return False
        trees.depth[v, t] = trees.depth[arcs.tail[trees.via[v, t]], t] + 1
    return True


@njit(cache=True)
def _grow_by_depth(arcs, trees, t, cost):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Breadth first, each node by its cheapest arc from the level before."""
    _clear(trees, t)
    for level in range(1, len(trees.depth)):
        grown = False
        for v in range(len(trees.depth)):
            if trees.depth[v, t] >= 0:
                continue
            for a in range(arcs.into[v], arcs.into[v + 1]):
                chosen = trees.via[v, t]
                if trees.depth[arcs.tail[a], t] == level - 1 and (chosen < 0 or cost[a] < cost[chosen]):
                    trees.via[v, t] = a
            if trees.via[v, t] >= 0:
                trees.depth[v, t] = level
                grown = True
        if not grown:
            return


@njit(cache=True)
def _excess(arcs, trees):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    size = len(arcs.tail)
    found = Excess(np.empty(size, np.int64), np.full(size, -1, np.int64), np.zeros(2, np.int64))
    for a in range(size):
        if trees.load[a] > arcs.capacity[a]:
            found.place[a] = found.totals[0]
            found.arcs[found.totals[0]] = a
            found.totals[0] += 1
            found.totals[1] += trees.load[a] - arcs.capacity[a]
    return found


@njit(cache=True)
def _shift_load(arcs, trees, excess, a, change):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Change an arc's load by one, and the list of overloaded arcs with it."""
    before = trees.load[a] - arcs.capacity[a]
    trees.load[a] += change
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


@njit(cache=True)
def _user(via, arc, start):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Return the first tree from `start` on, around, that uses the arc (some tree does)."""
    t = start
    while via[t] != arc:
        t = t + 1 if t + 1 < len(via) else 0
    return t


@njit(cache=True)
def _subtree(arcs, trees, t, top, without, stack):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """List `top` and the nodes under it, but for a child's part; return how many, and how high they reach."""
    stack[0] = top
    count, done, deepest = 1, 0, trees.depth[top, t]
    while done < count:
        v = stack[done]
        done += 1
        deepest = max(deepest, trees.depth[v, t])
        for s in range(arcs.out_of[v], arcs.out_of[v + 1]):
            w = arcs.head[arcs.out[s]]
            if trees.via[w, t] == arcs.out[s] and w != without:
                stack[count] = w
                count += 1
    return count, deepest - trees.depth[top, t]


@njit(cache=True)
def _under(arcs, trees, t, node, top):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Whether `node` is in the subtree of `top`."""
    level = trees.depth[top, t]
    while trees.depth[node, t] > level:
        node = arcs.tail[trees.via[node, t]]
    return node == top


@njit(cache=True)
def _best_move(arcs, trees, age, stacks, t, arc):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Return (change of excess, new arc, child) of the best move of the arc's head in tree t.

    The child is -1 for a new parent alone; else the head comes under that child, and the child under the new
    arc. Arc -1: no move. Of equals the arc least recently chosen.
    """
    v = arcs.head[arc]
    best = (np.int64(9), np.int64(-1), np.int64(-1))
    _, height = _subtree(arcs, trees, t, v, -1, stacks[0])
    best = _offer(arcs, trees, age, best, t, v, (v, -1, arc, height, 0))
    for s in range(arcs.out_of[v], arcs.out_of[v + 1]):
        down = arcs.out[s]
        child, up = arcs.head[down], arcs.back[down]
        if up < 0 or trees.via[child, t] != down:
            continue
        _, rest = _subtree(arcs, trees, t, v, child, stacks[0])
        _, below = _subtree(arcs, trees, t, child, -1, stacks[0])
        price = np.int64(trees.load[up] >= arcs.capacity[up])
        price -= np.int64(trees.load[down] > arcs.capacity[down])
        best = _offer(arcs, trees, age, best, t, child, (v, child, down, max(rest + 1, below), price))
    return best


@njit(cache=True)
def _offer(arcs, trees, age, best, t, node, move):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Return the better of `best` and entering `node`'s part of the tree, `height` high, by another arc."""
    top, child, now, height, price = move
    for a in range(arcs.into[node], arcs.into[node + 1]):
        tail = arcs.tail[a]
        if a == now or trees.depth[tail, t] + 1 + height > trees.limit[t]:
            continue
        change = price + np.int64(trees.load[a] >= arcs.capacity[a])
        if change > best[0] or (change == best[0] and age[a] >= age[best[1]]):
            continue
        if not _under(arcs, trees, t, tail, top):
            best = (change, np.int64(a), np.int64(child))
    return best


@njit(cache=True)
def _apply(arcs, trees, excess, stacks, t, arc, best):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Make a move of `_best_move`."""
    v, new, child = arcs.head[arc], best[1], best[2]
    level = trees.depth[arcs.tail[new], t] + 1
    count, _ = _subtree(arcs, trees, t, v, child, stacks[0])
    _shift_load(arcs, trees, excess, arc, -1)
    _shift_load(arcs, trees, excess, new, 1)
    if child < 0:
        _lower(trees, t, stacks[0], count, level - trees.depth[v, t])
        trees.via[v, t] = new
        return
    down = trees.via[child, t]
    up = arcs.back[down]
    below, _ = _subtree(arcs, trees, t, child, -1, stacks[1])
    _shift_load(arcs, trees, excess, down, -1)
    _shift_load(arcs, trees, excess, up, 1)
    _lower(trees, t, stacks[1], below, level - trees.depth[child, t])
    _lower(trees, t, stacks[0], count, level + 1 - trees.depth[v, t])
    trees.via[child, t] = new
    trees.via[v, t] = up


@njit(cache=True)
def _lower(trees, t, stack, count, hops):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    for i in range(count):
        trees.depth[stack[i], t] += hops

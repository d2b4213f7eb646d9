"""The hops of pieces along trees, event by event: which of those that wait for a link goes first.

A *hop* is one piece over one edge of its tree. Each route has a heap of the hops that are ready, and is
looked at when one of them becomes ready or its links become free; of several routes that could send, the one
whose first hop has the least priority goes first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from heuristics.tacos.bitsets import WORD_BITS, bit, first_element
from heuristics.tacos.ways import DOWN, UP, Trees, Ways
from topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array
from topologies.graphs.heaps import sift_down, sift_up

EMPTY, OPEN, ASLEEP = np.int8(0), np.int8(1), np.int8(2)
"""What a route is, see `_Queues.state`."""


class Detours(NamedTuple):
    """Which hops downwards may take other routes than planned, where a route has nothing to do.

    Parameters
    ----------
    until
        A route may bring a piece to a node that waits for it from elsewhere if it still can do by then all
        that is planned for it; 0: never.
    expected
        int64, shape (pieces, nodes): when each node gets each piece without that; else there is no need.
    tail, head
        int64, shape (routes,): ranks.
    first, out
        int64: the routes out of rank v are out[first[v] : first[v + 1]].
    """

    until: int
    expected: Int64Array
    tail: Int64Array
    head: Int64Array
    first: Int64Array
    out: Int64Array


class _Queues(NamedTuple):
    """What is ready, and what is to come.

    Parameters
    ----------
    base, size, key, hop
        A heap of ready hops a route; route r's begins at base[r].
    open_key, open_route
        A heap of the routes to look at now, by the key of their first hop.
    state
        int8, shape (routes,): whether a route has nothing to send, is open, or is asleep until a moment of
        the agenda.
    due, what
        The agenda, a heap: a hop that arrives, or, from the number of hops on, a route that wakes up.
    counts
        How many routes are open, and how long the agenda is.
    """

    base: Int64Array
    size: Int64Array
    key: Int64Array
    hop: Int32Array
    open_key: Int64Array
    open_route: Int32Array
    state: npt.NDArray[np.int8]
    due: Int64Array
    what: Int32Array
    counts: Int64Array


_State = tuple[_Queues, Detours]


class _Hops(NamedTuple):
    """Of each hop, by (up or down, piece, node).

    Parameters
    ----------
    key, way, start
        int64, int32, int64: priority, route, and when it starts.
    begun
        bool: whether it has started.
    have, want
        uint64, shape (nodes, words): pieces, as `heuristics.tacos.state.Holdings`; only for detours.
    work
        int64, shape (routes,): ticks for which the rest of the plan holds each.
    """

    key: Int64Array
    way: Int32Array
    start: Int64Array
    begun: BoolArray
    have: npt.NDArray[np.uint64]
    want: npt.NDArray[np.uint64]
    work: Int64Array


@njit(cache=True, nogil=True)
def place(
    ways: Ways, trees: Trees, priority: Int64Array, num_links: int, detours: Detours
) -> tuple[Int64Array, Int32Array]:
    """Return when each hop starts, and its route: int64 and int32, shaped as `priority`.

    Invariant: at a match, all that has arrived by then was told, and what a route that is not open would send
    first has a link that is not free yet.

    Parameters
    ----------
    ways, trees, priority
        As `improved`.
    num_links
        The links are 0 to `num_links` - 1.
    detours
        Where hops may leave their trees.
    """
    hops, free = _hops(ways, trees, priority, detours), np.zeros(num_links, np.int64)
    left, queues = _waiting(trees), _queues(hops.way, len(ways.lasts))
    for piece in range(left.shape[0]):
        for node in range(left.shape[1]):
            if left[piece, node] == 0:
                _climb(piece, node, trees, (queues, detours), hops)
    now = np.int64(0)
    while True:
        _match(ways, (queues, detours), free, hops, now)
        if queues.counts[1] == 0:
            return hops.start.reshape(priority.shape), hops.way.reshape(priority.shape)
        now = queues.due[0]
        while queues.counts[1] and queues.due[0] == now:
            what = queues.what[0]
            queues.counts[1] -= 1
            sift_down(queues.due, queues.what, queues.counts[1])
            if what < len(hops.way):
                _tell(what, trees, left, (queues, detours), hops)
            else:
                _open(queues, what - len(hops.way))


@njit(cache=True)
def _hops(ways: Ways, trees: Trees, priority: Int64Array, detours: Detours) -> _Hops:
    """Return hops none of which has begun."""
    pieces, nodes = trees.parent[UP].shape
    way = trees.way.copy().reshape(-1)
    words = (pieces + WORD_BITS - 1) // WORD_BITS if detours.until else 0
    have, want = np.zeros((nodes, words), np.uint64), np.zeros((nodes, words), np.uint64)
    work = np.zeros(len(ways.lasts), np.int64)
    for hop in range(len(way)):
        if way[hop] >= 0:
            work[way[hop]] += ways.hold[ways.offsets[way[hop]]]
            if detours.until and hop >= pieces * nodes:
                piece, node = divmod(hop - pieces * nodes, nodes)
                want[node, piece // WORD_BITS] |= bit(piece)
    start, begun = np.zeros(len(way), np.int64), np.zeros(len(way), np.bool_)
    return _Hops(priority.copy().reshape(-1), way, start, begun, have, want, work)


@njit(cache=True)
def _waiting(trees: Trees) -> Int32Array:
    """Return how many hops come up into each node of each piece."""
    left = np.zeros(trees.parent[UP].shape, np.int32)
    for piece in range(left.shape[0]):
        for node in range(left.shape[1]):
            left[piece, node] = trees.first[UP, piece, node + 1] - trees.first[UP, piece, node]
    return left


@njit(cache=True)
def _queues(way: Int32Array, routes: int) -> _Queues:
    base = np.zeros(routes + 1, np.int64)
    for route in way:
        if route >= 0:
            base[route + 1] += 1
    base = np.cumsum(base)
    hops = base[routes]
    return _Queues(
        base,
        np.zeros(routes, np.int64),
        np.empty(hops, np.int64),
        np.empty(hops, np.int32),
        np.empty(routes, np.int64),
        np.empty(routes, np.int32),
        np.full(routes, EMPTY),
        np.empty(hops + routes, np.int64),
        np.empty(hops + routes, np.int32),
        np.zeros(2, np.int64),
    )


@njit(cache=True)
def _climb(piece: int, node: int, trees: Trees, state: _State, hops: _Hops) -> None:
    """Let a piece that a node has all of, from below, go on: up, or down from the root."""
    pieces, nodes = trees.parent[UP].shape
    if node == trees.root[piece]:
        _descend(piece, node, trees, state, hops)
    elif trees.way[UP, piece, node] >= 0:
        _ready((UP * pieces + piece) * nodes + node, state[0], hops)


@njit(cache=True)
def _descend(piece: int, node: int, trees: Trees, state: _State, hops: _Hops) -> None:
    """Let a piece that a node has got go on to those below, and be seen by the routes out of the node."""
    queues, detours = state
    pieces, nodes = trees.parent[UP].shape
    for place in range(trees.first[DOWN, piece, node], trees.first[DOWN, piece, node + 1]):
        _ready((DOWN * pieces + piece) * nodes + trees.child[DOWN, piece, place], queues, hops)
    if detours.until:
        hops.have[node, piece // WORD_BITS] |= bit(piece)
        for place in range(detours.first[node], detours.first[node + 1]):
            if queues.state[detours.out[place]] == EMPTY:
                _open(queues, detours.out[place])


@njit(cache=True)
def _ready(hop: int, queues: _Queues, hops: _Hops) -> None:
    if hops.begun[hop]:
        return
    route = hops.way[hop]
    begin, end = queues.base[route], queues.base[route + 1]
    sift_up(queues.key[begin:end], queues.hop[begin:end], queues.size[route], hops.key[hop], hop)
    queues.size[route] += 1
    if queues.state[route] == EMPTY:
        _open(queues, route)


@njit(cache=True)
def _open(queues: _Queues, route: int) -> None:
    """Note that a route is to be looked at; it stands in the heap once all that is ready now is known."""
    queues.state[route] = OPEN
    queues.open_route[queues.counts[0]] = route
    queues.counts[0] += 1


@njit(cache=True)
def _match(ways: Ways, state: _State, free: Int64Array, hops: _Hops, now: int) -> None:
    """Start the first hop of each open route whose links are free, those of least priority first."""
    queues, detours = state
    count = queues.counts[0]
    for place in range(count):  # the heap grows over the list that it is made from
        route = queues.open_route[place]
        _forget(queues, route, hops)
        key = queues.key[queues.base[route]] if queues.size[route] else INT64_MAX
        sift_up(queues.open_key, queues.open_route, place, key, route)
    for size in range(count - 1, -1, -1):
        route = queues.open_route[0]
        sift_down(queues.open_key, queues.open_route, size)
        _forget(queues, route, hops)
        if _free_from(ways, route, free) <= now:
            hop = (
                queues.hop[queues.base[route]]
                if queues.size[route]
                else _detour(ways, detours, hops, route, now)
            )
            if hop >= 0:
                _start(ways, queues, free, hops, (route, hop, now))
                _forget(queues, route, hops)
        until = _free_from(ways, route, free)
        if until > now and (queues.size[route] or detours.until):
            queues.state[route] = ASLEEP
            _note(queues, until, route + len(hops.way))
        else:
            queues.state[route] = EMPTY
    queues.counts[0] = 0


@njit(cache=True)
def _forget(queues: _Queues, route: int, hops: _Hops) -> None:
    """Drop the first hops of a route that have begun."""
    begin, end = queues.base[route], queues.base[route + 1]
    while queues.size[route] and hops.begun[queues.hop[begin]]:
        queues.size[route] -= 1
        sift_down(queues.key[begin:end], queues.hop[begin:end], queues.size[route])


@njit(cache=True)
def _free_from(ways: Ways, route: int, free: Int64Array) -> int:
    """Return from when on a hop over a route meets free links only."""
    moment = np.int64(0)
    for place in range(ways.offsets[route], ways.offsets[route + 1]):
        moment = max(moment, free[ways.links[place]] - ways.delay[place])
    return int(moment)


@njit(cache=True)
def _detour(ways: Ways, detours: Detours, hops: _Hops, route: int, now: int) -> int:
    """Return the most urgent hop that a route could bring sooner than it is expected; -1 for none."""
    if now + hops.work[route] + ways.hold[ways.offsets[route]] > detours.until:
        return -1
    node, arrives = detours.head[route], now + ways.lasts[route]
    have, want = hops.have[detours.tail[route]], hops.want[node]
    found, pieces, nodes = -1, detours.expected.shape[0], detours.expected.shape[1]
    for w in range(len(have)):
        word = have[w] & want[w]
        while word:
            piece = w * WORD_BITS + first_element(word)
            word &= word - np.uint64(1)
            hop = (DOWN * pieces + piece) * nodes + node
            if arrives < detours.expected[piece, node] and (found < 0 or hops.key[hop] < hops.key[found]):
                found = hop
    return found


@njit(cache=True)
def _start(ways: Ways, queues: _Queues, free: Int64Array, hops: _Hops, what: tuple[int, int, int]) -> None:
    """Start a hop on a route now."""
    route, hop, now = what
    hops.begun[hop], hops.start[hop] = True, now
    hops.work[hops.way[hop]] -= ways.hold[ways.offsets[hops.way[hop]]]
    hops.way[hop] = route
    if hops.want.shape[1] and hop >= len(hops.way) // 2:
        piece, node = divmod(hop - len(hops.way) // 2, len(hops.want))
        hops.want[node, piece // WORD_BITS] &= ~bit(piece)
    for place in range(ways.offsets[route], ways.offsets[route + 1]):
        free[ways.links[place]] = now + ways.delay[place] + ways.hold[place]
    _note(queues, now + ways.lasts[route], hop)


@njit(cache=True)
def _note(queues: _Queues, moment: int, what: int) -> None:
    sift_up(queues.due, queues.what, queues.counts[1], moment, what)
    queues.counts[1] += 1


@njit(cache=True)
def _tell(hop: int, trees: Trees, left: Int32Array, state: _State, hops: _Hops) -> None:
    """Deliver a hop."""
    pieces, nodes = trees.parent[UP].shape
    way, rest = divmod(hop, pieces * nodes)
    piece, node = divmod(rest, nodes)
    if way == DOWN:
        _descend(piece, node, trees, state, hops)
        return
    node = trees.parent[UP, piece, node]
    left[piece, node] -= 1
    if left[piece, node] == 0:
        _climb(piece, node, trees, state, hops)

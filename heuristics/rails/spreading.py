"""A plane spreads what its rails bring: each link, whenever it is free, sends all that is new.

Every place of the plane has a *stream* of pieces, which come to all places at the same times and go on along
its trees (`heuristics.rails.planes`), a part of each piece along each. An *edge* is a route of a tree; it is
over for the pieces before some number. When the first link of a route is free, one message takes all pieces
of all edges of the route that its sender has and its receiver was not sent. So a link that is slow has few
messages, and little α. With some patience nothing is sent just before the next piece comes. A message holds
links as in `schedules.simulation.simulate`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from heuristics.rails.planes import Net, Trees
from topologies.exact import BoolArray, FloatArray, Int64Array, offsets_of
from topologies.graphs.heaps import pop_event, push_event

SLACK = 1e-6
"""Of the time that a unit takes: what is that late is in time."""
_MESSAGES, _PARTS, _EVENTS, _ARRIVED = range(4)


class Edges(NamedTuple):
    """The routes of all trees, sorted by route: edges begin[r] to begin[r + 1] - 1 are of route r.

    Parameters
    ----------
    begin
        int64, shape (routes + 1,).
    route, tree
        int64, shape (edges,).
    before
        int64: the edge by which its source is reached, -1 at the root.
    after, follower
        CSR of the edges that go on from each; last come those that leave roots.
    leaving
        int64, shape (places + 1,): the routes from place x are leaving[x] to leaving[x + 1] - 1.
    """

    begin: Int64Array
    route: Int64Array
    tree: Int64Array
    before: Int64Array
    after: Int64Array
    follower: Int64Array
    leaving: Int64Array


class Spread(NamedTuple):
    """The messages inside a plane, in the order in which they start.

    Message m goes over route[m] from start[m]; it has the parts first[m] to first[m + 1] - 1, part i being
    the pieces low[i] to high[i] - 1 of the tree of edge[i].
    """

    route: Int64Array
    start: FloatArray
    first: Int64Array
    edge: Int64Array
    low: Int64Array
    high: Int64Array


def edges_of(net: Net, trees: Trees) -> Edges:
    """Return the edges of trees."""
    tree, place = np.nonzero(trees.route >= 0)
    route = trees.route[tree, place]
    order = np.argsort(route, kind="stable")
    number = np.full(trees.route.shape, -1, dtype=np.int64)
    number[tree[order], place[order]] = np.arange(len(order))
    before = number[tree, net.source[route]][order]
    above = np.where(before < 0, len(before), before)
    return Edges(
        offsets_of(np.bincount(route, minlength=len(net.source))),
        route[order],
        tree[order],
        before,
        offsets_of(np.bincount(above, minlength=len(before) + 1)),
        np.argsort(above, kind="stable"),
        offsets_of(np.bincount(net.source, minlength=net.places)),
    )


def amounts(trees: Trees, size: Int64Array) -> Int64Array:
    """Return how many units of the first pieces each tree has, (pieces + 1, trees), given units of pieces."""
    before = np.concatenate([[0.0], np.cumsum(trees.share)])[:-1]
    before -= before[np.searchsorted(trees.root, trees.root)]
    last = np.append(np.diff(trees.root) > 0, True)
    low = np.rint(size[:, None] * before).astype(np.int64)
    high = np.where(last, size[:, None], np.roll(low, -1, axis=1))
    return np.concatenate([np.zeros((1, len(before)), np.int64), np.cumsum(high - low, axis=0)])


class _State(NamedTuple):
    """What each edge was sent and has brought, in pieces; units new to each route; when links are free.

    `counts` holds messages, parts, events, and pieces that have come.
    """

    total: Int64Array
    sent: Int64Array
    got: Int64Array
    news: Int64Array
    free: FloatArray
    when: FloatArray
    agenda: Int64Array
    touched: BoolArray
    counts: Int64Array


@njit(cache=True)
def spread(
    net: Net, edges: Edges, arrive: FloatArray, total: Int64Array, patience: float
) -> tuple[Spread, float]:
    """Return the messages, and when the last is complete.

    Invariant: before links send at a moment, all that is over by then has been told.

    Parameters
    ----------
    net, edges
        The plane.
    arrive
        Seconds, shape (pieces,), non-decreasing.
    total
        Shape (pieces + 1, trees): see `amounts`.
    patience
        Seconds: nothing is sent if the next piece comes so soon.
    """
    most = len(arrive) * len(edges.tree)
    made = Spread(
        np.empty(most, np.int64),
        np.empty(most),
        np.zeros(most + 1, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
    )
    state = _nothing(net, edges, total, most)
    counts, slack, end = state.counts, SLACK * net.seconds.min(), 0.0
    while counts[_EVENTS] > 0 or counts[_ARRIVED] < len(arrive):
        now = np.inf if counts[_EVENTS] == 0 else state.when[state.agenda[0]]
        if counts[_ARRIVED] < len(arrive):
            now = min(now, arrive[counts[_ARRIVED]])
        while counts[_ARRIVED] < len(arrive) and arrive[counts[_ARRIVED]] <= now + slack:
            counts[_ARRIVED] += 1
            _tell_of(len(edges.tree), counts[_ARRIVED] - 1, counts[_ARRIVED], edges, state)
            state.touched[:] = True
        while counts[_EVENTS] > 0 and state.when[state.agenda[0]] <= now + slack:
            event = pop_event(state.agenda, state.when, counts[_EVENTS])
            counts[_EVENTS] -= 1
            _tell(event, net, edges, made, state)
        if counts[_ARRIVED] < len(arrive) and arrive[counts[_ARRIVED]] <= now + patience:
            continue
        for place in np.flatnonzero(state.touched):
            state.touched[place] = False
            route = _next_route(place, now + slack, net, edges, state)
            while route >= 0:
                end = max(end, _go(route, now, net, edges, made, state))
                route = _next_route(place, now + slack, net, edges, state)
    messages, parts = counts[_MESSAGES], counts[_PARTS]
    return Spread(
        made.route[:messages].copy(),
        made.start[:messages].copy(),
        made.first[: messages + 1].copy(),
        made.edge[:parts].copy(),
        made.low[:parts].copy(),
        made.high[:parts].copy(),
    ), end


@njit(cache=True)
def _nothing(net: Net, edges: Edges, total: Int64Array, most: int) -> _State:
    """Return the state in which nothing has come or gone."""
    return _State(
        total,
        np.zeros(len(edges.tree), np.int64),
        np.zeros(len(edges.tree), np.int64),
        np.zeros(len(net.source), np.int64),
        np.zeros(len(net.seconds)),
        np.empty(2 * most),
        np.empty(2 * most, np.int64),
        np.zeros(net.places, np.bool_),
        np.zeros(4, np.int64),
    )


@njit(cache=True)
def _tell(event: int, net: Net, edges: Edges, made: Spread, state: _State) -> None:
    """Let the sender know that its link is free, or the receiver what it has."""
    message = event // 2
    route = made.route[message]
    if event % 2 == 0:
        state.touched[net.source[route]] = True
        return
    state.touched[net.target[route]] = True
    for part in range(made.first[message], made.first[message + 1]):
        edge = made.edge[part]
        _tell_of(edge, state.got[edge], made.high[part], edges, state)
        state.got[edge] = made.high[part]


@njit(cache=True)
def _tell_of(edge: int, low: int, high: int, edges: Edges, state: _State) -> None:
    """Let the edges after one, or those that leave roots, know of these pieces."""
    for follower in edges.follower[edges.after[edge] : edges.after[edge + 1]]:
        tree = edges.tree[follower]
        state.news[edges.route[follower]] += state.total[high, tree] - state.total[low, tree]


@njit(cache=True)
def _next_route(place: int, until: float, net: Net, edges: Edges, state: _State) -> int:
    """Return the route from a place, of those that are free and have something new, with the most; or -1.

    Through switches, one whose second link is soonest free goes first.
    """
    best, most, soonest = -1, 0, np.inf
    for route in range(edges.leaving[place], edges.leaving[place + 1]):
        if state.news[route] == 0 or state.free[net.first[route]] > until:
            continue
        enters = until
        if net.second[route] >= 0:
            enters = max(until, state.free[net.second[route]] - net.alpha[net.first[route]])
        if enters < soonest or (enters == soonest and state.news[route] > most):
            best, most, soonest = route, state.news[route], enters
    return best


@njit(cache=True)
def _go(route: int, now: float, net: Net, edges: Edges, made: Spread, state: _State) -> float:
    """Send all that is new over a route; return when it is complete."""
    counts = state.counts
    message, part = counts[_MESSAGES], counts[_PARTS]
    for edge in range(edges.begin[route], edges.begin[route + 1]):
        held = counts[_ARRIVED] if edges.before[edge] < 0 else state.got[edges.before[edge]]
        if state.total[held, edges.tree[edge]] > state.total[state.sent[edge], edges.tree[edge]]:
            made.edge[part], made.low[part], made.high[part] = edge, state.sent[edge], held
            state.sent[edge] = held
            part += 1
    first, second = net.first[route], net.second[route]
    start, free, news = max(now, state.free[first]), state.free, state.news[route]
    made.route[message], made.start[message], made.first[message + 1] = route, start, part
    counts[_MESSAGES], counts[_PARTS], state.news[route] = message + 1, part, 0
    tail = free[first] = start + net.alpha[first] + news * net.seconds[first]
    if second >= 0:
        entered = max(start + net.alpha[first], free[second])
        free[second] = entered + net.alpha[second] + news * net.seconds[second]
        tail = max(tail + net.alpha[second], free[second])
    state.when[2 * message], state.when[2 * message + 1] = free[first], tail
    for event in (2 * message, 2 * message + 1):
        push_event(state.agenda, state.when, counts[_EVENTS], event)
        counts[_EVENTS] += 1
    return tail

"""A plane spreads the data that its rails bring: each link, whenever it is free, sends all that is new.

Every place of the plane has a *stream* of pieces, which come to all places at the same times. They continue
along its trees (`heuristics.rails.planes`), a part of each piece along each tree. An *edge* is a route of a
tree; it has sent all pieces before some number. When the first link of a route is free, one message takes all
pieces of all edges of the route that its sender has and its receiver was not sent. So a slow link has few
messages, and little α. With some patience nothing is sent just before the next piece comes. A message holds
links as in `schedules.simulation.simulate`.

This does not use `schedules.list_scheduling.kernel`, which schedules single transfers by priority. Here
nothing has a priority, and the pieces that an edge has received or sent are ranges, two numbers for any
pieces.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.heuristics.rails.machines import SLACK
from tutti.heuristics.rails.planes import Net, Trees
from tutti.topologies.exact import BoolArray, FloatArray, Int64Array, offsets_of
from tutti.topologies.graphs.heaps import pop_event, push_event
from tutti.topologies.kernels import kernel

_MESSAGES, _PARTS, _EVENTS, _ARRIVED = range(4)


class RouteEdges(NamedTuple):
    """The routes of all trees, sorted by route: edges begin[r] to begin[r + 1] - 1 are of route r.

    Parameters
    ----------
    begin
        int64, shape (routes + 1,).
    route, tree
        int64, shape (edges,): the route and the tree of each edge.
    before
        int64: the edge by which its source is reached, -1 at the root.
    after, follower
        CSR of the edges that continue each edge; last come those that leave roots.
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


def edges_of(net: Net, trees: Trees) -> RouteEdges:
    """Return the edges of trees."""
    tree, place = np.nonzero(trees.route >= 0)
    route = trees.route[tree, place]
    order = np.argsort(route, kind="stable")
    number = np.full(trees.route.shape, -1, dtype=np.int64)
    number[tree[order], place[order]] = np.arange(len(order))
    before = number[tree, net.source[route]][order]
    above = np.where(before < 0, len(before), before)
    return RouteEdges(
        offsets_of(np.bincount(route, minlength=len(net.source))),
        route[order],
        tree[order],
        before,
        offsets_of(np.bincount(above, minlength=len(before) + 1)),
        np.argsort(above, kind="stable"),
        offsets_of(np.bincount(net.source, minlength=net.places)),
    )


def amounts(trees: Trees, size: Int64Array) -> Int64Array:
    """Return the units of the first pieces in each tree, (pieces + 1, trees), given units of pieces."""
    before = np.concatenate([[0.0], np.cumsum(trees.share)])[:-1]
    before -= before[np.searchsorted(trees.root, trees.root)]
    last = np.append(np.diff(trees.root) > 0, True)
    low = np.rint(size[:, None] * before).astype(np.int64)
    high = np.where(last, size[:, None], np.roll(low, -1, axis=1))
    return np.concatenate([np.zeros((1, len(before)), np.int64), np.cumsum(high - low, axis=0)])


class _SpreadProgress(NamedTuple):
    """The pieces that each edge was sent and has brought; units new to each route; when links are free.

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


@kernel
def spread(
    net: Net, edges: RouteEdges, arrive: FloatArray, total: Int64Array, patience: float
) -> tuple[Spread, float]:
    """Return the messages, and when the last is complete.

    Parameters
    ----------
    net, edges
        The plane.
    arrive
        Seconds, shape (pieces,), non-decreasing.
    total
        Shape (pieces + 1, trees): see `amounts`.
    patience
        Seconds: nothing is sent if the next piece comes within this time.
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
    progress = _SpreadProgress(
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
    counts, slack, end = progress.counts, SLACK * net.seconds.min(), 0.0
    while counts[_EVENTS] > 0 or counts[_ARRIVED] < len(arrive):
        now = np.inf if counts[_EVENTS] == 0 else progress.when[progress.agenda[0]]
        if counts[_ARRIVED] < len(arrive):
            now = min(now, arrive[counts[_ARRIVED]])
        while counts[_ARRIVED] < len(arrive) and arrive[counts[_ARRIVED]] <= now + slack:
            counts[_ARRIVED] += 1
            _notify_followers(len(edges.tree), counts[_ARRIVED] - 1, counts[_ARRIVED], edges, progress)
            progress.touched[:] = True
        while counts[_EVENTS] > 0 and progress.when[progress.agenda[0]] <= now + slack:
            event = pop_event(progress.agenda, progress.when, counts[_EVENTS])
            counts[_EVENTS] -= 1
            _notify(event, net, edges, made, progress)
        if counts[_ARRIVED] < len(arrive) and arrive[counts[_ARRIVED]] <= now + patience:
            continue
        # Invariant: before links send at a moment, all messages that ended by then have notified followers.
        for place in np.flatnonzero(progress.touched):
            progress.touched[place] = False
            route = _next_route(place, now + slack, net, edges, progress)
            while route >= 0:
                end = max(end, _send(route, now, net, edges, made, progress))
                route = _next_route(place, now + slack, net, edges, progress)
    messages, parts = counts[_MESSAGES], counts[_PARTS]
    return Spread(
        made.route[:messages].copy(),
        made.start[:messages].copy(),
        made.first[: messages + 1].copy(),
        made.edge[:parts].copy(),
        made.low[:parts].copy(),
        made.high[:parts].copy(),
    ), end


@kernel
def _notify(event: int, net: Net, edges: RouteEdges, made: Spread, progress: _SpreadProgress) -> None:
    """Notify the sender that its link is free, or the receiver of what it has."""
    message = event // 2
    route = made.route[message]
    if event % 2 == 0:
        progress.touched[net.source[route]] = True
        return
    progress.touched[net.target[route]] = True
    for part in range(made.first[message], made.first[message + 1]):
        edge = made.edge[part]
        _notify_followers(edge, progress.got[edge], made.high[part], edges, progress)
        progress.got[edge] = made.high[part]


@kernel
def _notify_followers(edge: int, low: int, high: int, edges: RouteEdges, progress: _SpreadProgress) -> None:
    """Notify the edges after one, or those that leave roots, of pieces low to high - 1."""
    for follower in edges.follower[edges.after[edge] : edges.after[edge + 1]]:
        tree = edges.tree[follower]
        progress.news[edges.route[follower]] += progress.total[high, tree] - progress.total[low, tree]


@kernel
def _next_route(place: int, until: float, net: Net, edges: RouteEdges, progress: _SpreadProgress) -> int:
    """Return the free route from a place that has most new data; -1 if none has any.

    Of routes through switches, the one whose second link is free first is taken.
    """
    best, most, soonest = -1, 0, np.inf
    for route in range(edges.leaving[place], edges.leaving[place + 1]):
        if progress.news[route] == 0 or progress.free[net.first[route]] > until:
            continue
        enters = until
        if net.second[route] >= 0:
            enters = max(until, progress.free[net.second[route]] - net.alpha[net.first[route]])
        if enters < soonest or (enters == soonest and progress.news[route] > most):
            best, most, soonest = route, progress.news[route], enters
    return best


@kernel
def _send(
    route: int, now: float, net: Net, edges: RouteEdges, made: Spread, progress: _SpreadProgress
) -> float:
    """Send all that is new over a route; return when it is complete."""
    counts = progress.counts
    message, part = counts[_MESSAGES], counts[_PARTS]
    for edge in range(edges.begin[route], edges.begin[route + 1]):
        held = counts[_ARRIVED] if edges.before[edge] < 0 else progress.got[edges.before[edge]]
        if progress.total[held, edges.tree[edge]] > progress.total[progress.sent[edge], edges.tree[edge]]:
            made.edge[part], made.low[part], made.high[part] = edge, progress.sent[edge], held
            progress.sent[edge] = held
            part += 1
    first, second = net.first[route], net.second[route]
    start, free, news = max(now, progress.free[first]), progress.free, progress.news[route]
    made.route[message], made.start[message], made.first[message + 1] = route, start, part
    counts[_MESSAGES], counts[_PARTS], progress.news[route] = message + 1, part, 0
    tail = free[first] = start + net.alpha[first] + news * net.seconds[first]
    # The second link is entered α after the first, or once it is free.
    if second >= 0:
        entered = max(start + net.alpha[first], free[second])
        free[second] = entered + net.alpha[second] + news * net.seconds[second]
        tail = max(tail + net.alpha[second], free[second])
    progress.when[2 * message], progress.when[2 * message + 1] = free[first], tail
    for event in (2 * message, 2 * message + 1):
        push_event(progress.agenda, progress.when, counts[_EVENTS], event)
        counts[_EVENTS] += 1
    return tail

"""Planes joined by rails: P copies of one local network, and for each place in it a network of its copies.

Rank (p, x) is at place x of plane p. The ranks of one place are a *rail*: all on one switch by a link each
way, or joined by links, one each way between any two. All else is local: links inside a plane, and switches
that only its ranks are on.

Inside a plane each place has a bundle of spanning trees, which together load its links evenly. A tree is made
of routes. Tree t of place x moves a share w(x, t) of the stream that comes to x. The load of a link is the
share of all streams that crosses it times its seconds a byte; the largest load should be small. Trees are
added in rounds, so that each bundle's shares fall as 1/round (Brown, fictitious play, 1951). Against the
loads so far, a tree of about the least price grows from its place by the cheapest route that leaves it (Prim,
1957). The price of a link is its seconds a byte times exp(η load/largest load). All wait for the last hops of
the last message, so each place may be only some hops farther than necessary.

Inside a plane each link, whenever it is free, sends all that is new. Every place has a *stream* of pieces,
which come to all places at the same times. They continue along its trees, a part of each piece along each
tree. An *edge* is a route of a tree; it has sent all pieces before some number. When the first link of a
route is free, one message takes all pieces of all edges of the route that its sender has and its receiver was
not sent. So a slow link has few messages, and little α. With some patience nothing is sent just before the
next piece comes. A message holds links as in `schedules.simulation.simulate`.

The spreading does not use `schedules.list_scheduling.kernel`, which schedules single transfers by priority.
Here nothing has a priority, and the pieces that an edge has received or sent are ranges, two numbers for any
pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tutti.heuristics.rails.machines import SLACK
from tutti.topologies.exact import NONE, BoolArray, FloatArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.grid_structure import Hosts, grid_of, hosts_of
from tutti.topologies.graphs.heaps import pop_event, push_event
from tutti.topologies.graphs.shortest_paths import UNREACHABLE, hops_from_each
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Neighbours, Topology


@dataclass(frozen=True, eq=False)
class Local:
    """The routes between the places of a plane, which are the same in all planes.

    Parameters
    ----------
    source, target
        int64, shape (routes,): places.
    links
        int64, shape (planes, routes, 2): one link, and -1, or two, through a switch.
    """

    source: Int64Array
    target: Int64Array
    links: Int64Array


@dataclass(frozen=True, eq=False)
class Planes:
    """A network of planes and rails.

    Parameters
    ----------
    rank
        int64, shape (P, L): the rank at each place of each plane.
    rail
        int64, shape (P - 1, P, L, 2): the links from (p - g, x) to (p, x) are rail[g - 1, p, x], as in
        `Local.links`.
    local
        The network of a plane.
    """

    rank: Int64Array
    rail: Int64Array
    local: Local

    @property
    def switched(self) -> bool:
        """Whether rails are switches, so that a rank has one link for all of its rail."""
        return bool(self.rail[0, 0, 0, 1] != NONE)


def planes_of(topology: Topology) -> list[Planes]:
    """Return the divisions of a network into planes joined by rails: by its machines, or by a dimension."""
    found = (_planes(topology, rank) for rank in _ranks(topology))
    return [planes for planes in found if planes is not None]


def _ranks(topology: Topology) -> Iterator[Int64Array]:
    """Yield the possible tables of ranks by plane and place, each once."""
    hosts, grid, seen = hosts_of(topology), grid_of(topology), set()
    found = [hosts.ranks] if isinstance(hosts, Hosts) else []
    if grid is not None:
        lines = (np.moveaxis(grid.ranks, dimension, 0) for dimension in range(len(grid.shape)))
        found += [np.ascontiguousarray(ranks).reshape(len(ranks), -1) for ranks in lines]
    for rank in found:
        if min(rank.shape) > 1 and rank.tobytes() not in seen:
            seen.add(rank.tobytes())
            yield rank


def _planes(topology: Topology, rank: Int64Array) -> Planes | None:
    """Return the planes with these ranks, if they fit the definition."""
    planes, places = rank.shape
    plane, place = np.full((2, topology.num_nodes), NONE, dtype=np.int64)
    plane[rank.ravel()], place[rank.ravel()] = np.divmod(np.arange(rank.size), places)
    ways = _ways(topology)
    if ways is None:
        return None
    ends = _ends(topology, ways)
    inside, along = (at[ends[0]] == at[ends[1]] for at in (plane, place))
    # A switch with ranks of two planes belongs to no plane: two messages of a plane cannot meet there.
    across = np.zeros(topology.num_nodes, dtype=np.bool_)
    across[topology.target[ways[~inside, 0]]] = True
    meeting = (ways[:, 1] >= 0) & across[topology.target[ways[:, 0]]]
    rail = _rail(topology, rank, plane, place, ways[~inside & along])
    local = _local(plane, place, planes, ways[inside & ~meeting], topology)
    # A link between different places of different planes must be through a switch of several rails.
    stray = ~inside & ~along & ~meeting
    if rail is None or local is None or stray.any():
        return None
    apart = (_hops(places, local.source, local.target) == places).any()
    return None if apart else Planes(rank, rail, local)


def _ways(topology: Topology) -> Int64Array | None:
    """Return the links (link, -1) and pairs of links through a switch by which ranks are joined.

    None if a switch is linked to a switch.
    """
    ranks, source, target = topology.num_ranks, topology.source, topology.target
    if ((source >= ranks) & (target >= ranks)).any():
        return None
    direct = np.flatnonzero((source < ranks) & (target < ranks))
    parts = [np.stack([direct, np.full(len(direct), NONE)], axis=1)]
    for switch in range(ranks, topology.num_nodes):
        into, out = np.flatnonzero(target == switch), np.flatnonzero(source == switch)
        pairs = np.stack([np.repeat(into, len(out)), np.tile(out, len(into))], axis=1)
        parts.append(pairs[source[pairs[:, 0]] != target[pairs[:, 1]]])
    return np.concatenate(parts).astype(np.int64)


def _ends(topology: Topology, ways: Int64Array) -> tuple[Int32Array, Int32Array]:
    """Return the first and last nodes of links, or of pairs of links."""
    last = np.where(ways[:, 1] < 0, ways[:, 0], ways[:, 1])
    return topology.source[ways[:, 0]], topology.target[last]


def _rail(
    topology: Topology, rank: Int64Array, plane: Int64Array, place: Int64Array, ways: Int64Array
) -> Int64Array | None:
    """Return `Planes.rail`; None if a pair has not exactly one link or pair of links, or these differ."""
    planes, places = rank.shape
    source, target = _ends(topology, ways)
    shift = (plane[target] - plane[source]) % planes
    cell = ((shift - 1) * planes + plane[target]) * places + place[target]
    if not np.array_equal(np.sort(cell), np.arange((planes - 1) * rank.size)):
        return None
    kinds = _kinds(topology, ways)
    if (kinds != kinds[0]).any():
        return None
    return ways[np.argsort(cell)].reshape(planes - 1, planes, places, 2)


def _kinds(topology: Topology, ways: Int64Array) -> Int64Array:
    """Return numbers that say which links have equal bandwidth and α, 0 where there is none."""
    values = np.stack([topology.bandwidth.numerators, topology.alpha.numerators])
    kind = np.unique(values, axis=1, return_inverse=True)[1].ravel() + 1
    return np.asarray(kind[ways] * (ways >= 0))


def _local(
    plane: Int64Array, place: Int64Array, planes: int, ways: Int64Array, topology: Topology
) -> Local | None:
    """Return the routes of a plane; None if planes differ."""
    source, target = _ends(topology, ways)
    if len(ways) == 0 or len(ways) % planes:
        return None
    kind = _kinds(topology, ways)
    order = np.lexsort((*ways.T, *kind.T, place[target], place[source], plane[source]))
    if not np.array_equal(plane[source[order]], np.repeat(np.arange(planes), len(ways) // planes)):
        return None
    columns = np.stack([place[source], place[target], *kind.T])[:, order].reshape(4, planes, -1)
    links = ways[order].reshape(planes, -1, 2)
    shared = np.stack([_by_first_use(plane) for plane in links.reshape(planes, -1)])
    if (columns != columns[:, :1]).any() or (shared != shared[0]).any():  # routes share other links
        return None
    return Local(columns[0, 0], columns[1, 0], links)


def _by_first_use(links: Int64Array) -> Int64Array:
    """Return the links renumbered by the order in which they occur."""
    _, first, which = np.unique(links, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[which.ravel()], dtype=np.int64)


def _hops(places: int, source: Int64Array, target: Int64Array) -> Int64Array:
    """Return the least number of routes from place to place; `places` where none lead there."""
    hops = hops_from_each(Neighbours.of(source, target, places), np.arange(places)).astype(np.int64)
    return np.where(hops == UNREACHABLE, places, hops)


STEEPNESS = 12.0
"""η. A larger value avoids loaded links more."""


class Net(NamedTuple):
    """The routes of a plane: source, target, links (first, second or -1); α and seconds a unit of links."""

    places: int
    source: Int64Array
    target: Int64Array
    first: Int64Array
    second: Int64Array
    alpha: FloatArray
    seconds: FloatArray


def net_of(local: Local, places: int, alpha: FloatArray, seconds: FloatArray) -> Net:
    """Return the network of the first plane, given α and seconds a unit of all links of the topology."""
    used, link = np.unique(local.links[0], return_inverse=True)
    link = link.reshape(-1, 2).astype(np.int64) - int(used[0] < 0)
    used = used[used >= 0]
    return Net(places, local.source, local.target, link[:, 0], link[:, 1], alpha[used], seconds[used])


@dataclass(frozen=True, eq=False)
class Trees:
    """The trees of all places.

    Parameters
    ----------
    root
        int64, shape (trees,), non-decreasing.
    share
        float64, shape (trees,): fraction of the stream of the root; those of one root add up to 1.
    route
        int64, shape (trees, places): the route by which each place is reached, -1 for the root.
    """

    root: Int64Array
    share: FloatArray
    route: Int64Array


def trees_of(net: Net, slack: int, rounds: int) -> Trees:
    """Return trees in which no place is more than `slack` hops farther from the root than necessary."""
    grown = _grown(net, _hops(net.places, net.source, net.target), slack, rounds)
    table = np.column_stack([np.tile(np.arange(net.places), rounds), grown.reshape(-1, net.places)])
    found, count = np.unique(table, axis=0, return_counts=True)
    return Trees(found[:, 0], count / rounds, found[:, 1:])


@kernel
def _grown(net: Net, hops: Int64Array, slack: int, rounds: int) -> Int64Array:
    """Return the routes of each round's trees, (rounds, places, places); invariant: `load` is their load."""
    routes = np.full((rounds, net.places, net.places), -1, np.int64)
    load = np.zeros(len(net.seconds))
    price = np.zeros(len(net.seconds))
    for number in range(rounds):
        for root in range(net.places):
            most = max(load.max(), 1e-300)
            for link in range(len(load)):
                # The price of a link grows exponentially with its load, as in approximations of
                # multicommodity flows.
                price[link] = net.seconds[link] * np.exp(STEEPNESS * load[link] / most)
            tree = routes[number, root]
            _grow(net, price, hops[root], slack, root, tree)
            for place in range(net.places):
                if tree[place] >= 0:
                    load[net.first[tree[place]]] += net.seconds[net.first[tree[place]]]
                    if net.second[tree[place]] >= 0:
                        load[net.second[tree[place]]] += net.seconds[net.second[tree[place]]]
    return routes


@kernel
def _grow(net: Net, price: FloatArray, hops: Int64Array, slack: int, root: int, tree: Int64Array) -> None:
    """Grow a tree, by the cheapest route that leads to a new place in each step."""
    depth = np.full(net.places, -1, np.int64)
    depth[root] = 0
    for _ in range(net.places - 1):
        best, least = -1, np.inf
        for route in range(len(net.source)):
            source, target = net.source[route], net.target[route]
            if depth[source] < 0 or depth[target] >= 0 or depth[source] + 1 > hops[target] + slack:
                continue
            cost = price[net.first[route]]
            if net.second[route] >= 0:
                cost += price[net.second[route]]
            if cost < least:
                best, least = route, cost
        tree[net.target[best]] = best
        depth[net.target[best]] = depth[net.source[best]] + 1


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
    columns, pieces = np.empty((4, most), np.int64), np.zeros((2, len(edges.tree)), np.int64)
    first = np.zeros(most + 1, np.int64)
    made = Spread(columns[0], np.empty(most), first, columns[1], columns[2], columns[3])
    progress = _SpreadProgress(
        total,
        pieces[0],
        pieces[1],
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

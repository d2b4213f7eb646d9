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
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tutti.topologies.exact import NONE, FloatArray, Int32Array, Int64Array
from tutti.topologies.graphs.grid_structure import Hosts, grid_of, hosts_of
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
    rail = ways[np.argsort(cell)]
    if not _alike(topology, rail):
        return None
    return rail.reshape(planes - 1, planes, places, 2)


def _alike(topology: Topology, ways: Int64Array) -> bool:
    """Whether all have the same bandwidth and α, link by link."""
    if ((ways[:, 1] < 0) != (ways[0, 1] < 0)).any():
        return False
    links = ways[:, : 1 if ways[0, 1] < 0 else 2]
    return all(
        (values[links] == values[links[0, 0]]).all()
        for values in (topology.bandwidth.numerators, topology.alpha.numerators)
    )


def _local(
    plane: Int64Array, place: Int64Array, planes: int, ways: Int64Array, topology: Topology
) -> Local | None:
    """Return the routes of a plane; None if planes differ."""
    source, target = _ends(topology, ways)
    if len(ways) == 0 or len(ways) % planes:
        return None
    values = np.stack([topology.bandwidth.numerators, topology.alpha.numerators])
    kind = (np.unique(values, axis=1, return_inverse=True)[1].ravel() + 1)[ways] * (ways >= 0)
    order = np.lexsort((*ways.T, *kind.T, place[target], place[source], plane[source]))
    if not np.array_equal(plane[source[order]], np.repeat(np.arange(planes), len(ways) // planes)):
        return None
    columns = np.stack([place[source], place[target], *kind.T])[:, order].reshape(4, planes, -1)
    links = ways[order].reshape(planes, -1, 2)
    if (columns != columns[:, :1]).any() or not _joined_alike(links):
        return None
    return Local(columns[0, 0], columns[1, 0], links)


def _joined_alike(links: Int64Array) -> bool:
    """Whether the same routes share links in all planes."""
    flat = links.reshape(len(links), -1)
    return all(np.array_equal(_by_first_use(plane), _by_first_use(flat[0])) for plane in flat)


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

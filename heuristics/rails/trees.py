r"""Spanning trees of a plane, one bundle from each place, that load its links evenly.

A tree is made of routes. Tree t of place x moves a share w(x, t) of the stream that comes to x; the load of
a link is the share of all streams that crosses it times its seconds a byte, and the largest load is to be
small. Trees are added in rounds, each bundle's share going down as 1/round (Brown, fictitious play, 1951):
against the loads so far, a tree of about the least price grows from its place by the cheapest route that
leaves it (Prim, 1957), the price of a link being its seconds a byte times exp(η load/largest load). The
last hops of the last message are waited for, so no place is more than some hops farther than it need be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from heuristics.rails.planes import Local
from topologies.exact import FloatArray, Int64Array

STEEPNESS = 12.0
"""η."""


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
        float64, shape (trees,): of the stream of the root; those of one root add up to 1.
    route
        int64, shape (trees, places): by which each place is reached, -1 for the root.
    """

    root: Int64Array
    share: FloatArray
    route: Int64Array


def trees_of(net: Net, slack: int, rounds: int) -> Trees:
    """Return trees in which no place is more than `slack` hops farther from the root than it need be."""
    grown = _grown(net, _hops(net), slack, rounds)
    root = np.tile(np.arange(net.places), rounds)
    table = np.column_stack([root, grown.reshape(-1, net.places)])
    found, count = np.unique(table, axis=0, return_counts=True)
    return Trees(found[:, 0], count / rounds, found[:, 1:])


def load_of(net: Net, trees: Trees) -> float:
    """Return the largest load of a link: seconds, if a unit comes to each place."""
    load = np.zeros(len(net.seconds) + 1)  # the last for what is no link
    used = trees.route >= 0
    share = np.broadcast_to(trees.share[:, None], used.shape)[used]
    for link in (net.first, net.second):
        np.add.at(load, link[trees.route[used]], share)
    return float((load[:-1] * net.seconds).max())


def _hops(net: Net) -> Int64Array:
    """Return the least number of routes from place to place."""
    hops = np.full((net.places, net.places), net.places, dtype=np.int64)
    np.fill_diagonal(hops, 0)
    for _ in range(net.places):
        further = hops.copy()
        np.minimum.at(further.T, net.target, hops.T[net.source] + 1)
        if (further == hops).all():
            break
        hops = further
    return hops


@njit(cache=True)
def _grown(net: Net, hops: Int64Array, slack: int, rounds: int) -> Int64Array:
    """Return the routes of each round's trees, (rounds, places, places); invariant: `load` is their load."""
    routes = np.full((rounds, net.places, net.places), -1, np.int64)
    load = np.zeros(len(net.seconds))
    price = np.zeros(len(net.seconds))
    for number in range(rounds):
        for root in range(net.places):
            most = max(load.max(), 1e-300)
            for link in range(len(load)):
                price[link] = net.seconds[link] * np.exp(STEEPNESS * load[link] / most)
            tree = routes[number, root]
            _grow(net, price, hops[root], slack, root, tree)
            for place in range(net.places):
                if tree[place] >= 0:
                    load[net.first[tree[place]]] += net.seconds[net.first[tree[place]]]
                    if net.second[tree[place]] >= 0:
                        load[net.second[tree[place]]] += net.seconds[net.second[tree[place]]]
    return routes


@njit(cache=True)
def _grow(net: Net, price: FloatArray, hops: Int64Array, slack: int, root: int, tree: Int64Array) -> None:
    """Grow a tree: by the route of least price of those that lead on."""
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

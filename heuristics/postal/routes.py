"""Between which nodes one message goes: a link, or links through switches that only forward."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from schedules.schedule import Routes
from topologies.exact import BoolArray, Int32Array, Int64Array, offsets_of
from topologies.grids import grid_of, machines_of
from topologies.permutations import link_permutation
from topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class Network:
    """The routes of single messages, in classes that are used together.

    Parameters
    ----------
    routes
        Over links.
    source, target
        int32, shape (routes,): the ends, ranks or switches that multicast.
    classes
        int64, shape (classes + 1,): the routes of class i are classes[i]..classes[i + 1] - 1.
    """

    routes: Routes
    source: Int32Array
    target: Int32Array
    classes: Int64Array

    @classmethod
    def of(cls, topology: Topology, symmetries: list[Int32Array]) -> Network:
        """Return all routes of a network, each together with its images under symmetries.

        A class whose routes share a link is left out: its messages could not go at once.

        Parameters
        ----------
        topology
            The network.
        symmetries
            Permutations of the links, int32 (links,).
        """
        found = dict.fromkeys(single_messages(topology))
        classes = [one for one in _orbits(found, symmetries) if _disjoint(one)]
        routes = Routes.of([route for one in classes for route in one])
        return cls(
            routes,
            topology.source[routes.links[routes.offsets[:-1]]],
            topology.target[routes.links[routes.offsets[1:] - 1]],
            offsets_of([len(one) for one in classes]),
        )


def single_messages(topology: Topology) -> Iterator[tuple[int, ...]]:
    """Yield, for each link out of a node that keeps data, the way of least α over it to each other one.

    Ranks keep data, and switches that can multicast.
    """
    keeps = np.arange(topology.num_nodes) < topology.num_ranks
    keeps[[*topology.multicast]] = True
    for link in range(topology.num_links):
        if keeps[topology.source[link]]:
            yield from _ways_over(topology, link, keeps)


def _ways_over(topology: Topology, first: int, keeps: BoolArray) -> Iterator[tuple[int, ...]]:
    offsets, links = topology.out_links
    alpha, target = topology.alpha.numerators, topology.target
    done = {int(topology.source[first])}
    heap: list[tuple[int, int, tuple[int, ...]]] = [(int(alpha[first]), 1, (first,))]
    while heap:
        length, hops, way = heapq.heappop(heap)
        node = int(target[way[-1]])
        if node in done:
            continue
        done.add(node)
        if keeps[node]:
            yield way
            continue
        for link in links[offsets[node] : offsets[node + 1]].tolist():
            heapq.heappush(heap, (length + int(alpha[link]), hops + 1, (*way, link)))


def _orbits(
    routes: dict[tuple[int, ...], None], symmetries: list[Int32Array]
) -> Iterator[list[tuple[int, ...]]]:
    """Yield each route with its images, which are routes too, if perhaps others of equal α."""
    left = dict(routes)
    tables = [symmetry.tolist() for symmetry in symmetries]
    while left:
        route, _ = left.popitem()
        orbit = {route: None}
        queue = [route]
        for one in queue:
            for table in tables:
                image = tuple(table[link] for link in one)
                if image not in orbit:
                    orbit[image] = None
                    left.pop(image, None)
                    queue.append(image)
        yield list(orbit)


def _disjoint(routes: list[tuple[int, ...]]) -> bool:
    links = [link for route in routes for link in route]
    return len(links) == len(set(links))


def translations(topology: Topology) -> list[Int32Array]:
    """Return steps along each dimension of the ranks that are automorphisms, as permutations of the links.

    The dimensions are those of a grid, or machines and the ranks in each, or all ranks in one line.
    """
    grid = grid_of(topology)
    shapes = [grid.shape if grid else None, machines_of(topology), (topology.num_ranks,)]
    for shape in shapes:
        if shape is None:
            continue
        ranks = np.arange(topology.num_ranks).reshape(shape)
        rolled = (np.roll(ranks, -1, axis).reshape(-1) for axis in range(len(shape)))
        on_links = [link_permutation(topology, _with_switches(topology, one)) for one in rolled]
        found = [links for links in on_links if links is not None]
        if found:
            return found
    return []


def _with_switches(topology: Topology, ranks: Int64Array) -> Int64Array:
    """Return a permutation of the ranks, with switches that go where the neighbours of their ranks are."""
    joined: list[list[int]] = [[] for _ in range(topology.num_nodes)]
    for one, other in zip(topology.source.tolist(), topology.target.tolist(), strict=True):
        if one < topology.num_ranks:
            joined[other].append(one)
    free: dict[tuple[int, ...], list[int]] = {}
    for switch in range(topology.num_nodes - 1, topology.num_ranks - 1, -1):
        free.setdefault(tuple(sorted(joined[switch])), []).append(switch)
    image = ranks.tolist()
    for switch in range(topology.num_ranks, topology.num_nodes):
        there = free.get(tuple(sorted(image[rank] for rank in joined[switch])))
        image.append(there.pop() if there else -1)
    return np.array(image, dtype=np.int64)

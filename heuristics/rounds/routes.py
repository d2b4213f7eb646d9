"""The routes of single messages, and the network's translations, which take routes to others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tutti.schedules.schedule import Routes
from tutti.topologies.exact import Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.grid_structure import grid_of
from tutti.topologies.graphs.shortest_paths import Route, nearest_first
from tutti.topologies.graphs.symmetry import link_permutation
from tutti.topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class MessageRoutes:
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
    def of(cls, topology: Topology, symmetries: list[Int32Array]) -> MessageRoutes:
        """Return all routes of a network, each together with its images under symmetries.

        A class whose routes share a link is left out: its messages would collide.

        Parameters
        ----------
        topology
            The network.
        symmetries
            Permutations of the links, int32 (links,).
        """
        found = dict.fromkeys(single_messages(topology))
        classes = [
            one
            for one in _orbits(found, symmetries)
            if sum(map(len, one)) == len({link for route in one for link in route})
        ]
        routes = Routes.of([route for one in classes for route in one])
        return cls(
            routes,
            topology.source[routes.links[routes.offsets[:-1]]],
            topology.target[routes.links[routes.offsets[1:] - 1]],
            offsets_of([len(one) for one in classes]),
        )


def single_messages(topology: Topology, origin: int | None = None) -> list[Route]:
    """Return, for each link out of a node that keeps data, the route of least α over it to each other one.

    Ranks keep data, and switches that can multicast. Of routes of least α those of fewest links are taken.
    Routes come by their first link, then by α; with an origin only those from there.
    """
    keeps = [node < topology.num_ranks or node in topology.multicast for node in range(topology.num_nodes)]
    forwards = [not kept for kept in keeps]
    tails, heads = topology.source.tolist(), topology.target.tolist()
    leaving: list[list[int]] = [[] for _ in keeps]
    for link, tail in enumerate(tails):
        leaving[tail].append(link)
    # α first, then links: no route has as many links as there are nodes
    lengths = [alpha * topology.num_nodes + 1 for alpha in topology.alpha.numerators.tolist()]
    found = [
        (first, length, route)
        for first, (tail, head, length) in enumerate(zip(tails, heads, lengths, strict=True))
        if (keeps[tail] if origin is None else tail == origin)
        for length, node, route in nearest_first(
            leaving, heads, lengths, [(length, head, (first,))], forwards=forwards, by_links=True
        )
        if keeps[node] and node != tail
    ]
    return [route for _, _, route in sorted(found)]


def _orbits(routes: dict[Route, None], symmetries: list[Int32Array]) -> Iterator[list[Route]]:
    """Yield each route with its images; an image may be replaced by another route of equal α."""
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


def translations(topology: Topology) -> list[Int32Array]:
    """Return steps along each dimension of the ranks that are automorphisms, as permutations of the links.

    The dimensions are those of a grid, or all ranks in one line.
    """
    grid = grid_of(topology)
    line = np.arange(topology.num_ranks)
    for ranks in (line,) if grid is None else (grid.ranks, line):
        place = np.argsort(ranks, axis=None)
        rolled = (np.roll(ranks, -1, axis).reshape(-1)[place] for axis in range(ranks.ndim))
        on_links = [link_permutation(topology, _with_switches(topology, one)) for one in rolled]
        found = [links for links in on_links if links is not None]
        if found:
            return found
    return []


def _with_switches(topology: Topology, ranks: Int64Array) -> Int64Array:
    """Return a permutation of ranks and switches; switches go to the neighbours of their ranks' images."""
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

"""Ways from rank to rank: direct links, and routes over switches, found as they are needed.

They stand for b' of linear program (B.5): the capacity b'[α, β] that switches provide is carried by routes
from α to β over switches alone. A flow through a third rank γ would serve no better than b'[α, γ] and b'[γ,
β], since a set of ranks that α is in and β is not loses as much either way.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from topologies.exact import Int32Array
from topologies.topology import Topology

Length = TypeVar("Length", float, int)
Route = tuple[int, ...]


@dataclass
class Arcs:
    """Arcs between ranks, each over one route; they can become more.

    Parameters
    ----------
    topology
        The network.
    routes
        The links of each arc, in order.
    """

    topology: Topology
    routes: list[Route] = field(default_factory=list)
    _known: set[Route] = field(default_factory=set)

    @classmethod
    def of(cls, topology: Topology) -> Arcs:
        """Return the direct links, and for each pair that switches join a route that is wide."""
        arcs = cls(topology)
        ranks = topology.num_ranks
        direct = (topology.source < ranks) & (topology.target < ranks)
        for link in np.flatnonzero(direct).tolist():
            arcs.add((link,))
        if topology.num_switches:
            slowness = (1.0 / topology.bandwidth.floats).tolist()
            for _, route in shortest_routes(topology, slowness):
                arcs.add(route)
        return arcs

    def __len__(self) -> int:
        return len(self.routes)

    def add(self, route: Route) -> bool:
        """Add an arc; return whether it is new."""
        if route in self._known:
            return False
        self._known.add(route)
        self.routes.append(route)
        return True

    @property
    def tails(self) -> Int32Array:
        """int32, shape (arcs,)."""
        return self.topology.source[[route[0] for route in self.routes]]

    @property
    def heads(self) -> Int32Array:
        """int32, shape (arcs,)."""
        return self.topology.target[[route[-1] for route in self.routes]]


def shortest_routes(topology: Topology, lengths: Sequence[Length]) -> Iterator[tuple[Length, Route]]:
    """Yield, for each pair of ranks that switches join, the least length of a route over switches, and one.

    Parameters
    ----------
    topology
        The network.
    lengths
        One a link, none negative.
    """
    table = _switch_links(topology)
    for origin in range(topology.num_ranks):
        heap: list[tuple[Length, int, Route]] = [(lengths[a], head, (a,)) for a, head in table[origin]]
        heapq.heapify(heap)
        done = {origin}
        route: Route
        while heap:
            length, node, route = heapq.heappop(heap)
            if node in done:
                continue
            done.add(node)
            if node < topology.num_ranks:
                yield length, route
                continue
            for link, head in table[node]:
                if head not in done:
                    heapq.heappush(heap, (length + lengths[link], head, (*route, link)))


def _switch_links(topology: Topology) -> list[list[tuple[int, int]]]:
    """Return (link, target) of the links out of each node, but those that join ranks."""
    table: list[list[tuple[int, int]]] = [[] for _ in range(topology.num_nodes)]
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    for link, (source, target) in enumerate(ends):
        if max(source, target) >= topology.num_ranks:
            table[source].append((link, target))
    return table

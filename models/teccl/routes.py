"""The routes of TE-CCL's program: links between nodes that hold chunks, and paths through switches.

TE-CCL (SIGCOMM 2024, section 3.1) knows two sorts of switches, neither of which stores anything. One that
copies is a node of the program whose buffer is always empty: what arrives in an epoch leaves in it, over as
many links as it likes. One that does not only passes on, so here a route from a rank to another through such
switches is one thing to decide, as a hyper-edge is in TACCL; routes share the links that they go over, and a
link has one message at a time. Messages pass switches as the project's time clock has it, without waiting
(`schedules.message_durations`). A copying switch can be passed through, too.

Between two ranks there are their links, or else all routes of fewest links that pass switches only; a detour
over more switches is left out, and ranks that forward are part of the program anyway.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from topologies.errors import Unsupported
from topologies.topology import Topology

MOST_ROUTES = 2**14
"""Through switches: 128 ranks on one switch have 16,256."""


@dataclass(frozen=True)
class NetworkRoutes:
    """All routes of a network.

    Parameters
    ----------
    links
        The links of each route, in order; where all links are routes and nothing else is, route e is link e.
    ends
        The nodes that it leaves and enters.
    """

    links: tuple[tuple[int, ...], ...]
    ends: tuple[tuple[int, int], ...]

    @property
    def are_links(self) -> bool:
        """Whether every route is the link of its number; links to switches that only forward are none."""
        return all(links == (route,) for route, links in enumerate(self.links))

    @cached_property
    def number(self) -> dict[tuple[int, ...], int]:
        """The route that goes over these links."""
        return {links: route for route, links in enumerate(self.links)}


def routes_of(topology: Topology) -> NetworkRoutes:
    """Return the routes of a network.

    Raises
    ------
    Unsupported
        If there are more than `MOST_ROUTES` through switches.
    """
    ends = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    stops = set(range(topology.num_ranks)) | topology.multicast
    found: list[tuple[int, ...]] = [(link,) for link, (a, b) in enumerate(ends) if a in stops and b in stops]
    most = len(found) + MOST_ROUTES
    if topology.num_switches:
        out: list[list[int]] = [[] for _ in range(topology.num_nodes)]
        for link, (a, _) in enumerate(ends):
            out[a].append(link)
        for rank in range(topology.num_ranks):
            for links in _through_switches(topology.num_ranks, ends, out, rank):
                found.append(links)
                if len(found) > most:
                    raise Unsupported(
                        f"teccl: {topology.name} has over {MOST_ROUTES} routes through switches"
                    )
    return NetworkRoutes(tuple(found), tuple((ends[links[0]][0], ends[links[-1]][1]) for links in found))


def _through_switches(
    num_ranks: int, ends: list[tuple[int, int]], out: list[list[int]], rank: int
) -> Iterator[tuple[int, ...]]:
    """Yield the routes of fewest links from a rank to each other rank, those of more than one link."""
    distance, waiting = {rank: 0}, deque([rank])
    while waiting:
        node = waiting.popleft()
        for b in (ends[link][1] for link in out[node]):
            if b not in distance:
                distance[b] = distance[node] + 1
                if b >= num_ranks:
                    waiting.append(b)
    begun: list[tuple[int, ...]] = [(link,) for link in out[rank] if ends[link][1] >= num_ranks]
    while begun:
        longer = []
        for links in begun:
            at = ends[links[-1]][1]
            onward = [link for link in out[at] if distance[ends[link][1]] == len(links) + 1]
            yield from ((*links, link) for link in onward if ends[link][1] < num_ranks)
            longer += [(*links, link) for link in onward if ends[link][1] >= num_ranks]
        begun = longer

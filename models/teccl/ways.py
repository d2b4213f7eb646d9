"""What a chunk can be sent over: links between nodes that hold chunks, and routes through switches.

TE-CCL (SIGCOMM 2024, section 3.1) knows two sorts of switches, neither of which stores anything. One that
copies is a node of the program whose buffer is always empty: what arrives in an epoch leaves in it, over as
many links as it likes. One that does not only passes on, so here a rank's way to another rank through such
switches is one thing to decide, as a hyper-edge is in TACCL; ways share the links that they go over, and a
link has one message at a time. Messages pass switches as the project's time clock has it, without waiting
(`schedules.message_durations`). A copying switch can be passed through, too.

Between two ranks there are their links, or else all ways of fewest links that pass switches only; a detour
over more switches is left out, and ranks that forward are part of the program anyway.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from topologies.errors import Unsupported
from topologies.topology import Topology

MOST_WAYS = 2**14


@dataclass(frozen=True)
class Ways:
    """All ways of a network.

    Parameters
    ----------
    links
        Of each way, in order; where all links are ways and nothing else is, way e is link e.
    ends
        The nodes that it leaves and enters.
    """

    links: tuple[tuple[int, ...], ...]
    ends: tuple[tuple[int, int], ...]

    @property
    def are_links(self) -> bool:
        """Whether every way is the link of its number; links to switches that only forward are none."""
        return all(links == (way,) for way, links in enumerate(self.links))

    @cached_property
    def number(self) -> dict[tuple[int, ...], int]:
        """The way that goes over these links."""
        return {links: way for way, links in enumerate(self.links)}


def ways_of(topology: Topology) -> Ways:
    """Return the ways of a network.

    Raises
    ------
    Unsupported
        If there are more than `MOST_WAYS` through switches.
    """
    ends = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    stops = set(range(topology.num_ranks)) | topology.multicast
    found: list[tuple[int, ...]] = [(link,) for link, (a, b) in enumerate(ends) if a in stops and b in stops]
    most = len(found) + MOST_WAYS
    if topology.num_switches:
        out: list[list[int]] = [[] for _ in range(topology.num_nodes)]
        for link, (a, _) in enumerate(ends):
            out[a].append(link)
        for rank in range(topology.num_ranks):
            for links in _through_switches(topology.num_ranks, ends, out, rank):
                found.append(links)
                if len(found) > most:
                    raise Unsupported(f"teccl: {topology.name} has over {MOST_WAYS} ways through switches")
    return Ways(tuple(found), tuple((ends[links[0]][0], ends[links[-1]][1]) for links in found))


def _through_switches(
    num_ranks: int, ends: list[tuple[int, int]], out: list[list[int]], rank: int
) -> Iterator[tuple[int, ...]]:
    """Yield the ways of fewest links from a rank to each other rank, those of more than one link."""
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

"""Lines that trees may use in each epoch: links between ranks, and routes through switches that only forward.

A *line* is all parallel links from one rank to another, or from a rank into a switch and from there to
another. In each epoch a switch joins every rank at it to one other (a matching), so that no two messages meet
at a port. Lines and matchings are those of a group of automorphisms, so that a tree's images together load
all lines of an orbit equally, and one row of the linear program stands for an orbit in an epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tutti.topologies.errors import Unsupported
from tutti.topologies.exact import FloatArray, Int64Array
from tutti.topologies.graphs.free_action import free_group
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.topology import Topology


def links_between(topology: Topology) -> dict[tuple[int, int], list[int]]:
    """Return the parallel links of each pair of nodes, in order."""
    links: dict[tuple[int, int], list[int]] = {}
    for link, ends in enumerate(zip(topology.source.tolist(), topology.target.tolist(), strict=True)):
        links.setdefault(ends, []).append(link)
    return links


@dataclass(frozen=True, eq=False)
class EpochLinks:
    """Links and ports as orbits.

    Parameters
    ----------
    topology
        The network.
    symmetries
        int64, shape (elements, nodes): a group of automorphisms, the identity first.
    links
        The parallel links of each pair of nodes.
    orbit
        The number of the orbit of each direct line, and of each port (rank, switch).
    bandwidth, alpha
        float64 (orbits,): bytes/s of a line of each, and its α in seconds, the sum of both links at a switch.
    """

    topology: Topology
    symmetries: Int64Array
    links: dict[tuple[int, int], list[int]]
    orbit: dict[tuple[int, int], int]
    bandwidth: FloatArray
    alpha: FloatArray

    @classmethod
    def of(cls, topology: Topology) -> EpochLinks:
        """Return the lines of a network under a free group of automorphisms, in order of their ends.

        Raises
        ------
        Unsupported
            If there are too many ranks, or a switch is joined to another or has ports of several kinds.
        """
        if not 2 <= topology.num_ranks <= 64:
            raise Unsupported(f"trees in epochs: {topology.name} has {topology.num_ranks} ranks; 2 to 64")
        links = links_between(topology)
        _check_ports(topology, links)
        return cls.under(topology, free_group(topology)[0].astype(np.int64), sorted(links))

    @classmethod
    def under(cls, topology: Topology, symmetries: Int64Array, ends: Iterable[tuple[int, int]]) -> EpochLinks:
        """Return the lines of a network under a group; orbits are numbered in the order of these ends."""
        links, ranks = links_between(topology), topology.num_ranks
        orbit: dict[tuple[int, int], int] = {}
        lines: list[tuple[int, int]] = []
        for tail, head in ends:
            if tail < ranks and (tail, head) not in orbit:
                for image in symmetries:
                    orbit[int(image[tail]), int(image[head])] = len(lines)
                lines.append((tail, head))
        bandwidth, alpha = topology.bandwidth.floats, topology.alpha.floats
        return cls(
            topology,
            symmetries,
            links,
            orbit,
            np.array([bandwidth[links[line]].sum() for line in lines]),
            np.array([alpha[links[line]].max() * (1 if line[1] < ranks else 2) for line in lines]),
        )

    @cached_property
    def lines_each(self) -> Int64Array:
        """int64 (orbits,): the number of lines and ports of each orbit."""
        return np.bincount(list(self.orbit.values())).astype(np.int64)

    @cached_property
    def height(self) -> Int64Array:
        """int64, shape (N,): the hops from and to the rank that is farthest from each."""
        hops = hop_distances(self.topology)
        return np.maximum(hops.max(axis=0), hops.max(axis=1)).astype(np.int64)

    @cached_property
    def roots(self) -> Int64Array:
        """The least rank of each orbit of ranks."""
        return np.unique(self.symmetries[:, : self.topology.num_ranks].min(axis=0))

    def routes(self, tail: int, head: int) -> list[list[int]]:
        """Return the parallel routes of a line: over links, or else through the first switch at both."""
        if (tail, head) in self.links:
            return [[link] for link in self.links[tail, head]]
        for switch in range(self.topology.num_ranks, self.topology.num_nodes):
            if (tail, switch) in self.links and (switch, head) in self.links:
                pairs = zip(self.links[tail, switch], self.links[switch, head], strict=True)
                return [list(pair) for pair in pairs]
        return []

    def matching(self, rng: np.random.Generator) -> dict[tuple[int, int], int]:
        """Return for each port the rank to which its switch joins it, in a matching with `_apart` large."""
        found = [self._drawn(rng) for _ in range(200)] if self.topology.num_switches else [{}]
        return max((drawn for drawn in found if drawn is not None), key=self._pairs_apart, default={})

    def _pairs_apart(self, matching: dict[tuple[int, int], int]) -> int:
        """Return the sum of `_apart` over the pairs of ranks that it joins."""
        far = self._apart
        return sum(int(far[port[0], head]) for port, head in matching.items())

    @cached_property
    def _apart(self) -> Int64Array:
        """int64 (N, N): 2 for ranks that links alone do not join, 1 for those without a link, else 0."""
        ranks = self.topology.num_ranks
        near = np.eye(ranks, dtype=bool)
        for tail, head in self.links:
            if max(tail, head) < ranks:
                near[tail, head] = True
        joined = near
        for _ in range(ranks.bit_length()):
            joined = joined @ joined
        return (~near).astype(np.int64) + ~joined

    def _drawn(self, rng: np.random.Generator) -> dict[tuple[int, int], int] | None:
        """Return a random matching that the symmetries keep; None if it joins a rank to itself."""
        ranks = self.topology.num_ranks
        matching: dict[tuple[int, int], int] = {}
        for switch in range(ranks, self.topology.num_nodes):
            around = [tail for tail, head in self.links if head == switch]
            kinds = sorted({self.orbit[rank, switch] for rank in around})
            goal = dict(zip(kinds, rng.permutation(kinds).tolist(), strict=True))
            for rank in around:
                if (rank, switch) in matching:
                    continue
                wanted = goal[self.orbit[rank, switch]]
                heads = [r for r in around if r != rank and self.orbit[r, switch] == wanted]
                if not heads:
                    return None
                head = heads[rng.integers(len(heads))]
                for image in self.symmetries:
                    matching[int(image[rank]), int(image[switch])] = int(image[head])
        return matching

    def rows(self, matchings: list[dict[tuple[int, int], int]]) -> Int64Array:
        """Return the row (orbit times epochs plus epoch) from tail to head in each epoch, or -1.

        int64, shape (N, N, epochs).
        """
        ranks, epochs = self.topology.num_ranks, len(matchings)
        rows = np.full((ranks, ranks, epochs), -1, dtype=np.int64)
        for epoch, matching in enumerate(matchings):
            for port, head in matching.items():
                first = self.routes(port[0], head)[0]
                if int(self.topology.target[first[0]]) == port[1]:
                    rows[port[0], head, epoch] = self.orbit[port] * epochs + epoch
        for (tail, head), orbit in self.orbit.items():
            if head < ranks:
                rows[tail, head] = orbit * epochs + np.arange(epochs)
        return rows


def _check_ports(topology: Topology, links: dict[tuple[int, int], list[int]]) -> None:
    """Raise unless each switch has only ranks around it, all joined equally, in and out."""
    bandwidth, alpha = topology.bandwidth.numerators, topology.alpha.numerators
    for switch in range(topology.num_ranks, topology.num_nodes):
        out = {a for a, b in links if b == switch}
        back = {b for a, b in links if a == switch}
        joining = [ids for ends, ids in links.items() if switch in ends]
        kinds = {(len(ids), *{(int(bandwidth[i]), int(alpha[i])) for i in ids}) for ids in joining}
        if out != back or len(kinds) != 1 or max(out) >= topology.num_ranks:
            raise Unsupported(
                f"trees in epochs: switch {topology.labels[switch]} must have ranks around it, joined equally"
            )

"""An instance in ticks: α and chunk times as whole numbers, bounds and earliest arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tutti.models.time_expanded.instance import SizedInstance, routes_of
from tutti.topologies.exact import Int64Array, common_divisor


class TickRow(NamedTuple):
    """A chunk on the links of a route from a tick on; chunks of one route and start are one message."""

    start: int
    route: tuple[int, ...]
    chunk: int


@dataclass(frozen=True, eq=False)
class TimedInstance(SizedInstance):
    """An instance at a size, in ticks.

    Parameters
    ----------
    instance
        Chunks, links and their ends.
    size
        M in bytes.
    cut_through
        Whether messages may pass over several links through ranks, without being kept between them. Through
        switches they do in any case.
    """

    cut_through: bool = False

    @cached_property
    def tick(self) -> Fraction:
        """The largest time in seconds of which all α and s/b are multiples."""
        topology = self.instance.topology
        moves = {self.chunk_bytes / bandwidth for bandwidth in topology.bandwidth}
        return common_divisor([*moves, *(alpha for alpha in set(topology.alpha) if alpha)])

    @cached_property
    def alpha(self) -> list[int]:
        """α of each link in ticks."""
        return [int(alpha / self.tick) for alpha in self.instance.topology.alpha]

    @cached_property
    def move(self) -> list[int]:
        """Ticks that a chunk takes on each link."""
        return [
            int(self.chunk_bytes / bandwidth / self.tick) for bandwidth in self.instance.topology.bandwidth
        ]

    @property
    def ends(self) -> list[tuple[int, int]]:
        """Source and target of each link."""
        return self.instance.ends

    @property
    def over_routes(self) -> bool:
        """Whether messages may go over several links."""
        return self.cut_through or self.instance.topology.num_switches > 0

    def passes(self, node: int) -> bool:
        """Return whether messages may pass a node without being kept there."""
        return self.cut_through or node >= self.instance.topology.num_ranks

    @cached_property
    def routes(self) -> list[tuple[int, ...]]:
        """The routes of fewest links from rank to rank through switches only: all links if there are none."""
        topology = self.instance.topology
        routes = routes_of(topology, "optimum")
        between = zip(routes.links, routes.ends, strict=True)
        found = [links for links, ends in between if max(ends) < topology.num_ranks]
        return sorted(found, key=lambda links: (len(links), links))

    def lasting(self, route: Sequence[int], chunks: int) -> tuple[list[int], int]:
        """Return when a message ends on each link of a route, and when all of it has arrived."""
        ends, head, come = list[int](), 0, 0
        for link in route:
            head += self.alpha[link]
            ends.append(head + self.move[link] * chunks)
            come = max(ends[-1], come + self.alpha[link])
        return ends, come

    @cached_property
    def earliest(self) -> Int64Array:
        """int64, shape (items, nodes): ticks before which an item can not be there, alone on its route."""
        time = np.where(self.instance.holders, 0, self.horizon).astype(np.int64)
        for link, (a, b) in enumerate(self.ends):
            np.minimum(time[:, b], self.heads[:, a] + self.alpha[link] + self.move[link], out=time[:, b])
        return time

    @cached_property
    def heads(self) -> Int64Array:
        """int64, shape (items, nodes): ticks before which no message with an item can leave a node."""
        time = np.where(self.instance.holders, 0, self.horizon).astype(np.int64)
        hops = [
            a if self.passes(end) else a + m
            for a, m, (_, end) in zip(self.alpha, self.move, self.ends, strict=True)
        ]
        for _ in range(self.instance.topology.num_nodes):
            for (a, b), ticks in zip(self.ends, hops, strict=True):
                np.minimum(time[:, b], time[:, a] + ticks, out=time[:, b])
        return time

    @cached_property
    def horizon(self) -> int:
        """Ticks that suffice: every chunk over every link, one after the other along the longest route.

        Through switches every chunk goes to every rank alone.
        """
        topology, chunks = self.instance.topology, len(self.instance.item)
        if topology.num_switches:
            slowest = max(a + m for a, m in zip(self.alpha, self.move, strict=True))
            return slowest * chunks * topology.num_ranks * topology.num_nodes
        return max(a + m * chunks for a, m in zip(self.alpha, self.move, strict=True)) * topology.num_nodes

"""An instance in ticks: α and chunk times as whole numbers, bounds and earliest arrivals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tutti.models.bounds import lower_bounds
from tutti.models.sccl.instance import ScclInstance
from tutti.topologies.exact import Int64Array, common_divisor


class TickRow(NamedTuple):
    """A chunk on the links of a route from a tick on; chunks of one route and start are one message."""

    start: int
    route: tuple[int, ...]
    chunk: int


@dataclass(frozen=True, eq=False)
class TimedInstance:
    """An instance at a size, in ticks.

    Parameters
    ----------
    instance
        Chunks, links and their ends.
    size
        M in bytes.
    cut_through
        Whether messages may go over several links through ranks, without being kept between them. Through
        switches they do in any case.
    """

    instance: ScclInstance
    size: Fraction
    cut_through: bool = False

    @cached_property
    def chunk_bytes(self) -> Fraction:
        """Of one chunk."""
        return self.size * self.instance.collective.items.share[0] / self.instance.chunks

    @cached_property
    def tick(self) -> Fraction:
        """Seconds: the largest in which all α and s/b are whole."""
        topology = self.instance.topology
        moves = {self.chunk_bytes / bandwidth for bandwidth in topology.bandwidth}
        return common_divisor([*moves, *(alpha for alpha in set(topology.alpha) if alpha)])

    @cached_property
    def alpha(self) -> list[int]:
        """Ticks, one a link."""
        return [int(alpha / self.tick) for alpha in self.instance.topology.alpha]

    @cached_property
    def move(self) -> list[int]:
        """Ticks that a chunk takes, one a link."""
        return [
            int(self.chunk_bytes / bandwidth / self.tick) for bandwidth in self.instance.topology.bandwidth
        ]

    @cached_property
    def least(self) -> int:
        """Ticks below which no schedule can be: the project's bounds, and chunks that pass rank by rank."""
        instance = self.instance
        bounds = lower_bounds(instance.topology, instance.collective, self.size)
        proven = max(math.ceil(Fraction(bound.time(self.size)) / self.tick) for bound in bounds)
        return max(proven, self.farthest)

    @cached_property
    def farthest(self) -> int:
        """Ticks of the longest route that a chunk must go, alone on the network."""
        return int(self.earliest[self.instance.wanters].max())

    @cached_property
    def ends(self) -> list[tuple[int, int]]:
        """Source and target of each link."""
        topology = self.instance.topology
        return list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))

    @property
    def over_routes(self) -> bool:
        """Whether messages may go over several links."""
        return self.cut_through or self.instance.topology.num_switches > 0

    def passes(self, node: int) -> bool:
        """Return whether messages may go on from a node without being kept there."""
        return self.cut_through or node >= self.instance.topology.num_ranks

    @cached_property
    def routes(self) -> list[tuple[int, ...]]:
        """The ways of fewest links from rank to rank through switches only: all links if there are none."""
        ranks = self.instance.topology.num_ranks
        growing: list[tuple[int, ...]] = [(link,) for link, (a, _) in enumerate(self.ends) if a < ranks]
        fewest = {(a, a): 0 for a in range(ranks)}
        found = list[tuple[int, ...]]()
        for route in growing:  # the shortest first, as longer ones are put behind them
            start, at = self.ends[route[0]][0], self.ends[route[-1]][1]
            if len(route) > fewest.setdefault((start, at), len(route)):
                continue
            if at < ranks:
                found.append(route)
            else:
                growing += [(*route, link) for link, (a, _) in enumerate(self.ends) if a == at]
        return found

    def lasting(self, route: Sequence[int], chunks: int) -> tuple[list[int], int]:
        """Return when a message ends on each link of a route, and when all of it has come."""
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
        """Ticks: every chunk over every link, one after the other along the longest route, will do.

        Through switches every chunk goes to every rank alone.
        """
        topology, chunks = self.instance.topology, len(self.instance.item)
        if topology.num_switches:
            slowest = max(a + m for a, m in zip(self.alpha, self.move, strict=True))
            return slowest * chunks * topology.num_ranks * topology.num_nodes
        return max(a + m * chunks for a, m in zip(self.alpha, self.move, strict=True)) * topology.num_nodes

"""How many can have heard of one rank by when, counted node by node: what the check of `growth` needs.

It shares no code with `models.bounds.growth`, which finds the bound.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from topologies.topology import Topology


@dataclass(eq=False)
class Reachability:
    """X(u, t) and X(w, t | u) of `models.bounds.check`, tick after tick.

    Parameters
    ----------
    able
        Ranks, and switches that copy or add.
    counted
        The ranks that count.
    out
        For each node its links in the direction of the data: the node each leads to, and its whole ticks.
    away
        For each node the distances to those that count, in whole ticks, in order.
    """

    able: frozenset[int]
    counted: Collection[int]
    out: Sequence[Sequence[tuple[int, int]]]
    away: Sequence[Sequence[int]]
    x: list[list[int]] = field(default_factory=list)
    without: list[dict[tuple[int, int], int]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        topology: Topology,
        distances: Sequence[Sequence[int]],
        counted: Collection[int],
        tick: Fraction,
        outward: bool,
    ) -> Reachability:
        """Return the counters of a network, before any tick.

        Parameters
        ----------
        topology
            The network.
        distances
            From each node to each, over α's denominator, -1 for none; against the links if not `outward`.
        counted
            The ranks that count.
        tick
            Seconds.
        outward
            Whether data goes along the links, or against them.
        """
        out: list[list[tuple[int, int]]] = [[] for _ in range(topology.num_nodes)]
        for one, other, alpha in zip(
            topology.source.tolist(), topology.target.tolist(), topology.alpha, strict=True
        ):
            tail, head = (one, other) if outward else (other, one)
            out[tail].append((head, int(alpha / tick)))
        unit = tick * topology.alpha.denominator
        away = [sorted(int(row[end] / unit) for end in counted if row[end] >= 0) for row in distances]
        able = topology.multicast | topology.aggregate | frozenset(range(topology.num_ranks))
        return cls(able, counted, out, away)

    def until(self, ticks: int) -> list[int]:
        """Return X of every node at the last tick before `ticks`."""
        while len(self.x) < ticks:
            self._count()
        return self.x[ticks - 1]

    def _count(self) -> None:
        now = len(self.x)
        row, without = [], {}
        for node, out in enumerate(self.out):
            near = bisect_right(self.away[node], now)
            if any(alpha == 0 for _, alpha in out):
                whole, children = near, dict.fromkeys((head for head, _ in out), 0)
            elif node in self.able:
                children = self._neighbours(node, now)
                whole = (node in self.counted) + sum(children.values()) + self._by_port(out, now)
            else:
                children = {}
                whole = max((self.x[now - alpha][head] for head, alpha in out if alpha <= now), default=0)
            row.append(min(near, whole))
            for head, part in children.items():
                without[head, node] = min(near, whole - part)
        self.x.append(row)
        self.without.append(without)

    def _neighbours(self, node: int, now: int) -> dict[int, int]:
        """Return what is heard through each neighbour that hears itself, without this node."""
        found: dict[int, int] = {}
        for head, alpha in self.out[node]:
            if head in self.able:
                heard = self._leaving_out(node, head, now - alpha) if alpha <= now else 0
                found[head] = max(found.get(head, 0), heard)
        return found

    def _leaving_out(self, node: int, head: int, at: int) -> int:
        """Return X(head, at | node); X(head, at) where no link leads back."""
        return self.without[at].get((node, head), self.x[at][head])

    def _by_port(self, out: Sequence[tuple[int, int]], now: int) -> int:
        """Return what is heard through messages over links to nodes that only forward."""
        return sum(
            self.x[now - time][head]
            for head, alpha in out
            if head not in self.able
            for time in range(alpha, now + 1, alpha)
        )

"""The check of ``broadcast_growth``: how many nodes one rank's data can have reached by each time.

A message holds each link for α, one message at a time. `Reachability` counts node by node. Proof:
``docs/proofs.md``, *broadcast_growth*.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from fractions import Fraction

from tutti.models.bounds.certificate import MOST_TICKS, Certificate, all_distances, exact, items_of
from tutti.schedules.collective import Collective
from tutti.topologies.errors import InputError
from tutti.topologies.topology import Topology


class Reachability:
    """X(u, t), X(w, t | u), R(c, u, t) and Y(c, t) of ``docs/proofs.md``, tick after tick.

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

    Attributes
    ----------
    able
        Ranks, and switches that copy or add.
    out
        For each node its links in the direction of the data: the node each leads to, and its whole ticks.
    away
        For each node the distances to those that count, in whole ticks, in order.
    fabric
        For each switch that only forwards the first one of its fabric.
    hear
        For each fabric the able nodes that its links lead to.
    """

    def __init__(
        self,
        topology: Topology,
        distances: Sequence[Sequence[int]],
        counted: Collection[int],
        tick: Fraction,
        outward: bool,
    ) -> None:
        self.counted = counted
        self.out: list[list[tuple[int, int]]] = [[] for _ in range(topology.num_nodes)]
        ends = (topology.source, topology.target) if outward else (topology.target, topology.source)
        for tail, head, alpha in zip(*(end.tolist() for end in ends), topology.alpha, strict=True):
            self.out[tail].append((head, int(alpha / tick)))
        unit = tick * topology.alpha.denominator
        self.away = [sorted(int(row[end] / unit) for end in counted if row[end] >= 0) for row in distances]
        self.able = topology.multicast | topology.aggregate | frozenset(range(topology.num_ranks))
        self.fabric = _fabrics(self.out, self.able)
        self.hear: dict[int, set[int]] = {c: set() for c in self.fabric.values()}
        for switch, c in self.fabric.items():
            self.hear[c] |= {head for head, _ in self.out[switch]} & self.able
        self.x, self.y = list[list[int]](), list[dict[int, int]]()
        self.without, self.r = list[dict[tuple[int, int], int]](), list[dict[tuple[int, int], int]]()

    def until(self, ticks: int) -> list[int]:
        """Return X of every node at the last tick before `ticks`."""
        while len(self.x) < ticks:
            self._count()
        return self.x[ticks - 1]

    def _count(self) -> None:
        now = len(self.x)
        self._reach(now)
        row, without, beyond = [], {}, dict.fromkeys(self.hear, 0)
        for node, out in enumerate(self.out):
            near = bisect_right(self.away[node], now)
            children, through = {}, {}
            whole = near
            if node in self.able and all(alpha for _, alpha in out):
                children = self._neighbours(node, now)
                through = {c: self._through(c, node, now) for c in self._fabrics_from(node)}
                whole = (node in self.counted) + sum(children.values()) + sum(through.values())
            elif node in self.fabric and all(alpha for _, alpha in out):
                whole = max((self.x[now - alpha][head] for head, alpha in out if alpha <= now), default=0)
            row.append(min(near, whole))
            for head, _ in out:
                without[head, node] = min(near, whole - children.get(head, 0))
            for c, nodes in self.hear.items():
                if node in nodes:
                    beyond[c] = max(beyond[c], min(near, whole - through.get(c, 0)))
        self.x.append(row)
        self.without.append(without)
        self.y.append(beyond)

    def _reach(self, now: int) -> None:
        """Count R of each fabric and each node at it."""
        row: dict[tuple[int, int], int] = {}
        for node, out in enumerate(self.out):
            for c in {self.fabric[node]} if node in self.fabric else self._fabrics_from(node):
                most = len(self.hear[c] | {node})
                after = [
                    [self._reached(c, head, now - time) for time in range(alpha, now + 1, alpha)]
                    for head, alpha in out
                    if alpha and (node in self.fabric or self.fabric.get(head) == c)
                ]
                if not all(alpha for _, alpha in out):
                    row[c, node] = most
                elif node in self.fabric:
                    row[c, node] = max((counts[0] for counts in after if counts), default=0)
                else:
                    row[c, node] = min(most, 1 + sum(map(sum, after)))
        self.r.append(row)

    def _reached(self, c: int, node: int, at: int) -> int:
        """Return R, 1 of a node that no link of the fabric leaves."""
        return self.r[at].get((c, node), 1)

    def _through(self, c: int, node: int, now: int) -> int:
        """Return how many can have the data by a fabric: in it and from there, or message by message."""
        in_it = sum(
            (self._reached(c, node, after) - self._reached(c, node, after - 1)) * self.y[now - after][c]
            for after in range(1, now + 1)
        )
        by_message = sum(
            self.x[now - time][head]
            for head, alpha in self.out[node]
            if self.fabric.get(head) == c
            for time in range(alpha, now + 1, alpha)
        )
        return min(in_it, by_message)

    def _fabrics_from(self, node: int) -> set[int]:
        """Return the fabrics that links from an able node lead to."""
        return {self.fabric[head] for head, _ in self.out[node] if head in self.fabric}

    def _neighbours(self, node: int, now: int) -> dict[int, int]:
        """Return X of each neighbour that keeps data, without this node."""
        found: dict[int, int] = {}
        for head, alpha in self.out[node]:
            if head in self.able:
                # X(head, at | node); X(head, at) where no link leads back
                at = now - alpha
                heard = self.without[at].get((node, head), self.x[at][head]) if at >= 0 else 0
                found[head] = max(found.get(head, 0), heard)
        return found


def _fabrics(out: Sequence[Sequence[tuple[int, int]]], able: frozenset[int]) -> dict[int, int]:
    """Return for each node that only forwards the first of those that are joined to it by such nodes."""
    first = {node: node for node in range(len(out)) if node not in able}
    joined = [(tail, head) for tail in first for head, _ in out[tail] if head in first]
    while True:
        lower = [(one, min(first[tail], first[head])) for tail, head in joined for one in (tail, head)]
        lower = [(node, least) for node, least in lower if least < first[node]]
        if not lower:
            return first
        for node, least in lower:
            first[node] = min(first[node], least)


def prove_broadcast_growth(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``broadcast_growth`` proves."""
    node, outward, ticks = certificate["node"], certificate["direction"] == "out", int(certificate["ticks"])
    (tick,) = exact(certificate, "tick")
    if tick <= 0 or ticks > MOST_TICKS:
        raise InputError(
            f"broadcast_growth bound: {ticks} ticks of {tick} s; at most {MOST_TICKS} positive ones"
        )
    if type(node) is not int or not 0 <= node < topology.num_ranks:
        raise InputError(f"broadcast_growth bound: node {node} is not a rank")
    counted = {node}
    for item in items_of(collective):
        near, far = (item.starts, item.ends) if outward else (item.ends, item.starts)
        if item.share and node in near:
            counted |= far
    distances = all_distances(topology, backwards=not outward)
    reachable = Reachability(topology, distances, counted, tick, outward)
    # X never falls: it is too large at the end if it is so anywhere before
    if any(reachable.until(before)[node] >= len(counted) for before in range(1, ticks + 1)):
        raise InputError(
            f"broadcast_growth bound: all {len(counted)} may be reached before {ticks} ticks of {tick} s"
        )
    return ticks * tick

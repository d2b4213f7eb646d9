"""Costs of transfers in the routing stage: latencies of links, time on ports, and least latencies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from tutti.models.taccl.demand import ChunkDemand
from tutti.models.taccl.solving import NEVER, Deadline
from tutti.topologies.exact import BoolArray, FloatArray


class PortCost(NamedTuple):
    """For how long a chunk on a link holds a port of its route.

    It enters the port `enter` after it was sent, and is at the destination `lag` after it has left the port.
    """

    hold: float
    enter: float
    lag: float


@dataclass(frozen=True, eq=False)
class Costs:
    """The numbers of the model, in units of the shortest transfer of one chunk.

    Parameters
    ----------
    demand
        What is routed.
    deadline
        For counting them.
    """

    demand: ChunkDemand
    deadline: Deadline = NEVER

    @cached_property
    def unit(self) -> float:
        """The seconds that the shortest transfer of one chunk takes."""
        logical = self.demand.logical
        return min(float(logical.latency(k, self.demand.bytes)) for k in range(len(logical.links)))

    @cached_property
    def lat(self) -> FloatArray:
        """float64 (links,): lat(l) of one chunk."""
        logical, size = self.demand.logical, self.demand.bytes
        return np.array([float(logical.latency(k, size)) / self.unit for k in range(len(logical.links))])

    @cached_property
    def latency(self) -> list[float]:
        """`lat` as plain numbers."""
        numbers: list[float] = self.lat.tolist()
        return numbers

    @cached_property
    def alike(self) -> bool:
        """Whether all transfers take and hold the same time, so that every time is a whole number of them."""
        holds = [use.hold for port in self.uses for use in port.values()]
        return bool(np.allclose([*self.latency, *holds], 1.0, rtol=1e-12, atol=0.0))

    @cached_property
    def uses(self) -> list[dict[int, PortCost]]:
        """For each port, its logical links and how a chunk on each uses it.

        A port is left out if it never binds because another one with the same links does.
        """
        found = {
            tuple((k, self._use(k, port)) for k in users): None
            for port, users in self.demand.logical.ports.items()
        }
        alike: defaultdict[tuple[int, ...], list[tuple[tuple[int, PortCost], ...]]] = defaultdict(list)
        for row in found:
            alike[tuple(k for k, _ in row)].append(row)
        return [dict(row) for rows in alike.values() for row in rows if not any(_less(row, o) for o in rows)]

    def _use(self, k: int, port: int) -> PortCost:
        message = self.demand.logical.message(k, self.demand.bytes)
        _, enter, hold = next(use for use in message.uses if use.port == port)
        lag = message.arrival - enter - hold
        return PortCost(*(float(seconds) / self.unit for seconds in (hold, enter, lag)))

    @cached_property
    def ports_of(self) -> list[list[tuple[int, float]]]:
        """For each link, its ports (places in `uses`) and for how long a chunk holds each."""
        table: list[list[tuple[int, float]]] = [[] for _ in self.demand.logical.links]
        for port, users in enumerate(self.uses):
            for k, use in users.items():
                table[k].append((port, use.hold))
        return table

    @cached_property
    def head(self) -> FloatArray:
        """float64 (chunks, ranks): L, the least latency from each chunk's start; inf out of reach."""
        start, allowed = self.demand.start.tolist(), self.demand.allowed
        return self._rows(lambda c: self._from((start[c],), allowed[c]))

    @cached_property
    def least(self) -> float:
        """The latency of the farthest end of a chunk."""
        return max(
            float(row[list(ends)].max()) for row, ends in zip(self.head, self.demand.ends, strict=True)
        )

    @cached_property
    def receiving(self) -> float:
        """The least time in which a rank can receive all it must over its links, whatever the routing."""
        demand, logical = self.demand, self.demand.logical
        times = [self.least]
        ends = [end for there in demand.ends for end in there]
        missing = np.bincount(ends, minlength=len(logical.in_links))
        for rank, into in enumerate(logical.in_links):
            rate = sum(1 / max(hold for _, hold in self.ports_of[k]) for k in into)
            times.append(int(missing[rank]) / rate if missing[rank] else 0.0)
        return float(np.ceil(max(times) - 1e-12)) if self.alike else max(times)

    @cached_property
    def tail(self) -> FloatArray:
        """float64 (chunks, ranks): the least latency from each rank to an end of each chunk."""
        ends, allowed = self.demand.ends, self.demand.allowed
        return self._rows(lambda c: self._from(ends[c], allowed[c], backwards=True))

    @cached_property
    def beyond(self) -> FloatArray:
        """float64 (chunks, links): the least latency from each link's target to an end that needs the link.

        That is the `tail` of the target, or more where no other link between hosts leads to some of the ends.
        """
        logical, allowed = self.demand.logical, self.demand.allowed
        between = np.array([link.between for link in logical.links])

        def row(c: int) -> FloatArray:
            beyond = self.tail[c, logical.targets]
            for k in np.flatnonzero(between & allowed[c]).tolist():
                beyond[k] = max(beyond[k], self._only_by(c, k))
            return beyond

        return self._rows(row)

    def _only_by(self, c: int, k: int) -> float:
        """Return the latency from a link's target to the farthest end that it alone leads to; 0: none."""
        without = self.demand.allowed[c].copy()
        without[k] = False
        reached = self._from((int(self.demand.start[c]),), without)
        lost = [end for end in self.demand.ends[c] if reached[end] == np.inf]
        if not lost:
            return 0.0
        target = (self.demand.logical.links[k].target,)
        return float(self._from(target, self.demand.allowed[c])[lost].max())

    def _rows(self, row: Callable[[int], FloatArray]) -> FloatArray:
        """Return the rows of all chunks, each made once for the chunks of one start and the same ends."""
        made: dict[int, FloatArray] = {}
        for c in sorted(set(self.demand.first_equal)):
            self.deadline.check(self.demand.logical.name)
            made[c] = row(c)
        return np.array([made[c] for c in self.demand.first_equal])

    def _from(self, origins: tuple[int, ...], within: BoolArray, *, backwards: bool = False) -> FloatArray:
        """Return the least latency from some ranks (to them if backwards) over the links `within`."""
        logical = self.demand.logical
        ranks, ends = logical.topology.num_ranks, (logical.sources[within], logical.targets[within])
        links = csr_array((self.lat[within], ends[::-1] if backwards else ends), shape=(ranks, ranks))
        latency: FloatArray = dijkstra(links, indices=origins, min_only=True)
        return latency


def _less(row: tuple[tuple[int, PortCost], ...], other: tuple[tuple[int, PortCost], ...]) -> bool:
    """Whether of two ports with the same links the second always binds where the first does."""
    return row != other and all(
        x <= y for (_, a), (_, b) in zip(row, other, strict=True) for x, y in zip(a, b, strict=True)
    )

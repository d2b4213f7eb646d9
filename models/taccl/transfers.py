"""The transfers of a routing: what each takes, on which ports and for how long, in whole ticks.

A transfer is one chunk on one logical link. Where data spreads, it waits for the transfer that brought the
chunk to its source; where data is reduced, for all transfers that bring their part of it. Several transfers
of one link can travel as one message, which pays α once.

A message of g chunks that starts at s enters port j of its route at s + enter_j and holds it for hold_j. It
is at its destination at s + arrival. All of these are as the verifier counts them (`message_durations`),
rounded up.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from graphlib import TopologicalSorter

import numpy as np

from tutti.models.taccl.demand import ChunkDemand
from tutti.models.taccl.logical import LinkMessage, LogicalTopology, PortUse
from tutti.topologies.exact import BoolArray, common_divisor


class Contiguity(StrEnum):
    """The links that may send several chunks as one message."""

    BETWEEN = "between"
    """The links between hosts."""

    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, eq=False)
class RoutedTransfers:
    """The transfers of a routing.

    Parameters
    ----------
    logical
        The links.
    bytes
        A chunk's size.
    chunk, link
        Those of each transfer.
    before
        The transfers that each waits for.
    reduces
        Whether what arrives is added to what is there. Then two arrivals of one chunk at one rank do not
        overlap, unless `together`.
    together
        Whether they may overlap.
    """

    logical: LogicalTopology
    bytes: Fraction
    chunk: tuple[int, ...]
    link: tuple[int, ...]
    before: tuple[tuple[int, ...], ...]
    reduces: bool = False
    together: bool = False

    def __len__(self) -> int:
        return len(self.chunk)

    @classmethod
    def spreading(cls, demand: ChunkDemand, sent: BoolArray) -> RoutedTransfers:
        """Return the transfers of a routing along which chunks spread."""
        return cls(demand.logical, demand.bytes, *_trees(demand, sent))

    @classmethod
    def reducing(
        cls, demand: ChunkDemand, sent: BoolArray, logical: LogicalTopology, *, together: bool
    ) -> RoutedTransfers:
        """Return the transfers of the reverse: each the other way, towards the start of its chunk.

        Parameters
        ----------
        demand, sent
            A routing on the transposed network.
        logical
            Its links turned round, in the same order.
        together
            Whether one rank may receive several parts of a chunk at the same time.
        """
        chunk, link, before = _trees(demand, sent)
        return cls(logical, demand.bytes, chunk, link, _inverted(before), True, together)

    def then(self, spread: RoutedTransfers) -> RoutedTransfers:
        """Return these transfers, which reduce, then those that spread the same chunks, on the links of both.

        A chunk spreads from the rank where it was reduced once all parts are there.
        """
        links = (*self.logical.links, *spread.logical.links)
        logical = LogicalTopology(self.logical.topology, self.logical.name, links, self.logical.host)
        waited: set[int] = {other for earlier in self.before for other in earlier}
        whole: defaultdict[int, list[int]] = defaultdict(list)
        for transfer in range(len(self)):
            if transfer not in waited:
                whole[self.chunk[transfer]].append(transfer)
        later = [
            tuple(len(self) + other for other in earlier) or tuple(whole[chunk])
            for earlier, chunk in zip(spread.before, spread.chunk, strict=True)
        ]
        moved = (len(self.logical.links) + link for link in spread.link)
        return RoutedTransfers(
            logical,
            self.bytes,
            (*self.chunk, *spread.chunk),
            (*self.link, *moved),
            (*self.before, *later),
            self.reduces,
            self.together,
        )

    @cached_property
    def after(self) -> tuple[tuple[int, ...], ...]:
        """For each transfer, those that wait for it."""
        return _inverted(self.before)

    @cached_property
    def topological(self) -> tuple[int, ...]:
        """The transfers, each after those that it waits for."""
        return tuple(TopologicalSorter(dict(enumerate(self.before))).static_order())

    @cached_property
    def until_now(self) -> tuple[int, ...]:
        """Ticks of the longest chain of transfers before each."""
        length = [0] * len(self)
        for transfer in self.topological:
            chains = (length[other] + self.lasts(other) for other in self.before[transfer])
            length[transfer] = max(chains, default=0)
        return tuple(length)

    @cached_property
    def from_now(self) -> tuple[int, ...]:
        """Ticks of the longest chain of transfers that begins with each."""
        length = [0] * len(self)
        for transfer in reversed(self.topological):
            later = max((length[other] for other in self.after[transfer]), default=0)
            length[transfer] = later + self.lasts(transfer)
        return tuple(length)

    def lasts(self, transfer: int) -> int:
        """Return the ticks that a transfer takes alone."""
        return self.message(self.link[transfer]).arrival

    @cached_property
    def tick(self) -> Fraction:
        """Seconds a tick. All times are multiples of it, or it is so short that rounding is small."""
        where = self.logical.topology
        held = {
            (where.alpha[port], self.bytes / where.bandwidth[port] / len(link.lanes))
            for link in self.logical.links
            for port in link.lanes[0]
        }
        seconds = [value for pair in held for value in pair if value]
        tick = common_divisor(seconds)
        horizon = max(alpha + busy for alpha, busy in held) * len(where.source) * max(1, len(self))
        most = 2**53  # what a float holds exactly, as solvers are given ticks
        return tick if horizon / tick <= most else max(min(seconds) / 10**6, horizon / most)

    @cached_property
    def _messages(self) -> dict[tuple[int, int], LinkMessage[int]]:
        return {}

    def message(self, link: int, chunks: int = 1) -> LinkMessage[int]:
        """Return the ticks that some chunks together take on a link."""
        key = (link, chunks)
        if key not in self._messages:
            exact = self.logical.message(link, self.bytes * chunks)
            uses = (PortUse(port, *map(self._ticks, times)) for port, *times in exact.uses)
            self._messages[key] = LinkMessage(self._ticks(exact.arrival), tuple(uses))
        return self._messages[key]

    def _ticks(self, seconds: Fraction) -> int:
        return math.ceil(seconds / self.tick)

    def at(self, transfer: int) -> int:
        """Return the rank that a transfer goes to."""
        return self.logical.links[self.link[transfer]].target


def _inverted(before: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Return what follows each, given what is before each."""
    after: list[list[int]] = [[] for _ in before]
    for transfer, earlier in enumerate(before):
        for other in earlier:
            after[other].append(transfer)
    return tuple(map(tuple, after))


def _trees(
    demand: ChunkDemand, sent: BoolArray
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return chunk, link and preceding transfer of each transfer, every tree from its root on."""
    links = demand.logical.links
    chunk: list[int] = []
    link: list[int] = []
    before: list[tuple[int, ...]] = []
    for c in range(len(demand)):
        out: defaultdict[int, list[int]] = defaultdict(list)
        for k in np.flatnonzero(sent[c]).tolist():
            out[links[k].source].append(k)
        queue: list[tuple[int, tuple[int, ...]]] = [(int(demand.start[c]), ())]
        for rank, by in queue:
            for k in out[rank]:
                queue.append((links[k].target, (len(chunk),)))
                chunk.append(c)
                link.append(k)
                before.append(by)
    return tuple(chunk), tuple(link), tuple(before)

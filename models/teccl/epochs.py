r"""An instance in epochs of a fixed length τ: routes, how long they are held, how much they carry.

TE-CCL (SIGCOMM 2024, section 3.1) has two sorts of switches, neither of which stores anything. A copying
switch is a node of the program whose buffer is always empty: what arrives in an epoch leaves in it, over any
number of links. Other switches only pass data on. A route from a rank to another through such switches is one
variable here, as a hyper-edge is in TACCL. Routes share the links that they go over, and a link has one
message at a time. A copying switch can be passed through, too. Between two ranks there are their links, or
else all routes of fewest links that pass switches only. A detour over more switches is left out, and ranks
that forward are part of the program anyway.

A message of n chunks of s bytes goes over route e, of latency α_e, the sum over its links, and bandwidth b_e,
that of the slowest. It takes

.. math::

    d_e = \lceil (α_e + s / b_e) / τ \rceil \text{ epochs}, \qquad
    n \le n_e = \lfloor (d_e τ - α_e) b_e / s \rfloor.

The paper has a capacity in every epoch and a delay of ⌈α/τ⌉ epochs in which the link is free again; in this
project a link is held while α is in flight, so both are one duration. On a route the j-th link is held from
the epoch in which the message enters it, for what it takes there, each rounded up; it passes switches without
waiting, as the time clock has it (`schedules.message_durations`).

With τ the longest time of which every α_e + s / b_e is a multiple (``"exact"``), nothing is rounded, and
n_e is 1. Then the epochs are the time-expanded network of TACOS (MICRO 2024, IV-F and Fig. 12): an edge is a
link in an epoch, one chunk is matched to it, and it lasts α_e + s / b_e. TE-CCL's program is then the integer
program over that network which TACOS is compared with (footnote 7, Table V, Figs 15 and 19).

`placed` puts chunks into epochs one after the other, each over one of the routes that it is offered: over the
route that brings it first. It joins a message that begins there after it has come, or begins one in the first
epoch in which all links are free.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tutti.models.time_expanded import NetworkRoutes, SizedInstance, nearest, routes_of
from tutti.topologies.errors import InputError
from tutti.topologies.exact import Int64Array, common_divisor

FAR = 2**40
"""An epoch that never comes."""
FASTEST, SLOWEST, BEST, EXACT = "fastest", "slowest", "best", "exact"
Offers = Mapping[tuple[int, int], list[int]]
"""The routes over which a chunk may come to a node, (chunk, node) in order."""


class Transfer(NamedTuple):
    """A chunk (its place in `ChunkInstance.item`) that starts in an epoch over a route of `Epochs.routes`."""

    route: int
    chunk: int
    epoch: int


class LinkHold(NamedTuple):
    """A link of a route, and the epochs after the start of a message in which it is held; free in `until`."""

    link: int
    enters: int
    until: int


class Rate(NamedTuple):
    """α of a route in seconds, the sum over its links; bandwidth in bytes/s, that of the slowest."""

    alpha: Fraction
    bandwidth: Fraction


@dataclass(frozen=True, eq=False)
class Epochs(SizedInstance):
    """An instance at a size, in epochs.

    Parameters
    ----------
    instance
        Chunks, links and their ends.
    size
        M in bytes.
    length
        Seconds of an epoch; or ``"fastest"`` or ``"slowest"``, for the route on which one chunk takes an
        epoch; or ``"exact"``, the longest of which all routes take a multiple.
    backwards
        Whether the schedule will be reversed: links of a route are then held as the reverse holds them, which
        differs by rounding.

    Raises
    ------
    InputError
        If a length is not positive.
    """

    length: Fraction | str = FASTEST
    backwards: bool = False

    def __post_init__(self) -> None:
        """Check the length."""
        if self.tick <= 0:
            raise InputError(f"an epoch of {self.length} s; it must be positive")

    @cached_property
    def routes(self) -> NetworkRoutes:
        """The routes of chunks."""
        return routes_of(self.instance.topology)

    @cached_property
    def rates(self) -> list[Rate]:
        """α and bandwidth of each route."""
        topology = self.instance.topology
        alpha, bandwidth = list(topology.alpha), list(topology.bandwidth)
        return [
            Rate(sum((alpha[link] for link in links), Fraction(0)), min(bandwidth[link] for link in links))
            for links in self.routes.links
        ]

    @cached_property
    def tick(self) -> Fraction:
        """τ in seconds, an epoch."""
        if not isinstance(self.length, str):
            return self.length
        times = [alpha + self.chunk_bytes / bandwidth for alpha, bandwidth in self.rates]
        if self.length == EXACT:
            return common_divisor(times)
        return min(times) if self.length == FASTEST else max(times)

    def lengths(self) -> list[Fraction]:
        """Return the times of messages of 1, 2, ... chunks on the slowest route, while more may be of use."""
        topology = self.instance.topology
        need = np.bincount([n for _, n in self.instance.wanted], minlength=topology.num_nodes)
        links = np.bincount(topology.target, minlength=topology.num_nodes)
        most = int((-(-need // np.maximum(links, 1))).max())
        pairs = set(self.rates)
        return [max(a + n * self.chunk_bytes / b for a, b in pairs) for n in range(1, most + 1)]

    @cached_property
    def lasts(self) -> list[int]:
        """d, epochs from the start of a message over each route to its arrival."""
        return [
            math.ceil((alpha + self.chunk_bytes / bandwidth) / self.tick) for alpha, bandwidth in self.rates
        ]

    @cached_property
    def carries(self) -> list[int]:
        """n, chunks that a message over each route may have."""
        return [
            math.floor((lasts * self.tick - alpha) * bandwidth / self.chunk_bytes)
            for lasts, (alpha, bandwidth) in zip(self.lasts, self.rates, strict=True)
        ]

    @cached_property
    def holds(self) -> list[list[LinkHold]]:
        """For each route its links, each with the epochs of a message in which it is held."""
        return [self._held(*route) for route in zip(self.routes.links, self.lasts, self.carries, strict=True)]

    def _held(self, links: tuple[int, ...], lasts: int, carries: int) -> list[LinkHold]:
        topology = self.instance.topology
        held, passed = [], Fraction(0)
        for link in reversed(links) if self.backwards else links:
            enters = math.ceil(passed / self.tick)
            takes = topology.alpha[link] + carries * self.chunk_bytes / topology.bandwidth[link]
            leaves = enters + math.ceil(takes / self.tick)
            ends = (lasts - leaves, lasts - enters) if self.backwards else (enters, leaves)
            held.append(LinkHold(link, *ends))
            passed += topology.alpha[link]
        return held[::-1] if self.backwards else held

    @cached_property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """Source and target of each route."""
        return self.routes.ends

    @cached_property
    def between(self) -> Int64Array:
        """int64, shape (nodes, nodes): epochs from one node to another over the routes of least epochs."""
        count = self.instance.topology.num_nodes
        time = np.where(np.eye(count, dtype=np.bool_), 0, FAR).astype(np.int64)
        for (a, b), lasts in zip(self.ends, self.lasts, strict=True):
            time[a, b] = min(time[a, b], lasts)
        for middle in range(count):
            np.minimum(time, time[:, middle, None] + time[None, middle, :], out=time)
        return time

    @cached_property
    def earliest(self) -> Int64Array:
        """int64, shape (items, nodes): epochs before which an item can not be there, alone on the network."""
        return nearest(self.between, self.instance.holders, FAR)

    def with_room(self, least: int) -> int:
        """Return the first epoch, `least` or later, by which links can bring every rank what it lacks."""
        most = max(least, 1)
        while not self._room(most):
            most *= 2
        return least + bisect_left(range(least, most), True, key=self._room)  # more epochs have more room

    def _room(self, epochs: int) -> bool:
        """Whether every rank's links can bring it what it must have within `epochs` epochs.

        The messages of a link come one after the other, and the last must begin early enough to arrive.
        """
        topology = self.instance.topology
        most = np.zeros(topology.num_links, dtype=np.int64)
        for held, lasts, carries in zip(self.holds, self.lasts, self.carries, strict=True):
            link = held[-1].link
            if epochs >= lasts:
                shortest, quickest = self._shortest[link]
                most[link] = max(most[link], ((epochs - quickest) // shortest + 1) * carries)
        room = np.bincount(topology.target, weights=most, minlength=topology.num_nodes)
        need = np.bincount([n for _, n in self.instance.wanted], minlength=len(room))
        return bool((need <= room).all())

    @cached_property
    def _shortest(self) -> dict[int, tuple[int, int]]:
        """For each last link of routes, the fewest epochs that one holds it, and that one lasts."""
        table: dict[int, tuple[int, int]] = {}
        for held, lasts in zip(self.holds, self.lasts, strict=True):
            link, first, until = held[-1]
            holds, quick = table.get(link, (FAR, FAR))
            table[link] = min(holds, until - first), min(quick, lasts)
        return table


def finish_of(epochs: Epochs, transfers: Iterable[Transfer]) -> int:
    """Return the epoch in which the last transfer has arrived."""
    return max((k + epochs.lasts[e] for e, _, k in transfers), default=0)


def needed(epochs: Epochs, transfers: Iterable[Transfer]) -> list[Transfer]:
    """Return the transfers, by epoch, without those that serve no postcondition."""
    ordered = sorted(transfers, key=by_epoch)
    route, chunk, _ = np.array(ordered, dtype=np.int64).reshape(-1, 3).T
    source, target = np.array(epochs.ends).T[:, route]
    useful = epochs.instance.useful(chunk, source, target)
    return [transfer for transfer, kept in zip(ordered, useful.tolist(), strict=True) if kept]


def by_epoch(transfer: Transfer) -> tuple[int, int, int]:
    """Return the key by which transfers are sorted: the epoch, then route and chunk."""
    route, chunk, epoch = transfer
    return epoch, route, chunk


def shortest(epochs: Epochs) -> list[Transfer]:
    """Return transfers of every chunk along routes of fewest epochs to all that need it."""
    first = epochs.earliest[epochs.instance.item]
    ranks = epochs.instance.topology.num_ranks
    offers: dict[tuple[int, int], list[int]] = {}
    for at, chunk, node in sorted((int(first[c, n]), c, n) for c in range(len(first)) for n in range(ranks)):
        routes = [
            route
            for route, ((a, b), lasts) in enumerate(zip(epochs.ends, epochs.lasts, strict=True))
            if b == node and a < ranks and first[chunk, a] + lasts == at
        ]
        if at and routes:
            offers[chunk, node] = routes
    return placed(epochs, offers)


def placed(epochs: Epochs, offers: Offers) -> list[Transfer]:
    """Return a transfer for each (chunk, node), in their order and as early as possible."""
    at = {(int(c), int(n)): 0 for c, n in np.argwhere(epochs.instance.held)}
    room, transfers = _Room(epochs), []
    for (chunk, node), routes in offers.items():
        if (chunk, node) in at:
            continue
        sources = [(route, (chunk, epochs.ends[route][0])) for route in routes]
        ready = [(route, at[source]) for route, source in sources if source in at]
        found = [(room.earliest(route, since) + epochs.lasts[route], route, since) for route, since in ready]
        end, route, since = min(found, key=lambda choice: choice[0])
        transfers.append(Transfer(route, chunk, room.take(route, since)))
        at[chunk, node] = end
    return sorted(transfers, key=by_epoch)


class _Room:
    """The epochs in which links are held, and the number of chunks that each route began to send in each."""

    def __init__(self, epochs: Epochs) -> None:
        self.epochs = epochs
        self.held: list[list[tuple[int, int]]] = [[] for _ in range(epochs.instance.topology.num_links)]
        self.begun: list[dict[int, int]] = [{} for _ in epochs.holds]

    def earliest(self, route: int, since: int) -> int:
        """Return the first epoch, `since` or later, in which the route can take one more chunk."""
        carries = self.epochs.carries[route]
        with_room = (now for now, count in self.begun[route].items() if now >= since and count < carries)
        return min([self._free(route, since), *with_room])

    def take(self, route: int, since: int) -> int:
        """Put one more chunk on the route, as early as possible; return its epoch."""
        now = self.earliest(route, since)
        if now not in self.begun[route]:
            for held in self.epochs.holds[route]:
                self.held[held.link].append((now + held.enters, now + held.until))
        self.begun[route][now] = self.begun[route].get(now, 0) + 1
        return now

    def _free(self, route: int, now: int) -> int:
        """Return the first epoch, `now` or later, from which no other message holds a link of the route."""
        while True:
            later = [
                end - held.enters
                for held in self.epochs.holds[route]
                for begin, end in self.held[held.link]
                if begin < now + held.until and now + held.enters < end
            ]
            if not later:
                return now
            now = max(later)

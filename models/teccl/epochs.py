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
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
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

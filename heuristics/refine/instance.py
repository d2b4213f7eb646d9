"""A problem as parcels on roads, one item for all its images under symmetries; and the schedule of a plan.

All automorphisms of a group carry an item's plan to its images, which gives a plan of all items of its orbit.
In it all links of an orbit are used equally and at the same times. So one item of each orbit and one timeline
of each orbit of links are enough: on a torus or a circulant, the item of rank 0, and as many timelines as a
rank has links. If several elements keep an item, each has an equal part of it and carries its plan elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tutti.heuristics.refine.plan import TUNING, Parcels, Roads, TransferSequence
from tutti.heuristics.refine.roads import RoutedNetwork
from tutti.schedules.collective import Kind
from tutti.schedules.list_scheduling import in_messages
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Chunks, Clock, Schedule
from tutti.topologies.exact import Int32Array, Int64Array, offsets_of

PATHS = (Kind.ALL_TO_ALL, Kind.SCATTER)
KINDS = (Kind.ALLGATHER, Kind.BROADCAST, Kind.ALLREDUCE, *PATHS)
"""The kinds that are planned forwards; the others are reverses of these."""


class Planned(NamedTuple):
    """Parcels and their plan."""

    parcels: Parcels
    plan: TransferSequence


@dataclass(frozen=True, eq=False)
class RefineInstance:
    """A problem for the search.

    Parameters
    ----------
    problem
        The problem, of one of `KINDS`, among all ranks.
    network
        The network of its topology.
    pieces
        Largest number of parcels of an item.
    """

    problem: Problem
    network: RoutedNetwork
    pieces: int

    @cached_property
    def size(self) -> Fraction:
        """M in bytes."""
        return self.problem.size or Fraction(1)

    @cached_property
    def denominator(self) -> int:
        """Units of M."""
        return self.problem.collective.items.share.reduced.denominator * self._whole

    @cached_property
    def units(self) -> Int64Array:
        """int64, shape (items of the collective,): units of each one's part that an element carries along."""
        return self.problem.collective.items.share.reduced.numerators * (self._whole // self.keep)

    @cached_property
    def _whole(self) -> int:
        return math.lcm(*range(1, 17)) * math.lcm(*set(self.keep.tolist()))

    @cached_property
    def keep(self) -> Int64Array:
        """int64, shape (items of the collective,): the number of elements that keep each."""
        return (self.moved == np.arange(self.moved.shape[1])).sum(axis=0)

    @cached_property
    def moved(self) -> Int32Array:
        """int32, shape (elements, items of the collective): the item that each element takes each to."""
        data, ranks = self.problem.collective.items, self.problem.topology.num_ranks
        key = data.owner.astype(np.int64) * (ranks + 1) + data.dest + 1
        order = np.argsort(key)
        nodes = np.hstack([self.network.nodes[:, :ranks], np.full((len(self.network.nodes), 1), -1)])
        images = nodes[:, data.owner].astype(np.int64) * (ranks + 1) + nodes[:, data.dest] + 1
        return order[np.searchsorted(key, images, sorter=order)].astype(np.int32)

    @cached_property
    def items(self) -> Int64Array:
        """int64, shape (items,): the least of each orbit of items that move, which stands for all."""
        data = self.problem.collective.items
        least = self.moved.min(axis=0) == np.arange(len(data))
        return np.flatnonzero(least & ((data.start < 0) | (data.start != data.end)))

    @cached_property
    def roads(self) -> Roads:
        """The classes of routes."""
        return self.network.roads(self.size / self.denominator)

    @cached_property
    def parcels(self) -> Parcels:
        """Parcels with the items' owners as roots."""
        what, ranks = self.problem.collective, self.problem.topology.num_ranks
        paths, up = what.kind in PATHS, what.kind is Kind.ALLREDUCE
        goal = what.items.dest[self.items] if what.kind is Kind.ALL_TO_ALL else what.items.end[self.items]
        root = what.items.start[self.items] if paths else what.items.owner[self.items]
        slots = int(self.roads.hops.max()) + TUNING.spare if paths else ranks * (1 + up)
        return Parcels(
            item=np.arange(len(self.items) + 1) * self.pieces,
            root=np.repeat(root, self.pieces),
            goal=np.repeat(goal if paths else np.full_like(root, -1), self.pieces),
            of=np.repeat(np.arange(len(root) * self.pieces, dtype=np.int32), slots),
            slots=slots,
            cells=slots + 1 if paths else slots,
            up=up,
        )

    def empty(self) -> TransferSequence:
        """Return a plan in which nothing moves."""
        parcels = len(self.items) * self.pieces
        slots = parcels * self.parcels.slots
        return TransferSequence(
            slot=np.zeros(slots, np.int32),
            begins=np.zeros(slots, np.bool_),
            start=np.zeros(slots),
            route=np.full(slots, -1, np.int32),
            origin=np.zeros(slots, np.int32),
            goal=np.zeros(slots, np.int32),
            size=np.zeros(parcels, np.int64),
            length=np.zeros(1, np.int64),
        )

    def laid_out(
        self, root: Int32Array, route: Int32Array, slot: Int64Array, turn: Int64Array, size: Int64Array
    ) -> Planned:
        """Return a plan.

        Parameters
        ----------
        root
            int32, shape (parcels,).
        route
            int32, shape (slots,): the route of each transfer, -1 where there is none.
        slot, turn
            int64, shape (transfers,): the transfers in sequence; those of one turn and class go together.
        size
            int64, shape (parcels,).
        """
        parcels = self.parcels._replace(root=root)
        plan, roads, length = self.empty(), self.roads, len(slot)
        parcel, within = np.divmod(np.arange(len(route)), parcels.slots)
        if parcels.goal[0] >= 0:
            origin, goal = within, within + 1
        else:
            source, target = roads.source[route].astype(np.int64), roads.target[route].astype(np.int64)
            down = len(roads.hops) * (parcels.up & (within >= len(roads.hops)))
            origin, goal = np.where(source == parcels.root[parcel], source, source + down), target + down
        plan.route[:], plan.size[:], plan.length[0] = route, size, length
        plan.origin[:], plan.goal[:] = parcel * parcels.cells + origin, parcel * parcels.cells + goal
        kind = roads.kind[route[slot]]
        order = np.lexsort((kind, turn))
        plan.slot[:length], plan.start[:length] = slot[order], turn[order]
        plan.begins[:1] = True
        plan.begins[1:length] = (np.diff(turn[order]) != 0) | (np.diff(kind[order]) != 0)
        return Planned(parcels, plan)

    def schedule(self, plan: TransferSequence) -> Schedule:
        """Return the plan's schedule in the time clock, with the images of all its transfers."""
        network, parcels = self.network, self.parcels
        length = int(plan.length[0])
        slot = plan.slot[:length].astype(np.int64)
        parcel, route = slot // parcels.slots, plan.route[slot]
        chunk, chunks = self._chunks(plan.size)
        elements = len(network.nodes)
        routes, chunk = network.images[:, route].ravel(), chunk[:, parcel].ravel()
        turn: Int64Array = np.tile(np.cumsum(plan.begins[:length], dtype=np.int64), elements)
        adds = np.tile(parcels.up & (slot % parcels.slots < len(self.roads.hops)), elements)
        order = np.lexsort((chunk, routes, turn))
        adding = adds[order] if parcels.up else None
        columns = chunk[order], routes[order]
        flow = self.problem.schedule(Clock.FLOW, chunks, *columns, reduce=adding, routes=network.routes)
        return in_messages(flow, turn[order], self.size)

    def _chunks(self, size: Int64Array) -> tuple[Int64Array, Chunks]:
        """Return the chunk of each element's image of each parcel, and the chunks."""
        share = self.problem.collective.items.share.reduced
        sizes = [[units] for units in (share.numerators * self._whole).tolist()]
        within = np.zeros((len(self.moved), len(size)), np.int64)
        for index, item in enumerate(self.items):
            span = slice(index * self.pieces, (index + 1) * self.pieces)
            own = size[span][size[span] > 0].tolist()
            images = self.moved[:, item]
            order = np.argsort(images, kind="stable")
            turn = np.empty(len(images), np.int64)
            turn[order] = np.arange(len(images)) % self.keep[item]
            within[:, span] = turn[:, None] * len(own) + np.cumsum(size[span] > 0) - 1
            for image in images:
                sizes[image] = own * int(self.keep[item])
        first = offsets_of([len(own) for own in sizes])
        item = np.repeat(np.arange(len(sizes)), np.diff(first))
        chunk = first[self.moved[:, np.repeat(self.items, self.pieces)]] + within
        return chunk, Chunks(item, np.concatenate(sizes), self.denominator)

"""A problem as parcels on roads, one item for all its images under symmetries; first plans; and schedules.

Messages take routes, in classes of routes that symmetries of the network map to each other (`RoutedNetwork`).
All automorphisms of a group carry an item's plan to its images, which gives a plan of all items of its orbit.
In it all links of an orbit are used equally and at the same times. So one item of each orbit and one timeline
of each orbit of links are enough: on a torus or a circulant, the item of rank 0, and as many timelines as a
rank has links. If several elements keep an item, each has an equal part of it and carries its plan elsewhere.

The first plans go along shortest paths, step by step (`by_steps`), or are those that schedules follow
(`of_schedule`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tutti.heuristics.refine.plan import TUNING, Parcels, Roads, TransferSequence
from tutti.heuristics.rounds.slots import single_messages
from tutti.schedules.collective import Kind
from tutti.schedules.list_scheduling import in_messages
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array, entries_of, offsets_of
from tutti.topologies.graphs.shortest_paths import Route, hops_from_each
from tutti.topologies.topology import Neighbours, Topology
from tutti.topologies.transforms import transpose


@dataclass(frozen=True, eq=False)
class RoutedNetwork:
    """A topology with its messages' routes, and a group of automorphisms.

    Parameters
    ----------
    topology
        The network, whose ranks are the only nodes that keep data.
    nodes, links
        int32, shape (elements, nodes) and (elements, links): the group, the identity first.
    routes
        The routes of single messages, and all their images.
    kind
        int32, shape (routes,): the orbit of each.
    backwards
        Whether time runs backwards: a message then ends at the same time on a faster link of its route as on
        the slowest one, instead of beginning at the same time.
    """

    topology: Topology
    nodes: Int32Array
    links: Int32Array
    routes: Routes
    kind: Int32Array
    backwards: bool = False

    @classmethod
    def of(cls, topology: Topology, group: tuple[Int32Array, Int32Array] | None = None) -> RoutedNetwork:
        """Return the network with a group, or with the identity alone.

        A group is not used if it maps one link of a route to another of it, or a route to another one over
        the same link: its routes would block each other.
        """
        nodes, links = group or (
            np.arange(topology.num_nodes, dtype=np.int32)[None],
            np.arange(topology.num_links, dtype=np.int32)[None],
        )
        known: dict[Route, int] = {}
        for route in single_messages(replace(topology, multicast=frozenset())):
            if route not in known:
                number = len(known)
                for image in links[:, list(route)].tolist():
                    known.setdefault(tuple(image), number)
        kind, alike = np.unique(list(known.values()), return_inverse=True, return_counts=True)[1:]
        orbit = links.min(axis=0)
        members = np.bincount(orbit, minlength=topology.num_links)
        for route, own in zip(known, alike[kind].tolist(), strict=True):
            crossed = orbit[list(route)]
            if len(np.unique(crossed)) < len(route) or (members[crossed] != own).any():
                return cls.of(topology)
        return cls(topology, nodes, links, Routes.of(list(known)), kind.astype(np.int32))

    def reversed(self) -> RoutedNetwork:
        """Return the transposed network, its routes and time turned round, with the same group."""
        turned = Routes.of([links[::-1] for links in self.routes.lists])
        return replace(self, topology=transpose(self.topology), routes=turned, backwards=not self.backwards)

    @property
    def alone(self) -> RoutedNetwork:
        """The same routes, each in a class of its own: the group is the identity."""
        kind = np.arange(len(self.kind), dtype=np.int32)
        return replace(self, nodes=self.nodes[:1], links=self.links[:1], kind=kind)

    @property
    def images(self) -> Int64Array:
        """int64, shape (elements, routes): the route that each element takes each route to."""
        length = np.diff(self.routes.offsets)
        taken = np.empty((len(self.links), len(self.routes)), np.int64)
        for hops in np.unique(length):
            routes = np.flatnonzero(length == hops)
            own = self.routes.links[self.routes.offsets[routes, None] + np.arange(hops)]
            taken[:, routes] = routes[_rows_of(own, self.links[:, own])]
        return taken

    def roads(self, unit: Fraction) -> Roads:
        """Return the classes of routes, with times for units of `unit` bytes.

        Data over a route that several elements keep goes with as many images.
        """
        topology, ranks = self.topology, self.topology.num_ranks
        source = topology.source[self.routes.links[self.routes.offsets[:-1]]]
        target = topology.target[self.routes.links[self.routes.offsets[1:] - 1]]
        examples = np.unique(self.kind, return_index=True)[1]
        hops = [self.routes.links[self.routes.offsets[i] : self.routes.offsets[i + 1]] for i in examples]
        flat = np.concatenate(hops)
        length = [len(links) for links in hops]
        images = len(self.links) / np.bincount(self.kind)
        alpha, byte = topology.alpha.floats, float(unit) / topology.bandwidth.floats
        link = np.unique(self.links.min(axis=0), return_inverse=True)[1]
        slowest = images * np.array([byte[links].max() for links in hops])
        each = np.repeat(images, length) * byte[flat]
        spare = np.repeat(slowest, length) - each
        return Roads(
            source=source,
            target=target,
            kind=self.kind,
            first=offsets_of(length),
            link=link[flat].astype(np.int32),
            enter=np.concatenate([np.cumsum(alpha[links]) - alpha[links] for links in hops]),
            lag=spare if self.backwards else np.zeros(len(flat)),
            alpha=alpha[flat],
            byte=each,
            latency=np.array([alpha[links].sum() for links in hops]),
            slowest=slowest,
            into=offsets_of(np.bincount(target, minlength=ranks)),
            entering=np.argsort(target, kind="stable").astype(np.int32),
            out=offsets_of(np.bincount(source, minlength=ranks)),
            leaving=np.argsort(source, kind="stable").astype(np.int32),
            hops=hops_from_each(Neighbours.of(source, target, ranks), np.arange(ranks)).astype(np.int64),
        )


def _rows_of(table: Int32Array, rows: Int32Array) -> Int64Array:
    """Return for each row its number in a table, where rows are along the last axis."""
    known, code = np.zeros(len(table), np.int64), np.zeros(rows.shape[:-1], np.int64)
    base = int(table.max()) + 1
    for column in range(table.shape[1]):  # rows are ranked by their first columns, and then by one more
        key = known * base + table[:, column]
        ranks = np.unique(key)
        known, code = np.searchsorted(ranks, key), np.searchsorted(ranks, code * base + rows[..., column])
    return np.argsort(known)[code]


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


def by_steps(instance: RefineInstance, pieces: int) -> Planned:
    """Return a plan along shortest paths with items cut in `pieces`: in each step one message a class."""
    parcels, units = instance.parcels, instance.units[instance.items]
    size = np.zeros((len(units), instance.pieces), np.int64)
    for piece in range(pieces):
        size[:, piece] = units * (piece + 1) // pieces - units * piece // pieces
    route = np.full(size.size * parcels.slots, -1, np.int32)
    steps = _Steps(instance.roads, parcels)
    slot, turn = [], []
    for parcel in np.arange(size.size).reshape(size.shape)[:, :pieces].T.ravel().tolist():
        for own, step, road in steps.transfers(parcel, int(size.ravel()[parcel])):
            slot.append(own)
            turn.append(step)
            route[own] = road
    return instance.laid_out(parcels.root, route, np.array(slot), np.array(turn), size.ravel())


class _Steps:
    """Shortest paths, and the load of each class of routes in each step."""

    def __init__(self, roads: Roads, parcels: Parcels) -> None:
        self.roads, self.parcels, ranks = roads, parcels, len(roads.hops)
        self.far = int(roads.hops.max())
        self.load = np.zeros((2 * self.far + parcels.slots, len(roads.latency)), np.int64)
        self.into, self.out = (
            np.split(routes, offsets[1:ranks])
            for routes, offsets in ((roads.entering, roads.into), (roads.leaving, roads.out))
        )

    def transfers(self, parcel: int, size: int) -> Iterator[tuple[int, int, int]]:
        """Yield each transfer of a parcel, its step and its route."""
        roads, parcels, base = self.roads, self.parcels, parcel * self.parcels.slots
        root, at = int(parcels.root[parcel]), int(parcels.root[parcel])
        goal, ranks = int(parcels.goal[parcel]), len(roads.hops)
        step = 0
        while goal >= 0 and at != goal:
            left = roads.hops[:, goal]
            road = self._lightest(step, [r for r in self.out[at] if left[roads.target[r]] < left[at]], size)
            yield base + step, step, road
            at, step = int(roads.target[road]), step + 1
        if goal >= 0:
            return
        if parcels.up:
            left = roads.hops[:, root]
            for rank in np.argsort(-left, kind="stable")[:-1].tolist():
                nearer = [road for road in self.out[rank] if left[roads.target[road]] < left[rank]]
                step = self.far - int(left[rank])
                yield base + rank, step, self._lightest(step, nearer, size)
        hops, down = roads.hops[root], parcels.up * self.far
        for rank in np.argsort(hops, kind="stable")[1:].tolist():
            nearer = [road for road in self.into[rank] if hops[roads.source[road]] < hops[rank]]
            step = down + int(hops[rank]) - 1
            yield base + ranks * parcels.up + rank, step, self._lightest(step, nearer, size)

    def _lightest(self, step: int, roads: list[int], size: int) -> int:
        """Return the route whose class carries least in a step, with this load added."""
        kinds = self.roads.kind[roads]
        # of equal ones by turns: the load so far says which is next
        least = np.flatnonzero(self.load[step, kinds] == self.load[step, kinds].min())
        chosen = least[int(self.load[step].sum() // max(size, 1)) % len(least)]
        self.load[step, kinds[chosen]] += size
        return int(roads[chosen])


def of_schedule(instance: RefineInstance, schedule: Schedule) -> Planned | None:
    """Return the plan that a schedule follows, or None: it has other routes, too many pieces or no trees.

    Parameters
    ----------
    instance
        The instance; the chunks of its items are used, not those of their images.
    schedule
        A legal schedule of the same problem; its chunks may have any roots.
    """
    size, parcel_of = _parcels(instance, schedule)
    table = schedule.route_table
    number = {route: i for i, route in enumerate(instance.network.routes.lists)}
    road_of = np.array([number.get(route, -1) for route in table.lists])
    count = np.ones(len(schedule), np.int64) if schedule.count is None else schedule.count.astype(np.int64)
    row, place = entries_of(count)
    parcel = parcel_of[schedule.chunk[row] + place]
    simulation = simulate(schedule, instance.size)
    start = simulation.start[simulation.message[row]]
    order = np.argsort(start, kind="stable")
    order = order[parcel[order] != _ELSEWHERE]
    row, parcel, road = row[order], parcel[order], road_of[schedule.route[row[order]]]
    if (parcel == _TOO_MANY).any() or (road < 0).any():
        return None
    adds = np.zeros(len(row), np.bool_) if schedule.reduce is None else schedule.reduce[row]
    found = _trees if instance.parcels.goal[0] < 0 else _paths
    followed = found(instance, parcel, road, adds)
    if followed is None:
        return None
    root, slot = followed
    taken = np.flatnonzero(slot >= 0)
    route = np.full(len(size) * instance.parcels.slots, -1, np.int32)
    route[slot[taken]] = road[taken]
    turn = np.unique(start[order][taken], return_inverse=True)[1]
    return instance.laid_out(root, route, slot[taken], turn, size)


_ELSEWHERE, _TOO_MANY = -1, -2


def _parcels(instance: RefineInstance, schedule: Schedule) -> tuple[Int64Array, Int64Array]:
    """Return the units of each parcel, and the parcel of each chunk, or why it is none."""
    chunks = schedule.chunks
    parcel = np.full(len(chunks), _ELSEWHERE)
    size = np.zeros((len(instance.items), instance.pieces), np.int64)
    for index, item in enumerate(instance.items):
        own = np.arange(chunks.first[item], chunks.first[item + 1])
        cuts = chunks.offset[own[0] : own[-1] + 2] - chunks.offset[own[0]]
        cuts = np.array([int(cut) * int(instance.units[item]) // int(cuts[-1]) for cut in cuts])
        own, units = own[np.diff(cuts) > 0], np.diff(cuts)[np.diff(cuts) > 0]
        parcel[own] = index * instance.pieces + np.arange(len(own))
        if len(own) > instance.pieces:
            parcel[own] = _TOO_MANY
        else:
            size[index, : len(own)] = units
    return size.ravel(), parcel


def _trees(
    instance: RefineInstance, parcel: Int64Array, road: Int64Array, adds: BoolArray
) -> tuple[Int32Array, Int64Array] | None:
    """Return the root of each parcel, and each transfer's slot (-1: it brings nothing new), for trees."""
    roads, parcels = instance.roads, instance.parcels
    ranks, root = len(roads.hops), parcels.root.copy()
    rank = np.where(adds, roads.source[road], roads.target[road]).astype(np.int64)
    slot = parcel * parcels.slots + rank + np.where(parcels.up & ~adds, ranks, 0)
    if parcels.up:  # a parcel's root is the rank that never sends it up
        if len(np.unique(slot[adds])) < adds.sum() or not adds.any():
            return None
        sent = np.zeros((len(root), ranks), np.bool_)
        sent[parcel[adds], rank[adds]] = True
        used = np.unique(parcel)
        if (sent[used].sum(axis=1) != ranks - 1).any():
            return None
        root[used] = np.argmin(sent[used], axis=1)
        # Empty parcels of an item, the last ones, can then each copy the routes of one of the others.
        filled = np.bincount(used // instance.pieces, minlength=len(instance.items))[:, None]
        alike = np.arange(instance.pieces) % np.maximum(filled, 1)
        root = np.take_along_axis(root.reshape(alike.shape), alike, axis=1).ravel()
    first = np.zeros(len(slot), np.bool_)
    first[np.unique(slot, return_index=True)[1]] = True
    slot[~first | (~adds & (rank == root[parcel]))] = -1
    complete = (slot >= 0).sum() == len(np.unique(parcel)) * (ranks - 1) * (1 + parcels.up)
    return (root, slot) if complete else None


def _paths(
    instance: RefineInstance, parcel: Int64Array, road: Int64Array, adds: BoolArray
) -> tuple[Int32Array, Int64Array] | None:
    """Return the root of each parcel, and each transfer's slot (-1: it is not on its path), for paths."""
    roads, parcels = instance.roads, instance.parcels
    leaving = {(int(p), int(s)): i for i, (p, s) in enumerate(zip(parcel, roads.source[road], strict=True))}
    slot = np.full(len(parcel), -1)
    for p in np.unique(parcel).tolist():
        at, step = int(parcels.root[p]), 0
        while at != parcels.goal[p]:
            transfer = leaving.get((p, at))
            if transfer is None or step == parcels.slots:
                return None
            slot[transfer], at, step = p * parcels.slots + step, int(roads.target[road[transfer]]), step + 1
    return parcels.root, slot

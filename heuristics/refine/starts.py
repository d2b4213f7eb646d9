"""First plans: along shortest paths, step by step; and those that schedules follow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tutti.heuristics.refine.instance import Planned, RefineInstance
from tutti.heuristics.refine.plan import Parcels, Roads
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array, offsets_of


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
        for own, step, road in steps.ways(parcel, int(size.ravel()[parcel])):
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

    def ways(self, parcel: int, size: int) -> Iterator[tuple[int, int, int]]:
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
    row = np.repeat(np.arange(len(schedule)), count)
    parcel = parcel_of[schedule.chunk[row] + np.arange(len(row)) - offsets_of(count)[row]]
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

"""From in-trees and out-trees to an allreduce: the buffer is a line, and each root has an interval of it.

A root's in-trees divide its interval among them, and so do its out-trees, not in the same places. What an
edge of a tree moves is a *leg*: an interval over an arc, up with a sum or down with a copy; where several
arcs join two ranks it is divided among them by their room. Legs that sum stand first, the deepest before the
others, then those that copy, the nearest to the root first. Legs of one depth over one arc that continue each
other are one. The items of the collective are intervals of the line too, so a leg is a row for each item that
it meets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from schedules.collective import Collective
from schedules.schedule import Chunks, Clock, Routes, Schedule
from topologies.errors import NoSchedule, TuttiError
from topologies.exact import INT64_MAX, Int32Array, Int64Array, offsets_of
from topologies.forest import Forest, LogicalNetwork
from topologies.heights import depths
from topologies.topology import Topology


class HalfTrees(NamedTuple):
    """One half: arcs, and trees over them; a parent is where data comes from, or in in-trees goes to."""

    arcs: LogicalNetwork
    forest: Forest


class _Legs(NamedTuple):
    """What moves: units begin to end - 1 over a route; the turn is the depth, negative if it sums."""

    turn: Int64Array
    route: Int64Array
    begin: Int64Array
    end: Int64Array


def allreduce_schedule(topology: Topology, what: Collective, up: HalfTrees, down: HalfTrees) -> Schedule:
    """Return the flow schedule that reduces up the in-trees and broadcasts down the out-trees.

    Parameters
    ----------
    topology
        The physical network.
    what
        An allreduce in one group of all ranks.
    up, down
        As many trees of each root up as down; no arc carries more than its capacity. The parents of in-trees
        are where data goes to.

    Raises
    ------
    NoSchedule
        If the sizes do not fit 64 bits.
    TuttiError
        If the trees do not fit the arcs.
    """
    share, units = what.items.share.reduced, sum(up.forest.weight.tolist())
    scale = math.lcm(share.denominator, units) // units
    if units * scale > INT64_MAX // 4:
        raise NoSchedule(
            f"allreduce_lp on {topology.name}: cutting {what} for {units} trees needs sizes beyond 64 bits; "
            "fix the number of trees, such as --option trees=100"
        )
    legs = _merged([*_legs(up, -1, 0), *_legs(down, 1, len(up.arcs.tails))])
    legs = legs._replace(begin=legs.begin * scale, end=legs.end * scale)
    bounds = offsets_of(share.numerators) * (units * scale // share.denominator)
    item, start, size = _chunks(bounds, np.union1d(legs.begin, legs.end))
    chunk, count, leg = _rows(legs, item, start)
    return Schedule(
        topology=topology,
        collective=what,
        clock=Clock.FLOW,
        chunks=Chunks(item, size, units * scale),
        chunk=chunk,
        route=legs.route[leg].astype(np.int32),
        count=None if (count == 1).all() else count,
        reduce=legs.turn[leg] < 0,
        routes=_joined(up.arcs, down.arcs),
    )


def _joined(one: LogicalNetwork, other: LogicalNetwork) -> Routes:
    offsets = np.concatenate([one.offsets, other.offsets[1:] + one.offsets[-1]])
    return Routes(offsets, np.concatenate([one.links, other.links]))


def _legs(trees: HalfTrees, sign: int, first_route: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (turn, route, begin, end) of every edge of one half's trees."""
    room = _Room(trees.arcs)
    unit = 0
    for parent, weight in zip(trees.forest.parent, trees.forest.weight.tolist(), strict=True):
        depth = depths(parent).tolist()
        for rank, above in enumerate(parent.tolist()):
            if above >= 0:
                ends = (above, rank) if sign > 0 else (rank, above)
                for arc, begin, end in room.fill(ends, unit, unit + weight):
                    yield sign * depth[rank], first_route + arc, begin, end
        unit += weight


class _Room:
    """What the arcs of each pair have left."""

    def __init__(self, arcs: LogicalNetwork) -> None:
        self.left = arcs.capacity.tolist()
        self.arcs: dict[tuple[int, int], list[int]] = {}
        for arc, ends in enumerate(zip(arcs.tails.tolist(), arcs.heads.tolist(), strict=True)):
            self.arcs.setdefault(ends, []).append(arc)

    def fill(self, ends: tuple[int, int], begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield (arc, begin, end) of the parts of an interval."""
        for arc in self.arcs.get(ends, ()):
            part = min(end - begin, self.left[arc])
            if part:
                self.left[arc] -= part
                yield arc, begin, begin + part
                begin += part
        if begin < end:
            raise TuttiError(
                f"the trees need more capacity from rank {ends[0]} to {ends[1]} than the arcs have"
            )


def _merged(legs: list[tuple[int, int, int, int]]) -> _Legs:
    """Return the legs in replay order, those that continue each other in one."""
    table = np.array(legs, dtype=np.int64)
    turn, route, begin, end = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))].T
    new = np.ones(len(turn), dtype=bool)
    new[1:] = (turn[1:] != turn[:-1]) | (route[1:] != route[:-1]) | (begin[1:] != end[:-1])
    first = np.flatnonzero(new)
    return _Legs(turn[first], route[first], begin[first], end[np.append(first[1:], len(new)) - 1])


def _chunks(bounds: Int64Array, cuts: Int64Array) -> tuple[Int32Array, Int64Array, Int64Array]:
    """Return item, start and size of each chunk: the line between all cuts, and one of size 0 an empty item.

    Starts do not decrease: an empty item's is where it lies, or on the last unit.
    """
    cuts = np.union1d(bounds, cuts)
    empty = np.flatnonzero(np.diff(bounds) == 0)
    item = np.concatenate([np.searchsorted(bounds[1:], cuts[:-1], side="right"), empty])
    start = np.concatenate([cuts[:-1], np.minimum(bounds[empty], cuts[-1] - 1)])
    size = np.concatenate([np.diff(cuts), np.zeros(len(empty), dtype=np.int64)])
    order = np.argsort(item, kind="stable")
    return item[order].astype(np.int32), start[order], size[order]


def _rows(legs: _Legs, item: Int32Array, start: Int64Array) -> tuple[Int32Array, Int32Array, Int64Array]:
    """Return first chunk, number of chunks and leg of each row: what a leg moves of each item."""
    low, high = np.searchsorted(start, legs.begin), np.searchsorted(start, legs.end)
    first = np.searchsorted(item, np.arange(item[-1] + 2))
    met = item[high - 1] - item[low] + 1
    leg = np.repeat(np.arange(len(met)), met)
    which = item[low][leg] + np.arange(len(leg)) - offsets_of(met)[leg]
    begin, end = np.maximum(first[which], low[leg]), np.minimum(first[which + 1], high[leg])
    return begin.astype(np.int32), (end - begin).astype(np.int32), leg

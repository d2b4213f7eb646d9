"""From trees to an allreduce: the buffer is a line, and each tree reduces and broadcasts its interval of it.

A tree of weight w has w units of the line. An edge's child sends them to its parent in a row that reduces,
and gets them back in a row that copies; where several arcs join two ranks, the units go over them in turn, as
far as each one's capacity goes. Items are intervals of the line too: a row is what a tree edge moves of one
item over one arc, a run of the chunks that lie between all cuts. Rows that reduce stand first, the deepest
before the others, then those that copy, the nearest to the root first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from models.allreduce.spanning_trees import Packing
from schedules.collective import Collective
from schedules.schedule import Chunks, Clock, Routes, Schedule
from topologies.errors import NoSchedule
from topologies.exact import INT64_MAX, Int32Array, Int64Array, offsets_of
from topologies.forest import Forest, LogicalNetwork
from topologies.heights import depths
from topologies.topology import Topology

MOST_TRANSFERS = 5 * 10**7
"""A table takes about 60 bytes a row while it is made; every rank sends every item twice: 5,000 ranks."""


class Legs(NamedTuple):
    """What moves: units begin to end - 1 over an arc; turn is the child's depth, negative if it reduces."""

    begin: Int64Array
    end: Int64Array
    arc: Int64Array
    turn: Int64Array


class _Chunks(NamedTuple):
    """The chunk table, and where on the line each chunk begins."""

    item: Int32Array
    start: Int64Array
    size: Int64Array


def trees_schedule(topology: Topology, what: Collective, arcs: LogicalNetwork, packing: Packing) -> Schedule:
    """Return the flow schedule that reduces every tree's part of M to its root and broadcasts it from there.

    Parameters
    ----------
    topology
        The physical network.
    what
        An allreduce in one group of all ranks.
    arcs
        Routes between ranks.
    packing
        Spanning trees whose edges all have an arc each way. An arc gets at most its capacity times the ratio.

    Raises
    ------
    NoSchedule
        If the table would be too large, or the cuts do not fit 64 bits.
    """
    share = what.items.share.reduced
    units = sum(packing.forest.weight.tolist())
    load = units * packing.ratio  # on a capacity of 1
    scale = math.lcm(share.denominator, units, units * load.denominator) // units
    most = int(load * scale) * max(arcs.capacity.tolist())
    if max(units * scale, most) > INT64_MAX // 4:
        raise NoSchedule(
            f"allreduce_trees on {topology.name}: cutting {what} for {units} trees needs sizes beyond 64 bits"
        )
    legs = _legs(arcs, packing.forest, scale, int(load * scale))
    return flow_of(topology, what, legs, units * scale, Routes(arcs.offsets, arcs.links))[0]


def flow_of(
    topology: Topology, what: Collective, legs: Legs, line: int, routes: Routes | None = None
) -> tuple[Schedule, Int64Array]:
    """Return the rows that legs make, in their order, and the leg of each row.

    Parameters
    ----------
    topology, what
        As above.
    legs
        In replay order.
    line
        How many units M has, a multiple of the denominator of the items' shares.
    routes
        Of the arcs; None: each is the link of its number.
    """
    share = what.items.share.reduced
    bounds = offsets_of(share.numerators) * (line // share.denominator)
    chunks = _chunks(bounds, np.unique(legs.end))
    chunk, count, leg = _rows(topology, legs, chunks)
    schedule = Schedule(
        topology=topology,
        collective=what,
        clock=Clock.FLOW,
        chunks=Chunks(chunks.item, chunks.size, line),
        chunk=chunk,
        route=legs.arc[leg].astype(np.int32),
        count=None if (count == 1).all() else count,
        reduce=legs.turn[leg] < 0,
        routes=routes,
    )
    return schedule, leg


def _legs(arcs: LogicalNetwork, forest: Forest, scale: int, load: int) -> Legs:
    """Return what moves, in replay order: a unit tree moves `scale` units, a capacity of 1 bears `load`."""
    ranks = arcs.num_ranks
    pair = arcs.tails.astype(np.int64) * ranks + arcs.heads
    order = np.argsort(pair, kind="stable")
    keys, first = np.unique(pair[order], return_index=True)
    table = _lay(
        forest.parent,
        forest.weight * scale,
        keys,
        np.append(first, len(pair)),
        (order.astype(np.int64), arcs.capacity[order] * load),
    )
    return Legs(*table[:, np.argsort(table[3], kind="stable")])


@njit(cache=True)
def _lay(
    parent: Int32Array,
    weight: Int64Array,
    keys: Int64Array,
    first: Int64Array,
    arcs: tuple[Int64Array, Int64Array],
) -> Int64Array:
    """Return begin, end, arc and turn of what moves over tree edges, split over a pair's arcs by room."""
    trees, ranks = parent.shape
    arc, room = arcs
    table = np.empty((4, 2 * trees * (ranks - 1) + len(arc)), dtype=np.int64)
    place = first[:-1].copy()
    rows, unit = 0, 0
    for tree in range(trees):
        depth = depths(parent[tree])
        for child in range(ranks):
            above = parent[tree, child]
            if above < 0:
                continue
            for key, turn in (
                (child * ranks + above, -depth[child]),
                (np.int64(above) * ranks + child, depth[child]),
            ):
                which = np.searchsorted(keys, key)
                begin, end = unit, unit + weight[tree]
                while begin < end:
                    at = place[which]
                    last = at + 1 == first[which + 1]
                    part = end - begin if last else min(end - begin, room[at])
                    if part > 0:
                        table[0, rows], table[1, rows] = begin, begin + part
                        table[2, rows], table[3, rows] = arc[at], turn
                        rows += 1
                    begin += part
                    room[at] -= part
                    if room[at] <= 0 and not last:
                        place[which] += 1
        unit += weight[tree]
    return table[:, :rows]


def _chunks(bounds: Int64Array, cuts: Int64Array) -> _Chunks:
    """Return the line between all cuts, and one chunk of size 0 for an empty item."""
    cuts = np.union1d(bounds, cuts)
    empty = np.flatnonzero(np.diff(bounds) == 0)
    start = np.concatenate([cuts[:-1], np.minimum(bounds[empty], cuts[-1] - 1)])
    item = np.concatenate([np.searchsorted(bounds[1:], cuts[:-1], side="right"), empty])
    size = np.concatenate([np.diff(cuts), np.zeros(len(empty), dtype=np.int64)])
    order = np.argsort(item, kind="stable")
    return _Chunks(item[order].astype(np.int32), start[order], size[order])


def _rows(topology: Topology, legs: Legs, chunks: _Chunks) -> tuple[Int32Array, Int32Array, Int64Array]:
    """Return first chunk, number of chunks and leg of each row: a run of chunks that a leg moves of an item.

    Chunks of size 0 are moved by the legs that move the place where they lie.
    """
    filled, empty = np.flatnonzero(chunks.size > 0), np.flatnonzero(chunks.size == 0)
    start, item = chunks.start[filled], chunks.item[filled]
    first = np.flatnonzero(np.diff(item, prepend=-1))  # of each item, among the filled chunks
    low = np.searchsorted(start[first], legs.begin, side="right") - 1
    met = np.searchsorted(start[first], legs.end) - low
    if int(met.sum()) > MOST_TRANSFERS:
        raise NoSchedule(
            f"allreduce_trees on {topology.name}: {int(met.sum())} transfers; "
            f"a table has at most {MOST_TRANSFERS}"
        )
    leg = np.repeat(np.arange(len(met)), met)
    inside = (legs.begin <= chunks.start[empty, None]) & (chunks.start[empty, None] < legs.end)
    ghost, of_leg = np.nonzero(inside)
    which = np.arange(len(leg)) + np.repeat(low - offsets_of(met)[:-1], met)
    begin = np.maximum(np.searchsorted(start, legs.begin)[leg], first[which])
    end = np.minimum(np.searchsorted(start, legs.end)[leg], np.append(first[1:], len(start))[which])
    chunk = np.concatenate([filled[begin], empty[ghost]]).astype(np.int32)
    count = np.concatenate([end - begin, np.ones(len(ghost), dtype=np.int64)]).astype(np.int32)
    leg = np.concatenate([leg, of_leg])
    order = np.argsort(leg, kind="stable")
    return chunk[order], count[order], leg[order]

"""Makes schedules from trees in epochs.

The data that a line carries in an epoch is one message on each of its routes. A line of several parallel
routes is loaded evenly: the data of an epoch is laid in a row and cut into as many equal parts, and a piece
that lies across a cut is cut in two.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.models.tree_columns.generation import EpochTrees
from tutti.models.tree_columns.links import EpochLinks
from tutti.schedules.collective import Collective
from tutti.schedules.intervals import IntervalTransfers, interval_schedule
from tutti.schedules.list_scheduling import in_messages
from tutti.schedules.schedule import Routes, Schedule
from tutti.topologies.exact import FloatArray, Int64Array, joined_rows, offsets_of, rows_at

PARTS = 2**24
"""Units of a shard, or of an allreduce's vector, to which weights are rounded."""


class EpochEdges(NamedTuple):
    """Edges of trees: epoch, ranks, and the units of M that they move, `start` to `stop` - 1; int64 each.

    `turn` is negative where the units are reduced.
    """

    epoch: Int64Array
    tail: Int64Array
    head: Int64Array
    start: Int64Array
    stop: Int64Array
    turn: Int64Array

    def take(self, chosen: Int64Array) -> EpochEdges:
        """Return the chosen edges."""
        return rows_at(self, chosen)


class TreeImages(NamedTuple):
    """Images of trees, in the order of the data that they move: tree, automorphism and units; int64 each."""

    tree: Int64Array
    element: Int64Array
    units: Int64Array


def schedule_of(
    lines: EpochLinks, trees: EpochTrees, images: TreeImages, what: Collective, size: Fraction
) -> Schedule:
    """Return the time-clock schedule by these trees, for M = `size` bytes.

    A message leaves as soon as its data is there and its links are free of those before it.

    Parameters
    ----------
    lines
        The lines that the trees use.
    trees
        Trees over the ranks, or over the ranks twice: first those to their roots, on which data is reduced.
    images
        Their units are all of M: those of the first item come first, then those of the second.
    what
        The collective that the trees do.
    size
        M in bytes.
    """
    begin = offsets_of(images.units)
    edges, route, routes = laid(_edges(lines, trees, images, begin), lines.routes)
    order = np.lexsort((edges.start, route, edges.epoch))
    edges, route = edges.take(order), route[order]
    transfers = IntervalTransfers(edges.start, edges.stop, route, edges.turn)
    flow, row = interval_schedule(lines.topology, what, transfers, int(begin[-1]), routes)
    return in_messages(flow, edges.epoch[row], size)


def _edges(lines: EpochLinks, trees: EpochTrees, images: TreeImages, begin: Int64Array) -> EpochEdges:
    """Return the edges of all images; `begin` is the first unit of each."""
    ranks = lines.topology.num_ranks
    which, child = np.nonzero(trees.parent[images.tree] >= 0)
    tree, element = images.tree[which], images.element[which]
    parent, up = trees.parent[tree, child], child < trees.parent.shape[1] - ranks
    tail, head = np.where(up, child, parent) % ranks, np.where(up, parent, child) % ranks
    return EpochEdges(
        trees.epoch[tree, child],
        lines.symmetries[element, tail],
        lines.symmetries[element, head],
        begin[which],
        begin[which + 1],
        -up.astype(np.int64),
    )


def whole_units(weight: FloatArray) -> Int64Array:
    """Return weights in whole units, `PARTS` in all, by largest remainders."""
    exact = weight / weight.sum() * PARTS
    whole = np.floor(exact).astype(np.int64)
    left = PARTS - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:left]] += 1
    return whole


def laid(
    edges: EpochEdges, routes_from: Callable[[int, int], list[list[int]]]
) -> tuple[EpochEdges, Int64Array, Routes]:
    """Return the edges in parts, the route of each part, and all routes, given the routes of each pair."""
    edges = edges.take(np.lexsort((edges.start, edges.head, edges.tail, edges.epoch)))
    pairs, line = np.unique(np.column_stack([edges.tail, edges.head]), axis=0, return_inverse=True)
    routes_of = [routes_from(tail, head) for tail, head in pairs.tolist()]
    count, line = np.array([len(each) for each in routes_of]), line.ravel()
    base = offsets_of(count)
    new = np.ones(len(line), dtype=bool)
    new[1:] = (np.diff(edges.epoch) != 0) | (np.diff(line) != 0)
    message = np.cumsum(new) - 1
    length = edges.stop - edges.start
    begin = offsets_of(length)[:-1]
    begin = begin - begin[np.flatnonzero(new)][message]
    total = np.bincount(message, length).astype(np.int64)[message]
    parts, routes = [], []
    for place in range(int(count.max())):
        low = np.maximum(begin, total * place // count[line])
        high = np.minimum(begin + length, total * (place + 1) // count[line])
        on = np.flatnonzero((low < high) & (place < count[line]))
        start = edges.start[on] + (low - begin)[on]
        parts.append(edges.take(on)._replace(start=start, stop=start + (high - low)[on]))
        routes.append(base[line[on]] + place)
    together = joined_rows(parts)
    return together, np.concatenate(routes), Routes.of([route for each in routes_of for route in each])

"""The buffer as a line: trees move intervals of M, and chunks lie between the ends of the intervals.

M is a line of units, on which the items of the collective lie one after the other. A tree of weight w has w
units of it. An edge of a tree moves an interval over an arc, or over several arcs that join the same two
ranks, according to their room. The line is cut where an item or an interval ends, so each interval is a run
of chunks of every item that it meets. An item of size 0 is one chunk, which goes where the unit goes at which
the item would begin. Methods with steps instead of trees move equal parts of the line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tutti.schedules.collective import Collective
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule, step_numbers
from tutti.topologies.errors import NoSchedule, TuttiError
from tutti.topologies.exact import (
    INT64_MAX,
    BoolArray,
    Int32Array,
    Int64Array,
    entries_of,
    joined_rows,
    offsets_of,
    rows_at,
)
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology
from tutti.topologies.trees.forest import Forest, LogicalNetwork, depths

MOST_TRANSFERS = 5 * 10**7
"""Most rows of a table, which takes about 60 bytes per row while it is made. 5,000 ranks need as many."""


class PartTransfers(NamedTuple):
    """Transfers of a part of the line, as arrays of one length: step, link, and whether the transfer adds."""

    step: Int64Array
    link: Int64Array
    reduce: BoolArray


class IntervalTransfers(NamedTuple):
    """Transfers of intervals of the line: int64, shape (transfers,).

    Parameters
    ----------
    begin, end
        The units begin to end - 1.
    arc
        The route that each takes.
    turn
        The depth of the tree edge's child, negative if the transfer reduces. Sorting by it gives replay
        order.
    """

    begin: Int64Array
    end: Int64Array
    arc: Int64Array
    turn: Int64Array

    def in_turn(self) -> IntervalTransfers:
        """Return them in replay order: reductions from the deepest edges on, then copies from the root on."""
        return rows_at(self, np.argsort(self.turn, kind="stable"))

    def merged(self) -> IntervalTransfers:
        """Return the transfers in replay order; adjacent intervals of one turn over one arc are merged."""
        turn, arc, begin, end = self.turn, self.arc, self.begin, self.end
        order = np.lexsort((begin, arc, turn))
        turn, arc, begin, end = turn[order], arc[order], begin[order], end[order]
        new = np.ones(len(turn), dtype=np.bool_)
        new[1:] = (turn[1:] != turn[:-1]) | (arc[1:] != arc[:-1]) | (begin[1:] != end[:-1])
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(new)) - 1
        return IntervalTransfers(begin[first], end[last], arc[first], turn[first])

    def scaled(self, scale: int) -> IntervalTransfers:
        """Return the same transfers on a line with `scale` units in place of each."""
        return self._replace(begin=self.begin * scale, end=self.end * scale)


class _PairArcs(NamedTuple):
    """Arcs by pair of ranks: those of pair keys[i] = tail * N + head are arc[first[i] : first[i + 1]].

    `room` is the number of units that each may still carry, in the order of `arc`.
    """

    keys: Int64Array
    first: Int64Array
    arc: Int64Array
    room: Int64Array

    @classmethod
    def of(cls, network: LogicalNetwork, room: Int64Array) -> _PairArcs:
        pair = network.tails.astype(np.int64) * network.num_ranks + network.heads
        order = np.argsort(pair, kind="stable").astype(np.int64)
        keys, first = np.unique(pair[order], return_index=True)
        return cls(keys, np.append(first, len(pair)).astype(np.int64), order, room[order])


def tree_transfers(
    network: LogicalNetwork, forest: Forest, *, up: bool, down: bool, scale: int = 1, load: int | None = None
) -> IntervalTransfers:
    """Return the transfers of the edges of trees, tree by tree; each tree has its interval of the line.

    Parameters
    ----------
    network
        The arcs. Those of a pair are filled in turn, up to the room of each.
    forest
        The trees; a weight of 1 is `scale` units.
    up, down
        Whether edges carry their interval from the child to the parent, and from the parent to the child.
    scale
        The number of units of a weight of 1.
    load
        The number of units for which a capacity of 1 has room; the last arc of a pair takes the rest. None:
        `scale`, and no arc takes more.

    Raises
    ------
    TuttiError
        If the arcs of a pair have too little room, or a pair has no arc.

    Examples
    --------
    >>> path = LogicalNetwork(3, [0, 0, 1], [1, 1, 2], [1, 2, 3], [0, 1, 2, 3], [7, 8, 9])
    >>> moved = tree_transfers(path, Forest([0], [2], [[-1, 0, 1]]), up=False, down=True)
    >>> moved.arc.tolist(), moved.begin.tolist(), moved.end.tolist()  # half over each of two arcs, then all
    ([0, 1, 2], [0, 1, 0], [1, 2, 2])
    """
    pairs = _PairArcs.of(network, network.capacity * (scale if load is None else load))
    table, lacking = _lay(forest.parent, forest.weight * scale, pairs, up, down)
    if lacking < 0 and load is None and (pairs.room < 0).any():
        lacking = int(pairs.keys[np.searchsorted(pairs.first, np.argmin(pairs.room), side="right") - 1])
    if lacking >= 0:
        tail, head = divmod(lacking, network.num_ranks)
        raise TuttiError(f"the trees need more capacity from rank {tail} to {head} than the arcs have")
    return IntervalTransfers(*table)


@kernel
def _lay(
    parent: Int32Array, weight: Int64Array, pairs: _PairArcs, up: bool, down: bool
) -> tuple[Int64Array, int]:
    """Return begin, end, arc and turn of tree edges' transfers, and a pair without arcs or -1."""
    trees, ranks = parent.shape
    table = np.empty((4, 2 * trees * (ranks - 1) + len(pairs.arc)), dtype=np.int64)
    place = pairs.first[:-1].copy()
    rows, unit = 0, 0
    for tree in range(trees):
        depth = depths(parent[tree])
        for child in range(ranks):
            above = np.int64(parent[tree, child])
            if above < 0:
                continue
            for reduces in (True, False):
                if not (up if reduces else down):
                    continue
                key = child * ranks + above if reduces else above * ranks + child
                which = np.searchsorted(pairs.keys, key)
                if which == len(pairs.keys) or pairs.keys[which] != key:
                    return table[:, :0].copy(), key
                begin, end = unit, unit + weight[tree]
                # The edges between two ranks fill their arcs in turn; the last arc takes all that is left.
                while begin < end:
                    at = place[which]
                    last = at + 1 == pairs.first[which + 1]
                    part = end - begin if last else min(end - begin, pairs.room[at])
                    if part > 0:
                        table[0, rows], table[1, rows] = begin, begin + part
                        table[2, rows] = pairs.arc[at]
                        table[3, rows] = -depth[child] if reduces else depth[child]
                        rows += 1
                    begin += part
                    pairs.room[at] -= part
                    if pairs.room[at] <= 0 and not last:
                        place[which] += 1
        unit += weight[tree]
    return table[:, :rows].copy(), -1


def line_width(what: Collective, *widths: int) -> int:
    """Return the least number of units for which items, and parts of lines of these widths, are whole.

    Raises
    ------
    NoSchedule
        If there are too many units for 64 bits.

    Examples
    --------
    >>> from tutti.schedules.collective import collective
    >>> line_width(collective("allreduce", 4), 6)
    12
    """
    width = math.lcm(what.items.share.reduced.denominator, *widths)
    if width > INT64_MAX:
        raise NoSchedule(f"{what}: its shards and their parts have no common unit of 1 / 2^63 or more")
    return width


@dataclass(frozen=True, eq=False)
class CutLine:
    """The chunks of a line with cuts.

    Parameters
    ----------
    width
        The number of units of the line.
    start
        int64, shape (chunks,): where each chunk begins, non-decreasing.
    item, size
        int32 and int64, shape (chunks,): the chunk table.
    """

    width: int
    start: Int64Array
    item: Int32Array
    size: Int64Array

    @classmethod
    def of(cls, what: Collective, width: int, cuts: Int64Array) -> CutLine:
        """Return the line cut at the ends of all items and at these places.

        Parameters
        ----------
        what
            The collective whose items lie on the line, in order.
        width
            A multiple of `line_width`.
        cuts
            int64, shape (cuts,): the places, in any order.

        Examples
        --------
        >>> from tutti.schedules.collective import collective
        >>> line = CutLine.of(collective("allreduce", 2), 4, np.array([1, 4]))
        >>> line.start.tolist(), line.item.tolist(), line.size.tolist()
        ([0, 1, 2], [0, 0, 1], [1, 1, 2])
        """
        share = what.items.share.reduced
        bounds = offsets_of(share.numerators) * (width // share.denominator)
        cuts = np.union1d(bounds, cuts)
        empty = np.flatnonzero(share.numerators == 0)
        item = np.concatenate([np.searchsorted(bounds[1:], cuts[:-1], side="right"), empty])
        start = np.concatenate([cuts[:-1], np.minimum(bounds[empty], width - 1)])
        size = np.concatenate([np.diff(cuts), np.zeros(len(empty), dtype=np.int64)])
        order = np.argsort(item, kind="stable")
        return cls(width, start[order], item[order].astype(np.int32), size[order])

    @property
    def chunks(self) -> Chunks:
        """The chunk table."""
        return Chunks(self.item, self.size, self.width)

    def each_chunk(self, begin: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the chunks of intervals one by one, in their order, and the interval of each."""
        first, last = np.searchsorted(self.start, begin), np.searchsorted(self.start, end)
        interval, place = entries_of(last - first)
        return first[interval] + place, interval

    def runs(self, begin: Int64Array, end: Int64Array) -> tuple[Int32Array, Int32Array, Int64Array]:
        """Return the run of each item that an interval meets: first chunk, number of chunks, interval."""
        low, high = np.searchsorted(self.start, begin), np.searchsorted(self.start, end)
        first = np.searchsorted(self.item, np.arange(self.item[-1] + 2))  # of each item
        interval, place = entries_of(self.item[high - 1] - self.item[low] + 1)
        which = self.item[low][interval] + place
        chunk = np.maximum(first[which], low[interval])
        count = np.minimum(first[which + 1], high[interval]) - chunk
        return chunk.astype(np.int32), count.astype(np.int32), interval

    def runs_in(self, begin: Int64Array, end: Int64Array) -> int:
        """Return the number of `runs`."""
        low, high = np.searchsorted(self.start, begin), np.searchsorted(self.start, end)
        return int((self.item[high - 1].astype(np.int64) - self.item[low] + 1).sum())


def interval_schedule(
    topology: Topology,
    what: Collective,
    transfers: IntervalTransfers,
    width: int,
    routes: Routes | None = None,
) -> tuple[Schedule, Int64Array]:
    """Return the flow schedule whose rows are runs of chunks, one item each, and the transfer of each row.

    Parameters
    ----------
    topology, what
        The network and the collective.
    transfers
        The transfers in replay order; those whose turn is negative reduce.
    width
        The number of units of the line: a multiple of `line_width`.
    routes
        The routes of the arcs; None: each arc is the link of its number.

    Raises
    ------
    NoSchedule
        If the table would be too large.
    """
    line = CutLine.of(what, width, np.concatenate([transfers.begin, transfers.end]))
    rows = line.runs_in(transfers.begin, transfers.end)
    if rows > MOST_TRANSFERS:
        raise NoSchedule(f"{what} on {topology.name}: {rows} transfers; a table has at most {MOST_TRANSFERS}")
    chunk, count, transfer = line.runs(transfers.begin, transfers.end)
    schedule = Schedule(
        topology=topology,
        collective=what,
        clock=Clock.FLOW,
        chunks=line.chunks,
        chunk=chunk,
        route=transfers.arc[transfer].astype(np.int32),
        count=None if (count == 1).all() else count,
        reduce=transfers.turn[transfer] < 0,
        routes=routes,
    )
    return schedule, transfer


def joined_routes(*networks: LogicalNetwork) -> Routes:
    """Return the routes of all arcs, one network's after the other's."""
    lengths = np.concatenate([np.diff(network.offsets) for network in networks])
    return Routes(offsets_of(lengths), np.concatenate([network.links for network in networks]))


def take_sums(topology: Topology, links: Int64Array, keeps: BoolArray, held: BoolArray) -> None:
    """Update held[v, u], whether rank u's first value is in rank v's sum, after transfers over links.

    `keeps` says for each rank whether arriving data is added to its sum or replaces it.
    """
    arrived, target = held[topology.source[links]], topology.target[links]
    held[~keeps] = False
    while len(target):  # one arrival per rank at a time
        ranks, first = np.unique(target, return_index=True)
        held[ranks] |= arrived[first]
        arrived, target = np.delete(arrived, first, axis=0), np.delete(target, first)


def sums_sent(topology: Topology, steps: Sequence[tuple[Int64Array, BoolArray]]) -> PartTransfers:
    """Return the transfers of steps; a step is the links used, and whether each rank keeps its sum.

    A sum that would only replace an equal one is not sent: the rank keeps its own.
    """
    held, rows = np.eye(topology.num_ranks, dtype=np.bool_), []
    for number, (links, keeps) in enumerate(steps, 1):
        source, target = topology.source[links], topology.target[links]
        there = ~keeps[target] & (held[source] == held[target]).all(axis=1)
        adds = keeps.copy()
        adds[target[there]] = True
        sent = links[~there]
        first = np.unique(topology.target[sent], return_index=True)[1]
        reduce = adds[topology.target[sent]] | ~np.isin(np.arange(len(sent)), first)
        rows.append(PartTransfers(np.full(len(sent), number), sent, reduce))
        take_sums(topology, links, keeps, held)
    return joined_rows(rows)


def in_parts(
    topology: Topology, what: Collective, parts: Sequence[PartTransfers], sizes: Sequence[int] | None = None
) -> Schedule:
    """Return the schedule in the step clock of a line in parts, each with its own transfers.

    Parameters
    ----------
    topology, what
        The network and the collective.
    parts
        The transfers of each. Among the data that arrive at a rank in a step, copies come first.
    sizes
        The relative sizes of the parts; None for equal sizes.
    """
    ends = offsets_of([1] * len(parts) if sizes is None else sizes)
    width = line_width(what, int(ends[-1]))
    line = CutLine.of(what, width, ends[:-1] * (width // ends[-1]))
    of_chunk = np.searchsorted(ends * (width // ends[-1]), line.start, side="right") - 1
    chunk = np.repeat(np.arange(len(of_chunk)), [len(parts[part].step) for part in of_chunk])
    step, link, reduce = joined_rows([parts[part] for part in of_chunk])
    rows = np.lexsort((chunk, link, reduce, step))
    return Schedule(
        topology=topology,
        collective=what,
        clock=Clock.STEP,
        chunks=line.chunks,
        chunk=chunk[rows].astype(np.int32),
        route=link[rows].astype(np.int32),
        order=step_numbers(step[rows]),
        reduce=reduce[rows].astype(np.bool_),
    )

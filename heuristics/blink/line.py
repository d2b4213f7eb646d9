"""The buffer as a line: trees move intervals of it, items are intervals of it, chunks lie between cuts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from schedules.collective import Collective
from schedules.schedule import Chunks, Clock, Routes, Schedule
from topologies.errors import InputError
from topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array
from topologies.topology import Topology


class Leg(NamedTuple):
    """Transfers of intervals of the line, one a row, in replay order.

    Parameters
    ----------
    width
        The length of the line, which stands for all of M.
    begin, end
        int64, shape (rows,): the interval [begin, end) of each row.
    arc
        int64, shape (rows,): the arc that it goes over.
    tails, heads
        int32, shape (arcs,): the ranks that each arc joins.
    offsets, links
        CSR: the links of each arc's route.
    height, mean_height
        Of the trees, in hops between ranks; the mean weighted by what a tree carries.
    """

    width: int
    begin: Int64Array
    end: Int64Array
    arc: Int64Array
    tails: Int32Array
    heads: Int32Array
    offsets: Int64Array
    links: Int32Array
    height: int
    mean_height: float

    def backwards(self) -> Leg:
        """Return the transfers turned round, last first: those of the transposed network are this one's."""
        lengths = np.diff(self.offsets)[::-1]
        return self._replace(
            begin=self.begin[::-1],
            end=self.end[::-1],
            arc=len(self.tails) - 1 - self.arc[::-1],
            tails=self.heads[::-1],
            heads=self.tails[::-1],
            offsets=np.concatenate([[0], np.cumsum(lengths)]),
            links=self.links[::-1],
        )


class Rows(NamedTuple):
    """Rows of a leg chunk by chunk.

    Parameters
    ----------
    chunk
        int64, shape (rows,).
    arc
        int64, shape (rows,): of the leg.
    """

    chunk: Int64Array
    arc: Int64Array

    def where(self, wanted: BoolArray) -> Rows:
        """Return some of the rows."""
        return Rows(self.chunk[wanted], self.arc[wanted])


@dataclass(frozen=True, eq=False)
class Line:
    """The chunks into which items and legs cut the line.

    Parameters
    ----------
    collective
        Whose items lie on it, in order.
    legs
        What moves on it.
    width
        Its length, in which all cuts are whole.
    start
        int64, shape (chunks,): where each chunk begins, non-decreasing. An item without a size has one
        chunk without a size, which goes where the line goes that it would start on.
    item, size
        The chunk table, over `width`.
    """

    collective: Collective
    legs: Sequence[Leg]
    width: int
    start: Int64Array
    item: Int32Array
    size: Int64Array

    @classmethod
    def of(cls, collective: Collective, legs: Sequence[Leg]) -> Line:
        """Return the line of these items and legs.

        Raises
        ------
        InputError
            If its length does not fit 64 bits.
        """
        share = collective.items.share.reduced
        width = math.lcm(share.denominator, *(leg.width for leg in legs))
        if width > INT64_MAX:
            raise InputError(
                f"blink: cutting {collective} for {legs[0].width} trees needs sizes beyond 64 bits"
            )
        bounds = np.concatenate([[0], np.cumsum(share.numerators)]) * (width // share.denominator)
        cuts = np.unique(np.concatenate([bounds, *(leg.end * (width // leg.width) for leg in legs), [0]]))
        empty = np.flatnonzero(share.numerators == 0)
        start = np.concatenate([cuts[:-1], np.minimum(bounds[empty], width - 1)])
        item = np.concatenate([np.searchsorted(bounds[1:], cuts[:-1], side="right"), empty])
        size = np.concatenate([np.diff(cuts), np.zeros(len(empty), dtype=np.int64)])
        order = np.argsort(item, kind="stable")
        return cls(collective, legs, width, start[order], item[order].astype(np.int32), size[order])

    def rows(self, leg: Leg) -> Rows:
        """Return the transfers of a leg chunk by chunk."""
        scale = self.width // leg.width
        first, last = (np.searchsorted(self.start, cut * scale) for cut in (leg.begin, leg.end))
        count = last - first
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        return Rows(np.repeat(first, count) + within, np.repeat(leg.arc, count))

    def schedule(self, topology: Topology, rows: Sequence[Rows], reduce: Sequence[bool]) -> Schedule:
        """Return the schedule of these rows of the legs, one leg after the other; `reduce` says which add."""
        lengths = np.concatenate([np.diff(leg.offsets) for leg in self.legs])
        base = np.cumsum([0, *(len(leg.tails) for leg in self.legs)])
        adds = np.repeat(np.array(reduce, dtype=np.bool_), [len(part.chunk) for part in rows])
        return Schedule(
            topology=topology,
            collective=self.collective,
            clock=Clock.FLOW,
            chunks=Chunks(self.item, self.size, self.width),
            chunk=np.concatenate([part.chunk for part in rows]).astype(np.int32),
            route=np.concatenate([part.arc + first for part, first in zip(rows, base, strict=False)]).astype(
                np.int32
            ),
            reduce=adds if adds.any() else None,
            routes=Routes(
                np.concatenate([[0], np.cumsum(lengths)]), np.concatenate([leg.links for leg in self.legs])
            ),
            stats={
                "trees": max(leg.width for leg in self.legs),
                "height": sum(leg.height for leg in self.legs),
                "mean_height": sum(leg.mean_height for leg in self.legs),
            },
        )

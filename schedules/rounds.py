"""A schedule in rounds: what each link carries in each round, for tables that outgrow memory.

Between links of one cost a schedule of single chunks is an array, rounds by links, of chunk numbers, two or
four bytes each: an allgather of 40,000 ranks takes 6.4 GB where a table of transfers takes 26. Mostly it is a
memory map of a file (`schedules.round_files`).

The array is that of an allgather. What is made of allgathers is not stored but played from it: a *part* plays
the rounds from last to first, reducing (the reverse, which is a reduce-scatter on the transposed network), or
on the links in the opposite direction, or both; an allreduce is two parts. A round is a step of the step
clock. The rows are made in *blocks* of whole steps, so that the costs of blocks add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from schedules.collective import Collective, Kind
from schedules.cost import StepCost, link_loads, step_cost
from schedules.schedule import Chunks, Clock, Schedule, step_numbers
from topologies.errors import Unsupported
from topologies.exact import Int32Array, Int64Array
from topologies.topology import Topology

CELLS = 2**22
"""Entries of the array that a block of rows is made from."""

Cells = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class Part:
    """How the array is played: from last to first, reducing; each link in the opposite direction."""

    reverse: bool
    opposite: bool


PARTS = {
    Kind.ALLGATHER: (Part(False, False),),
    Kind.REDUCE_SCATTER: (Part(True, False),),
    Kind.ALLREDUCE: (Part(True, True), Part(False, False)),
}
"""A reduce-scatter's array is an allgather's on the transposed network, others' on the network itself."""


class Block(NamedTuple):
    """Rows of whole steps, and the number of the first of them in the whole table."""

    first_row: int
    rows: Schedule


@dataclass(frozen=True, eq=False)
class RoundTable:
    """A schedule in the step clock whose rows are made, block by block, when they are asked for.

    Parameters
    ----------
    topology, collective, chunks
        As of a `Schedule`.
    cells
        uint16 or uint32, shape (rounds, links), mostly a memory map: the chunk; the type's largest number for
        none.

    Raises
    ------
    Unsupported
        If the collective is no allgather, reduce-scatter or allreduce; or it is an allreduce and a link has
        none in the opposite direction.
    """

    topology: Topology
    collective: Collective
    chunks: Chunks
    cells: Cells

    def __post_init__(self) -> None:
        """Check that there are parts to play."""
        if any(part.opposite for part in self.parts):
            _ = self.opposite

    @property
    def clock(self) -> Clock:
        """The step clock."""
        return Clock.STEP

    @property
    def parts(self) -> tuple[Part, ...]:
        """How the array is played, one after the other."""
        return parts_of(self.collective)

    @property
    def rounds(self) -> int:
        """Rows of the array."""
        return int(self.cells.shape[0])

    @property
    def steps(self) -> int:
        """Comm steps of all parts."""
        return self.rounds * len(self.parts)

    @cached_property
    def opposite(self) -> Int64Array:
        """int64, shape (links,): the link in the opposite direction of each."""
        return opposite_links(self.topology)

    @cached_property
    def transfers(self) -> int:
        """How many rows the parts have."""
        empty, count = int(nothing(self.cells.dtype)), 0
        for begin, end in self._spans():
            count += int(np.count_nonzero(self.cells[begin:end] != empty))
        return count * len(self.parts)

    def blocks(self) -> Iterator[Block]:
        """Yield the rows in order."""
        row = step = 0
        for part in self.parts:
            spans = self._spans()
            for begin, end in reversed(spans) if part.reverse else spans:
                rows = self._block(part, (begin, end), step)
                yield Block(row, rows)
                row, step = row + len(rows), step + end - begin

    def load(self) -> Schedule:
        """Return the whole as a schedule in memory."""
        blocks = [block.rows for block in self.blocks()]
        names = ("chunk", "route", "order", "reduce")
        columns: dict[str, Any] = {}
        for name in names:
            parts = [getattr(block, name) for block in blocks]
            if name == "reduce" and all(part is None for part in parts):
                continue
            empty = [np.zeros(len(b), bool) if p is None else p for b, p in zip(blocks, parts, strict=True)]
            columns[name] = np.concatenate(empty) if empty else np.zeros(0, np.int32)
        columns["order"] = step_numbers(columns["order"])
        return Schedule(self.topology, self.collective, Clock.STEP, self.chunks, **columns)

    def _spans(self) -> list[tuple[int, int]]:
        high = max(1, CELLS // max(1, self.cells.shape[1]))
        return [(begin, min(begin + high, self.rounds)) for begin in range(0, self.rounds, high)]

    def _block(self, part: Part, span: tuple[int, int], step: int) -> Schedule:
        cells = np.asarray(self.cells[span[0] : span[1]])
        if part.reverse:
            cells = cells[::-1]
        links = self.opposite if part.opposite else np.arange(cells.shape[1])
        count = int(np.count_nonzero(cells != nothing(cells.dtype)))
        chunk, route = np.empty(count, np.int32), np.empty(count, np.int32)
        order = np.empty(count, np.uint32)
        _write_rows(np.ascontiguousarray(cells), links, nothing(cells.dtype), step + 1, chunk, route, order)
        for column in (chunk, route, order):
            column.flags.writeable = False  # a schedule then takes it without a copy
        reduce = np.ones(count, dtype=bool) if part.reverse else None
        return Schedule(
            self.topology, self.collective, Clock.STEP, self.chunks, chunk, route, order, reduce=reduce
        )


@njit(cache=True, nogil=True)
def _write_rows(
    cells: Cells,
    links: Int64Array,
    none: np.unsignedinteger[Any],
    first_step: int,
    chunk: Int32Array,
    route: Int32Array,
    order: npt.NDArray[np.uint32],
) -> None:
    """Write a row of the three columns for each entry that is not `none`."""
    row = 0
    for turn in range(cells.shape[0]):
        for link in range(cells.shape[1]):
            if cells[turn, link] != none:
                chunk[row], route[row], order[row] = cells[turn, link], links[link], first_step + turn
                row += 1


def parts_of(what: Collective) -> tuple[Part, ...]:
    """Return how an allgather's array is played as a collective.

    Raises
    ------
    Unsupported
        If it can't be.
    """
    if what.kind not in PARTS:
        raise Unsupported(f"a table of rounds is of {', '.join(PARTS)}; not of {what.kind}")
    return PARTS[what.kind]


def opposite_links(topology: Topology) -> Int64Array:
    """Return, for each link, the one in the opposite direction: of parallel links, the one of the same turn.

    Raises
    ------
    Unsupported
        If a link has none.
    """
    source, target = topology.source, topology.target
    forth, back = np.lexsort((target, source)), np.lexsort((source, target))
    alike = (source[forth] == target[back]) & (target[forth] == source[back])
    if not alike.all():
        link = topology.link_name(int(forth[np.flatnonzero(~alike)[0]]))
        raise Unsupported(f"link {link} of {topology.name} has none in the opposite direction")
    opposite = np.empty(len(source), np.int64)
    opposite[forth] = back
    return opposite


def width_of(chunks: int) -> np.dtype[np.unsignedinteger[Any]]:
    """Return the type of the array for so many chunks: the narrowest with a number to spare."""
    return np.dtype(np.uint16) if chunks <= np.iinfo(np.uint16).max else np.dtype(np.uint32)


def nothing(width: np.dtype[Any]) -> np.unsignedinteger[Any]:
    """Return the number that stands for no chunk."""
    number: np.unsignedinteger[Any] = np.iinfo(width).max + width.type(0)
    return number


@dataclass(frozen=True)
class RoundCost:
    """What a table costs.

    Parameters
    ----------
    steps
        T_L and T_B.
    congestion
        As of `schedules.cost.congestion`: seconds per byte of M.
    """

    steps: StepCost
    congestion: Fraction


def round_cost(table: RoundTable) -> RoundCost:
    """Return the exact cost, in one pass over the rows."""
    tl_steps, seconds = 0, Fraction(0)
    loads = np.zeros(table.topology.num_links, np.int64)
    for block in table.blocks():
        cost = step_cost(block.rows)
        tl_steps, seconds = tl_steps + cost.tl_steps, seconds + cost.bandwidth_time
        loads += link_loads(block.rows)
    bandwidth = table.topology.node_bandwidth
    steps = StepCost(tl_steps, seconds, None if bandwidth is None else seconds * bandwidth)
    return RoundCost(steps, _congestion(table, loads))


def _congestion(table: RoundTable, loads: Int64Array) -> Fraction:
    """Return the largest load over bandwidth, exact: the largest load of each bandwidth is enough."""
    rates, kind = np.unique(table.topology.bandwidth.numerators, return_inverse=True)
    most = [int(loads[kind.ravel() == k].max(initial=0)) for k in range(len(rates))]
    scale = Fraction(table.topology.bandwidth.denominator, table.chunks.denominator)
    return scale * max(
        (Fraction(load, int(rate)) for load, rate in zip(most, rates, strict=True)), default=Fraction(0)
    )

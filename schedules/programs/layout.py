"""The places of a collective's data in the buffers of a program.

A rank's input holds the items that start at it, one after the other in the order of `Collective.items`; its
output holds the items that end at it. So an allgather's output holds the shards by owner; an all-to-all's
input is ordered by destination and its output by owner, as in MPI and NCCL.

In place, input and output share one memory. The smaller lies inside the larger, at the place of the rank's
own item: an allgather's input at its shard of the output, a reduce-scatter's output at its shard of the
input.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from tutti.schedules.collective import EVERYONE, Collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import Int32Array, Int64Array, offsets_of

NUM_BUFFERS = 3


class HasBuffers(Protocol):
    """The properties that a layout needs, those of a `program.Program`."""

    @property
    def collective(self) -> Collective:
        """The collective that the program does."""

    @property
    def units(self) -> int:
        """The number of units of M."""

    @property
    def in_place(self) -> bool:
        """Whether input and output share one memory."""

    @property
    def scratch(self) -> Int32Array:
        """The units of scratch of each rank."""


class BufferItems(NamedTuple):
    """The items in a buffer of each rank, in CSR form.

    Parameters
    ----------
    begin
        int64, shape (ranks + 1,): entries begin[r]..begin[r + 1] - 1 belong to rank r.
    item
        int32: the item's row in `Collective.items`, ascending within a rank.
    offset
        int64: the unit of the buffer at which the item begins.
    """

    begin: Int64Array
    item: Int32Array
    offset: Int64Array


@dataclass(frozen=True, eq=False)
class BufferLayout:
    """The buffers of each rank, in units of M / C.

    Parameters
    ----------
    collective
        The collective whose items stand in the buffers.
    length
        int64, shape (items,): the units of each item.
    scratch
        int32, shape (ranks,): the units of scratch of each rank.
    in_place
        Whether input and output share one memory.
    """

    collective: Collective
    length: Int64Array
    scratch: Int32Array
    in_place: bool

    @classmethod
    def of(cls, program: HasBuffers) -> BufferLayout:
        """Return the layout of a program's buffers."""
        return cls.build(program.collective, program.units, program.scratch, in_place=program.in_place)

    @classmethod
    def build(
        cls, collective: Collective, units: int, scratch: Int32Array, *, in_place: bool
    ) -> BufferLayout:
        """Return the layout of the buffers if M has this number of units.

        Raises
        ------
        InputError
            As `item_units`.
        """
        return cls(collective, item_units(collective, units), scratch, in_place)

    @cached_property
    def input(self) -> BufferItems:
        """The items in the input at the start."""
        return self._placement(self.collective.items.start)

    @cached_property
    def output(self) -> BufferItems:
        """The items that must be in the output at the end."""
        return self._placement(self.collective.items.end)

    @cached_property
    def sizes(self) -> Int64Array:
        """int64, shape (ranks, 3): the units of input, output and scratch (`program.Buffer`)."""
        ranks = self.collective.num_ranks
        sizes = np.zeros((ranks, NUM_BUFFERS), dtype=np.int64)
        for buffer, placed in enumerate((self.input, self.output)):
            rank = np.repeat(np.arange(ranks), np.diff(placed.begin))
            np.add.at(sizes[:, buffer], rank, self.length[placed.item])
        sizes[:, 2] = self.scratch
        return sizes

    @cached_property
    def base(self) -> Int64Array:
        """int64, shape (ranks, 3): the cell at which each buffer begins in the memory of its rank.

        The buffers follow each other, except that input and output overlap in place.
        """
        base = np.zeros((self.collective.num_ranks, NUM_BUFFERS), dtype=np.int64)
        if not self.in_place:
            base[:, 1:] = np.cumsum(self.sizes, axis=1)[:, :2]
            return base
        for rank in range(self.collective.num_ranks):
            first, second = (
                slice(placed.begin[rank], placed.begin[rank + 1]) for placed in (self.input, self.output)
            )
            own, here, there = np.intersect1d(
                self.input.item[first], self.output.item[second], return_indices=True
            )
            if len(own):
                apart = int(self.output.offset[second][there[0]] - self.input.offset[first][here[0]])
                base[rank, 0], base[rank, 1] = max(apart, 0), max(-apart, 0)
        base[:, 2] = (base + self.sizes)[:, :2].max(axis=1)
        return base

    @cached_property
    def memory(self) -> Int64Array:
        """int64, shape (ranks,): the units of a rank's whole memory."""
        return (self.base + self.sizes).max(axis=1)

    def _placement(self, side: Int32Array) -> BufferItems:
        """Return the places of the items that start (or end) at the ranks of `side`."""
        items, members = self.collective.items, self.collective.members
        of_group = [np.array(group, dtype=np.int32) for group in members]
        count = np.where(side == EVERYONE, np.array([len(group) for group in of_group])[items.group], 1)
        item = np.repeat(np.arange(len(items), dtype=np.int32), count)
        rank = np.repeat(side, count)
        everywhere = rank == EVERYONE
        rank[everywhere] = np.concatenate(
            [of_group[items.group[number]] for number in np.flatnonzero(side == EVERYONE)] or [rank[:0]]
        )
        order = np.lexsort((item, rank))
        rank, item = rank[order], item[order]
        begin = np.searchsorted(rank, np.arange(self.collective.num_ranks + 1)).astype(np.int64)
        total = offsets_of(self.length[item])
        return BufferItems(begin, item, total[:-1] - np.repeat(total[begin[:-1]], np.diff(begin)))


def item_units(collective: Collective, units: int) -> Int64Array:
    """Return the units of each item if M has this number of units.

    Raises
    ------
    InputError
        If an item is not a whole number of units.
    """
    share = collective.items.share.reduced
    if (share.numerators * units % share.denominator).any():
        raise InputError(f"M in {units} units: an item of the {collective} is no whole number of them")
    return share.numerators * units // share.denominator

"""The program: per rank, thread blocks of instructions on three buffers.

A rank has an input, an output and a scratch buffer, counted in *units* of M/C (C is `Program.units`). Its
thread blocks run at the same time, each one instruction after the other. An instruction starts when the
instructions in its `waits`, all of its own rank, are done. Between ranks there is one FIFO for each (source,
destination, channel): a send puts a message into it, which the next receive takes out. Either side of a copy
or reduction may also lie in another rank's memory (as in MSCCL++); then signals say when it is ready.

======================  ==================================================================================
nop                     nothing; it only waits
copy                    target = source
reduce                  target = target + source
send                    source into the FIFO to `to`
recv                    target = message m of the FIFO from `origin`
recv_copy_send          target = m, and m into the FIFO to `to`
recv_reduce_send        m + source into the FIFO to `to`; not stored
recv_reduce_copy        target = m + source
recv_reduce_copy_send   target = m + source, and this into the FIFO to `to`
signal                  one more signal to `to`
wait                    take one signal of `origin`
======================  ==================================================================================

For a copy or reduction, `to` (`origin`) is the rank whose buffer holds the target (source); -1 means the own
rank.

A rank's input holds the items that start at it, one after the other in the order of `Collective.items`; its
output holds the items that end at it. So an allgather's output holds the shards by owner; an all-to-all's
input is ordered by destination and its output by owner, as in MPI and NCCL.

In place, input and output share one memory. The smaller lies inside the larger, at the place of the rank's
own item: an allgather's input at its shard of the output, a reduce-scatter's output at its shard of the
input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.schedules.collective import EVERYONE, Collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import (
    NONE,
    BoolArray,
    Int32Array,
    Int64Array,
    IntArray,
    entries_of,
    frozen,
    offsets_of,
    rows_at,
)

WARP = 32
"""Number of threads in a warp of a GPU."""


class Op(IntEnum):
    """The operation of an instruction."""

    NOP = 0
    COPY = 1
    REDUCE = 2
    SEND = 3
    RECV = 4
    RECV_COPY_SEND = 5
    RECV_REDUCE_SEND = 6
    RECV_REDUCE_COPY = 7
    RECV_REDUCE_COPY_SEND = 8
    SIGNAL = 9
    WAIT = 10

    @property
    def receives(self) -> bool:
        """Whether it takes a message out of a FIFO."""
        return Op.RECV <= self <= Op.RECV_REDUCE_COPY_SEND

    @property
    def sends(self) -> bool:
        """Whether it puts a message into a FIFO."""
        return self in (Op.SEND, Op.RECV_COPY_SEND, Op.RECV_REDUCE_SEND, Op.RECV_REDUCE_COPY_SEND)

    @property
    def reads(self) -> bool:
        """Whether it reads a source."""
        return self in (
            Op.COPY, Op.REDUCE, Op.SEND, Op.RECV_REDUCE_SEND, Op.RECV_REDUCE_COPY, Op.RECV_REDUCE_COPY_SEND,
        )  # fmt: skip

    @property
    def writes(self) -> bool:
        """Whether it writes a target."""
        return self in (
            Op.COPY, Op.REDUCE, Op.RECV, Op.RECV_COPY_SEND, Op.RECV_REDUCE_COPY, Op.RECV_REDUCE_COPY_SEND,
        )  # fmt: skip


def table_of(prop: str) -> BoolArray:
    """Return a property of `Op` (``"sends"``) as an array that is indexed by op."""
    return np.array([getattr(op, prop) for op in Op])


class Buffer(IntEnum):
    """The buffers of a rank."""

    INPUT = 0
    OUTPUT = 1
    SCRATCH = 2


class Address(NamedTuple):
    """A place in a rank's memory: a buffer, and a unit in it."""

    buffer: int = NONE
    offset: int = NONE


NOWHERE = Address()


class Instruction(NamedTuple):
    """One instruction, for programs that are written by hand or read from a file.

    Parameters
    ----------
    op
        The operation.
    source, target
        The addresses that it reads and writes; `NOWHERE` if it doesn't.
    length
        The number of units that it moves.
    to, origin
        The rank that it sends to (or writes to), and the rank that it receives from (or reads from); -1 for
        none.
    channel
        The channel of its FIFOs or signals.
    waits
        The instructions that it waits for, as (block, step) of the same rank.
    """

    op: Op
    source: Address = NOWHERE
    target: Address = NOWHERE
    length: int = 1
    to: int = NONE
    origin: int = NONE
    channel: int = 0
    waits: tuple[tuple[int, int], ...] = ()


class Code(NamedTuple):
    """The instructions of all blocks, one after the other, as arrays of one length; see `Instruction`."""

    op: IntArray
    source_buffer: IntArray
    source_offset: IntArray
    target_buffer: IntArray
    target_offset: IntArray
    length: IntArray
    to: IntArray
    origin: IntArray
    channel: IntArray


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
    def of(cls, collective: Collective, units: int, scratch: Int32Array, *, in_place: bool) -> BufferLayout:
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
        """int64, shape (ranks, 3): the units of input, output and scratch (`Buffer`)."""
        ranks = self.collective.num_ranks
        sizes = np.zeros((ranks, len(Buffer)), dtype=np.int64)
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
        base = np.zeros((self.collective.num_ranks, len(Buffer)), dtype=np.int64)
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


@dataclass(frozen=True, eq=False)
class Program:
    """The instructions of all ranks.

    Parameters
    ----------
    collective
        The collective that the program does; `BufferLayout` gives the places of its items.
    units
        The number C of units in M; every item is a whole number of units.
    in_place
        Whether input and output share one memory (`BufferLayout.base`).
    scratch
        int32, shape (ranks,): the units of scratch of each rank.
    rank
        int32, shape (blocks,): the rank of each thread block, ascending.
    begin
        int64, shape (blocks + 1,): the instructions of block b are begin[b]..begin[b + 1] - 1.
    code
        The instructions.
    wait_begin, waits
        CSR: instruction i waits for the instructions waits[wait_begin[i] : wait_begin[i + 1]] of its rank.
    name
        A name for people and for the file.

    Raises
    ------
    InputError
        If an instruction leaves a buffer, names a rank that doesn't exist, or waits for one of another rank.
    """

    collective: Collective
    units: int
    in_place: bool
    scratch: Int32Array
    rank: Int32Array
    begin: Int64Array
    code: Code
    wait_begin: Int64Array
    waits: Int32Array
    name: str = "program"

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        for name in ("scratch", "rank", "waits"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int32))
        for name in ("begin", "wait_begin"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int64))
        columns: list[Any] = [
            frozen(np.asarray(column), dtype) for column, dtype in zip(self.code, _DTYPES, strict=True)
        ]
        object.__setattr__(self, "code", Code(*columns))

    def __len__(self) -> int:
        """Return the number of instructions."""
        return len(self.code.op)

    def __eq__(self, other: object) -> bool:
        """Return whether both programs have the same instructions; their names are ignored."""
        if not isinstance(other, Program):
            return NotImplemented
        mine, others = self._arrays(), other._arrays()
        head = (self.collective, self.units, self.in_place)
        same = map(np.array_equal, mine, others)
        return head == (other.collective, other.units, other.in_place) and all(same)

    def __hash__(self) -> int:
        """Return a hash that agrees with equality."""
        return hash(
            (self.collective, self.units, self.in_place, self.waits.tobytes(), self.code.op.tobytes())
        )

    def _arrays(self) -> list[npt.NDArray[Any]]:
        columns = [np.asarray(column) for column in self.code]
        return [self.scratch, self.rank, self.begin, self.wait_begin, self.waits, *columns]

    @property
    def num_ranks(self) -> int:
        """The number of ranks, N."""
        return self.collective.num_ranks

    @property
    def num_blocks(self) -> int:
        """The number of thread blocks of all ranks."""
        return len(self.rank)

    @cached_property
    def layout(self) -> BufferLayout:
        """The layout of the buffers."""
        return BufferLayout.of(self.collective, self.units, self.scratch, in_place=self.in_place)

    @cached_property
    def own(self) -> Int32Array:
        """int32 (instructions,): the rank of each instruction."""
        return self.rank[self.block_of]

    @cached_property
    def memory_of(self) -> tuple[Int32Array, Int32Array]:
        """int32 (instructions,) each: the rank whose memory the source is in, and that of the target."""
        local = np.isin(self.code.op, (Op.COPY, Op.REDUCE))
        sides = (self.code.origin, self.code.to)
        source, target = (np.where(local & (side != NONE), side, self.own) for side in sides)
        return source, target

    @cached_property
    def remote(self) -> BoolArray:
        """Booleans (instructions,): whether it reads or writes another rank's memory."""
        return (self.memory_of[0] != self.own) | (self.memory_of[1] != self.own)

    @cached_property
    def block_of(self) -> Int32Array:
        """int32 (instructions,): the block of each instruction."""
        return np.repeat(np.arange(self.num_blocks, dtype=np.int32), np.diff(self.begin))

    @cached_property
    def first_block(self) -> Int64Array:
        """int64 (ranks + 1,): the blocks of rank r are first_block[r]..first_block[r + 1] - 1."""
        return np.searchsorted(self.rank, np.arange(self.num_ranks + 1)).astype(np.int64)

    def place(self, instruction: int) -> str:
        """Return the name of an instruction for people: "rank 3, block 1, step 12"."""
        block = int(self.block_of[instruction])
        rank = int(self.rank[block])
        return f"rank {rank}, block {block - self.first_block[rank]}, step {instruction - self.begin[block]}"

    def instruction(self, number: int) -> Instruction:
        """Return one instruction."""
        row = [int(column[number]) for column in self.code]
        first = int(self.first_block[self.own[number]])
        waits = self.waits[self.wait_begin[number] : self.wait_begin[number + 1]]
        blocks = self.block_of[waits]
        steps = [(int(b) - first, int(w - self.begin[b])) for b, w in zip(blocks, waits, strict=True)]
        source, target = Address(row[1], row[2]), Address(row[3], row[4])
        return Instruction(Op(row[0]), source, target, row[5], row[6], row[7], row[8], tuple(steps))

    def blocks(self, rank: int) -> list[list[Instruction]]:
        """Return the instructions of each block of a rank."""
        bounds = pairwise(self.begin[self.first_block[rank] : self.first_block[rank + 1] + 1].tolist())
        return [[self.instruction(number) for number in range(*block)] for block in bounds]

    def with_blocks(
        self, ranks: Sequence[Sequence[Iterable[Instruction]]], scratch: Sequence[int] | None = None
    ) -> Program:
        """Return a program with other blocks for each rank, and perhaps another scratch; see `of`."""
        sizes, place = self.scratch.tolist() if scratch is None else scratch, self.in_place
        return Program.of(self.collective, self.units, ranks, in_place=place, scratch=sizes, name=self.name)

    def with_awaited_first(self) -> Program:
        """Return the program with the awaited blocks of each rank before its other blocks."""
        waiting = np.repeat(self.block_of, np.diff(self.wait_begin))
        awaited = np.zeros(self.num_blocks, dtype=np.bool_)
        awaited[self.block_of[self.waits][self.block_of[self.waits] != waiting]] = True
        blocks = np.lexsort((~awaited, self.rank))
        length = np.diff(self.begin)[blocks]
        block, step = entries_of(length)
        old = self.begin[blocks[block]] + step
        new = np.empty(len(self), dtype=np.int64)
        new[old] = np.arange(len(self))
        many = np.diff(self.wait_begin)[old]
        waiter, wait = entries_of(many)
        return self.replace(
            begin=offsets_of(length),
            code=rows_at(self.code, old),
            wait_begin=offsets_of(many),
            waits=new[self.waits[self.wait_begin[old[waiter]] + wait]],
        )

    def replace(self, **changes: Any) -> Program:
        """Return a copy with these fields changed."""
        return replace(self, **changes)

    @classmethod
    def of(
        cls,
        collective: Collective,
        units: int,
        ranks: Sequence[Sequence[Iterable[Instruction]]],
        *,
        in_place: bool = False,
        scratch: Sequence[int] | None = None,
        name: str = "program",
    ) -> Program:
        """Return the program in which rank r has the blocks ranks[r]; by default scratch is as large as used.

        Raises
        ------
        InputError
            As `check`; or if an instruction waits for a step that doesn't exist.
        """
        blocks = [list(block) for rank in ranks for block in rank]
        flat = [instruction for block in blocks for instruction in block]
        rank = np.repeat(np.arange(len(ranks)), [len(of_rank) for of_rank in ranks])
        begin = offsets_of([len(block) for block in blocks])
        first = offsets_of([len(of_rank) for of_rank in ranks])
        waits = [
            [_number(begin, int(first[rank[b]]), int(first[rank[b] + 1]), b, *wait) for wait in one.waits]
            for b, block in enumerate(blocks)
            for one in block
        ]
        rows = [(i.op, *i.source, *i.target, i.length, i.to, i.origin, i.channel) for i in flat]
        if any(not -(2**31) <= number < 2**31 for row in rows for number in row):
            raise InputError(f"{name}: a number of an instruction doesn't fit 32 bits")
        table = np.array(rows, dtype=np.int64).reshape(len(rows), len(Code._fields))
        code = Code(*table.T)
        program = cls(
            collective,
            units,
            in_place,
            frozen([0] * len(ranks) if scratch is None else scratch, np.int32),
            frozen(rank, np.int32),
            begin,
            code,
            offsets_of([len(one) for one in waits]),
            frozen([wait for one in waits for wait in one], np.int32),
            name,
        )
        if scratch is None:
            program = program.replace(scratch=program._scratch_used())
        program.check()
        return program

    def _scratch_used(self) -> Int64Array:
        """Return how many units of scratch the instructions use, by rank."""
        used, code = np.zeros(self.num_ranks, dtype=np.int64), self.code
        sides = ((code.source_buffer, code.source_offset), (code.target_buffer, code.target_offset))
        for rank, (buffer, offset) in zip(self.memory_of, sides, strict=True):
            inside = (buffer == Buffer.SCRATCH) & (rank >= 0) & (rank < self.num_ranks)
            np.maximum.at(used, rank[inside], (offset + code.length)[inside])
        return used

    def check(self) -> None:
        """Check that every instruction stays inside its buffers and names existing ranks and steps.

        Raises
        ------
        InputError
            If one doesn't; the message names the first.
        """
        sizes, op, code, own = self.layout.sizes, self.code.op, self.code, self.own
        self._first((op < 0) | (op >= len(Op)), "unknown instruction type")
        for side, what in zip((code.to, code.origin), ("to", "from"), strict=True):
            self._first(
                (side < NONE) | (side >= self.num_ranks),
                f"goes {what} a rank outside 0..{self.num_ranks - 1}",
            )
        self._first((table_of("sends")[op] | (op == Op.SIGNAL)) & (code.to == NONE), "sends to no rank")
        self._first(
            (table_of("receives")[op] | (op == Op.WAIT)) & (code.origin == NONE), "receives from no rank"
        )
        between = table_of("sends")[op] | table_of("receives")[op] | (op == Op.SIGNAL) | (op == Op.WAIT)
        self._first(between & ((code.to == own) | (code.origin == own)), "is connected to its own rank")
        self._first(code.channel < 0, "has a negative channel")
        self._first(
            (code.length < 1) & (table_of("reads")[op] | table_of("writes")[op]), "moves less than a unit"
        )
        for prop, buffer, offset, where in (
            ("reads", code.source_buffer, code.source_offset, self.memory_of[0]),
            ("writes", code.target_buffer, code.target_offset, self.memory_of[1]),
        ):
            used = table_of(prop)[op]
            self._first(used & ((buffer < 0) | (buffer >= len(Buffer))), f"{prop} no buffer")
            room = sizes[where, np.where(used, buffer, 0)]
            outside = (offset < 0) | (offset.astype(np.int64) + code.length > room)
            self._first(used & outside, f"{prop} outside its buffer", room)
        counts = np.diff(self.wait_begin)
        waiting = np.repeat(np.arange(len(self)), counts)
        strange = (self.waits < 0) | (self.waits >= len(self))
        strange |= own[np.where(strange, 0, self.waits)] != own[waiting] if len(self) else False
        if strange.any():
            waiter = self.place(int(waiting[np.argmax(strange)]))
            raise InputError(f"{self.name}: {waiter} waits for a step that isn't there")

    def _first(self, wrong: BoolArray, what: str, room: Int64Array | None = None) -> None:
        if wrong.any():
            number = int(np.argmax(wrong))
            size = "" if room is None else f" of {room[number]} units"
            raise InputError(f"{self.name}: {self.place(number)} {what}{size}")


_DTYPES = (np.int8, np.int8, np.int32, np.int8, np.int32, np.int32, np.int32, np.int32, np.int32)


def _number(begin: Int64Array, first: int, last: int, waiter: int, block: int, step: int) -> int:
    """Return the number of an instruction that is given as block and step of a rank."""
    inside = 0 <= block < last - first and 0 <= step < begin[first + block + 1] - begin[first + block]
    if not inside:
        raise InputError(f"block {waiter - first} waits for step {step} of block {block}, which isn't there")
    return int(begin[first + block]) + step

"""A program as a schedule: what moved between ranks, without the buffers.

The program is replayed with what each unit of memory holds: which unit of which item, and whose
contributions. Where a schedule has one value of a chunk at each rank, a program may have several: its input,
a sum so far, and in scratch what has arrived and will be added later. So what arrives is a transfer that
reduces if it shares no contribution with what the rank holds, and one that copies if it has all of these.
Copies and reductions within a rank are no transfers.

Each rank sees its sends and arrivals of a chunk in the order of the program. Where all rows can be put in one
such order the schedule has the flow clock. Where they can't, as when two ranks exchange their values and both
add, steps in which all read before any delivers may do, and the schedule has the step clock.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from schedules.programs.layout import Layout
from schedules.programs.program import NONE, Buffer, Op, Program, table_of
from schedules.programs.serial import senders, serial_order
from schedules.schedule import Chunks, Clock, Routes, Schedule, step_numbers
from schedules.verify import verify
from topologies.errors import InputError, Unsupported
from topologies.exact import BoolArray, Int64Array, offsets_of
from topologies.graphs.shortest_paths import shortest_routes
from topologies.topology import DEFAULT_ALPHA, DEFAULT_BANDWIDTH, Link, Topology

MOST_CELLS = 2**24
"""Units of memory of all ranks together."""
MOST_MOVED = 2**24
"""Units that all instructions together move."""


class _Value(NamedTuple):
    """What a unit of memory holds: a unit of M, by number, and the ranks that it is a sum of, as bits."""

    unit: int
    ranks: int


class _Row(NamedTuple):
    """A transfer of `count` units from `first` on; `channel` is the FIFO's."""

    source: int
    target: int
    channel: int
    first: int
    count: int
    reduce: bool


def to_schedule(program: Program, topology: Topology) -> Schedule:
    """Return the schedule that a program carries out, verified.

    Parameters
    ----------
    program
        Without instructions on another rank's memory.
    topology
        Where it is to run: the messages of each FIFO take a route of the fewest links
        (`topologies.graphs.shortest_paths.shortest_routes`).

    Raises
    ------
    Unsupported
        If no schedule does what the program does.
    InputError
        If the program is broken or too large, or the topology has another number of ranks.
    VerificationError
        If what it does is not its collective.
    """
    ranks = program.num_ranks
    if topology.num_ranks != ranks:
        raise InputError(f"{program.name} is for {ranks} ranks; {topology.name} has {topology.num_ranks}")
    replay = _Replay(program)
    replay.run()
    order, steps = _order(program, len(replay.rows), replay.edges())
    columns = np.array(replay.rows, dtype=np.int64).reshape(-1, len(_Row._fields))[order]
    source, target, channel, first, count, reduce = columns.T
    fifo = (source * ranks + target) * (channel.max(initial=0) + 1) + channel
    _, one, route = np.unique(fifo, return_index=True, return_inverse=True)
    routes = Routes(*shortest_routes(topology, source[one], target[one]))
    length = replay.layout.length
    item = np.repeat(np.arange(len(length)), length)
    schedule = Schedule(
        topology,
        program.collective,
        Clock.FLOW if steps is None else Clock.STEP,
        Chunks(item.astype(np.int32), np.ones(len(item), np.int64), program.units),
        first.astype(np.int32),
        route.astype(np.int32),
        order=None if steps is None else step_numbers(steps),
        count=count.astype(np.int32),
        reduce=reduce.astype(np.bool_) if reduce.any() else None,
        routes=routes,
    )
    verify(schedule)
    return schedule


def implied_network(
    program: Program, bandwidth: Fraction = DEFAULT_BANDWIDTH, alpha: Fraction = DEFAULT_ALPHA
) -> Topology:
    """Return the network in which every two ranks that exchange messages have a link each way.

    Parameters
    ----------
    program
        Whose sends imply it.
    bandwidth, alpha
        Of each link, in bytes a second and seconds.

    Raises
    ------
    InputError
        If some ranks exchange nothing with the others.
    """
    sends = np.flatnonzero(table_of("sends")[program.code.op])
    source, target = program.rank[program.block_of[sends]], program.code.to[sends]
    pairs = set(zip(source.tolist(), target.tolist(), strict=True))
    both = sorted(pairs | {(b, a) for a, b in pairs})
    links = [Link(a, b, bandwidth, alpha) for a, b in both]
    return Topology.from_links(program.name, program.num_ranks, links)


class _Edges(NamedTuple):
    """Which row comes before which: `data` if that needs what it delivers, else at the latest with it."""

    before: Int64Array
    after: Int64Array
    data: BoolArray


class _Replay:
    """What each unit of memory holds, instruction by instruction, and the rows that follow from it.

    A *piece* is one unit of one message: those of the message that instruction i sends are numbered from
    `begin[i]` on.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.layout = program, Layout.of(program)
        layout, code = self.layout, program.code
        sizes = int(layout.memory.sum()), int(code.length.sum(dtype=np.int64))
        for size, most, what in zip(sizes, (MOST_CELLS, MOST_MOVED), ("holds", "moves"), strict=True):
            if size > most:
                raise InputError(f"{program.name} {what} {size} units; at most {most} are read as a schedule")
        self.order, self.sender = serial_order(program), senders(program).tolist()
        self.own = program.rank[program.block_of].tolist()
        self.base = layout.base.tolist()
        self.memory: list[list[_Value | None]] = [[None] * int(size) for size in layout.memory]
        self.held: list[dict[int, int]] = [{} for _ in self.memory]
        self._fill()
        self.begin = offsets_of(np.where(table_of("sends")[code.op], code.length, 0)).tolist()
        self.row_of = np.full(self.begin[-1], NONE, dtype=np.int64)
        self.messages: dict[int, list[_Value]] = {}
        self.rows: list[_Row] = []
        # Of each rank's units: the piece that wrote the value last, and those that have read it since.
        self.writer: list[dict[int, int]] = [{} for _ in self.memory]
        self.readers: list[dict[int, list[int]]] = [{} for _ in self.memory]
        self.found: list[tuple[int, int, bool]] = []

    def _fill(self) -> None:
        """Put every rank's own data into its input."""
        placed, length = self.layout.input, self.layout.length
        first, combines = offsets_of(length), self.program.collective.items.combines
        for rank, cells in enumerate(self.memory):
            for entry in range(int(placed.begin[rank]), int(placed.begin[rank + 1])):
                item = int(placed.item[entry])
                start = self.base[rank][Buffer.INPUT] + int(placed.offset[entry])
                for number in range(int(length[item])):
                    value = _Value(int(first[item]) + number, 1 << rank if combines[item] else 1)
                    cells[start + number] = value
                    self.held[rank][value.unit] = value.ranks

    def run(self) -> None:
        """Replay all instructions."""
        op, length = self.program.code.op.tolist(), self.program.code.length.tolist()
        for number in self.order.tolist():
            self._play(number, Op(op[number]), length[number])

    def edges(self) -> _Edges:
        """Return which rows must come before which."""
        pieces = np.array(self.found, dtype=np.int64).reshape(-1, 3)
        before, after = self.row_of[pieces[:, 0]], self.row_of[pieces[:, 1]]
        kept = (before != NONE) & (after != NONE) & (before != after)
        keys = np.unique(np.stack([before, after, pieces[:, 2]])[:, kept], axis=1)
        return _Edges(keys[0], keys[1], keys[2].astype(np.bool_))

    def _play(self, number: int, op: Op, length: int) -> None:
        if op is Op.NOP:
            return
        code, rank = self.program.code, self.own[number]
        if op in (Op.SIGNAL, Op.WAIT) or (
            op in (Op.COPY, Op.REDUCE) and (code.to[number], code.origin[number]) != (NONE, NONE)
        ):
            raise self._unsupported(number, "reads or writes another rank's memory")
        values: list[_Value] = []
        if op.receives:
            values = self.messages.pop(self.sender[number])
            self._arrive(number, values)
        if op.reads:
            local = self._read(number, rank, code.source_buffer[number], code.source_offset[number], length)
            values = (
                [self._sum(number, *pair) for pair in zip(values, local, strict=True)] if values else local
            )
        if op is Op.REDUCE:
            local = self._read(number, rank, code.target_buffer[number], code.target_offset[number], length)
            values = [self._sum(number, *pair) for pair in zip(values, local, strict=True)]
        if op.writes:
            start = self.base[rank][code.target_buffer[number]] + int(code.target_offset[number])
            self.memory[rank][start : start + length] = values
        if op.sends:
            self._send(number, values)

    def _read(self, number: int, rank: int, buffer: int, offset: int, length: int) -> list[_Value]:
        start = self.base[rank][buffer] + int(offset)
        values = [value for value in self.memory[rank][start : start + length] if value is not None]
        if len(values) < length:
            raise self._unsupported(number, "reads what nothing was written to")
        return values

    def _sum(self, number: int, one: _Value, other: _Value) -> _Value:
        if one.unit != other.unit or not self._combines(one.unit):
            raise self._unsupported(number, "adds different data")
        if one.ranks & other.ranks:
            raise self._unsupported(number, "adds a contribution twice")
        return _Value(one.unit, one.ranks | other.ranks)

    def _send(self, number: int, values: list[_Value]) -> None:
        rank = self.own[number]
        self.messages[number] = values
        for piece, (unit, ranks) in enumerate(values, self.begin[number]):
            if self.held[rank].get(unit) != ranks:
                raise self._unsupported(
                    number, "sends another sum than the rank has by then; a schedule has one"
                )
            if unit in self.writer[rank]:
                self.found.append((self.writer[rank][unit], piece, True))
            self.readers[rank].setdefault(unit, []).append(piece)

    def _arrive(self, number: int, values: list[_Value]) -> None:
        """Note what a message brings: new rows, where it isn't there already."""
        rank, sender = self.own[number], self.sender[number]
        last: tuple[int, bool] | None = None  # what would go on with the row
        held, item = self.held[rank], self._item
        for piece, (unit, ranks) in enumerate(values, self.begin[sender]):
            known = held.get(unit, 0)
            if known == ranks:
                last = None
                continue
            if known & ranks not in (0, known):
                raise self._unsupported(number, "receives a part of what the rank has added already")
            reduce = known != 0 and not known & ranks
            held[unit] = known | ranks
            if last == (unit, reduce) and item[unit - 1] == item[unit]:
                row = self.rows[-1]
                self.rows[-1] = row._replace(count=row.count + 1)
            else:
                channel = int(self.program.code.channel[sender])
                self.rows.append(_Row(self.own[sender], rank, channel, unit, 1, reduce))
            last = (unit + 1, reduce)
            self.row_of[piece] = len(self.rows) - 1
            self._written(rank, unit, piece, copy=not reduce)

    def _written(self, rank: int, unit: int, piece: int, *, copy: bool) -> None:
        self.found += [(reader, piece, False) for reader in self.readers[rank].pop(unit, ())]
        if unit in self.writer[rank]:
            self.found.append((self.writer[rank][unit], piece, copy))
        self.writer[rank][unit] = piece

    @cached_property
    def _item(self) -> list[int]:
        return np.repeat(np.arange(len(self.layout.length)), self.layout.length).tolist()

    def _combines(self, unit: int) -> bool:
        return bool(self.program.collective.items.combines[self._item[unit]])

    def _unsupported(self, number: int, what: str) -> Unsupported:
        place = self.program.place(number)
        return Unsupported(f"{self.program.name} is no schedule: {place} {what}")


def _order(program: Program, rows: int, edges: _Edges) -> tuple[Int64Array, Int64Array | None]:
    """Return the rows in a legal order, and their steps (from 1) if no order will do without.

    Rows that wait for each other in a circle can only go in one step, and only if none needs what another of
    them delivers.
    """
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import connected_components

    before, after, data = edges
    graph = coo_array((np.ones(len(before)), (before, after)), shape=(rows, rows))
    together, label = connected_components(graph, connection="strong")
    inside = label[before] == label[after]
    if (inside & data).any():
        raise Unsupported(
            f"{program.name} is no schedule: ranks exchange sums while they go on adding to them"
        )
    in_steps = bool(inside.any())
    weight = (data if in_steps else np.ones_like(data))[~inside]
    level = _levels(together, label[before[~inside]], label[after[~inside]], weight)[label]
    order = np.lexsort((np.arange(rows), level))
    return order, (level[order] + 1) if in_steps else None


def _levels(nodes: int, before: Int64Array, after: Int64Array, weight: BoolArray) -> Int64Array:
    """Return the greatest weight of a path to each node of a graph without circles."""
    order = np.argsort(before, kind="stable")
    begin = offsets_of(np.bincount(before, minlength=nodes)).tolist()
    heads = list(zip(after[order].tolist(), weight[order].tolist(), strict=True))
    pending = np.bincount(after, minlength=nodes).tolist()
    level = [0] * nodes
    ready = [node for node in range(nodes) if not pending[node]]
    while ready:
        node = ready.pop()
        for head, longer in heads[begin[node] : begin[node + 1]]:
            level[head] = max(level[head], level[node] + longer)
            pending[head] -= 1
            if not pending[head]:
                ready.append(head)
    return np.array(level, dtype=np.int64)

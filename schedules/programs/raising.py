"""Conversion of a program to a schedule: the data that move between ranks, without the buffers.

The program is replayed. Each unit of memory holds a unit of an item, as the sum of some ranks' contributions.
In a schedule a rank has one value of a chunk; in a program it may have several: its input, a partial sum, and
data in scratch that will be added later. So an arrival is a transfer that reduces if it shares no
contribution with the rank's value, and a transfer that copies if it includes all of them. Data that a rank
only forwards become one transfer past it, as past the switches of a route. Copies and reductions within a
rank are no transfers.

Each rank has its sends and arrivals of a chunk in the order of the program. If all rows can be put in one
such order, the schedule has the flow clock. Otherwise, for example if two ranks exchange their values and
both add, it has the step clock, in which all rows of a step read before any delivers.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tutti.schedules.programs.program import Buffer, Op, Program, table_of
from tutti.schedules.programs.serial import longest_paths, senders, serial_order
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule, step_numbers
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError, Unsupported
from tutti.topologies.exact import NONE, BoolArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.shortest_paths import shortest_routes
from tutti.topologies.topology import DEFAULT_ALPHA, DEFAULT_BANDWIDTH, Link, Topology

MOST_UNITS = 2**22
"""Largest number of units of memory of all ranks together, and of units moved by all instructions."""


class _UnitValue(NamedTuple):
    """The value that a unit of memory holds.

    Parameters
    ----------
    unit
        The number of the unit of M.
    ranks
        The ranks whose contributions it contains, as bits.
    piece
        The piece of a message that brought it; -1 for the rank's own data and for sums.
    """

    unit: int
    ranks: int
    piece: int


_Path = tuple[tuple[int, int, int], ...]
"""FIFOs in the order of a path, each as (source, target, channel)."""


_Edges = tuple[Int64Array, Int64Array, BoolArray]
"""Pairs of rows, earlier and later, and whether the later needs the earlier's data, or may share its step."""


class _TransferRow(NamedTuple):
    """A transfer of `units` units, beginning with `first`."""

    path: _Path
    first: int
    units: int
    reduce: bool


def to_schedule(program: Program, topology: Topology) -> Schedule:
    """Return the verified schedule that a program carries out.

    Parameters
    ----------
    program
        A program without accesses of another rank's memory.
    topology
        The network on which it runs; the messages of each FIFO take a route with the fewest links
        (`topologies.graphs.shortest_paths.shortest_routes`).

    Raises
    ------
    Unsupported
        If no schedule does the same as the program.
    InputError
        If the program is broken or too large, or the topology has another number of ranks.
    VerificationError
        If the program does not do its collective.
    """
    ranks = program.num_ranks
    if topology.num_ranks != ranks:
        raise InputError(f"{program.name} is for {ranks} ranks; {topology.name} has {topology.num_ranks}")
    replay = _Replay(program)
    replay.run()
    order, steps = _order(program, len(replay.rows), replay.edges())
    rows = [replay.rows[number] for number in order.tolist()]
    routes, route = _routes(topology, [row.path for row in rows])
    length = replay.layout.length
    item = np.repeat(np.arange(len(length)), length)
    schedule = Schedule(
        topology,
        program.collective,
        Clock.FLOW if steps is None else Clock.STEP,
        Chunks(item.astype(np.int32), np.ones(len(item), np.int64), program.units),
        np.array([row.first for row in rows], dtype=np.int32),
        route,
        order=None if steps is None else step_numbers(steps),
        count=np.array([row.units for row in rows], dtype=np.int32),
        reduce=np.array([row.reduce for row in rows]) if any(row.reduce for row in rows) else None,
        routes=routes,
    )
    verify(schedule)
    return schedule


def _routes(topology: Topology, paths: Sequence[_Path]) -> tuple[Routes, Int32Array]:
    """Return the routes of these paths over the topology, and the number of each path's route."""
    fifos = sorted({fifo for path in paths for fifo in path})
    ends = np.array(fifos, dtype=np.int64).reshape(-1, 3)
    offsets, links = shortest_routes(topology, ends[:, 0], ends[:, 1])
    taken = {
        fifo: links[begin:end].tolist()
        for fifo, (begin, end) in zip(fifos, pairwise(offsets.tolist()), strict=True)
    }
    number = {path: at for at, path in enumerate(dict.fromkeys(paths))}
    routes = Routes.of([[link for fifo in path for link in taken[fifo]] for path in number])
    return routes, np.array([number[path] for path in paths], dtype=np.int32)


def implied_network(
    program: Program, bandwidth: Fraction = DEFAULT_BANDWIDTH, alpha: Fraction = DEFAULT_ALPHA
) -> Topology:
    """Return the network with links in both directions between ranks that exchange messages.

    Parameters
    ----------
    program
        The program whose sends determine the links.
    bandwidth, alpha
        The parameters of each link, in bytes per second and seconds.

    Raises
    ------
    InputError
        If some ranks exchange nothing with the others.
    """
    sends = np.flatnonzero(table_of("sends")[program.code.op])
    source, target = program.own[sends], program.code.to[sends]
    pairs = set(zip(source.tolist(), target.tolist(), strict=True))
    both = sorted(pairs | {(b, a) for a, b in pairs})
    links = [Link(a, b, bandwidth, alpha) for a, b in both]
    return Topology.from_links(program.name, program.num_ranks, links)


class _Replay:
    """The replay: the values in memory, instruction by instruction, and the rows that follow from them.

    A *piece* is one unit of one message; the pieces of the message that instruction i sends are numbered from
    `begin[i]` on. In `held`, each rank has one value of each unit of M, as in a schedule.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.layout = program, program.layout
        layout, code = self.layout, program.code
        sizes = int(layout.memory.sum()), int(code.length.sum(dtype=np.int64))
        for size, what in zip(sizes, ("holds", "moves"), strict=True):
            if size > MOST_UNITS:
                raise InputError(
                    f"{program.name} {what} {size} units; at most {MOST_UNITS} are read as a schedule"
                )
        sent = senders(program)
        self.order, self.sender = serial_order(program, sent).tolist(), sent.tolist()
        self.own = program.own.tolist()
        self.base = layout.base.tolist()
        self.item = np.repeat(np.arange(len(layout.length)), layout.length).tolist()
        self.combines = program.collective.items.combines.tolist()
        self.begin = offsets_of(np.where(table_of("sends")[code.op], code.length, 0)).tolist()
        self.memory: list[list[_UnitValue | None]] = []
        self.messages: dict[int, list[_UnitValue]] = {}
        # For each piece: whether the rank where it arrives uses it, and how often that rank forwards it.
        self.used = np.zeros(self.begin[-1], dtype=np.bool_)
        self.forwards = np.zeros(self.begin[-1], dtype=np.int64)
        self.passing: BoolArray | None = None
        self.held: list[dict[int, int]] = []
        self.rows: list[_TransferRow] = []
        self.row_of = np.full(self.begin[-1], NONE, dtype=np.int64)
        # For each piece: the piece at the start of its transfer, and the path from there.
        self.origin: dict[int, tuple[int, _Path]] = {}
        # For each unit at a rank: the piece that wrote its value last, and the pieces that read it since.
        self.writer: list[dict[int, int]] = [{} for _ in range(program.num_ranks)]
        self.readers: list[dict[int, list[int]]] = [{} for _ in range(program.num_ranks)]
        self.found: list[tuple[int, int, bool]] = []

    def run(self) -> None:
        """Replay all instructions twice: to find the pieces that are only forwarded, then for the rows."""
        self._play_all()
        for rank, cells in enumerate(self.memory):
            start = self.base[rank][Buffer.OUTPUT]
            for value in cells[start : start + int(self.layout.sizes[rank, Buffer.OUTPUT])]:
                if value is not None and value.piece != NONE:
                    self.used[value.piece] = True
        self.passing = ~self.used & (self.forwards <= 1)
        self._play_all()

    def _play_all(self) -> None:
        self.memory = [[None] * int(size) for size in self.layout.memory]
        self.held = [{} for _ in self.memory]
        placed, length = self.layout.input, self.layout.length.tolist()
        first = offsets_of(length).tolist()
        for rank, cells in enumerate(self.memory):
            for entry in range(int(placed.begin[rank]), int(placed.begin[rank + 1])):
                item = int(placed.item[entry])
                start = self.base[rank][Buffer.INPUT] + int(placed.offset[entry])
                ranks = 1 << rank if self.combines[item] else 1
                for number in range(length[item]):
                    cells[start + number] = _UnitValue(first[item] + number, ranks, NONE)
                    self.held[rank][first[item] + number] = ranks
        op, units = self.program.code.op.tolist(), self.program.code.length.tolist()
        for number in self.order:
            self._play(number, Op(op[number]), units[number])

    def edges(self) -> _Edges:
        """Return the pairs of rows that must be in order."""
        pieces = np.array(self.found, dtype=np.int64).reshape(-1, 3)
        before, after = self.row_of[pieces[:, 0]], self.row_of[pieces[:, 1]]
        kept = (before != NONE) & (after != NONE) & (before != after)
        keys = np.unique(np.stack([before, after, pieces[:, 2]])[:, kept], axis=1)
        return keys[0], keys[1], keys[2].astype(np.bool_)

    def _play(self, number: int, op: Op, length: int) -> None:
        if op is Op.NOP:
            return
        code, rank = self.program.code, self.own[number]
        if op in (Op.SIGNAL, Op.WAIT) or self.program.remote[number]:
            raise self._unsupported(number, "reads or writes another rank's memory")
        values: list[_UnitValue] = []
        if op.receives:
            values = self._receive(number)
        if op.reads:
            here = self._read(number, rank, code.source_buffer[number], code.source_offset[number], length)
            values = [self._sum(number, *pair) for pair in zip(values, here, strict=True)] if values else here
        if op is Op.REDUCE:
            here = self._read(number, rank, code.target_buffer[number], code.target_offset[number], length)
            values = [self._sum(number, *pair) for pair in zip(values, here, strict=True)]
        if op.writes:
            start = self.base[rank][code.target_buffer[number]] + int(code.target_offset[number])
            self.memory[rank][start : start + length] = values
        if op.sends:
            self._send(number, values)

    def _read(self, number: int, rank: int, buffer: int, offset: int, length: int) -> list[_UnitValue]:
        start = self.base[rank][buffer] + int(offset)
        values = [value for value in self.memory[rank][start : start + length] if value is not None]
        if len(values) < length:
            raise self._unsupported(number, "reads what nothing was written to")
        return values

    def _sum(self, number: int, one: _UnitValue, other: _UnitValue) -> _UnitValue:
        if one.unit != other.unit or not self.combines[self.item[one.unit]]:
            raise self._unsupported(number, "adds different data")
        if one.ranks & other.ranks:
            raise self._unsupported(number, "adds a contribution twice")
        for piece in (one.piece, other.piece):
            if piece != NONE:
                self.used[piece] = True
        return _UnitValue(one.unit, one.ranks | other.ranks, NONE)

    def _send(self, number: int, values: list[_UnitValue]) -> None:
        rank, code = self.own[number], self.program.code
        self.messages[number] = values
        fifo = (rank, int(code.to[number]), int(code.channel[number]))
        for piece, (unit, ranks, before) in enumerate(values, self.begin[number]):
            if self.passing is None:
                if before != NONE:
                    self.forwards[before] += 1
            elif before != NONE and self.passing[before]:
                left, path = self.origin[before]
                self.origin[piece] = left, (*path, fifo)
            else:
                if self.held[rank].get(unit) != ranks:
                    what = "sends another sum than the rank's current one; a schedule has one"
                    raise self._unsupported(number, what)
                self.origin[piece] = piece, (fifo,)
                if unit in self.writer[rank]:
                    self.found.append((self.writer[rank][unit], piece, True))
                self.readers[rank].setdefault(unit, []).append(piece)

    def _receive(self, number: int) -> list[_UnitValue]:
        """Return the values in a message, and add rows for the values that the rank does not have yet."""
        rank, sender = self.own[number], self.sender[number]
        values = self.messages.pop(sender)
        pieces = range(self.begin[sender], self.begin[sender + 1])
        if self.passing is not None:
            self._arrive(
                number,
                rank,
                [
                    (value, *self.origin[piece])
                    for piece, value in zip(pieces, values, strict=True)
                    if not self.passing[piece]
                ],
            )
        return [value._replace(piece=piece) for piece, value in zip(pieces, values, strict=True)]

    def _arrive(self, number: int, rank: int, values: list[tuple[_UnitValue, int, _Path]]) -> None:
        held, item = self.held[rank], self.item
        last: tuple[_Path, int, bool] | None = None  # the next unit that would extend the row
        for (unit, ranks, _), piece, path in values:
            known = held.get(unit, 0)
            if known == ranks:
                last = None
                continue
            if known & ranks not in (0, known):
                raise self._unsupported(number, "receives a part of what the rank has added already")
            reduce = known != 0 and not known & ranks
            held[unit] = known | ranks
            if last == (path, unit, reduce) and item[unit - 1] == item[unit]:
                row = self.rows[-1]
                self.rows[-1] = row._replace(units=row.units + 1)
            else:
                self.rows.append(_TransferRow(path, unit, 1, reduce))
            last = path, unit + 1, reduce
            self.row_of[piece] = len(self.rows) - 1
            self.found += [(reader, piece, False) for reader in self.readers[rank].pop(unit, ())]
            if unit in self.writer[rank]:
                self.found.append((self.writer[rank][unit], piece, not reduce))
            self.writer[rank][unit] = piece

    def _unsupported(self, number: int, what: str) -> Unsupported:
        place = self.program.place(number)
        return Unsupported(f"{self.program.name} is no schedule: {place} {what}")


def _order(program: Program, rows: int, edges: _Edges) -> tuple[Int64Array, Int64Array | None]:
    """Return the rows in a legal order, and their steps (from 1) if no flow order exists.

    Rows that wait for each other in a cycle must share a step. That is possible only if none needs what
    another of them delivers.
    """
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import connected_components

    before, after, data = edges
    graph = coo_array((np.ones(len(before)), (before, after)), shape=(rows, rows))
    together, label = connected_components(graph, connection="strong")
    inside = label[before] == label[after]
    if (inside & data).any():
        raise Unsupported(
            f"{program.name} is no schedule: ranks exchange sums while they continue to add to them"
        )
    in_steps = bool(inside.any())
    weight = (data if in_steps else np.ones_like(data))[~inside]
    level = longest_paths(together, label[before[~inside]], label[after[~inside]], weight)[label]
    order = np.lexsort((np.arange(rows), level))
    return order, (level[order] + 1) if in_steps else None

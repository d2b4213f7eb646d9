"""A schedule's rows as the ranks do them: messages from memory to memory, and copies within a rank.

Switches only forward, so a message is one move from rank to rank past them. A rank inside a route receives
into scratch of its own and sends from there. A rank's datum stands in the input at first. Once it has
arrived, or something was added to it, it stands in the output if it must end there, otherwise in scratch. Of
a chunk with copies, the copy that the rank ends with stands in the output. A copy that has not arrived stands
where its original stands.

`moves_of` cuts the chunks into *cells* of whole units (`_in_units`) and the rows' routes into *hops* from
rank to rank (`_hops`), and lists the cells of each hop as *pieces*. It assigns memory to them (`_stand`), and
joins pieces that are contiguous at both ends to messages. Copies within a rank come before all messages
(`_joined`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from tutti.schedules.collective import Collective
from tutti.schedules.programs.program import Buffer, BufferItems, BufferLayout
from tutti.schedules.retiming import retimed
from tutti.schedules.schedule import NO_COPY, Chunks, Clock, Schedule
from tutti.schedules.simulation.simulate import Simulation, SimulationOptions, simulate
from tutti.schedules.verify.replay import kept_copies
from tutti.schedules.verify.timing import timing
from tutti.topologies.errors import InputError, Unsupported
from tutti.topologies.exact import (
    INT32_MAX,
    NONE,
    BoolArray,
    FloatArray,
    Int32Array,
    Int64Array,
    entries_of,
    offsets_of,
)
from tutti.topologies.kernels import kernel

MOST_UNITS = INT32_MAX
"""Largest number of units of M in a program."""
_NO_COPIES = np.empty((0, 0), dtype=np.bool_)
"""The `kept` of chunks without copies."""


class Places(NamedTuple):
    """Addresses as arrays of one length: a buffer, and a unit in it; -1 for none."""

    buffer: Int64Array
    offset: Int64Array

    @classmethod
    def nowhere(cls, number: int) -> Places:
        """Return this number of empty addresses."""
        return cls(np.full(number, NONE, dtype=np.int64), np.full(number, NONE, dtype=np.int64))

    def take(self, which: Int64Array) -> Places:
        """Return some of the addresses."""
        return Places(self.buffer[which], self.offset[which])

    def put(self, where: Int64Array, buffer: int | Int64Array, offset: Int64Array) -> None:
        """Set some of the addresses."""
        self.buffer[where], self.offset[where] = buffer, offset


@dataclass(frozen=True, eq=False)
class Moves:
    """Messages, and copies within a rank, as arrays of one length.

    Parameters
    ----------
    collective, units, in_place
        The same as in `Program`.
    scratch
        int64, shape (ranks,): the units of scratch.
    source, target
        The ranks; they are equal for a copy.
    path
        The number of the route from source to target, if there are several.
    datum
        The first chunk that is moved; -1 for a copy.
    message, hop
        The message of the simulation that the move is a part of, and the number of its hop from rank to rank
        along the route; -1 for a copy.
    read, write
        The places where the source reads and the target stores.
    add
        The place whose data the target adds to the message before it stores the sum.
    length
        The number of units.
    reading, writing
        int64: the turns of the replay at which that happens; all differ.
    begin, end
        Seconds in a simulation; independent moves are ordered by them.
    """

    collective: Collective
    units: int
    in_place: bool
    scratch: Int64Array
    source: Int64Array
    target: Int64Array
    path: Int64Array
    datum: Int64Array
    message: Int64Array
    hop: Int64Array
    read: Places
    write: Places
    add: Places
    length: Int64Array
    reading: Int64Array
    writing: Int64Array
    begin: FloatArray
    end: FloatArray

    def __len__(self) -> int:
        return len(self.source)

    @property
    def layout(self) -> BufferLayout:
        """The layout of the buffers."""
        scratch = self.scratch.astype(np.int32)
        return BufferLayout.of(self.collective, self.units, scratch, in_place=self.in_place)


class _ChunkCells(NamedTuple):
    """The chunk table in whole units.

    Parameters
    ----------
    item, units, offset
        int64, shape (cells,): the item of each cell, its units, and its first unit in the item.
    copy_of
        int64, shape (cells,): the cell that it is a copy of, or -1.
    kept
        bool, shape (ranks, cells): whether a rank ends with that copy; empty if there are no copies.
    """

    item: Int64Array
    units: Int64Array
    offset: Int64Array
    copy_of: Int64Array
    kept: BoolArray


class _CellTransfers(NamedTuple):
    """The transfer table over these cells: a row sends `many` cells, beginning with `first`, over `route`.

    A row sends one of the parts that an item is cut into; `instance` is the part's number. `message` is the
    message of the simulation; `read` and `arrive` are turns; `begin` and `end` are seconds.
    """

    first: Int64Array
    many: Int64Array
    route: Int64Array
    message: Int64Array
    instance: Int64Array
    reduce: BoolArray
    read: Int64Array
    arrive: Int64Array
    begin: FloatArray
    end: FloatArray

    def repeated(self, times: int) -> _CellTransfers:
        """Return the table with each row repeated."""
        columns: list[Any] = [np.repeat(column, times) for column in self]
        return _CellTransfers(*columns)


class _Hops(NamedTuple):
    """The parts of rows from rank to rank: the row, the part's number in it, and whether it is the last."""

    row: Int64Array
    source: Int64Array
    target: Int64Array
    path: Int64Array
    number: Int64Array
    last: BoolArray


class _Pieces(NamedTuple):
    """The cells that hops carry, one line for each cell of each hop."""

    hop: Int64Array
    cell: Int64Array


def moves_of(
    schedule: Schedule,
    size: Fraction | int,
    *,
    in_place: bool = False,
    instances: int = 1,
    longest: int = MOST_UNITS,
    rules: SimulationOptions | None = None,
) -> Moves:
    """Return the moves of the ranks in a legal schedule.

    Parameters
    ----------
    schedule
        A verified schedule.
    size
        M in bytes, for which independent moves are ordered.
    in_place
        Whether input and output share one memory.
    instances
        Each chunk is cut into this number of parts, which go side by side.
    longest
        The largest number of units of a message or a copy.
    rules
        Rules of the simulation that finds the order; by default those of `simulate`.

    Raises
    ------
    Unsupported
        If a switch multicasts or adds.
    InputError
        If M would have more than 2^31 - 1 units.
    """
    simulated = simulate(schedule, Fraction(size), rules or SimulationOptions())
    cells, units, rows = _in_units(schedule, simulated, instances, longest)
    hops = _hops(schedule, rows)
    hop, within = entries_of(rows.many[hops.row])
    cell = rows.first[hops.row[hop]] + within
    kept = cells.units[cell] > 0
    pieces = _Pieces(hop[kept], cell[kept])
    # An all-to-all in place would overwrite what is still to be sent: it sends from a copy.
    # So would copies of a chunk, each of which begins with the rank's own.
    copies = schedule.chunks.copy_of is not None
    staged = in_place and (copies or bool((schedule.collective.items.dest != NONE).any()))
    nothing = np.zeros(schedule.collective.num_ranks, dtype=np.int32)
    layout = BufferLayout.of(schedule.collective, units, nothing, in_place=in_place)
    (read, write, add), scratch = _stand(layout, cells, rows, hops, pieces, staged=staged)
    first = _first_pieces(pieces.hop, (read, write, add), cells.units[pieces.cell], longest)
    messages = _MessageRuns(
        pieces.hop[first],
        pieces.cell[first],
        read.take(first),
        write.take(first),
        add.take(first),
        np.add.reduceat(cells.units[pieces.cell], first) if len(first) else first,
    )
    return _joined(layout, units, scratch, _copies(layout, longest, staged=staged), messages, rows, hops)


class _MessageRuns(NamedTuple):
    """Runs of pieces of one hop that are contiguous at both ends."""

    hop: Int64Array
    cell: Int64Array
    read: Places
    write: Places
    add: Places
    length: Int64Array


class _Copies(NamedTuple):
    """Copies within a rank that come before all messages."""

    rank: Int64Array
    read: Places
    write: Places
    length: Int64Array


def _in_units(
    schedule: Schedule, simulated: Simulation, instances: int, longest: int
) -> tuple[_ChunkCells, int, _CellTransfers]:
    """Cut the chunks into cells of at most `longest` units; return the cells, the units of M and the rows."""
    chunks = schedule.chunks
    # A unit is the largest part of M of which all chunks are multiples, over the number of instances.
    unit = int(np.gcd.reduce(chunks.size, initial=0)) or 1
    units = chunks.denominator // unit * instances
    if units > MOST_UNITS or chunks.denominator % unit:
        raise InputError(f"the chunks are {units} units of M; a program has at most {MOST_UNITS}")
    whole = chunks.size // unit
    parts = np.maximum(-(-whole // longest), 1)
    position, (chunk, within) = offsets_of(parts), entries_of(parts)
    amount = np.minimum(whole[chunk] - within * longest, longest)
    first, last = position[schedule.chunk], position[schedule.chunk + schedule.counts]
    read, arrive = _turns(schedule)
    rows = _CellTransfers(
        first,
        last - first,
        schedule.route.astype(np.int64),
        simulated.message.astype(np.int64),
        np.zeros(len(schedule), np.int64),
        schedule.adds,
        read,
        arrive,
        simulated.start[simulated.message],
        simulated.finish[simulated.message],
    )
    # Copies take no space in their item: they lie where their originals lie.
    total = offsets_of(chunks.tiling_size // unit)
    offset = (total[chunks.original] - total[chunks.first[chunks.item]])[chunk] + within * longest
    cells = _ChunkCells(chunks.item[chunk].astype(np.int64), amount, offset, 0 * chunk + NO_COPY, _NO_COPIES)
    if chunks.copy_of is not None:
        of = chunks.copy_of[chunk]
        kept = kept_copies(schedule)[:, chunk]
        cells = cells._replace(copy_of=np.where(of == NO_COPY, NO_COPY, position[of] + within), kept=kept)
    if instances > 1:
        cells, rows = _side_by_side(cells, rows, instances)
    return cells, units, rows


def _side_by_side(
    cells: _ChunkCells, rows: _CellTransfers, instances: int
) -> tuple[_ChunkCells, _CellTransfers]:
    """Cut each item into `instances` parts with as many cells each, and repeat each row for each part."""
    begin = np.searchsorted(cells.item, np.arange(cells.item.max(initial=-1) + 2))
    many, total = np.diff(begin), offsets_of(np.where(cells.copy_of == NO_COPY, cells.units, 0))[begin]
    order = np.concatenate([np.tile(np.arange(one, after), instances) for one, after in pairwise(begin)])
    part = np.concatenate([np.repeat(np.arange(instances), number) for number in many])

    def place(cell: Int64Array, instance: Int64Array) -> Int64Array:
        """Return the new number of a cell in that instance."""
        of = cells.item[cell]
        return cell + begin[of] * (instances - 1) + instance * many[of]

    item, of = cells.item[order], cells.copy_of[order]
    cut = _ChunkCells(
        item,
        cells.units[order],
        cells.offset[order] + part * np.diff(total)[item],
        np.where(of == NO_COPY, NO_COPY, place(of, part)),
        cells.kept[:, order] if len(cells.kept) else cells.kept,
    )
    instance, rows = np.tile(np.arange(instances), len(rows.first)), rows.repeated(instances)
    return cut, rows._replace(first=place(rows.first, instance), instance=instance)


def _turns(schedule: Schedule) -> tuple[Int64Array, Int64Array]:
    """Return the turns of the replay at which each row reads and arrives (`schedules.verify`)."""
    rows = np.arange(len(schedule), dtype=np.int64)
    if schedule.clock is Clock.TIME:
        when = timing(schedule)
        kind = np.where(when.kind < 0, ~when.kind, when.kind)
        arrive = when.order + when.arrival[kind]
        _, rank = np.unique(np.concatenate([when.order, arrive]), return_inverse=True)
        # What arrives at a moment, in its even turn, can be read at the same moment, in its odd turn.
        read = 2 * rank[: len(rows)] + 1
        return read, np.maximum(2 * rank[len(rows) :], read)
    # All rows of a step read, in its even turn, before any arrives, in its odd turn. In the flow clock, each
    # row is a step of its own.
    order = rows if schedule.order is None else schedule.order.astype(np.int64)
    return 2 * order, 2 * order + 1


class _RouteParts(NamedTuple):
    """The parts of routes from rank to rank, from entry `opened` to entry `close` of all routes' links."""

    opened: Int64Array
    close: Int64Array
    source: Int64Array
    target: Int64Array
    path: Int64Array


def _parts(schedule: Schedule) -> _RouteParts:
    """Cut every route at the ranks in it; a route that no row uses may end at a switch."""
    topology, table = schedule.topology, schedule.route_table
    ends = topology.target[table.links] < topology.num_ranks
    ends[table.offsets[1:] - 1] = True
    close = np.flatnonzero(ends)
    opened = np.concatenate([[0], close[:-1] + 1])
    source = topology.source[table.links[opened]].astype(np.int64)
    target = topology.target[table.links[close]].astype(np.int64)
    path = _paths(table.links, opened, close, source * topology.num_nodes + target)
    return _RouteParts(opened, close, source, target, path)


def links_of_paths(schedule: Schedule) -> dict[tuple[int, int, int], list[int]]:
    """Return the links of each (source, target, path) of `Moves`."""
    links, parts = schedule.route_table.links.tolist(), _parts(schedule)
    rows = zip(*(column.tolist() for column in parts), strict=True)
    return {(source, target, path): links[a : b + 1] for a, b, source, target, path in rows}


def _hops(schedule: Schedule, rows: _CellTransfers) -> _Hops:
    """Cut every row's route at the ranks in it."""
    table, ranks = schedule.route_table, schedule.topology.num_ranks
    used = np.unique(rows.route)
    if (schedule.route_source[used] >= ranks).any() or (schedule.route_target[used] >= ranks).any():
        raise Unsupported(
            "a switch multicasts or adds in this schedule; a program is what ranks do: "
            "make one of the network with switches=forward"
        )
    parts = _parts(schedule)
    first = np.searchsorted(parts.close, table.offsets[:-1])
    several = np.diff(np.append(first, len(parts.close)))
    many = several[rows.route]
    row, number = entries_of(many)
    which = first[rows.route[row]] + number
    return _Hops(
        row, parts.source[which], parts.target[which], parts.path[which], number, number == many[row] - 1
    )


def _paths(links: Int32Array, opened: Int64Array, close: Int64Array, pair: Int64Array) -> Int64Array:
    """Number the different routes between the same two ranks."""
    path = np.zeros(len(pair), dtype=np.int64)
    _, which, count = np.unique(pair, return_inverse=True, return_counts=True)
    seen: dict[int, dict[bytes, int]] = {}
    for one in np.flatnonzero(count[which] > 1):
        known = seen.setdefault(int(pair[one]), {})
        path[one] = known.setdefault(links[opened[one] : close[one] + 1].tobytes(), len(known))
    return path


def _stand(
    layout: BufferLayout,
    cells: _ChunkCells,
    rows: _CellTransfers,
    hops: _Hops,
    pieces: _Pieces,
    *,
    staged: bool,
) -> tuple[tuple[Places, Places, Places], Int64Array]:
    """Return the places where each piece is read, stored and added, and the scratch of each rank."""
    number, num_cells, ranks = len(pieces.hop), len(cells.item), layout.collective.num_ranks
    row = hops.row[pieces.hop]
    units = cells.units[pieces.cell]
    first, last = hops.number[pieces.hop] == 0, hops.last[pieces.hop]
    # A datum at a rank has one home for all its arrivals. What passes through a rank inside a route has a
    # place of its own.
    here, there = hops.source[pieces.hop], hops.target[pieces.hop]
    stays = np.flatnonzero(last)
    # The pieces that stay, in the order of their arrival: `turn` is the place of each in it.
    order = stays[np.lexsort((stays, hops.number[pieces.hop[stays]], rows.arrive[row[stays]]))]
    turn = np.full(number, NONE, dtype=np.int64)
    turn[order] = np.arange(len(order))
    key, earliest, datum = np.unique(
        there[order] * num_cells + pieces.cell[order], return_index=True, return_inverse=True
    )
    earliest = order[earliest]  # the first arrival of each datum
    later = np.ones(number, dtype=np.bool_)
    later[earliest] = False
    home = _places(layout, layout.output, Buffer.OUTPUT, key // num_cells, key % num_cells, cells)
    if len(cells.kept):
        home.buffer[~cells.kept[key // num_cells, key % num_cells]] = NONE
    passing = np.flatnonzero(~last)
    homeless = np.flatnonzero(home.buffer == NONE)  # what does not end at the rank: its home is scratch
    owner = np.concatenate([key[homeless] // num_cells, there[passing]])
    needed = np.concatenate([cells.units[key[homeless] % num_cells], units[passing]])
    offset, scratch = _allocate(owner, needed, layout.sizes[:, 0] if staged else np.zeros(ranks, np.int64))
    home.put(homeless, Buffer.SCRATCH, offset[: len(homeless)])

    write, add = Places.nowhere(number), Places.nowhere(number)
    write.put(order, home.buffer[datum], home.offset[datum])
    write.put(passing, Buffer.SCRATCH, offset[len(homeless) :])
    start = Buffer.SCRATCH if staged else Buffer.INPUT

    def held(rank: Int64Array, cell: Int64Array, by: Int64Array) -> Places:
        """Return the places of cells at these ranks after the first `by` arrivals.

        A cell is at home if it has arrived, or where its original is if it is a copy, or where it started.
        """
        places = _places(layout, layout.input, start, rank, cell, cells)
        left, cell = np.arange(len(rank) if len(key) else 0), cell.copy()
        while len(left):
            sought = rank[left] * num_cells + cell[left]
            at = np.minimum(np.searchsorted(key, sought), len(key) - 1)
            came = (key[at] == sought) & (turn[earliest[at]] < by[left])
            places.put(left[came], home.buffer[at[came]], home.offset[at[came]])
            left = left[~came & (cells.copy_of[cell[left]] != NO_COPY)]
            cell[left] = cells.copy_of[cell[left]]
        return places

    # The first sum of a datum adds what the rank had at the start; later ones add to the sum at home.
    sums = np.flatnonzero(last & rows.reduce[row])
    add.put(sums, write.buffer[sums], write.offset[sums])
    fresh = sums[~later[sums]]
    add.put(fresh, *held(there[fresh], pieces.cell[fresh], turn[fresh]))

    read = Places.nowhere(number)
    begins = np.flatnonzero(first)
    arrived = np.searchsorted(rows.arrive[row[order]], rows.read[row[begins]])
    read.put(begins, *held(here[begins], pieces.cell[begins], arrived))
    # A later hop reads where the hop before it wrote: its row's hops have the same pieces, in one order.
    middle = np.flatnonzero(~first)
    before = middle - np.bincount(pieces.hop, minlength=len(hops.row))[pieces.hop[middle]]
    read.put(middle, write.buffer[before], write.offset[before])
    return (read, write, add), scratch


def _places(
    layout: BufferLayout,
    placement: BufferItems,
    buffer: int,
    rank: Int64Array,
    cell: Int64Array,
    cells: _ChunkCells,
) -> Places:
    """Return the places of cells in a buffer of these ranks, -1 for cells that are not there."""
    entry, found = _entries(layout, placement, rank, cells.item[cell])
    places = Places.nowhere(len(cell))
    places.put(np.flatnonzero(found), buffer, (placement.offset[entry] + cells.offset[cell])[found])
    return places


def _entries(
    layout: BufferLayout, placement: BufferItems, rank: Int64Array, item: Int64Array
) -> tuple[Int64Array, BoolArray]:
    """Return the entry of each item in that rank's buffer, and whether the item is there."""
    items = len(layout.length)  # some have no chunks
    ranks = np.repeat(np.arange(layout.collective.num_ranks), np.diff(placement.begin))
    keys, sought = ranks * items + placement.item, rank * items + item
    entry = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
    return entry, keys[entry] == sought


def _allocate(owner: Int64Array, needed: Int64Array, base: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the offsets of pieces of scratch, behind each rank's `base`, and the scratch of each rank."""
    order = np.argsort(owner, kind="stable")
    total = offsets_of(needed[order])
    begin = np.searchsorted(owner[order], np.arange(len(base) + 1))
    offset = np.empty(len(owner), dtype=np.int64)
    offset[order] = total[:-1] + (base - total[begin[:-1]])[owner[order]]
    return offset, base + total[begin[1:]] - total[begin[:-1]]


def _first_pieces(hop: Int64Array, places: tuple[Places, ...], units: Int64Array, longest: int) -> Int64Array:
    """Return the pieces that begin a message: those not contiguous with the piece before at both ends."""
    begins = np.ones(len(hop), dtype=np.bool_)
    begins[1:] = hop[1:] != hop[:-1]
    for place in places:
        begins[1:] |= place.buffer[1:] != place.buffer[:-1]
        begins[1:] |= (place.buffer[1:] != NONE) & (place.offset[1:] != place.offset[:-1] + units[:-1])
    _keep_short(begins, units, longest)
    return np.flatnonzero(begins)


@kernel
def _keep_short(begins: BoolArray, units: Int64Array, longest: int) -> None:
    """Begin another message before one would have more units than `longest`."""
    length = 0
    for piece in range(len(begins)):
        if begins[piece] or length + units[piece] > longest:
            begins[piece] = True
            length = 0
        length += units[piece]


def _copies(layout: BufferLayout, longest: int, *, staged: bool) -> _Copies:
    """Return the ranks' first copies: their own data to the output, or, if staged, all input to scratch."""
    ranks = np.arange(layout.collective.num_ranks)
    placed, ended = layout.input, layout.output
    rank = np.repeat(ranks, np.diff(placed.begin))
    item, offset = placed.item.astype(np.int64), placed.offset
    target, buffer = offset, Buffer.SCRATCH
    if not staged:
        at, both = _entries(layout, ended, rank, item)
        stays = both & ~layout.collective.items.combines[item] & (not layout.in_place)
        rank, item, offset, target = rank[stays], item[stays], offset[stays], ended.offset[at[stays]]
        buffer = Buffer.OUTPUT
    length = layout.length[item]
    entry, part = entries_of(-(-length // longest))
    rank, offset, target, length = (column[entry] for column in (rank, offset, target, length))
    within = part * longest
    read, write = Places.nowhere(len(rank)), Places.nowhere(len(rank))
    everything = np.arange(len(rank))
    read.put(everything, Buffer.INPUT, offset + within)
    write.put(everything, buffer, target + within)
    return _Copies(rank, read, write, np.minimum(length - within, longest))


def _joined(
    layout: BufferLayout,
    units: int,
    scratch: Int64Array,
    copies: _Copies,
    messages: _MessageRuns,
    rows: _CellTransfers,
    hops: _Hops,
) -> Moves:
    """Return copies and messages as one table, with the turn, of its own, at which each reads and writes."""
    hop = messages.hop
    row, number, last = hops.row[hop], hops.number[hop], hops.last[hop]
    parts = np.bincount(hops.row, minlength=len(rows.first))[row]
    # No other row uses the scratch inside a route, so its turns are the row's; the last is the arrival.
    read = np.where((parts > 1) & last, rows.arrive[row], rows.read[row])
    write = np.where(last, rows.arrive[row], rows.read[row])
    instances = int(rows.instance.max(initial=0)) + 1
    spent = (rows.end[row] - rows.begin[row]) / parts  # each hop counts as an equal part of the message
    few = len(copies.rank)
    # Copies come first; in a turn the hops of a row are in order, and each reads before it writes.
    before = np.full(few, -1, dtype=np.int64)
    turn = np.concatenate([before, read, before, write])
    within = np.concatenate([before, 2 * number, before, 2 * number + 1])
    place = np.empty(len(turn), dtype=np.int64)
    place[np.lexsort((np.arange(len(turn)), within, turn))] = np.arange(len(turn))

    def together(first: Places, second: Places) -> Places:
        return Places(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))

    return Moves(
        collective=layout.collective,
        units=units,
        in_place=layout.in_place,
        scratch=scratch,
        source=np.concatenate([copies.rank, hops.source[hop]]),
        target=np.concatenate([copies.rank, hops.target[hop]]),
        path=np.concatenate([0 * before, hops.path[hop] * instances + rows.instance[row]]),
        datum=np.concatenate([before, messages.cell]),
        message=np.concatenate([before, rows.message[row]]),
        hop=np.concatenate([before, number]),
        read=together(copies.read, messages.read),
        write=together(copies.write, messages.write),
        add=together(Places.nowhere(few), messages.add),
        length=np.concatenate([copies.length, messages.length]),
        reading=place[: few + len(hop)],
        writing=place[few + len(hop) :],
        begin=np.concatenate([0.0 * before - 1, rows.begin[row] + spent * number]),
        end=np.concatenate([0.0 * before - 1, rows.begin[row] + spent * (number + 1)]),
    )


GRAIN = 1024
"""Largest number of units of an item, unless another number is given."""


def rounded(schedule: Schedule, grain: int = GRAIN) -> Schedule:
    """Return the schedule with chunks of whole units, at most `grain` for each item.

    If its chunks have that form, the schedule is returned unchanged. Otherwise the cuts between chunks are
    rounded, each by at most half a unit, and chunks that become empty are removed. In the time clock the
    messages get new times in their old order.
    """
    chunks, share = schedule.chunks, schedule.collective.items.share.reduced
    unit = int(np.gcd.reduce(chunks.size, initial=0)) or 1
    step = gcd(*share.numerators.tolist()) or 1
    weight = share.numerators // step
    largest = int(weight.max(initial=1))
    exact = Fraction(chunks.denominator, unit) * Fraction(step, share.denominator) * largest
    if exact.denominator == 1 and exact <= max(grain, largest):
        return schedule
    length = weight * max(1, grain // largest)
    tiling = chunks.tiling_size
    whole = np.add.reduceat(tiling, chunks.first[:-1]) if len(chunks) else tiling
    end = offsets_of(tiling)[1:] - offsets_of(tiling)[chunks.first[chunks.item]]
    part = end / np.maximum(whole, 1)[chunks.item]
    cut = np.rint(part * length[chunks.item]).astype(np.int64)
    before = np.where(np.arange(len(cut)) == chunks.first[chunks.item], 0, np.roll(cut, 1))
    units = max(1, grain // largest) * Fraction(share.denominator, step)
    sizes = ((cut - before) * units.denominator)[chunks.original]
    kept = (sizes > 0) | (length[chunks.item] == 0)
    place = offsets_of(kept)
    of = chunks.copy_of
    copies = None if of is None else np.where(of == NO_COPY, NO_COPY, place[of])[kept]
    first, last = place[schedule.chunk], place[schedule.chunk + schedule.counts]
    rows = last > first
    result = schedule.taking(
        rows,
        chunks=Chunks(chunks.item[kept], sizes[kept], units.numerator, copies),
        chunk=first[rows],
        count=(last - first)[rows],
        claims={},
    )
    return retimed(result) if result.clock is Clock.TIME else result

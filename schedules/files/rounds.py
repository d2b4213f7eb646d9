"""A schedule in rounds: the chunk that each link carries in each round, for tables that outgrow memory.

If all links cost the same and messages are single chunks, a schedule is an array, rounds by links, of chunk
numbers of two or four bytes. An allgather of 40,000 ranks takes 6.4 GB, where a table of transfers takes 26.
The array usually is a memory map of a file.

It is the array of an allgather. Other collectives are not stored but played from it. A *part* plays the
rounds from last to first, reducing (the reverse, which is a reduce-scatter on the transposed network), or on
the links in the opposite direction, or both. An allreduce is two parts. A round is a step of the step clock.
The rows are made in *blocks* of whole steps, so that the costs of blocks add up.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.schedules.collective import Collective, Kind
from tutti.schedules.cost import StepCost, link_loads, step_cost
from tutti.schedules.files.document import check_counted, header_of, schedule_of
from tutti.schedules.schedule import (
    Chunks,
    Clock,
    Schedule,
    joined_adds,
    step_numbers,
)
from tutti.topologies.disk import writing
from tutti.topologies.errors import InputError, Unsupported
from tutti.topologies.exact import Int32Array, Int64Array, frozen
from tutti.topologies.files import MOST_TEXT, check_length, opened
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology

CELLS = 2**22
"""Largest number of array entries from which a block of rows is made. A larger value uses more memory."""

Cells = npt.NDArray[np.unsignedinteger[Any]]
"""Chunk numbers, shape (rounds, links) or (links,); `nothing` is the number for none."""


@dataclass(frozen=True)
class Playback:
    """A part plays the array backwards, reducing, if `reverse`, and on the opposite links if `opposite`."""

    reverse: bool
    opposite: bool


PARTS = {
    Kind.ALLGATHER: (Playback(False, False),),
    Kind.REDUCE_SCATTER: (Playback(True, False),),
    Kind.ALLREDUCE: (Playback(True, True), Playback(False, False)),
}
"""The parts of each collective. The array of a reduce-scatter is an allgather on the transposed network; that
of the others is an allgather on the network itself."""


class Block(NamedTuple):
    """The rows of whole steps, and the number of the first row in the whole table."""

    first_row: int
    rows: Schedule


@dataclass(frozen=True, eq=False)
class RoundTable:
    """A schedule in the step clock whose rows are made on request, block by block.

    Parameters
    ----------
    topology, collective, chunks
        As in a `Schedule`.
    cells
        uint16 or uint32, shape (rounds, links), usually a memory map: the chunk, or the type's largest number
        for none.

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
    def parts(self) -> tuple[Playback, ...]:
        """The parts that are played, one after the other."""
        return parts_of(self.collective)

    @property
    def rounds(self) -> int:
        """The number of rows of the array."""
        return int(self.cells.shape[0])

    @property
    def steps(self) -> int:
        """The number of comm steps of all parts."""
        return self.rounds * len(self.parts)

    @cached_property
    def opposite(self) -> Int64Array:
        """int64, shape (links,): the opposite link of each link."""
        return opposite_links(self.topology)

    @cached_property
    def transfers(self) -> int:
        """The number of rows of all parts."""
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
        """Return the whole table as a schedule in memory."""
        blocks = [block.rows for block in self.blocks()]
        names = ("chunk", "route", "order")
        chunk, route, order = (np.concatenate([getattr(block, name) for block in blocks]) for name in names)
        columns = (chunk, route, step_numbers(order))
        return Schedule(
            self.topology, self.collective, Clock.STEP, self.chunks, *columns, reduce=joined_adds(blocks)
        )

    def _spans(self) -> list[tuple[int, int]]:
        """Return the first and last round of each block; a table without rounds has one empty block."""
        high = max(1, CELLS // max(1, self.cells.shape[1]))
        return [(begin, min(begin + high, self.rounds)) for begin in range(0, max(1, self.rounds), high)]

    def _block(self, part: Playback, span: tuple[int, int], step: int) -> Schedule:
        """Return the rows of the rounds in a span; `step` is the number of steps before them."""
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


@kernel(nogil=True)
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


def parts_of(what: Collective) -> tuple[Playback, ...]:
    """Return the parts by which an allgather's array is played as a collective.

    Raises
    ------
    Unsupported
        If it can't be played as this collective.
    """
    if what.kind not in PARTS:
        raise Unsupported(f"a table of rounds is of {', '.join(PARTS)}; not of {what.kind}")
    return PARTS[what.kind]


def opposite_links(topology: Topology) -> Int64Array:
    """Return the opposite link of each link; parallel links are matched in order.

    Raises
    ------
    Unsupported
        If a link has no opposite link.
    """
    source, target = topology.source, topology.target
    # Sorted by (source, target) and by (target, source), a link and its opposite have the same place.
    forth, back = np.lexsort((target, source)), np.lexsort((source, target))
    alike = (source[forth] == target[back]) & (target[forth] == source[back])
    if not alike.all():
        link = topology.link_name(int(forth[np.flatnonzero(~alike)[0]]))
        raise Unsupported(f"link {link} of {topology.name} has none in the opposite direction")
    opposite = np.empty(len(source), np.int64)
    opposite[forth] = back
    return opposite


def width_of(chunks: int) -> np.dtype[np.unsignedinteger[Any]]:
    """Return the type of an array with `chunks` chunks: the narrowest with a spare number."""
    return np.dtype(np.uint16) if chunks <= np.iinfo(np.uint16).max else np.dtype(np.uint32)


def nothing(width: np.dtype[Any]) -> np.unsignedinteger[Any]:
    """Return the number that stands for no chunk."""
    return np.iinfo(width).max + width.type(0)


@dataclass(frozen=True)
class RoundCost:
    """The cost of a table.

    Parameters
    ----------
    steps
        T_L, T_B and T_C.
    congestion
        As in `schedules.cost.congestion`: seconds per byte of M.
    """

    steps: StepCost
    congestion: Fraction


def round_cost(table: RoundTable) -> RoundCost:
    """Return the exact cost, in one pass over the rows."""
    tl_steps, seconds, reduced = 0, Fraction(0), Fraction(0)
    loads = np.zeros(table.topology.num_links, np.int64)
    for block in table.blocks():
        cost = step_cost(block.rows)
        tl_steps, seconds = tl_steps + cost.tl_steps, seconds + cost.bandwidth_time
        reduced += cost.tc
        loads += link_loads(block.rows)
    bandwidth = table.topology.node_bandwidth
    steps = StepCost(tl_steps, seconds, None if bandwidth is None else seconds * bandwidth, reduced)
    # The congestion is exact; only the largest load of each bandwidth is needed.
    rates, kind = np.unique(table.topology.bandwidth.numerators, return_inverse=True)
    most = [Fraction(int(loads[kind == k].max(initial=0)), int(rate)) for k, rate in enumerate(rates)]
    scale = Fraction(table.topology.bandwidth.denominator, table.chunks.denominator)
    return RoundCost(steps, scale * max(most, default=Fraction(0)))


SUFFIX = ".rounds"
MAGIC = b"tutti.rounds/1\n\0"
"""The first bytes of a file. Then come the header's length in 8 bytes, the header as JSON, and the array."""
ALIGNMENT = 64
"""The array begins at a multiple of this number of bytes."""
_SCHEDULE, _CHUNKS, _MADE = "schedule", "chunks_per_item", "made"
"""The keys of the header."""


class RoundWriter:
    """Writes a table. Until it is complete, it is in the file `draft`, which a later writer continues.

    Parameters
    ----------
    path
        The file.
    table
        The table to write, still without rounds.
    made
        JSON values that determine the rounds. A draft with other values is started again from scratch.

    Raises
    ------
    InputError
        If it can't be written.
    """

    def __init__(self, path: Path, table: RoundTable, made: Mapping[str, Any]) -> None:
        self.path, self.draft = path, path.with_name(f".{path.name}.part")
        self.row_bytes = table.cells.dtype.itemsize * table.topology.num_links
        self.width = table.cells.dtype
        none, no_steps = frozen([], np.int32), frozen([], np.uint16)
        where = (table.topology, table.collective, Clock.STEP, table.chunks)
        header = {
            _SCHEDULE: header_of(Schedule(*where, none, none, no_steps)),
            _CHUNKS: len(table.chunks) // len(table.collective.items),
            _MADE: dict(made),
        }
        with writing(path):
            self.begin, self.rounds = self._continued(header)
            self.file = self.draft.open("r+b" if self.rounds else "wb")
            if not self.rounds:
                self.begin = write_head(self.file, header)
            self.file.truncate(self.begin + self.rounds * self.row_bytes)
            self.file.seek(0, os.SEEK_END)

    file: BinaryIO

    def _continued(self, header: Mapping[str, Any]) -> tuple[int, int]:
        """Return where the draft's array begins and its number of whole rounds, 0 if `made` differs."""
        try:
            found, begin = read_head(self.draft)
        except InputError:
            return 0, 0
        if found != header:
            return 0, 0
        return begin, (self.draft.stat().st_size - begin) // self.row_bytes

    def done(self) -> Cells:
        """Return the rounds that are in the draft: shape (rounds, links)."""
        links = self.row_bytes // self.width.itemsize
        if self.rounds == 0:
            return np.zeros((0, links), self.width)
        return np.memmap(self.draft, self.width, "r", self.begin, (self.rounds, links))

    def append(self, cells: Cells) -> None:
        """Write a round: the chunk that each link carries, shape (links,).

        Raises
        ------
        InputError
            If it can't be written.
        """
        with writing(self.path):
            self.file.write(cells.tobytes())
        self.rounds += 1

    def close(self, *, whole: bool) -> None:
        """Close the file; if it is complete, give it its name."""
        with writing(self.path):
            self.file.close()
            if whole:
                self.draft.replace(self.path)


def read_rounds(path: Path | str) -> RoundTable:
    """Return the table in a file; its array is a memory map. `verify` checks whether it is correct.

    Raises
    ------
    InputError
        If it can't be read, is damaged, or is no such file.
    """
    path = Path(path)
    header, begin = read_head(path)
    for key in (_SCHEDULE, _CHUNKS):
        if not isinstance(header, dict) or key not in header:
            raise InputError(f"{path}: no key '{key}' in its header")
    size = path.stat().st_size - begin
    frame = _read_frame(header[_SCHEDULE], header[_CHUNKS], size, str(path))
    width, links = width_of(len(frame.chunks)), frame.topology.num_links
    rounds, rest = divmod(size, width.itemsize * links)
    if rest or size < 0:
        raise InputError(f"{path}: damaged: its last round is cut off")
    cells = np.memmap(path, width, "r", begin, (rounds, links)) if rounds else np.zeros((0, links), width)
    return RoundTable(frame.topology, frame.collective, frame.chunks, cells)


def _read_frame(header: Any, per_item: Any, listed: int, where: str) -> Schedule:
    """Return the schedule without transfers that a header describes; the array has `listed` bytes."""
    none = np.zeros(0, np.int64)
    names = ("chunks.owner", "chunks.size", "transfers.chunk", "transfers.src", "transfers.dst")
    columns = dict.fromkeys((*names, "transfers.route", "transfers.order"), none)
    frame = schedule_of(header, columns, where)
    if not isinstance(per_item, int) or isinstance(per_item, bool):
        raise InputError(f"{where}: {_CHUNKS} is {per_item!r}; it must be an integer")
    check_counted(frame.collective, per_item, listed, where)
    return frame.replace(chunks=Chunks.even(frame.collective, per_item))


def write_head(file: BinaryIO, header: Mapping[str, Any]) -> int:
    """Write everything before the array; return its length in bytes."""
    text = json.dumps(header).encode()
    used = len(MAGIC) + 8 + len(text)
    file.write(MAGIC + len(text).to_bytes(8, "little") + text + bytes(-used % ALIGNMENT))
    return used + -used % ALIGNMENT


def read_head(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header of a file, and the byte at which its array begins.

    Raises
    ------
    InputError
        If it is no such file.
    """
    with opened(path, math.inf) as file:
        magic, length = file.read(len(MAGIC)), int.from_bytes(file.read(8), "little")
        if magic != MAGIC or length > os.fstat(file.fileno()).st_size:
            raise InputError(f"{path}: not a table of rounds")
        check_length(path, length, MOST_TEXT)
        try:
            header = json.loads(file.read(length))
        except ValueError as error:
            raise InputError(f"{path}: damaged: {error}") from None
    used = len(MAGIC) + 8 + length
    return header, used + -used % ALIGNMENT

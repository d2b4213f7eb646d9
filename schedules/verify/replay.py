"""The replay: the value of each chunk at each node after each transfer, from the table alone.

The state of (node, chunk) is the multiset of contributions that its value consists of. If nothing is reduced,
it is a bit. Otherwise it is a fingerprint (`schedules.fingerprints`).

The transfer that spoilt a reduction is found by a replay of one chunk with sets of contributors.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.schedules.collective import EVERYONE
from tutti.schedules.files.rounds import RoundTable
from tutti.schedules.fingerprints import EMPTY, UInt64Array, plus, word_of
from tutti.schedules.schedule import NO_COPY, Clock, Schedule
from tutti.schedules.verify.table import chunk_name, wrong_transfer
from tutti.schedules.verify.timing import ReplaySpans, spans, timing, unit_at, units_of
from tutti.topologies.errors import VerificationError
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array, frozen
from tutti.topologies.kernels import kernel

ByteArray = npt.NDArray[np.uint8]

STATE_BYTES = 2**30
"""Largest size of the state in bytes. Larger states are replayed in blocks of chunks."""

NONE, NOT_HELD, TWICE, MISSING, UNEVEN = range(-1, 4)


class Fault(NamedTuple):
    """The first fault: its span, row, chunk and node.

    A fault at the end has the span after the last, and the row after the last row plus its chunk.
    """

    span: int
    row: int
    chunk: int
    node: int
    reason: int


class _TransferTable(NamedTuple):
    """The transfers, as kernels take them.

    `runs` is the column ``count``, and `units` numbers the chunks that rows carry; both are empty if
    each row carries one.
    """

    chunk: Int32Array
    runs: Int32Array
    route: Int32Array
    reduce: BoolArray
    source: Int32Array
    target: Int32Array
    units: Int64Array
    copy_of: Int32Array


class _Conditions(NamedTuple):
    """The nodes that start with each item, and those that must end with it: spans of a list of nodes.

    Parameters
    ----------
    item, copy_of, original
        int32, of each chunk (`Chunks`); `copy_of` is empty if nothing is a copy.
    starts, ends
        int64, shape (items, 2): the first entry of `nodes`, and the one after the last.
    nodes
        int32: the list of nodes.
    """

    item: Int32Array
    copy_of: Int32Array
    original: Int32Array
    starts: Int64Array
    ends: Int64Array
    nodes: Int32Array


class Replay:
    """The values of the chunks low to high - 1 at all nodes, after the rows that were played.

    Parameters
    ----------
    whole
        The schedule, or the table that its blocks are made from.
    low, high
        The range of chunks.
    """

    def __init__(self, whole: Schedule | RoundTable, low: int, high: int) -> None:
        self.conditions, self.low, self.high = _conditions(whole), low, high
        self.combining = whole.collective.is_combining
        begin = _initial_words if self.combining else _initial_bits
        self.held = begin(self.conditions, low, high, whole.topology.num_nodes)

    def play(self, rows: Schedule, turns: ReplaySpans) -> Fault | None:
        """Play the rows of a schedule, or of its next block; return the first fault."""
        table = _TransferTable(
            rows.chunk,
            rows.count_or_empty,
            rows.route,
            rows.reduce_or_empty,
            rows.route_source,
            rows.route_target,
            units_of(rows),
            self.conditions.copy_of,
        )
        kernel = _play_words if self.combining else _play_bits
        return _or_none(kernel(turns, table, self.held, self.low, self.high))

    def lacking(self, after: tuple[int, int]) -> Fault | None:
        """Return the fault at the end; `after` has the numbers of spans and rows that were played."""
        kernel = _uneven if self.combining else _missing
        return _or_none(kernel(self.held, self.conditions, self.low, self.high, after))


def _or_none(found: tuple[int, int, int, int, int]) -> Fault | None:
    fault = Fault(*found)
    return None if fault.reason == NONE else fault


def parts_of_state(whole: Schedule | RoundTable) -> list[tuple[int, int]]:
    """Return the ranges of chunks that are replayed at a time: as many chunks as the state has room for.

    Copies are in the range of their chunk, which may then be too long.
    """
    nodes, chunks = whole.topology.num_nodes, len(whole.chunks)
    combining = whole.collective.is_combining
    width = max(1, STATE_BYTES // nodes // 8 if combining else STATE_BYTES // nodes * 8)
    if whole.chunks.copy_of is None:
        return [(low, min(low + width, chunks)) for low in range(0, chunks, width)]
    cuts = np.unique(whole.chunks.original[::width])
    return list(pairwise([*cuts.tolist(), chunks]))


def first_fault(schedule: Schedule, turns: ReplaySpans) -> Fault | None:
    """Return the first fault in a replay, or None.

    A fault at the end comes after all transfers: the first rank of the lowest chunk.
    """
    worst: Fault | None = None
    after = len(turns.first), len(schedule)
    for low, high in parts_of_state(schedule):
        replay = Replay(schedule, low, high)
        fault = replay.play(schedule, turns) or replay.lacking(after)
        if fault is not None and (worst is None or fault[:2] < worst[:2]):
            worst = fault
    return worst


def _conditions(schedule: Schedule | RoundTable) -> _Conditions:
    items, members = schedule.collective.items, schedule.collective.members
    offsets = np.cumsum([0, *map(len, members)])
    everyone = np.stack([offsets[items.group], offsets[items.group + 1]], axis=1)

    def among(node: Int32Array) -> Int64Array:
        alone = offsets[-1] + np.stack([node, node + 1], axis=1)
        return frozen(np.where(node[:, None] == EVERYONE, everyone, alone), np.int64)

    each = np.concatenate([*(np.array(group) for group in members), np.arange(schedule.topology.num_ranks)])
    chunks = schedule.chunks
    sides = among(items.start), among(items.end)
    return _Conditions(chunks.item, chunks.copy_of_or_empty, chunks.original, *sides, frozen(each, np.int32))


@kernel(light=1)
def _initial_bits(conditions: _Conditions, low: int, high: int, nodes: int) -> ByteArray:
    width = high - low
    held = np.zeros((nodes * width + 7) // 8, dtype=np.uint8)
    for chunk in range(low, high):
        start = conditions.nodes[conditions.starts[conditions.item[chunk], 0]]
        _set(held, start * width + chunk - low)
    return held


@kernel(light=1, nogil=True)
def _play_bits(
    turns: ReplaySpans, table: _TransferTable, held: ByteArray, low: int, high: int
) -> tuple[int, int, int, int, int]:
    """Replay chunks low..high-1 of a collective that does not combine; bit (node, chunk): it is held."""
    width = high - low
    for span in range(len(turns.first)):
        # A span's first row is complemented if its rows arrive.
        delivers = turns.first[span] < 0
        for row in range(~turns.first[span] if delivers else turns.first[span], turns.last[span]):
            first, length = _run(table, row, low, high)
            if not delivers:
                node = table.source[table.route[row]]
                for chunk in range(first, first + length):
                    if not _get(held, node * width + chunk):
                        return span, row, low + chunk, node, NOT_HELD
            if delivers or turns.each:
                node = table.target[table.route[row]]
                for chunk in range(first, first + length):
                    if _get(held, node * width + chunk):
                        return span, row, low + chunk, node, TWICE
                    _set(held, node * width + chunk)
    return 0, 0, 0, 0, NONE


@kernel
def _run(table: _TransferTable, row: int, low: int, high: int) -> tuple[int, int]:
    """Return the chunks of low..high-1 that a row carries: the first, counted from low, and their number."""
    begin: Any = np.int64(table.chunk[row])
    end = begin + (1 if len(table.runs) == 0 else table.runs[row])
    first, last = max(begin, low), min(end, high)
    return first - low, max(last - first, 0)


@kernel(light=1)
def _missing(
    held: ByteArray, conditions: _Conditions, low: int, high: int, after: tuple[int, int]
) -> tuple[int, int, int, int, int]:
    for chunk in range(low, high):
        begin, end = conditions.ends[conditions.item[chunk]]
        for node in conditions.nodes[begin:end]:
            if not _get(held, node * (high - low) + chunk - low):
                return after[0], after[1] + chunk, chunk, node, MISSING
    return 0, 0, 0, 0, NONE


@kernel
def _get(bits: ByteArray, index: int) -> bool:
    return (bits[index >> 3] >> (index & 7)) & 1 == 1


@kernel
def _set(bits: ByteArray, index: int) -> None:
    bits[index >> 3] |= 1 << (index & 7)


@kernel(light=1, nogil=True)
def _play_words(
    turns: ReplaySpans, table: _TransferTable, held: UInt64Array, low: int, high: int
) -> tuple[int, int, int, int, int]:
    """Replay chunks low..high-1 of a collective that combines; `held`: fingerprints of (node, chunk)."""
    ring = 1
    while ring < turns.under_way:
        ring *= 2
    # Values that are read wait here until they arrive. The length is a power of two, so that places wrap
    # around.
    read = np.empty(ring, dtype=np.uint64)
    singles = len(table.runs) == 0 and not turns.each
    for span in range(len(turns.first)):
        delivers = turns.first[span] < 0
        rows = ~turns.first[span] if delivers else turns.first[span], turns.last[span]
        if not singles:
            row, chunk = _play_runs(rows, (delivers, turns.each), table, held, read, low)
        elif delivers:
            row, chunk = _deliver_singles(rows, table, held, read, low)
        else:
            row, chunk = _read_singles(rows, table, held, read, low)
        if row >= 0:
            source = held[table.source[table.route[row]]]
            reads = not delivers and _value(source, table.copy_of, chunk - low, low) == EMPTY
            nodes, reason = (table.source, NOT_HELD) if reads else (table.target, TWICE)
            return span, row, chunk, nodes[table.route[row]], reason
    return 0, 0, 0, 0, NONE


@kernel
def _read_singles(
    rows: tuple[int, int], table: _TransferTable, held: UInt64Array, read: UInt64Array, low: int
) -> tuple[int, int]:
    """Read the sources of rows of one chunk each; stop at an empty source and return its row and chunk.

    It is separate from `_play_runs`, which could do it too. In a loop this tight the processor has many rows
    under way while it waits for memory, which makes it four times faster.
    """
    chunks, routes, mask = table.chunk[rows[0] : rows[1]], table.route[rows[0] : rows[1]], len(read) - 1
    for place in range(len(chunks)):
        chunk = chunks[place] - low
        if 0 <= chunk < held.shape[1]:
            word = held[table.source[routes[place]], chunk]
            if word == EMPTY:
                word = _value(held[table.source[routes[place]]], table.copy_of, chunk, low)
            if word == EMPTY:
                return rows[0] + place, low + chunk
            read[(rows[0] + place) & mask] = word
    return NONE, NONE


@kernel
def _deliver_singles(
    rows: tuple[int, int], table: _TransferTable, held: UInt64Array, read: UInt64Array, low: int
) -> tuple[int, int]:
    """Deliver rows of one chunk each; stop, like `_read_singles`, at a row whose value is there already."""
    chunks, routes, mask = table.chunk[rows[0] : rows[1]], table.route[rows[0] : rows[1]], len(read) - 1
    reduce = table.reduce[rows[0] : rows[1]]
    for place in range(len(chunks)):
        chunk = chunks[place] - low
        if 0 <= chunk < held.shape[1]:
            node = table.target[routes[place]]
            word, before = read[(rows[0] + place) & mask], held[node, chunk]
            if before == EMPTY:
                before = _value(held[node], table.copy_of, chunk, low)
            if len(reduce) > 0 and reduce[place]:
                word = plus(before, word)
            elif word == before:
                return rows[0] + place, low + chunk
            held[node, chunk] = word
    return NONE, NONE


@kernel
def _play_runs(
    rows: tuple[int, int],
    does: tuple[bool, bool],
    table: _TransferTable,
    held: UInt64Array,
    read: UInt64Array,
    low: int,
) -> tuple[int, int]:
    """Read or deliver rows, or (`does`: delivers, each) both; stop like `_read_singles`."""
    for row in range(rows[0], rows[1]):
        first, length = _run(table, row, low, low + held.shape[1])
        unit = unit_at(table.units, row) + low + first - table.chunk[row]
        if not does[0]:
            source = held[table.source[table.route[row]]]
            for place in range(length):
                word = _value(source, table.copy_of, first + place, low)
                if word == EMPTY:
                    return row, low + first + place
                read[(unit + place) & (len(read) - 1)] = word
        if does[0] or does[1]:
            target = held[table.target[table.route[row]]]
            reduces = len(table.reduce) > 0 and table.reduce[row]
            for place in range(length):
                word = read[(unit + place) & (len(read) - 1)]
                before = _value(target, table.copy_of, first + place, low)
                if reduces:
                    word = plus(before, word)
                elif word == before:
                    return row, low + first + place
                target[first + place] = word
    return NONE, NONE


@kernel
def _value(held: UInt64Array, copy_of: Int32Array, chunk: int, low: int) -> np.uint64:
    """Return the value of a chunk at a node; a copy in which nothing has arrived has its original's value."""
    while held[chunk] == EMPTY and len(copy_of) > 0 and copy_of[low + chunk] >= 0:
        chunk = copy_of[low + chunk] - low
    return held[chunk]


@kernel(light=1)
def _initial_words(conditions: _Conditions, low: int, high: int, nodes: int) -> UInt64Array:
    held = np.full((nodes, high - low), EMPTY, dtype=np.uint64)
    for chunk in range(low, high):
        if conditions.original[chunk] != chunk:
            continue
        begin, end = conditions.starts[conditions.item[chunk]]
        for rank in conditions.nodes[begin:end]:
            held[rank, chunk - low] = word_of(rank, chunk)
    return held


@kernel(light=1)
def _uneven(
    held: UInt64Array, conditions: _Conditions, low: int, high: int, after: tuple[int, int]
) -> tuple[int, int, int, int, int]:
    for chunk in range(low, high):
        if conditions.original[chunk] != chunk:
            continue
        ends = conditions.ends[conditions.item[chunk]]
        total = _total(conditions, chunk)
        for node in conditions.nodes[ends[0] : ends[1]]:
            if _kept(held[node], conditions.original, chunk, low, total) < 0:
                return after[0], after[1] + chunk, chunk, node, UNEVEN
    return 0, 0, 0, 0, NONE


@kernel
def _total(conditions: _Conditions, chunk: int) -> np.uint64:
    """Return the sum of all contributions to a chunk."""
    starts = conditions.starts[conditions.item[chunk]]
    total = EMPTY
    for rank in conditions.nodes[starts[0] : starts[1]]:
        total = plus(total, word_of(rank, chunk))
    return total


@kernel
def _kept(held: UInt64Array, original: Int32Array, chunk: int, low: int, total: np.uint64) -> int:
    """Return the first of a chunk and its copies that is complete at a node, or -1."""
    copy = chunk
    while copy - low < len(held) and original[copy] == chunk:
        if held[copy - low] == total:
            return copy
        copy += 1
    return NONE


def kept_copies(schedule: Schedule) -> BoolArray:
    """Return bool (ranks, chunks): the chunk, or its copy, with which a rank ends in a legal schedule."""
    turns = spans(schedule, timing(schedule) if schedule.clock is Clock.TIME else None)
    kept = np.zeros((schedule.topology.num_ranks, len(schedule.chunks)), dtype=np.bool_)
    for low, high in parts_of_state(schedule):
        replay = Replay(schedule, low, high)
        replay.play(schedule, turns)
        _mark_kept(replay.held, replay.conditions, low, high, kept)
    return kept


@kernel
def _mark_kept(held: UInt64Array, conditions: _Conditions, low: int, high: int, kept: BoolArray) -> None:
    for chunk in range(low, high):
        if conditions.original[chunk] == chunk:
            ends = conditions.ends[conditions.item[chunk]]
            total = _total(conditions, chunk)
            for node in conditions.nodes[ends[0] : ends[1]]:
                kept[node, _kept(held[node], conditions.original, chunk, low, total)] = True


_MANY = 2
"""Contributions are counted up to this number, which is one too many."""


@dataclass(frozen=True)
class _NodeValue:
    """A value: the count of each member's contribution, and the place where one first was added twice."""

    times: npt.NDArray[np.int8]
    doubled: tuple[int, int] | None = None
    """The span and the row that first added a contribution a second time."""

    def plus(self, other: _NodeValue, place: tuple[int, int]) -> _NodeValue:
        """Return the sum made by the row at this place."""
        times = np.minimum(self.times + other.times, _MANY)
        blames = [value.doubled for value in (self, other) if value.doubled is not None]
        if not blames and times.max() == _MANY:
            blames = [place]
        return _NodeValue(times, min(blames, default=None))


def reduction_error(schedule: Schedule, turns: ReplaySpans, chunk: int) -> VerificationError:
    """Return the error for a chunk whose required sums are wrong: no copy of it is complete at some rank.

    It names the first transfer that added a contribution a second time to a value that ends where the sum
    should be. If there is none, it names the first rank with a missing contribution, and considers the copy
    there that has most contributions.
    """
    item = int(schedule.chunks.item[chunk])
    group = int(schedule.collective.items.group[item])
    members = schedule.collective.members[group]
    start = int(schedule.collective.items.start[item])
    givers = members if start < 0 else (start,)
    end = int(schedule.collective.items.end[item])
    copies = np.flatnonzero(schedule.chunks.original == chunk).tolist()
    held = _replay(schedule, turns, copies, givers)
    nobody = _NodeValue(np.zeros(len(givers), dtype=np.int8))
    values = {
        rank: [held.get((rank, copy), nobody) for copy in copies] for rank in (members if end < 0 else (end,))
    }
    wrong = {rank: some for rank, some in values.items() if not any((one.times == 1).all() for one in some)}
    places = [value.doubled for some in wrong.values() for value in some if value.doubled is not None]
    if places:
        return wrong_transfer(schedule, min(places)[1], chunk, "it adds a contribution a second time")
    labels = schedule.topology.labels
    rank = next(iter(wrong))
    value = max(wrong[rank], key=lambda one: int(one.times.sum()))
    absent = labels[givers[int(value.times.argmin())]]
    return VerificationError(
        f"{chunk_name(schedule, chunk)}: the contribution of rank {absent} is missing at rank {labels[rank]} "
        "at the end"
    )


def _replay(
    schedule: Schedule, turns: ReplaySpans, copies: list[int], givers: tuple[int, ...]
) -> dict[tuple[int, int], _NodeValue]:
    """Return the final values at each node of a chunk that some ranks contribute to, and of its copies."""
    of = schedule.chunks.copy_of
    count = schedule.counts
    rows = np.flatnonzero((schedule.chunk <= copies[-1]) & (copies[0] - schedule.chunk < count))
    first, last = schedule.chunk[rows], (schedule.chunk + count)[rows]
    sources, targets, reduces = schedule.source[rows], schedule.target[rows], schedule.adds[rows]
    own = np.eye(len(givers), dtype=np.int8)
    held = {(rank, copies[0]): _NodeValue(own[place]) for place, rank in enumerate(givers)}
    read: dict[tuple[int, int], _NodeValue] = {}

    def value_of(node: int, copy: int) -> _NodeValue | None:
        while (node, copy) not in held and of is not None and of[copy] != NO_COPY:
            copy = int(of[copy])
        return held.get((node, copy))

    for span, begin, end, delivers in _spans_of(turns, rows):
        for index in range(begin, end):
            source, target, row = int(sources[index]), int(targets[index]), int(rows[index])
            for copy in range(max(first[index], copies[0]), min(last[index], copies[-1] + 1)):
                sent = None if delivers else value_of(source, copy)
                if sent is not None:
                    read[index, copy] = sent
                if delivers or turns.each:
                    value, before = read.pop((index, copy)), value_of(target, copy)
                    added = bool(reduces[index]) and before is not None
                    held[target, copy] = before.plus(value, (span, row)) if added and before else value
    return held


def _spans_of(turns: ReplaySpans, rows: Int64Array) -> list[tuple[int, int, int, bool]]:
    """Return the spans restricted to `rows`: (span, first, last, whether it delivers)."""
    delivers = turns.first < 0
    first = np.searchsorted(rows, np.where(delivers, ~turns.first, turns.first))
    last = np.searchsorted(rows, turns.last)
    some = np.flatnonzero(first < last)
    columns = (some, first[some], last[some], delivers[some])
    return list(zip(*(column.tolist() for column in columns), strict=True))

"""Finds the messages for which each message waits: those that bring the data that it sends, in any clock.

A row waits for every row into its source that overlaps its chunks and precedes it:

* step clock: of a smaller step;
* time clock: arriving no later than it starts;
* flow clock: earlier in the table.

If several rows wrote the data that is read (in a combining collective), the reader waits for all. To keep the
number of dependencies linear in the table, a second write to the same data makes a *join*. This is an event
that happens once the earlier event and the new message have happened; readers wait for it instead of both. If
nothing has arrived in a copy of a chunk, the event that completes the original completes the copy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.schedules.message_durations import Messages, transfer_ticks
from tutti.schedules.schedule import Clock, Schedule, TransferColumns
from tutti.topologies.exact import NONE, Int32Array, Int64Array, IntArray, offsets_of
from tutti.topologies.graphs.heaps import stable_pass
from tutti.topologies.kernels import kernel

_FIRST_EDGES = 1024
"""Spare places of the arrays of edges and events at first; they double when they are full."""
_MOST_CELLS = 2**26
"""Largest number of pairs of node and chunk for which a table of all writers is kept (256 MiB)."""


class Dependencies(NamedTuple):
    """Events, and the events that wait for each: the messages come first, then the joins.

    Parameters
    ----------
    pending
        int32, shape (events,): the number of events that each waits for.
    head
        int32, shape (events,): the first edge out of each, -1 for none.
    following
        int32, shape (edges,): the next edge out of the same event, -1 for none.
    waiting
        int32, shape (edges,): the event that waits.
    """

    pending: Int32Array
    head: Int32Array
    following: Int32Array
    waiting: Int32Array


class _Moments(NamedTuple):
    """Each row's message, and two moments of each message: it reads what is `done` by its `start`."""

    of_row: Int32Array
    start: Int64Array
    done: Int64Array


class _Places(NamedTuple):
    """The ends of each route, the first chunk of each item, and the original of each copy."""

    source: Int32Array
    target: Int32Array
    first_chunk: Int64Array
    copy_of: Int32Array


def dependencies(schedule: Schedule, grouped: Messages) -> Dependencies:
    """Return the dependencies between the messages of a schedule, in time linear in its table.

    Parameters
    ----------
    schedule
        A schedule in any clock. Data that was never received counts as present from the start.
    grouped
        Its `messages`.
    """
    chunks = schedule.chunks
    rows, nodes = schedule.columns, schedule.topology.num_nodes
    places = _Places(schedule.route_source, schedule.route_target, chunks.first, chunks.copy_of_or_empty)
    if schedule.clock is Clock.TIME:
        start, done = grouped.order, grouped.order + transfer_ticks(schedule, grouped).until_arrival
    else:  # what is done one step earlier or, in the flow clock, one place earlier in the table
        done = grouped.order if schedule.clock is Clock.STEP else np.arange(len(grouped), dtype=np.int64)
        start = done - 1
    moments = _Moments(grouped.of_row, start, done)
    if not schedule.collective.is_combining and nodes * len(chunks) <= _MOST_CELLS:
        # Most schedules bring each chunk to a node once: then a table of writers is enough.
        writer = np.full((nodes, len(chunks)), NONE, dtype=np.int32)
        if _note_writers(rows, places.target, grouped.of_row, writer):
            return _connect_single(rows, places.source, moments, writer)
    item = chunks.item[schedule.chunk]
    items = len(chunks.first) - 1
    begin = offsets_of(np.bincount(item, minlength=items))
    reads = writes = stable_pass(np.arange(len(schedule), dtype=np.int32), item, items)
    if schedule.clock is Clock.TIME:
        arriving = np.argsort(moments.done[grouped.of_row], kind="stable").astype(np.int32)
        writes = stable_pass(arriving, item, items)
    return _connect((begin, reads, writes), rows, places, moments, nodes)


@kernel(light=1)
def _note_writers(
    rows: TransferColumns,
    target: Int32Array,
    of_row: Int32Array,
    writer: Int32Array,
) -> bool:
    """Note the message that writes each chunk at each node; return whether none is written twice."""
    chunk, count, route = rows
    for row in range(len(route)):
        run = count[row] if len(count) else 1
        for cell in range(chunk[row], chunk[row] + run):
            if writer[target[route[row]], cell] != NONE:
                return False
            writer[target[route[row]], cell] = of_row[row]
    return True


@kernel(light=1)
def _connect_single(
    rows: TransferColumns,
    source: Int32Array,
    moments: _Moments,
    writer: Int32Array,
) -> Dependencies:
    """Connect rows if each node receives each chunk at most once: a reader waits for an earlier writer."""
    chunk, count, route = rows
    of_row, start, done = moments
    pending = np.zeros(len(start), dtype=np.int32)
    head = np.full(len(start), NONE, dtype=np.int32)
    following = np.empty(len(route) + _FIRST_EDGES, dtype=np.int32)
    waiting = np.empty(len(route) + _FIRST_EDGES, dtype=np.int32)
    used = np.array([0, len(start)])
    for row in range(len(route)):
        run = count[row] if len(count) else 1
        while used[0] + run > len(waiting):
            following, waiting = _doubled(following), _doubled(waiting)
        reader, previous = of_row[row], NONE
        # Data that comes later than the reader starts was there before: a rank's own.
        for event in writer[source[route[row]], chunk[row] : chunk[row] + run]:
            if event not in (NONE, previous) and done[event] <= start[reader]:
                edges = Dependencies(pending, head, following, waiting)
                _wait(np.int64(event), np.int64(reader), edges, used)
                previous = event
    return Dependencies(pending, head, following[: used[0]], waiting[: used[0]])


@kernel(light=1)
def _connect(
    order: tuple[Int64Array, IntArray, IntArray],
    rows: TransferColumns,
    places: _Places,
    moments: _Moments,
    num_nodes: int,
) -> Dependencies:
    """Replay item by item; `latest` has the event that completes each chunk of the item at each node.

    Before a row reads, every write done by its start has been applied.
    """
    begin, reads, writes = order
    chunk, count, route = rows
    source, target, first_chunk, copy_of = places
    of_row, start, done = moments
    pending = np.zeros(len(start) + _FIRST_EDGES, dtype=np.int32)
    head = np.full(len(pending), NONE, dtype=np.int32)
    following = np.empty(len(reads) + _FIRST_EDGES, dtype=np.int32)
    waiting = np.empty(len(reads) + _FIRST_EDGES, dtype=np.int32)
    used = np.array([0, len(start)])  # edges, events
    widest = 0
    for item in range(len(begin) - 1):
        widest = max(widest, first_chunk[item + 1] - first_chunk[item])
    latest = np.empty(num_nodes * widest, dtype=np.int32)
    for item in range(len(begin) - 1):
        width = first_chunk[item + 1] - first_chunk[item]
        for cell in range(num_nodes * width):
            latest[cell] = NONE
        write = begin[item]  # Invariant: the writes of the item before this place are in `latest`.
        for position in range(begin[item], begin[item + 1]):
            reader = of_row[reads[position]]
            while write < begin[item + 1] and done[of_row[writes[write]]] <= start[reader]:
                row = writes[write]
                run = count[row] if len(count) else 1
                while used[0] + 2 * run > len(waiting):  # a join is one event with two edges into it
                    following, waiting = _doubled(following), _doubled(waiting)
                while used[1] + run > len(head):
                    head, pending = _doubled(head), _doubled(pending)
                cell = target[route[row]] * width + chunk[row] - first_chunk[item]
                _write(
                    latest,
                    (cell, np.int64(chunk[row]), run),
                    copy_of,
                    of_row[row],
                    Dependencies(pending, head, following, waiting),
                    used,
                )
                write += 1
            row = reads[position]
            run = count[row] if len(count) else 1
            while used[0] + run > len(waiting):
                following, waiting = _doubled(following), _doubled(waiting)
            cell = source[route[row]] * width + chunk[row] - first_chunk[item]
            edges = Dependencies(pending, head, following, waiting)
            _read(latest, (cell, np.int64(chunk[row]), run), copy_of, reader, edges, used)
    return Dependencies(pending[: used[1]], head[: used[1]], following[: used[0]], waiting[: used[0]])


@kernel
def _doubled(array: Int32Array) -> Int32Array:
    return np.concatenate((array, np.empty_like(array)))


@kernel
def _wait(
    event: int,
    waiter: int,
    edges: Dependencies,
    used: Int64Array,
) -> None:
    """Let `waiter` wait for `event`: put an edge at the head of the event's list."""
    pending, head, following, waiting = edges
    waiting[used[0]] = waiter
    following[used[0]] = head[event]
    head[event] = used[0]
    pending[waiter] += 1
    used[0] += 1


@kernel
def _completing(latest: Int32Array, cell: int, chunk: int, copy_of: Int32Array) -> int:
    """Return the event that completes a cell or, if nothing has arrived in a copy, its original."""
    before = cell - chunk
    while latest[before + chunk] < 0 and len(copy_of) > 0 and copy_of[chunk] >= 0:
        chunk = copy_of[chunk]
    return latest[before + chunk]


@kernel
def _read(
    latest: Int32Array,
    cells: tuple[int, int, int],
    copy_of: Int32Array,
    reader: int,
    edges: Dependencies,
    used: Int64Array,
) -> None:
    """Let `reader` wait for the events that complete the cells (first cell, its chunk, number).

    Equal neighbouring events count once.
    """
    first, chunk, run = cells
    previous = NONE
    for place in range(run):
        event = _completing(latest, first + place, chunk + place, copy_of)
        if event >= 0 and event != previous:
            _wait(np.int64(event), np.int64(reader), edges, used)
            previous = event


@kernel
def _write(
    latest: Int32Array,
    cells: tuple[int, int, int],
    copy_of: Int32Array,
    writer: int,
    edges: Dependencies,
    used: Int64Array,
) -> None:
    """Let the writer complete each cell: alone if it is the first, through a join otherwise."""
    pending, head, _, _ = edges
    first, chunk, run = cells
    previous, join = NONE, NONE
    for place in range(run):
        event = _completing(latest, first + place, chunk + place, copy_of)
        if event < 0 or event == writer:
            latest[first + place] = writer
            continue
        # Neighbouring cells that the same event completes share a join.
        if event != previous:
            previous, join = event, used[1]
            head[join], pending[join] = NONE, 0
            used[1] += 1
            _wait(np.int64(event), np.int64(join), edges, used)
            _wait(np.int64(writer), np.int64(join), edges, used)
        latest[first + place] = join

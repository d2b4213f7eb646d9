"""Checks without a replay: every entry of the two tables must be in range and allowed.

The module also makes the verifier's errors: one line that names the first wrong transfer.
"""

from __future__ import annotations

import numpy as np

from tutti.schedules.collective import EVERYONE
from tutti.schedules.files.rounds import RoundTable
from tutti.schedules.schedule import COLUMNS, NO_COPY, Clock, Schedule, TransferColumns
from tutti.topologies.errors import VerificationError
from tutti.topologies.exact import INT32_MAX, INT64_MAX, BoolArray, Int32Array, Int64Array
from tutti.topologies.kernels import kernel

MOST_ROWS = INT32_MAX
"""Largest number of rows: row numbers are int32."""
_FINE, _CHUNK, _COUNT, _ITEM, _ROUTE, _REDUCE, _SOURCE, _TARGET = range(8)


def wrong_transfer(schedule: Schedule, row: int, chunk: int | None, what: str) -> VerificationError:
    """Return the error for one transfer of a table whose indices are in range.

    `chunk` is the chunk of the row's run that has the fault; None: all have it.
    """
    labels, route = schedule.topology.labels, schedule.route[row]
    ends = f"{labels[schedule.route_source[route]]}->{labels[schedule.route_target[route]]}"
    parts = [ends, chunk_name(schedule, int(schedule.chunk[row]) if chunk is None else chunk)]
    if schedule.order is not None:
        unit = "step" if schedule.clock is Clock.STEP else "tick"
        parts.append(f"{unit} {schedule.order[row]}")
    return VerificationError(f" ({', '.join(parts)}): {what}", row)


def chunk_name(schedule: Schedule | RoundTable, chunk: int) -> str:
    """Return ``"chunk 7 of rank 2's shard"``, with labels; in all-to-all also with its destination."""
    items, item = schedule.collective.items, int(schedule.chunks.item[chunk])
    labels = schedule.topology.labels
    owner, dest = labels[items.owner[item]], int(items.dest[item])
    return f"chunk {chunk} of rank {owner}'s shard" + (f" for {labels[dest]}" if dest >= 0 else "")


def check_table(schedule: Schedule) -> None:
    """Check the chunk table, the routes and each row by itself.

    Raises
    ------
    VerificationError
        If there is a fault; the message names the first row with an entry out of range or not allowed.
    """
    ranks, needed = schedule.topology.num_ranks, schedule.collective.num_ranks
    if ranks != needed:
        raise VerificationError(f"the collective is over {needed} ranks, the topology has {ranks}")
    if len(schedule) > MOST_ROWS:
        raise VerificationError(f"{len(schedule)} transfers; allowed: at most {MOST_ROWS}")
    for name in COLUMNS:
        column = getattr(schedule, name)
        if column is not None and column.shape != (len(schedule),):
            raise VerificationError(f"column '{name}' has shape {column.shape}, not ({len(schedule)},)")
    if (schedule.order is None) != (schedule.clock is Clock.FLOW):
        needs = "takes no column" if schedule.clock is Clock.FLOW else "needs a column"
        raise VerificationError(f"the {schedule.clock} clock {needs} 'order'")
    _check_chunks(schedule)
    _check_routes(schedule)
    _check_rows(schedule)


def _check_chunks(schedule: Schedule) -> None:
    chunks, share = schedule.chunks, schedule.collective.items.share
    item, size = chunks.item, chunks.size
    if item.shape != size.shape:
        raise VerificationError(f"{len(item)} chunks have an item, {len(size)} have a size")
    if chunks.denominator < 1:
        raise VerificationError(
            f"the denominator of chunk sizes is {chunks.denominator}; it must be positive"
        )
    outside = np.flatnonzero((item < 0) | (item >= len(share)))
    if len(outside):
        chunk = int(outside[0])
        raise VerificationError(f"chunk {chunk} is of item {item[chunk]}; items are 0..{len(share) - 1}")
    disorder = np.flatnonzero(item[1:] < item[:-1])
    if len(disorder):
        chunk = int(disorder[0]) + 1
        raise VerificationError(
            f"chunk {chunk} is of item {item[chunk]} and follows one of item {item[chunk - 1]}; "
            "chunks must stand by item"
        )
    thin = np.flatnonzero((size < 0) | ((size == 0) & (share.numerators[item] != 0)))
    if len(thin):
        chunk = int(thin[0])
        raise VerificationError(f"chunk {chunk} has size {size[chunk]}; it must be positive")
    _check_copies(schedule)
    _check_shares(schedule)


def _check_copies(schedule: Schedule) -> None:
    """Check that copies follow their originals, and only data that end as sums everywhere have copies."""
    chunks, items = schedule.chunks, schedule.collective.items
    if chunks.copy_of is None:
        return
    if chunks.copy_of.shape != chunks.item.shape:
        raise VerificationError(f"{len(chunks.item)} chunks have an item, {len(chunks.copy_of)} a copy_of")
    number, of = np.arange(len(chunks)), chunks.copy_of
    astray = np.flatnonzero((of != NO_COPY) & ((of < chunks.original) | (of >= number)) | (of < NO_COPY))
    if len(astray):
        chunk = int(astray[0])
        raise VerificationError(
            f"chunk {chunk} is a copy of {of[chunk]}; a copy follows its original, "
            "with at most other copies of it between them"
        )
    copies = np.flatnonzero(of != NO_COPY)
    unlike = (chunks.item != chunks.item[of]) | (chunks.size != chunks.size[of])
    for wrong, what in (
        (unlike, "which has another item or size"),
        (~(items.combines & (items.end == EVERYONE))[chunks.item], "whose sum need not end at every rank"),
    ):
        if wrong[copies].any():
            chunk = int(copies[wrong[copies]][0])
            raise VerificationError(f"chunk {chunk} is a copy of {of[chunk]}, {what}")


def _check_shares(schedule: Schedule) -> None:
    """Check that the sizes of each item's chunks sum to its share exactly."""
    chunks, share = schedule.chunks, schedule.collective.items.share
    first = np.searchsorted(chunks.item, np.arange(len(share) + 1)).astype(np.int64)
    size = chunks.tiling_size
    kinds, kind_of = np.unique(share.numerators, return_inverse=True)
    # No sum can equal a share that is no multiple of 1/denominator, or too large: -1 equals none.
    exact = [divmod(kind * chunks.denominator, share.denominator) for kind in kinds.tolist()]
    needed = np.array([-1 if rest or whole > INT64_MAX else whole for whole, rest in exact], dtype=np.int64)
    item = int(_first_uneven_item(first, size, needed[kind_of]))
    if item >= 0:
        owner = schedule.topology.labels[schedule.collective.items.owner[item]]
        total = sum(size[first[item] : first[item + 1]].tolist())
        raise VerificationError(
            f"the {first[item + 1] - first[item]} chunks of item {item} (rank {owner}'s shard) sum to "
            f"{total}/{chunks.denominator} of M; its share is {share[item]}"
        )


@kernel(light=1)
def _first_uneven_item(first: Int64Array, size: Int64Array, needed: Int64Array) -> int:
    """Return the first item whose sizes do not sum to the needed value, or -1."""
    for item in range(len(needed)):
        rest = needed[item]
        for chunk in range(first[item], first[item + 1]):
            rest -= size[chunk]
            if rest < 0:  # sizes are not negative: the rest stays negative
                break
        if rest != 0:
            return item
    return -1


def _check_routes(schedule: Schedule) -> None:
    if schedule.routes is None:
        return
    topology, offsets, links = schedule.topology, schedule.routes.offsets, schedule.routes.links
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(links):
        raise VerificationError(f"the routes must span their list of {len(links)} links from first to last")
    empty = np.flatnonzero(offsets[1:] <= offsets[:-1])
    if len(empty):
        raise VerificationError(f"route {empty[0]} has no link; it needs at least one")
    outside = np.flatnonzero((links < 0) | (links >= topology.num_links))
    if len(outside):
        what = f"link {links[outside[0]]} does not exist; links are 0..{topology.num_links - 1}"
        _raise_route(schedule, int(outside[0]), what)
    chained = topology.target[links[:-1]] == topology.source[links[1:]]
    chained[offsets[1:-1] - 1] = True
    broken = np.flatnonzero(~chained)
    if len(broken):
        before, after = (topology.link_name(int(link)) for link in links[broken[0] : broken[0] + 2])
        _raise_route(schedule, int(broken[0]), f"link {after} does not start where link {before} ends")


def _raise_route(schedule: Schedule, position: int, what: str) -> None:
    """Raise an error for the route with a position in the list of links; name the first row that takes it."""
    route = int(np.searchsorted(schedule.route_table.offsets, position, side="right")) - 1
    rows = np.flatnonzero(schedule.route == route)
    if len(rows):
        raise VerificationError(f" takes route {route}: {what}", int(rows[0]))
    raise VerificationError(f"route {route}: {what}")


def _check_rows(schedule: Schedule) -> None:
    topology = schedule.topology
    # Whether a node may be an end of copy rows, and of reduce rows.
    kinds = np.zeros((2, topology.num_nodes), dtype=bool)
    kinds[:, : topology.num_ranks] = True
    kinds[0, list(topology.multicast)] = True
    kinds[1, list(topology.aggregate)] = True
    row, code = _first_bad_row(
        schedule.columns,
        schedule.reduce_or_empty,
        schedule.chunks.item,
        schedule.route_source,
        schedule.route_target,
        kinds,
        schedule.collective.items.combines,
    )
    early = _disorder(schedule)
    if early is not None and (code == _FINE or (early.row or 0) < row):
        raise early
    if code != _FINE:
        _raise_row(schedule, row, code)


@kernel(light=1)
def _first_bad_row(
    rows: TransferColumns,
    reduce: BoolArray,
    item: Int32Array,
    source: Int32Array,
    target: Int32Array,
    kinds: BoolArray,
    combines: BoolArray,
) -> tuple[int, int]:
    """Return the first row with an entry out of range or not allowed, and its code from above."""
    chunk, count, route = rows
    for row in range(len(chunk)):
        first, run = chunk[row], 1 if len(count) == 0 else count[row]
        code = _FINE
        # Each check relies on those before it, which keep its indices in range.
        if first < 0 or first >= len(item):
            code = _CHUNK
        elif run < 1 or run > len(item) - first:
            code = _COUNT
        elif item[first] != item[first + run - 1]:
            code = _ITEM
        elif route[row] < 0 or route[row] >= len(source):
            code = _ROUTE
        else:
            adds = 1 if len(reduce) > 0 and reduce[row] else 0
            if adds == 1 and not combines[item[first]]:
                code = _REDUCE
            elif not kinds[adds, source[route[row]]]:
                code = _SOURCE
            elif not kinds[adds, target[route[row]]]:
                code = _TARGET
        if code != _FINE:
            return row, code
    return -1, _FINE


def _raise_row(schedule: Schedule, row: int, code: int) -> None:
    chunks, chunk, route = len(schedule.chunks), int(schedule.chunk[row]), int(schedule.route[row])
    run = 1 if schedule.count is None else int(schedule.count[row])
    unnamed = {
        _CHUNK: f"chunk {chunk} does not exist; chunks are 0..{chunks - 1}",
        _COUNT: f"a run of {run} chunks from chunk {chunk}; allowed: 1..{chunks - chunk}",
        _ITEM: f"the run of {run} chunks from chunk {chunk} leaves its item; a row carries chunks of one",
        _ROUTE: f"route {route} does not exist; routes are 0..{len(schedule.route_table) - 1}",
    }
    if code in unnamed:
        raise VerificationError(f": {unnamed[code]}", row)
    if code == _REDUCE:
        whole = schedule.collective
        datum = "its datum is not combined" if whole.is_combining else f"{whole.kind} does not combine"
        raise wrong_transfer(schedule, row, None, f"it reduces, and {datum}")
    node = int((schedule.route_source if code == _SOURCE else schedule.route_target)[route])
    verb, side = ("starts", "out of") if code == _SOURCE else ("ends", "into")
    reduces = schedule.reduce is not None and bool(schedule.reduce[row])
    what, ability = ("reduce", "aggregate") if reduces else ("copy", "multicast")
    label = schedule.topology.labels[node]
    raise wrong_transfer(
        schedule,
        row,
        None,
        f"it {verb} at switch {label}, which can't {ability}; to {what} {side} a switch, it must",
    )


def _disorder(schedule: Schedule) -> VerificationError | None:
    """Return the error for the first row whose order is below the clock's first or that of the row before."""
    order, steps = schedule.order, schedule.clock is Clock.STEP
    if order is None or len(order) == 0:
        return None
    word, earliest = ("step", 1) if steps else ("tick", 0)
    if order[0] < earliest:
        return VerificationError(f" is at {word} {order[0]}; the first {word} is {earliest}", 0)
    rows = np.flatnonzero(order[1:] < order[:-1]) + 1
    if not len(rows):
        return None
    row = int(rows[0])
    before = f"the transfer before is at {word} {order[row - 1]}; rows must stand in replay order"
    return VerificationError(f" is at {word} {order[row]}; {before}", row)

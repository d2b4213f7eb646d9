"""Reversal: a schedule run backwards on the transposed network (dissertation, Definition 5, Theorem 1).

Every transfer goes in the other direction, last ones first. Allgather and reduce-scatter are exchanged, and
so are broadcast and reduce, and gather and scatter; all-to-all and allreduce become themselves. Copies become
additions, and additions become copies.

====== ========================================================
clock  `order` of the reverse
====== ========================================================
step   t_max - t + 1 (t_min + t_max - t, steps counting from t_min = 1)
time   T_end - arrival (+ the earliest start, which is 0), or later
flow   none: the rows in reverse order
====== ========================================================

In the time clock the mirrored times of two messages can overlap if a route has several links: its fast links
are held when the first data arrives, not when the last does. Then the later message waits (`retimed`). The
verifier checks the rest: a copy that no rank needed has no legal reverse (`useful_transfers` finds such
copies).
"""

from __future__ import annotations

import numpy as np

from tutti.schedules.collective import Collective, Kind
from tutti.schedules.message_durations import messages, transfer_ticks
from tutti.schedules.retiming import retimed
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule
from tutti.topologies.errors import InputError, Unsupported
from tutti.topologies.exact import INT64_MAX, BoolArray, Int64Array, IntArray, entries_of
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose


def reverse(schedule: Schedule, topology: Topology | None = None) -> Schedule:
    """Return the reverse of a schedule; reversing twice gives the schedule back.

    The result is the same table only if a combining collective adds at every transfer (except allreduce) and,
    in the time clock, if rows with one start are sorted by arrival (`normal_order`) and no message has to
    wait.

    Parameters
    ----------
    schedule
        A schedule with any clock. Its claims (T_L, T_B, congestion) also hold for the reverse, in its M.
    topology
        The transposed network to use, which must be equal to the computed one. None: the computed one.

    Raises
    ------
    InputError
        If `topology` is not the transpose of the schedule's.
    Unsupported
        If the collective has no reverse (uneven all-to-all), is an allreduce that never copies, or mixed; or
        if chunks have copies.
    """
    if schedule.chunks.copy_of is not None:
        raise Unsupported("reverse of a schedule in which chunks have copies: backwards they would be added")
    computed = transpose(schedule.topology)
    if topology is not None and topology != computed:
        raise InputError(f"topology {topology.name} is not the transpose of {schedule.topology.name}")
    where = computed if topology is None else topology
    what = _reversed_collective(schedule.collective)
    rows, order = _backwards(schedule)
    chunks, chunk = _reversed_items(schedule)
    reduce, unit = _reversed_reduce(schedule), schedule.collective.unit_of_reverse
    routes = schedule.routes
    if routes is not None:  # route r stays route r, with its links reversed
        route, place = entries_of(np.diff(routes.offsets))
        routes = Routes(routes.offsets, routes.links[routes.offsets[route + 1] - 1 - place])
    turned = schedule.replace(
        topology=where,
        collective=what,
        chunks=chunks,
        chunk=chunk[rows],
        route=schedule.route[rows],
        order=order,
        count=None if schedule.count is None else schedule.count[rows],
        reduce=None if reduce is None else reduce[rows],
        routes=routes,
        size=None if schedule.size is None else schedule.size / unit,
        claims={name: value * (1 if name == "tl_steps" else unit) for name, value in schedule.claims.items()},
    )
    if schedule.clock is not Clock.TIME or schedule.routes is None:
        return turned
    return retimed(turned, delayed=True)


def normal_order(schedule: Schedule) -> Schedule:
    """Return the schedule with its rows in the order that reversal keeps.

    In the time clock rows with one start are stably sorted by arrival; other clocks are not changed.
    """
    if schedule.clock is not Clock.TIME or schedule.order is None:
        return schedule
    arrival = _arrival(schedule)
    return schedule.taking(np.lexsort((arrival, schedule.order)))


def _reversed_collective(what: Collective) -> Collective:
    if what.parts:
        raise Unsupported("reverse of a mixed collective: reverse the schedules of its parts")
    if what.kind is Kind.ALL_TO_ALL and what.shards is not None and len(set(what.shards)) > 1:
        # The share of item (i, j) depends only on j, so that of (j, i) differs.
        raise Unsupported(
            "reverse of an all-to-all with uneven shards: sizes that vary by sender; use equal shards"
        )
    return what.reverse


def _backwards(schedule: Schedule) -> tuple[Int64Array, IntArray | None]:
    """Return the old row of each new one, and the new `order`."""
    rows = np.arange(len(schedule))[::-1]
    if schedule.order is None or len(schedule) == 0:
        return rows, schedule.order
    if schedule.clock is Clock.STEP:
        first, last = int(schedule.order[0]), int(schedule.order[-1])
        return rows, (first + last - schedule.order[rows].astype(np.int64)).astype(schedule.order.dtype)
    arrival = _arrival(schedule)
    # Stable: rows that arrive together stay reversed, which is the order of arrival in the reverse.
    rows = rows[np.argsort(-arrival[rows], kind="stable")]
    return rows, int(schedule.order[0]) + int(arrival.max()) - arrival[rows]


def _arrival(schedule: Schedule) -> Int64Array:
    """Return the tick at which each row's data is at its destination."""
    grouped = messages(schedule)
    arrival = grouped.order + transfer_ticks(schedule, grouped).until_arrival
    return arrival[grouped.of_row]


def _reversed_items(schedule: Schedule) -> tuple[Chunks, IntArray]:
    """Return the chunk table and the `chunk` column (old row order): in all-to-all (i, j) becomes (j, i)."""
    chunks = schedule.chunks
    if schedule.collective.kind is not Kind.ALL_TO_ALL:
        return chunks, schedule.chunk
    # Item (i, j) becomes (j, i).
    items, position = schedule.collective.items, np.empty(schedule.collective.num_ranks, np.int64)
    for members in schedule.collective.members:
        position[list(members)] = np.arange(len(members))
    order = np.lexsort((position[items.owner], position[items.dest], items.group))
    new_item = np.argsort(order).astype(np.int32)[chunks.item]
    old_chunk = np.argsort(new_item, kind="stable")
    new_chunk = np.empty_like(old_chunk)
    new_chunk[old_chunk] = np.arange(len(old_chunk))
    unit = schedule.collective.unit_of_reverse / chunks.denominator
    if int(chunks.size.max(initial=0)) > INT64_MAX // unit.numerator or unit.denominator > INT64_MAX:
        raise Unsupported("reverse of an all-to-all with a matrix: sizes in its new M do not fit 64 bits")
    item = new_item[old_chunk].astype(np.int32)
    table = Chunks(item, chunks.size[old_chunk] * unit.numerator, unit.denominator)
    return table, new_chunk[schedule.chunk]


def _reversed_reduce(schedule: Schedule) -> BoolArray | None:
    """Return the `reduce` column (old row order) of the reverse."""
    kind, rows = schedule.collective.kind, len(schedule)
    if kind is Kind.ALLREDUCE:
        if schedule.reduce is None or (schedule.reduce.all() and rows):
            raise Unsupported(
                "reverse of an allreduce that is not a reduction followed by a distribution: "
                "its transfers must both add and copy"
            )
        return ~schedule.reduce
    return np.ones(rows, dtype=bool) if kind.reverse.is_combining else None


def useful_transfers(chunk: IntArray, source: IntArray, target: IntArray, wanted: BoolArray) -> BoolArray:
    """Return which transfers serve a postcondition, bool (transfers,).

    A transfer does if its target must have the chunk in the end, or sends it on in a transfer that does. A
    solver leaves other transfers in if they cost its objective nothing. They cost time if they end last, and
    have no reverse: backwards, a rank would add what it does not have.

    Parameters
    ----------
    chunk, source, target
        Shape (transfers,): the chunk that each transfer copies, from which node, to which node. Each comes
        before transfers that send its chunk on, and brings a chunk that is not there yet, as in a verified
        schedule.
    wanted
        Shape (chunks, nodes): the nodes that must have each chunk in the end.

    Examples
    --------
    A chunk goes from 0 to 1, which passes it on to 2, and to 3; only 2 must have it.

    >>> wanted = np.array([[False, False, True, False]])
    >>> useful_transfers(np.array([0, 0, 0]), np.array([0, 1, 0]), np.array([1, 2, 3]), wanted).tolist()
    [True, True, False]
    """
    needed = wanted.copy()
    useful = np.zeros(len(chunk), np.bool_)
    rows = zip(chunk.tolist(), source.tolist(), target.tolist(), strict=True)
    for row, (c, a, b) in reversed(list(enumerate(rows))):
        if needed[c, b]:
            useful[row] = needed[c, a] = True
    return useful

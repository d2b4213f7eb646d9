"""Schedules whose messages enter links in the order of the table: simulated in one pass, without an agenda.

Where every row is a message of one chunk over one link, no link has two rows of one order, and nothing is
reduced, a message enters its link at the later of two moments: when its chunk is at the source, which an
earlier row brought, and when the link's message before it has left. Both are known when the rows are gone
through in order. So no more is kept than the rows' own times and which row brought each chunk to each node:
24 bytes a transfer of an allgather where the event loop (`schedules.events`) takes 150.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from schedules.schedule import Clock, Schedule, TransferColumns
from topologies.exact import FloatArray, Int32Array, Int64Array

_NONE = -1
FEW_CELLS = 2**22
CELLS_A_ROW = 4
"""Nodes times chunks, 4 bytes each. With more for each row, as in an all-to-all of many ranks, where a chunk
comes to few nodes, the event loop needs less memory; a few in all never matter."""


class Pass(NamedTuple):
    """When each row starts and is complete, seconds, shape (transfers,); how long each link is held."""

    start: FloatArray
    finish: FloatArray
    busy: FloatArray


def in_order(
    schedule: Schedule, alpha: FloatArray, seconds: FloatArray, *, overlap_alpha: bool = False
) -> Pass | None:
    """Return the times of a schedule whose messages go in the table's order; None if it is not such a one.

    Parameters
    ----------
    schedule
        Legal.
    alpha, seconds
        Shape (links,): α of each, and what a load of 1 takes besides.
    overlap_alpha
        As of `schedules.simulate.SimulationOptions`.
    """
    cells = schedule.topology.num_nodes * len(schedule.chunks)
    if (
        cells > max(FEW_CELLS, CELLS_A_ROW * len(schedule))
        or schedule.clock is Clock.FLOW
        or schedule.order is None
        or schedule.routes is not None
        or schedule.count is not None
        or schedule.collective.is_combining
        or _meet(schedule.order, schedule.route, schedule.topology.num_links)
    ):
        return None
    rows, topology = len(schedule), schedule.topology
    times = Pass(np.empty(rows), np.empty(rows), np.zeros(topology.num_links))
    _play(
        schedule.columns,
        topology.source,
        topology.target,
        schedule.chunks.size,
        alpha,
        seconds,
        np.full((topology.num_nodes, len(schedule.chunks)), _NONE, dtype=np.int32),
        times,
        overlap_alpha,
    )
    return times


@njit(cache=True)
def _meet(order: Int64Array, route: Int32Array, num_links: int) -> bool:
    """Whether a link has two rows of one order, `order` being non-decreasing."""
    latest = np.full(num_links, _NONE, dtype=np.int64)
    for row in range(len(route)):
        before = latest[route[row]]
        if before != _NONE and order[before] == order[row]:
            return True
        latest[route[row]] = row
    return False


@njit(cache=True)
def _play(
    rows: TransferColumns,
    source: Int32Array,
    target: Int32Array,
    size: Int64Array,
    alpha: FloatArray,
    seconds: FloatArray,
    bringer: Int32Array,
    times: Pass,
    overlap_alpha: bool,
) -> None:
    """Fill in the times. `bringer`: the row that brought the chunk to the node, -1 for none yet."""
    chunk, _, route = rows
    free = np.zeros(len(alpha))
    for row in range(len(chunk)):
        link = route[row]
        begin, brought = free[link], bringer[source[link], chunk[row]]
        if brought != _NONE:
            begin = max(begin, times.finish[brought])
        sending = size[chunk[row]] * seconds[link]
        holding = sending if overlap_alpha else alpha[link] + sending
        free[link] = begin + holding
        times.busy[link] += holding
        times.start[row] = begin
        times.finish[row] = begin + (alpha[link] + sending)
        bringer[target[link], chunk[row]] = row

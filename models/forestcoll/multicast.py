"""Switches that multicast or aggregate (dissertation 4.5.6) receive the same data only once.

Trees are built as if switches only forwarded. Afterwards, of all transfers of a chunk that pass a switch
which can multicast, only the first comes up to it; the others start there. Then ranks send less, though none
receives less, so that the bottleneck cut and the congestion stay as they are. Run backwards, a copy out of
such a switch is a sum into a switch that can aggregate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutti.schedules.cost import link_loads
from tutti.schedules.schedule import Clock, Routes, Schedule
from tutti.topologies.errors import InputError
from tutti.topologies.exact import FloatArray, Int32Array, Int64Array
from tutti.topologies.kernels import kernel

Rows = tuple[Int32Array, Int32Array, Int32Array]
"""Chunk, count and route of each row of a schedule."""
_ONCE, _OFTEN, _HELD = 1, 2, 4
"""Bits of what a switch does with a chunk: it passes it once, passes it more often, holds it."""


def multicast(schedule: Schedule) -> Schedule:
    """Return the schedule with every chunk sent to a switch that can multicast once at most.

    Parameters
    ----------
    schedule
        A flow schedule that only copies, over routes that no switch starts or ends.

    Raises
    ------
    InputError
        If it is another.

    Notes
    -----
    A transfer is cut at a switch only where another one of the same chunk passes it too; else it stays whole.
    """
    if schedule.clock is not Clock.FLOW or schedule.collective.is_combining:
        raise InputError(
            f"multicast: {schedule.collective} in the {schedule.clock} clock is no flow of copies"
        )
    topology = schedule.topology
    if not topology.multicast:
        return schedule
    able = np.full(topology.num_nodes, -1, dtype=np.int32)
    able[sorted(topology.multicast)] = np.arange(len(topology.multicast))
    # For every link of every route the able switch that it leaves, or -1; of several visits only the last.
    stops = able[topology.source[schedule.route_table.links]]
    _keep_last(schedule.route_table.offsets, stops)
    count = np.ones(len(schedule), dtype=np.int32) if schedule.count is None else schedule.count
    rows, offsets = (schedule.chunk, count, schedule.route), schedule.route_table.offsets
    state = np.zeros((len(topology.multicast), len(schedule.chunks)), dtype=np.uint8)
    _note_passing(rows, offsets, stops, state)
    size = _cut(rows, offsets, stops, state.copy(), np.empty((0, 5), np.int32))
    pieces = np.empty((size, 5), dtype=np.int32)
    _cut(rows, offsets, stops, state, pieces)
    routes, route = _subroutes(schedule.route_table, pieces[:, 2:])
    count = pieces[:, 1]
    return schedule.replace(
        chunk=pieces[:, 0], count=None if (count == 1).all() else count, route=route, routes=routes
    )


@dataclass(frozen=True, eq=False)
class TrafficTotals:
    """The data that a schedule moves by ranks and over links, in units of M.

    Parameters
    ----------
    sent, received
        Shape (ranks,): the data that each rank sends and receives.
    links
        The data that crosses a link, summed over links.
    """

    sent: FloatArray
    received: FloatArray
    links: float

    @classmethod
    def of(cls, schedule: Schedule) -> TrafficTotals:
        """Return the totals of a schedule."""
        topology = schedule.topology
        load = link_loads(schedule) / schedule.chunks.denominator
        sent, received = np.zeros((2, topology.num_nodes))
        np.add.at(sent, topology.source, load)
        np.add.at(received, topology.target, load)
        ranks = topology.num_ranks
        return cls(sent[:ranks], received[:ranks], float(load.sum()))

    @property
    def reverse(self) -> TrafficTotals:
        """The totals of the schedule run backwards."""
        return TrafficTotals(self.received, self.sent, self.links)

    def __add__(self, other: TrafficTotals) -> TrafficTotals:
        """Return the totals of both schedules together."""
        return TrafficTotals(self.sent + other.sent, self.received + other.received, self.links + other.links)

    def columns(self, suffix: str = "") -> dict[str, float]:
        """Return what the busiest rank sends and receives and all links carry, as columns of results."""
        return {
            f"rank_egress{suffix}": float(self.sent.max()),
            f"rank_ingress{suffix}": float(self.received.max()),
            f"link_traffic{suffix}": self.links,
        }


@kernel
def _keep_last(offsets: Int64Array, stops: Int32Array) -> None:
    for route in range(len(offsets) - 1):
        begin, end = offsets[route], offsets[route + 1]
        for at in range(begin, end):
            for later in range(at + 1, end):
                if stops[later] == stops[at] or at - begin > 62:  # bits of a mask of where to cut
                    stops[at] = -1


@kernel
def _note_passing(rows: Rows, offsets: Int64Array, stops: Int32Array, state: Any) -> None:
    """Note for each switch and chunk whether it passes once or more often."""
    chunk, count, route = rows
    for row in range(len(route)):
        for at in range(offsets[route[row]], offsets[route[row] + 1]):
            if stops[at] >= 0:
                for cell in range(chunk[row], chunk[row] + count[row]):
                    state[stops[at], cell] = _ONCE if state[stops[at], cell] == 0 else _OFTEN


@kernel
def _cut(rows: Rows, offsets: Int64Array, stops: Int32Array, state: Any, pieces: Int32Array) -> int:
    """Write the pieces (chunk, count, route, from, to) of each row if there is space; return how many.

    A piece is the links from to to - 1 of its route. Chunks of a row that are cut at the same links stay
    together.
    """
    (chunk, count, route), number = rows, 0
    for row in range(len(route)):
        begin, end = offsets[route[row]], offsets[route[row] + 1]
        first, last = chunk[row], chunk[row] + count[row]
        while first < last:
            start, cuts = _start_and_cuts(begin, end, stops, state, first)
            after = first + 1
            # Chunks that are cut at the same links stay one piece.
            while after < last and _start_and_cuts(begin, end, stops, state, after) == (start, cuts):
                after += 1
            came = start
            for at in range(start + 1, end - begin + 1):
                if at == end - begin or cuts >> at & 1:
                    if at < end - begin:
                        for cell in range(first, after):
                            state[stops[begin + at], cell] |= _HELD
                    if number < len(pieces):
                        pieces[number, 0], pieces[number, 1] = first, after - first
                        pieces[number, 2], pieces[number, 3], pieces[number, 4] = route[row], came, at
                    number += 1
                    came = at
            first = after
    return number


@kernel
def _start_and_cuts(begin: int, end: int, stops: Int32Array, state: Any, cell: int) -> tuple[int, int]:
    """Return from which link of its route a chunk is sent on, and a mask of the links it is cut before."""
    start, cuts = 0, 0
    for at in range(end - begin):
        stop = stops[begin + at]
        if stop < 0:
            continue
        if state[stop, cell] & _HELD:
            start, cuts = at, 0
        elif state[stop, cell] & _OFTEN:
            cuts |= 1 << at
    return start, cuts


def _subroutes(table: Routes, parts: Int32Array) -> tuple[Routes, Int32Array]:
    """Return a table of the parts (route, from, to) of routes, and the row of each; single links once."""
    route, begin, end = parts.T.astype(np.int64)
    longest = int(np.diff(table.offsets).max()) + 1
    at = table.offsets[route] + begin
    single = int(table.links.max()) + 1
    code = np.where(end - begin == 1, table.links[at], single + at * longest + end - begin)
    _, place, row = np.unique(code, return_index=True, return_inverse=True)
    lengths = (end - begin)[place]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return Routes(offsets, table.links[np.repeat(at[place], lengths) + within]), row.ravel().astype(np.int32)

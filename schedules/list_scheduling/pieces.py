"""Cuts a flow into pieces, the list scheduler's transfers, and makes a table of its messages again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tutti.schedules.cost import congestion
from tutti.schedules.list_scheduling.kernel import (
    ListScheduleTransfers,
    Sending,
    TimedRoutes,
    earliest_starts,
)
from tutti.schedules.message_durations import Messages, transfer_ticks
from tutti.schedules.schedule import Chunks, Clock, Schedule
from tutti.topologies.exact import INT64_MAX, BoolArray, FloatArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.kernels import kernel

RESOLUTION = 10**12
"""Least number of ticks in the whole schedule. With this value, rounding messages up adds almost nothing."""


class First(IntEnum):
    """The order of the pieces that wait for a link."""

    FARTHEST = 0
    """Pieces with the most hops to come go first; among equals, the first pieces of their chunks."""

    MIXED = 1
    """Pieces that are late go first, judged by their place in the chunk, in hops, and the hops to come."""

    IN_TURN = 2
    """The first pieces of all chunks go first, then the second ones; of equals, those with most hops left."""


class FlowEdges(NamedTuple):
    """The moves of a flow, chunk by chunk in table order, and the edges that wait for each.

    Parameters
    ----------
    row, chunk
        int64, shape (edges,).
    need
        int64, shape (edges,): the number of earlier edges that bring its chunk to its source.
    after, follower
        CSR of the edges that wait for each.
    hops
        int64, shape (edges,): the largest number of hops that follow.
    """

    row: Int64Array
    chunk: Int64Array
    need: Int64Array
    after: Int64Array
    follower: Int64Array
    hops: Int64Array


def edges_of(flow: Schedule) -> FlowEdges:
    """Return the edges of a flow schedule."""
    count = flow.counts
    row = np.repeat(np.arange(len(flow)), count)
    chunk = flow.chunk[row] + np.arange(len(row)) - offsets_of(count)[row]
    cells = [flow.route_source[flow.route], flow.route_target[flow.route]]
    source, target = (cell[row].astype(np.int64) * len(flow.chunks) + chunk for cell in cells)
    need, after, follower = _followers(source, target, flow.topology.num_nodes * len(flow.chunks))
    return FlowEdges(row, chunk, need, after, follower, _hops(after, follower))


@kernel
def _followers(
    source: Int64Array, target: Int64Array, cells: int
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return each edge's need and followers (CSR): an edge waits for all that wrote what it reads."""
    edges = len(source)
    need, after = np.zeros(edges, np.int64), np.zeros(edges + 1, np.int64)
    latest, before = np.full(cells, -1, np.int64), np.full(edges, -1, np.int64)
    read = np.empty(edges, np.int64)
    for edge in range(edges):
        read[edge] = latest[source[edge]]
        writer = read[edge]
        while writer >= 0:
            need[edge] += 1
            after[writer + 1] += 1
            writer = before[writer]
        # The writers of a cell are a linked list, from the latest to the first.
        before[edge] = latest[target[edge]]
        latest[target[edge]] = edge
    after = np.cumsum(after)
    place, follower = after[:-1].copy(), np.empty(after[-1], np.int64)
    for edge in range(edges):
        writer = read[edge]
        while writer >= 0:
            follower[place[writer]] = edge
            place[writer] += 1
            writer = before[writer]
    return need, after, follower


@kernel
def _hops(after: Int64Array, follower: Int64Array) -> Int64Array:
    """Return the largest number of hops that follow each edge; followers stand later."""
    hops = np.zeros(len(after) - 1, np.int64)
    for edge in range(len(hops) - 1, -1, -1):
        for other in follower[after[edge] : after[edge + 1]]:
            hops[edge] = max(hops[edge], hops[other] + 1)
    return hops


@dataclass(frozen=True, eq=False)
class CutFlow:
    """A flow in pieces: chunk c has `parts[c]` equal pieces, a power of two, for M = `size` bytes."""

    flow: Schedule
    edges: FlowEdges
    parts: Int64Array
    size: Fraction

    @classmethod
    def of(cls, flow: Schedule, edges: FlowEdges, size: Fraction, pieces: int) -> CutFlow:
        """Return the flow with M cut into about `pieces` pieces."""
        share = flow.chunks.size / float(flow.chunks.denominator)
        power = np.rint(np.log2(np.maximum(share * pieces, 1))).astype(np.int64)
        spare = INT64_MAX // 4 // (flow.chunks.denominator * len(flow.chunks))
        return cls(flow, edges, np.left_shift(1, np.minimum(power, max(spare.bit_length() - 1, 0))), size)

    @cached_property
    def first(self) -> Int64Array:
        """The transfers of edge e are first[e] to first[e + 1] - 1: int64 (edges + 1,)."""
        return offsets_of(self.parts[self.edges.chunk])

    @cached_property
    def hops(self) -> Int64Array:
        """The largest number of hops that follow each transfer: int64 (transfers,)."""
        return np.repeat(self.edges.hops, np.diff(self.first))

    @cached_property
    def transfers(self) -> ListScheduleTransfers:
        """The transfers: one for each piece of each edge, with amounts in bytes."""
        edges, chunks, pieces = self.edges, self.flow.chunks, np.diff(self.first)
        amount = chunks.size / self.parts * float(self.size / chunks.denominator)
        first, follower = _piece_by_piece(self.first, edges.after, edges.follower)
        return ListScheduleTransfers(
            np.repeat(self.flow.route[edges.row].astype(np.int32), pieces),
            np.repeat(edges.need, pieces).astype(np.int32),
            first,
            follower,
            np.repeat(amount[edges.chunk], pieces),
        )

    def priority(self, first: First) -> FloatArray:
        """Return the priority of each transfer, of which the least goes first: float64 (transfers,)."""
        parts = self.parts[self.edges.chunk]
        edge = np.repeat(np.arange(len(parts)), parts)
        place = np.arange(len(edge)) - offsets_of(parts)[edge]
        late = (place + 0.5) / parts[edge]
        most = 1.0 + self.edges.hops.max(initial=0)
        factor = {First.FARTHEST: 1.0, First.MIXED: most, First.IN_TURN: 2.0 * most * self.parts.max()}
        return late * factor[first] - self.edges.hops[edge]

    def scheduled(self, sending: Sending, seconds: float) -> Schedule:
        """Return the time-clock schedule with these messages, as early as their data and links allow."""
        transfers, chunks = self.transfers, self.flow.chunks
        scale = int(self.parts.max(initial=1))
        table = Chunks(
            np.repeat(chunks.item, self.parts),
            np.repeat(chunks.size * (scale // self.parts), self.parts),
            chunks.denominator * scale,
        )
        message, transfer = sending.message, sending.transfer
        edge = np.searchsorted(self.first, transfer, side="right") - 1
        piece = offsets_of(self.parts)[self.edges.chunk[edge]] + transfer - self.first[edge]
        route = transfers.route[transfer[sending.first[:-1]]]
        load = np.add.reduceat(table.size[piece], sending.first[:-1])
        tick = Fraction(1)
        while tick * RESOLUTION > seconds:
            tick /= 10
        empty = self.flow.replace(
            clock=Clock.TIME, chunks=table, tick=tick, size=self.size, order=None, claims={}
        )
        grouped = Messages(message.astype(np.int32), route, np.zeros(len(load), np.int64), load)
        routes = self.flow.route_table
        start = earliest_starts(
            transfers, sending, routes.offsets, routes.links, transfer_ticks(empty, grouped)
        )
        reduce = None if self.flow.reduce is None else self.flow.reduce[self.edges.row[edge]]
        return _table(empty, start[message], message, route[message], piece, reduce)


@kernel
def _piece_by_piece(
    first: Int64Array, after: Int64Array, follower: Int64Array
) -> tuple[Int64Array, Int32Array]:
    """Return, in CSR form, the transfers that wait for each: the same piece on the following edges."""
    offsets = np.zeros(first[-1] + 1, np.int64)
    for edge in range(len(first) - 1):
        for piece in range(first[edge], first[edge + 1]):
            offsets[piece + 1] = offsets[piece] + after[edge + 1] - after[edge]
    found = np.empty(offsets[-1], np.int32)
    for edge in range(len(first) - 1):
        for piece in range(first[edge + 1] - first[edge]):
            place = offsets[first[edge] + piece]
            for other in follower[after[edge] : after[edge + 1]]:
                found[place] = first[other] + piece
                place += 1
    return offsets, found


def in_messages(flow: Schedule, turn: Int64Array, size: Fraction) -> Schedule:
    """Return a time-clock schedule in which rows of one turn and one route are one message.

    Each goes as soon as its data is there and its links are free of the messages before it.

    Parameters
    ----------
    flow
        A legal flow without empty chunks.
    turn
        int64, shape (transfers,): non-decreasing; rows of one turn and one route stand together, and a row
        reads only what rows of earlier turns bring.
    size
        M in bytes.
    """
    edges = edges_of(flow)
    route = flow.route[edges.row].astype(np.int64)
    new = np.ones(len(route), dtype=bool)
    new[1:] = (np.diff(turn[edges.row]) != 0) | (np.diff(route) != 0)
    sending = Sending(np.append(np.flatnonzero(new), len(route)), np.arange(len(route), dtype=np.int32))
    cut = CutFlow(flow, edges, np.ones(len(flow.chunks), dtype=np.int64), size)
    longest = max(float(congestion(flow) * size), float(flow.topology.alpha.floats.max()))
    return cut.scheduled(sending, longest)


def timed_routes(flow: Schedule) -> TimedRoutes:
    """Return the routes of a schedule, in seconds and bytes."""
    routes, topology = flow.route_table, flow.topology
    entrance = routes.links[routes.offsets[:-1]]
    return TimedRoutes(
        routes.offsets,
        routes.links,
        topology.alpha.floats,
        1 / topology.bandwidth.floats,
        offsets_of(np.bincount(entrance, minlength=topology.num_links)),
        np.argsort(entrance, kind="stable").astype(np.int64),
    )


def _table(
    empty: Schedule,
    start: Int64Array,
    message: Int64Array,
    route: Int32Array,
    piece: Int64Array,
    reduce: BoolArray | None,
) -> Schedule:
    """Return the rows: the pieces of each message; consecutive pieces of one item share a row."""
    order = np.lexsort((piece, message, start))
    start, message, route, piece = start[order], message[order], route[order], piece[order]
    adds = np.zeros(len(order), bool) if reduce is None else reduce[order]
    item = empty.chunks.item[piece]
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(message) != 0) | (np.diff(piece) != 1) | (np.diff(item) != 0) | (adds[1:] != adds[:-1])
    first = np.flatnonzero(new)
    return empty.replace(
        chunk=piece[first],
        count=np.diff(np.append(first, len(order))),
        route=route[first],
        order=start[first],
        reduce=None if reduce is None else adds[first],
    )

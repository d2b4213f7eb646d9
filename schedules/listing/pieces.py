"""A flow cut into pieces: who waits for whom, and back from messages to a table in the time clock."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numba import njit

from schedules.durations import Messages, transfer_ticks
from schedules.listing.kernel import Jobs, Net, Sent
from schedules.listing.rules import First
from schedules.schedule import Chunks, Clock, Schedule
from topologies.exact import INT64_MAX, FloatArray, Int32Array, Int64Array, offsets_of

RESOLUTION = 10**12
"""Ticks in the whole schedule, at least: rounding messages up to ticks adds next to nothing."""


class Edges(NamedTuple):
    """What a flow moves, chunk by chunk, in table order, and who waits for it.

    Parameters
    ----------
    row, chunk
        int64, shape (edges,).
    need
        int64, shape (edges,): how many edges before it bring its chunk to its source.
    after, follower
        CSR of those that wait for each.
    hops
        int64, shape (edges,): of the longest way on from here.
    """

    row: Int64Array
    chunk: Int64Array
    need: Int64Array
    after: Int64Array
    follower: Int64Array
    hops: Int64Array


def edges_of(flow: Schedule) -> Edges:
    """Return the edges of a flow schedule."""
    count = np.ones(len(flow), dtype=np.int64) if flow.count is None else flow.count.astype(np.int64)
    row = np.repeat(np.arange(len(flow)), count)
    chunk = flow.chunk[row] + np.arange(len(row)) - offsets_of(count)[row]
    cells = [flow.route_source[flow.route], flow.route_target[flow.route]]
    source, target = (cell[row].astype(np.int64) * len(flow.chunks) + chunk for cell in cells)
    need, after, follower = _followers(source, target, flow.topology.num_nodes * len(flow.chunks))
    return Edges(row, chunk, need, after, follower, _hops(after, follower))


@njit(cache=True)
def _followers(
    source: Int64Array, target: Int64Array, cells: int
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return for how many edges each waits and who waits for each (CSR): for all that wrote what it reads."""
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


@njit(cache=True)
def _hops(after: Int64Array, follower: Int64Array) -> Int64Array:
    """Return the longest way on from each edge; those that follow it stand later."""
    hops = np.zeros(len(after) - 1, np.int64)
    for edge in range(len(hops) - 1, -1, -1):
        for other in follower[after[edge] : after[edge + 1]]:
            hops[edge] = max(hops[edge], hops[other] + 1)
    return hops


@dataclass(frozen=True, eq=False)
class Cut:
    """A flow in pieces: chunk c in `parts[c]` equal ones, a power of two each, for M = `size` bytes."""

    flow: Schedule
    edges: Edges
    parts: Int64Array
    size: Fraction

    @classmethod
    def of(cls, flow: Schedule, edges: Edges, size: Fraction, pieces: int) -> Cut:
        """Return the flow cut into about so many pieces of M."""
        share = flow.chunks.size / float(flow.chunks.denominator)
        power = np.rint(np.log2(np.maximum(share * pieces, 1))).astype(np.int64)
        spare = INT64_MAX // 4 // (flow.chunks.denominator * len(flow.chunks))
        return cls(flow, edges, np.left_shift(1, np.minimum(power, max(spare.bit_length() - 1, 0))), size)

    @property
    def jobs(self) -> Jobs:
        """What is to be moved."""
        edges, chunks = self.edges, self.flow.chunks
        amount = chunks.size / self.parts * float(self.size / chunks.denominator)
        return Jobs(
            offsets_of(self.parts[edges.chunk]),
            self.flow.route[edges.row].astype(np.int32),
            edges.need,
            edges.after,
            edges.follower,
            amount[edges.chunk],
            edges.hops,
        )

    def priority(self, first: First) -> FloatArray:
        """Return a number for each job, the least first: float64 (jobs,)."""
        parts = self.parts[self.edges.chunk]
        edge = np.repeat(np.arange(len(parts)), parts)
        place = np.arange(len(edge)) - offsets_of(parts)[edge]
        late = (place + 0.5) / parts[edge]
        most = 1.0 + self.edges.hops.max(initial=0)
        factor = {First.FARTHEST: 1.0, First.MIXED: most, First.IN_TURN: 2.0 * most * self.parts.max()}
        return late * factor[first] - self.edges.hops[edge]

    def scheduled(self, sent: Sent, seconds: float) -> Schedule:
        """Return the time-clock schedule with these messages, as early as their data and links allow."""
        jobs, chunks = self.jobs, self.flow.chunks
        scale = int(self.parts.max(initial=1))
        table = Chunks(
            np.repeat(chunks.item, self.parts),
            np.repeat(chunks.size * (scale // self.parts), self.parts),
            chunks.denominator * scale,
        )
        message = np.repeat(np.arange(len(sent.route)), np.diff(sent.first))
        edge = np.searchsorted(jobs.first, sent.job, side="right") - 1
        piece = offsets_of(self.parts)[self.edges.chunk[edge]] + sent.job - jobs.first[edge]
        load = np.bincount(message, weights=None) * 0
        np.add.at(load, message, table.size[piece])
        empty = self.flow.replace(
            clock=Clock.TIME, chunks=table, tick=_tick(seconds), size=self.size, order=None, claims={}
        )
        grouped = Messages(message.astype(np.int32), sent.route, np.zeros(len(load), np.int64), load)
        lasting = transfer_ticks(empty, grouped)
        routes = self.flow.route_table
        start = _starts(
            jobs,
            sent,
            (routes.offsets, routes.links),
            (lasting.kind, lasting.arrival, lasting.offsets, lasting.enter, lasting.hold),
            self.flow.topology.num_links,
        )
        reduce = None if self.flow.reduce is None else self.flow.reduce[self.edges.row[edge]]
        return _table(empty, (start[message], message, sent.route[message], piece), reduce)


def _tick(seconds: float) -> Fraction:
    """Return a power of ten seconds, at least `RESOLUTION` of which are in `seconds`."""
    tick = Fraction(1)
    while tick * RESOLUTION > seconds:
        tick /= 10
    return tick


def net_of(flow: Schedule) -> Net:
    """Return the routes and links of a schedule as the kernel takes them."""
    routes, topology = flow.route_table, flow.topology
    entrance = routes.links[routes.offsets[:-1]]
    return Net(
        routes.offsets,
        routes.links,
        topology.alpha.floats,
        1 / topology.bandwidth.floats,
        offsets_of(np.bincount(entrance, minlength=topology.num_links)),
        np.argsort(entrance, kind="stable").astype(np.int64),
    )


@njit(cache=True)
def _starts(
    jobs: Jobs,
    sent: Sent,
    routes: tuple[Int64Array, Int32Array],
    lasting: tuple[Int32Array, Int64Array, Int64Array, Int64Array, Int64Array],
    num_links: int,
) -> Int64Array:
    """Return when each message starts, in ticks; invariant: no link is taken before all earlier ones left it.

    Nothing waits within a route: a message starts late enough to find each of its links free.
    """
    offsets, links = routes
    kind, arrival, first, enter, hold = lasting
    free, ready = np.zeros(num_links, np.int64), np.zeros(len(sent.job), np.int64)
    start = np.empty(len(sent.route), np.int64)
    edge_of = np.empty(len(sent.job), np.int64)
    for edge in range(len(jobs.route)):
        edge_of[jobs.first[edge] : jobs.first[edge + 1]] = edge
    for message in range(len(start)):
        taken = sent.job[sent.first[message] : sent.first[message + 1]]
        route, entry = sent.route[message], first[kind[message]]
        begin = ready[taken].max()
        for hop in range(offsets[route + 1] - offsets[route]):
            begin = max(begin, free[links[offsets[route] + hop]] - enter[entry + hop])
        for hop in range(offsets[route + 1] - offsets[route]):
            free[links[offsets[route] + hop]] = begin + enter[entry + hop] + hold[entry + hop]
        start[message] = begin
        for job in taken:
            edge = edge_of[job]
            for follower in jobs.follower[jobs.after[edge] : jobs.after[edge + 1]]:
                other = jobs.first[follower] + job - jobs.first[edge]
                ready[other] = max(ready[other], begin + arrival[kind[message]])
    return start


def _table(
    empty: Schedule,
    columns: tuple[Int64Array, Int64Array, Int32Array, Int64Array],
    reduce: np.ndarray | None,
) -> Schedule:
    """Return the rows: of each message its pieces, those of one item that follow each other in one row."""
    order = np.lexsort((columns[3], columns[1], columns[0]))
    start, message, route, piece = (column[order] for column in columns)
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

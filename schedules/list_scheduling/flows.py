"""Turns a flow schedule into a list schedule: several rules are tried, and the fastest result is kept.

A reduce-scatter is listed as the allgather whose reverse it is, and takes the same number of ticks. An
allreduce is listed directly.

A message may last a share of the time that has passed, or of the time that is left, whichever is shorter. So
at the beginning data is soon where other links wait for it, in the middle there are few messages and little
α, and at the end the last messages are short (guided self-scheduling: Polychronopoulos, Kuck, IEEE Trans.
Computers 1987). Data that must be sent on many times is cut into smaller messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tutti.schedules.collective import Kind
from tutti.schedules.cost import congestion
from tutti.schedules.list_scheduling.kernel import (
    DurationLimits,
    ListScheduleTransfers,
    Sending,
    TimedRoutes,
    earliest_starts,
    send,
)
from tutti.schedules.list_scheduling.pieces import improved
from tutti.schedules.message_durations import Messages, transfer_ticks
from tutti.schedules.reversal import reverse
from tutti.schedules.schedule import Clock, Routes, Schedule
from tutti.topologies.errors import Unsupported
from tutti.topologies.exact import (
    INT64_MAX,
    BoolArray,
    FloatArray,
    Int32Array,
    Int64Array,
    entries_of,
    offsets_of,
)
from tutti.topologies.graphs.heaps import stable_pass
from tutti.topologies.kernels import kernel, now

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
    row, place = entries_of(flow.counts)
    chunk = flow.chunk[row] + place
    cells = [flow.route_source[flow.route], flow.route_target[flow.route]]
    source, target = (cell[row].astype(np.int64) * len(flow.chunks) + chunk for cell in cells)
    need, after, follower = _followers(source, target, flow.topology.num_nodes * len(flow.chunks))
    return FlowEdges(row, chunk, need, after, follower, _hops(after, follower))


def _followers(
    source: Int64Array, target: Int64Array, cells: int
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return each edge's need and followers (CSR): it waits for all earlier ones that wrote what it reads."""
    edges = np.arange(len(source))
    # The writers of a cell stand together, in their order; those before edge e end where e would stand.
    writers = stable_pass(edges, target, cells)
    written = target[writers] * len(edges) + writers
    begin = np.searchsorted(written, source * len(edges))
    need = np.searchsorted(written, source * len(edges) + edges) - begin
    reader, place = entries_of(need)
    writer = writers[begin[reader] + place]
    after = offsets_of(np.bincount(writer, minlength=len(edges)))
    return need, after, reader[stable_pass(np.arange(len(writer)), writer, len(edges))]


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
        # A transfer is followed by the same piece on the following edges.
        edge, piece = entries_of(pieces)
        followers = np.diff(edges.after)[edge]
        transfer, place = entries_of(followers)
        follower = edges.follower[edges.after[edge[transfer]] + place]
        return ListScheduleTransfers(
            self.flow.route[edges.row].astype(np.int32)[edge],
            edges.need.astype(np.int32)[edge],
            offsets_of(followers),
            (self.first[follower] + piece[transfer]).astype(np.int32),
            amount[edges.chunk][edge],
        )

    def priority(self, first: First) -> FloatArray:
        """Return the priority of each transfer, of which the least goes first: float64 (transfers,)."""
        parts = self.parts[self.edges.chunk]
        edge, place = entries_of(parts)
        late = (place + 0.5) / parts[edge]
        most = 1.0 + self.edges.hops.max(initial=0)
        factor = {First.FARTHEST: 1.0, First.MIXED: most, First.IN_TURN: 2.0 * most * self.parts.max()}
        return late * factor[first] - self.edges.hops[edge]

    def scheduled(self, sending: Sending, seconds: float) -> Schedule:
        """Return the time-clock schedule with these messages, as early as their data and links allow."""
        transfers, chunks = self.transfers, self.flow.chunks
        table = chunks.cut(self.parts)
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


class FlowRuleTuning(NamedTuple):
    """Limits on the flows that are scheduled, and on the search for rules."""

    most_cells: int
    """Most nodes times chunks of a flow."""
    most_transfers: int
    """Most edges times pieces of their chunks. With this value a rule takes a few tenths of a second."""
    rounds: int
    """Largest number of rounds in which the neighbours of the best rules are tried. The search ends sooner if
    none is better."""
    pieces: int
    """Pieces in a message of the length that is best for a chain, √(α T). The search begins with this
    number."""
    most_nudges: int
    """Largest number of changes of priorities that are tried."""
    most_work: int
    """Most changes of priorities times transfers, which take a few seconds."""
    nudged: float
    """Fraction of the edges whose priorities one such change moves."""
    close: float
    """The search ends within this factor of the bound by the congestion."""


TUNING = FlowRuleTuning(
    most_cells=2**24,
    most_transfers=2**18,
    rounds=6,
    pieces=8,
    most_nudges=500,
    most_work=2**24,
    nudged=0.05,
    close=1.005,
)


@dataclass(frozen=True)
class Rules:
    """The rules by which a list schedule is made.

    Parameters
    ----------
    pieces
        The approximate number of pieces of M.
    share
        The fraction of the time passed, or left, that a message may last.
    least
        A message may always last this long, in units of the square root of the time times α.
    weight
        The message's share is divided by 1 + weight times the hops to come.
    first
        The order of the pieces that wait for a link.
    filling
        Whether the time passed counts; if not, only the time left does.
    """

    pieces: int
    share: float = 0.2
    least: float = 0.2
    weight: float = 1.0
    first: First = First.FARTHEST
    filling: bool = True

    def neighbours(self) -> Iterator[Rules]:
        """Yield rules that differ slightly from these, in one field each."""
        yield replace(self, share=self.share * 2)
        yield replace(self, share=self.share / 2)
        yield from (replace(self, weight=weight) for weight in (0.0, 1.0, 3.0) if weight != self.weight)
        yield replace(self, least=self.least * 2)
        yield replace(self, least=self.least / 2)
        yield from (replace(self, first=first) for first in First if first != self.first)
        yield replace(self, pieces=self.pieces * 2)
        yield replace(self, pieces=self.pieces // 2)
        yield replace(self, filling=not self.filling)


def can_be_listed(schedule: Schedule) -> bool:
    """Whether `list_schedule` takes it: a flow of one kind, not too large, without empty shards or copies.

    Its routes over several links must be like those through switches: none begins on a link inside another.
    """
    what, count = schedule.collective, schedule.count_or_empty
    edges = int(count.sum()) if len(count) else len(schedule)
    return (
        schedule.clock is Clock.FLOW
        and not what.parts
        and schedule.chunks.copy_of is None
        and 0 < edges <= TUNING.most_transfers
        and schedule.topology.num_nodes * len(schedule.chunks) <= TUNING.most_cells
        and bool((schedule.chunks.size > 0).all())
        and not _begins_inside(schedule.route_table)
    )


def _begins_inside(routes: Routes) -> bool:
    """Whether a link that begins a route is inside another: the end of its use there would be missed."""
    entrance = np.zeros(len(routes.links), dtype=bool)
    entrance[routes.offsets[:-1]] = True
    return len(np.intersect1d(routes.links[entrance], routes.links[~entrance])) > 0


def list_schedule(
    flow: Schedule, size: Fraction, rules: Rules | None = None, seconds: float = math.inf
) -> Schedule:
    """Return a time-clock schedule of the same transfers in pieces, made for M = `size` bytes.

    Parameters
    ----------
    flow
        A legal flow that `can_be_listed`.
    size
        M in bytes.
    rules
        The rules; None: the best rules found by changing one field after the other.
    seconds
        The time after which no other rules are tried.

    Raises
    ------
    Unsupported
        If it cannot be listed.
    """
    if not can_be_listed(flow):
        raise Unsupported(
            f"list schedule of {flow.collective}: needs a flow that moves 1 to {TUNING.most_transfers} "
            "chunks, none empty, by routes of which none begins inside another"
        )
    kind = flow.collective.kind
    if kind.is_combining and kind is not Kind.ALLREDUCE:
        return reverse(list_schedule(reverse(flow), size, rules, seconds), flow.topology)
    context, until = _Context(flow, size), now() + seconds
    if rules is not None:
        return context.schedule(rules)
    best = context.tried(Rules(context.guess()))
    for _ in range(TUNING.rounds):
        before = best
        best = improved(best, context.neighbours(best.rules, until), context.tried, patience=None)
        if best is before:
            break
    rules = best.rules
    return context.schedule(rules, _nudged(context, rules, until))


class _TriedRules(NamedTuple):
    """Rules, and the seconds of the list schedule that they give."""

    rules: Rules
    seconds: float


class _Context:
    """The common data of the list schedules of one flow, and the time of each."""

    def __init__(self, flow: Schedule, size: Fraction) -> None:
        self.flow, self.size = flow, size
        self.edges = edges_of(flow)
        self.routes = timed_routes(flow)
        self.bound = float(congestion(flow) * size)
        self.least = math.sqrt(self.bound * float(flow.topology.alpha.floats.max()))
        self._cuts: dict[int, CutFlow] = {}
        self._tried: dict[Rules, _TriedRules] = {}

    def cut(self, pieces: int) -> CutFlow:
        """Return the flow with M cut into about this many pieces."""
        if pieces not in self._cuts:
            self._cuts[pieces] = CutFlow.of(self.flow, self.edges, self.size, pieces)
        return self._cuts[pieces]

    def sent(self, rules: Rules, nudge: FloatArray | None = None) -> tuple[Sending, float]:
        """Return the messages and the last arrival; `nudge`, shape (edges,), is added to the priorities."""
        cut = self.cut(rules.pieces)
        least, weight = rules.least * self.least, float(rules.weight)
        limits = DurationLimits(self.bound, rules.share, least, weight, rules.filling, cut.hops)
        priority = cut.priority(rules.first)
        if nudge is not None:
            priority += np.repeat(nudge, np.diff(cut.first))
        found = send(cut.transfers, self.routes, priority, 0, limits)
        return found.sending, float(found.end)

    def schedule(self, rules: Rules, nudge: FloatArray | None = None) -> Schedule:
        """Return the list schedule by some rules."""
        return self.cut(rules.pieces).scheduled(*self.sent(rules, nudge))

    def tried(self, rules: Rules) -> _TriedRules:
        """Return the rules with the time of their list schedule."""
        if rules not in self._tried:
            self._tried[rules] = _TriedRules(rules, self.sent(rules)[1])
        return self._tried[rules]

    def guess(self) -> int:
        """Return a number of pieces, a power of two, for which there are not too many transfers."""
        byte = 1 / float(np.median(self.flow.topology.bandwidth.floats))
        most = (
            TUNING.pieces * float(self.size) * byte / self.least
            if self.least > 0
            else float(TUNING.most_transfers)
        )
        pieces = 2 ** max(0, round(math.log2(max(most, 1.0))))
        while pieces > 1 and not self.feasible(Rules(pieces)):
            pieces //= 2
        return pieces

    def feasible(self, rules: Rules) -> bool:
        """Whether there are not too many transfers."""
        return rules.pieces >= 1 and int(self.cut(rules.pieces).first[-1]) <= TUNING.most_transfers

    def neighbours(self, rules: Rules, until: float) -> Iterator[Rules]:
        """Yield the feasible rules that differ slightly, until the time has ended."""
        for other in rules.neighbours():
            if self.feasible(other):
                if now() > until:
                    return
                yield other


def _nudged(context: _Context, rules: Rules, until: float) -> FloatArray:
    """Return changes of the edges' priorities: random changes of a few that did not increase the time."""
    edges, transfers = len(context.edges.row), int(context.cut(rules.pieces).first[-1])
    best, least, rng = np.zeros(edges), context.tried(rules).seconds, np.random.default_rng(0)
    for _ in range(min(TUNING.most_nudges, TUNING.most_work // transfers)):
        if now() > until or least <= TUNING.close * context.bound:
            break
        chosen = rng.random(edges) < TUNING.nudged
        nudge = best + np.where(chosen, rng.normal(size=edges), 0.0)
        end = context.sent(rules, nudge)[1]
        if end <= least:
            best, least = nudge, end
    return best

"""The choice of messages for each datum, such that messages are about equally long.

Messages span a network in time. In it data for one rank takes a path, and data for all ranks a tree. A
message that is busy for α + L costs t (2 (α + L) + t) for a datum that takes t, so that the sum of the
squares falls (as in `heuristics.classic.stepwise`). All data choose again a few times, one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.heuristics.rounds.slots import RoundMessages
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule
from tutti.topologies.exact import BoolArray, FloatArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology


class ChunkLoadTuning(NamedTuple):
    """Limits of the choice of messages for data."""

    rounds: int
    """Number of times that all data choose."""
    most_cuts: int
    """Largest number of parts of a datum. More are balanced better."""
    few_chunks: int
    """Number of chunks for each pair of ranks up to which data is cut."""
    work: int
    """Largest number of messages times data times rounds, which take some seconds."""


TUNING = ChunkLoadTuning(rounds=4, most_cuts=8, few_chunks=2**9, work=2**28)


class MessageEvents(NamedTuple):
    """Messages, in the form that the choice needs.

    Parameters
    ----------
    event
        Twice the number of a message, and one more for its arrival, in the order of time.
    leaves, arrives
        The places of each message in that order.
    source, target
        Its ends.
    port
        Equal where messages have the same slowest link in the same step: they share a load.
    alpha, slowness
        α of that link in seconds, and its seconds a byte.
    into, offsets
        Messages by target: those to node v are into[offsets[v] : offsets[v + 1]].
    """

    event: Int64Array
    leaves: Int64Array
    arrives: Int64Array
    source: Int32Array
    target: Int32Array
    port: Int64Array
    alpha: FloatArray
    slowness: FloatArray
    into: Int64Array
    offsets: Int64Array

    @classmethod
    def of(cls, topology: Topology, routes: Routes, messages: RoundMessages) -> MessageEvents:
        """Return messages over routes of a network."""
        route, number = messages.route, np.arange(len(messages.route))
        of = np.repeat(np.arange(len(routes)), np.diff(routes.offsets))
        # The routes' links by bandwidth: the first of each route is its slowest.
        by_bandwidth = np.lexsort((topology.bandwidth.numerators[routes.links], of))
        link = routes.links[by_bandwidth][routes.offsets[:-1]][route]
        source = topology.source[routes.links[routes.offsets[:-1]]]
        target = topology.target[routes.links[routes.offsets[1:] - 1]]
        arrives = np.repeat([0, 1], len(number))
        times = np.concatenate([messages.start, messages.end])
        order = np.lexsort((arrives, np.tile(messages.step, 2), times))
        place = np.argsort(order)
        return cls(
            (2 * np.tile(number, 2) + arrives)[order],
            place[: len(number)],
            place[len(number) :],
            source[route],
            target[route],
            np.unique(messages.step * topology.num_links + link, return_inverse=True)[1],
            topology.alpha.floats[link],
            1 / topology.bandwidth.floats[link],
            np.argsort(target[route], kind="stable"),
            offsets_of(np.bincount(target[route], minlength=topology.num_nodes)),
        )


def loaded(problem: Problem, routes: Routes, messages: RoundMessages) -> Schedule:
    """Return the all-to-all or allgather over these messages; those that carry nothing are left out."""
    topology, what = problem.topology, problem.collective
    chunks, spans = chunks_of(what), MessageEvents.of(topology, routes, messages)
    size = chunks.size * float((problem.size or 1) / chunks.denominator)
    items = what.items
    if what.kind is Kind.ALL_TO_ALL:
        source, target = items.start[chunks.item], items.end[chunks.item]
        # Pairs that go equally far round are listed together.
        data = np.lexsort((source, (target - source) % topology.num_ranks))
        data = data[(source != target)[data]]
        rounds = _rounds(len(data) * len(messages.route))
        via = np.full((len(data), topology.num_nodes), -1, dtype=np.int32)
        _choose_paths(spans, source[data], target[data], size[data], rounds, via)
    else:
        data = np.arange(len(chunks))
        via = np.full((len(data), topology.num_nodes), -1, dtype=np.int32)
        rounds = _rounds(len(data) * (len(messages.route) + topology.num_nodes**2))
        _choose_trees(spans, items.start[chunks.item], wanted_of(what), size, rounds, via)
    datum, place = np.nonzero(via >= 0)
    message, chunk = via[datum, place], data[datum]
    rows = np.lexsort((chunk, message))
    message = message[rows]
    step = np.unique(messages.step[message], return_inverse=True)[1] + 1
    return problem.schedule(Clock.STEP, chunks, chunk[rows], messages.route[message], step, routes=routes)


def chunks_of(what: Collective) -> Chunks:
    """Return the data of a collective, cut in equally many parts each."""
    return Chunks.even(what, max(1, min(TUNING.most_cuts, TUNING.few_chunks // what.num_ranks**2)))


def wanted_of(what: Collective) -> BoolArray:
    """Return whether rank u needs or has what begins at rank v, bool (ranks, ranks) by u and v."""
    wanted = np.eye(what.num_ranks, dtype=np.bool_)
    for members in what.members:
        wanted[np.ix_(members, members)] = True
    return wanted


def _rounds(work: int) -> int:
    return max(1, min(TUNING.rounds, TUNING.work // max(work, 1)))


@kernel
def _price(spans: MessageEvents, load: FloatArray, message: int, size: float) -> float:
    time = size * spans.slowness[message]
    return time * (2 * (spans.alpha[message] + load[spans.port[message]]) + time)


@kernel
def _choose_paths(
    spans: MessageEvents,
    source: Int32Array,
    target: Int32Array,
    size: FloatArray,
    rounds: int,
    path: Int32Array,
) -> None:
    """Write the messages of each datum's path into its row of `path`, the last one first, and -1 behind."""
    nodes, messages = path.shape[1], len(spans.source)
    load, by, cost = np.zeros(messages), np.empty(messages, dtype=np.int64), np.empty(messages)
    label, last = np.empty(nodes), np.empty(nodes, dtype=np.int64)
    for _ in range(rounds):
        for datum in range(len(size)):
            for place in range(nodes):
                message = path[datum, place]
                if message < 0:
                    break
                load[spans.port[message]] -= size[datum] * spans.slowness[message]
                path[datum, place] = -1
            label.fill(np.inf)
            last.fill(-1)
            label[source[datum]] = 0.0
            # Dijkstra is not needed: events are in order of time, and a path follows time. An even event is a
            # message's start, an odd one its arrival.
            for event in spans.event:
                message = event >> 1
                end = spans.target[message]
                if event & 1 == 0:
                    begin = spans.source[message]
                    cost[message] = label[begin] + _price(spans, load, message, size[datum])
                    by[message] = last[begin]
                elif cost[message] < label[end]:
                    label[end], last[end] = cost[message], message
            message, length = last[target[datum]], 0
            while message >= 0:
                load[spans.port[message]] += size[datum] * spans.slowness[message]
                path[datum, length] = message
                message, length = by[message], length + 1


@kernel
def _choose_trees(
    spans: MessageEvents,
    source: Int32Array,
    wanted: BoolArray,
    size: FloatArray,
    rounds: int,
    via: Int32Array,
) -> None:
    """Write into via[d, v] the message by which v gets datum d; a node that does not need it passes it on.

    First each node gets it by the first message. Then it chooses the cheapest message that arrives before it
    sends the datum on. The sender must have the datum, not by way of the node itself: such a node has it
    later.
    """
    load = np.zeros(len(spans.source))
    for datum in range(len(size)):
        _spread(spans, source[datum], via[datum])
        _leave_out(spans, wanted[:, source[datum]], via[datum])
        for message in via[datum]:
            if message >= 0:
                load[spans.port[message]] += size[datum] * spans.slowness[message]
    for _ in range(rounds):
        for datum in range(len(size)):
            for node in range(via.shape[1]):
                if via[datum, node] >= 0:
                    _choose_again(
                        spans, source[datum], wanted[:, source[datum]], size[datum], load, via[datum], node
                    )
    for datum in range(len(size)):  # a node may have lost the last that it passed the datum on to
        _leave_out(spans, wanted[:, source[datum]], via[datum])


@kernel
def _spread(spans: MessageEvents, source: int, via: Int32Array) -> None:
    """Let each node get a datum by the first message."""
    for event in spans.event:
        message = event >> 1
        known = spans.source[message] == source or via[spans.source[message]] >= 0
        left = known and (
            spans.source[message] == source
            or spans.arrives[via[spans.source[message]]] < spans.leaves[message]
        )
        end = spans.target[message]
        if event & 1 and left and end != source and via[end] < 0:
            via[end] = message


@kernel
def _leave_out(spans: MessageEvents, wanted: BoolArray, via: Int32Array) -> None:
    """Remove a datum from nodes that neither need it nor pass it on."""
    found = True
    while found:
        found = False
        passes = np.zeros(len(via), dtype=np.bool_)
        for message in via:
            if message >= 0:
                passes[spans.source[message]] = True
        for node in range(len(via)):
            if via[node] >= 0 and not passes[node] and (node >= len(wanted) or not wanted[node]):
                via[node], found = -1, True


@kernel
def _choose_again(
    spans: MessageEvents,
    source: int,
    wanted: BoolArray,
    size: float,
    load: FloatArray,
    via: Int32Array,
    node: int,
) -> None:
    """Let a node get a datum by the cheapest message in time, or by none if it no longer uses it."""
    by, needed = via[node], len(spans.event)
    load[spans.port[by]] -= size * spans.slowness[by]
    for other in range(len(via)):
        if via[other] >= 0 and spans.source[via[other]] == node:
            # The message must arrive before the node forwards the datum for the first time.
            needed = min(needed, spans.leaves[via[other]])
    if needed == len(spans.event) and (node >= len(wanted) or not wanted[node]):
        via[node] = -1
        return
    least = _price(spans, load, by, size)
    for place in range(spans.offsets[node], spans.offsets[node + 1]):
        message = spans.into[place]
        begin = spans.source[message]
        if spans.arrives[message] >= needed or (begin != source and via[begin] < 0):
            continue
        if begin == source or spans.arrives[via[begin]] < spans.leaves[message]:
            price = _price(spans, load, message, size)
            if price < least:
                by, least = message, price
    via[node] = by
    load[spans.port[by]] += size * spans.slowness[by]

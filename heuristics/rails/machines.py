"""Machines of G ranks on one switch, with an adapter each; all ranks do the same, so one timeline is enough.

Each rank of a machine has a *stream*, B shards long. First comes its own shard, which it has. Then come those
of the ranks of its place in the other machines, the machine before it first; its adapter brings them, cut
into messages. All ranks of the machine need all its G streams. So each knows a prefix of every stream, of its
own (distance 0) and of that of the rank at distance j before it, and by symmetry the lengths depend on j
alone. The *timeline* of one rank's port and adapter is the schedule of all.

A message by the port goes to the rank at a distance d. It carries the part of all streams that its receiver
was not sent yet; distances follow each other in a cycle. A message by an adapter is cut so that it arrives
just when the port becomes free. The streams are so spread up to an *end*. What is left of them reaches every
rank by adapters alone, from the rank of its place in the machine that owns these shards. The earlier the end,
the less the port has to do.

A message of b bytes holds a port for α + b/v; it has arrived α after that, as its route is two links.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.schedules.intervals import CutLine
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Clock, Routes, Schedule
from tutti.topologies.exact import BoolArray, FloatArray, Int64Array, offsets_of
from tutti.topologies.graphs.grid_structure import Hosts, hosts_of
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class Machines:
    """B machines of G ranks; rank (b, g) reaches the others of its machine over one switch by its *port*.

    By its *adapter* it reaches (b', g) of every other machine, over a switch too.

    Parameters
    ----------
    rank
        int64, shape (B, G).
    port, adapter
        int64, shape (2, ranks): each rank's link to the switch, and the link back.
    """

    rank: Int64Array
    port: Int64Array
    adapter: Int64Array


def machines(topology: Topology) -> Machines | str:
    """Return the machines of a network, or why it has none: a clause that begins with a verb."""
    hosts = hosts_of(topology)
    if isinstance(hosts, str):
        return hosts
    links = _links(topology, hosts)
    if links is None:
        return (
            "has ranks without one link each way to a switch inside their machine and one to a switch outside"
        )
    found = Machines(hosts.ranks, *links)
    return _unlike(topology, found) or found


def _links(topology: Topology, hosts: Hosts) -> tuple[Int64Array, Int64Array] | None:
    """Return each rank's link to and from its machine's switch, and to and from the one outside."""
    ranks = topology.num_ranks
    inner: list[Int64Array] = []
    outer: list[Int64Array] = []
    for near, far in ((topology.source, topology.target), (topology.target, topology.source)):
        own = np.flatnonzero(near < ranks)
        if (far[own] < ranks).any():
            return None
        inside = hosts.of[near[own]] == hosts.of[far[own]]
        for chosen, found in ((own[inside], inner), (own[~inside], outer)):
            chosen = chosen[np.argsort(near[chosen], kind="stable")]
            if not np.array_equal(near[chosen], np.arange(ranks)):
                return None
            found.append(chosen.astype(np.int64))
    return np.stack(inner), np.stack(outer)


def _unlike(topology: Topology, found: Machines) -> str:
    """Return what differs: the switches of ranks, bandwidths or α; empty if all are equal."""
    at_port = topology.target[found.port[0]], topology.source[found.port[1]]
    at_adapter = topology.target[found.adapter[0]], topology.source[found.adapter[1]]
    if any((end[found.rank] != at_port[0][found.rank[:, :1]]).any() for end in at_port):
        return "has machines with several switches"
    if any((end[found.rank] != at_adapter[0][found.rank[:1]]).any() for end in at_adapter):
        return "has adapters that join no ranks of one place in all machines"
    for kind, links in (("ports", found.port), ("adapters", found.adapter)):
        for values in (topology.bandwidth.numerators, topology.alpha.numerators):
            if (values[links] != values[links[0, 0]]).any():
                return f"has {kind} of unlike bandwidth or alpha"
    return ""


MOST = 512
"""Largest number of messages of a port or an adapter; a timeline with more is given up."""
SLACK = 1e-6
"""Tolerance in units: data that is this much late is in time."""
_SENT, _HEARD, _PIECES, _LANDED, _CUT, _NEED = range(6)
_NOW, _FREE, _LOCAL = range(3)


class MachineCosts(NamedTuple):
    """B machines of G ranks, the units of a shard; seconds a unit and α of port and adapter."""

    machines: int
    ranks: int
    shard: int
    port: float
    port_alpha: float
    adapter: float
    adapter_alpha: float


class SendRule(NamedTuple):
    """The rule that says to which rank to send, and how much.

    The `distances` of the port's messages follow each other in a cycle. A message of the adapter has at least
    `least` units and this `share` of what is left up to the end, or all that its sender has for it. Adapters
    bring each shard from its owner or, if `doubling`, as many shards as the receiver has, from the machine as
    far away (Bruck et al., TPDS 1997).
    """

    distances: Int64Array
    least: int
    share: float
    doubling: bool


class PortMessages(NamedTuple):
    """A port's messages, shapes (MOST,) and (MOST, G): when each starts and arrives, and its distance.

    A message carries the units from `low` to `high` of each stream, by its distance from the receiver.
    """

    start: FloatArray
    arrive: FloatArray
    distance: Int64Array
    low: Int64Array
    high: Int64Array


class Adapter(NamedTuple):
    """An adapter's messages, shape (MOST,): when each starts and arrives, and from how many machines before.

    A message carries the units from `low` to `high` of one stream. The last ones, the tails, do so for all G.
    """

    start: FloatArray
    arrive: FloatArray
    hop: Int64Array
    low: Int64Array
    high: Int64Array


class _TimelineProgress(NamedTuple):
    """Both sequences of messages as they grow, how many of each there are, and the times reached."""

    port: PortMessages
    adapter: Adapter
    counts: Int64Array
    clock: FloatArray
    known: Int64Array
    told: Int64Array


class MachineTimeline(NamedTuple):
    """A timeline: messages, the numbers of port, adapter and tails; seconds until port and adapter end."""

    port: PortMessages
    adapter: Adapter
    counts: tuple[int, int, int]
    seconds: tuple[float, float]


@kernel
def play(load: MachineCosts, rule: SendRule, end: int) -> MachineTimeline:
    """Return the timeline; invariant: all is decided until now, `told` is `known` and all that is sent."""
    times, units = np.zeros((4, MOST)), np.zeros((4, MOST), np.int64)
    streams = np.zeros((2, MOST, load.ranks), np.int64)
    port = PortMessages(times[0], times[1], units[0], streams[0], streams[1])
    adapter = Adapter(times[2], times[3], units[1], units[2], units[3])
    count, clock = np.zeros(6, np.int64), np.zeros(3)
    known, told = np.zeros(load.ranks, np.int64), np.zeros(load.ranks, np.int64)
    known[0] = told[0] = count[_CUT] = load.shard
    state = _TimelineProgress(port, adapter, count, clock, known, told)
    turn = skipped = 0
    while told.min() < end:
        _bring(load, rule, end, state)
        _learn(state, clock[_NOW] + SLACK * min(load.port, load.adapter))
        if max(count[_SENT], count[_PIECES]) == MOST:
            break
        far = rule.distances[turn]
        total = 0
        for j in range(len(known) - far):
            total += max(known[j] - told[j + far], 0)
        for j in range(len(known) - far + 1, len(known)):
            total += max(known[j] - told[j + far - len(known)], 0)
        # A turn with nothing new is skipped; after a whole round of them time moves to the next event.
        if total == 0 and skipped < len(rule.distances) - 1:
            skipped, turn = skipped + 1, (turn + 1) % len(rule.distances)
            continue
        skipped = 0
        if total == 0:
            later = _later(load, end, state)
            if not clock[_NOW] < later < np.inf:
                break
            clock[_NOW] = later
            continue
        _send(load, state, far, total)
        turn = (turn + 1) % len(rule.distances)
    tails, done = _tails(load, end, state)
    over = port.arrive[count[_SENT] - 1] if told.min() >= end else np.inf
    return MachineTimeline(port, adapter, (count[_SENT], count[_PIECES], tails), (over, done))


@kernel
def _bring(load: MachineCosts, rule: SendRule, end: int, state: _TimelineProgress) -> None:
    """Cut the adapter's messages that have arrived by now; invariant: they follow each other without a gap.

    A message whose data only just came to its sender waits for it.
    """
    adapter, count, clock = state.adapter, state.counts, state.clock
    while count[_CUT] < end and count[_PIECES] < MOST:
        place, cut = count[_PIECES], count[_CUT]
        hop = cut // load.shard
        until = hop + 1
        if rule.doubling:
            hop = 1
            while 2 * hop * load.shard <= cut:
                hop *= 2
            until = 2 * hop
        until = min(end, until * load.shard)
        count[_NEED] = min(until - cut, max(rule.least, int(rule.share * (end - cut)), 1))
        # The data that can have arrived by now, if the message began when the adapter was free.
        came = int((clock[_NOW] - clock[_FREE] - 2 * load.adapter_alpha) / load.adapter + SLACK)
        last = min(cut + came, until)
        start = clock[_FREE]
        if came >= count[_NEED] and place and last - hop * load.shard > adapter.low[place - 1]:
            start = max(start, adapter.arrive[place - 1])
            came = int((clock[_NOW] - start - 2 * load.adapter_alpha) / load.adapter + SLACK)
            last = min(cut + came, until)
        if came < count[_NEED]:
            return
        size = (last - cut) * load.adapter
        adapter.start[place], adapter.hop[place] = start, hop
        adapter.low[place], adapter.high[place] = cut, last
        adapter.arrive[place] = start + 2 * load.adapter_alpha + size
        clock[_FREE] = start + load.adapter_alpha + size
        count[_CUT], count[_PIECES] = last, place + 1


@kernel
def _learn(state: _TimelineProgress, until: float) -> None:
    """Lengthen the known prefixes by what has arrived; messages arrive in order."""
    port, adapter, count, _, known, told = state
    while count[_HEARD] < count[_SENT] and port.arrive[count[_HEARD]] <= until:
        for j in range(len(known)):
            known[j] = max(known[j], port.high[count[_HEARD], j])
        count[_HEARD] += 1
    while count[_LANDED] < count[_PIECES] and adapter.arrive[count[_LANDED]] <= until:
        known[0] = told[0] = adapter.high[count[_LANDED]]
        count[_LANDED] += 1


@kernel
def _later(load: MachineCosts, end: int, state: _TimelineProgress) -> float:
    """Return when something arrives next, or enough by the adapter; infinite if nothing will."""
    port, adapter, count, clock, _, _ = state
    later = np.inf
    if count[_HEARD] < count[_SENT]:
        later = port.arrive[count[_HEARD]]
    if count[_LANDED] < count[_PIECES]:
        later = min(later, adapter.arrive[count[_LANDED]])
    elif count[_CUT] < end:
        arrival = 2 * load.adapter_alpha + count[_NEED] * load.adapter
        enough = clock[_FREE] + arrival
        if enough <= clock[_NOW]:
            enough = clock[_FREE] + load.adapter_alpha + arrival  # the sender waits for what it got last
        later = min(later, enough)
    return later


@kernel
def _send(load: MachineCosts, state: _TimelineProgress, far: int, total: int) -> None:
    """Send all news to the rank at a distance, and receive those of the rank as far the other way."""
    port, _, count, clock, known, told = state
    place = count[_SENT]
    for j in range(load.ranks):
        other = (j + far) % load.ranks
        if other > 0 and known[j] > told[other]:
            port.low[place, other], port.high[place, other] = told[other], known[j]
    for other in range(load.ranks):
        told[other] = max(told[other], port.high[place, other])
    port.start[place], port.distance[place] = clock[_NOW], far
    clock[_NOW] += load.port_alpha + total * load.port
    port.arrive[place] = clock[_NOW] + load.port_alpha
    count[_SENT] = place + 1
    if clock[_LOCAL] == 0.0 and told.min() >= load.shard:
        clock[_LOCAL] = port.arrive[place]


@kernel
def _tails(load: MachineCosts, end: int, state: _TimelineProgress) -> tuple[int, float]:
    """Let adapters carry the rest of all streams, once machines know their own; return number and end.

    The rest comes shard by shard, each from the machine that owns it.
    """
    adapter, count, clock = state.adapter, state.counts, state.clock
    place, cut, whole = count[_PIECES], end, load.machines * load.shard
    while cut < whole and place < MOST:
        start, hop = max(clock[_FREE], clock[_LOCAL]), cut // load.shard
        last = min(whole, (hop + 1) * load.shard)
        adapter.start[place], adapter.hop[place] = start, hop
        adapter.low[place], adapter.high[place] = cut, last
        clock[_FREE] = start + load.adapter_alpha + load.ranks * (last - cut) * load.adapter
        adapter.arrive[place] = clock[_FREE] + load.adapter_alpha
        cut, place = last, place + 1
    if cut < whole or place == 0:
        return 0, np.inf
    return place - count[_PIECES], adapter.arrive[place - 1]


class MessagePart(NamedTuple):
    """The part of one shard that a message carries.

    `machine` and `place` give the owner: it is in the receiver's machine less `machine` modulo B, at its
    place less `place` modulo G. The units are those from `low` to `high`. The sender is `hop` machines or, if
    that is 0, `distance` places before the receiver.
    """

    start: float
    hop: int
    distance: int
    place: int
    machine: int
    low: int
    high: int


def schedule_of(problem: Problem, found: Machines, load: MachineCosts, line: MachineTimeline) -> Schedule:
    """Return the allgather in which all ranks send what the timeline says, in the step clock."""
    parts = sorted(_parts(load, line), key=lambda part: part.start)
    columns = (np.array(column)[:, None] for column in zip(*parts, strict=True))
    start, hop, distance, place_of, machine_of, low, high = columns
    boxes, ranks = found.rank.shape
    machine, place = np.indices((boxes, ranks)).reshape(2, -1)
    item = found.rank[(machine - machine_of) % boxes, (place - place_of) % ranks]
    # The routes of one way are in the order of their receivers.
    route = np.where(hop == 0, distance - 1, ranks - 2 + hop) * len(place) + np.arange(len(place))
    step = np.unique(np.hstack([start, hop > 0]), axis=0, return_inverse=True)[1].reshape(-1, 1) + 1
    return shard_schedule(problem, load.shard, ShardMoves.of(step, route, item, low, high), _routes(found))


def _parts(load: MachineCosts, line: MachineTimeline) -> Iterator[MessagePart]:
    sent, pieces, tails = line.counts
    port, adapter = line.port, line.adapter
    for m in range(sent):
        for place in np.flatnonzero(port.high[m] > port.low[m]).tolist():
            for shard in _of_shards(load.shard, port.low[m, place], port.high[m, place]):
                yield MessagePart(float(port.start[m]), 0, int(port.distance[m]), place, *shard)
    for m in range(pieces + tails):
        for shard in _of_shards(load.shard, adapter.low[m], adapter.high[m]):
            for place in range(load.ranks if m >= pieces else 1):
                yield MessagePart(float(adapter.start[m]), int(adapter.hop[m]), 0, place, *shard)


def _of_shards(shard: int, low: Any, high: Any) -> Iterator[tuple[int, int, int]]:
    """Yield a range of a stream by shards: the shard's number in the stream, and a range of it."""
    low, high = int(low), int(high)
    for number in range(low // shard, -(-high // shard)):
        yield number, max(low - number * shard, 0), min(high - number * shard, shard)


def _routes(found: Machines) -> Routes:
    """Return the routes to all ranks in turn, from 1, 2, ... places before, then from 1, 2, ... machines."""
    boxes, ranks = found.rank.shape
    machine, place = np.indices((boxes, ranks)).reshape(2, -1)
    near = found.rank[machine, (place - np.arange(1, ranks)[:, None]) % ranks]
    far = found.rank[(machine - np.arange(1, boxes)[:, None]) % boxes, place]
    pairs = [
        np.stack(np.broadcast_arrays(own[0, source], own[1, found.rank.ravel()]), axis=-1)
        for own, source in ((found.port, near), (found.adapter, far))
    ]
    flat = np.concatenate(pairs).ravel()
    return Routes(offsets_of(np.full(len(flat) // 2, 2)), flat.astype(np.int32))


class ShardMoves(NamedTuple):
    """Transfers of ranges of shards, as arrays of one length: step, route, the item, and its units."""

    step: Int64Array
    route: Int64Array
    item: Int64Array
    low: Int64Array
    high: Int64Array

    @classmethod
    def of(cls, *columns: npt.ArrayLike) -> ShardMoves:
        """Return the transfers of five arrays that broadcast against each other."""
        return cls(*(column.ravel() for column in np.broadcast_arrays(*columns)))


def shard_schedule(
    problem: Problem, shard: int, moved: ShardMoves, routes: Routes, reduce: BoolArray | None = None
) -> Schedule:
    """Return the schedule in the step clock, whose shards are cut wherever a range of them ends.

    Parameters
    ----------
    problem
        A collective of all ranks with equal shards.
    shard
        Units of a shard.
    moved, routes, reduce
        The transfers in their order, the table of routes, and which transfers add.
    """
    begin, end = moved.item * shard + moved.low, moved.item * shard + moved.high
    line = CutLine.of(problem.collective, problem.topology.num_ranks * shard, np.concatenate([begin, end]))
    chunk, count, _ = line.runs(begin, end)
    columns = chunk, moved.route, moved.step
    return problem.schedule(Clock.STEP, line.chunks, *columns, count=count, reduce=reduce, routes=routes)

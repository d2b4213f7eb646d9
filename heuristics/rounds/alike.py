"""Allgathers that are the same seen from every rank: one rank's timeline is the schedule.

Where a group of automorphisms takes each rank to every other in one way, a message is sent by all ranks at
once, each to its image, over an orbit of routes. What a rank knows is then one set, of the ranks as rank 0
sees them, a message brings what is new of it to its receiver, and a schedule is a list of routes. Taken one
after the other, each leaves as soon as its ports are free, or when its sender has learned more, and bytes
take the time that they do in the simulator. The list is searched by simulated annealing (Kirkpatrick, Gelatt,
Vecchi, doi 10.1126/science.220.4598.671): messages are exchanged, moved, replaced, told to wait or to carry
less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from heuristics.gossip.routes import MessageRoutes
from heuristics.rounds.loads import chunks_of
from schedules.collective import Collective
from schedules.schedule import Clock, Schedule, step_numbers
from topologies.exact import FloatArray, Int32Array, Int64Array, offsets_of
from topologies.graphs.free_action import free_group
from topologies.graphs.symmetry import UInt64Array, orbits_of
from topologies.kernels import kernel
from topologies.topology import Topology

MOST_RANKS = 64
"""What a rank knows is one word."""
MORE = 8
"""So many messages more than ranks are in a list; those that bring nothing new are not sent."""
MOVES_A_RANK, MOST_MOVES = 2**11, 2**15
"""Of one search."""
PRICE = 0.2
"""Of α and a shard's time on the slowest port: what a shard counts that is missing in the end. A list may at
first lose any part of that with a probability of 1 / e."""
LATE = 16
"""So many more if anything is missing: the last shard may wait for several messages."""
MOST_WAITS = 2
"""A message waits for so many arrivals at most."""


class Alike(NamedTuple):
    """Messages that all ranks send at once, as rank 0 sees them.

    Parameters
    ----------
    seen
        int64, shape (messages, ranks): which rank of the sender's view is which in the receiver's.
    offsets, port
        Those of message i go over the orbits of links port[offsets[i] : offsets[i + 1]].
    alpha, slowness
        Of each orbit of links, seconds and seconds a byte.
    """

    seen: Int64Array
    offsets: Int64Array
    port: Int64Array
    alpha: FloatArray
    slowness: FloatArray


class Timeline(NamedTuple):
    """A list of messages: which, for how many arrivals each waits, and how much it carries at most."""

    message: Int64Array
    waits: Int64Array
    most: Int64Array


class Played(NamedTuple):
    """Of each message of a list which it is, and what it brings: a bit a rank, as the receiver sees them.

    One that brings nothing is not sent.
    """

    message: Int64Array
    new: UInt64Array


class Flights(NamedTuple):
    """Room for playing: what is under way, when it arrives, and when each port is free."""

    arrival: FloatArray
    brings: UInt64Array
    free: FloatArray


class Network(NamedTuple):
    """A network of ranks all alike: its messages, their routes by class, and the group on the ranks."""

    topology: Topology
    alike: Alike
    routes: MessageRoutes
    elements: Int32Array

    @classmethod
    def of(cls, topology: Topology) -> Network | None:
        """Return it, None where ranks are not alike, or where there are over 64."""
        ranks = topology.num_ranks
        if not 2 < ranks <= MOST_RANKS or topology.multicast | topology.aggregate:
            return None
        nodes, links = free_group(topology)
        if len(nodes) < ranks:
            return None
        elements = nodes[np.argsort(nodes[:, 0]), :ranks]  # element r takes rank 0 to rank r
        back = np.argsort(elements, axis=1)
        routes = MessageRoutes.of(topology, list(links))
        orbit, port = np.unique(orbits_of(links, topology.num_links), return_inverse=True)
        first = np.flatnonzero(routes.source == 0)  # one of each class, in the order of classes
        table = routes.routes
        used = [port[table.links[slice(*table.offsets[way : way + 2])]] for way in first]
        alike = Alike(
            back[routes.target[first]].astype(np.int64),
            offsets_of([len(one) for one in used]),
            np.concatenate(used).astype(np.int64),
            topology.alpha.floats[orbit],
            1 / topology.bandwidth.floats[orbit],
        )
        return cls(topology, alike, routes, elements)

    def searched(self, size: float, rng: np.random.Generator) -> tuple[float, Played]:
        """Return the least time found in which all know all, infinite for none, and what is sent.

        Shards have so many bytes.
        """
        kinds, ranks = self.alike.seen.shape
        length = ranks + MORE
        lists = Timeline(rng.integers(kinds, size=length), np.zeros(length, np.int64), np.full(length, ranks))
        played = Played(np.zeros(length, np.int64), np.zeros(length, np.uint64))
        flights = Flights(np.zeros(length), np.zeros(length, np.uint64), np.zeros(len(self.alike.alpha)))
        price = PRICE * float(self.alike.alpha.max() + size * self.alike.slowness.max())
        heat, moves = price * (1 - rng.random()), rng.random((min(MOVES_A_RANK * ranks, MOST_MOVES), 4))
        time = _anneal(self.alike, lists, size, price, heat, moves, played, flights)
        return time, played

    def by_all(self, what: Collective, played: Played) -> Schedule:
        """Return the allgather of equal shards in which all ranks send what rank 0 does."""
        chunks = chunks_of(what)
        cut = len(chunks) // what.num_ranks
        new = np.unpackbits(played.new.view(np.uint8), bitorder="little").reshape(len(played.new), -1)
        chunk, route, order = [], [], []
        for place in np.flatnonzero(played.new):
            kind = played.message[place]
            ways = np.arange(self.routes.classes[kind], self.routes.classes[kind + 1])
            data = self.elements[self.routes.target[ways]][:, np.flatnonzero(new[place])]
            chunk.append((data[:, :, None] * cut + np.arange(cut)).ravel())
            route.append(np.repeat(ways, data.shape[1] * cut))
            order.append(np.full(data.size * cut, place))
        return Schedule(
            topology=self.topology,
            collective=what,
            clock=Clock.STEP,
            chunks=chunks,
            chunk=np.concatenate(chunk).astype(np.int32),
            route=np.concatenate(route).astype(np.int32),
            order=step_numbers(np.unique(np.concatenate(order), return_inverse=True)[1] + 1),
            routes=self.routes.routes,
        )


@kernel
def _anneal(
    alike: Alike,
    best: Timeline,
    size: float,
    price: float,
    heat: float,
    moves: FloatArray,
    played: Played,
    flights: Flights,
) -> float:
    """Change a list, a row of random numbers a move; play the fastest one, and return its time."""
    length, (kinds, ranks) = len(best.message), alike.seen.shape
    now = Timeline(best.message.copy(), best.waits.copy(), best.most.copy())
    then = Timeline(best.message.copy(), best.waits.copy(), best.most.copy())
    missing, end = _play(alike, now, size, played, flights)
    cost, least = end + price * (missing + LATE * (missing > 0)), np.inf if missing else end
    for number in range(len(moves)):
        _assign(then, now)
        which, chance = moves[number, 0], moves[number, 3]
        one, other = int(moves[number, 1] * length), int(moves[number, 2] * length)
        if which < 0.35:
            then.message[one] = int(moves[number, 2] * kinds)
        elif which < 0.42:
            then.waits[one] = int(moves[number, 2] * (MOST_WAITS + 1))
        elif which < 0.5:
            then.most[one] = 1 + min(ranks, int(moves[number, 2] * 2 * ranks))
        elif which < 0.85:
            _move(then, one, other, which < 0.7)
        else:
            _move(then, length - 1, one, False)
            then.message[one], then.waits[one], then.most[one] = int(moves[number, 2] * kinds), 0, ranks
        missing, end = _play(alike, then, size, played, flights)
        worse = end + price * (missing + LATE * (missing > 0)) - cost
        if worse <= 0 or chance < np.exp(-worse / (heat * (1 - number / len(moves)))):
            _assign(now, then)
            cost += worse
            if missing == 0 and end < least:
                least = end
                _assign(best, then)
    _play(alike, best, size, played, flights)
    return least


@kernel
def _assign(to: Timeline, what: Timeline) -> None:
    for place in range(len(to.message)):
        to.message[place] = what.message[place]
        to.waits[place] = what.waits[place]
        to.most[place] = what.most[place]


@kernel
def _move(lists: Timeline, one: int, other: int, exchanged: bool) -> None:
    """Let a message take another's place: that one takes its place, or those between move up."""
    message, waits, most = lists.message[one], lists.waits[one], lists.most[one]
    step = 1 if other > one else -1
    place = one
    while place != other:
        beside = other if exchanged else place + step
        lists.message[place], lists.waits[place] = lists.message[beside], lists.waits[beside]
        lists.most[place] = lists.most[beside]
        place = beside
    lists.message[other], lists.waits[other], lists.most[other] = message, waits, most


@kernel
def _play(alike: Alike, lists: Timeline, size: float, played: Played, flights: Flights) -> tuple[int, float]:
    """Send a list's messages until all know all; return how many shards each misses then, and when it ends.

    No message leaves before one that stands before it in the list.
    """
    flights.free.fill(0.0)
    flights.arrival.fill(np.inf)
    played.new.fill(np.uint64(0))
    known = promised = np.uint64(1)
    missing, time, end, landed = alike.seen.shape[1] - 1, 0.0, 0.0, 0
    for place in range(len(lists.message)):
        if missing == 0:
            break
        message = lists.message[place]
        start = max(time, _free(alike, message, flights))
        for _ in range(lists.waits[place]):
            start = _next(start, flights, place)
        carried = known
        for flight in range(landed, place):
            if flights.arrival[flight] <= start:
                carried |= flights.brings[flight]
        new, count = _new(alike.seen[message], carried, promised, lists.most[place])
        if count == 0:
            continue
        time, known = start, carried
        flights.arrival[place] = _sent(alike, message, start, count * size, flights)
        flights.brings[place] = new
        while flights.arrival[landed] <= start:
            landed += 1
        end = max(end, flights.arrival[place])
        promised |= new
        missing -= count
        played.message[place], played.new[place] = message, new
    return missing, end


@kernel
def _free(alike: Alike, message: int, flights: Flights) -> float:
    """Return when a message's ports are free, each at the time when it is entered."""
    start = alpha = 0.0
    for link in range(alike.offsets[message], alike.offsets[message + 1]):
        start = max(start, flights.free[alike.port[link]] - alpha)
        alpha += alike.alpha[alike.port[link]]
    return start


@kernel
def _next(time: float, flights: Flights, count: int) -> float:
    """Return when the next of the first flights arrives, if one does."""
    first = np.inf
    for flight in range(count):
        if flights.arrival[flight] > time:
            first = min(first, flights.arrival[flight])
    return time if np.isinf(first) else first


@kernel
def _new(seen: Int64Array, carried: np.uint64, promised: np.uint64, most: int) -> tuple[np.uint64, int]:
    """Return what of the carried is new to the receiver, as it sees it, at most so much; and how much."""
    one, new, count = np.uint64(1), np.uint64(0), 0
    for rank in range(len(seen)):
        bit = one << np.uint64(seen[rank])
        if carried >> np.uint64(rank) & one and promised & bit == 0 and count < most:
            new |= bit
            count += 1
    return new, count


@kernel
def _sent(alike: Alike, message: int, start: float, length: float, flights: Flights) -> float:
    """Let a message of so many bytes hold its ports; return when it arrives."""
    slowest = 0.0
    for link in range(alike.offsets[message], alike.offsets[message + 1]):
        port = alike.port[link]
        flights.free[port] = start + alike.alpha[port] + length * alike.slowness[port]
        start += alike.alpha[port]
        slowest = max(slowest, alike.slowness[port])
    return start + length * slowest

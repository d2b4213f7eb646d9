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

from tutti.heuristics.rounds.loads import chunks_of
from tutti.heuristics.rounds.routes import single_messages
from tutti.heuristics.tacos.bitsets import WORD_BITS
from tutti.schedules.collective import Collective
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule, step_numbers
from tutti.topologies.exact import BoolArray, FloatArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.free_action import free_group
from tutti.topologies.graphs.symmetry import UInt64Array, orbits_of
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology


class TransitiveTuning(NamedTuple):
    """Limits of the search for a list of messages."""

    most_ranks: int
    """Largest number of ranks. The time of a search grows with its square."""
    length: int
    """A list has a message for each rank, up to this number, and `more`."""
    more: int
    """Messages of a list beyond that. Those that bring nothing are not sent."""
    moves_a_rank: int
    """Moves of a search for each rank."""
    most_moves: int
    """Largest number of moves of a search."""
    work: int
    """Limit on moves times messages times ranks."""
    price: float
    """Cost of a missing shard, in units of α plus a shard's time on the slowest port. At first, a move that
    costs a part of it is accepted with a probability of 1 / e."""
    late: int
    """Missing shards that are added if any is missing: the last may wait for several messages."""
    most_waits: int
    """Largest number of arrivals that a message waits for before it leaves."""


TUNING = TransitiveTuning(
    most_ranks=1024,
    length=64,
    more=8,
    moves_a_rank=2**11,
    most_moves=2**15,
    work=2**31,
    price=0.2,
    late=16,
    most_waits=2,
)


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
    choice
        int64: messages, as many over each first link.
    """

    seen: Int64Array
    offsets: Int64Array
    port: Int64Array
    alpha: FloatArray
    slowness: FloatArray
    choice: Int64Array


class Timeline(NamedTuple):
    """A list of messages: which, for how many arrivals each waits, and how much it carries at most."""

    message: Int64Array
    waits: Int64Array
    most: Int64Array


class Played(NamedTuple):
    """Of each message of a list which it is, and what it brings: a bit a rank, as the receiver sees them.

    One that brings nothing is not sent.

    Parameters
    ----------
    message
        int64, shape (length,).
    new
        uint64, shape (length, words).
    """

    message: Int64Array
    new: UInt64Array

    @property
    def sent(self) -> BoolArray:
        """Shape (length,): whether it is."""
        return np.array(self.new.any(axis=1))


class Flights(NamedTuple):
    """Room for playing.

    Parameters
    ----------
    arrival, brings
        When each message of the list arrives, and with what.
    free
        When each port is.
    by, own
        int64, shape (ranks,): by which message rank 0 knows of each rank, and what that is to its sender.
    load
        int64, shape (length,): of how many ranks each message carries data.
    """

    arrival: FloatArray
    brings: UInt64Array
    free: FloatArray
    by: Int64Array
    own: Int64Array
    load: Int64Array


class VertexTransitiveNetwork(NamedTuple):
    """A network of ranks all alike: its messages, the links of those of rank 0, and the group on all."""

    topology: Topology
    alike: Alike
    ways: list[Int32Array]
    links: Int32Array
    elements: Int32Array

    @classmethod
    def of(cls, topology: Topology) -> VertexTransitiveNetwork | None:
        """Return it, None where ranks are not alike, or where there are too many.

        Messages that would pass two links alike are left out: those of all ranks could not go at once.
        """
        ranks = topology.num_ranks
        if not 2 < ranks <= TUNING.most_ranks or topology.multicast | topology.aggregate:
            return None
        nodes, links = free_group(topology)
        if len(nodes) < ranks:
            return None
        order = np.argsort(nodes[:, 0])
        elements, links = nodes[order, :ranks], links[order]  # element r takes rank 0 to rank r
        orbit = orbits_of(links, topology.num_links)
        routes = [np.array(route, np.int32) for route in single_messages(topology, 0)]
        ways = [route for route in routes if len(np.unique(orbit[route])) == len(route)]
        first, port = np.unique(orbit[np.concatenate(ways)], return_inverse=True)  # some lead to no rank
        alike = Alike(
            np.argsort(elements, axis=1)[[topology.target[way[-1]] for way in ways]].astype(np.int64),
            offsets_of([len(way) for way in ways]),
            port.astype(np.int64),
            topology.alpha.floats[first],
            1 / topology.bandwidth.floats[first],
            _evenly(np.array([orbit[way[0]] for way in ways])),
        )
        return cls(topology, alike, ways, links, elements)

    def searched(self, size: float, rng: np.random.Generator, *, each: bool = False) -> tuple[float, Played]:
        """Return the least time found in which all know all, infinite for none, and what is sent.

        Parameters
        ----------
        size
            Bytes of a shard, or of what is for one rank.
        rng
            Chooses changes.
        each
            Whether for each rank there are other data: a message carries those of all to whom it leads.
        """
        ranks = self.alike.seen.shape[1]
        length = min(ranks, TUNING.length) + TUNING.more
        words = -(-ranks // WORD_BITS)
        lists = Timeline(
            rng.choice(self.alike.choice, length), np.zeros(length, np.int64), np.full(length, ranks)
        )
        played = Played(np.zeros(length, np.int64), np.zeros((length, words), np.uint64))
        flights = Flights(
            np.zeros(length),
            np.zeros((length, words), np.uint64),
            np.zeros(len(self.alike.alpha)),
            np.zeros(ranks, np.int64),
            np.zeros(ranks, np.int64),
            np.zeros(length, np.int64),
        )
        price = TUNING.price * float(self.alike.alpha.max() + size * self.alike.slowness.max())
        count = min(TUNING.moves_a_rank * ranks, TUNING.most_moves, TUNING.work // (length * ranks))
        heat, moves = price * (1 - rng.random()), rng.random((count, 4))
        time = _anneal(self.alike, lists, size, each, price, heat, moves, played, flights)
        return time, played

    def allgather(self, what: Collective, played: Played) -> Schedule:
        """Return the allgather of equal shards in which all ranks send what rank 0 does."""
        chunks = chunks_of(what)
        cut = len(chunks) // what.num_ranks
        sent = [
            (self.elements[:, self._carried(played, place)][..., None] * cut + np.arange(cut))
            for place in np.flatnonzero(played.sent).tolist()
        ]
        return self._by_all(what, chunks, played, sent)

    def all_to_all(self, what: Collective, played: Played) -> Schedule:
        """Return the all-to-all of equal shares in which all ranks send what rank 0 does."""
        ranks, chunks = what.num_ranks, chunks_of(what)
        item = np.zeros((ranks, ranks), np.int64)
        item[what.items.start, what.items.end] = np.arange(len(what.items))
        cut, places = len(chunks) // len(what.items), np.flatnonzero(played.sent).tolist()
        # By whom each rank is known to rank 0, as both see it; the way of each begins at itself.
        taken: dict[int, list[tuple[int, int]]] = {0: []}
        passed: dict[int, list[tuple[int, int]]] = {place: [] for place in places}
        for place in places:
            for own in self._carried(played, place).tolist():
                seen = int(self.alike.seen[played.message[place], own])
                taken[seen] = [*taken[own], (place, own)]
                for by, sender in taken[seen]:
                    passed[by].append((seen, sender))
        back = np.argsort(self.elements, axis=1)[:, 0]
        sent = []
        for place in places:
            seen, own = np.array(passed[place]).T
            source = self.elements[:, own]
            target = self.elements[source, back[seen]]
            sent.append(item[source, target][..., None] * cut + np.arange(cut))
        return self._by_all(what, chunks, played, sent)

    def _carried(self, played: Played, place: int) -> Int64Array:
        """Return what a message brings, as its sender sees it."""
        bits = np.unpackbits(played.new[place].view(np.uint8), bitorder="little")
        return np.flatnonzero(bits[self.alike.seen[played.message[place]]])

    def _by_all(self, what: Collective, chunks: Chunks, played: Played, sent: list[Int64Array]) -> Schedule:
        """Return the schedule of messages with these chunks by sender, each a step after the one before."""
        kinds = [self.ways[kind] for kind in played.message[played.sent]]
        count = np.repeat([one[0].size for one in sent], len(self.elements))
        return Schedule(
            topology=self.topology,
            collective=what,
            clock=Clock.STEP,
            chunks=chunks,
            chunk=np.concatenate([one.ravel() for one in sent]).astype(np.int32),
            route=np.repeat(np.arange(len(count), dtype=np.int32), count),
            order=step_numbers(np.repeat(np.repeat(np.arange(len(sent)) + 1, len(self.elements)), count)),
            routes=Routes.of([tuple(route) for way in kinds for route in self.links[:, way].tolist()]),
        )


def _evenly(port: Int64Array) -> Int64Array:
    """Return numbers of messages, those of each port equally often, or nearly."""
    ports, count = np.unique(port, return_counts=True)
    return np.concatenate([np.resize(np.flatnonzero(port == one), count.max()) for one in ports])


@kernel
def _anneal(
    alike: Alike,
    best: Timeline,
    size: float,
    each: bool,
    price: float,
    heat: float,
    moves: FloatArray,
    played: Played,
    flights: Flights,
) -> float:
    """Change a list, a row of random numbers a move; play the fastest one, and return its time."""
    length, kinds, ranks = len(best.message), len(alike.choice), alike.seen.shape[1]
    now = Timeline(best.message.copy(), best.waits.copy(), best.most.copy())
    then = Timeline(best.message.copy(), best.waits.copy(), best.most.copy())
    missing, end = _play(alike, now, size, each, played, flights)
    cost, least = end + price * (missing + TUNING.late * (missing > 0)), np.inf if missing else end
    for number in range(len(moves)):
        _assign(then, now)
        which, chance = moves[number, 0], moves[number, 3]
        one, other = int(moves[number, 1] * length), int(moves[number, 2] * length)
        if which < 0.35:
            then.message[one] = alike.choice[int(moves[number, 2] * kinds)]
        elif which < 0.42:
            then.waits[one] = int(moves[number, 2] * (TUNING.most_waits + 1))
        elif which < 0.5:
            then.most[one] = 1 + min(ranks, int(moves[number, 2] * 2 * ranks))
        elif which < 0.85:
            _move(then, one, other, which < 0.7)
        else:
            _move(then, length - 1, one, False)
            then.message[one] = alike.choice[int(moves[number, 2] * kinds)]
            then.waits[one], then.most[one] = 0, ranks
        missing, end = _play(alike, then, size, each, played, flights)
        worse = end + price * (missing + TUNING.late * (missing > 0)) - cost
        if worse <= 0 or chance < np.exp(-worse / (heat * (1 - number / len(moves)))):
            _assign(now, then)
            cost += worse
            if missing == 0 and end < least:
                least = end
                _assign(best, then)
    _play(alike, best, size, each, played, flights)
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
def _play(
    alike: Alike, lists: Timeline, size: float, each: bool, played: Played, flights: Flights
) -> tuple[int, float]:
    """Send a list's messages until all know all; return how many shards each misses then, and when it ends.

    No message leaves before one that stands before it in the list.
    """
    words = flights.brings.shape[1]
    flights.free.fill(0.0)
    flights.arrival.fill(np.inf)
    played.new.fill(np.uint64(0))
    known, promised, carried = np.zeros((3, words), np.uint64)
    known[0] = promised[0] = np.uint64(1)
    missing, time, end, landed = alike.seen.shape[1] - 1, 0.0, 0.0, 0
    for place in range(len(lists.message)):
        if missing == 0:
            break
        message = lists.message[place]
        start = max(time, _free(alike, message, flights))
        for _ in range(lists.waits[place]):
            start = _next(start, flights, place)
        carried[:] = known
        for flight in range(landed, place):
            if flights.arrival[flight] <= start:
                carried |= flights.brings[flight]
        brings = flights.brings[place]
        count = _new(alike.seen[message], carried, promised, lists.most[place], brings, place, flights)
        if count == 0:
            continue
        time = start
        known[:] = carried
        flights.arrival[place] = _sent(alike, message, start, count * size, flights)
        while flights.arrival[landed] <= start:
            landed += 1
        end = max(end, flights.arrival[place])
        promised |= brings
        missing -= count
        played.message[place] = message
        played.new[place] = brings
    return missing, _passed_on(alike, size, played, flights) if each and missing == 0 else end


@kernel
def _passed_on(alike: Alike, size: float, played: Played, flights: Flights) -> float:
    """Return when the last data arrive if a message carries those of all to whom it leads."""
    flights.free.fill(0.0)
    flights.load.fill(0)
    for rank in range(1, len(flights.by)):
        known = rank
        while known != 0:
            flights.load[flights.by[known]] += 1
            known = flights.own[known]
    end = 0.0
    for place in range(len(flights.load)):
        if flights.load[place] == 0:
            continue
        message = played.message[place]
        start = _free(alike, message, flights)
        for rank in range(1, len(flights.by)):
            if flights.by[rank] == place and flights.own[rank] != 0:
                start = max(start, flights.arrival[flights.by[flights.own[rank]]])
        flights.arrival[place] = _sent(alike, message, start, flights.load[place] * size, flights)
        end = max(end, flights.arrival[place])
    return end


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
def _new(
    seen: Int64Array,
    carried: UInt64Array,
    promised: UInt64Array,
    most: int,
    brings: UInt64Array,
    place: int,
    flights: Flights,
) -> int:
    """Write what of the carried is new to the receiver, as it sees it, at most so much; return how much."""
    one, count = np.uint64(1), 0
    brings.fill(np.uint64(0))
    for rank in range(len(seen)):
        if carried[rank // WORD_BITS] >> np.uint64(rank % WORD_BITS) & one:
            word, bit = seen[rank] // WORD_BITS, one << np.uint64(seen[rank] % WORD_BITS)
            if promised[word] & bit == 0 and count < most:
                brings[word] |= bit
                flights.by[seen[rank]], flights.own[seen[rank]] = place, rank
                count += 1
    return count


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

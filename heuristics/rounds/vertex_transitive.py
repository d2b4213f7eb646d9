"""Schedules that are the same seen from every rank: one rank's timeline is the schedule.

Let a group of automorphisms take each rank to every other by exactly one element. Then a message is sent by
all ranks in parallel, each to its image, over an orbit of routes. What a rank knows is then one set, of the
ranks as rank 0 sees them, a message brings its receiver the new part of it, and a schedule is a list of
routes. Messages are taken one after the other. Each leaves as soon as its ports are free, or when its sender
has learned more, and bytes take the time that they do in the simulator. The list is searched by simulated
annealing (Kirkpatrick, Gelatt, Vecchi, doi 10.1126/science.220.4598.671): messages are exchanged, moved and
replaced, wait for more arrivals, or carry less.

In an allreduce each rank sends the sum that it has, of some ranks as it sees them, and adds what comes. All
ranks send the sum that they have at a moment to ranks equally far away, which add it if the two sums have no
rank in common. So α decides the time, as in the postal model (Bar-Noy, Kipnis, Schieber: Optimal computation
of census functions in the postal model, Discrete Applied Mathematics 1995). A sum grows from one subgroup of
the ranks to a larger one. The search is among the few cosets of one in the other: how soon is this possible?
The best chain of subgroups is a shortest path.
"""

from __future__ import annotations

import heapq
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.heuristics.rounds.loads import chunks_of
from tutti.heuristics.rounds.slots import single_messages
from tutti.heuristics.tacos.bitsets import WORD_BITS, bit, first_element
from tutti.schedules.collective import Collective
from tutti.schedules.message_durations import tick_of
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule
from tutti.topologies.exact import BoolArray, FloatArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.free_action import free_group
from tutti.topologies.graphs.symmetry import UInt64Array, orbits_of
from tutti.topologies.kernels import assign, inlined, kernel, leaf, now
from tutti.topologies.topology import Topology


class Chances(NamedTuple):
    """Probabilities of the changes of a list, each added to those before it. The rest is a new message."""

    message: float
    """Probability that one message is replaced."""
    waits: float
    """Probability of this, or that a message waits for another number of arrivals."""
    most: float
    """Probability of these, or that the most shards which a message carries change."""
    exchanged: float
    """Probability of these, or that two messages are exchanged."""
    moved: float
    """Probability of these, or that a message is moved to another place."""


class TransitiveTuning(NamedTuple):
    """Parameters of the search for a list of messages."""

    most_ranks: int
    """Largest number of ranks. The time of a search grows with its square."""
    length: int
    """Largest number of messages of a list, without `more`. Networks of fewer ranks have one for each
    rank."""
    more: int
    """Number of additional messages of a list. Messages that bring nothing are not sent."""
    moves_a_rank: int
    """Number of moves of a search for each rank."""
    most_moves: int
    """Largest number of moves of a search."""
    work: int
    """Largest number of moves times messages times ranks of a search. A larger value searches longer."""
    price: float
    """Cost of a missing shard, in units of α plus a shard's time on the slowest port. At first, a move that
    costs a part of it is accepted with a probability of 1 / e."""
    late: int
    """Number that is added to the missing shards if there are any, as the last may wait for several
    messages."""
    most_waits: int
    """Largest number of arrivals that a message waits for before it leaves."""
    chances: Chances
    """Probabilities of changes."""


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
    chances=Chances(message=0.35, waits=0.42, most=0.5, exchanged=0.7, moved=0.85),
)

NEVER = 2**62
"""Arrival time of a message that is not sent, in seconds or ticks."""

Times = npt.NDArray[np.float64 | np.int64]
"""Seconds, or ticks."""


class Alike(NamedTuple):
    """Messages that all ranks send at the same time, as rank 0 sees them.

    Parameters
    ----------
    seen
        int64, shape (messages, ranks): for each rank of the sender's view its number in the receiver's.
    offsets, port
        The orbits of links of message i are port[offsets[i] : offsets[i + 1]].
    alpha, slowness
        For each orbit of links: α, and the time of a unit of data.
    choice
        int64: numbers of messages to choose from, equally many over each first link.
    """

    seen: Int64Array
    offsets: Int64Array
    port: Int64Array
    alpha: Times
    slowness: Times
    choice: Int64Array


class TimelineSearch(NamedTuple):
    """The problem for which a list of messages is searched, and parameters of the search.

    Parameters
    ----------
    size
        Data of a rank, or of a whole sum if messages are sums.
    each
        Whether each rank needs different data: a message carries the data of all ranks to which it leads.
    adds
        Whether a message is its sender's sum. The receiver adds it if the two sums have no rank in common.
    price
        Cost of a missing shard, or of each doubling that a sum lacks.
    heat
        Loss that is accepted at first with probability 1 / e.
    chances
        Probabilities of changes.
    """

    size: float
    each: bool
    adds: bool
    price: float
    heat: float
    chances: Chances


class Played(NamedTuple):
    """The result of playing a list of messages. A message that brings nothing is not sent.

    Parameters
    ----------
    message
        int64, shape (length,): the number of each message.
    new
        uint64, shape (length, words): the data that it brings, a bit a rank as the receiver sees them.
    known
        uint64, shape (3, words): what rank 0 knows, what it will know, and what a message carries.
    start, arrival
        Shape (length,): when it leaves, and when it arrives.
    free
        When each port is free.
    by, own
        int64, shape (ranks,): the message that brought rank 0 the data of each rank, and that rank's number
        in the view of the message's sender.
    load
        int64, shape (length,): the number of ranks whose data each message carries.
    """

    message: Int64Array
    new: UInt64Array
    known: UInt64Array
    start: Times
    arrival: Times
    free: Times
    by: Int64Array
    own: Int64Array
    load: Int64Array

    @property
    def sent(self) -> BoolArray:
        """Shape (length,): whether each message is sent."""
        return np.array(self.new.any(axis=1))


class VertexTransitiveNetwork(NamedTuple):
    """A network of equivalent ranks: its messages, the links of those of rank 0, and the group on all."""

    topology: Topology
    alike: Alike
    routes: list[Int32Array]
    links: Int32Array
    elements: Int32Array

    @classmethod
    def of(cls, topology: Topology) -> VertexTransitiveNetwork | None:
        """Return the network; None if its ranks are not equivalent, or are too many.

        Messages that would pass two links of one orbit are left out: those of all ranks would collide.
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
        every = [np.array(route, np.int32) for route in single_messages(topology, 0)]
        routes = [route for route in every if len(np.unique(orbit[route])) == len(route)]
        first, port = np.unique(orbit[np.concatenate(routes)], return_inverse=True)  # some lead to no rank
        alike = Alike(
            np.argsort(elements, axis=1)[[topology.target[route[-1]] for route in routes]].astype(np.int64),
            offsets_of([len(route) for route in routes]),
            port.astype(np.int64),
            topology.alpha.floats[first],
            1 / topology.bandwidth.floats[first],
            _evenly(np.array([orbit[route[0]] for route in routes])),
        )
        return cls(topology, alike, routes, links, elements)

    def searched(self, size: float, rng: np.random.Generator, *, each: bool = False) -> tuple[float, Played]:
        """Return the least time found in which all ranks have all data, or infinity, and the messages.

        Parameters
        ----------
        size
            Bytes of a shard, or of what is for one rank.
        rng
            Chooses changes.
        each
            Whether each rank needs different data: a message carries the data of all ranks to which it leads.
        """
        ranks = self.alike.seen.shape[1]
        length = min(ranks, TUNING.length) + TUNING.more
        message = rng.choice(self.alike.choice, length)
        price = TUNING.price * float(self.alike.alpha.max() + size * self.alike.slowness.max())
        count = min(TUNING.moves_a_rank * ranks, TUNING.most_moves, TUNING.work // (length * ranks))
        how = TimelineSearch(size, each, False, price, price * (1 - rng.random()), TUNING.chances)
        missing, time, played = annealed(self.alike, message, how, rng.random((count, 4)))
        return np.inf if missing else time, played

    def allgather(self, what: Collective, played: Played) -> Schedule:
        """Return the allgather of equal shards in which all ranks send like rank 0."""
        chunks = chunks_of(what)
        cut = len(chunks) // what.num_ranks
        sent = [
            (self.elements[:, self._carried(played, place)][..., None] * cut + np.arange(cut))
            for place in np.flatnonzero(played.sent).tolist()
        ]
        return self._by_all(what, chunks, played, sent)

    def all_to_all(self, what: Collective, played: Played) -> Schedule:
        """Return the all-to-all of equal shares in which all ranks send like rank 0."""
        ranks, chunks = what.num_ranks, chunks_of(what)
        item = np.zeros((ranks, ranks), np.int64)
        item[what.items.start, what.items.end] = np.arange(len(what.items))
        cut, places = len(chunks) // len(what.items), np.flatnonzero(played.sent).tolist()
        # The ranks by which each rank's data came to rank 0, as both see them; each path begins at itself.
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
        """Return the data that a message brings, as its sender sees it."""
        bits = np.unpackbits(played.new[place].view(np.uint8), bitorder="little")
        return np.flatnonzero(bits[self.alike.seen[played.message[place]]])

    def _by_all(self, what: Collective, chunks: Chunks, played: Played, sent: list[Int64Array]) -> Schedule:
        """Return the schedule of messages with these chunks by sender, each a step after the one before."""
        kinds = [self.routes[kind] for kind in played.message[played.sent]]
        count = np.repeat([one[0].size for one in sent], len(self.elements))
        return Problem(self.topology, what).schedule(
            Clock.STEP,
            chunks,
            np.concatenate([one.ravel() for one in sent]),
            np.repeat(np.arange(len(count)), count),
            np.repeat(np.repeat(np.arange(len(sent)) + 1, len(self.elements)), count),
            routes=Routes.of([tuple(route) for one in kinds for route in self.links[:, one].tolist()]),
        )


def _evenly(port: Int64Array) -> Int64Array:
    """Return numbers of messages with each port equally often, or nearly."""
    ports, count = np.unique(port, return_counts=True)
    return np.concatenate([np.resize(np.flatnonzero(port == one), count.max()) for one in ports])


def annealed(
    alike: Alike, message: Int64Array, how: TimelineSearch, moves: FloatArray
) -> tuple[int, float, Played]:
    """Return the loss of the best list found at its end, its end, and its messages.

    Parameters
    ----------
    alike
        The possible messages.
    message
        int64: a list from which to begin.
    how
        The problem and parameters of the search.
    moves
        float64, shape (moves, 4): random numbers.
    """
    ranks, length = alike.seen.shape[1], len(message)
    lists = np.stack([message, np.zeros_like(message), np.full_like(message, ranks)])
    sets = [np.zeros((rows, -(-ranks // WORD_BITS)), np.uint64) for rows in (length, 3)]
    times = [np.zeros_like(alike.alpha, shape=shape) for shape in (length, length, len(alike.alpha))]
    places = [np.zeros(shape, np.int64) for shape in (ranks, ranks, length)]
    played = Played(lists[0], *sets, *times, *places)
    return *_anneal(alike, lists, how, moves, played), played


@kernel
def _anneal(
    alike: Alike, best: Int64Array, how: TimelineSearch, moves: FloatArray, played: Played
) -> tuple[int, float]:
    """Change a list with each row of random numbers; play the fastest list and return what `_play` returns.

    The rows of a list are its messages, the arrivals for which each waits, and the most that it carries.
    """
    now, then, ranks = best.copy(), best.copy(), alike.seen.shape[1]
    missing, end = _play(alike, now, how, played)
    cost, least = end + how.price * _lacking(missing, ranks, how.adds), NEVER if missing > 0 else end
    for number in range(len(moves)):
        assign(then.ravel(), now.ravel())
        _change(alike, how.chances, moves[number], then)
        missing, end = _play(alike, then, how, played)
        worse = end + how.price * _lacking(missing, ranks, how.adds) - cost
        if worse <= 0 or moves[number, 3] < np.exp(-worse / (how.heat * (1 - number / len(moves)))):
            now, then = then, now
            cost += worse
            if missing == 0 and end < least:
                least = end
                assign(best.ravel(), now.ravel())
    return _play(alike, best, how, played)


@leaf
def _lacking(missing: int, ranks: int, adds: bool) -> float:
    """Return the number of missing shards plus `TUNING.late`, or of missing doublings of a sum."""
    return np.log2(ranks / (ranks - missing)) if adds else float(missing + TUNING.late * (missing > 0))


@leaf
def _change(alike: Alike, chances: Chances, move: FloatArray, lists: Int64Array) -> None:
    """Change a list by a row of random numbers."""
    length, ranks, which = lists.shape[1], alike.seen.shape[1], move[0]
    one, other = int(move[1] * length), int(move[2] * length)
    message = alike.choice[int(move[2] * len(alike.choice))]
    if which < chances.message:
        lists[0, one] = message
    elif which < chances.waits:
        lists[1, one] = int(move[2] * (TUNING.most_waits + 1))
    elif which < chances.most:
        lists[2, one] = 1 + min(ranks, int(move[2] * 2 * ranks))
    elif which < chances.moved:
        _move(lists, one, other, which < chances.exchanged)
    else:
        _move(lists, length - 1, one, False)
        lists[0, one], lists[1, one], lists[2, one] = message, 0, ranks


@leaf
def _move(lists: Int64Array, one: int, other: int, exchanged: bool) -> None:
    """Move a message to another's place; the other takes its place, or those between move up."""
    step = 1 if other > one else -1
    for row in lists:
        place, moved = one, row[one]
        while place != other:
            beside = other if exchanged else place + step
            row[place] = row[beside]
            place = beside
        row[other] = moved


@leaf
def _play(alike: Alike, lists: Int64Array, how: TimelineSearch, played: Played) -> tuple[int, float]:
    """Send a list's messages until all know all; return the shards that a rank then lacks, and the end.

    No message leaves before one that precedes it in the list.
    """
    played.free.fill(0)
    played.arrival.fill(NEVER)
    played.new.fill(np.uint64(0))
    played.known.fill(np.uint64(0))
    played.known[:2, 0] = np.uint64(1)
    missing, end, landed = alike.seen.shape[1] - 1, 0, 0
    time: float = 0
    for place in range(lists.shape[1]):
        if missing == 0:
            break
        message = lists[0, place]
        start = max(time, _free(alike, message, played.free))
        for _ in range(lists[1, place]):
            start = _next(start, played.arrival[:place])
        for word in range(played.known.shape[1]):
            carried = played.known[0, word]
            for flight in range(landed, place):
                if played.arrival[flight] <= start:
                    carried |= played.new[flight, word]
            played.known[2, word] = carried
        count = _new(alike.seen[message], lists[2, place], how.adds, place, played)
        if count == 0:
            continue
        time = start
        length = how.size if how.adds else count * how.size
        played.arrival[place] = _sent(alike, message, start, length, played.free)
        while landed < place and played.arrival[landed] <= start:
            landed += 1
        end = max(end, played.arrival[place])
        for word in range(played.known.shape[1]):
            played.known[0, word] = played.known[2, word]
            played.known[1, word] |= played.new[place, word]
        missing -= count
        played.start[place] = start
    return missing, _passed_on(alike, lists[0], how.size, played) if how.each and missing == 0 else end


@leaf
def _passed_on(alike: Alike, messages: Int64Array, size: float, played: Played) -> float:
    """Return when the last data arrives if a message carries that of all ranks to which it leads."""
    played.free.fill(0)
    played.load.fill(0)
    for rank in range(1, len(played.by)):
        known = rank
        while known != 0:
            played.load[played.by[known]] += 1
            known = played.own[known]
    end = 0
    for place in range(len(played.load)):
        if played.load[place] == 0:
            continue
        message = messages[place]
        start = _free(alike, message, played.free)
        for rank in range(1, len(played.by)):
            if played.by[rank] == place and played.own[rank] != 0:
                start = max(start, played.arrival[played.by[played.own[rank]]])
        played.start[place] = start
        played.arrival[place] = _sent(alike, message, start, played.load[place] * size, played.free)
        end = max(end, played.arrival[place])
    return end


@inlined
def _free(alike: Alike, message: int, free: Times) -> float:
    """Return when a message's ports are free, each at the time when it is entered."""
    start = alpha = 0
    for link in range(alike.offsets[message], alike.offsets[message + 1]):
        start = max(start, free[alike.port[link]] - alpha)
        alpha += alike.alpha[alike.port[link]]
    return start


@inlined
def _next(time: float, arrival: Times) -> float:
    """Return when the next message arrives, if one does."""
    first = NEVER
    for one in arrival:
        if one > time:
            first = min(first, one)
    return time if first == NEVER else first


@inlined
def _new(seen: Int64Array, most: int, adds: bool, place: int, played: Played) -> int:
    """Write what is new of the carried to the receiver, as it sees it, `most` at most; return the number.

    A sum is new as a whole, or not at all.
    """
    count = 0
    for word in range(played.known.shape[1]):
        left = played.known[2, word]
        while left != 0 and count < most:
            own = word * WORD_BITS + first_element(left)
            left &= left - np.uint64(1)
            rank = seen[own]
            if played.known[1, rank // WORD_BITS] & bit(rank) == 0:
                played.new[place, rank // WORD_BITS] |= bit(rank)
                played.by[rank], played.own[rank] = place, own
                count += 1
            elif adds:
                played.new[place] = np.uint64(0)
                return 0
    return count


@inlined
def _sent(alike: Alike, message: int, start: float, length: float, free: Times) -> float:
    """Let a message of `length` bytes hold its ports; return when it arrives."""
    slowest = 0
    for link in range(alike.offsets[message], alike.offsets[message + 1]):
        port = alike.port[link]
        free[port] = start + alike.alpha[port] + length * alike.slowness[port]
        start += alike.alpha[port]
        slowest = max(slowest, alike.slowness[port])
    return start + length * slowest


class PartialSumTuning(NamedTuple):
    """Limits of the search for sums."""

    most_subgroups: int
    """Largest number of subgroups through which a sum may grow."""
    most_cosets: int
    """Largest number of cosets of a subgroup in the next. Of up to 16, nearly all fastest sums are found."""
    moves: int
    """Number of moves of a search for each coset."""
    searches: int
    """Number of searches. The best result is kept."""
    more: int
    """Number of messages of a list beyond half the number of cosets."""
    price: float
    """Cost of each doubling of the sum that is missing in the end, in units of a message's time."""
    heat: float
    """A move that costs this fraction of `price` is accepted at first with probability 1 / e."""
    chances: Chances
    """Probabilities of changes. Messages are whole sums, so `most` adds nothing."""
    most_transfers: int
    """Largest number of transfers of a schedule."""


SUMS = PartialSumTuning(
    most_subgroups=64,
    most_cosets=16,
    moves=2**8,
    searches=3,
    more=4,
    price=1.0,
    heat=0.2,
    chances=Chances(message=0.5, waits=0.65, most=0.65, exchanged=0.8, moved=0.8),
    most_transfers=2**25,
)


class Sent(NamedTuple):
    """Messages: when each is sent, in ticks, which it is, and when the last arrives."""

    start: tuple[int, ...]
    kind: tuple[int, ...]
    end: int


def allreduce(
    network: VertexTransitiveNetwork, problem: Problem, until: float, rng: np.random.Generator
) -> Schedule | None:
    """Return the fastest allreduce that is found, in the time clock; None if none is found by then."""
    topology, alike, size = problem.topology, network.alike, problem.size or Fraction(1)
    tick = tick_of(topology, [size], topology.num_ranks**2)
    first = np.unique(alike.port, return_index=True)[1]
    link = np.concatenate(network.routes)[first].tolist()
    alpha = np.array([-(-topology.alpha[one] // tick) for one in link], np.int64)
    slowness = np.array([-(-size / topology.bandwidth[one] // tick) for one in link], np.int64)
    sent = _chain(alike._replace(alpha=alpha, slowness=slowness), network.elements, until, rng)
    if sent is None or len(sent.kind) * topology.num_ranks**2 > SUMS.most_transfers:
        return None
    ranks, chunks = topology.num_ranks, Chunks.even(problem.collective, 1)
    count = len(sent.kind) * ranks
    links = [network.links[:, network.routes[kind]].tolist() for kind in sent.kind]
    return problem.schedule(
        Clock.TIME,
        chunks,
        np.tile(np.arange(len(chunks)), count),
        np.repeat(np.arange(count), len(chunks)),
        np.repeat(np.array(sent.start), ranks * len(chunks)),
        reduce=np.ones(count * len(chunks), np.bool_),
        tick=tick,
        size=size,
        routes=Routes.of([tuple(route) for routes in links for route in routes]),
    )


def _chain(ticks: Alike, elements: Int32Array, until: float, rng: np.random.Generator) -> Sent | None:
    """Return the messages from a sum of one rank to that of all, one subgroup after the other."""
    found = _subgroups(elements)
    best: dict[int, Sent] = {}
    heap = [(0, 0, Sent((), (), 0))]
    known: dict[tuple[bytes, bytes, bytes], Sent | None] = {}
    while heap and now() <= until:
        _, place, sent = heapq.heappop(heap)
        if place in best:
            continue
        best[place] = sent
        if found[place].all():
            return sent
        for other, larger in enumerate(found):
            times_larger = int(larger.sum()) / int(found[place].sum())
            if (
                other in best
                or not 1 < times_larger <= SUMS.most_cosets
                or not (larger >= found[place]).all()
            ):
                continue
            growth, own = _growth(ticks, elements, found[place], larger)
            key = growth.seen.tobytes(), growth.port.tobytes(), growth.offsets.tobytes()
            if key not in known:
                known[key] = _searched(growth, rng)
            more = known[key]
            if more is not None:
                start = (*sent.start, *(sent.end + one for one in more.start))
                kind = (*sent.kind, *own[list(more.kind)].tolist())
                both = Sent(start, kind, sent.end + more.end)
                heapq.heappush(heap, (both.end, other, both))
    return None


def _subgroups(elements: Int32Array) -> list[BoolArray]:
    """Return subgroups of ranks, the smallest first: cyclic ones, and joins of these."""
    ranks = len(elements)
    found = dict[bytes, BoolArray]()

    def add(members: BoolArray) -> None:
        while True:
            own = np.flatnonzero(members)
            more = np.zeros(ranks, np.bool_)
            more[elements[np.ix_(own, own)].ravel()] = True
            if (more == members).all():
                break
            members = more
        found.setdefault(members.tobytes(), members)

    for rank in range(ranks):
        add(np.isin(np.arange(ranks), [0, rank]))
        if len(found) == SUMS.most_subgroups:
            break
    cyclic = list(found.values())
    for first in cyclic:
        for second in cyclic:
            if len(found) < 2 * SUMS.most_subgroups:
                add(first | second)
    add(np.ones(ranks, np.bool_))
    return sorted(found.values(), key=lambda group: int(group.sum()))


def _growth(
    alike: Alike, elements: Int32Array, smaller: BoolArray, larger: BoolArray
) -> tuple[Alike, Int64Array]:
    """Return the messages by which a sum grows from a subgroup to a larger one, and their numbers.

    Of those with the same ports and cosets there is one. They have a coset for each rank.
    """
    coset = elements[:, smaller].min(axis=1)
    first = np.unique(coset[larger])
    number = np.searchsorted(first, coset)
    kind = np.flatnonzero((larger & ~smaller)[np.argmin(alike.seen, axis=1)])
    seen = number[alike.seen[np.ix_(kind, first)]]
    alone: dict[tuple[bytes, bytes], int] = {}
    over = [alike.port[slice(*alike.offsets[own : own + 2])] for own in kind.tolist()]
    for place, ports in enumerate(over):
        alone.setdefault((ports.tobytes(), seen[place].tobytes()), place)
    kept = list(alone.values())
    used = [over[place] for place in kept]
    port = np.concatenate([alike.port[:0], *used])
    offsets, choice = offsets_of([len(ports) for ports in used]), np.arange(len(kept))
    return alike._replace(seen=seen[kept], offsets=offsets, port=port, choice=choice), kind[kept]


def _searched(growth: Alike, rng: np.random.Generator) -> Sent | None:
    """Return the fastest messages found by which a sum is that of all cosets; None if there are none."""
    kinds, cosets = growth.seen.shape
    price = SUMS.price * float(growth.alpha.max() + (growth.alpha + growth.slowness).max())
    how = TimelineSearch(1, False, True, price, price * SUMS.heat, SUMS.chances)
    found = []
    for _ in range(SUMS.searches if kinds else 0):
        message = rng.choice(growth.choice, cosets // 2 + SUMS.more)
        missing, end, played = annealed(growth, message, how, rng.random((SUMS.moves * cosets, 4)))
        start, kind = played.start[played.sent].tolist(), played.message[played.sent].tolist()
        found += [] if missing else [Sent(tuple(start), tuple(kind), int(end))]
    return min(found, key=lambda sent: sent.end, default=None)

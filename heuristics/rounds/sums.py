"""Allreduces that are the same seen from every rank: each sends the sum that it has, and adds what comes.

As in `heuristics.rounds.alike` one rank's timeline is the schedule. A rank's sum is of some ranks, as it sees
them. All send the sum that they have at a moment to ranks equally far away, which add it if they have nothing
of it; so α is what it takes, as in the postal model (Bar-Noy, Kipnis, Schieber: Optimal computation of
census functions in the postal model, Discrete Applied Mathematics 1995). A sum grows from one subgroup of the
ranks to a larger one: how soon is searched by simulated annealing among the few cosets of one in the other,
and the best chain of subgroups is a shortest path.
"""

from __future__ import annotations

import heapq
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.heuristics.rounds.alike import TUNING as ALIKE
from tutti.heuristics.rounds.alike import Alike, VertexTransitiveNetwork
from tutti.schedules.message_durations import tick_of
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule
from tutti.topologies.exact import BoolArray, FloatArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.symmetry import UInt64Array
from tutti.topologies.kernels import kernel, now


class PartialSumTuning(NamedTuple):
    """Limits of the search for sums."""

    most_subgroups: int
    """Largest number of subgroups through which a sum may grow."""
    most_cosets: int
    """Largest number of cosets of a subgroup in the next. Of up to 16, nearly all fastest sums are found."""
    moves: int
    """Moves of a search for each coset."""
    searches: int
    """Number of searches. The best result is kept."""
    more: int
    """Messages of a list beyond half the number of cosets."""
    price: float
    """Cost of each doubling of the sum that is missing in the end, in units of a message's time."""
    heat: float
    """Part of `price` that a move may lose at first, with a probability of 1 / e."""
    most_transfers: int
    """Largest number of transfers of a schedule."""


TUNING = PartialSumTuning(
    most_subgroups=64,
    most_cosets=16,
    moves=2**8,
    searches=3,
    more=4,
    price=1.0,
    heat=0.2,
    most_transfers=2**25,
)

NEVER = 2**62
"""When a sum arrives that is not sent, in ticks."""


class Sent(NamedTuple):
    """When messages are sent, in ticks, which, and when the last arrives."""

    start: tuple[int, ...]
    kind: tuple[int, ...]
    end: int


class SumGrowth(NamedTuple):
    """How a sum may grow from a subgroup to a larger one.

    Parameters
    ----------
    kind
        int64: messages, one of those with the same ports and cosets.
    seen
        int64, shape (messages, cosets): which coset of the sender's view is which in the receiver's.
    offsets, port
        Those of message i go over the orbits of links port[offsets[i] : offsets[i + 1]].
    """

    kind: Int64Array
    seen: Int64Array
    offsets: Int64Array
    port: Int64Array

    @classmethod
    def of(cls, alike: Alike, elements: Int32Array, smaller: BoolArray, larger: BoolArray) -> SumGrowth:
        """Return it."""
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
        ways = [over[place] for place in kept]
        port = np.concatenate([alike.port[:0], *ways])
        return cls(kind[kept], seen[kept], offsets_of([len(way) for way in ways]), port)


class OrbitTimes(NamedTuple):
    """Of each orbit of links, int64 in ticks: α, and for how long the vector holds it."""

    alpha: Int64Array
    held: Int64Array


def allreduce(
    network: VertexTransitiveNetwork, problem: Problem, until: float, rng: np.random.Generator
) -> Schedule | None:
    """Return the fastest allreduce that is found, in the time clock; None where there is none until then."""
    topology, alike, size = problem.topology, network.alike, problem.size or Fraction(1)
    tick = tick_of(topology, [size], topology.num_ranks**2)
    first = np.unique(alike.port, return_index=True)[1]
    link = np.concatenate(network.ways)[first].tolist()
    alpha = np.array([-(-topology.alpha[one] // tick) for one in link], np.int64)
    held = alpha + np.array([-(-size / topology.bandwidth[one] // tick) for one in link], np.int64)
    sent = _chain(network, OrbitTimes(alpha, held), until, rng)
    if sent is None or len(sent.kind) * topology.num_ranks**2 > TUNING.most_transfers:
        return None
    ranks, chunks = topology.num_ranks, Chunks.even(problem.collective, 1)
    count = len(sent.kind) * ranks
    return Schedule(
        topology=topology,
        collective=problem.collective,
        clock=Clock.TIME,
        chunks=chunks,
        chunk=np.tile(np.arange(len(chunks), dtype=np.int32), count),
        route=np.repeat(np.arange(count, dtype=np.int32), len(chunks)),
        order=np.repeat(np.array(sent.start), ranks * len(chunks)),
        reduce=np.ones(count * len(chunks), np.bool_),
        tick=tick,
        size=size,
        routes=Routes.of(
            [tuple(route) for kind in sent.kind for route in network.links[:, network.ways[kind]].tolist()]
        ),
    )


def _chain(
    network: VertexTransitiveNetwork, times: OrbitTimes, until: float, rng: np.random.Generator
) -> Sent | None:
    """Return what is sent from a sum of one rank to that of all, one subgroup after the other."""
    found = _subgroups(network.elements)
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
                or not 1 < times_larger <= TUNING.most_cosets
                or not (larger >= found[place]).all()
            ):
                continue
            growth = SumGrowth.of(network.alike, network.elements, found[place], larger)
            key = growth.seen.tobytes(), growth.port.tobytes(), growth.offsets.tobytes()
            if key not in known:
                known[key] = _searched(growth, times, rng)
            more = known[key]
            if more is not None:
                start = (*sent.start, *(sent.end + one for one in more.start))
                kind = (*sent.kind, *growth.kind[list(more.kind)].tolist())
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
        if len(found) == TUNING.most_subgroups:
            break
    cyclic = list(found.values())
    for first in cyclic:
        for second in cyclic:
            if len(found) < 2 * TUNING.most_subgroups:
                add(first | second)
    add(np.ones(ranks, np.bool_))
    return sorted(found.values(), key=lambda group: int(group.sum()))


def _searched(growth: SumGrowth, times: OrbitTimes, rng: np.random.Generator) -> Sent | None:
    """Return the fastest messages found by which a sum is that of all cosets; None for none."""
    kinds, cosets = growth.seen.shape
    length, best = cosets // 2 + TUNING.more, None
    for _ in range(TUNING.searches if kinds else 0):
        lists = np.stack([rng.integers(kinds, size=length), np.zeros(length, np.int64)])
        sent = np.full(length, -1)
        end = _anneal(growth, times, lists, rng.random((TUNING.moves * cosets, 4)), sent)
        if end >= 0 and (best is None or end < best.end):
            used = sent >= 0
            best = Sent(tuple(sent[used].tolist()), tuple(lists[0][used].tolist()), end)
    return best


@kernel
def _anneal(
    growth: SumGrowth, times: OrbitTimes, best: Int64Array, moves: FloatArray, sent: Int64Array
) -> int:
    """Change a list, a row of random numbers a move; play the fastest, and return when it ends, or -1.

    The rows of a list are messages, and for how many arrivals each waits.
    """
    length, kinds = best.shape[1], len(growth.seen)
    now, then = best.copy(), best.copy()
    price = TUNING.price * (times.alpha.max() + times.held.max())
    arrival, sums, free = np.zeros(length, np.int64), np.zeros(length, np.uint64), np.zeros_like(times.alpha)
    missing, end = _play(growth, times, now, sent, arrival, sums, free)
    cost, least = end + price * missing, -1 if missing > 0 else end
    for number in range(len(moves)):
        then[:] = now
        which, chance = moves[number, 0], moves[number, 3]
        one, other = int(moves[number, 1] * length), int(moves[number, 2] * length)
        if which < 0.5:
            then[0, one] = int(moves[number, 2] * kinds)
        elif which < 0.65:
            then[1, one] = int(moves[number, 2] * (ALIKE.most_waits + 1))
        elif which < 0.8:
            then[:, one], then[:, other] = now[:, other], now[:, one]
        else:
            then[:, one + 1 :] = now[:, one : length - 1]
            then[0, one], then[1, one] = int(moves[number, 2] * kinds), 0
        missing, end = _play(growth, times, then, sent, arrival, sums, free)
        worse = end + price * missing - cost
        if worse <= 0 or chance < np.exp(-worse / (price * TUNING.heat * (1 - number / len(moves)))):
            now[:] = then
            cost += worse
            if missing == 0 and (least < 0 or end < least):
                least = end
                best[:] = then
    _play(growth, times, best, sent, arrival, sums, free)
    return least


@kernel
def _play(
    growth: SumGrowth,
    times: OrbitTimes,
    lists: Int64Array,
    sent: Int64Array,
    arrival: Int64Array,
    sums: UInt64Array,
    free: Int64Array,
) -> tuple[float, int]:
    """Send a list's messages; return how often the sum would have to double in the end, and when it ends.

    No message leaves before one that stands before it in the list. What shares a rank with the sum that it
    would be added to is not sent.
    """
    cosets = growth.seen.shape[1]
    free.fill(0)
    sent.fill(-1)
    arrival.fill(NEVER)
    promised, count, time, end = np.uint64(1), 1, 0, 0
    for place in range(lists.shape[1]):
        if count == cosets:
            break
        message = lists[0, place]
        start = max(time, _free(growth, times, message, free))
        for _ in range(lists[1, place]):
            start = _next(start, arrival[:place])
        brings, more = _seen(growth.seen[message], start, arrival[:place], sums)
        if brings & promised != 0:
            continue
        promised |= brings
        count += more
        sums[place] = brings
        sent[place] = time = start
        arrival[place] = _sent(growth, times, message, start, free)
        end = max(end, arrival[place])
    return np.log2(cosets / count), end


@kernel
def _free(growth: SumGrowth, times: OrbitTimes, message: int, free: Int64Array) -> int:
    """Return when a message's ports are free, each at the time when it is entered."""
    start = ahead = 0
    for link in range(growth.offsets[message], growth.offsets[message + 1]):
        start = max(start, free[growth.port[link]] - ahead)
        ahead += times.alpha[growth.port[link]]
    return start


@kernel
def _next(time: int, arrival: Int64Array) -> int:
    """Return when the next sum arrives, if one does."""
    first = NEVER
    for one in arrival:
        if one > time:
            first = min(first, one)
    return time if first == NEVER else first


@kernel
def _seen(seen: Int64Array, start: int, arrival: Int64Array, sums: UInt64Array) -> tuple[np.uint64, int]:
    """Return of which cosets, as its receiver sees them, a sum is that leaves then; and of how many."""
    known = one = np.uint64(1)
    for flight in range(len(arrival)):
        if arrival[flight] <= start:
            known |= sums[flight]
    brings, count = np.uint64(0), 0
    for coset in range(len(seen)):
        if known >> np.uint64(coset) & one:
            brings |= one << np.uint64(seen[coset])
            count += 1
    return brings, count


@kernel
def _sent(growth: SumGrowth, times: OrbitTimes, message: int, start: int, free: Int64Array) -> int:
    """Let a message hold its ports; return when it arrives."""
    slowest = 0
    for link in range(growth.offsets[message], growth.offsets[message + 1]):
        port = growth.port[link]
        free[port] = start + times.held[port]
        start += times.alpha[port]
        slowest = max(slowest, times.held[port] - times.alpha[port])
    return start + slowest

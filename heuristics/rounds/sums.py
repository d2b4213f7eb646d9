"""Allreduces that are the same seen from every rank: each sends the sum that it has, and adds what comes.

One rank's timeline is the schedule here, too. A rank's sum is of some ranks, as it sees
them. All ranks send the sum that they have at a moment to ranks equally far away, which add it if the two
sums have no rank in common. So α decides the time, as in the postal model (Bar-Noy, Kipnis, Schieber: Optimal
computation of census functions in the postal model, Discrete Applied Mathematics 1995). A sum grows from one
subgroup of the ranks to a larger one. Simulated annealing searches, among the few cosets of one in the other,
how soon this is possible, and the best chain of subgroups is a shortest path.
"""

from __future__ import annotations

import heapq
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.heuristics.rounds.alike import Alike, Chances, TimelineSearch, VertexTransitiveNetwork, annealed
from tutti.schedules.message_durations import tick_of
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.kernels import now


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


TUNING = PartialSumTuning(
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
    link = np.concatenate(network.ways)[first].tolist()
    alpha = np.array([-(-topology.alpha[one] // tick) for one in link], np.int64)
    slowness = np.array([-(-size / topology.bandwidth[one] // tick) for one in link], np.int64)
    sent = _chain(alike._replace(alpha=alpha, slowness=slowness), network.elements, until, rng)
    if sent is None or len(sent.kind) * topology.num_ranks**2 > TUNING.most_transfers:
        return None
    ranks, chunks = topology.num_ranks, Chunks.even(problem.collective, 1)
    count = len(sent.kind) * ranks
    links = [network.links[:, network.ways[kind]].tolist() for kind in sent.kind]
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
                or not 1 < times_larger <= TUNING.most_cosets
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
        if len(found) == TUNING.most_subgroups:
            break
    cyclic = list(found.values())
    for first in cyclic:
        for second in cyclic:
            if len(found) < 2 * TUNING.most_subgroups:
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
    ways = [over[place] for place in kept]
    port = np.concatenate([alike.port[:0], *ways])
    offsets, choice = offsets_of([len(way) for way in ways]), np.arange(len(kept))
    return alike._replace(seen=seen[kept], offsets=offsets, port=port, choice=choice), kind[kept]


def _searched(growth: Alike, rng: np.random.Generator) -> Sent | None:
    """Return the fastest messages found by which a sum is that of all cosets; None if there are none."""
    kinds, cosets = growth.seen.shape
    price = TUNING.price * float(growth.alpha.max() + (growth.alpha + growth.slowness).max())
    how = TimelineSearch(1, False, True, price, price * TUNING.heat, TUNING.chances)
    found = []
    for _ in range(TUNING.searches if kinds else 0):
        message = rng.choice(growth.choice, cosets // 2 + TUNING.more)
        missing, end, played = annealed(growth, message, how, rng.random((TUNING.moves * cosets, 4)))
        start, kind = played.start[played.sent].tolist(), played.message[played.sent].tolist()
        found += [] if missing else [Sent(tuple(start), tuple(kind), int(end))]
    return min(found, key=lambda sent: sent.end, default=None)

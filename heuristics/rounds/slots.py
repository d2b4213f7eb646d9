"""The routes of single messages, and the search for times at which they leave so that all know all data.

A *slot* is a class of routes (`MessageRoutes`) and a moment at which messages leave over them. Routes that
the network's translations take to each other form a class. Bytes take no time here: a message holds each link
of its route for α and brings all that its source then knows, and routes of one link carry one whenever they
can. What is left to choose is where messages go through switches that only forward. That is searched by
simulated annealing (Kirkpatrick, Gelatt, Vecchi, doi 10.1126/science.220.4598.671): a random slot is filled,
and slots in conflict with it are emptied. The objective is the number of shards that are missing in the end.
Networks of 64 ranks take some ten to some thousand such moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tutti.heuristics.tacos.bitsets import WORD_BITS, bit, popcount
from tutti.schedules.schedule import Routes
from tutti.topologies.exact import BoolArray, FloatArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.grid_structure import grid_of
from tutti.topologies.graphs.shortest_paths import Route, nearest_first
from tutti.topologies.graphs.symmetry import UInt64Array, link_permutation
from tutti.topologies.kernels import kernel, leaf
from tutti.topologies.topology import Topology


class MessageSlotTuning(NamedTuple):
    """Limits of the search for slots."""

    most_moments: int
    """Largest number of moments at which messages may leave. If α has more sums, they are evenly spaced."""
    negligible: int
    """An α that is this many times less than the largest counts as 0."""
    moves: int
    """Number of moves of a search. More find messages where α is scarcer."""
    work: int
    """Largest number of moves times messages times words of knowledge of a search, which takes some
    seconds."""
    most_slots: int
    """Limit on routes times moments. Larger networks are not searched."""
    hopeless: int
    """After 1 / `hopeless` of its moves, a search ends if more than 1 / `hopeless` is still missing."""
    heat: float
    """A move that loses this many shards for each message of a slot is accepted at first with probability 1
    / e."""


TUNING = MessageSlotTuning(
    most_moments=64, negligible=64, moves=2**14, work=2**27, most_slots=2**23, hopeless=8, heat=0.5
)


@dataclass(frozen=True, eq=False)
class MessageRoutes:
    """The routes of single messages, in classes that are used together.

    Parameters
    ----------
    routes
        Over links.
    source, target
        int32, shape (routes,): the ends, ranks or switches that multicast.
    classes
        int64, shape (classes + 1,): the routes of class i are classes[i]..classes[i + 1] - 1.
    """

    routes: Routes
    source: Int32Array
    target: Int32Array
    classes: Int64Array

    @classmethod
    def of(cls, topology: Topology, symmetries: list[Int32Array]) -> MessageRoutes:
        """Return all routes of a network, each together with its images under symmetries.

        A class whose routes share a link is left out: its messages would collide.

        Parameters
        ----------
        topology
            The network.
        symmetries
            Permutations of the links, int32 (links,).
        """
        found = dict.fromkeys(single_messages(topology))
        classes = [
            one
            for one in _orbits(found, symmetries)
            if sum(map(len, one)) == len({link for route in one for link in route})
        ]
        routes = Routes.of([route for one in classes for route in one])
        return cls(
            routes,
            topology.source[routes.links[routes.offsets[:-1]]],
            topology.target[routes.links[routes.offsets[1:] - 1]],
            offsets_of([len(one) for one in classes]),
        )


def single_messages(topology: Topology, origin: int | None = None) -> list[Route]:
    """Return, for each link out of a node that keeps data, the route of least α over it to each other one.

    Ranks keep data, and switches that can multicast. Of routes of least α those of fewest links are taken.
    Routes come by their first link, then by α; with an origin only those from there.
    """
    keeps = [node < topology.num_ranks or node in topology.multicast for node in range(topology.num_nodes)]
    forwards = [not kept for kept in keeps]
    tails, heads = topology.source.tolist(), topology.target.tolist()
    leaving: list[list[int]] = [[] for _ in keeps]
    for link, tail in enumerate(tails):
        leaving[tail].append(link)
    # α first, then links: no route has as many links as there are nodes
    lengths = [alpha * topology.num_nodes + 1 for alpha in topology.alpha.numerators.tolist()]
    found = [
        (first, length, route)
        for first, (tail, head, length) in enumerate(zip(tails, heads, lengths, strict=True))
        if (keeps[tail] if origin is None else tail == origin)
        for length, node, route in nearest_first(
            leaving, heads, lengths, [(length, head, (first,))], forwards=forwards, by_links=True
        )
        if keeps[node] and node != tail
    ]
    return [route for _, _, route in sorted(found)]


def _orbits(routes: dict[Route, None], symmetries: list[Int32Array]) -> Iterator[list[Route]]:
    """Yield each route with its images; an image may be replaced by another route of equal α."""
    left = dict(routes)
    tables = [symmetry.tolist() for symmetry in symmetries]
    while left:
        route, _ = left.popitem()
        orbit = {route: None}
        queue = [route]
        for one in queue:
            for table in tables:
                image = tuple(table[link] for link in one)
                if image not in orbit:
                    orbit[image] = None
                    left.pop(image, None)
                    queue.append(image)
        yield list(orbit)


def translations(topology: Topology) -> list[Int32Array]:
    """Return steps along each dimension of the ranks that are automorphisms, as permutations of the links.

    The dimensions are those of a grid, or all ranks in one line.
    """
    grid = grid_of(topology)
    line = np.arange(topology.num_ranks)
    for ranks in (line,) if grid is None else (grid.ranks, line):
        place = np.argsort(ranks, axis=None)
        rolled = (np.roll(ranks, -1, axis).reshape(-1)[place] for axis in range(ranks.ndim))
        on_links = [link_permutation(topology, _with_switches(topology, one)) for one in rolled]
        found = [links for links in on_links if links is not None]
        if found:
            return found
    return []


def _with_switches(topology: Topology, ranks: Int64Array) -> Int64Array:
    """Return a permutation of ranks and switches; switches go to the neighbours of their ranks' images."""
    joined: list[list[int]] = [[] for _ in range(topology.num_nodes)]
    for one, other in zip(topology.source.tolist(), topology.target.tolist(), strict=True):
        if one < topology.num_ranks:
            joined[other].append(one)
    free: dict[tuple[int, ...], list[int]] = {}
    for switch in range(topology.num_nodes - 1, topology.num_ranks - 1, -1):
        free.setdefault(tuple(sorted(joined[switch])), []).append(switch)
    image = ranks.tolist()
    for switch in range(topology.num_ranks, topology.num_nodes):
        there = free.get(tuple(sorted(image[rank] for rank in joined[switch])))
        image.append(there.pop() if there else -1)
    return np.array(image, dtype=np.int64)


class RoundMessages(NamedTuple):
    """Messages in order: routes, and when their heads leave and arrive, over the denominator of α.

    `step` numbers messages that leave together; at one time those without α go before the others.
    """

    route: Int64Array
    start: Int64Array
    end: Int64Array
    step: Int64Array


class Slots(NamedTuple):
    """Slots, numbered by class and then by moment.

    Parameters
    ----------
    source, target, classes
        The ends of routes, and their classes, as in `MessageRoutes`.
    alone
        Whether each route is one link.
    first, link, after
        int64: class i's routes have the links with α link[first[i] : first[i + 1]]. A message enters link[j]
        after[j] later than it leaves.
    alpha, latency
        int64, of links and of routes, over the denominator of α.
    moments
        Increasing, over the same.
    """

    source: Int32Array
    target: Int32Array
    classes: Int64Array
    alone: BoolArray
    first: Int64Array
    link: Int64Array
    after: Int64Array
    alpha: Int64Array
    latency: Int64Array
    moments: Int64Array

    @classmethod
    def of(cls, topology: Topology, network: MessageRoutes, moments: Int64Array) -> Slots:
        """Return the slots of a network at these moments."""
        alpha, routes = alpha_or_hops(topology), network.routes
        held, hops = alpha[routes.links], np.diff(routes.offsets)
        latency = np.add.reduceat(held, routes.offsets[:-1])
        passed = np.cumsum(held) - held
        after = passed - np.repeat(passed[routes.offsets[:-1]], hops)
        first = offsets_of(held > 0)[routes.offsets[network.classes]]
        links = routes.links[held > 0].astype(np.int64), after[held > 0]
        ends = network.source, network.target, network.classes
        return cls(*ends, hops == 1, first, *links, alpha, latency, moments)


class Room(NamedTuple):
    """Arrays for a search: slots in conflict, and as bits what ranks want, nodes know and messages carry."""

    found: Int64Array
    wanted: UInt64Array
    known: UInt64Array
    carried: UInt64Array


class Use(NamedTuple):
    """The filled slots, and when messages of which slot enter each link that has α.

    For link l these are the first entered[l] of entry[l] and owner[l].
    """

    filled: BoolArray
    entry: Int64Array
    owner: Int64Array
    entered: Int64Array


def alpha_or_hops(topology: Topology) -> Int64Array:
    """Return α of each link over its denominator, 0 for `TUNING.negligible` ones; 1 each if there is none."""
    alpha = topology.alpha.numerators
    return (
        np.where(alpha > alpha.max() // TUNING.negligible, alpha, 0) if alpha.any() else np.ones_like(alpha)
    )


def moments(topology: Topology, until: int) -> Int64Array:
    """Return when messages may leave: at all sums of α up to `until`, over its denominator."""
    steps = np.unique(alpha_or_hops(topology))
    found = np.zeros(1, dtype=np.int64)
    while True:
        longer = np.unique(np.add.outer(found, steps))
        longer = np.union1d(found, longer[longer <= until])
        if len(longer) > TUNING.most_moments:
            return np.unique(np.linspace(0, until, TUNING.most_moments).astype(np.int64))
        if len(longer) == len(found):
            return found
        found = longer


def search(
    topology: Topology, slots: Slots, wanted: BoolArray, until: int, rng: np.random.Generator
) -> Use | None:
    """Return a use of slots by which all have what they want by `until`; None if none was found.

    Parameters
    ----------
    topology, slots
        The network, and its slots.
    wanted
        bool, shape (ranks, ranks): whether u needs v's shard.
    until
        Time limit, over the denominator of α.
    rng
        Source of random moves.
    """
    count, words = len(slots.moments), -(-topology.num_ranks // 64)
    if len(slots.source) * count > TUNING.most_slots:
        return None
    kind, moment = np.divmod(np.arange((len(slots.classes) - 1) * count), count)
    way = slots.classes[kind]
    in_time = slots.moments[moment] + slots.latency[way] <= until
    free = slots.alone[way] | (slots.latency[way] == 0)
    use = _unused(slots, until)
    _fill_idle(slots, use, np.flatnonzero(in_time & free))
    choice = np.flatnonzero(in_time & ~free)
    moves = (
        min(TUNING.moves, TUNING.work // (topology.num_links * count * words + len(kind)))
        if len(choice)
        else 0
    )
    bits = np.pad(wanted, ((0, 0), (0, -topology.num_ranks % WORD_BITS)))
    room = Room(
        np.empty(len(kind), dtype=np.int64),
        np.packbits(bits, axis=1, bitorder="little").view("<u8"),
        np.zeros((topology.num_nodes, words), dtype=np.uint64),
        np.empty((len(slots.source) * count, words), dtype=np.uint64),
    )
    events = _events(slots, np.flatnonzero(in_time))
    missing = _anneal(slots, use, events, choice, rng.random((moves, 2)), room)
    return None if missing else use


def longer(slots: Slots, use: Use, until: int) -> tuple[Slots, Use]:
    """Return the same use of slots up to a later time, and fill idle links, the least used routes first."""
    least = int(slots.alpha[slots.alpha > 0].min())
    step = max(least, until // TUNING.most_moments)
    further = slots._replace(moments=np.union1d(slots.moments, np.arange(0, until + 1, step)))
    kind, moment = np.divmod(np.flatnonzero(use.filled), len(slots.moments))
    place = np.searchsorted(further.moments, slots.moments[moment])
    extended = _unused(further, until)
    _fill_idle(further, extended, kind * len(further.moments) + place)
    _use_least_used(further, extended, until)
    return further, extended


def messages_in(slots: Slots, use: Use) -> RoundMessages:
    """Return the messages of all filled slots; those without α go first."""
    kind, moment = np.divmod(np.flatnonzero(use.filled), len(slots.moments))
    sizes = np.diff(slots.classes)[kind]
    route = np.repeat(slots.classes[kind] - offsets_of(sizes)[:-1], sizes) + np.arange(sizes.sum())
    start = np.repeat(slots.moments[moment], sizes)
    order = np.lexsort((route, slots.latency[route] > 0, start))
    route, start = route[order], start[order]
    later = (start[1:] > start[:-1]) | (slots.latency[route[1:]] > 0) & (slots.latency[route[:-1]] == 0)
    return RoundMessages(route, start, start + slots.latency[route], offsets_of(later))


def _unused(slots: Slots, until: int) -> Use:
    """Return a use in which all slots are empty, with arrays for what enters links until then."""
    alpha = slots.alpha
    room = until // int(alpha[alpha > 0].min()) + 2
    table = (len(alpha), room)
    return Use(
        np.zeros((len(slots.classes) - 1) * len(slots.moments), dtype=np.bool_),
        np.empty(table, dtype=np.int64),
        np.empty(table, dtype=np.int64),
        np.zeros(len(alpha), dtype=np.int64),
    )


def _events(slots: Slots, chosen: Int64Array) -> Int64Array:
    """Return twice the number of each slot, plus one for its arrival, in the order of time."""
    kind, moment = np.divmod(chosen, len(slots.moments))
    start, latency = slots.moments[moment], slots.latency[slots.classes[kind]]
    arrives = np.repeat([0, 1], len(chosen))
    order = np.lexsort(
        (arrives, np.tile(latency > 0, 2), np.tile(start, 2), np.concatenate([start, start + latency]))
    )
    events: Int64Array = (2 * np.tile(chosen, 2) + arrives)[order]
    return events


@kernel
def _fill_idle(slots: Slots, use: Use, chosen: Int64Array) -> None:
    """Fill the chosen slots in order, skipping each slot that conflicts with one that is already filled."""
    found = np.empty(len(use.filled), dtype=np.int64)
    for slot in chosen:
        if _in_the_way(slots, use, slot, found) == 0:
            _fill(slots, use, slot)


@kernel
def _use_least_used(slots: Slots, use: Use, until: int) -> None:
    """Fill slots without conflicts, moment by moment, those of the least used classes first."""
    count, kinds = len(slots.moments), len(slots.classes) - 1
    found, used = np.empty(len(use.filled), dtype=np.int64), np.zeros(kinds, dtype=np.int64)
    for slot in range(len(use.filled)):
        used[slot // count] += use.filled[slot]
    for moment in range(count):
        for kind in np.argsort(used, kind="mergesort"):
            slot = kind * count + moment
            if slots.moments[moment] + slots.latency[slots.classes[kind]] > until or use.filled[slot]:
                continue
            if _in_the_way(slots, use, slot, found) == 0:
                _fill(slots, use, slot)
                used[kind] += 1


@leaf
def _fill(slots: Slots, use: Use, slot: int) -> None:
    """Let messages leave in a slot, which must have no conflicts."""
    kind, moment = divmod(slot, len(slots.moments))
    use.filled[slot] = True
    for place in range(slots.first[kind], slots.first[kind + 1]):
        link = slots.link[place]
        use.entry[link, use.entered[link]] = slots.moments[moment] + slots.after[place]
        use.owner[link, use.entered[link]] = slot
        use.entered[link] += 1


@leaf
def _empty(slots: Slots, use: Use, slot: int) -> None:
    kind = slot // len(slots.moments)
    use.filled[slot] = False
    for link in slots.link[slots.first[kind] : slots.first[kind + 1]]:
        for number in range(use.entered[link]):
            if use.owner[link, number] == slot:
                use.entered[link] -= 1
                last = use.entered[link]
                use.entry[link, number] = use.entry[link, last]
                use.owner[link, number] = use.owner[link, last]
                break


@leaf
def _in_the_way(slots: Slots, use: Use, slot: int, found: Int64Array) -> int:
    """Return the number of filled slots that conflict with a slot by a link, and write which."""
    (kind, moment), count = divmod(slot, len(slots.moments)), 0
    for place in range(slots.first[kind], slots.first[kind + 1]):
        link, time = slots.link[place], slots.moments[moment] + slots.after[place]
        for number in range(use.entered[link]):
            if abs(use.entry[link, number] - time) < slots.alpha[link]:
                other, known = use.owner[link, number], False
                for before in range(count):
                    known = known or found[before] == other
                if not known:
                    found[count] = other
                    count += 1
    return count


@kernel
def _anneal(
    slots: Slots, use: Use, events: Int64Array, choice: Int64Array, moves: FloatArray, room: Room
) -> int:
    """Fill slots, one of `choice` a move, until no shard is missing or moves end; return the missing ones."""
    now = _missing(slots, use.filled, events, room)
    few = now // TUNING.hopeless
    for number in range(len(moves)):
        if number == len(moves) // TUNING.hopeless and now > few:
            break
        slot = choice[int(moves[number, 0] * len(choice))]
        if now == 0 or use.filled[slot]:
            continue
        count = _in_the_way(slots, use, slot, room.found)
        for place in range(count):
            _empty(slots, use, room.found[place])
        _fill(slots, use, slot)
        then = _missing(slots, use.filled, events, room)
        kind = slot // len(slots.moments)
        heat = TUNING.heat * (slots.classes[kind + 1] - slots.classes[kind]) * (1 - number / len(moves))
        # Metropolis's rule; `heat` falls linearly to 0.
        if moves[number, 1] < np.exp((now - then) / heat):
            now = then
        else:
            _empty(slots, use, slot)
            for place in range(count):
                _fill(slots, use, room.found[place])
    return now


@leaf
def _missing(slots: Slots, filled: BoolArray, events: Int64Array, room: Room) -> int:
    """Let all messages bring all that their sources know; return the number of missing shards."""
    known, carried = room.known, room.carried
    count, words = len(slots.moments), known.shape[1]
    known.fill(np.uint64(0))
    for rank in range(len(room.wanted)):
        known[rank, rank // WORD_BITS] = bit(rank)
    for event in events:
        slot = event >> 1
        if not filled[slot]:
            continue
        kind, moment = slot // count, slot % count
        for way in range(slots.classes[kind], slots.classes[kind + 1]):
            message = way * count + moment
            for word in range(words):
                if event & 1:
                    known[slots.target[way], word] |= carried[message, word]
                else:
                    carried[message, word] = known[slots.source[way], word]
    total = 0
    for rank in range(len(room.wanted)):
        for word in range(words):
            total += int(popcount(room.wanted[rank, word] & ~known[rank, word]))
    return total

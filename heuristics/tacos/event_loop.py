"""Algorithm 2 of TACOS (MICRO 2024, section IV-E), from arrival to arrival: what all matching rules share.

The time-expanded network is never built: between two arrivals nothing changes, so time jumps from one to the
next. Between links of one cost all transfers of a round arrive together, and the events are the paper's time
spans; between unlike links an event is what some of the links bring (IV-F).

What is matched at an event is up to a *rule*, a named tuple of what the rule keeps: `matching` has those in
which chunks go to all ranks, `guided` the one for chunks with goals of their own. The type of the rule
chooses the kernel that `match` calls when numba compiles the loop, so each rule has a loop without a branch
or an indirect call, and one on disk: of a closure over the rule's kernel numba would never find the compiled
loop again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit
from numba.extending import overload

from heuristics.tacos.bitsets import WORD_BITS, Planes, Words, bit, increment, leaf, shuffle
from heuristics.tacos.network import Network
from topologies.exact import BoolArray, Int32Array, Int64Array

NEVER = np.int64(2**63 - 1)

Kernel = TypeVar("Kernel", bound=Callable[..., None])


class Holdings(NamedTuple):
    """Who has what, a set of chunks a node.

    Parameters
    ----------
    have, want
        uint64, shape (nodes, words): disjoint; a chunk in neither is on its way to the node.
    spread
        Counter planes: how many nodes have each chunk or are being sent it.
    """

    have: npt.NDArray[np.uint64]
    want: npt.NDArray[np.uint64]
    spread: Planes


class Flights(NamedTuple):
    """What is on the links: a ring buffer a class, by arrival since all its transfers last equally long.

    Parameters
    ----------
    arrival
        int64, shape (links,): when the link's transfer arrives; `NEVER` on a free link.
    chunk
        int64, shape (links,): what the link carries.
    queue
        int64, shape (links,): the rings one after the other, class k's from first[k] to first[k + 1] - 1.
    first, head, length
        int64, by class.
    """

    arrival: Int64Array
    chunk: Int64Array
    queue: Int64Array
    first: Int64Array
    head: Int64Array
    length: Int64Array


class Transfers(NamedTuple):
    """Transfers by start, shape (transfers,): int32 chunk, int32 link, int64 start in ticks."""

    chunk: Int32Array
    link: Int32Array
    start: Int64Array


class Matchable(NamedTuple):
    """The links that may be matched at this event.

    Parameters
    ----------
    listed, cheapest_first
        int64, shape (links,): those that may have something to send, and the same by cost.
    per_class
        int64, shape (classes + 1,): where each class begins among those by cost.
    starved
        bool, shape (links,): free links that found nothing to send; they are matched again only when
        something new reaches their source.
    starving
        bool, shape (nodes,): whether a link out of the node is starved.
    """

    listed: Int64Array
    cheapest_first: Int64Array
    per_class: Int64Array
    starved: BoolArray
    starving: BoolArray


class Scratch(NamedTuple):
    """Room for a rule to work in.

    Parameters
    ----------
    candidates, trial
        Sets of chunks.
    links_in
        Planes of counts: the links into a destination that could bring each chunk.
    """

    candidates: Words
    trial: Words
    links_in: Planes


class Synthesis(NamedTuple):
    """A schedule in the making, at one moment.

    Parameters
    ----------
    network, held, flights, links, scratch
        The network, who has what, what is on the links, which of them to match, and room to work in.
    sent
        The transfers so far; room for all.
    count
        int64, shape (1,): how many they are.
    random
        The state of the random numbers.
    """

    network: Network
    held: Holdings
    flights: Flights
    links: Matchable
    scratch: Scratch
    sent: Transfers
    count: Int64Array
    random: Words


def match(rule: Any, made: Synthesis, listed: int, now: int) -> None:
    """Send what the rule matches of the links that are listed, and of no others.

    Parameters
    ----------
    rule
        A named tuple of a type for which `matches` names the kernel.
    made
        The synthesis; the rule calls `send` and `starve`.
    listed
        How many links stand in ``made.links.listed``.
    now
        In ticks.
    """
    raise NotImplementedError("a rule is matched in compiled code only")


def matches(rule_type: type) -> Callable[[Kernel], Kernel]:
    """Return a decorator: rules of that type are matched by the decorated kernel."""

    def decorate(kernel: Kernel) -> Kernel:
        def call(rule: Any, made: Synthesis, listed: int, now: int) -> None:
            kernel(rule, made, listed, now)

        @overload(match, strict=False)  # type hints differ: here arguments are numba's types
        def compiled(rule: Any, made: Any, listed: Any, now: Any) -> Callable[..., None] | None:
            return call if getattr(rule, "instance_class", None) is rule_type else None

        return kernel

    return decorate


@njit(cache=True, nogil=True)
def synthesize(network: Network, start: Int64Array, rule: Any, seed: np.uint64) -> Transfers:
    """Return the transfers that a rule makes until nothing is on its way (Algorithm 2).

    Invariant: at each event, every chunk is at a node, on its way to it, or wanted by it.

    Parameters
    ----------
    network
        Strongly connected.
    start
        int64, shape (chunks,): the node at which each chunk starts.
    rule
        What is matched at an event; it may be written to.
    seed
        Of all random choices.
    """
    made = _nothing_sent(network, start, seed)
    now, listed = np.int64(0), len(network.source)
    while now != NEVER:
        # Algorithm 2 runs Algorithm 1 on one more time span; here on the links that an event may have
        # changed.
        match(rule, made, listed, now)
        now = _next_arrival(made.flights)
        if now != NEVER:
            listed = _deliver(made, now)
    rows = made.count[0]
    return Transfers(made.sent.chunk[:rows], made.sent.link[:rows], made.sent.start[:rows])


@njit(cache=True)
def _nothing_sent(network: Network, start: Int64Array, seed: np.uint64) -> Synthesis:
    """Return the moment 0: every chunk is where it starts, all links are free and to be matched."""
    links, classes, nodes = len(network.source), len(network.duration), len(network.in_first) - 1
    held, most = precondition(nodes, start), len(start) * (nodes - 1)
    words = held.have.shape[1]
    return Synthesis(
        network,
        held,
        _free_links(network),
        Matchable(
            np.arange(links),
            np.empty(links, np.int64),
            np.empty(classes + 1, np.int64),
            np.zeros(links, np.bool_),
            np.zeros(nodes, np.bool_),
        ),
        Scratch(np.empty(words, np.uint64), np.empty(words, np.uint64), np.empty((4, words), np.uint64)),
        Transfers(np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int64)),
        np.zeros(1, np.int64),
        np.full(1, seed),
    )


@njit(cache=True)
def precondition(num_nodes: int, start: Int64Array) -> Holdings:
    """Return who has what at the start: chunk c at node start[c], wanted by all other nodes."""
    words = (len(start) + WORD_BITS - 1) // WORD_BITS
    bits = 1
    while (1 << bits) <= num_nodes:
        bits += 1
    held = Holdings(
        np.zeros((num_nodes, words), np.uint64),
        np.zeros((num_nodes, words), np.uint64),
        np.zeros((bits, words), np.uint64),
    )
    for chunk in range(len(start)):
        held.spread[0, chunk // WORD_BITS] |= bit(chunk)
    held.want[:] = held.spread[0]
    for chunk in range(len(start)):
        held.want[start[chunk], chunk // WORD_BITS] &= ~bit(chunk)
        held.have[start[chunk], chunk // WORD_BITS] |= bit(chunk)
    return held


@njit(cache=True)
def _free_links(network: Network) -> Flights:
    """Return links that carry nothing."""
    links, classes = len(network.source), len(network.duration)
    first = np.zeros(classes + 1, np.int64)
    for link in range(links):
        first[network.cost[link] + 1] += 1
    for k in range(classes):
        first[k + 1] += first[k]
    return Flights(
        np.full(links, NEVER),
        np.zeros(links, np.int64),
        np.zeros(links, np.int64),
        first,
        np.zeros(classes, np.int64),
        np.zeros(classes, np.int64),
    )


@leaf
def send(made: Synthesis, link: int, chunk: int, now: int) -> None:
    """Start a transfer: a link-chunk match (Algorithm 1, "mark link-chunk match"; Fig. 8c)."""
    network, held, flights = made.network, made.held, made.flights
    # Nobody else will be matched with the pair: it is no longer wanted, though it is not there yet.
    held.want[network.target[link], chunk // WORD_BITS] &= ~bit(chunk)
    increment(held.spread, chunk)
    k = network.cost[link]
    flights.arrival[link] = now + network.duration[k]
    flights.chunk[link] = chunk
    # All transfers of a class last equally long, so that its ring is in the order of arrival.
    begin, capacity = flights.first[k], flights.first[k + 1] - flights.first[k]
    flights.queue[begin + (flights.head[k] + flights.length[k]) % capacity] = link
    flights.length[k] += 1
    row = made.count[0]
    made.sent.chunk[row], made.sent.link[row], made.sent.start[row] = chunk, link, now
    made.count[0] = row + 1


@leaf
def _next_arrival(flights: Flights) -> np.int64:
    """Return when the next transfer arrives; `NEVER` if nothing is on its way."""
    soonest = NEVER
    for k in range(len(flights.length)):
        if flights.length[k]:
            soonest = min(soonest, flights.arrival[flights.queue[flights.first[k] + flights.head[k]]])
    return soonest


@leaf
def _deliver(made: Synthesis, now: int) -> int:
    """Deliver what arrives now; list, and count, the links that may have something to send."""
    flights, listed = made.flights, 0
    for k in range(len(flights.length)):
        begin, capacity = flights.first[k], flights.first[k + 1] - flights.first[k]
        while flights.length[k]:
            link = flights.queue[begin + flights.head[k]]
            if flights.arrival[link] != now:
                break
            flights.head[k] = (flights.head[k] + 1) % capacity
            flights.length[k] -= 1
            flights.arrival[link] = NEVER
            chunk, node = flights.chunk[link], made.network.target[link]
            made.held.have[node, chunk // WORD_BITS] |= bit(chunk)
            made.links.listed[listed] = link
            listed += 1
            if made.links.starving[node]:
                listed = _list_starved(made.network, made.links, node, listed)
    return listed


@leaf
def _list_starved(network: Network, links: Matchable, node: int, listed: int) -> int:
    """List the links out of a node that were starved."""
    for i in range(network.out_first[node], network.out_first[node + 1]):
        link = network.out_links[i]
        if links.starved[link]:
            links.starved[link] = False
            links.listed[listed] = link
            listed += 1
    links.starving[node] = False
    return listed


@leaf
def starve(made: Synthesis, link: int) -> None:
    """Note that a link found nothing to send."""
    made.links.starved[link] = True
    made.links.starving[made.network.source[link]] = True


@leaf
def order_by_cost(made: Synthesis, listed: int) -> None:
    """Order the listed links by cost, at random within one cost: the cheapest is matched first (IV-F)."""
    network, links = made.network, made.links
    shuffle(links.listed, listed, made.random)
    links.per_class[:] = 0
    for i in range(listed):
        links.per_class[network.cost[links.listed[i]] + 1] += 1
    for k in range(len(links.per_class) - 1):
        links.per_class[k + 1] += links.per_class[k]
    for i in range(listed):
        link = links.listed[i]
        links.cheapest_first[links.per_class[network.cost[link]]] = link
        links.per_class[network.cost[link]] += 1

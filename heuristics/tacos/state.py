"""What TACOS keeps while time runs: the network, who holds what, what is on the links, what was sent.

Everything is typed arrays in named tuples, which numba reads as they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from heuristics.tacos.bitsets import WORD_BITS, Planes, Words, bit, increment, leaf
from topologies.exact import BoolArray, Int32Array, Int64Array

NEVER = np.int64(2**63 - 1)


class Network(NamedTuple):
    """A switch-free network as the kernel reads it; links of equal cost form a class, cheapest first.

    Parameters
    ----------
    source, target
        int64, shape (links,): the ends of each link.
    out_first, out_links, in_first, in_links
        int64: the links out of and into each node, in CSR form.
    cost
        int64, shape (links,): the class of each link.
    duration
        int64, shape (classes,): ticks that a link of the class takes for a chunk, strictly increasing.
    """

    source: Int64Array
    target: Int64Array
    out_first: Int64Array
    out_links: Int64Array
    in_first: Int64Array
    in_links: Int64Array
    cost: Int64Array
    duration: Int64Array


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
    lands
        int64, shape (links,): when the link's transfer arrives; `NEVER` on a free link.
    chunk
        int64, shape (links,): what the link carries.
    queue
        int64, shape (links,): the rings one after the other, class k's from first[k] to first[k + 1] - 1.
    first, head, length
        int64, by class.
    """

    lands: Int64Array
    chunk: Int64Array
    queue: Int64Array
    first: Int64Array
    head: Int64Array
    length: Int64Array


class Sent(NamedTuple):
    """The transfers so far, by start: int32 chunk, int32 link, int64 start in ticks; rows[0] of them."""

    chunk: Int32Array
    link: Int32Array
    start: Int64Array
    rows: Int64Array


class Room(NamedTuple):
    """Room to work in.

    Parameters
    ----------
    candidates, trial
        Sets of chunks.
    ways
        Planes of counts: ways into a destination.
    todo, ordered, per_class
        int64: the free links to match, the same by cost, and where each class begins.
    starved
        bool, shape (links,): free links that found nothing to send; they are matched again only when
        something new reaches their source.
    starving
        bool, shape (nodes,): whether a link out of the node is starved.
    random
        The state of the random numbers.
    """

    candidates: Words
    trial: Words
    ways: Planes
    todo: Int64Array
    ordered: Int64Array
    per_class: Int64Array
    starved: BoolArray
    starving: BoolArray
    random: Words


@njit(cache=True)
def precondition(num_nodes: int, owner: Int64Array) -> Holdings:
    """Return who has what at the start: chunk c at node owner[c], wanted by all other nodes."""
    words = (len(owner) + WORD_BITS - 1) // WORD_BITS
    bits = 1
    while (1 << bits) <= num_nodes:
        bits += 1
    held = Holdings(
        np.zeros((num_nodes, words), np.uint64),
        np.zeros((num_nodes, words), np.uint64),
        np.zeros((bits, words), np.uint64),
    )
    for chunk in range(len(owner)):
        held.spread[0, chunk // WORD_BITS] |= bit(chunk)
    held.want[:] = held.spread[0]
    for chunk in range(len(owner)):
        held.want[owner[chunk], chunk // WORD_BITS] &= ~bit(chunk)
        held.have[owner[chunk], chunk // WORD_BITS] |= bit(chunk)
    return held


@njit(cache=True)
def free_links(network: Network) -> Flights:
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


@njit(cache=True)
def working_room(network: Network, words: int, seed: np.uint64) -> Room:
    """Return room to work in for sets of `words` words, all links to be matched."""
    links, classes = len(network.source), len(network.duration)
    return Room(
        np.empty(words, np.uint64),
        np.empty(words, np.uint64),
        np.empty((4, words), np.uint64),
        np.arange(links),
        np.empty(links, np.int64),
        np.empty(classes + 1, np.int64),
        np.zeros(links, np.bool_),
        np.zeros(len(network.in_first) - 1, np.bool_),
        np.full(1, seed),
    )


@njit(cache=True)
def nothing_sent(transfers: int) -> Sent:
    """Return an empty record with room for that many transfers."""
    return Sent(
        np.empty(transfers, np.int32),
        np.empty(transfers, np.int32),
        np.empty(transfers, np.int64),
        np.zeros(1, np.int64),
    )


@leaf
def send(
    network: Network, held: Holdings, flights: Flights, sent: Sent, link: int, chunk: int, now: int
) -> None:
    """Start a transfer: a link-chunk match (Fig. 8c)."""
    held.want[network.target[link], chunk // WORD_BITS] &= ~bit(chunk)
    increment(held.spread, chunk)
    k = network.cost[link]
    flights.lands[link] = now + network.duration[k]
    flights.chunk[link] = chunk
    begin, capacity = flights.first[k], flights.first[k + 1] - flights.first[k]
    flights.queue[begin + (flights.head[k] + flights.length[k]) % capacity] = link
    flights.length[k] += 1
    row = sent.rows[0]
    sent.chunk[row], sent.link[row], sent.start[row] = chunk, link, now
    sent.rows[0] = row + 1


@leaf
def next_landing(flights: Flights) -> np.int64:
    """Return when the next transfer arrives; `NEVER` if nothing is on its way."""
    soonest = NEVER
    for k in range(len(flights.length)):
        if flights.length[k]:
            soonest = min(soonest, flights.lands[flights.queue[flights.first[k] + flights.head[k]]])
    return soonest


@leaf
def land(network: Network, held: Holdings, flights: Flights, room: Room, now: int) -> int:
    """Deliver what arrives now; list in `room.todo`, and count, the links that may have something to send."""
    count = 0
    for k in range(len(flights.length)):
        begin, capacity = flights.first[k], flights.first[k + 1] - flights.first[k]
        while flights.length[k]:
            link = flights.queue[begin + flights.head[k]]
            if flights.lands[link] != now:
                break
            flights.head[k] = (flights.head[k] + 1) % capacity
            flights.length[k] -= 1
            flights.lands[link] = NEVER
            chunk, node = flights.chunk[link], network.target[link]
            held.have[node, chunk // WORD_BITS] |= bit(chunk)
            room.todo[count] = link
            count += 1
            if room.starving[node]:
                count = wake(network, room, node, count)
    return count


@leaf
def wake(network: Network, room: Room, node: int, count: int) -> int:
    """List the links out of a node that were starved."""
    for i in range(network.out_first[node], network.out_first[node + 1]):
        link = network.out_links[i]
        if room.starved[link]:
            room.starved[link] = False
            room.todo[count] = link
            count += 1
    room.starving[node] = False
    return count


@leaf
def starve(network: Network, room: Room, link: int) -> None:
    """Note that a link found nothing to send."""
    room.starved[link] = True
    room.starving[network.source[link]] = True

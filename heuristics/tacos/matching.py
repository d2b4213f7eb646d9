"""Exact maximum matching per time step: as many free links used as can be, event by event.

What links into unlike nodes bring does not conflict, so each receiver is a matching problem of its own: its
free in-links on one side, the chunks that it wants on the other, an edge where the link's source has the
chunk; a chunk is brought once. Of the matchings with the most links the kernel takes one with

* the rarest chunks: sorted by how many ranks have each or are being sent it, no other has a smaller one
  first. The sets of chunks that can be matched at once are the independent sets of a (transversal) matroid,
  so taking chunks rarest first wherever an alternating path lets one in gives that, and the most links;
* and of those the cheapest links: each path ends at the cheapest free link that it can reach, which is the
  shortest augmenting path of the assignment whose cost is that of its links.

Of a link's candidates only the d rarest matter where d links are free: in a matching that uses another one,
one of these is left over, since the other links use d - 1 at most.

Algorithm 1 of the paper goes through pairs in random order and never takes a match back: it may leave a link
idle that a matching uses. Which rule makes the shorter schedules is measured in ``docs/tacos.md``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from heuristics.tacos.bitsets import (
    WORD_BITS,
    bit,
    hashed,
    intersection,
    keep_smallest,
    random_below,
    random_element,
    size,
)
from heuristics.tacos.kernel import cheapest_first, leave_to_faster
from heuristics.tacos.state import (
    NEVER,
    Flights,
    Holdings,
    Network,
    Room,
    Sent,
    free_links,
    land,
    next_landing,
    nothing_sent,
    precondition,
    send,
    starve,
    working_room,
)
from topologies.exact import Int32Array, Int64Array

NOBODY = -1
RANDOM_BITS = 32
"""Of a chunk's priority: how rare it is stands above a random number."""


class Bids(NamedTuple):
    """What each of some links can bring to one node.

    Parameters
    ----------
    first
        int64, shape (links + 1,): link j bids first[j] to first[j + 1] - 1.
    chunk
        int64, shape (bids,): those of one link are unlike.
    priority
        int64, shape (bids,): of the chunk; unlike chunks have unlike ones, lower goes first.
    """

    first: Int64Array
    chunk: Int64Array
    priority: Int64Array


@njit(cache=True, nogil=True)
def synthesize(
    network: Network, owner: Int64Array, wait: bool, seed: np.uint64
) -> tuple[Int32Array, Int32Array, Int64Array]:
    """Return the transfers that bring every chunk from its owner to all nodes (chunk, link, start), by start.

    Invariant: after each event, no free link has a chunk that its destination still wants (but for what
    `wait` leaves to faster links).

    Parameters
    ----------
    network
        Strongly connected.
    owner
        int64, shape (chunks,): where each chunk starts.
    wait
        See `TacosOptions`.
    seed
        Of all random choices.
    """
    num_nodes = len(network.in_first) - 1
    held = precondition(num_nodes, owner)
    flights, room = free_links(network), working_room(network, held.have.shape[1], seed)
    sent = nothing_sent(len(owner) * (num_nodes - 1))
    now, count = np.int64(0), len(room.todo)
    while now != NEVER:
        cheapest_first(network, room, count)
        for i in range(count):
            link = room.ordered[i]
            if flights.lands[link] == NEVER and not room.starved[link]:
                match_receiver(network, held, flights, sent, room, link, wait, now)
        now = next_landing(flights)
        if now != NEVER:
            count = land(network, held, flights, room, now)
    made = sent.rows[0]
    return sent.chunk[:made], sent.link[:made], sent.start[:made]


@njit(cache=True)
def match_receiver(
    network: Network,
    held: Holdings,
    flights: Flights,
    sent: Sent,
    room: Room,
    link: int,
    wait: bool,
    now: int,
) -> None:
    """Match all free links into a link's destination that may have something to send."""
    links = _free_in_links(network, flights, room, network.target[link])
    bids = _bids(network, held, flights, room, links, wait, now)
    chosen = most_links(bids)
    for j in range(len(links)):
        if chosen[j] == NOBODY:
            starve(network, room, links[j])
        else:
            send(network, held, flights, sent, links[j], chosen[j], now)


@njit(cache=True)
def _free_in_links(network: Network, flights: Flights, room: Room, node: int) -> Int64Array:
    """Return the free in-links of a node that are not starved, cheapest first, ties at random."""
    begin, end = network.in_first[node], network.in_first[node + 1]
    links, count = np.empty(end - begin, np.int64), 0
    for i in range(begin, end):
        link = network.in_links[i]
        if flights.lands[link] == NEVER and not room.starved[link]:
            place = random_below(room.random, count + 1)
            links[count] = links[place]
            links[place] = link
            count += 1
    links = links[:count]
    return links[np.argsort(network.cost[links], kind="mergesort")]


@njit(cache=True)
def _bids(
    network: Network, held: Holdings, flights: Flights, room: Room, links: Int64Array, wait: bool, now: int
) -> Bids:
    """Return for each link the rarest of what it can bring, at most as many as there are links."""
    salt = np.uint64(random_below(room.random, 2**31))
    first = np.zeros(len(links) + 1, np.int64)
    chunk = np.empty(len(links) ** 2, np.int64)
    priority = np.empty(len(links) ** 2, np.int64)
    rarest = np.empty_like(room.candidates)
    for j in range(len(links)):
        link, count = links[j], first[j]
        source, target = network.source[link], network.target[link]
        total = intersection(held.have[source], held.want[target], room.candidates)
        if total and wait and network.cost[link]:
            leave_to_faster(network, held, flights, room, link, now)
            total = size(room.candidates)
        most = min(first[j] + total, first[j] + len(links))
        level = np.int64(0)  # of the rarest candidates, how many are left
        while count < most:
            if level == 0:
                rarest[:] = room.candidates
                level = keep_smallest(rarest, held.spread, room.trial)
            found = random_element(rarest, level, room.random)
            rarest[found // WORD_BITS] &= ~bit(found)
            room.candidates[found // WORD_BITS] &= ~bit(found)
            chunk[count], priority[count] = found, _priority(held, found, salt)
            count, level = count + 1, level - 1
        first[j + 1] = count
    return Bids(first, chunk[: first[-1]], priority[: first[-1]])


@njit(cache=True)
def _priority(held: Holdings, chunk: int, salt: np.uint64) -> np.int64:
    """Return how many nodes have a chunk or are being sent it, then a random number."""
    spread, w = np.int64(0), chunk // WORD_BITS
    for p in range(len(held.spread)):
        if held.spread[p, w] & bit(chunk):
            spread += 1 << p
    mixed = hashed((salt << np.uint64(RANDOM_BITS)) ^ np.uint64(chunk)) >> np.uint64(RANDOM_BITS)
    return (spread << RANDOM_BITS) + np.int64(mixed)


@njit(cache=True)
def most_links(bids: Bids) -> Int64Array:
    """Return what each link brings in a matching of the most links; -1 for those that bring nothing.

    Of those matchings, one whose chunks have the lowest priorities, compared in order, and of these one whose
    links stand first. Invariant: the chunks matched so far are the first that can be matched at once, and
    their links the first that can bring them.
    """
    links = len(bids.first) - 1
    brings = np.full(links, NOBODY)
    bids_by_chunk = _by_chunk(bids)
    matched, begin = 0, 0
    while begin < len(bids_by_chunk.bid) and matched < links:
        matched += _let_in(bids, bids_by_chunk, begin, brings)
        begin = bids_by_chunk.after[bids_by_chunk.bid[begin]]
    for j in range(links):
        if brings[j] != NOBODY:
            brings[j] = bids.chunk[brings[j]]
    return brings


class _ByChunk(NamedTuple):
    """Bids by priority; those for one chunk stand together.

    Parameters
    ----------
    bid
        int64, shape (bids,): in that order.
    begin, after
        int64, shape (bids,): where in that order the bids for the same chunk begin and end, of each bid.
    link
        int64, shape (bids,): whose each bid is.
    """

    bid: Int64Array
    begin: Int64Array
    after: Int64Array
    link: Int64Array


@njit(cache=True)
def _by_chunk(bids: Bids) -> _ByChunk:
    order = np.argsort(bids.chunk, kind="mergesort")
    order = order[np.argsort(bids.priority[order], kind="mergesort")]
    begin, after = np.empty_like(order), np.empty_like(order)
    start = 0
    for place in range(len(order)):
        if bids.chunk[order[place]] != bids.chunk[order[start]]:
            start = place
        begin[order[place]] = start
        for same in range(start, place + 1):
            after[order[same]] = place + 1
    link = np.empty_like(order)
    for j in range(len(bids.first) - 1):
        link[bids.first[j] : bids.first[j + 1]] = j
    return _ByChunk(order, begin, after, link)


@njit(cache=True)
def _let_in(bids: Bids, by: _ByChunk, begin: int, brings: Int64Array) -> int:
    """Match the chunk whose bids begin there, if an alternating path ends at a free link; return 1 if so.

    `brings` is the bid that each link is matched by. Of the links at which a path ends, the first is taken.
    """
    links = len(brings)
    via, before = np.full(links, NOBODY), np.full(links, NOBODY)
    queue, head, length = np.empty(links + 1, np.int64), 0, 1
    queue[0] = NOBODY  # stands for the chunk itself, links for the chunks that they bring
    while head < length:
        link, head = queue[head], head + 1
        place = begin if link == NOBODY else by.begin[brings[link]]
        for i in range(place, by.after[by.bid[place]]):
            other = by.link[by.bid[i]]
            if via[other] == NOBODY:
                via[other], before[other] = by.bid[i], link
                if brings[other] != NOBODY:
                    queue[length], length = other, length + 1
    for last in range(links):
        if via[last] != NOBODY and brings[last] == NOBODY:
            link = np.int64(last)
            while link != NOBODY:
                brings[link] = via[link]
                link = before[link]
            return 1
    return 0

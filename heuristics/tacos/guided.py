"""Link-chunk matching guided by distance, for chunks that must pass through ranks which do not want them.

Gather, scatter, all-to-all and collectives over groups of the ranks: the papers' future work and section VI-E
of the 2023 version. A *goal* is a chunk and a node that must get it. Its *gap* is the least time that the
chunk still needs to that node, over the cheapest route from a node that has it or is being sent it. A link
may carry a chunk to a node that narrows one of its gaps; the chunk with the widest such gap goes first. So
gaps only shrink, and until all are closed some link on a cheapest route can narrow one.

A copy that another one overtakes is of no use in the end: transfers from which no goal is reached are
dropped, so that what is left of each chunk is a tree from its start to its goals, and has a reverse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from heuristics.tacos.bitsets import WORD_BITS, Words, bit, first_element, leaf, random_below
from heuristics.tacos.kernel import cheapest_first
from heuristics.tacos.state import (
    NEVER,
    Holdings,
    Network,
    Room,
    free_links,
    land,
    next_landing,
    nothing_sent,
    precondition,
    send,
    starve,
    working_room,
)
from topologies.exact import BoolArray, Int32Array, Int64Array

NOTHING = np.int64(-1)


class Goals(NamedTuple):
    """Who must get what.

    Parameters
    ----------
    first
        int64, shape (chunks + 1,): the goals of chunk c are first[c] to first[c + 1] - 1.
    node
        int32, shape (goals,): none is where the chunk starts.
    """

    first: Int64Array
    node: Int32Array


class _Guide(NamedTuple):
    """How far all is from its goals.

    Parameters
    ----------
    distance
        int64, shape (nodes, nodes): ticks over the cheapest route to the first from the second.
    gap
        int64, shape (goals,).
    unmet
        int32, shape (chunks,): how many gaps are not closed.
    open
        The set of the chunks with such a gap.
    """

    distance: Int64Array
    gap: Int64Array
    unmet: Int32Array
    open: Words


@njit(cache=True, nogil=True)
def synthesize(
    network: Network, start: Int64Array, goals: Goals, seed: np.uint64
) -> tuple[Int32Array, Int32Array, Int64Array]:
    """Return transfers that bring every chunk from its start to its goals (chunk, link, start), by start.

    Invariant: at each event, a chunk is within its gap of each of its goals.

    Parameters
    ----------
    network
        Strongly connected.
    start
        int64, shape (chunks,): where each chunk starts.
    goals
        Who must get what.
    seed
        Of all random choices.
    """
    num_nodes = len(network.in_first) - 1
    held = precondition(num_nodes, start)
    guide = _guide(network, start, goals, held.have.shape[1])
    flights, room = free_links(network), working_room(network, held.have.shape[1], seed)
    sent = nothing_sent(len(start) * (num_nodes - 1))
    now, count = np.int64(0), len(room.todo)
    while now != NEVER:
        cheapest_first(network, room, count)
        for i in range(count):
            link = room.ordered[i]
            chunk = widest_gap(network, held, goals, guide, room, link)
            if chunk == NOTHING:
                starve(network, room, link)
            else:
                approach(goals, guide, chunk, network.target[link])
                send(network, held, flights, sent, link, chunk, now)
                if goals.first[chunk + 1] - goals.first[chunk] == 1:  # what stays behind is of no more use
                    held.have[network.source[link], chunk // WORD_BITS] &= ~bit(chunk)
        now = next_landing(flights)
        if now != NEVER:
            count = land(network, held, flights, room, now)
    made = sent.rows[0]
    needed = useful(network, goals, sent.chunk[:made], sent.link[:made])
    return sent.chunk[:made][needed], sent.link[:made][needed], sent.start[:made][needed]


@njit(cache=True)
def _guide(network: Network, start: Int64Array, goals: Goals, words: int) -> _Guide:
    distance = distances(network)
    gap = np.empty(len(goals.node), np.int64)
    unmet = np.zeros(len(start), np.int32)
    unfinished = np.zeros(words, np.uint64)
    for chunk in range(len(start)):
        for goal in range(goals.first[chunk], goals.first[chunk + 1]):
            gap[goal] = distance[goals.node[goal], start[chunk]]
            unmet[chunk] += 1
            unfinished[chunk // WORD_BITS] |= bit(chunk)
    return _Guide(distance, gap, unmet, unfinished)


@njit(cache=True)
def distances(network: Network) -> Int64Array:
    """Return the least ticks to each node from each other, by relaxing links until none shortens a route."""
    num_nodes = len(network.in_first) - 1
    distance = np.full((num_nodes, num_nodes), NEVER)
    queue, queued = np.empty(num_nodes, np.int64), np.zeros(num_nodes, np.bool_)
    for target in range(num_nodes):
        to_target = distance[target]
        to_target[target] = 0
        queue[0], head, length = target, 0, 1
        while length:
            node = queue[head]
            head, length, queued[node] = (head + 1) % num_nodes, length - 1, False
            for i in range(network.in_first[node], network.in_first[node + 1]):
                link = network.in_links[i]
                before = network.source[link]
                through = to_target[node] + network.duration[network.cost[link]]
                if through < to_target[before]:
                    to_target[before] = through
                    if not queued[before]:
                        queue[(head + length) % num_nodes] = before
                        length, queued[before] = length + 1, True
    return distance


@leaf
def widest_gap(
    network: Network, held: Holdings, goals: Goals, guide: _Guide, room: Room, link: int
) -> np.int64:
    """Return the chunk with the widest gap that a link can narrow, ties uniform; -1 for none."""
    have, lacks = held.have[network.source[link]], held.want[network.target[link]]
    found, widest, ties = NOTHING, np.int64(0), 0
    for w in range(len(have)):
        word = have[w] & lacks[w] & guide.open[w]
        while word:
            chunk = w * WORD_BITS + first_element(word)
            gap = narrowed(goals, guide, chunk, network.target[link])
            if gap > widest:
                widest, ties = gap, 0
            if gap and gap == widest:
                ties += 1
                if random_below(room.random, ties) == 0:
                    found = chunk
            word &= word - np.uint64(1)
    return found


@leaf
def narrowed(goals: Goals, guide: _Guide, chunk: int, node: int) -> np.int64:
    """Return the widest gap of a chunk that would shrink if the node got it; 0 for none."""
    widest = np.int64(0)
    for goal in range(goals.first[chunk], goals.first[chunk + 1]):
        if guide.gap[goal] > widest and guide.distance[goals.node[goal], node] < guide.gap[goal]:
            widest = guide.gap[goal]
    return widest


@leaf
def approach(goals: Goals, guide: _Guide, chunk: int, node: int) -> None:
    """Narrow the gaps of a chunk that is now sent to a node."""
    for goal in range(goals.first[chunk], goals.first[chunk + 1]):
        from_here = guide.distance[goals.node[goal], node]
        if from_here < guide.gap[goal]:
            guide.gap[goal] = from_here
            if from_here == 0:
                guide.unmet[chunk] -= 1
    if guide.unmet[chunk] == 0:
        guide.open[chunk // WORD_BITS] &= ~bit(chunk)


@njit(cache=True)
def useful(network: Network, goals: Goals, chunk: Int32Array, link: Int32Array) -> BoolArray:
    """Return which transfers (by start) lead to a goal, from the last one back."""
    num_nodes, words = len(network.in_first) - 1, (len(goals.first) + WORD_BITS - 1) // WORD_BITS
    needed = np.zeros((num_nodes, words), np.uint64)
    for c in range(len(goals.first) - 1):
        for goal in range(goals.first[c], goals.first[c + 1]):
            needed[goals.node[goal], c // WORD_BITS] |= bit(c)
    kept = np.zeros(len(chunk), np.bool_)
    for row in range(len(chunk) - 1, -1, -1):
        w = chunk[row] // WORD_BITS
        if needed[network.target[link[row]], w] & bit(chunk[row]):
            kept[row] = True
            needed[network.source[link[row]], w] |= bit(chunk[row])
    return kept

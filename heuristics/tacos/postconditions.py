"""Algorithm 1 of TACOS as printed: unsatisfied postconditions in random order, each matched to a link."""

from __future__ import annotations

import numpy as np
from numba import njit

from heuristics.tacos.bitsets import WORD_BITS, bit, leaf, random_below, shuffle
from heuristics.tacos.state import NEVER, Flights, Holdings, Network, Room, Sent, send
from topologies.exact import Int64Array


@njit(cache=True)
def unmet_postconditions(num_nodes: int, owner: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return all (destination, chunk) pairs that the precondition does not meet, and how many.

    A pair is the number chunk * nodes + destination; the count is an array of one, as it will shrink.
    """
    pairs = np.empty(len(owner) * (num_nodes - 1), np.int64)
    count = 0
    for chunk in range(len(owner)):
        for node in range(num_nodes):
            if node != owner[chunk]:
                pairs[count] = chunk * num_nodes + node
                count += 1
    return pairs, np.full(1, count)


@leaf
def match_postconditions(
    network: Network,
    held: Holdings,
    flights: Flights,
    sent: Sent,
    room: Room,
    unmet: tuple[Int64Array, Int64Array],
    now: int,
) -> None:
    """Match each unmet pair, in random order, to a free link whose source has the chunk; drop the matched."""
    pairs, count = unmet
    num_nodes = len(held.have)
    shuffle(pairs, count[0], room.random)
    kept = 0
    for i in range(count[0]):
        chunk, node = pairs[i] // num_nodes, pairs[i] % num_nodes
        link = cheapest_provider(network, held, flights, room, node, chunk)
        if link >= 0:
            send(network, held, flights, sent, link, chunk, now)
        else:
            pairs[kept] = pairs[i]
            kept += 1
    count[0] = kept


@leaf
def cheapest_provider(
    network: Network, held: Holdings, flights: Flights, room: Room, node: int, chunk: int
) -> int:
    """Return a free in-link of least cost whose source has the chunk, ties uniform; -1 for none."""
    found, ties, least = -1, 0, len(network.duration)
    for i in range(network.in_first[node], network.in_first[node + 1]):
        link = network.in_links[i]
        if flights.lands[link] != NEVER or network.cost[link] > least:
            continue
        if not held.have[network.source[link], chunk // WORD_BITS] & bit(chunk):
            continue
        if network.cost[link] < least:
            least, ties = network.cost[link], 0
        ties += 1
        if random_below(room.random, ties) == 0:
            found = link
    return found

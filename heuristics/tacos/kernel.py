"""Algorithm 2 of TACOS on bitsets: link-chunk matching, event by event, and the choice of a chunk for a link.

The time-expanded network is never built: between two arrivals nothing changes, so time jumps from arrival to
arrival. In a homogeneous network all links of a round arrive together and the events are the paper's time
spans (sections IV-C to IV-E); in a heterogeneous one an event is what some of the links bring (IV-F).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from heuristics.tacos.bitsets import (
    add_saturating,
    intersection,
    keep_smallest,
    leaf,
    random_element,
    shuffle,
    size,
)
from heuristics.tacos.postconditions import match_postconditions, unmet_postconditions
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

UNIFORM, RAREST, SCARCEST, PAPER = range(4)
"""How a link and a chunk are matched; `TacosOptions.pick` says what each means."""


@njit(cache=True, nogil=True)
def synthesize(
    network: Network, owner: Int64Array, pick: int, wait: bool, seed: np.uint64
) -> tuple[Int32Array, Int32Array, Int64Array]:
    """Return the transfers that bring every chunk from its owner to all nodes (chunk, link, start), by start.

    Invariant: at each event, every chunk is at a node, on its way to it, or wanted by it.

    Parameters
    ----------
    network
        Strongly connected.
    owner
        int64, shape (chunks,): where each chunk starts.
    pick, wait
        The rule; see `TacosOptions`.
    seed
        Of all random choices.
    """
    num_nodes = len(network.in_first) - 1
    held = precondition(num_nodes, owner)
    flights = free_links(network)
    room = working_room(network, held.have.shape[1], seed)
    sent = nothing_sent(len(owner) * (num_nodes - 1))
    unmet = unmet_postconditions(num_nodes, owner if pick == PAPER else owner[:0])
    now, count = np.int64(0), len(room.todo)
    while now != NEVER:
        if pick == PAPER:
            match_postconditions(network, held, flights, sent, room, unmet, now)
        else:
            match_links(network, held, flights, sent, room, (pick, wait), count, now)
        now = next_landing(flights)
        if now != NEVER:
            count = land(network, held, flights, room, now)
    made = sent.rows[0]
    return sent.chunk[:made], sent.link[:made], sent.start[:made]


@leaf
def match_links(
    network: Network,
    held: Holdings,
    flights: Flights,
    sent: Sent,
    room: Room,
    rule: tuple[int, bool],
    count: int,
    now: int,
) -> None:
    """Give each listed link a chunk that its source has and its destination wants, if there is one."""
    pick, wait = rule
    cheapest_first(network, room, count)
    for i in range(count):
        link = room.ordered[i]
        total = intersection(
            held.have[network.source[link]], held.want[network.target[link]], room.candidates
        )
        if total and wait and network.cost[link]:
            leave_to_faster(network, held, flights, room, link, now)
            total = size(room.candidates)
        if total:
            chunk = choose(network, held, flights, room, link, pick, total)
            send(network, held, flights, sent, link, chunk, now)
        else:
            starve(network, room, link)


@leaf
def cheapest_first(network: Network, room: Room, count: int) -> None:
    """Order the listed links by cost, lowest first (section IV-F), at random within one cost."""
    shuffle(room.todo, count, room.random)
    room.per_class[:] = 0
    for i in range(count):
        room.per_class[network.cost[room.todo[i]] + 1] += 1
    for k in range(len(room.per_class) - 1):
        room.per_class[k + 1] += room.per_class[k]
    for i in range(count):
        link = room.todo[i]
        room.ordered[room.per_class[network.cost[link]]] = link
        room.per_class[network.cost[link]] += 1


@leaf
def leave_to_faster(
    network: Network, held: Holdings, flights: Flights, room: Room, link: int, now: int
) -> None:
    """Drop the candidates that cheaper in-links of the destination will bring before this link could.

    Only if those links have room, until this one would land, for everything that the destination still wants;
    then each chunk that one of their sources has, or is being sent, is left to it. This is what the published
    chunk replacement (2023 version, IV-F) is for, without sending what is not yet there. Nothing is left for
    ever: of the links that have a wanted chunk, the cheapest has nobody to leave it to.
    """
    target, mine = network.target[link], network.cost[link]
    landing = now + network.duration[mine]
    capacity = 0
    for i in range(network.in_first[target], network.in_first[target + 1]):
        other = network.in_links[i]
        if network.cost[other] < mine:
            free_at = now if flights.lands[other] == NEVER else flights.lands[other]
            capacity += max(0, landing - free_at) // network.duration[network.cost[other]]
    if capacity < size(held.want[target]):
        return
    for i in range(network.in_first[target], network.in_first[target + 1]):
        other = network.in_links[i]
        if network.cost[other] < mine:
            without = held.want[network.source[other]]
            for w in range(len(without)):
                room.candidates[w] &= without[w]


@leaf
def choose(
    network: Network, held: Holdings, flights: Flights, room: Room, link: int, pick: int, total: np.int64
) -> np.int64:
    """Return one of the `total` candidates for a link, by the rule `pick`, ties at random."""
    if total > 1 and pick == RAREST:
        total = keep_smallest(room.candidates, held.spread, room.trial)
    if total > 1 and pick != UNIFORM:
        count_ways_in(network, held, flights, room, link)
        total = keep_smallest(room.candidates, room.ways, room.trial)
    if total > 1 and pick == SCARCEST:
        total = keep_smallest(room.candidates, held.spread, room.trial)
    return random_element(room.candidates, total, room.random)


@leaf
def count_ways_in(network: Network, held: Holdings, flights: Flights, room: Room, link: int) -> None:
    """Count, for each chunk, the other in-links of the destination whose source has it, as none, one or more.

    The upper two planes count the links that are still free, the lower two all of them: a chunk that only
    this link can bring now, or that only it can bring at all, had better take it; what others can bring as
    well can still fill those.
    """
    target = network.target[link]
    room.ways[:] = 0
    for i in range(network.in_first[target], network.in_first[target + 1]):
        other = network.in_links[i]
        if other == link:
            continue
        have = held.have[network.source[other]]
        add_saturating(room.ways[0], room.ways[1], have)
        if flights.lands[other] == NEVER:
            add_saturating(room.ways[2], room.ways[3], have)

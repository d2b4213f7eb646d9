"""The state between events, for links of any durations: what nodes have, want and receive, and links carry.

The matching rules on this state send with `send`. A link without anything to send is starved with `starve`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.heuristics.tacos.bitsets import WORD_BITS, Planes, Words, bit, increment, shuffle
from tutti.heuristics.tacos.event_loop import NEVER, MatchedTransfers, clock, plays, run
from tutti.heuristics.tacos.network import TacosNetwork
from tutti.topologies.exact import BoolArray, Int64Array
from tutti.topologies.kernels import kernel, leaf

Sets = npt.NDArray[np.uint64]
"""uint64, shape (nodes, words): a set of chunks a node."""


class Synthesis(NamedTuple):
    """A schedule in the making, at one moment.

    The transfers on the links of each class are a linked list in the order of their arrival, since all of
    them last equally long. Links without anything to send are *starved*: they are matched again only when
    something new reaches their source.

    Parameters
    ----------
    network
        The network of the schedule.
    have, want
        uint64, shape (nodes, words): the chunks of each node, disjoint; one in neither is on its way to the
        node.
    spread
        Counter planes: the number of nodes that have each chunk or are being sent it.
    arrival, carries
        int64, shape (links,): when the link's transfer arrives, `NEVER` on a free link, and its chunk.
    after, before
        int64, shape (links + classes,): the neighbours of each link in the list of its class. Place links + k
        is both ends of class k's list, and its own neighbour if nothing of the class is on its way.
    held
        uint64, shape (links, words): what the source of each busy link had when the transfer began; shape
        (0, words) if no chunk is ever replaced.
    listed, cheapest_first
        int64, shape (links,): the links that may have something to send at this event, and the same by cost.
    per_class
        int64, shape (classes + 1,): where each class begins among those by cost.
    starved, starving
        bool, shape (links,), and shape (nodes,): whether a link out of the node is starved.
    candidates, trial
        Sets of chunks, as space for computations.
    links_in
        Planes of counts: the links into a destination that could bring each chunk.
    sent, rows
        The transfers that have arrived, with space for all; and int64, shape (1,): their number.
    random
        The state of the random numbers.
    """

    network: TacosNetwork
    have: Sets
    want: Sets
    spread: Planes
    arrival: Int64Array
    carries: Int64Array
    after: Int64Array
    before: Int64Array
    held: Sets
    listed: Int64Array
    cheapest_first: Int64Array
    per_class: Int64Array
    starved: BoolArray
    starving: BoolArray
    candidates: Words
    trial: Words
    links_in: Planes
    sent: MatchedTransfers
    rows: Int64Array
    random: Words


def synthesize(
    network: TacosNetwork, start: Int64Array, rule: Any, seed: np.uint64, replace: bool = False
) -> MatchedTransfers:
    """Return the transfers that a rule makes until nothing is on its way.

    Invariant: at each event, every chunk is at a node, on its way to it, or wanted by it.

    Parameters
    ----------
    network
        Strongly connected.
    start
        int64, shape (chunks,): the node at which each chunk starts.
    rule
        The rule that is matched at an event; it may be written to.
    seed
        The seed of all random choices.
    replace
        Whether the rule replaces chunks that are on their way.
    """
    made = nothing_sent(network, start, seed, replace)
    run(rule, [made], [clock(listed=len(network.source))])
    return by_start(made)


def by_start(made: Synthesis) -> MatchedTransfers:
    """Return the transfers that have arrived, by start and, at equal starts, by the cost of the link."""
    sent = made.sent
    rows: Any = slice(int(made.rows[0]))
    if len(made.network.duration) > 1:  # else transfers arrive in the order of their starts
        rows = np.argsort(sent.start[rows], kind="stable")
    return MatchedTransfers(sent.chunk[rows], sent.link[rows], sent.start[rows])


@kernel(light=1)
def nothing_sent(
    network: TacosNetwork, start: Int64Array, seed: np.uint64, replace: bool = False
) -> Synthesis:
    """Return the moment 0: chunk c is at node start[c] and wanted by all others; all links are listed."""
    links, classes, nodes = len(network.source), len(network.duration), len(network.in_first) - 1
    words, bits, most = (len(start) + WORD_BITS - 1) // WORD_BITS, 1, len(start) * (nodes - 1)
    # `spread` counts the nodes that have each chunk, in binary: row i has digit i of all chunks.
    while (1 << bits) <= nodes:
        bits += 1
    have, spread = np.zeros((nodes, words), np.uint64), np.zeros((bits, words), np.uint64)
    for chunk in range(len(start)):
        have[start[chunk], chunk // WORD_BITS] |= bit(chunk)
        spread[0, chunk // WORD_BITS] |= bit(chunk)
    return Synthesis(
        network,
        have,
        ~have & spread[0],
        spread,
        np.full(links, NEVER),
        np.zeros(links, np.int64),
        np.arange(links + classes),
        np.arange(links + classes),
        np.empty((links if replace else 0, words), np.uint64),
        np.arange(links),
        np.empty(links, np.int64),
        np.empty(classes + 1, np.int64),
        np.zeros(links, np.bool_),
        np.zeros(nodes, np.bool_),
        np.empty(words, np.uint64),
        np.empty(words, np.uint64),
        np.empty((4, words), np.uint64),
        MatchedTransfers(np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int64)),
        np.zeros(1, np.int64),
        np.full(1, seed),
    )


@leaf
def send(made: Synthesis, link: int, chunk: int, now: int) -> None:
    """Start a transfer: a link-chunk match (Algorithm 1, "mark link-chunk match"; Fig. 8c)."""
    promise(made, made.network.target[link], chunk)
    occupy(made, link, chunk, now)


@leaf
def promise(made: Synthesis, node: int, chunk: int) -> None:
    """Note that a node is being sent a chunk: it is no longer wanted, though it is not there yet."""
    made.want[node, chunk // WORD_BITS] &= ~bit(chunk)
    increment(made.spread, chunk)


@leaf
def occupy(made: Synthesis, link: int, chunk: int, now: int) -> None:
    """Let a link carry a chunk, from now on."""
    k = made.network.cost[link]
    made.arrival[link] = now + made.network.duration[k]
    made.carries[link] = chunk
    end = len(made.arrival) + k
    last = made.before[end]
    made.after[last] = made.before[end] = link
    made.before[link], made.after[link] = last, end
    if len(made.held):
        have = made.have[made.network.source[link]]
        for w in range(len(have)):
            made.held[link, w] = have[w]


@leaf
def release(made: Synthesis, link: int) -> None:
    """Let a link carry nothing."""
    made.arrival[link] = NEVER
    before, after = made.before[link], made.after[link]
    made.after[before], made.before[after] = after, before


@leaf
def _deliver(made: Synthesis, now: int) -> int:
    """Deliver the transfers that arrive now; list, and count, the links that may have something to send."""
    listed, sent, links = 0, made.sent, len(made.arrival)
    for end in range(links, len(made.after)):
        duration = made.network.duration[end - links]
        while made.after[end] != end and made.arrival[made.after[end]] == now:
            link, row = made.after[end], made.rows[0]
            release(made, link)
            chunk, node = made.carries[link], made.network.target[link]
            made.have[node, chunk // WORD_BITS] |= bit(chunk)
            sent.chunk[row], sent.link[row], sent.start[row] = chunk, link, now - duration
            made.rows[0] = row + 1
            made.listed[listed] = link
            listed += 1
            if made.starving[node]:
                listed = _list_starved(made, node, listed)
    return listed


@leaf
def _list_starved(made: Synthesis, node: int, listed: int) -> int:
    """List the links out of a node that were starved."""
    network = made.network
    for i in range(network.out_first[node], network.out_first[node + 1]):
        link = network.out_links[i]
        if made.starved[link]:
            made.starved[link] = False
            made.listed[listed] = link
            listed += 1
    made.starving[node] = False
    return listed


@leaf
def _deliver_arrivals(made: Synthesis, now: int) -> tuple[np.int64, int]:
    """Deliver the next arrivals; return their time, and how many links may have something to send then."""
    soonest, links = NEVER, len(made.arrival)
    for end in range(links, len(made.after)):
        if made.after[end] != end:
            soonest = min(soonest, made.arrival[made.after[end]])
    return soonest, _deliver(made, soonest) if soonest != NEVER else 0


matches = partial(plays, deliver=_deliver_arrivals)
"""Returns a decorator: rules of a type, on this state, are matched by the decorated kernel."""


@leaf
def starve(made: Synthesis, link: int) -> None:
    """Note that a link had nothing to send."""
    made.starved[link] = True
    made.starving[made.network.source[link]] = True


@leaf
def order_by_cost(made: Synthesis, listed: int) -> None:
    """Order the listed links by cost, at random within one cost: the cheapest is matched first (IV-F)."""
    cost, begin = made.network.cost, made.per_class
    shuffle(made.listed, listed, made.random)
    begin[:] = 0
    for i in range(listed):
        begin[cost[made.listed[i]] + 1] += 1
    for k in range(len(begin) - 1):
        begin[k + 1] += begin[k]
    for i in range(listed):
        link = made.listed[i]
        made.cheapest_first[begin[cost[link]]] = link
        begin[cost[link]] += 1

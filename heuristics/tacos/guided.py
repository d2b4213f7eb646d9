"""Link-chunk matching guided by distance, for chunks that must pass through ranks which do not want them.

It serves gather, scatter, all-to-all and collectives over groups of the ranks: the papers' future work and
section VI-E of the 2023 version. A *goal* is a chunk and a node that must get it. Its *gap* is the least time
that the chunk still needs to that node, over the cheapest route from a node that has it or is being sent it.
A link may carry a chunk to a node that narrows one of its gaps, and the chunk with the widest such gap is
sent first. So gaps only shrink, and until all are closed some link on a cheapest route can narrow one.

A copy that another one overtakes is useless in the end. So transfers that lead to no goal are dropped. What
is left of each chunk is a tree from its start to its goals, and has a reverse.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np

from tutti.heuristics.tacos import event_state
from tutti.heuristics.tacos.bitsets import NOTHING, WORD_BITS, Words, bit, first_element, random_below
from tutti.heuristics.tacos.event_loop import MatchedTransfers
from tutti.heuristics.tacos.event_state import Synthesis, matches, order_by_cost, send, starve
from tutti.heuristics.tacos.network import TacosNetwork
from tutti.schedules.collective import EVERYONE, Collective
from tutti.schedules.schedule import Chunks
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.shortest_paths import length_distances
from tutti.topologies.kernels import kernel, leaf
from tutti.topologies.topology import Topology


class Goals(NamedTuple):
    """The nodes that must get each chunk.

    Parameters
    ----------
    start
        int64, shape (chunks,): the node at which each chunk starts.
    first
        int64, shape (chunks + 1,): the goals of chunk c are first[c] to first[c + 1] - 1.
    node
        int32, shape (goals,): the node of each goal; the chunk does not start there.
    """

    start: Int64Array
    first: Int64Array
    node: Int32Array


class WidestGap(NamedTuple):
    """The rule: a link narrows the widest gap that it can.

    Parameters
    ----------
    goals
        The nodes that must get each chunk.
    distance
        int64, shape (nodes, nodes): ticks over the cheapest route to the first from the second.
    gap
        int64, shape (goals,).
    unmet
        int64, shape (chunks,): the number of open gaps of each.
    open
        The set of the chunks with such a gap.
    """

    goals: Goals
    distance: Int64Array
    gap: Int64Array
    unmet: Int64Array
    open: Words


def goals_of(what: Collective, chunks: Chunks) -> Goals:
    """Return the nodes that must get each chunk."""
    ends = []
    for group, start, end in zip(what.items.group, what.items.start, what.items.end, strict=True):
        nodes = what.members[group] if end == EVERYONE else (end,)
        ends.append([node for node in nodes if node != start])
    return Goals(
        what.items.start[chunks.item].astype(np.int64),
        offsets_of([len(ends[item]) for item in chunks.item]),
        np.array(list(chain.from_iterable(ends[item] for item in chunks.item)), np.int32),
    )


def distances_to(topology: Topology, network: TacosNetwork) -> Int64Array:
    """Return the least ticks to each node (the first index) from each other, over the links of a network."""
    return np.ascontiguousarray(length_distances(topology, network.duration[network.cost]).T)


def synthesize(
    network: TacosNetwork, goals: Goals, distance: Int64Array, seed: np.uint64
) -> MatchedTransfers:
    """Return transfers that bring every chunk from its start to its goals, by start.

    Invariant: at each event, a chunk is within its gap of each of its goals.

    Parameters
    ----------
    network
        Strongly connected.
    goals
        The nodes that must get each chunk.
    distance
        As `distances_to` returns it.
    seed
        The seed of all random choices.
    """
    counts = np.diff(goals.first)
    gap = distance[goals.node, np.repeat(goals.start, counts)]
    unmet = np.zeros(-(-len(counts) // WORD_BITS) * WORD_BITS, np.bool_)
    unmet[: len(counts)] = counts > 0
    rule = WidestGap(goals, distance, gap, counts, np.packbits(unmet, bitorder="little").view(np.uint64))
    made = event_state.synthesize(network, goals.start, rule, seed)
    needed = useful(network, goals, made)
    return MatchedTransfers(made.chunk[needed], made.link[needed], made.start[needed])


@matches(WidestGap)
@leaf
def match_gaps(rule: WidestGap, made: Synthesis, listed: int, now: int) -> None:
    """Give each listed link the chunk whose widest gap it can narrow, if there is one."""
    network, first = made.network, rule.goals.first
    order_by_cost(made, listed)
    for i in range(listed):
        link = made.cheapest_first[i]
        chunk = widest_gap(rule, made, link)
        if chunk == NOTHING:
            starve(made, link)
            continue
        approach(rule, chunk, network.target[link])
        send(made, link, chunk, now)
        # A chunk of one goal moves on: the copy that stays behind is useless.
        if first[chunk + 1] - first[chunk] == 1:
            made.have[network.source[link], chunk // WORD_BITS] &= ~bit(chunk)


@leaf
def widest_gap(rule: WidestGap, made: Synthesis, link: int) -> np.int64:
    """Return the chunk with the widest gap that a link can narrow, ties uniform; -1 for none."""
    source, target = made.network.source[link], made.network.target[link]
    have, lacks = made.have[source], made.want[target]
    found, widest, ties = NOTHING, np.int64(0), 0
    for w in range(len(have)):
        word = have[w] & lacks[w] & rule.open[w]
        while word:
            chunk = w * WORD_BITS + first_element(word)
            gap = narrowed(rule, chunk, target)
            if gap > widest:
                widest, ties = gap, 0
            if gap and gap == widest:
                ties += 1
                if random_below(made.random, ties) == 0:
                    found = chunk
            word &= word - np.uint64(1)
    return found


@leaf
def narrowed(rule: WidestGap, chunk: int, node: int) -> np.int64:
    """Return the widest gap of a chunk that would shrink if the node got it; 0 for none."""
    widest = np.int64(0)
    for goal in range(rule.goals.first[chunk], rule.goals.first[chunk + 1]):
        if rule.gap[goal] > widest and rule.distance[rule.goals.node[goal], node] < rule.gap[goal]:
            widest = rule.gap[goal]
    return widest


@leaf
def approach(rule: WidestGap, chunk: int, node: int) -> None:
    """Narrow the gaps of a chunk that is now sent to a node."""
    for goal in range(rule.goals.first[chunk], rule.goals.first[chunk + 1]):
        from_here = rule.distance[rule.goals.node[goal], node]
        if from_here < rule.gap[goal]:
            rule.gap[goal] = from_here
            if from_here == 0:
                rule.unmet[chunk] -= 1
    if rule.unmet[chunk] == 0:
        rule.open[chunk // WORD_BITS] &= ~bit(chunk)


@kernel(light=1)
def useful(network: TacosNetwork, goals: Goals, made: MatchedTransfers) -> BoolArray:
    """Return which transfers lead to a goal, from the last one back."""
    num_nodes, words = len(network.in_first) - 1, (len(goals.start) + WORD_BITS - 1) // WORD_BITS
    needed = np.zeros((num_nodes, words), np.uint64)
    for c in range(len(goals.start)):
        for goal in range(goals.first[c], goals.first[c + 1]):
            needed[goals.node[goal], c // WORD_BITS] |= bit(c)
    kept = np.zeros(len(made.chunk), np.bool_)
    for row in range(len(made.chunk) - 1, -1, -1):
        chunk, link = made.chunk[row], made.link[row]
        if needed[network.target[link], chunk // WORD_BITS] & bit(chunk):
            kept[row] = True
            needed[network.source[link], chunk // WORD_BITS] |= bit(chunk)
    return kept

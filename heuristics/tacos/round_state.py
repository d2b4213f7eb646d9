"""The state between rounds: which nodes have which chunks, in blocks of 512, and what the links bring.

All links have one duration, so in a round nodes do not affect each other: each matches its own in-links with
what it lacks and its in-neighbours had before (MICRO 2024, sections IV-C to IV-E). Nodes can be shared out
among threads. In the first step of a round only `picked`, `found`, `missing` and `full` of a thread's own
nodes are written, and in the second one `have` and `begun` of them.

Sets are kept in blocks, a block of all nodes together. In a round all nodes begin with the same random block,
and mostly a few blocks suffice. So a round reads little more of a state of any size than what fits the cache.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.heuristics.tacos.bitsets import NOTHING, WORD_BITS, Words, bit
from tutti.heuristics.tacos.event_loop import NEVER, MatchedTransfers
from tutti.heuristics.tacos.network import TacosNetwork
from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.kernels import kernel, unlocked

Blocks = npt.NDArray[np.uint64]

WIDTH = 8
"""Words of a block, which are one line of the cache."""

NODES_A_THREAD = 2048
"""Least number of nodes for each thread. With fewer, a round is too short to be shared."""

WORD_SHIFT = WORD_BITS.bit_length() - 1
BLOCK_SHIFT = WORD_SHIFT + WIDTH.bit_length() - 1
"""A chunk's number shifted right by these is the number of its word, and of its block. This is faster than a
division, which must allow for numbers below 0."""

LISTED = 16
"""Most words of shared chunks that are noted. A larger value finds more chunks for idle links, but takes
longer."""


class NodeScratch(NamedTuple):
    """Space to match a node in, one a thread.

    Parameters
    ----------
    scarce, shared
        uint64, shape (WIDTH,): the chunks of a block that the node lacks and one in-link, or several, can
        bring.
    place, noted
        shape (LISTED + 1,): int64 words and, uint64, the shared chunks in them.
    seen, best
        int64, shape (most in-links,): the number of scarce chunks found that each in-link could bring, and
        the best bid (`round_matching`).
    """

    scarce: Words
    shared: Words
    place: Int64Array
    noted: Words
    seen: Int64Array
    best: Int64Array


class RoundState(NamedTuple):
    """The chunks of the nodes before a round, as one thread sees them; in-links by node are *slots*.

    Parameters
    ----------
    network
        The network of the schedule.
    thread, begin, end
        The thread's number; its nodes are begin to end - 1.
    source
        int64, shape (slots,): the node that the slot's link comes from.
    have
        uint64, shape (blocks, nodes, WIDTH): the chunks of each node. All nodes have the bits that are no
        chunk.
    begun, full
        uint64, shape (nodes, words): the blocks of which a node has something, and some of those of which it
        has all.
    missing
        int64, shape (nodes,): the number of chunks that each lacks.
    spread
        int32, shape (chunks,): the number of nodes that have each. Each thread has its own.
    picked
        int32, shape (slots,): the chunk that the slot's link brings in this round; -1 for none.
    found
        int64, shape (threads, WIDTH): the number of transfers to each thread's nodes in the round, in column
        0.
    sent
        The transfers by round, then destination.
    rows
        int64, shape (2,): the first free row of `sent`, and the number of transfers that are left.
    scratch
        Space for computations. Each thread has its own.
    """

    network: TacosNetwork
    thread: int
    begin: int
    end: int
    source: Int64Array
    have: Blocks
    begun: Blocks
    full: Blocks
    missing: Int64Array
    spread: Int32Array
    picked: Int32Array
    found: Int64Array
    sent: MatchedTransfers
    rows: Int64Array
    scratch: NodeScratch


def _scratch(network: TacosNetwork) -> NodeScratch:
    """Return space for any node."""
    words, listed = np.empty(WIDTH, np.uint64), np.empty(LISTED + 1, np.int64)
    links = np.empty(int(np.diff(network.in_first).max(initial=1)), np.int64)
    return NodeScratch(words, words.copy(), listed, listed.astype(np.uint64), links, links.copy())


def starting_state(network: TacosNetwork, owner: Int64Array, room: int | None = None) -> RoundState:
    """Return the state before the first round: every chunk is at its owner, and lacked by all others.

    Parameters
    ----------
    network
        Strongly connected, all links being of one duration.
    owner
        int64, shape (chunks,): where each chunk starts.
    room
        The number of transfers for which there is space; None: all.
    """
    nodes, chunks = len(network.in_first) - 1, len(owner)
    blocks = -(-chunks // (WIDTH * WORD_BITS))
    have = np.zeros((blocks, nodes, WIDTH), np.uint64)
    begun = np.zeros((nodes, -(-blocks // WORD_BITS)), np.uint64)
    missing = np.full(nodes, chunks, np.int64)
    _begin(have, begun, missing, owner)
    left = int(missing.sum())
    most = left if room is None else room
    return RoundState(
        network,
        0,
        0,
        nodes,
        network.source[network.in_links],
        have,
        begun,
        np.zeros_like(begun),
        missing,
        np.ones(chunks, np.int32),
        np.full(len(network.in_links), NOTHING, np.int32),
        np.zeros((1, WIDTH), np.int64),
        MatchedTransfers(np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int64)),
        np.array([0, left]),
        _scratch(network),
    )


def threads_for(nodes: int) -> int:
    """Return the number of threads that share this number of nodes."""
    return max(1, min(os.cpu_count() or 1, nodes // NODES_A_THREAD))


def shared_out(state: RoundState, threads: int) -> list[RoundState]:
    """Return the state of each of some threads that share the nodes from now on."""
    bounds = [state.end * thread // threads for thread in range(threads + 1)]
    found = np.zeros((threads, WIDTH), np.int64)
    return [
        state._replace(
            thread=thread,
            begin=bounds[thread],
            end=bounds[thread + 1],
            spread=state.spread.copy(),
            found=found,
            rows=state.rows.copy(),
            scratch=_scratch(state.network),
        )
        for thread in range(threads)
    ]


@kernel(light=1)
def _begin(have: Blocks, begun: Blocks, missing: Int64Array, owner: Int64Array) -> None:
    for beyond in range(len(owner), have.shape[0] * WIDTH * WORD_BITS):
        word = beyond // WORD_BITS
        have[word // WIDTH, :, word % WIDTH] |= bit(beyond)
    for chunk in range(len(owner)):
        word = chunk // WORD_BITS
        have[word // WIDTH, owner[chunk], word % WIDTH] |= bit(chunk)
        begun[owner[chunk], word // WIDTH // WORD_BITS] |= bit(word // WIDTH)
        missing[owner[chunk]] -= 1


@unlocked
def deliver_round(made: RoundState, now: int) -> tuple[np.int64, int]:
    """Let the picked chunks arrive at a thread's nodes; return when, or `NEVER` if nothing is left."""
    network, sent = made.network, made.sent
    # Rows of a round are sorted by destination: this thread's follow those of the threads before it.
    row, total = made.rows[0], np.int64(0)
    for thread in range(len(made.found)):
        if thread < made.thread:
            row += made.found[thread, 0]
        total += made.found[thread, 0]
    for node in range(made.begin, made.end):
        for slot in range(network.in_first[node], network.in_first[node + 1]):
            if made.picked[slot] != NOTHING:
                chunk = made.picked[slot]
                sent.chunk[row], sent.link[row], sent.start[row] = chunk, network.in_links[slot], now
                row += 1
                block = chunk >> BLOCK_SHIFT
                made.have[block, node, (chunk >> WORD_SHIFT) & (WIDTH - 1)] |= bit(chunk)
                made.begun[node, block >> WORD_SHIFT] |= bit(block)
    for slot in range(len(made.picked)):  # all nodes, as each thread has counts of its own
        if made.picked[slot] != NOTHING:
            made.spread[made.picked[slot]] += 1
    made.rows[0] += total
    made.rows[1] -= total
    return now + network.duration[0] if made.rows[1] else NEVER, 0

"""Between rounds: who has what, in blocks of 512 chunks, and what the links bring.

Sets are kept in blocks, a block of all nodes together: in a round all nodes begin with the same block, drawn
at random, and mostly a few blocks give enough, so that of a state of any size a round reads little more than
what fits the cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.heuristics.tacos.bitsets import WORD_BITS, Words, bit, inlined, unlocked
from tutti.heuristics.tacos.network import TacosNetwork
from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.kernels import kernel

Blocks = npt.NDArray[np.uint64]

NOTHING = np.int64(-1)

WIDTH = 8
"""Words of a block: a line of the cache."""

WORD_SHIFT = WORD_BITS.bit_length() - 1
BLOCK_SHIFT = WORD_SHIFT + WIDTH.bit_length() - 1
"""A chunk's number shifted right by these is that of its word, and of its block: faster than dividing, which
has to think of numbers below 0."""

LISTED = 16
"""Words of shared chunks that are noted."""


class RoundState(NamedTuple):
    """The network and who has what, before a round; in-links by node are *slots*.

    Parameters
    ----------
    in_first
        int64, shape (nodes + 1,): the slots of each node.
    source
        int64, shape (slots,): the node that the slot's link comes from.
    have
        uint64, shape (blocks, nodes, WIDTH): what each node has; what is no chunk all have.
    begun, full
        uint64, shape (nodes, words): sets of the blocks of which a node has something, and of some of those
        of which it has all.
    missing
        int64, shape (nodes,): how much each lacks.
    spread
        int32, shape (chunks,): how many nodes have it.
    picked
        int32, shape (slots,): the chunk that the slot's link brings in this round; -1 for none.
    """

    in_first: Int64Array
    source: Int64Array
    have: Blocks
    begun: Blocks
    full: Blocks
    missing: Int64Array
    spread: Int32Array
    picked: Int32Array


class NodeScratch(NamedTuple):
    """Room to match a node in, one a thread.

    Parameters
    ----------
    scarce, shared
        uint64, shape (WIDTH,): of a block, what the node lacks and one in-link, or several, can bring.
    place, noted
        shape (LISTED + 1,): int64 words and, uint64, the shared chunks in them.
    seen, best
        int64, shape (most in-links,): how many scarce chunks each in-link could bring, of those met, and the
        best bid (`round_matching`).
    """

    scarce: Words
    shared: Words
    place: Int64Array
    noted: Words
    seen: Int64Array
    best: Int64Array


def scratch_for(state: RoundState) -> NodeScratch:
    """Return room for any node."""
    words, listed = np.empty(WIDTH, np.uint64), np.empty(LISTED + 1, np.int64)
    links = np.empty(int(np.diff(state.in_first).max(initial=1)), np.int64)
    return NodeScratch(words, words.copy(), listed, listed.astype(np.uint64), links, links.copy())


def starting_state(network: TacosNetwork, owner: Int64Array) -> RoundState:
    """Return the state before the first round: every chunk is at its owner, and lacked by all others."""
    nodes, chunks = len(network.in_first) - 1, len(owner)
    blocks = -(-chunks // (WIDTH * WORD_BITS))
    have = np.zeros((blocks, nodes, WIDTH), np.uint64)
    begun = np.zeros((nodes, -(-blocks // WORD_BITS)), np.uint64)
    missing = np.full(nodes, chunks, np.int64)
    _begin(have, begun, missing, owner)
    source = network.source[network.in_links]
    picked = np.full(len(source), NOTHING, np.int32)
    spread, full = np.ones(chunks, np.int32), np.zeros_like(begun)
    return RoundState(network.in_first, source, have, begun, full, missing, spread, picked)


@kernel
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
def deliver(state: RoundState) -> None:
    """Let what was picked arrive."""
    for node in range(len(state.missing)):
        for slot in range(state.in_first[node], state.in_first[node + 1]):
            if state.picked[slot] != NOTHING:
                _receive(state, node, state.picked[slot])
    _count(state)


@unlocked
def deliver_to(
    state: RoundState,
    begin: int,
    end: int,
    in_links: Int64Array,
    chunk: Int32Array,
    link: Int32Array,
    row: int,
) -> None:
    """Let what was picked arrive at nodes begin to end - 1, as transfers from a row on; count it for all.

    Parameters
    ----------
    in_links
        The link of each slot.
    chunk, link
        Of each transfer.
    """
    for node in range(begin, end):
        for slot in range(state.in_first[node], state.in_first[node + 1]):
            if state.picked[slot] != NOTHING:
                chunk[row], link[row] = state.picked[slot], in_links[slot]
                row += 1
                _receive(state, node, state.picked[slot])
    _count(state)


@inlined
def _receive(state: RoundState, node: int, chunk: int) -> None:
    block = chunk >> BLOCK_SHIFT
    state.have[block, node, (chunk >> WORD_SHIFT) & (WIDTH - 1)] |= bit(chunk)
    state.begun[node, block >> WORD_SHIFT] |= bit(block)


@inlined
def _count(state: RoundState) -> None:
    """Count the nodes that have each chunk: all nodes, as each thread has a count of its own."""
    for slot in range(len(state.picked)):
        if state.picked[slot] != NOTHING:
            state.spread[state.picked[slot]] += 1

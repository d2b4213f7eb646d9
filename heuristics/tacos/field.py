"""What TACOS keeps in rounds: who has what, in blocks of chunks, and what the links bring."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from heuristics.tacos.bitsets import WORD_BITS, Words, bit, unlocked
from heuristics.tacos.state import Network
from topologies.exact import Int32Array, Int64Array

Blocks = npt.NDArray[np.uint64]

NOTHING = np.int64(-1)

SHARE = 1024
"""With fewer nodes a thread, a round is too short to be shared out."""

WIDTH = 8
"""Words of a block: a line of the cache."""

LISTED = 16
"""Words of shared chunks that are noted."""


class Field(NamedTuple):
    """The network and who has what, before a round.

    Parameters
    ----------
    in_first
        int64: the in-links of each node, in CSR form; *slots*.
    source
        int64, shape (slots,): the node that the slot's link comes from.
    have
        uint64, shape (blocks, nodes + 1, WIDTH): what each node has; what is no chunk all have. The node
        after the last has nothing and stands in for missing in-links.
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
    missing: Int64Array
    spread: Int32Array
    picked: Int32Array


class Room(NamedTuple):
    """Room to work in, one a thread.

    Parameters
    ----------
    scarce, shared
        uint64, shape (WIDTH,): of a block, what the node lacks and one in-link, or several, can bring.
    place, noted
        shape (LISTED,): int64 words and, uint64, the shared chunks in them.
    seen
        int64, shape (most in-links,): how many scarce chunks each in-link could bring, of those met.
    """

    scarce: Words
    shared: Words
    place: Int64Array
    noted: Words
    seen: Int64Array


class Key(NamedTuple):
    """What a round is made from: the seed, its number, and who searches well: lacks no more than so many."""

    seed: np.uint64
    turn: np.uint64
    careful: int


def threads_for(nodes: int) -> int:
    """Return how many threads share so many nodes."""
    return max(1, min(os.cpu_count() or 1, nodes // SHARE))


def room_for(in_links: int) -> Room:
    """Return room for nodes of up to so many in-links."""
    words, places = np.empty(WIDTH, np.uint64), np.empty(LISTED, np.int64)
    return Room(
        words, np.empty_like(words), places, np.empty(LISTED, np.uint64), np.empty(in_links, np.int64)
    )


def starting_field(network: Network, owner: Int64Array) -> Field:
    """Return the state before the first round: every chunk is at its owner, and lacked by all others."""
    nodes, chunks = len(network.in_first) - 1, len(owner)
    blocks = -(-chunks // (WIDTH * WORD_BITS))
    have = np.zeros((blocks, nodes + 1, WIDTH), np.uint64)
    missing = np.full(nodes, chunks, np.int64)
    _begin(have, missing, owner)
    source = network.source[network.in_links]
    picked = np.full(len(source), NOTHING, np.int32)
    return Field(network.in_first, source, have, missing, np.ones(chunks, np.int32), picked)


@njit(cache=True)
def _begin(have: Blocks, missing: Int64Array, owner: Int64Array) -> None:
    for beyond in range(len(owner), have.shape[0] * WIDTH * WORD_BITS):
        word = beyond // WORD_BITS
        have[word // WIDTH, :, word % WIDTH] |= bit(beyond)
    for chunk in range(len(owner)):
        word = chunk // WORD_BITS
        have[word // WIDTH, owner[chunk], word % WIDTH] |= bit(chunk)
        missing[owner[chunk]] -= 1


@unlocked
def deliver(field: Field) -> None:
    """Let what was picked arrive."""
    for node in range(len(field.in_first) - 1):
        for slot in range(field.in_first[node], field.in_first[node + 1]):
            brought = field.picked[slot]
            if brought != NOTHING:
                word = brought // WORD_BITS
                field.have[word // WIDTH, node, word % WIDTH] |= bit(brought)
                field.spread[brought] += 1


@unlocked
def record(picked: Int32Array, chunk: Int32Array, slot: Int32Array, row: int) -> int:
    """Write what was picked as transfers from a row on; return the row after them."""
    for i in range(len(picked)):
        if picked[i] != NOTHING:
            chunk[row], slot[row] = picked[i], i
            row += 1
    return row

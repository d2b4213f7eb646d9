"""What TACOS keeps in rounds: who has what, in blocks of chunks, and what the links bring."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from heuristics.tacos.bitsets import WORD_BITS, Words, bit, inlined, unlocked
from heuristics.tacos.state import Network
from topologies.exact import Int32Array, Int64Array

Blocks = npt.NDArray[np.uint64]

NOTHING = np.int64(-1)

SHARE = 1024
"""With fewer nodes a thread, a round is too short to be shared out."""

WIDTH = 8
"""Words of a block: a line of the cache."""

WORD_SHIFT, BLOCK_SHIFT = 6, 9
"""A chunk's number shifted right by these is that of its word, and of its block: faster than dividing, which
has to think of numbers below 0."""

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


class Room(NamedTuple):
    """Room to work in, one a thread.

    Parameters
    ----------
    scarce, shared
        uint64, shape (WIDTH,): of a block, what the node lacks and one in-link, or several, can bring.
    place, noted
        shape (LISTED + 1,): int64 words and, uint64, the shared chunks in them.
    seen, best
        int64, shape (most in-links,): how many scarce chunks each in-link could bring, of those met, and the
        best bid (`receivers`).
    """

    scarce: Words
    shared: Words
    place: Int64Array
    noted: Words
    seen: Int64Array
    best: Int64Array


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
    words, listed = np.empty(WIDTH, np.uint64), np.empty(LISTED + 1, np.int64)
    links = np.empty(in_links, np.int64)
    return Room(words, words.copy(), listed, listed.astype(np.uint64), links, links.copy())


def starting_field(network: Network, owner: Int64Array) -> Field:
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
    return Field(network.in_first, source, have, begun, full, missing, spread, picked)


@njit(cache=True)
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
def deliver(field: Field) -> None:
    """Let what was picked arrive."""
    for node in range(len(field.missing)):
        for slot in range(field.in_first[node], field.in_first[node + 1]):
            if field.picked[slot] != NOTHING:
                _receive(field, node, field.picked[slot])
    _count(field)


@unlocked
def land(
    field: Field, share: tuple[int, int], made: tuple[Int32Array, Int32Array, Int64Array], row: int
) -> None:
    """Let what was picked arrive at some nodes, and write it as transfers from a row on; count it for all.

    `made` is the chunk and the link of each transfer, and the link of each slot.
    """
    chunk, link, in_links = made
    for node in range(share[0], share[1]):
        for slot in range(field.in_first[node], field.in_first[node + 1]):
            if field.picked[slot] != NOTHING:
                chunk[row], link[row] = field.picked[slot], in_links[slot]
                row += 1
                _receive(field, node, field.picked[slot])
    _count(field)


@inlined
def _receive(field: Field, node: int, chunk: int) -> None:
    block = chunk >> BLOCK_SHIFT
    field.have[block, node, (chunk >> WORD_SHIFT) & (WIDTH - 1)] |= bit(chunk)
    field.begun[node, block >> WORD_SHIFT] |= bit(block)


@inlined
def _count(field: Field) -> None:
    """Count the nodes that have each chunk."""
    for slot in range(len(field.picked)):
        if field.picked[slot] != NOTHING:
            field.spread[field.picked[slot]] += 1

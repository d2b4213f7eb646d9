"""Link-chunk matching in rounds, for networks whose links all cost the same: from hundreds of ranks to 10^5.

All transfers of a round arrive together, so a round is a time span of the paper (sections IV-C to IV-E).
In a round nodes do not affect each other: each matches its own in-links with what it lacks and its
in-neighbours had before. So nodes can be shared out among threads, and as the random numbers of a node and
round are a hash of (seed, round, node), the schedule is the same for any number of threads.

A link brings a chunk that no other link into the node can bring this round, if there is one; of those, and
else of all that its source has and the node lacks, it takes the one that fewest nodes have, of the first few
met from a random word of the set on. That is the rule "scarcest" on a sample, with counts as they were
before the round.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from heuristics.tacos.bitsets import WORD_BITS, Words, bit, first_element, hashed, leaf, unlocked
from heuristics.tacos.state import Network
from topologies.exact import Int32Array, Int64Array

Pair = tuple[int, int]

NOTHING = np.int64(-1)
LOOKED_AT = 4
"""Enough to meet the bound, ceil(chunks to receive / in-links) rounds, on all large tori and meshes tried."""

SHARE = 1024
"""With fewer nodes a thread, a round is too short to be shared out."""

BLOCK = 64
"""Words of a set that are looked through at a time: mostly they have candidates enough.

In a round all nodes begin with the same block, drawn at random, so that it stays in the cache.
"""

_ROUND = np.uint64(0xD1342543DE82EF95)
_NODE = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


class Field(NamedTuple):
    """The network and who has what, before a round.

    Parameters
    ----------
    in_first
        int64: the in-links of each node, in CSR form; *slots*.
    source
        int64, shape (slots,): the node that the slot's link comes from.
    have, want
        uint64, shape (nodes, words): what each node has, and lacks.
    missing
        int64, shape (nodes,): how much it lacks.
    spread
        int32, shape (chunks,): how many nodes have it.
    picked
        int32, shape (slots,): the chunk that the slot's link brings in this round; -1 for none.
    """

    in_first: Int64Array
    source: Int64Array
    have: npt.NDArray[np.uint64]
    want: npt.NDArray[np.uint64]
    missing: Int64Array
    spread: Int32Array
    picked: Int32Array


class Room(NamedTuple):
    """Room to work in, one a thread.

    Parameters
    ----------
    scarce, twice
        Sets of chunks: a block of words.
    places
        int64, shape (BLOCK,): words of `scarce` that are not empty.
    """

    scarce: Words
    twice: Words
    places: Int64Array


def synthesize(
    network: Network, owner: Int64Array, seed: np.uint64, threads: int = 1, looked_at: int = LOOKED_AT
) -> tuple[Int32Array, Int32Array, Int64Array]:
    """Return the transfers that bring every chunk from its owner to all nodes, round by round.

    Parameters
    ----------
    network
        Strongly connected, all links being of one cost.
    owner
        int64, shape (chunks,): where each chunk starts.
    seed
        Of all random choices.
    threads
        How many share the nodes of a round; without effect on the result.
    looked_at
        How many candidates a link are compared, at least 1.

    Returns
    -------
    chunk, link
        int32, shape (transfers,): by round, then destination.
    first
        int64, shape (rounds + 1,): the transfers of round r are first[r] to first[r + 1] - 1.
    """
    nodes = len(network.in_first) - 1
    field = _field(network.in_first, network.source[network.in_links], owner)
    chunk = np.empty(len(owner) * (nodes - 1), np.int32)
    slot = np.empty(len(chunk), np.int32)
    shares = [(nodes * i // threads, nodes * (i + 1) // threads) for i in range(threads)]
    rooms = [_room() for _ in shares]
    first = [0]
    with ThreadPoolExecutor(threads) as pool:
        while first[-1] < len(chunk):
            key = seed, np.uint64(len(first)), looked_at
            if threads == 1:
                match_nodes(field, shares[0], rooms[0], key)
            else:
                list(pool.map(match_nodes, repeat(field), shares, rooms, repeat(key)))
            first.append(deliver(field, chunk, slot, first[-1]))
    _to_links(slot, network.in_links)
    return chunk, slot, np.array(first)


@njit(cache=True)
def _to_links(slot: Int32Array, in_links: Int64Array) -> None:
    for row in range(len(slot)):
        slot[row] = in_links[slot[row]]


def _room() -> Room:
    return Room(np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.int64))


@njit(cache=True)
def _field(in_first: Int64Array, source: Int64Array, owner: Int64Array) -> Field:
    """Return the state before the first round: every chunk is at its owner, and lacked by all others."""
    nodes, words = len(in_first) - 1, (len(owner) + WORD_BITS - 1) // WORD_BITS
    have = np.zeros((nodes, words), np.uint64)
    want = np.zeros((nodes, words), np.uint64)
    missing = np.full(nodes, len(owner))
    for chunk in range(len(owner)):
        want[:, chunk // WORD_BITS] |= bit(chunk)
    for chunk in range(len(owner)):
        have[owner[chunk], chunk // WORD_BITS] |= bit(chunk)
        want[owner[chunk], chunk // WORD_BITS] &= ~bit(chunk)
        missing[owner[chunk]] -= 1
    picked = np.full(len(source), NOTHING, np.int32)
    return Field(in_first, source, have, want, missing, np.ones(len(owner), np.int32), picked)


@unlocked
def match_nodes(field: Field, share: Pair, room: Room, key: tuple[np.uint64, np.uint64, int]) -> None:
    """Pick what the in-links of the nodes share[0] to share[1] - 1 bring.

    Invariant: what is picked for a node is no longer wanted by it, and `have` is as before the round.

    Parameters
    ----------
    field
        Of other nodes only `have` and of the network only `spread` is read.
    share
        The nodes.
    room
        Room to work in.
    key
        Seed, round, and how many candidates are compared.
    """
    seed, turn, looked_at = key
    words = field.have.shape[1]
    first = _below(hashed(seed ^ (turn * _ROUND)), (words + BLOCK - 1) // BLOCK)
    width = min(BLOCK, words - first * BLOCK)
    for node in range(share[0], share[1]):
        begin, end = field.in_first[node], field.in_first[node + 1]
        for slot in range(begin, end):
            field.picked[slot] = NOTHING
        if field.missing[node] == 0:
            continue
        random = hashed(seed ^ (turn * _ROUND) ^ (np.uint64(node) * _NODE))
        _match_scarce(field, node, room, (random, first, looked_at))
        slot = begin + _below(hashed(random + _NODE), end - begin)
        for _ in range(end - begin):
            slot = slot + 1 if slot + 1 < end else begin
            if field.picked[slot] == NOTHING and field.missing[node]:
                random = hashed(random + _NODE)
                _pick_any(field, node, slot, first * BLOCK + _below(random, width), looked_at)


@leaf
def _below(random: np.uint64, bound: int) -> np.int64:
    return np.int64(((random >> _HALF) * np.uint64(bound)) >> _HALF)


@leaf
def _match_scarce(field: Field, node: int, room: Room, key: tuple[np.uint64, int, int]) -> None:
    """Give each in-link that alone can bring something the least spread of that.

    Sets are gone through block by block, from the second entry of `key` on, and in a block from a random
    listed word on, until enough candidates a link were met.
    """
    random, block, looked_at = key
    begin, end = field.in_first[node], field.in_first[node + 1]
    words = field.have.shape[1]
    blocks = (words + BLOCK - 1) // BLOCK
    left = looked_at * (end - begin)
    for _ in range(blocks):
        low = block * BLOCK
        count = _list_scarce(field, node, room, (low, min(low + BLOCK, words)))
        if count:
            random = hashed(random + _ROUND)
            left = _pick_scarce(field, node, room, (low, count, _below(random, count)), left)
        if left <= 0:
            break
        block = block + 1 if block + 1 < blocks else 0
    for slot in range(begin, end):
        if field.picked[slot] != NOTHING:
            _take(field, node, field.picked[slot])


@leaf
def _list_scarce(field: Field, node: int, room: Room, span: Pair) -> int:
    """Find what the node lacks and one in-neighbour has; list the words where some is, return how many.

    Only of the words span[0] to span[1] - 1; in `room` they are counted from span[0].
    """
    begin, end = field.in_first[node], field.in_first[node + 1]
    if end - begin == 4:
        _scarce_of_four(field, node, begin, room.scarce, span)
    else:
        _scarce_of_any(field, node, room, span)
    count = 0
    for w in range(span[1] - span[0]):
        room.places[count] = w
        count += room.scarce[w] != np.uint64(0)
    return count


@leaf
def _scarce_of_any(field: Field, node: int, room: Room, span: Pair) -> None:
    """Put into `scarce` what the node lacks and exactly one of its in-neighbours has."""
    begin, end = field.in_first[node], field.in_first[node + 1]
    once, twice, low, width = room.scarce, room.twice, span[0], span[1] - span[0]
    have, want = field.have[field.source[begin]], field.want[node]
    for w in range(width):
        once[w], twice[w] = have[low + w], np.uint64(0)
    for slot in range(begin + 1, end):
        have = field.have[field.source[slot]]
        for w in range(width):
            twice[w] |= once[w] & have[low + w]
            once[w] |= have[low + w]
    for w in range(width):
        once[w] &= want[low + w] & ~twice[w]


@leaf
def _scarce_of_four(field: Field, node: int, slot: int, once: Words, span: Pair) -> None:
    """Do the same for four in-links, the most frequent number, in one pass instead of five."""
    a, b = field.have[field.source[slot]], field.have[field.source[slot + 1]]
    c, d = field.have[field.source[slot + 2]], field.have[field.source[slot + 3]]
    want = field.want[node]
    for w in range(span[0], span[1]):
        odd_ab, odd_cd = a[w] ^ b[w], c[w] ^ d[w]
        once[w - span[0]] = want[w] & (odd_ab ^ odd_cd) & ~((a[w] & b[w]) | (c[w] & d[w]))


@leaf
def _pick_scarce(field: Field, node: int, room: Room, listed: tuple[int, int, int], left: int) -> int:
    """Pick what is least spread for each slot, from the words listed; return what is left of `left`.

    `listed` is the first word of the block, how many words are listed, and the first to look at.
    """
    low, count, at = listed
    begin, end = field.in_first[node], field.in_first[node + 1]
    for _ in range(count):
        w = room.places[at]
        word = room.scarce[w]
        while word:
            brings = begin
            for slot in range(begin + 1, end):
                if field.have[field.source[slot], low + w] & word & (~word + np.uint64(1)):
                    brings = slot
            chunk = (low + w) * WORD_BITS + first_element(word)
            before = field.picked[brings]
            if before == NOTHING or field.spread[chunk] < field.spread[before]:
                field.picked[brings] = chunk
            word &= word - np.uint64(1)
            left -= 1
        if left <= 0:
            break
        at = at + 1 if at + 1 < count else 0
    return left


@leaf
def _take(field: Field, node: int, chunk: int) -> None:
    field.want[node, chunk // WORD_BITS] &= ~bit(chunk)
    field.missing[node] -= 1


@leaf
def _pick_any(field: Field, node: int, slot: int, w: int, looked_at: int) -> None:
    """Give a link the least spread of the first candidates from a word on, if there is any."""
    have, want = field.have[field.source[slot]], field.want[node]
    best, least, seen = NOTHING, np.int32(2**31 - 1), 0
    for _ in range(len(have)):
        word = have[w] & want[w]
        while word and seen < looked_at:
            chunk = w * WORD_BITS + first_element(word)
            if field.spread[chunk] < least:
                best, least = chunk, field.spread[chunk]
            word &= word - np.uint64(1)
            seen += 1
        if seen == looked_at:
            break
        w = w + 1 if w + 1 < len(have) else 0
    if best != NOTHING:
        field.picked[slot] = best
        _take(field, node, best)


@unlocked
def deliver(field: Field, chunk: Int32Array, slot: Int32Array, row: int) -> int:
    """Let what was picked arrive; write the transfers from a row on, and return the row after them."""
    for node in range(len(field.in_first) - 1):
        for i in range(field.in_first[node], field.in_first[node + 1]):
            if field.picked[i] != NOTHING:
                brought = field.picked[i]
                field.have[node, brought // WORD_BITS] |= bit(brought)
                field.spread[brought] += 1
                chunk[row], slot[row] = brought, i
                row += 1
    return row

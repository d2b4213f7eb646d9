"""Link-chunk matching in rounds, for networks whose links all cost the same: from hundreds of ranks to 10^5.

All transfers of a round arrive together, so a round is a time span of the paper (sections IV-C to IV-E).
In a round nodes do not affect each other: each matches its own in-links with what it lacks and its
in-neighbours had before. So nodes can be shared out among threads, and as the random numbers of a node and
round are a hash of (seed, round, node), the schedule is the same for any number of threads, and a synthesis
that was interrupted goes on where it was.

A link brings a chunk that no other link into the node can bring this round (*scarce*), if one is met; else
one that several can (*shared*). Of the first few met it takes the one that fewest nodes have, with counts as
they were before the round.

Sets are kept in blocks of 512 chunks, a block of all nodes together: in a round all nodes begin with the same
block, drawn at random, and mostly a few blocks give enough, so that of a state of any size a round reads
little more than what fits the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import numpy as np
from numba import njit

from heuristics.tacos.bitsets import WORD_BITS, bit, first_element, hashed, inlined, leaf, unlocked
from heuristics.tacos.field import (
    LISTED,
    NOTHING,
    WIDTH,
    Field,
    Key,
    Room,
    deliver,
    record,
    room_for,
    starting_field,
)
from heuristics.tacos.state import Network
from topologies.exact import Int32Array, Int64Array

Pair = tuple[int, int]

CAREFUL = (4, 8)
"""How many candidates a link are compared, and how many blocks are searched for scarce chunks where shared
ones are at hand, near the end of a node's work. With this the bound, ceil(chunks to receive / in-links)
rounds, is met on all large tori and meshes tried."""

QUICK = (2, 1)
"""The same while a node lacks more than `CAREFUL_CHUNKS`."""

CAREFUL_CHUNKS = 256

_ROUND = np.uint64(0xD1342543DE82EF95)
_NODE = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_NONE = np.uint64(0)
_INFINITE = np.int32(2**31 - 1)


def synthesize(
    network: Network, owner: Int64Array, seed: np.uint64, threads: int = 1, careful: int = CAREFUL_CHUNKS
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
    careful
        Nodes that lack no more chunks search well (`CAREFUL`), others quickly.

    Returns
    -------
    chunk, link
        int32, shape (transfers,): by round, then destination.
    first
        int64, shape (rounds + 1,): the transfers of round r are first[r] to first[r + 1] - 1.
    """
    nodes = len(network.in_first) - 1
    field = starting_field(network, owner)
    chunk = np.empty(len(owner) * (nodes - 1), np.int32)
    slot = np.empty(len(chunk), np.int32)
    first = [0]
    for _ in played(field, seed, threads, careful):
        first.append(record(field.picked, chunk, slot, first[-1]))
    _to_links(slot, network.in_links)
    return chunk, slot, np.array(first)


def played(
    field: Field, seed: np.uint64, threads: int = 1, careful: int = CAREFUL_CHUNKS, turn: int = 0
) -> Iterator[int]:
    """Play the rounds after the first `turn`, until nobody lacks anything; yield each round's number, from 1.

    While a round is yielded, `field.picked` says what the links bring in it; it is not delivered yet.
    Parameters as of `synthesize`.
    """
    nodes = len(field.in_first) - 1
    most = int(np.diff(field.in_first).max(initial=1))
    shares = [(nodes * i // threads, nodes * (i + 1) // threads) for i in range(threads)]
    rooms = [room_for(most) for _ in shares]
    with ThreadPoolExecutor(threads) as pool:
        while field.missing.any():
            turn += 1
            key = Key(seed, np.uint64(turn), careful)
            if threads == 1:
                match_nodes(field, shares[0], rooms[0], key)
            else:
                list(pool.map(match_nodes, repeat(field), shares, rooms, repeat(key)))
            yield turn
            deliver(field)


@njit(cache=True)
def _to_links(slot: Int32Array, in_links: Int64Array) -> None:
    for row in range(len(slot)):
        slot[row] = in_links[slot[row]]


@unlocked
def match_nodes(field: Field, share: Pair, room: Room, key: Key) -> None:
    """Pick what the in-links of the nodes share[0] to share[1] - 1 bring.

    Invariant: what is picked for a node is different for all its in-links, lacked by it, and at their
    sources; `have` is not written.

    Parameters
    ----------
    field
        Of other nodes only `have` and of the network only `spread` is read.
    share
        The nodes.
    room
        Room to work in.
    key
        Seed, round, and who searches well.
    """
    turn = key.seed ^ (key.turn * _ROUND)
    first = _below(hashed(turn), field.have.shape[0])
    for node in range(share[0], share[1]):
        begin, end = field.in_first[node], field.in_first[node + 1]
        for slot in range(begin, end):
            field.picked[slot] = NOTHING
        if field.missing[node] == 0:
            continue
        random = hashed(turn ^ (np.uint64(node) * _NODE))
        care = CAREFUL if field.missing[node] <= key.careful else QUICK
        noted = _search(field, node, room, (first, random, care))
        found = 0
        for slot in range(begin, end):
            found += field.picked[slot] != NOTHING
        if found < min(end - begin, field.missing[node]):
            found += _share_out(field, node, room, (noted, random, care[0]))
        if found < min(end - begin, field.missing[node]):
            found += _fill_up(field, node, first)
        field.missing[node] -= found


@leaf
def _below(random: np.uint64, bound: int) -> np.int64:
    return np.int64(((random >> _HALF) * np.uint64(bound)) >> _HALF)


@inlined
def _search(field: Field, node: int, room: Room, key: tuple[int, np.uint64, Pair]) -> int:
    """Pick scarce chunks and note shared ones, block by block; return how many words are noted.

    `key` is the block to begin with, random bits, and one of `CAREFUL` and `QUICK`. The search ends when
    each in-link has been offered so many, or, after the blocks wanted, when as many words of shared chunks as
    in-links are noted.
    """
    block, random, (looked_at, wanted) = key
    begin, end = field.in_first[node], field.in_first[node + 1]
    at = np.int64(random & np.uint64(WIDTH - 1))
    for i in range(end - begin):
        room.seen[i] = 0
    served, noted, searched, blocks = 0, 0, 0, field.have.shape[0]
    while searched < blocks:
        if end - begin <= 4:
            _divide_four(field, block, node, room)
        else:
            _divide(field, block, node, room)
        served += _pick_scarce(field, node, room, (block, at, looked_at))
        if served == end - begin:
            break
        noted = _note_shared(room, block, at, noted)
        searched += 1
        if searched >= wanted and noted >= end - begin:
            break
        block = block + 1 if block + 1 < blocks else 0
    return noted


@inlined
def _divide_four(field: Field, block: int, node: int, room: Room) -> None:
    """Find what the node lacks of a block and one in-neighbour has, and what several of up to four have."""
    begin, links = field.in_first[node], field.in_first[node + 1] - field.in_first[node]
    have, nobody = field.have[block], field.have.shape[1] - 1
    a = have[field.source[begin]]
    b = have[field.source[begin + 1] if links > 1 else nobody]
    c = have[field.source[begin + 2] if links > 2 else nobody]
    d = have[field.source[begin + 3] if links > 3 else nobody]
    mine, scarce, shared = have[node], room.scarce, room.shared
    for w in range(WIDTH):
        one, other = a[w] | b[w], c[w] | d[w]
        several = ((a[w] & b[w]) | (c[w] & d[w]) | (one & other)) & ~mine[w]
        shared[w] = several
        scarce[w] = (one | other) & ~mine[w] & ~several


@inlined
def _divide(field: Field, block: int, node: int, room: Room) -> None:
    """Find the same of any number of in-links."""
    have, scarce, shared = field.have[block], room.scarce, room.shared
    for w in range(WIDTH):
        scarce[w] = shared[w] = _NONE
    for slot in range(field.in_first[node], field.in_first[node + 1]):
        theirs = have[field.source[slot]]
        for w in range(WIDTH):
            shared[w] |= scarce[w] & theirs[w]
            scarce[w] |= theirs[w]
    mine = have[node]
    for w in range(WIDTH):
        shared[w] &= ~mine[w]
        scarce[w] &= ~(mine[w] | shared[w])


@inlined
def _pick_scarce(field: Field, node: int, room: Room, key: tuple[int, int, int]) -> int:
    """Offer the scarce chunks of a block to the in-links; return how many have now seen enough.

    `key` is the block, the word to begin with, and how many candidates are compared.
    """
    block, at, looked_at = key
    begin, end, served = field.in_first[node], field.in_first[node + 1], 0
    have, spread = field.have[block], field.spread
    for i in range(WIDTH):
        w = (at + i) & (WIDTH - 1)
        scarce = room.scarce[w]
        if scarce == _NONE:
            continue
        for slot in range(begin, end):
            word, seen = scarce & have[field.source[slot], w], room.seen[slot - begin]
            if word == _NONE or seen >= looked_at:
                continue
            best = np.int64(field.picked[slot])
            least = _INFINITE if best == NOTHING else spread[best]
            while word != _NONE and seen < looked_at:
                chunk = (block * WIDTH + w) * WORD_BITS + first_element(word)
                if spread[chunk] < least:
                    best, least = chunk, spread[chunk]
                word &= word - _ONE
                seen += 1
            field.picked[slot], room.seen[slot - begin] = best, seen
            served += seen >= looked_at
    return served


@inlined
def _least_spread(
    spread: Int32Array, where: tuple[int, np.uint64], best: int, seen: Pair
) -> tuple[np.int64, np.int64]:
    """Return the least spread of `best` and the chunks of a word, and how many were seen.

    `where` is the number of the word and its chunks; `seen` how many were before and how many may be.
    """
    w, word = where
    count, most = seen
    least = _INFINITE if best == NOTHING else spread[best]
    kept = np.int64(best)
    while word != _NONE and count < most:
        chunk = w * WORD_BITS + first_element(word)
        if spread[chunk] < least:
            kept, least = chunk, spread[chunk]
        word &= word - _ONE
        count += 1
    return kept, np.int64(count)


@inlined
def _note_shared(room: Room, block: int, at: int, noted: int) -> int:
    """Note the words of a block with shared chunks, as far as there is room; return how many are noted."""
    for i in range(WIDTH):
        w = (at + i) & (WIDTH - 1)
        if room.shared[w] != _NONE and noted < LISTED:
            room.place[noted], room.noted[noted] = block * WIDTH + w, room.shared[w]
            noted += 1
    return noted


@inlined
def _share_out(field: Field, node: int, room: Room, key: tuple[int, np.uint64, int]) -> int:
    """Give the in-links that have nothing yet, from a random one on, shared chunks; return to how many.

    `key` is how many words are noted, random bits, and how many candidates are compared.
    """
    words, random, looked_at = key
    begin, end = field.in_first[node], field.in_first[node + 1]
    slot, found = begin + _below(hashed(random + _NODE), end - begin), 0
    for _ in range(end - begin):
        slot = slot + 1 if slot + 1 < end else begin
        best, seen = NOTHING, np.int64(0)
        for i in range(words):
            if field.picked[slot] != NOTHING or seen >= looked_at:
                break
            w = room.place[i]
            word = room.noted[i] & field.have[w // WIDTH, field.source[slot], w % WIDTH]
            best, seen = _least_spread(field.spread, (w, word), best, (seen, looked_at))
        if best != NOTHING:
            field.picked[slot] = best
            found += 1
            for i in range(words):
                if room.place[i] == best // WORD_BITS:
                    room.noted[i] &= ~bit(best)
    return found


@inlined
def _fill_up(field: Field, node: int, first: int) -> int:
    """Give the in-links that still have nothing the first chunk that they can bring; return to how many."""
    found, blocks, words = 0, field.have.shape[0], WIDTH
    for slot in range(field.in_first[node], field.in_first[node + 1]):
        block, tried = first, 0
        while field.picked[slot] == NOTHING and tried < blocks:
            for w in range(words):
                word = field.have[block, field.source[slot], w] & ~field.have[block, node, w]
                while word != _NONE and field.picked[slot] == NOTHING:
                    chunk = (block * WIDTH + w) * WORD_BITS + first_element(word)
                    if not _is_picked(field, node, chunk):
                        field.picked[slot] = chunk
                        found += 1
                    word &= word - _ONE
            block = block + 1 if block + 1 < blocks else 0
            tried += 1
    return found


@inlined
def _is_picked(field: Field, node: int, chunk: int) -> bool:
    picked = False
    for slot in range(field.in_first[node], field.in_first[node + 1]):
        picked |= field.picked[slot] == chunk
    return picked

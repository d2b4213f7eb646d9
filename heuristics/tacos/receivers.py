"""What the in-links of a node bring in a round: the matching of one receiver, of all nodes of a share.

A link brings a chunk that no other link into the node can bring this round (*scarce*), if one is met; else
one that several can (*shared*). Of the first few met it takes the one that fewest nodes have, with counts as
they were before the round.

Sets are kept in blocks of 512 chunks, a block of all nodes together: in a round all nodes begin with the same
block, drawn at random, and mostly a few blocks give enough, so that of a state of any size a round reads
little more than what fits the cache. Blocks of which no in-neighbour has anything, or the node all, are
passed over unread.
"""

from __future__ import annotations

import numpy as np

from heuristics.tacos.bitsets import WORD_BITS, Words, bit, first_element, hashed, inlined, leaf, unlocked
from heuristics.tacos.field import BLOCK_SHIFT, LISTED, NOTHING, WIDTH, WORD_SHIFT, Field, Key, Room

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
_BLOCK = np.uint64(2**WIDTH - 1)
_WIDTH_SHIFT = BLOCK_SHIFT - WORD_SHIFT

_NO_BID = np.int64(2**63 - 1)
_SPREAD, _TURN = 40, 32
_TURNS, _CHUNK = 2 ** (_SPREAD - _TURN) - 1, 2**_TURN - 1
"""Of a bid: the chunk below, above it when it was met, and on top how many nodes have it, less than 2^23."""


@unlocked
def match_nodes(field: Field, share: Pair, room: Room, key: Key) -> np.int64:
    """Pick what the in-links of the nodes share[0] to share[1] - 1 bring; return how many chunks they are.

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
    first, total = _below(hashed(turn), field.have.shape[0]), np.int64(0)
    for node in range(share[0], share[1]):
        begin, end = field.in_first[node], field.in_first[node + 1]
        if field.missing[node] == 0:
            for slot in range(begin, end):
                field.picked[slot] = NOTHING
            continue
        random = hashed(turn ^ (np.uint64(node) * _NODE))
        care = CAREFUL if field.missing[node] <= key.careful else QUICK
        noted = _search(field, node, room, (first, random, care))
        found = 0
        for slot in range(begin, end):
            best = room.best[slot - begin]
            field.picked[slot] = best & _CHUNK if best != _NO_BID else NOTHING
            found += best != _NO_BID
        if found < min(end - begin, field.missing[node]):
            found += _share_out(field, node, room, (noted, random, care[0]))
        if found < min(end - begin, field.missing[node]):
            found += _fill_up(field, node, first)
        field.missing[node] -= found
        total += found
    return total


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
    links, blocks = field.in_first[node + 1] - field.in_first[node], field.have.shape[0]
    at = np.int64(random & np.uint64(WIDTH - 1))
    for i in range(links):
        room.seen[i], room.best[i] = 0, _NO_BID
    noted, passed = 0, 0
    while True:
        useful = _next_useful(field, node, block)
        passed += useful - block
        if useful == blocks and passed < blocks:
            useful = _next_useful(field, node, 0)
            passed += useful
        if passed >= blocks or (passed >= wanted and noted >= links):
            break
        block = useful
        if links <= 4:
            _divide_four(field, block, node, room)
        else:
            _divide(field, block, node, room)
        if _pick_scarce(field, node, room, (block, at, looked_at)) == links:
            break
        before = noted
        noted = _note_shared(room, block, at, noted)
        if noted == before:
            _note_full(field, block, node)
        passed += 1
        block = block + 1 if block + 1 < blocks else 0
    return noted


@inlined
def _next_useful(field: Field, node: int, block: int) -> int:
    """Return the first block from this one on of which the node may lack something that a link can bring."""
    w, words = block >> WORD_SHIFT, field.begun.shape[1]
    skipped = bit(block) - _ONE
    found = field.have.shape[0]
    while w < words:
        useful = _NONE
        for slot in range(field.in_first[node], field.in_first[node + 1]):
            useful |= field.begun[field.source[slot], w]
        useful &= ~(field.full[node, w] | skipped)
        if useful != _NONE:
            found = w * WORD_BITS + first_element(useful)
            break
        w, skipped = w + 1, _NONE
    return found


@inlined
def _divide_four(field: Field, block: int, node: int, room: Room) -> None:
    """Find what the node lacks of a block and one in-neighbour has, and what several of up to four have.

    The node itself stands in for missing in-links: it has nothing that it lacks.
    """
    begin, links = field.in_first[node], field.in_first[node + 1] - field.in_first[node]
    have = field.have[block]
    a = have[field.source[begin]]
    b = have[field.source[begin + 1] if links > 1 else node]
    c = have[field.source[begin + 2] if links > 2 else node]
    d = have[field.source[begin + 3] if links > 3 else node]
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
    """Offer the scarce chunks of a block to the in-links; return how many have seen enough.

    `key` is the block, the word to begin with, and how many candidates are compared.
    """
    block, at, looked_at = key
    begin, links = field.in_first[node], field.in_first[node + 1] - field.in_first[node]
    have, scarce, served = field.have[block], room.scarce, 0
    for link in range(links):
        theirs, seen, best = have[field.source[begin + link]], room.seen[link], room.best[link]
        words = _from(_nonzero(scarce, theirs), at)
        while words != _NONE and seen < looked_at:
            w = (first_element(words) + at) & (WIDTH - 1)
            words &= words - _ONE
            word = scarce[w] & theirs[w]
            while word != _NONE and seen < looked_at:
                chunk = (block * WIDTH + w) * WORD_BITS + first_element(word)
                best = min(best, _bid(field.spread[chunk], seen, chunk))
                word &= word - _ONE
                seen += 1
        room.seen[link], room.best[link] = seen, best
        served += seen >= looked_at
    return served


@inlined
def _nonzero(one: Words, other: Words) -> np.uint64:
    """Return in which words two sets of a block share something, without branches."""
    words = _NONE
    for w in range(WIDTH):
        words |= np.uint64((one[w] & other[w]) != _NONE) << np.uint64(w)
    return words


@inlined
def _from(words: np.uint64, at: int) -> np.uint64:
    """Return the words of a block counted from one on."""
    return ((words >> np.uint64(at)) | (words << np.uint64(WIDTH - at))) & _BLOCK


@inlined
def _bid(spread: int, turn: int, chunk: int) -> np.int64:
    """Return what is least for the chunk that fewest nodes have, and of those for the first met."""
    return (np.int64(spread) << _SPREAD) | (np.int64(turn) << _TURN) | np.int64(chunk)


@inlined
def _note_shared(room: Room, block: int, at: int, noted: int) -> int:
    """Note the words of a block with shared chunks, as far as there is room; return how many are noted."""
    for i in range(WIDTH):
        w = (at + i) & (WIDTH - 1)
        room.place[noted], room.noted[noted] = block * WIDTH + w, room.shared[w]
        noted += int((room.shared[w] != _NONE) & (noted < LISTED))
    return noted


@inlined
def _note_full(field: Field, block: int, node: int) -> None:
    """Note that the node has all of a block, if so."""
    lacks = _NONE
    for w in range(WIDTH):
        lacks |= ~field.have[block, node, w]
    if lacks == _NONE:
        field.full[node, block // WORD_BITS] |= bit(block)


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
        if field.picked[slot] != NOTHING:
            continue
        best, seen, i = _NO_BID, np.int64(0), 0
        while i < words and seen < looked_at:
            w = room.place[i]
            word = room.noted[i] & field.have[w >> _WIDTH_SHIFT, field.source[slot], w & (WIDTH - 1)]
            while word != _NONE and seen < looked_at:
                chunk = w * WORD_BITS + first_element(word)
                best = min(best, _bid(field.spread[chunk], i, chunk))
                word &= word - _ONE
                seen += 1
            i += 1
        if best != _NO_BID:
            field.picked[slot] = best & _CHUNK
            room.noted[(best >> _TURN) & _TURNS] &= ~bit(best & _CHUNK)
            found += 1
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

"""The matching of one receiver in a round, for all nodes of a share: which chunks the in-links bring.

A link brings a chunk that no other link into the node can bring this round (*scarce*), if it finds one; else
one that several can (*shared*). Of the first few that it finds it takes the one that fewest nodes have, with
counts from before the round.

Chunks are searched block by block (`round_state`). Blocks are passed over unread if no in-neighbour has
anything of them, or the node has all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.heuristics.tacos.bitsets import NOTHING, WORD_BITS, Words, below, bit, first_element
from tutti.heuristics.tacos.event_loop import MatchedTransfers, clock, plays, run
from tutti.heuristics.tacos.network import TacosNetwork
from tutti.heuristics.tacos.round_state import (
    BLOCK_SHIFT,
    LISTED,
    WIDTH,
    WORD_SHIFT,
    NodeScratch,
    RoundState,
    deliver_round,
    shared_out,
    starting_state,
)
from tutti.topologies.exact import Int64Array
from tutti.topologies.graphs.symmetry import mixed as hashed
from tutti.topologies.kernels import inlined, unlocked


class Care(NamedTuple):
    """The effort of a search.

    Parameters
    ----------
    candidates
        The number of candidates that are compared for each link.
    blocks
        The number of blocks that are searched for scarce chunks when shared ones are known.
    """

    candidates: int
    blocks: int


CAREFUL, QUICK, CAREFUL_CHUNKS = Care(4, 8), Care(2, 1), 256
"""The effort near the end of a node's work, the effort before, and the number of missing chunks that divides
them. With these values the bound, ceil(chunks to receive / in-links) rounds, is met on all large tori and
meshes tried."""


_ROUND = np.uint64(0xD1342543DE82EF95)
_NODE = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)
_NONE = np.uint64(0)
_BLOCK = np.uint64(2**WIDTH - 1)
_WIDTH_SHIFT = BLOCK_SHIFT - WORD_SHIFT

_NO_BID = np.int64(2**63 - 1)
_SPREAD, _TURN = 40, 32
_TURNS, _CHUNK = 2 ** (_SPREAD - _TURN) - 1, 2**_TURN - 1
"""Bits of a bid: the chunk is lowest, then its turn in the search, then the number of nodes with it, below
2^23."""


class Sampled(NamedTuple):
    """The rule: each node compares a few of the chunks that its in-links can bring.

    Parameters
    ----------
    seed
        The seed of all random choices.
    careful
        Most missing chunks of a node for which it searches well (`CAREFUL`); others search fast. A larger
        value takes longer.
    """

    seed: np.uint64
    careful: int = CAREFUL_CHUNKS


def synthesize(network: TacosNetwork, owner: Int64Array, rule: Sampled, threads: int = 1) -> MatchedTransfers:
    """Return the transfers that bring every chunk from its owner to all nodes, by start.

    Parameters
    ----------
    network
        Strongly connected, all links being of one duration.
    owner
        int64, shape (chunks,): where each chunk starts.
    rule
        The rule, with its seed and the effort of its search.
    threads
        Threads that share the nodes of a round; without effect on the result.
    """
    made = starting_state(network, owner)
    run(rule, shared_out(made, threads), [clock() for _ in range(threads)])
    return made.sent


@plays(Sampled, deliver_round)
@unlocked
def match_nodes(rule: Sampled, state: RoundState, listed: int, now: int) -> None:
    """Pick the chunks that the in-links of a thread's nodes bring.

    Invariant: the chunks picked for a node differ between its in-links, and the node lacks them, but the
    sources have them. `have` is not written. Of other nodes only `have` and `begun` are read.
    """
    network = state.network
    turn = now // network.duration[0] + 1
    mixed = rule.seed ^ (np.uint64(turn) * _ROUND)
    block, total = below(hashed(mixed), state.have.shape[0]), np.int64(0)
    for node in range(state.begin, state.end):
        first, last = network.in_first[node], network.in_first[node + 1]
        if state.missing[node] == 0:
            for slot in range(first, last):
                state.picked[slot] = NOTHING
            continue
        # This hash of (seed, round, node) makes the schedule the same however threads share the nodes.
        random = hashed(mixed ^ (np.uint64(node) * _NODE))
        care = CAREFUL if state.missing[node] <= rule.careful else QUICK
        noted = _search(state, node, state.scratch, block, random, care)
        found = 0
        for slot in range(first, last):
            best = state.scratch.best[slot - first]
            state.picked[slot] = best & _CHUNK if best != _NO_BID else NOTHING
            found += best != _NO_BID
        if found < min(last - first, state.missing[node]):
            found += _share_out(state, node, state.scratch, noted, random, care)
        if found < min(last - first, state.missing[node]):
            found += _fill_up(state, node, block)
        state.missing[node] -= found
        total += found
    state.found[state.thread, 0] = total


@inlined
def _search(
    state: RoundState, node: int, scratch: NodeScratch, block: int, random: np.uint64, care: Care
) -> int:
    """Pick scarce chunks and note shared ones, block by block; return the number of noted words.

    The search ends when each in-link has been offered as many chunks as are compared. After the wanted number
    of blocks it also ends when as many words of shared chunks are noted as there are in-links.
    """
    links, blocks = state.network.in_first[node + 1] - state.network.in_first[node], state.have.shape[0]
    at = np.int64(random & np.uint64(WIDTH - 1))
    for i in range(links):
        scratch.seen[i], scratch.best[i] = 0, _NO_BID
    noted, passed = 0, 0
    while True:
        useful = _next_useful(state, node, block)
        passed += useful - block
        if useful == blocks and passed < blocks:
            useful = _next_useful(state, node, 0)
            passed += useful
        if passed >= blocks or (passed >= care.blocks and noted >= links):
            break
        block = useful
        if links <= 4:
            _divide_four(state, block, node, scratch)
        else:
            _divide(state, block, node, scratch)
        if _pick_scarce(state, node, scratch, block, at, care.candidates) == links:
            break
        before = noted
        noted = _note_shared(scratch, block, at, noted)
        if noted == before:
            lacks = _NONE
            for w in range(WIDTH):
                lacks |= ~state.have[block, node, w]
            if lacks == _NONE:
                state.full[node, block // WORD_BITS] |= bit(block)
        passed += 1
        block = block + 1 if block + 1 < blocks else 0
    return noted


@inlined
def _next_useful(state: RoundState, node: int, block: int) -> int:
    """Return the first block from this one on of which the node may lack something that a link can bring."""
    w, words = block >> WORD_SHIFT, state.begun.shape[1]
    skipped = bit(block) - _ONE
    found = state.have.shape[0]
    while w < words:
        useful = _NONE
        for slot in range(state.network.in_first[node], state.network.in_first[node + 1]):
            useful |= state.begun[state.source[slot], w]
        useful &= ~(state.full[node, w] | skipped)
        if useful != _NONE:
            found = w * WORD_BITS + first_element(useful)
            break
        w, skipped = w + 1, _NONE
    return found


@inlined
def _divide_four(state: RoundState, block: int, node: int, scratch: NodeScratch) -> None:
    """Find the chunks of a block that the node lacks and one in-neighbour has, or several of up to four.

    The node itself replaces missing in-links, as it has nothing that it lacks.
    """
    begin = state.network.in_first[node]
    links = state.network.in_first[node + 1] - begin
    have = state.have[block]
    a = have[state.source[begin]]
    b = have[state.source[begin + 1] if links > 1 else node]
    c = have[state.source[begin + 2] if links > 2 else node]
    d = have[state.source[begin + 3] if links > 3 else node]
    mine, scarce, shared = have[node], scratch.scarce, scratch.shared
    for w in range(WIDTH):
        one, other = a[w] | b[w], c[w] | d[w]
        several = ((a[w] & b[w]) | (c[w] & d[w]) | (one & other)) & ~mine[w]
        shared[w] = several
        scarce[w] = (one | other) & ~mine[w] & ~several


@inlined
def _divide(state: RoundState, block: int, node: int, scratch: NodeScratch) -> None:
    """Find the same for any number of in-links."""
    have, scarce, shared = state.have[block], scratch.scarce, scratch.shared
    for w in range(WIDTH):
        scarce[w] = shared[w] = _NONE
    for slot in range(state.network.in_first[node], state.network.in_first[node + 1]):
        theirs = have[state.source[slot]]
        for w in range(WIDTH):
            shared[w] |= scarce[w] & theirs[w]
            scarce[w] |= theirs[w]
    mine = have[node]
    for w in range(WIDTH):
        shared[w] &= ~mine[w]
        scarce[w] &= ~(mine[w] | shared[w])


@inlined
def _pick_scarce(
    state: RoundState, node: int, scratch: NodeScratch, block: int, at: int, looked_at: int
) -> int:
    """Offer a block's scarce chunks, from word `at` on, to the in-links; return how many have seen enough."""
    begin = state.network.in_first[node]
    links = state.network.in_first[node + 1] - begin
    have, scarce, served = state.have[block], scratch.scarce, 0
    for link in range(links):
        theirs, seen, best = have[state.source[begin + link]], scratch.seen[link], scratch.best[link]
        words = _from(_nonzero(scarce, theirs), at)
        while words != _NONE and seen < looked_at:
            w = (first_element(words) + at) & (WIDTH - 1)
            words &= words - _ONE
            word = scarce[w] & theirs[w]
            while word != _NONE and seen < looked_at:
                chunk = (block * WIDTH + w) * WORD_BITS + first_element(word)
                best = min(best, _bid(state.spread[chunk], seen, chunk))
                word &= word - _ONE
                seen += 1
        scratch.seen[link], scratch.best[link] = seen, best
        served += seen >= looked_at
    return served


@inlined
def _nonzero(one: Words, other: Words) -> np.uint64:
    """Return the words in which two sets of a block have something in common, without branches."""
    words = _NONE
    for w in range(WIDTH):
        words |= np.uint64((one[w] & other[w]) != _NONE) << np.uint64(w)
    return words


@inlined
def _from(words: np.uint64, at: int) -> np.uint64:
    """Return the words of a block from one on, the others after them."""
    return ((words >> np.uint64(at)) | (words << np.uint64(WIDTH - at))) & _BLOCK


@inlined
def _bid(spread: int, turn: int, chunk: int) -> np.int64:
    """Return a number that is least for the chunk that fewest nodes have, then for the first found."""
    return (np.int64(spread) << _SPREAD) | (np.int64(turn) << _TURN) | np.int64(chunk)


@inlined
def _note_shared(scratch: NodeScratch, block: int, at: int, noted: int) -> int:
    """Note the words of a block with shared chunks, as far as there is space; return the number noted."""
    for i in range(WIDTH):
        w = (at + i) & (WIDTH - 1)
        scratch.place[noted], scratch.noted[noted] = block * WIDTH + w, scratch.shared[w]
        noted += int((scratch.shared[w] != _NONE) & (noted < LISTED))
    return noted


@inlined
def _share_out(
    state: RoundState, node: int, scratch: NodeScratch, words: int, random: np.uint64, care: Care
) -> int:
    """Give idle in-links, from a random one on, shared chunks of the noted words; return how many got one."""
    looked_at = care.candidates
    begin, end = state.network.in_first[node], state.network.in_first[node + 1]
    slot, found = begin + below(hashed(random + _NODE), end - begin), 0
    for _ in range(end - begin):
        slot = slot + 1 if slot + 1 < end else begin
        if state.picked[slot] != NOTHING:
            continue
        best, seen, i = _NO_BID, np.int64(0), 0
        while i < words and seen < looked_at:
            w = scratch.place[i]
            word = scratch.noted[i] & state.have[w >> _WIDTH_SHIFT, state.source[slot], w & (WIDTH - 1)]
            while word != _NONE and seen < looked_at:
                chunk = w * WORD_BITS + first_element(word)
                best = min(best, _bid(state.spread[chunk], i, chunk))
                word &= word - _ONE
                seen += 1
            i += 1
        if best != _NO_BID:
            state.picked[slot] = best & _CHUNK
            scratch.noted[(best >> _TURN) & _TURNS] &= ~bit(best & _CHUNK)
            found += 1
    return found


@inlined
def _fill_up(state: RoundState, node: int, first: int) -> int:
    """Give the in-links without a chunk the first chunk that they can bring; return how many got one."""
    found, blocks, words = 0, state.have.shape[0], WIDTH
    for slot in range(state.network.in_first[node], state.network.in_first[node + 1]):
        block, tried = first, 0
        while state.picked[slot] == NOTHING and tried < blocks:
            for w in range(words):
                word = state.have[block, state.source[slot], w] & ~state.have[block, node, w]
                while word != _NONE and state.picked[slot] == NOTHING:
                    chunk = (block * WIDTH + w) * WORD_BITS + first_element(word)
                    if not _is_picked(state, node, chunk):
                        state.picked[slot] = chunk
                        found += 1
                    word &= word - _ONE
            block = block + 1 if block + 1 < blocks else 0
            tried += 1
    return found


@inlined
def _is_picked(state: RoundState, node: int, chunk: int) -> bool:
    picked = False
    for slot in range(state.network.in_first[node], state.network.in_first[node + 1]):
        picked |= state.picked[slot] == chunk
    return picked

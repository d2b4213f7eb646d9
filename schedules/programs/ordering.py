"""The instructions that each instruction waits for, and one order in which all instructions can run.

An instruction waits for the instructions that wrote what it reads, and for those that read or wrote what it
overwrites, as in the replay. Node 2m is the send of move m (or the whole copy); node 2m + 1 is its receive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.schedules.programs.moves import Moves, Places
from tutti.schedules.programs.races import Accesses, conflicts
from tutti.topologies.exact import NONE, BoolArray, FloatArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.heaps import pop_event, push_event
from tutti.topologies.kernels import kernel


class Waits(NamedTuple):
    """The nodes that each node waits for, in CSR form, and the number of readers of each.

    Parameters
    ----------
    begin
        int64, shape (nodes + 1,): see `node`.
    node
        int64: node n waits for node[begin[n]] .. node[begin[n + 1] - 1].
    readers
        int32, shape (nodes,): the number of nodes that read what each node wrote.
    """

    begin: Int64Array
    node: Int64Array
    readers: Int32Array


def waits(moves: Moves) -> Waits:
    """Return the nodes that each node waits for on its rank, in the replay's order."""
    layout = moves.layout

    def units(rank: Int64Array, places: Places) -> Int64Array:
        base = layout.base[rank, np.maximum(places.buffer, 0)]
        return np.where(places.buffer == NONE, NONE, base + places.offset)

    number, nothing = np.arange(len(moves)), np.full(len(moves), NONE)
    read, write, add = (
        units(rank, places)
        for rank, places in (
            (moves.source, moves.read),
            (moves.target, moves.write),
            (moves.target, moves.add),
        )
    )
    sent = moves.source != moves.target
    # A copy reads and writes in one event.
    node = np.concatenate([2 * number, 2 * number[sent] + 1])
    rank = np.concatenate([moves.source, moves.target[sent]])
    turn = np.concatenate([moves.reading, moves.writing[sent]])
    order = np.lexsort((turn, rank))
    begin = np.searchsorted(rank[order], np.arange(moves.collective.num_ranks + 1))
    columns = (
        np.concatenate([read, add[sent]]),
        np.concatenate([nothing, nothing[sent]]),
        np.concatenate([np.where(sent, NONE, write), write[sent]]),
        np.concatenate([moves.length, moves.length[sent]]),
    )
    accesses = Accesses(node[order], *(column[order] for column in columns))
    memory = int(layout.memory.max(initial=0))
    pairs, readers = conflicts(accesses, begin, memory, 2 * len(moves))
    who, whom = pairs.T
    order = np.argsort(who, kind="stable")
    return Waits(offsets_of(np.bincount(who, minlength=2 * len(moves))), whom[order], readers)


class InstructionGraph(NamedTuple):
    """The nodes of the instructions and their messages, as arrays over nodes.

    Parameters
    ----------
    same
        The node whose instruction also does this one: for a fused send its receive, otherwise the node
        itself.
    sends
        The receive at the other end of the node's message, -1 for none.
    fifo
        The FIFO that the node receives from, -1 for none.
    """

    same: Int64Array
    sends: Int64Array
    fifo: Int64Array


class InstructionOrder(NamedTuple):
    """The result of ordering instructions.

    Parameters
    ----------
    nodes
        int64: the nodes that are instructions, earliest first; None if no order was found.
    full
        bool, shape (FIFOs,): whether a message waited for room in the FIFO when no more node could run.
    """

    nodes: Int64Array | None
    full: BoolArray


def in_order(waits: Waits, flow: InstructionGraph, when: FloatArray, depth: int) -> InstructionOrder:
    """Put the nodes that are instructions in an order that respects all waits, the earliest first.

    Each receive comes after its send, the receives of a FIFO are in the order of its sends, and no FIFO ever
    holds more than `depth` messages. Blocks that follow this order never deadlock.
    """
    nodes = len(flow.same)
    who = flow.same[np.repeat(np.arange(nodes), np.diff(waits.begin))]
    whom = flow.same[waits.node]
    other = who != whom
    who, whom = who[other], whom[other]
    pending = np.bincount(who, minlength=nodes) + 2 * (flow.fifo != NONE)
    order = np.argsort(whom, kind="stable")
    begin = offsets_of(np.bincount(whom, minlength=nodes))
    alone = flow.same == np.arange(nodes)
    pending[~alone] = 1  # never ready by itself
    fifos = int(flow.fifo.max(initial=NONE)) + 1
    room = offsets_of(np.bincount(flow.fifo[flow.fifo != NONE], minlength=fifos))
    done, held = _in_order(pending, begin, who[order], flow, when, depth, room)
    return InstructionOrder(done if len(done) == int(alone.sum()) else None, held > 0)


@kernel
def _in_order(
    pending: Int64Array,
    begin: Int64Array,
    waiting: Int64Array,
    flow: InstructionGraph,
    when: FloatArray,
    depth: int,
    room: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """Pop nodes that wait for nothing, the earliest first; nodes that wait in a cycle are left out.

    Also return, for each FIFO, the number of nodes that wait for room in it. They are a heap in
    waits_for_room[room[f] : room[f + 1]].
    """
    _, sends, fifo = flow
    heap = np.empty(len(pending), dtype=np.int64)
    done = np.empty(len(pending), dtype=np.int64)
    following = np.full(len(pending), NONE, dtype=np.int64)  # the next message in its FIFO
    fifos = len(room) - 1
    tail, inside = np.full(fifos, NONE, dtype=np.int64), np.zeros(fifos, dtype=np.int64)
    waits_for_room, held = np.empty(room[-1], dtype=np.int64), np.zeros(fifos, dtype=np.int64)
    size = length = 0
    for node in range(len(pending)):
        size = _push_if_ready(heap, when, size, node, pending, 0)
    while size > 0:
        node = pop_event(heap, when, size)
        size -= 1
        other = sends[node]
        if other != NONE and inside[fifo[other]] >= depth:
            mine = fifo[other]
            push_event(waits_for_room[room[mine] : room[mine + 1]], when, held[mine], node)
            held[mine] += 1
            continue
        done[length] = node
        length += 1
        for edge in range(begin[node], begin[node + 1]):
            size = _push_if_ready(heap, when, size, waiting[edge], pending, 1)
        if other != NONE:  # the message is under way, at the head of its FIFO if that was empty
            before = tail[fifo[other]]
            if before != NONE:
                following[before] = other
            tail[fifo[other]] = other
            inside[fifo[other]] += 1
            size = _push_if_ready(heap, when, size, other, pending, 2 if before == NONE else 1)
        if fifo[node] != NONE:
            after, mine = following[node], fifo[node]
            inside[mine] -= 1
            if after == NONE:
                tail[mine] = NONE
            else:
                size = _push_if_ready(heap, when, size, after, pending, 1)
            if held[mine] > 0:  # there is room for one message again
                first = pop_event(waits_for_room[room[mine] : room[mine + 1]], when, held[mine])
                held[mine] -= 1
                size = _push_if_ready(heap, when, size, first, pending, 0)
    return done[:length].copy(), held


@kernel
def _push_if_ready(
    heap: Int64Array, when: FloatArray, size: int, node: int, pending: Int64Array, less: int
) -> int:
    """Subtract `less` from a node's pending count, push the node at 0, and return the size of the heap."""
    pending[node] -= less
    if pending[node] != 0:
        return size
    push_event(heap, when, size, node)
    return size + 1


class Listing(NamedTuple):
    """The first instruction of each block, and the first block of each rank."""

    begin: Int64Array
    first_block: Int64Array


def needed(
    listing: Listing, order: Int64Array, begin: Int64Array, whom: Int64Array, most: int
) -> tuple[Int64Array, Int64Array]:
    """Leave out the waits that earlier steps of the same block or other waits imply.

    Parameters
    ----------
    listing
        The blocks.
    order
        int64, shape (instructions,): instruction numbers, rank by rank, in an order that respects waits.
    begin, whom
        int64: instruction i waits for whom[begin[i]] .. whom[begin[i + 1] - 1].
    most
        For a rank with more steps times blocks, each wait is compared only with its instruction's others.
    """
    block = np.repeat(np.arange(len(listing.begin) - 1), np.diff(listing.begin))
    kept = np.ones(len(whom), dtype=np.bool_)
    _needed(listing, order, block, begin, whom, most, kept)
    who = np.repeat(np.arange(len(begin) - 1), np.diff(begin))[kept]
    whom = whom[kept]
    sort = np.lexsort((whom, who))
    return offsets_of(np.bincount(who, minlength=len(begin) - 1)), whom[sort]


@kernel
def _needed(
    listing: Listing,
    order: Int64Array,
    block: Int64Array,
    begin: Int64Array,
    whom: Int64Array,
    most: int,
    kept: BoolArray,
) -> None:
    first, first_block = listing
    for rank in range(len(first_block) - 1):
        low, blocks = first_block[rank], first_block[rank + 1] - first_block[rank]
        lowest, highest = first[low], first[low + blocks]
        width = blocks if (highest - lowest) * blocks <= most else 0
        # For each instruction and block of the rank, the last step that is done once the instruction is.
        done = np.full((highest - lowest, width), NONE, dtype=np.int64)
        for place in range(lowest, highest):
            one = order[place]
            mine = block[one] - low
            for other in range(width if one > first[block[one]] else 0):
                done[one - lowest, other] = done[one - 1 - lowest, other]
            for wait in range(begin[one], begin[one + 1]):
                kept[wait] = _is_needed(wait, one, begin, whom, block, done, lowest, low)
            for wait in range(begin[one], begin[one + 1]):
                for other in range(width):
                    known = done[whom[wait] - lowest, other]
                    done[one - lowest, other] = max(done[one - lowest, other], known)
            if width > 0:
                done[one - lowest, mine] = one


@kernel
def _is_needed(
    wait: int,
    one: int,
    begin: Int64Array,
    whom: Int64Array,
    block: Int64Array,
    done: Int64Array,
    lowest: int,
    low: int,
) -> bool:
    """Return whether a wait is implied neither by the order of its block nor by another wait."""
    other = whom[wait]
    if block[other] == block[one]:
        return False
    if done.shape[1] > 0 and done[one - lowest, block[other] - low] >= other:
        return False
    for second in range(begin[one], begin[one + 1]):
        if whom[second] == other:  # of two equal waits the first is kept
            if second < wait:
                return False
            continue
        if block[whom[second]] == block[other] and whom[second] > other:
            return False
        if done.shape[1] > 0 and done[whom[second] - lowest, block[other] - low] >= other:
            return False
    return True

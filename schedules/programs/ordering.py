"""The instructions that each instruction waits for, and one order in which all instructions can run.

An instruction waits for the instructions that wrote what it reads, and for those that read or wrote what it
overwrites, as in the replay. Node 2m is the send of move m (or the whole copy); node 2m + 1 is its receive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.schedules.programs.moves import Moves, Places
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

    accesses = (
        units(moves.source, moves.read),
        units(moves.target, moves.write),
        units(moves.target, moves.add),
        moves.length,
    )
    number = np.arange(len(moves))
    sent = moves.source != moves.target
    # A copy reads and writes in one event.
    node = np.concatenate([2 * number, 2 * number[sent] + 1])
    rank = np.concatenate([moves.source, moves.target[sent]])
    turn = np.concatenate([moves.reading, moves.writing[sent]])
    order = np.lexsort((turn, rank))
    begin = np.searchsorted(rank[order], np.arange(moves.collective.num_ranks + 1))
    memory = int(layout.memory.max(initial=0))
    who, whom, readers = _waits(node[order], begin, accesses, sent, memory)
    order = np.argsort(who, kind="stable")
    return Waits(offsets_of(np.bincount(who, minlength=2 * len(moves))), whom[order], readers)


class _LastAccesses(NamedTuple):
    """For each unit of a rank's memory, the last node that wrote it and the last reader since (in `pool`)."""

    writer: Int64Array
    reader: Int64Array


@kernel
def _waits(
    events: Int64Array, begin: Int64Array, accesses: tuple[Int64Array, ...], sent: BoolArray, memory: int
) -> tuple[Int64Array, Int64Array, Int32Array]:
    """Return pairs (the node that waits, the node it waits for), and the number of readers of each node."""
    read, write, add, length = accesses
    state = _LastAccesses(np.empty(memory, dtype=np.int64), np.empty(memory, dtype=np.int64))
    pool = np.empty((1024, 2), dtype=np.int64)  # a node that reads, and the previous entry
    met = np.full(2 * len(length), NONE, dtype=np.int64)
    readers = np.zeros(2 * len(length), dtype=np.int32)
    pairs = np.empty((1024, 2), dtype=np.int64)
    used = 0
    for rank in range(len(begin) - 1):
        for unit in range(memory):
            state.writer[unit], state.reader[unit] = NONE, NONE
        entries = 0
        for event in range(begin[rank], begin[rank + 1]):
            node = events[event]
            move = node // 2
            source = read[move] if node % 2 == 0 else add[move]
            if source != NONE:
                for unit in range(source, source + length[move]):
                    other = state.writer[unit]
                    if other not in (NONE, node) and met[other] != node:
                        met[other] = node
                        readers[other] += 1
                        pairs, used = _append(pairs, used, node, other)
                    pool, entries = _append(pool, entries, node, state.reader[unit])
                    state.reader[unit] = entries - 1
            if node % 2 == 1 or not sent[move]:
                for unit in range(write[move], write[move] + length[move]):
                    pairs, used = _overwrite(state, unit, node, pool, met, pairs, used)
    return pairs[:used, 0].copy(), pairs[:used, 1].copy(), readers


@kernel
def _overwrite(
    state: _LastAccesses,
    unit: int,
    node: int,
    pool: Int64Array,
    met: Int64Array,
    pairs: Int64Array,
    used: int,
) -> tuple[Int64Array, int]:
    """Let a node that overwrites a unit wait for the unit's readers or, if there are none, its writer."""
    entry, other = state.reader[unit], state.writer[unit]
    if entry == NONE and other not in (NONE, node) and met[other] != node:
        met[other] = node
        pairs, used = _append(pairs, used, node, other)
    while entry != NONE:
        other = pool[entry, 0]
        if other != node and met[other] != node:
            met[other] = node
            pairs, used = _append(pairs, used, node, other)
        entry = pool[entry, 1]
    state.writer[unit], state.reader[unit] = node, NONE
    return pairs, used


@kernel
def _append(table: Int64Array, used: int, first: int, second: int) -> tuple[Int64Array, int]:
    """Append a pair to a table, whose length doubles when it is full."""
    if used == len(table):
        table = np.concatenate((table, np.empty_like(table)))
    table[used, 0], table[used, 1] = first, second
    return table, used + 1


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
    done, held = _in_order(pending, begin, who[order], flow, when, depth)
    return InstructionOrder(done if len(done) == int(alone.sum()) else None, held != NONE)


@kernel
def _in_order(
    pending: Int64Array,
    begin: Int64Array,
    waiting: Int64Array,
    flow: InstructionGraph,
    when: FloatArray,
    depth: int,
) -> tuple[Int64Array, Int64Array]:
    """Pop nodes that wait for nothing, the earliest first; nodes that wait in a cycle are left out.

    Also return, for each FIFO, a node that waits for room in it, or -1.
    """
    _, sends, fifo = flow
    heap = np.empty(len(pending), dtype=np.int64)
    done = np.empty(len(pending), dtype=np.int64)
    following = np.full(len(pending), NONE, dtype=np.int64)  # the next message in its FIFO
    fifos = fifo.max() + 1 if len(fifo) else 0
    tail, inside = np.full(fifos, NONE, dtype=np.int64), np.zeros(fifos, dtype=np.int64)
    held = _Held(np.full((fifos, 2), NONE, dtype=np.int64), np.full((len(pending), 2), NONE, dtype=np.int64))
    size = length = 0
    for node in range(len(pending)):
        size = _push_if_ready(heap, when, size, node, pending, 0)
    while size > 0:
        node = pop_event(heap, when, size)
        size -= 1
        other = sends[node]
        if other != NONE and inside[fifo[other]] >= depth:
            _hold(held, fifo[other], node, when)
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
            first = held.ends[mine, 0]
            if first != NONE:  # there is room for one message again
                _release(held, mine)
                size = _push_if_ready(heap, when, size, first, pending, 0)
    return done[:length].copy(), held.ends[:, 0].copy()


class _Held(NamedTuple):
    """For each FIFO, a doubly linked list of the nodes that wait for room in it, the earliest first.

    Parameters
    ----------
    ends
        int64, shape (FIFOs, 2): the first and the last node of each list, -1 for none.
    beside
        int64, shape (nodes, 2): the node before and the node after each node in its list.
    """

    ends: Int64Array
    beside: Int64Array


@kernel
def _hold(held: _Held, fifo: int, node: int, when: FloatArray) -> None:
    """Insert a node, by its time, into the list of those that wait for room in a FIFO; mostly at the end."""
    ends, beside = held
    before = ends[fifo, 1]
    first = ends[fifo, 0]
    if first != NONE and (when[node], node) < (when[first], first):
        before = NONE
    # Invariant: the list is sorted by (time, node).
    while before != NONE and (when[node], node) < (when[before], before):
        before = beside[before, 0]
    behind = first if before == NONE else beside[before, 1]
    beside[node, 0], beside[node, 1] = before, behind
    if before == NONE:
        ends[fifo, 0] = node
    else:
        beside[before, 1] = node
    if behind == NONE:
        ends[fifo, 1] = node
    else:
        beside[behind, 0] = node


@kernel
def _release(held: _Held, fifo: int) -> None:
    """Remove the first of the nodes that wait for room in a FIFO."""
    ends, beside = held
    behind = beside[ends[fifo, 0], 1]
    ends[fifo, 0] = behind
    if behind == NONE:
        ends[fifo, 1] = NONE
    else:
        beside[behind, 0] = NONE


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

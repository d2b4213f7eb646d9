"""The event loop of the simulator.

An event is a time and a code: a link is free, a message's head is ready for its next link, a message is
complete, or (for speed) the last two together. All events of one moment are handled. Then every idle link
that they concern admits the first message that waits for it. Then time continues, to the same moment again if
something took no time.

Time is counted in ticks of which all durations are whole multiples. So it is exact, also in floats, and all
events of one moment have one time, whatever sum that is. If ticks are so short that their sums are rounded,
times that differ by no more than the rounding are one moment (`ROUNDING`).

The agenda is a binary heap by time. The hops that wait for a turn of a link form a pairing heap by (slice,
ready time, hop), with the pointers `child` and `sibling`. The state is in tables of records, so that data
that is used together lies together.

Schedules whose messages enter links in the order of the table are simulated in one pass, without an agenda.
If every row is one chunk over one link and nothing is reduced, a link's messages have different orders. So a
message enters its link at the later of two moments: when its chunks, which earlier messages brought, are at
the source, and when the link's previous message has left. Both are known if the orders are handled one after
the other. Only the messages' times, the message of each row, and the row that brought each chunk to each node
are kept. If there are too many pairs of a chunk and a node, as in an all-to-all of many ranks, only the last
row of each chunk is kept. That is enough if each chunk follows one path.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.schedules.schedule import Clock, Schedule, TransferColumns
from tutti.topologies.exact import NONE, FloatArray, Int32Array, Int64Array, IntArray
from tutti.topologies.graphs.heaps import sift_down, sift_up
from tutti.topologies.kernels import kernel, leaf

Table = npt.NDArray[Any]

HOP = np.dtype(
    [
        ("ready", np.float64),  # when its message became ready for the link, and later when it entered it
        ("link", np.int32),
        ("turn", np.int32),  # a link admits hops turn by turn, and those of one turn as they come
        ("message", np.int32),
        ("slice", np.int32),  # the slice of its message
        ("child", np.int32),
        ("sibling", np.int32),
    ],
    align=True,
)
MESSAGE = np.dtype(
    [
        ("start", np.float64),  # NaN before the start
        ("finish", np.float64),
        ("tail", np.float64),  # when its last byte leaves the last link that it entered
        ("load", np.int64),
        ("reduced", np.int64),  # the part of its load that its destination reduces
        ("hop", np.int64),  # its first hop; its last is before the next message's first
    ]
)
LINK = np.dtype(
    [
        ("alpha", np.float64),
        ("sending", np.float64),  # the time of a load of 1
        ("busy", np.float64),
        ("turns", np.int64),  # its first turn in the table of turns
        ("current", np.int32),  # its present turn
        ("next", np.int32),  # the next link that an event concerns
        ("held", np.bool_),
        ("queued", np.bool_),
        ("reducer", np.bool_),  # the computing unit of a rank, the last hop of data that it reduces
    ],
    align=True,
)
TURN = np.dtype(
    [
        ("left", np.int32),  # the number of hops that it still admits
        ("queue", np.int32),  # the first hop that waits for it
    ]
)
WAITER = np.dtype(
    [
        ("left", np.int32),  # the number of others that a message or join still waits for
        ("edge", np.int32),  # the first edge to those that wait for it
        ("next", np.int32),  # the next join to be completed at this moment
        ("hop", np.int32),  # the first hop of a message; not used for a join
    ]
)
EDGE = np.dtype([("next", np.int32), ("waiter", np.int32)])

ROUNDING = 2.0**-45
"""Relative rounding error that is allowed in a time. It is 256 times that of one addition, and less than
half a tick below 2^44 ticks."""
_FREE, _HEAD, _COMPLETE, _FREE_AND_COMPLETE = range(4)
_CODES = _FREE_AND_COMPLETE + 1
_ENTRIES, _QUEUED, _JOINS = range(3)


@kernel(light=1)
def link_turns(
    link: Int32Array, key: Int64Array, sequence: Int64Array, num_links: int
) -> tuple[Int32Array, Int64Array, Int32Array]:
    """Return the turn of each hop on its link, and the CSR of how many hops share each turn of a link.

    Hops of one link with equal keys share a turn; `sequence` lists the hops with those of a turn together.
    The last turn of a link has no hops, so that a link that has admitted all others stays there.
    """
    turn = np.empty(len(link), dtype=np.int32)
    turns = np.zeros(num_links, dtype=np.int64)
    latest = np.zeros(num_links, dtype=np.int64)
    for hop in sequence:
        on = link[hop]
        if turns[on] == 0 or latest[on] != key[hop]:
            turns[on] += 1
            latest[on] = key[hop]
        turn[hop] = turns[on] - 1
    begin = np.zeros(num_links + 1, dtype=np.int64)
    for on in range(num_links):  # a loop: numba takes two seconds to compile a slice that is assigned to
        begin[on + 1] = begin[on] + turns[on] + 1
    size = np.zeros(begin[-1], dtype=np.int32)
    for hop in range(len(link)):
        size[begin[link[hop]] + turn[hop]] += 1
    return turn, begin, size


class Tables(NamedTuple):
    """The records of a simulation, one table for each kind, and the agenda.

    The tables are of `np.recarray`. Python, which runs the simulation of small schedules, reads a field of an
    entry as an attribute only there.

    Parameters
    ----------
    hops, messages, links, turns
        Tables of `HOP`, `MESSAGE` (with an extra one for the end of the last), `LINK` and `TURN`.
    waiters
        Table of `WAITER`: the messages, then the joins; slice k of message or join e is e * slices + k.
    edges
        Table of `EDGE`, before slicing.
    time, code
        float64 and int64, shape (links + messages,): the agenda, a heap by time. Each link has at most one
        entry under way and each message another; unused memory costs nothing.
    state
        int64, shape (3,): the number of entries of the agenda, the first link that an event concerns, and
        the first join to be completed.
    """

    hops: Table
    messages: Table
    links: Table
    turns: Table
    waiters: Table
    edges: Table
    time: FloatArray
    code: Int64Array
    state: Int64Array


@kernel(light=4)
def run(tables: Tables, slices: int, store_and_forward: bool, overlap_alpha: bool) -> None:
    """Simulate; fill in the start and finish of each message (NaN: never) and the busy time of each link.

    All times are in ticks.

    Parameters
    ----------
    tables
        The simulated data; it changes.
    slices, store_and_forward, overlap_alpha
        As in `schedules.simulation.simulate.SimulationOptions`.
    """
    links, state, now = tables.links, tables.state, 0.0
    _begin(now, tables)
    while True:
        # All events of this moment are handled: each link concerned admits the first hop that waits for it.
        while state[_QUEUED] != NONE:
            on = state[_QUEUED]
            state[_QUEUED] = links[on].next
            links[on].queued = False
            hop = np.int64(tables.turns[links[on].turns + links[on].current].queue)
            if hop != NONE and not links[on].held:
                _take_turn(hop, tables)
                _enter(hop, now, tables, store_and_forward, overlap_alpha)
        if state[_ENTRIES] == 0:
            return
        now = tables.time[0]
        moment = now + max(0.5, now * ROUNDING)
        while state[_ENTRIES] > 0 and tables.time[0] < moment:
            what, code = divmod(tables.code[0], _CODES)
            state[_ENTRIES] -= 1
            sift_down(tables.time, tables.code, state[_ENTRIES])
            if code == _HEAD:
                _wait_for_link(what, now, tables)
                continue
            if code != _COMPLETE:
                on = what
                if code == _FREE_AND_COMPLETE:
                    on = np.int64(tables.hops[tables.messages[what + 1].hop - 1].link)
                links[on].held = False
                _enqueue(on, tables)
            if code != _FREE:
                _complete(what, now, tables, slices)


@leaf
def _begin(now: float, tables: Tables) -> None:
    """Let the messages that wait for no other message wait for their first link."""
    tables.state[_ENTRIES], tables.state[_QUEUED] = 0, NONE
    for message in range(len(tables.messages) - 1):
        if tables.waiters[message].left == 0:
            _wait_for_link(np.int64(tables.waiters[message].hop), now, tables)


@leaf
def _take_turn(hop: int, tables: Tables) -> None:
    """Remove the first hop from its turn; after the last hop of a turn the link moves to the next turn."""
    links, turns, on = tables.links, tables.turns, tables.hops[hop].link
    turn = links[on].turns + links[on].current
    turns[turn].queue = _without_root(hop, tables.hops)
    turns[turn].left -= 1
    if turns[turn].left == 0:
        links[on].current += 1


@leaf
def _enter(hop: int, now: float, tables: Tables, store_and_forward: bool, overlap_alpha: bool) -> None:
    """Admit a message to a link, as the docstring of `schedules.simulation.simulate` says."""
    hops, messages, links = tables.hops, tables.messages, tables.links
    on, number = hops[hop].link, hops[hop].message
    alpha = links[on].alpha
    load = messages[number].reduced if links[on].reducer else messages[number].load
    sending = load * links[on].sending
    holding = sending if overlap_alpha else alpha + sending
    free, through = now + holding, now + (alpha + sending)
    hops[hop].ready = now
    links[on].held = True
    links[on].busy += holding
    if hop == messages[number].hop:
        messages[number].start = now
        messages[number].tail = through
    else:
        messages[number].tail = max(through, messages[number].tail + alpha)
    tail = messages[number].tail
    if hop + 1 == messages[number + 1].hop and tail == free:
        _add_entry(free, number * _CODES + _FREE_AND_COMPLETE, tables)
        return
    if hop + 1 < messages[number + 1].hop:
        whole = store_and_forward or links[hops[hop + 1].link].reducer
        head = tail if whole else now + alpha
        _add_entry(head, (hop + 1) * _CODES + _HEAD, tables)
    else:
        _add_entry(tail, number * _CODES + _COMPLETE, tables)
    _add_entry(free, on * _CODES + _FREE, tables)


@leaf
def _add_entry(time: float, code: int, tables: Tables) -> None:
    sift_up(tables.time, tables.code, tables.state[_ENTRIES], time, code)
    tables.state[_ENTRIES] += 1


@leaf
def _complete(message: int, now: float, tables: Tables, slices: int) -> None:
    """Note the finish, and notify those that wait for the message and for joins that it completes."""
    waiters, edges, state = tables.waiters, tables.edges, tables.state
    tables.messages[message].finish = now
    state[_JOINS] = message
    waiters[message].next = NONE
    # A join takes no time: joins completed at this moment form a stack, handled before time continues.
    while state[_JOINS] != NONE:
        done = state[_JOINS]
        state[_JOINS] = waiters[done].next
        edge = waiters[done].edge
        while edge != NONE:
            waiter = edges[edge].waiter * slices + done % slices
            edge = edges[edge].next
            waiters[waiter].left -= 1
            if waiters[waiter].left > 0:
                continue
            if waiter < len(tables.messages) - 1:
                _wait_for_link(np.int64(waiters[waiter].hop), now, tables)
            else:
                waiters[waiter].next = state[_JOINS]
                state[_JOINS] = waiter


@leaf
def _wait_for_link(hop: int, now: float, tables: Tables) -> None:
    hops, links, turns = tables.hops, tables.links, tables.turns
    on = np.int64(hops[hop].link)
    turn = links[on].turns + hops[hop].turn
    hops[hop].ready = now
    turns[turn].queue = _merged(np.int64(turns[turn].queue), hop, hops)
    if hops[hop].turn == links[on].current:
        _enqueue(on, tables)


@leaf
def _enqueue(link: int, tables: Tables) -> None:
    """Put a link on the stack of links that an event of this moment concerns."""
    if not tables.links[link].queued:
        tables.links[link].queued = True
        tables.links[link].next = tables.state[_QUEUED]
        tables.state[_QUEUED] = link


@leaf
def _merged(one: int, other: int, hops: Table) -> int:
    """Return the root of the union of two heaps; either may be empty."""
    if one == NONE or other == NONE:
        return max(one, other)
    a, b = hops[one], hops[other]
    later = one > other
    if a.slice != b.slice:
        later = a.slice > b.slice
    elif a.ready != b.ready:
        later = a.ready > b.ready
    root, below = (other, one) if later else (one, other)
    hops[below].sibling = hops[root].child
    hops[root].child = below
    return root


@leaf
def _without_root(root: int, hops: Table) -> int:
    """Return the heap without its root: children are merged in pairs, then the pairs, last first."""
    node: Any = np.int64(hops[root].child)
    pairs: Any = np.int64(NONE)
    while node != NONE:
        other = np.int64(hops[node].sibling)
        following = np.int64(hops[other].sibling) if other != NONE else NONE
        merged = _merged(node, other, hops)
        hops[merged].sibling = pairs
        pairs, node = merged, following
    heap: Any = np.int64(NONE)
    while pairs != NONE:
        following = np.int64(hops[pairs].sibling)
        hops[pairs].sibling = NONE
        heap = _merged(heap, pairs, hops)
        pairs = following
    return heap


FEW_PAIRS = 2**22
PAIRS_A_TRANSFER = 4
"""Largest number of pairs of node and chunk, in all cases and for each transfer, for which a table of 4 bytes
per pair is kept. With more pairs, as in an all-to-all of many ranks, only the last row of each chunk is
kept."""


class EventTimes(NamedTuple):
    """The start and finish of each message in ticks, the message of each row, and each link's busy time.

    Parameters
    ----------
    start, finish
        Shape (messages,).
    busy
        Shape (links,).
    message
        int32, shape (transfers,): the message of each row, numbered by first rows.
    """

    start: FloatArray
    finish: FloatArray
    busy: FloatArray
    message: Int32Array


class _LinkState(NamedTuple):
    """The state of each link: when it is free, its latest message's load, and that message (-1: none yet)."""

    free: FloatArray
    load: Int64Array
    latest: Int32Array


def in_order(
    schedule: Schedule, alpha: FloatArray, sending: FloatArray, *, overlap_alpha: bool = False
) -> EventTimes | None:
    """Return the times of a schedule whose messages enter links in table order; None for other schedules.

    Parameters
    ----------
    schedule
        A legal schedule.
    alpha, sending
        Ticks, shape (links,): the α of each, and the additional time of a load of 1.
    overlap_alpha
        As in `schedules.simulation.simulate.SimulationOptions`.
    """
    if (
        schedule.clock is Clock.FLOW
        or schedule.order is None
        or schedule.routes is not None
        or schedule.count is not None
        or schedule.reduce is not None
    ):
        return None
    rows, topology, chunks = len(schedule), schedule.topology, len(schedule.chunks)
    links, few = topology.num_links, max(FEW_PAIRS, PAIRS_A_TRANSFER * rows)
    places = topology.num_nodes if topology.num_nodes * chunks <= few else 1
    times = EventTimes(np.empty(rows), np.empty(rows), np.zeros(links), np.empty(rows, dtype=np.int32))
    known = _run_in_order(
        schedule.order,
        schedule.columns,
        topology.source,
        topology.target,
        schedule.chunks.size,
        alpha,
        sending,
        np.full((places, chunks), NONE, dtype=np.int32),
        _LinkState(np.zeros(links), np.zeros(links, dtype=np.int64), np.full(links, NONE, dtype=np.int32)),
        times,
        overlap_alpha,
    )
    return None if known < 0 else times._replace(start=times.start[:known], finish=times.finish[:known])


@kernel(light=1)
def _run_in_order(
    order: IntArray,
    rows: TransferColumns,
    source: Int32Array,
    target: Int32Array,
    size: Int64Array,
    alpha: FloatArray,
    sending: FloatArray,
    bringer: Int32Array,
    links: _LinkState,
    times: EventTimes,
    overlap_alpha: bool,
) -> int:
    """Fill in the times of the messages; return their number, -1 if `bringer` has too few places.

    `bringer` has, for each node and chunk, the row that brought it there, -1 if none did yet. With a single
    place it has only the last row of the chunk.
    """
    chunk, _, route = rows
    start, finish, busy, message = times
    most, known, first = len(bringer) - 1, 0, 0
    while first < len(chunk):
        begun, last = known, first
        while last < len(chunk) and order[last] == order[first]:
            link = route[last]
            if links.latest[link] < begun:
                links.latest[link], links.load[link], start[known] = known, 0, links.free[link]
                known += 1
            number = message[last] = links.latest[link]
            links.load[link] += size[chunk[last]]
            brought = bringer[min(source[link], most), chunk[last]]
            if brought != NONE:
                if target[route[brought]] != source[link]:
                    return -1
                start[number] = max(start[number], finish[message[brought]])
            last += 1
        for row in range(first, last):
            link, number = route[row], message[row]
            bringer[min(target[link], most), chunk[row]] = row
            if number == begun:  # the first row of the next message
                begun += 1
                sent = links.load[link] * sending[link]
                holding = sent if overlap_alpha else alpha[link] + sent
                links.free[link] = start[number] + holding
                busy[link] += holding
                finish[number] = start[number] + (alpha[link] + sent)
        first = last
    return known

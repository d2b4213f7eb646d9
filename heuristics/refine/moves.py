"""Random changes of a plan: of a message, of the route of a transfer or of the cuts of an item.

Each takes a place in the sequence, and changes the plan in place. If it returns False, the plan may be
unfinished, and must not be used.
"""

from __future__ import annotations

import numpy as np

from tutti.heuristics.refine.plan import TUNING, Parcels, Roads, SequenceTimes, TransferSequence
from tutti.topologies.exact import NONE
from tutti.topologies.kernels import kernel


@kernel
def _remove(plan: TransferSequence, place: int) -> None:
    slot, begins, start = plan.slot, plan.begins, plan.start
    last = plan.length[0] - 1
    if begins[place] and place < last:
        begins[place + 1] = True
    for at in range(place, last):
        slot[at], begins[at], start[at] = slot[at + 1], begins[at + 1], start[at + 1]
    plan.length[0] = last


@kernel
def _insert(plan: TransferSequence, place: int, transfer: int, alone: bool) -> float:
    """Insert a transfer as a message before a place, or as the second of the message that begins there.

    Return when it starts by the times of the plan so far.
    """
    slot, begins, start = plan.slot, plan.begins, plan.start
    length = plan.length[0]
    at = place if alone else place + 1
    when = start[place] if place < length else (start[length - 1] if length else 0.0)
    for other in range(length, at, -1):
        slot[other], begins[other], start[other] = slot[other - 1], begins[other - 1], start[other - 1]
    slot[at], begins[at], start[at] = transfer, alone, when
    plan.length[0] = length + 1
    return when


@kernel
def _put(
    rng: np.random.Generator, roads: Roads, plan: TransferSequence, transfer: int, moment: float
) -> float:
    """Put a transfer in a message of its class near the first that starts at a moment, or in its own.

    Return when it starts by the times of the plan so far.
    """
    kind_of, slot, begins, start, route = roads.kind, plan.slot, plan.begins, plan.start, plan.route
    kind, length = kind_of[route[transfer]], plan.length[0]
    skip = _steps(rng)
    before, place = NONE, length
    for at in range(length):
        # The candidates are the messages of the class that start at the moment or later. `skip` of them are
        # passed over; a negative number chooses the last message before the moment.
        if begins[at] and kind_of[route[slot[at]]] == kind:
            if start[at] < moment:
                before = at
            elif skip <= 0:
                place = at
                break
            else:
                skip -= 1
    if skip < 0 and before != NONE:
        place = before
    return _insert(plan, place, transfer, place == length or rng.random() < TUNING.alone)


@kernel
def _steps(rng: np.random.Generator) -> int:
    """Return how many messages are passed over: usually none, -1 for one before, or some."""
    draw, steps = rng.random(), 0
    if draw < TUNING.earlier:
        return -1
    while draw > TUNING.later and rng.random() < TUNING.later:
        steps += 1
    return steps


@kernel
def _next_of_class(roads: Roads, plan: TransferSequence, place: int) -> int:
    """Return where the next message of the class begins, or -1."""
    slot, begins, route, kind_of = plan.slot, plan.begins, plan.route, roads.kind
    kind = kind_of[route[slot[place]]]
    for at in range(place + 1, plan.length[0]):
        if begins[at] and kind_of[route[slot[at]]] == kind:
            return at
    return NONE


@kernel
def _head(plan: TransferSequence, place: int) -> int:
    begins = plan.begins
    while not begins[place]:
        place -= 1
    return place


@kernel
def end_of(plan: TransferSequence, place: int) -> int:
    """Return the place after the message that begins at a place."""
    begins, at = plan.begins, place + 1
    while at < plan.length[0] and not begins[at]:
        at += 1
    return at


@kernel
def _merge(roads: Roads, plan: TransferSequence, place: int) -> bool:
    """Join a message with the next of its class."""
    head = _head(plan, place)
    other = _next_of_class(roads, plan, head)
    if other < 0:
        return False
    for at in range(other, end_of(plan, other)):
        transfer = plan.slot[at]
        _remove(plan, at)
        _insert(plan, head, transfer, False)
        # the messages between moved by one place, so that the next of the other message is at `at` + 1
    return True


@kernel
def _split(rng: np.random.Generator, plan: TransferSequence, place: int, times: SequenceTimes) -> bool:
    """Move the transfers of a message whose data came later than that of one of them to a new message."""
    slot, begins, ready, origin = plan.slot, plan.begins, times.ready, plan.origin
    head = _head(plan, place)
    end = end_of(plan, head)
    if end - head < 2:
        return False
    bound = ready[origin[slot[place]]]
    by_chance = rng.random() < 0.4
    at, kept = head, head
    # the early ones first, in place
    while at < end:
        early = rng.random() < 0.5 if by_chance else ready[origin[slot[at]]] < bound
        if early:
            slot[at], slot[kept] = slot[kept], slot[at]
            kept += 1
        at += 1
    if kept in (head, end):
        return False
    begins[kept] = True
    return True


@kernel
def _exchange(roads: Roads, plan: TransferSequence, place: int) -> bool:
    """Exchange a message with the next of its class, in place."""
    head = _head(plan, place)
    other = _next_of_class(roads, plan, head)
    if other < 0:
        return False
    end, last = end_of(plan, head), end_of(plan, other)
    slot, begins, start = plan.slot, plan.begins, plan.start
    # [head, end) goes behind [other, last): what stands between moves forward
    count = end - head
    moved = slot[head:end].copy()
    when = start[other]
    for at in range(end, last):
        slot[at - count], begins[at - count], start[at - count] = slot[at], begins[at], start[at]
    for at in range(count):
        slot[last - count + at], begins[last - count + at] = moved[at], at == 0
        start[last - count + at] = when
    return True


@kernel
def _above(roads: Roads, parcels: Parcels, plan: TransferSequence, base: int, node: int, other: int) -> bool:
    """Whether a node is on the path between another and the root, in the tree whose slots begin at `base`."""
    route, up = plan.route, parcels.up and base % parcels.slots == 0
    root = parcels.root[base // parcels.slots]
    while other != root:
        if other == node:
            return True
        along = route[base + other]
        other = roads.target[along] if up else roads.source[along]
    return False


@kernel
def set_route(roads: Roads, parcels: Parcels, plan: TransferSequence, transfer: int, road: int) -> None:
    """Give a transfer of a tree another route."""
    N, parcel = len(roads.hops), transfer // parcels.slots
    base, root = parcel * parcels.cells, parcels.root[parcel]
    source, target = np.int64(roads.source[road]), np.int64(roads.target[road])
    if parcels.up and transfer - parcel * parcels.slots >= N:
        source, target = source if source == root else N + source, N + target
    plan.route[transfer], plan.origin[transfer], plan.goal[transfer] = road, base + source, base + target


@kernel
def _reroute(
    rng: np.random.Generator,
    roads: Roads,
    parcels: Parcels,
    plan: TransferSequence,
    place: int,
    times: SequenceTimes,
) -> bool:
    """Let a parcel come to a rank (towards its root: leave it) over another route."""
    transfer = np.int64(plan.slot[place])
    N, within = len(roads.hops), transfer % parcels.slots
    up = parcels.up and within < N
    node = within % N
    if up:
        begin, end, ways = roads.out[node], roads.out[node + 1], roads.leaving
    else:
        begin, end, ways = roads.into[node], roads.into[node + 1], roads.entering
    if end - begin < 2:
        return False
    road = ways[begin + int(rng.random() * (end - begin))]
    if road == plan.route[transfer]:
        return False
    other = roads.target[road] if up else roads.source[road]
    # Invariant: the parcel's edges stay a tree, so the new neighbour must not lie behind the rank.
    if _above(roads, parcels, plan, transfer - node, node, other):
        return False
    _remove(plan, place)
    set_route(roads, parcels, plan, transfer, road)
    _put(rng, roads, plan, transfer, times.ready[plan.origin[transfer]])
    return True


@kernel
def drop(parcels: Parcels, plan: TransferSequence, parcel: int, first: int) -> None:
    """Remove a parcel's transfers from its slot `first` on from the sequence."""
    slot, begins, start = plan.slot, plan.begins, plan.start
    low, high = parcel * parcels.slots + first, (parcel + 1) * parcels.slots
    kept, opens = 0, False
    for place in range(plan.length[0]):
        opens |= begins[place]
        if low <= slot[place] < high:
            continue
        slot[kept], begins[kept], start[kept] = slot[place], opens, start[place]
        kept, opens = kept + 1, False
    plan.length[0] = kept


@kernel
def _retrace(
    rng: np.random.Generator,
    roads: Roads,
    parcels: Parcels,
    plan: TransferSequence,
    place: int,
    times: SequenceTimes,
) -> bool:
    """Let a parcel take another random path from a rank on its path."""
    transfer = np.int64(plan.slot[place])
    parcel = transfer // parcels.slots
    base, goal = parcel * parcels.slots, parcels.goal[parcel]
    at = np.int64(roads.source[plan.route[transfer]])
    moment = times.ready[plan.origin[transfer]]
    drop(parcels, plan, parcel, transfer - base)
    step = transfer - base
    while at != goal:
        left = parcels.slots - step
        detour = 0 if rng.random() < 0.95 else 2
        seen, road = 0, NONE
        for position in range(roads.out[at], roads.out[at + 1]):
            way = roads.leaving[position]
            far, known = roads.hops[roads.target[way], goal], False
            for earlier in range(base, base + step):
                known |= roads.source[plan.route[earlier]] == roads.target[way]
            # A path visits no rank twice, and leaves enough steps to reach its goal.
            if not known and far <= min(left - 1, roads.hops[at, goal] - 1 + detour):
                seen += 1
                if rng.random() * seen < 1:
                    road = way
        if road == NONE:
            return False
        here = base + step
        plan.route[here] = road
        plan.origin[here], plan.goal[here] = parcel * parcels.cells + step, parcel * parcels.cells + step + 1
        start = _put(rng, roads, plan, here, moment)
        moment = max(moment, start) + roads.latency[roads.kind[road]]
        at, step = np.int64(roads.target[road]), step + 1
    return True


@kernel
def _resize(rng: np.random.Generator, parcels: Parcels, plan: TransferSequence, place: int) -> bool:
    """Move some of a parcel to another of its item; an empty one with the same root copies its routes."""
    parcel = plan.slot[place] // parcels.slots
    item = np.searchsorted(parcels.item, parcel, side="right") - 1
    first, count = parcels.item[item], parcels.item[item + 1] - parcels.item[item]
    other = first + int(rng.random() * count)
    size = plan.size
    if other == parcel or size[parcel] == 0:
        return False
    if size[other] == 0 and parcels.root[other] != parcels.root[parcel]:
        return False
    draw = rng.random()
    amount = np.int64(size[parcel] * draw * draw * draw) + 1
    if rng.random() < 0.1:
        amount = size[parcel]
    amount = min(amount, size[parcel])
    # An empty parcel has no routes yet.
    if size[other] == 0:
        _clone(parcels, plan, parcel, other)
        amount = min(size[parcel], np.int64(size[parcel] * draw) + 1)
    size[parcel] -= amount
    size[other] += amount
    if size[parcel] == 0:
        drop(parcels, plan, parcel, 0)
    return True


@kernel
def _clone(parcels: Parcels, plan: TransferSequence, parcel: int, other: int) -> None:
    """Let a parcel take the routes of another, in the same messages."""
    drop(parcels, plan, other, 0)
    slots, cells = parcels.slots, (other - parcel) * parcels.cells
    shift = (other - parcel) * slots
    for transfer in range(parcel * slots, (parcel + 1) * slots):
        if plan.route[transfer] >= 0:
            plan.route[transfer + shift] = plan.route[transfer]
            plan.origin[transfer + shift] = plan.origin[transfer] + cells
            plan.goal[transfer + shift] = plan.goal[transfer] + cells
    slot, begins, start = plan.slot, plan.begins, plan.start
    length, own = plan.length[0], 0
    for place in range(length):
        own += parcel * slots <= slot[place] < (parcel + 1) * slots
    # The sequence grows from its end, so that nothing is overwritten before it has moved.
    plan.length[0] = to = length + own
    for place in range(length - 1, -1, -1):
        to -= 1
        opens = begins[place]
        if parcel * slots <= slot[place] < (parcel + 1) * slots:
            slot[to], begins[to], start[to] = slot[place] + shift, False, start[place]
            to -= 1
        slot[to], begins[to], start[to] = slot[place], opens, start[place]


@kernel
def change(
    rng: np.random.Generator,
    roads: Roads,
    parcels: Parcels,
    plan: TransferSequence,
    place: int,
    times: SequenceTimes,
) -> bool:
    """Change a plan at a place at random; return whether anything changed."""
    # The shares of the kinds of moves: other routes, other messages, merging, splitting, exchanging, other
    # cuts.
    draw = rng.random()
    if draw < 0.3:
        if parcels.goal[0] < 0:
            return _reroute(rng, roads, parcels, plan, place, times)
        return _retrace(rng, roads, parcels, plan, place, times)
    if draw < 0.6:
        transfer = np.int64(plan.slot[place])
        moment = times.ready[plan.origin[transfer]] if rng.random() < 0.5 else plan.start[place]
        _remove(plan, place)
        _put(rng, roads, plan, transfer, moment)
        return True
    if draw < 0.68:
        return _merge(roads, plan, place)
    if draw < 0.76:
        return _split(rng, plan, place, times)
    if draw < 0.8:
        return _exchange(roads, plan, place)
    return _resize(rng, parcels, plan, place)

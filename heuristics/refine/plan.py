"""A plan gives the route of every parcel from each rank, and the messages; its times follow from these.

A *parcel* is a part of an item, of some units, cut anywhere. It goes down a tree from its root to all ranks,
up a tree to its root, up and then down again, or along a path. Each edge of that is a *transfer* between two
*cells*. A cell is the parcel at a rank, before or after all of it is summed up; it is ready when all
transfers into it have ended. Transfers over routes of one class that go together are a *message*. It starts
when its cells are ready and its links free of the messages before it. If the network is symmetric, one item
stands for all its images, a class of routes for all of its routes, and a class of links for all of its links.
An event in the plan happens at all images at the same time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.topologies.exact import NONE, BoolArray, FloatArray, Int32Array, Int64Array
from tutti.topologies.kernels import kernel


class LocalSearchTuning(NamedTuple):
    """Parameters of the search. A part of the time is a fraction of the time of the step above."""

    hot: float
    """Fraction of the end time by which a change may delay the end at first. A larger value accepts more."""
    cooling: float
    """Ratio of the last temperature to the first. A smaller value ends the search colder."""
    enough: int
    """Number of changes for each transfer that a start at `hot` needs. If the time allows fewer, the start is
    cooler in proportion."""
    trial: int
    """Number of changes that are timed to measure the search's speed."""
    fresh: float
    """Part of the time for the search from shortest paths, and part of the remaining time for the race of
    all starts."""
    halves: float
    """Part of an allreduce's time for its two halves, before both are changed together."""
    cuts: int
    """Number of linear programs in a search. Each one moves all cuts of the best plan."""
    most_cut: int
    """Largest number of transfers of a plan whose cuts are moved."""
    cut_part: float
    """Part of a search's time that one of the linear programs may take."""
    shortest: float
    """Least time limit of a linear program, in seconds."""
    stretch: float
    """Seconds of search between two looks at the clock."""
    pieces: int
    """Largest number of parcels of an item, within `slots`. More are balanced better but searched slower."""
    slots: int
    """Number of transfers up to which items are cut into parcels. With fewer, symmetries that keep a rank
    are not used."""
    most_pieces: int
    """Largest number of parcels of an item in a schedule that is taken as a start."""
    most_slots: int
    """Largest number of transfers that are searched."""
    most_elements: int
    """Largest number of symmetries that are used."""
    critical: float
    """Fraction of the changes that are made on the critical path."""
    mean: float
    """Weight of the mean end of all links in the objective, whose first term is the end of all."""
    earlier: float
    """Probability that a transfer joins the last message that leaves before its data have come."""
    later: float
    """Probability that a transfer skips one more message. A larger value spreads transfers more."""
    alone: float
    """Probability that a transfer becomes a message of its own."""
    most_passes: int
    """Largest number of passes that time messages which stand before those that they wait for."""
    spare: int
    """Number of routes by which a path may be longer than the longest of the shortest paths."""


TUNING = LocalSearchTuning(
    hot=2e-2,
    cooling=1e-2,
    enough=2000,
    trial=64,
    fresh=0.6,
    halves=0.7,
    cuts=4,
    most_cut=2**13,
    cut_part=0.1,
    shortest=1e-2,
    stretch=0.1,
    pieces=4,
    slots=2**10,
    most_pieces=2**7,
    most_slots=2**18,
    most_elements=2**10,
    critical=0.6,
    mean=0.5,
    earlier=0.15,
    later=0.5,
    alone=0.25,
    most_passes=64,
    spare=4,
)

NEVER = np.inf


class Roads(NamedTuple):
    """The routes of messages, in classes.

    Parameters
    ----------
    source, target
        int32, shape (routes,): ranks.
    kind
        int32, shape (routes,): the class of each.
    first
        int64, shape (classes + 1,): where the hops of each class begin.
    link
        int32, shape (hops,): the class of the link.
    enter, lag, alpha, byte
        Shape (hops,): seconds from the start to the link, and for each unit; that a message holds it, and for
        each unit.
    latency, slowest
        Shape (classes,): seconds until a message arrives, and for each unit.
    into, entering
        CSR over ranks of the routes into each.
    out, leaving
        CSR over ranks of the routes out of each.
    hops
        int64, shape (N, N): fewest routes from one rank to another.
    """

    source: Int32Array
    target: Int32Array
    kind: Int32Array
    first: Int64Array
    link: Int32Array
    enter: FloatArray
    lag: FloatArray
    alpha: FloatArray
    byte: FloatArray
    latency: FloatArray
    slowest: FloatArray
    into: Int64Array
    entering: Int32Array
    out: Int64Array
    leaving: Int32Array
    hops: Int64Array


class Parcels(NamedTuple):
    """The data that is moved.

    Parameters
    ----------
    item
        int64, shape (items + 1,): where the parcels of each begin.
    root, goal
        int32, shape (parcels,): the rank where each starts or is summed up; the end of its path, or -1.
    of
        int32, shape (slots,): the parcel of each transfer.
    slots, cells
        Numbers of transfers and cells of each: parcel p has those from p times this number on. A transfer of
        a tree has the number of the rank that it goes to (towards the root: from; back down: plus N). One of
        a path has its place.
    up
        Whether its first N slots lead up to its root.
    """

    item: Int64Array
    root: Int32Array
    goal: Int32Array
    of: Int32Array
    slots: int
    cells: int
    up: bool


class TransferSequence(NamedTuple):
    """The transfers in sequence, so that each message stands together.

    Parameters
    ----------
    slot
        int32, shape (slots,): the transfer at each place in the sequence.
    begins
        bool, shape (slots,): whether it is the first of its message.
    start
        float64, shape (slots,): when its message starts, in seconds.
    route, origin, goal
        int32, shape (slots,): for each transfer the route, and the cells that it goes from and to.
    size
        int64, shape (parcels,): units; transfers of parcels without any are not in the sequence.
    length
        int64, shape (1,): the number of places that are taken.
    """

    slot: Int32Array
    begins: BoolArray
    start: FloatArray
    route: Int32Array
    origin: Int32Array
    goal: Int32Array
    size: Int64Array
    length: Int64Array


class SequenceTimes(NamedTuple):
    """The results of `play`, and its arrays.

    Parameters
    ----------
    ready
        float64, shape (cells,): the time when each is ready.
    bringer
        int32, shape (cells,): the place of the message that came last.
    left
        int32, shape (cells,): transfers that are still to come.
    free, holder
        Shape (links,): when each is free, and the place of its last message.
    waits
        int32, shape (slots,): for the place where a message begins, the place of the message that it waits
        for.
    queue
        int32, shape (slots,): messages whose turn has not come.
    blocked
        int32, shape (links,): the last pass in which a message could not enter.
    """

    ready: FloatArray
    bringer: Int32Array
    left: Int32Array
    free: FloatArray
    holder: Int32Array
    waits: Int32Array
    queue: Int32Array
    blocked: Int32Array


def room(slots: int, cells: int, links: int) -> SequenceTimes:
    """Return the tables for plans with this many transfers, cells and classes of links."""
    of_cells, of_slots, of_links = (np.zeros((2, count), np.int32) for count in (cells, slots, links))
    return SequenceTimes._make(
        [np.zeros(cells), *of_cells, np.zeros(links), of_links[0], *of_slots, of_links[1]]
    )


@kernel
def play(  # noqa: C901 (one loop over messages; its parts share a dozen numbers)
    roads: Roads, of: Int32Array, plan: TransferSequence, times: SequenceTimes, limit: float
) -> tuple[float, int, float]:
    """Time a plan: return its end, the last message's place, and a mean of the links' ends.

    Messages enter each link in the sequence's order. If a message precedes one that it waits for, it blocks
    the later messages on its links. The end is infinite if messages wait for each other in a circle, or if
    one ends later than the limit. The mean is that of powers, in which late links count most: if several are
    equally late, it falls with each that is relieved.
    """
    kind_of, first, link_of, enter, lag = roads.kind, roads.first, roads.link, roads.enter, roads.lag
    alpha, byte, latency, slowest = roads.alpha, roads.byte, roads.latency, roads.slowest
    slot, begins, start, route = plan.slot, plan.begins, plan.start, plan.route
    origin, goal, size = plan.origin, plan.goal, plan.size
    ready, bringer, left, free, holder = times.ready, times.bringer, times.left, times.free, times.holder
    waits, queue, blocked = times.waits, times.queue, times.blocked
    length = plan.length[0]
    ready[:], left[:] = 0.0, 0
    free[:], holder[:], blocked[:] = 0.0, NONE, 0
    waiting = 0
    for place in range(length):
        left[goal[slot[place]]] += 1
        if begins[place]:
            queue[waiting] = place
            waiting += 1
    end, last, passes = 0.0, NONE, 0
    while waiting > 0:
        passes += 1
        kept = 0
        for position in range(waiting):
            place = queue[position]
            kind = kind_of[route[slot[place]]]
            begin, wait, load, held = 0.0, NONE, 0, False
            after = place
            while True:
                load += size[of[slot[after]]]
                cell = origin[slot[after]]
                held |= left[cell] > 0
                if ready[cell] > begin:
                    begin, wait = ready[cell], bringer[cell]
                after += 1
                if after == length or begins[after]:
                    break
            for hop in range(first[kind], first[kind + 1]):
                held |= blocked[link_of[hop]] == passes
            if held:
                for hop in range(first[kind], first[kind + 1]):
                    blocked[link_of[hop]] = passes
                queue[kept] = place
                kept += 1
                continue
            for hop in range(first[kind], first[kind + 1]):
                earliest = free[link_of[hop]] - enter[hop] - load * lag[hop]
                if earliest > begin:
                    begin, wait = earliest, holder[link_of[hop]]
            for hop in range(first[kind], first[kind + 1]):
                free[link_of[hop]] = begin + enter[hop] + alpha[hop] + load * (lag[hop] + byte[hop])
                holder[link_of[hop]] = place
            over = begin + latency[kind] + load * slowest[kind]
            if over > limit:
                return NEVER, NONE, NEVER
            waits[place] = wait
            for other in range(place, after):
                start[other] = begin
                cell = goal[slot[other]]
                left[cell] -= 1
                if over >= ready[cell]:
                    ready[cell], bringer[cell] = over, place
            if over > end:
                end, last = over, place
        if kept == waiting or passes == TUNING.most_passes:
            return NEVER, NONE, NEVER
        waiting = kept
    late = 0.0
    power = 8  # a larger one counts only links that are nearly as late as the last one
    for link in range(len(free)):
        late += (free[link] / end) ** power
    return end, last, end * (late / len(free)) ** (1 / power)

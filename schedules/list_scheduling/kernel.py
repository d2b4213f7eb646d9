"""The list scheduler: whenever a link is free, it sends the ready transfer of highest priority.

A *transfer* is one piece of data over one route. It is ready when all transfers that it waits for have
arrived. Then it is enqueued for its route, by priority and then by number. If a free link begins several
routes, it takes the route whose farther links delay it least, and among those the one whose first transfer is
most urgent. A message carries that transfer and, if `room` or `limits` allow it, those that are enqueued
behind it. On a route of several links it moves as in `schedules.simulation.simulate`: farther links may let
it wait.

One source serves integer ticks and float seconds: numba compiles it for both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.schedules.message_durations import Durations
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.heaps import pop_event, push_event, stable_pass
from tutti.topologies.kernels import kernel, leaf

Amounts = npt.NDArray[Any]
"""int64 (ticks, units) or float64 (bytes, seconds), throughout one call."""


class ListScheduleTransfers(NamedTuple):
    """The transfers, and which of them wait for which.

    Parameters
    ----------
    route
        int32, shape (transfers,). -1: a *join*, which takes no link and no time. Its followers wait for
        everything that it waits for; no join follows another.
    need
        int32, shape (transfers,): the number of others that each waits for.
    first, follower
        int64, shape (transfers + 1,), and int32: the transfers that wait for t are follower[first[t] :
        first[t + 1]].
    amount
        Shape (transfers,): ticks, units or bytes.
    """

    route: Int32Array
    need: Int32Array
    first: Int64Array
    follower: Int32Array
    amount: Amounts

    @property
    def reversed(self) -> ListScheduleTransfers:
        """The same transfers with time running backwards, so that all waits are reversed."""
        count, many = len(self.need), np.diff(self.first)
        first = offsets_of(np.bincount(self.follower, minlength=count))
        order = stable_pass(np.arange(len(self.follower)), self.follower, count)
        follower = np.repeat(np.arange(count, dtype=np.int32), many)[order]
        return ListScheduleTransfers(self.route, many.astype(np.int32), first, follower, self.amount)


class TimedRoutes(NamedTuple):
    """Routes, and the times for which messages hold their links.

    Parameters
    ----------
    offsets, links
        int64, int32: the links of route r are links[offsets[r] : offsets[r + 1]]. No link that begins a route
        is inside another.
    alpha, seconds
        Shape (links,): ticks or seconds for each message, and for each unit of its amount.
    begin, starting
        int64: the routes that begin with link e are starting[begin[e] : begin[e + 1]].
    """

    offsets: Int64Array
    links: Int32Array
    alpha: Amounts
    seconds: Amounts
    begin: Int64Array
    starting: Int64Array

    @classmethod
    def single_links(cls, num_links: int, alpha: int = 0, seconds: int = 1) -> TimedRoutes:
        """Return a route for each link; by default amounts are ticks."""
        link, offsets = np.arange(num_links), np.arange(num_links + 1)
        costs = np.full(num_links, alpha), np.full(num_links, seconds)
        return cls(offsets, link.astype(np.int32), *costs, offsets, link)


class DurationLimits(NamedTuple):
    """Limits on the time of messages: a share of the time passed, or of the time left, whichever is shorter.

    Parameters
    ----------
    total
        The expected duration of the whole in seconds.
    share
        The share of the time left and, if `filling`, of the time passed.
    least
        The time in seconds that a message may always last.
    weight
        The share is divided by 1 + weight times the `hops` that follow the message's transfers.
    filling
        Whether the time passed counts.
    hops
        int64, shape (transfers,): the largest number of hops that follow.
    """

    total: float
    share: float
    least: float
    weight: float
    filling: bool
    hops: Int64Array


class Sending(NamedTuple):
    """Messages in the order in which they start: i carries transfer[first[i] : first[i + 1]]."""

    first: Int64Array
    transfer: Int32Array

    @property
    def message(self) -> Int64Array:
        """int64, shape (transfers,): the message of each entry of `transfer`."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))


class Listed(NamedTuple):
    """A list schedule: its messages, each transfer's start and arrival, and the last arrival."""

    sending: Sending
    start: Amounts
    arrival: Amounts
    end: Any


@kernel
def send(  # noqa: C901 (its parts as functions, called for each transfer, made it half as slow again)
    transfers: ListScheduleTransfers,
    routes: TimedRoutes,
    priority: Amounts,
    room: int = 0,
    limits: DurationLimits | None = None,
) -> Listed:
    """Return the list schedule; transfers that wait for each other in a cycle are never sent.

    Parameters
    ----------
    transfers, routes
        The transfers and their routes. The links' times are integers if amounts are.
    priority
        Shape (transfers,): the transfer of least priority goes first.
    room
        The largest amount of a message, which takes at least one transfer. It is not read with limits.
    limits
        Limits on the time of messages, used instead of `room`.
    """
    route_of, after, follower, amount = transfers.route, transfers.first, transfers.follower, transfers.amount
    offsets, links, alpha, seconds = routes.offsets, routes.links, routes.alpha, routes.seconds
    begin, starting, entrance = routes.begin, routes.starting, links[offsets[:-1]]
    count, left, free = len(route_of), transfers.need.copy(), np.zeros(len(alpha), amount.dtype)
    queues = _queues(route_of, len(entrance), priority)
    look, touched = np.empty(len(alpha) + 1, np.int32), np.zeros(len(alpha), np.bool_)
    look[-1] = 0
    start, arrival = np.zeros(count, amount.dtype), np.zeros(count, amount.dtype)
    first, sent, messages = np.zeros(count + 1, np.int64), np.empty(count, np.int32), 0
    # Message m leaves its first link in event 2 m, and is complete in event 2 m + 1.
    agenda, when, events = np.empty(2 * count, np.int32), np.empty(2 * count, amount.dtype), 0
    for transfer in range(count):
        if left[transfer] == 0 and route_of[transfer] >= 0:
            _enqueue(transfer, route_of[transfer], queues)
            _touch(entrance[route_of[transfer]], look, touched)
    now = end = np.zeros(1, amount.dtype)[0]
    while True:
        # Invariant: before any link sends at a moment, all arrivals until then have notified their followers.
        while look[-1] > 0:
            link = _next_link(look, touched)
            if free[link] > now:  # the event that frees it puts it on the stack again
                continue
            if begin[link + 1] - begin[link] == 1:
                route = starting[begin[link]] if queues.size[starting[begin[link]]] > 0 else -1
            else:
                route = _soonest(link, now, routes, free, queues)
            if route < 0:
                continue
            last = first[messages]
            if limits is None:  # numba compiles only the branch that the caller takes
                load, last = _fill(route, queues, amount, room, sent, last)
            else:
                slowest = seconds[links[offsets[route] : offsets[route + 1]]].max()
                load, last = _fill_within(route, queues, amount, now, slowest, limits, sent, last)
            head = tail = now
            for place in range(offsets[route], offsets[route + 1]):
                on = links[place]
                head = max(head, free[on]) + alpha[on]
                free[on] = head + load * seconds[on]
                tail = max(tail + alpha[on], free[on])
            for place in range(first[messages], last):
                start[sent[place]], arrival[sent[place]] = now, tail
            end, when[2 * messages], when[2 * messages + 1] = max(end, tail), free[link], tail
            if free[link] != tail:
                push_event(agenda, when, events, 2 * messages)
                events += 1
            push_event(agenda, when, events, 2 * messages + 1)
            events, messages = events + 1, messages + 1
            first[messages] = last
        if events == 0:
            sending = Sending(first[: messages + 1].copy(), sent[: first[messages]].copy())
            return Listed(sending, start, arrival, end)
        now = when[agenda[0]]
        # ... kept here: the clock stands still until every event of this moment is handled.
        while events > 0 and when[agenda[0]] <= now:
            event = pop_event(agenda, when, events)
            events -= 1
            message = event // 2
            if event % 2 == 0 or when[2 * message] == when[event]:
                _touch(entrance[route_of[sent[first[message]]]], look, touched)
            if event % 2 == 0:
                continue
            for place in range(first[message], first[message + 1]):
                for near in range(after[sent[place]], after[sent[place] + 1]):
                    other = follower[near]
                    left[other] -= 1
                    if left[other] > 0:
                        continue
                    if route_of[other] >= 0:
                        _enqueue(other, route_of[other], queues)
                        _touch(entrance[route_of[other]], look, touched)
                        continue
                    for far in range(after[other], after[other + 1]):
                        beyond = follower[far]
                        left[beyond] -= 1
                        if left[beyond] == 0:
                            _enqueue(beyond, route_of[beyond], queues)
                            _touch(entrance[route_of[beyond]], look, touched)


class _Queues(NamedTuple):
    """A heap of ready transfers for each route: queue[base[r] : base[r + 1]], of which size[r] are in use."""

    priority: Amounts
    queue: Int32Array
    base: Int64Array
    size: Int64Array


@kernel
def _queues(route_of: Int32Array, routes: int, priority: Amounts) -> _Queues:
    """Return empty queues for all transfers."""
    base = np.zeros(routes + 1, np.int64)
    for route in route_of:
        if route >= 0:
            base[route + 1] += 1
    base = np.cumsum(base)
    return _Queues(priority, np.empty(base[-1], np.int32), base, np.zeros(routes, np.int64))


@leaf
def _enqueue(transfer: int, route: int, queues: _Queues) -> None:
    """Enqueue a ready transfer for its route."""
    priority, queue, base, size = queues
    push_event(queue[base[route] : base[route + 1]], priority, size[route], transfer)
    size[route] += 1


@kernel
def _touch(link: int, look: Int32Array, touched: BoolArray) -> None:
    """Put a link on the stack of links to look at; the last entry of `look` is their number."""
    if not touched[link]:
        touched[link] = True
        look[look[-1]] = link
        look[-1] += 1


@kernel
def _next_link(look: Int32Array, touched: BoolArray) -> int:
    """Take the last link off the stack."""
    look[-1] -= 1
    link = look[look[-1]]
    touched[link] = False
    return int(link)


@leaf
def _soonest(link: int, now: Any, routes: TimedRoutes, free: Amounts, queues: _Queues) -> int:
    """Return the route from a link whose farther links delay it least; of equals the most urgent."""
    priority, queue, base, size = queues
    best, least = -1, now - now
    for route in routes.starting[routes.begin[link] : routes.begin[link + 1]]:
        if size[route] == 0:
            continue
        delay, head = now - now, now
        for on in routes.links[routes.offsets[route] : routes.offsets[route + 1]]:
            delay += max(free[on] - head, now - now)
            head = max(head, free[on]) + routes.alpha[on]
        if best >= 0 and delay == least:
            better = priority[queue[base[route]]] < priority[queue[base[best]]]
        else:
            better = best < 0 or delay < least
        if better:
            best, least = route, delay
    return int(best)


@leaf
def _fill(
    route: int, queues: _Queues, amount: Amounts, room: int, sent: Int32Array, last: int
) -> tuple[Any, int]:
    """Take the first transfers of a route, at least one and up to `room`; return their amount and end."""
    priority, queue, base, size = queues
    heap, load = queue[base[route] : base[route + 1]], room - room
    while True:
        sent[last] = pop_event(heap, priority, size[route])
        size[route] -= 1
        load, last = load + amount[sent[last]], last + 1
        if size[route] == 0 or load + amount[heap[0]] > room:
            return load, last


@leaf
def _fill_within(
    route: int,
    queues: _Queues,
    amount: Amounts,
    now: Any,
    slowest: Any,
    limits: DurationLimits,
    sent: Int32Array,
    last: int,
) -> tuple[Any, int]:
    """Take the first transfers of a route, at least one, until the message would exceed its limit."""
    heap = queues.queue[queues.base[route] : queues.base[route + 1]]
    hops, left = limits.hops[heap[0]], limits.total - now
    if limits.filling:
        left = min(left, now)
    load, last = _fill(route, queues, amount, 0, sent, last)
    while queues.size[route] > 0:
        # guided self-scheduling (Polychronopoulos, Kuck, IEEE Trans. Computers 1987), see `flows`
        hops = max(hops, limits.hops[heap[0]])
        most = max(limits.least, limits.share * left / (1 + limits.weight * hops))
        if (load + amount[heap[0]]) * slowest > most:
            break
        more, last = _fill(route, queues, amount, 0, sent, last)
        load += more
    return load, last


@kernel
def earliest_starts(
    transfers: ListScheduleTransfers,
    sending: Sending,
    offsets: Int64Array,
    links: Int32Array,
    durations: Durations,
) -> Int64Array:
    """Return each message's start in ticks, if all go in order as early as data and links allow.

    No message waits within a route: it starts late enough to find each of its links free.

    Parameters
    ----------
    transfers, sending
        The messages, each after all that it waits for.
    offsets, links
        The routes, in CSR form.
    durations
        The durations of the messages.
    """
    free, ready = np.zeros(links.max() + 1, np.int64), np.zeros(len(transfers.route), np.int64)
    start = np.empty(len(sending.first) - 1, np.int64)
    for message in range(len(start)):
        taken = sending.transfer[sending.first[message] : sending.first[message + 1]]
        kind, route = durations.kind[message], transfers.route[taken[0]]
        entry, used = durations.offsets[kind], links[offsets[route] : offsets[route + 1]]
        begin = ready[taken].max()
        for hop in range(len(used)):
            begin = max(begin, free[used[hop]] - durations.enter[entry + hop])
        # Invariant: no message enters a link before all earlier messages have left it.
        for hop in range(len(used)):
            free[used[hop]] = begin + durations.enter[entry + hop] + durations.hold[entry + hop]
        start[message], over = begin, begin + durations.arrival[kind]
        for transfer in taken:
            for after in transfers.follower[transfers.first[transfer] : transfers.first[transfer + 1]]:
                ready[after] = max(ready[after], over)
                if transfers.route[after] < 0:
                    for beyond in transfers.follower[transfers.first[after] : transfers.first[after + 1]]:
                        ready[beyond] = max(ready[beyond], over)
    return start

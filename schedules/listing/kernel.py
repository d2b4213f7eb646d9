"""The event loop of a list schedule: whenever a link is free, it is given the next message.

A *job* is a piece that a transfer moves. It may go once all jobs that bring the piece to its source are over;
then it waits, by priority, for the first link of its route. A link that is free takes of the routes that
begin there, and for which something waits, the one that is entered soonest farther on, of those the one whose
first job has the least priority. The message takes that job and what waits behind it, as much as it may
(`rules`). It goes over its route as in `schedules.simulate`: farther links may let it wait.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from topologies.exact import BoolArray, FloatArray, Int32Array, Int64Array
from topologies.heap import pop_event, push_event


class Jobs(NamedTuple):
    """What is to be moved. Edge e is one chunk of one transfer; its jobs are first[e] to first[e + 1] - 1.

    Parameters
    ----------
    first
        int64, shape (edges + 1,).
    route
        int32, shape (edges,).
    need
        int64, shape (edges,): for how many other edges each waits, piece by piece.
    after, follower
        CSR of the edges that wait for each.
    amount
        float64, shape (edges,): bytes of a piece.
    hops
        int64, shape (edges,): of the longest way on from here.
    """

    first: Int64Array
    route: Int32Array
    need: Int64Array
    after: Int64Array
    follower: Int64Array
    amount: FloatArray
    hops: Int64Array


class Net(NamedTuple):
    """Routes in CSR form; α in seconds and seconds a byte of each link; routes by their first link in CSR."""

    offsets: Int64Array
    links: Int32Array
    alpha: FloatArray
    seconds: FloatArray
    begin: Int64Array
    starting: Int64Array


class Limits(NamedTuple):
    """Of messages: `share` of the time passed (if `filling`) or left of `total`, at least `least` seconds."""

    total: float
    share: float
    least: float
    weight: float
    filling: bool


class Sent(NamedTuple):
    """The messages in the order in which they start: i has the jobs job[first[i] : first[i + 1]]."""

    first: Int64Array
    job: Int64Array
    route: Int32Array


class _State(NamedTuple):
    """Who waits (a heap for each route), for how many others each job waits, and what is under way.

    `counts` holds messages, jobs sent, events, and touched links.
    """

    heap: Int64Array
    room: Int64Array
    size: Int64Array
    left: Int64Array
    edge: Int32Array
    free: FloatArray
    when: FloatArray
    agenda: Int64Array
    touched: Int32Array
    is_touched: BoolArray
    counts: Int64Array


_MESSAGES, _SENT, _EVENTS, _TOUCHED = 0, 1, 2, 3


@njit(cache=True)
def send(jobs: Jobs, net: Net, priority: FloatArray, limits: Limits) -> tuple[Sent, float]:
    """Return the messages, and when the last one is complete (seconds); not all, if jobs wait in a circle.

    Invariant: before links send at a moment, all that is over by then has been told.
    """
    state = _empty(jobs, net)
    most = len(state.left)
    sent = Sent(np.zeros(most + 1, np.int64), np.empty(most, np.int64), np.empty(most, np.int32))
    for edge in range(len(jobs.route)):
        if jobs.need[edge] == 0:
            for job in range(jobs.first[edge], jobs.first[edge + 1]):
                _wait(job, jobs, net, priority, state)
    now, end = 0.0, 0.0
    while True:
        while state.counts[_TOUCHED] > 0:
            route = _next_to_go(now, net, priority, state)
            if route >= 0:
                end = max(end, _go(route, now, (jobs, net, limits), priority, sent, state))
        if state.counts[_EVENTS] == 0:
            count = state.counts[_MESSAGES]
            return Sent(sent.first[: count + 1].copy(), sent.job, sent.route[:count].copy()), end
        now = state.when[state.agenda[0]]
        while state.counts[_EVENTS] > 0 and state.when[state.agenda[0]] <= now:
            event = pop_event(state.agenda, state.when, state.counts[_EVENTS])
            state.counts[_EVENTS] -= 1
            message = event // 2
            if event % 2 == 0:
                _touch(net.links[net.offsets[sent.route[message]]], state)
            else:
                _tell(sent.job[sent.first[message] : sent.first[message + 1]], jobs, net, priority, state)


@njit(cache=True)
def _empty(jobs: Jobs, net: Net) -> _State:
    """Return the state in which nothing has happened."""
    count, links, routes = jobs.first[-1], len(net.alpha), len(net.offsets) - 1
    room = np.zeros(routes + 1, np.int64)
    left, edge = np.empty(count, np.int64), np.empty(count, np.int32)
    for number in range(len(jobs.route)):
        begin, end = jobs.first[number], jobs.first[number + 1]
        left[begin:end], edge[begin:end] = jobs.need[number], number
        room[jobs.route[number] + 1] += end - begin
    return _State(
        np.empty(count, np.int64),
        np.cumsum(room),
        np.zeros(routes, np.int64),
        left,
        edge,
        np.zeros(links, np.float64),
        np.empty(2 * count, np.float64),
        np.empty(2 * count, np.int64),
        np.empty(links, np.int32),
        np.zeros(links, np.bool_),
        np.zeros(4, np.int64),
    )


@njit(cache=True)
def _wait(job: int, jobs: Jobs, net: Net, priority: FloatArray, state: _State) -> None:
    """Let a job wait for its route."""
    route = jobs.route[state.edge[job]]
    push_event(state.heap[state.room[route] : state.room[route + 1]], priority, state.size[route], job)
    state.size[route] += 1
    _touch(net.links[net.offsets[route]], state)


@njit(cache=True)
def _touch(link: int, state: _State) -> None:
    if not state.is_touched[link]:
        state.is_touched[link] = True
        state.touched[state.counts[_TOUCHED]] = link
        state.counts[_TOUCHED] += 1


@njit(cache=True)
def _next_to_go(now: float, net: Net, priority: FloatArray, state: _State) -> int:
    """Return the route that the last touched link takes, or -1; the link is touched no longer."""
    state.counts[_TOUCHED] -= 1
    link = state.touched[state.counts[_TOUCHED]]
    state.is_touched[link] = False
    return _soonest(link, now, net, priority, state) if state.free[link] <= now else -1


@njit(cache=True)
def _soonest(link: int, now: float, net: Net, priority: FloatArray, state: _State) -> int:
    """Return the route that a free link takes next, -1 where nothing waits."""
    best, least = -1, 0.0
    for route in net.starting[net.begin[link] : net.begin[link + 1]]:
        if state.size[route] == 0:
            continue
        delay, head = 0.0, now
        for on in net.links[net.offsets[route] : net.offsets[route + 1]]:
            delay += max(state.free[on] - head, 0.0)
            head = max(head, state.free[on]) + net.alpha[on]
        if best >= 0 and delay == least:
            better = priority[state.heap[state.room[route]]] < priority[state.heap[state.room[best]]]
        else:
            better = best < 0 or delay < least
        if better:
            best, least = route, delay
    return best


@njit(cache=True)
def _go(
    route: int,
    now: float,
    given: tuple[Jobs, Net, Limits],
    priority: FloatArray,
    sent: Sent,
    state: _State,
) -> float:
    """Send a message over a route; return when it is complete."""
    jobs, net, limits = given
    links = net.links[net.offsets[route] : net.offsets[route + 1]]
    message = state.counts[_MESSAGES]
    amount = _fill(route, now, net.seconds[links].max(), (jobs, limits), priority, sent, state)
    head, tail = now, 0.0
    for on in links:
        entered = max(head, state.free[on])
        head = entered + net.alpha[on]
        state.free[on] = head + amount * net.seconds[on]
        tail = max(tail + net.alpha[on], state.free[on])
    sent.route[message] = route
    state.counts[_MESSAGES] += 1
    sent.first[message + 1] = state.counts[_SENT]
    state.when[2 * message], state.when[2 * message + 1] = state.free[links[0]], tail
    for event in (2 * message, 2 * message + 1):
        push_event(state.agenda, state.when, state.counts[_EVENTS], event)
        state.counts[_EVENTS] += 1
    return tail


@njit(cache=True)
def _fill(
    route: int,
    now: float,
    seconds: float,
    given: tuple[Jobs, Limits],
    priority: FloatArray,
    sent: Sent,
    state: _State,
) -> float:
    """Take the first jobs that wait for a route, as long as the message does not last too long."""
    jobs, limits = given
    heap = state.heap[state.room[route] : state.room[route + 1]]
    room = limits.total - now
    if limits.filling:
        room = min(room, now)
    amount, hops = 0.0, 0
    while state.size[route] > 0:
        edge = state.edge[heap[0]]
        hops = max(hops, jobs.hops[edge])
        most = max(limits.least, limits.share * room / (1 + limits.weight * hops))
        if amount > 0 and (amount + jobs.amount[edge]) * seconds > most:
            break
        sent.job[state.counts[_SENT]] = pop_event(heap, priority, state.size[route])
        state.size[route] -= 1
        state.counts[_SENT] += 1
        amount += jobs.amount[edge]
    return amount


@njit(cache=True)
def _tell(done: Int64Array, jobs: Jobs, net: Net, priority: FloatArray, state: _State) -> None:
    """Tell those that wait for jobs that these are over."""
    for job in done:
        edge = state.edge[job]
        for follower in jobs.follower[jobs.after[edge] : jobs.after[edge + 1]]:
            other = jobs.first[follower] + job - jobs.first[edge]
            state.left[other] -= 1
            if state.left[other] == 0:
                _wait(other, jobs, net, priority, state)

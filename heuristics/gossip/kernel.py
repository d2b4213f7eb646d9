"""Greedy gossip in time: a message goes when its links are free, first what brings a node most that is new.

A message has all that its source then knows and its target neither knows nor is about to be sent. It enters
each link of its route when its head is there, and goes only if all are free then; it holds each for α and its
bytes over the bandwidth, as in `schedules.simulation.simulate`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.topologies.exact import FloatArray, Int32Array, Int64Array
from tutti.topologies.kernels import kernel

NEVER = np.inf
SOON = 1e-14
"""Seconds within which moments are one."""
MOST_MOMENTS = 2**14
"""After so many a try is given up."""


class GossipNetwork(NamedTuple):
    """Routes and links as arrays: `heuristics.gossip.method.MessageRoutes`, and seconds of each link.

    `seconds` is per byte; `latency` (routes,) the sum of α; `size` (chunks,) bytes; chunk c starts at rank c.
    The nodes that v has a link to are neighbour[near[v]..near[v + 1] - 1].
    """

    offsets: Int64Array
    links: Int32Array
    source: Int32Array
    target: Int32Array
    classes: Int64Array
    alpha: FloatArray
    seconds: FloatArray
    latency: FloatArray
    size: FloatArray
    near: Int64Array
    neighbour: Int32Array


class Priorities(NamedTuple):
    """Which messages one try sends first, and which it holds back.

    There is `noise` (moments, classes) on the gain of a class: one a new chunk, and `rare` for each
    neighbour of the target that lacks it too. A route whose α's add up to `long` or more waits until it has
    `least` new chunks.
    """

    noise: FloatArray
    rare: float
    long: float
    least: int


class Found(NamedTuple):
    """When each chunk is at each node, over which route, and at which moment it left, shape (nodes, chunks).

    Moments count up; several are at one time where α is 0, or where what is left is sent again.
    """

    known: FloatArray
    route: Int32Array
    moment: Int32Array


@kernel
def gossip(net: GossipNetwork, nodes: int, priorities: Priorities, limit: float) -> tuple[float, Found]:
    """Return when all ranks know all (infinite: not before `limit`, or never), and what was sent."""
    ranks = len(net.size)
    found = Found(
        np.full((nodes, ranks), NEVER),
        np.full((nodes, ranks), -1, np.int32),
        np.full((nodes, ranks), -1, np.int32),
    )
    for rank in range(ranks):
        found.known[rank, rank] = 0.0
    free = np.zeros(len(net.alpha))
    now = 0.0
    for moment in range(MOST_MOMENTS):
        if _send(net, found, free, priorities, now, moment):
            continue
        if _is_complete(found.known, ranks):
            finish = found.known[:ranks].max()
            return (finish, found) if finish < limit else (NEVER, found)
        now = _next_moment(net, found.known, free, now)
        if now == NEVER and priorities.least > 1:
            # Nothing is under way, and routes wait for more new chunks than there will be: none waits now.
            now = _latest(found.known, free)
            priorities = Priorities(priorities.noise, priorities.rare, priorities.long, 1)
        if now >= limit:
            break
    return NEVER, found


@kernel
def _send(
    net: GossipNetwork, found: Found, free: FloatArray, priorities: Priorities, now: float, moment: int
) -> bool:
    """Send over the classes, those with most that is new first; return whether anything was sent."""
    noise = priorities.noise[moment % len(priorities.noise)]
    key = np.zeros(len(noise))
    for one in range(len(noise)):
        total, count = 0.0, net.classes[one + 1] - net.classes[one]
        for route in range(net.classes[one], net.classes[one + 1]):
            if _ready(net, free, route) <= now + SOON:
                total += _gain(net, found, route, priorities, now, moment)
        if total > 0.0:
            key[one] = total / count + noise[one]
    sent = False
    for one in np.argsort(-key):
        if key[one] == 0.0:
            break
        for route in range(net.classes[one], net.classes[one + 1]):
            gain = _gain(net, found, route, priorities, now, moment)
            # What others have sent meanwhile may leave little: then a better use of the port comes next time.
            if gain > 0.0 and 2 * gain >= key[one] - noise[one] and _ready(net, free, route) <= now + SOON:
                _send_over(net, found, free, route, now, moment)
                sent = True
    return sent


@kernel
def _ready(net: GossipNetwork, free: FloatArray, route: int) -> float:
    """Return from when on a message over the route finds every link free as its head arrives."""
    ready, ahead = 0.0, 0.0
    for place in range(net.offsets[route], net.offsets[route + 1]):
        link = net.links[place]
        ready = max(ready, free[link] - ahead)
        ahead += net.alpha[link]
    return ready


@kernel
def _is_new(found: Found, source: int, target: int, chunk: int, now: float, moment: int) -> bool:
    """Return whether the source knows a chunk, sent to it before this moment, that the target shall get."""
    if found.known[target, chunk] != NEVER or found.known[source, chunk] > now + SOON:
        return False
    return found.moment[source, chunk] < moment


@kernel
def _gain(
    net: GossipNetwork, found: Found, route: int, priorities: Priorities, now: float, moment: int
) -> float:
    """Return what the route could bring: a chunk counts more if neighbours lack it too; 0: too few."""
    source, target, count, gain = net.source[route], net.target[route], 0, 0.0
    for chunk in range(len(net.size)):
        if _is_new(found, source, target, chunk, now, moment):
            count += 1
            gain += 1.0
            if priorities.rare > 0.0:
                for place in range(net.near[target], net.near[target + 1]):
                    if found.known[net.neighbour[place], chunk] == NEVER:
                        gain += priorities.rare
    return 0.0 if count < priorities.least and net.latency[route] >= priorities.long else gain


@kernel
def _send_over(
    net: GossipNetwork, found: Found, free: FloatArray, route: int, now: float, moment: int
) -> None:
    """Send all that is new over a route: hold its links, and note when the chunks will be there."""
    source, target = net.source[route], net.target[route]
    load = 0.0
    for chunk in range(len(net.size)):
        if _is_new(found, source, target, chunk, now, moment):
            load += net.size[chunk]
            found.route[target, chunk] = route
            found.moment[target, chunk] = moment
    head, tail = now, 0.0
    for place in range(net.offsets[route], net.offsets[route + 1]):
        link = net.links[place]
        sending = load * net.seconds[link]
        head += net.alpha[link]
        tail = max(head + sending, tail + net.alpha[link])
        free[link] = head + sending
    for chunk in range(len(net.size)):
        if found.route[target, chunk] == route and found.moment[target, chunk] == moment:
            found.known[target, chunk] = tail


@kernel
def _is_complete(known: FloatArray, ranks: int) -> bool:
    for rank in range(ranks):
        for chunk in range(ranks):
            if known[rank, chunk] == NEVER:
                return False
    return True


@kernel
def _next_moment(net: GossipNetwork, known: FloatArray, free: FloatArray, now: float) -> float:
    """Return the next moment at which a chunk comes, or a route has its links free."""
    soonest = NEVER
    for node in range(known.shape[0]):
        for chunk in range(known.shape[1]):
            if now + SOON < known[node, chunk] < soonest:
                soonest = known[node, chunk]
    for route in range(len(net.source)):
        ready = _ready(net, free, route)
        if now + SOON < ready < soonest:
            soonest = ready
    return soonest


@kernel
def _latest(known: FloatArray, free: FloatArray) -> float:
    """Return when all that was sent is over."""
    last = free.max()
    for node in range(known.shape[0]):
        for chunk in range(known.shape[1]):
            if known[node, chunk] != NEVER:
                last = max(last, known[node, chunk])
    return last

"""Greedy gossip in time: a message goes when its links are free, first what brings a node most that is new.

A message has all that its source then knows and its target neither knows nor is about to be sent. It enters
each link of its route when its head is there, and goes only if all are free then; it holds each for α and its
bytes over the bandwidth, as in `schedules.simulation.simulate`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from topologies.exact import FloatArray, Int32Array, Int64Array

NEVER = np.inf
SOON = 1e-14
"""Seconds within which moments are one."""
MOST_MOMENTS = 2**14
"""At which something is sent; a search with more is given up."""


class Wires(NamedTuple):
    """Routes and links as arrays: `heuristics.gossip.method.Network`, and seconds of each link.

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


class Preferences(NamedTuple):
    """What one try prefers.

    There is `noise` (moments, classes) on what a class is worth: one a new chunk, and `rare` for each
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


@njit(cache=True)
def gossip(wires: Wires, nodes: int, prefers: Preferences, limit: float) -> tuple[float, Found]:
    """Return when all ranks know all (infinite: not before `limit`, or never), and what was sent."""
    ranks = len(wires.size)
    found = Found(
        np.full((nodes, ranks), NEVER),
        np.full((nodes, ranks), -1, np.int32),
        np.full((nodes, ranks), -1, np.int32),
    )
    for rank in range(ranks):
        found.known[rank, rank] = 0.0
    free = np.zeros(len(wires.alpha))
    now = 0.0
    for moment in range(MOST_MOMENTS):
        if _send(wires, found, free, prefers, now, moment):
            continue
        if _is_complete(found.known, ranks):
            finish = found.known[:ranks].max()
            return (finish, found) if finish < limit else (NEVER, found)
        now = _next_moment(wires, found.known, free, now)
        if now == NEVER and prefers.least > 1:
            now = _latest(found.known, free)
            prefers = Preferences(prefers.noise, prefers.rare, prefers.long, 1)
        if now >= limit:
            break
    return NEVER, found


@njit(cache=True)
def _send(
    wires: Wires, found: Found, free: FloatArray, prefers: Preferences, now: float, moment: int
) -> bool:
    """Send over the classes, those with most that is new first; return whether anything was sent."""
    noise = prefers.noise[moment % len(prefers.noise)]
    key = np.zeros(len(noise))
    for one in range(len(noise)):
        total, count = 0.0, wires.classes[one + 1] - wires.classes[one]
        for route in range(wires.classes[one], wires.classes[one + 1]):
            if _ready(wires, free, route) <= now + SOON:
                total += _worth(wires, found, route, prefers, now, moment)
        if total > 0.0:
            key[one] = total / count + noise[one]
    sent = False
    for one in np.argsort(-key):
        if key[one] == 0.0:
            break
        for route in range(wires.classes[one], wires.classes[one + 1]):
            worth = _worth(wires, found, route, prefers, now, moment)
            # What others have sent meanwhile may leave little: then a better use of the port comes next time.
            if (
                worth > 0.0
                and 2 * worth >= key[one] - noise[one]
                and _ready(wires, free, route) <= now + SOON
            ):
                _go(wires, found, free, route, now, moment)
                sent = True
    return sent


@njit(cache=True)
def _ready(wires: Wires, free: FloatArray, route: int) -> float:
    """Return from when on a message over the route finds every link free as its head arrives."""
    ready, ahead = 0.0, 0.0
    for place in range(wires.offsets[route], wires.offsets[route + 1]):
        link = wires.links[place]
        ready = max(ready, free[link] - ahead)
        ahead += wires.alpha[link]
    return ready


@njit(cache=True)
def _is_new(found: Found, source: int, target: int, chunk: int, now: float, moment: int) -> bool:
    """Return whether the source knows a chunk, sent to it before this moment, that the target shall get."""
    if found.known[target, chunk] != NEVER or found.known[source, chunk] > now + SOON:
        return False
    return found.moment[source, chunk] < moment


@njit(cache=True)
def _worth(wires: Wires, found: Found, route: int, prefers: Preferences, now: float, moment: int) -> float:
    """Return what the route could bring: a chunk counts more if neighbours lack it too; 0: too few."""
    source, target, count, worth = wires.source[route], wires.target[route], 0, 0.0
    for chunk in range(len(wires.size)):
        if _is_new(found, source, target, chunk, now, moment):
            count += 1
            worth += 1.0
            if prefers.rare > 0.0:
                for place in range(wires.near[target], wires.near[target + 1]):
                    if found.known[wires.neighbour[place], chunk] == NEVER:
                        worth += prefers.rare
    return 0.0 if count < prefers.least and wires.latency[route] >= prefers.long else worth


@njit(cache=True)
def _go(wires: Wires, found: Found, free: FloatArray, route: int, now: float, moment: int) -> None:
    """Send all that is new over a route: hold its links, and note when the chunks will be there."""
    source, target = wires.source[route], wires.target[route]
    load = 0.0
    for chunk in range(len(wires.size)):
        if _is_new(found, source, target, chunk, now, moment):
            load += wires.size[chunk]
            found.route[target, chunk] = route
            found.moment[target, chunk] = moment
    head, tail = now, 0.0
    for place in range(wires.offsets[route], wires.offsets[route + 1]):
        link = wires.links[place]
        sending = load * wires.seconds[link]
        head += wires.alpha[link]
        tail = max(head + sending, tail + wires.alpha[link])
        free[link] = head + sending
    for chunk in range(len(wires.size)):
        if found.route[target, chunk] == route and found.moment[target, chunk] == moment:
            found.known[target, chunk] = tail


@njit(cache=True)
def _is_complete(known: FloatArray, ranks: int) -> bool:
    for rank in range(ranks):
        for chunk in range(ranks):
            if known[rank, chunk] == NEVER:
                return False
    return True


@njit(cache=True)
def _next_moment(wires: Wires, known: FloatArray, free: FloatArray, now: float) -> float:
    """Return the next moment at which a chunk comes, or a route has its links free."""
    soonest = NEVER
    for node in range(known.shape[0]):
        for chunk in range(known.shape[1]):
            if now + SOON < known[node, chunk] < soonest:
                soonest = known[node, chunk]
    for route in range(len(wires.source)):
        ready = _ready(wires, free, route)
        if now + SOON < ready < soonest:
            soonest = ready
    return soonest


@njit(cache=True)
def _latest(known: FloatArray, free: FloatArray) -> float:
    """Return when all that was sent is over."""
    last = free.max()
    for node in range(known.shape[0]):
        for chunk in range(known.shape[1]):
            if known[node, chunk] != NEVER:
                last = max(last, known[node, chunk])
    return last

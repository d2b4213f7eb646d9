"""Steps for data on fixed paths: a link takes a quota of data per step, first data with most hops left.

If nothing is copied or added, all data may start immediately, and only the order on each link is free. With
no quota each datum moves as soon as it can, in as many steps as the longest path has hops, and each link pays
α for one message per step. With smaller quotas a link that has little to do in a step does not hold up data
that others wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.schedules.schedule import Clock, Routes, Schedule, step_numbers
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.exact import INT64_MAX, FloatArray, Int32Array, Int64Array, entries_of, offsets_of
from tutti.topologies.kernels import kernel

CUTS = (12, 4, 1)
"""Numbers of parts into which a datum may be cut; the largest with few enough transfers is taken."""
SPREADS = (0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
"""Numbers of quotas in the busiest link's load, as multiples of the hops of the longest path."""
ROUNDING = 1e-9
"""Relative error of sums of loads. A larger value leaves out fewer quotas that can't be the fastest."""


def paced(schedule: Schedule, size: Fraction | int, *others: Schedule) -> Schedule:
    """Return the fastest at a size: one of `others`, the schedule, or one that moves its data in steps.

    Parameters
    ----------
    schedule
        A schedule in which every chunk goes from one rank to one, and is not copied and not added. A row has
        one chunk, and the hops of each chunk are in order.
    size
        M in bytes.
    others
        Other schedules of the same problem. Among equally fast ones, the first of these is returned.
    """
    order = np.argsort(schedule.chunk, kind="stable")
    hops = np.bincount(schedule.chunk)
    routes = schedule.route_table
    hop = Hops(
        begin=offsets_of(hops[hops > 0]),
        route=schedule.route[order].astype(np.int64),
        amount=schedule.load[order].astype(np.float64),
        first=routes.offsets,
        links=routes.links,
        slowness=1 / schedule.topology.bandwidth.numerators.astype(np.float64),
    )
    timed = [(simulate(made, size).time, made) for made in (*others, schedule)]
    least, fastest = min(timed, key=lambda one: one[0])
    seconds = float(Fraction(size) * schedule.topology.bandwidth.denominator / schedule.chunks.denominator)
    alpha = schedule.topology.alpha.floats
    for quota, shortest in quotas(hop, alpha, seconds) if len(order) else ():
        if shortest > least:
            continue
        step = steps(hop, quota)
        rows = np.lexsort((schedule.chunk[order], hop.route, step))
        made = schedule.replace(
            clock=Clock.STEP,
            chunk=schedule.chunk[order][rows],
            route=schedule.route[order][rows],
            order=step_numbers(step[rows]),
            tick=None,
            size=None,
        )
        time = simulate(made, size).time
        if time < least:
            least, fastest = time, made
    return fastest


def hop_by_hop(schedule: Schedule, most: int) -> Schedule:
    """Return the schedule with a stop at each rank on a route; chunks are cut into equal parts.

    Parameters
    ----------
    schedule
        A schedule in the flow clock with one chunk per row.
    most
        Largest number of rows: chunks are cut into the largest number of `CUTS` that does not exceed it.
    """
    topology, routes = schedule.topology, schedule.route_table
    stops = topology.target[routes.links] < topology.num_ranks
    last = np.flatnonzero(stops) + 1
    parts = [tuple(part.tolist()) for part in np.split(routes.links, last[:-1])]
    number = {part: index for index, part in enumerate(dict.fromkeys(parts))}
    route_of = np.array([number[part] for part in parts])
    count = np.add.reduceat(stops, routes.offsets[:-1])[schedule.route]
    first = np.searchsorted(last, routes.offsets[:-1], side="right")[schedule.route]
    room = INT64_MAX // schedule.chunks.denominator
    cut = next((cut for cut in CUTS if cut * count.sum() <= most and cut <= room), 1)
    row, place = entries_of(count)
    hop = first[row] + place
    return schedule.replace(
        chunks=schedule.chunks.cut(cut),
        chunk=np.tile(schedule.chunk[row], cut) * cut + np.repeat(np.arange(cut), len(row)),
        route=np.tile(route_of[hop], cut),
        routes=Routes.of(list(number)),
    )


class Hops(NamedTuple):
    """The hops of all data; those of a datum are together and in order.

    Parameters
    ----------
    begin
        int64, shape (data + 1,): the first hop of each datum.
    route, amount
        The route of each hop, and the amount that goes over it.
    first, links
        The links of routes, as in `schedules.schedule.Routes`.
    slowness
        The time that each link needs for an amount of 1.
    """

    begin: Int64Array
    route: Int64Array
    amount: FloatArray
    first: Int64Array
    links: Int32Array
    slowness: FloatArray

    @classmethod
    def over_links(cls, begin: Int64Array, link: Int32Array, size: FloatArray, slowness: FloatArray) -> Hops:
        """Return hops over one link each, given the sizes of data."""
        first, links = np.arange(len(slowness) + 1), np.arange(len(slowness), dtype=np.int32)
        return cls(begin, link.astype(np.int64), np.repeat(size, np.diff(begin)), first, links, slowness)


def quotas(hop: Hops, alpha: FloatArray, seconds: float) -> Iterator[tuple[float, float]]:
    """Yield the quota for each of `SPREADS`, and a lower bound in seconds on every schedule with it.

    A link sends a message for each quota that goes into its load, or fewer if a datum is larger than the
    quota, and pays α for each.

    Parameters
    ----------
    hop
        The hops, at least one.
    alpha
        The α of each link in seconds.
    seconds
        The time of an amount of 1 on a link of slowness 1.
    """
    most, (used, largest) = int(np.diff(hop.begin).max()), _use(hop)
    for spread in SPREADS:
        quota = float(used.max()) / (spread * most)
        sent = np.ceil(used / np.maximum(quota, largest).clip(min=np.finfo(float).tiny) * (1 - ROUNDING))
        yield quota, float((used * seconds + sent * alpha).max()) * (1 - ROUNDING)


def steps(hop: Hops, quota: float) -> Int64Array:
    """Return the step of every hop, counted from 1, for a quota."""
    step = np.empty(len(hop.route), dtype=np.int64)
    _pace(hop, quota, step)
    return step


@kernel
def last_end(hop: Hops, step: Int64Array, alpha: FloatArray, seconds: float) -> float:
    """Return when the last message arrives.

    A link's data in a step is one message, after that of the last step. The result equals that of `simulate`
    except for rounding.

    Parameters
    ----------
    hop
        Hops over one link each.
    step
        The step of each hop, counted from 1.
    alpha
        The α of each link in seconds.
    seconds
        The time of an amount of 1 on a link of slowness 1.
    """
    ready, free = np.zeros(len(hop.begin) - 1), np.zeros(len(alpha))
    start, held = np.full(len(alpha), -1.0), np.zeros(len(alpha))
    first, datum, link, amount = _by_step(hop, step)
    for number in range(len(first) - 1):
        # A message starts when all its data is there and its link is free.
        for place in range(first[number], first[number + 1]):
            on = link[place]
            start[on] = max(start[on], ready[datum[place]])
            held[on] += amount[place] * hop.slowness[on] * seconds
        for on in range(len(alpha)):
            if start[on] >= 0:
                free[on] = max(free[on], start[on]) + alpha[on] + held[on]
                start[on], held[on] = -1.0, 0.0
        for place in range(first[number], first[number + 1]):
            ready[datum[place]] = free[link[place]]
    return free.max()


def busiest(hop: Hops) -> float:
    """Return the time of the busiest link for all its data, without α."""
    return float(_use(hop)[0].max())


@kernel
def _by_step(hop: Hops, step: Int64Array) -> tuple[Int64Array, Int32Array, Int32Array, FloatArray]:
    """Return where the hops of each step begin, and the datum, link and amount of each, step by step."""
    first = np.zeros(step.max() + 2, dtype=np.int64)
    for number in step:
        first[number + 1] += 1
    first = np.cumsum(first)
    place = first[:-1].copy()
    datum, link = np.empty(len(step), dtype=np.int32), np.empty(len(step), dtype=np.int32)
    amount = np.empty(len(step))
    for of in range(len(hop.begin) - 1):
        for at in range(hop.begin[of], hop.begin[of + 1]):
            to = place[step[at]]
            datum[to], link[to], amount[to] = of, hop.route[at], hop.amount[at]
            place[step[at]] += 1
    return first, datum, link, amount


@kernel
def _use(hop: Hops) -> tuple[FloatArray, FloatArray]:
    """Return the time of each link for all its data, and for its largest datum, without α."""
    used, largest = np.zeros(len(hop.slowness)), np.zeros(len(hop.slowness))
    for place in range(len(hop.route)):
        for at in range(hop.first[hop.route[place]], hop.first[hop.route[place] + 1]):
            link = hop.links[at]
            time = hop.amount[place] * hop.slowness[link]
            used[link] += time
            largest[link] = max(largest[link], time)
    return used, largest


@kernel
def _pace(hop: Hops, quota: float, step: Int64Array) -> None:
    """Write the step of every hop.

    In each step data are taken by a counting sort over the hops that they have left, and each makes its next
    hop if it fits into the quotas of all its links.
    """
    begin, data = hop.begin, len(hop.begin) - 1
    at = begin[:-1].copy()
    count = np.zeros((begin[1:] - begin[:-1]).max() + 1, dtype=np.int64)
    order, first = np.empty(data, dtype=np.int64), np.zeros_like(count)
    used = np.empty(len(hop.slowness))
    for datum in range(data):  # counted by the hops that each has left
        count[begin[datum + 1] - begin[datum]] += 1
    now = 0
    while count[0] < data:
        now += 1
        moving = 0
        for hops in range(len(count) - 1, 0, -1):  # those with the most hops left first
            first[hops] = moving
            moving += count[hops]
        for datum in range(data):
            hops = begin[datum + 1] - at[datum]
            if hops > 0:
                order[first[hops]] = datum
                first[hops] += 1
        used[:] = 0.0
        for place in range(moving):
            datum = order[place]
            if _fits(hop, at[datum], quota, used):
                hops = begin[datum + 1] - at[datum]
                count[hops] -= 1
                count[hops - 1] += 1
                step[at[datum]] = now
                at[datum] += 1


@kernel
def _fits(hop: Hops, place: int, quota: float, used: FloatArray) -> bool:
    """Return whether each link of a hop has room for it or is idle; if so, take the room."""
    route, amount = hop.route[place], hop.amount[place]
    for at in range(hop.first[route], hop.first[route + 1]):
        link = hop.links[at]
        if used[link] > 0 and used[link] + amount * hop.slowness[link] > quota:
            return False
    for at in range(hop.first[route], hop.first[route + 1]):
        used[hop.links[at]] += amount * hop.slowness[hop.links[at]]
    return True

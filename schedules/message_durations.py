"""The time clock's messages, and the number of ticks that each lasts: one implementation for all callers.

A *message* is what travels together: all rows with one route and one order or, in the flow clock, a single
row. In the time clock a message of b bytes that starts at tick s

* enters link j of its route at s + ceil((α_0 + ... + α_{j-1}) / tick),
* holds it for ceil((α_j + b / bandwidth_j) / tick) ticks from then, and
* is at its destination at s + ceil((sum of α + b / slowest bandwidth) / tick),

Each quantity is computed exactly and rounded up once. Holding a link and arriving take at least a tick, even
if nothing is sent over links without α. Otherwise a message could be forwarded at the moment when it starts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from tutti.schedules.schedule import Chunks, Clock, Schedule
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT64_MAX, Int32Array, Int64Array, common_divisor, frozen
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology

RESOLUTION = 10**6
"""Number of ticks in the shortest message of `link_ticks`. Rounding up adds less than 1e-6 of it."""
REACH = 2.0**62
"""Limit for times in ticks and for the keys by which they are sorted. 64 bits hold twice as much."""


class FarApartError(ArithmeticError):
    """The shortest message and the whole schedule lie too far apart for one clock of 64 bits."""


def check_reach(*times: float | Fraction) -> None:
    """Check that times in ticks are below `REACH`.

    Raises
    ------
    FarApartError
        If they are not.
    """
    if any(time >= REACH for time in times):
        raise FarApartError("messages are too far apart in length for one clock")


@dataclass(frozen=True, eq=False)
class Messages:
    """The messages of a schedule, numbered by their first row.

    Parameters
    ----------
    of_row
        int32, shape (transfers,): the message of each row.
    route
        int32, shape (messages,).
    order
        int64, shape (messages,): non-decreasing; zeros in the flow clock.
    load
        int64, shape (messages,): the load of each, over `Chunks.denominator`.
    """

    of_row: Int32Array
    route: Int32Array
    order: Int64Array
    load: Int64Array

    def __len__(self) -> int:
        return len(self.route)


class Durations(NamedTuple):
    """Times of messages, in ticks from their start. Messages with equal links and load share a kind.

    Parameters
    ----------
    kind
        int32, shape (messages,): the row of each in the tables below.
    arrival
        int64, shape (kinds,): the time until the data is at the destination.
    offsets
        int64, shape (kinds + 1,): the links of kind k, in route order, are entries offsets[k] to
        offsets[k + 1] - 1 of `enter` and `hold`.
    enter
        int64: the time until the head enters the link.
    hold
        int64: the time for which the link is held from then on.
    """

    kind: Int32Array
    arrival: Int64Array
    offsets: Int64Array
    enter: Int64Array
    hold: Int64Array

    @property
    def until_arrival(self) -> Int64Array:
        """int64, shape (messages,): ticks from each message's start until its data has arrived."""
        return self.arrival[self.kind]

    @classmethod
    def over_one_link(cls, ticks: Int64Array) -> Durations:
        """Return the durations of messages over one link each, which they hold for `ticks`."""
        each = np.arange(len(ticks) + 1)
        return cls(each[:-1].astype(np.int32), ticks, each, np.zeros_like(ticks), ticks)


def messages(schedule: Schedule) -> Messages:
    """Return the messages of a schedule, in time linear in its table."""
    load = schedule.load
    if schedule.order is None:
        rows = np.arange(len(schedule), dtype=np.int32)
        return Messages(rows, schedule.route.copy(), np.zeros(len(schedule), dtype=np.int64), load)
    of_row, first = _group(schedule.order.astype(np.int64), schedule.route, len(schedule.route_table))
    total = np.zeros(len(first), dtype=np.int64)
    _add_at(total, of_row, load)
    return Messages(of_row, schedule.route[first], schedule.order[first].astype(np.int64), total)


@kernel(light=1)
def _group(order: Int64Array, route: Int32Array, num_routes: int) -> tuple[Int32Array, Int64Array]:
    """Number the pairs (order, route) by first occurrence; `order` is non-decreasing."""
    of_row = np.empty(len(route), dtype=np.int32)
    first = np.empty(len(route), dtype=np.int64)
    latest = np.full(num_routes, -1, dtype=np.int32)
    known = 0
    for row in range(len(route)):
        candidate = latest[route[row]]
        if candidate < 0 or order[first[candidate]] != order[row]:
            candidate = known
            first[known] = row
            latest[route[row]] = known
            known += 1
        of_row[row] = candidate
    return of_row, first[:known].copy()


@kernel(light=1)
def _add_at(total: Int64Array, index: Int32Array, value: Int64Array) -> None:
    for row in range(len(index)):
        total[index[row]] += value[row]


def transfer_ticks(schedule: Schedule, grouped: Messages) -> Durations:
    """Return the durations of the messages of a time-clock schedule, at the schedule's own size.

    Parameters
    ----------
    schedule
        A schedule in the time clock, with its tick and size.
    grouped
        The schedule's `messages`.

    Raises
    ------
    InputError
        If it is not in the time clock, lacks a positive tick or size, or lasts more ticks than 64 bits hold.
    """
    if schedule.clock is not Clock.TIME:
        raise InputError(f"only a time-clock schedule has ticks; this one has the {schedule.clock} clock")
    if schedule.tick is None or schedule.size is None or schedule.tick <= 0 or schedule.size <= 0:
        raise InputError("a time-clock schedule needs a positive tick and a positive size")
    tick, unit = schedule.tick, schedule.size / schedule.chunks.denominator
    alpha, bandwidth = schedule.topology.alpha, schedule.topology.bandwidth
    of_route, examples = _route_classes(schedule)
    loads, which = np.unique(grouped.load, return_inverse=True)
    keys, kind = np.unique(
        of_route[grouped.route].astype(np.int64) * max(1, len(loads)) + which, return_inverse=True
    )
    arrival, lengths, enter, hold = [], [0], [], []
    for key in keys.tolist():
        route_class, load = divmod(key, max(1, len(loads)))
        links, size = examples[route_class], int(loads[load]) * unit
        # The head enters each link after the α of those before it.
        *heads, latency = accumulate((alpha[link] for link in links), initial=Fraction(0))
        slowest = min(bandwidth[link] for link in links)
        arrival.append(max(1, _round_up(latency + size / slowest, tick)))
        lengths.append(len(links))
        enter += [_round_up(head, tick) for head in heads]
        hold += [max(1, _round_up(alpha[link] + size / bandwidth[link], tick)) for link in links]
    return Durations(
        frozen(kind, np.int32),
        frozen(np.array(arrival, dtype=np.int64), np.int64),
        frozen(np.cumsum(lengths), np.int64),
        frozen(np.array(enter, dtype=np.int64), np.int64),
        frozen(np.array(hold, dtype=np.int64), np.int64),
    )


def _round_up(seconds: Fraction, tick: Fraction) -> int:
    ticks = -((-seconds) // tick)
    if ticks > INT64_MAX:
        raise InputError(
            f"a message lasts {ticks} ticks of {tick} s, more than 64 bits hold; use a longer tick"
        )
    return int(ticks)


def _route_classes(schedule: Schedule) -> tuple[Int32Array, list[list[int]]]:
    """Return each route's class (equal α and bandwidth, link by link), and one route of each class."""
    topology, table = schedule.topology, schedule.route_table
    pairs = np.stack([topology.alpha.numerators, topology.bandwidth.numerators])
    _, link_class = np.unique(pairs, axis=1, return_inverse=True)
    classes: dict[tuple[int, ...], int] = {}
    examples: list[list[int]] = []
    of_route = np.empty(len(table), dtype=np.int32)
    all_links = table.links.tolist()
    for route, (begin, end) in enumerate(pairwise(table.offsets.tolist())):
        links = all_links[begin:end]
        signature = tuple(link_class.ravel()[links].tolist())
        if signature not in classes:
            classes[signature] = len(examples)
            examples.append(links)
        of_route[route] = classes[signature]
    return of_route, examples


FINE_RESOLUTION = 2**30
"""Number of ticks in the shortest message if `exact_tick` rounds. This adds less than 1e-9 of it."""


def exact_tick(seconds: Sequence[Fraction], horizon: Fraction) -> Fraction:
    """Return a tick of which all times are multiples or, if it is too short, one that hardly rounds.

    Parameters
    ----------
    seconds
        Positive times.
    horizon
        Largest duration of the whole in seconds; it has at most `REACH` ticks.

    Examples
    --------
    >>> exact_tick([Fraction(1, 2), Fraction(1, 3)], Fraction(100))
    Fraction(1, 6)
    >>> exact_tick([Fraction(1, 2), Fraction(1, 3)], Fraction(2**60)) > Fraction(1, 6)
    True
    """
    tick, least = seconds[0], horizon / int(REACH)
    for value in seconds[1:]:
        if tick < least:
            break
        tick = common_divisor([tick, value])
    return tick if tick >= least else max(min(seconds) / FINE_RESOLUTION, least)


def tick_of(topology: Topology, chunk_sizes: Iterable[Fraction], transfers: int) -> Fraction:
    """Return a tick of which all times are multiples or, if it is too short, one that hardly rounds.

    Parameters
    ----------
    chunk_sizes
        The sizes of chunks in bytes.
    transfers
        The number of transfers: all of them, one after the other, last at most as many ticks as 64 bits hold.
    """
    alphas = {topology.alpha[link] for link in range(topology.num_links)}
    bandwidths = {topology.bandwidth[link] for link in range(topology.num_links)}
    seconds = [*(alpha for alpha in alphas if alpha), *(n / b for n in chunk_sizes for b in bandwidths)]
    return exact_tick(seconds, 2 * topology.num_nodes * max(seconds) * transfers)


def sizes_of(chunks: Chunks, size: Fraction) -> list[Fraction]:
    """Return the different sizes of chunks in bytes, the largest last."""
    return [size * amount / chunks.denominator for amount in np.unique(chunks.size).tolist()]


class LinkTicks(NamedTuple):
    """The ticks for which messages of some amounts hold single links, rounded up as in the time clock.

    Parameters
    ----------
    kind
        int64, shape (links,): links with equal α and bandwidth share a kind.
    table
        int64, shape (kinds, amounts).
    tick
        The tick in seconds.
    """

    kind: Int64Array
    table: Int64Array
    tick: Fraction


def link_ticks(topology: Topology, amounts: Int64Array, unit: Fraction) -> LinkTicks:
    """Return how long messages hold links, in ticks such that the shortest message has `RESOLUTION` of them.

    Parameters
    ----------
    topology
        The network.
    amounts
        int64, shape (amounts,): amounts of messages, in units.
    unit
        The bytes of a unit.

    Raises
    ------
    FarApartError
        If a message takes more ticks than `REACH`.
    """
    costs = np.stack([topology.alpha.numerators, topology.bandwidth.numerators])
    _, example, kind = np.unique(costs, axis=1, return_index=True, return_inverse=True)
    seconds = [[topology.alpha[e] + int(n) * unit / topology.bandwidth[e] for n in amounts] for e in example]
    tick = min(map(min, seconds)) / RESOLUTION
    check_reach(max(map(max, seconds)) / tick)
    table = np.array([[math.ceil(value / tick) for value in row] for row in seconds], dtype=np.int64)
    return LinkTicks(kind.ravel(), table, tick)

"""Exact costs: (T_L, T_B, T_C) of a step schedule, congestion of any (dissertation, sections 3.3.2 and A.3).

T_L counts α: each step lasts as many α as its longest route has links. T_B is the sum over steps of the
largest time that a link needs for its load of that step, per byte of M:

    T_B = sum over steps t of  max over links l of  load(l, t) / bandwidth(l)

T_C counts γ, the time in which a rank reduces one received byte (A.3.4). A rank reduces the data of a step
before the next step begins, so T_C is the sum over steps of the most bytes that a rank reduces. Switches that
add do so at the speed of their links.

Congestion is the same maximum over all rows together: the time of a pipelined schedule per byte of M.

Data that crosses between hosts is counted once, on a link from a node of a host to a node outside, as by the
authors of Bine trees (De Sensi et al., SC 2025).

The best values are taken over all networks of N ranks and degree d (section A.3). T_L is compared with the
Moore bound on the diameter, T_B with the data that every rank must receive. An allreduce, done as a
reduce-scatter and then an allgather, has twice both (A.3.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.schedules.collective import Kind
from tutti.schedules.schedule import Clock, Schedule, TransferColumns
from tutti.topologies.errors import InputError, Unsupported
from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.graphs.grid_structure import hosts_of
from tutti.topologies.kernels import kernel


@dataclass(frozen=True)
class StepCost:
    """A step schedule takes at most ``tl_steps`` α + (``bandwidth_time`` + γ ``tc``) M seconds.

    Parameters
    ----------
    tl_steps
        T_L in units of α: the number of steps if every route is one link.
    bandwidth_time
        T_B in seconds per byte of M.
    tb
        T_B in units of M/B; None if the topology has no B (`Topology.node_bandwidth`).
    tc
        T_C in units of M γ; 0 if nothing is reduced.
    """

    tl_steps: int
    bandwidth_time: Fraction
    tb: Fraction | None
    tc: Fraction


class _Peaks(NamedTuple):
    """For each period (a step, or the whole table): largest load of each class of links, and longest route.

    `totals` holds the loads of the last period in which each link was used, and `stamp` that period's number.
    """

    load: Int64Array
    bandwidth: Int64Array
    longest: Int64Array
    totals: Int64Array
    stamp: Int64Array


def step_cost(schedule: Schedule) -> StepCost:
    """Return the exact T_L, T_B and T_C of a schedule in the step clock.

    Raises
    ------
    InputError
        If it has another clock, or the load of a link or rank in a step does not fit 64 bits.
    """
    if schedule.clock is not Clock.STEP or schedule.order is None:
        raise InputError(f"T_L and T_B are of step schedules; this one has the {schedule.clock} clock")
    changes = np.flatnonzero(schedule.order[1:] != schedule.order[:-1]) + 1
    begin = np.concatenate([[0], changes, [len(schedule)]])
    peaks = _peaks(schedule, np.unique(begin))
    seconds = _sum_of_maxima(peaks, schedule)
    bandwidth = schedule.topology.node_bandwidth
    tb = None if bandwidth is None else seconds * bandwidth
    return StepCost(int(peaks.longest.sum()), seconds, tb, _reduced(schedule))


def _reduced(schedule: Schedule) -> Fraction:
    """Return T_C in units of M γ: the sum over steps of the largest amount that a rank reduces."""
    if schedule.reduce is None or schedule.order is None:
        return Fraction(0)
    ranks, target = schedule.topology.num_ranks, schedule.target
    rows = np.flatnonzero(schedule.reduce & (target < ranks))
    places, which = np.unique(
        schedule.order[rows].astype(np.int64) * ranks + target[rows], return_inverse=True
    )
    loads = np.zeros(len(places), dtype=np.int64)
    np.add.at(loads, which, schedule.load[rows])
    first = np.unique(places // ranks, return_index=True)[1]
    most = np.maximum.reduceat(loads, first) if len(first) else loads
    return Fraction(sum(most.tolist()), schedule.chunks.denominator)


def congestion(schedule: Schedule) -> Fraction:
    """Return the largest total load of a link over its bandwidth, exact, in seconds per byte of M.

    Raises
    ------
    InputError
        If a link's load does not fit 64 bits.
    """
    return total_cost(schedule).congestion


@dataclass(frozen=True)
class TotalCost:
    """Totals of the loads of links.

    Parameters
    ----------
    congestion
        The largest load of a link over its bandwidth, in seconds per byte of M.
    between_hosts
        The sum of the loads of all links that lead out of a host, in units of M; None for a network without
        hosts of equally many ranks (`topologies.graphs.grid_structure.hosts_of`, inferred ones too).
    """

    congestion: Fraction
    between_hosts: Fraction | None


def total_cost(schedule: Schedule) -> TotalCost:
    """Return the exact totals of the loads of links.

    Raises
    ------
    InputError
        If a link's load does not fit 64 bits.
    """
    peaks, topology = _whole(schedule), schedule.topology
    hosts = hosts_of(topology, infer=True)
    across = None
    if not isinstance(hosts, str):
        out = hosts.of[topology.source] >= 0
        out &= hosts.of[topology.source] != hosts.of[topology.target]
        across = Fraction(sum(peaks.totals[out].tolist()), schedule.chunks.denominator)
    return TotalCost(_sum_of_maxima(peaks, schedule), across)


def link_loads(schedule: Schedule) -> Int64Array:
    """Return each link's total load: int64, shape (links,), over ``chunks.denominator``, in units of M.

    Raises
    ------
    InputError
        If a link's load does not fit 64 bits.
    """
    return _whole(schedule).totals


def _whole(schedule: Schedule) -> _Peaks:
    return _peaks(schedule, np.unique(np.array([0, len(schedule)])))


def _peaks(schedule: Schedule, begin: Int64Array) -> _Peaks:
    """Return the peaks of the periods that start at rows begin[:-1] and end before begin[1:]."""
    topology, table = schedule.topology, schedule.route_table
    bandwidth, link_class = np.unique(topology.bandwidth.numerators, return_inverse=True)
    periods = len(begin) - 1
    peaks = _Peaks(
        np.zeros((periods, len(bandwidth)), dtype=np.int64),
        bandwidth,
        np.zeros(periods, dtype=np.int64),
        np.zeros(topology.num_links, dtype=np.int64),
        np.full(topology.num_links, -1, dtype=np.int64),
    )
    wrong = _accumulate(
        begin.astype(np.int64),
        schedule.columns,
        schedule.chunks.offset,
        table.offsets,
        table.links,
        link_class.astype(np.int32),
        peaks,
    )
    if wrong >= 0:
        name = topology.link_name(wrong)
        raise InputError(
            f"the load of link {name} does not fit 64 bits over {schedule.chunks.denominator}; "
            "give the chunks a smaller denominator"
        )
    return peaks


@kernel(light=1)
def _accumulate(
    begin: Int64Array,
    rows: TransferColumns,
    offset: Int64Array,
    route_offsets: Int64Array,
    route_links: Int32Array,
    link_class: Int32Array,
    peaks: _Peaks,
) -> int:
    """Add every row to the links of its route, period by period; return a link that overflows, or -1."""
    chunk, count, route = rows
    load, _, longest, totals, stamp = peaks
    for period in range(len(begin) - 1):
        for row in range(begin[period], begin[period + 1]):
            first = chunk[row]
            last = first + (count[row] if len(count) else 1)
            size = offset[last] - offset[first]
            start, end = route_offsets[route[row]], route_offsets[route[row] + 1]
            longest[period] = max(longest[period], end - start)
            for position in range(start, end):
                link = route_links[position]
                if stamp[link] != period:
                    stamp[link] = period
                    totals[link] = 0
                totals[link] += size
                if totals[link] < 0:  # sizes are not negative: the sum has wrapped
                    return link
                load[period, link_class[link]] = max(load[period, link_class[link]], totals[link])
    return -1


def _sum_of_maxima(peaks: _Peaks, schedule: Schedule) -> Fraction:
    """Return the sum over periods of the largest load / bandwidth, exact, in seconds per byte of M."""
    if len(peaks.load) == 0:
        return Fraction(0)
    common = int(np.lcm.reduce(peaks.bandwidth.astype(object)))
    weights = common // peaks.bandwidth.astype(object)
    total = int((peaks.load.astype(object) * weights).max(axis=1).sum())
    scale = Fraction(schedule.topology.bandwidth.denominator, common * schedule.chunks.denominator)
    return total * scale


_HALVES = {Kind.ALLGATHER: 1, Kind.REDUCE_SCATTER: 1, Kind.ALLREDUCE: 2}


def moore_bound(degree: int, steps: int) -> int:
    """Return M(d, k) = 1 + d + ... + d^k, the most nodes that are within k steps of a node (Definition 9).

    Raises
    ------
    InputError
        If the degree is not positive or the number of steps is negative.

    Examples
    --------
    >>> moore_bound(4, 2)
    21
    """
    if degree < 1 or steps < 0:
        raise InputError(f"Moore bound of degree {degree}, {steps} steps; allowed: degree >= 1, steps >= 0")
    return sum(degree**power for power in range(steps + 1))


def moore_optimal_steps(num_ranks: int, degree: int) -> int:
    """Return T_L*(N, d) in units of α: the least k with M(d, k) >= N (Definition 10).

    Raises
    ------
    InputError
        If the degree or the number of ranks is not positive.

    Examples
    --------
    >>> moore_optimal_steps(22, 4)
    3
    """
    if num_ranks < 1 or degree < 1:
        raise InputError(f"{num_ranks} ranks of degree {degree}: both must be at least 1")
    steps, reached = 0, 1
    while reached < num_ranks:
        steps += 1
        reached += degree**steps
    return steps


def is_moore_optimal(schedule: Schedule) -> bool:
    """Return whether T_L is T_L*(N, d), or 2 T_L*(N, d) for allreduce (Definition 10, A.3.3).

    Raises
    ------
    Unsupported
        If the collective is not an allgather, reduce-scatter or allreduce of all ranks with equal shards,
        or the topology has no degree.
    InputError
        If the schedule is not in the step clock.
    """
    halves = _halves(schedule)
    best = moore_optimal_steps(schedule.topology.num_ranks, _degree(schedule))
    return step_cost(schedule).tl_steps == halves * best


def is_bandwidth_optimal(schedule: Schedule) -> bool:
    """Return whether T_B is (N-1)/N in units of M/B, or twice that for allreduce (Corollary 4.1, A.3.3).

    Raises
    ------
    Unsupported
        As `is_moore_optimal`, and if the links' bandwidths differ.
    InputError
        If the schedule is not in the step clock.
    """
    halves = _halves(schedule)
    _degree(schedule)
    if not schedule.topology.bandwidth.uniform:
        raise Unsupported(
            f"BW-optimality on topology {schedule.topology.name}: defined where all links have one bandwidth"
        )
    cost, n = step_cost(schedule), schedule.topology.num_ranks
    return cost.tb == halves * Fraction(n - 1, n)


def _halves(schedule: Schedule) -> int:
    what = schedule.collective
    if what.kind not in _HALVES or not what.plain:
        raise Unsupported(
            f"optimality of {what}: defined for allgather, reduce-scatter and allreduce "
            "of all ranks with equal shards"
        )
    return _HALVES[what.kind]


def _degree(schedule: Schedule) -> int:
    topology = schedule.topology
    if topology.degree is None or topology.num_switches:
        raise Unsupported(
            f"optimality on topology {topology.name}: defined where all nodes are ranks of one degree"
        )
    return topology.degree

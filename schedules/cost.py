"""Exact costs: (T_L, T_B) of a step schedule, congestion of any (dissertation, sections 3.3.2 and A.3).

T_L counts α: each step lasts as many of them as the longest route that it uses has links. T_B is the sum over
steps of the largest time that a link needs for its load of that step, per byte of M:

    T_B = sum over steps t of  max over links l of  load(l, t) / bandwidth(l)

Congestion is the same maximum over all rows at once: what a pipelined schedule takes per byte of M.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numba import njit

from schedules.schedule import Clock, Schedule, TransferColumns
from topologies.errors import InputError
from topologies.exact import Int32Array, Int64Array


@dataclass(frozen=True)
class StepCost:
    """What a step schedule costs: at most ``tl_steps`` α + ``bandwidth_time`` M seconds for one α.

    Parameters
    ----------
    tl_steps
        T_L in units of α: the number of steps, where every route is one link.
    bandwidth_time
        T_B in seconds per byte of M.
    tb
        T_B in units of M/B; None where the topology has no B (`Topology.node_bandwidth`).
    """

    tl_steps: int
    bandwidth_time: Fraction
    tb: Fraction | None


class _Peaks(NamedTuple):
    """Per period (a step, or the whole table): largest load of each class of links, longest route."""

    load: Int64Array
    bandwidth: Int64Array
    longest: Int64Array
    totals: Int64Array


def step_cost(schedule: Schedule) -> StepCost:
    """Return the exact T_L and T_B of a schedule in the step clock.

    Raises
    ------
    InputError
        If its clock is another, or a link's load in a step does not fit 64 bits.
    """
    if schedule.clock is not Clock.STEP or schedule.order is None:
        raise InputError(f"T_L and T_B are of step schedules; this one has the {schedule.clock} clock")
    changes = np.flatnonzero(schedule.order[1:] != schedule.order[:-1]) + 1
    begin = np.concatenate([[0], changes, [len(schedule)]])
    peaks = _peaks(schedule, np.unique(begin))
    seconds = _sum_of_maxima(peaks, schedule)
    bandwidth = schedule.topology.node_bandwidth
    return StepCost(int(peaks.longest.sum()), seconds, None if bandwidth is None else seconds * bandwidth)


def congestion(schedule: Schedule) -> Fraction:
    """Return the largest total load of a link over its bandwidth, exact, in seconds per byte of M.

    Raises
    ------
    InputError
        If a link's load does not fit 64 bits.
    """
    return _sum_of_maxima(_whole(schedule), schedule)


def link_loads(schedule: Schedule) -> Int64Array:
    """Return what crosses each link in total: int64, shape (links,), over ``chunks.denominator``, units of M.

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


@njit(cache=True)
def _accumulate(
    begin: Int64Array,
    rows: TransferColumns,
    offset: Int64Array,
    route_offsets: Int64Array,
    route_links: Int32Array,
    link_class: Int32Array,
    peaks: _Peaks,
) -> int:
    """Add every row to the links of its route, period by period; return a link that overflows, or -1.

    `totals` holds the loads of the last period in which each link was used, `stamp` which that was.
    """
    chunk, count, route = rows
    load, _, longest, totals = peaks
    stamp = np.full(len(totals), -1, dtype=np.int64)
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

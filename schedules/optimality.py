"""What is best among all networks of N ranks and degree d (dissertation, section A.3).

T_L is measured against the Moore bound on the diameter, T_B against what every rank must receive.
Allreduce, done as a reduce-scatter and then an allgather, has twice both (A.3.3).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from schedules.collective import Kind
from schedules.cost import step_cost
from schedules.schedule import Schedule
from topologies.errors import InputError, Unsupported

_HALVES = {Kind.ALLGATHER: 1, Kind.REDUCE_SCATTER: 1, Kind.ALLREDUCE: 2}


def moore_bound(degree: int, steps: int) -> int:
    """Return M(d, k) = 1 + d + ... + d^k, the most nodes within k steps of one (Definition 9).

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
    if degree == 1:
        return num_ranks - 1
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
        As `is_moore_optimal`, and where the links' bandwidths differ.
    InputError
        If the schedule is not in the step clock.
    """
    halves = _halves(schedule)
    _check_uniform(schedule)
    cost, n = step_cost(schedule), schedule.topology.num_ranks
    return cost.tb == halves * Fraction(n - 1, n)


def balanced_without_duplicates(schedule: Schedule) -> bool:
    """Return whether a valid allgather meets both conditions of Theorem 5, which is to be BW-optimal.

    Condition 1: in every step all links carry the same load. Condition 2: nobody receives anything
    twice, nor anything of its own, so that a rank receives M (N-1)/N in all.

    Raises
    ------
    Unsupported
        As `is_bandwidth_optimal`, and for another collective than allgather or routes over several links.
    """
    _halves(schedule)
    _check_uniform(schedule)
    if schedule.collective.kind is not Kind.ALLGATHER or schedule.routes is not None:
        raise Unsupported("Theorem 5 is about allgather schedules whose routes are links")
    return _every_link_alike(schedule) and _nothing_twice(schedule)


def _every_link_alike(schedule: Schedule) -> bool:
    """Condition 1, by the totals of each (step, link)."""
    links = schedule.topology.num_links
    _, step = np.unique(_order(schedule), return_inverse=True)
    loads = np.zeros((int(step.max(initial=-1)) + 1, links), dtype=np.int64)
    np.add.at(loads, (step, schedule.route), schedule.load)
    missing = (schedule.topology.degree or 0) * schedule.topology.num_ranks - links
    return missing == 0 and bool((loads == loads[:, :1]).all())


def _nothing_twice(schedule: Schedule) -> bool:
    """Condition 2, by what each rank receives of each item: its size, of all but its own."""
    items = schedule.collective.items
    received = np.zeros((schedule.topology.num_ranks, len(items)), dtype=np.int64)
    np.add.at(received, (schedule.target, schedule.chunks.item[schedule.chunk]), schedule.load)
    wanted = np.zeros(len(items), dtype=np.int64)
    np.add.at(wanted, schedule.chunks.item, schedule.chunks.size)
    own = np.arange(schedule.topology.num_ranks)[:, None] == items.owner[None, :]
    return bool((received == np.where(own, 0, wanted[None, :])).all())


def _order(schedule: Schedule) -> np.ndarray:
    if schedule.order is None:
        raise InputError(f"T_L and T_B are of step schedules; this one has the {schedule.clock} clock")
    return schedule.order


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


def _check_uniform(schedule: Schedule) -> None:
    _degree(schedule)
    if not schedule.topology.bandwidth.uniform:
        raise Unsupported(
            f"BW-optimality on topology {schedule.topology.name}: defined where all links have one bandwidth"
        )

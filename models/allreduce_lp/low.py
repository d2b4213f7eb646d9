"""Low trees for an optimum: those of other methods, where they are as good.

The vertex of (B.5) at which a solver ends has its roots and capacities anywhere among the optimal ones, so
that its trees may be high. Where spanning trees of the network's strength, or ForestColl's trees for both
halves (dissertation 4.5.7), have a congestion that equals the optimum, they are optimal solutions of (B.5)
too, and mostly much lower: a height is hops between ranks, and each costs α.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np

from models.allreduce_trees import METHOD as ALLREDUCE_TREES
from models.allreduce_trees import AllreduceTreesOptions
from models.forestcoll import METHOD as FORESTCOLL
from models.forestcoll import ForestcollOptions
from schedules.cost import congestion
from schedules.method import Method, Problem
from schedules.schedule import Schedule
from topologies.errors import InputError, NoSchedule, Unsupported

MOST_RANKS = 128
"""Ranks up to which ForestColl's trees are made besides: a few seconds."""


def lowest(problem: Problem, own: Schedule, optimum: Fraction) -> Schedule:
    """Return the schedule of the lowest trees among one's own and those of others that are as good.

    Parameters
    ----------
    problem
        An allreduce of all ranks.
    own
        A schedule whose congestion is the optimum, with the heights of its trees among its `stats`.
    optimum
        T / M, s/B.
    """
    as_good = (made for made in _others(problem) if congestion(made) == optimum)
    return min((own, *as_good), key=_height)


def _height(schedule: Schedule) -> tuple[int, float, int]:
    """Return the hops up and down the highest trees and on average, and the number of transfers."""
    return schedule.stats["height"], schedule.stats["mean_height"], len(schedule)


def _others(problem: Problem) -> Iterator[Schedule]:
    """Yield other methods' schedules of this problem: trees, over switches that only forward."""
    problem, rng = Problem(problem.topology, problem.collective), np.random.default_rng(0)
    ways: list[tuple[Method, Any]] = [(ALLREDUCE_TREES, AllreduceTreesOptions(timed=False))]
    if problem.topology.num_ranks <= MOST_RANKS:
        ways.append((FORESTCOLL, ForestcollOptions(multicast=False, search="newton")))
    for method, options in ways:
        with suppress(Unsupported, InputError, NoSchedule):
            method.supports(problem, options)
            yield method.synthesize(problem, options, rng)

"""The traditional torus schedule: a ring in each dimension, one dimension after the other.

Every shard is cut into 2k parts for k dimensions: one for each rotation of the order of dimensions and each
way round the rings (dissertation, section 3.6 and Table 3.4: the sum of d_i - 1 steps). Where all sides are
equal each link carries one part in each step and the schedule is bandwidth-optimal; Sack and Gropp describe
it in Collective algorithms for multiported torus networks (ACM TOPC 1(2), 2015).
"""

from __future__ import annotations

import numpy as np

from heuristics.dimensions import both_ways, chunked_spread, grid_for
from heuristics.steps import check_allgathers
from schedules.capabilities import Capabilities, Groups, Shape
from schedules.compose import BY_ALLGATHER, from_allgather
from schedules.method import Method, NoOptions, Problem
from schedules.schedule import Schedule


def synthesize(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule by dimensions in all rotations, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    return from_allgather(problem, _allgather)


def _allgather(problem: Problem) -> Schedule:
    grid = grid_for(METHOD, problem)
    k = len(grid.shape)
    parts = both_ways(grid, [tuple((first + i) % k for i in range(k)) for first in range(k)])
    return chunked_spread(problem, grid, [parts])


def check(problem: Problem, options: NoOptions) -> None:
    """Raise `Unsupported` for too many transfers."""
    check_allgathers(METHOD, problem, 2 * len(grid_for(METHOD, problem).shape))


METHOD = Method(
    name="torus_rings",
    kind="heuristic",
    synthesize=synthesize,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE, shape=Shape.TORUS),
    check=check,
    summary="the traditional torus schedule: rings dimension by dimension, in all rotations of their order",
)

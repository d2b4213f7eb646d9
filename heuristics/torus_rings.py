"""The traditional torus schedule: a ring in each dimension, one dimension after the other.

Every shard is cut into 2k parts for k dimensions: one for each rotation of the order of dimensions and each
way round the rings (dissertation, section 3.6 and Table 3.4: the sum of d_i - 1 steps). Where all sides are
equal each link carries one part in each step and the schedule is bandwidth-optimal; Sack and Gropp describe
it in Collective algorithms for multiported torus networks (ACM TOPC 1(2), 2015).
"""

from __future__ import annotations

import numpy as np

from heuristics.dimensions import both_ways, chunked_spread, grid_for
from heuristics.steps import supports_allgathers
from schedules.compose import from_allgather
from schedules.method import Method, NoOptions, Problem
from schedules.schedule import Schedule
from topologies.grids import Line

NEED = "a torus or mesh"


def synthesize(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule by dimensions in all rotations, in the step clock.

    Raises
    ------
    Unsupported
        As `supports`.
    """
    supports(problem, options)
    return from_allgather(problem, _allgather)


def _allgather(problem: Problem) -> Schedule:
    grid = grid_for(METHOD, problem)
    k = len(grid.shape)
    parts = both_ways(grid, [tuple((first + i) % k for i in range(k)) for first in range(k)])
    return chunked_spread(problem, grid, [parts])


def supports(problem: Problem, options: NoOptions) -> None:
    """Raise `Unsupported` unless the network is a torus or mesh and the collective made of allgathers."""
    grid = grid_for(METHOD, problem, NEED)
    supports_allgathers(METHOD, problem, 2 * len(grid.shape))
    if not set(grid.lines) <= {Line.RING, Line.PATH}:
        raise METHOD.unsupported(f"needs {NEED}; {problem.topology.name} is {grid}")


METHOD = Method(
    name="torus_rings",
    kind="heuristic",
    synthesize=synthesize,
    supports=supports,
    summary="the traditional torus schedule: rings dimension by dimension, in all rotations of their order",
)

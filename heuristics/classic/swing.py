r"""Swing: partners that swing from side to side, so that they are nearer than at doubling distances.

De Sensi, Bonato, Saam, Hoefler: Swing: Short-cutting Rings for Higher Bandwidth Allreduce (NSDI 2024). On a
ring of d = 2^m ranks, in step s of a reduce-scatter, an even rank r exchanges with r + ρ(s), an odd one with
r - ρ(s), modulo d,

.. math::

    \rho(s) = \sum_{i=0}^{s} (-2)^i = \frac{1 - (-2)^{s+1}}{3},

distances 1, 1, 3, 5, 11, ... On a torus the steps go through the dimensions in turn. To use all 2k links of a
rank, M is cut into 2k parts. Part j starts with dimension j mod k, and the second half of the parts swings
the other way first (section 4 of the paper). If one dimension is done before others (sides that differ), the
rest continue in turn. Allgathers are the reduce-scatters reversed: what a rank has is doubled in each step.

That is the paper's *bandwidth*-optimal version, whose allreduce has 2 log2 N steps. In its *latency*-optimal
one partners send each other all that they have of a part and add it, in log2 N steps: after each a rank has
the sum of twice as many ranks. Where every step is between neighbours, with B of a rank's 2k links,

.. math::

    T_L = 2 \log_2 N, \quad T_B = 2 \frac{N - 1}{N} \frac{M}{B}
    \qquad\text{and}\qquad
    T_L = \log_2 N, \quad T_B = \log_2 N \frac{M}{B},

so that the latter is faster below M = B α log2 N / (log2 N - 2 (N - 1)/N), 200 KB on ``ring:4``; partners
further apart pay the α of each link, and share links.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tutti.heuristics.classic.butterfly import (
    ButterflyOptions,
    butterfly_schedule,
    butterfly_seconds,
    check_butterfly,
    reach,
)
from tutti.heuristics.classic.by_dimension import grid_for
from tutti.schedules.capabilities import Capabilities, Groups, Shape
from tutti.schedules.compose import BY_ALLGATHER
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import Int64Array
from tutti.topologies.graphs.grid_structure import Grid


class SwingOptions(ButterflyOptions):
    """Options of Swing.

    Parameters
    ----------
    version
        The cost in which it is optimal: ``bandwidth``, or ``latency``, which is for allreduces.

    Raises
    ------
    InputError
        If it is neither.
    """

    OWNER: ClassVar[str] = "swing"


def synthesize(problem: Problem, options: SwingOptions, rng: np.random.Generator) -> Schedule:
    """Return Swing's schedule over shortest routes, in the step clock: log2 N steps, each way or in all.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    return butterfly_schedule(problem, _swings(problem), whole=options.whole)


def _swings(problem: Problem) -> list[list[Int64Array]]:
    """Return, for each part, all ranks' partners in each step of an allgather."""
    grid = grid_for(METHOD, problem)
    firsts = range(len(grid.shape))
    return [_partners(grid, first, direction)[::-1] for direction in (1, -1) for first in firsts]


def _partners(grid: Grid, first: int, direction: int) -> list[Int64Array]:
    """Return all ranks' partners in each step of the reduce-scatter that starts with dimension `first`."""
    coordinates = np.unravel_index(np.arange(np.prod(grid.shape)), grid.shape)
    turns = [
        (s, (first + i) % len(grid.shape)) for s in range(max(grid.shape)) for i in range(len(grid.shape))
    ]
    partners = []
    for s, dimension in turns:
        size, here = grid.shape[dimension], coordinates[dimension]
        if 2 << s > size:
            continue
        distance = direction * reach(s)
        there = (here + np.where(here % 2 == 0, distance, -distance)) % size
        partners.append(grid.rank_at([there if i == dimension else x for i, x in enumerate(coordinates)]))
    return partners


def check(problem: Problem, options: SwingOptions) -> None:
    """Raise `Unsupported` for too many transfers, and for version latency of what is no allreduce."""
    check_butterfly(METHOD, problem, 2 * len(grid_for(METHOD, problem).shape), whole=options.whole)


def estimate(problem: Problem, options: SwingOptions) -> float:
    """Return the seconds of log2 N steps of all parts together, in each half or in all (`latency`)."""
    return butterfly_seconds(problem, _swings(problem), whole=options.whole)


METHOD = Method(
    name="swing",
    kind="heuristic",
    synthesize=synthesize,
    options=SwingOptions,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE, shape=Shape.EVEN_TORUS),
    check=check,
    estimate=estimate,
    summary="Swing: halving and doubling between partners that swing from side to side; tori, powers of two",
)

r"""Swing: partners that swing from side to side, so that they are nearer than at doubling distances.

De Sensi, Bonato, Saam, Hoefler: Swing: Short-cutting Rings for Higher Bandwidth Allreduce (NSDI 2024). On a
ring of d = 2^m ranks, in step s of a reduce-scatter, an even rank r exchanges with r + ρ(s), an odd one with
r - ρ(s), modulo d,

.. math::

    \rho(s) = \sum_{i=0}^{s} (-2)^i = \frac{1 - (-2)^{s+1}}{3},

distances 1, 1, 3, 5, 11, ... On a torus the steps go through the dimensions in turn. To use all 2k links of a
rank, M is cut into 2k parts: part j starts with dimension j mod k, and the second half of the parts swings
the other way first (section 4 of the paper). Where one dimension is done before others (sides that differ),
the rest go on in turn. Allgathers are the reduce-scatters reversed: what a rank has is doubled in each step.
"""

from __future__ import annotations

import numpy as np

from heuristics.dimensions import grid_for
from heuristics.steps import Rows, step_schedule
from schedules.compose import from_allgather
from schedules.method import Method, NoOptions, Problem
from schedules.schedule import Chunks, Schedule
from topologies.exact import Int64Array
from topologies.grids import Grid, Line


def synthesize(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return Swing's schedule over shortest routes, in the step clock: log2 N steps each way.

    Raises
    ------
    Unsupported
        As `supports`.
    """
    supports(problem, options)
    return from_allgather(problem, _allgather)


def _allgather(problem: Problem) -> Schedule:
    what, grid = problem.collective, grid_for(METHOD, problem)
    k = len(grid.shape)
    parts = [
        _doubling(_partners(grid, first, way)[::-1], i, 2 * k)
        for i, (way, first) in enumerate((way, first) for way in (1, -1) for first in range(k))
    ]
    return step_schedule(problem.topology, what, Chunks.even(what, 2 * k), Rows.joined(parts))


def _partners(grid: Grid, first: int, way: int) -> list[Int64Array]:
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
        distance = way * (1 - (-2) ** (s + 1)) // 3
        there = (here + np.where(here % 2 == 0, distance, -distance)) % size
        partners.append(grid.rank_at([there if i == dimension else x for i, x in enumerate(coordinates)]))
    return partners


def _doubling(partners: list[Int64Array], part: int, parts: int) -> Rows:
    """Return the allgather of one part of each shard in which partners exchange all that they have."""
    held = np.arange(len(partners[0]))[:, None]
    rows = []
    for step, partner in enumerate(partners):
        rows.append(Rows.of(step + 1, np.arange(len(held))[:, None], partner[:, None], held * parts + part))
        held = np.concatenate([held, held[partner]], axis=1)
    return Rows.joined(rows)


def supports(problem: Problem, options: NoOptions) -> None:
    """Raise `Unsupported` unless the network is a ring or torus whose sides are powers of two."""
    grid = grid_for(METHOD, problem)
    allowed = {Line.RING, Line.PATH}
    for size, line in zip(grid.shape, grid.lines, strict=True):
        if size & (size - 1) or line not in allowed or (line is Line.PATH and size > 2):
            raise METHOD.unsupported(
                f"needs a torus whose sides are powers of two; {problem.topology.name} is {grid}"
            )


METHOD = Method(
    name="swing",
    kind="heuristic",
    synthesize=synthesize,
    supports=supports,
    summary="Swing: halving and doubling between partners that swing from side to side; tori, powers of two",
)

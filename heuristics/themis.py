r"""Themis: BlueConnect whose chunks take different orders of dimensions, so that all dimensions bear alike.

Rashidi, Won, Srinivasan, Sridharan, Krishna: Themis: A Network Bandwidth-Aware Collective Scheduling Policy
for Distributed Training of DL Models (ISCA 2022). Chunks are placed one after the other. Reducing D bytes a
rank over a line of d ranks that each send at rate B takes

.. math::

    \frac{d - 1}{d} \cdot \frac{D}{B}

and leaves D / d. A chunk reduces first, when it is largest, along the dimension that has the least to do so
far, and last along the one with the most; it gathers in the opposite order. Loads are exact; dimensions alike
in load go in BlueConnect's order, the innermost first. The paper's fixed delay of a dimension, and its
threshold below which loads count as alike, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from heuristics.blueconnect import ByDimensionOptions
from heuristics.dimensions import both_ways, chunked_spread, grid_for, innermost_first, line_bandwidths
from schedules.compose import from_allgather
from schedules.method import Method, Problem
from schedules.schedule import Schedule
from topologies.grids import Grid


def synthesize(problem: Problem, options: ByDimensionOptions, rng: np.random.Generator) -> Schedule:
    """Return Themis's schedule, in the step clock; each chunk has steps of its own.

    Raises
    ------
    Unsupported
        As `supports`.
    """
    supports(problem, options)
    return from_allgather(problem, partial(_allgather, chunks=options.chunks))


def _allgather(problem: Problem, chunks: int) -> Schedule:
    grid = grid_for(METHOD, problem)
    bandwidth, innermost = line_bandwidths(problem.topology, grid), innermost_first(problem.topology, grid)
    orders = reduction_orders(grid, bandwidth, chunks, innermost)
    return chunked_spread(problem, grid, [both_ways(grid, [order[::-1]]) for order in orders])


def reduction_orders(
    grid: Grid, bandwidth: list[Fraction], chunks: int, innermost: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return for each chunk the dimensions in the order in which it is reduced.

    Parameters
    ----------
    grid
        The dimensions.
    bandwidth
        What a rank sends a second along each, exact.
    chunks
        How many chunks, all of one size.
    innermost
        The dimensions, the innermost first: dimensions with the same load so far go in this order.

    Examples
    --------
    >>> from topologies.grids import Line
    >>> square = Grid((4, 4), (Line.RING, Line.RING))
    >>> reduction_orders(square, [Fraction(1), Fraction(1)], 3, (0, 1))
    [(0, 1), (1, 0), (0, 1)]
    """
    load = [Fraction(0)] * len(grid.shape)
    orders = []
    for _ in range(chunks):
        order = tuple(sorted(innermost, key=load.__getitem__))
        data = Fraction(1)
        for dimension in order:
            size = grid.shape[dimension]
            load[dimension] += data * (size - 1) / size / bandwidth[dimension]
            data /= size
        orders.append(order)
    return orders


def supports(problem: Problem, options: ByDimensionOptions) -> None:
    """Raise `Unsupported` unless the network has dimensions and the collective is made of allgathers."""
    grid_for(METHOD, problem)


METHOD = Method(
    name="themis",
    kind="heuristic",
    synthesize=synthesize,
    options=ByDimensionOptions,
    supports=supports,
    summary="as blueconnect, each chunk in the order of dimensions that balances their loads",
)

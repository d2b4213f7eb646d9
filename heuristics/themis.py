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

from heuristics.dimensions import by_dimension, innermost_first, line_bandwidths
from topologies.grids import Grid
from topologies.topology import Topology


def _orders(topology: Topology, grid: Grid, chunks: int) -> list[tuple[int, ...]]:
    return reduction_orders(grid, line_bandwidths(topology, grid), chunks, innermost_first(topology, grid))


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


METHOD = by_dimension(
    "themis", "as blueconnect, each chunk in the order of dimensions that balances their loads", _orders
)

"""BlueConnect: an allreduce by dimensions, reduce-scatter along each in turn, then allgather back again.

Cho, Finkler, Serrano, Kung, Hunter: BlueConnect: Decomposing all-reduce for deep learning on heterogeneous
network hierarchy (IBM Journal of Research and Development 63(6), 2019). The innermost
dimension, the first one or the inside of a machine, reduces first, when there is most data, and gathers last.
All chunks take the same order and follow each other through the dimensions (as in TACOS, section VI-B.3); on
rings half of each goes each way.
"""

from __future__ import annotations

from heuristics.dimensions import by_dimension, innermost_first
from topologies.grids import Grid
from topologies.topology import Topology


def reduction_orders(topology: Topology, grid: Grid, chunks: int) -> list[tuple[int, ...]]:
    """Return the same order for every chunk: the innermost dimension first."""
    return [innermost_first(topology, grid)] * chunks


METHOD = by_dimension(
    "blueconnect", "reduce-scatter dimension by dimension and allgather back, in chunks", reduction_orders
)

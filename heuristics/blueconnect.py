"""BlueConnect: an allreduce by dimensions, reduce-scatter along each in turn, then allgather back again.

Cho, Finkler, Serrano, Kung, Hunter: BlueConnect: Decomposing all-reduce for deep learning on heterogeneous
network hierarchy (IBM Journal of Research and Development 63(6), 2019). The innermost
dimension, the first one or the inside of a machine, reduces first, when there is most data, and gathers last.
All chunks take the same order and follow each other through the dimensions (as in TACOS, section VI-B.3); on
rings half of each goes each way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from heuristics.dimensions import Part, both_ways, chunked_spread, grid_for, innermost_first
from schedules.compose import from_allgather
from schedules.method import Method, Problem
from schedules.schedule import Schedule
from topologies.errors import InputError


@dataclass(frozen=True)
class ByDimensionOptions:
    """Options of the algorithms that send chunks through dimensions.

    Parameters
    ----------
    chunks
        Into how many equal chunks each shard is cut that follow each other.

    Raises
    ------
    InputError
        If it is no positive integer.
    """

    chunks: int = 4

    def __post_init__(self) -> None:
        """Check the value."""
        if isinstance(self.chunks, bool) or not isinstance(self.chunks, int) or self.chunks < 1:
            raise InputError(f"chunks is {self.chunks!r}; it must be an integer of at least 1")


def synthesize(problem: Problem, options: ByDimensionOptions, rng: np.random.Generator) -> Schedule:
    """Return BlueConnect's schedule, in the step clock; each chunk has steps of its own.

    Raises
    ------
    Unsupported
        As `supports`.
    """
    supports(problem, options)
    return from_allgather(problem, partial(_allgather, chunks=options.chunks))


def _allgather(problem: Problem, chunks: int) -> Schedule:
    grid = grid_for(METHOD, problem)
    order = innermost_first(problem.topology, grid)[::-1]
    travel: list[list[Part]] = [both_ways(grid, [order])] * chunks
    return chunked_spread(problem, grid, travel)


def supports(problem: Problem, options: ByDimensionOptions) -> None:
    """Raise `Unsupported` unless the network has dimensions and the collective is made of allgathers."""
    grid_for(METHOD, problem)


METHOD = Method(
    name="blueconnect",
    kind="heuristic",
    synthesize=synthesize,
    options=ByDimensionOptions,
    supports=supports,
    summary="reduce-scatter dimension by dimension and allgather back, in chunks",
)

"""The symmetries that families are known for, as permutations still to be checked on the links.

On a grid of ranks (torus, mesh, Hamming, hypercube; anything else is one dimension): a step along a
dimension, its reflection, two equal dimensions exchanged. In one dimension also the multipliers
u -> m u modulo N, with m taken from the neighbours of rank 0 (circulant networks).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np

from topologies.exact import Int64Array
from topologies.topology import Topology

_GRID = re.compile(r"(?:torus|mesh):([0-9]+(?:x[0-9]+)*)(?:\?.*)?")
_POWER = re.compile(r"(hypercube|hamming):([0-9]+)(?:,([0-9]+))?(?:\?.*)?")


def likely_symmetries(topology: Topology) -> Iterator[Int64Array]:
    """Yield permutations of the nodes, int64 (nodes,), that may be automorphisms."""
    if topology.num_switches:
        return
    lengths = _lengths(topology)
    yield from _grid_symmetries(lengths)
    if len(lengths) == 1:
        yield from _multipliers(topology)


def _lengths(topology: Topology) -> tuple[int, ...]:
    """Return the dimensions that the name tells, if the ranks fill them; else N alone."""
    grid, power = _GRID.fullmatch(topology.name), _POWER.fullmatch(topology.name)
    lengths: tuple[int, ...] = ()
    if grid:
        lengths = tuple(int(length) for length in grid[1].split("x"))
    elif power:
        lengths = (int(power[3] or 2),) * int(power[2])
    return lengths if math.prod(lengths) == topology.num_ranks else (topology.num_ranks,)


def _grid_symmetries(lengths: tuple[int, ...]) -> Iterator[Int64Array]:
    nodes = np.arange(math.prod(lengths), dtype=np.int64).reshape(lengths)
    for axis in range(len(lengths)):
        yield np.roll(nodes, -1, axis).reshape(-1)
    for axis in range(len(lengths)):
        yield np.flip(nodes, axis).reshape(-1)
    for axis in range(1, len(lengths)):
        if lengths[axis] == lengths[axis - 1]:
            yield np.swapaxes(nodes, axis - 1, axis).reshape(-1)


def _multipliers(topology: Topology) -> Iterator[Int64Array]:
    """Yield u -> m u with m = b / a modulo N for neighbours a, b of rank 0, a the first invertible one."""
    N = topology.num_ranks
    neighbours = np.unique(topology.target[topology.source == 0]).tolist()
    units = [a for a in neighbours if math.gcd(a, N) == 1]
    for b in neighbours if units else ():
        factor = b * pow(units[0], -1, N) % N
        if math.gcd(factor, N) == 1:
            yield np.arange(N, dtype=np.int64) * factor % N

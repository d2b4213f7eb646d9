"""Who adds up an item: roots in the lines of each dimension of a network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from topologies.exact import BoolArray, Int32Array, Int64Array
from topologies.graphs.grid_structure import Grid, LineKind, grid_of
from topologies.graphs.shortest_paths import hop_distances
from topologies.topology import Topology

RING_OF_PAIRS = 4
"""A ring of four is a square: two dimensions of two."""
MOST_SEEDS, LEAST_SEEDS = 2**12, 6
"""Of a line of n, MOST_SEEDS / n seeds are tried, or as few as that, to learn what a shape costs."""


class Shape(NamedTuple):
    """How the roots of an item lie in a line.

    Parameters
    ----------
    radius
        So many hops at most is each rank from the nearest root.
    apart
        Sums are made on the way to the nearest root, and the roots, joined each to each, exchange theirs if
        this is 1; if it is 0 there is one root. None: each root has an in-tree of its own.
    """

    radius: int
    apart: int | None

    @property
    def gathers(self) -> bool:
        """Whether sums are made on the way to the nearest root."""
        return self.apart is not None


class Roots(NamedTuple):
    """The roots of an item in the lines of a dimension.

    Parameters
    ----------
    number
        Of these roots, among all of a trial.
    gathers
        As of their shape.
    coordinates
        int64: theirs.
    before, after
        int64, shape (size,): how many hops it is from each coordinate to the nearest root, and back.
    inward, outward
        int64: the links that lead one hop nearer to them, and one hop away.
    """

    number: int
    gathers: bool
    coordinates: Int64Array
    before: Int64Array
    after: Int64Array
    inward: Int64Array
    outward: Int64Array


class Line:
    """The ranks of a line, and who can be its roots.

    Parameters
    ----------
    hops
        int32, shape (size, size): between its ranks.
    """

    def __init__(self, hops: Int32Array) -> None:
        self.hops, self.size, self.widest = hops, len(hops), int(hops.max())
        self._admitted: dict[Shape, list[Int64Array]] = {}
        self._found: dict[tuple[Shape, int], Int64Array] = {}

    def roots(self, shape: Shape, seed: int) -> Int64Array:
        """Return the coordinates of roots, `seed` among them if it can be one."""
        if (shape, seed) not in self._found:
            found = self._covering(shape, seed)
            if found is None:
                found = self.admitted(shape)[seed % len(self.admitted(shape))]
            self._found[shape, seed] = found
        return self._found[shape, seed]

    def admitted(self, shape: Shape) -> list[Int64Array]:
        """Return the roots of those seeds that can be some, of all or, on long lines, of a sample."""
        if shape not in self._admitted:
            seeds = np.linspace(0, self.size - 1, min(self.size, max(LEAST_SEEDS, MOST_SEEDS // self.size)))
            found = [self._covering(shape, seed) for seed in seeds.astype(int).tolist()]
            self._admitted[shape] = [roots for roots in found if roots is not None]
        return self._admitted[shape]

    def _covering(self, shape: Shape, seed: int) -> Int64Array | None:
        """Return `seed`, and then who reaches the most, until all are near; None: they can't be."""
        if not shape.radius and not shape.gathers:
            return np.arange(self.size)
        reached, joined = self._near[shape.radius], self._near[-1]
        if shape.apart is not None:
            reached, joined = reached & reached.T, self._near[shape.apart] & self._near[shape.apart].T
        chosen, left, allowed = [seed], ~reached[seed], joined[seed].copy()
        while left.any():
            gain = np.where(allowed, np.count_nonzero(reached & left, axis=1), 0)
            best = (
                int(np.argmax(np.roll(gain, -seed))) + seed
            ) % self.size  # of equal ones the next behind it
            if not gain[best]:
                return None
            chosen.append(best)
            left &= ~reached[best]
            allowed &= joined[best]
        return np.sort(chosen)

    @cached_property
    def _near(self) -> list[BoolArray]:
        """Which ranks are within each radius: [radius][from, to]."""
        return [self.hops <= radius for radius in range(self.widest + 1)]

    @cached_property
    def shapes(self) -> list[Shape]:
        """Those that no other surpasses in steps, messages and roots."""
        found: dict[tuple[float, ...], Shape] = {}
        for shape in (Shape(radius, apart) for radius in range(self.widest + 1) for apart in (0, 1, None)):
            counts = [len(roots) for roots in self.admitted(shape)]
            if counts:
                n = sum(counts) / len(counts)
                between, up = (self.widest, self.size - 1) if shape.apart is None else (shape.apart, n - 1)
                steps = shape.radius * (1 + shape.gathers) + between
                messages = n * up + (self.size - n) * (1 + shape.gathers)
                found.setdefault((steps, messages, n), shape)
        surpassed = {a for a in found for b in found if a != b and all(np.less_equal(b, a))}
        return [found[cost] for cost in sorted(found.keys() - surpassed)]


class Network:
    """A network in dimensions; one that is no grid has a single one."""

    def __init__(self, topology: Topology) -> None:
        self.topology, self.hops, grid = topology, hop_distances(topology), grid_of(topology)
        if grid is None or grid.hosts is not None or LineKind.SWITCH in grid.lines:
            grid = Grid((topology.num_ranks,), (LineKind.COMPLETE,))
        shape, place = _in_pairs(grid, np.unravel_index(np.arange(topology.num_ranks), grid.shape))
        self.place = np.stack(place).astype(np.int64)
        """int64, shape (dimensions, ranks): the coordinates of each rank."""
        self.rank = np.empty(shape, dtype=np.int64)
        """int64, of the shape of the dimensions: the rank at each place."""
        self.rank[place] = np.arange(topology.num_ranks)
        hops = [
            self.hops[np.ix_(line, line)]
            for dimension, n in enumerate(shape)
            for line in [np.moveaxis(self.rank, dimension, 0).reshape(n, -1)[:, 0]]
        ]
        self.kind = [next(i for i, like in enumerate(hops) if np.array_equal(own, like)) for own in hops]
        """The first dimension like each."""
        lines = {kind: Line(hops[kind]) for kind in self.kind}
        self.line = [lines[kind] for kind in self.kind]
        """The lines of each dimension."""

    @cached_property
    def inward(self) -> tuple[Int64Array, Int64Array]:
        """Each link on a shortest path, from u towards w: as u N + w, and the link."""
        source, target = self.topology.source.astype(np.int64), self.topology.target
        link, root = np.nonzero(self.hops[target] == self.hops[source] - 1)
        return source[link] * len(self.hops) + root, link

    def at(self, rank: Int64Array, dimension: int, coordinate: Int64Array) -> Int64Array:
        """Return the ranks in the lines of others that have these coordinates there."""
        place = self.place[:, rank]
        place[dimension] = coordinate
        found: Int64Array = self.rank[tuple(place)]
        return found

    def roots(self, number: int, dimension: int, shape: Shape, chosen: Int64Array) -> Roots:
        """Return the roots at these coordinates, and the links on the shortest ways to them and from them."""
        line, place = self.line[dimension].hops, self.place[dimension]
        before, after = (
            line[:, chosen].min(axis=1).astype(np.int64),
            line[chosen].min(axis=0).astype(np.int64),
        )
        source, target = place[self.topology.source], place[self.topology.target]
        inward, outward = (
            np.flatnonzero(before[source] == before[target] + 1),
            np.flatnonzero(after[target] == after[source] + 1),
        )
        return Roots(number, shape.gathers, chosen, before, after, inward, outward)


def _in_pairs(grid: Grid, place: Sequence[Int64Array]) -> tuple[tuple[int, ...], tuple[Int64Array, ...]]:
    """Return shape and coordinates where rings of four are two dimensions of two each."""
    shape: list[int] = []
    places: list[Int64Array] = []
    for size, line, at in zip(grid.shape, grid.lines, place, strict=True):
        pairs = line is LineKind.RING and size == RING_OF_PAIRS
        shape += [2, 2] if pairs else [size]
        places += [at // 2, (at + 1) // 2 % 2] if pairs else [at]
    return tuple(shape), tuple(places)

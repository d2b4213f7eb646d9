"""The roots that add up an item, in the lines of each dimension of a network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tutti.topologies.exact import BoolArray, FloatArray, Int32Array, Int64Array
from tutti.topologies.graphs.grid_structure import Grid, LineKind, grid_of
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.topology import Topology


class OneShotTuning(NamedTuple):
    """Limits on the shapes, orders and pieces that are tried."""

    most_transfers: int
    """Largest number of transfers of a schedule. Larger problems need methods that compute no sum twice."""
    few_transfers: int
    """Items are cut into more parts and pieces up to this number of transfers. A larger value cuts finer."""
    most_pieces: int
    """Largest number of pieces of a part. Up to 1 GB, on links of 50 GB/s with an α of 0.1 us or more, the
    fastest number is smaller. For larger data, a larger value makes lines of ranks faster by less than 1 %,
    but needs more transfers."""
    least_parts: int
    """Number of parts of the vector where the moves of dimensions alternate. More load links more evenly.
    Half or twice as many changed times by -0.7 to +1.1 %."""
    most_orders: int
    """Largest number of orders of alternating moves. Half or twice as many changed times by -0.7 to 0 %."""
    most_choices: int
    """Number of choices of shapes up to which dimensions may have different ones."""
    sample: int
    """Number of items by which the time of a choice is estimated. Half or twice as many changed nothing on
    nine networks."""
    tries: int
    """Number of the best choices whose schedules are made, however long that takes. Half or twice this value
    changed nothing on nine networks."""
    tried_transfers: int
    """Number of transfers that further choices and pieces may have in all."""
    alternating_transfers: int
    """The same limit where moves alternate."""
    rounds: int
    """Number of times that all messages choose their links. Half or twice as many changed nothing on nine
    networks."""
    order_rounds: int
    """Number of times that all parts choose their orders. Half or twice as many changed times by -0.3 to
    0 %."""
    largest: int
    """Largest number of states of a lattice in which moves alternate."""
    longest: int
    """Largest number of ranks of a line whose moves alternate."""
    most_seeds: int
    """A line of n ranks tries `most_seeds` / n seeds to learn what a shape costs."""
    least_seeds: int
    """Least number of seeds that are tried."""


TUNING = OneShotTuning(
    most_transfers=2**22,
    few_transfers=2**19,
    most_pieces=2**10,
    least_parts=192,
    most_orders=128,
    most_choices=64,
    sample=6,
    tries=3,
    tried_transfers=2**23,
    alternating_transfers=2**21,
    rounds=6,
    order_rounds=4,
    largest=2**14,
    longest=64,
    most_seeds=2**12,
    least_seeds=6,
)


class RootSpacing(NamedTuple):
    """The placement of the roots of an item in a line.

    Parameters
    ----------
    radius
        Largest number of hops from a rank to the nearest root.
    apart
        1: sums are made on the path to the nearest root, and the roots, all joined to each other, exchange
        theirs. 0: the same with one root. None: each root has an in-tree of its own; or each clique of roots
        does, whose members then exchange theirs, if that takes no more steps.
    """

    radius: int
    apart: int | None

    @property
    def gathers(self) -> bool:
        """Whether sums are made on the path to the nearest root."""
        return self.apart is not None


class RootSet(NamedTuple):
    """Some coordinates in the lines of a dimension, and the paths to them and from them.

    Parameters
    ----------
    number
        Their number among all sets of a trial.
    coordinates
        int64: the coordinates.
    before, after
        int64, shape (size,): the hops from each coordinate to the nearest of them, and back.
    inward, outward
        int64: the links that lead one hop nearer to them, and one hop away.
    """

    number: int
    coordinates: Int64Array
    before: Int64Array
    after: Int64Array
    inward: Int64Array
    outward: Int64Array


class Roots(NamedTuple):
    """The roots of an item in the lines of a dimension.

    Parameters
    ----------
    gathers
        See `RootSpacing.gathers`.
    all
        The roots.
    cliques
        The same roots in cliques, each of which adds up everything.
    """

    gathers: bool
    all: RootSet
    cliques: tuple[RootSet, ...]

    @property
    def deepest(self) -> int:
        """The largest distance to a clique of the ranks that take part when the roots add up."""
        return 0 if self.gathers else max(int(clique.before.max()) for clique in self.cliques)

    @property
    def steps(self) -> int:
        """The number of steps in which the roots add up."""
        return self.deepest + any(len(clique.coordinates) > 1 for clique in self.cliques)

    @property
    def copies(self) -> bool:
        """Whether each clique needs a copy of what it adds up; an exchange in one step needs none."""
        return len(self.cliques) > 1 and max(int(clique.before.max()) for clique in self.cliques) > 1


class GridLine:
    """The ranks of a line, and its possible roots.

    Parameters
    ----------
    hops
        int32, shape (size, size): hops between its ranks.
    """

    def __init__(self, hops: Int32Array) -> None:
        self.hops, self.size, self.widest = hops, len(hops), int(hops.max())
        self._admitted: dict[RootSpacing, list[Int64Array]] = {}
        self._found: dict[tuple[RootSpacing, int], Int64Array] = {}

    def roots(self, shape: RootSpacing, seed: int) -> Int64Array:
        """Return the coordinates of roots, `seed` among them if it can be one."""
        if (shape, seed) not in self._found:
            found = self._covering(shape, seed)
            if found is None:
                found = self.admitted(shape)[seed % len(self.admitted(shape))]
            self._found[shape, seed] = found
        return self._found[shape, seed]

    def cliques(self, shape: RootSpacing, roots: Int64Array, seed: int) -> list[Int64Array]:
        """Return the roots in cliques, the first one that of the first root from `seed` on."""
        if shape.gathers:
            return [roots]
        joined = self._near[min(1, self.widest)]
        joined = joined & joined.T
        left, found = np.isin(np.arange(self.size), roots), []
        for root in np.roll(roots, -int(np.searchsorted(roots, seed))).tolist():
            if left[root]:
                clique, allowed = [root], left & joined[root]
                allowed[root] = False
                while allowed.any():
                    clique.append(int(np.argmax(np.where(allowed, joined[:, allowed].sum(axis=1), 0))))
                    allowed &= joined[clique[-1]]
                    allowed[clique[-1]] = False
                left[clique] = False
                found.append(clique)
        cliques = [np.sort(clique) for clique in found]
        steps = max(int(self.hops[:, clique].min(axis=1).max()) for clique in cliques) + 1
        return (
            cliques if steps <= self.hops[:, roots].max() else [roots[i : i + 1] for i in range(len(roots))]
        )

    def admitted(self, shape: RootSpacing) -> list[Int64Array]:
        """Return the roots for each possible seed; on long lines, for a sample of them."""
        if shape not in self._admitted:
            seeds = np.linspace(
                0, self.size - 1, min(self.size, max(TUNING.least_seeds, TUNING.most_seeds // self.size))
            )
            found = [self._covering(shape, seed) for seed in seeds.astype(int).tolist()]
            self._admitted[shape] = [roots for roots in found if roots is not None]
        return self._admitted[shape]

    def _covering(self, shape: RootSpacing, seed: int) -> Int64Array | None:
        """Return `seed`, then greedily the rank that reaches the most, until all are near; None: no way."""
        if not shape.radius and not shape.gathers:
            return np.arange(self.size)
        reached, joined = self._near[shape.radius], self._near[-1]
        if shape.apart is not None:
            reached, joined = reached & reached.T, self._near[shape.apart] & self._near[shape.apart].T
        chosen, left, allowed = [seed], ~reached[seed], joined[seed].copy()
        while left.any():
            gain = np.where(allowed, np.count_nonzero(reached & left, axis=1), 0)
            # Of equal ones the next behind it.
            best = (int(np.argmax(np.roll(gain, -seed))) + seed) % self.size
            if not gain[best]:
                return None
            chosen.append(best)
            left &= ~reached[best]
            allowed &= joined[best]
        return np.sort(chosen)

    def _messages(self, shape: RootSpacing, roots: Int64Array) -> int:
        """Return the number of messages."""
        cliques = [len(clique) for clique in self.cliques(shape, roots, int(roots[0]))]
        return sum(self.size - n + n * (n - 1) for n in cliques) + self.size - len(roots)

    @cached_property
    def _near(self) -> list[BoolArray]:
        """The ranks within each radius: [radius][from, to]."""
        return [self.hops <= radius for radius in range(self.widest + 1)]

    @cached_property
    def shapes(self) -> list[RootSpacing]:
        """The shapes on the Pareto front of steps, messages, roots and the times that a rank is a root."""
        found: dict[tuple[float, ...], RootSpacing] = {}
        for shape in (
            RootSpacing(radius, apart) for radius in range(self.widest + 1) for apart in (0, 1, None)
        ):
            admitted = self.admitted(shape)
            if admitted:
                messages = np.mean([self._messages(shape, roots) for roots in admitted])
                between = self.widest if shape.apart is None else shape.apart
                steps = shape.radius * (1 + shape.gathers) + between
                often = np.bincount(np.concatenate(admitted)) / len(admitted)
                found.setdefault((steps, float(messages), often.sum(), often.max()), shape)
        surpassed = {a for a in found for b in found if a != b and all(np.less_equal(b, a))}
        return [found[cost] for cost in sorted(found.keys() - surpassed)]


class DimensionalNetwork:
    """A network by dimensions; one that is no grid has a single dimension."""

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
        """The first dimension equivalent to each."""
        lines = {kind: GridLine(hops[kind]) for kind in self.kind}
        self.line = [lines[kind] for kind in self.kind]
        """The lines of each dimension."""

    @cached_property
    def slowness(self) -> FloatArray:
        """Seconds a byte in each dimension, over the slowest of its links."""
        seconds = self.topology.bandwidth.denominator / self.topology.bandwidth.numerators.astype(np.float64)
        moved = self.place[:, self.topology.source] != self.place[:, self.topology.target]
        return np.array([seconds[own].max(initial=0) for own in moved])

    def at(self, rank: Int64Array, dimension: int, coordinate: int) -> Int64Array:
        """Return the ranks in the lines of others that have this coordinate there."""
        place = self.place[:, rank]
        place[dimension] = coordinate
        found: Int64Array = self.rank[tuple(place)]
        return found

    def near(self, number: int, dimension: int, chosen: Int64Array) -> RootSet:
        """Return these coordinates, and the links on the shortest paths to them and from them."""
        line, place = self.line[dimension].hops, self.place[dimension]
        before = line[:, chosen].min(axis=1).astype(np.int64)
        after = line[chosen].min(axis=0).astype(np.int64)
        source, target = place[self.topology.source], place[self.topology.target]
        inward = np.flatnonzero(before[source] == before[target] + 1)
        outward = np.flatnonzero(after[target] == after[source] + 1)
        return RootSet(number, chosen, before, after, inward, outward)


def _in_pairs(grid: Grid, place: Sequence[Int64Array]) -> tuple[tuple[int, ...], tuple[Int64Array, ...]]:
    """Return shape and coordinates where rings of four are two dimensions of two each."""
    shape: list[int] = []
    places: list[Int64Array] = []
    for size, line, at in zip(grid.shape, grid.lines, place, strict=True):
        pairs = line is LineKind.RING and size == 4  # a square: two dimensions of two
        shape += [2, 2] if pairs else [size]
        places += [at // 2, (at + 1) // 2 % 2] if pairs else [at]
    return tuple(shape), tuple(places)

"""Small allreduces: every rank adds up the whole vector itself, or some ranks do and tell those near them.

A reduce-scatter and an allgather take twice as many steps as the network is wide. In *one shot* each rank
is the root of an in-tree of its own, over shortest paths: the deepest ranks send in step 1, every other what
it has and got in the step after, and in as many steps as the network is wide all roots have the sum, for
N - 1 times the data. Between the two, only some ranks are roots: so many that each rank has one within a
*radius* ρ, from which it gets the sum in ρ more steps. With ρ as large as can be each part of the vector has
one root: these are reduce-scatter and allgather.

Where the network has dimensions (tori, meshes, hypercubes) the lines of one do this after those of another:
what a rank has added up in one line is its own in the next. So lines share what they have added up, and
(d_1 - 1) + (d_2 - 1) + ... ranks send to each instead of N - 1. Each dimension has a radius, and parts of the
vector take the dimensions in all rotations of their order.

Which of its shortest paths each sum takes is balanced much as in `stepwise`: a link that is busy for L in a
step costs s (2 L + t) for a message of s bytes that takes t, so that the sum of bandwidth times load squared
falls, which is least where all links are busy equally long; and all messages choose anew a few times. The
radii are those of the least time, by the sum over steps of α and the largest load over bandwidth.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from schedules.capabilities import Capabilities, Groups, Switches
from schedules.collective import Kind
from schedules.method import Method, Problem
from schedules.schedule import NO_COPY, Chunks, Clock, Schedule, step_numbers
from topologies.exact import FloatArray, Int64Array, offsets_of
from topologies.graphs.grid_structure import Grid, LineKind, grid_of
from topologies.graphs.shortest_paths import hop_distances
from topologies.kernels import kernel
from topologies.ranges import Options, Whole
from topologies.topology import Topology

MOST_TRANSFERS = 2**22
"""Of a schedule; larger ones are for methods that need no sum twice."""
FEW_TRANSFERS = 2**19
"""With no more than these each item is cut in parts, one for each rotation of the dimensions."""
MOST_CHOICES = 64
"""Of radii; where there would be more, all dimensions have the same."""
SAMPLE, TRIES = 6, 3
"""Parts by which choices are estimated, and how many of the best are worked out."""
ROUNDS = 6
"""How often all messages choose."""
RING_OF_PAIRS = 4
"""A ring of four is a square: two dimensions of two."""


@dataclass(frozen=True)
class OneShotOptions(Options):
    """Which ranks add up everything.

    Parameters
    ----------
    radius
        So many hops at most is each rank away from one that does, in each dimension: 0 for one shot; by
        default the best for the size.
    """

    OWNER: ClassVar[str] = "one_shot"
    radius: Annotated[int | None, Whole(0)] = None


Radii = tuple[int, ...]


class _Cover(NamedTuple):
    """The roots in the lines of a dimension.

    Parameters
    ----------
    number
        Of this cover.
    roots
        int64: their coordinates.
    far
        int64, shape (size,): how many hops each coordinate is from the nearest.
    link
        int64: the links that lead one hop farther.
    """

    number: int
    roots: Int64Array
    far: Int64Array
    link: Int64Array


class _Part(NamedTuple):
    """How the share of an item is added up that goes through the dimensions in one order.

    Parameters
    ----------
    copy_of
        int64, shape (chunks,): the chunk, numbered 0, and its copies.
    chunk, source, root, step
        int64: the messages that are added up: what, from whom, on the way to whom, in which step.
    cover, target, after
        int64: those with which it is spread: from which roots, to whom, in which step.
    held
        int64, shape (ranks,): the copy that each last root ends with.
    """

    copy_of: Int64Array
    chunk: Int64Array
    source: Int64Array
    root: Int64Array
    step: Int64Array
    cover: Int64Array
    target: Int64Array
    after: Int64Array
    held: Int64Array


class _Network:
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
        lines = [
            np.moveaxis(self.rank, dimension, 0).reshape(n, -1)[:, 0] for dimension, n in enumerate(shape)
        ]
        self.line = [self.hops[np.ix_(line, line)] for line in lines]
        """int32, shape (size, size), by dimension: the hops between the ranks of a line."""

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

    def cover(self, number: int, dimension: int, radius: int, seed: int) -> _Cover:
        """Return roots from which all of a line is within `radius`: `seed`, and then who reaches the most."""
        line = self.line[dimension]
        size = len(line)
        turned = (np.arange(size) + seed) % size  # of equally good ones the next behind the seed
        reached = (line[turned] <= radius).astype(np.float32)
        chosen, left = [0], 1 - reached[0]
        while radius and left.any():
            chosen.append(int(np.argmax(reached @ left)))
            left *= 1 - reached[chosen[-1]]
        roots = np.sort(turned[chosen]) if radius else np.arange(size)
        far = line[roots].min(axis=0).astype(np.int64)
        source, target = self.place[:, self.topology.source], self.place[:, self.topology.target]
        onward = far[source[dimension]] == far[target[dimension]] - 1
        along = (np.delete(source, dimension, axis=0) == np.delete(target, dimension, axis=0)).all(axis=0)
        return _Cover(number, roots, far, np.flatnonzero(onward & along))


def _in_pairs(grid: Grid, place: Sequence[Int64Array]) -> tuple[tuple[int, ...], tuple[Int64Array, ...]]:
    """Return shape and coordinates where rings of four are two dimensions of two each."""
    shape: list[int] = []
    places: list[Int64Array] = []
    for size, line, at in zip(grid.shape, grid.lines, place, strict=True):
        pairs = line is LineKind.RING and size == RING_OF_PAIRS
        shape += [2, 2] if pairs else [size]
        places += [at // 2, (at + 1) // 2 % 2] if pairs else [at]
    return tuple(shape), tuple(places)


class _Trial:
    """What comes of some radii.

    Parameters
    ----------
    network, problem
        On what, and what is asked.
    radii
        How far a rank is from a root at most, by dimension.
    """

    def __init__(self, network: _Network, problem: Problem, radii: Radii) -> None:
        self.network, self.problem, self.radii = network, problem, radii
        self.covers: dict[tuple[int, int], _Cover] = {}
        ranks, k = len(network.hops), len(radii)
        sample = [self.part(item, 0) for item in np.unique(np.linspace(0, ranks - 1, SAMPLE).astype(int))]
        mean = sum(len(part.chunk) + len(part.target) for part in sample) / len(sample)
        self.turns = k if k * mean * ranks <= FEW_TRANSFERS else 1
        """In how many parts an item is cut."""
        self.rows = mean * ranks * self.turns
        """About how many transfers there are."""
        steps = max(max(part.step.max(), part.after.max(initial=0)) for part in sample)
        alpha, bandwidth = network.topology.alpha, network.topology.bandwidth
        rate = int(bandwidth.numerators.sum(dtype=object)) / bandwidth.denominator
        latency = int(steps) * int(alpha.numerators.max()) / alpha.denominator
        self.estimate = latency + mean * float(problem.size or 0) / rate
        """Seconds, if the links were used evenly."""

    def part(self, item: int, turn: int) -> _Part:
        """Return how a part of an item is added up; which dimension is its first depends on both.

        The roots of an item are at the place of its owner, and where else it takes some.
        """
        network, k = self.network, len(self.radii)
        first = int(network.place[:, item].sum()) + turn
        taking, held = np.arange(len(network.hops)), np.zeros(len(network.hops), dtype=np.int64)
        copy_of, sums, step, phases = [np.array([NO_COPY])], [], 0, []
        for dimension in ((first + i) % k for i in range(k)):
            place = network.place[dimension]
            cover = self.cover(dimension, int(place[item]))
            phases.append((cover, place, taking))
            labels, which = np.unique(held[taking], return_inverse=True)
            source, root = (side.ravel() for side in np.meshgrid(taking, cover.roots, indexing="ij"))
            root = network.at(source, dimension, root)
            # What was added up before goes on in a copy for each root, or, where there is one, as it is.
            chunk = np.repeat(held[taking], len(cover.roots))
            if len(cover.roots) > 1:
                number = np.arange(len(cover.roots)) + (which * len(cover.roots))[:, None]
                chunk = sum(map(len, copy_of)) + number.ravel()
                copy_of.append(np.repeat(labels, len(cover.roots)))
            far = network.hops[source, root].astype(np.int64)
            # The deepest send first; all others when those behind them on the way to a root have sent.
            sums.append(np.stack([chunk, source, root, step + far.max() - far + 1])[:, far > 0])
            step += int(far.max())
            taking = source[far == 0]
            held[taking] = chunk[far == 0]
        spread = [np.zeros((3, 0), dtype=np.int64)]
        for cover, place, before in reversed(phases):
            far = cover.far[place[before]]
            spread.append(np.stack([np.full(len(far), cover.number), before, step + far])[:, far > 0])
            step += int(far.max())
        chunk, source, root, when = np.concatenate(sums, axis=1)
        number, target, after = np.concatenate(spread, axis=1)
        return _Part(np.concatenate(copy_of), chunk, source, root, when, number, target, after, held)

    def cover(self, dimension: int, seed: int) -> _Cover:
        """Return the roots of a dimension that a coordinate is one of."""
        if (dimension, seed) not in self.covers:
            cover = self.network.cover(len(self.covers), dimension, self.radii[dimension], seed)
            self.covers[dimension, seed] = cover
        return self.covers[dimension, seed]

    def schedule(self) -> tuple[float, Schedule]:
        """Return the schedule after the sum over its steps of α and the largest load over bandwidth."""
        network, topology = self.network, self.network.topology
        parts = [self.part(item, turn) for item in range(len(network.hops)) for turn in range(self.turns)]
        base = offsets_of([len(part.copy_of) for part in parts])
        up, down = (
            np.repeat(np.arange(len(parts)), [len(getattr(p, name)) for p in parts])
            for name in ("step", "after")
        )
        of = _Part(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        share = self.problem.collective.items.share.reduced
        size = np.repeat(share.numerators, self.turns)
        step = np.concatenate([of.step, of.after])
        ranks = len(network.hops)
        link, load = _balanced(
            topology,
            self.ways(),
            np.concatenate([of.source * ranks + of.root, (ranks + of.cover) * ranks + of.target]),
            step,
            np.concatenate([size[up], size[down]]),
        )
        # Which copy a rank gets of those that are spread depends on the link over which it comes.
        held = of.held.reshape(len(parts), ranks)
        chunk = np.concatenate([base[up] + of.chunk, 0 * down])
        for now in np.unique(of.after):
            rows = np.flatnonzero(of.after == now)
            copy = held[down[rows], topology.source[link[len(up) + rows]]]
            held[down[rows], of.target[rows]] = copy
            chunk[len(up) + rows] = base[down[rows]] + copy
        part = np.repeat(np.arange(len(parts)), np.diff(base))
        rows = np.lexsort((chunk, link, step))
        made = Schedule(
            topology=topology,
            collective=self.problem.collective,
            clock=Clock.STEP,
            chunks=Chunks(
                (part // self.turns).astype(np.int32),
                size[part],
                share.denominator * self.turns,
                np.where(of.copy_of == NO_COPY, NO_COPY, of.copy_of + base[part]),
            ),
            chunk=chunk[rows].astype(np.int32),
            route=link[rows].astype(np.int32),
            order=step_numbers(step[rows]),
            reduce=rows < len(up),
        )
        seconds = load * (
            float(self.problem.size or 0) * topology.bandwidth.denominator / made.chunks.denominator
        )
        alpha = topology.alpha.numerators / topology.alpha.denominator
        return float(np.where(load > 0, alpha + seconds, 0).max(axis=1).sum()), made

    def ways(self) -> _Ways:
        """Return which links a message may take: u N + w from u to w, N N + c N + v by cover c to v."""
        ranks = len(self.network.hops)
        target = self.network.topology.target.astype(np.int64)
        key, link = self.network.inward
        covers = list(self.covers.values())
        keys = [key, *((ranks + cover.number) * ranks + target[cover.link] for cover in covers)]
        links = np.concatenate([link, *(cover.link for cover in covers)])
        joined = np.concatenate(keys)
        order = np.argsort(joined, kind="stable")
        return _Ways(offsets_of(np.bincount(joined, minlength=(ranks + len(covers)) * ranks)), links[order])


class _Ways(NamedTuple):
    """In CSR form the links that messages may take: those of key i are links[begin[i] : begin[i + 1]]."""

    begin: Int64Array
    links: Int64Array


def _balanced(
    topology: Topology, ways: _Ways, key: Int64Array, step: Int64Array, size: Int64Array
) -> tuple[Int64Array, FloatArray]:
    """Return the link that each message takes, and the time that a unit of size takes, by step and link."""
    slowness = 1 / topology.bandwidth.numerators.astype(np.float64)
    load = np.zeros((int(step.max()) + 1, topology.num_links))
    link = np.zeros(len(key), dtype=np.int64)
    _choose(ways, key, step, size.astype(np.float64), slowness, load, link, ROUNDS)
    return link, load


@kernel
def _choose(
    ways: _Ways,
    key: Int64Array,
    step: Int64Array,
    size: FloatArray,
    slowness: FloatArray,
    load: FloatArray,
    link: Int64Array,
    rounds: int,
) -> None:
    """Let each message choose the cheapest of its links, so many times over."""
    for turn in range(rounds):
        for message in range(len(key)):
            busy = load[step[message]]
            if turn > 0:
                busy[link[message]] -= size[message] * slowness[link[message]]
            least = np.inf
            for at in range(ways.begin[key[message]], ways.begin[key[message] + 1]):
                other = ways.links[at]
                time = size[message] * slowness[other]
                cost = size[message] * (2 * busy[other] + time)
                if cost < least:
                    least, link[message] = cost, other
            busy[link[message]] += size[message] * slowness[link[message]]


def synthesize(problem: Problem, options: OneShotOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    network = _Network(problem.topology)
    trials = [_Trial(network, problem, radii) for radii in _radii(network, options)]
    small = [trial for trial in trials if trial.rows <= MOST_TRANSFERS] or trials[-1:]
    best = sorted(small, key=lambda trial: trial.estimate)[:TRIES]
    return min((trial.schedule() for trial in best), key=lambda made: made[0])[1]


def _radii(network: _Network, options: OneShotOptions) -> list[Radii]:
    """Return the radii that are tried, those that leave one root in each line last."""
    widest = [int(line.max()) for line in network.line]
    if options.radius is not None:
        return [tuple(min(options.radius, most) for most in widest)]
    pairs = list(itertools.combinations(range(len(widest)), 2))
    # Of dimensions alike the order is nothing, as parts of the vector take all rotations.
    choices = [
        radii
        for radii in itertools.product(*(range(most + 1) for most in widest))
        if all(radii[a] <= radii[b] for a, b in pairs if widest[a] == widest[b])
    ]
    alike = [tuple(min(radius, most) for most in widest) for radius in range(max(widest) + 1)]
    return choices if len(choices) <= MOST_CHOICES else alike


def check(problem: Problem, options: OneShotOptions) -> None:
    """Raise `Unsupported` for too many ranks."""
    ranks = problem.topology.num_ranks
    if 2 * ranks * (ranks - 1) > MOST_TRANSFERS:
        raise METHOD.unsupported(f"makes at most {MOST_TRANSFERS} transfers; of {ranks} ranks there are more")


def _size_dependent(problem: Problem, options: OneShotOptions) -> bool:
    return options.radius is None


METHOD = Method(
    name="one_shot",
    kind="heuristic",
    synthesize=synthesize,
    options=OneShotOptions,
    capabilities=Capabilities((Kind.ALLREDUCE,), Groups.NONE, switches=Switches.NONE),
    check=check,
    size_dependent=_size_dependent,
    summary="allreduce in few steps: every rank, or some, add up everything over shortest paths",
)

r"""The method `allreduce_epochs`: trees of an allreduce made together with the times of their edges.

A part of the vector is added up on a tree to its root, and its sum goes down another tree from there. Every
edge has an *epoch*: later than those before it on the way up and down. All that a link carries in an epoch is
one message, of α and bytes over bandwidth. The linear program over the pairs of trees known so far:

    minimize    sum over k of τ[k]
    subject to  b(l) τ[k] - sum over pairs t of n[t, l, k] w[t]  >=  b(l) α(l)  for each link l and epoch k
                sum of w  =  1,   τ, w >= 0

τ[k] is how long epoch k lasts, w[t] the part of the vector that goes over the pair t, and n says which of its
edges are on link l in epoch k. Under automorphisms a pair has images, all of the same part, and links that
are images of each other share a row: so w[t] loads each of an orbit of m links by n[t] / m.

The prices lead to cheaper pairs, as in `models.forestcoll.epochs`, whose program and searches for trees these
are: a tree upwards is one downwards in a network and time that are reversed. With few epochs pairs are few
and links idle, each more costs α. So epochs are added, as long as that helps: the pairs in use serve more
epochs too, with a pause anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from tutti.models.forestcoll.epochs.column_generation import (
    ROUNDS,
    EpochCounts,
    EpochSearch,
    EpochTrees,
    TreeMaster,
)
from tutti.models.forestcoll.epochs.epoch_links import links_between
from tutti.models.forestcoll.epochs.pricing import improve_all, new_trees
from tutti.models.forestcoll.epochs.schedule import PARTS, EpochEdges, laid, whole_units
from tutti.schedules.capabilities import Capabilities, Groups, Switches
from tutti.schedules.collective import Kind
from tutti.schedules.intervals import IntervalTransfers, interval_schedule, line_width
from tutti.schedules.list_scheduling import in_messages
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import FloatArray, Int64Array, offsets_of
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.graphs.symmetry import automorphisms
from tutti.topologies.kernels import now
from tutti.topologies.options import Duration, Options
from tutti.topologies.topology import Topology
from tutti.topologies.units import parse_time


class AllreduceEpochsTuning(NamedTuple):
    """The numbers that steer the search, besides its rounds."""

    elements: int
    """Most elements of the group of automorphisms. With a larger value programs are smaller."""
    trees: int
    """Most images of pairs in a schedule; of more pairs the heaviest are kept. A larger value keeps more."""
    longer: float
    """Fraction of epochs by which their number grows; with a larger value fewer numbers are tried."""
    worse: int
    """Numbers of epochs in a row that may be worse than the best; with a larger value the search ends
    later."""
    search_part: float
    """Fraction of the time limit for the search; with a larger value a schedule may exceed the limit."""
    count_part: float
    """Fraction of the time left that each number of epochs has at first. A larger value leaves fewer
    numbers."""
    roots: int
    """Roots for which first pairs are drawn. With a larger value the first program takes longer."""
    turns: int
    """Epochs from which on sums are spread, of the first pairs of each root; a larger value, as above."""
    drawn: int
    """Pairs that are drawn for a root in a round. With a larger value rounds are fewer and longer."""


TUNING = AllreduceEpochsTuning(
    elements=32,
    trees=4096,
    longer=1 / 8,
    worse=2,
    search_part=0.8,
    count_part=0.25,
    roots=16,
    turns=5,
    drawn=3,
)
COUNTS = EpochCounts(fold=0.25, most=64, rows=4000)
"""As in `models.forestcoll.epochs`, but `fold` counts the least number of epochs; a program takes 1 s."""


@dataclass(frozen=True)
class AllreduceEpochsOptions(Options):
    """Options of trees in epochs.

    Parameters
    ----------
    time_limit
        A time with its unit, for the whole search.
    """

    OWNER: ClassVar[str] = "allreduce_epochs"

    time_limit: Annotated[str, Duration("30s")] = "30s"


@dataclass(frozen=True, eq=False)
class EpochLines:
    """A network's links in orbits. A *line* is all parallel links from one rank to another.

    Parameters
    ----------
    topology
        The network.
    ranks
        int64, shape (elements, N): automorphisms, the identity first.
    links
        Of each line, by its ends.
    """

    topology: Topology
    ranks: Int64Array
    links: dict[tuple[int, int], list[int]]

    @classmethod
    def of(cls, topology: Topology) -> EpochLines:
        """Return them under a group that is not too large."""
        nodes, _ = automorphisms(topology).some_elements(TUNING.elements)
        return cls(topology, nodes.astype(np.int64), links_between(topology))

    @cached_property
    def ends(self) -> Int64Array:
        """int64, shape (2, lines): from which rank to which."""
        return np.array(list(self.links), dtype=np.int64).T

    @cached_property
    def bandwidth(self) -> FloatArray:
        """float64, shape (lines,): bytes a second."""
        each = self.topology.bandwidth.floats
        return np.array([each[links].sum() for links in self.links.values()])

    @cached_property
    def alpha(self) -> FloatArray:
        """float64, shape (lines,): seconds, the most of its links."""
        return np.array([self.topology.alpha.floats[links].max() for links in self.links.values()])

    @cached_property
    def orbit(self) -> Int64Array:
        """int64, shape (lines,): the number of each line's orbit."""
        ranks, (tail, head) = self.topology.num_ranks, self.ends
        number = np.full((ranks, ranks), -1, dtype=np.int64)
        number[tail, head] = np.arange(len(tail))
        least = number[self.ranks[:, tail], self.ranks[:, head]].min(axis=0)
        return np.unique(least, return_inverse=True)[1].ravel().astype(np.int64)

    @property
    def orbits(self) -> int:
        """How many there are of lines."""
        return int(self.orbit.max()) + 1

    @cached_property
    def height(self) -> Int64Array:
        """int64, shape (N,): the hops from and to the rank that is farthest from each."""
        hops = hop_distances(self.topology)
        return np.maximum(hops.max(axis=0), hops.max(axis=1)).astype(np.int64)

    @cached_property
    def roots(self) -> Int64Array:
        """The least rank of each orbit of ranks."""
        return np.unique(self.ranks.min(axis=0)).astype(np.int64)

    def together(self, each: FloatArray) -> FloatArray:
        """Return what the lines of each orbit have, given what one has."""
        total = np.zeros(self.orbits)
        np.add.at(total, self.orbit, each)
        return total

    def one(self, each: FloatArray) -> FloatArray:
        """Return what one line of each orbit has."""
        return each[np.unique(self.orbit, return_index=True)[1]]

    def rows(self, epochs: int) -> Int64Array:
        """Return the row (orbit times epochs plus epoch) of each edge, int64 (2 N, 2 N, epochs), or -1.

        Trees upwards are over 0 to N - 1, where v sends to its parent u over row (u, v); trees downwards are
        over N to 2 N - 1, where the parent sends.
        """
        ranks, (tail, head) = self.topology.num_ranks, self.ends
        rows = np.full((2 * ranks, 2 * ranks, epochs), -1, dtype=np.int64)
        own = self.orbit[:, None] * epochs + np.arange(epochs)
        rows[head, tail] = own
        rows[ranks + tail, ranks + head] = own
        return rows

    def routes(self, tail: int, head: int) -> list[list[int]]:
        """Return the links of a line, each a route."""
        return [[link] for link in self.links[tail, head]]


class _UpDownTrees(NamedTuple):
    """Trees up to a root and down from it; up[v] is whom v sends to, in epoch rise[v]; int64 (pairs, N)."""

    up: Int64Array
    rise: Int64Array
    down: Int64Array
    fall: Int64Array

    @classmethod
    def of(cls, trees: EpochTrees) -> _UpDownTrees:
        """Return them of the program's trees, over two copies of each rank."""
        up, down = np.split(trees.parent, 2, axis=1)
        rise, fall = np.split(trees.epoch, 2, axis=1)
        return cls(up, rise, np.where(down < 0, -1, down - up.shape[1]), fall)

    @property
    def trees(self) -> EpochTrees:
        """The same as trees of the program."""
        down = np.where(self.down < 0, -1, self.down + self.down.shape[1])
        both = np.hstack([self.up, down]), np.hstack([self.rise, self.fall])
        return EpochTrees(np.zeros(len(self.up), dtype=np.int64), *both)

    def paused(self, epoch: int) -> _UpDownTrees:
        """Return the same with nothing in this epoch: what was in it or later is an epoch later."""
        rise, fall = (each + (each >= epoch) for each in (self.rise, self.fall))
        return self._replace(rise=rise, fall=fall)


def _joined(pairs: list[_UpDownTrees]) -> _UpDownTrees:
    return _UpDownTrees(*(np.concatenate(columns) for columns in zip(*pairs, strict=True)))


class _EpochTreeSearch(EpochSearch):
    """Pairs of trees for a number of epochs; time in units of the vector over the median line, or of α."""

    rounds = ROUNDS._replace(smoothing=0.8, improved=60, new=4, known=1500, kept=700, progress=1e-4)

    def __init__(self, lines: EpochLines, size: float, epochs: int, rng: np.random.Generator) -> None:
        self.lines, self.epochs, self.rng = lines, epochs, rng
        self.unit = max(size / float(np.median(lines.bandwidth)), float(lines.alpha.max()))
        self.bandwidth = lines.together(lines.bandwidth) * self.unit / size
        self.alpha = lines.one(lines.alpha) / self.unit
        self.rows = lines.rows(epochs)
        self.height = lines.height
        self.roots = lines.roots[2 * self.height[lines.roots] <= epochs]

    def begin(self, known: _UpDownTrees | None) -> None:
        """Begin with pairs of one epoch less, or under random prices.

        Raises
        ------
        NoSchedule
            If no pair is found.
        """
        if known is None:
            known = _joined([*self._first()])
        else:
            most = max(1, self.rounds.kept // len(known.up))
            known = _joined([known.paused(epoch) for epoch in self.rng.permutation(self.epochs)[:most]])
        if not len(known.up):
            raise NoSchedule(f"allreduce_epochs on {self.lines.topology.name}: no trees in {self.epochs}")
        self.program = TreeMaster(self.rows, self.bandwidth, self.alpha, known.trees)
        self.program.solve()

    def _first(self) -> Iterator[_UpDownTrees]:
        """Yield pairs under random prices, and under such as grow away from the turn."""
        for root in self.rng.permutation(self.roots)[: TUNING.roots].tolist():
            low, high = int(self.height[root]), int(self.epochs - self.height[root])
            for turn in np.unique(np.linspace(low, high, TUNING.turns).astype(int)).tolist():
                for early in (0.0, self.rounds.early):
                    far = np.arange(self.epochs)
                    growing = np.exp(early * np.where(far < turn, turn - 1 - far, far - turn))
                    prices = self.rng.random((self.lines.orbits, self.epochs)) * growing
                    yield self._new(self._given(prices.ravel()), root, turn, 2, 0.0 if early else 1.0)

    def used(self) -> tuple[_UpDownTrees, FloatArray]:
        """Return the pairs in use, and their weights."""
        kept = np.flatnonzero(self.program.optimum.weight > 0)
        return _UpDownTrees.of(self.program.trees.take(kept)), self.program.optimum.weight[kept]

    def keep(self, most: int) -> None:
        """Keep so many pairs, the heaviest."""
        if np.count_nonzero(self.program.optimum.weight > 0) > most:
            trees = self.program.trees.take(np.argsort(-self.program.optimum.weight, kind="stable")[:most])
            self.program = TreeMaster(self.rows, self.bandwidth, self.alpha, trees)
            self.program.solve()

    def candidates(self, prices: FloatArray) -> EpochTrees:
        """Return pairs in use, improved, and new ones."""
        given, (support, _) = self._given(prices), self.used()
        chosen = self.rng.permutation(len(support.up))[: self.rounds.improved]
        found = [self._improved(given, _UpDownTrees(*(each[[one]] for each in support))) for one in chosen]
        for root in self.rng.permutation(self.roots)[: self.rounds.new].tolist():
            turn = int(self.rng.integers(self.height[root], self.epochs - self.height[root] + 1))
            found.append(self._new(given, root, turn, TUNING.drawn, self.rounds.spread))
        return _joined(found).trees

    def _given(self, prices: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return prices (N, N, epochs) of edges up, by parent and child, and down; infinite: no link."""
        ranks = self.lines.topology.num_ranks
        each = np.append(np.maximum(prices, 0.0) + self.rounds.least_price, np.inf)[self.rows]
        return each[:ranks, :ranks], each[ranks:, ranks:]

    def _new(
        self, given: tuple[FloatArray, FloatArray], root: int, turn: int, count: int, spread: float
    ) -> _UpDownTrees:
        """Return new pairs that add up before an epoch, and spread from then on."""
        up, down = self._halves(given, turn)
        parent, epoch, cost = new_trees(up, root, count, spread, self.rng)
        child, later, price = new_trees(down, root, count, spread, self.rng)
        made = _turned(parent, epoch, child, later, turn)
        return _UpDownTrees(*(each[np.isfinite(cost + price)] for each in made))

    def _improved(self, given: tuple[FloatArray, FloatArray], pair: _UpDownTrees) -> _UpDownTrees:
        """Return a pair with branches moved to where they are cheaper, up and down."""
        turn = int(self.rng.integers(pair.rise.max() + 1, pair.fall[pair.down >= 0].min() + 1))
        up, down = self._halves(given, turn)
        epoch, later = np.where(pair.up < 0, -1, turn - 1 - pair.rise), pair.fall - turn
        later[pair.down < 0] = -1
        parent, child = pair.up.copy(), pair.down.copy()
        improve_all(up, parent, epoch, self.rng)
        improve_all(down, child, later, self.rng)
        return _turned(parent, epoch, child, later, turn)

    def _halves(self, given: tuple[FloatArray, FloatArray], turn: int) -> tuple[FloatArray, FloatArray]:
        up, down = given
        return np.ascontiguousarray(up[:, :, :turn][:, :, ::-1]), np.ascontiguousarray(down[:, :, turn:])


def _turned(
    parent: Int64Array, epoch: Int64Array, child: Int64Array, later: Int64Array, turn: int
) -> _UpDownTrees:
    """Return pairs whose epochs are counted backwards before a turn, and forwards after it."""
    rise = np.where(parent < 0, -1, turn - 1 - epoch)
    return _UpDownTrees(parent, rise, child, np.where(child < 0, -1, turn + later))


def synthesize(problem: Problem, options: AllreduceEpochsOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule of the shortest program among those of some numbers of epochs, in the time clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    InputError
        If the problem has no size.
    NoSchedule
        If there would be too many rows even in the fewest epochs.
    """
    METHOD.supports(problem, options)
    if problem.size is None:
        raise InputError("allreduce_epochs needs a size: its schedule depends on it")
    until = now() + TUNING.search_part * float(parse_time(options.time_limit))
    lines = EpochLines.of(problem.topology)
    search = _fastest(lines, float(problem.size), until, rng)
    search.keep(max(1, TUNING.trees // len(lines.ranks)))
    pairs, weight = search.used()
    stats = {"epochs": search.epochs, "trees": len(weight) * len(lines.ranks)}
    return _schedule(problem, Fraction(problem.size), lines, pairs, weight).replace(stats=stats)


def _fastest(lines: EpochLines, size: float, until: float, rng: np.random.Generator) -> _EpochTreeSearch:
    """Return the search that ends best, for ever more epochs as long as these help or there is time."""
    topology, steps = lines.topology, 2 * int(lines.height.min())
    alpha, seconds = float(topology.alpha.floats.max()), size / float(topology.ingress.floats.min())
    fold = np.log(max(1.0, seconds / alpha)) if alpha > 0 else np.inf
    most = COUNTS.rows // lines.orbits
    if steps > most:
        raise NoSchedule(f"allreduce_epochs on {topology.name}: too many links times steps for its programs")
    most = min(most, max(steps, COUNTS.most))
    search = best = _EpochTreeSearch(lines, size, int(min(steps * (1 + COUNTS.fold * fold), most)), rng)
    search.begin(None)
    worse = 0
    while True:
        search.run(now() + TUNING.count_part * (until - now()), search.rounds.stale // 3)
        best, worse = (search, 0) if search.time <= best.time else (best, worse + 1)
        further = max(1, int(search.epochs * TUNING.longer))
        if now() >= until or worse > TUNING.worse or search.epochs + further > most:
            break
        known = search.used()[0]
        for later in range(search.epochs, search.epochs + further - 1):
            known = known.paused(int(rng.integers(later + 1)))
        search = _EpochTreeSearch(lines, size, search.epochs + further, rng)
        try:
            search.begin(known)
        except NoSchedule:  # bandwidths so far apart that the solver calls a program infeasible
            break
    best.run(until)
    return best


def _schedule(
    problem: Problem, size: Fraction, lines: EpochLines, pairs: _UpDownTrees, weight: FloatArray
) -> Schedule:
    """Return the schedule in which each image of a pair has an interval of the vector."""
    elements = len(lines.ranks)
    units = whole_units(np.repeat(weight, elements))
    pair, element = np.divmod(np.flatnonzero(units), elements)
    scale = line_width(problem.collective, PARTS) // PARTS
    begin = offsets_of(units[units > 0]) * scale
    columns = []
    for up, parent, epoch in ((True, pairs.up, pairs.rise), (False, pairs.down, pairs.fall)):
        image, rank = np.nonzero(parent[pair] >= 0)
        ends = rank, parent[pair[image], rank]
        tail, head = (lines.ranks[element[image], end] for end in (ends if up else ends[::-1]))
        when = epoch[pair[image], rank]
        columns.append((when, tail, head, begin[image], begin[image + 1], np.full(len(image), -int(up))))
    every = EpochEdges(*(np.concatenate(each) for each in zip(*columns, strict=True)))
    edges, route, routes = laid(every, lines.routes)
    order = np.lexsort((edges.start, route, edges.epoch))
    edges, route = edges.take(order), route[order]
    transfers = IntervalTransfers(edges.start, edges.stop, route, edges.turn)
    flow, row = interval_schedule(problem.topology, problem.collective, transfers, PARTS * scale, routes)
    return in_messages(flow, edges.epoch[row], size)


def check(problem: Problem, options: AllreduceEpochsOptions) -> None:
    """Raise `Unsupported` for large networks: prices are looked at for every two ranks in every epoch."""
    topology, most = problem.topology, 128
    if topology.num_ranks > most:
        raise METHOD.unsupported(f"takes at most {most} ranks; {topology.name} has {topology.num_ranks}")


METHOD = Method(
    name="allreduce_epochs",
    kind="heuristic",
    synthesize=synthesize,
    options=AllreduceEpochsOptions,
    capabilities=Capabilities(
        (Kind.ALLREDUCE,), Groups.NONE, switches=Switches.NONE, further="at most 128 ranks"
    ),
    check=check,
    size_dependent=lambda problem, options: True,
    seeded=True,
    quick={"time_limit": "10s"},
    summary="allreduce trees and the times of their edges together, by column generation",
)

r"""The method `allreduce_epochs`: trees of an allreduce made together with the times of their edges.

A part of the vector is added up on a tree to its root, and its sum is sent down another tree from there.
Every edge has an *epoch*, later than those of the edges before it on the path up and down. All that a link
carries in an epoch is one message, which takes α and bytes over bandwidth. The linear program over the pairs
of trees that are known so far is

    minimize    sum over k of τ[k].
    subject to  b(l) τ[k] - sum over pairs t of n[t, l, k] w[t]  >=  b(l) α(l)  for each link l and epoch k.
                sum of w  =  1,   τ, w >= 0

τ[k] is the length of epoch k, w[t] the part of the vector that is moved over the pair t, and n[t, l, k] the
number of its edges on link l in epoch k. Under automorphisms a pair has images, all of the same part. Links
that are images of each other share a row, so w[t] loads each of an orbit of m links by n[t] / m.

The prices lead to cheaper pairs, as `models.tree_columns` says, which has this program and the searches for
trees. A tree upwards is one downwards in a network and time that are reversed. With few epochs there are few
pairs and links are idle, but each more epoch costs α. So epochs are added as long as that helps. The pairs in
use become pairs for more epochs, with a pause anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from tutti.models.tree_columns.generation import (
    PARTS,
    ROUNDS,
    EpochCounts,
    EpochSearch,
    EpochTrees,
    TreeImages,
    schedule_of,
    whole_units,
)
from tutti.models.tree_columns.links import EpochLinks, links_between
from tutti.models.tree_columns.pricing import improve_all, new_trees
from tutti.schedules.capabilities import Capabilities, Groups, Switches
from tutti.schedules.collective import Kind
from tutti.schedules.intervals import line_width
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import FloatArray, Int64Array
from tutti.topologies.graphs.symmetry import automorphisms
from tutti.topologies.kernels import now
from tutti.topologies.options import Duration, Options
from tutti.topologies.topology import Topology
from tutti.topologies.units import parse_time


class AllreduceEpochsTuning(NamedTuple):
    """Parameters of the search; those of its rounds are in `ROUNDS`."""

    elements: int
    """Most elements of the group of automorphisms. A larger value makes programs smaller."""
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
    """Number of epochs that are tried as the turn from reduction to broadcast, for the first pairs of each
    root. With a larger value the first program takes longer."""
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
"""Numbers of epochs as in `models.tree_columns`, but with `fold` for the least one. A program takes about 1
s."""


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


class _PairSearch(EpochSearch):
    """Pairs of trees for a number of epochs. Times are in units of the vector over the median line, or of α.

    A pair is one tree over two copies of the ranks. In 0 to N - 1, v sends to its parent in its epoch; in
    N to 2 N - 1 the parent sends to it.
    """

    rounds = ROUNDS._replace(smoothing=0.8, improved=60, new=4, known=1500, kept=700, progress=1e-4)

    def __init__(self, lines: EpochLinks, size: float, epochs: int, rng: np.random.Generator) -> None:
        each = np.repeat(lines.bandwidth, lines.lines_each)
        unit = max(size / float(np.median(each)), float(lines.alpha.max()))
        super().__init__(lines.bandwidth * lines.lines_each, lines.alpha, size, unit, rng)
        self.lines, self.epochs, self.ranks = lines, epochs, lines.topology.num_ranks
        down = lines.rows([{}] * epochs)
        none = np.full_like(down, -1)
        self.rows = np.block([[[down.transpose(1, 0, 2)], [none]], [[none], [down]]])
        self.roots = lines.roots[2 * lines.height[lines.roots] <= epochs]

    def begin(self, known: EpochTrees | None) -> None:
        """Begin with the pairs for one epoch less, or under random prices.

        Raises
        ------
        NoSchedule
            If no pair is found.
        """
        if known is None:
            found = [*self._first()]
        else:
            most = max(1, self.rounds.kept // len(known))
            found = [_paused(known, epoch) for epoch in self.rng.permutation(self.epochs)[:most]]
        trees = reduce(EpochTrees.plus, found)
        if not len(trees):
            raise NoSchedule(f"allreduce_epochs on {self.lines.topology.name}: no trees in {self.epochs}")
        self.restart(self.rows, trees)

    def _first(self) -> Iterator[EpochTrees]:
        """Yield pairs under random prices, also under those that grow with the distance from the turn."""
        for root in self.rng.permutation(self.roots)[: TUNING.roots].tolist():
            low, high = int(self.lines.height[root]), int(self.epochs - self.lines.height[root])
            for turn in np.unique(np.linspace(low, high, TUNING.turns).astype(int)).tolist():
                for early in (0.0, self.rounds.early):
                    far = np.arange(self.epochs)
                    growing = np.exp(early * np.where(far < turn, turn - 1 - far, far - turn))
                    prices = self.rng.random((len(self.bandwidth), self.epochs)) * growing
                    given = self.prices_of_edges(self.rows, prices.ravel())
                    yield self._new(given, root, turn, 2, 0.0 if early else 1.0)

    def keep(self, most: int) -> None:
        """Keep at most `most` pairs, the heaviest ones."""
        weight = self.program.optimum.weight
        if np.count_nonzero(weight > 0) > most:
            self.restart(self.rows, self.program.trees.take(np.argsort(-weight, kind="stable")[:most]))

    def candidates(self, prices: FloatArray) -> EpochTrees:
        """Return pairs in use after local changes, and new ones."""
        given, (support, _) = self.prices_of_edges(self.rows, prices), self.used()
        chosen = self.rng.permutation(len(support))[: self.rounds.improved]
        found = [self._improved(given, support.take(chosen[i : i + 1])) for i in range(len(chosen))]
        for root in self.rng.permutation(self.roots)[: self.rounds.new].tolist():
            height = self.lines.height[root]
            turn = int(self.rng.integers(height, self.epochs - height + 1))
            found.append(self._new(given, root, turn, TUNING.drawn, self.rounds.spread))
        return reduce(EpochTrees.plus, found)

    def _new(self, given: FloatArray, root: int, turn: int, count: int, spread: float) -> EpochTrees:
        """Return new pairs that reduce before an epoch, and broadcast from then on."""
        halves = [new_trees(half, root, count, spread, self.rng) for half in self._halves(given, turn)]
        (parent, epoch, cost), (child, later, price) = halves
        made = self._turned(parent, epoch, child, later, turn)
        return made.take(np.flatnonzero(np.isfinite(cost + price)))

    def _improved(self, given: FloatArray, pair: EpochTrees) -> EpochTrees:
        """Return a pair with branches moved to where they are cheaper, up and down."""
        (up, down), (rise, fall) = (np.split(each, 2, axis=1) for each in (pair.parent, pair.epoch))
        turn = int(self.rng.integers(rise.max() + 1, fall[down >= 0].min() + 1))
        parent, child = up.copy(), np.where(down < 0, -1, down - self.ranks)
        epoch, later = np.where(up < 0, -1, turn - 1 - rise), np.where(down < 0, -1, fall - turn)
        above, below = self._halves(given, turn)
        improve_all(above, parent, epoch, self.rng)
        improve_all(below, child, later, self.rng)
        return self._turned(parent, epoch, child, later, turn)

    def _halves(self, given: FloatArray, turn: int) -> tuple[FloatArray, FloatArray]:
        """Return prices of edges up, by epochs back from the turn, and of edges down, by epochs from it."""
        up, down = given[: self.ranks, : self.ranks], given[self.ranks :, self.ranks :]
        return np.ascontiguousarray(up[:, :, :turn][:, :, ::-1]), np.ascontiguousarray(down[:, :, turn:])

    def _turned(
        self, parent: Int64Array, epoch: Int64Array, child: Int64Array, later: Int64Array, turn: int
    ) -> EpochTrees:
        """Return pairs whose epochs are counted backwards before a turn, and forwards after it."""
        rise, fall = np.where(parent < 0, -1, turn - 1 - epoch), np.where(child < 0, -1, turn + later)
        both = np.hstack([parent, np.where(child < 0, -1, child + self.ranks)])
        return EpochTrees(np.zeros(len(parent), dtype=np.int64), both, np.hstack([rise, fall]))


def _paused(trees: EpochTrees, epoch: int) -> EpochTrees:
    """Return trees with nothing in this epoch: edges in it or later are moved one epoch later."""
    return replace(trees, epoch=trees.epoch + (trees.epoch >= epoch))


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
    lines = _lines(problem.topology)
    search = _fastest(lines, float(problem.size), until, rng)
    elements = len(lines.symmetries)
    search.keep(max(1, TUNING.trees // elements))
    pairs, weight = search.used()
    units = whole_units(np.repeat(weight, elements))
    pair, element = np.divmod(np.flatnonzero(units), elements)
    scale = line_width(problem.collective, PARTS) // PARTS
    images = TreeImages(pair, element, units[units > 0] * scale)
    schedule = schedule_of(lines, pairs, images, problem.collective, Fraction(problem.size))
    return schedule.replace(stats={"epochs": search.epochs, "trees": len(weight) * elements})


def _lines(topology: Topology) -> EpochLinks:
    """Return the lines of a network under a group that is not too large."""
    nodes, _ = automorphisms(topology).some_elements(TUNING.elements)
    return EpochLinks.under(topology, nodes.astype(np.int64), links_between(topology))


def _fastest(lines: EpochLinks, size: float, until: float, rng: np.random.Generator) -> _PairSearch:
    """Return the search that ends best. The number of epochs grows while that helps and time is left."""
    topology, steps = lines.topology, 2 * int(lines.height.min())
    alpha, seconds = float(topology.alpha.floats.max()), size / float(topology.ingress.floats.min())
    fold = np.log(max(1.0, seconds / alpha)) if alpha > 0 else np.inf
    most = COUNTS.rows // len(lines.bandwidth)
    if steps > most:
        raise NoSchedule(f"allreduce_epochs on {topology.name}: too many links times steps for its programs")
    most = min(most, max(steps, COUNTS.most))
    search = best = _PairSearch(lines, size, int(min(steps * (1 + COUNTS.fold * fold), most)), rng)
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
            known = _paused(known, int(rng.integers(later + 1)))
        search = _PairSearch(lines, size, search.epochs + further, rng)
        try:
            search.begin(known)
        except NoSchedule:  # bandwidths so far apart that the solver calls a program infeasible
            break
    best.run(until)
    return best


METHOD = Method(
    name="allreduce_epochs",
    kind="heuristic",
    synthesize=synthesize,
    options=AllreduceEpochsOptions,
    capabilities=Capabilities(
        (Kind.ALLREDUCE,),
        Groups.NONE,
        switches=Switches.NONE,
        most_ranks=128,  # prices are looked at for every two ranks in every epoch
    ),
    size_dependent=lambda problem, options: True,
    seeded=True,
    quick={"time_limit": "10s"},
    summary="allreduce trees and the times of their edges together, by column generation",
)

"""Trees from each root, made together with the times of their edges: few long messages, no link idle late.

`models.tree_columns` has the linear program, which is solved first over a few epochs and then over twice as
many. A tree for the few epochs can be used in the first and in the second half of each, which costs nothing
but α. Where half as many epochs are too few for a tree, the search begins with all epochs. A reduce-scatter
is the mirror of an allgather, and an allreduce is one after the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce

import numpy as np

from tutti.models.tree_columns.generation import (
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
from tutti.schedules.collective import Kind, collective
from tutti.schedules.compose import compose_allreduce
from tutti.schedules.method import Problem
from tutti.schedules.reversal import reverse
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import NoSchedule, Unsupported
from tutti.topologies.exact import FloatArray, Int64Array
from tutti.topologies.kernels import now
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

KINDS = (Kind.ALLGATHER, Kind.REDUCE_SCATTER, Kind.ALLREDUCE)
COUNTS = EpochCounts(fold=2.3, most=20, rows=1000)
FIRST_TREES = 240
"""Trees that the search begins with. A larger value makes the first linear program slower."""


@dataclass(frozen=True, eq=False)
class EpochPlan:
    """Trees for the first root of each orbit, and their parts of a shard.

    Parameters
    ----------
    lines
        The lines (sets of equivalent links) that the trees use.
    trees, weight
        The weights of the trees of a root sum to 1.
    lasting
        float64 (epochs,): seconds.
    """

    lines: EpochLinks
    trees: EpochTrees
    weight: FloatArray
    lasting: FloatArray


def planned(topology: Topology, size: Fraction, seconds: float, rng: np.random.Generator) -> EpochPlan:
    """Return trees for an allgather of M = `size` bytes.

    Parameters
    ----------
    topology
        What `EpochLinks.of` takes, strongly connected.
    size
        M in bytes.
    seconds
        The search ends after this many seconds, if it has not ended before.
    rng
        For random matchings and trees.

    Raises
    ------
    Unsupported
        If the network's switches are not as `EpochLinks` needs them, or it is too large or too irregular.
    NoSchedule
        If no tree is found.
    """
    lines, begin = EpochLinks.of(topology), now()
    search = _ForestSearch(lines, float(size) / topology.num_ranks, rng)
    try:
        search.begin(search.epochs // 2)
    except NoSchedule:  # half as many epochs are too few for any tree
        search.begin(search.epochs)
    else:
        search.run(begin + 0.15 * seconds)
        search.halve()
    search.run(begin + seconds)
    return search.plan()


class _ForestSearch(EpochSearch):
    """The linear program and its dual prices. Times are in units of a shard over the median line."""

    def __init__(self, lines: EpochLinks, shard: float, rng: np.random.Generator) -> None:
        unit = shard / float(np.median(lines.bandwidth))
        super().__init__(lines.bandwidth, lines.alpha, shard, unit, rng)
        self.lines, self.shard = lines, shard
        self.matchings: list[dict[tuple[int, int], int]] = []

    @property
    def epochs(self) -> int:
        """About the best number of epochs. It is even, at least 4, and larger for a smaller α."""
        topology = self.lines.topology
        into = topology.ingress.floats[: topology.num_ranks].min()
        needed = (topology.num_ranks - 1) * self.shard / float(into)
        longest = float(self.lines.alpha.max())
        fold = math.log(max(needed / longest, 1.0)) if longest > 0 else math.inf
        least, most = 4, min(COUNTS.most, COUNTS.rows // len(self.bandwidth))
        if most < least:
            raise Unsupported(
                f"trees in epochs: {topology.name} has {len(self.bandwidth)} orbits of links under a group "
                f"that moves every rank; {COUNTS.rows // least} at most"
            )
        return 2 * int(min(max(COUNTS.fold * fold, least), most) / 2)

    def begin(self, epochs: int) -> None:
        """Begin with trees under random prices."""
        self.matchings = [self.lines.matching(self.rng) for _ in range(epochs)]
        rows = self.lines.rows(self.matchings)
        for early in (0.0, ROUNDS.early):
            found = self._first(rows, early)
            if len(np.unique(found.root)) == len(self.lines.roots):
                return self.restart(rows, found)
        raise NoSchedule(f"trees in epochs: none spans {self.lines.topology.name} in {epochs} epochs")

    def _first(self, rows: Int64Array, early: float) -> EpochTrees:
        """Return trees under random prices that grow by e to the `early` from one epoch to the next."""
        epochs, roots = rows.shape[2], len(self.lines.roots)
        growing = np.exp(early * np.arange(epochs))
        prices = self.rng.random((len(self.bandwidth), epochs)) * growing / self.bandwidth[:, None]
        given = self.prices_of_edges(rows, prices.ravel())
        each = -(-FIRST_TREES // roots)
        return reduce(EpochTrees.plus, [self._new(given, root, each, 1.0) for root in range(roots)])

    def halve(self) -> None:
        """Split each epoch into two."""
        used, _ = self.used()
        first, second = (
            replace(used, epoch=np.where(used.epoch >= 0, 2 * used.epoch + half, -1)) for half in range(2)
        )
        self.matchings = [matching for matching in self.matchings for _ in range(2)]
        self.restart(self.lines.rows(self.matchings), first.plus(second))

    def plan(self) -> EpochPlan:
        """Return the trees in use, their weights and the epochs' lengths."""
        return EpochPlan(self.lines, *self.used(), self.program.optimum.lasting * self.unit)

    def candidates(self, prices: FloatArray) -> EpochTrees:
        """Return trees in use after local changes, and new ones."""
        given = self.prices_of_edges(self.program.rows, prices)
        support = np.flatnonzero(self.program.optimum.weight > 0)
        chosen = self.rng.choice(support, min(ROUNDS.improved, len(support)), replace=False)
        found, roots = self.program.trees.take(chosen), len(self.lines.roots)
        improve_all(given, found.parent, found.epoch, self.rng)
        each = -(-ROUNDS.new // roots)
        for root in self.rng.permutation(roots)[: ROUNDS.new]:
            found = found.plus(self._new(given, int(root), each, ROUNDS.spread))
        return found

    def ended(self) -> bool:
        """Whether a round that adds no tree ends the search: yes, as a round changes most trees in use."""
        return True

    def _new(self, given: FloatArray, root: int, count: int, spread: float) -> EpochTrees:
        """Return new trees for a root."""
        parent, epoch, cost = new_trees(given, int(self.lines.roots[root]), count, spread, self.rng)
        spans = np.isfinite(cost)
        return EpochTrees(np.full(int(spans.sum()), root), parent[spans], epoch[spans])


def planned_schedule(problem: Problem, seconds: float, rng: np.random.Generator) -> Schedule:
    """Return a time-clock schedule by trees made for the size together with the times of their edges.

    Parameters
    ----------
    problem
        An allgather, a reduce-scatter or an allreduce of all ranks, with equal shards, and its size.
    seconds
        The search ends after this many seconds.
    rng
        For random matchings and trees.

    Raises
    ------
    Unsupported
        If it is another collective, or the network is not as `models.tree_columns.links` needs it.
    NoSchedule
        If no tree is found.
    InputError
        If a message lasts more ticks than 64 bits hold.
    """
    what, network, size = problem.collective, problem.topology, problem.size or Fraction(1)
    if what.kind not in KINDS or not what.plain:
        raise Unsupported(
            f"trees in epochs: {what}; allgather, reduce-scatter or allreduce of all ranks, equal shards"
        )
    if what.kind is Kind.ALLGATHER:
        return plan_schedule(planned(network, size, seconds, rng), size)
    turned = transpose(network)
    if what.kind is Kind.REDUCE_SCATTER:
        return reverse(plan_schedule(planned(turned, size, seconds, rng), size), network)
    kinds = []
    for each in (network, turned):
        costs = list(zip(each.bandwidth, each.alpha, strict=True))
        kinds.append({ends: [costs[link] for link in ids] for ends, ids in links_between(each).items()})
    if kinds[0] == kinds[1]:
        plan = planned(network, size, seconds, rng)
        other = replace(plan, lines=replace(plan.lines, topology=turned, links=links_between(turned)))
    else:
        plan, other = (planned(each, size, seconds / 2, rng) for each in (network, turned))
    scattered = reverse(plan_schedule(other, size), network)
    return compose_allreduce(scattered, plan_schedule(plan, size))


def plan_schedule(plan: EpochPlan, size: Fraction) -> Schedule:
    """Return the time-clock schedule of an allgather by these trees, for M = `size` bytes."""
    ranks, trees = plan.lines.topology.num_ranks, plan.trees
    units = np.zeros(len(trees), dtype=np.int64)
    for index in range(len(plan.lines.roots)):
        own = trees.root == index
        units[own] = whole_units(plan.weight[own])
    elements = len(plan.lines.symmetries)
    tree, element = np.divmod(np.arange(len(trees) * elements), elements)
    root = plan.lines.symmetries[element, plan.lines.roots[trees.root[tree]]]
    order = np.lexsort((tree, root))
    order = order[units[tree[order]] > 0]
    images = TreeImages(tree[order], element[order], units[tree[order]])
    return schedule_of(plan.lines, trees, images, collective(Kind.ALLGATHER, ranks), size)

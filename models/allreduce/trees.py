r"""Whole in-trees and out-trees for an optimum of (B.5): how many, which, and lower ones that are as good.

The exact optimum is met by as many trees as its rationals have common parts (B.7, last paragraph). For a
given number K of trees the roots get K x_v / Σx, rounded so that they add up to K (largest remainders first).
The arcs get ⌊U·c⌋, with the smallest U of each half at which the trees fit. This is at least as good as
rounding all down to multiples of 1/k, and no tree is lost. U is found from cut to cut, as in
`models.forestcoll.fixed_k`. Each half is then packed by ForestColl's construction (B.5.3), the in-trees as
out-trees of the arcs turned round.

A solver ends at any vertex of (B.5). Its roots and capacities may be anywhere among the optimal ones, so its
trees may be high. Spanning trees of the network's strength, or ForestColl's trees for both halves
(dissertation 4.5.7), may have a congestion that equals the optimum. Then they are optimal solutions of (B.5)
too, and mostly much lower: a height is hops between ranks, and each costs α.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tutti.models.allreduce.certificate import ScaledSolution
from tutti.models.allreduce.cuts import BROADCAST, REDUCE, Arcs
from tutti.models.allreduce.trees_method import METHOD as ALLREDUCE_TREES
from tutti.models.allreduce.trees_method import AllreduceTreesOptions
from tutti.models.forestcoll import METHOD as FORESTCOLL
from tutti.models.forestcoll import ForestcollOptions
from tutti.models.forestcoll.fixed_k import RoundedArcs, raised_density
from tutti.schedules.collective import Collective
from tutti.schedules.cost import congestion
from tutti.schedules.intervals import (
    IntervalTransfers,
    interval_schedule,
    joined_routes,
    line_width,
    tree_transfers,
)
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Routes, Schedule
from tutti.topologies.errors import InputError, NoSchedule, Unsupported
from tutti.topologies.exact import INT64_MAX, Int64Array, Rationals
from tutti.topologies.topology import Topology
from tutti.topologies.trees.forest import Forest, LogicalNetwork, largest_height, mean_height
from tutti.topologies.trees.packing import pack_counts
from tutti.topologies.trees.packing_heuristic import grow_trees

FEW = 1000
"""Trees, where no number is asked for and the optimum is not known exactly or needs too many. With a larger
value the congestion is nearer to the optimum, but α costs more."""

_MOST = INT64_MAX >> 8
"""Largest sum of capacities and trees that is tried; the packing's max-flows need the spare bits."""


@dataclass(frozen=True, eq=False)
class TreePlan:
    """The number of trees of each root, and the capacities for them.

    Parameters
    ----------
    roots
        int64, shape (ranks,): the number of in-trees of each rank, which is also that of its out-trees.
    capacity
        int64, shape (2, arcs): the capacities of each half's arcs.
    """

    roots: Int64Array
    capacity: Int64Array


def exact_plan(shares: ScaledSolution) -> TreePlan | None:
    """Return the trees that attain the shares exactly; None if θ is not 1 or they do not fit 64 bits."""
    common = int(np.gcd(np.gcd.reduce(shares.roots), np.gcd.reduce(shares.capacity, axis=None)))
    total = sum(shares.roots.tolist()) + sum(shares.capacity.ravel().tolist())
    if shares.theta != 1 or total // common > _MOST:
        return None
    return TreePlan(shares.roots // common, shares.capacity // common)


def rounded_plan(shares: ScaledSolution, trees: int) -> TreePlan:
    """Return this number of trees in each half, and the least capacities ⌊U·c⌋ that carry them."""
    roots = _apportioned(shares.roots.tolist(), trees)
    arcs = [
        RoundedArcs("allreduce_lp", len(roots), half.tails, half.heads, Rationals(half.capacity, 1))
        for half in shares.halves
    ]
    fitting = [each.rounded(raised_density(each, roots, Fraction(0))) for each in arcs]
    return TreePlan(roots, np.stack(fitting))


def _apportioned(x: list[int], trees: int) -> Int64Array:
    """Return whole numbers in proportion to x that add up, by largest remainders."""
    total = sum(x)
    counts = [value * trees // total for value in x]
    last = sorted(range(len(x)), key=lambda v: (-(x[v] * trees % total), v))
    for v in last[: trees - sum(counts)]:
        counts[v] += 1
    return np.array(counts, dtype=np.int64)


class HalfTrees(NamedTuple):
    """One half: arcs, and trees over them. Data comes from a parent; in in-trees it is sent to the parent."""

    arcs: LogicalNetwork
    forest: Forest


def packed_trees(arcs: Arcs, plan: TreePlan) -> tuple[HalfTrees, HalfTrees]:
    """Return the in-trees and the out-trees; in-trees are packed as out-trees of the arcs turned round.

    Raises
    ------
    InputError
        If the trees do not fit the capacities.
    """
    rising, falling = plan.capacity[REDUCE], plan.capacity[BROADCAST]
    forward = _network(arcs, falling)
    in_trees = _forest(_network(arcs, rising, turned=True), plan)
    return HalfTrees(_network(arcs, rising), in_trees), HalfTrees(forward, _forest(forward, plan))


def _network(arcs: Arcs, capacity: Int64Array, *, turned: bool = False) -> LogicalNetwork:
    """Return the arcs with a capacity, their ends exchanged if turned round."""
    used = capacity > 0
    tails, heads = (arcs.heads, arcs.tails) if turned else (arcs.tails, arcs.heads)
    routes, ranks = Routes.of([arcs.routes[arc] for arc in np.flatnonzero(used)]), arcs.topology.num_ranks
    return LogicalNetwork(ranks, tails[used], heads[used], capacity[used], routes.offsets, routes.links)


def _forest(network: LogicalNetwork, plan: TreePlan) -> Forest:
    """Return the lower of the trees that a search finds, if it does, and those of the exact algorithm."""
    exact = pack_counts(network, plan.roots)
    few = int(plan.roots.sum()) * network.num_ranks <= 2**12  # about a second
    k = int(np.gcd.reduce(plan.roots))
    found = grow_trees(network, k, plan.roots.tolist()) if few else None
    forests = (forest for forest in (found, exact) if forest is not None)
    return min(forests, key=lambda forest: (largest_height(forest), mean_height(forest), len(forest)))


def allreduce_schedule(topology: Topology, what: Collective, up: HalfTrees, down: HalfTrees) -> Schedule:
    """Return the flow schedule that reduces up the in-trees and broadcasts down the out-trees.

    A root's in-trees divide its interval of M among them, and so do its out-trees, but at other places.

    Parameters
    ----------
    topology
        The physical network.
    what
        An allreduce in one group of all ranks.
    up, down
        As many in-trees as out-trees of each root; no arc carries more than its capacity. The parents in
        in-trees are the ranks that data is sent to.

    Raises
    ------
    NoSchedule
        If the sizes do not fit 64 bits.
    TuttiError
        If the trees do not fit the arcs.
    """
    units = sum(up.forest.weight.tolist())
    width = line_width(what, units)
    if width > INT64_MAX // 4:
        raise NoSchedule(
            f"allreduce_lp on {topology.name}: cutting {what} for {units} trees needs sizes beyond 64 bits; "
            "fix the number of trees, such as --option trees=100"
        )
    rising = tree_transfers(*up, up=True, down=False)
    falling = tree_transfers(*down, up=False, down=True)
    falling = falling._replace(arc=falling.arc + len(up.arcs.tails))
    joined = zip(rising, falling, strict=True)
    moved = IntervalTransfers(*(np.concatenate(both) for both in joined)).merged().scaled(width // units)
    return interval_schedule(topology, what, moved, width, joined_routes(up.arcs, down.arcs))[0]


def lowest(problem: Problem, own: Sequence[Schedule], optimum: Fraction) -> list[Schedule]:
    """Return for each of `own` the schedule with the lowest trees: itself or others as good; each only once.

    Parameters
    ----------
    problem
        An allreduce of all ranks.
    own
        Schedules whose congestion is the optimum, with the heights of their trees among their `stats`.
    optimum
        T / M, s/B.
    """
    as_good = [other for other in _others(problem) if congestion(other) == optimum]
    chosen = [min((each, *as_good), key=schedule_height) for each in own]
    return list({id(schedule): schedule for schedule in chosen}.values())


def schedule_height(schedule: Schedule) -> tuple[int, float, int]:
    """Return the hops up and down the highest trees and on average, and the number of transfers."""
    return schedule.stats["height"], schedule.stats["mean_height"], len(schedule)


def _others(problem: Problem) -> Iterator[Schedule]:
    """Yield other methods' schedules of this problem: trees, over switches that only forward."""
    problem, rng = Problem(problem.topology, problem.collective), np.random.default_rng(0)
    others: list[tuple[Method, Any]] = [(ALLREDUCE_TREES, AllreduceTreesOptions(timed=False))]
    if problem.topology.num_ranks <= 128:  # a few seconds
        others.append((FORESTCOLL, ForestcollOptions(multicast=False, search="newton")))
    for method, options in others:
        with suppress(Unsupported, InputError, NoSchedule):
            method.supports(problem, options)
            yield method.synthesize(problem, options, rng)

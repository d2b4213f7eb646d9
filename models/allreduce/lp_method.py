r"""Allreduce by linear program (B.5): the best roots, in-trees and out-trees together.

The dissertation's B.7: data is sent up in-trees to their roots and down out-trees from them. Each rank v may
be the root of another number x_v of trees. A link of bandwidth b serves both, c^RE + c^BC ≤ b. The program
maximizes Σx; the time is M / Σx. `models.allreduce.optimum` solves it exactly, as a model or by its cuts, and
`trees` makes whole trees of the solution and a schedule. Without a number of trees the schedule's congestion
is the optimum's itself. It is optimal among tree schedules, and among all schedules if the partition bound is
as large. For a given size, on networks without switches, messages get times (`lp_timed`), on trees of an
optimum that divides links evenly (`optimum.balanced_shares`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np

from tutti.models.allreduce.certificate import CLOSE, PROGRAM, TreeOptimum
from tutti.models.allreduce.lp_timed import can_be_timed, timed_schedule
from tutti.models.allreduce.optimum import WAYS, allreduce_optimum, balanced_shares
from tutti.models.allreduce.trees import (
    FEW,
    HalfTrees,
    TreePlan,
    allreduce_schedule,
    exact_plan,
    lowest,
    packed_trees,
    rounded_plan,
    schedule_height,
)
from tutti.models.solvers.options import LEAST_SECONDS
from tutti.schedules.capabilities import Capabilities, Groups
from tutti.schedules.collective import Kind
from tutti.schedules.cost import congestion
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import SLICING, best_slices, simulate
from tutti.topologies.errors import NoSchedule
from tutti.topologies.kernels import now
from tutti.topologies.options import SECONDS, Choice, Options, Whole
from tutti.topologies.topology import Topology
from tutti.topologies.trees.forest import largest_height, mean_height


@dataclass(frozen=True)
class AllreduceLpOptions(Options):
    """Options of the allreduce LP.

    Parameters
    ----------
    trees
        The number of in-trees, and of out-trees, among which M is divided. None: as many as the optimum
        takes, or 1,000 where that is not known exactly or takes more than 64 bits.
    by
        The form in which the program is solved. ``model``: as it stands, by the Pyomo model. ``cuts``: from
        cut to cut, which is faster. ``auto``: the model if it has up to 5,000 variables, else cuts. After the
        model, the trees are the better of those by the optima of both.
    solver
        A name in ``tutti list solvers``; one that returns no basis gives an interval, not the exact optimum.
    time_limit
        Seconds for the program, after which what is proven so far is used. None for no limit.
    shallow_trees
        Whether lower trees of `allreduce_trees` or `forestcoll` are taken if they attain the exact optimum
        and no number of trees is given. False: the trees of the program's own vertex.
    timed
        Whether messages get times, for the size asked, where `can_be_timed` and no number of trees is given.
        Else, or if no size is given, the schedule is a flow for any size.

    Raises
    ------
    InputError
        If `trees` is no whole number in 1..10^9, or `time_limit` is not positive.
    """

    OWNER: ClassVar[str] = "allreduce_lp"

    trees: Annotated[int | None, Whole(1, 10**9)] = None
    by: Annotated[str, Choice(WAYS, words=f"it must be one of {', '.join(WAYS)}")] = "auto"
    solver: str = "highs"
    time_limit: Annotated[float | None, SECONDS] = None
    shallow_trees: bool = True
    timed: bool = True


def size_dependent(problem: Problem, options: AllreduceLpOptions) -> bool:
    """Whether messages get times, which depend on the size."""
    return options.timed and options.trees is None and can_be_timed(problem.topology)


def synthesize(problem: Problem, options: AllreduceLpOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule that reduces up the in-trees of the optimum and broadcasts down its out-trees.

    Without a size it is a flow. With one, where messages can get times, it is the shorter of both.

    Raises
    ------
    InputError
        If the solver is unknown or not installed.
    Unsupported
        If the model is asked for and too large for the time limit.
    NoSchedule
        If the time ends before anything is proven, or the table would be too large.
    """
    topology, begin = problem.topology, now()
    optimum, *others = optima = _optima(topology, options)
    searched = now()
    schedule = _flow(problem, optima, options)
    if problem.size is not None and size_dependent(problem, options):
        schedule = _timed(problem, [*others, optimum][0], options.solver, schedule)
    heights = {name: schedule.stats[name] for name in ("trees", "height", "mean_height")}
    seconds = {"search_s": searched - begin, "packing_s": now() - searched}
    stats = optimum.effort.columns | {"solver_gap": optimum.gap} | heights | seconds
    return schedule.replace(claims={"congestion": congestion(schedule)}, stats=stats)


def _optima(topology: Topology, options: AllreduceLpOptions) -> list[TreeOptimum]:
    """Return the optimum, and if ``auto`` solved the model also the one that the cuts find.

    (B.5) has many optima. Both are vertices; which one has the lower trees is known when they are made.
    """
    begin = time.monotonic()
    solver, limit = options.solver, options.time_limit
    optimum = allreduce_optimum(topology, (), solver, None, limit, options.by)
    if options.by != "auto" or optimum.effort.program != PROGRAM:
        return [optimum]
    left = None if limit is None else max(limit - (time.monotonic() - begin), LEAST_SECONDS)
    with suppress(NoSchedule):
        other = allreduce_optimum(topology, (), solver, None, left, "cuts")
        return [optimum, other] if other.exact else [optimum]
    return [optimum]


def _flow(problem: Problem, optima: Sequence[TreeOptimum], options: AllreduceLpOptions) -> Schedule:
    """Return the best flow for all sizes over trees of these optima, or of others that are as good."""
    flows = []
    for optimum in reversed(optima):
        up, down = packed_trees(optimum.arcs, _plan(optimum, options.trees))
        flow = allreduce_schedule(problem.topology, problem.collective, up, down)
        flows.append(flow.replace(stats=_heights(up, down)))
    if options.shallow_trees and options.trees is None and optima[0].exact:
        flows = lowest(problem, flows, optima[0].upper)
    if len(flows) == 1 or problem.size is None or not size_dependent(problem, options):
        return min(flows, key=schedule_height)
    size = Fraction(problem.size)
    return min(flows, key=lambda flow: best_slices(flow, size, SLICING.few_hops)[1])


def _timed(problem: Problem, optimum: TreeOptimum, solver: str, flow: Schedule) -> Schedule:
    """Return the schedule with times for the problem's size, if it is shorter than the flow."""
    size = Fraction(0) if problem.size is None else Fraction(problem.size)
    shortest = best_slices(flow, size, SLICING.few_hops)[1]
    if shortest <= optimum.upper * size * (1 + CLOSE):
        return flow
    shares = balanced_shares(optimum, solver) if optimum.exact else None
    plan = None if shares is None else exact_plan(shares)
    if plan is None:
        plan = _plan(optimum, None)
    up, down = packed_trees(optimum.arcs, plan)
    schedule = timed_schedule(problem, optimum.arcs, up, down)
    if schedule is None or shortest <= simulate(schedule, size).time:
        return flow
    return schedule.replace(stats={**_heights(up, down), **schedule.stats})


def _plan(optimum: TreeOptimum, trees: int | None) -> TreePlan:
    plan = exact_plan(optimum.shares) if trees is None and optimum.exact else None
    return plan if plan is not None else rounded_plan(optimum.shares, FEW if trees is None else trees)


def _heights(up: HalfTrees, down: HalfTrees) -> dict[str, Any]:
    """Return the number of trees and their heights, which are sums over both halves."""
    return {
        "trees": sum(up.forest.weight.tolist()),
        "height": largest_height(up.forest) + largest_height(down.forest),
        "mean_height": float(Fraction(mean_height(up.forest) + mean_height(down.forest))),
    }


METHOD = Method(
    name="allreduce_lp",
    kind="exact",
    synthesize=synthesize,
    fast={"by": "cuts"},
    options=AllreduceLpOptions,
    capabilities=Capabilities((Kind.ALLREDUCE,), Groups.NONE),
    size_dependent=size_dependent,
    exact_for=lambda options: "bytes over trees" + ", before rounding to few of them" * bool(options.trees),
    summary="in-trees and out-trees that are optimal together, by a linear program; any network",
)

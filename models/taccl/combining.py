"""Combining collectives by inversion (TACCL, section 5.3).

A reduce-scatter is the inverse of an allgather, a reduce that of a broadcast: what was sent is received and
added. The inverse order alone would have a rank add several parts of one chunk at once, which it can't (the
allgather sends a chunk to several ranks at once). So only the routing is inverted; its sends are ordered
anew, and those of one chunk into one rank follow each other, before contiguity is decided. An allreduce is a
reduce-scatter and then an allgather; a chunk spreads as soon as it is reduced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from models.taccl.deadline import Deadline
from models.taccl.demand import Demand
from models.taccl.jobs import Jobs
from models.taccl.logical import LogicalTopology
from models.taccl.milp import joined
from models.taccl.options import TacclOptions
from models.taccl.ordering import timed
from models.taccl.stages import HALF, Plan, best_plan, planning, scheduled
from models.taccl.table import schedule_of
from schedules.collective import Kind
from schedules.method import Problem
from schedules.schedule import Schedule
from topologies.exact import BoolArray
from topologies.topology import Topology
from topologies.transforms import transpose


def combined(problem: Problem, options: TacclOptions, rng: np.random.Generator) -> Schedule:
    """Return a reduce-scatter, reduce or allreduce."""
    if problem.collective.kind is Kind.ALLREDUCE:
        return _allreduce(problem, options, rng)
    plan, stats = _reduction(problem, options, Deadline.after(options.time_limit), rng)
    number = plan.routing.demand.number
    made = schedule_of(problem, plan.times, options.per_item(), number, [True] * len(plan.times.jobs))
    return made.replace(stats=stats)


def _reduction(
    problem: Problem, options: TacclOptions, deadline: Deadline, rng: np.random.Generator
) -> tuple[Plan, dict[str, object]]:
    """Return the inverse of what copies on the transposed network."""
    opposite = Problem(transpose(problem.topology), problem.collective.reverse, problem.size)
    how = (rng, _reducing(problem.topology, options))
    plan = best_plan(opposite, options, planning(problem, options, deadline), how)
    return scheduled(plan, options, deadline)


def _reducing(topology: Topology, options: TacclOptions) -> Callable[[Demand, BoolArray], Jobs]:
    def jobs_of(demand: Demand, sent: BoolArray) -> Jobs:
        back = turned(demand.logical, topology)
        return Jobs.reducing(demand, sent, back, together=options.together)

    return jobs_of


def turned(logical: LogicalTopology, topology: Topology) -> LogicalTopology:
    """Return the links of a transposed network turned round, on the network itself, in the same order."""
    links = (
        replace(link, source=link.target, target=link.source, lanes=tuple(lane[::-1] for lane in link.lanes))
        for link in logical.links
    )
    return LogicalTopology(topology, logical.name, tuple(links), logical.node)


def _allreduce(problem: Problem, options: TacclOptions, rng: np.random.Generator) -> Schedule:
    halves = [
        Problem(problem.topology, problem.collective.with_kind(kind), problem.size)
        for kind in (Kind.REDUCE_SCATTER, Kind.ALLGATHER)
    ]
    deadline = Deadline.after(options.time_limit)
    first, told = _reduction(halves[0], options, deadline.share(HALF), rng)
    spread = best_plan(halves[1], options, planning(problem, options, deadline), (rng, Jobs.spreading))
    second, also = scheduled(spread, options, deadline)
    one, other = first.times, second.times
    both = one.jobs.then(other.jobs)
    base = len(one.jobs)
    later = [tuple(base + job for job in message) for message in other.messages]
    times = timed(both, [*one.messages, *later])
    adds = [True] * base + [False] * len(other.jobs)
    made = schedule_of(problem, times, options.per_item(), first.routing.demand.number, adds)
    return made.replace(stats=joined(told, also))

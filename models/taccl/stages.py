"""The three stages one after the other, for what copies; and what is tried again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from models.taccl.costs import Costs
from models.taccl.deadline import Deadline
from models.taccl.demand import Demand, demand_of, with_symmetry
from models.taccl.jobs import Jobs
from models.taccl.logical import direct_links, sketched_links
from models.taccl.milp import Limits, joined
from models.taccl.options import TacclOptions
from models.taccl.ordering import Timed, ordered
from models.taccl.routing import Routing, reroute, route
from models.taccl.scheduling import exactly_scheduled
from models.taccl.symmetry import found_symmetry, sketched_symmetry
from models.taccl.table import schedule_of
from schedules.method import Problem
from schedules.schedule import Chunks, Schedule
from topologies.errors import NoSchedule
from topologies.exact import BoolArray

EFFORT = 400_000
"""Sends that are ordered in disturbed orders at most, all tries together."""
MOST_TRIES = 200
HALF = 1 / 2
"""Of the time left that a reduction gets before a spreading, and a symmetric routing before a plain one."""
PLANNING = 2 / 3
"""Of the time left that routing and ordering get if contiguity is to be decided."""
FIRST, RETRY = 3 / 4, 1 / 4
"""Of the time left that a routing gets if others may follow, and that each of these gets."""
ROUNDING = Fraction(1, 10**9)
"""By how much a solver's time may be below an exact one, relatively."""
US = 1e6
JobsOf = Callable[[Demand, BoolArray], Jobs]


@dataclass(frozen=True, eq=False)
class Plan:
    """A routing in time.

    Parameters
    ----------
    routing
        The paths.
    times
        The messages.
    """

    routing: Routing
    times: Timed


def copied(problem: Problem, options: TacclOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule of a collective that copies."""
    deadline = Deadline.after(options.time_limit)
    plan = best_plan(problem, options, planning(problem, options, deadline), (rng, Jobs.spreading))
    plan, stats = scheduled(plan, options, deadline)
    demand = plan.routing.demand
    made = schedule_of(problem, plan.times, options.per_item(), demand.number, [False] * len(plan.times.jobs))
    return made.replace(stats=stats)


def planning(problem: Problem, options: TacclOptions, deadline: Deadline) -> Deadline:
    """Return when routing and ordering should be over: early if contiguity is to be decided afterwards."""
    return deadline.share(PLANNING) if joins(problem, options) else deadline


def joins(problem: Problem, options: TacclOptions) -> bool:
    """Return whether there are links that may send several chunks as one message."""
    hosts = problem.topology.hosts
    between = hosts is not None and len(np.unique(hosts)) > 1
    return options.contiguity == "all" or (options.contiguity == "between" and between)


def best_plan(
    problem: Problem, options: TacclOptions, deadline: Deadline, how: tuple[np.random.Generator, JobsOf]
) -> Plan:
    """Return the routing and order that end first, of those that are tried.

    Where a symmetry that was found, not asked for, may cost time or leaves no routing, routing is done
    without it as well.

    Parameters
    ----------
    problem, options
        As the method's.
    deadline
        After it nothing else is tried.
    how
        The random numbers, and what makes the jobs of a demand and its routing.
    """
    demand = demand_for(problem, options)
    plain = replace(demand, symmetry=())
    found = bool(demand.symmetry) and options.sketch is None
    try:
        best = _planned(demand, options, deadline.share(HALF) if found and options.again else deadline, how)
    except NoSchedule:
        if not found:
            raise
        return _planned(plain, options, deadline, how)
    if found and options.again and not deadline.over and not _receives_in_time(best):
        best = min(best, _planned(plain, options, deadline, how), key=lambda plan: plan.times.end)
    return best


def _receives_in_time(plan: Plan) -> bool:
    """Return whether a plan takes no longer than the ranks need to receive what they must."""
    costs = Costs(plan.routing.demand)
    end = plan.times.end * float(plan.times.jobs.tick)
    return end <= costs.unit * costs.receiving * (1 + float(ROUNDING))


def _planned(
    demand: Demand, options: TacclOptions, deadline: Deadline, how: tuple[np.random.Generator, JobsOf]
) -> Plan:
    """Return the best of a routing and, while no order meets its time, of others that take no longer."""
    limits = Limits(
        options.solver, deadline.share(FIRST) if options.again else deadline, options.relative_gap
    )
    first = route(demand, limits)
    best = _in_order(first, options, deadline, how)
    for _ in range(options.again):
        if best.times.end <= _bound(first, best.times.jobs) or deadline.over:
            break
        other = reroute(first, replace(limits, deadline=deadline.share(RETRY)), how[0])
        if other is not None:
            best = min(best, _in_order(other, options, deadline, how), key=lambda plan: plan.times.end)
    return best


def _in_order(
    routing: Routing, options: TacclOptions, deadline: Deadline, how: tuple[np.random.Generator, JobsOf]
) -> Plan:
    rng, jobs_of = how
    jobs = jobs_of(routing.demand, routing.sent)
    tries = min(MOST_TRIES, EFFORT // max(1, len(jobs))) if options.tries is None else options.tries
    return Plan(routing, ordered(jobs, _bound(routing, jobs), tries, rng, deadline))


def _bound(routing: Routing, jobs: Jobs) -> int:
    """Return the ticks that a routing takes with orders left open."""
    return math.floor(Fraction(routing.time) * (1 + ROUNDING) / jobs.tick)


def demand_for(problem: Problem, options: TacclOptions) -> Demand:
    """Return the chunks of a problem on the links that the sketch leaves."""
    sketch, where, what = options.read(), problem.topology, problem.collective
    logical = direct_links(where) if sketch is None else sketched_links(where, sketch)
    chunks = Chunks.even(what, options.per_item())
    size = problem.size or Fraction(0)
    demand = demand_of(logical, what, chunks, size, (sketch, options.paths))
    if not options.symmetry:
        return demand
    ranks = found_symmetry(where) if sketch is None else sketched_symmetry(logical, sketch)
    return with_symmetry(demand, what, ranks)


def scheduled(plan: Plan, options: TacclOptions, deadline: Deadline) -> tuple[Plan, dict[str, Any]]:
    """Return the plan with messages of several chunks where they pay, and the stats of all stages."""
    limits = Limits(options.solver, deadline, options.relative_gap)
    times, stats = exactly_scheduled(plan.times, options.contiguity, limits)
    told = joined(plan.routing.stats, stats)
    seconds = float(times.end * times.jobs.tick)
    told |= {
        "routing_us": plan.routing.time * US,
        "routing_bound_us": plan.routing.bound * US,
        "scheduled_us": seconds * US,
    }
    return Plan(plan.routing, times), told

"""The three stages one after the other, for what copies; and what is tried again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from models.taccl.costs import Costs
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
from topologies.exact import BoolArray

EFFORT = 400_000
"""Sends that are ordered in disturbed orders at most, all tries together."""
MOST_TRIES = 200
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
    plan = best_plan(problem, options, rng, Jobs.spreading)
    plan, stats = scheduled(plan, options)
    demand = plan.routing.demand
    made = schedule_of(problem, plan.times, options.per_item(), demand.number, [False] * len(plan.times.jobs))
    return made.replace(stats=stats)


def best_plan(problem: Problem, options: TacclOptions, rng: np.random.Generator, jobs_of: JobsOf) -> Plan:
    """Return the routing and order that end first, of those that are tried.

    Where a symmetry that was found, not asked for, may cost time, routing is done without it as well.

    Parameters
    ----------
    problem, options, rng
        As the method's.
    jobs_of
        Makes the jobs of a demand and its routing.
    """
    demand = demand_for(problem, options)
    best = _planned(demand, options, rng, jobs_of)
    if demand.symmetry and options.sketch is None and options.again:
        costs = Costs(demand)
        if best.times.end * float(best.times.jobs.tick) > costs.unit * costs.receiving * (
            1 + float(ROUNDING)
        ):
            plain = _planned(replace(demand, symmetry=()), options, rng, jobs_of)
            best = min(best, plain, key=lambda plan: plan.times.end)
    return best


def _planned(demand: Demand, options: TacclOptions, rng: np.random.Generator, jobs_of: JobsOf) -> Plan:
    """Return the best of a routing and, while no order meets its time, of others that take no longer."""
    limits = Limits(options.solver, options.time_limit, options.relative_gap)
    first = route(demand, limits)
    best = _in_order(first, options, rng, jobs_of)
    for _ in range(options.again):
        if best.times.end <= _bound(first, best.times.jobs):
            break
        other = reroute(first, limits, rng)
        if other is not None:
            best = min(best, _in_order(other, options, rng, jobs_of), key=lambda plan: plan.times.end)
    return best


def _in_order(routing: Routing, options: TacclOptions, rng: np.random.Generator, jobs_of: JobsOf) -> Plan:
    jobs = jobs_of(routing.demand, routing.sent)
    tries = min(MOST_TRIES, EFFORT // max(1, len(jobs))) if options.tries is None else options.tries
    return Plan(routing, ordered(jobs, _bound(routing, jobs), tries, rng))


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


def scheduled(plan: Plan, options: TacclOptions) -> tuple[Plan, dict[str, Any]]:
    """Return the plan with messages of several chunks where they pay, and the stats of all stages."""
    limits = Limits(options.solver, options.time_limit, options.relative_gap)
    times, stats = exactly_scheduled(plan.times, options.contiguity, limits)
    told = joined(plan.routing.stats, stats)
    seconds = float(times.end * times.jobs.tick)
    told |= {
        "routing_us": plan.routing.time * US,
        "routing_bound_us": plan.routing.bound * US,
        "scheduled_us": seconds * US,
    }
    return Plan(plan.routing, times), told

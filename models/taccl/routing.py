"""The routing stage solved: from a greedy routing to one proven best, orders left open."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyomo.environ as pyo

from models.solvers import CompiledModel, SolverResult, Start, Termination, compile_model, solve
from models.taccl.costs import Costs
from models.taccl.demand import Demand
from models.taccl.greedy import arrivals, greedy_routing, routed_time
from models.taccl.milp import HALF, Limits, added, mip_options, slack, stats_of, takes_start, unsolved
from models.taccl.orbits import Orbits
from models.taccl.routing_model import WEIGHT, RoutingModel
from models.taccl.sketch import Policy
from topologies.errors import NoSchedule
from topologies.exact import BoolArray

GREEDY = 1 / 4
"""Of the time left that the greedy routing gets to become better."""
ENOUGH = 0.05
"""Relative gap at which a search for another routing stops."""


@dataclass(frozen=True, eq=False)
class Routing:
    """What the routing stage found.

    Parameters
    ----------
    demand
        What was routed.
    sent
        bool (chunks, links): is_sent.
    time, bound
        Seconds: of this routing with orders left open, and what no routing beats.
    stats
        What the solver took.
    """

    demand: Demand
    sent: BoolArray
    time: float
    bound: float
    stats: Mapping[str, Any]


def route(demand: Demand, limits: Limits) -> Routing:
    """Solve the routing stage.

    Raises
    ------
    NoSchedule
        If the symmetry leaves no routing, or the solver stops without one.
    """
    begin = time.perf_counter()
    costs = Costs(demand)
    first = greedy_routing(costs, limits.deadline.share(GREEDY))
    if first is None:
        most = float(costs.lat.max()) * len(demand) * demand.logical.topology.num_ranks
        return _solved(RoutingModel.of(costs, most), None, limits, begin)
    model = RoutingModel.within(costs, first[1] + slack(limits), limits.deadline)
    if model is None:
        return _unproven(costs, first[0], time.perf_counter() - begin)
    return _solved(model, first[0], limits, begin)


def _solved(model: RoutingModel, first: BoolArray | None, limits: Limits, begin: float) -> Routing:
    """Return what the solver makes of a model, from the first routing on if there is one."""
    costs, m = model.costs, model.m
    compiled = compile_model(m)
    start = _start(costs, m, compiled, first) if first is not None and takes_start(limits) else None
    build_s = time.perf_counter() - begin
    if first is not None and limits.deadline.over:
        return _unproven(costs, first, build_s)
    result = solve(compiled, limits.solver, mip_options(limits), start=start)
    needed = _needed(costs.demand, _is_sent(costs, m, result, first))
    policies = any(link.policy is Policy.MIN for link in costs.demand.logical.links)
    bound = max((result.bound or 0.0) - (WEIGHT if policies else 0.0), costs.least)
    reached = routed_time(costs, needed)
    return Routing(costs.demand, needed, reached * costs.unit, bound * costs.unit, stats_of(result, build_s))


def _unproven(costs: Costs, first: BoolArray, build_s: float) -> Routing:
    """Return the first routing where there is no time for a better one."""
    sent = _needed(costs.demand, first)
    reached, least = routed_time(costs, sent) * costs.unit, costs.receiving * costs.unit
    return Routing(costs.demand, sent, reached, least, unsolved(build_s))


def _start(costs: Costs, m: pyo.ConcreteModel, compiled: CompiledModel, sent: BoolArray) -> Start:
    """Return the values of all variables for a routing."""
    used = set(np.nonzero(sent)[1].tolist())
    known = {c: arrivals(costs, sent, c) for c in {c for c, _ in m.STARTS}}
    whole = round if costs.alike else float
    value = {id(m.time): whole(routed_time(costs, sent))}
    value |= {id(m.is_sent[c, k]): float(sent[c, k]) for c, k in m.SENDS}
    value |= {id(m.is_util[k]): float(k in used) for k in m.SWITCHED}
    for c, r in m.STARTS:
        value[id(m.start[c, r])] = known[c][r] if np.isfinite(known[c][r]) else costs.head[c, r]
    return Start(np.array([value[id(variable)] for variable in compiled.variables]))


def _is_sent(costs: Costs, m: pyo.ConcreteModel, result: SolverResult, first: BoolArray | None) -> BoolArray:
    """Return the solver's routing, or the first one where it stopped without.

    Raises
    ------
    NoSchedule
        If there is none.
    """
    demand = costs.demand
    if result.values is None:
        if first is not None and result.termination is not Termination.INFEASIBLE:
            return first
        why = f"stopped with '{result.termination}' and no routing"
        hint = "" if not demand.symmetry else "; try symmetry = false"
        raise NoSchedule(f"taccl: the routing stage of {demand.logical.name}: {result.solver} {why}{hint}")
    chosen = np.zeros(demand.allowed.size, np.bool_)
    for c, k in m.SENDS:
        chosen[c * demand.allowed.shape[1] + k] = result.value(m.is_sent[c, k]) > HALF
    return chosen[Orbits(demand).sent] & demand.allowed


def _needed(demand: Demand, sent: BoolArray) -> BoolArray:
    """Return only those sends of each chunk that lead from its start to its ends."""
    needed = np.zeros_like(sent)
    links = demand.logical.links
    for c, ends in enumerate(demand.ends):
        into = {links[k].target: k for k in np.flatnonzero(sent[c]).tolist()}
        for end in ends:
            here = end
            while here != demand.start[c] and not needed[c, into[here]]:
                needed[c, into[here]] = True
                here = links[into[here]].source
    return needed


def reroute(found: Routing, limits: Limits, rng: np.random.Generator) -> Routing | None:
    """Return another routing that takes no longer: chunks early at ranks, these weighed at random.

    None if the solver stops without, or the time is over before.
    """
    begin = time.perf_counter()
    costs = Costs(found.demand)
    model = RoutingModel.within(costs, found.time / costs.unit + slack(limits), limits.deadline)
    if model is None:
        return None
    m = model.m
    m.duration.deactivate()
    m.early = pyo.Objective(expr=sum(float(rng.random()) * m.start[c, r] for c, r in m.STARTS))
    compiled = compile_model(m)
    build_s = time.perf_counter() - begin
    if limits.deadline.over:
        return None
    result = solve(
        compiled,
        limits.solver,
        mip_options(replace(limits, gap=ENOUGH)),
    )
    if result.values is None:
        return None
    sent = _needed(found.demand, _is_sent(costs, m, result, None))
    reached = routed_time(costs, sent) * costs.unit
    return replace(found, sent=sent, time=reached, stats=added(found.stats, stats_of(result, build_s)))

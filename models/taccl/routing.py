"""The routing stage is solved: from a greedy routing to one proven best, with orders left open.

The *greedy* routing takes chunk after chunk along cheapest paths, where a link costs its latency and its
load. It gives the routing stage an incumbent and the upper bound U of its big-M. Images of a chunk under
the symmetry are routed with it. Then each chunk is taken out and routed again, for a few rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyomo.environ as pyo

from tutti.models.solvers import CompiledModel, SolverResult, Start, Termination, compile_model, solve
from tutti.models.taccl.costs import Costs, PortCost
from tutti.models.taccl.demand import ChunkDemand
from tutti.models.taccl.routing_model import WEIGHT, Orbits, RoutingModel
from tutti.models.taccl.sketch import Policy
from tutti.models.taccl.solving import (
    NEVER,
    SHARES,
    Deadline,
    StageLimits,
    added,
    mip_options,
    slack,
    stats_of,
    takes_start,
    unsolved,
)
from tutti.topologies.errors import NoSchedule
from tutti.topologies.exact import BoolArray, FloatArray, Int64Array
from tutti.topologies.graphs.shortest_paths import nearest_first
from tutti.topologies.kernels import now


@dataclass(frozen=True, eq=False)
class Routing:
    """A routing that the stage has found.

    Parameters
    ----------
    demand
        What was routed.
    sent
        bool (chunks, links): is_sent.
    time, bound
        Seconds: the time of this routing with orders left open, and a lower bound of every routing's.
    stats
        The solver's columns of a result row.
    """

    demand: ChunkDemand
    sent: BoolArray
    time: float
    bound: float
    stats: Mapping[str, Any]


def route(demand: ChunkDemand, limits: StageLimits) -> Routing:
    """Solve the routing stage.

    Raises
    ------
    NoSchedule
        If the symmetry leaves no routing, the solver stops without one, or the time ends before the first.
    """
    limits.deadline.check(demand.logical.name)
    begin = now()
    costs = Costs(demand, limits.deadline)
    first = greedy_routing(costs, limits.deadline.share(SHARES.greedy))
    if first is None:
        most = float(costs.lat.max()) * len(demand) * demand.logical.topology.num_ranks
        unknown = RoutingModel(costs, most)
        if unknown.build(limits.deadline) is None:
            why = "no time for its program, and no routing without; give it more"
            raise NoSchedule(f"taccl: the routing stage of {demand.logical.name}: {why}")
        return _solved(unknown, None, limits, begin)
    model = RoutingModel(costs, first.time + slack(limits))
    if model.build(limits.deadline) is None:
        return _unproven(costs, first.sent, now() - begin)
    return _solved(model, first.sent, limits, begin)


def _solved(model: RoutingModel, first: BoolArray | None, limits: StageLimits, begin: float) -> Routing:
    """Return the solver's routing of a model. It begins with the first routing if there is one."""
    costs, m = model.costs, model.m
    compiled = compile_model(m)
    start = _start(costs, m, compiled, first) if first is not None and takes_start(limits) else None
    build_s = now() - begin
    if first is not None and limits.deadline.over:
        return _unproven(costs, first, build_s)
    result = solve(compiled, limits.solver, mip_options(limits), start=start)
    needed = _needed(costs.demand, _is_sent(costs, m, result, first))
    policies = any(link.policy is Policy.MIN for link in costs.demand.logical.links)
    bound = max((result.bound or 0.0) - (WEIGHT if policies else 0.0), costs.least)
    reached = routed_time(costs, needed)
    return Routing(costs.demand, needed, reached * costs.unit, bound * costs.unit, stats_of(result, build_s))


def _unproven(costs: Costs, first: BoolArray, build_s: float) -> Routing:
    """Return the first routing, where no time is left for a better one."""
    sent = _needed(costs.demand, first)
    reached, least = routed_time(costs, sent) * costs.unit, costs.receiving * costs.unit
    return Routing(costs.demand, sent, reached, least, unsolved(build_s))


def _start(costs: Costs, m: pyo.ConcreteModel, compiled: CompiledModel, sent: BoolArray) -> Start:
    """Return the values of all variables for a routing."""
    used = set(np.nonzero(sent)[1].tolist())
    known = {c: arrivals(costs, sent, c) for c in {c for c, _ in m.ARRIVALS}}
    whole = round if costs.alike else float
    value = {id(m.time): whole(routed_time(costs, sent))}
    value |= {id(m.is_sent[c, k]): float(sent[c, k]) for c, k in m.TRANSFERS}
    value |= {id(m.is_util[k]): float(k in used) for k in m.SWITCHED}
    for c, r in m.ARRIVALS:
        value[id(m.start[c, r])] = known[c][r] if np.isfinite(known[c][r]) else costs.head[c, r]
    return Start(np.array([value[id(variable)] for variable in compiled.variables]))


def _is_sent(costs: Costs, m: pyo.ConcreteModel, result: SolverResult, first: BoolArray | None) -> BoolArray:
    """Return the solver's routing, or the first one if the solver stopped without one.

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
    for c, k in m.TRANSFERS:
        chosen[c * demand.allowed.shape[1] + k] = result.is_one(m.is_sent[c, k])
    return chosen[Orbits(demand).sent] & demand.allowed


def _needed(demand: ChunkDemand, sent: BoolArray) -> BoolArray:
    """Return only those transfers of each chunk that lead from its start to its ends."""
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


def reroute(found: Routing, limits: StageLimits, rng: np.random.Generator) -> Routing | None:
    """Return another routing that takes no longer, with randomly weighted chunks early at their ranks.

    None if the solver stops without a routing, or if no time is left.
    """
    begin = now()
    costs = Costs(found.demand)
    m = RoutingModel(costs, found.time / costs.unit + slack(limits)).build(limits.deadline)
    if m is None:
        return None
    m.duration.deactivate()
    m.early = pyo.Objective(expr=sum(float(rng.random()) * m.start[c, r] for c, r in m.ARRIVALS))
    compiled = compile_model(m)
    build_s = now() - begin
    if limits.deadline.over:
        return None
    result = solve(compiled, limits.solver, mip_options(replace(limits, gap=0.05)))
    if result.values is None:
        return None
    sent = _needed(found.demand, _is_sent(costs, m, result, None))
    reached = routed_time(costs, sent) * costs.unit
    return replace(found, sent=sent, time=reached, stats=added(found.stats, stats_of(result, build_s)))


class GreedyRouting(NamedTuple):
    """is_sent, bool (chunks, links), and its time in `Costs.unit`."""

    sent: BoolArray
    time: float


class Image(NamedTuple):
    """A chunk, and the permutation of links that turns another's paths into its own, int64 (links,)."""

    chunk: int
    links: Int64Array


def greedy_routing(costs: Costs, deadline: Deadline = NEVER) -> GreedyRouting | None:
    """Return a routing by cheapest paths; None if its symmetry contradicts it.

    There are two contradictions: a chunk may be its own image but its tree not, or the image of a link
    between subsets may be no link. After the deadline no chunk is routed again.

    Raises
    ------
    NoSchedule
        If there is no time to route each chunk once.
    """
    demand = costs.demand
    sent = np.zeros((len(demand), len(demand.logical.links)), np.bool_)
    load = np.zeros(len(costs.uses))
    images = _images(costs)
    for turn in range(4):  # each chunk is routed again three times
        for copies in images:
            if turn and deadline.over:
                break
            deadline.check(demand.logical.name)
            if turn:
                _count(costs, load, sent, copies, -1.0)
            tree = _tree(costs, load, copies[0].chunk)
            if any((links[tree] < 0).any() for _, links in copies):
                return None
            for chunk, links in copies:
                sent[chunk] = False
                sent[chunk, links[tree]] = True
            _count(costs, load, sent, copies, 1.0)
    if any(((sent[np.ix_(p.chunks, p.links)] != sent) & p.tied).any() for p in demand.symmetry):
        return None
    return GreedyRouting(sent, routed_time(costs, sent))


def routed_time(costs: Costs, sent: BoolArray) -> float:
    """Return the least time of a routing that the routing stage's constraints allow, in `Costs.unit`.

    That is the latest arrival, or the time of a port, if longer: some transfers on it can't begin before a
    head, and the chunks of some have a tail ahead of them (`models.taccl.routing_model`).
    """
    ends = enumerate(costs.demand.ends)
    latest = max(float(arrivals(costs, sent, c)[list(there)].max()) for c, there in ends)
    carried = np.ascontiguousarray(sent.T)
    return max(latest, *(_port_time(costs, carried, port) for port in costs.uses))


def _port_time(costs: Costs, carried: BoolArray, port: dict[int, PortCost]) -> float:
    """Return the least time for which a port is in use; `carried` is bool (links, chunks)."""
    links, time = costs.demand.logical.links, 0.0
    transfers = [(c, k, use) for k, use in port.items() for c in np.flatnonzero(carried[k]).tolist()]
    for free in (
        [(float(costs.head[c, links[k].source]) + use.enter, use.hold) for c, k, use in transfers],
        [(float(costs.beyond[c, k]) + use.lag, use.hold) for c, k, use in transfers],
    ):
        held = 0.0
        for apart, hold in sorted(free, reverse=True):
            held += hold
            time = max(time, apart + held)
    return time


def arrivals(costs: Costs, sent: BoolArray, c: int) -> FloatArray:
    """Return when each rank has chunk c if nothing waits, float64 (ranks,); inf where it never comes."""
    logical, used = costs.demand.logical, sent[c].tolist()
    arrival = [np.inf] * logical.topology.num_ranks
    arrival[costs.demand.start[c]] = 0.0
    queue = [int(costs.demand.start[c])]
    while queue:
        here = queue.pop()
        for k in logical.out_links[here]:
            there = logical.links[k].target
            if used[k] and arrival[there] == np.inf:
                arrival[there] = arrival[here] + costs.latency[k]
                queue.append(there)
    return np.array(arrival)


def _images(costs: Costs) -> list[list[Image]]:
    """Return the orbits of the chunks, each from its first chunk on."""
    demand, seen = costs.demand, set[int]()
    same = np.arange(len(demand.logical.links))
    found = []
    for c in range(len(demand)):
        if c in seen:
            continue
        copies = [Image(c, same)]
        seen.add(c)
        for chunk, links in copies:
            for permuted in demand.symmetry:
                image = int(permuted.chunks[chunk])
                if image not in seen:
                    seen.add(image)
                    copies.append(Image(image, np.where(links < 0, -1, permuted.links[links])))
        found.append(copies)
    return found


def _count(costs: Costs, load: FloatArray, sent: BoolArray, copies: list[Image], sign: float) -> None:
    for chunk, _ in copies:
        for k in np.flatnonzero(sent[chunk]).tolist():
            for port, hold in costs.ports_of[k]:
                load[port] += sign * hold


def _tree(costs: Costs, load: FloatArray, c: int) -> list[int]:
    """Return the links by which a chunk gets from its start to its ends."""
    busy = load.tolist()
    price = [
        costs.latency[k] + max([busy[port] + hold for port, hold in ports])
        for k, ports in enumerate(costs.ports_of)
    ]
    reached = {int(costs.demand.start[c]): 0.0}
    tree: list[int] = []
    for end in sorted(costs.demand.ends[c], key=lambda r: (costs.head[c, r], r)):
        if end not in reached:
            logical = costs.demand.logical
            lengths = np.where(costs.demand.allowed[c], price, np.inf).tolist()
            begun = [(cost, rank, ()) for rank, cost in reached.items()]
            found = nearest_first(logical.out_links, logical.targets.tolist(), lengths, begun)
            path = next(path for _, rank, path in found if rank == end)
            having = [place for place, k in enumerate(path, 1) if logical.links[k].target in reached]
            for k in path[having[-1] if having else 0 :]:
                link = costs.demand.logical.links[k]
                reached[link.target] = reached[link.source] + costs.latency[k]
                price[k] = np.inf
                tree.append(k)
                for port, hold in costs.ports_of[k]:
                    for other in costs.uses[port]:
                        price[other] += hold
    return tree

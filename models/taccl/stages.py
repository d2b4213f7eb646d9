"""The three stages one after the other, what is tried again, and the schedule's table.

The time of a routing is a lower bound as long as chunks are sent one by one. If no order meets it, routing is
solved again, within the same time but for other paths, and then without the symmetry. The plan that ends
first is kept, and contiguity is decided for it.

Combining collectives are made by inversion (TACCL, section 5.3). A reduce-scatter is the inverse of an
allgather, a reduce that of a broadcast: what was sent is received and added. In an allgather a rank may send
a chunk to several ranks simultaneously, but in the inverse it can't add several parts of one chunk
simultaneously. So only the routing is inverted. Its transfers are ordered again, and those of one chunk into
one rank follow each other, before contiguity is decided. An allreduce is a reduce-scatter and then an
allgather; a chunk spreads as soon as it is reduced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tutti.models.taccl.costs import Costs
from tutti.models.taccl.demand import ChunkDemand, PathRules, demand_of, with_symmetry
from tutti.models.taccl.logical import LogicalTopology, logical_links
from tutti.models.taccl.ordering import TimedMessages, ordered, timed
from tutti.models.taccl.routing import Routing, reroute, route
from tutti.models.taccl.scheduling import exactly_scheduled
from tutti.models.taccl.solving import SHARES, Deadline, StageLimits, joined
from tutti.models.taccl.transfers import RoutedTransfers
from tutti.schedules.collective import Kind
from tutti.schedules.method import Problem
from tutti.schedules.reversal import normal_order
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule
from tutti.topologies.errors import NoSchedule
from tutti.topologies.exact import Int64Array, offsets_of
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

if TYPE_CHECKING:
    from tutti.models.taccl.options import TacclOptions

ROUNDING = Fraction(1, 10**9)
"""Relative error by which a solver's time may be below the exact one. A larger value accepts more plans as
optimal."""


class TimedRouting(NamedTuple):
    """A routing, and the times of its messages."""

    routing: Routing
    times: TimedMessages


@dataclass(frozen=True, eq=False)
class Planner:
    """Routing and ordering, with repeated attempts.

    Parameters
    ----------
    options
        The options of the method.
    rng
        For disturbed orders and other routings.
    reduced_on
        The network on which a combining collective is the inverse of what is planned; None: no inverse.
    """

    options: TacclOptions
    rng: np.random.Generator
    reduced_on: Topology | None = None

    def best(self, problem: Problem, deadline: Deadline) -> TimedRouting:
        """Return the routing and order that end first, of those that are tried.

        Where a symmetry was found rather than asked for, and may cost time or leaves no routing, routing is
        also done without it.

        Parameters
        ----------
        problem
            The problem, in which data is only copied.
        deadline
            After it nothing else is tried.
        """
        demand = demand_for(problem, self.options)
        plain = replace(demand, symmetry=())
        found = bool(demand.symmetry) and self.options.sketch is None
        again = found and self.options.reroutes > 0
        try:
            best = self.planned(demand, deadline.share(SHARES.half) if again else deadline)
        except NoSchedule:
            if not found:
                raise
            return self.planned(plain, deadline)
        costs = Costs(best.routing.demand)
        received = costs.unit * costs.receiving * (1 + float(ROUNDING))  # no plan takes less
        late = best.times.end * float(best.times.transfers.tick) > received
        if again and late and not deadline.over:
            with suppress(NoSchedule):  # there is no time for it
                best = min(best, self.planned(plain, deadline), key=lambda plan: plan.times.end)
        return best

    def planned(self, demand: ChunkDemand, deadline: Deadline) -> TimedRouting:
        """Return the best of a routing and, while no order meets its time, of others that take no longer."""
        options = self.options
        until = deadline.share(SHARES.first) if options.reroutes else deadline
        limits = StageLimits(options.solver, until, options.relative_gap)
        first = route(demand, limits)
        best = self.in_order(first, deadline)
        for _ in range(options.reroutes):
            if best.times.end <= _bound(first, best.times.transfers) or deadline.over:
                break
            other = reroute(first, replace(limits, deadline=deadline.share(SHARES.retry)), self.rng)
            if other is not None:
                best = min(best, self.in_order(other, deadline), key=lambda plan: plan.times.end)
        return best

    def in_order(self, routing: Routing, deadline: Deadline) -> TimedRouting:
        """Return a routing with the best order of its transfers that is found."""
        demand, sent = routing.demand, routing.sent
        if self.reduced_on is None:
            transfers = RoutedTransfers.spreading(demand, sent)
        else:
            links, together = turned(demand.logical, self.reduced_on), self.options.concurrent_receives
            transfers = RoutedTransfers.reducing(demand, sent, links, together=together)
        tries = self.options.restarts
        if tries is None:
            tries = min(SHARES.tries, SHARES.effort // max(1, len(transfers)))
        return TimedRouting(
            routing, ordered(transfers, _bound(routing, transfers), tries, self.rng, deadline)
        )


def _bound(routing: Routing, transfers: RoutedTransfers) -> int:
    """Return the ticks that a routing takes with orders left open."""
    return math.floor(Fraction(routing.time) * (1 + ROUNDING) / transfers.tick)


def demand_for(problem: Problem, options: TacclOptions) -> ChunkDemand:
    """Return the chunks of a problem on the links that the sketch leaves."""
    sketch, where, what = options.read(), problem.topology, problem.collective
    logical = logical_links(where, sketch)
    chunks = Chunks.even(what, options.per_item())
    size = problem.size or Fraction(0)
    demand = demand_of(logical, what, chunks, size, PathRules(sketch, options.paths))
    return with_symmetry(demand, what, sketch) if options.symmetry else demand


def synthesized(problem: Problem, options: TacclOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule of a problem with a size."""
    deadline = Deadline.after(options.time_limit)
    if problem.collective.kind is Kind.ALLREDUCE:
        return _allreduce(problem, options, deadline, rng)
    plan, stats = _half(problem, options, deadline, rng)
    adds = [problem.collective.is_combining] * len(plan.times.transfers)
    table = schedule_of(problem, plan.times, options.per_item(), plan.routing.demand.number, adds)
    return table.replace(stats=stats)


def _half(
    problem: Problem, options: TacclOptions, deadline: Deadline, rng: np.random.Generator
) -> tuple[TimedRouting, dict[str, Any]]:
    """Return the plan of any collective but an allreduce, and the stats of all stages.

    A combining one is the inverse of what copies on the transposed network. Messages have several chunks
    where that pays.
    """
    topology, what = problem.topology, problem.collective
    planner, copying = Planner(options, rng), problem
    if what.is_combining:
        planner = Planner(options, rng, topology)
        copying = Problem(transpose(topology), what.reverse, problem.size)
    until = deadline.share(SHARES.planning) if options.joins_on(topology) else deadline
    routing, first = planner.best(copying, until)
    limits = StageLimits(options.solver, deadline, options.relative_gap)
    times, stats = exactly_scheduled(first, options.contiguity, limits)
    return TimedRouting(routing, times), {
        **joined(routing.stats, stats),
        "routing_us": routing.time * 1e6,
        "routing_bound_us": routing.bound * 1e6,
        "scheduled_us": float(times.end * times.transfers.tick) * 1e6,
    }


def turned(logical: LogicalTopology, topology: Topology) -> LogicalTopology:
    """Return the links of a transposed network turned round, on the network itself, in the same order."""
    links = (
        replace(link, source=link.target, target=link.source, lanes=tuple(lane[::-1] for lane in link.lanes))
        for link in logical.links
    )
    return LogicalTopology(topology, logical.name, tuple(links), logical.host)


def _allreduce(
    problem: Problem, options: TacclOptions, deadline: Deadline, rng: np.random.Generator
) -> Schedule:
    """Return a reduce-scatter and an allgather whose chunks spread as soon as they are reduced."""
    halves = [
        Problem(problem.topology, problem.collective.with_kind(kind), problem.size)
        for kind in (Kind.REDUCE_SCATTER, Kind.ALLGATHER)
    ]
    first, stats = _half(halves[0], options, deadline.share(SHARES.half), rng)
    second, more = _half(halves[1], options, deadline, rng)
    one, other = first.times, second.times
    both = one.transfers.then(other.transfers)
    base = len(one.transfers)
    later = [tuple(base + transfer for transfer in message) for message in other.messages]
    times = timed(both, [*one.messages, *later])
    adds = [True] * base + [False] * len(other.transfers)
    table = schedule_of(problem, times, options.per_item(), first.routing.demand.number, adds)
    return table.replace(stats=joined(stats, more))


def schedule_of(
    problem: Problem, times: TimedMessages, per_item: int, number: Int64Array, reduces: Sequence[bool]
) -> Schedule:
    """Return the schedule of timed messages.

    Parameters
    ----------
    problem
        The problem, with a size.
    times
        The messages.
    per_item
        Chunks a shard.
    number
        int64: the number of each of the transfers' chunks among all.
    reduces
        Whether each transfer adds.
    """
    transfers = times.transfers
    pieces = math.lcm(*(len(transfers.logical.links[link].lanes) for link in set(transfers.link)))
    lanes_of = [link.lanes for link in transfers.logical.links]
    routes = Routes.of([list(lane) for lanes in lanes_of for lane in lanes])
    first = offsets_of([len(lanes) for lanes in lanes_of]).tolist()
    rows = [
        (
            start,
            int(number[transfers.chunk[transfer]]) * pieces + lane * pieces // lanes,
            pieces // lanes,
            first[k] + lane,
            reduces[transfer],
        )
        for message, start in zip(times.messages, times.start, strict=True)
        for transfer in message
        for k, lanes in [(transfers.link[transfer], len(lanes_of[transfers.link[transfer]]))]
        for lane in range(lanes)
    ]
    order, chunk, counts, route, adds = (np.array(column) for column in zip(*rows, strict=True))
    return normal_order(
        Schedule(
            topology=problem.topology,
            collective=problem.collective,
            clock=Clock.TIME,
            chunks=Chunks.even(problem.collective, per_item * pieces),
            chunk=chunk.astype(np.int32),
            route=route.astype(np.int32),
            order=order.astype(np.int64),
            count=None if pieces == 1 else counts.astype(np.int32),
            reduce=adds.astype(np.bool_) if problem.collective.is_combining else None,
            routes=routes,
            tick=transfers.tick,
            size=problem.size,
        )
    )

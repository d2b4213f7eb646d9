"""Direct: everything goes straight to where it must be, in one step (TACOS, Fig. 5 and section V-A).

An allreduce is a direct reduce-scatter and then a direct allgather; all other collectives are one step.
"""

from __future__ import annotations

import numpy as np

from heuristics.steps import routes_between
from schedules.collective import EVERYONE, Collective, Items, Kind
from schedules.compose import compose_allreduce
from schedules.method import Method, NoOptions, Problem
from schedules.schedule import Chunks, Clock, Schedule, step_numbers
from topologies.exact import Int64Array
from topologies.topology import Topology


def synthesize(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return the direct schedule over shortest routes, in the step clock; it does every collective."""
    what = problem.collective
    if what.kind is Kind.ALLREDUCE:
        halves = (what.with_kind(kind) for kind in (Kind.REDUCE_SCATTER, Kind.ALLGATHER))
        return compose_allreduce(*(_one_step(problem.topology, half) for half in halves))
    return _one_step(problem.topology, what)


def _one_step(topology: Topology, what: Collective) -> Schedule:
    item, source, target = _deliveries(what)
    pair, route = np.unique(source * topology.num_ranks + target, return_inverse=True)
    return Schedule(
        topology=topology,
        collective=what,
        clock=Clock.STEP,
        chunks=Chunks.even(what),
        chunk=item.astype(np.int32),
        route=route.astype(np.int32),
        order=step_numbers(np.ones(len(item))),
        reduce=np.ones(len(item), dtype=np.bool_) if what.is_combining else None,
        routes=routes_between(topology, pair // topology.num_ranks, pair % topology.num_ranks),
    )


def _deliveries(what: Collective) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return (item, source, target) of each transfer: from every start of an item to every end of it."""
    items = what.items
    if (items.start != EVERYONE).all() and (items.end != EVERYONE).all():
        item, source, target = np.arange(len(items)), items.start.astype(np.int64), items.end.astype(np.int64)
        moved = source != target
        return item[moved], source[moved], target[moved]
    members = [np.array(group, dtype=np.int64) for group in what.members]
    parts = [_of_item(items, i, members[items.group[i]]) for i in range(len(items))]
    item, source, target = (np.concatenate(column) for column in zip(*parts, strict=True))
    moved = source != target
    return item[moved], source[moved], target[moved]


def _of_item(items: Items, item: int, members: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    start = members if items.start[item] == EVERYONE else items.start[[item]].astype(np.int64)
    end = members if items.end[item] == EVERYONE else items.end[[item]].astype(np.int64)
    source, target = np.repeat(start, len(end)), np.tile(end, len(start))
    return np.full(len(source), item, dtype=np.int64), source, target


METHOD = Method(
    name="direct",
    kind="heuristic",
    synthesize=synthesize,
    summary="everything straight to where it must be in one step, over shortest routes",
)

"""Direct: every rank sends straight to where data must be, in one step (TACOS, Fig. 5 and section V-A).

Rank i sends to i + 1, i + 2, ... in turn, modulo N (in a group, to those after it there). Through one switch
that takes N - 1 rounds, in each of which every rank receives from another, and no rank waits.

An allreduce is a direct reduce-scatter and then a direct allgather; all other collectives are one step.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tutti.heuristics.classic.steps import (
    StepTransfers,
    check_rows,
    even_seconds,
    schedule_of_steps,
)
from tutti.schedules.capabilities import Capabilities
from tutti.schedules.collective import EVERYONE, KINDS, Collective, Items, Kind
from tutti.schedules.compose import compose_allreduce
from tutti.schedules.method import Method, NoOptions, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import Int64Array


def synthesize(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return the direct schedule over shortest routes, in the step clock; it does every collective.

    Raises
    ------
    NoSchedule
        If the routes are too long (`topologies.graphs.shortest_paths.MOST_HOPS`).
    """
    what = problem.collective
    if what.kind is Kind.ALLREDUCE:
        halves = (what.with_kind(kind) for kind in (Kind.REDUCE_SCATTER, Kind.ALLGATHER))
        return compose_allreduce(*(_one_step(replace(problem, collective=half)) for half in halves))
    return _one_step(problem)


def _transfers(what: Collective) -> int:
    """Return the number of transfers without making the items, of which an all-to-all has as many."""
    sizes = [len(members) for members in what.members]
    if what.kind.rooted:
        return sum(size - 1 for size in sizes)
    steps = 2 if what.kind is Kind.ALLREDUCE else 1
    return steps * sum(size * (size - 1) for size in sizes)


def _one_step(problem: Problem) -> Schedule:
    """Return the transfers of a collective as one step, each rank's in its turn."""
    what = problem.collective
    item, source, target = _deliveries(what)
    place = np.zeros(what.num_ranks, dtype=np.int64)
    size = np.ones_like(place)
    for members in what.members:
        place[list(members)], size[list(members)] = np.arange(len(members)), len(members)
    turn = (place[target] - place[source]) % size[source]
    # Rows of a step are sent in their order: rank i sends to i + 1 first, so no two begin at one receiver.
    order = np.lexsort((turn, what.items.group[item]))  # group by group, like separate collectives
    order = order[(source != target)[order]]
    return schedule_of_steps(problem, StepTransfers.of(1, source, target, item).kept(order))


def _deliveries(what: Collective) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return (item, source, target) of each transfer: from every start of an item to every end of it."""
    items = what.items
    if (items.start != EVERYONE).all() and (items.end != EVERYONE).all():
        return np.arange(len(items)), items.start.astype(np.int64), items.end.astype(np.int64)
    members = [np.array(group, dtype=np.int64) for group in what.members]
    parts = [_of_item(items, i, members[items.group[i]]) for i in range(len(items))]
    item, source, target = (np.concatenate(column) for column in zip(*parts, strict=True))
    return item, source, target


def _of_item(items: Items, item: int, members: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return (item, source, target) from every start of an item to every end, also from a rank to itself."""
    start = members if items.start[item] == EVERYONE else items.start[[item]].astype(np.int64)
    end = members if items.end[item] == EVERYONE else items.end[[item]].astype(np.int64)
    source, target = np.repeat(start, len(end)), np.tile(end, len(start))
    return np.full(len(source), item, dtype=np.int64), source, target


def estimate(problem: Problem, options: NoOptions) -> float | None:
    """Return the seconds of one step, for an allreduce two, whose routes load all links evenly.

    None with groups and for rooted collectives: they load some links more than others.
    """
    what = problem.collective
    if what.groups is not None or what.kind.rooted:
        return None
    steps = 2 if what.kind is Kind.ALLREDUCE else 1
    return steps * even_seconds(problem)


METHOD: Method = Method(
    name="direct",
    kind="heuristic",
    synthesize=synthesize,
    capabilities=Capabilities(KINDS),
    check=lambda problem, options: check_rows(METHOD, problem, _transfers(problem.collective)),
    estimate=estimate,
    summary="everything straight to where it must be in one step, over shortest routes",
)

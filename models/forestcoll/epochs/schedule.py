"""From trees in epochs to schedules: allgather, its mirror reduce-scatter, and both in turn, allreduce.

What a line carries in an epoch is one message on each of its routes. A line of several parallel routes is
loaded evenly: what it carries in an epoch is laid in a row and cut into as many equal parts, and what lies
across a cut is cut in two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.models.forestcoll.epochs.column_generation import EpochPlan, planned
from tutti.models.forestcoll.epochs.epoch_links import links_between
from tutti.schedules.collective import Collective, Kind, collective
from tutti.schedules.compose import compose_allreduce
from tutti.schedules.list_scheduling import in_messages
from tutti.schedules.method import Problem
from tutti.schedules.reversal import reverse
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule
from tutti.topologies.errors import Unsupported
from tutti.topologies.exact import FloatArray, Int64Array, offsets_of
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

KINDS = (Kind.ALLGATHER, Kind.REDUCE_SCATTER, Kind.ALLREDUCE)
PARTS = 2**24
"""Units of a shard, or of an allreduce's vector, to which weights are rounded."""


def planned_schedule(problem: Problem, seconds: float, rng: np.random.Generator) -> Schedule:
    """Return a time-clock schedule by trees made for the size together with the times of their edges.

    Parameters
    ----------
    problem
        An allgather, a reduce-scatter or an allreduce of all ranks, with equal shards, and its size.
    seconds
        After so many it goes no further.
    rng
        For what is drawn.

    Raises
    ------
    Unsupported
        If it is another collective, or the network is not as `models.forestcoll.epochs.epoch_links` needs it.
    NoSchedule
        If no tree is found.
    InputError
        If a message lasts more ticks than 64 bits hold.
    """
    what, network, size = problem.collective, problem.topology, problem.size or Fraction(1)
    if what.kind not in KINDS or not what.plain:
        raise Unsupported(
            f"trees in epochs: {what}; allgather, reduce-scatter or allreduce of all ranks, equal shards"
        )
    gather = collective(Kind.ALLGATHER, network.num_ranks)
    if what.kind is Kind.ALLGATHER:
        return schedule_of(planned(network, size, seconds, rng), gather, size)
    turned = transpose(network)
    if what.kind is Kind.REDUCE_SCATTER:
        return reverse(schedule_of(planned(turned, size, seconds, rng), gather, size), network)
    if _alike(network, turned):
        plan = planned(network, size, seconds, rng)
        other = replace(plan, lines=replace(plan.lines, topology=turned, links=links_between(turned)))
    else:
        plan, other = (planned(each, size, seconds / 2, rng) for each in (network, turned))
    scattered = reverse(schedule_of(other, gather, size), network)
    return compose_allreduce(scattered, schedule_of(plan, gather, size))


def _alike(one: Topology, other: Topology) -> bool:
    """Whether two networks have the same lines, so that one's plan is the other's."""
    kinds = []
    for each in (one, other):
        costs = list(zip(each.bandwidth, each.alpha, strict=True))
        kinds.append({ends: [costs[link] for link in ids] for ends, ids in links_between(each).items()})
    return kinds[0] == kinds[1]


class EpochEdges(NamedTuple):
    """Edges of trees: epoch, ranks, and which units of M they move, `start` to `stop` - 1; int64 each.

    `turn` is negative where these are added up.
    """

    epoch: Int64Array
    tail: Int64Array
    head: Int64Array
    start: Int64Array
    stop: Int64Array
    turn: Int64Array

    def take(self, chosen: Int64Array) -> EpochEdges:
        """Return some of them."""
        return EpochEdges(*(column[chosen] for column in self))


def schedule_of(plan: EpochPlan, what: Collective, size: Fraction) -> Schedule:
    """Return the time-clock schedule of an allgather by these trees, for M = `size` bytes.

    A message goes as soon as its data is there and its links are free of those before it.
    """
    edges, item = _images(plan)
    edges, route, routes = laid(edges, plan.lines.routes)
    cut, place = np.unique(np.concatenate([edges.start, edges.stop]), return_inverse=True)
    first, last = place.reshape(2, -1)
    order = np.lexsort((first, route, edges.epoch))
    flow = Schedule(
        topology=plan.lines.topology,
        collective=what,
        clock=Clock.FLOW,
        chunks=Chunks(
            item[np.searchsorted(item[:, 0], cut[:-1], "right") - 1, 1], np.diff(cut), int(cut[-1])
        ),
        chunk=first[order].astype(np.int32),
        count=(last - first)[order].astype(np.int32),
        route=route[order].astype(np.int32),
        routes=routes,
    )
    return in_messages(flow, edges.epoch[order], size)


def _images(plan: EpochPlan) -> tuple[EpochEdges, Int64Array]:
    """Return the edges of all trees' images, and the first unit and the root of each image.

    The units of M are those of rank 0's shard, then those of rank 1's, and so on.
    """
    ranks, trees = plan.lines.topology.num_ranks, plan.trees
    images = plan.lines.symmetries[:, :ranks]
    units = _units(plan)
    tree = np.repeat(np.arange(len(trees)), len(images))
    image = np.tile(np.arange(len(images)), len(trees))
    root = images[image, plan.lines.roots[trees.root[tree]]]
    order = np.lexsort((tree, root))
    order = order[units[tree[order]] > 0]
    tree, image, root = tree[order], image[order], root[order]
    start = offsets_of(units[tree])
    which, rank = np.nonzero(trees.parent[tree] >= 0)
    parent = trees.parent[tree[which], rank]
    edges = EpochEdges(
        trees.epoch[tree[which], rank],
        images[image[which], parent],
        images[image[which], rank],
        start[which],
        start[which + 1],
        np.zeros(len(which), dtype=np.int64),
    )
    return edges, np.column_stack([start[:-1], root])


def _units(plan: EpochPlan) -> Int64Array:
    """Return the weights in units, for each root `PARTS` in all."""
    units = np.zeros(len(plan.trees), dtype=np.int64)
    for root in range(len(plan.lines.roots)):
        own = np.flatnonzero(plan.trees.root == root)
        units[own] = whole_units(plan.weight[own])
    return units


def whole_units(weight: FloatArray) -> Int64Array:
    """Return weights in whole units, `PARTS` in all, by largest remainders."""
    exact = weight / weight.sum() * PARTS
    whole = np.floor(exact).astype(np.int64)
    left = PARTS - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:left]] += 1
    return whole


def laid(
    edges: EpochEdges, routes_from: Callable[[int, int], list[list[int]]]
) -> tuple[EpochEdges, Int64Array, Routes]:
    """Return the edges in parts, the route of each part, and the routes, given those from rank to rank."""
    edges = edges.take(np.lexsort((edges.start, edges.head, edges.tail, edges.epoch)))
    pairs, line = np.unique(np.column_stack([edges.tail, edges.head]), axis=0, return_inverse=True)
    routes_of = [routes_from(tail, head) for tail, head in pairs.tolist()]
    count, line = np.array([len(each) for each in routes_of]), line.ravel()
    base = offsets_of(count)
    new = np.ones(len(line), dtype=bool)
    new[1:] = (np.diff(edges.epoch) != 0) | (np.diff(line) != 0)
    message = np.cumsum(new) - 1
    length = edges.stop - edges.start
    begin = offsets_of(length)[:-1]
    begin = begin - begin[np.flatnonzero(new)][message]
    total = np.bincount(message, length).astype(np.int64)[message]
    parts, routes = [], []
    for place in range(int(count.max())):
        low = np.maximum(begin, total * place // count[line])
        high = np.minimum(begin + length, total * (place + 1) // count[line])
        on = np.flatnonzero((low < high) & (place < count[line]))
        start = edges.start[on] + (low - begin)[on]
        parts.append(edges.take(on)._replace(start=start, stop=start + (high - low)[on]))
        routes.append(base[line[on]] + place)
    together = EpochEdges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return together, np.concatenate(routes), Routes.of([route for each in routes_of for route in each])

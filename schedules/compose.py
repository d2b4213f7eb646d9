"""Composition: a reduce-scatter and then an allgather is an allreduce (dissertation, section A.2).

The two may cut an item into different chunks. The whole uses their common refinement, in which every cut of
either is a cut. Sizes are integers, so the refinement is exact.

The time of some methods has a closed form: `shard_seconds` is that of methods that send each shard in its own
messages, and `seconds_by_allgathers` adds the two halves of an allreduce. `Method.estimate` uses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tutti.schedules.collective import Collective, Kind
from tutti.schedules.message_durations import messages, transfer_ticks
from tutti.schedules.method import Problem
from tutti.schedules.reversal import reverse
from tutti.schedules.schedule import (
    NO_COPY,
    Chunks,
    Clock,
    Routes,
    Schedule,
    joined_adds,
    joined_counts,
    step_numbers,
)
from tutti.topologies.errors import InputError, Unsupported
from tutti.topologies.exact import INT64_MAX, Int64Array, IntArray, common_divisor
from tutti.topologies.transforms import transpose

BY_ALLGATHER = (Kind.ALLGATHER, Kind.REDUCE_SCATTER, Kind.ALLREDUCE)
"""The collectives that a method for allgathers does by `from_allgather`."""

ADDITIVE_CLAIMS = ("tl_steps", "tb")
"""Claims that a composition adds up if both parts make them. Congestion is none: it is at most the sum."""
SOLVER_GAP = "solver_gap"
"""Key of `Schedule.stats`: the largest possible gap of a model's answer to its optimum; None: not proven."""


def from_allgather(problem: Problem, make: Callable[[Problem], Schedule]) -> Schedule:
    """Return a schedule for an allgather, reduce-scatter or allreduce, given how to make an allgather.

    A reduce-scatter on G is the reverse of an allgather on the transpose of G (Corollary 1.1), an
    allreduce is that and then an allgather. Shards and groups are kept.

    Parameters
    ----------
    problem
        The problem.
    make
        Returns a schedule for a problem whose collective is an allgather.

    Raises
    ------
    Unsupported
        If the collective is none of these.
    """
    what = problem.collective
    if what.kind not in BY_ALLGATHER:
        raise Unsupported(f"{what.kind} can't be made from an allgather; allowed: {', '.join(BY_ALLGATHER)}")
    gather = what.with_kind(Kind.ALLGATHER)
    if what.kind is Kind.ALLGATHER:
        return make(problem)
    turned = Problem(transpose(problem.topology), gather, problem.size)
    reduce_scatter = reverse(make(turned), problem.topology)
    if what.kind is Kind.REDUCE_SCATTER:
        return reduce_scatter
    return compose_allreduce(reduce_scatter, make(Problem(problem.topology, gather, problem.size)))


def seconds_by_allgathers(problem: Problem, seconds: Callable[[Problem], float]) -> float:
    """Return the seconds of a schedule by `from_allgather`, given those of its allgathers.

    Parameters
    ----------
    problem
        An allgather, reduce-scatter or allreduce.
    seconds
        Returns the seconds of an allgather.
    """
    what = problem.collective
    gather = replace(problem, collective=what.with_kind(Kind.ALLGATHER))
    turned = replace(gather, topology=transpose(problem.topology))
    halves = {Kind.ALLGATHER: (gather,), Kind.REDUCE_SCATTER: (turned,)}.get(what.kind, (turned, gather))
    return sum(map(seconds, halves))


def shard_seconds(problem: Problem, pieces: int = 1) -> float | None:
    """Return the least seconds of a schedule whose messages carry data of one shard each.

    In an allgather every rank receives N - 1 shards in separate messages. Each message holds an in-link for
    its α and its bytes over the bandwidth. If links are equal and always busy, T_L is (N - 1)/d and T_B is
    (N - 1)/N. Trees that bring shards one by one, and greedy matchings, are such schedules.

    Parameters
    ----------
    problem
        Any problem with a size. The result is None unless allgathers of all ranks' equal shards solve it.
    pieces
        The number of messages in which each shard is sent.
    """
    what = problem.collective
    if what.kind not in BY_ALLGATHER or what.groups is not None or what.shards is not None:
        return None

    def gathering(half: Problem) -> float:
        topology, ranks = half.topology, half.topology.num_ranks
        message = float(half.size or 0) / (ranks * pieces)
        rate = np.zeros(topology.num_nodes)
        np.add.at(rate, topology.target, 1 / (topology.alpha.floats + message / topology.bandwidth.floats))
        return float(pieces * (ranks - 1) / rate[:ranks].min())

    return seconds_by_allgathers(problem, gathering)


def allreduce_in_clusters(
    what: Collective, clusters: Int64Array, reduce_scatter: Schedule, allgather: Schedule | None = None
) -> Schedule:
    """Return the allreduce that sums the data in each cluster of ranks, and then spreads the sums in it.

    A datum is summed at one rank of every cluster, in a copy for each cluster. This is a reduce-scatter among
    all ranks, in which each of the N shards is g / N of the data, where g is the number of ranks in a
    cluster. Then the clusters' allgathers bring it to the other ranks there. With one rank per cluster it is
    one shot, for N times the data. With one cluster it would be `compose_allreduce`.

    Parameters
    ----------
    what
        The allreduce, among all ranks.
    clusters
        int64, shape (clusters, g): the ranks of each cluster.
    reduce_scatter, allgather
        Schedules in the step clock with each shard in the same number of equal chunks. The groups of the
        allgather are the clusters; it is None if clusters have one rank.
    """
    first = _in_copies(reduce_scatter, what, clusters)
    return first if allgather is None else _one_after_the_other(first, _in_copies(allgather, what, clusters))


def _in_copies(half: Schedule, what: Collective, clusters: Int64Array) -> Schedule:
    """Return a half whose shards stand for all data that are summed at their ranks.

    Datum i is summed at the ranks that are number i modulo g of their clusters. Nothing arrives in the
    originals of the copies, so each copy begins as its original.
    """
    ranks, share = what.num_ranks, what.items.share.reduced
    count, size = clusters.shape
    cut = len(half.chunks) // ranks
    item = np.repeat(np.arange(ranks, dtype=np.int32), cut * (count + 1))
    copy_of = np.repeat(np.arange(ranks * cut, dtype=np.int32), count + 1) * np.int32(count + 1)
    copy_of[:: count + 1] = NO_COPY
    cluster, place = np.empty(ranks, dtype=np.int64), np.empty(ranks, dtype=np.int64)
    cluster[clusters], place[clusters] = np.indices(clusters.shape)
    # A datum has its original and then a copy for each cluster, so a chunk's places are count + 1 apart.
    owner = half.collective.items.owner[half.chunks.item[half.chunk]]
    data, part = place[owner][:, None] + size * np.arange(count), half.chunk % cut
    columns = {
        name: None if column is None else np.repeat(column, count)
        for name in ("route", "order", "reduce")
        for column in [getattr(half, name)]
    }
    return half.replace(
        collective=what,
        chunks=Chunks(item, share.numerators[item], share.denominator * cut, copy_of),
        chunk=((data * cut + part[:, None]) * (count + 1) + 1 + cluster[owner][:, None]).ravel(),
        claims={},
        **columns,
    )


def compose_allreduce(reduce_scatter: Schedule, allgather: Schedule) -> Schedule:
    """Return the allreduce that does one schedule after the other, over their common refinement.

    Steps and ticks of the second start where the first ends: after its last step, or when all data has
    arrived and no link is held. In the flow clock its rows follow. Ticks of different length are first made
    multiples of a common one.

    Raises
    ------
    InputError
        If they are not a reduce-scatter and an allgather of the same shards and groups on equal topologies,
        in the same clock and, in the time clock, made for the same size; or if numbers outgrow 64 bits.
    """
    _check_halves(reduce_scatter, allgather)
    chunks = common_refinement(reduce_scatter.chunks, allgather.chunks)
    first, second = on_common_tick([refine(reduce_scatter, chunks), refine(allgather, chunks)])
    joined = _one_after_the_other(first, second)
    return joined.replace(collective=allgather.collective.with_kind(Kind.ALLREDUCE))


def _one_after_the_other(first: Schedule, second: Schedule) -> Schedule:
    """Return the rows of both, over the same chunks: the second starts when the first ends."""
    one, other, routes, base = first.route_table, second.route_table, first.routes, 0
    if not (np.array_equal(one.offsets, other.offsets) and np.array_equal(one.links, other.links)):
        routes, base = Routes.joined([one, other]), len(one)
    order = None
    if first.order is not None and second.order is not None:
        later = second.order.astype(np.int64) + _end(first)
        order = np.concatenate([first.order.astype(np.int64), later])
        order = step_numbers(order) if first.clock is Clock.STEP else order
    return first.replace(
        chunk=np.concatenate([first.chunk, second.chunk]),
        route=np.concatenate([first.route, second.route + np.int32(base)]),
        order=order,
        count=joined_counts([first, second]),
        reduce=joined_adds([first, second]),
        routes=routes,
        claims={
            name: first.claims[name] + second.claims[name]
            for name in ADDITIVE_CLAIMS
            if name in first.claims and name in second.claims
        },
        stats=_joined_stats(first.stats, second.stats),
    )


def common_refinement(one: Chunks, other: Chunks) -> Chunks:
    """Return the coarsest chunk table in which every cut of either table is a cut.

    Parameters
    ----------
    one, other
        Tables of the same items with the same shares.

    Raises
    ------
    InputError
        If the shares differ, or do not fit 64 bits over the common denominator.
    """
    first, second, denominator = _aligned(one, other)
    cuts = np.union1d(first, second)
    item = one.item[np.searchsorted(first, cuts[:-1], side="right") - 1]
    size = np.where(_shares(one)[item] > 0, np.diff(cuts), 0)
    return Chunks(item, size, denominator)


def refine(schedule: Schedule, chunks: Chunks) -> Schedule:
    """Return the same transfers over a finer chunk table: a chunk becomes a run of its parts.

    Raises
    ------
    InputError
        If a cut of the schedule's chunks is none of `chunks`, or as `common_refinement`.
    """
    old, new, _ = _aligned(schedule.chunks, chunks)
    begin = np.searchsorted(new, old)
    if not np.array_equal(new[begin], old):
        where = int(np.flatnonzero(new[begin] != old)[0])
        raise InputError(f"the table is no refinement: it has no cut before chunk {where} of the schedule")
    end = schedule.chunk + schedule.counts
    count = begin[end] - begin[schedule.chunk]
    return schedule.replace(
        chunks=chunks, chunk=begin[schedule.chunk], count=None if (count == 1).all() else count
    )


def _aligned(one: Chunks, other: Chunks) -> tuple[Int64Array, Int64Array, int]:
    """Return both tables' cuts over a common denominator, and the denominator.

    An item of size 0 gets one place for each of its chunks, so that these stay apart.
    """
    denominator = math.lcm(one.denominator, other.denominator)
    shares = []
    for table in (one, other):
        amounts, factor = _shares(table), denominator // table.denominator
        if int(amounts.sum(dtype=object)) * factor > INT64_MAX:
            raise InputError(
                "the chunk sizes do not fit 64 bits over their common denominator; use simpler cuts"
            )
        shares.append(amounts * factor)
    if not np.array_equal(shares[0], shares[1]):
        raise InputError("the two chunk tables tile different items; the shards and groups must agree")
    places = np.maximum(np.bincount(one.item), np.bincount(other.item))
    empty = shares[0] == 0
    cuts = [_cuts(c, denominator // c.denominator, np.where(empty, places, 0)) for c in (one, other)]
    return cuts[0], cuts[1], denominator


def _shares(chunks: Chunks) -> Int64Array:
    """Return the total size of each item."""
    return chunks.offset[chunks.first[1:]] - chunks.offset[chunks.first[:-1]]


def _cuts(chunks: Chunks, factor: int, places: IntArray) -> Int64Array:
    """Return where each chunk begins, and the end; `places` is the width given to items of size 0."""
    width = chunks.size * factor
    sizeless = places[chunks.item] > 0
    width[sizeless] = 1
    tail = chunks.first[1:] - 1
    width[tail] += np.maximum(0, places - np.bincount(chunks.item, minlength=len(places)))
    return np.concatenate([[0], np.cumsum(width)])


def _check_halves(first: Schedule, second: Schedule) -> None:
    """Raise `InputError` unless the two are halves of one allreduce."""
    kinds = (first.collective.kind, second.collective.kind)
    if kinds != (Kind.REDUCE_SCATTER, Kind.ALLGATHER):
        raise InputError(
            f"an allreduce is made of a reduce-scatter and an allgather, not of {' and '.join(kinds)}"
        )
    if first.collective.reverse != second.collective:
        raise InputError(f"{first.collective} and {second.collective} differ in shards or groups")
    if first.topology != second.topology:
        raise InputError(f"topologies {first.topology.name} and {second.topology.name} differ")
    if first.clock is not second.clock:
        raise InputError(f"clocks {first.clock} and {second.clock} differ; both halves need the same")
    if first.size != second.size:
        raise InputError(f"the halves were made for different sizes, {first.size} and {second.size} B")


def on_common_tick(schedules: Sequence[Schedule]) -> list[Schedule]:
    """Return schedules in one clock with the longest tick that divides the ticks of all, if they have ticks.

    Each message starts at the same moment as before; former rounding is not undone.

    Raises
    ------
    InputError
        If a start doesn't fit 64 bits.
    """
    ticks = {schedule.tick for schedule in schedules}
    if None in ticks or len(ticks) == 1:
        return list(schedules)
    tick, found = common_divisor([schedule.tick for schedule in schedules if schedule.tick]), []
    for schedule in schedules:
        order, factor = np.asarray(schedule.order, dtype=np.int64), int((schedule.tick or tick) / tick)
        if int(order.max(initial=0)) * factor > INT64_MAX:
            raise InputError(f"the start times do not fit 64 bits in the common tick of {tick} s")
        found.append(schedule.replace(order=order * factor, tick=tick))
    return found


def _end(schedule: Schedule) -> int:
    """Return the last step, or the tick at which all data has arrived and no link is held.

    The last link of a route may be held a tick longer, because the time until it is entered is rounded up.
    """
    if schedule.order is None or len(schedule) == 0:
        return 0
    if schedule.clock is Clock.STEP:
        return int(schedule.order[-1])
    grouped = messages(schedule)
    lasts = transfer_ticks(schedule, grouped)
    free = np.maximum.reduceat(lasts.enter + lasts.hold, lasts.offsets[:-1])[lasts.kind]
    return int((grouped.order + np.maximum(free, lasts.until_arrival)).max())


def _joined_stats(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statistics of both; numbers in both are added, and the larger gap counts."""
    joined = {**first, **second}
    for name in first.keys() & second.keys():
        if isinstance(first[name], int | float) and isinstance(second[name], int | float):
            joined[name] = first[name] + second[name]
    if SOLVER_GAP in first and SOLVER_GAP in second:
        gaps = [first[SOLVER_GAP], second[SOLVER_GAP]]
        joined[SOLVER_GAP] = None if None in gaps else max(gaps)
    return joined

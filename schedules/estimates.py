"""Closed forms of the time of schedules that several methods use in `schedules.method.Method.estimate`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tutti.schedules.collective import Kind
from tutti.schedules.compose import BY_ALLGATHER
from tutti.schedules.method import Problem
from tutti.topologies.transforms import transpose


def seconds_by_allgathers(problem: Problem, seconds: Callable[[Problem], float]) -> float:
    """Return the seconds of a schedule by `schedules.compose.from_allgather`, given those of its allgathers.

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

"""The ring: every shard goes round in rank order, half of it each way (TACOS, Fig. 5 and section V-A).

In step t of N - 1, rank i sends clockwise (to i + 1) the first half of shard i - t + 1, and counterclockwise
the second half of shard i + t - 1, all modulo N. With `one_way` whole shards go clockwise. Where consecutive
ranks are not neighbours, a transfer takes a shortest route.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from heuristics.steps import Rows, check_allgathers, step_schedule
from schedules.capabilities import Capabilities, Groups
from schedules.compose import BY_ALLGATHER, from_allgather
from schedules.method import Method, Problem
from schedules.schedule import Chunks, Schedule
from topologies.exact import Int64Array
from topologies.ranges import Options


@dataclass(frozen=True)
class RingOptions(Options):
    """Options of the ring.

    Parameters
    ----------
    one_way
        Whether whole shards go round clockwise only.

    Raises
    ------
    InputError
        If it is neither true nor false.
    """

    OWNER: ClassVar[str] = "ring"

    one_way: bool = False


def synthesize(problem: Problem, options: RingOptions, rng: np.random.Generator) -> Schedule:
    """Return the bidirectional ring, in the step clock; two ranks, both ways being one, send whole shards.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    return from_allgather(problem, partial(_allgather, one_way=options.one_way))


def _allgather(problem: Problem, one_way: bool) -> Schedule:
    n = problem.topology.num_ranks
    ways = 1 if one_way or n == 2 else 2
    return rings_allgather(problem, np.stack([np.arange(n), np.arange(n)[::-1]])[:ways])


def rings_allgather(problem: Problem, rings: Int64Array) -> Schedule:
    """Return the allgather in which an equal part of every shard goes round each ring, one way.

    Parameters
    ----------
    problem
        Of all ranks.
    rings
        Shape (rings, N): the ranks in the order in which each ring passes them.
    """
    count, n = rings.shape
    what = problem.collective
    step, ring, place = np.meshgrid(np.arange(1, n), np.arange(count), np.arange(n), indexing="ij")
    sender, receiver, shard = (rings[ring, (place + by) % n] for by in (0, 1, 1 - step))
    rows = Rows.of(step, sender, receiver, shard * count + ring)
    return step_schedule(problem.topology, what, Chunks.even(what, count), rows)


def check(problem: Problem, options: RingOptions) -> None:
    """Raise `Unsupported` for too many transfers."""
    check_allgathers(METHOD, problem, 1 if options.one_way else 2)


METHOD = Method(
    name="ring",
    kind="heuristic",
    synthesize=synthesize,
    options=RingOptions,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE),
    check=check,
    summary="ring in rank order, both ways or one, over shortest routes",
)

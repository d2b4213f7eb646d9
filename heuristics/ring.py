"""The ring: every shard goes round in rank order, half of it each way (TACOS, Fig. 5 and section V-A).

In step t of N - 1, rank i sends clockwise (to i + 1) the first half of shard i - t + 1, and counterclockwise
the second half of shard i + t - 1, all modulo N. Where consecutive ranks are not neighbours, a transfer takes
a shortest route.
"""

from __future__ import annotations

import numpy as np

from heuristics.steps import routes_between, supports_allgathers
from schedules.compose import from_allgather
from schedules.method import Method, NoOptions, Problem
from schedules.schedule import Chunks, Clock, Schedule, step_numbers


def synthesize(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return the bidirectional ring, in the step clock; two ranks, both ways being one, send whole shards.

    Raises
    ------
    Unsupported
        As `supports`.
    """
    supports(problem, options)
    return from_allgather(problem, _allgather)


def _allgather(problem: Problem) -> Schedule:
    n = problem.topology.num_ranks
    directions = 2 if n > 2 else 1
    rank = np.arange(n)
    routes = routes_between(
        problem.topology,
        np.tile(rank, directions),
        np.concatenate([(rank + way) % n for way in (1, -1)[:directions]]),
    )
    step, way, sender = np.meshgrid(np.arange(1, n), np.arange(directions), rank, indexing="ij")
    shard = (sender - (1 - 2 * way) * (step - 1)) % n
    return Schedule(
        topology=problem.topology,
        collective=problem.collective,
        clock=Clock.STEP,
        chunks=Chunks.even(problem.collective, directions),
        chunk=(shard * directions + way).ravel().astype(np.int32),
        route=(way * n + sender).ravel().astype(np.int32),
        order=step_numbers(step.ravel()),
        routes=routes,
    )


def supports(problem: Problem, options: NoOptions) -> None:
    """Raise `Unsupported` for collectives over groups and those that are not made of allgathers."""
    supports_allgathers(METHOD, problem)


METHOD = Method(
    name="ring",
    kind="heuristic",
    synthesize=synthesize,
    supports=supports,
    summary="bidirectional ring in rank order over shortest routes",
)

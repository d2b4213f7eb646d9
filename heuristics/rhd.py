"""Recursive halving and doubling, for a power of two ranks (Rabenseifner, doi 10.1007/978-3-540-24685-5_1).

Allgather by recursive doubling: in step t rank i exchanges all that it has, the 2^(t-1) shards of its aligned
block, with rank i XOR 2^(t-1), so that distances and sizes double. Reduce-scatter, by recursive halving, is
the reverse.
"""

from __future__ import annotations

import numpy as np

from heuristics.steps import routes_between, supports_allgathers
from schedules.compose import from_allgather
from schedules.method import Method, NoOptions, Problem
from schedules.schedule import Chunks, Clock, Schedule, step_numbers
from topologies.exact import Int32Array


def synthesize(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return recursive halving-doubling over shortest routes, in the step clock: log2 N steps each way.

    Raises
    ------
    Unsupported
        As `supports`.
    """
    supports(problem, options)
    return from_allgather(problem, _allgather)


def _allgather(problem: Problem) -> Schedule:
    n = problem.topology.num_ranks
    rank = np.arange(n)
    distances = [1 << bit for bit in range(n.bit_length() - 1)]
    routes = routes_between(
        problem.topology,
        np.tile(rank, len(distances)),
        np.concatenate([rank ^ distance for distance in distances]),
    )
    shards = [_aligned_blocks(n, distance).ravel() for distance in distances]
    return Schedule(
        topology=problem.topology,
        collective=problem.collective,
        clock=Clock.STEP,
        chunks=Chunks.even(problem.collective),
        chunk=np.concatenate(shards).astype(np.int32),
        route=_routes_by_row(n, distances),
        order=step_numbers(np.repeat(np.arange(1, len(distances) + 1), [len(step) for step in shards])),
        routes=routes,
    )


def _routes_by_row(n: int, distances: list[int]) -> Int32Array:
    """Return the route of each row: all shards of a block travel as one message."""
    routes = [np.repeat(np.arange(n) + t * n, distance) for t, distance in enumerate(distances)]
    return np.concatenate(routes).astype(np.int32)


def _aligned_blocks(n: int, length: int) -> np.ndarray:
    """Return (n, length): the shards of the aligned block of `length` ranks that each rank is in."""
    rank = np.arange(n)
    return (rank - rank % length)[:, None] + np.arange(length)


def supports(problem: Problem, options: NoOptions) -> None:
    """Raise `Unsupported` unless N is a power of two, for groups, and for what is not made of allgathers."""
    supports_allgathers(METHOD, problem)
    n = problem.topology.num_ranks
    if n & (n - 1):
        raise METHOD.unsupported(f"needs a power of two ranks; {problem.topology.name} has {n}")


METHOD = Method(
    name="rhd",
    kind="heuristic",
    synthesize=synthesize,
    supports=supports,
    summary="recursive halving and doubling over shortest routes; a power of two ranks",
)

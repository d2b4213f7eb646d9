"""Recursive halving and doubling, for a power of two ranks (Rabenseifner, doi 10.1007/978-3-540-24685-5_1).

Allgather by recursive doubling: in step t rank i exchanges all that it has, the 2^(t-1) shards of its aligned
block, with rank i XOR 2^(t-1), so that distances and sizes double. Reduce-scatter, by recursive halving, is
the reverse.
"""

from __future__ import annotations

import numpy as np

from heuristics.steps import Rows, needs_power_of_two, step_schedule, supports_allgathers
from schedules.compose import from_allgather
from schedules.method import Method, NoOptions, Problem
from schedules.schedule import Chunks, Schedule


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
    n, what = problem.topology.num_ranks, problem.collective
    rank = np.arange(n)[:, None]
    rows = [
        Rows.of(bit + 1, rank, rank ^ (1 << bit), (rank >> bit << bit) + np.arange(1 << bit))
        for bit in range(n.bit_length() - 1)
    ]
    return step_schedule(problem.topology, what, Chunks.even(what), Rows.joined(rows))


def supports(problem: Problem, options: NoOptions) -> None:
    """Raise `Unsupported` unless N is a power of two, for groups, and for what is not made of allgathers."""
    supports_allgathers(METHOD, problem)
    needs_power_of_two(METHOD, problem)


METHOD = Method(
    name="rhd",
    kind="heuristic",
    synthesize=synthesize,
    supports=supports,
    summary="recursive halving and doubling over shortest routes; a power of two ranks",
)

"""Recursive doubling: in step t all ranks exchange all of M with the rank at distance 2^(t-1) and add it.

The allreduce of small sizes: log2 N steps, log2 N times the data (Thakur, Rabenseifner, Gropp, Optimization
of Collective Communication Operations in MPICH, doi 10.1177/1094342005051521). The allgather by recursive
doubling is that of `rhd`.
"""

from __future__ import annotations

import numpy as np

from heuristics.steps import Rows, check_rows, step_schedule
from schedules.capabilities import Capabilities, Groups
from schedules.collective import Kind
from schedules.method import Method, NoOptions, Problem
from schedules.schedule import Chunks, Schedule


def synthesize(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return the allreduce over shortest routes, in the step clock: log2 N steps.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    n, what = problem.topology.num_ranks, problem.collective
    bit, rank, item = np.meshgrid(np.arange(n.bit_length() - 1), np.arange(n), np.arange(n), indexing="ij")
    return step_schedule(
        problem.topology, what, Chunks.even(what), Rows.of(bit + 1, rank, rank ^ (1 << bit), item)
    )


def check(problem: Problem, options: NoOptions) -> None:
    """Raise `Unsupported` for too many transfers."""
    ranks = problem.topology.num_ranks
    check_rows(METHOD, problem, ranks * ranks * (ranks.bit_length() - 1))


METHOD = Method(
    name="recursive_doubling",
    kind="heuristic",
    synthesize=synthesize,
    capabilities=Capabilities((Kind.ALLREDUCE,), Groups.NONE, power_of_two=True),
    check=check,
    summary="allreduce by exchanging all data at doubling distances; a power of two ranks",
)

"""Bruck's algorithms: ceil(log2 N) steps for any N (doi 10.1109/71.642949).

Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient Algorithms for All-to-All Communications in Multiport
Message-Passing Systems (IEEE TPDS 8(11), 1997), with one port.

* Allgather: before the step of distance D = 1, 2, 4, ... rank i has the shards i, ..., i + D - 1 (modulo N);
  it sends the first min(D, N - D) of them to rank i - D.
* All-to-all: what rank i has for rank i + j moves by D for each one D = 2^b in the binary form of j, the
  smallest first, together with all that moves by D then.
"""

from __future__ import annotations

import numpy as np

from heuristics.classic.steps import StepTransfers, check_allgathers, check_rows, step_schedule
from schedules.capabilities import Capabilities, Groups
from schedules.collective import Kind
from schedules.compose import BY_ALLGATHER, from_allgather
from schedules.method import Method, NoOptions, Problem
from schedules.schedule import Chunks, Schedule


def synthesize(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return Bruck's schedule over shortest routes, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    if problem.collective.kind is Kind.ALL_TO_ALL:
        return _all_to_all(problem)
    return from_allgather(problem, _allgather)


def _allgather(problem: Problem) -> Schedule:
    n, what = problem.topology.num_ranks, problem.collective
    rank = np.arange(n)[:, None]
    rows = [
        StepTransfers.of(
            bit + 1, rank, (rank - (1 << bit)) % n, (rank + np.arange(min(1 << bit, n - (1 << bit)))) % n
        )
        for bit in range((n - 1).bit_length())
    ]
    return step_schedule(problem.topology, what, Chunks.even(what), StepTransfers.joined(rows))


def _all_to_all(problem: Problem) -> Schedule:
    n, what = problem.topology.num_ranks, problem.collective
    rank = np.arange(n)[:, None]
    number = np.full((n, n), -1)
    number[what.items.owner, what.items.dest] = np.arange(len(what.items))
    rows = []
    for bit in range((n - 1).bit_length()):
        far = np.arange(n)[np.arange(n) >> bit & 1 == 1]
        holder = rank + far % (1 << bit)
        item = number[rank, (rank + far) % n]
        sent = StepTransfers.of(bit + 1, holder % n, (holder + (1 << bit)) % n, item)
        rows.append(sent.kept(sent.chunk >= 0))
    return step_schedule(problem.topology, what, Chunks.even(what), StepTransfers.joined(rows))


def check(problem: Problem, options: NoOptions) -> None:
    """Raise `Unsupported` for too many transfers."""
    if problem.collective.kind is Kind.ALL_TO_ALL:
        ranks = problem.topology.num_ranks
        check_rows(METHOD, problem, ranks * sum(far.bit_count() for far in range(ranks)))
    else:
        check_allgathers(METHOD, problem)


METHOD = Method(
    name="bruck",
    kind="heuristic",
    synthesize=synthesize,
    capabilities=Capabilities((*BY_ALLGATHER, Kind.ALL_TO_ALL), Groups.NONE),
    check=check,
    summary="Bruck: ceil(log2 N) steps over shortest routes, all-to-all too",
)

"""Bruck's algorithms: ceil(log2 N) steps for any N (doi 10.1109/71.642949), or less data in more steps.

Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient Algorithms for All-to-All Communications in Multiport
Message-Passing Systems (IEEE TPDS 8(11), 1997), with one port, in radix r: there is a phase for each distance
D = 1, r, r^2, ... < N, of one step for each digit z = 1, ..., r - 1 with z D < N.

* Allgather: before phase D rank i has the shards i, ..., i + D - 1 (modulo N); it sends the first
  min(D, N - z D) of them to rank i - z D.
* All-to-all: the data that rank i has for rank i + j moves by z D for each digit z of j, the lowest first,
  together with all other data that moves by z D then. With N = r^k a rank sends k (r - 1) messages of M/r, in
  all k (r - 1)/r M. This is log2 N / 2 times M with r = 2, but (N - 1)/N with r = N, the least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from tutti.heuristics.classic.steps import (
    StepMessages,
    StepTransfers,
    check_allgathers,
    check_rows,
    exchange_schedule,
    exchange_seconds,
    schedule_of_steps,
)
from tutti.schedules.capabilities import Capabilities, Groups
from tutti.schedules.collective import Kind
from tutti.schedules.compose import BY_ALLGATHER, from_allgather, seconds_by_allgathers
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.options import Options, Whole


@dataclass(frozen=True)
class BruckOptions(Options):
    """Options of Bruck's algorithms.

    Parameters
    ----------
    radix
        r, the base of the numbers whose digits are distances.

    Raises
    ------
    InputError
        If it is no integer of at least 2.
    """

    OWNER: ClassVar[str] = "bruck"

    radix: Annotated[int, Whole(2, words="it must be an integer of at least 2")] = 2


def synthesize(problem: Problem, options: BruckOptions, rng: np.random.Generator) -> Schedule:
    """Return Bruck's schedule over shortest routes, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    ranks = problem.topology.num_ranks
    radix = min(options.radix, ranks)
    if problem.collective.kind is Kind.ALL_TO_ALL:
        return exchange_schedule(problem, exchange(ranks, radix))
    rows = gather(ranks, radix)
    return from_allgather(problem, lambda half: schedule_of_steps(half, rows))


def _hops(ranks: int, radix: int) -> list[tuple[int, int]]:
    """Return (D, z) of each step.

    Examples
    --------
    >>> _hops(8, 3)
    [(1, 1), (1, 2), (3, 1), (3, 2)]
    """
    hops, distance = [], 1
    while distance < ranks:
        hops += [(distance, z) for z in range(1, min(radix, -(-ranks // distance)))]
        distance *= radix
    return hops


def gather(ranks: int, radix: int = 2) -> StepTransfers:
    """Return the allgather; chunks are owners."""
    rank = np.arange(ranks)[:, None]
    return StepTransfers.joined(
        [
            StepTransfers.of(
                step, rank, (rank - z * d) % ranks, (rank + np.arange(min(d, ranks - z * d))) % ranks
            )
            for step, (d, z) in enumerate(_hops(ranks, radix), start=1)
        ]
    )


def exchange(ranks: int, radix: int = 2) -> StepTransfers:
    """Return the all-to-all; chunks are owner · N + destination."""
    rank, away = np.arange(ranks)[:, None], np.arange(ranks)
    rows = []
    for step, (d, z) in enumerate(_hops(ranks, radix), start=1):
        far = away[away // d % radix == z]
        holder = rank + far % d
        chunk = rank * ranks + (rank + far) % ranks
        rows.append(StepTransfers.of(step, holder % ranks, (holder + z * d) % ranks, chunk))
    return StepTransfers.joined(rows)


def check(problem: Problem, options: BruckOptions) -> None:
    """Raise `Unsupported` for too many transfers."""
    if problem.collective.kind is Kind.ALL_TO_ALL:
        ranks = problem.topology.num_ranks
        away, radix = np.arange(ranks), min(options.radix, ranks)
        moved = sum(int(np.count_nonzero(away // d % radix)) for d, z in _hops(ranks, radix) if z == 1)
        check_rows(METHOD, problem, ranks * moved)
    else:
        check_allgathers(METHOD, problem)


def estimate(problem: Problem, options: BruckOptions) -> float:
    """Return the seconds of one step for each (D, z), in which every rank sends to the rank z D further."""
    ranks, radix = problem.topology.num_ranks, min(options.radix, problem.topology.num_ranks)
    rank, away, hops = np.arange(ranks), np.arange(ranks), _hops(ranks, radix)
    if problem.collective.kind is Kind.ALL_TO_ALL:
        moved = {(d, z): int(np.count_nonzero(away // d % radix == z)) for d, z in hops}
        steps = [StepMessages(rank, (rank + z * d) % ranks, n / ranks) for (d, z), n in moved.items()]
        return exchange_seconds(problem, steps)
    steps = [StepMessages(rank, (rank - z * d) % ranks, min(d, ranks - z * d) / ranks) for d, z in hops]
    return seconds_by_allgathers(problem, lambda half: exchange_seconds(half, steps))


METHOD = Method(
    name="bruck",
    kind="heuristic",
    synthesize=synthesize,
    options=BruckOptions,
    capabilities=Capabilities((*BY_ALLGATHER, Kind.ALL_TO_ALL), Groups.NONE),
    check=check,
    estimate=estimate,
    summary="Bruck: ceil(log2 N) steps over shortest routes, all-to-all too; more steps in a larger radix",
)

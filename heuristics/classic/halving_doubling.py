"""Recursive halving and doubling, for a power of two ranks.

Allgather by recursive doubling: in step t rank i exchanges all that it has, 2^(t-1) shards, with one other
rank, so that sizes double. With distances *doubling* that is rank i XOR 2^(t-1), and what rank i has is its
aligned block (Thakur, Rabenseifner, Gropp, doi 10.1177/1094342005051521). With distances *halving* it is rank
i XOR N/2^t, so that most goes to the nearest (Rabenseifner, doi 10.1007/978-3-540-24685-5_1; ASTRA-sim).
Reduce-scatter, by recursive halving, is the reverse.

Allreduce by recursive doubling, for small sizes: in step t all ranks exchange all of M with the rank at
distance 2^(t-1) and add it; log2 N steps, log2 N times the data (Thakur, Rabenseifner, Gropp).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from tutti.heuristics.classic.butterfly import doubling, doubling_exchanges, exchanging, whole_exchanges
from tutti.heuristics.classic.steps import check_allgathers, check_rows, exchange_seconds, schedule_of_steps
from tutti.schedules.capabilities import Capabilities, Groups
from tutti.schedules.collective import Kind
from tutti.schedules.compose import BY_ALLGATHER, from_allgather
from tutti.schedules.estimates import seconds_by_allgathers
from tutti.schedules.method import Method, NoOptions, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import Int64Array
from tutti.topologies.options import Choice, Options

DOUBLING, HALVING = "doubling", "halving"


@dataclass(frozen=True)
class RhdOptions(Options):
    """Options of recursive halving-doubling.

    Parameters
    ----------
    distance
        The distance of partners in an allgather's steps: ``doubling`` or ``halving``; the other way round in
        a reduce-scatter.

    Raises
    ------
    InputError
        If it is neither.
    """

    OWNER: ClassVar[str] = "rhd"

    distance: Annotated[str, Choice((DOUBLING, HALVING))] = DOUBLING


def synthesize(problem: Problem, options: RhdOptions, rng: np.random.Generator) -> Schedule:
    """Return recursive halving-doubling over shortest routes, in the step clock: log2 N steps each way.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    RHD.supports(problem, options)
    rows = doubling(_partners(problem, options))
    return from_allgather(problem, lambda half: schedule_of_steps(half, rows))


def _partners(problem: Problem, options: RhdOptions) -> list[Int64Array]:
    """Return all ranks' partners in each step of an allgather."""
    partners = xor_partners(problem.topology.num_ranks)
    return partners[::-1] if options.distance == HALVING else partners


def xor_partners(ranks: int) -> list[Int64Array]:
    """Return rank i XOR 2^b for each b."""
    return [np.arange(ranks) ^ (1 << bit) for bit in range(ranks.bit_length() - 1)]


def estimate(problem: Problem, options: RhdOptions) -> float:
    """Return the seconds of log2 N steps each way, in which 1, 2, 4, ... shards are exchanged."""
    steps = doubling_exchanges(_partners(problem, options))
    return seconds_by_allgathers(problem, lambda half: exchange_seconds(half, steps))


RHD: Method = Method(
    name="rhd",
    kind="heuristic",
    synthesize=synthesize,
    options=RhdOptions,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE, power_of_two=True),
    check=lambda problem, options: check_allgathers(RHD, problem),
    estimate=estimate,
    summary="recursive halving and doubling over shortest routes; a power of two ranks",
)


def synthesize_doubling(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return the allreduce over shortest routes, in the step clock: log2 N steps.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    RECURSIVE_DOUBLING.supports(problem, options)
    ranks = problem.topology.num_ranks
    return schedule_of_steps(problem, exchanging(xor_partners(ranks), np.arange(ranks)))


def check_doubling(problem: Problem, options: NoOptions) -> None:
    """Raise `Unsupported` for too many transfers."""
    ranks = problem.topology.num_ranks
    check_rows(RECURSIVE_DOUBLING, problem, ranks * ranks * (ranks.bit_length() - 1))


def estimate_doubling(problem: Problem, options: NoOptions) -> float:
    """Return the seconds of log2 N steps, in each of which all of M is exchanged."""
    return exchange_seconds(problem, whole_exchanges(xor_partners(problem.topology.num_ranks)))


RECURSIVE_DOUBLING = Method(
    name="recursive_doubling",
    kind="heuristic",
    synthesize=synthesize_doubling,
    capabilities=Capabilities((Kind.ALLREDUCE,), Groups.NONE, power_of_two=True),
    check=check_doubling,
    estimate=estimate_doubling,
    summary="allreduce by exchanging all data at doubling distances; a power of two ranks",
)

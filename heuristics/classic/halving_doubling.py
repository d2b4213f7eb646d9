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

from tutti.heuristics.classic.butterfly import (
    butterfly_schedule,
    butterfly_seconds,
    check_butterfly,
    xor_partners,
)
from tutti.schedules.capabilities import Capabilities, Groups
from tutti.schedules.collective import Kind
from tutti.schedules.compose import BY_ALLGATHER
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
    return butterfly_schedule(problem, [_partners(problem, options)])


def _partners(problem: Problem, options: RhdOptions) -> list[Int64Array]:
    """Return all ranks' partners in each step of an allgather."""
    partners = xor_partners(problem.topology.num_ranks)
    return partners[::-1] if options.distance == HALVING else partners


RHD: Method = Method(
    name="rhd",
    kind="heuristic",
    synthesize=synthesize,
    options=RhdOptions,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE, power_of_two=True),
    check=lambda problem, options: check_butterfly(RHD, problem),
    estimate=lambda problem, options: butterfly_seconds(problem, [_partners(problem, options)]),
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
    return butterfly_schedule(problem, _farthest_first(problem), whole=True)


def _farthest_first(problem: Problem) -> list[list[Int64Array]]:
    """Return the partners of the one part in the order opposite to that of the steps."""
    return [xor_partners(problem.topology.num_ranks)[::-1]]


RECURSIVE_DOUBLING: Method = Method(
    name="recursive_doubling",
    kind="heuristic",
    synthesize=synthesize_doubling,
    capabilities=Capabilities((Kind.ALLREDUCE,), Groups.NONE, power_of_two=True),
    check=lambda problem, options: check_butterfly(RECURSIVE_DOUBLING, problem, whole=True),
    estimate=lambda problem, options: butterfly_seconds(problem, _farthest_first(problem), whole=True),
    summary="allreduce by exchanging all data at doubling distances; a power of two ranks",
)

r"""Bine trees: butterflies and trees whose partners are a third nearer than in binomial ones.

De Sensi, Pasqualoni, Piarulli, Bonato, Ba, Turisini, Domke, Hoefler: Bine Trees: Enhancing Collective
Operations by Optimizing Communication Locality (SC 2025, doi 10.1145/3712285.3759835). Of N = 2^s ranks, in
step i = 0, ..., s - 1 an even rank r exchanges with r + d(i), an odd one with r - d(i), modulo N, where

.. math::

    d(i) = \sum_{k=0}^{s-i-1} (-2)^k = \frac{1 - (-2)^{s-i}}{3},

a number of s - i digits in base -2, all ones: *binomial negabinary*. The distances ..., 11, 5, 3, 1, 1 halve,
and come near to 2/3 of the binomial ..., 16, 8, 4, 2, 1. Hence there is less to send between groups of
neighbouring ranks: up to 33 %, as the authors count it, where groups begin anywhere.

Every collective uses this butterfly, the nearest partners last:

* allgather: partners send each other all that they have; reduce-scatter is the reverse, and allreduce both.
  With ``version=latency`` partners of an allreduce exchange and add all of M, in s steps, not 2s.
* broadcast: a rank that has the datum sends it to its partner, a tree. Scatter: a rank sends what is for the
  ranks that are reached from its partner. Reduce and gather are the reverses.
* all-to-all: a datum is sent in each step that its only path to its destination crosses, N/2 shards a rank
and
  step.

On tori the authors take one such butterfly a direction: that is `swing`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tutti.heuristics.classic.butterfly import (
    ButterflyOptions,
    bine_partners,
    butterfly_schedule,
    check_butterfly,
    crossing,
    onward,
)
from tutti.heuristics.classic.steps import StepTransfers, check_rows, exchange_schedule, schedule_of_steps
from tutti.schedules.capabilities import Capabilities, Groups
from tutti.schedules.collective import KINDS, Kind
from tutti.schedules.compose import BY_ALLGATHER
from tutti.schedules.method import Method, Problem
from tutti.schedules.reversal import reverse
from tutti.schedules.schedule import Schedule
from tutti.topologies.transforms import transpose


class BineOptions(ButterflyOptions):
    """Options of Bine trees.

    Parameters
    ----------
    version
        The cost in which it is optimal: ``bandwidth``, or ``latency``, which is for allreduces.

    Raises
    ------
    InputError
        If it is neither.
    """

    OWNER: ClassVar[str] = "bine"


def synthesize(problem: Problem, options: BineOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule over shortest routes, in the step clock: log2 N steps, twice that for an allreduce.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    what, partners = problem.collective, bine_partners(problem.topology.num_ranks)
    if what.kind in BY_ALLGATHER:
        return butterfly_schedule(problem, [partners], whole=options.whole)
    if what.kind is Kind.ALL_TO_ALL:
        return exchange_schedule(problem, crossing(partners))
    if what.kind in (Kind.REDUCE, Kind.GATHER):
        return reverse(_from_root(Problem(transpose(problem.topology), what.reverse)), problem.topology)
    return _from_root(problem)


def _from_root(problem: Problem) -> Schedule:
    """Return the broadcast or scatter: a rank that has data sends it to its partner in each step."""
    what, partners = problem.collective, bine_partners(problem.topology.num_ranks)
    senders, sent = np.array([what.root]), []
    for step, (partner, reached) in enumerate(zip(partners, onward(partners), strict=True), start=1):
        to = partner[senders]
        chunk = reached[to] if what.kind is Kind.SCATTER else np.zeros((1, 1), dtype=np.int64)
        sent.append(StepTransfers.of(step, senders[:, None], to[:, None], chunk))
        senders = np.concatenate([senders, to])
    return schedule_of_steps(problem, StepTransfers.joined(sent))


def check(problem: Problem, options: BineOptions) -> None:
    """Raise `Unsupported` for too many transfers, and for version latency of what is no allreduce."""
    kind, ranks = problem.collective.kind, problem.topology.num_ranks
    if kind in BY_ALLGATHER or options.whole:
        check_butterfly(METHOD, problem, whole=options.whole)
    elif kind is Kind.ALL_TO_ALL:
        check_rows(METHOD, problem, ranks * (ranks // 2) * (ranks.bit_length() - 1))


METHOD = Method(
    name="bine",
    kind="heuristic",
    synthesize=synthesize,
    options=BineOptions,
    capabilities=Capabilities(KINDS, Groups.NONE, power_of_two=True),
    check=check,
    summary="Bine trees: butterflies and trees with partners a third nearer; a power of two ranks",
)

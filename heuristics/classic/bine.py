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

from tutti.heuristics.classic.butterfly import Partners, doubling, exchanging, holdings
from tutti.heuristics.classic.steps import (
    StepTransfers,
    check_allgathers,
    check_rows,
    exchange_schedule,
    schedule_of_steps,
)
from tutti.heuristics.classic.swing import LATENCY, SwingOptions, reach
from tutti.schedules.capabilities import Capabilities, Groups
from tutti.schedules.collective import KINDS, Kind
from tutti.schedules.compose import BY_ALLGATHER, from_allgather
from tutti.schedules.method import Method, Problem
from tutti.schedules.reversal import reverse
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import Int64Array
from tutti.topologies.transforms import transpose


class BineOptions(SwingOptions):
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
    what, kind = problem.collective, problem.collective.kind
    if kind in BY_ALLGATHER and options.version != LATENCY:
        return from_allgather(problem, _schedule)
    if kind in (Kind.REDUCE, Kind.GATHER):
        return reverse(_schedule(Problem(transpose(problem.topology), what.reverse)), problem.topology)
    return _schedule(problem)


def _schedule(problem: Problem) -> Schedule:
    what, partners = problem.collective, bine_partners(problem.topology.num_ranks)
    if what.kind is Kind.ALL_TO_ALL:
        return exchange_schedule(problem, crossing(partners))
    if what.root is not None:
        senders, sent = np.array([what.root]), []
        for step, (partner, onward) in enumerate(zip(partners, _onward(partners), strict=True), start=1):
            to = partner[senders]
            chunk = onward[to] if what.kind is Kind.SCATTER else np.zeros((1, 1), dtype=np.int64)
            sent.append(StepTransfers.of(step, senders[:, None], to[:, None], chunk))
            senders = np.concatenate([senders, to])
        rows = StepTransfers.joined(sent)
    elif what.kind is Kind.ALLREDUCE:
        rows = exchanging(partners[::-1], np.arange(len(what.items)))
    else:
        rows = doubling(partners)
    return schedule_of_steps(problem, rows)


def bine_partners(ranks: int) -> list[Int64Array]:
    """Return all ranks' partners in each step, of 2^s ranks; distances halve.

    Examples
    --------
    >>> [partner[:2].tolist() for partner in bine_partners(16)]
    [[11, 6], [3, 14], [15, 2], [1, 0]]
    """
    rank = np.arange(ranks)
    return [
        (rank + np.where(rank % 2 == 0, reach(s), -reach(s))) % ranks
        for s in reversed(range(ranks.bit_length() - 1))
    ]


def _onward(partners: Partners) -> list[Int64Array]:
    """Return the ranks that are reached from each in the steps that follow each step."""
    return holdings(partners[::-1])[::-1]


def crossing(partners: Partners) -> StepTransfers:
    """Return the all-to-all over a butterfly; chunks are owner · N + destination."""
    rank, rows = np.arange(len(partners[0]))[:, None, None], []
    steps = zip(partners, holdings(partners), _onward(partners), strict=True)
    for step, (partner, held, onward) in enumerate(steps, start=1):
        chunk = held[:, :, None] * len(rank) + onward[partner][:, None, :]
        rows.append(StepTransfers.of(step, rank, partner[:, None, None], chunk))
    return StepTransfers.joined(rows)


def check(problem: Problem, options: BineOptions) -> None:
    """Raise `Unsupported` for too many transfers, and for version latency of what is no allreduce."""
    kind, ranks = problem.collective.kind, problem.topology.num_ranks
    if options.version == LATENCY and kind is not Kind.ALLREDUCE:
        raise METHOD.unsupported(f"has version latency for allreduces; this is {kind}: version bandwidth")
    if kind in BY_ALLGATHER and options.version != LATENCY:
        check_allgathers(METHOD, problem)
    elif not kind.rooted:
        shards = ranks if kind is Kind.ALLREDUCE else ranks // 2
        check_rows(METHOD, problem, ranks * shards * (ranks.bit_length() - 1))


METHOD = Method(
    name="bine",
    kind="heuristic",
    synthesize=synthesize,
    options=BineOptions,
    capabilities=Capabilities(KINDS, Groups.NONE, power_of_two=True),
    check=check,
    summary="Bine trees: butterflies and trees with partners a third nearer; a power of two ranks",
)

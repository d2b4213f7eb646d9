"""Butterflies: in each step every rank exchanges with one partner, and what it has seen doubles.

Halving and doubling, Swing and Bine trees differ only in the partners. These are given as one array for each
of the s steps of N = 2^s ranks: rank i's partner in step t is partners[t - 1][i]. They make a butterfly if
they are mutual and exactly one choice of steps to cross leads from each rank to each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from tutti.heuristics.classic.steps import (
    StepMessages,
    StepTransfers,
    check_allgathers,
    check_rows,
    exchange_seconds,
    schedule_of_steps,
)
from tutti.schedules.collective import Kind
from tutti.schedules.compose import from_allgather, seconds_by_allgathers
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import Int64Array
from tutti.topologies.options import Choice, Options

Partners = Sequence[Int64Array]
BANDWIDTH, LATENCY = "bandwidth", "latency"


@dataclass(frozen=True)
class ButterflyOptions(Options):
    """Options of a butterfly that is made for much data or for little.

    Parameters
    ----------
    version
        The cost in which it is optimal: ``bandwidth``, or ``latency``, which is for allreduces.

    Raises
    ------
    InputError
        If it is neither.
    """

    version: Annotated[str, Choice((BANDWIDTH, LATENCY), words=f"allowed: {BANDWIDTH}, {LATENCY}")] = (
        BANDWIDTH
    )

    @property
    def whole(self) -> bool:
        """Whether partners exchange all of M in every step."""
        return self.version == LATENCY


def xor_partners(ranks: int) -> list[Int64Array]:
    """Return rank i XOR 2^b for each b."""
    return [np.arange(ranks) ^ (1 << bit) for bit in range(ranks.bit_length() - 1)]


def reach(s: int) -> int:
    """Return ρ(s) = (1 - (-2)^(s + 1)) / 3, the distance to an even rank's partner of step s of Swing.

    Examples
    --------
    >>> [reach(s) for s in range(6)]
    [1, -1, 3, -5, 11, -21]
    """
    return (1 - (-2) ** (s + 1)) // 3


def bine_partners(ranks: int) -> list[Int64Array]:
    """Return all ranks' partners in each step of Bine trees, of 2^s ranks; distances halve.

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


def holdings(partners: Partners) -> list[Int64Array]:
    """Return whose data each rank has before each step: shape (N, 1), (N, 2), (N, 4), ...

    Examples
    --------
    >>> [held.tolist() for held in holdings([np.array([1, 0, 3, 2]), np.array([2, 3, 0, 1])])]
    [[[0], [1], [2], [3]], [[0, 1], [1, 0], [2, 3], [3, 2]]]
    """
    held = [np.arange(len(partners[0]))[:, None]]
    for partner in partners[:-1]:
        held.append(np.concatenate([held[-1], held[-1][partner]], axis=1))
    return held


def doubling(partners: Partners) -> StepTransfers:
    """Return the allgather in which partners send each other all that they have; chunks are owners."""
    held = holdings(partners)
    rank = held[0]
    steps = enumerate(zip(partners, held, strict=True), start=1)
    return StepTransfers.joined(
        [StepTransfers.of(step, rank, partner[:, None], has) for step, (partner, has) in steps]
    )


def exchanging(partners: Partners, chunks: Int64Array) -> StepTransfers:
    """Return the allreduce in which partners send each other all of these chunks in every step."""
    rank = np.arange(len(partners[0]))[:, None]
    steps = enumerate(partners, start=1)
    return StepTransfers.joined(
        [StepTransfers.of(step, rank, partner[:, None], chunks) for step, partner in steps]
    )


def onward(partners: Partners) -> list[Int64Array]:
    """Return the ranks that are reached from each in the steps that follow each step."""
    return holdings(partners[::-1])[::-1]


def crossing(partners: Partners) -> StepTransfers:
    """Return the all-to-all over a butterfly; chunks are owner · N + destination."""
    rank, rows = np.arange(len(partners[0]))[:, None, None], []
    steps = zip(partners, holdings(partners), onward(partners), strict=True)
    for step, (partner, held, reached) in enumerate(steps, start=1):
        chunk = held[:, :, None] * len(rank) + reached[partner][:, None, :]
        rows.append(StepTransfers.of(step, rank, partner[:, None, None], chunk))
    return StepTransfers.joined(rows)


def butterfly_schedule(problem: Problem, parts: Sequence[Partners], *, whole: bool = False) -> Schedule:
    """Return the schedule over shortest routes, in the step clock, of an equal part of M for each butterfly.

    Parameters
    ----------
    problem
        An allgather, a reduce-scatter or an allreduce, of all ranks.
    parts
        For each part of every item the partners in the steps of an allgather.
    whole
        Whether partners of an allreduce exchange all of their part in each step, in the opposite order.
    """
    if whole:
        items = np.arange(len(problem.collective.items))
        return _of_parts(problem, [exchanging(partners[::-1], items) for partners in parts])
    rows = [doubling(partners) for partners in parts]
    return from_allgather(problem, lambda half: _of_parts(half, rows))


def _of_parts(problem: Problem, parts: Sequence[StepTransfers]) -> Schedule:
    """Return the schedule in which part j of every item moves by the j-th rows."""
    rows = [part._replace(chunk=part.chunk * len(parts) + j) for j, part in enumerate(parts)]
    return schedule_of_steps(problem, StepTransfers.joined(rows), len(parts))


def check_butterfly(method: Method, problem: Problem, parts: int = 1, *, whole: bool = False) -> None:
    """Raise `Unsupported` if `butterfly_schedule` would have too many transfers or is no allreduce."""
    ranks, kind = problem.topology.num_ranks, problem.collective.kind
    if whole and kind is not Kind.ALLREDUCE:
        raise method.unsupported(f"has version latency for allreduces; this is {kind}: version bandwidth")
    if whole:
        check_rows(method, problem, parts * ranks**2 * (ranks.bit_length() - 1))
    else:
        check_allgathers(method, problem, parts)


def butterfly_seconds(problem: Problem, parts: Sequence[Partners], *, whole: bool = False) -> float:
    """Return the seconds of `butterfly_schedule`: 1, 2, 4, ... shards are exchanged, or each time all."""
    ranks = problem.topology.num_ranks
    exchanges = [
        StepMessages(
            np.tile(np.arange(ranks), len(parts)),
            np.concatenate(partners),
            (1 if whole else 2**t / ranks) / len(parts),
        )
        for t, partners in enumerate(zip(*(one[::-1] if whole else one for one in parts), strict=True))
    ]
    if whole:
        return exchange_seconds(problem, exchanges)
    return seconds_by_allgathers(problem, lambda half: exchange_seconds(half, exchanges))

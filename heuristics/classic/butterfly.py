"""Butterflies: in each step every rank exchanges with one partner, and what it has seen doubles.

Halving and doubling, Swing and Bine trees differ only in the partners. These are given as one array for each
of the s steps of N = 2^s ranks: rank i's partner in step t is partners[t - 1][i]. They make a butterfly if
they are mutual and exactly one choice of steps to cross leads from each rank to each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tutti.heuristics.classic.steps import StepMessages, StepTransfers
from tutti.topologies.exact import Int64Array

Partners = Sequence[Int64Array]


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


def doubling_exchanges(partners: Partners, parts: int = 1) -> list[StepMessages]:
    """Return the steps of `doubling` for one of `parts` parts of the data: 1, 2, 4, ... shards a rank."""
    ranks = len(partners[0])
    return [
        StepMessages(np.arange(ranks), partner, 2**t / (ranks * parts)) for t, partner in enumerate(partners)
    ]


def whole_exchanges(partners: Partners, parts: int = 1) -> list[StepMessages]:
    """Return the steps of `exchanging` for one of `parts` parts of the data: each step sends all of it."""
    return [StepMessages(np.arange(len(partner)), partner, 1 / parts) for partner in partners]

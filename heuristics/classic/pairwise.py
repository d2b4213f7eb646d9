"""Pairwise exchange: an all-to-all of N - 1 steps, in which every rank sends to one and receives from one.

In step t rank i sends to i + t modulo N and receives from i - t (``shift``). With N = 2^d it may instead send
to and receive from i XOR t (``xor``), so that pairs exchange (Thakur, Rabenseifner, Gropp, doi
10.1177/1094342005051521, for large messages). In groups i is the position in its group. Behind one switch no
port ever has two messages: T_L = N - 1 times the two links, T_B = (N - 1)/N M/b.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from tutti.heuristics.classic.steps import (
    StepTransfers,
    check_rows,
    even_seconds,
    schedule_of_steps,
)
from tutti.schedules.capabilities import Capabilities
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.options import Choice, Options

AUTO, SHIFT, XOR = "auto", "shift", "xor"


@dataclass(frozen=True)
class PairwiseOptions(Options):
    """Options of the pairwise exchange.

    Parameters
    ----------
    partner
        The rank to which rank i sends in step t: ``shift``, i + t modulo N, ``xor``, i XOR t, or ``auto``:
        the latter where all groups have a power of two ranks, else the former.

    Raises
    ------
    InputError
        If it is none of these.
    """

    OWNER: ClassVar[str] = "pairwise"

    partner: Annotated[str, Choice((AUTO, SHIFT, XOR))] = AUTO


def synthesize(problem: Problem, options: PairwiseOptions, rng: np.random.Generator) -> Schedule:
    """Return the exchange over shortest routes, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    what = problem.collective
    place, size = np.zeros((2, what.num_ranks), dtype=np.int64)
    for members in what.members:
        place[list(members)], size[list(members)] = np.arange(len(members)), len(members)
    source, target = what.items.owner, what.items.dest
    shift, xor = (place[target] - place[source]) % size[source], place[target] ^ place[source]
    step = shift if options.partner == SHIFT or _uneven(what) else xor
    rows = StepTransfers.of(step, source, target, np.arange(len(what.items)))
    return schedule_of_steps(problem, rows.kept(source != target))


def _uneven(what: Collective) -> int | None:
    """Return the size of a group that is no power of two, if there is one."""
    return next((len(group) for group in what.members if len(group) & (len(group) - 1)), None)


def check(problem: Problem, options: PairwiseOptions) -> None:
    """Raise `Unsupported` for too many transfers, and for xor among ranks that are no power of two."""
    odd, sizes = _uneven(problem.collective), [len(group) for group in problem.collective.members]
    if options.partner == XOR and odd is not None:
        raise METHOD.unsupported(f"has partner xor for a power of two ranks; these are {odd}: partner shift")
    check_rows(METHOD, problem, sum(size * (size - 1) for size in sizes))


def estimate(problem: Problem, options: PairwiseOptions) -> float | None:
    """Return the seconds of routes that load all links evenly; None with groups.

    Steps that use different links overlap, so all steps count as one.
    """
    return even_seconds(problem) if problem.collective.groups is None else None


METHOD = Method(
    name="pairwise",
    kind="heuristic",
    synthesize=synthesize,
    options=PairwiseOptions,
    capabilities=Capabilities((Kind.ALL_TO_ALL,)),
    check=check,
    estimate=estimate,
    summary="all-to-all in N - 1 steps, in each of which every rank sends to one and receives from one",
)

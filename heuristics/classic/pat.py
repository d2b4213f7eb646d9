r"""PAT: parallel aggregated trees, for any number of ranks, with a limit on what one message carries.

Jeaugey: PAT: a new algorithm for all-gather and reduce-scatter operations at scale (arXiv 2506.20252, 2025),
in NCCL from 2.23 on. Every rank's shard goes down a binomial tree of the distances from its owner. The rank
at distance y receives it from the one at y less its lowest one bit, so that the farthest step is first, when
there is least to send. All trees grow in parallel, and all data between two ranks in one step is one message,
*aggregated*. With at most A shards a message, let T be the least power of two with ceil(N/T) <= A. Then

* the tops of the trees are the distances that are multiples of T. They take ceil(log2 ceil(N/T)) steps, and
  in each the number of shards in a message doubles.
* the bottoms are the T - 1 distances below each top. They are traversed depth first, one a step, with the
  shards of all tops in one message. So of the N shards a rank keeps at most A log2 T to send on.

The number of steps is

.. math::

    \lceil \log_2 \lceil N/T \rceil \rceil + \min(T, N) - 1

This is ceil(log2 N) where all may be aggregated (T = 1) and N - 1 where nothing is (A = 1). A reduce-scatter
is the reverse. NCCL makes no allreduce of the two, but here there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from tutti.heuristics.classic.steps import StepTransfers, check_allgathers, schedule_of_steps
from tutti.schedules.capabilities import Capabilities, Groups
from tutti.schedules.compose import BY_ALLGATHER, from_allgather
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.options import Options, Whole


@dataclass(frozen=True)
class PatOptions(Options):
    """Options of PAT.

    Parameters
    ----------
    aggregation
        Largest number of shards in one message; 0: any number.

    Raises
    ------
    InputError
        If it is no integer of at least 0.
    """

    OWNER: ClassVar[str] = "pat"

    aggregation: Annotated[int, Whole(0, words="it must be an integer of at least 0")] = 0


def synthesize(problem: Problem, options: PatOptions, rng: np.random.Generator) -> Schedule:
    """Return PAT over shortest routes, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    rows = trees(problem.topology.num_ranks, options.aggregation)
    return from_allgather(problem, lambda half: schedule_of_steps(half, rows))


def trees(ranks: int, aggregation: int = 0) -> StepTransfers:
    """Return the allgather; chunks are owners.

    Examples
    --------
    >>> rows = trees(8, 2)  # 4 apart, then 2, 1 and 1 with two shards a message
    >>> [(int(step), int(there)) for step, _, there, owner in zip(*rows) if owner == 0]
    [(1, 4), (2, 2), (2, 6), (3, 3), (3, 7), (4, 1), (4, 5)]
    """
    span = 1  # T, the least power of two with ceil(ranks / T) <= A
    while -(-ranks // span) > (aggregation or ranks):
        span *= 2
    tops = [1 << bit for bit in reversed(range((ranks - 1).bit_length())) if 1 << bit >= span]
    far = [(hop, np.arange(hop, ranks, 2 * hop)) for hop in tops]
    # A distance is reached from itself less its lowest one bit, `at & -at`.
    near = [(at & -at, np.arange(at, ranks, span)) for at in _depth_first(0, span) if at < ranks]
    owner = np.arange(ranks)[:, None]
    return StepTransfers.joined(
        [
            StepTransfers.of(step, (owner + reached - hop) % ranks, (owner + reached) % ranks, owner)
            for step, (hop, reached) in enumerate(far + near, start=1)
        ]
    )


def _depth_first(top: int, span: int) -> Iterator[int]:
    """Yield the distances below `top` of a binomial tree of `span` of them, the farthest branch first.

    Examples
    --------
    >>> list(_depth_first(0, 8))
    [4, 6, 7, 5, 2, 3, 1]
    """
    while span > 1:
        span //= 2
        yield top + span
        yield from _depth_first(top + span, span)


METHOD: Method = Method(
    name="pat",
    kind="heuristic",
    synthesize=synthesize,
    options=PatOptions,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE),
    check=lambda problem, options: check_allgathers(METHOD, problem),
    summary="PAT: binomial trees, the farthest step first, with a given number of shards a message at most",
)

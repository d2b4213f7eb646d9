r"""Double binary tree: two binary trees in which no rank is an inner node twice, each with half of the data.

Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan (Parallel
Computing 35(12), 2009); NCCL's tree allreduce. The first tree of p ranks is numbered in order, and every left
subtree is complete, with 2^k - 1 ranks, an odd number. So inner ranks are the odd ones, leaves the even ones,
and the height is floor(log2 p). The second is its mirror image (r to p - 1 - r) for even p, and shifted by
one rank for odd p, so that its inner ranks are even. Each tree moves half of M in S slices that follow each
other; S is chosen for the size.

Broadcast and reduce have their root above both trees of the other N - 1 ranks: height h = ceil(log2 N). No
rank but the root sends in both trees, or receives twice from one rank, so that with a link for every pair

.. math::

    T = (h + S - 1) \left(\alpha + \frac{M}{2 S b}\right), \qquad N \ge 3.

An allreduce has both trees on all N ranks, h = floor(log2 N), and goes up and down them concurrently. A
leaf's parent is its neighbour in both, and many a pair of ranks is joined in both trees, up in one where it
is down in the other. Where every pair has a link, that costs half of the bandwidth. There the leaves of the
second tree are turned: each takes the place of one a few further on, until no pair is joined twice. This is
possible from N = 4 on, and

.. math::

    T = (2 h + S - 1) \left(\alpha + \frac{M}{2 S b}\right), \qquad N \ge 4.

Where ranks have few neighbours, near leaves are better; the faster of both is taken. With 2 or 3 ranks two
trees always share a pair, whose link carries all of M: (S + 1) α + M/b; a broadcast to one rank takes S α +
M/b.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from tutti.heuristics.trees.pipelined_trees import MOST_SLICES, check_pipeline, fastest_trees
from tutti.schedules.capabilities import Capabilities, Groups
from tutti.schedules.collective import Kind
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import Int32Array
from tutti.topologies.options import Options, Whole

KINDS = (Kind.ALLREDUCE, Kind.BROADCAST, Kind.REDUCE)


@dataclass(frozen=True)
class PipelineOptions(Options):
    """Options of pipelined trees.

    Parameters
    ----------
    slices
        Number of slices that follow each other through each tree; 0: the best at the size, of powers of two.

    Raises
    ------
    InputError
        If it is no integer from 0 to `MOST_SLICES`.
    """

    slices: Annotated[
        int, Whole(0, MOST_SLICES, words=f"it must be an integer from 0 (automatic) to {MOST_SLICES}")
    ] = 0


def synthesize(problem: Problem, options: PipelineOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule over shortest routes, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    ranks, root = problem.topology.num_ranks, problem.collective.root
    return fastest_trees(problem, double_binary_trees(ranks, root), options.slices)


def double_binary_trees(ranks: int, root: int | None = None) -> list[Int32Array]:
    """Return the pairs of trees to choose from: near leaves, and for an allreduce no pair joined twice.

    Parameters
    ----------
    ranks
        N, at least 2.
    root
        Root of a broadcast or reduce, above both trees; None: trees of all ranks, for an allreduce.

    Returns
    -------
    list of ndarray
        The parents in both trees, each int32, shape (2, N), -1 at roots.

    Examples
    --------
    >>> [trees.tolist() for trees in double_binary_trees(4)]
    [[[1, -1, 3, 1], [2, 0, -1, 2]], [[1, -1, 3, 1], [2, 2, -1, 0]]]
    """
    if root is None:
        first, second = _pair(ranks)
        return [np.stack([first, second]), np.stack([first, _turned(first, second)])]
    others = np.delete(np.arange(ranks, dtype=np.int32), root)
    trees = np.full((2, ranks), -1, dtype=np.int32)
    for tree, parent in zip(trees, _pair(ranks - 1), strict=True):
        tree[others] = np.where(parent < 0, root, others[parent])
    return [trees]


def _pair(ranks: int) -> tuple[Int32Array, Int32Array]:
    """Return the tree numbered in order, and its mirror image or, for an odd number, its shift."""
    first = np.empty(ranks, dtype=np.int32)
    waiting = [(0, ranks, -1)]
    while waiting:
        low, size, above = waiting.pop()
        full = 1 << (size.bit_length() - 1)
        # 2^k - 1 ranks are left of the top, the most that leave one right of it, except for 2.
        top = low + (full // 2 if full == size > 2 else full) - 1
        first[top] = above
        parts = ((low, top - low, top), (top + 1, low + size - top - 1, top))
        waiting += [part for part in parts if part[1]]
    rank = np.arange(ranks)
    other = ranks - 1 - rank if ranks % 2 == 0 else (rank + 1) % ranks
    second = np.empty_like(first)
    second[other] = np.where(first < 0, -1, other[first])
    return first, second


def _turned(first: Int32Array, second: Int32Array) -> Int32Array:
    """Return the second tree with its leaves turned until no pair is joined in both, where possible."""
    leaf = np.setdiff1d(np.arange(len(second), dtype=np.int32), second)
    for turn in range(len(leaf)):
        turned = second.copy()
        turned[leaf] = second[np.roll(leaf, -turn)]
        child = np.flatnonzero(turned >= 0)
        above = turned[child]
        if not np.any((first[child] == above) | (first[above] == child)):
            return turned
    return second


METHOD: Method = Method(
    name="dbt",
    kind="heuristic",
    synthesize=synthesize,
    options=PipelineOptions,
    capabilities=Capabilities(KINDS, Groups.NONE),
    check=lambda problem, options: check_pipeline(METHOD, problem, 2 * options.slices),
    size_dependent=lambda problem, options: options.slices == 0,
    summary="double binary tree, pipelined, over shortest routes",
)

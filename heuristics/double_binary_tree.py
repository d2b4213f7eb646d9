r"""Double binary tree: two binary trees in which no rank is an inner node twice, each with half of the data.

Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan (Parallel
Computing 35(12), 2009); NCCL's tree allreduce. The first tree is numbered in order: rank r > 0 whose lowest
set bit is 2^l has the children r ± 2^(l-1), the right one brought below N by halving the distance, so odd
ranks are leaves; rank 0 is the root above the largest power of two. The second is its mirror image (r to N -
1 - r) for even N, and shifted by one rank for odd N. The trees are pipelined in slices, their number chosen
for the size.

Broadcast and reduce have their root above both trees, which then join the other ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heuristics.pipelined_trees import MOST_SLICES, check_pipeline, pipelined_trees
from schedules.collective import Kind
from schedules.method import Method, Problem
from schedules.schedule import Schedule
from topologies.errors import InputError
from topologies.exact import Int32Array

KINDS = (Kind.ALLREDUCE, Kind.BROADCAST, Kind.REDUCE)


@dataclass(frozen=True)
class PipelineOptions:
    """Options of pipelined trees.

    Parameters
    ----------
    slices
        How many follow each other through each tree; 0: what is best at the size, of powers of two.

    Raises
    ------
    InputError
        If it is no integer from 0 to `MOST_SLICES`.
    """

    slices: int = 0

    def __post_init__(self) -> None:
        """Check the value."""
        whole = isinstance(self.slices, int) and not isinstance(self.slices, bool)
        if not whole or not 0 <= self.slices <= MOST_SLICES:
            raise InputError(
                f"slices is {self.slices!r}; it must be an integer from 0 (automatic) to {MOST_SLICES}"
            )


def synthesize(problem: Problem, options: PipelineOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule over shortest routes, in the step clock.

    Raises
    ------
    Unsupported
        As `supports`.
    """
    supports(problem, options)
    trees = double_binary_trees(problem.topology.num_ranks, problem.collective.root)
    return pipelined_trees(problem, trees, options.slices)


def double_binary_trees(ranks: int, root: int | None = None) -> Int32Array:
    """Return the parents, shape (2, N), -1 at roots; `root` is above both trees if it is given.

    Examples
    --------
    >>> double_binary_trees(4).tolist()
    [[-1, 2, 0, 2], [1, 3, 1, -1]]
    """
    if root is None:
        return np.stack(_pair(ranks))
    others = np.delete(np.arange(ranks, dtype=np.int32), root)
    trees = np.full((2, ranks), -1, dtype=np.int32)
    if ranks == 2:
        trees[:, others] = root
        return trees
    for tree, parent in zip(trees, _pair(ranks - 1), strict=True):
        tree[others] = np.where(parent < 0, root, others[parent])
    return trees


def _pair(ranks: int) -> tuple[Int32Array, Int32Array]:
    """Return the tree numbered in order, and its mirror image or, for an odd number, its shift."""
    first = _in_order(ranks)
    rank = np.arange(ranks)
    other = ranks - 1 - rank if ranks % 2 == 0 else (rank + 1) % ranks
    second = np.empty_like(first)
    second[other] = np.where(first < 0, -1, other[first])
    return first, second


def _in_order(ranks: int) -> Int32Array:
    parent = np.full(ranks, -1, dtype=np.int32)
    top = 1 << (ranks - 1).bit_length() >> 1
    if ranks > 1:
        parent[top] = 0
    for rank in range(1, ranks):
        half = (rank & -rank) >> 1
        if half:
            parent[rank - half] = rank
        while half and rank + half >= ranks:
            half >>= 1
        if half:
            parent[rank + half] = rank
    return parent


def supports(problem: Problem, options: PipelineOptions) -> None:
    """Raise `Unsupported` for groups, and for what is neither allreduce, broadcast nor reduce."""
    METHOD.check_kind(problem.collective, KINDS)
    METHOD.check_one_group(problem.collective)
    check_pipeline(METHOD, problem, 2 * options.slices)


METHOD = Method(
    name="dbt",
    kind="heuristic",
    synthesize=synthesize,
    options=PipelineOptions,
    supports=supports,
    size_dependent=lambda problem, options: options.slices == 0,
    summary="double binary tree, pipelined, over shortest routes",
)

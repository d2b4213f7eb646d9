"""C-Cube: two binary trees over a DGX-1, no two on one link, that reduce and broadcast concurrently.

Cho, Son, Kim: Logical/Physical Topology-Aware Collective Communication in Deep Learning Training (HPCA 2023).
Each tree moves half of M, up on one direction of its links and down on the other, in slices that follow each
other. So a rank uses at most four of its six NVLinks (TACOS, section VI-B.5). The paper's own trees are a
figure; here they are the two lowest that share no pair of ranks, the first in the order of their edges.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np

from tutti.heuristics.trees.double_binary_tree import PipelineOptions
from tutti.heuristics.trees.pipelined_trees import pipelined_trees
from tutti.schedules.capabilities import Capabilities, Groups, Shape
from tutti.schedules.collective import Kind
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import Int32Array
from tutti.topologies.topology import Topology

RANKS = 8
MOST_PAIRS = 16
_Edges = tuple[tuple[int, int], ...]


def synthesize(problem: Problem, options: PipelineOptions, rng: np.random.Generator) -> Schedule:
    """Return the allreduce over both trees, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    return pipelined_trees(problem, _trees(problem.topology), options.slices)


@cache
def disjoint_binary_trees(pairs: _Edges) -> Int32Array | None:
    """Return the parents of two spanning binary trees without a common edge, of least height; None if none.

    Parameters
    ----------
    pairs
        The edges, each with its lower end first, of a graph of 8 nodes.

    Returns
    -------
    ndarray or None
        int32, shape (2, 8), -1 at the roots.

    Examples
    --------
    >>> disjoint_binary_trees(((0, 1), (1, 2))) is None
    True
    """
    found = {edges: _lowest(edges) for edges in combinations(pairs, RANKS - 1)}
    trees = {edges: tree for edges, tree in found.items() if tree is not None}
    best: tuple[int, Int32Array] | None = None
    for edges, (height, tree) in trees.items():
        for others in combinations([pair for pair in pairs if pair not in edges], RANKS - 1):
            if others in trees and (best is None or max(height, trees[others][0]) < best[0]):
                best = max(height, trees[others][0]), np.stack([tree, trees[others][1]])
    return None if best is None else best[1]


def _lowest(edges: _Edges) -> tuple[int, Int32Array] | None:
    """Return height and parents of the tree of these edges from its best root; None if it is not binary."""
    beside: list[list[int]] = [[] for _ in range(RANKS)]
    for one, other in edges:
        beside[one].append(other)
        beside[other].append(one)
    if max(map(len, beside)) > 3:
        return None
    rooted = [_rooted(beside, root) for root in range(RANKS) if len(beside[root]) <= 2]
    found = [tree for tree in rooted if tree is not None]
    return min(found, key=lambda tree: tree[0]) if found else None


def _rooted(beside: list[list[int]], root: int) -> tuple[int, Int32Array] | None:
    """Return height and parents; None if the root does not reach every node."""
    parent = np.full(RANKS, -1, dtype=np.int32)
    reached = [(0, root)]
    for depth, node in reached:
        for child in beside[node]:
            if child != root and parent[child] < 0:
                parent[child] = node
                reached.append((depth + 1, child))
    return (reached[-1][0], parent) if len(reached) == RANKS else None


def _trees(topology: Topology) -> Int32Array:
    """Return the trees, or raise `Unsupported`."""
    trees = None
    if topology.num_ranks == RANKS and not topology.num_switches:
        joined = set(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
        # The pairs of ranks that have a link each way, the lower first.
        pairs = tuple(sorted((a, b) for a, b in joined if a < b and (b, a) in joined))
        trees = disjoint_binary_trees(pairs) if len(pairs) <= MOST_PAIRS else None
    if trees is None:
        raise METHOD.unsupported(
            f"needs 8 ranks without switches, joined in at most {MOST_PAIRS} pairs, with two disjoint binary "
            f"trees, as dgx1 is; {topology.name} is not"
        )
    return trees


def check(problem: Problem, options: PipelineOptions) -> None:
    """Raise `Unsupported` unless 8 ranks hold two binary trees, as a DGX-1."""
    _trees(problem.topology)


METHOD = Method(
    name="ccube",
    kind="heuristic",
    synthesize=synthesize,
    options=PipelineOptions,
    capabilities=Capabilities((Kind.ALLREDUCE,), Groups.NONE, shape=Shape.DGX1),
    check=check,
    size_dependent=lambda problem, options: options.slices == 0,
    summary="C-Cube: two disjoint binary trees of a DGX-1, reducing and broadcasting concurrently",
)

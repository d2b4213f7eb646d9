"""TTO: three trees over a 2D mesh, rooted in three corners, that reduce and broadcast overlapped.

Laskar, Majhi, Kim, Mahmud, Muzahid, Kim: Enhancing Collective Communication in MCM Accelerators for Deep
Learning Training (HPCA 2024). A corner has two links in, so three trees that share no link can only begin in
three corners, and the fourth can be in two of them: in the paper it takes no part. Here all ranks take part.
Each tree is two of half the weight, found by packing (Edmonds), as the paper draws its own for a few sizes.
Each moves a sixth of M in slices. A link carries at most a third of M down and a third up, except the fourth
corner's, which carry up to 5/6 in all.
"""

from __future__ import annotations

import numpy as np

from tutti.heuristics.trees.double_binary_tree import PipelineOptions
from tutti.heuristics.trees.pipelined_trees import check_pipeline, pipelined_trees
from tutti.schedules.capabilities import Capabilities, Groups, Shape
from tutti.schedules.collective import Kind
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import Int32Array
from tutti.topologies.topology import Topology
from tutti.topologies.trees.forest import LogicalNetwork
from tutti.topologies.trees.packing import pack_counts

TREES = 3
COPIES = 2


def synthesize(problem: Problem, options: PipelineOptions, rng: np.random.Generator) -> Schedule:
    """Return the allreduce over three trees, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    return pipelined_trees(problem, corner_trees(problem.topology), options.slices)


def corner_trees(topology: Topology) -> Int32Array:
    """Return the parents, shape (6, N), of two out-trees from each of the first three corners.

    A link is in at most two of them, into the fourth corner in three; parallel links count as one.

    Raises
    ------
    InputError
        If there are no such trees.
    """
    ranks = topology.num_ranks
    pairs = np.unique(topology.source.astype(np.int64) * ranks + topology.target)
    source, target = (ends.astype(np.int32) for ends in np.divmod(pairs, ranks))
    corners = np.flatnonzero(np.bincount(target) == 2)
    capacity = COPIES + np.isin(target, corners[TREES:]).astype(np.int64)
    links = np.arange(len(pairs), dtype=np.int32)
    network = LogicalNetwork(ranks, source, target, capacity, np.arange(len(links) + 1), links)
    forest = pack_counts(network, COPIES * np.bincount(corners[:TREES], minlength=ranks))
    return np.repeat(forest.parent, forest.weight, axis=0)


METHOD: Method = Method(
    name="tto",
    kind="heuristic",
    synthesize=synthesize,
    options=PipelineOptions,
    capabilities=Capabilities((Kind.ALLREDUCE,), Groups.NONE, shape=Shape.MESH),
    check=lambda problem, options: check_pipeline(METHOD, problem, TREES * COPIES * options.slices),
    size_dependent=lambda problem, options: options.slices == 0,
    summary="TTO: three trees from three corners of a 2D mesh, reducing and broadcasting concurrently",
)

r"""Allreduce that reduces and broadcasts at once: every chunk has a tree and a moment of its own.

A chunk is reduced up a tree to its root and broadcast down it. The trees are balanced over the edges
(`balanced`), each with its own root, and matching in time (`placing`) lets every link, both ways, carry what
some chunk reduces while others are broadcast. Nothing waits for a reduce-scatter to end.
"""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np

from heuristics.tacos.balanced import Edges, Shape, edges_of, grown, hung, joined
from heuristics.tacos.following import blank_of, sums, timed, ways_of
from heuristics.tacos.memory import check_trees
from heuristics.tacos.options import TacosOptions
from heuristics.tacos.placing import THOROUGH
from heuristics.tacos.retiming import ends
from heuristics.tacos.ways import DOWN, Trees, Ways
from schedules.collective import Collective, Kind
from schedules.method import Problem
from schedules.schedule import Chunks, Schedule
from topologies.exact import Int32Array, Int64Array
from topologies.topology import Topology

SHAPE = Shape(hop=0.25, sweeps=3)
"""A hop is worth a quarter of a tree: low trees, but of even load before all."""


MANY = 2**20
"""Transfers of a half up to which reducing and broadcasting at once is tried unasked."""


def worth_overlapping(problem: Problem, options: TacosOptions) -> bool:
    """Return whether a schedule that reduces and broadcasts at once is tried unasked."""
    what, where = problem.collective, problem.topology
    return options.chunks * len(what.items) * where.num_ranks <= MANY and can_overlap(where, what)


def can_overlap(topology: Topology, what: Collective) -> bool:
    """Return whether it is an allreduce of all ranks that links both ways join, without switches."""
    alone = what.kind is Kind.ALLREDUCE and what.groups is None and not topology.num_switches
    return alone and joined(edges_of(topology), topology.num_ranks)


def overlapped(problem: Problem, size: Fraction, options: TacosOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule of an allreduce, the first to end of several.

    Parameters
    ----------
    problem
        An allreduce of all ranks, on a network without switches whose links that lead both ways join them.
    size
        M in bytes.
    options
        Chunks a shard: of so many times the number of ranks each has a tree.
    rng
        For the roots, and ties.

    Raises
    ------
    InputError
        If the trees outgrow the memory.
    """
    check_trees(problem, options)
    blank = blank_of(problem, Chunks.even(problem.collective, options.chunks), size)
    edges, ways = edges_of(problem.topology), ways_of(blank)
    cost = ways.hold[edges.links].max(axis=0) / ways.hold.max()
    chunks, ranks = len(blank.chunks), problem.topology.num_ranks
    until = time.monotonic() + (options.time_limit or 0)
    made: list[Schedule] = []
    while len(made) < options.tries or time.monotonic() < until:
        root = rng.permutation(np.arange(chunks) % ranks).astype(np.int32)
        random = rng.integers(2**64, size=1, dtype=np.uint64)
        trees = both_ways(edges, grown(edges, cost, root, SHAPE, random))
        made.append(timed(blank, ways, trees, moments(ways, trees), THOROUGH))
    return min(made, key=ends).replace(stats={"tries": len(made)})


def both_ways(edges: Edges, trees: Int32Array) -> Trees:
    """Return for each chunk its tree, upwards and downwards, given the edges that it uses."""
    found = [hung(edges, tree) for tree in trees]
    parent = np.stack([parent for parent, _ in found])
    side = np.stack([side for _, side in found])
    edge, end = np.maximum(side, 0) // 2, side % 2
    way = np.stack([edges.links[1 - end, edge], edges.links[end, edge]])
    way[:, side < 0] = -1
    return Trees.of(parent.argmin(axis=1).astype(np.int32), np.stack([parent, parent]), way)


def moments(ways: Ways, trees: Trees) -> Int64Array:
    """Return when each hop is due if the chunks are at their roots at even distances: priorities.

    So long before the moment of its chunk as the way up from there takes, or after it as the way down there.
    """
    pieces = len(trees.root)
    lasts = np.where(trees.way >= 0, ways.lasts[trees.way], 0)
    busy = np.bincount(trees.way[trees.way >= 0]) * ways.lasts[: int(trees.way.max()) + 1]
    moment = (2 * np.arange(pieces) + 1) * int(busy.max()) // (2 * pieces)
    up, down = (sums(parent, ticks) for parent, ticks in zip(trees.parent, lasts, strict=True))
    return np.stack([moment[:, None] - up, moment[:, None] + down - lasts[DOWN]])

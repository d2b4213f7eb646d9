r"""Allreduce that reduces and broadcasts at once: every chunk has a tree and a moment of its own.

A chunk is reduced up a tree to its root and broadcast down it, so it crosses every edge of the tree once each
way. With trees balanced over the edges all links are busy all the time, both ways; that is the partition
bound of allreduce (0.55 M/b on a 10x10 mesh, where a reduce-scatter and then an allgather take 0.99). Each
tree has its own root, and the list scheduler (`schedules.list_scheduling`) lets every link, both ways, carry
what some chunks reduce while others are broadcast. Nothing waits for a reduce-scatter to end.

The trees are grown one after the other as Prim does, an edge being the dearer the more it is loaded already
and the further from the root it leads, and then again in turn, each given the loads of all others (best
responses). With loads alone the trees would be minimum spanning trees by load, whose largest load tends to
the least there is (Thorup, Combinatorica 2007); the distance keeps them low.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from heuristics.tacos.bitsets import Words, random_below
from heuristics.tacos.options import TUNING, TacosOptions, check_trees
from heuristics.tacos.tree_guided import blank_of, held_routes, in_order
from schedules.collective import Collective, Kind
from schedules.list_scheduling.forward_backward import forward_backward
from schedules.list_scheduling.kernel import TimedRoutes
from schedules.list_scheduling.trees import TreePairs, tree_transfers
from schedules.method import Problem
from schedules.retiming import ends
from schedules.schedule import Chunks, Schedule
from topologies.components import components
from topologies.exact import FloatArray, Int32Array, Int64Array, offsets_of
from topologies.graphs.heaps import sift_down, sift_up
from topologies.kernels import kernel, now
from topologies.topology import Topology

FINE = 2**20
"""Of so many values one is drawn, to choose between edges that are equally dear."""

PASSES = 5
"""How often each schedule is made forwards, and from its end; more have not paid."""


def worth_overlapping(problem: Problem, options: TacosOptions) -> bool:
    """Return whether a schedule that reduces and broadcasts at once is tried unasked."""
    what, where = problem.collective, problem.topology
    return options.chunks * len(what.items) * where.num_ranks <= TUNING.overlapped_up_to and can_overlap(
        where, what
    )


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
    edges, ticks = edges_of(problem.topology), held_routes(blank).hold  # its routes are the links
    cost = ticks[edges.links].max(axis=0) / ticks.max()
    chunks, ranks = len(blank.chunks), problem.topology.num_ranks
    until = now() + (options.time_limit or 0)
    made: list[Schedule] = []
    while len(made) < options.tries or now() < until:
        root = rng.permutation(np.arange(chunks) % ranks).astype(np.int32)
        random = rng.integers(2**64, size=1, dtype=np.uint64)
        trees = both_ways(edges, grown(edges, cost, root, TUNING.hop, TUNING.sweeps, random))
        made.append(listed(blank, trees, ticks))
    return min(made, key=ends).replace(stats={"tries": len(made)})


def both_ways(edges: Edges, trees: Int32Array) -> TreePairs:
    """Return for each chunk its tree, upwards and downwards, given the edges that it uses."""
    found = [hung(edges, tree) for tree in trees]
    parent = np.stack([parent for parent, _ in found])
    side = np.stack([side for _, side in found])
    edge, end = np.maximum(side, 0) // 2, side % 2
    up, down = (np.where(side < 0, -1, edges.links[which, edge]).astype(np.int32) for which in (1 - end, end))
    return TreePairs(parent, parent, up, down, parent.argmin(axis=1).astype(np.int32))


def listed(blank: Schedule, trees: TreePairs, ticks: Int64Array) -> Schedule:
    """Return the list schedule in which each chunk goes up and down its tree.

    Parameters
    ----------
    blank
        A schedule without transfers, whose routes are the links.
    trees
        A pair for each chunk.
    ticks
        int64, shape (links,): for which a chunk holds each.
    """
    link = np.stack([trees.up_route, trees.down_route])
    moves, lasts = link >= 0, np.where(link >= 0, ticks[link], 0)
    due, routes, chunks = (
        moments(trees, lasts),
        TimedRoutes.single_links(len(ticks)),
        np.arange(len(trees.root)),
    )
    found = []
    # Most transfers are alike, so much depends on which of equals goes first: both orders are tried.
    for order in (chunks, chunks[::-1]):
        transfers = tree_transfers(trees, order, lasts[:, order], by_direction=True)
        start = np.empty_like(lasts)
        start[:, order] = forward_backward(transfers, routes, due[:, order].reshape(-1), PASSES).reshape(
            lasts.shape
        )
        found.append(start)
    start = min(found, key=lambda start: int((start + lasts)[moves].max()))
    direction, chunk, _ = np.nonzero(moves)
    return in_order(blank, chunk, link[moves], start[moves], direction == 0)


def moments(trees: TreePairs, lasts: Int64Array) -> Int64Array:
    """Return when each transfer is due if the chunks are at their roots at even distances: priorities.

    So long before the moment of its chunk as the way up from there takes, or after it as the way down there.

    Parameters
    ----------
    trees
        A pair for each chunk.
    lasts
        int64, shape (2, chunks, ranks), as the moments: ticks, up and down.
    """
    chunks = len(trees.root)
    link = np.stack([trees.up_route, trees.down_route])
    busy = np.bincount(link[link >= 0], lasts[link >= 0])
    moment = (2 * np.arange(chunks) + 1) * int(busy.max()) // (2 * chunks)
    up, down = (_sums(parent, ticks) for parent, ticks in zip((trees.up, trees.down), lasts, strict=True))
    return np.stack([moment[:, None] - up, moment[:, None] + down - lasts[1]])


def _sums(parent: Int32Array, lasts: Int64Array) -> Int64Array:
    """Return the ticks of the way up from each node."""
    total = lasts.copy()
    while True:
        above = np.where(parent >= 0, np.take_along_axis(total, np.maximum(parent, 0), axis=1), 0)
        better = lasts + above
        if np.array_equal(better, total):
            return total
        total = better


class Edges(NamedTuple):
    """Links in pairs, there and back.

    Parameters
    ----------
    ends, links
        int32, shape (2, edges): edge e joins ends[0, e] and ends[1, e]; links[0, e] leads from the one to the
        other, links[1, e] back.
    first, near
        int64: the edges at node v are near[first[v] : first[v + 1]], each as 2 e, plus 1 if
        v is its second end.
    """

    ends: Int32Array
    links: Int32Array
    first: Int64Array
    near: Int64Array


def edges_of(topology: Topology) -> Edges:
    """Return the links of a network, each with one that leads back; links without are left out.

    Examples
    --------
    >>> from topologies.families.grids import ring
    >>> edges_of(ring(3)).ends.tolist()
    [[0, 0, 1], [1, 2, 2]]
    """
    there: dict[tuple[int, int], list[int]] = {}
    widest_first = sorted(range(topology.num_links), key=lambda link: (-topology.bandwidth[link], link))
    for link in widest_first:
        there.setdefault((int(topology.source[link]), int(topology.target[link])), []).append(link)
    rows = [
        (a, b, link, back)
        for (a, b), links in sorted(there.items())
        if a < b
        for link, back in zip(links, there.get((b, a), []), strict=False)
    ]
    table = np.array(rows, dtype=np.int32).reshape(-1, 4).T
    ends = np.ascontiguousarray(table[:2])
    side = np.concatenate([2 * np.arange(len(rows)), 2 * np.arange(len(rows)) + 1])
    at = np.argsort(ends.reshape(-1), kind="stable")
    first = offsets_of(np.bincount(ends.reshape(-1), minlength=topology.num_ranks))
    return Edges(ends, np.ascontiguousarray(table[2:]), first, side[at].astype(np.int64))


def joined(edges: Edges, ranks: int) -> bool:
    """Return whether edges join all ranks."""
    return components(ranks, *edges.ends)[0] == 1


@kernel(nogil=True)
def grown(
    edges: Edges, cost: FloatArray, root: Int32Array, hop: float, sweeps: int, random: Words
) -> Int32Array:
    """Return a spanning tree a chunk as the edges it uses: int32, shape (chunks, nodes - 1).

    Invariant: between trees `load` is what the trees that stand put on each edge.

    Parameters
    ----------
    edges
        They join all nodes.
    cost
        Shape (edges,): time over it of a chunk, in any unit.
    root
        Shape (chunks,): where each tree is grown from.
    hop
        What one hop more from the root is worth, in loads of one tree.
    sweeps
        How often all trees are grown.
    random
        The state of the random numbers.
    """
    nodes = len(edges.first) - 1
    load, made = np.zeros(len(cost)), np.empty((len(root), nodes - 1), np.int32)
    for sweep in range(sweeps):
        for chunk in range(len(root)):
            if sweep:
                for edge in made[chunk]:
                    load[edge] -= cost[edge]
            _grow(edges, load + cost, root[chunk], hop * cost.mean(), made[chunk], random)
            for edge in made[chunk]:
                load[edge] += cost[edge]
    return made


@kernel
def _grow(edges: Edges, price: FloatArray, root: int, hop: float, tree: Int32Array, random: Words) -> None:
    """Write the edges of a tree from a root, the cheapest of those that leave it first."""
    depth = np.full(len(edges.first) - 1, -1)
    keys, sides, size = np.empty(2 * len(price)), np.empty(2 * len(price), np.int32), 0
    depth[root], node, count = 0, root, 0
    while count < len(tree):
        for side in edges.near[edges.first[node] : edges.first[node + 1]]:
            edge = side // 2
            if depth[edges.ends[1 - side % 2, edge]] < 0:
                noise = random_below(random, FINE) / FINE * price[edge] * 1e-6
                sift_up(keys, sides, size, price[edge] + hop * depth[node] + noise, np.int32(side))
                size += 1
        while True:
            # Prim: of the sides that leave the tree the cheapest; those that by now lead back into it are
            # dropped.
            side = sides[0]
            size -= 1
            sift_down(keys, sides, size)
            edge = side // 2
            if depth[edges.ends[1 - side % 2, edge]] < 0:
                break
        node = edges.ends[1 - side % 2, edge]
        depth[node] = depth[edges.ends[side % 2, edge]] + 1
        tree[count] = edge
        count += 1


@kernel
def hung(edges: Edges, tree: Int32Array) -> tuple[Int32Array, Int32Array]:
    """Return parents, -1 at the root, and sides (2 e, plus 1 if the parent is e's second end) of a tree.

    It is hung up at the middle of its longest path, so that it is as low as can be.

    Parameters
    ----------
    edges, tree
        What it is made of: int32, shape (nodes - 1,).
    """
    nodes = len(tree) + 1
    degree = np.zeros(nodes + 1, np.int64)
    for edge in tree:
        degree[edges.ends[0, edge] + 1] += 1
        degree[edges.ends[1, edge] + 1] += 1
    first = np.cumsum(degree)
    place, near = first[:-1].copy(), np.empty(2 * len(tree), np.int64)
    for edge in tree:
        for end in range(2):
            near[place[edges.ends[end, edge]]] = 2 * edge + end
            place[edges.ends[end, edge]] += 1
    parent, side, last = _walk(edges, first, near, 0)
    parent, side, last = _walk(edges, first, near, last)
    path = 0
    node = last
    while parent[node] >= 0:
        node, path = parent[node], path + 1
    for _ in range(path // 2):
        last = parent[last]
    parent, side, _ = _walk(edges, first, near, last)
    return parent, side


@kernel
def _walk(edges: Edges, first: Int64Array, near: Int64Array, root: int) -> tuple[Int32Array, Int32Array, int]:
    """Return parents and sides of the tree from a root, breadth first, and the node reached last."""
    nodes = len(first) - 1
    parent, side = np.full(nodes, -1, np.int32), np.full(nodes, -1, np.int32)
    queue, count = np.empty(nodes, np.int64), 1
    queue[0] = root
    for done in range(nodes):
        node = queue[done]
        for end in near[first[node] : first[node + 1]]:
            other = edges.ends[1 - end % 2, end // 2]
            if other != parent[node]:
                parent[other], side[other] = node, end
                queue[count] = other
                count += 1
    return parent, side, queue[nodes - 1]

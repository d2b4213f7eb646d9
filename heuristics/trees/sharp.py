"""Trees in switches that add and multicast, as SHARP does in InfiniBand and NVLink switches.

Graham et al.: Scalable Hierarchical Aggregation Protocol (SHArP) (COM-HPC 2016). Data goes up a tree whose
inner nodes are switches; each adds what comes from below and sends on one sum, and the result is multicast
down the same tree. So every rank sends M once and receives it once, where through switches that only forward
an allreduce costs 2 (N - 1)/N M. The data is cut in slices that follow each other: on one switch

    T = (S + 1) (α + M/(S b)),    S slices,

as the last one comes down after it went up. A broadcast or reduce takes the same tree, its root on top, and
as long. In an allgather all ranks send their shards up concurrently, and the switch sends each rank all the
others: (S + 1) α + (N - 1 + 1/S)/N M/b; a reduce-scatter is the reverse.

* Where such switches join all ranks, each of those from which all are nearest is the top of a tree, and the
trees
  move equal parts.
* With hosts whose own switches can do it, there are trees for each place g. The host's switch joins rank (h,
g)
  to the others there. Those at place g of all hosts are joined by a switch that can do it, too, or else by
  two binary trees (NCCL's NVLS tree; Sanders et al., see `heuristics.trees.double_binary_tree`).

The faster of these is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from functools import partial

import numpy as np

from tutti.heuristics.classic.steps import StepTransfers, check_rows, schedule_of_steps
from tutti.heuristics.trees.double_binary_tree import PipelineOptions, double_binary_trees
from tutti.heuristics.trees.pipelined_trees import fastest_trees
from tutti.schedules.capabilities import Capabilities, Groups, Shape
from tutti.schedules.collective import Kind
from tutti.schedules.compose import from_allgather
from tutti.schedules.cost import congestion
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.graphs.grid_structure import Hosts, hosts_of
from tutti.topologies.topology import Topology
from tutti.topologies.trees.forest import depths, rerooted

SPREADING = (Kind.ALLGATHER, Kind.REDUCE_SCATTER)
MOST_SHARD_SLICES = 64
"""Largest number of slices of each part of a shard, if the method chooses it."""


def synthesize(problem: Problem, options: PipelineOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    return over_switches(problem, able_switches(problem.topology), options.slices)


def over_switches(problem: Problem, able: AbstractSet[int], slices: int) -> Schedule:
    """Return the schedule of `synthesize` over these of the switches that can do it.

    Parameters
    ----------
    problem
        The problem, as `METHOD` takes it.
    able
        The switches; there are `aggregation_trees`.
    slices
        As in `PipelineOptions`.
    """
    every = aggregation_trees(problem.topology, able)
    if problem.collective.kind in SPREADING:
        return from_allgather(problem, partial(_allgather, every=every, slices=slices))
    root = problem.collective.root
    if root is not None:
        every = [np.stack([rerooted(tree, root) for tree in trees]) for trees in every]
    return fastest_trees(problem, every, slices)


def able_switches(topology: Topology) -> AbstractSet[int]:
    """Return the switches that add and multicast."""
    return topology.multicast & topology.aggregate


def aggregation_trees(topology: Topology, able: AbstractSet[int]) -> list[Int32Array]:
    """Return the sets of trees over these switches: int32, shape (trees, nodes), parents, -1 at roots.

    Nodes that are in no tree have no parent either.
    """
    every = switch_trees(topology, able, np.arange(topology.num_ranks))
    hosts = hosts_of(topology, infer=True)
    two_levels = [] if isinstance(hosts, str) else _by_place(topology, able, hosts)
    return [np.stack(trees) for trees in (every, two_levels) if trees]


def switch_trees(topology: Topology, able: AbstractSet[int], members: Int64Array) -> list[Int32Array]:
    """Return the lowest trees over these switches whose leaves are these ranks.

    Examples
    --------
    >>> from tutti.topologies.text import parse_topology
    >>> [tree.tolist() for tree in switch_trees(parse_topology("dgx_h100:1"), {8}, np.arange(8))]
    [[8, 8, 8, 8, 8, 8, 8, 8, -1]]
    """
    found = [_grown(topology, able, top, members) for top in sorted(able)]
    trees = [tree for tree in found if tree is not None]
    heights = [int(depths(tree).max()) for tree in trees]
    return [tree for tree, height in zip(trees, heights, strict=True) if height == min(heights)]


def _grown(topology: Topology, able: AbstractSet[int], top: int, members: Int64Array) -> Int32Array | None:
    """Return the tree that grows from a switch breadth first, with no branch that has no member; or None."""
    parent = np.full(topology.num_nodes, -1, dtype=np.int32)
    waiting, wanted = [top], {*members.tolist()}
    reached = {top}
    for node in waiting:
        (out, leaving), (into, coming) = topology.out_links, topology.in_links
        to = topology.target[leaving[out[node] : out[node + 1]]]
        by = topology.source[coming[into[node] : into[node + 1]]]
        for near in sorted({*to.tolist()} & {*by.tolist()} & (wanted | able) - reached):
            parent[near] = node
            reached.add(near)
            waiting += [near] * (near in able)
    if not wanted <= reached:
        return None
    used: set[int] = set()
    for node in wanted:
        while node not in used and node != top:
            used.add(node)
            node = int(parent[node])
    parent[list(reached - used)] = -1
    return parent


def _by_place(topology: Topology, able: AbstractSet[int], hosts: Hosts) -> list[Int32Array]:
    """Return the trees of every place in the hosts; none if the own switches of a host do not join it."""
    own = [{switch for switch in able if hosts.of[switch] == host} for host in range(len(hosts.ranks))]
    inside = [switch_trees(topology, *host) for host in zip(own, hosts.ranks, strict=True)]
    if not all(inside):
        return []
    outside = able - {switch for switches in own for switch in switches}
    trees = []
    for place, leaders in enumerate(hosts.ranks.T):
        across = switch_trees(topology, outside, leaders)
        if not across:
            across = list(np.full((2, topology.num_nodes), -1, dtype=np.int32))
            for tree, parent in zip(across, double_binary_trees(len(leaders))[0], strict=True):
                tree[leaders] = np.where(parent < 0, -1, leaders[parent])
        for number, between in enumerate(across):
            tree = between.copy()
            for leader, of_host in zip(leaders.tolist(), inside, strict=True):
                below = rerooted(of_host[(place + number) % len(of_host)], leader)
                tree[below >= 0] = below[below >= 0]
            trees.append(tree)
    return trees


def _allgather(problem: Problem, every: Sequence[Int32Array], slices: int) -> Schedule:
    """Return the fastest at the size, with powers of two slices if none are given; else least congested."""
    size, count = problem.size, slices or 1

    def cost(one: Schedule) -> float | Fraction:
        return congestion(one) if size is None else simulate(one, size).time

    parents = min(every, key=lambda trees: cost(_gathered(problem, trees, count)))
    best = _gathered(problem, parents, count)
    while not slices and size is not None and count < MOST_SHARD_SLICES:
        count *= 2
        finer = _gathered(problem, parents, count)
        if cost(finer) >= cost(best):
            break
        best = finer
    return best


def _gathered(problem: Problem, trees: Int32Array, slices: int) -> Schedule:
    """Return the allgather of shards that go, in equal parts, down the trees that are lowest from them."""
    rows, place = [], np.arange(slices)[:, None]
    from_owner = [[rerooted(tree, owner) for tree in trees] for owner in range(problem.collective.num_ranks)]
    depth = [[depths(tree) for tree in turned] for turned in from_owner]
    heights = np.array([[int(one.max()) for one in of_owner] for of_owner in depth])
    parts = int((heights == heights.min(axis=1, keepdims=True)).sum(axis=1).min())
    for owner, lowest in enumerate(np.argsort(heights, axis=1, kind="stable")[:, :parts].tolist()):
        for part, number in enumerate(lowest):
            parent, turn = from_owner[owner][number], depth[owner][number]
            child, chunk = np.flatnonzero(parent >= 0), (owner * parts + part) * slices + place
            rows.append(StepTransfers.of(turn[child] + place, parent[child], child, chunk))
    return schedule_of_steps(problem, StepTransfers.joined(rows), parts * slices)


def check(problem: Problem, options: PipelineOptions) -> None:
    """Raise `Unsupported` for networks without such switches, and for too many transfers."""
    topology, kind = problem.topology, problem.collective.kind
    able = able_switches(topology)
    every = aggregation_trees(topology, able) if able else []
    if not every:
        raise METHOD.unsupported(f"needs {Shape.SHARP}; {topology.name} has none")
    edges, ranks = topology.num_nodes - 1, topology.num_ranks
    most = max(len(trees) for trees in every)
    cut = most * max(1, options.slices)
    pieces = ranks * cut if kind in SPREADING else ranks + cut
    check_rows(METHOD, problem, pieces * edges * (2 if kind is Kind.ALLREDUCE else 1))


METHOD = Method(
    name="sharp",
    kind="heuristic",
    synthesize=synthesize,
    options=PipelineOptions,
    capabilities=Capabilities(
        (Kind.ALLREDUCE, *SPREADING, Kind.BROADCAST, Kind.REDUCE), Groups.NONE, shape=Shape.SHARP
    ),
    check=check,
    size_dependent=lambda problem, options: problem.collective.kind in SPREADING or options.slices == 0,
    summary="trees in switches that add and multicast (SHARP, NVLS), in slices",
)

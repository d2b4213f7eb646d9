"""MultiTree: one spanning tree a rank, all grown together, greedily and in time steps.

Huang, Majumder, Kim, Fulton, Puli, Yum, Kim: Communication Algorithm-Architecture Co-Design for Distributed
Deep Learning (ISCA 2021), Algorithm 1. In each time step every link can be used once. The trees take turns;
in its turn a tree adds one rank that it lacks: from the first of its ranks, in the order in which they joined
it, that has a free link to one. When a whole round of turns adds nothing, the next step begins with all links
free again.

What the paper leaves open, and how it is set here:

* Links of different bandwidth are several links of a unit bandwidth (the paper's multi-edges). The unit is
the
  bandwidth of the slowest link (dissertation, section 4.6.5): a link of bandwidth b can be used floor(b /
  unit) times a step.
* Through switches a tree searches breadth first over free links, so a child on the same switch comes before
  one behind further switches (as the paper searches first the same switch, then its neighbours). Ranks do
  not forward. Links are tried in the order of their numbers.
* Of parallel links the one used least so far, for its bandwidth, is taken: the paper's multi-edges are equal.
* In the paper a rank sends only in the steps after the one in which it joined a tree, as its schedule runs in
  lockstep. Here trees are flows (dissertation, section 4.2), so a rank may send in the step in which it
  joined, and steps only count how often links are used. That makes fewer trees share a slow link; option
  ``lockstep`` is the paper's rule.

The trees make an allgather; its rows are in the order in which the trees grew. Reduce-scatter and allreduce
are made from it as everywhere (`schedules.compose.from_allgather`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from tutti.heuristics.classic.steps import check_allgathers
from tutti.schedules.capabilities import Capabilities, Groups
from tutti.schedules.compose import BY_ALLGATHER, from_allgather, shard_seconds
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array
from tutti.topologies.kernels import assign, kernel
from tutti.topologies.options import Flag, Options
from tutti.topologies.topology import Topology
from tutti.topologies.trees.forest import depths


@dataclass(frozen=True)
class MultiTreeOptions(Options):
    """Options of MultiTree.

    Parameters
    ----------
    lockstep
        Whether a rank sends only in the steps after the one in which it joined a tree.

    Raises
    ------
    InputError
        If a value is none of these.
    """

    OWNER: ClassVar[str] = "multitree"

    lockstep: Annotated[bool, Flag(words="allowed: true, false")] = False


def synthesize(problem: Problem, options: MultiTreeOptions, rng: np.random.Generator) -> Schedule:
    """Return MultiTree's schedule, in the flow clock: a whole shard over each edge of its owner's tree.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    return from_allgather(problem, partial(_allgather, lockstep=options.lockstep))


def _allgather(problem: Problem, lockstep: bool) -> Schedule:
    topology = problem.topology
    root, offsets, links = grow_multitree(topology, lockstep=lockstep)
    parent = np.full((topology.num_ranks, topology.num_ranks), -1, np.int32)
    parent[root, topology.target[links[offsets[1:] - 1]]] = topology.source[links[offsets[:-1]]]
    height = np.array([depths(tree).max() for tree in parent])
    stats = {"height": int(height.max()), "mean_height": float(height.mean())}
    chunks, routes = Chunks.even(problem.collective), Routes(offsets, links)
    return problem.schedule(Clock.FLOW, chunks, root, np.arange(len(root)), routes=routes, stats=stats)


def grow_multitree(
    topology: Topology, *, lockstep: bool = False
) -> tuple[Int32Array, Int64Array, Int32Array]:
    """Return the edges of all ranks' trees in the order in which they were added.

    Parameters
    ----------
    topology
        The network.
    lockstep
        As in `MultiTreeOptions`.

    Returns
    -------
    root
        int32, shape (N (N - 1),): the root of the edge's tree.
    offsets, links
        CSR: edge e goes over links[offsets[e] : offsets[e + 1]], through switches only.

    Notes
    -----
    The network is strongly connected, so at the start of a step, when all links are free, the first
    unfinished tree can grow: it ends.

    Examples
    --------
    >>> from tutti.topologies.families.grids import uniring
    >>> root, _, links = grow_multitree(uniring(3))  # a step moves every shard on by one
    >>> root.tolist(), links.tolist()
    ([0, 1, 2, 0, 1, 2], [0, 1, 2, 1, 2, 0])
    """
    bandwidth = topology.bandwidth.numerators
    units, unused = bandwidth // bandwidth.min(), np.zeros(len(bandwidth), np.int64)
    links = _LinkUse(*topology.out_links, topology.source, topology.target, units, units.copy(), unused)
    root, lengths, routes = _grow_all(topology.num_ranks, links, lockstep)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return root, offsets, routes[: offsets[-1]]


class _LinkUse(NamedTuple):
    """The network and the use of its links, as kernels take them."""

    out_offsets: Int64Array
    out_links: Int32Array
    source: Int32Array
    target: Int32Array
    units: Int64Array
    free: Int64Array
    """Units left in this step."""

    used: Int64Array
    """Units taken in all steps."""


class _BreadthFirstScratch(NamedTuple):
    """Scratch of the breadth-first searches."""

    queue: Int32Array
    via: Int32Array
    """The link over which each node was found."""

    found: Int64Array
    """The search in which each switch was last found."""

    barren: Int32Array
    """(roots, nodes): the step in which a switch was last seen to lead to no rank that the tree lacks."""


@kernel
def _grow_all(ranks: int, links: _LinkUse, lockstep: bool) -> tuple[Int32Array, Int64Array, Int32Array]:
    """Return the root and the route's length of each edge, and the routes end to end."""
    nodes = len(links.out_offsets) - 1
    search = _BreadthFirstScratch(
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
        np.full(nodes, -1, np.int64),
        np.full((ranks, nodes), -1, np.int32),
    )
    member = np.zeros((ranks, ranks), np.bool_)
    joined = np.empty((ranks, ranks), np.int32)
    size = np.ones(ranks, np.int64)
    for rank in range(ranks):
        member[rank, rank] = True
        joined[rank, 0] = rank
    edges = ranks * (ranks - 1)
    roots, lengths = np.empty(edges, np.int32), np.empty(edges, np.int64)
    routes = np.empty(2 * edges, np.int32)
    edge, end, step, count = 0, 0, 0, 0
    while edge < edges:
        assign(links.free, links.units)
        senders = size.copy() if lockstep else size
        turn = np.zeros(ranks, np.int64)
        grown = True
        while grown:
            grown = False
            for root in range(ranks):
                child = -1
                # As in the paper, the ranks of a tree are parents in turn, in the order in which they joined;
                # one that reaches no rank has had its turn for this step, since links only fill.
                while size[root] < ranks and child < 0 and turn[root] < senders[root]:
                    count += 1
                    child = _nearest(links, search, member[root], joined[root, turn[root]], root, step, count)
                    turn[root] += child < 0
                if child < 0:
                    continue
                if end + nodes > len(routes):
                    routes = np.concatenate((routes, np.empty(len(routes) + nodes, np.int32)))
                lengths[edge] = _take_route(links, search.via, joined[root, turn[root]], child, routes[end:])
                roots[edge] = root
                end += lengths[edge]
                edge += 1
                member[root, child] = True
                joined[root, size[root]] = child
                size[root] += 1
                grown = True
        step += 1
    return roots, lengths, routes


@kernel
def _nearest(
    links: _LinkUse,
    search: _BreadthFirstScratch,
    member: BoolArray,
    parent: int,
    root: int,
    step: int,
    count: int,
) -> int:
    """Return the nearest rank outside the tree that free links reach from `parent` over switches, or -1.

    Within a step links only fill and trees only grow, so a switch that led nowhere is not searched again.
    """
    search.queue[0] = parent
    first, last = 0, 1
    while first < last:
        node = search.queue[first]
        first += 1
        for position in range(links.out_offsets[node], links.out_offsets[node + 1]):
            link = links.out_links[position]
            head = links.target[link]
            if links.free[link] == 0:
                continue
            if head < len(member):
                if not member[head]:
                    search.via[head] = link
                    return head
            elif search.found[head] != count and search.barren[root, head] != step:
                search.found[head] = count
                search.via[head] = link
                search.queue[last] = head
                last += 1
    # Invariant: switches that led nowhere in this step stay barren until the next one.
    for index in range(1, last):
        search.barren[root, search.queue[index]] = step
    return -1


@kernel
def _take_route(links: _LinkUse, via: Int32Array, parent: int, child: int, route: Int32Array) -> int:
    """Take a unit of each link from `parent` to `child`, write them to `route`; return their number."""
    length, node = 0, child
    while node != parent:
        tail = links.source[via[node]]
        best = via[node]
        for position in range(links.out_offsets[tail], links.out_offsets[tail + 1]):
            link = links.out_links[position]
            # Of parallel links the one with the smallest used part is taken; the fractions are compared
            # crosswise.
            better = links.used[link] * links.units[best] < links.used[best] * links.units[link]
            if links.target[link] == node and links.free[link] > 0 and better:
                best = link
        links.free[best] -= 1
        links.used[best] += 1
        route[length] = best
        length += 1
        node = tail
    assign(route[:length], route[:length][::-1].copy())
    return length


METHOD: Method = Method(
    name="multitree",
    kind="heuristic",
    synthesize=synthesize,
    options=MultiTreeOptions,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE),
    check=lambda problem, options: check_allgathers(METHOD, problem),
    estimate=lambda problem, options: shard_seconds(problem),
    summary="MultiTree: a spanning tree a rank, all grown together greedily, in units of the slowest link",
)

"""Chunks that follow trees: link-chunk matching where each chunk only takes the edges of a tree of its own.

Greedy matching takes any link that brings something new. Where a few slow links join parts of a network that
is a mistake: a chunk may cross twice. So here it is first decided who goes where, by trees of least
congestion, and then when (`detours`): a link takes, of the chunks whose trees lead over it and which are
there, the one with farthest to go. Switches are unwound to several degrees; the trees lead over the links
that stand for them, and the times are those of the real ports.

The trees: in a time T a link that takes c for a chunk carries ⌊T/c⌋ of them. Trees of given numbers at the
roots fit if every rank can be sent a unit from each (Edmonds; without switches that suffices), which is the
case from some least T on. That T is j·c for some j and some c, and is found by bisection among those: no
trees for these chunks have less congestion, α included (ForestColl with a fixed number of trees, dissertation
4.5.5, has the same without α).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from heuristics.tacos.detours import THOROUGH, Effort, HeldRoutes, RoutedTrees, improved
from heuristics.tacos.network import bytes_of_chunk, degrees, tick_of, unwind
from heuristics.tacos.options import AUTO, TREES, TUNING, TacosOptions, check_trees
from schedules.collective import EVERYONE, Collective
from schedules.message_durations import messages, transfer_ticks
from schedules.method import Problem
from schedules.retiming import ends
from schedules.schedule import Chunks, Clock, Schedule
from topologies.exact import BoolArray, Int32Array, Int64Array
from topologies.kernels import kernel
from topologies.topology import Topology
from topologies.trees.forest import Forest, LogicalNetwork
from topologies.trees.packing import pack_counts
from topologies.trees.packing_heuristic import grow_trees
from topologies.trees.tree_counts import sustains

ROUGH = Effort(passes=1, detours=1)
"""Enough to choose between degrees."""

ONCE = Effort(passes=0, detours=0)
"""Enough to choose those that are worth more, for over `Tuning.few_placed` transfers."""


def goes_to_all(what: Collective) -> bool:
    """Return whether each chunk goes to all ranks, or comes from all."""
    copied = what if (what.items.end == EVERYONE).all() else what.reverse
    return what.groups is None and not what.parts and bool((copied.items.end == EVERYONE).all())


def uses_trees(problem: Problem, options: TacosOptions) -> bool:
    """Return whether chunks are to follow trees; where both are made, it is one of two schedules."""
    where, what = problem.topology, problem.collective
    if options.guide == TREES:
        return True
    uneven = bool(where.num_switches) or not where.homogeneous
    few = options.chunks * len(what.items.start) * where.num_ranks <= TUNING.trees_up_to
    return options.guide == AUTO and uneven and few and goes_to_all(what)


class Unwinding(NamedTuple):
    """A network without its switches, and what its links are to carry at most.

    Parameters
    ----------
    blank
        A schedule without transfers, over the routes that stand for its links.
    network
        Of the same ranks.
    ticks
        The longest that some link is busy with it.
    capacity
        int64, shape (links,): trees.
    """

    blank: Schedule
    network: Topology
    ticks: int
    capacity: Int64Array


def along_trees(problem: Problem, size: Fraction, options: TacosOptions) -> Schedule:
    """Return a schedule of an allgather or a broadcast to all ranks, the first to end of several.

    Parameters
    ----------
    problem
        The collective and the network.
    size
        M in bytes.
    options
        Chunks a shard, the degree.

    Raises
    ------
    InputError
        If trees that were asked for outgrow the memory.
    """
    if options.guide == TREES:
        check_trees(problem, options)
    chunks = Chunks.even(problem.collective, options.chunks)
    start = np.repeat(problem.collective.items.start, options.chunks).astype(np.int64)
    found = [
        Unwinding(blank, network, *least_time(network, np.bincount(start, minlength=network.num_ranks), cost))
        for blank, network, cost in unwindings(problem, chunks, size, options.degree)
    ]
    least = min(each.ticks for each in found)
    worth = [
        (each.blank, routed_trees(each, start))
        for each in found
        if each.ticks <= TUNING.worth_placing * least
    ]
    if len(worth) > TUNING.close_degrees and len(start) * problem.topology.num_ranks > TUNING.few_placed:
        worth = _first_to_end(worth, ONCE)[: TUNING.close_degrees]
    blank, made = _first_to_end(worth, ROUGH)[0]
    return placed(blank, made, THOROUGH)


def _first_to_end(
    plans: list[tuple[Schedule, RoutedTrees]], effort: Effort
) -> list[tuple[Schedule, RoutedTrees]]:
    """Return plans by when they end if so much is done for them."""
    if len(plans) == 1:
        return plans
    return sorted(plans, key=lambda each: ends(placed(each[0], each[1], effort)))


def unwindings(
    problem: Problem, chunks: Chunks, size: Fraction, degree: int | None
) -> Iterator[tuple[Schedule, Topology, Int64Array]]:
    """Yield for each degree an empty schedule over the unwound network's links, that network, and costs."""
    where, blank = problem.topology, blank_of(problem, chunks, size)
    if not where.num_switches:
        yield blank, where, link_ticks(blank, held_routes(blank))
        return
    for each in degrees(where) if degree is None else [degree]:
        unwound = unwind(where, each)
        over = blank.replace(routes=unwound.routes)
        yield over, unwound.topology, link_ticks(over, held_routes(over))


def blank_of(problem: Problem, chunks: Chunks, size: Fraction) -> Schedule:
    """Return a schedule without transfers, for chunks of one size, in ticks that suit any."""
    where, nothing = problem.topology, np.zeros(0, np.int32)
    tick = tick_of(where, [bytes_of_chunk(chunks, size)], 2 * len(chunks) * where.num_ranks)
    return Schedule(
        where,
        problem.collective,
        Clock.TIME,
        chunks,
        chunk=nothing,
        route=nothing,
        order=nothing.astype(np.int64),
        tick=tick,
        size=size,
    )


def routed_trees(unwinding: Unwinding, start: Int64Array) -> RoutedTrees:
    """Return a tree for each chunk, given where it starts."""
    network, capacity = unwinding.network, unwinding.capacity
    trees = np.bincount(start, minlength=network.num_ranks)
    parent = parents_of(spanning_forest(network, trees, capacity), start)
    return RoutedTrees(parent, links_of_trees(parent, network, capacity))


def link_ticks(blank: Schedule, routes: HeldRoutes) -> Int64Array:
    """Return how long a chunk holds the worst link of each route, times the routes that share that link."""
    table = blank.route_table
    sharing = np.bincount(table.links, minlength=blank.topology.num_links)
    return np.maximum.reduceat(routes.hold * sharing[table.links], table.offsets[:-1])


def placed(blank: Schedule, made: RoutedTrees, effort: Effort) -> Schedule:
    """Return the schedule in which each chunk follows its tree, but for detours."""
    routes = held_routes(blank)
    found = improved(routes, made, -remaining(routes, made), effort)
    moves = found.trees.route >= 0
    return in_order(blank, np.nonzero(moves)[0], found.trees.route[moves], found.start[moves])


def in_order(
    blank: Schedule, chunk: Int64Array, route: Int32Array, start: Int64Array, reduce: BoolArray | None = None
) -> Schedule:
    """Return the schedule with these transfers, by start; all arrays have shape (transfers,)."""
    order = np.argsort(start, kind="stable")
    return blank.replace(
        chunk=chunk[order],
        route=route[order],
        order=start[order],
        reduce=None if reduce is None else reduce[order],
    )


def held_routes(schedule: Schedule) -> HeldRoutes:
    """Return how long a chunk takes over each route of a schedule, whatever its transfers are."""
    table = schedule.route_table
    each = np.arange(len(table))
    probe = schedule.replace(chunk=np.zeros_like(each), route=each, order=each)
    durations = transfer_ticks(probe, messages(probe))
    lengths = np.diff(table.offsets)
    place = np.repeat(durations.offsets[durations.kind] - table.offsets[:-1], lengths)
    place += np.arange(len(table.links))
    return HeldRoutes(
        table.offsets,
        table.links,
        durations.enter[place],
        durations.hold[place],
        durations.arrival[durations.kind],
        schedule.route_source,
        schedule.route_target,
    )


def remaining(routes: HeldRoutes, trees: RoutedTrees) -> Int64Array:
    """Return the ticks from the start of each transfer until all is done that waits for it, if it is alone.

    Shape (chunks, ranks); 0 at the roots.
    """
    return _heights(trees.parent, np.where(trees.route >= 0, routes.lasts[trees.route], 0))


def _heights(parent: Int32Array, lasts: Int64Array) -> Int64Array:
    """Return the ticks of the longest way down over each node's edge from its parent."""
    longest = lasts.copy()
    piece, node = np.nonzero(parent >= 0)
    while True:
        above = np.zeros_like(longest)
        np.maximum.at(above, (piece, parent[piece, node]), longest[piece, node])
        better = lasts + above
        if np.array_equal(better, longest):
            return longest
        longest = better


def least_time(topology: Topology, trees: Int64Array, cost: Int64Array) -> tuple[int, Int64Array]:
    """Return the least T, and how many trees each link may carry in it.

    Parameters
    ----------
    topology
        Strongly connected, without switches.
    trees
        Shape (ranks,): how many trees have each rank as root.
    cost
        Shape (links,): ticks that each link takes for a chunk.

    Examples
    --------
    >>> from topologies.families.grids import ring
    >>> time, capacity = least_time(ring(4), np.full(4, 2), np.full(8, 10))  # 6 trees in over two links
    >>> time, capacity.tolist()
    (30, [3, 3, 3, 3, 3, 3, 3, 3])
    """

    def fits(time: int) -> bool:
        return sustains(topology.num_ranks, topology.source, topology.target, time // cost, trees)

    costs = np.unique(cost).tolist()
    low, high = 0, int(trees.sum()) * costs[-1]
    while (middle := _middle(costs, low, high)) is not None:
        if fits(middle):
            high = middle
        else:
            low = middle
    return high, high // cost


def _middle(costs: Iterable[int], low: int, high: int) -> int | None:
    """Return a multiple of a cost between two numbers, in the middle if it can be; None for none."""
    between = []
    for cost in costs:
        first, last = low // cost + 1, (high - 1) // cost
        if first <= last:
            between.append((last - first, (first + last) // 2 * cost))
    return max(between)[1] if between else None


def spanning_forest(topology: Topology, trees: Int64Array, capacity: Int64Array) -> Forest:
    """Return as many trees at each root as it is to have, low ones where they are found soon.

    Parameters
    ----------
    topology, trees, capacity
        As of `least_time`.
    """
    used = np.flatnonzero(capacity)
    network = LogicalNetwork(
        topology.num_ranks,
        topology.source[used],
        topology.target[used],
        capacity[used],
        np.arange(len(used) + 1),
        used.astype(np.int32),
    )
    each = int(np.gcd.reduce(trees))
    grown = grow_trees(network, each, (trees // each).tolist()) if np.count_nonzero(trees) > 1 else None
    return pack_counts(network, trees) if grown is None else grown


def parents_of(grown: Forest, root: Int64Array) -> Int32Array:
    """Return a tree for each chunk, shape (chunks, ranks), given the ranks where they start."""
    row = np.repeat(np.arange(len(grown)), grown.weight)
    order = np.argsort(root, kind="stable")
    parent = np.empty((len(root), grown.parent.shape[1]), np.int32)
    parent[order] = grown.parent[row]  # both by root
    return parent


def links_of_trees(parent: Int32Array, network: Topology, capacity: Int64Array) -> Int32Array:
    """Return the link from each node's parent to it, of several the one with most room; -1 without parent.

    Parameters
    ----------
    parent
        Shape (chunks, nodes).
    network
        Of those nodes.
    capacity
        Shape (links,): how many trees each is meant to carry.
    """
    pair = network.source.astype(np.int64) * network.num_nodes + network.target
    by_pair = np.argsort(pair, kind="stable")
    return _links_of_trees(parent, by_pair, pair[by_pair], capacity)


@kernel
def _links_of_trees(
    parent: Int32Array, by_pair: Int64Array, pair: Int64Array, capacity: Int64Array
) -> Int32Array:
    """Return them, given the links by their pairs of ends, and those pairs, each source * nodes + target."""
    chunks, nodes = parent.shape
    room, link = capacity.copy(), np.full(parent.shape, -1, np.int32)
    for chunk in range(chunks):
        for node in range(nodes):
            if parent[chunk, node] < 0:
                continue
            wanted = parent[chunk, node] * np.int64(nodes) + node
            place = np.searchsorted(pair, wanted)
            best = by_pair[place]
            while place < len(pair) and pair[place] == wanted:
                if room[by_pair[place]] > room[best]:
                    best = by_pair[place]
                place += 1
            room[best] -= 1  # Invariant: the room of a link is its capacity less the trees that lead over it.
            link[chunk, node] = best
    return link

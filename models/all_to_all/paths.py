"""A flow as paths, and paths as a flow schedule.

Each path follows links that carry flow, back from a destination to the source, and takes the least of what
the destination still needs and what the links still carry. So it finishes a destination or empties a link: no
source has more paths than destinations and links with flow together. In the schedule a path is one chunk of
its item, sent from end to end over one route.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tutti.models.all_to_all.certificate import FlowError, SourceFlow
from tutti.models.all_to_all.demand import Demand
from tutti.schedules.collective import Collective
from tutti.schedules.schedule import MOST_CHUNKS, Chunks, Clock, Routes, Schedule
from tutti.topologies.errors import NoSchedule
from tutti.topologies.exact import INT64_MAX, Int32Array, Int64Array, IntArray, frozen, offsets_of
from tutti.topologies.graphs.shortest_paths import Adjacency, shortest_routes
from tutti.topologies.kernels import assign, kernel


@dataclass(frozen=True, eq=False)
class PathFlow:
    """Paths that deliver demands, each with its amount: ``amounts / denominator``, in units of M.

    Parameters
    ----------
    demand
        What is to be delivered.
    amounts
        int64, shape (paths,): numerators, positive.
    denominator
        A multiple of the demand's.
    offsets, links
        CSR: path p takes links[offsets[p] : offsets[p + 1]] in this order, at least one.
    """

    demand: Demand
    amounts: Int64Array
    denominator: int
    offsets: Int64Array
    links: Int32Array

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        for name, dtype in (("amounts", np.int64), ("offsets", np.int64), ("links", np.int32)):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype))

    def __len__(self) -> int:
        return len(self.amounts)

    @property
    def source(self) -> Int32Array:
        """int32, shape (paths,): where each starts."""
        return self.demand.topology.source[self.links[self.offsets[:-1]]]

    @property
    def target(self) -> Int32Array:
        """int32, shape (paths,): where each ends."""
        return self.demand.topology.target[self.links[self.offsets[1:] - 1]]

    @cached_property
    def loads(self) -> Int64Array:
        """int64, shape (links,): what crosses each link, over `denominator`."""
        carried = np.repeat(self.amounts, np.diff(self.offsets))
        if carried.sum(dtype=np.float64) >= INT64_MAX / 2:
            raise FlowError(f"the loads of the paths do not fit 64 bits over {self.denominator}")
        loads = np.zeros(self.demand.topology.num_links, dtype=np.int64)
        np.add.at(loads, self.links, carried)
        return loads

    @property
    def reverse(self) -> PathFlow:
        """The paths run backwards, on the transposed network, for the transposed demands."""
        lengths = np.diff(self.offsets)
        within = np.arange(len(self.links)) - np.repeat(self.offsets[:-1], lengths)
        backwards = self.links[np.repeat(self.offsets[1:], lengths) - 1 - within]
        return PathFlow(self.demand.reverse, self.amounts, self.denominator, self.offsets, backwards)

    def check(self) -> None:
        """Raise unless the paths are paths and their amounts sum to each demand exactly.

        Raises
        ------
        FlowError
            Naming the path that breaks off, or the pair that does not get what it needs.
        """
        topology, demand = self.demand.topology, self.demand
        chained = topology.target[self.links[:-1]] == topology.source[self.links[1:]]
        chained[self.offsets[1:-1] - 1] = True
        broken = np.flatnonzero(~chained)
        if len(broken):
            path = int(np.searchsorted(self.offsets, broken[0], side="right")) - 1
            raise FlowError(f"path {path} breaks off after link {topology.link_name(self.links[broken[0]])}")
        if len(self) and self.amounts.min() < 1:
            raise FlowError(f"path {int(np.argmin(self.amounts))} carries nothing")
        given = np.zeros((topology.num_nodes, topology.num_nodes), dtype=object)
        np.add.at(given, (self.source, self.target), self.amounts.astype(object))
        needed = np.zeros_like(given)
        ranks = topology.num_ranks
        needed[:ranks, :ranks] = demand.amounts.astype(object) * self.denominator
        for s, t in np.argwhere(given * demand.denominator != needed)[:1].tolist():
            pair = f"{topology.labels[s]}->{topology.labels[t]}"
            raise FlowError(f"the paths of {pair} do not sum to its demand")


def decompose(flow: SourceFlow) -> PathFlow:
    """Return paths with exactly the flow's amounts on every link, by source, then destination.

    Parameters
    ----------
    flow
        A flow that is conserved and has no cycles, as `models.all_to_all.rounding.exact_flow` returns it.

    Raises
    ------
    FlowError
        If it does not deliver its demands, or has a cycle.
    """
    flow.check()
    demand, topology = flow.demand, flow.demand.topology
    needed = demand.amounts[demand.sources] * (flow.denominator // demand.denominator)
    graph = Adjacency.of(topology)
    supply = Supply(demand.sources, flow.amounts.copy(), needed.copy())
    paths, links = walk_back(graph, supply, PathList.of_size(0, 0))
    if paths < 0:
        raise FlowError(f"the flow of source {topology.labels[demand.sources[-1 - paths]]} has a cycle")
    found = PathList.of_size(paths, links)
    walk_back(graph, Supply(demand.sources, flow.amounts.copy(), needed), found)
    return PathFlow(demand, found.amounts, flow.denominator, offsets_of(found.lengths), found.links)


class Supply(NamedTuple):
    """Arrays that `walk_back` uses up.

    Parameters
    ----------
    sources
        int64, shape (sources,).
    flow
        int64, shape (sources, links): the flow that is left.
    needed
        int64, shape (sources, ranks): the data that each rank still needs.
    """

    sources: Int64Array
    flow: Int64Array
    needed: Int64Array


class PathList(NamedTuple):
    """Paths to be filled in: how many links each has (paths,), all links in turn, and amounts (paths,)."""

    lengths: Int64Array
    links: Int32Array
    amounts: Int64Array

    @classmethod
    def of_size(cls, paths: int, links: int) -> PathList:
        """Return empty arrays for this number of paths, which have this number of links together."""
        return cls(np.empty(paths, np.int64), np.empty(links, np.int32), np.empty(paths, np.int64))


@kernel
def walk_back(graph: Adjacency, supply: Supply, out: PathList) -> tuple[int, int]:
    """Count paths and their links, and write them down if there is room; (-1 - row, 0): row has a cycle."""
    sources, flow, needed = supply
    lengths, links, amounts = out
    path = np.empty(len(graph.in_offsets) - 1, np.int32)
    paths, used = 0, 0
    for row in range(len(sources)):
        for target in range(needed.shape[1]):
            # conservation: a node that still has flow out, or a need, has flow in
            while needed[row, target] > 0:
                length = _widest_links(graph, sources[row], target, flow[row], path)
                if length < 0:
                    return -1 - row, 0
                amount = min(needed[row, target], flow[row][path[:length]].min())
                needed[row, target] -= amount
                for place in range(length):
                    flow[row, path[place]] -= amount
                if len(lengths) > 0:
                    assign(links[used : used + length], path[:length][::-1])
                    lengths[paths], amounts[paths] = length, amount
                paths, used = paths + 1, used + length
    return paths, used


@kernel
def _widest_links(graph: Adjacency, source: int, target: int, flow: Int64Array, path: Int32Array) -> int:
    """Write down the link with most flow into each node back from the target; return how many, -1: cycle."""
    node, length = target, 0
    while node != source:
        best = graph.in_links[graph.in_offsets[node]]
        for position in range(graph.in_offsets[node], graph.in_offsets[node + 1]):
            if flow[graph.in_links[position]] > flow[best]:
                best = graph.in_links[position]
        if length == len(path) - 1 or flow[best] <= 0:
            return -1
        path[length], node = best, graph.tail[best]
        length += 1
    return length


def chunks_of_paths(
    collective: Collective, ends: IntArray, amounts: Int64Array, denominator: int
) -> tuple[Chunks, Int64Array, Int64Array]:
    """Return a table with a chunk for each path and for each item without one.

    Parameters
    ----------
    collective
        A collective with items from one rank to one rank.
    ends
        Shape (paths, 2): the ranks where each starts and ends.
    amounts, denominator
        The data of each path, in units of M.

    Returns
    -------
    tuple
        The table; the chunks of the paths, then of the items without one; and these items.

    Raises
    ------
    NoSchedule
        If there are more chunks than 32 bits count.
    """
    items = collective.items
    item_of_pair = np.zeros((collective.num_ranks,) * 2, dtype=np.int64)
    item_of_pair[items.start, items.end] = np.arange(len(items))
    on_path = item_of_pair[ends[:, 0], ends[:, 1]]
    rest = np.setdiff1d(np.arange(len(items)), on_path)
    if len(ends) + len(rest) > MOST_CHUNKS:
        raise NoSchedule(f"mcf: {len(ends) + len(rest)} chunks; allowed: at most {MOST_CHUNKS}")
    share = items.share.reduced
    whole = share.numerators[rest] * (denominator // share.denominator)
    item, size = np.concatenate([on_path, rest]), np.concatenate([amounts, whole])
    order = np.argsort(item, kind="stable")
    return Chunks(item[order], size[order], denominator), np.argsort(order), rest


def path_schedule(paths: PathFlow, collective: Collective) -> Schedule:
    """Return the flow schedule that sends every path's amount along it; its congestion is that of the paths.

    Switches, and ranks that merely forward, occur inside routes. An item of size zero takes a shortest route.

    Parameters
    ----------
    paths
        Paths that deliver the collective's demands.
    collective
        A collective with items from one rank to one rank.

    Raises
    ------
    NoSchedule
        If there are more chunks than 32 bits count.
    """
    topology, items = paths.demand.topology, collective.items
    ends = np.stack([paths.source, paths.target], axis=1)
    chunks, chunk_of, rest = chunks_of_paths(collective, ends, paths.amounts, paths.denominator)
    away = rest[items.start[rest] != items.end[rest]]
    extra = Routes(*shortest_routes(topology, items.start[away], items.end[away]))
    routes = Routes.joined([Routes(paths.offsets, paths.links), extra])
    moved = np.concatenate([np.arange(len(paths)), len(paths) + np.searchsorted(rest, away)])
    item = chunks.item[chunk_of[moved]]
    start, end = items.start[item], items.end[item]
    # Links stay busy: long routes share links with more others; pairs (s, t) of one s XOR t share no end.
    turn = np.lexsort((start, start ^ end, -np.diff(routes.offsets)))
    return Schedule(
        topology=topology,
        collective=collective,
        clock=Clock.FLOW,
        chunks=chunks,
        chunk=chunk_of[moved][turn],
        route=turn.astype(np.int32),
        routes=routes,
    )

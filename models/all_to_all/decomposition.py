"""A flow as paths: what a schedule is made of.

Each path follows links that carry flow, back from a destination to the source, and takes the least of what
the destination still needs and what the links still carry. So it finishes a destination or empties a link: no
source has more paths than destinations and links with flow together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit

from models.all_to_all.certificate import FlowError, SourceFlow
from models.all_to_all.demand import Demand
from models.all_to_all.incidence import Incidence
from topologies.exact import INT64_MAX, Int32Array, Int64Array, frozen, offsets_of


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
        Conserving and without cycles, as `models.all_to_all.rounding.exact_flow` returns it.

    Raises
    ------
    FlowError
        If it does not deliver its demands, or has a cycle.
    """
    flow.check()
    demand, topology = flow.demand, flow.demand.topology
    needed = demand.amounts[demand.sources] * (flow.denominator // demand.denominator)
    nothing = (np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64))
    graph = Incidence.of(topology)
    paths, links = walk_back(graph, (demand.sources, flow.amounts.copy(), needed.copy()), nothing)
    if paths < 0:
        raise FlowError(f"the flow of source {topology.labels[demand.sources[-1 - paths]]} has a cycle")
    lengths, taken = np.empty(paths, np.int64), np.empty(links, np.int32)
    amounts = np.empty(paths, np.int64)
    walk_back(graph, (demand.sources, flow.amounts.copy(), needed), (lengths, taken, amounts))
    return PathFlow(demand, amounts, flow.denominator, offsets_of(lengths), taken)


@njit(cache=True)
def walk_back(
    graph: Incidence,
    rows: tuple[Int64Array, Int64Array, Int64Array],
    out: tuple[Int64Array, Int32Array, Int64Array],
) -> tuple[int, int]:
    """Count paths and their links, and write them down if there is room; (-1 - row, 0): row has a cycle.

    `rows` are the sources, their flow (sources, links) and what is needed (sources, ranks), which are used
    up; `out` takes the paths' lengths, links and amounts. Conservation makes every node that still has flow
    out, or a need, have flow in.
    """
    sources, flow, needed = rows
    lengths, links, amounts = out
    path = np.empty(len(graph.in_offsets) - 1, np.int32)
    paths, used = 0, 0
    for row in range(len(sources)):
        for target in range(needed.shape[1]):
            while needed[row, target] > 0:
                hops = _widest_links(graph, sources[row], target, flow[row], path)
                if hops < 0:
                    return -1 - row, 0
                amount = min(needed[row, target], flow[row][path[:hops]].min())
                needed[row, target] -= amount
                for place in range(hops):
                    flow[row, path[place]] -= amount
                if len(lengths) > 0:
                    links[used : used + hops] = path[:hops][::-1]
                    lengths[paths], amounts[paths] = hops, amount
                paths, used = paths + 1, used + hops
    return paths, used


@njit(cache=True)
def _widest_links(graph: Incidence, source: int, target: int, flow: Int64Array, path: Int32Array) -> int:
    """Write down the link with most flow into each node back from the target; return how many, -1: cycle."""
    node, hops = target, 0
    while node != source:
        best = graph.in_links[graph.in_offsets[node]]
        for position in range(graph.in_offsets[node], graph.in_offsets[node + 1]):
            if flow[graph.in_links[position]] > flow[best]:
                best = graph.in_links[position]
        if hops == len(path) - 1 or flow[best] <= 0:
            return -1
        path[hops], node = best, graph.tail[best]
        hops += 1
    return hops

"""Linear program (A.1) reduced by symmetry: one source a node orbit, one capacity a link orbit.

Minimize θ over flows y_s by source (f = 1/θ) that carry demand(s, t) from s to t. For every link e,
sum over s of y_s(e) ≤ θ capacity(e). Let G be a group of automorphisms that leave the demand as it is. *Proof
that the reduced problem has the same optimum:* averaging a flow over G keeps it a flow, keeps the sum of the
loads within each link orbit O and makes them equal there. So only sum over e in O of load(e) ≤ θ capacity(O)
is needed. In an averaged flow the sources of an orbit are images of one another, so they load O as its
representative does, times the size of the orbit.

Lengths that are constant on link orbits give the dual bound: θ ≥ sum of demand x distance / sum of capacity
x length. `averaged` makes the flow that a representative's own symmetries leave as it is.

Source: dissertation A.1.5; the averaging is folklore.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from tutti.models.all_to_all.certificate import SourceFlow, largest_ratio
from tutti.models.all_to_all.demand import Demand
from tutti.models.all_to_all.rounding import FINE_LENGTH, cancel_cycles
from tutti.topologies.exact import INT64_MAX, FloatArray, Int32Array, Int64Array, frozen
from tutti.topologies.graphs.shortest_paths import Adjacency, ShortestTree, shortest_tree
from tutti.topologies.graphs.symmetry import (
    DEFAULT_EFFORT,
    AutomorphismGroup,
    automorphisms,
    twin_permutation,
)
from tutti.topologies.kernels import kernel

MOST_ELEMENTS = 4096
"""Most elements of a group that is listed, which takes seconds with a thousand ranks. With a larger value
more networks are solved on orbits."""


class ReducedProblem:
    """All-to-all on representatives of the orbits.

    Parameters
    ----------
    group
        Automorphisms of the network; only those that leave the demand as it is are used.
    demand
        The demand on the network.

    Attributes
    ----------
    whole, group
        The demand, and those automorphisms.
    sources
        int64 (sources,): one rank of each orbit that sends something.
    weights
        int64 (sources,): the sizes of those orbits.
    demand
        int64 (sources, nodes): what each sends to each node; numerators.
    orbit
        int32 (links,): the number, from 0, of each link's orbit.
    capacity
        int64 (orbits,): the total bandwidth of each; numerators.
    num_orbits
        Orbits of links.
    unit
        The factor from load over capacity, both as numerators, to s/B of M.
    """

    def __init__(self, group: AutomorphismGroup, demand: Demand) -> None:
        self.whole, self.topology = demand, demand.topology
        self.group, ranks = group.preserving(demand.amounts), self.topology.num_ranks
        sources, weights = np.unique(self.group.node_orbits[:ranks], return_counts=True)
        sending = demand.amounts[sources].any(axis=1)
        self.sources, self.weights = sources[sending].astype(np.int64), weights[sending].astype(np.int64)
        first, orbit = np.unique(self.group.link_orbits, return_inverse=True)
        self.orbit, self.num_orbits = orbit.reshape(-1).astype(np.int32), len(first)
        self.capacity = np.zeros(self.num_orbits, dtype=np.int64)
        np.add.at(self.capacity, self.orbit, self.topology.bandwidth.numerators)
        self.demand = np.zeros((len(self.sources), self.topology.num_nodes), dtype=np.int64)
        self.demand[:, :ranks] = demand.amounts[self.sources]
        self.unit = Fraction(self.topology.bandwidth.denominator, demand.denominator)

    @cached_property
    def represented(self) -> Demand:
        """The demands of the representatives alone."""
        amounts = np.zeros_like(self.whole.amounts)
        amounts[self.sources] = self.whole.amounts[self.sources]
        return Demand(self.topology, amounts, self.whole.denominator)

    @cached_property
    def greatest_length(self) -> int:
        """Integer lengths up to this keep every cost of `shortest_loads` within 64 bits."""
        largest = int(self.demand.sum(axis=1).max()) * self.topology.num_nodes
        return min(FINE_LENGTH, INT64_MAX // (2 * largest))

    def integer_lengths(self, lengths: FloatArray) -> Int64Array:
        """Return lengths (orbits,) as integers up to `greatest_length`."""
        return np.rint(np.maximum(lengths, 0) * (self.greatest_length / lengths.max())).astype(np.int64)

    def shortest_loads(self, lengths: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the loads (sources, orbits) and costs (sources,) of shortest paths for lengths (orbits,)."""
        loads = np.zeros((len(self.sources), self.num_orbits), dtype=np.int64)
        graph = Adjacency.of(self.topology)
        costs = _tree_loads(graph, lengths[self.orbit], (self.sources, self.demand), self.orbit, loads)
        return loads, costs

    def tree_flow(self, row: int, lengths: Int64Array) -> Int64Array:
        """Return the load of source `row` on each link (links,) by the tree of `shortest_loads`."""
        each = np.arange(self.topology.num_links, dtype=np.int32)
        flow = np.zeros((1, self.topology.num_links), dtype=np.int64)
        given = self.sources[row : row + 1], self.demand[row : row + 1]
        _tree_loads(Adjacency.of(self.topology), lengths[self.orbit], given, each, flow)
        return flow[0]

    def lower_bound(self, lengths: Int64Array, costs: Int64Array) -> Fraction:
        """Return the exact bound by lengths (orbits,), with the costs of their shortest paths (sources,)."""
        total = sum(int(w) * int(cost) for w, cost in zip(self.weights, costs, strict=True))
        room = sum(int(c) * int(length) for c, length in zip(self.capacity, lengths, strict=True))
        return self.unit * Fraction(total, room)

    def upper_bound(self, flow: SourceFlow) -> Fraction:
        """Return the congestion of a flow of `represented`, averaged over the group: exact, in s/B of M.

        Raises
        ------
        FlowError
            If it does not deliver exactly.
        """
        flow.check()
        loads = np.zeros(self.num_orbits, dtype=object)
        for weight, amounts in zip(self.weights.tolist(), flow.amounts, strict=True):
            sums = np.zeros(self.num_orbits, dtype=np.int64)
            np.add.at(sums, self.orbit, amounts)
            loads += weight * sums.astype(object)
        worst = largest_ratio(loads, self.capacity)
        return worst * self.topology.bandwidth.denominator / flow.denominator


def symmetries(demand: Demand, effort: int = DEFAULT_EFFORT) -> AutomorphismGroup:
    """Return a group of automorphisms that leave the demand as it is; `effort` as of `automorphisms`.

    An automorphism keeps the amounts that a rank sends and receives, in some order. Where no two ranks have
    the same amounts, there is only the identity, and nothing is searched for.
    """
    topology, amounts = demand.topology, demand.amounts
    rows = np.hstack([np.sort(amounts, axis=1), np.sort(amounts.T, axis=1)])
    seen = {row.tobytes() for row in rows}
    if len(seen) < topology.num_ranks:
        return automorphisms(topology, effort).preserving(amounts)
    nothing = (np.zeros((0, size), np.int32) for size in (topology.num_nodes, topology.num_links))
    return AutomorphismGroup(topology, *(frozen(maps, np.int32) for maps in nothing))


def averaged(
    problem: ReducedProblem, flow: SourceFlow, most_elements: int = MOST_ELEMENTS
) -> SourceFlow | None:
    """Return each representative's flow, averaged over its images under the elements that fix it.

    These are the representatives' rows of the flow averaged over the whole group, whose congestion is what
    `problem.upper_bound` says. Parallel links of equal bandwidth share evenly.

    Returns
    -------
    SourceFlow or None
        None if the group has more than `most_elements` elements, or the sums do not fit 64 bits.
    """
    listed = problem.group.elements(most_elements)
    if listed is None:
        return None
    nodes, links = listed
    fixing = [len(nodes) // weight for weight in problem.weights.tolist()]
    twins = twin_permutation(problem.topology)
    alike = np.bincount(twins, minlength=len(twins))[twins]
    common, parallel = math.lcm(*fixing), math.lcm(*np.unique(alike).tolist())
    largest = float(flow.amounts.sum(axis=1, dtype=np.float64).max())
    if largest * common * parallel >= INT64_MAX / 2:
        return None
    amounts = np.zeros_like(flow.amounts)
    for row, source in enumerate(problem.sources.tolist()):
        share = flow.amounts[row] * (common // fixing[row])
        for moved in links[nodes[:, source] == source]:
            amounts[row, moved] += share
    sums = np.zeros_like(amounts)  # the sums over links that are parallel and equal
    np.add.at(sums.T, twins, amounts.T)
    spread = sums[:, twins] * (parallel // alike)
    return SourceFlow(problem.represented, spread, flow.denominator * common * parallel)


def without_cycles(flow: SourceFlow) -> SourceFlow:
    """Return the flow without its cycles, which images of one flow may form together; no load grows."""
    graph, amounts = Adjacency.of(flow.demand.topology), flow.amounts.copy()
    order = np.empty(flow.demand.topology.num_nodes, dtype=np.int64)
    for row in amounts:
        cancel_cycles(graph, row, order)
    return SourceFlow(flow.demand, amounts, flow.denominator)


@kernel
def _tree_loads(
    graph: Adjacency, lengths: Int64Array, given: Any, orbit: Int32Array, loads: Int64Array
) -> Int64Array:
    """Add what each source's demand loads on each link orbit along shortest paths, and return its cost.

    Given are the sources and their demand, (sources, nodes); `loads` is (sources, orbits). The cost of a
    source is the sum of demand times distance, which equals the sum of load times length.
    """
    (sources, demand), num_nodes = given, len(graph.out_offsets) - 1
    distance = np.empty(num_nodes, np.int64)
    parent, order = np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32)
    costs = np.zeros(len(sources), np.int64)
    for row in range(len(sources)):
        reached = shortest_tree(graph, lengths, sources[row], ShortestTree(distance, parent, order))
        below = demand[row].copy()
        for place in range(reached - 1, 0, -1):  # farthest first, so that all that a node passes on is known
            node = order[place]
            link = parent[node]
            costs[row] += demand[row, node] * distance[node]
            below[graph.tail[link]] += below[node]
            loads[row, orbit[link]] += below[node]
    return costs

"""Linear program (A.1) by a first-order method, for networks with little symmetry and thousands of ranks.

The primal-dual hybrid gradient method with Halpern's anchor, reflection and restarts solves the saddle point,
of flows y_s ≥ 0, potentials π_s and lengths l ≥ 0 with sum of capacity x length = K:

    sum over s of weight_s ( sum over e of l(e) y_s(e)  +  sum over v of π_s(v) (demand(s, v) - (A y_s)(v)) )

with (A y)(v) what y brings to v less what it takes away. A step T moves y down and then π and l up their
gradients, each by its own step (Pock and Chambolle); the iteration is Halpern's,
z <- (k+1)/(k+2) (2 T z - z) + 1/(k+2) z_0. Memory is a few arrays (sources, links).

From time to time the method's state is made into proofs, whatever its accuracy. The lengths become integers,
which give a lower bound by shortest paths. The flows become integers that deliver the demand exactly, which
give an upper bound by their loads.

Source: Chambolle and Pock 2011 and 2011b (diagonal steps); Lu and Yang, Restarted Halpern PDHG for linear
programming, 2024 (restarts and primal weight as there).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tutti.models.all_to_all.certificate import Interval, SourceFlow
from tutti.models.all_to_all.reduction import ReducedProblem
from tutti.models.all_to_all.rounding import exact_flow
from tutti.topologies.errors import NoSchedule
from tutti.topologies.exact import FloatArray, Int32Array, Int64Array
from tutti.topologies.graphs.shortest_paths import Adjacency, ShortestTree, shortest_tree
from tutti.topologies.kernels import assign, kernel, now
from tutti.topologies.topology import Topology


class FirstOrderTuning(NamedTuple):
    """The parameters of the method; restarts have Lu and Yang's 0.2, 0.8 (both squared) and 0.36."""

    first_check: int
    """Iterations before the first proofs. After each check, the next one comes when a fourth more are
    done."""
    primal_weight: float
    """First ratio of dual to primal moves, with loads near 1 a link and lengths near 1."""
    sufficient: float
    """Fraction of the first residual at which to restart."""
    necessary: float
    """Fraction of the first residual at which to restart when it rises again."""
    artificial: float
    """Fraction of all iterations after which to restart in any case."""


TUNING = FirstOrderTuning(
    first_check=200, primal_weight=0.15, sufficient=0.04, necessary=0.64, artificial=0.36
)


class SaddlePoint(NamedTuple):
    """Flows (sources, links), potentials (sources, nodes) and lengths (orbits,)."""

    flows: FloatArray
    potentials: FloatArray
    lengths: FloatArray

    def copy(self) -> SaddlePoint:
        """Return one with arrays of its own."""
        return SaddlePoint(self.flows.copy(), self.potentials.copy(), self.lengths.copy())


class LinkEnds(NamedTuple):
    """The ends of links, and their orbits, int32 (links,) each."""

    tail: Int32Array
    head: Int32Array
    orbit: Int32Array


class Commodities(NamedTuple):
    """Sources, int64 (sources,), the weights of their orbits, and their demand, (sources, nodes)."""

    sources: Int64Array
    weights: FloatArray
    demand: FloatArray


class Steps(NamedTuple):
    """The flows' step, the potentials' steps (nodes,), and Halpern's share (k+1)/(k+2)."""

    flows: float
    potentials: FloatArray
    share: float


class PrimalDual:
    """The method's state and what has been proven.

    Parameters
    ----------
    problem
        The problem on orbits.
    """

    def __init__(self, problem: ReducedProblem) -> None:
        self.problem = problem
        topology = problem.topology
        self.iterations = 0
        self._unit = float(problem.demand.sum()) / np.count_nonzero(problem.demand)
        self._commodities = Commodities(
            problem.sources, problem.weights.astype(np.float64), problem.demand / self._unit
        )
        self._ends = LinkEnds(topology.source, topology.target, problem.orbit)
        slow = np.bincount(problem.orbit) / problem.capacity
        self.lengths = problem.integer_lengths(slow)
        self.lower = problem.lower_bound(self.lengths, problem.shortest_loads(self.lengths)[1])
        self.upper: Fraction | None = None
        self.flow: SourceFlow | None = None
        self._capacity = problem.capacity * (float(self.lower / problem.unit) / self._unit)
        self._total = float(self._capacity.sum())
        lengths = slow * (self._total / float(slow @ self._capacity))
        demand = self._commodities.demand
        flows, potentials = even_flows(topology, problem.sources, demand, lengths[problem.orbit])
        self._now = SaddlePoint(flows, potentials, lengths)
        self._anchor = self._now.copy()
        self._degrees = (topology.in_degrees + topology.out_degrees).astype(np.float64)
        self._shared = np.bincount(problem.orbit) * float(self._commodities.weights.sum())
        self._weight, self._since, self._first, self._last = TUNING.primal_weight, 0, 0.0, np.inf

    def run(self, tolerance: float, time_limit: float | None = None) -> Interval:
        """Iterate until the proven relative gap is at most `tolerance`, or the seconds have passed.

        Raises
        ------
        NoSchedule
            If the time ends before the first iteration.
        """
        end = now() + (np.inf if time_limit is None else time_limit)
        check = TUNING.first_check
        while now() < end:
            self._iterate()
            if self.iterations >= check:
                check += check // 4
                if self.prove() <= tolerance:
                    break
        if self.iterations == 0:
            raise NoSchedule(f"all-to-all on {self.problem.topology.name}: no time for one iteration")
        self.prove()
        return Interval(self.lower, self.upper or self.lower)

    def prove(self) -> float:
        """Improve the bounds by the present state, and return the relative gap."""
        problem = self.problem
        lengths = problem.integer_lengths(self._now.lengths)
        bound = problem.lower_bound(lengths, problem.shortest_loads(lengths)[1])
        if bound > self.lower:
            self.lower, self.lengths = bound, lengths
        of_largest = self._unit / float(problem.demand.max())  # flows are in units of the mean demand
        flow = exact_flow(problem.represented, np.maximum(self._now.flows, 0) * of_largest)
        bound = problem.upper_bound(flow)
        if self.upper is None or bound < self.upper:
            self.upper, self.flow = bound, flow
        return float(self.upper / self.lower - 1)

    @property
    def best_flow(self) -> SourceFlow:
        """The flow of the representatives that `upper` is of.

        Raises
        ------
        NoSchedule
            Before there is one.
        """
        if self.flow is None:
            raise NoSchedule(f"all-to-all on {self.problem.topology.name}: no flow was proven yet")
        return self.flow

    def _iterate(self) -> None:
        """Do an iteration, and restart from its result when the residual asks for it."""
        now, anchor, weight = self._now, self._anchor, self._weight
        share = (self._since + 1) / (self._since + 2)
        loads = np.empty_like(now.lengths)
        steps = Steps(1 / (3 * weight), weight / self._degrees, share)
        flow_move, potential_move = iterate(self._ends, self._commodities, now, anchor, steps, loads)
        length_steps = np.asarray(weight / self._shared, dtype=np.float64)
        forward = _onto_capacity(
            now.lengths + length_steps * loads, length_steps, self._capacity, self._total
        )
        length_move = float(((forward - now.lengths) ** 2 / length_steps).sum())
        now.lengths[:] = share * (2 * forward - now.lengths) + (1 - share) * anchor.lengths
        self.iterations += 1
        self._since += 1
        self._restart_if_due(3 * weight * flow_move + potential_move + length_move)

    def _restart_if_due(self, residual: float) -> None:
        if self._since == 1:
            self._first, self._last = residual, np.inf
            return
        stalled = residual <= TUNING.necessary * self._first and residual > self._last
        long = self._since >= max(TUNING.artificial * self.iterations, 50)
        if residual <= TUNING.sufficient * self._first or stalled or long:
            self._reweigh()
            self._anchor = self._now.copy()
            self._since = 0
        self._last = residual

    def _reweigh(self) -> None:
        """Move the primal weight half way, in logarithms, to the ratio of the dual to the primal distance."""
        weights = self._commodities.weights[:, None]
        now, anchor = self._now, self._anchor
        primal = 3 * float((weights * (now.flows - anchor.flows) ** 2).sum())
        dual = float((weights * self._degrees * (now.potentials - anchor.potentials) ** 2).sum())
        dual += float((self._shared * (now.lengths - anchor.lengths) ** 2).sum())
        if primal > 0 and dual > 0:
            self._weight = float((dual / primal) ** 0.25 * self._weight**0.5)


def _onto_capacity(values: FloatArray, steps: FloatArray, capacity: FloatArray, total: float) -> FloatArray:
    """Return the nearest lengths ≥ 0 with sum of capacity x length = total, by squares over `steps`.

    They are max(0, values - steps μ capacity), and the sum falls with μ: sort by where each becomes 0.
    """
    zero_at = values / (steps * capacity)
    order = np.argsort(-zero_at)
    sums = np.cumsum((capacity * values)[order])
    slopes = np.cumsum((steps * capacity**2)[order])
    multipliers = (sums - total) / slopes
    last = np.flatnonzero(multipliers < zero_at[order])[-1]
    return np.maximum(values - steps * multipliers[last] * capacity, 0)


@kernel
def iterate(
    ends: LinkEnds,
    commodities: Commodities,
    now: SaddlePoint,
    anchor: SaddlePoint,
    steps: Steps,
    loads: FloatArray,
) -> tuple[float, float]:
    """Do the flows' and the potentials' part of an iteration on `now`, whose lengths stay.

    All sources are done in one pass over the flows, each source's arrays in cache while they are used. Set
    `loads` (orbits,) to those of the extrapolated flows; return the squared moves of flows and potentials.
    """
    tail, target, orbit = ends
    sources, weights, demand = commodities
    step, node_steps, share = steps
    lengths = now.lengths
    flow_move, potential_move = 0.0, 0.0
    gain = np.empty(len(node_steps))
    loads[:] = 0.0
    for row in range(len(sources)):
        y, y_anchor, weight = now.flows[row], anchor.flows[row], weights[row]
        potential, potential_anchor = now.potentials[row], anchor.potentials[row]
        assign(gain, demand[row])
        moved = 0.0
        for e in range(len(tail)):
            u, v, o = tail[e], target[e], orbit[e]
            forward = max(0.0, y[e] - step * (lengths[o] - potential[v] + potential[u]))
            beyond = 2.0 * forward - y[e]  # π and l move by the extrapolated flows (Chambolle and Pock)
            gain[v] -= beyond
            gain[u] += beyond
            loads[o] += weight * beyond
            moved += (forward - y[e]) ** 2
            y[e] = share * beyond + (1.0 - share) * y_anchor[e]
        flow_move += weight * moved
        gain[sources[row]] = 0.0  # the source's potential is 0
        moved = 0.0
        for v in range(len(gain)):
            change = node_steps[v] * gain[v]
            moved += change * gain[v]
            potential[v] = share * (potential[v] + 2.0 * change) + (1.0 - share) * potential_anchor[v]
        potential_move += weight * moved
    return flow_move, potential_move


def even_flows(
    topology: Topology, sources: Int64Array, demand: FloatArray, lengths: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return flows (sources, links) split evenly over the shortest paths for lengths (links,), and distances.

    `demand` is (sources, nodes); distances are (sources, nodes).
    """
    flows = np.zeros((len(sources), topology.num_links))
    distances = np.empty((len(sources), topology.num_nodes))
    _split_evenly(Adjacency.of(topology), lengths, (sources, demand), (flows, distances))
    return flows, distances


@kernel
def _split_evenly(graph: Adjacency, lengths: FloatArray, given: Any, found: Any) -> None:
    """Bring to each node, from the farthest on, its needs in equal parts over its links on shortest paths.

    Given are the sources and the demand, and written the flows and the distances.
    """
    (sources, demand), (flows, distances) = given, found
    num_nodes = distances.shape[1]
    parent, order = np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32)
    for row in range(len(sources)):
        distance = distances[row]
        reached = shortest_tree(graph, lengths, sources[row], ShortestTree(distance, parent, order))
        need = demand[row].copy()
        # Invariant: when a node's turn comes, all that farther nodes need through it has been added to its
        # need.
        for place in range(reached - 1, 0, -1):
            node, tight = order[place], 0
            for position in range(graph.in_offsets[node], graph.in_offsets[node + 1]):
                link = graph.in_links[position]
                tight += _is_tight(distance[graph.tail[link]], distance[node], lengths[link])
            for position in range(graph.in_offsets[node], graph.in_offsets[node + 1]):
                link = graph.in_links[position]
                if _is_tight(distance[graph.tail[link]], distance[node], lengths[link]):
                    flows[row, link] = need[node] / tight
                    need[graph.tail[link]] += need[node] / tight


@kernel
def _is_tight(before: float, after: float, length: float) -> bool:
    return before < after and before + length <= after * (1 + 1e-12)

"""All-to-all by a first-order method, for networks with little symmetry and thousands of ranks.

The primal-dual hybrid gradient method on LP (A.1) with Halpern's anchor, reflection and restarts, on the
representatives of the orbits (`models.all_to_all.halpern` has the iteration). Memory is a few arrays
(sources, links). From time to time its state is made into proofs, whatever its accuracy: the lengths into
integers, which give a lower bound by shortest paths, and the flows into integers that deliver the demand
exactly, which give an upper bound by their loads.

Source: Chambolle and Pock 2011 and 2011b (diagonal steps); Lu and Yang, Restarted Halpern PDHG for linear
programming, 2024 (restarts and primal weight as there).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from models.all_to_all.certificate import Interval, SourceFlow
from models.all_to_all.halpern import iterate
from models.all_to_all.orbits import ReducedProblem
from models.all_to_all.paths import even_flows
from models.all_to_all.rounding import exact_flow
from topologies.errors import NoSchedule
from topologies.exact import FloatArray

_FIRST_CHECK = 200
"""Iterations before the first proofs; each next check is a fourth as many later again."""

_PRIMAL_WEIGHT = 0.15
"""The first ratio of dual to primal moves, with loads near 1 a link and lengths near 1."""

_SUFFICIENT, _NECESSARY, _ARTIFICIAL = 0.04, 0.64, 0.36
"""Restart when the squared residual falls to this, or to that and rises again, or so long into the run."""


@dataclass
class _State:
    """Flows (sources, links), potentials (sources, nodes) and lengths (orbits,)."""

    flows: FloatArray
    potentials: FloatArray
    lengths: FloatArray

    def copy(self) -> _State:
        return _State(self.flows.copy(), self.potentials.copy(), self.lengths.copy())


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
        self._rows = (problem.sources, problem.weights.astype(np.float64), problem.demand / self._unit)
        self._ends = (topology.source, topology.target, problem.orbit)
        slow = np.bincount(problem.orbit) / problem.capacity
        self.lengths = problem.integer_lengths(slow)
        self.lower = problem.lower_bound(self.lengths, problem.shortest_loads(self.lengths)[1])
        self.upper: Fraction | None = None
        self.flow: SourceFlow | None = None
        self._capacity = problem.capacity * (float(self.lower / problem.unit) / self._unit)
        self._total = float(self._capacity.sum())
        lengths = slow * (self._total / float(slow @ self._capacity))
        flows, potentials = even_flows(topology, problem.sources, self._rows[2], lengths[problem.orbit])
        self._now = _State(flows, potentials, lengths)
        self._anchor = self._now.copy()
        self._degrees = (topology.in_degrees + topology.out_degrees).astype(np.float64)
        self._shared = np.bincount(problem.orbit) * float(self._rows[1].sum())
        self._weight, self._since, self._first, self._last = _PRIMAL_WEIGHT, 0, 0.0, np.inf

    def run(self, tolerance: float, time_limit: float | None = None) -> Interval:
        """Iterate until the proven relative gap is at most `tolerance`, or the seconds are over.

        Raises
        ------
        NoSchedule
            If the time is over before the first iteration.
        """
        end = time.monotonic() + (np.inf if time_limit is None else time_limit)
        check = _FIRST_CHECK
        while time.monotonic() < end:
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
        """Improve the bounds by what the state is, and return the relative gap."""
        problem = self.problem
        lengths = problem.integer_lengths(self._now.lengths)
        bound = problem.lower_bound(lengths, problem.shortest_loads(lengths)[1])
        if bound > self.lower:
            self.lower, self.lengths = bound, lengths
        flow = exact_flow(problem.represented, np.maximum(self._now.flows, 0) * self._of_largest)
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

    @property
    def _of_largest(self) -> float:
        """Flows here are in units of the mean demand; `exact_flow` wants the largest."""
        return self._unit / float(self.problem.demand.max())

    def _iterate(self) -> None:
        """Do an iteration, and restart from where it led when the residual asks for it."""
        now, anchor, weight = self._now, self._anchor, self._weight
        share = (self._since + 1) / (self._since + 2)
        loads = np.empty_like(now.lengths)
        flow_move, potential_move = iterate(
            self._ends,
            self._rows,
            ((now.flows, anchor.flows), (now.potentials, anchor.potentials), now.lengths),
            (1 / (3 * weight), weight / self._degrees, share),
            loads,
        )
        steps = np.asarray(weight / self._shared, dtype=np.float64)
        forward = _onto_capacity(now.lengths + steps * loads, steps, self._capacity, self._total)
        length_move = float(((forward - now.lengths) ** 2 / steps).sum())
        now.lengths = share * (2 * forward - now.lengths) + (1 - share) * anchor.lengths
        self.iterations += 1
        self._since += 1
        self._restart_if_due(3 * weight * flow_move + potential_move + length_move)

    def _restart_if_due(self, residual: float) -> None:
        if self._since == 1:
            self._first, self._last = residual, np.inf
            return
        stalled = residual <= _NECESSARY * self._first and residual > self._last
        long = self._since >= max(_ARTIFICIAL * self.iterations, 50)
        if residual <= _SUFFICIENT * self._first or stalled or long:
            self._reweigh()
            self._anchor = self._now.copy()
            self._since = 0
        self._last = residual

    def _reweigh(self) -> None:
        """Move the primal weight half way, in logarithms, to the ratio of the dual to the primal distance."""
        weights = self._rows[1][:, None]
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

"""The optimum of linear program (A.1), proven: a solver's answer as lengths and a flow of integers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from models.all_to_all.certificate import Interval, SourceFlow, lower_bound, upper_bound
from models.all_to_all.decomposition import PathFlow, decompose
from models.all_to_all.demand import Demand
from models.all_to_all.matrices import FlowMatrices, flow_matrices
from models.all_to_all.rounding import MOST_COMMON, PARTS, common_parts, exact_flow, rational_lengths
from models.solvers import Feature, SolverResult, solve
from models.solvers.registry import find_backend
from topologies.errors import NoSchedule
from topologies.exact import FloatArray, Int64Array
from topologies.topology import Topology

BASIC_COLUMNS = 20_000
"""Up to here HiGHS ends in a basic solution, whose values are simple; above, PDLP is much faster."""

TOLERANCES = (1e-5, 1e-6, 1e-7, 1e-8)
"""Of PDLP, relative, until `GAP` is proven; what it finds at first is mostly proven to less than 1e-5."""

GAP = Fraction(1, 10_000)
"""The interval that will do."""


@dataclass(frozen=True)
class Solving:
    """How to solve the linear program; None leaves it to size.

    Parameters
    ----------
    solver
        A name in `models.solvers`.
    algorithm
        Of HiGHS: ``"simplex"``, ``"ipm"``, ``"pdlp"``, ...
    tolerance
        The solver's. Without one, PDLP is asked again, more finely, until the interval is within `GAP`.
    time_limit
        Seconds.
    """

    solver: str = "highs"
    algorithm: str | None = None
    tolerance: float | None = None
    time_limit: float | None = None

    def attempts(self, columns: int) -> Iterator[Any]:
        """Yield the solver's options, finer each time; together they keep the time limit."""
        backend = find_backend(self.solver, {Feature.LP, Feature.DUALS})
        given: dict[str, Any] = {}
        if self.solver == "highs":
            given["method"] = self.algorithm or ("ipm" if columns <= BASIC_COLUMNS else "pdlp")
        if self.tolerance is not None:
            tolerances: tuple[float | None, ...] = (self.tolerance,)
        else:
            tolerances = TOLERANCES if given.get("method") == "pdlp" else (None,)
        begin = time.perf_counter()
        for tolerance in tolerances:
            left = None if self.time_limit is None else self.time_limit - (time.perf_counter() - begin)
            if left is not None and left <= 0:
                return
            yield backend.options(**given, tolerance=tolerance, time_limit=left)


@dataclass(frozen=True, eq=False)
class Optimum:
    """An optimum with its proofs.

    Parameters
    ----------
    demand
        What was asked.
    interval
        Where the least time lies, s/B of M: ``lower`` by `lengths`, ``upper`` by `flow`.
    lengths
        int64, shape (links,).
    flow
        What takes ``interval.upper``; of the reversed demands on the transposed network, if `backwards`.
    backwards
        Whether there were fewer destinations than sources, so that those were the commodities.
    stats
        What it cost: ``build_s``, ``solve_s``, ``variables``, ``constraints``, ``solver``, ``solver_gap``.
    """

    demand: Demand
    interval: Interval
    lengths: Int64Array
    flow: SourceFlow | PathFlow
    backwards: bool
    stats: dict[str, Any]

    @cached_property
    def paths(self) -> PathFlow:
        """The flow as paths for the demands as asked."""
        paths = self.flow if isinstance(self.flow, PathFlow) else decompose(self.flow)
        return paths.reverse if self.backwards else paths


def columns_of(demand: Demand) -> int:
    """Return about how many variables the linear program of these demands has."""
    return min(len(demand.sources), len(demand.sinks)) * demand.topology.num_links + 1


def solve_demand(demand: Demand, how: Solving | None = None) -> Optimum:
    """Return the optimum of linear program (A.1) with a lower and an upper bound that hold exactly.

    Parameters
    ----------
    demand
        The network, and what each rank sends to each other.
    how
        The solver and its options.

    Raises
    ------
    NoSchedule
        If the solver stops without a solution.
    InputError, Unsupported
        If the solver is unknown, not installed, or no LP solver with duals.
    """
    begin, how = time.perf_counter(), how or Solving()
    backwards = len(demand.sinks) < len(demand.sources)
    matrices = flow_matrices(demand.reverse if backwards else demand)
    solve_s, best = 0.0, None
    for options in how.attempts(matrices.model.num_columns):
        result = solve(matrices.model, how.solver, options, {Feature.DUALS})
        solve_s += result.solve_s
        if best is not None and result.values is None:
            break
        lower, lengths = best_lengths(matrices.demand, _duals(matrices, result))
        upper, flow = _best_flow(matrices.demand, matrices.flows(_values(result)), lower)
        if best is None or upper / lower < best[0].upper / best[0].lower:
            best = Interval(lower, upper), lengths, flow
        if best[0].gap <= GAP:
            break
    if best is None:
        raise NoSchedule("mcf: the solver was never asked")
    interval, lengths, flow = best
    stats = {
        "build_s": time.perf_counter() - begin - solve_s,
        "solve_s": solve_s,
        "variables": matrices.model.num_columns,
        "constraints": matrices.model.num_rows,
        "solver": f"{result.solver} {result.version}",
        "solver_gap": float(interval.gap),
    }
    return Optimum(demand, interval, lengths, flow, backwards, stats)


def best_lengths(demand: Demand, duals: FloatArray | None = None) -> tuple[Fraction, Int64Array]:
    """Return the best lower bound, and its lengths, by these duals, equal lengths and inverse bandwidths."""
    topology = demand.topology
    candidates = [np.ones(topology.num_links, dtype=np.int64)]
    if not topology.bandwidth.uniform:
        candidates += rational_lengths(1.0 / topology.bandwidth.floats)[:1]
    if duals is not None:
        candidates += rational_lengths(duals)
    rated = [(lower_bound(topology, demand, lengths), lengths) for lengths in candidates]
    return max(rated, key=lambda pair: pair[0])


def _best_flow(demand: Demand, flows: FloatArray, lower: Fraction) -> tuple[Fraction, SourceFlow]:
    """Return the flow with the least congestion: on the grid, or as the rationals that it may stand for."""
    flow = exact_flow(demand, flows)
    upper, parts = upper_bound(flow), common_parts(flows) if lower else None
    if upper > lower and parts is not None and PARTS % parts and parts <= MOST_COMMON:
        other = exact_flow(demand, flows, parts)
        upper, flow = min(((upper, flow), (upper_bound(other), other)), key=lambda pair: pair[0])
    return upper, flow


def _values(result: SolverResult) -> FloatArray:
    if result.values is None or not result.values[-1] > 0:
        raise NoSchedule(
            f"mcf: {result.solver} stopped with '{result.termination}' before it had a solution; "
            "give it more time, or a coarser tolerance"
        )
    return result.values


def _duals(matrices: FlowMatrices, result: SolverResult) -> FloatArray | None:
    return None if result.duals is None else matrices.lengths(result.duals)


def saturated_links(topology: Topology, optimum: Optimum, tolerance: float = 1e-4) -> Int64Array:
    """Return the links that limit the flow: with a length, and full to within `tolerance`; longest first.

    At an optimum every link with a positive length is full (complementary slackness).
    """
    time_of = optimum.flow.loads / topology.bandwidth.floats
    full = time_of >= time_of.max() * (1 - tolerance)
    felt = optimum.lengths > optimum.lengths.max() * tolerance
    links = np.flatnonzero(full & felt)
    return links[np.argsort(-optimum.lengths[links], kind="stable")]

r"""Linear program (B.5) solved as it stands in `models.allreduce.model`, and its answer proven in integers.

The duals of the model's flows are potentials. Those of the broadcast to t, π_t(v), make cuts: for each θ up
to π_t(t) the set of ranks with π_t(v) < θ lets out no less than starts in it. The weight of the cuts that an
arc (u, v) leaves is then Σ_t (π_t(v) - π_t(u))⁺ at most, which the dual of the model bounds by the length of
the link; likewise for the reduction with the sets π_t(v) ≥ θ. So the model's duals are cuts and lengths as
`models.allreduce.certificate` takes them, and its x, c^BC and c^RE are shares, once the flows h that carry b'
are divided into routes. Both are read from the exact vertex that the solver's basis means.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from models.allreduce.certificate import Effort, Optimum, proven_optimum, tightest, whole_solutions
from models.allreduce.cuts import BROADCAST, REDUCE, Arcs, Cuts
from models.allreduce.vertex import basic_solution
from models.solvers import CompiledModel, SolverResult, compile_model, solve
from models.solvers.registry import refuse_too_large
from topologies.errors import InputError, NoSchedule
from topologies.exact import Int64Array
from topologies.graphs.shortest_paths import Route
from topologies.topology import Topology

PROGRAM = "linear program (B.5)"

SECONDS, VARIABLES = 0.3, 5_000
"""Seconds to build and solve the model of so many variables on one core; they grow with the cube.

Measured, CPU s: 1.7 for 5,776 variables (``gen_kautz:4,24``), 6.1 for 10,264 (``gen_kautz:4,32``), 12.7 for
16,360 (``gen_kautz:4,40``), 17.5 for 13,284 (``torus:6x6``), 39 for 24,451 (``torus:7x7``), 104 for 23,080
(``gen_kautz:4,48``): the estimate is that of the quickest network, so that it refuses what has no chance."""

NOISE = 20
"""Without an exact vertex, a cut of 2^-NOISE of the largest weight is a solver's rounding: left out."""


def num_variables(topology: Topology) -> int:
    """Return how many variables the model of a network has, without building it.

    Examples
    --------
    >>> from topologies.families.grids import ring
    >>> num_variables(ring(4))
    116
    """
    ranks, links = topology.num_ranks, topology.num_links
    arcs = ranks * (ranks - 1) if topology.num_switches else links
    indirect = arcs + ranks * links if topology.num_switches else 0
    return ranks + 2 * arcs + 2 * ranks * (ranks + arcs) + indirect


def model_optimum(topology: Topology, solver: str, options: Any, time_limit: float | None) -> Optimum:
    """Return the optimum that the Pyomo model has.

    Parameters
    ----------
    topology
        Any network.
    solver, options
        As `models.solvers.solve`. Without a basis the answer is an interval.
    time_limit
        Seconds, to build and to solve; None for none.

    Raises
    ------
    Unsupported
        If the model is too large for the time limit; said before it is built.
    NoSchedule
        If the time, or a limit in the options, is over before anything is proven.
    """
    from models.allreduce.model import allreduce_model  # Pyomo is slow to import

    begin = time.perf_counter()
    variables = num_variables(topology)
    seconds = SECONDS * (variables / VARIABLES) ** 3
    refuse_too_large(f"allreduce_lp on {topology.name}: {PROGRAM}", variables, time_limit, seconds)
    model = allreduce_model(topology)
    compiled = compile_model(model)
    build_s = time.perf_counter() - begin
    if time_limit is not None:
        left = max(time_limit - build_s, 1e-3)
        options = replace(options, time_limit=min(left, options.time_limit or left))
    result = solve(compiled, solver, options)
    if result.values is None or result.duals is None:
        raise NoSchedule(
            f"allreduce_lp on {topology.name}: {result.solver} stopped with '{result.termination}' before "
            "anything was proven; raise its limits"
        )
    solver_name = f"{result.solver} {result.version}"
    effort = Effort(PROGRAM, 1, build_s, result.solve_s, result.columns, result.rows, solver_name)
    read = _Reading.of(topology, model, compiled)
    exact = _exact_optimum(topology, read, result, effort)
    if exact is not None:
        return exact
    values, duals = np.maximum(result.values[read.columns], 0.0), result.duals[read.rows]
    signed = np.maximum(np.where(np.arange(len(duals)) < topology.num_links, duals, -duals), 0.0)
    rounded = whole_solutions(values, signed)
    return tightest(topology, (_proven(topology, x, y, effort, NOISE) for x, y in rounded))


class _Reading(NamedTuple):
    """Where the answer stands in the compiled model.

    Parameters
    ----------
    columns
        int64: of x, of c^BC and c^RE arc by arc, and with switches of h, rank by rank.
    rows
        int64: of the links' bandwidths, then of the flows to all t and from all t, (t, v). A flow's whole,
        "arrives", stands at (t, t).
    """

    columns: Int64Array
    rows: Int64Array

    @classmethod
    def of(cls, topology: Topology, m: Any, compiled: CompiledModel) -> _Reading:
        ranks = range(topology.num_ranks)
        shared = m.flow_within_bandwidth if topology.num_switches else m.halves_share_the_link
        variables = [*m.x.values(), *(c[arc] for arc in m.arcs for c in (m.c_bc, m.c_re))]
        if topology.num_switches:
            variables += [m.h[alpha, link] for alpha in ranks for link in m.links]
        constraints = [shared[link] for link in m.links]
        constraints += [m.broadcast_flow_arrives[t, v] for t in ranks for v in ranks]
        constraints += [
            m.reduce_flow_arrives[t] if v == t else m.reduce_flow_conserved[t, v]
            for t in ranks
            for v in ranks
        ]
        return cls(
            np.array([compiled.column_of(variable) for variable in variables]),
            np.array([compiled.row_of(constraint) for constraint in constraints]),
        )


def _exact_optimum(
    topology: Topology, read: _Reading, result: SolverResult, effort: Effort
) -> Optimum | None:
    """Return what the exact vertex proves; None without a basis, or if its rationals are too long."""
    model, basis = result.model, result.outcome.basis
    if model is None or basis is None:
        return None
    matrix = csr_array((model.value, model.index, model.starts), shape=(model.num_rows, model.num_columns))
    right = np.zeros(model.num_rows, dtype=np.int64)
    numerators = topology.bandwidth.numerators
    right[read.rows[: topology.num_links]] = numerators // np.gcd.reduce(numerators)
    found = basic_solution(matrix, basis, right.tolist(), (model.cost > 0).astype(int).tolist())
    if found is None or min(found[0][0]) < 0:
        return None
    (x, _), (y, _) = found
    sign = [1 if place < topology.num_links else -1 for place in range(len(read.rows))]
    values, duals = [x[c] for c in read.columns], [s * y[r] for s, r in zip(sign, read.rows, strict=True)]
    try:
        return _proven(topology, values, duals, effort)
    except InputError:  # numbers beyond 64 bits
        return None


def _proven(
    topology: Topology, values: Sequence[int], duals: Sequence[int], effort: Effort, noise: int = 0
) -> Optimum | None:
    """Return what values and duals prove, which stand as `_Reading` says; 2^-noise of a weight is 0."""
    ranks, links = topology.num_ranks, topology.num_links
    arcs, whole = _shares(topology, values)
    common = math.gcd(*whole) or 1
    weights = _threshold_cuts(np.array(duals[links:], dtype=object).reshape(2, ranks, ranks))
    least = max(weights.values(), default=0) >> noise if noise else 0
    kept = {(half, inside): weight for (half, inside), weight in weights.items() if weight > least}
    cuts = Cuts(ranks)
    for half, inside in kept:
        cuts.add(half, np.frombuffer(inside, dtype=bool))
    found = list(kept.values()), duals[:links]
    return proven_optimum(arcs, cuts, [part // common for part in whole], found, effort)


def _threshold_cuts(potential: Any) -> dict[tuple[int, bytes], int]:
    """Return the weight of each cut, half and set of ranks, that potentials (2, t, v) make."""
    weights: dict[tuple[int, bytes], int] = {}
    for half in (BROADCAST, REDUCE):
        for t, row in enumerate(potential[half]):
            low = 0
            for high in sorted({min(value, row[t]) for value in row} - {0}):
                inside = (row < high if half == BROADCAST else row >= high).astype(bool)
                inside[t] = False
                if inside.any():
                    key = (half, inside.tobytes())
                    weights[key] = weights.get(key, 0) + high - low
                low = high
    return weights


def _shares(topology: Topology, values: Sequence[int]) -> tuple[Arcs, list[int]]:
    """Return arcs between ranks, and x and the capacities of both halves on them."""
    from models.allreduce.model import tree_pairs  # Pyomo is slow to import

    ranks, pairs = topology.num_ranks, tree_pairs(topology)
    arcs = Arcs.of(topology)
    if not topology.num_switches:
        return arcs, list(values)
    halves = np.array(values[ranks : ranks + 2 * len(pairs)], dtype=object).reshape(-1, 2)
    flow = np.array(values[ranks + 2 * len(pairs) :], dtype=object).reshape(ranks, -1)
    capacity: dict[Route, list[int]] = {}
    for (alpha, beta), wanted in zip(pairs, halves.tolist(), strict=True):
        while sum(wanted) and (path := _path(topology, flow[alpha], alpha, beta)):
            part = min(sum(wanted), *(flow[alpha][link] for link in path))
            flow[alpha][path] -= part
            taken = min(wanted[BROADCAST], part), part - min(wanted[BROADCAST], part)
            wanted = [want - take for want, take in zip(wanted, taken, strict=True)]
            for route in _between_ranks(topology, path):
                arcs.add(route)
                carried = capacity.setdefault(route, [0, 0])
                carried[:] = [carry + take for carry, take in zip(carried, taken, strict=True)]
    return arcs, [*values[:ranks], *(part for route in arcs.routes for part in capacity.get(route, (0, 0)))]


def _path(topology: Topology, left: Any, alpha: int, beta: int) -> list[int]:
    """Return the links of a path with flow left on all of them, of the fewest; none: empty."""
    into: dict[int, int] = {alpha: -1}
    nodes = [alpha]
    for node in nodes:
        for link in np.flatnonzero((topology.source == node) & (left > 0)).tolist():
            head = int(topology.target[link])
            if head not in into:
                into[head] = link
                nodes.append(head)
    path, node = [], beta
    while node in into and into[node] >= 0:
        path.append(into[node])
        node = int(topology.source[into[node]])
    return path[::-1]


def _between_ranks(topology: Topology, path: list[int]) -> list[tuple[int, ...]]:
    """Return a path in parts, each over switches alone: a set that it leaves is left by one of them."""
    ends = [place + 1 for place, link in enumerate(path) if topology.target[link] < topology.num_ranks]
    return [tuple(path[begin:end]) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]

r"""Linear program (B.5), as the paper has it: the best roots, in-trees and out-trees of an allreduce.

    maximize    sum over v in V_c of x[v]

    subject to  F(s, t; G) >= sum over v of x[v]     for every t in V_c
                    with 0 <= f[t, s, v] <= x[v] and 0 <= f[t, u, v] <= c_BC[u, v],

                F(t, s; G) >= sum over v of x[v]     for every t in V_c
                    with 0 <= f[t, v, s] <= x[v] and 0 <= f[t, u, v] <= c_RE[u, v],

                c_RE[u, v] + c_BC[u, v] <= b[u, v]   for every link,
                c_RE, c_BC, x >= 0.

F(s, t; G) >= L stands for flows that bring L to t (B.7, the display before B.5). Here `f` are those of the
broadcast, from s, and `g` those of the reduction, to s. With switches b is replaced by variables b' for all
pairs (α, β) of ranks, carried by a multicommodity flow `h` in the network. The commodities of one α are taken
together, which is the same (flows of one source divide into paths): h[α, e] is the use of link e by α's b'.

Bandwidths are in units of the largest. T = M / sum of x[v] in units of M over the largest bandwidth. b is a
mutable parameter. Cloned, and changed by name, the model can be solved again with other bandwidths.

`models.allreduce.cuts` is the same program in x, c_BC and c_RE alone, for networks on which this one is too
large.

The proof by the answer: the duals of the model's flows are potentials. Those of the broadcast to t, π_t(v),
make cuts: for each θ up to π_t(t) the set of ranks with π_t(v) < θ lets out no less than starts in it. Then
the weight of the cuts that an arc (u, v) leaves is at most Σ_t (π_t(v) - π_t(u))⁺. The dual of the model
bounds this by the length of the link. The same holds for the reduction with the sets π_t(v) ≥ θ. So the
model's duals are cuts and lengths as `models.allreduce.certificate` takes them. Its x, c^BC and c^RE are
shares, once the flows h that carry b' are divided into routes. Both are read from the exact vertex that the
solver's basis means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyomo.environ as pyo

from tutti.models.all_to_all.model import bandwidths, incidence
from tutti.models.allreduce.certificate import (
    PROGRAM,
    TreeOptimum,
    basic_solution,
    proven_optimum,
    tightest,
    whole_solutions,
)
from tutti.models.allreduce.cuts import BROADCAST, REDUCE, Arcs, Cuts
from tutti.models.solvers import CompiledModel, Effort, SolverResult, compile_model, solve
from tutti.topologies.errors import NoSchedule
from tutti.topologies.exact import Int64Array
from tutti.topologies.graphs.shortest_paths import Route, nearest_first
from tutti.topologies.kernels import now
from tutti.topologies.topology import Topology


def allreduce_model(topology: Topology) -> pyo.ConcreteModel:
    """Return linear program (B.5) of a network, with b' if it has switches."""
    m = pyo.ConcreteModel(name="allreduce")
    m.ranks = pyo.Set(initialize=range(topology.num_ranks), doc="V_c")
    m.links = pyo.Set(initialize=range(topology.num_links), doc="E_G")
    pairs = tree_pairs(topology)
    m.arcs = pyo.Set(initialize=range(len(pairs)), doc="what trees are made of: E_G, or V_c^2 with switches")

    data = {"within": pyo.NonNegativeReals, "mutable": True}
    m.b = pyo.Param(m.links, initialize=bandwidths(topology), doc="b_{(u,v)}", **data)
    m.x = pyo.Var(m.ranks, within=pyo.NonNegativeReals, doc="x_v")
    m.c_bc = pyo.Var(m.arcs, within=pyo.NonNegativeReals, doc="c^BC_{(u,v)}")
    m.c_re = pyo.Var(m.arcs, within=pyo.NonNegativeReals, doc="c^RE_{(u,v)}")
    shared = m.b
    if topology.num_switches:
        shared = m.b_prime = pyo.Var(m.arcs, within=pyo.NonNegativeReals, doc="b'_{(α,β)}")
    _add_flows(m, pairs)

    @m.Constraint(m.arcs)
    def halves_share_the_bandwidth(m: Any, e: int) -> Any:
        """(B.5), third line; with switches b' is in the place of b."""
        return m.c_re[e] + m.c_bc[e] <= shared[e]

    if topology.num_switches:
        _add_indirection(m, topology, pairs)
    m.objective = pyo.Objective(expr=sum(m.x[v] for v in m.ranks), sense=pyo.maximize)
    return m


def tree_pairs(topology: Topology) -> list[tuple[int, int]]:
    """Return the ends of the arcs that trees are made of: the links, or with switches all pairs of ranks."""
    if topology.num_switches:
        ranks = range(topology.num_ranks)
        return [(alpha, beta) for alpha in ranks for beta in ranks if alpha != beta]
    return list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))


def _add_flows(m: Any, pairs: list[tuple[int, int]]) -> None:
    """Add the flows to and from every t, and their least amounts: (B.5), first two lines."""
    m.f_s = pyo.Var(m.ranks, m.ranks, within=pyo.NonNegativeReals, doc="f^{s,t}_{(s,v)}")
    m.f = pyo.Var(m.ranks, m.arcs, within=pyo.NonNegativeReals, doc="f^{s,t}_{(u,v)}")
    m.g_s = pyo.Var(m.ranks, m.ranks, within=pyo.NonNegativeReals, doc="f^{t,s}_{(v,s)}")
    m.g = pyo.Var(m.ranks, m.arcs, within=pyo.NonNegativeReals, doc="f^{t,s}_{(u,v)}")
    out_of, into = incidence(len(m.ranks), pairs)

    @m.Constraint(m.ranks, m.ranks)
    def broadcast_flow_arrives(m: Any, t: int, v: int) -> Any:
        """F(s, t) >= sum of x: at v the inflow covers the outflow, at t it is the whole."""
        comes = m.f_s[t, v] + sum(m.f[t, e] for e in into[v])
        whole = sum(m.x[u] for u in m.ranks) if v == t else 0
        return comes - sum(m.f[t, e] for e in out_of[v]) - whole >= 0

    @m.Constraint(m.ranks, m.ranks)
    def reduce_flow_conserved(m: Any, t: int, v: int) -> Any:
        """F(t, s), at every node but its ends: the inflow covers the outflow and the flow to s."""
        if v == t:
            return pyo.Constraint.Skip
        goes = m.g_s[t, v] + sum(m.g[t, e] for e in out_of[v])
        return sum(m.g[t, e] for e in into[v]) - goes >= 0

    @m.Constraint(m.ranks)
    def reduce_flow_arrives(m: Any, t: int) -> Any:
        """F(t, s) >= sum of x: at s."""
        return sum(m.g_s[t, v] for v in m.ranks) - sum(m.x[v] for v in m.ranks) >= 0

    _add_capacities(m)


def _add_capacities(m: Any) -> None:
    """Add the upper bounds of the flows: the "w.r.t." of (B.5)."""

    @m.Constraint(m.ranks, m.ranks)
    def broadcast_within_roots(m: Any, t: int, v: int) -> Any:
        """The flow from s to v is at most x_v."""
        return m.f_s[t, v] - m.x[v] <= 0

    @m.Constraint(m.ranks, m.arcs)
    def broadcast_within_capacity(m: Any, t: int, e: int) -> Any:
        """The flow on (u, v) is at most c^BC."""
        return m.f[t, e] - m.c_bc[e] <= 0

    @m.Constraint(m.ranks, m.ranks)
    def reduce_within_roots(m: Any, t: int, v: int) -> Any:
        """The flow from v to s is at most x_v."""
        return m.g_s[t, v] - m.x[v] <= 0

    @m.Constraint(m.ranks, m.arcs)
    def reduce_within_capacity(m: Any, t: int, e: int) -> Any:
        """The flow on (u, v) is at most c^RE."""
        return m.g[t, e] - m.c_re[e] <= 0


def _add_indirection(m: Any, topology: Topology, pairs: list[tuple[int, int]]) -> None:
    """Add the flow that carries b' (B.7, last but one paragraph)."""
    m.h = pyo.Var(m.ranks, m.links, within=pyo.NonNegativeReals, doc="the flow of α's b' on a link")
    number = {pair: arc for arc, pair in enumerate(pairs)}
    ends = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    out_of, into = incidence(topology.num_nodes, ends)

    @m.Constraint(m.ranks, range(topology.num_nodes))
    def pair_gets_its_flow(m: Any, alpha: int, v: int) -> Any:
        """The inflow of α's commodity covers the outflow and, at β, b'[α, β]."""
        if v == alpha or not (into[v] or out_of[v]):
            return pyo.Constraint.Skip
        goes = sum(m.h[alpha, e] for e in out_of[v])
        own = m.b_prime[number[alpha, v]] if v < topology.num_ranks else 0
        return sum(m.h[alpha, e] for e in into[v]) - goes - own >= 0

    @m.Constraint(m.links)
    def flow_within_bandwidth(m: Any, e: int) -> Any:
        """The flows of all ranks share the link."""
        return sum(m.h[alpha, e] for alpha in m.ranks) <= m.b[e]


def model_optimum(topology: Topology, solver: str, options: Any, time_limit: float | None) -> TreeOptimum:
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
    NoSchedule
        If the time, or a limit in the options, ends before anything is proven.
    """
    begin = now()
    model = allreduce_model(topology)
    compiled = compile_model(model)
    build_s = now() - begin
    left = None if time_limit is None else time_limit - build_s
    result = solve(compiled, solver, options.within(left))
    if result.values is None or result.duals is None:
        raise NoSchedule(
            f"allreduce_lp on {topology.name}: {result.solver} stopped with '{result.termination}' before "
            "anything was proven; raise its limits"
        )
    effort = Effort(PROGRAM)
    effort.add(result, build_s)
    read = _Reading.of(topology, model, compiled)
    exact = _exact_optimum(topology, read, result, effort)
    if exact is not None:
        return exact
    values, duals = np.maximum(result.values[read.columns], 0.0), result.duals[read.rows]
    signed = np.maximum(np.where(np.arange(len(duals)) < topology.num_links, duals, -duals), 0.0)
    rounded = whole_solutions(values, signed)
    # Here 2^-20 of the largest weight is a solver's rounding.
    return tightest(topology, (_proven(topology, x, y, effort, noise=20) for x, y in rounded))


class _Reading(NamedTuple):
    """The places of the answer in the compiled model.

    Parameters
    ----------
    columns
        int64: of x, of c^BC and c^RE arc by arc, and with switches of h, rank by rank.
    rows
        int64: of the links' bandwidths, then of the flows to all t and from all t, (t, v). The row for a
        whole flow, "arrives", is at (t, t).
    """

    columns: Int64Array
    rows: Int64Array

    @classmethod
    def of(cls, topology: Topology, m: Any, compiled: CompiledModel) -> _Reading:
        ranks = range(topology.num_ranks)
        shared = m.flow_within_bandwidth if topology.num_switches else m.halves_share_the_bandwidth
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
            np.array([compiled.place_of(variable) for variable in variables]),
            np.array([compiled.place_of(constraint) for constraint in constraints]),
        )


def _exact_optimum(
    topology: Topology, read: _Reading, result: SolverResult, effort: Effort
) -> TreeOptimum | None:
    """Return what the exact vertex proves; None without a basis, or if its rationals are too long."""
    model = result.model
    if model is None:
        return None
    right = np.zeros(model.num_rows, dtype=np.int64)
    numerators = topology.bandwidth.numerators
    right[read.rows[: topology.num_links]] = numerators // np.gcd.reduce(numerators)
    cost = (model.cost > 0).astype(int).tolist()
    found = basic_solution(model.matrix(), result.basis, right.tolist(), cost)
    if found is None:
        return None
    x, y = found
    sign = [1 if place < topology.num_links else -1 for place in range(len(read.rows))]
    values, duals = [x[c] for c in read.columns], [s * y[r] for s, r in zip(sign, read.rows, strict=True)]
    return _proven(topology, values, duals, effort)


def _proven(
    topology: Topology, values: Sequence[int], duals: Sequence[int], effort: Effort, noise: int = 0
) -> TreeOptimum | None:
    """Return the bounds by values and duals, placed as `_Reading` says; 2^-noise of a weight counts as 0."""
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
    """Return arcs between ranks, and the values of x and of both halves' capacities on them."""
    ranks, pairs = topology.num_ranks, tree_pairs(topology)
    arcs = Arcs.of(topology)
    if not topology.num_switches:
        return arcs, list(values)
    halves = np.array(values[ranks : ranks + 2 * len(pairs)], dtype=object).reshape(-1, 2)
    flow = np.array(values[ranks + 2 * len(pairs) :], dtype=object).reshape(ranks, -1)
    links = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    out_of, _ = incidence(topology.num_nodes, links)
    capacity: dict[Route, list[int]] = {}
    for (alpha, beta), wanted in zip(pairs, halves.tolist(), strict=True):
        while sum(wanted) and (path := _path(topology, out_of, flow[alpha], alpha, beta)):
            part = min(sum(wanted), *(flow[alpha][link] for link in path))
            flow[alpha][path] -= part
            taken = min(wanted[BROADCAST], part), part - min(wanted[BROADCAST], part)
            wanted = [want - take for want, take in zip(wanted, taken, strict=True)]
            # A set that the path leaves is left by one of its parts, each over switches alone.
            ends = [place + 1 for place, link in enumerate(path) if topology.target[link] < ranks]
            for route in (tuple(path[begin:end]) for begin, end in pairwise([0, *ends])):
                arcs.add(route)
                carried = capacity.setdefault(route, [0, 0])
                carried[:] = [carry + take for carry, take in zip(carried, taken, strict=True)]
    return arcs, [*values[:ranks], *(part for route in arcs.routes for part in capacity.get(route, (0, 0)))]


def _path(topology: Topology, out_of: list[list[int]], left: Any, alpha: int, beta: int) -> list[int]:
    """Return the links of a shortest path with flow left on each of its links; none if there is no path."""
    lengths = [1 if amount > 0 else math.inf for amount in left.tolist()]
    reached = nearest_first(out_of, topology.target.tolist(), lengths, [(0, alpha, ())], by_links=True)
    return next((list(route) for _, node, route in reached if node == beta), [])

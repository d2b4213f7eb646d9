r"""Linear program (B.5), as the paper has it: the best roots, in-trees and out-trees of an allreduce.

    maximize    sum over v in V_c of x[v]
    subject to  F(s, t; G) >= sum over v of x[v]     for every t in V_c
                    with 0 <= f[t, s, v] <= x[v] and 0 <= f[t, u, v] <= c_BC[u, v]
                F(t, s; G) >= sum over v of x[v]     for every t in V_c
                    with 0 <= f[t, v, s] <= x[v] and 0 <= f[t, u, v] <= c_RE[u, v]
                c_RE[u, v] + c_BC[u, v] <= b[u, v]   for every link
                c_RE, c_BC, x >= 0

F(s, t; G) >= L stands for flows that bring L to t (B.7, the display before B.5); here `f` are those of the
broadcast, from s, and `g` those of the reduction, to s. With switches b is replaced by variables b' for all
pairs (α, β) of ranks, carried by a multicommodity flow `h` in the network. The commodities of one α are taken
together, which is the same (flows of one source divide into paths): h[α, e] is what α's b' use of link e.

Bandwidths are in units of the largest. T = M / sum of x[v] in units of M over the largest bandwidth.

`models.allreduce.solved_model` solves it and proves the answer; `models.allreduce.cuts` is the same program
in x, c_BC and c_RE alone, for networks on which this one is too large.
"""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from topologies.topology import Topology


def allreduce_model(topology: Topology) -> pyo.ConcreteModel:
    """Return linear program (B.5) of a network, with b' if it has switches."""
    m = pyo.ConcreteModel(name="allreduce")
    m.ranks = pyo.Set(initialize=range(topology.num_ranks), doc="V_c")
    m.links = pyo.Set(initialize=range(topology.num_links), doc="E_G")
    pairs = tree_pairs(topology)
    m.arcs = pyo.Set(initialize=range(len(pairs)), doc="what trees are made of: E_G, or V_c^2 with switches")

    m.x = pyo.Var(m.ranks, within=pyo.NonNegativeReals, doc="x_v")
    m.c_bc = pyo.Var(m.arcs, within=pyo.NonNegativeReals, doc="c^BC_{(u,v)}")
    m.c_re = pyo.Var(m.arcs, within=pyo.NonNegativeReals, doc="c^RE_{(u,v)}")
    _add_flows(m, pairs)
    if topology.num_switches:
        _add_indirection(m, topology, pairs)
    else:
        b = _bandwidths(topology)

        @m.Constraint(m.links)
        def halves_share_the_link(m: Any, e: int) -> Any:
            """(B.5), third line."""
            return m.c_re[e] + m.c_bc[e] <= b[e]

    m.objective = pyo.Objective(expr=sum(m.x[v] for v in m.ranks), sense=pyo.maximize)
    return m


def tree_pairs(topology: Topology) -> list[tuple[int, int]]:
    """Return the ends of what trees are made of: of the links, or with switches all pairs of ranks."""
    if topology.num_switches:
        ranks = range(topology.num_ranks)
        return [(alpha, beta) for alpha in ranks for beta in ranks if alpha != beta]
    return list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))


def _bandwidths(topology: Topology) -> list[float]:
    return (topology.bandwidth.floats / topology.bandwidth.floats.max()).tolist()


def _add_flows(m: Any, pairs: list[tuple[int, int]]) -> None:
    """Add the flows to and from every t, and that they are large enough: (B.5), first two lines."""
    m.f_s = pyo.Var(m.ranks, m.ranks, within=pyo.NonNegativeReals, doc="f^{s,t}_{(s,v)}")
    m.f = pyo.Var(m.ranks, m.arcs, within=pyo.NonNegativeReals, doc="f^{s,t}_{(u,v)}")
    m.g_s = pyo.Var(m.ranks, m.ranks, within=pyo.NonNegativeReals, doc="f^{t,s}_{(v,s)}")
    m.g = pyo.Var(m.ranks, m.arcs, within=pyo.NonNegativeReals, doc="f^{t,s}_{(u,v)}")
    out_of, into = _incidence(m.ranks, pairs)

    @m.Constraint(m.ranks, m.ranks)
    def broadcast_flow_arrives(m: Any, t: int, v: int) -> Any:
        """F(s, t) >= sum of x: at v what comes in covers what goes on, at t the whole."""
        comes = m.f_s[t, v] + sum(m.f[t, e] for e in into[v])
        whole = sum(m.x[u] for u in m.ranks) if v == t else 0
        return comes - sum(m.f[t, e] for e in out_of[v]) - whole >= 0

    @m.Constraint(m.ranks, m.ranks)
    def reduce_flow_conserved(m: Any, t: int, v: int) -> Any:
        """F(t, s), at every node but its ends: what comes in covers what goes on and what goes to s."""
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
    """Add what the flows may use: the "w.r.t." of (B.5)."""

    @m.Constraint(m.ranks, m.ranks)
    def broadcast_within_roots(m: Any, t: int, v: int) -> Any:
        """The flow from s to v is at most x_v."""
        return m.f_s[t, v] - m.x[v] <= 0

    @m.Constraint(m.ranks, m.arcs)
    def broadcast_within_capacity(m: Any, t: int, e: int) -> Any:
        """And on (u, v) at most c^BC."""
        return m.f[t, e] - m.c_bc[e] <= 0

    @m.Constraint(m.ranks, m.ranks)
    def reduce_within_roots(m: Any, t: int, v: int) -> Any:
        """The flow from v to s is at most x_v."""
        return m.g_s[t, v] - m.x[v] <= 0

    @m.Constraint(m.ranks, m.arcs)
    def reduce_within_capacity(m: Any, t: int, e: int) -> Any:
        """And on (u, v) at most c^RE."""
        return m.g[t, e] - m.c_re[e] <= 0


def _add_indirection(m: Any, topology: Topology, pairs: list[tuple[int, int]]) -> None:
    """Add b' in the place of b, and the flow that carries it (B.7, last but one paragraph)."""
    b = _bandwidths(topology)
    m.b = pyo.Var(m.arcs, within=pyo.NonNegativeReals, doc="b'_{(α,β)}")
    m.h = pyo.Var(m.ranks, m.links, within=pyo.NonNegativeReals, doc="the flow of α's b' on a link")
    number = {pair: arc for arc, pair in enumerate(pairs)}
    ends = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    out_of, into = _incidence(range(topology.num_nodes), ends)

    @m.Constraint(m.arcs)
    def halves_share_the_pair(m: Any, e: int) -> Any:
        """(B.5), third line, with b'."""
        return m.c_re[e] + m.c_bc[e] - m.b[e] <= 0

    @m.Constraint(m.ranks, range(topology.num_nodes))
    def pair_gets_its_flow(m: Any, alpha: int, v: int) -> Any:
        """What comes in of α's covers what goes on and, at β, b'[α, β]."""
        if v == alpha:
            return pyo.Constraint.Skip
        goes = sum(m.h[alpha, e] for e in out_of[v])
        own = m.b[number[alpha, v]] if v < topology.num_ranks else 0
        return sum(m.h[alpha, e] for e in into[v]) - goes - own >= 0

    @m.Constraint(m.links)
    def flow_within_bandwidth(m: Any, e: int) -> Any:
        """The flows of all ranks share the link."""
        return sum(m.h[alpha, e] for alpha in m.ranks) <= b[e]


def _incidence(nodes: Any, ends: list[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the arcs out of, and into, each node."""
    out_of: list[list[int]] = [[] for _ in nodes]
    into: list[list[int]] = [[] for _ in nodes]
    for e, (u, v) in enumerate(ends):
        out_of[u].append(e)
        into[v].append(e)
    return out_of, into

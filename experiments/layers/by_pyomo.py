"""The programs in Pyomo: sets, mutable parameters, and appsi's persistent HiGHS, which updates parameters."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyomo.environ as pyo
from pyomo.contrib.appsi.solvers import Highs

from tutti.experiments.layers.programs import HIGHS, Built, Network
from tutti.topologies.exact import FloatArray


def _built(m: Any) -> Built:
    solver = Highs()
    solver.highs_options = dict(HIGHS)
    for name in solver.update_config:
        if name.startswith(("check_for", "update")) and name != "update_params":
            setattr(solver.update_config, name, False)

    def solve() -> float:
        solver.solve(m)
        return float(pyo.value(m.objective))

    def change(b: FloatArray) -> None:
        m.b.store_values(dict(enumerate(b.tolist())))

    return Built(solve, change)


def _model(network: Network) -> Any:
    m = pyo.ConcreteModel()
    m.V, m.E = pyo.RangeSet(0, network.nodes - 1), pyo.RangeSet(0, network.links - 1)
    m.b = pyo.Param(m.E, initialize=dict(enumerate(network.b.tolist())), mutable=True)
    return m


def flow(network: Network) -> Built:
    """(A.1)."""
    m, into, out_of = _model(network), network.into, network.out_of
    m.y = pyo.Var(m.V, m.E, domain=pyo.NonNegativeReals)
    m.f = pyo.Var(domain=pyo.NonNegativeReals)

    @m.Constraint(m.E)
    def capacity(m: Any, e: int) -> Any:
        return sum(m.y[s, e] for s in m.V) <= m.b[e]

    @m.Constraint(m.V, m.V)
    def balance(m: Any, s: int, u: int) -> Any:
        if s == u:
            return pyo.Constraint.Skip
        return m.f + sum(m.y[s, e] for e in out_of[u]) <= sum(m.y[s, e] for e in into[u])

    m.objective = pyo.Objective(expr=m.f, sense=pyo.maximize)
    return _built(m)


def allreduce(network: Network) -> Built:
    """(B.5)."""
    m, into, out_of = _model(network), network.into, network.out_of
    m.x = pyo.Var(m.V, domain=pyo.NonNegativeReals)
    m.bc, m.re = (pyo.Var(m.E, domain=pyo.NonNegativeReals) for _ in range(2))
    m.fs, m.gs = (pyo.Var(m.V, m.V, domain=pyo.NonNegativeReals) for _ in range(2))
    m.f, m.g = (pyo.Var(m.V, m.E, domain=pyo.NonNegativeReals) for _ in range(2))

    @m.Constraint(m.V, m.V)
    def broadcast(m: Any, t: int, v: int) -> Any:
        comes = m.fs[t, v] + sum(m.f[t, e] for e in into[v]) - sum(m.f[t, e] for e in out_of[v])
        return comes >= (sum(m.x[u] for u in m.V) if v == t else 0)

    @m.Constraint(m.V, m.V)
    def reduction(m: Any, t: int, v: int) -> Any:
        if v == t:
            return sum(m.gs[t, u] for u in m.V) >= sum(m.x[u] for u in m.V)
        return sum(m.g[t, e] for e in into[v]) >= m.gs[t, v] + sum(m.g[t, e] for e in out_of[v])

    m.fs_most = pyo.Constraint(m.V, m.V, rule=lambda m, t, v: m.fs[t, v] <= m.x[v])
    m.gs_most = pyo.Constraint(m.V, m.V, rule=lambda m, t, v: m.gs[t, v] <= m.x[v])
    m.f_most = pyo.Constraint(m.V, m.E, rule=lambda m, t, e: m.f[t, e] <= m.bc[e])
    m.g_most = pyo.Constraint(m.V, m.E, rule=lambda m, t, e: m.g[t, e] <= m.re[e])
    m.capacity = pyo.Constraint(m.E, rule=lambda m, e: m.bc[e] + m.re[e] <= m.b[e])
    m.objective = pyo.Objective(expr=sum(m.x[v] for v in m.V), sense=pyo.maximize)
    return _built(m)


def bfb(network: Network) -> Built:
    """(3.1)."""
    m, hops = _model(network), network.hops
    pairs = [(v, e) for v, e in network.eligible.tolist()]
    loads, arrivals = defaultdict(list), defaultdict(list)
    for v, e in pairs:
        u = network.target[e]
        loads[e, int(hops[v, u])].append(v)
        arrivals[v, u].append(e)
    m.T = pyo.RangeSet(1, int(hops.max()))
    m.x = pyo.Var(pairs, domain=pyo.NonNegativeReals)
    m.U = pyo.Var(m.T)

    @m.Constraint(list(loads))
    def brought(m: Any, e: int, t: int) -> Any:
        return sum(m.x[v, e] for v in loads[e, t]) <= m.b[e] * m.U[t]

    @m.Constraint(list(arrivals))
    def arrives(m: Any, v: int, u: int) -> Any:
        return sum(m.x[v, e] for e in arrivals[v, u]) == 1

    m.objective = pyo.Objective(expr=sum(m.U[t] for t in m.T))
    return _built(m)


def sends(network: Network) -> Built:
    """The binary program over the time-expanded network."""
    m, source, into = _model(network), network.source, network.into
    m.T = pyo.RangeSet(0, network.steps - 1)
    m.x = pyo.Var(m.V, m.E, m.T, domain=pyo.Binary)
    m.h = pyo.Var(m.V, m.V, pyo.RangeSet(0, network.steps), bounds=(0, 1))
    for c in m.V:
        for n in m.V:
            m.h[c, n, 0].fix(int(c == n))
            m.h[c, n, network.steps].fix(1)

    @m.Constraint(m.V, m.V, m.T)
    def held(m: Any, c: int, n: int, t: int) -> Any:
        return m.h[c, n, t + 1] <= m.h[c, n, t] + sum(m.x[c, e, t] for e in into[n])

    @m.Constraint(m.V, m.E, m.T)
    def sent(m: Any, c: int, e: int, t: int) -> Any:
        return m.x[c, e, t] <= m.h[c, source[e], t]

    @m.Constraint(m.E, m.T)
    def capacity(m: Any, e: int, t: int) -> Any:
        return sum(m.x[c, e, t] for c in m.V) <= m.b[e]

    m.objective = pyo.Objective(expr=sum((t + 1) * m.x[c, e, t] for c in m.V for e in m.E for t in m.T))
    return _built(m)

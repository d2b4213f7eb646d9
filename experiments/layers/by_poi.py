"""The programs in PyOptInterface: one variable or constraint after the other into HiGHS, changed in place.

Capacities are variables whose upper bounds are changed. `set_normalized_rhs` of PyOptInterface 0.6.1 makes an
equality of a row of HiGHS that had an upper side only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pyoptinterface as poi
from pyoptinterface import highs

from tutti.experiments.layers.programs import HIGHS, Built, Network
from tutti.topologies.exact import FloatArray

BINARY = poi.VariableDomain.Binary


def _model() -> Any:
    model = highs.Model()
    for name, value in HIGHS.items():
        model.set_raw_parameter(name, value)
    return model


def _capacities(m: Any, network: Network) -> tuple[list[Any], Built]:
    """Return a variable for each link, which is at most its capacity, and the model that changes these."""
    capacity = [m.add_variable(lb=0.0, ub=b) for b in network.b.tolist()]

    def change(b: FloatArray) -> None:
        for variable, most in zip(capacity, b.tolist(), strict=True):
            m.set_variable_upper_bound(variable, most)

    return capacity, _built(m, change)


def _built(m: Any, change: Callable[[FloatArray], None]) -> Built:
    def solve() -> float:
        m.optimize()
        return float(m.get_model_attribute(poi.ModelAttribute.ObjectiveValue))

    return Built(solve, change)


def _through(network: Network, flow: Any, s: int, u: int) -> Any:
    """Return what a flow of a rank brings into a node and does not take out of it."""
    comes, goes = (poi.quicksum(flow[s, e] for e in ends[u]) for ends in (network.into, network.out_of))
    return comes - goes


def flow(network: Network) -> Built:
    """Build (A.1): every node receives f from every source."""
    m, nodes, links = _model(), range(network.nodes), range(network.links)
    y, f = m.add_m_variables((network.nodes, network.links), lb=0.0), m.add_variable(lb=0.0)
    capacity, built = _capacities(m, network)
    for e in links:
        m.add_linear_constraint(poi.quicksum(y[s, e] for s in nodes) - capacity[e], poi.Leq, 0.0)
    for s in nodes:
        for u in nodes:
            if s != u:
                m.add_linear_constraint(_through(network, y, s, u) - f, poi.Geq, 0.0)
    m.set_objective(f, poi.ObjectiveSense.Maximize)
    return built


def allreduce(network: Network) -> Built:
    """Build (B.5): the best roots of the broadcast and of the reduction."""
    m, nodes, links = _model(), range(network.nodes), range(network.links)
    square, wide = (network.nodes, network.nodes), (network.nodes, network.links)
    x, bc, re = (m.add_m_variables(size, lb=0.0) for size in (network.nodes, network.links, network.links))
    fs, gs, f, g = (m.add_m_variables(shape, lb=0.0) for shape in (square, square, wide, wide))
    total = poi.quicksum(x[v] for v in nodes)
    for t in nodes:
        m.add_linear_constraint(poi.quicksum(gs[t, v] for v in nodes) - total, poi.Geq, 0.0)
        for v in nodes:
            left = fs[t, v] + _through(network, f, t, v)
            m.add_linear_constraint(left - total if v == t else left, poi.Geq, 0.0)
            m.add_linear_constraint(fs[t, v] - x[v], poi.Leq, 0.0)
            m.add_linear_constraint(gs[t, v] - x[v], poi.Leq, 0.0)
            if v != t:
                m.add_linear_constraint(_through(network, g, t, v) - gs[t, v], poi.Geq, 0.0)
        for e in links:
            m.add_linear_constraint(f[t, e] - bc[e], poi.Leq, 0.0)
            m.add_linear_constraint(g[t, e] - re[e], poi.Leq, 0.0)
    capacity, built = _capacities(m, network)
    for e in links:
        m.add_linear_constraint(bc[e] + re[e] - capacity[e], poi.Leq, 0.0)
    m.set_objective(total, poi.ObjectiveSense.Maximize)
    return built


def bfb(network: Network) -> Built:
    """Build (3.1) of all nodes and steps as one program."""
    m, hops = _model(), network.hops
    U = [m.add_variable() for _ in range(int(hops.max()))]
    loads, arrivals = defaultdict(list), defaultdict(list)
    for v, e in network.eligible.tolist():
        u, x = network.target[e], m.add_variable(lb=0.0)
        loads[e, int(hops[v, u]) - 1].append(x)
        arrivals[v, u].append(x)
    brought = [
        (e, m.add_linear_constraint(poi.quicksum(xs) - float(network.b[e]) * U[t], poi.Leq, 0.0), U[t])
        for (e, t), xs in loads.items()
    ]

    def change(b: FloatArray) -> None:
        for e, row, step in brought:
            m.set_normalized_coefficient(row, step, -float(b[e]))

    for xs in arrivals.values():
        m.add_linear_constraint(poi.quicksum(xs), poi.Eq, 1.0)
    m.set_objective(poi.quicksum(U))
    return _built(m, change)


def sends(network: Network) -> Built:
    """Build the binary program over the time-expanded network."""
    m, nodes, links = _model(), range(network.nodes), range(network.links)
    steps, last = range(network.steps), network.steps
    x = m.add_m_variables((network.nodes, network.links, last), domain=BINARY)
    h = m.add_m_variables((network.nodes, network.nodes, last + 1), lb=0.0, ub=1.0)
    for c in nodes:
        for n in nodes:
            m.set_variable_bounds(h[c, n, 0], float(c == n), float(c == n))
            m.set_variable_bounds(h[c, n, last], 1.0, 1.0)
            for t in steps:
                comes = poi.quicksum(x[c, e, t] for e in network.into[n])
                m.add_linear_constraint(h[c, n, t + 1] - h[c, n, t] - comes, poi.Leq, 0.0)
        for e in links:
            for t in steps:
                m.add_linear_constraint(x[c, e, t] - h[c, network.source[e], t], poi.Leq, 0.0)
    capacity, built = _capacities(m, network)
    for e in links:
        for t in steps:
            m.add_linear_constraint(poi.quicksum(x[c, e, t] for c in nodes) - capacity[e], poi.Leq, 0.0)
    m.set_objective(poi.quicksum((t + 1) * x[c, e, t] for c in nodes for e in links for t in steps))
    return built

"""Linear program (A.1), as the paper has it: the highest rate at which all ranks can send to all others.

    maximize    f

    subject to  sum over s of y[s, e] <= b[e]                                      for every link e.
                f d[s, u] + sum over e out of u of y[s, e]
                              <= sum over e into u of y[s, e]       for every source s and node u != s.
                y[s, e] >= 0                                        for every source s and link e.
                y[s, e] >= 0                                        for every source s and link e

y[s, e] is the rate on link e of everything that s sends. The destinations of one source share a commodity,
so there are N flows and not N². (Dissertation, section A.1.5.) The paper has b = 1 and d = 1. Here b[e] is
the bandwidth of link e over the largest one. d[s, u] is what s sends to u over the largest demand. It is 0
where u is a switch, which so only forwards. Parallel links are separate links. The time is 1 / f in units of
the largest demand over the largest bandwidth.

b and d are mutable parameters. Cloned, and changed by name, the model can be solved again with other
bandwidths and demands.

`models.all_to_all.optimum` solves it and proves the answer; `models.all_to_all.orbits` solves it at scale.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyomo.environ as pyo

from tutti.models.all_to_all.demand import Demand
from tutti.topologies.topology import Topology


def bandwidths(topology: Topology) -> list[float]:
    """Return the bandwidth of each link over the largest one."""
    return (topology.bandwidth.floats / topology.bandwidth.floats.max()).tolist()


def incidence(nodes: int, ends: Iterable[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the arcs out of, and into, each node, given the ends of all arcs."""
    out_of: list[list[int]] = [[] for _ in range(nodes)]
    into: list[list[int]] = [[] for _ in range(nodes)]
    for e, (u, v) in enumerate(ends):
        out_of[u].append(e)
        into[v].append(e)
    return out_of, into


def flow_model(demand: Demand) -> pyo.ConcreteModel:
    """Return linear program (A.1) of these demands.

    Parameters
    ----------
    demand
        The network, and what each rank sends to each other.
    """
    topology = demand.topology
    m = pyo.ConcreteModel(name="all-to-all")
    m.sources = pyo.Set(initialize=demand.sources.tolist(), doc="s")
    m.links = pyo.Set(initialize=range(topology.num_links), doc="e = (u, v)")
    m.nodes = pyo.Set(initialize=range(topology.num_nodes), doc="u")
    m.ranks = pyo.Set(initialize=range(topology.num_ranks), doc="u, without switches")

    d = (demand.amounts / demand.amounts.max()).tolist()
    data = {"within": pyo.NonNegativeReals, "mutable": True}
    m.b = pyo.Param(m.links, initialize=bandwidths(topology), doc="b_e", **data)
    m.d = pyo.Param(m.sources, m.ranks, initialize=lambda m, s, u: d[s][u], doc="d_{s,u}", **data)
    m.y = pyo.Var(m.sources, m.links, within=pyo.NonNegativeReals, doc="y_{s,(u,v)}")
    m.f = pyo.Var(within=pyo.NonNegativeReals, doc="f")

    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    out_of, into = incidence(topology.num_nodes, ends)

    @m.Constraint(m.links)
    def load_within_capacity(m: Any, e: int) -> Any:
        """(A.1), first line: the flows of all sources share the link."""
        return pyo.quicksum(m.y[s, e] for s in m.sources) <= m.b[e]

    @m.Constraint(m.sources, m.nodes)
    def node_gets_its_demand(m: Any, s: int, u: int) -> Any:
        """(A.1), second line: what comes in covers what leaves and the node's own part."""
        if s == u:
            return pyo.Constraint.Skip
        own = m.d[s, u] * m.f if u < topology.num_ranks else 0
        return own + sum(m.y[s, e] for e in out_of[u]) <= sum(m.y[s, e] for e in into[u])

    m.objective = pyo.Objective(expr=m.f, sense=pyo.maximize)
    return m

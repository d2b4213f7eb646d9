"""The routing stage as TACCL prints it (Appendix B.1): the reference for `models.taccl.routing_model`.

It has all variables of the paper's Table 3, and symmetry as equalities. An indicator constraint is written
with a big M, the parameter ``horizon``. Latencies are parameters, so that a model can be cloned, changed and
solved again. Two constraints are left unsaid in the appendix: a chunk comes to each of its ends once, and a
rank passes on what came to it. Without them nothing would have to be sent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from tutti.models.taccl.costs import Costs
from tutti.models.taccl.demand import ChunkDemand
from tutti.models.taccl.routing_model import WEIGHT
from tutti.models.taccl.sketch import Policy

SIGN = {Policy.MIN: 1, Policy.MAX: -1, Policy.FREE: 0}
"""The sign of γ in (11)."""


def printed_routing(demand: ChunkDemand) -> pyo.ConcreteModel:
    """Return the program (1) to (15), with times in units of the shortest transfer of one chunk.

    Parameters
    ----------
    demand
        Chunks, the links that may carry each, and its symmetry.
    """
    links, costs = demand.logical.links, Costs(demand)
    m = pyo.ConcreteModel(name="taccl routing as printed")
    ranks = demand.logical.topology.num_ranks
    m.C, m.R, m.L = (pyo.RangeSet(0, size - 1) for size in (len(demand), ranks, len(links)))
    m.precondition = pyo.Set(dimen=2, initialize=list(enumerate(demand.start.tolist())))
    ends = [(c, r) for c, there in enumerate(demand.ends) for r in there]
    m.postcondition = pyo.Set(dimen=2, initialize=ends)
    m.lat = pyo.Param(m.L, initialize=costs.latency, mutable=True, doc="lat(src, r) of one chunk")
    longest = float(costs.lat.max()) * len(demand) * ranks
    m.horizon = pyo.Param(initialize=longest, mutable=True, doc="M: no routing takes longer")
    m.gamma = pyo.Param(initialize=WEIGHT / len(links), mutable=True)
    m.time = pyo.Var(domain=pyo.NonNegativeReals)
    m.start = pyo.Var(m.C, m.R, domain=pyo.NonNegativeReals)
    m.send = pyo.Var(m.C, m.L, domain=pyo.NonNegativeReals)
    m.is_sent = pyo.Var(m.C, m.L, domain=pyo.Binary)
    m.is_util = pyo.Var(m.L, domain=pyo.Binary)
    for c, k in np.argwhere(~demand.allowed).tolist():
        m.is_sent[c, k].fix(0)
    used = sum(SIGN[link.policy] * m.is_util[k] for k, link in enumerate(links))
    m.duration = pyo.Objective(expr=m.time + m.gamma * used, doc="(1), (11)")
    _add_times(m, demand)
    _add_bandwidth(m, demand)
    _add_symmetry(m, demand)
    _add_hosts(m, demand)
    _add_unsaid(m, demand)
    return m


def _add_times(m: Any, demand: ChunkDemand) -> None:
    """Add (2) to (5)."""
    links = demand.logical.links

    def comes_a_latency_after_it_was_sent(m: Any, c: int, k: int, sense: int) -> Any:
        late = m.start[c, links[k].target] - m.send[c, k] - m.lat[k]
        return sense * late <= (m.horizon + m.lat[k]) * (1 - m.is_sent[c, k])

    m.ends_late = pyo.Constraint(m.postcondition, rule=lambda m, *end: m.time >= m.start[end], doc="(2)")
    m.starts_at_0 = pyo.Constraint(m.precondition, rule=lambda m, *pair: m.start[pair] == 0, doc="(3)")
    m.sent_when_there = pyo.Constraint(
        m.C, m.L, rule=lambda m, c, k: m.send[c, k] >= m.start[c, links[k].source], doc="(4)"
    )
    m.arrives = pyo.Constraint(m.C, m.L, [-1, 1], rule=comes_a_latency_after_it_was_sent, doc="(5)")


def _add_bandwidth(m: Any, demand: ChunkDemand) -> None:
    """Add (6) to (10)."""

    def busy(some: Any) -> Any:
        return m.time >= sum(m.lat[k] * m.is_sent[c, k] for c in m.C for k in some)

    switched = {port: users for port, users in demand.logical.ports.items() if len(users) > 1}
    m.link_time = pyo.Constraint(m.L, rule=lambda m, k: busy([k]), doc="(6)")
    m.port_time = pyo.Constraint(list(switched), rule=lambda m, p: busy(switched[p]), doc="(7), (8)")
    m.used = pyo.Constraint(m.C, m.L, rule=lambda m, c, k: m.is_util[k] >= m.is_sent[c, k], doc="(9)")
    m.unused = pyo.Constraint(m.L, rule=lambda m, k: m.is_util[k] <= sum(m.is_sent[:, k]), doc="(10)")


def _add_symmetry(m: Any, demand: ChunkDemand) -> None:
    """Add (12) to (14)."""
    m.same_start, m.same_send, m.same_is_sent = (pyo.ConstraintList(doc=f"({n})") for n in (12, 13, 14))
    for chunks, links, ranks, tied in demand.symmetry:
        for c, image in enumerate(chunks.tolist()):
            for r in m.R:
                m.same_start.add(m.start[c, r] == m.start[image, int(ranks[r])])
            for k in np.flatnonzero(tied).tolist():
                m.same_send.add(m.send[c, k] == m.send[image, int(links[k])])
                m.same_is_sent.add(m.is_sent[c, k] == m.is_sent[image, int(links[k])])


def _add_hosts(m: Any, demand: ChunkDemand) -> None:
    """Add (15)."""
    host, links = demand.logical.host, demand.logical.links
    m.host_is_reached = pyo.ConstraintList(doc="(15)")
    for c, h in sorted({(c, host[r]) for c, r in m.postcondition if host[r] != host[demand.start[c]]}):
        into = [k for k, link in enumerate(links) if link.between and host[link.target] == h]
        m.host_is_reached.add(sum(m.is_sent[c, k] for k in into) >= 1)


def _add_unsaid(m: Any, demand: ChunkDemand) -> None:
    """Add what the appendix leaves unsaid."""
    links = demand.logical.links

    def arriving(c: int, r: int) -> Any:
        return sum(m.is_sent[c, k] for k in demand.logical.in_links[r])

    def comes_once(m: Any, c: int, r: int) -> Any:
        if (c, r) in m.precondition:
            return arriving(c, r) == 0
        return arriving(c, r) == 1 if (c, r) in m.postcondition else arriving(c, r) <= 1

    def passes_on_what_came(m: Any, c: int, k: int) -> Any:
        r = links[k].source
        if (c, r) in m.precondition:
            return pyo.Constraint.Skip
        return m.is_sent[c, k] <= arriving(c, r)

    m.comes_once = pyo.Constraint(m.C, m.R, rule=comes_once, doc="unsaid")
    m.passes_on = pyo.Constraint(m.C, m.L, rule=passes_on_what_came, doc="unsaid")

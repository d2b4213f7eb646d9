"""The programs in Pyomo: sets, mutable parameters, and appsi's persistent HiGHS, which updates parameters.

The linear programs are the models that the project solves.
"""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo
from pyomo.contrib.appsi.solvers import Highs

from tutti.experiments.layers.programs import HIGHS, Built, Network
from tutti.experiments.solver_study.instances import whole_model
from tutti.models.all_to_all import Demand
from tutti.models.all_to_all.model import flow_model
from tutti.models.allreduce.model import allreduce_model
from tutti.topologies.exact import FloatArray


def _built(m: Any) -> Built:
    """Return a model whose capacities are the parameter b: the solver looks for changed parameters alone."""
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


def flow(network: Network) -> Built:
    """Build (A.1), the project's model of an all-to-all."""
    return _built(flow_model(Demand.uniform(network.topology)))


def allreduce(network: Network) -> Built:
    """Build (B.5), the project's model of an allreduce."""
    return _built(allreduce_model(network.topology))


def bfb(network: Network) -> Built:
    """Build (3.1) of all nodes and steps as one program."""
    return _built(whole_model(network.topology))


def sends(network: Network) -> Built:
    """Build the binary program: x[c, e, t] sends chunk c over e in step t; h[c, n, t]: n has it before t."""
    m, source, into = pyo.ConcreteModel(), network.source, network.into
    m.V, m.E = pyo.RangeSet(0, network.nodes - 1), pyo.RangeSet(0, network.links - 1)
    m.b = pyo.Param(m.E, initialize=dict(enumerate(network.b.tolist())), mutable=True)
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

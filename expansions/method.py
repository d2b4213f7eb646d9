"""The schedule that a network in the papers' notation carries with it, as a method.

Bases, and products of different networks, have the optimal BFB schedule; a few bases have one that was found
by search. Line graphs, degree expansions and powers expand the schedule of the network that they are made
from (dissertation, section 3.5 and A.4). So do networks that got a link back for each link (A.1.6). A new
kind of network needs a case in `expanded`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tutti.expansions.constructions import (
    ShardTable,
    check_rows,
    expand_both_ways,
    expand_degree,
    expand_line,
    expand_power,
    from_schedule,
    to_schedule,
)
from tutti.expansions.prediction import note_of, predict
from tutti.expansions.reversal import reflected, reversal
from tutti.expansions.searched import SEARCHED, stored_allgather
from tutti.models.bfb import METHOD as BFB
from tutti.models.bfb import BfbOptions
from tutti.schedules.capabilities import Capabilities, Groups, Shape
from tutti.schedules.collective import Kind, collective
from tutti.schedules.compose import BY_ALLGATHER, from_allgather
from tutti.schedules.method import Method, NoOptions, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import Unsupported
from tutti.topologies.families.expressions import Base, Both, Degree, Expression, LineGraph, Power, Product
from tutti.topologies.transforms import transpose


def synthesize(problem: Problem, options: NoOptions, rng: np.random.Generator) -> Schedule:
    """Return the expanded schedule, in the step clock.

    A reduce-scatter is the reverse of an allgather on the transposed network. If the network is isomorphic to
    its transpose, this is the network's own allgather, moved by the isomorphism (Theorem 2). Otherwise the
    transposed network is expanded (Corollary 1.2).

    Raises
    ------
    InputError, NoSchedule, Unsupported
        As the expansions, and BFB on the parts.
    """
    expression, topology = _expression(problem), problem.topology
    note = note_of(expression)
    check_rows(topology.name, topology.num_ranks * (topology.num_ranks - 1))  # one for each pair at least

    def gathered(half: Problem) -> Schedule:
        """Return an allgather on the network or on its transpose."""
        table = expanded(expression) if half.topology is topology else _turned(expression)
        return to_schedule(table, topology, half.collective)

    stats = {"note": note, **({} if note else _predicted(problem))}
    return from_allgather(problem, gathered).replace(stats=stats)


def _predicted(problem: Problem) -> dict[str, Any]:
    """Return columns with the T_L and T_B that theorems predict; none for a base, or without a theorem."""
    if isinstance(_expression(problem), Base) or problem.topology.node_bandwidth is None:
        return {}
    try:
        tl, tb, exact = _theorems(problem)
    except Unsupported:
        return {}
    return {"predicted_tl": tl, "predicted_tb": tb, "prediction": "equal" if exact else "at most"}


def _theorems(problem: Problem) -> tuple[int, Fraction, bool]:
    """Return T_L, T_B in M/B, and whether T_B is exact (`expansions.prediction`)."""
    known = predict(_expression(problem))
    halves = 2 if problem.collective.kind is Kind.ALLREDUCE else 1
    return halves * known.tl, halves * known.tb, known.exact


def _expression(problem: Problem) -> Expression:
    expression = problem.topology.expression
    if not isinstance(expression, Expression):
        raise METHOD.unsupported("needs a network in the papers' notation")
    return expression


def _turned(expression: Expression) -> ShardTable:
    """Return an allgather on the transpose, by Theorem 2 or Corollary 1.2."""
    nodes = reversal(expression)
    return expanded(expression, turned=True) if nodes is None else reflected(expanded(expression), nodes)


def expanded(expression: Expression, turned: bool = False) -> ShardTable:
    """Return the allgather that an expression carries, or, if `turned`, that of its transpose.

    Raises
    ------
    InputError, NoSchedule, Unsupported
        As the expansions, and BFB on the parts.
    """
    match expression:
        case LineGraph(of, times):
            table = expanded(of, turned)
            for _ in range(times):
                table = expand_line(table)
            return table
        case Degree(of, factor):
            return expand_degree(expanded(of, turned), factor)
        case Power(of, exponent):
            return expand_power(expanded(of, turned), exponent)
        case Both(of):
            there, nodes = expanded(of, turned), reversal(of)
            back = expanded(of, not turned) if nodes is None else reflected(there, nodes)
            return expand_both_ways(there, back)
        case _:
            return _unexpanded(expression, turned)


def _unexpanded(expression: Base | Product, turned: bool) -> ShardTable:
    """Return the allgather of a network that is not expanded: a stored one, or that of BFB."""
    topology = expression.topology()
    if isinstance(expression, Base) and expression in SEARCHED:
        return stored_allgather(expression, topology, turned)
    sending = transpose(topology) if turned else topology
    problem = Problem(sending, collective(Kind.ALLGATHER, topology.num_ranks))
    options = BfbOptions(by="counting")
    BFB.supports(problem, options)
    schedule = BFB.synthesize(problem, options, np.random.default_rng(0))
    return from_schedule(schedule, topology, turned)


def estimate(problem: Problem, options: NoOptions) -> float | None:
    """Return the seconds by the predicted T_L and T_B (`expansions.prediction`); for a base, BFB's estimate.

    None where nothing is predicted: nodes have different bandwidths, or no theorem covers the expression.
    """
    expression, topology = _expression(problem), problem.topology
    if isinstance(expression, Base | Product) and expression not in SEARCHED and BFB.estimate is not None:
        return BFB.estimate(problem, BfbOptions())
    rate = topology.node_bandwidth
    if rate is None:
        return None
    tl, tb, _ = _theorems(problem)
    alpha, size = topology.alpha.floats.max(), float(problem.size or 0)
    return float(tl * alpha + float(tb) * size / float(rate))


METHOD = Method(
    name="expansion",
    kind="expansion",
    synthesize=synthesize,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE, uneven_shards=False, shape=Shape.NOTATION),
    estimate=estimate,
    summary="the schedule that a network in the papers' notation carries: line graph, degree, Cartesian",
)

"""BFB's linear program (A.12) for links of unequal bandwidth and α: one for each node u and step t.

    minimize    U                                                                when the last link is done
    subject to  α_w + (M/N) / B_w · sum over v of x[v, w] <= U      for every in-link w of u
                sum over w of x[v, w]  = 1      for every source v at distance t from u
                0 <= x[v, w] <= 1               for every v and in-link w from a node one hop nearer to v

An in-link whose α alone is U carries nothing, and should not be paid for: it is removed and the program
solved again, as long as there is one. (Dissertation, A.5.3.) Times are in units of `Scaled.unit`, so that a
solver's tolerances, which are absolute, mean the same at every size.

This is the reference for `models.bfb.unequal`, which finds the same U without it, exactly.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyomo.environ as pyo

from models.bfb.frontiers import Frontiers
from models.bfb.lp import eligible_links, spent
from models.solvers.outcome import SolutionStatus, SolverResult
from models.solvers.solving import solve
from topologies.errors import NoSchedule
from topologies.topology import Topology

ROUNDING = 1e-6
"""How far, of U, a solver's answer may be off."""


@dataclass(frozen=True)
class Scaled:
    """What the in-links of one node take, by position, in units of `unit` seconds."""

    alpha: Mapping[int, float]
    shard: Mapping[int, float]
    unit: Fraction

    @classmethod
    def of(cls, topology: Topology, node: int, size: Fraction) -> Scaled:
        """Return the times of the in-links of a node for shards of M/N, the longest of them the unit."""
        offsets, links = topology.in_links
        into = [topology.link(int(link)) for link in links[offsets[node] : offsets[node + 1]]]
        shard = [size / topology.num_ranks / link.bandwidth for link in into]
        unit = max(*shard, *(link.alpha for link in into))
        return cls(
            {w: float(link.alpha / unit) for w, link in enumerate(into)},
            {w: float(seconds / unit) for w, seconds in enumerate(shard)},
            unit,
        )


def time_model(eligible: Mapping[int, list[int]], links: Scaled, kept: set[int]) -> pyo.ConcreteModel:
    """Return linear program (A.12) of one subproblem.

    Parameters
    ----------
    eligible
        For every source v the in-links of u over which its shard can come.
    links
        What these take.
    kept
        The in-links of u, but for those removed.
    """
    m = pyo.ConcreteModel(name="bfb-unequal")
    pairs = [(v, w) for v, choices in eligible.items() for w in choices if w in kept]
    m.sources = pyo.Set(initialize=list(eligible), doc="N_t^-(u)")
    m.links = pyo.Set(initialize=sorted(kept), doc="N^-(u), as in-links")
    m.pairs = pyo.Set(initialize=pairs, dimen=2, doc="(v, w) with d(v, u) = d(v, w) + 1 = t")

    m.U = pyo.Var(doc="U_{u,t}")
    m.x = pyo.Var(m.pairs, bounds=(0, 1), doc="x_{v,(w,u),t}")

    @m.Expression(m.links)
    def brought(m: Any, w: int) -> Any:
        """Shards that in-link w brings."""
        return sum(m.x[v, link] for v, link in pairs if link == w)

    @m.Constraint(m.links)
    def done_within_u(m: Any, w: int) -> Any:
        """(A.12), first line: α, and then the bytes, of every in-link."""
        return links.alpha[w] + links.shard[w] * m.brought[w] <= m.U

    @m.Constraint(m.sources)
    def shard_arrives_whole(m: Any, v: int) -> Any:
        """(A.12), second line: u receives all of v's shard."""
        return sum(m.x[v, w] for w in eligible[v] if w in kept) == 1

    m.objective = pyo.Objective(expr=m.U, sense=pyo.minimize)
    return m


@dataclass(frozen=True)
class LpTimes:
    """U of every subproblem by linear programs, and what they cost.

    Parameters
    ----------
    of_job
        U of (u, t) at ``u * steps + t - 1``, in seconds; 0 where there is no source.
    programs
        How many were solved, those again with fewer links included.
    build_s, solve_s, variables, constraints, solver
        As of `models.bfb.lp.LpWorkloads`.
    """

    of_job: tuple[float, ...]
    programs: int
    build_s: float
    solve_s: float
    variables: int
    constraints: int
    solver: str


def lp_times(work: Frontiers, size: Fraction, solver: str = "highs", options: Any = None) -> LpTimes:
    """Solve (A.12) for every (u, t), for M = `size` bytes.

    Raises
    ------
    NoSchedule
        If a solver stops without an optimum.
    """
    begin = time.perf_counter()
    values, results = [], []
    for job, eligible in enumerate(eligible_links(work)):
        if not eligible:
            values.append(0.0)
            continue
        links = Scaled.of(work.topology, job // work.steps, size)
        solved = _without_idle_links(eligible, links, solver, options)
        results += solved
        values.append(_objective(solved[-1]) * float(links.unit))
    return LpTimes(tuple(values), len(results), *spent(results, begin))


def _without_idle_links(
    eligible: Mapping[int, list[int]], links: Scaled, solver: str, options: Any
) -> list[SolverResult]:
    """Return the solved programs; the last has no link that is paid for and carries nothing."""
    kept, results = set(links.alpha), []
    while True:
        model = time_model(eligible, links, kept)
        results.append(solve(model, solver, options))
        until = _objective(results[-1])
        idle = {w for w in kept if links.alpha[w] >= until * (1 - ROUNDING) and _idle(results[-1], model, w)}
        if not idle:
            return results
        kept -= idle


def _idle(result: SolverResult, model: pyo.ConcreteModel, link: int) -> bool:
    shares = [result.value(model.x[v, w]) for v, w in model.pairs if w == link]
    return sum(filter(None, shares)) < ROUNDING


def _objective(result: SolverResult) -> float:
    if result.status is not SolutionStatus.OPTIMAL or result.objective is None:
        raise NoSchedule(f"bfb: {result.solver} stopped with '{result.termination}'")
    return result.objective


def agree(exact: Fraction, solved: float) -> bool:
    """Whether a solver's U is the exact one, as far as it can tell."""
    return bool(np.isclose(solved, float(exact), rtol=ROUNDING, atol=0))

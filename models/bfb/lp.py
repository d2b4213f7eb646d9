"""BFB's linear program (3.1), as the paper has it: one for each node u and step t.

    minimize    U                                                       the largest load of a link into u
    subject to  sum over v of x[v, w] <= U      for every in-link w of u
                sum over w of x[v, w]  = 1      for every source v at distance t from u
                0 <= x[v, w] <= 1               for every v and in-link w from a node one hop nearer to v

x[v, w] is the proportion of v's shard that comes to u over w. Parallel links are in-links of their own, so w
numbers u's in-links here, where the paper names their source nodes. (Dissertation, section 3.6.1.)

This is the reference for `models.bfb.counting`, which finds the same U without it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyomo.environ as pyo

from models.bfb.frontiers import Frontiers
from models.solvers.outcome import SolutionStatus, SolverResult
from models.solvers.solving import solve
from topologies.errors import NoSchedule

ROUNDING = 1e-6
"""How far a solver's U may be from the rational that it stands for."""


def workload_model(eligible: dict[int, list[int]]) -> pyo.ConcreteModel:
    """Return linear program (3.1) of one subproblem.

    Parameters
    ----------
    eligible
        For every source v the in-links of u over which its shard can come.
    """
    m = pyo.ConcreteModel(name="bfb")
    pairs = [(v, w) for v, links in eligible.items() for w in links]
    m.sources = pyo.Set(initialize=list(eligible), doc="N_t^-(u)")
    m.links = pyo.Set(initialize=sorted({w for _, w in pairs}), doc="N^-(u), as in-links")
    m.pairs = pyo.Set(initialize=pairs, dimen=2, doc="(v, w) with d(v, u) = d(v, w) + 1 = t")

    m.U = pyo.Var(doc="U_{u,t}")
    m.x = pyo.Var(m.pairs, bounds=(0, 1), doc="x_{v,(w,u),t}")

    brought = {w: [v for v, link in pairs if link == w] for w in m.links}

    @m.Constraint(m.links)
    def load_within_u(m: Any, w: int) -> Any:
        """(3.1), first line: no in-link brings more than U shards."""
        return sum(m.x[v, w] for v in brought[w]) <= m.U

    @m.Constraint(m.sources)
    def shard_arrives_whole(m: Any, v: int) -> Any:
        """(3.1), second line: u receives all of v's shard."""
        return sum(m.x[v, w] for w in eligible[v]) == 1

    m.objective = pyo.Objective(expr=m.U, sense=pyo.minimize)
    return m


@dataclass(frozen=True)
class LpWorkloads:
    """U of every subproblem by linear programs, and what they cost.

    Parameters
    ----------
    of_job
        U of (u, t) at ``u * steps + t - 1``, exact; 0 where there is no source.
    build_s, solve_s
        Seconds to make the models and their matrices, and in the solver, of all together.
    variables, constraints
        Of all together.
    solver
        Name and version.
    """

    of_job: tuple[Fraction, ...]
    build_s: float
    solve_s: float
    variables: int
    constraints: int
    solver: str


def lp_workloads(work: Frontiers, solver: str = "highs", options: Any = None) -> LpWorkloads:
    """Solve (3.1) for every (u, t).

    Raises
    ------
    NoSchedule
        If a solver stops without an optimum.
    """
    begin = time.perf_counter()
    values, results = [], []
    for job, eligible in enumerate(eligible_links(work)):
        if not eligible:
            values.append(Fraction(0))
            continue
        results.append(solve(workload_model(eligible), solver, options))
        most_links = len({w for links in eligible.values() for w in links})
        values.append(_exact(results[-1], most_links, divmod(job, work.steps)))
    return LpWorkloads(tuple(values), *spent(results, begin))


def spent(results: Sequence[SolverResult], begin: float) -> tuple[float, float, int, int, str]:
    """Return what programs cost since `begin`: build_s, solve_s, variables, constraints and solver."""
    solve_s = sum(result.solve_s for result in results)
    return (
        time.perf_counter() - begin - solve_s,
        solve_s,
        sum(result.columns for result in results),
        sum(result.rows for result in results),
        f"{results[0].solver} {results[0].version}",
    )


def eligible_links(work: Frontiers) -> Iterator[dict[int, list[int]]]:
    """Yield, for each subproblem in order, its sources with their eligible in-links (by position)."""
    bits = np.unpackbits(work.eligible, axis=1, bitorder="little")
    for begin, end in zip(work.jobs[:-1], work.jobs[1:], strict=True):
        table: dict[int, list[int]] = {}
        for c in range(begin, end):
            links = np.flatnonzero(bits[c]).tolist()
            table |= dict.fromkeys(work.sources[work.offsets[c] : work.offsets[c + 1]].tolist(), links)
        yield table


def _exact(result: SolverResult, most_links: int, job: tuple[int, int]) -> Fraction:
    """Return the rational that the solver's optimum stands for.

    U is a number of sources over a number of in-links (`models.bfb.counting`), so it is the only rational
    of its denominators so close to the answer.
    """
    u, t = job
    if result.status is not SolutionStatus.OPTIMAL or result.objective is None:
        where = f"node {u}, step {t + 1}"
        raise NoSchedule(f"bfb: {result.solver} stopped at {where} with '{result.termination}'")
    exact = Fraction(result.objective).limit_denominator(most_links)
    if abs(result.objective - exact) > ROUNDING:
        raise NoSchedule(
            f"bfb: {result.solver} returned U = {result.objective}, which is no possible workload"
        )
    return exact

"""BFB's linear programs, as the paper has them: one for each node u and step t.

If all links have the same bandwidth and α, (3.1) (dissertation, section 3.6.1):

    minimize    U                                                       the largest load of a link into u.
    subject to  sum over v of x[v, w] <= U      for every in-link w of u.
                sum over w of x[v, w]  = 1      for every source v at distance t from u.
                0 <= x[v, w] <= 1               for every v and in-link w from a node one hop nearer to v.

If they differ, for M bytes, (A.12) (A.5.3): U is the time when the last link is done, and the first family
becomes

                α_w + (M/N) / B_w · sum over v of x[v, w] <= U      for every in-link w of u

An in-link whose α alone is U carries nothing, and its α should not count: it is removed and the program
solved again, as long as there is one.

x[v, w] is the proportion of v's shard that comes to u over w. Parallel links are in-links of their own, so w
numbers u's in-links here, where the paper names their source nodes. `models.bfb.counting` finds the U of
(3.1) without the programs, `models.bfb.unequal` that of (A.12).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pyomo.environ as pyo

from tutti.models.bfb.frontiers import Frontiers
from tutti.models.solvers import Effort, SolutionStatus, SolverResult, solve
from tutti.models.solvers.outcome import ROUNDING
from tutti.topologies.errors import NoSchedule
from tutti.topologies.kernels import now
from tutti.topologies.topology import Topology

Eligible = Mapping[int, list[int]]
"""For every source v of a subproblem the in-links of u, by position, over which its shard can come."""


def load_model(eligible: Eligible) -> pyo.ConcreteModel:
    """Return linear program (3.1) of one subproblem."""
    m = _model("bfb", eligible, {w for links in eligible.values() for w in links})

    @m.Constraint(m.links)
    def load_within_u(m: Any, w: int) -> Any:
        """(3.1), first line: no in-link brings more than U shards."""
        return m.brought[w] <= m.U

    return m


def time_model(eligible: Eligible, links: LinkTimes) -> pyo.ConcreteModel:
    """Return linear program (A.12) of one subproblem.

    Parameters
    ----------
    eligible
        The sources with their in-links.
    links
        The in-links of u that are not removed, and their times.
    """
    kept = {v: [w for w in choices if w in links.alpha] for v, choices in eligible.items()}
    m = _model("bfb-unequal", kept, set(links.alpha))

    @m.Constraint(m.links)
    def done_within_u(m: Any, w: int) -> Any:
        """(A.12), first line: α, and then the bytes, of every in-link."""
        return links.alpha[w] + links.shard[w] * m.brought[w] <= m.U

    return m


def _model(name: str, eligible: Eligible, links: set[int]) -> pyo.ConcreteModel:
    """Return the part that (3.1) and (A.12) share: all but the first family."""
    m = pyo.ConcreteModel(name=name)
    pairs = [(v, w) for v, choices in eligible.items() for w in choices]
    sources_over: dict[int, list[int]] = {w: [] for w in sorted(links)}
    for v, w in pairs:
        sources_over[w].append(v)
    m.sources = pyo.Set(initialize=list(eligible), doc="N_t^-(u)")
    m.links = pyo.Set(initialize=list(sources_over), doc="N^-(u), as in-links")
    m.pairs = pyo.Set(initialize=pairs, dimen=2, doc="(v, w) with d(v, u) = d(v, w) + 1 = t")

    m.U = pyo.Var(doc="U_{u,t}")
    m.x = pyo.Var(m.pairs, bounds=(0, 1), doc="x_{v,(w,u),t}")

    @m.Expression(m.links)
    def brought(m: Any, w: int) -> Any:
        """Shards that in-link w brings."""
        return sum(m.x[v, w] for v in sources_over[w])

    @m.Constraint(m.sources)
    def shard_arrives_whole(m: Any, v: int) -> Any:
        """(3.1) and (A.12), second line: u receives all of v's shard."""
        return sum(m.x[v, w] for w in eligible[v]) == 1

    m.objective = pyo.Objective(expr=m.U, sense=pyo.minimize)
    return m


class LinkTimes:
    """Times of some in-links of one node, by position, in units of `unit` seconds.

    Times are in such units, and not in seconds, since a solver's tolerances are absolute. The unit is what
    the fastest link needs for one shard: U is not much less, at least that over one more than the links.
    """

    def __init__(self, seconds: Mapping[int, tuple[Fraction, Fraction]]) -> None:
        """Take α and the time of a shard of M/N for each link, in seconds."""
        self.unit = min(alpha + shard for alpha, shard in seconds.values())
        self.alpha = {w: float(alpha / self.unit) for w, (alpha, _) in seconds.items()}
        self.shard = {w: float(shard / self.unit) for w, (_, shard) in seconds.items()}


def _seconds(topology: Topology, node: int, size: Fraction) -> dict[int, tuple[Fraction, Fraction]]:
    """Return α and the seconds of a shard of M/N, for each in-link of a node by position."""
    offsets, links = topology.in_links
    into = [topology.link(int(link)) for link in links[offsets[node] : offsets[node + 1]]]
    return {w: (link.alpha, size / topology.num_ranks / link.bandwidth) for w, link in enumerate(into)}


class Programs:
    """Solves the programs of all subproblems and keeps what they cost.

    Parameters
    ----------
    work
        The subproblems.
    solver
        The LP solver's name.
    time_limit
        Seconds for all of them; None for no limit.
    """

    def __init__(self, work: Frontiers, solver: str = "highs", time_limit: float | None = None) -> None:
        self._work, self._solver = work, solver
        self._time_limit = time_limit
        self.effort = Effort()

    def loads(self) -> tuple[Fraction, ...]:
        """Solve (3.1) for every subproblem.

        Returns
        -------
        tuple of Fraction
            U of (u, t) at ``u * steps + t - 1``, exact, in shards; 0 where there is no source.

        Raises
        ------
        NoSchedule
            If a solver stops without an optimum, or the time limit ends.
        """
        values = []
        for _, eligible in self._subproblems():
            most_links = len({w for links in eligible.values() for w in links})
            values.append(_exact(self._solved(load_model(eligible)), most_links) if eligible else Fraction(0))
        return tuple(values)

    def times(self, size: Fraction) -> tuple[float, ...]:
        """Solve (A.12) for every subproblem, for M = `size` bytes.

        Returns
        -------
        tuple of float
            U of (u, t) at ``u * steps + t - 1``, in seconds; 0 where there is no source.

        Raises
        ------
        NoSchedule
            If a solver stops without an optimum, or the time limit ends.
        """
        topology = self._work.topology
        return tuple(
            self._without_idle_links(eligible, _seconds(topology, u, size)) if eligible else 0.0
            for u, eligible in self._subproblems()
        )

    def _subproblems(self) -> Iterator[tuple[int, Eligible]]:
        """Yield the node and the sources of each subproblem, and time what is done with them."""
        begin, solved, limit = now(), self.effort.solve_s, self._time_limit
        for job, eligible in enumerate(eligible_links(self._work)):
            if limit is not None and now() - begin > limit:
                jobs = len(self._work.jobs) - 1
                raise NoSchedule(f"bfb: {limit:g} s ended after {job} of {jobs} linear programs")
            yield job // self._work.steps, eligible
        self.effort.build_s += now() - begin - (self.effort.solve_s - solved)

    def _solved(self, model: pyo.ConcreteModel) -> SolverResult:
        """Solve a program; variables and constraints are those of all programs together."""
        variables, constraints = self.effort.variables, self.effort.constraints
        result = solve(model, self._solver)
        self.effort.add(result)
        self.effort.variables += variables
        self.effort.constraints += constraints
        if result.status is not SolutionStatus.OPTIMAL or result.objective is None:
            raise NoSchedule(f"bfb: {result.solver} stopped with '{result.termination}'")
        return result

    def _without_idle_links(self, eligible: Eligible, seconds: dict[int, tuple[Fraction, Fraction]]) -> float:
        """Return U, in seconds, without the α of links that carry nothing (A.5.3)."""
        while True:
            links = LinkTimes(seconds)
            model = time_model(eligible, links)
            result = self._solved(model)
            until = float(result.objective or 0.0)
            late = [w for w, alpha in links.alpha.items() if alpha >= until * (1 - ROUNDING)]
            idle = [w for w in late if _carried(result, model, w) < ROUNDING]
            if not idle:
                return until * float(links.unit)
            for w in idle:
                del seconds[w]


def eligible_links(work: Frontiers) -> Iterator[dict[int, list[int]]]:
    """Yield, for each subproblem in order, its sources with their eligible in-links (by position)."""
    bits = np.unpackbits(work.eligible, axis=1, bitorder="little")
    for begin, end in zip(work.jobs[:-1], work.jobs[1:], strict=True):
        table: dict[int, list[int]] = {}
        for c in range(begin, end):
            links = np.flatnonzero(bits[c]).tolist()
            table |= dict.fromkeys(work.sources[work.offsets[c] : work.offsets[c + 1]].tolist(), links)
        yield table


def _exact(result: SolverResult, most_links: int) -> Fraction:
    """Return the rational that the solver's optimum stands for.

    U is a number of sources over a number of in-links (`models.bfb.counting`), so it is the only rational
    of its denominators so close to the answer.
    """
    value = float(result.objective or 0.0)
    exact = Fraction(value).limit_denominator(most_links)
    if abs(value - exact) > ROUNDING:
        raise NoSchedule(f"bfb: {result.solver} returned U = {value}, which is no possible workload")
    return exact


def _carried(result: SolverResult, model: pyo.ConcreteModel, link: int) -> float:
    """Return the shards that a link brings."""
    return sum(filter(None, (result.value(model.x[v, w]) for v, w in model.pairs if w == link)))


def agree(exact: Fraction, solved: float) -> bool:
    """Whether a solver's U is the exact one, as far as it can tell."""
    return bool(np.isclose(solved, float(exact), rtol=ROUNDING, atol=0))

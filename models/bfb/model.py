"""BFB's linear programs, as the paper has them: one for each node u and step t.

For M bytes, (A.12) (dissertation, section A.5.3):

    minimize    U                                                  when the last link into u is done
    subject to  alpha[w] + beta[w] * sum over v of x[v, w] <= U    for every in-link w of u
                sum over w of x[v, w] = 1         for every source v at distance t from u
                0 <= x[v, w] <= 1                 for every v and in-link w from a node one hop nearer to v

x[v, w] is the proportion of v's shard that comes to u over w, and beta is (M/N) / B. Between equal links,
with alpha = 0 and beta = 1, it is (3.1) (section 3.6.1): U is the largest load of a link into u, in shards.
If the α of an in-link alone is U, the in-link carries nothing, and its α should not count. Such in-links are
removed and the program is solved again, until there is none. In-links over which nothing can come are left
out from the beginning.

Parallel links are in-links of their own, so w numbers u's in-links here, where the paper names their source
nodes. alpha and beta are mutable parameters. Cloned, and changed by name, a model can be solved again for
another size or other links. `models.bfb.counting` finds the U of both without the programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

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


class LinkTimes(NamedTuple):
    """The times of some in-links of one node, by their positions: α, and β, which a shard takes.

    They are in units of `unit` seconds, because a solver's tolerances are absolute. The unit is the time of
    one shard on the fastest link. U is not much less: at least a unit over the number of links plus one.
    """

    alpha: Mapping[int, float]
    beta: Mapping[int, float]
    unit: Fraction

    @classmethod
    def of(cls, topology: Topology, node: int, size: Fraction, places: Iterable[int]) -> LinkTimes:
        """Return the times of the in-links of a node at these places, for M = `size` bytes."""
        first, links = topology.in_links[0][node], topology.in_links[1]
        into = {w: topology.link(int(links[first + w])) for w in places}
        shard = {w: size / topology.num_ranks / link.bandwidth for w, link in into.items()}
        unit = min(link.alpha + shard[w] for w, link in into.items())
        alpha = {w: float(link.alpha / unit) for w, link in into.items()}
        return cls(alpha, {w: float(seconds / unit) for w, seconds in shard.items()}, unit)


EQUAL = LinkTimes({}, {}, Fraction(1))
"""The times of equal links: those that are not named have an α of 0 and a β of 1."""


def bfb_model(eligible: Eligible, links: LinkTimes = EQUAL) -> pyo.ConcreteModel:
    """Return linear program (A.12) of one subproblem; with equal links it is (3.1)."""
    m = pyo.ConcreteModel(name="bfb")
    pairs = [(v, w) for v, choices in eligible.items() for w in choices]
    sources_over: dict[int, list[int]] = {w: [] for w in places_of(eligible)}
    for v, w in pairs:
        sources_over[w].append(v)
    m.sources = pyo.Set(initialize=list(eligible), doc="N_t^-(u)")
    m.links = pyo.Set(initialize=list(sources_over), doc="N^-(u), as in-links")
    m.pairs = pyo.Set(initialize=pairs, dimen=2, doc="(v, w) with d(v, u) = d(v, w) + 1 = t")

    data = {"within": pyo.NonNegativeReals, "mutable": True}
    m.alpha = pyo.Param(m.links, initialize=links.alpha, default=0, doc="α_{w,u}", **data)
    m.beta = pyo.Param(m.links, initialize=links.beta, default=1, doc="(M/N) / B_{w,u}", **data)
    m.U = pyo.Var(doc="U_{u,t}")
    m.x = pyo.Var(m.pairs, bounds=(0, 1), doc="x_{v,(w,u),t}")

    @m.Constraint(m.sources)
    def shard_arrives_whole(m: Any, v: int) -> Any:
        """(3.1) and (A.12), second line: u receives all of v's shard."""
        return sum(m.x[v, w] for w in eligible[v]) == 1

    @m.Constraint(m.links)
    def done_within_u(m: Any, w: int) -> Any:
        """(A.12), first line: α, and then the bytes, of every in-link."""
        return m.alpha[w] + m.beta[w] * sum(m.x[v, w] for v in sources_over[w]) <= m.U

    m.objective = pyo.Objective(expr=m.U, sense=pyo.minimize)
    return m


def places_of(eligible: Eligible) -> list[int]:
    """Return the positions of the in-links over which something can come."""
    return sorted({w for links in eligible.values() for w in links})


class Programs:
    """Solves the programs of all subproblems and adds up their effort.

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
            solved = self._solved(bfb_model(eligible)) if eligible else None
            values.append(_exact(solved, len(places_of(eligible))) if solved else Fraction(0))
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
        topology, solved = self._work.topology, []
        for u, eligible in self._subproblems():
            links = LinkTimes.of(topology, u, size, places_of(eligible)) if eligible else None
            solved.append(self._without_idle_links(eligible, links) if links else 0.0)
        return tuple(solved)

    def _subproblems(self) -> Iterator[tuple[int, Eligible]]:
        """Yield the node and the sources of each subproblem; what is done with them counts as building."""
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

    def _without_idle_links(self, eligible: Eligible, links: LinkTimes) -> float:
        """Return U, in seconds, without the α's of links that carry nothing (A.5.3)."""
        m, kept = bfb_model(eligible, links), set(links.alpha)
        while True:
            result = self._solved(m)
            until = float(result.objective or 0.0)
            late = [w for w in kept if links.alpha[w] >= until * (1 - ROUNDING)]
            idle = [w for w in late if sum(map(result.value, m.x[:, w])) < ROUNDING]
            if not idle:
                return until * float(links.unit)
            for w in idle:
                kept.remove(w)
                m.done_within_u[w].deactivate()
                m.x[:, w].fix(0)


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


def agree(exact: Fraction, solved: float) -> bool:
    """Whether a solver's U is the exact one, as far as it can tell."""
    return bool(np.isclose(solved, float(exact), rtol=ROUNDING, atol=0))

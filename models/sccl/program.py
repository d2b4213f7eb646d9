r"""SCCL's encoding as an integer program: S steps, C chunks, as few rounds as can be.

With x[e, c, s] = 1 where chunk c crosses link e = (a, b) in step s, h[n, c, s] = 1 where rank n has c after
step s, and r_s the rounds of step s,

.. math::

    \min \sum_s r_s, \qquad
    h_{n c s} = h_{n c, s-1} + \sum_{e \to n} x_{e c s}, \qquad
    h_{n c S} = 1 \;(n \text{ must have } c), \qquad
    x_{(a, b) c s} \le h_{a c, s-1}, \qquad
    \sum_c x_{e c s} \le b_e r_s, \; r_s \ge 1.

SCCL (Cai et al., Synthesizing Optimal Collective Algorithms, PPoPP 2021, section 3.2, C1 to C6) asks an SMT
solver whether R rounds will do: `in_rounds`. So does `fewest_rounds` first, with the R that the lower bounds
allow: an answer is optimal, and R + 1 is the next. What is undecided in time goes to the program that looks
for the least R, with the R ruled out as a bound. A variable exists only where c can have come to a within
s - 1 steps and can still be of use at b.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyomo.environ as pyo

from models.sccl.breadth_first import breadth_first
from models.sccl.instance import Instance
from models.solvers import Feature, SolutionStatus, SolverResult, Termination, find_backend, solve
from models.solvers.outcome import least_whole
from topologies.errors import InputError, NoSchedule
from topologies.exact import Int64Array

HALF = 0.5
BREADTH_FIRST = "none: breadth first meets the bound"
"""Stands for the solver where nothing had to be solved."""
WITHIN = "none: breadth first has no more rounds"
TOO_LARGE = "none: the program takes longer to write than is given"
MOST_PLACES = 10**7
"""Steps times chunks times links: a program of more would take gigabytes."""
PER_SECOND = 20_000
"""Of the program's x: what takes longer to write than is given is not begun, unless it is only so many."""
EXACT = 1e-9
"""Relative gap at which an optimum of whole numbers is proven."""


@dataclass(frozen=True)
class Answer:
    """What is known of S steps.

    Parameters
    ----------
    steps, rounds
        S, and the R of the schedule found.
    proven
        No schedule of S steps has fewer rounds.
    rows
        int64, shape (4, transfers): step from 1, link, chunk (in `Instance.item`), in order of step.
    stats
        Columns of a result row.
    """

    steps: int
    rounds: int
    proven: int
    rows: Int64Array
    stats: dict[str, Any]

    @property
    def optimal(self) -> bool:
        """Whether the schedule has as few rounds as can be."""
        return self.rounds == self.proven


def crossings(instance: Instance, steps: int) -> int:
    """Return how many x the program of S steps has, without making it."""
    a, b = instance.topology.source, instance.topology.target
    first, last = instance.hops[:, a].astype(np.int64), steps - instance.hops_left[:, b].astype(np.int64)
    each = np.where(instance.holders[:, b], 0, np.maximum(last - first, 0)).sum(axis=1)
    return int(each[instance.item].sum())


def build(instance: Instance, steps: int) -> pyo.ConcreteModel:
    """Return the program above; r_s is at most what sends everything at once."""
    places = instance.topology.num_links * len(instance.item) * steps
    if places > MOST_PLACES:
        why = f"{steps} steps of {len(instance.item)} chunks on {instance.topology.num_links} links"
        raise NoSchedule(f"sccl: {why} are {places} to decide, over {MOST_PLACES}; ask for fewer")
    m = pyo.ConcreteModel(name="sccl")
    ends = list(zip(instance.topology.source.tolist(), instance.topology.target.tolist(), strict=True))
    items, hops, left = instance.item.tolist(), instance.hops, instance.hops_left
    moves = [
        (e, c, s)
        for c, item in enumerate(items)
        for e, (a, b) in enumerate(ends)
        if not instance.holders[item, b]
        for s in range(int(hops[item, a]) + 1, steps - int(left[item, b]) + 1)
    ]
    m.step = pyo.RangeSet(steps)
    m.x = pyo.Var(moves, domain=pyo.Binary)
    m.rounds = pyo.Var(m.step, domain=pyo.Integers, bounds=(1, len(items)))

    arriving: dict[tuple[int, int, int], list[Any]] = {}
    carried: dict[tuple[int, int], list[Any]] = {}
    for e, c, s in moves:
        arriving.setdefault((ends[e][1], c, s), []).append(m.x[e, c, s])
        carried.setdefault((e, s), []).append(m.x[e, c, s])
    _add_holding(m, instance, steps, arriving)
    m.held = pyo.ConstraintList()
    for e, c, s in moves:
        a = ends[e][0]
        if not instance.holders[items[c], a]:
            m.held.add(m.x[e, c, s] <= m.has[a, c, s - 1])
    m.fits = pyo.ConstraintList()
    for (e, s), sent in carried.items():
        m.fits.add(pyo.quicksum(sent) <= int(instance.capacity[e]) * m.rounds[s])
    return m


def _add_holding(
    m: pyo.ConcreteModel, instance: Instance, steps: int, arriving: dict[tuple[int, int, int], list[Any]]
) -> None:
    """Add h from the first arrival that can be to the last step, and that it is 1 there where it must."""
    first: dict[tuple[int, int], int] = {}
    for n, c, s in arriving:
        first[n, c] = min(s, first.get((n, c), s))
    m.has = pyo.Var(
        [(n, c, s) for (n, c), f in first.items() for s in range(f, steps + 1)], domain=pyo.Binary
    )
    m.holding = pyo.ConstraintList()
    for n, c, s in m.has:
        before = m.has[n, c, s - 1] if s > first[n, c] else 0
        m.holding.add(m.has[n, c, s] == before + pyo.quicksum(arriving.get((n, c, s), [])))
    for c, item in enumerate(instance.item.tolist()):
        for n in np.flatnonzero(instance.wanters[item] & ~instance.holders[item]).tolist():
            m.holding.add(m.has[n, c, steps] == 1)


@dataclass(frozen=True)
class Limits:
    """How the program is solved.

    Parameters
    ----------
    solver, seconds, seed
        A back-end for mixed-integer programs, its time limit and seed.
    start
        Whether to begin with a breadth-first schedule, which is the answer where it meets the lower bound.
    """

    solver: str = "cp-sat"
    seconds: float | None = None
    seed: int = 0
    start: bool = True


def fewest_rounds(instance: Instance, steps: int, limits: Limits = Limits()) -> Answer:
    """Return the schedule of S steps with the fewest rounds.

    Parameters
    ----------
    instance
        What is asked.
    steps
        S.
    limits
        How to solve.

    Raises
    ------
    NoSchedule
        If there is none (S is less than the longest way), or none was found in time.
    """
    what = _described(instance, steps)
    proven = max(instance.least_rounds, steps)
    first, most = _begun(instance, steps, limits)
    if first is not None and most == proven:
        return Answer(steps, most, proven, first, {"solver": BREADTH_FIRST, "solver_gap": 0.0})
    if _too_large(instance, steps, limits):
        if first is None or most is None:
            raise _none_in_time(what, limits)
        return Answer(steps, most, proven, first, {"solver": TOO_LARGE, "solver_gap": (most - proven) / most})
    search = _Search((instance, steps), limits)
    proven, result = search.fewest(proven, most)
    if result is not None and result.status is not SolutionStatus.NONE:
        rows = search.rows(result)
    elif first is not None:
        rows = first
    else:
        raise _none_in_time(what, limits)
    rounds = _rounds(instance, rows, steps)
    if most is not None and first is not None and most < rounds:
        rows, rounds = first, most
    stats = {**search.stats, "solver_gap": (rounds - proven) / rounds}
    return Answer(steps, rounds, proven, rows, stats)


def in_rounds(instance: Instance, steps: int, rounds: int, limits: Limits = Limits()) -> Answer:
    """Return a schedule of S steps and at most R rounds: SCCL's own question.

    Parameters
    ----------
    instance
        What is asked, C included.
    steps, rounds
        S and R.
    limits
        How to solve.

    Raises
    ------
    NoSchedule
        If there is none, with what proves that, or if that is undecided in time.
    """
    what = _described(instance, steps, rounds)
    proven = max(instance.least_rounds, steps)
    if rounds < proven:
        why = f"the lower bounds are {proven}" if proven > steps else "each step has one at least"
        raise NoSchedule(f"sccl: no {what}: {why}")
    first, most = _begun(instance, steps, limits)
    if first is not None and most is not None and most <= rounds:
        return Answer(steps, most, proven, first, {"solver": WITHIN, "solver_gap": (most - proven) / most})
    if _too_large(instance, steps, limits):
        raise _none_in_time(what, limits)
    search = _Search((instance, steps), limits)
    result = search.exactly(rounds, 1)
    if result.termination is Termination.INFEASIBLE:
        raise NoSchedule(f"sccl: no {what}: {limits.solver} has proven it")
    if result.status is SolutionStatus.NONE:
        limit = "" if limits.seconds is None else f" in {limits.seconds:g} s"
        raise NoSchedule(f"sccl: {limits.solver} found no {what}{limit}, nor that there is none")
    rows = search.rows(result)
    reached = _rounds(instance, rows, steps)
    return Answer(steps, reached, proven, rows, {**search.stats, "solver_gap": (reached - proven) / reached})


def _too_large(instance: Instance, steps: int, limits: Limits) -> bool:
    """Whether the program would take longer to write than it may; what `build` refuses is not counted."""
    if limits.seconds is None or instance.topology.num_links * len(instance.item) * steps > MOST_PLACES:
        return False
    return crossings(instance, steps) > PER_SECOND * max(1.0, limits.seconds)


def _none_in_time(what: str, limits: Limits) -> NoSchedule:
    limit = "" if limits.seconds is None else f" in {limits.seconds:g} s"
    return NoSchedule(f"sccl: {limits.solver} found no {what}{limit}; give it more time or fewer chunks")


def _described(instance: Instance, steps: int, rounds: int = 0) -> str:
    """Return what is asked, in words; raises where S is less than the longest way."""
    kind, network = instance.collective.kind, instance.topology.name
    many = f"{steps} steps and {rounds} rounds" if rounds else f"{steps} steps"
    what = f"{kind} of {instance.chunks} chunks a shard in {many} on {network}"
    if steps < instance.least_steps:
        raise NoSchedule(f"sccl: no {what}: a chunk must go over {instance.least_steps} links")
    return what


def _begun(instance: Instance, steps: int, limits: Limits) -> tuple[Int64Array | None, int | None]:
    """Return the breadth-first schedule and its rounds, where it is asked for and has so many steps."""
    if not limits.start or steps != instance.least_steps:
        return None, None
    first = breadth_first(instance)
    return first, None if first is None else _rounds(instance, first, steps)


class _Search:
    """The questions asked of one model, and what they took together."""

    def __init__(self, what: tuple[Instance, int], limits: Limits) -> None:
        begin = time.perf_counter()
        self.until = None if limits.seconds is None else begin + limits.seconds
        self.model, self.limits = build(*what), limits
        self.stats: dict[str, Any] = {"build_s": time.perf_counter() - begin, "solve_s": 0.0}

    def fewest(self, proven: int, most: int | None) -> tuple[int, SolverResult | None]:
        """Return what is proven at last, and the last answer; None if `most` is proven to be the least."""
        result = None
        while most is None or proven < most:
            result = self.exactly(proven)
            if result.termination is not Termination.INFEASIBLE:
                break
            proven, result = proven + 1, None
        if result is not None and result.status is SolutionStatus.NONE:
            result = self.least(proven)
            if result.bound is not None:
                proven = max(proven, least_whole(result.bound))
        return proven, result

    def rows(self, result: SolverResult) -> Int64Array:
        """Return the transfers of an answer: step, link and chunk, in order of step."""
        moved = [(s, e, c) for (e, c, s), x in self.model.x.items() if result.value(x) > HALF]
        return np.array(sorted(moved), dtype=np.int64).reshape(-1, 3).T

    def exactly(self, rounds: int, share: int = 2) -> SolverResult:
        """Ask for any schedule of at most so many rounds, in 1/`share` of the time that is left."""
        total = pyo.quicksum(self.model.rounds.values())
        self._replace(pyo.Constraint(expr=total <= rounds), pyo.Objective(expr=0.0))
        return self._solved(share)

    def least(self, rounds: int) -> SolverResult:
        """Ask for the schedule of fewest rounds, at least so many."""
        total = pyo.quicksum(self.model.rounds.values())
        self._replace(pyo.Constraint(expr=total >= rounds), pyo.Objective(expr=total))
        return self._solved(1)

    def _replace(self, limit: pyo.Constraint, objective: pyo.Objective) -> None:
        for name, component in (("limit", limit), ("objective", objective)):
            self.model.del_component(name)
            self.model.add_component(name, component)

    def _solved(self, share: int) -> SolverResult:
        solver = self.limits.solver
        backend: Any = find_backend(solver, {Feature.MILP})
        left = None if self.until is None else max(self.until - time.perf_counter(), 0.01) / share
        options = backend.options(time_limit=left, seed=self.limits.seed, relative_gap=EXACT)
        result = solve(self.model, solver, options)
        self.stats |= {
            "build_s": self.stats["build_s"] + result.compile_s,
            "solve_s": self.stats["solve_s"] + result.solve_s,
            "variables": result.columns,
            "constraints": result.rows,
            "solver": f"{result.solver} {result.version}",
        }
        return result


def _rounds(instance: Instance, rows: Int64Array, steps: int) -> int:
    """Return R of these transfers: in each step what the busiest link needs, at least 1."""
    step, link, _ = rows
    loads = np.zeros((steps + 1, instance.topology.num_links), dtype=np.int64)
    np.add.at(loads, (step, link), 1)
    needed = -(-loads // instance.capacity)
    if not len(step):
        raise InputError("sccl: nothing is to be moved")
    return int(np.maximum(needed[1:].max(axis=1), 1).sum())

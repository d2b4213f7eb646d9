r"""SCCL's encoding as an integer program: S steps, C chunks, as few rounds as can be.

With x[e, c, s] = 1 where chunk c crosses link e = (a, b) in step s, and r_s the rounds of step s,

.. math::

    \min \sum_s r_s, \qquad
    \sum_{e \to n, s} x_{e c s} = 1 \;(n \text{ must have } c), \qquad
    x_{(a, b) c s} \le \sum_{f \to a, q < s} x_{f c q}, \qquad
    \sum_c x_{e c s} \le b_e r_s, \; r_s \ge 1.

SCCL (Cai et al., Synthesizing Optimal Collective Algorithms, PPoPP 2021, section 3.2, C1 to C6) asks an SMT
solver whether R rounds will do; here the least R is found at once, and the solver's bound is the proof that
fewer will not. A variable exists only where c can have come to a within s - 1 steps and can still be of use
at b.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyomo.environ as pyo

from models.sccl.instance import Instance
from models.solvers import Feature, SolutionStatus, Termination, find_backend, solve
from topologies.errors import InputError, NoSchedule
from topologies.exact import Int64Array

HALF = 0.5
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


def build(instance: Instance, steps: int) -> pyo.ConcreteModel:
    """Return the program above; r_s is at most what sends everything at once."""
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
    m.total = pyo.Objective(expr=pyo.quicksum(m.rounds.values()))

    arrivals: dict[tuple[int, int], list[Any]] = {}
    carried: dict[tuple[int, int], list[Any]] = {}
    for e, c, s in moves:
        arrivals.setdefault((ends[e][1], c), []).append((s, m.x[e, c, s]))
        carried.setdefault((e, s), []).append(m.x[e, c, s])

    m.once = pyo.ConstraintList()
    for c, item in enumerate(items):
        for n in np.flatnonzero(~instance.holders[item]).tolist():
            arriving = pyo.quicksum(x for _, x in arrivals.get((n, c), []))
            if instance.wanters[item, n]:
                m.once.add(arriving == 1)
            elif (n, c) in arrivals:
                m.once.add(arriving <= 1)
    m.held = pyo.ConstraintList()
    for e, c, s in moves:
        a = ends[e][0]
        if not instance.holders[items[c], a]:
            m.held.add(m.x[e, c, s] <= pyo.quicksum(x for q, x in arrivals[a, c] if q < s))
    m.fits = pyo.ConstraintList()
    for (e, s), sent in carried.items():
        m.fits.add(pyo.quicksum(sent) <= int(instance.capacity[e]) * m.rounds[s])
    return m


def fewest_rounds(
    instance: Instance, steps: int, solver: str = "cp-sat", seconds: float | None = None, seed: int = 0
) -> Answer:
    """Return the schedule of S steps with the fewest rounds.

    Parameters
    ----------
    instance
        What is asked.
    steps
        S.
    solver, seconds, seed
        A back-end for mixed-integer programs, its time limit and seed.

    Raises
    ------
    NoSchedule
        If there is none (S is less than the longest way), or none was found in time.
    """
    kind, network = instance.collective.kind, instance.topology.name
    what = f"{kind} of {instance.chunks} chunks a shard in {steps} steps on {network}"
    if steps < instance.least_steps:
        raise NoSchedule(f"sccl: no {what}: a chunk must go over {instance.least_steps} links")
    backend: Any = find_backend(solver, {Feature.MILP})
    begin = time.perf_counter()
    model = build(instance, steps)
    built = time.perf_counter() - begin
    result = solve(model, solver, backend.options(time_limit=seconds, seed=seed, relative_gap=EXACT))
    if result.termination is Termination.INFEASIBLE:
        raise NoSchedule(f"sccl: there is no {what}")
    if result.status is SolutionStatus.NONE:
        limit = "" if seconds is None else f" in {seconds:g} s"
        raise NoSchedule(f"sccl: {solver} found no {what}{limit}; give it more time or fewer chunks")
    moved = [(s, e, c) for (e, c, s), x in model.x.items() if result.value(x) > HALF]
    rows = np.array(sorted(moved), dtype=np.int64).reshape(-1, 3).T
    rounds = _rounds(instance, rows, steps)
    bound = result.bound if result.bound is not None else -math.inf
    proven = max(math.ceil(bound - 1e-6), instance.least_rounds, steps)
    stats = {
        "build_s": built + result.compile_s,
        "solve_s": result.solve_s,
        "variables": result.columns,
        "constraints": result.rows,
        "solver": f"{result.solver} {result.version}",
        "solver_gap": (rounds - proven) / rounds,
    }
    return Answer(steps, rounds, proven, rows, stats)


def _rounds(instance: Instance, rows: Int64Array, steps: int) -> int:
    """Return R of these transfers: in each step what the busiest link needs, at least 1."""
    step, link, _ = rows
    loads = np.zeros((steps + 1, instance.topology.num_links), dtype=np.int64)
    np.add.at(loads, (step, link), 1)
    needed = -(-loads // instance.capacity)
    if not len(step):
        raise InputError("sccl: nothing is to be moved")
    return int(np.maximum(needed[1:].max(axis=1), 1).sum())

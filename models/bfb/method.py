"""Breadth-first broadcast (BFB) as a method: the best schedule that sends along shortest paths only.

Between like links the schedule is the same at every size, and T_L and T_B say what it takes (Theorem 16).
Between links of unequal bandwidth or α it is made for a size (A.5.3): the sum over steps of the largest U is
then a time in seconds, and the schedule claims neither T_L nor T_B.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from models.bfb.counting import Workloads, solve_patterns
from models.bfb.frontiers import Frontiers, Patterns, distinct_patterns, frontiers
from models.bfb.schedule import build_schedule, schedule_of_flow
from models.bfb.unequal import Times, times
from schedules.capabilities import Capabilities, Groups, Switches
from schedules.compose import BY_ALLGATHER, from_allgather
from schedules.method import Method, Problem
from schedules.schedule import Schedule
from topologies.errors import InputError, NoSchedule, suggestion

COUNTING = "counting"


@dataclass(frozen=True)
class BfbOptions:
    """Options of BFB.

    Parameters
    ----------
    chunks
        P, to cut every shard into P equal chunks (section A.5.2); None: cut as the optimum needs it.
    solver
        ``"counting"``, or an LP solver for the linear programs themselves, (3.1) or between unlike links
        (A.12): ``"highs"``, ``"glop"``.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    chunks: int | None = None
    solver: str = COUNTING

    def __post_init__(self) -> None:
        """Check the values."""
        if self.chunks is not None and (isinstance(self.chunks, bool) or not isinstance(self.chunks, int)):
            raise InputError(f"bfb option chunks is {self.chunks!r}; it must be a whole number, at least 1")
        if self.chunks is not None and self.chunks < 1:
            raise InputError(f"bfb option chunks is {self.chunks}; it must be a whole number, at least 1")
        if self.solver != COUNTING:
            _check_solver(self.solver)


def _check_solver(solver: str) -> None:
    from models.solvers import Feature, find_backend, known_solvers  # Pyomo is slow to import

    # U is told from the solver's value (`models.bfb.lp`), for which a first-order method is too coarse.
    allowed = [COUNTING, *(info.name for info in known_solvers() if Feature.SIMPLEX in info.features)]
    if solver not in allowed:
        raise InputError(f"bfb option solver is '{solver}'{suggestion(str(solver), allowed)}")
    find_backend(solver, {Feature.LP, Feature.SIMPLEX})


def synthesize(problem: Problem, options: BfbOptions, rng: np.random.Generator) -> Schedule:
    """Return the optimal BFB schedule (Theorem 16): T_L is the diameter, T_B is (3.2).

    The reduce-scatter is that of the transposed network, reversed; the allreduce is both. Between unlike
    links it is optimal for the problem's size (A.12).

    Raises
    ------
    InputError
        If links differ and no positive size is given.
    NoSchedule
        If an LP solver stops early, or the chunks do not fit 64 bits.
    """
    return from_allgather(problem, partial(_allgather, options))


def size_dependent(problem: Problem, options: BfbOptions) -> bool:
    """Return whether links differ: then it depends on the size how much each one should carry."""
    return not problem.topology.homogeneous


def _allgather(options: BfbOptions, problem: Problem) -> Schedule:
    if not problem.topology.homogeneous:
        return _unequal_allgather(options, problem)
    begin = time.perf_counter()
    work = frontiers(problem.topology)
    patterns = distinct_patterns(work)
    built = time.perf_counter()
    values, stats = _values(work, patterns, options.solver)
    solved = time.perf_counter()
    schedule = build_schedule(work, patterns, values, problem.collective, options.chunks)
    timed = {"build_s": built - begin + time.perf_counter() - solved, "solve_s": solved - built}
    return schedule.replace(
        claims=_claims(work, patterns, values, options.chunks), stats={**timed, "solver": COUNTING, **stats}
    )


def _values(
    work: Frontiers, patterns: Patterns, solver: str
) -> tuple[tuple[Fraction, ...], Mapping[str, Any]]:
    """Return U of each pattern, and what is to be said of the solver."""
    if solver == COUNTING:
        return solve_patterns(patterns), {}
    from models.bfb.lp import lp_workloads  # Pyomo is slow to import

    solved = lp_workloads(work, solver)
    _, first_job = np.unique(patterns.of_job, return_index=True)
    values = tuple(solved.of_job[job] for job in first_job)
    return values, {
        "build_s": solved.build_s,
        "solve_s": solved.solve_s,
        "variables": solved.variables,
        "constraints": solved.constraints,
        "solver": solved.solver,
    }


def _unequal_allgather(options: BfbOptions, problem: Problem) -> Schedule:
    size = _size(problem)
    begin = time.perf_counter()
    work = frontiers(problem.topology)
    built = time.perf_counter()
    found = times(work, size, options.chunks)
    solved = time.perf_counter()
    stats = {} if options.solver == COUNTING else _compared(work, size, found, options)
    finished = time.perf_counter()
    shares = found.units, found.flow
    schedule = schedule_of_flow(work, found.patterns, shares, problem.collective, options.chunks)
    timed = {"build_s": built - begin + time.perf_counter() - finished, "solve_s": solved - built}
    return schedule.replace(size=size, stats={**timed, "solver": COUNTING, **stats})


def _size(problem: Problem) -> Fraction:
    if problem.size is None:
        raise InputError(
            f"bfb needs a size on {problem.topology.name}: its links differ, so the schedule depends on it"
        )
    if problem.size <= 0:
        raise InputError(f"bfb: the size is {problem.size} bytes; it must be positive")
    return Fraction(problem.size)


def _compared(work: Frontiers, size: Fraction, found: Times, options: BfbOptions) -> Mapping[str, Any]:
    """Solve the programs (A.12) too, whose answers are floats, and hold the exact ones to them."""
    from models.bfb.unequal_lp import agree, lp_times  # Pyomo is slow to import

    solved = lp_times(work, size, options.solver)
    exact = found if options.chunks is None else times(work, size)
    for job, value in enumerate(solved.of_job):
        u, t = divmod(job, work.steps)
        if not agree(exact[u, t + 1], value):
            raise NoSchedule(f"bfb: {solved.solver} returned U = {value} s at node {u}, step {t + 1}")
    return {
        "build_s": solved.build_s,
        "solve_s": solved.solve_s,
        "variables": solved.variables,
        "constraints": solved.constraints,
        "solver": solved.solver,
    }


def _claims(
    work: Frontiers, patterns: Patterns, values: tuple[Fraction, ...], chunks: int | None
) -> dict[str, Fraction | int]:
    """Return T_L and, where the network has a degree, T_B: with P chunks a link carries ceil(U P) / P."""
    loads = values if chunks is None else tuple(Fraction(-(-u * chunks // 1), chunks) for u in values)
    tb = Workloads(work.topology, work.steps, patterns.of_job, loads).tb
    return {"tl_steps": work.steps} | ({} if tb is None else {"tb": tb})


METHOD = Method(
    name="bfb",
    kind="exact",
    synthesize=synthesize,
    options=BfbOptions,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE, uneven_shards=False, switches=Switches.NONE),
    size_dependent=size_dependent,
    summary="breadth-first broadcast: shortest paths, loads balanced exactly",
)

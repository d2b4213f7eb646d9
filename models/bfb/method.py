"""Breadth-first broadcast (BFB) as a method: the best schedule that sends along shortest paths only.

If all links have the same bandwidth and α, the schedule is the same at every size, and T_L and T_B are its
cost (Theorem 16). Otherwise it is made for a size (A.5.3). The sum over steps of the largest U is then a time
in seconds, and the schedule claims neither T_L nor T_B.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from tutti.models.bfb.counting import SubproblemTimes, Workloads, solve_patterns, times
from tutti.models.bfb.frontiers import Frontiers, count_variables, distinct_patterns, frontiers
from tutti.models.bfb.schedule import build_schedule, schedule_of_shares
from tutti.models.solvers import Feature, find_backend, known_solvers
from tutti.models.solvers.registry import refuse_too_large, seconds_for
from tutti.schedules.capabilities import Capabilities, Groups, Switches
from tutti.schedules.collective import Kind
from tutti.schedules.compose import BY_ALLGATHER, from_allgather, seconds_by_allgathers
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError, NoSchedule, suggestion
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.kernels import now
from tutti.topologies.options import SECONDS, Choice, Options, Whole

if TYPE_CHECKING:
    from tutti.models.bfb.model import Programs

AUTO, MODEL, COUNTING = "auto", "model", "counting"

MODEL_VARIABLES = 2000
"""Largest number of variables, of all programs together, for which ``auto`` builds and solves them.

Measured with HiGHS on one core, in CPU seconds: 0.2 to 0.4 ms a variable where a program has dozens of them.
``torus:5x5`` (1,100 variables) takes 0.3 s, ``mesh:5x5`` (1,160) 0.4 s, ``torus:6x6`` (2,808) 0.6 s. On a
ring, whose programs have three variables, it is 1 ms (``ring:16``, 384: 0.4 s)."""


@dataclass(frozen=True)
class BfbOptions(Options):
    """Options of BFB.

    Parameters
    ----------
    chunks
        P, to cut every shard into P equal chunks (section A.5.2); None: cut as the optimum needs it.
    by
        ``"model"``: the linear programs themselves, (3.1), or (A.12) where links differ
        (`models.bfb.model`); ``"counting"``: their optima without them; ``"auto"``: the model up to
        2,000 variables. The schedule is the same.
    solver
        Solver of the programs; choosing one is choosing the model: ``"highs"``, ``"glop"``. None: HiGHS.
        ``"counting"`` chooses counting.
    time_limit
        Seconds for the model, a half of them for each half of an allreduce; None for no limit. Where they are
        too few for the model, ``"model"`` refuses it or ends, and ``"auto"`` counts.

    Raises
    ------
    InputError
        If a value is out of range, or `by` and `solver` contradict each other.
    """

    OWNER: ClassVar[str] = "bfb"

    chunks: Annotated[int | None, Whole(1)] = None
    by: Annotated[str, Choice((AUTO, MODEL, COUNTING))] = AUTO
    solver: str | None = None
    time_limit: Annotated[float | None, SECONDS] = None

    def __post_init__(self) -> None:
        """Check the values, and that `by` and `solver` agree."""
        super().__post_init__()
        if self.solver not in (None, COUNTING):
            # U is the fraction nearest to the solver's value (`models.bfb.model`): PDLP's is too coarse.
            exact = [info.name for info in known_solvers() if Feature.SIMPLEX in info.features]
            if self.solver not in exact:
                hint = suggestion(str(self.solver), [COUNTING, *exact])
                raise InputError(f"bfb option solver is '{self.solver}'{hint}")
            find_backend(str(self.solver), {Feature.LP, Feature.SIMPLEX})
        if self.solver is not None and self.by not in (AUTO, self.approach):
            raise InputError(
                f"bfb option by is '{self.by}', but solver '{self.solver}' needs by={self.approach}"
            )

    @property
    def approach(self) -> str:
        """The method of solution that `by` and `solver` choose together."""
        if self.solver is None:
            return self.by
        return COUNTING if self.solver == COUNTING else MODEL


def synthesize(problem: Problem, options: BfbOptions, rng: np.random.Generator) -> Schedule:
    """Return the optimal BFB schedule (Theorem 16): T_L is the diameter, T_B is (3.2).

    The reduce-scatter is that of the transposed network, reversed; the allreduce is both. Where links differ
    it is optimal for the problem's size (A.12).

    Raises
    ------
    InputError
        If links differ and no positive size is given.
    Unsupported
        If the model is asked for and too large for its time limit.
    NoSchedule
        If an LP solver stops early, or the chunks do not fit 64 bits.
    """
    if options.time_limit is not None and problem.collective.kind is Kind.ALLREDUCE:
        options = replace(options, time_limit=options.time_limit / 2)  # for each half
    return from_allgather(problem, partial(_allgather, options))


def _allgather(options: BfbOptions, problem: Problem) -> Schedule:
    """Return the optimal BFB allgather; with equal links it holds at every size."""
    if not problem.topology.homogeneous:
        return _unequal_allgather(options, problem)
    begin = now()
    work = frontiers(problem.topology)
    patterns = distinct_patterns(work)
    programs = _programs(work, options)
    built = now()
    of_job = None if programs is None else _loads(programs, options)
    if of_job is None:
        programs, loads = None, solve_patterns(patterns)
    else:
        # Programs are solved for all subproblems, as in the paper; those of a pattern have the same U.
        _, first_job = np.unique(patterns.of_job, return_index=True)
        loads = tuple(of_job[job] for job in first_job)
    solved = now()
    schedule = build_schedule(work, patterns, loads, problem.collective, options.chunks)
    timed = {"build_s": built - begin + now() - solved, "solve_s": solved - built}
    stats = timed | _solved_by(programs, "linear programs (3.1)")
    if options.chunks is not None:  # then a link carries ceil(U P) / P
        loads = tuple(Fraction(-(-u * options.chunks // 1), options.chunks) for u in loads)
    tb = Workloads(work.topology, work.steps, patterns.of_job, loads).tb
    return schedule.replace(claims={"tl_steps": work.steps} | ({} if tb is None else {"tb": tb}), stats=stats)


def _unequal_allgather(options: BfbOptions, problem: Problem) -> Schedule:
    if problem.size is None:
        raise InputError(
            f"bfb needs a size on {problem.topology.name}: its links differ, so the schedule depends on it"
        )
    if problem.size <= 0:
        raise InputError(f"bfb: the size is {problem.size} bytes; it must be positive")
    size = Fraction(problem.size)
    begin = now()
    work = frontiers(problem.topology)
    programs = _programs(work, options)
    built = now()
    found = times(work, size, options.chunks)
    solved = now()
    if programs is not None:
        programs = _compared(programs, work, found, options)
    finished = now()
    schedule = schedule_of_shares(work, found.patterns, found.shares, problem.collective, options.chunks)
    timed = {"build_s": built - begin + now() - finished, "solve_s": solved - built}
    return schedule.replace(size=size, stats=timed | _solved_by(programs, "linear programs (A.12)"))


def _programs(work: Frontiers, options: BfbOptions) -> Programs | None:
    """Return the linear programs of the subproblems, unsolved; None: by counting."""
    if options.approach == COUNTING:
        return None
    variables = count_variables(work)
    # Small programs take twice as long as one: 36 CPU s for 328,000 variables (``torus:20x20``).
    limit, seconds = options.time_limit, 2 * seconds_for(variables)
    if options.approach == AUTO and (variables > MODEL_VARIABLES or (limit is not None and seconds > limit)):
        return None
    from tutti.models.bfb.model import Programs  # Pyomo is slow to import

    refuse_too_large(f"bfb by=model on {work.topology.name}", variables, limit, seconds)
    return Programs(work, options.solver or "highs", limit)


def _loads(programs: Programs, options: BfbOptions) -> tuple[Fraction, ...] | None:
    """Return the loads of all subproblems; None if ``auto`` has no time left, as counting gives the same."""
    try:
        return programs.loads()
    except NoSchedule:
        if options.approach == MODEL:
            raise
        return None


def _solved_by(programs: Programs | None, what: str) -> dict[str, Any]:
    """Return the programs' solver and cost, as columns of a row."""
    return {"solver": COUNTING} if programs is None else {"program": what, **programs.effort.columns}


def _compared(
    programs: Programs, work: Frontiers, found: SubproblemTimes, options: BfbOptions
) -> Programs | None:
    """Solve the programs (A.12), whose answers are floats, and return them if the exact times agree.

    If they fail or disagree, as a solver's tolerances may be too coarse for the network's times, raise if the
    model was asked for, else return None.
    """
    from tutti.models.bfb.model import agree  # Pyomo is slow to import

    try:
        exact = found if options.chunks is None else times(work, found.size)
        for job, value in enumerate(programs.times(exact.size)):
            u, t = divmod(job, exact.steps)
            if not agree(exact[u, t + 1], value):
                solver = programs.effort.solver
                raise NoSchedule(f"bfb: {solver} returned U = {value} s at node {u}, step {t + 1}")
    except NoSchedule:
        if options.approach == MODEL:
            raise
        return None
    return programs


def _least_seconds(problem: Problem) -> float:
    """Return the seconds of one step for each distance, in which every rank loads its in-links evenly.

    In step t rank u receives the data of the sources at distance t. T_B is at least the sum over steps of the
    largest number of these sources at any rank, divided by the rank's bandwidth. It equals this sum where the
    eligible links can share the data evenly, as in circulant networks and tori (Theorem 16 with U = sources
    over in-links).
    """
    topology, shard = problem.topology, float(problem.size or 0) / problem.topology.num_ranks
    hops = hop_distances(topology)
    alpha = np.zeros(topology.num_ranks)
    np.maximum.at(alpha, topology.target, topology.alpha.floats)
    slowness = shard / topology.ingress.floats
    return float(sum((alpha + slowness * (hops == t).sum(axis=0)).max() for t in range(1, hops.max() + 1)))


METHOD = Method(
    name="bfb",
    kind="exact",
    synthesize=synthesize,
    fast={"by": "counting"},
    options=BfbOptions,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE, uneven_shards=False, switches=Switches.NONE),
    size_dependent=lambda problem, options: not problem.topology.homogeneous,
    exact_for="steps, and bytes over shortest paths (of an allreduce, in each half)",
    estimate=lambda problem, options: seconds_by_allgathers(problem, _least_seconds),
    summary="breadth-first broadcast: shortest paths, loads balanced exactly",
)

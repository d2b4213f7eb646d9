"""All-to-all by multi-commodity flow, as a method: linear program (A.1), made exact and sent along paths.

First the Pyomo model is solved (`models.all_to_all.optimum`), or the program on the orbits of the network's
symmetries (`models.all_to_all.orbits`). Then integers prove how close the answer is to the optimum. The flow
is split into paths, and the paths become a flow schedule.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np

from tutti.models.all_to_all.certificate import Interval, lower_bound, upper_bound
from tutti.models.all_to_all.demand import Demand
from tutti.models.all_to_all.optimum import (
    GAP,
    QUICK_VARIABLES,
    FlowOptimum,
    bound_of,
    capped,
    num_variables,
    saturated_links,
    solve_by_model,
    uncapped_lengths,
)
from tutti.models.all_to_all.orbits import paths_by_orbits
from tutti.models.all_to_all.paths import PathFlow, path_schedule
from tutti.models.solvers import Feature, find_backend, known_solvers
from tutti.models.solvers.highs import METHODS
from tutti.models.solvers.registry import MOST_VARIABLES, refuse_too_large
from tutti.schedules.capabilities import Capabilities
from tutti.schedules.collective import Kind
from tutti.schedules.method import Method, Problem
from tutti.schedules.pacing import hop_by_hop, paced
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError, TuttiError, suggestion
from tutti.topologies.kernels import now
from tutti.topologies.options import Choice, Number, Options

KINDS = (Kind.ALL_TO_ALL, Kind.SCATTER, Kind.GATHER)

BY = ("auto", "model", "lp", "orbits")

MOST_HOPS = 2**18
"""Most rows of a paced schedule. With a smaller value data are cut into fewer, less equal parts."""


@dataclass(frozen=True)
class McfOptions(Options):
    """Options of the multi-commodity flow.

    Parameters
    ----------
    solver
        An LP solver: ``"highs"``, ``"glop"``, ``"pdlp"``, ...
    algorithm
        Of HiGHS: ``"simplex"``, ``"ipm"`` or ``"pdlp"``; None: interior point with crossover for small
        programs, PDLP for large ones.
    tolerance
        The solver's, 1e-10 to 0.1; None: its own, made finer until the proven interval is within 1e-4. With
        orbits it is the interval's.
    time_limit
        Seconds in the solver; None for no limit.
    by
        ``"model"``: the Pyomo model of (A.1) as it stands (``"lp"`` is the same). ``"orbits"``: the program
        reduced by the network's symmetries, and solved by columns or a first-order method. ``"auto"``: the
        model up to 20,000 variables, one a source and link, and wherever a solver, an algorithm or a
        tolerance is chosen; else orbits.
    step_schedule
        Whether to return the fastest of this flow's schedule and others that move the flow hop by hop in
        steps (`schedules.pacing`). It helps at small sizes, where whole paths take too many messages.

    Raises
    ------
    InputError
        If a value is out of range, or the solver is not known or not installed.
    """

    OWNER: ClassVar[str] = "mcf"

    solver: str = "highs"
    algorithm: str | None = None
    tolerance: Annotated[float | None, Number(least=1e-10, most=0.1)] = None
    time_limit: Annotated[float | None, Number(above=0)] = None
    by: Annotated[str, Choice(BY)] = "auto"
    step_schedule: bool = False

    def __post_init__(self) -> None:
        """Check the values, and that the solver is installed and suits `by`."""
        super().__post_init__()
        if self.solver != "highs" or self.algorithm is not None:
            _check_solver(self)
            if self.by == "orbits":
                raise InputError(
                    "mcf option by is 'orbits', which solves by columns or a first-order method of its own; "
                    "leave out solver and algorithm, or use by=model"
                )

    @property
    def by_model(self) -> bool | None:
        """Whether the model is asked for, by name or by an option of a solver; None: its size decides."""
        if self.by != "auto":
            return self.by != "orbits"
        chosen = self.solver != "highs" or self.algorithm is not None or self.tolerance is not None
        return True if chosen else None


def _check_solver(options: McfOptions) -> None:
    allowed = [info.name for info in known_solvers() if Feature.LP in info.features]
    if options.solver not in allowed:
        raise InputError(f"mcf option solver is '{options.solver}'{suggestion(str(options.solver), allowed)}")
    needs = {Feature.LP, Feature.DUALS}
    if options.algorithm is not None:
        if options.solver != "highs":
            raise InputError(f"mcf option algorithm is of solver highs, not of {options.solver}")
        if options.algorithm not in METHODS:
            hint = suggestion(str(options.algorithm), METHODS)
            raise InputError(f"mcf option algorithm is '{options.algorithm}'{hint}")
        feature = METHODS[options.algorithm]
        needs |= set() if feature is None else {feature}
    find_backend(options.solver, needs)


def check(problem: Problem, options: McfOptions) -> None:
    """Refuse a linear program with too many variables at all, or, if asked for by name, for its time limit.

    Raises
    ------
    Unsupported
        If it has too many.
    """
    topology, items = problem.topology, problem.collective.items
    between = (items.start != items.end) & (items.share.numerators > 0)
    commodities = min(len(np.unique(items.start[between])), len(np.unique(items.end[between])))
    variables = commodities * topology.num_links
    if variables > MOST_VARIABLES:
        raise METHOD.unsupported(
            f"solves up to {MOST_VARIABLES} variables, one a source and link; {topology.name} has {variables}"
        )
    if options.by in ("model", "lp"):
        refuse_too_large(f"mcf by={options.by} on {topology.name}", variables, options.time_limit)


def synthesize(problem: Problem, options: McfOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule whose congestion is optimal to within a proven interval, mostly 1e-6 or exactly.

    Raises
    ------
    NoSchedule
        If the solver stops without a solution, or the table would be too large.
    """
    demand = Demand.of(problem.topology, problem.collective)
    if not demand.amounts.any():  # (A.1) has no optimum then; empty items take shortest routes
        none, offsets = np.zeros(0, np.int64), np.zeros(1, np.int64)
        nothing = PathFlow(demand, none, demand.denominator, offsets, none.astype(np.int32))
        return path_schedule(nothing, problem.collective).replace(claims={"congestion": Fraction(0)})
    optimum = _optimum(demand, options)
    schedule = path_schedule(optimum.paths, problem.collective)
    interval = optimum.interval
    stats = {
        **optimum.stats,
        "lower": interval.lower,
        "upper": interval.upper,
        "bounds": (bound_of(demand, optimum.lengths),),
        "bottleneck": saturated_links(problem.topology, optimum).tolist(),
    }
    if options.step_schedule and problem.size is not None:
        schedule = paced(hop_by_hop(schedule, MOST_HOPS), problem.size, schedule)
    return schedule.replace(claims={"congestion": interval.upper}, stats=stats)


def _optimum(demand: Demand, options: McfOptions) -> FlowOptimum:
    """Return the optimum. If bandwidths are far apart, capped ones are solved, and the proofs are redone."""
    near = capped(demand)
    found = _solved(near, options)
    if near is demand:
        return found
    flow = replace(found.flow, demand=demand.reverse if found.backwards else demand)
    lengths = uncapped_lengths(demand, near, found.lengths)
    interval = Interval(lower_bound(demand.topology, demand, lengths), upper_bound(flow))
    stats = {**found.stats, "solver_gap": float(interval.gap)}
    return replace(found, demand=demand, interval=interval, lengths=lengths, flow=flow, stats=stats)


def _solved(demand: Demand, options: McfOptions) -> FlowOptimum:
    """Return the optimum by the model or by orbits, as the options say or the size suggests.

    Where the options leave it open and the model's interval stays wide, orbits are tried too.
    """
    asked = (options.solver, options.algorithm, options.tolerance, options.time_limit)
    if options.by_model:
        return solve_by_model(demand, *asked)
    if options.by_model is False or num_variables(demand) > QUICK_VARIABLES:
        return _by_orbits(demand, options.tolerance or float(GAP), options.time_limit)
    begin = now()
    found = solve_by_model(demand, *asked)
    left = None if options.time_limit is None else options.time_limit - (now() - begin)
    if found.interval.gap > GAP and (left is None or left > 0):
        with suppress(TuttiError):
            other = _by_orbits(demand, float(GAP), left)
            found = min(found, other, key=lambda optimum: optimum.interval.gap)
    return found


def _by_orbits(demand: Demand, tolerance: float, time_limit: float | None) -> FlowOptimum:
    backwards = len(demand.sinks) < len(demand.sources)
    solved, paths = paths_by_orbits(demand.reverse if backwards else demand, tolerance, time_limit)
    return FlowOptimum(demand, solved.interval, solved.lengths, paths, backwards, solved.stats)


METHOD = Method(
    name="mcf",
    kind="exact",
    synthesize=synthesize,
    fast={"by": "orbits", "step_schedule": True},
    size_dependent=lambda problem, options: options.step_schedule,
    options=McfOptions,
    capabilities=Capabilities(KINDS),
    check=check,
    exact_for="bytes",
    summary="all-to-all as a multi-commodity flow: the LP's optimum, with an interval that proves it",
)

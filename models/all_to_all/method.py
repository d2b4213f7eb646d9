"""All-to-all by multi-commodity flow, as a method: linear program (A.1), made exact and sent along paths.

The steps: the program as matrices, a solver, its answer as integers that prove how close they are to the
optimum, the flow as paths, and the paths as a flow schedule.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from models.all_to_all.bound import bound_of
from models.all_to_all.capping import capped, uncapped_lengths
from models.all_to_all.certificate import Interval, lower_bound, upper_bound
from models.all_to_all.demand import Demand
from schedules.capabilities import Capabilities
from schedules.collective import Kind
from schedules.method import Method, Problem
from schedules.schedule import Schedule
from topologies.errors import InputError, TuttiError, suggestion

if TYPE_CHECKING:
    from models.all_to_all.optimum import Optimum, Solving

KINDS = (Kind.ALL_TO_ALL, Kind.SCATTER, Kind.GATHER)

WAYS = ("auto", "lp", "orbits")

MOST_COLUMNS = 5_000_000
"""Variables of the linear program; about 1 GB a million."""

LEAST_TOLERANCE, MOST_TOLERANCE = 1e-10, 0.1
"""Solvers take none that is finer; a coarser one says nothing."""


@dataclass(frozen=True)
class McfOptions:
    """Options of the multi-commodity flow.

    Parameters
    ----------
    solver
        An LP solver: ``"highs"``, ``"glop"``, ``"pdlp"``, ...
    algorithm
        Of HiGHS: ``"simplex"``, ``"ipm"`` or ``"pdlp"``; None: interior point with crossover for small
        programs, PDLP for large ones.
    tolerance
        The solver's, 1e-10 to 0.1; None: its own, made finer until the proven interval is within 1e-4. By
        orbits it is the interval's.
    time_limit
        Seconds in the solver; None for no limit.
    by
        ``"lp"``: the program as it is; ``"orbits"``: reduced by the network's symmetries, and solved by
        columns or a first-order method; ``"auto"``: by orbits if it is large and no solver was chosen.

    Raises
    ------
    InputError
        If a value is out of range, or the solver is not known or not installed.
    """

    solver: str = "highs"
    algorithm: str | None = None
    tolerance: float | None = None
    time_limit: float | None = None
    by: str = "auto"

    def __post_init__(self) -> None:
        """Check the values."""
        if self.by not in WAYS:
            raise InputError(f"mcf option by is '{self.by}'{suggestion(str(self.by), WAYS)}")
        _check_number("time_limit", self.time_limit, "a positive number", 0)
        allowed = f"a number from {LEAST_TOLERANCE:g} to {MOST_TOLERANCE:g}"
        _check_number("tolerance", self.tolerance, allowed, LEAST_TOLERANCE, MOST_TOLERANCE)
        if self.solver != "highs" or self.algorithm is not None:
            _check_solver(self)
            if self.by == "orbits":
                raise InputError(
                    "mcf option by is 'orbits', which solves by columns or a first-order method of its own; "
                    "leave out solver and algorithm, or use by=lp"
                )

    @property
    def solving(self) -> Solving:
        """These options as the solver layer takes them."""
        from models.all_to_all.optimum import Solving  # Pyomo is slow to import

        return Solving(self.solver, self.algorithm, self.tolerance, self.time_limit)


def _check_number(
    name: str, value: float | None, allowed: str, least: float, most: float = float("inf")
) -> None:
    """Refuse what is no number above 0 in this range."""
    if value is None:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < float("inf") or not least <= value <= most:
        raise InputError(f"mcf option {name} is {value!r}; it must be {allowed}")


def _check_solver(options: McfOptions) -> None:
    from models.solvers import Feature, find_backend, known_solvers  # Pyomo is slow to import
    from models.solvers.highs import METHODS

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
    """Raise `Unsupported` if the linear program would have too many variables."""
    topology, items = problem.topology, problem.collective.items
    between = (items.start != items.end) & (items.share.numerators > 0)
    commodities = min(len(np.unique(items.start[between])), len(np.unique(items.end[between])))
    columns = commodities * topology.num_links
    if columns > MOST_COLUMNS:
        raise METHOD.unsupported(
            f"solves up to {MOST_COLUMNS} variables, one a source and link; {topology.name} has {columns}"
        )


def synthesize(problem: Problem, options: McfOptions, rng: np.random.Generator) -> Schedule:
    """Return a flow schedule whose congestion is optimal to within a proven interval, mostly 1e-6 or exactly.

    Raises
    ------
    NoSchedule
        If the solver stops without a solution, or the table would be too large.
    """
    from models.all_to_all.optimum import saturated_links
    from models.all_to_all.schedule import path_schedule

    begin = time.perf_counter()
    demand = Demand.of(problem.topology, problem.collective)
    optimum = _optimum(demand, options)
    schedule = path_schedule(optimum.paths, problem.collective)
    interval = optimum.interval
    stats = {
        **optimum.stats,
        "build_s": time.perf_counter() - begin - optimum.stats["solve_s"],
        "lower": interval.lower,
        "upper": interval.upper,
        "bounds": (bound_of(demand, optimum.lengths),),
        "bottleneck": saturated_links(problem.topology, optimum).tolist(),
    }
    return schedule.replace(claims={"congestion": interval.upper}, stats=stats)


def _optimum(demand: Demand, options: McfOptions) -> Optimum:
    """Return the optimum; where bandwidths are far apart by way of capped ones, its proofs evaluated anew."""
    near = capped(demand)
    found = _solved(near, options)
    if near is demand:
        return found
    flow = replace(found.flow, demand=demand.reverse if found.backwards else demand)
    lengths = uncapped_lengths(demand, near, found.lengths)
    interval = Interval(lower_bound(demand.topology, demand, lengths), upper_bound(flow))
    stats = {**found.stats, "solver_gap": float(interval.gap)}
    return replace(found, demand=demand, interval=interval, lengths=lengths, flow=flow, stats=stats)


def _solved(demand: Demand, options: McfOptions) -> Optimum:
    """Return the optimum by the way that the options name, or by the one that suits the size.

    Where nothing is named and a solver leaves a wide interval, the other way is tried too.
    """
    from models.all_to_all.optimum import BASIC_COLUMNS, GAP, columns_of, solve_demand

    chosen = options.solver != "highs" or options.algorithm is not None or options.tolerance is not None
    if options.by == "lp" or (options.by == "auto" and chosen):
        return solve_demand(demand, options.solving)
    if options.by == "orbits" or columns_of(demand) > BASIC_COLUMNS:
        return _by_orbits(demand, options.tolerance or 1e-4, options.time_limit)
    begin = time.perf_counter()
    found = solve_demand(demand, options.solving)
    left = None if options.time_limit is None else options.time_limit - (time.perf_counter() - begin)
    if found.interval.gap > GAP and (left is None or left > 0):
        with suppress(TuttiError):
            found = min(found, _by_orbits(demand, 1e-4, left), key=lambda way: way.interval.gap)
    return found


def _by_orbits(demand: Demand, tolerance: float, time_limit: float | None) -> Optimum:
    from models.all_to_all.optimum import Optimum
    from models.all_to_all.symmetric import paths_by_orbits

    backwards = len(demand.sinks) < len(demand.sources)
    asked = demand.reverse if backwards else demand
    solved, paths = paths_by_orbits(asked, tolerance, time_limit)
    return Optimum(demand, solved.interval, solved.lengths, paths, backwards, solved.stats)


METHOD = Method(
    name="mcf",
    kind="exact",
    synthesize=synthesize,
    options=McfOptions,
    capabilities=Capabilities(KINDS),
    check=check,
    summary="all-to-all as a multi-commodity flow: the LP's optimum, with an interval that proves it",
)

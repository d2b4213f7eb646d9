"""The optimum of LP (A.1) on networks too large for the LP: by orbits, proven from both sides.

The group of the network is found (`topologies.automorphisms`), the problem reduced to its orbits, and solved
by column generation where the link orbits are few, else by the first-order method. Both end in lengths,
constant on the link orbits, that prove the lower bound, and in a flow of the representatives whose average
over the group takes the upper one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models.all_to_all.averaging import MOST_ELEMENTS, evened, without_cycles
from models.all_to_all.certificate import Interval, SourceFlow, upper_bound
from models.all_to_all.columns import ColumnGeneration
from models.all_to_all.decomposition import PathFlow, decompose
from models.all_to_all.demand import Demand
from models.all_to_all.first_order import PrimalDual
from models.all_to_all.images import Images
from models.all_to_all.orbits import ReducedProblem, reduce_by
from models.all_to_all.vertex import fewer_paths
from topologies.automorphisms import automorphisms
from topologies.exact import Int64Array

MOST_ORBITS = 64
"""Link orbits up to which columns are generated; with more, the master takes longer than the other method."""

SHORT_SEARCH = 10**8
"""Links that a search for automorphisms may look at where only a bound is wanted."""


@dataclass(frozen=True, eq=False)
class OrbitOptimum:
    """An optimum found on the orbits, with its proof from below.

    Parameters
    ----------
    problem
        The reduced problem.
    interval
        Where the least time lies, s/B of M.
    lengths
        int64, shape (links,): what proves ``interval.lower``, on the whole network.
    flow
        Of the representatives; ``interval.upper`` is the congestion of its average over the group.
    stats
        What it cost: ``build_s``, ``solve_s``, ``variables``, ``constraints``, ``solver``, ``solver_gap``,
        ``sources``, ``orbits`` and ``rounds``.
    """

    problem: ReducedProblem
    interval: Interval
    lengths: Int64Array
    flow: SourceFlow
    stats: dict[str, Any]


def solve_by_orbits(
    demand: Demand, tolerance: float = 1e-4, time_limit: float | None = None, *, by: str | None = None
) -> OrbitOptimum:
    """Return the optimum of linear program (A.1) to within a proven relative gap.

    Parameters
    ----------
    demand
        The network, and what each rank sends to each other.
    tolerance
        The gap to stop at; it may stop with less, and at 0 where the optimum is simple.
    time_limit
        Seconds of solving, after which the gap is what it is; None for no limit.
    by
        ``"columns"`` or ``"first_order"``; None leaves it to the number of link orbits.

    Raises
    ------
    NoSchedule
        If the time is over before anything is proven.

    Examples
    --------
    >>> from topologies import torus
    >>> solved = solve_by_orbits(Demand.uniform(torus(4, 4, bandwidth=1)))
    >>> str(solved.interval.upper), solved.interval.exact
    ('1/2', True)
    """
    begin = time.perf_counter()
    problem = reduce_by(automorphisms(demand.topology), demand)
    return _solved(problem, begin, tolerance, time_limit, by)


def paths_by_orbits(
    demand: Demand, tolerance: float = 1e-4, time_limit: float | None = None
) -> tuple[OrbitOptimum, PathFlow]:
    """Return the optimum as `solve_by_orbits` does, and paths of all sources that take its upper bound.

    Of the group, a part is used that can be listed, so as to average over it; no symmetry where the average
    does not fit 64 bits. Paths are found for the representatives and mapped to the others.
    """
    begin = time.perf_counter()
    group = automorphisms(demand.topology).preserving(demand.amounts).limited(MOST_ELEMENTS)
    solved = _solved(reduce_by(group, demand), begin, tolerance, time_limit, None)
    paths = _paths(solved)
    if paths is None:
        problem = reduce_by(group.limited(1), demand)
        solved = _solved(problem, time.perf_counter(), tolerance, time_limit, "first_order")
        paths = decompose(solved.flow)
    interval = Interval(solved.interval.lower, upper_bound(paths))
    stats = {**solved.stats, "solver_gap": float(interval.gap)}
    return replace(solved, interval=interval, stats=stats), paths


def _paths(solved: OrbitOptimum) -> PathFlow | None:
    """Return paths of all sources, or None if the group is too large or numbers do not fit 64 bits."""
    images, flow = Images.of(solved.problem), evened(solved.problem, solved.flow)
    if images is None or flow is None:
        return None
    paths = decompose(without_cycles(flow))
    if len(images.nodes) > 1:
        paths = fewer_paths(images, paths, exact=solved.interval.exact)
    return images.of_all(paths)


def few_orbits_lengths(demand: Demand) -> Int64Array | None:
    """Return the optimal lengths (links,) where the link orbits are few, which takes seconds; else None."""
    group = automorphisms(demand.topology, SHORT_SEARCH)
    problem = reduce_by(group, demand)
    if problem.num_orbits > MOST_ORBITS:
        return None
    return _solved(problem, time.perf_counter(), 1e-6, None, "columns").lengths


def _solved(
    problem: ReducedProblem, begin: float, tolerance: float, time_limit: float | None, by: str | None
) -> OrbitOptimum:
    built = time.perf_counter()
    method = by or ("columns" if problem.num_orbits <= MOST_ORBITS else "first_order")
    if method == "columns":
        columns = ColumnGeneration(problem, tolerance, time_limit)
        interval, rounds = columns.run(), columns.rounds
        lengths, flow = columns.lengths, columns.flow()
    else:
        state = PrimalDual(problem)
        interval, rounds = state.run(tolerance, time_limit), state.iterations
        lengths, flow = state.lengths, state.best_flow
    stats = {
        "build_s": built - begin,
        "solve_s": time.perf_counter() - built,
        "variables": len(problem.sources) * problem.topology.num_links + 1,
        "constraints": len(problem.sources) * problem.topology.num_nodes + problem.num_orbits,
        "solver": method,
        "solver_gap": float(interval.gap),
        "sources": len(problem.sources),
        "orbits": problem.num_orbits,
        "rounds": rounds,
    }
    whole = lengths[problem.orbit] // max(1, int(np.gcd.reduce(lengths)))
    return OrbitOptimum(problem, interval, whole, flow, stats)

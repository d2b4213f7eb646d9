"""The Pyomo model of linear program (A.1), solved and proven: the answer as lengths and a flow of integers.

The solver only suggests them; what they prove holds exactly (`models.all_to_all.certificate`). Where
bandwidths are far apart, the large ones are first reduced (`capped`), as solvers' tolerances are relative to
the largest numbers.

The bound ``mcf`` (`mcf_bound`) is the lengths of the links, the dual of linear program (A.1); proof in
``docs/proofs.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tutti.models.all_to_all.certificate import Interval, SourceFlow, lower_bound, upper_bound
from tutti.models.all_to_all.demand import Demand
from tutti.models.all_to_all.orbits import quick_lengths, solve_by_orbits
from tutti.models.all_to_all.paths import PathFlow, decompose
from tutti.models.all_to_all.rounding import (
    ALIKE,
    MOST_COMMON,
    PARTS,
    common_parts,
    exact_flow,
    rational_lengths,
)
from tutti.models.bounds.bottleneck_cut import cut_nodes, exit_bandwidth
from tutti.models.bounds.bound import ASKED_SECONDS, SECONDS_PER_BYTE, Bound
from tutti.models.solvers import Effort, Feature, SolverResult, compile_model, solve
from tutti.models.solvers.outcome import ROUNDING
from tutti.models.solvers.registry import find_backend
from tutti.schedules.collective import EVERYONE, Collective
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import INT64_MAX, BoolArray, FloatArray, Int64Array, Rationals, json_number
from tutti.topologies.graphs.shortest_paths import length_distances
from tutti.topologies.kernels import now
from tutti.topologies.topology import Topology

QUICK_VARIABLES = 20_000
"""Variables of a linear program that is built, compiled and solved in about a second.

Larger models are not tried unasked, and for larger ones PDLP is much faster than what ends in a basic
solution, whose values are simple. CPU seconds on one core: 0.9 for gen_kautz:4,64 (16,129 variables), 0.6 for
dgx_a100:8 (16,385), 0.2 for complete:27 (18,955), 1.3 for random_regular:4,70 (19,601), 2.1 for mesh:8x9
(18,289); 2.9 for hypercube:6 (24,577). Importing Pyomo takes 0.4 more, once.
"""

TOLERANCES = (1e-5, 1e-6, 1e-7, 1e-8)
"""Relative tolerances of PDLP, tried in turn until `GAP` is proven; the first mostly proves less than
1e-5."""

GAP = Fraction(1, 10_000)
"""The relative width of an interval that is small enough. A larger value ends the solving earlier."""


@dataclass(frozen=True, eq=False)
class FlowOptimum:
    """An optimum with its proofs.

    Parameters
    ----------
    demand
        The demands that were asked for.
    interval
        Bounds of the least time, s/B of M: ``lower`` by `lengths`, ``upper`` by `flow`.
    lengths
        int64, shape (links,).
    flow
        The flow that takes ``interval.upper``; of the reversed demands on the transposed network, if
        `backwards`.
    backwards
        Whether there were fewer destinations than sources, so that they were the commodities.
    stats
        The effort: ``build_s``, ``solve_s``, ``variables``, ``constraints``, ``solver``, ``solver_gap``; and
        ``program``, which was solved, if it was the model.
    """

    demand: Demand
    interval: Interval
    lengths: Int64Array
    flow: SourceFlow | PathFlow
    backwards: bool
    stats: dict[str, Any]

    @cached_property
    def paths(self) -> PathFlow:
        """The flow as paths for the demands as asked."""
        paths = self.flow if isinstance(self.flow, PathFlow) else decompose(self.flow)
        return paths.reverse if self.backwards else paths


class FlowProgram:
    """The Pyomo model of (A.1), compiled, and the way back from its columns and rows.

    Columns are y[s, e], source by source, then f, as they are declared; the first rows are the links.

    Parameters
    ----------
    demand
        The problem.

    Attributes
    ----------
    compiled
        The model's matrices.
    build_s
        Seconds to build and compile it.
    """

    def __init__(self, demand: Demand) -> None:
        from tutti.models.all_to_all.model import flow_model  # Pyomo is slow to import

        begin = now()
        self.demand, self.compiled = demand, compile_model(flow_model(demand), declared_order=True)
        self.build_s = now() - begin

    def flows(self, values: FloatArray) -> FloatArray:
        """Return y / f, shape (sources, links), which nearly delivers the demands, in units of the largest.

        Flow back into its own source is of no use and is left out.
        """
        demand = self.demand
        flows = np.maximum(values[:-1], 0.0).reshape(len(demand.sources), -1) / values[-1]
        flows[demand.topology.target[None, :] == demand.sources[:, None]] = 0.0
        return flows

    def lengths(self, duals: FloatArray) -> FloatArray:
        """Return the duals of the links as lengths, none negative: float64, shape (links,)."""
        return np.maximum(duals[: self.demand.topology.num_links], 0.0)


def num_variables(demand: Demand) -> int:
    """Return the number of variables of the model of these demands, without building it."""
    return min(len(demand.sources), len(demand.sinks)) * demand.topology.num_links + 1


def solve_by_model(
    demand: Demand,
    solver: str = "highs",
    algorithm: str | None = None,
    tolerance: float | None = None,
    time_limit: float | None = None,
) -> FlowOptimum:
    """Return the optimum of linear program (A.1) with a lower and an upper bound that hold exactly.

    Parameters
    ----------
    demand
        The network, and what each rank sends to each other.
    solver
        A name in `models.solvers`.
    algorithm
        Of HiGHS: ``"simplex"``, ``"ipm"``, ``"pdlp"``, ...; None leaves it to size.
    tolerance
        The solver's. Without one, PDLP is asked again with a finer one until the interval is within `GAP`.
    time_limit
        Seconds.

    Raises
    ------
    NoSchedule
        If the solver stops without a solution.
    InputError, Unsupported
        If the solver is unknown, not installed, or no LP solver with duals.
    """
    backwards = len(demand.sinks) < len(demand.sources)
    program = FlowProgram(demand.reverse if backwards else demand)
    effort, best = Effort("linear program (A.1)", build_s=program.build_s), None
    for options in _attempts(solver, algorithm, tolerance, time_limit, program.compiled.num_columns):
        result = solve(program.compiled, solver, options, {Feature.DUALS})
        effort.add(result)
        if best is not None and result.values is None:
            break
        duals = None if result.duals is None else program.lengths(result.duals)
        lower, lengths = best_lengths(program.demand, duals)
        flows = program.flows(_values(result))
        flow = exact_flow(program.demand, flows)
        upper, parts = upper_bound(flow), common_parts(flows) if lower else None
        if upper > lower and parts is not None and PARTS % parts and parts <= MOST_COMMON:
            other = exact_flow(program.demand, flows, parts)
            upper, flow = min(((upper, flow), (upper_bound(other), other)), key=lambda pair: pair[0])
        if best is None or upper / lower < best[0].upper / best[0].lower:
            best = Interval(lower, upper), lengths, flow
        if best[0].gap <= GAP:
            break
    if best is None:
        raise NoSchedule("mcf: the solver was never asked")
    interval, lengths, flow = best
    stats = effort.columns | {"solver_gap": float(interval.gap)}
    return FlowOptimum(demand, interval, lengths, flow, backwards, stats)


def _attempts(
    solver: str, algorithm: str | None, tolerance: float | None, time_limit: float | None, variables: int
) -> Iterator[Any]:
    """Yield the solver's options, finer each time; together they keep the time limit."""
    backend = find_backend(solver, {Feature.LP, Feature.DUALS})
    given: dict[str, Any] = {}
    if solver == "highs":
        given["method"] = algorithm or ("ipm" if variables <= QUICK_VARIABLES else "pdlp")
    finer = TOLERANCES if tolerance is None and given.get("method") == "pdlp" else (tolerance,)
    begin = now()
    for each in finer:
        left = None if time_limit is None else time_limit - (now() - begin)
        if left is not None and left <= 0:
            return
        yield backend.options(**given, tolerance=each, time_limit=left)


def best_lengths(demand: Demand, duals: FloatArray | None = None) -> tuple[Fraction, Int64Array]:
    """Return the best lower bound, and its lengths, by these duals, equal lengths and inverse bandwidths."""
    topology = demand.topology
    candidates = [np.ones(topology.num_links, dtype=np.int64)]
    if not topology.bandwidth.uniform:
        candidates += rational_lengths(1.0 / topology.bandwidth.floats)[:1]
    if duals is not None:
        candidates += rational_lengths(duals)
    rated = [(lower_bound(topology, demand, lengths), lengths) for lengths in candidates]
    return max(rated, key=lambda pair: pair[0])


def _values(result: SolverResult) -> FloatArray:
    if result.values is None or not result.values[-1] > 0:
        raise NoSchedule(
            f"mcf: {result.solver} stopped with '{result.termination}' before it had a solution; "
            "give it more time, or a coarser tolerance"
        )
    return result.values


def saturated_links(topology: Topology, optimum: FlowOptimum, tolerance: float = 1e-4) -> Int64Array:
    """Return the links that limit the flow: with a length, and full to within `tolerance`; longest first.

    At an optimum every link with a positive length is full (complementary slackness).
    """
    time_of = optimum.flow.loads / topology.bandwidth.floats
    full = time_of >= time_of.max() * (1 - tolerance)
    felt = optimum.lengths > optimum.lengths.max() * tolerance
    links = np.flatnonzero(full & felt)
    return links[np.argsort(-optimum.lengths[links], kind="stable")]


def capped(demand: Demand) -> Demand:
    """Return the demands on a network without the bandwidth that can't be of use.

    No link carries more than all demands together, D. Let B be some bound, so that T is at least B. Then a
    link of bandwidth above D / B is never full, so its bandwidth may as well be 2 D / B. Its length at an
    optimum is 0 (complementary slackness).

    Returns
    -------
    Demand
        The same object where bandwidths are not far apart.
    """
    topology = demand.topology
    band = topology.bandwidth
    if int(band.numerators.max()) <= int(band.numerators.min()) * ALIKE:
        return demand
    total = Fraction(int(demand.amounts.sum()), demand.denominator)
    most = -(-2 * total * band.denominator // best_lengths(demand)[0])
    numerators = np.minimum(band.numerators, np.int64(min(int(most), INT64_MAX)))
    return replace(demand, topology=replace(topology, bandwidth=Rationals(numerators, band.denominator)))


def uncapped_lengths(demand: Demand, near: Demand, lengths: Int64Array) -> Int64Array:
    """Return lengths for the demands as they are: those of capped links 0, if that proves more."""
    same = near.topology.bandwidth.numerators == demand.topology.bandwidth.numerators
    kept = np.where(same, lengths, 0)
    candidates = [lengths, kept] if kept.any() else [lengths]
    return max(candidates, key=lambda candidate: lower_bound(demand.topology, demand, candidate))


def mcf_bound(
    topology: Topology,
    collective: Collective,
    most_variables: int = QUICK_VARIABLES,
    *,
    asked: bool = False,
    time_limit: float | None = None,
) -> Bound | None:
    """Return the bound by the lengths that the linear program finds, or by equal ones on a large network.

    ``links`` in the certificate are those with a length, longest first: the bottleneck. Where they are the
    links out of a set of nodes that alone proves as much, ``cut`` has it.

    Parameters
    ----------
    topology, collective
        The problem.
    most_variables
        Of the program on the orbits of the network's symmetries: a variable for each source orbit and link. A
        larger program is solved only if there are few orbits of links. On other networks equal lengths and
        inverse bandwidths are tried, which count what the shortest routes need of all links together. 0: only
        those are tried.
    asked
        Whether to prove it to within 1e-4 of the optimum on any network, or as near as `ASKED_SECONDS` allow.
    time_limit
        Seconds of solving if `asked` is false, after which the best so far is returned; None for no limit.

    Returns
    -------
    Bound or None
        None if an item starts or ends at several ranks, or nothing moves, or all from or to one rank (where
        the cut bound is the optimum already), or the numbers do not fit 64 bits.
    """
    items = collective.items
    if (items.start == EVERYONE).any() or (items.end == EVERYONE).any():
        return None
    moved = (items.start != items.end) & (items.share.numerators > 0)
    if not moved.any() or np.ptp(items.start[moved]) == 0 or np.ptp(items.end[moved]) == 0:
        return None
    try:
        demand = Demand.of(topology, collective)
        lengths = _lengths(_DemandKey(demand), most_variables, asked, time_limit)
        return bound_of(demand, uncapped_lengths(demand, capped(demand), lengths))
    except InputError:  # numbers too far apart for 64 bits: the other bounds must suffice
        return None


@dataclass(frozen=True, eq=False)
class _DemandKey:
    """Equal demands have equal keys, so that what was solved once is kept."""

    demand: Demand

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DemandKey) and self._numbers == other._numbers

    def __hash__(self) -> int:
        return hash(self._numbers)

    @cached_property
    def _numbers(self) -> tuple[int | bytes, ...]:
        topology, demand = self.demand.topology, self.demand
        arrays = (topology.source, topology.target, topology.bandwidth.numerators, demand.amounts)
        return topology.bandwidth.denominator, demand.denominator, *(array.tobytes() for array in arrays)


@lru_cache(maxsize=8)
def _lengths(problem: _DemandKey, most_variables: int, asked: bool, time_limit: float | None) -> Int64Array:
    """Return the best lengths known: by orbits, which is faster than the model, or simple ones.

    The last ones are kept, as the same demand comes at many sizes and for many methods.
    """
    demand = capped(problem.demand)
    found = None
    with suppress(NoSchedule):  # nothing was proven in time: simple lengths must suffice
        found = quick_lengths(demand, most_variables, time_limit) if most_variables else None
        if found is None and asked:
            found = solve_by_orbits(demand, time_limit=ASKED_SECONDS).lengths
    simple = best_lengths(demand)
    if found is None or lower_bound(demand.topology, demand, found) < simple[0]:
        return simple[1]
    return found


def bound_of(demand: Demand, lengths: Int64Array) -> Bound:
    """Return the bound that these lengths prove, with its certificate."""
    topology = demand.topology
    value = lower_bound(topology, demand, lengths)
    numerators = topology.bandwidth.numerators.tolist()
    offered = sum(b * length for b, length in zip(numerators, lengths.tolist(), strict=True))
    capacity = Fraction(offered, topology.bandwidth.denominator)
    long = np.flatnonzero(lengths > lengths.max() * ROUNDING)
    certificate: dict[str, Any] = {
        "lengths": lengths.tolist(),
        "distance": json_number(value * capacity),
        "capacity": json_number(capacity),
        "links": long[np.argsort(-lengths[long], kind="stable")].tolist(),
    }
    inside = cut_of(demand, lengths, value)
    if inside is not None:
        certificate["cut"] = cut_nodes(topology, inside)
    return Bound("mcf", value, SECONDS_PER_BYTE, certificate)


def cut_of(demand: Demand, lengths: Int64Array, value: Fraction) -> BoolArray | None:
    """Return a set of nodes whose cut alone proves `value`, among those at distance 0 from a rank, or None.

    Lengths that are those of one cut leave all its inside at distance 0.
    """
    topology = demand.topology
    near = np.unique(length_distances(topology, lengths, np.arange(topology.num_ranks)) == 0, axis=0)
    for inside in near:
        ranks = inside[: topology.num_ranks]
        crossing = int(demand.amounts[np.ix_(ranks, ~ranks)].sum())
        band = exit_bandwidth(topology, inside)
        if band and Fraction(crossing, demand.denominator) / band == value:
            return inside
    return None

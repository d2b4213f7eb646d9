"""The bound ``mcf``: lengths of links, the dual of linear program (A.1); proof in ``docs/proofs.md``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tutti.models.all_to_all.certificate import lower_bound
from tutti.models.all_to_all.demand import Demand
from tutti.models.all_to_all.optimum import QUICK_VARIABLES, best_lengths, capped, uncapped_lengths
from tutti.models.all_to_all.orbits import quick_lengths, solve_by_orbits
from tutti.models.bounds.bottleneck_cut import cut_nodes, exit_bandwidth
from tutti.models.bounds.bound import ASKED_SECONDS, SECONDS_PER_BYTE, Bound
from tutti.models.solvers.outcome import ROUNDING
from tutti.schedules.collective import EVERYONE, Collective
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import BoolArray, Int64Array, json_number
from tutti.topologies.graphs.shortest_paths import length_distances
from tutti.topologies.topology import Topology


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

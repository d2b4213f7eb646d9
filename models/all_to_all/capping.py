"""Bandwidths far apart, brought nearer to each other without changing the optimum of linear program (A.1).

No link carries more than all demands together, D. With T at least some bound B, a link of bandwidth above
D / B is never full, so its bandwidth may as well be 2 D / B, and its length at an optimum is 0 (complementary
slackness). Solvers, whose tolerances are relative to the largest numbers, then see those that matter.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from models.all_to_all.certificate import lower_bound
from models.all_to_all.demand import Demand
from topologies.exact import INT64_MAX, Int64Array, Rationals

ALIKE = 2**8
"""Bandwidths whose ratios are no larger are left to the solver as they are."""


def capped(demand: Demand) -> Demand:
    """Return the demands on a network without the bandwidth that can't be of use.

    The same object where bandwidths are not far apart.
    """
    from models.all_to_all.optimum import best_lengths  # Pyomo is slow to import

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
    ways = [lengths, kept] if kept.any() else [lengths]
    return max(ways, key=lambda way: lower_bound(demand.topology, demand, way))

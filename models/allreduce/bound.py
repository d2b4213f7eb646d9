"""The bound ``lp`` of allreduce: weighted cuts and lengths; proof in ``docs/proofs.md``.

It bounds schedules that reduce up trees and broadcast down trees over switches that only forward. B.7 does
not prove that no other allreduce is faster, so it counts as a bound on all only where the partition bound is
as large.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tutti.models.allreduce.cuts import Arcs
from tutti.models.allreduce.optimum import allreduce_optimum
from tutti.models.bounds.bound import ASKED_SECONDS, SECONDS_PER_BYTE, Bound
from tutti.schedules.collective import Collective, Kind
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import json_number
from tutti.topologies.topology import Topology

TREES, ANY = "tree schedules", "any schedule"
"""Values of ``scope`` in the bound's certificate: the schedules for which it is a bound."""


def lp_bound(
    topology: Topology, collective: Collective, partition: Bound | None, *, asked: bool = False
) -> Bound | None:
    """Return the bound, with the exact optimum of (B.5) as its value, or a lower one that was proven in time.

    Parameters
    ----------
    topology, collective
        The problem.
    partition
        Its partition bound, whose parts are tried first.
    asked
        Whether to solve it for any network, in at most `ASKED_SECONDS`.

    Returns
    -------
    Bound or None
        None if the collective is no allreduce in one group of all ranks, or the network is too large to solve
        it unasked, or nothing was proven in time, or its numbers do not fit 64 bits.
    """
    if collective.kind is not Kind.ALLREDUCE or collective.groups is not None:
        return None
    if not asked and not is_small(topology):
        return None
    parts = partition.certificate["parts"] if partition else ()
    try:
        limit = ASKED_SECONDS if asked else 10.0  # measured: below 1 s on networks that are small
        found = allreduce_optimum(topology, parts, time_limit=limit, by="cuts")
    except (InputError, NoSchedule):  # numbers beyond 64 bits, or no time: the other bounds must suffice
        return None
    offered = zip(topology.bandwidth, found.proof.lengths, strict=True)
    capacity = sum((b * length for b, length in offered), Fraction(0))
    certificate: dict[str, Any] = {
        "scope": TREES,
        "attained": found.exact,
        "crossed": json_number(found.lower * capacity),
        "capacity": json_number(capacity),
        **found.proof.document(),
    }
    if partition is not None and partition.value >= found.lower:
        certificate |= {"scope": ANY, "partition": dict(partition.certificate)}
    return Bound("lp", found.lower, SECONDS_PER_BYTE, certificate)


def is_small(topology: Topology) -> bool:
    """Return whether the bound is found unasked, by the ranks, direct links and pairs that switches join."""
    return topology.num_ranks <= 64 and len(Arcs.of(topology)) <= 2000

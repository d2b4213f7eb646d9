"""The check of ``distance`` and ``combined``: α's of a path, and what leaves a set in the rest of the time.

Proof: ``docs/proofs.md``, *distance* and *combined*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from tutti.models.bounds.certificate import (
    Certificate,
    Item,
    bandwidth_out,
    dijkstra,
    inside_of,
    items_of,
    shortest_path,
)
from tutti.schedules.collective import Collective
from tutti.topologies.errors import InputError
from tutti.topologies.topology import Topology
from tutti.topologies.units import exact_number


def prove_distance(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``distance`` proves."""
    origin, goal = certificate["from"], certificate["to"]
    if not any(origin in item.starts and goal in item.ends for item in items_of(collective) if item.share):
        raise InputError(f"distance bound: no item of {collective} goes from {origin} to {goal}")
    return shortest_path(topology, origin, goal)[0]


def prove_combined(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``combined`` proves."""
    inside, h = inside_of(certificate, topology), exact_number(str(certificate["h"]))
    counts = _counted(certificate, topology, inside, h * topology.alpha.denominator)
    share = sum((item.share for item in items_of(collective) if counts(item)), Fraction(0))
    if not share:
        raise InputError(f"combined bound: no item of {collective} crosses at a distance of {h} s or more")
    return h + exact_number(str(certificate["size_bytes"])) * share / bandwidth_out(topology, inside)


def _counted(
    certificate: Certificate, topology: Topology, inside: frozenset[int], least: Fraction
) -> Callable[[Item], bool]:
    """Return a test whether an item crosses the cut over a distance of `least` or more (a numerator of α)."""
    outside = frozenset(range(topology.num_ranks)) - inside
    # Without a node, every path from a rank inside to one outside must be that long.
    if "node" not in certificate:
        near = [d[end] for d in _distances(topology, inside) for end in outside if d[end] < least]
        return lambda item: not near and item.crosses(inside)
    node, inward = certificate["node"], certificate["direction"] == "in"
    if (node in inside) == inward:
        raise InputError(f"combined bound: node {node} is on the wrong side of its cut")
    distance = dijkstra(topology, node, backwards=inward)[0]
    far = frozenset(v for v in (inside if inward else outside) if distance[v] >= least)
    if inward:
        return lambda item: node in item.ends and not item.starts.isdisjoint(far)
    return lambda item: node in item.starts and not item.ends.isdisjoint(far)


def _distances(topology: Topology, inside: frozenset[int]) -> Iterator[list[int]]:
    """Yield the distances from each rank inside."""
    return (dijkstra(topology, v)[0] for v in inside if v < topology.num_ranks)

"""Bandwidth bounds, in seconds per byte of M: cut and degree; proofs in `models.bounds.check`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from models.bounds.bound import SECONDS_PER_BYTE, Bound
from models.bounds.candidates import candidate_cuts
from models.bounds.traffic import Traffic
from models.cut import bottleneck_cut
from topologies.errors import InputError
from topologies.exact import BoolArray, Int64Array, json_number
from topologies.topology import Topology
from topologies.transforms import transpose


def exit_bandwidth(topology: Topology, inside: BoolArray) -> Fraction:
    """Return the bandwidth of the links that leave these nodes, bytes/s."""
    leaving = inside[topology.source] & ~inside[topology.target]
    total = sum(topology.bandwidth.numerators[leaving].tolist())
    return Fraction(total, topology.bandwidth.denominator)


def cut_nodes(topology: Topology, inside: BoolArray) -> dict[str, list[int]]:
    """Return the ranks and switches inside, as certificates have them."""
    nodes, ranks = np.flatnonzero(inside), topology.num_ranks
    return {"ranks": nodes[nodes < ranks].tolist(), "switches": nodes[nodes >= ranks].tolist()}


def degree_bound(topology: Topology, traffic: Traffic) -> Bound:
    """Return the longest time that one rank needs to send, or receive, what it must.

    The certificate has the node, the direction (``in`` or ``out``), the share of M and the bandwidth.
    """
    found = [
        (Fraction(share, traffic.denominator) / bandwidth, node, direction, bandwidth)
        for direction, shares, bandwidths in (
            ("out", traffic.leaving, topology.egress),
            ("in", traffic.reverse.leaving, topology.ingress),
        )
        for node, (share, bandwidth) in enumerate(zip(shares.tolist(), bandwidths, strict=False))
    ]
    value, node, direction, bandwidth = max(found, key=lambda row: row[0])
    certificate = {
        "node": node,
        "direction": direction,
        "share": json_number(value * bandwidth),
        "bandwidth": json_number(bandwidth),
    }
    return Bound("degree", value, SECONDS_PER_BYTE, certificate)


def cut_bound(topology: Topology, traffic: Traffic) -> Bound:
    """Return the time that a bottleneck cut needs.

    For a single collective whose items all spread from, or collect to, one rank or everyone the cut is the
    worst of all (`models.cut`). For several groups at once, and for all-to-all, it is the worst of a
    family (`candidate_cuts` and each group's own bottleneck): a valid bound, perhaps not the best.
    ``maximum`` in the certificate says which.
    """
    exact = _bottlenecks(topology, traffic)
    alone = len(traffic.members) == 1 and exact is not None
    cuts = [*(exact or [])] if alone else [*(exact or []), *candidate_cuts(topology, traffic)]
    rated = [(_time_of(topology, traffic, inside), inside) for inside in cuts]
    value, inside = max(rated, key=lambda row: row[0])
    certificate = {
        **cut_nodes(topology, inside),
        "exit_bandwidth": json_number(exit_bandwidth(topology, inside)),
        "share": json_number(traffic.crossing(inside)),
        "maximum": alone,
    }
    return Bound("cut", value, SECONDS_PER_BYTE, certificate)


def _time_of(topology: Topology, traffic: Traffic, inside: BoolArray) -> Fraction:
    share = traffic.crossing(inside)
    return share / exit_bandwidth(topology, inside) if share else Fraction(0)


def _bottlenecks(topology: Topology, traffic: Traffic) -> list[BoolArray] | None:
    """Return the bottleneck cuts of every group by itself, or None where a flow can't tell them."""
    backwards = transpose(topology)
    try:
        outward = [_worst(topology, *question) for question in _questions(traffic)]
        inward = [~_worst(backwards, *question) for question in _questions(traffic.reverse)]
    except InputError:  # numbers too far apart for 64-bit flows: weaker cuts must do
        return None
    return [*outward, *inward] or None


def _worst(topology: Topology, weights: Int64Array, sinks: Sequence[int]) -> BoolArray:
    return bottleneck_cut(topology, weights.tolist(), sinks).inside


def _questions(traffic: Traffic) -> Iterator[tuple[Int64Array, list[int]]]:
    """Yield weights and sinks of all questions (★) that the traffic outwards of a cut asks."""
    for index, members in enumerate(traffic.members):
        weights = np.zeros_like(traffic.spread)
        weights[members] = traffic.spread[members]
        # An allreduce moves all data out of every set that separates two ranks: out of those around the
        # first rank as a broadcast does, out of the others as a reduce.
        weights[members[0]] += traffic.both[index]
        if weights.any():
            yield weights, members.tolist()
    for end in _common_ends(traffic):
        weights = np.zeros_like(traffic.spread)
        chosen = traffic.pairs.end == end
        np.add.at(weights, traffic.pairs.start[chosen], traffic.pairs.share[chosen])
        yield weights, [end]


def _common_ends(traffic: Traffic) -> list[int]:
    """Return the one end of each group's pairs (as in gather), for groups where there is one."""
    ends = np.unique(traffic.pairs.end)
    groups = traffic.group[ends]
    return [int(end) for end, group in zip(ends, groups, strict=True) if (groups == group).sum() == 1]

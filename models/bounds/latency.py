"""Bounds that count α: distance, and combined with bandwidth; `models.bounds.check` proves them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from models.bounds.bandwidth import cut_nodes, exit_bandwidth
from models.bounds.bound import SECONDS, Bound
from models.bounds.check import shortest_path
from models.bounds.traffic import Pairs, Traffic
from topologies.exact import BoolArray, Int64Array, json_number
from topologies.topology import Topology

FLOAT_SLACK = 1e-12
"""Values this close (relatively) in floats are compared exactly; doubles err by less than 1e-14 here."""


def distance_bound(topology: Topology, traffic: Traffic, distance: Int64Array) -> Bound | None:
    """Return the largest α-distance from a start to an end of one item; None if nothing moves.

    The certificate has both ranks and the nodes of a path.

    Parameters
    ----------
    topology, traffic
        The problem.
    distance
        int64, shape (ranks, ranks): α-distances over the denominator of `topology.alpha`.
    """
    found = [(int(distance[pair]), pair) for pair in _farthest_pairs(traffic, distance)]
    if not found:
        return None
    units, (origin, goal) = max(found, key=lambda row: row[0])
    value = Fraction(units, topology.alpha.denominator)
    path = shortest_path(topology, origin, goal)[1]
    return Bound(
        "distance", value, SECONDS, {"from": origin, "to": goal, "path": path, "alpha": json_number(value)}
    )


def combined_bound(
    topology: Topology, traffic: Traffic, distance: Int64Array, size: Fraction, bottleneck: BoolArray
) -> Bound | None:
    """Return the best α-β bound around each rank and over one cut; None if nothing moves.

    For allgather into one rank v: max over h of h + M · (shares of the sources at α-distance h or more) over
    the bandwidth into v.

    Parameters
    ----------
    topology, traffic, distance
        As `distance_bound`.
    size
        M, bytes.
    bottleneck
        bool, shape (nodes,): the cut.
    """
    search = _Search(Fraction(size), topology.alpha.denominator, traffic.denominator)
    over, inside = exit_bandwidth(topology, bottleneck), bottleneck[: topology.num_ranks]
    sides = (
        ("in", _Arrivals.of(traffic, distance), topology.ingress, inside),
        ("out", _Arrivals.of(traffic.reverse, distance.T), topology.egress, ~inside),
    )
    for direction, arrivals, bandwidth, _ in sides:
        for node in range(topology.num_ranks):
            search.offer(arrivals.at(node), bandwidth[node], _Place(node, direction))
    for direction, arrivals, _, near in sides:
        for node in np.flatnonzero(~near).tolist():
            search.offer(arrivals.at(node, near), over, _Place(node, direction, over_cut=True))
    _offer_whole_cut(search, topology, traffic, distance, bottleneck)
    return search.bound(topology, bottleneck)


def _farthest_pairs(traffic: Traffic, distance: Int64Array) -> Iterator[tuple[int, int]]:
    """Yield, for each shape of item, the start and end that are farthest apart."""
    pairs = traffic.pairs
    if len(pairs.start):
        farthest = int(np.argmax(distance[pairs.start, pairs.end]))
        yield int(pairs.start[farthest]), int(pairs.end[farthest])
    for members, both in zip(traffic.members, traffic.both, strict=True):
        for starts, ends in (
            (members[traffic.spread[members] > 0], members),
            (members, members[traffic.collect[members] > 0]),
            (members[: len(members) * bool(both)], members),
        ):
            if len(starts) and len(ends):
                apart = distance[np.ix_(starts, ends)]
                row, column = np.unravel_index(int(np.argmax(apart)), apart.shape)
                yield int(starts[row]), int(ends[column])


def _offer_whole_cut(
    search: _Search, topology: Topology, traffic: Traffic, distance: Int64Array, inside: BoolArray
) -> None:
    """Offer the cut with the least distance across it, which all items that cross have to cover."""
    ranks = inside[: topology.num_ranks]
    share = traffic.crossing(inside)
    if share:
        least = np.array([distance[np.ix_(ranks, ~ranks)].min()])
        units = np.array([share.numerator * (traffic.denominator // share.denominator)])
        search.offer((least, units), exit_bandwidth(topology, inside), _Place(over_cut=True))


@dataclass(frozen=True, eq=False)
class _Arrivals:
    """What must arrive at each rank, and from how far."""

    traffic: Traffic
    distance: Int64Array
    pairs: Pairs
    first: Int64Array

    @classmethod
    def of(cls, traffic: Traffic, distance: Int64Array) -> _Arrivals:
        pairs, order = traffic.pairs, np.argsort(traffic.pairs.end, kind="stable")
        ordered = Pairs(pairs.start[order], pairs.end[order], pairs.share[order])
        first = np.searchsorted(ordered.end, np.arange(len(traffic.group) + 1))
        return cls(traffic, distance, ordered, first)

    def at(self, node: int, near: BoolArray | None = None) -> tuple[Int64Array, Int64Array]:
        """Return distances and shares of the items that end at `node` (and start in the mask `near`).

        An item of everyone's counts with its farthest contributor.
        """
        here = slice(self.first[node], self.first[node + 1])
        starts, shares = self.pairs.start[here], self.pairs.share[here]
        group = self.traffic.group[node]
        others = self.traffic.members[group] if group >= 0 else starts[:0]
        others = others[others != node]
        if near is not None:
            starts, shares, others = starts[near[starts]], shares[near[starts]], others[near[others]]
        way, spread = self.distance[:, node], self.traffic.spread[others]
        distances, sizes = [way[starts], way[others[spread > 0]]], [shares, spread[spread > 0]]
        summed = self.traffic.collect[node] + self.traffic.both[group]
        if len(others) and summed:
            distances.append(way[others].max(keepdims=True))
            sizes.append(np.array([summed]))
        return np.concatenate(distances), np.concatenate(sizes)


class _Place(NamedTuple):
    """What a combined bound is about: arrivals (or departures) at one node, a cut, or those over a cut."""

    node: int | None = None
    direction: str = ""
    over_cut: bool = False


@dataclass(eq=False)
class _Search:
    """The best h + M · share / bandwidth seen so far."""

    size: Fraction
    alpha_denominator: int
    share_denominator: int
    value: Fraction = Fraction(0)
    found: tuple[Fraction, Fraction, Fraction] | None = None  # h, share, bandwidth
    where: _Place = field(default_factory=_Place)

    def offer(self, items: tuple[Int64Array, Int64Array], bandwidth: Fraction, where: _Place) -> None:
        """Take these items into account: for each h among their distances, those at h or more."""
        distance, share = items
        if not len(distance):
            return
        order = np.argsort(-distance, kind="stable")
        distance, total = distance[order], np.cumsum(share[order])
        per_unit = float(self.size / self.share_denominator / bandwidth)
        value = distance / self.alpha_denominator + total * per_unit
        top = value.max() * (1 - FLOAT_SLACK)
        if top < float(self.value) * (1 - FLOAT_SLACK) ** 2:
            return
        for i in np.flatnonzero(value >= top):
            self._compare(Fraction(int(distance[i])), Fraction(int(total[i])), bandwidth, where)

    def _compare(self, distance: Fraction, total: Fraction, bandwidth: Fraction, where: _Place) -> None:
        h, share = distance / self.alpha_denominator, total / self.share_denominator
        value = h + self.size * share / bandwidth
        if value > self.value:
            self.value, self.found, self.where = value, (h, share, bandwidth), where

    def bound(self, topology: Topology, inside: BoolArray) -> Bound | None:
        if self.found is None:
            return None
        node, direction, over_cut = self.where
        h, share, bandwidth = map(json_number, self.found)
        certificate = {
            "size_bytes": json_number(self.size),
            "h": h,
            "share": share,
            "bandwidth": bandwidth,
            **({} if node is None else {"node": node, "direction": direction}),
            **(cut_nodes(topology, inside) if over_cut else {}),
        }
        return Bound("combined", self.value, SECONDS, certificate)

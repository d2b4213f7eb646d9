"""Bounds that count α: distance, combined with bandwidth, broadcast growth and first hop.

`broadcast_growth_bound` counts the messages that spread the data of one rank u. X(u, t) is the most ranks
that can have it at time t (`models.bounds.spreading`). The first t at which X(u, t) reaches the number of
ranks that need it is a bound. With links reversed, the same holds for the data that one rank needs. Without
switches that only forward this bound is the distance, and it is left out. ``docs/proofs.md`` proves all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tutti.models.bounds.bottleneck_cut import cut_nodes, exit_bandwidth
from tutti.models.bounds.bound import SECONDS, Bound
from tutti.models.bounds.certificate import shortest_path
from tutti.models.bounds.spreading import AlphaDistances, Growth, forwarding, tick_of
from tutti.models.bounds.traffic import PairItems, Traffic
from tutti.topologies.exact import INT64_MAX, BoolArray, FloatArray, Int32Array, Int64Array, json_number
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

MOST_NODES, MOST_LINKS = 2048, 2**17
"""Largest numbers of nodes and of links of a network that gets `broadcast_growth`: every pair counts."""
MOST_GROUPS = 4
"""Largest number of groups that `broadcast_growth` tries; those of one collective are mostly equal."""

FLOAT_SLACK = 1e-12
"""Values this close (relatively) in floats are compared exactly; doubles err by less than 1e-14 here."""

HALVINGS = 40
"""Number of halvings of an interval of times, enough to find the rank that is last by `first_hop`."""


def distance_bound(topology: Topology, traffic: Traffic, distances: AlphaDistances) -> Bound | None:
    """Return the largest α-distance from a start to an end of one item; None if nothing moves.

    The certificate has both ranks and the nodes of a path.

    Parameters
    ----------
    topology, traffic
        The problem.
    distances
        The network's α-distances.
    """
    found = [pair for first, rows in distances.blocks() for pair in _farthest_pairs(traffic, first, rows)]
    if not found:
        return None
    units, (origin, goal) = max(found, key=lambda row: row[0])
    value = Fraction(units, topology.alpha.denominator)
    path = shortest_path(topology, origin, goal)[1]
    return Bound(
        "distance", value, SECONDS, {"from": origin, "to": goal, "path": path, "alpha": json_number(value)}
    )


def combined_bound(
    topology: Topology, traffic: Traffic, distances: AlphaDistances, size: Fraction, bottleneck: BoolArray
) -> Bound | None:
    """Return the best α-β bound around each rank and over one cut; None if nothing moves.

    For allgather into one rank v: max over h of h + M · (shares of the sources at α-distance h or more) over
    the bandwidth into v.

    Parameters
    ----------
    topology, traffic, distances
        As `distance_bound`.
    size
        M, bytes.
    bottleneck
        bool, shape (nodes,): the cut.
    """
    search, across = (
        _CombinedSearch(Fraction(size), topology.alpha.denominator, traffic.denominator) for _ in range(2)
    )
    over, inside = exit_bandwidth(topology, bottleneck), bottleneck[: topology.num_ranks]
    cut = cut_nodes(topology, bottleneck)
    sides = (
        ("in", _ArrivalDistances(traffic), topology.ingress, inside),
        ("out", _ArrivalDistances(traffic.reverse), topology.egress, ~inside),
    )
    for direction, arrivals, bandwidth, near in sides:
        for first, rows in distances.blocks(towards=direction == "in"):
            for node, away in enumerate(rows, first):
                where = {"node": node, "direction": direction}
                search.offer(arrivals.at(node, away), bandwidth[node], where)
                if not near[node]:
                    across.offer(arrivals.at(node, away, near), over, {**where, **cut})
    share = traffic.crossing(bottleneck)
    if share:
        crossings = (
            rows[inside[first : first + len(rows)]][:, ~inside] for first, rows in distances.blocks()
        )
        least = np.array([min(block.min() for block in crossings if block.size)])
        units = np.array([share.numerator * (traffic.denominator // share.denominator)])
        across.offer(_Items(least, units), over, cut)
    return max(search, across, key=lambda side: side.value).bound()


def _farthest_pairs(traffic: Traffic, first: int, rows: Int64Array) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield, for each shape of item that starts in the block, the start and end that are farthest apart."""
    pairs, last = traffic.pairs, first + len(rows)
    here = np.flatnonzero((pairs.start >= first) & (pairs.start < last))
    if len(here):
        farthest = here[np.argmax(rows[pairs.start[here] - first, pairs.end[here]])]
        pair = int(pairs.start[farthest]), int(pairs.end[farthest])
        yield int(rows[pair[0] - first, pair[1]]), pair
    for members, own, both in zip(traffic.members, traffic.of_group, traffic.both, strict=True):
        here_too = (members >= first) & (members < last)
        near = members[here_too]
        for starts, ends in (
            (members[here_too & (traffic.spread[own] > 0)], members),
            (near, members[traffic.collect[own] > 0]),
            (near[: len(near) * bool(both)], members),
        ):
            if len(starts) and len(ends):
                apart = rows[np.ix_(starts - first, ends)]
                row, column = np.unravel_index(int(np.argmax(apart)), apart.shape)
                yield int(apart[row, column]), (int(starts[row]), int(ends[column]))


class _ArrivalDistances:
    """The data that must arrive at each rank, and the distances from which they come."""

    def __init__(self, traffic: Traffic) -> None:
        order = np.argsort(traffic.pairs.end, kind="stable")
        columns = vars(traffic.pairs).values()
        self.traffic, self.pairs = traffic, PairItems(*(column[order] for column in columns))
        self.first = np.searchsorted(self.pairs.end, np.arange(traffic.num_ranks + 1))

    def at(self, node: int, away: Int64Array, near: BoolArray | None = None) -> _Items:
        """Return distances and shares of the items that end at `node` (and start in the mask `near`).

        `away` has the distance from every rank to it.

        An item to which all ranks contribute counts with its farthest contributor.
        """
        here = slice(self.first[node], self.first[node + 1])
        starts, shares = self.pairs.start[here], self.pairs.share[here]
        if near is not None:
            starts, shares = starts[near[starts]], shares[near[starts]]
        distances, sizes = [away[starts]], [shares]
        for membership in self.traffic.of_rank[node].tolist():
            group = int(self.traffic.group[membership])
            others, spread = self.traffic.members[group], self.traffic.spread[self.traffic.of_group[group]]
            counted = (others != node) & (near is None or near[others])
            others, spread = others[counted], spread[counted]
            distances.append(away[others[spread > 0]])
            sizes.append(spread[spread > 0])
            summed = self.traffic.collect[membership] + self.traffic.both[group]
            if len(others) and summed:
                distances.append(away[others].max(keepdims=True))
                sizes.append(np.array([summed]))
        return _Items(np.concatenate(distances), np.concatenate(sizes))


class _Items(NamedTuple):
    """Items that pass one place, int64 each: over the denominators of α and of the shares."""

    distance: Int64Array
    share: Int64Array


@dataclass(eq=False)
class _CombinedSearch:
    """The best h + M · share / bandwidth seen so far."""

    size: Fraction
    alpha_denominator: int
    share_denominator: int
    value: Fraction = Fraction(0)
    found: tuple[Fraction, Fraction, Fraction] | None = None  # h, share, bandwidth
    where: Mapping[str, Any] = field(default_factory=dict)

    def offer(self, items: _Items, bandwidth: Fraction, where: Mapping[str, Any]) -> None:
        """Take these items into account: for each h among their distances, those at h or more.

        `where` is what the certificate says of the place: arrivals or departures at one node, a cut, or both.
        """
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
            h = Fraction(int(distance[i]), self.alpha_denominator)
            moved = Fraction(int(total[i]), self.share_denominator)
            exact = h + self.size * moved / bandwidth
            if exact > self.value:
                self.value, self.found, self.where = exact, (h, moved, bandwidth), where

    def bound(self) -> Bound | None:
        if self.found is None:
            return None
        h, share, bandwidth = map(json_number, self.found)
        size = json_number(self.size)
        certificate = {"size_bytes": size, "h": h, "share": share, "bandwidth": bandwidth, **self.where}
        return Bound("combined", self.value, SECONDS, certificate)


def broadcast_growth_bound(topology: Topology, traffic: Traffic, distances: AlphaDistances) -> Bound | None:
    """Return the longest time in which one rank's data can reach all, or all data can reach one rank.

    None where no switch only forwards, ranks are in several groups, or the network is too large. The
    certificate has the rank, the direction (``out``: what it starts with, ``in``: what it ends with), how
    many ranks that concerns, and the bound as a number of ticks.

    Parameters
    ----------
    topology, traffic
        The problem.
    distances
        The network's α-distances.
    """
    large = topology.num_nodes > MOST_NODES or topology.num_links > MOST_LINKS
    if large or len(traffic.disjoint_groups) > 1 or not forwarding(topology).any():
        return None
    largest = sorted(range(len(traffic.members)), key=lambda group: -len(traffic.members[group]))
    tick = Fraction(tick_of(distances), topology.alpha.denominator)
    slowest, certificate = -1, dict[str, Any]()
    for direction, way in (("out", traffic), ("in", traffic.reverse)):
        for group in largest[:MOST_GROUPS]:
            members, concerned = way.members[group], _concerned(way, group)
            if len(members) < 2 or not len(concerned):
                continue
            ticks = Growth(topology, distances, members, direction == "out").ticks(concerned)
            if ticks.max() > slowest:
                slowest = int(ticks.max())
                certificate = {
                    "node": int(concerned[np.argmax(ticks)]),
                    "direction": direction,
                    "needed": len(members),
                    "ticks": slowest,
                    "tick": json_number(tick),
                }
    return Bound("broadcast_growth", slowest * tick, SECONDS, certificate) if certificate else None


def _concerned(traffic: Traffic, group: int) -> Int32Array:
    """Return the members of a group whose data every other member needs."""
    members = traffic.members[group]
    joined = np.unique(np.stack([traffic.pairs.start, traffic.pairs.end], axis=1), axis=0)
    ends = np.bincount(joined[:, 0], minlength=traffic.num_ranks)[members]
    return members[
        (traffic.spread[traffic.of_group[group]] > 0) | (traffic.both[group] > 0) | (ends == len(members) - 1)
    ]


def first_hop_bound(topology: Topology, traffic: Traffic, size: Fraction) -> Bound | None:
    """Return the bound that a link brings a neighbour's own data, or pays α twice.

    Over a link e = (x, v) rank v has by T at most b(e) (T - α(e)) bytes, and no more than x's own if none of
    them came to x over another link. Otherwise e waited for such data, or carried another message before.
    Either way it loses one α more: its own, or the least α of a link into x. The first T at which all links
    together may have brought all data that v needs is a bound. The same holds with links and time reversed.
    It is the largest over all ranks and both directions, or None if nothing goes from one rank to others.

    Parameters
    ----------
    topology, traffic
        The problem.
    size
        M, bytes.
    """
    found = None
    for direction, network, way in (("in", topology, traffic), ("out", transpose(topology), traffic.reverse)):
        arrivals = _NeighbourArrivals(network, way, size)
        node = int(np.argmax(arrivals.times()))
        time = arrivals.time(node)
        if time and (found is None or time > found.value):
            certificate = {
                "node": node,
                "direction": direction,
                "size_bytes": json_number(size),
                "time": json_number(time),
            }
            found = Bound("first_hop", time, SECONDS, certificate)
    return found


class _NeighbourArrivals:
    """The data that each rank needs from others, and that each link into it may bring.

    Parameters
    ----------
    topology, traffic
        The problem.
    size
        M, bytes.

    Attributes
    ----------
    denominator
        Denominator of shares.
    needs
        int64, shape (ranks,): shares.
    own
        int64, shape (links,): the share that the link's tail has itself and its head needs.
    again
        int64, shape (links,): the α that is lost in addition with other data, over α's denominator.
    """

    def __init__(self, topology: Topology, traffic: Traffic, size: Fraction) -> None:
        self.topology, self.size, self.denominator = topology, size, traffic.denominator
        ranks, nodes = traffic.num_ranks, topology.num_nodes
        source, target, alpha = topology.source, topology.target, topology.alpha.numerators
        pairs = traffic.pairs
        ends, place = np.unique(pairs.start.astype(np.int64) * nodes + pairs.end, return_inverse=True)
        shares = np.zeros(len(ends) + 1, dtype=np.int64)
        np.add.at(shares, place, pairs.share)
        joined = source.astype(np.int64) * nodes + target
        found = np.searchsorted(ends, joined)
        self.own = np.where(np.append(ends, -1)[found] == joined, shares[found], 0)
        self.needs = np.zeros(ranks, dtype=np.int64)
        np.add.at(self.needs, pairs.end, pairs.share)
        for members, places in zip(traffic.members, traffic.of_group, strict=True):
            spread, member = np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=bool)
            spread[members], member[members] = traffic.spread[places], True
            self.own += np.where(member[target], spread[source], 0)
            self.needs[members] += spread.sum() - spread[members]
        into = np.full(nodes, INT64_MAX)
        np.minimum.at(into, target, alpha)
        self.again = np.minimum(into[source], alpha)

    def times(self) -> FloatArray:
        """Return an estimate of the first time at which each rank may have all it needs."""
        alpha = self.topology.alpha.numerators / self.topology.alpha.denominator
        again = self.again / self.topology.alpha.denominator
        unit = float(self.size / self.denominator)
        rate, target = self.topology.bandwidth.floats, self.topology.target
        low, needs = np.zeros(self.topology.num_nodes), np.zeros(self.topology.num_nodes)
        needs[: len(self.needs)] = self.needs * unit
        high = np.where(needs > 0, needs / rate.min() + 2 * alpha.max(), 0.0)
        for _ in range(HALVINGS):
            time = (low + high) / 2
            first = rate * (time[target] - alpha)
            most = np.maximum(np.minimum(first, self.own * unit), first - rate * again)
            enough = np.bincount(target, np.maximum(most, 0.0), self.topology.num_nodes) >= needs
            low, high = np.where(enough, low, time), np.where(enough, time, high)
        return low[: len(self.needs)]

    def time(self, node: int) -> Fraction:
        """Return exactly the first time at which a rank may have all it needs.

        What a link brings rises from α on, stays where it has brought its tail's own data, and rises again
        after the α that it loses with other data.
        """
        topology, share = self.topology, self.size / self.denominator
        needs, bends = share * int(self.needs[node]), list[tuple[Fraction, Fraction]]()
        for link in np.flatnonzero(topology.target == node).tolist():
            alpha, rate = topology.alpha[link], topology.bandwidth[link]
            filled = alpha + share * int(self.own[link]) / rate
            again = filled + Fraction(int(self.again[link]), topology.alpha.denominator)
            bends += [(alpha, rate), (filled, -rate), (again, rate)]
        before = brought = slope = Fraction(0)
        for bend, change in sorted(bends):
            more = slope * (bend - before)
            if brought + more >= needs:
                break
            before, brought, slope = bend, brought + more, slope + change
        return before + (needs - brought) / slope if needs else Fraction(0)

r"""Bandwidth bounds: the data that must leave a set of nodes, or cross between several, over their bandwidth.

`cut_bound` and `degree_bound` are about one set and one rank. `partition_bounds` are those of allreduce, with
2(k - 1) transfers a byte between k parts. If other collectives run at the same time, their data is counted
too: k - 1 transfers a byte that is broadcast or reduced. Among all partitions P of the ranks the bound 2(|P|
- 1) / cap(P) is largest where cap(P) / (|P| - 1) is least. On a network without switches that is the strength
of the graph whose edges have the capacities of both directions together, found exactly
(`topologies.graphs.strength`). With switches, or groups of the ranks, the best of a few partitions is taken:
each rank alone, the hosts, the lines of groups, and the parts into which the strength of the whole network
falls, switches included. `partition_latency_bound` adds the α's that transfers between parts wait for. All
but this are in seconds per byte of M. Proofs: ``docs/proofs.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain

import numpy as np

from tutti.models.bounds.bottleneck_cut import bottleneck_cut, cut_nodes, exit_bandwidth
from tutti.models.bounds.bound import SECONDS, SECONDS_PER_BYTE, Bound
from tutti.models.bounds.traffic import Traffic
from tutti.topologies.errors import InputError
from tutti.topologies.exact import BoolArray, FloatArray, Int64Array, json_number
from tutti.topologies.graphs.grid_structure import placed
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.graphs.strength import strength, undirected
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose
from tutti.topologies.units import exact_number

KEPT = 64
"""Largest number of cuts that are evaluated exactly, after a rating by ranks and bandwidth."""

KEPT_OF_MANY = 8
RATED_PAIRS = 4 * 10**6
"""Largest number of pairs of ranks times cuts that are evaluated; but `KEPT_OF_MANY` cuts always are."""

MOST_ENUMERATED = 12
"""Largest network of which all cuts are candidates; 12 nodes have some 4,000."""

RATED_PRODUCTS = 4 * 10**9
"""Largest number of additions for an exact rating of all cuts, which takes some seconds."""

COMPARED_CELLS = 4 * 10**7
"""Largest number of links times nodes that are compared, a byte each."""
MOST_WORK = 2 * 10**9
"""Largest number of nodes times pairs of neighbours for which the strength is found, by a flow for each
pair."""

SINGLE = 4
"""Largest number of single transfers of a byte with the fewest transfers: those that wait for no other and
that no other waits for. Each transfer more adds up to 9 single ones (``docs/proofs.md``), which save less
than it costs once T is 10 α."""
WAITING = 10
ROUNDED = 1e-12

Parts = list[list[int]]


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

    If the items of a single collective all spread from, or collect to, one rank or all ranks, this is the
    worst cut of all (`models.bounds.bottleneck_cut`). For several groups, and for all-to-all, it is the worst
    of a family (`candidate_cuts` and each group's own bottleneck). That is a valid bound but perhaps not the
    largest, except on small networks, of which all cuts are tried. ``maximum`` in the certificate says which.
    """
    exact = _bottlenecks(topology, traffic)
    alone = len(traffic.members) == 1 and exact is not None
    every = topology.num_nodes <= MOST_ENUMERATED
    cuts = [*(exact or [])] if alone else [*(exact or []), *candidate_cuts(topology, traffic)]
    crossing = [(traffic.crossing(inside), exit_bandwidth(topology, inside)) for inside in cuts]
    times = [share / bandwidth if share else Fraction(0) for share, bandwidth in crossing]
    worst = times.index(max(times))
    share, bandwidth = map(json_number, crossing[worst])
    certificate = {
        **cut_nodes(topology, cuts[worst]),
        "exit_bandwidth": bandwidth,
        "share": share,
        "maximum": alone or every,
    }
    return Bound("cut", times[worst], SECONDS_PER_BYTE, certificate)


def _bottlenecks(topology: Topology, traffic: Traffic) -> list[BoolArray] | None:
    """Return the bottleneck cut of each group alone, or None where a flow can't find it."""
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
    """Yield the weights and sinks of every maximum (★) that the traffic out of a cut asks for."""
    for index, members in enumerate(traffic.members):
        weights = np.zeros(traffic.num_ranks, dtype=np.int64)
        weights[members] = traffic.spread[traffic.of_group[index]]
        # An allreduce moves all data out of every set that separates two ranks: out of those around the
        # first rank as a broadcast does, out of the others as a reduce.
        weights[members[0]] += traffic.both[index]
        if weights.any():
            yield weights, members.tolist()
    for group in np.unique(traffic.pairs.group):
        chosen = traffic.pairs.group == group
        ends = np.unique(traffic.pairs.end[chosen])
        if len(ends) == 1:  # as in gather
            weights = np.zeros(traffic.num_ranks, dtype=np.int64)
            np.add.at(weights, traffic.pairs.start[chosen], traffic.pairs.share[chosen])
            yield weights, ends.tolist()


def candidate_cuts(topology: Topology, traffic: Traffic) -> list[BoolArray]:
    """Return cuts that may be tight where no max-flow finds the worst: all-to-all, several groups.

    They are masks over nodes, the same at every call. The candidates are the hosts; the ranks nearer to one
    end of a link than to the other (on a torus or hypercube these halve it); each of several groups, and the
    ranks at one place in them. On up to `MOST_ENUMERATED` nodes they are all cuts. Complements are candidates
    too. The `KEPT` best of these by what leaves them (`_moved`) over the bandwidth out are returned, after
    the worst single ranks.
    """
    families = [*declared_hosts(topology), *declared_hosts(placed(topology, infer=True))]
    lines = (np.isin(np.arange(topology.num_nodes), line) for lines in traffic.lines for line in lines)
    families += [*_link_sides(topology), *lines]
    if topology.num_nodes <= MOST_ENUMERATED:
        numbers = np.arange(1, 2 ** (topology.num_nodes - 1))
        families = [*families, *(numbers[:, None] >> np.arange(topology.num_nodes) & 1).astype(bool)]
    masks = np.unique(np.packbits(np.array([*families, *(~mask for mask in families)]), axis=1), axis=0)
    cuts = np.unpackbits(masks, axis=1, count=topology.num_nodes).astype(bool)
    moved = _moved(traffic, cuts[:, : topology.num_ranks])
    cuts, moved = cuts[moved > 0], moved[moved > 0]
    kept = min(max(RATED_PAIRS // max(len(traffic.pairs.start), 1), KEPT_OF_MANY), KEPT)
    bandwidth, (source, target) = topology.bandwidth.floats, (topology.source, topology.target)
    exits = np.array([bandwidth[cut[source] & ~cut[target]].sum() for cut in cuts])
    best = np.argsort(-moved / exits, kind="stable")[:kept]
    return [*_worst_nodes(topology, traffic), *cuts[best]]


def _moved(traffic: Traffic, cuts: BoolArray) -> FloatArray:
    """Return what leaves each set of ranks, or an estimate by pairs' data that is spread evenly.

    The estimate is exact for an equal all-to-all among all ranks; else it is used where counting takes long.
    """
    inside, pairs = cuts.astype(np.float64), traffic.pairs
    moved = np.zeros(len(cuts))
    others = traffic.spread.any() or traffic.collect.any() or traffic.both.any()
    few = cuts.shape[0] * cuts.shape[1] ** 2 <= RATED_PRODUCTS
    even = len(traffic.members) == 1 and len(traffic.rank) == cuts.shape[1]
    if few and (others or not even or len(np.unique(pairs.share)) > 1):
        shares = np.zeros((cuts.shape[1],) * 2)
        np.add.at(shares, (pairs.start, pairs.end), pairs.share)
        moved += (inside @ shares * (1 - inside)).sum(axis=1)
    else:
        mean = pairs.share.sum() / cuts.shape[1] ** 2
        moved += inside.sum(axis=1) * (1 - inside).sum(axis=1) * (mean or not others)
    if others:
        here = inside[:, traffic.rank]
        count = np.add.reduceat(here, [each.start for each in traffic.of_group], axis=1)
        split = (count > 0) & (count < np.bincount(traffic.group))
        crossed = split[:, traffic.group]
        moved += (here * crossed) @ traffic.spread + ((1 - here) * crossed) @ traffic.collect
        moved += split @ traffic.both
    return moved


def declared_hosts(topology: Topology) -> Iterator[BoolArray]:
    """Yield the nodes of each host that the network names."""
    if topology.hosts is not None:
        for host in np.unique(topology.hosts[topology.hosts >= 0]):
            yield topology.hosts == host


def _link_sides(topology: Topology) -> Iterator[BoolArray]:
    """Yield for links the nodes that are nearer to its source than to its target."""
    hops = hop_distances(topology).astype(np.float64)
    hops[hops < 0] = np.inf
    pairs = np.unique(np.stack([topology.source, topology.target]), axis=1)
    stride = -(-pairs.shape[1] * topology.num_nodes // COMPARED_CELLS)
    for source, target in pairs[:, ::stride].T:
        yield hops[:, source] < hops[:, target]


def _worst_nodes(topology: Topology, traffic: Traffic) -> Iterator[BoolArray]:
    ranks = np.arange(topology.num_ranks)
    for inward, shares, bandwidth in (
        (False, traffic.leaving, topology.egress),
        (True, traffic.reverse.leaving, topology.ingress),
    ):
        node = int(np.argmax(shares / bandwidth.floats[ranks]))
        yield (np.arange(topology.num_nodes) == node) ^ inward


def partition_bounds(topology: Topology, traffic: Traffic) -> list[Bound]:
    """Return the bounds 2(k - 1) / capacity of the partitions that are tried, the largest first.

    ``maximum`` in the certificate says whether no partition gives more; this is known for one group of all
    ranks without switches. Empty if no item goes from all ranks of a group to all, or if a switch outside the
    parts can multicast or aggregate.
    """
    if not traffic.both.any():
        return []
    parted = (
        _of_partition(topology, traffic, parts, maximum=False) for parts in _partitions(topology, traffic)
    )
    found, weakest = [*chain.from_iterable(parted)], _weakest_parts(topology)
    if weakest:
        of_all = len(traffic.members) == 1 and len(traffic.rank) == traffic.num_ranks
        found += _of_partition(topology, traffic, weakest, of_all and not topology.num_switches)
    return sorted(found, key=lambda bound: (bound.value, bound.certificate["maximum"]), reverse=True)


def _weakest_parts(topology: Topology) -> Parts | None:
    """Return the parts of the network's strength that have ranks; None where it is too large to find.

    A part of switches that can do more than forward goes to the part of its first neighbour.
    """
    numerators = topology.bandwidth.numerators
    graph = undirected(
        topology.num_nodes, topology.source, topology.target, numerators // np.gcd.reduce(numerators)
    )
    if graph.num_nodes * len(graph.capacity) > MOST_WORK:
        return None
    try:
        part = strength(graph).part
    except InputError:  # capacities too far apart for 64 bits, or a switch that no link joins
        return None
    ranked = np.unique(part[: topology.num_ranks])
    if len(ranked) == 1:
        return None
    return [np.flatnonzero(part == number).tolist() for number in ranked]


def _partitions(topology: Topology, traffic: Traffic) -> Iterator[Parts]:
    """Yield partitions: each rank alone; hosts, and lines of groups, if they hold all ranks."""
    ranks = topology.num_ranks
    yield [[rank] for rank in range(ranks)]
    if topology.hosts is not None and (topology.hosts[:ranks] >= 0).all():
        hosts = topology.hosts
        yield [np.flatnonzero(hosts == host).tolist() for host in np.unique(hosts[:ranks])]
    for lines in traffic.lines:
        if len(lines) > 1 and sum(map(len, lines)) == ranks:
            yield [line.tolist() for line in lines]


def _part_of(topology: Topology, parts: Parts) -> Int64Array:
    """Return the part of each node, -1 for none."""
    part_of = np.full(topology.num_nodes, -1)
    for index, part in enumerate(parts):
        part_of[part] = index
    return part_of


def _spanned(traffic: Traffic, part_of: Int64Array) -> Int64Array:
    """Return the number of parts that have ranks of each group."""
    return np.array([len(np.unique(part_of[members])) for members in traffic.members])


def _of_partition(topology: Topology, traffic: Traffic, parts: Parts, maximum: bool) -> Iterator[Bound]:
    part_of = _part_of(topology, parts)
    counts = _spanned(traffic, part_of)
    if any(part_of[switch] < 0 for switch in topology.multicast | topology.aggregate):
        return
    once = np.zeros_like(traffic.both)
    np.add.at(once, traffic.group, traffic.spread + traffic.collect)
    pairs = traffic.pairs
    apart = pairs.share[part_of[pairs.start] != part_of[pairs.end]]
    transfers = int(((2 * traffic.both + once) * (counts - 1)).sum() + apart.sum())
    if not transfers:
        return
    between = part_of[topology.source] != part_of[topology.target]
    for direction, end in (("out", topology.source), ("in", topology.target)):
        used = between & (part_of[end] >= 0)
        total = sum(topology.bandwidth.numerators[used].tolist())
        if not total:
            continue
        capacity = Fraction(total, topology.bandwidth.denominator)
        certificate = {
            "parts": parts,
            "transfers": json_number(Fraction(transfers, traffic.denominator)),
            "direction": direction,
            "capacity": json_number(capacity),
            "maximum": maximum,
        }
        value = Fraction(transfers, traffic.denominator) / capacity
        yield Bound("partition", value, SECONDS_PER_BYTE, certificate)


def partition_latency_bound(
    topology: Topology, traffic: Traffic, partitions: Iterable[Bound], size: Fraction
) -> Bound | None:
    """Return the largest partition bound that also counts α; None if there is none, or if α is 0.

    Each byte needs several transfers between the parts. All but at most `SINGLE` of them wait for another
    transfer, or another one waits for them. Let α be the least of the links between parts, C their capacity,
    n the number of transfers that wait or are waited for, and m that of the others. Then
    M n / (T - 2α) + M m / (T - α) ≤ C. The result is None, too, if no allreduce spans several parts, because
    then no message has to pay that α. Parts with a large α between them may prove more than those that are
    best without α.

    Parameters
    ----------
    topology, traffic
        The problem.
    partitions
        The result of `partition_bounds`.
    size
        M, bytes.
    """
    found, shares = list[Bound](), [Fraction(int(both), traffic.denominator) for both in traffic.both]
    for partition in partitions:
        part_of = _part_of(topology, partition.certificate["parts"])
        between = part_of[topology.source] != part_of[topology.target]
        alpha = Fraction(int(topology.alpha.numerators[between].min()), topology.alpha.denominator)
        counts = (2 * (_spanned(traffic, part_of) - 1)).tolist()
        every = size * sum(share * count for share, count in zip(shares, counts, strict=True))
        single = size * sum(share * min(SINGLE, count) for share, count in zip(shares, counts, strict=True))
        if not alpha or not every:
            continue
        capacity = exact_number(str(partition.certificate["capacity"]))
        time = with_waits(every / capacity, single / capacity, alpha)
        certificate = {
            **{name: partition.certificate[name] for name in ("parts", "direction")},
            "size_bytes": json_number(size),
            "time": json_number(time),
        }
        found.append(Bound("partition_latency", time, SECONDS, certificate))
    return max(found, key=lambda bound: bound.value, default=None)


def with_waits(every: Fraction, single: Fraction, alpha: Fraction) -> Fraction:
    """Return a lower bound, in seconds, on the time of the transfers between parts.

    Parameters
    ----------
    every
        Seconds that the bytes of all transfers take, spread over all links between parts.
    single
        The part of `every` for the transfers that may neither wait nor be waited for (`SINGLE`).
    alpha
        The least α of a link between parts, seconds.
    """
    if every < (WAITING - 1) * alpha:
        return every + alpha
    # Slightly less than the T for which (every - single) / (T - 2α) + single / (T - α) is 1
    middle, both = every + 3 * alpha, every + single + 2 * alpha
    root = math.sqrt(middle**2 - 4 * alpha * both)
    return max(every + alpha, Fraction((float(middle) + root) / 2 * (1 - ROUNDED)))

r"""The partition bounds of allreduce: 2(k - 1) transfers a byte between k parts, and what messages add to it.

Other collectives beside an allreduce are counted with it, k - 1 transfers a byte.

``docs/proofs.md`` proves them. Among all partitions P of the ranks the bound 2(|P| - 1) / cap(P) is largest
where cap(P) / (|P| - 1) is least. On a network without switches that is the strength of the graph whose edges
have the capacities of both directions together, found exactly (`topologies.graphs.strength`).
With switches, or groups of the ranks, the best of a few partitions is taken: each rank alone, the hosts, and
the parts into which the strength of the whole network falls, switches included.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain

import numpy as np

from tutti.models.bounds.bound import SECONDS, SECONDS_PER_BYTE, Bound
from tutti.models.bounds.traffic import Traffic
from tutti.topologies.errors import InputError
from tutti.topologies.exact import Int64Array, json_number
from tutti.topologies.graphs.strength import strength, undirected
from tutti.topologies.topology import Topology
from tutti.topologies.units import exact_number

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


def partition_bounds(topology: Topology, traffic: Traffic) -> list[Bound]:
    """Return the bounds 2(k - 1) / capacity of the partitions that are tried, the largest first.

    ``maximum`` in the certificate says whether no partition gives more; this is known for one group of all
    ranks without switches. Empty if no item goes from all ranks of a group to all, or if a switch outside the
    parts can multicast or aggregate.
    """
    if not traffic.both.any():
        return []
    parted = (_bounds(topology, traffic, parts, maximum=False) for parts in _families(topology, traffic))
    found, weakest = [*chain.from_iterable(parted)], _weakest(topology)
    if weakest:
        of_all = len(traffic.members) == 1 and len(traffic.rank) == traffic.num_ranks
        found += _bounds(topology, traffic, weakest, of_all and not topology.num_switches)
    return sorted(found, key=lambda bound: (bound.value, bound.certificate["maximum"]), reverse=True)


def _weakest(topology: Topology) -> Parts | None:
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


def _families(topology: Topology, traffic: Traffic) -> Iterator[Parts]:
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


def _bounds(topology: Topology, traffic: Traffic, parts: Parts, maximum: bool) -> Iterator[Bound]:
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

"""The check of ``partition`` and ``partition_latency``: transfers between parts in an allreduce.

An allreduce needs 2(k - 1) transfers between k parts for each byte, and nearly all of them wait for another
or are waited for. Proof: ``docs/proofs.md``, *partition* and *partition_latency*.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction

from tutti.models.bounds.certificate import Certificate, items_of
from tutti.schedules.collective import Collective
from tutti.topologies.errors import InputError
from tutti.topologies.topology import Topology
from tutti.topologies.units import exact_number

_SINGLE, _WAITING = 4, 10
"""Largest number of single transfers of a byte, and from which T on, in units of α, the proof of
`partition_latency` may count so."""


def prove_partition(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``partition`` proves."""
    parts = [frozenset(part) for part in certificate["parts"]]
    _check_parts(parts, topology)
    shares: defaultdict[tuple[frozenset[int], bool], Fraction] = defaultdict(Fraction)
    for item in items_of(collective):
        shares[item.starts | item.ends, item.starts == item.ends and len(item.starts) > 1] += item.share
    if not any(twice for _, twice in shares):
        raise InputError(f"partition bound: it holds for allreduce, not for {collective}")
    transfers = Fraction(0)
    for (ranks, twice), share in shares.items():
        transfers += share * (1 + twice) * (sum(not part.isdisjoint(ranks) for part in parts) - 1)
    part_of = {node: index for index, part in enumerate(parts) for node in part}
    capacity = Fraction(0)
    for source, target, bandwidth in zip(
        topology.source.tolist(), topology.target.tolist(), topology.bandwidth, strict=True
    ):
        end = source if certificate["direction"] == "out" else target
        if end in part_of and part_of.get(source) != part_of.get(target):
            capacity += bandwidth
    return transfers / capacity


def prove_partition_latency(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``partition_latency`` proves."""
    size, time = (exact_number(str(certificate[name])) for name in ("size_bytes", "time"))
    parts = [frozenset(part) for part in certificate["parts"]]
    _check_parts(parts, topology)
    part_of = {node: index for index, part in enumerate(parts) for node in part}
    single = every = Fraction(0)
    for item in items_of(collective):
        if item.starts == item.ends and len(item.starts) > 1:
            count = 2 * (sum(not part.isdisjoint(item.starts) for part in parts) - 1)
            every += size * item.share * count
            single += size * item.share * min(_SINGLE, count)
    capacity, alphas = Fraction(0), set[Fraction]()
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    for (tail, head), bandwidth, alpha in zip(ends, topology.bandwidth, topology.alpha, strict=True):
        if part_of.get(tail) != part_of.get(head):
            alphas.add(alpha)
            if (tail if certificate["direction"] == "out" else head) in part_of:
                capacity += bandwidth
    alpha = min(alphas)
    plain = every / capacity + alpha
    if not every or not alpha or size <= 0:
        raise InputError(
            f"partition_latency bound: it holds for allreduce and where messages cost, not for {collective}"
        )
    if time > plain:
        if plain < _WAITING * alpha:
            raise InputError(f"partition_latency bound: all transfers may end before {_WAITING} α")
        if (every - single) / (time - 2 * alpha) + single / (time - alpha) < capacity:
            raise InputError("partition_latency bound: the transfers do not take so long")
    return time


def _check_parts(parts: Iterable[frozenset[int]], topology: Topology) -> None:
    nodes = [node for part in parts for node in part]
    left = set(range(topology.num_nodes)) - set(nodes)
    able = (topology.multicast | topology.aggregate) & left
    if len(nodes) != len(set(nodes)) or any(node < topology.num_ranks for node in left) or able:
        raise InputError("partition bound: parts must be disjoint and hold all ranks and all able switches")

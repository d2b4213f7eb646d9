"""The check of ``lp``: weighted cuts that an allreduce over trees must cross, over what links offer.

The dual of linear program (B.5). Proof: ``docs/proofs.md``, *lp*.
"""

from __future__ import annotations

from fractions import Fraction

from tutti.models.bounds.certificate import Certificate, dijkstra, items_of
from tutti.models.bounds.check_partition import prove_partition
from tutti.schedules.collective import Collective
from tutti.topologies.errors import InputError
from tutti.topologies.topology import Topology


def prove_lp(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``lp`` proves."""
    everyone = frozenset(range(topology.num_ranks))
    if any(item.starts != everyone or item.ends != everyone for item in items_of(collective)):
        raise InputError(f"lp bound: it is for an allreduce of all ranks, not for {collective}")
    lengths: list[int] = certificate["lengths"]
    sides = [(cut["direction"], cut["weight"], frozenset(cut["ranks"])) for cut in certificate["cuts"]]
    numbers = [*lengths, *(weight for _, weight, _ in sides)]
    if len(lengths) != topology.num_links or any(not isinstance(n, int) or n < 0 for n in numbers):
        raise InputError("lp bound: lengths, one a link, and weights must be whole numbers, none negative")
    if any(not side < everyone for _, _, side in sides):
        raise InputError("lp bound: each cut must hold some of the ranks, but not all")
    for rank in everyone:
        distance = dijkstra(topology, rank, lengths=lengths)[0]
        for other in everyone - {rank}:
            out = sum(w for way, w, side in sides if way == "out" and rank in side and other not in side)
            into = sum(w for way, w, side in sides if way == "in" and other in side and rank not in side)
            if max(out, into) > distance[other]:
                raise InputError(f"lp bound: cuts between {rank} and {other} weigh more than the distance")
    least = min(sum(weight for _, weight, side in sides if rank in side) for rank in everyone)
    value = least / sum(b * length for b, length in zip(topology.bandwidth, lengths, strict=True))
    anyone = certificate["scope"] == "any schedule"
    if anyone and prove_partition(certificate["partition"], topology, collective) < value:
        raise InputError("lp bound: the partition does not prove it for any schedule")
    return value

"""The check of ``first_hop``: a link brings what its sender has itself, or pays α twice.

Proof: ``docs/proofs.md``, *first_hop*.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from tutti.models.bounds.certificate import Certificate, items_of
from tutti.schedules.collective import Collective
from tutti.topologies.errors import InputError
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose
from tutti.topologies.units import exact_number


def prove_first_hop(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``first_hop`` proves."""
    node, outward = certificate["node"], certificate["direction"] == "out"
    size, time = (exact_number(str(certificate[name])) for name in ("size_bytes", "time"))
    starts: defaultdict[int, Fraction] = defaultdict(Fraction)
    for item in items_of(collective):
        sides = (item.ends, item.starts) if outward else (item.starts, item.ends)
        if len(sides[0]) == 1 and node in sides[1] - sides[0]:
            starts[next(iter(sides[0]))] += size * item.share
    ways = transpose(topology) if outward else topology
    links = list(zip(ways.source.tolist(), ways.target.tolist(), ways.bandwidth, ways.alpha, strict=True))
    brought, rises = Fraction(0), False
    for tail, head, bandwidth, alpha in links:
        if head == node:
            first, own = bandwidth * (time - alpha), starts[tail]
            before = min((least for _, other, _, least in links if other == tail), default=alpha)
            most = max(min(own, first), first - bandwidth * min(alpha, before), Fraction(0))
            brought += most
            rises |= most > (own if first > own else 0)  # just before `time` the link may bring less
    needed = sum(starts.values(), Fraction(0))
    if brought > needed or (brought == needed and not rises):
        raise InputError(f"first_hop bound: rank {node} may have all before {time} s, or needs nothing")
    return time

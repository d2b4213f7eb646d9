"""The check of any certificate: what it proves is recomputed from the network and the items alone.

Each kind of bound has a module ``check_*`` beside its finder, which shares no code with it. The page
``docs/proofs.md`` states what each kind claims and proves it.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from tutti.models.bounds.certificate import Certificate, strengthened
from tutti.models.bounds.check_bandwidth import prove_cut
from tutti.models.bounds.check_broadcast_growth import prove_broadcast_growth
from tutti.models.bounds.check_cut_gossip import prove_cut_gossip
from tutti.models.bounds.check_first_hop import prove_first_hop
from tutti.models.bounds.check_latency import prove_combined, prove_distance
from tutti.models.bounds.check_lp import prove_lp
from tutti.models.bounds.check_mcf import prove_mcf
from tutti.models.bounds.check_message_count import prove_message_count
from tutti.models.bounds.check_multicast_price import prove_multicast_price
from tutti.models.bounds.check_partition import prove_partition, prove_partition_latency
from tutti.models.bounds.check_path_price import prove_path_price
from tutti.models.bounds.check_unicast_price import prove_unicast_price
from tutti.schedules.collective import Collective
from tutti.topologies.errors import InputError
from tutti.topologies.topology import Topology

Proof = Callable[[Certificate, Topology, Collective], Fraction]
"""Recomputes a bound from its certificate, the network and the collective alone."""


PROOFS: dict[str, Proof] = {
    "cut": prove_cut,
    "degree": prove_cut,
    "partition": prove_partition,
    "partition_latency": prove_partition_latency,
    "first_hop": prove_first_hop,
    "mcf": prove_mcf,
    "lp": prove_lp,
    "distance": prove_distance,
    "combined": prove_combined,
    "broadcast_growth": prove_broadcast_growth,
    "cut_gossip": prove_cut_gossip,
    "message_count": prove_message_count,
    "unicast_price": prove_unicast_price,
    "multicast_price": prove_multicast_price,
    "path_price": prove_path_price,
}
"""The proof of each kind of bound; `models.bounds.report.add_kind` adds those of plug-ins."""


REMOVED = {"chains": "0.2"}
"""Kinds of bounds that were removed, and the first version without each."""

OLD_NAMES = {
    "crossings": "cut_gossip",
    "deliveries": "multicast_price",
    "growth": "broadcast_growth",
    "itineraries": "path_price",
    "messages": "message_count",
    "neighbours": "first_hop",
    "relays": "unicast_price",
    "transfers": "partition_latency",
}
"""Names that kinds have in certificates from before version 0.2, and their names today."""


def current_kind(kind: str) -> str:
    """Return today's name of a kind of bounds, unless a plug-in's kind has the old name."""
    return kind if kind in PROOFS else OLD_NAMES.get(kind, kind)


def proven(kind: str, certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return what the certificate proves: s per byte of M, or s where the kind's bound has α's.

    Raises
    ------
    InputError
        If there is no such kind, or the certificate does not fit this problem.
    """
    kind = current_kind(kind)
    if kind not in PROOFS and kind in REMOVED:
        raise InputError(f"{kind} bound: no longer checked, since version {REMOVED[kind]}")
    if kind not in PROOFS:
        raise InputError(f"unknown kind of bound '{kind}'; allowed: {', '.join(PROOFS)}")
    # "able" lists switches that the finder let multicast and add: that only weakens a bound.
    return PROOFS[kind](certificate, strengthened(topology, certificate.get("able", ())), collective)

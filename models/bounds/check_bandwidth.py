"""The check of ``cut`` and ``degree``: T ≥ M · (shares out of a set of nodes) / (its bandwidth out).

A rank alone, or everything but it, is the set of a ``degree`` certificate. Proof: ``docs/proofs.md``, *cut*.
"""

from __future__ import annotations

from fractions import Fraction

from tutti.models.bounds.certificate import Certificate, bandwidth_out, inside_of, share_out
from tutti.schedules.collective import Collective
from tutti.topologies.topology import Topology


def prove_cut(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``cut`` or ``degree`` proves."""
    inside = inside_of(certificate, topology)
    share = share_out(collective, inside)
    return share / bandwidth_out(topology, inside) if share else Fraction(0)

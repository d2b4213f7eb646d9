"""The check of ``mcf``: T ≥ M · Σ share · distance / Σ length · bandwidth, for any lengths of links.

Only where each item goes from one rank to one rank: the dual of linear program (A.1).
Proof: ``docs/proofs.md``, *mcf*.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from tutti.models.bounds.certificate import Certificate, check_one_to_one
from tutti.schedules.collective import Collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT64_MAX, IntArray
from tutti.topologies.topology import Topology

_STARTS_AT_ONCE = 64
"""Number of rows of distances held at a time."""


def prove_mcf(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``mcf`` proves."""
    lengths: list[int] = certificate["lengths"]
    whole = all(isinstance(length, int) and length >= 0 for length in lengths)
    if len(lengths) != topology.num_links or not whole or not any(lengths):
        raise InputError("mcf bound: lengths must be whole numbers, one a link, not negative, nor all 0")
    check_one_to_one("mcf", collective)
    items, moved = collective.items, 0
    for starts in np.array_split(np.unique(items.start), -(-topology.num_ranks // _STARTS_AT_ONCE)):
        rows = np.flatnonzero(np.isin(items.start, starts))
        relaxed = _relaxed(topology, lengths, starts)
        distance = relaxed[np.searchsorted(starts, items.start[rows]), items.end[rows]]
        for share in np.unique(items.share.numerators[rows]).tolist():
            alike = distance[items.share.numerators[rows] == share]
            small = len(alike) * sum(lengths) < INT64_MAX
            moved += share * (int(alike.sum()) if small else sum(alike.tolist()))
    offered = sum(b * length for b, length in zip(topology.bandwidth, lengths, strict=True))
    return Fraction(moved, items.share.denominator) / offered


def _relaxed(topology: Topology, lengths: Sequence[int], starts: IntArray) -> npt.NDArray[Any]:
    """Return numbers d (starts, nodes), 0 at its start, with d(v) ≤ d(u) + l for every link (u, v).

    So d(v) is at most the length of any path to v, added up along it: that is all the bound needs.
    """
    fits = sum(lengths) < INT64_MAX // 4
    order = np.argsort(topology.target, kind="stable")
    heads, first = np.unique(topology.target[order], return_index=True)
    tails, ways = topology.source[order], np.array(lengths, dtype=np.int64 if fits else object)[order, None]
    d = np.full((topology.num_nodes, len(starts)), sum(lengths) + 1, dtype=ways.dtype)
    d[starts, np.arange(len(starts))] = 0
    while True:
        known, through = d[heads], np.minimum.reduceat(d[tails] + ways, first)
        if (known <= through).all():
            return d.T
        d[heads] = np.minimum(known, through)

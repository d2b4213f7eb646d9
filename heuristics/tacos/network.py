"""A topology as the kernel reads it: what each link costs for a chunk, in integer ticks."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from heuristics.tacos.state import Network
from topologies.exact import Int64Array, common_divisor
from topologies.topology import Topology

MAX_HORIZON = 2**62
"""No schedule may last more ticks, so that adding a duration never overflows 64 bits."""

RESOLUTION = 2**30
"""Ticks in the shortest transfer where the exact tick is too short: rounding adds less than 1e-9 of it."""


def time_expanded(topology: Topology, chunk_bytes: Fraction, transfers: int) -> tuple[Network, Fraction]:
    """Return the network with its link costs α + β·n (section IV-F), and the tick in seconds.

    Parameters
    ----------
    topology
        Without switches.
    chunk_bytes
        n, exact.
    transfers
        How many the schedule will have: it can't last longer than all of them one after the other.
    """
    links = np.stack([topology.alpha.numerators, topology.bandwidth.numerators])
    _, example, kind = np.unique(links, axis=1, return_index=True, return_inverse=True)
    seconds = [topology.alpha[link] + chunk_bytes / topology.bandwidth[link] for link in example]
    tick = common_divisor(seconds)
    if max(seconds) / tick * transfers > MAX_HORIZON:
        tick = max(min(seconds) / RESOLUTION, max(seconds) * transfers / MAX_HORIZON)
    of_example = np.array([math.ceil(value / tick) for value in seconds], dtype=np.int64)
    duration, cost = np.unique(of_example[kind.ravel()], return_inverse=True)
    return (
        Network(
            topology.source.astype(np.int64),
            topology.target.astype(np.int64),
            *_incidence(topology.out_links),
            *_incidence(topology.in_links),
            cost.astype(np.int64),
            duration,
        ),
        tick,
    )


def _incidence(csr: tuple[np.ndarray, np.ndarray]) -> tuple[Int64Array, Int64Array]:
    return csr[0].astype(np.int64), csr[1].astype(np.int64)

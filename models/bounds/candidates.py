"""Cuts that are likely to be tight where no max-flow finds the worst one: all-to-all, several groups."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from models.bounds.traffic import Traffic
from topologies.distances import hop_distances
from topologies.exact import BoolArray
from topologies.topology import Topology

KEPT = 64
"""Cuts that are evaluated exactly, after a rating by ranks and bandwidth."""

KEPT_OF_MANY = 8
RATED_PAIRS = 4 * 10**6
"""Pairs of ranks times cuts that are evaluated at most, unless fewer than `KEPT_OF_MANY` cuts were left."""

COMPARED_CELLS = 4 * 10**7
"""Links times nodes that are compared at most (a byte each)."""


def candidate_cuts(topology: Topology, traffic: Traffic) -> list[BoolArray]:
    """Return masks over nodes, the same ones at every call.

    They are: each host and all but it; the ranks nearer to one end of a link than to the other, and all but
    those (on a torus or hypercube these halve it); the ranks that bound by degree. Of all but the last, the
    `KEPT` best by the product of the ranks inside and outside over the bandwidth out, which is exact for
    equal all-to-all.
    """
    families = [*_hosts(topology), *_link_sides(topology)]
    masks = np.unique(np.packbits(np.array([*families, *(~mask for mask in families)]), axis=1), axis=0)
    cuts = np.unpackbits(masks, axis=1, count=topology.num_nodes).astype(bool)
    inside = cuts[:, : topology.num_ranks].sum(axis=1, dtype=np.float64)
    product = inside * (topology.num_ranks - inside)
    cuts, product = cuts[product > 0], product[product > 0]
    kept = min(max(RATED_PAIRS // max(len(traffic.pairs.start), 1), KEPT_OF_MANY), KEPT)
    best = np.argsort(-product / _exits(topology, cuts), kind="stable")[:kept]
    return [*_worst_nodes(topology, traffic), *cuts[best]]


def _hosts(topology: Topology) -> Iterator[BoolArray]:
    hosts = topology.hosts if topology.hosts is not None else np.full(topology.num_nodes, -1)
    for host in np.unique(hosts[hosts >= 0]):
        yield hosts == host


def _link_sides(topology: Topology) -> Iterator[BoolArray]:
    """Yield for links the nodes that are nearer to its source than to its target."""
    hops = hop_distances(topology).astype(np.float64)
    hops[hops < 0] = np.inf
    pairs = np.unique(np.stack([topology.source, topology.target]), axis=1)
    stride = -(-pairs.shape[1] * topology.num_nodes // COMPARED_CELLS)
    for source, target in pairs[:, ::stride].T:
        yield hops[:, source] < hops[:, target]


def _exits(topology: Topology, cuts: BoolArray) -> np.ndarray:
    bandwidth = topology.bandwidth.floats
    return np.array([bandwidth[cut[topology.source] & ~cut[topology.target]].sum() for cut in cuts])


def _worst_nodes(topology: Topology, traffic: Traffic) -> Iterator[BoolArray]:
    ranks = np.arange(topology.num_ranks)
    for inward, shares, bandwidth in (
        (False, traffic.leaving, topology.egress),
        (True, traffic.reverse.leaving, topology.ingress),
    ):
        node = int(np.argmax(shares / bandwidth.floats[ranks]))
        yield (np.arange(topology.num_nodes) == node) ^ inward

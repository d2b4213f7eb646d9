"""Exact BFB costs of a vertex-transitive network, from the subproblems of one node.

All nodes are alike, so U_{u,t} is the same at all of them and

    T_B = (d / N) · sum over t of U_{0,t}                                                   (3.2)

in M/B: d + 1 breadth-first searches instead of N. Whether the network is vertex-transitive is for the caller
to know (`topologies.automorphisms` finds it out).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from models.bfb.counting import solve_patterns
from models.bfb.frontiers import Patterns
from topologies.distances import hop_distances
from topologies.errors import InputError
from topologies.exact import Int64Array, offsets_of
from topologies.topology import Topology
from topologies.transforms import transpose

MOST_LINKS = 62
"""In-links that a mask holds."""


def transitive_cost(topology: Topology) -> tuple[int, Fraction]:
    """Return (T_L in steps, T_B in M/B) of the optimal BFB allgather of a vertex-transitive network.

    Raises
    ------
    InputError
        If the network has no degree, or too large a one.

    Examples
    --------
    >>> from topologies.text import parse_topology
    >>> transitive_cost(parse_topology("torus:4x4"))
    (4, Fraction(15, 16))
    """
    values = transitive_workloads(topology)
    degree = topology.degree
    if degree is None:
        raise InputError(f"{topology.name} is not regular, so not vertex-transitive")
    return len(values), Fraction(degree, topology.num_ranks) * sum(values, Fraction(0))


def transitive_workloads(topology: Topology) -> tuple[Fraction, ...]:
    """Return U_{0,t} for every step t, in shards a link.

    Raises
    ------
    InputError
        If node 0 has too many in-links.
    """
    links = topology.in_links[1][: topology.in_degrees[0]]
    if len(links) > MOST_LINKS:
        raise InputError(f"{topology.name} has {len(links)} in-links a node; at most {MOST_LINKS}")
    neighbours = topology.source[links].astype(np.int64)
    hops = hop_distances(transpose(topology), np.concatenate([[0], neighbours]))
    eligible = (hops[1:] + 1 == hops[0]).T @ (1 << np.arange(len(links), dtype=np.int64))
    return solve_patterns(_patterns(hops[0, 1:].astype(np.int64), eligible[1:], len(links)))


def _patterns(hops: Int64Array, eligible: Int64Array, num_links: int) -> Patterns:
    """Return a pattern for each step, with the classes of the sources at that distance."""
    keys, sizes = np.unique(np.stack([hops, eligible]), axis=1, return_counts=True)
    steps = int(hops.max())
    bits = (keys[1][:, None] >> np.arange(num_links)) & 1
    return Patterns(
        of_job=np.arange(steps, dtype=np.int32),
        offsets=np.searchsorted(keys[0], np.arange(1, steps + 2)).astype(np.int64),
        size=sizes.astype(np.int64),
        starts=offsets_of(bits.sum(axis=1)),
        link=np.nonzero(bits)[1].astype(np.int32),
        num_links=num_links,
    )

"""Random regular networks, as in Xpander and Jellyfish: bidirectional, simple and connected.

Source: Valadarsky et al., Xpander: towards optimal-performance datacenters (CoNEXT 2016), the dissertation's
[143]: lifts of the complete network; Cooper, Dyer and Greenhill, Sampling regular graphs (2007), for the
switches that mix a regular graph.
"""

from __future__ import annotations

import numpy as np

from tutti.topologies.assembly import Values, at_least, check_size
from tutti.topologies.components import components
from tutti.topologies.errors import InputError
from tutti.topologies.exact import Int64Array
from tutti.topologies.families.algebraic import undirected
from tutti.topologies.topology import Topology

_ROUNDS = 10
"""Number of switches tried for each edge. A larger value mixes the graph more."""


def random_regular(
    degree: int, ranks: int, seed: int = 0, *, bandwidth: Values = None, alpha: Values = None
) -> Topology:
    """Return a random d-regular network: a circulant network whose edges exchanged ends many times.

    Two edges ab and cd chosen at random become ad and cb if that makes no self-loop and no parallel edge,
    10 times for each edge, and again until the network is connected. Links are numbered by source, then by
    target.

    Parameters
    ----------
    degree
        d, at least 3.
    ranks
        n, above d; n·d is even.
    seed
        The same seed gives the same network.
    bandwidth, alpha
        One for all links.

    Raises
    ------
    InputError
        If `degree` is less than 3, `ranks` is not above it, or both are odd.
    """
    name = f"random_regular:{degree},{ranks},{seed}"
    at_least(name, 3, degree=degree)
    if ranks <= degree or ranks * degree % 2:
        raise InputError(f"topology {name}: {ranks} ranks; more than the degree, and one of the two even")
    check_size(name, ranks, degree * ranks)
    rng = np.random.default_rng(seed)
    rank = np.arange(ranks)
    rows = [np.stack([rank, (rank + step) % ranks], axis=1) for step in range(1, degree // 2 + 1)]
    if degree % 2:
        half = rank[: ranks // 2]
        rows.append(np.stack([half, half + ranks // 2], axis=1))
    edges = np.concatenate(rows)
    switched = _switched(edges, rng)
    while not _connected(switched, ranks):
        switched = _switched(switched, rng)
    return undirected(name, ranks, switched, bandwidth, alpha)


def xpander(
    degree: int, copies: int, seed: int = 0, *, bandwidth: Values = None, alpha: Values = None
) -> Topology:
    """Return Xpander's random lift of K_{d+1}: k copies of each of its nodes, k (d + 1) ranks.

    For every edge ij of K_{d+1} a random permutation p joins copy u of i (rank i·k + u) and copy p(u) of j;
    they are drawn again until the network is connected. Links are numbered by source, then by target.

    Parameters
    ----------
    degree
        d, at least 3.
    copies
        k, at least 1.
    seed
        The same seed gives the same network.
    bandwidth, alpha
        One for all links.

    Raises
    ------
    InputError
        If `degree` is less than 3 or `copies` is less than 1.
    """
    name = f"xpander:{degree},{copies},{seed}"
    at_least(name, 3, degree=degree)
    at_least(name, 1, copies=copies)
    ranks = (degree + 1) * copies
    check_size(name, ranks, degree * ranks)
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(degree + 1, 1)
    edges = _lifted(i, j, copies, rng)
    while not _connected(edges, ranks):
        edges = _lifted(i, j, copies, rng)
    return undirected(name, ranks, edges, bandwidth, alpha)


def _lifted(i: Int64Array, j: Int64Array, copies: int, rng: np.random.Generator) -> Int64Array:
    partner = np.stack([rng.permutation(copies) for _ in i])
    tail = i[:, None] * copies + np.arange(copies)
    return np.stack([tail.reshape(-1), (j[:, None] * copies + partner).reshape(-1)], axis=1)


def _switched(edges: Int64Array, rng: np.random.Generator) -> Int64Array:
    """Return the edges after random switches, each of which keeps every degree and the graph simple."""
    ends = edges.tolist()
    present = {frozenset(edge) for edge in ends}
    first, second = rng.integers(len(ends), size=(2, _ROUNDS * len(ends))).tolist()
    turned = rng.integers(2, size=len(first)).tolist()
    for one, other, turn in zip(first, second, turned, strict=True):
        (a, b), (c, d) = ends[one], ends[other][:: -1 if turn else 1]
        new = frozenset((a, d)), frozenset((c, b))
        if one == other or a == d or b == c or new[0] in present or new[1] in present:
            continue
        present -= {frozenset(ends[one]), frozenset(ends[other])}
        present |= set(new)
        ends[one], ends[other] = [a, d], [c, b]
    return np.array(ends)


def _connected(edges: Int64Array, ranks: int) -> bool:
    return components(ranks, edges[:, 0], edges[:, 1])[0] == 1

r"""Capacities in trees: how many out-trees each link can carry at the optimum (dissertation B.5.1).

A forest meets the bottleneck cut's 1/x* under two conditions. Root r has k·w_r trees, where the weights w are
integers without a common divisor (all 1 in an allgather). No link of bandwidth b is in more than U·b of them,
where U = k/x*. So U·b must be an integer for every link, and U·x*·w_r for every root: the smallest such U is
one over the greatest common divisor of these rationals. With weights 1 and 1/x* = p/q this is the
proposition's U = p / gcd(q, {b_e}) and k = U·x*.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import INT64_MAX, Int32Array, Int64Array, Rationals, common_divisor, frozen
from tutti.topologies.graphs.max_flow import DinicNetwork, fed_network
from tutti.topologies.topology import Topology

MOST_TREES = 10**6
"""Most trees that a root may have. A schedule cuts the root's shard into as many chunks."""

_MOST_CAPACITY = INT64_MAX >> 3
"""Largest sum of all capacities and demands. The max-flows of the packing need the spare bits."""


def tree_capacities(
    topology: Topology, ratio: Fraction, weights: Iterable[Fraction | int] | None = None
) -> tuple[int, Int64Array]:
    """Return the smallest k, and U·b of every link, of a forest that meets a ratio exactly.

    Parameters
    ----------
    topology
        The network.
    ratio
        1/x* in s/B, from `models.bounds.bottleneck_cut.bottleneck_cut` for the same weights.
    weights
        Not negative, one per rank; by default all 1. `trees_by_root` says what k means with weights.

    Returns
    -------
    tuple
        k, and the capacities in trees: int64, shape (links,).

    Raises
    ------
    InputError
        If the ratio or the weights are wrong.
    NoSchedule
        If a root would need more than `MOST_TREES` trees, or capacities in trees do not fit 64 bits.

    Examples
    --------
    >>> from tutti.topologies.families.machines import mi250
    >>> k, capacity = tree_capacities(mi250(2), Fraction(15, 166) / 10**9)
    >>> k, sorted(set(capacity.tolist()))
    (83, [120, 375])
    """
    shares = _whole(topology.num_ranks, weights)
    if ratio <= 0:
        raise InputError(f"trees of {topology.name}: the ratio 1/x* is {ratio}; it must be positive")
    unit = Fraction(int(np.gcd.reduce(shares.numerators)), shares.denominator)
    rate = unit / ratio  # B/s of one tree if k = 1
    common = int(np.gcd.reduce(topology.bandwidth.numerators))
    whole = Fraction(common, topology.bandwidth.denominator)
    tree = common_divisor([whole, rate])  # 1/U
    k = int(rate / tree)
    most = k * max(shares.numerators.tolist()) // int(np.gcd.reduce(shares.numerators))
    if most > MOST_TREES:
        remedy = "fix the number of trees (--option trees=4) or give bandwidths a larger common divisor"
        if most // k > MOST_TREES:  # weights alone cause it, even at k = 1
            remedy = "give shards a larger common divisor"
        raise NoSchedule(
            f"trees of {topology.name}: the optimum needs {most} trees at a root, at most {MOST_TREES} are "
            f"allowed; {remedy}"
        )
    steps = (topology.bandwidth.numerators // common).tolist()
    capacity = [step * int(whole / tree) for step in steps]
    if sum(capacity) + topology.num_ranks * most > _MOST_CAPACITY:
        raise NoSchedule(
            f"trees of {topology.name}: capacities in trees add up to {sum(capacity)}, which does not fit "
            f"64 bits (at most {_MOST_CAPACITY}); fix the number of trees (--option trees=4)"
        )
    return k, frozen(capacity, np.int64)


def trees_by_root(num_ranks: int, k: int, weights: Iterable[Fraction | int] | None = None) -> Int64Array:
    """Return each root's number of trees: k times its weight over the weights' greatest common divisor.

    Raises
    ------
    InputError
        If k is below 1, or if the weights are negative, all zero or not one per rank.

    Examples
    --------
    >>> trees_by_root(3, 2, [Fraction(1, 2), 0, Fraction(3, 4)]).tolist()
    [4, 0, 6]
    """
    if k < 1:
        raise InputError(f"trees: {k} trees a root; at least 1")
    shares = _whole(num_ranks, weights)
    return frozen(shares.numerators // int(np.gcd.reduce(shares.numerators)) * k, np.int64)


def sustains(
    num_nodes: int, tails: Int32Array, heads: Int32Array, capacity: Int64Array, trees: Int64Array
) -> bool:
    """Return whether every rank can be sent a unit from each tree: Theorem 25's condition.

    It is necessary for out-trees within the capacities. It is sufficient if there are no switches (Theorem
    30), or if switches are balanced (`topologies.trees.switch_removal`). Sinks that passed join the sources,
    as in `models.bounds.bottleneck_cut`.

    Parameters
    ----------
    num_nodes
        Ranks 0..len(trees)-1, then switches.
    tails, heads, capacity
        The arcs, shape (arcs,).
    trees
        The number of trees of each root, shape (ranks,).
    """
    network = fed_network(num_nodes, tails, heads, trees, DinicNetwork)
    network.set_capacities(np.arange(len(tails)), capacity)
    network.absorb(num_nodes)
    total = int(trees.sum())
    for sink in range(len(trees)):
        if network.grow(sink, total) < total:
            return False
        network.absorb(sink)
    return True


def _whole(num_ranks: int, weights: Iterable[Fraction | int] | None) -> Rationals:
    """Return the weights, checked."""
    given = Rationals.of([1] * num_ranks if weights is None else weights)
    if len(given) != num_ranks or (given.numerators < 0).any() or not given.numerators.any():
        raise InputError(f"trees: give {num_ranks} weights, one a rank, none negative and not all zero")
    return given

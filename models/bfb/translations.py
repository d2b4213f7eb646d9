"""Exact BFB costs where all nodes are equivalent, from those of one node.

On a vertex-transitive network U_{u,t} is the same at all nodes u, and

    T_B = (d / N) · sum over t of U_{0,t}                                                   (3.2)

in M/B: d + 1 breadth-first searches instead of N (`transitive_cost`). Whether a network is vertex-transitive
is for the caller to know (`topologies.graphs.symmetry` finds it out); where the nodes are the elements of an
abelian group, its translations prove it, and one search gives the cost (`balance`):

Let step i lead from node x to moves[i, x]. If every step is a permutation of the nodes and any two of them
commute, each is an automorphism, which takes links of step i to links of step i, as moves[j, moves[i, x]] =
moves[i, moves[j, x]]. From node 0 the steps reach all nodes of a connected network, so it is
vertex-transitive: the steps themselves are the generators that prove it. Circulants, tori, twisted tori and
hypercubes are such networks.

The nodes x at distance t from 0 have the last steps {i : d(0, x less step i) = t - 1}. As steps commute, a
source at distance t of any node has such a set for its eligible in-links. So the subproblem of step t is the
same at all nodes: it has a source for each node at distance t from 0, with these links. By Theorem 19 it is
balanced if and only if, for every set S of steps,

    d · (nodes at distance t whose last steps all lie in S) <= |S| · (nodes at distance t).

The BFB schedule is BW-optimal if and only if this holds at every t. Source: dissertation, A.5.1 and A.6.4.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.models.bfb.counting import densest, solve_patterns
from tutti.models.bfb.frontiers import Patterns
from tutti.topologies.errors import InputError
from tutti.topologies.exact import Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose


class Balance(NamedTuple):
    """The result of a search from node 0.

    Parameters
    ----------
    reached
        The number of nodes reached: N if the network is connected.
    steps
        The diameter, T_L.
    optimal
        Whether every step is balanced, so T_B = (N - 1)/N.
    """

    reached: int
    steps: int
    optimal: bool


def balance(moves: Int32Array) -> Balance:
    """Search from node 0, having checked that the steps are commuting permutations.

    Parameters
    ----------
    moves
        int32, shape (degree, nodes).

    Raises
    ------
    InputError
        If they are not, or are too many.

    Examples
    --------
    >>> balance(torus_moves([4, 4]))
    Balance(reached=16, steps=4, optimal=True)
    """
    if len(moves) > (most := 16):  # a table of all sets of them is kept
        raise InputError(f"{len(moves)} steps a node; at most {most}")
    if not commute(moves):
        raise InputError("the steps are no commuting permutations, so the nodes need not be equivalent")
    reached, steps, optimal = _search(moves)
    return Balance(int(reached), int(steps), bool(optimal))


@kernel
def commute(moves: Int32Array) -> bool:
    """Whether all rows are permutations, and any two of them commute."""
    degree, nodes = moves.shape
    hit = np.full(nodes, -1, np.int32)
    for i in range(degree):
        for x in range(nodes):
            hit[moves[i, x]] = i
        if (hit != i).any():
            return False
        for j in range(i):
            for x in range(nodes):
                if moves[i, moves[j, x]] != moves[j, moves[i, x]]:
                    return False
    return True


@kernel
def circulant_moves(nodes: int, offsets: Int64Array) -> Int32Array:
    """Return the steps +a and -a of a circulant network, for each of its offsets."""
    moves = np.empty((2 * len(offsets), nodes), np.int32)
    for i in range(len(offsets)):
        for x in range(nodes):
            up, down = x + offsets[i], x - offsets[i]
            moves[2 * i, x] = up if up < nodes else up - nodes
            moves[2 * i + 1, x] = down if down >= 0 else down + nodes
    return moves


def torus_moves(lengths: Sequence[int], twist: int | None = None) -> Int32Array:
    """Return the steps up and down each dimension of `topologies.families.direct.twisted_torus`.

    Parameters
    ----------
    lengths
        At least 3 each.
    twist
        Twist of two dimensions; None: that of lengths n and 2n.
    """
    sizes = np.array(lengths)
    shifts = np.zeros((len(sizes), len(sizes)), dtype=np.int64)
    if twist is None:
        short = sizes == sizes.min()
        shifts[np.ix_(short, ~short)] = sizes.min()
    else:
        shifts[0, 1] = twist
    strides = np.concatenate([np.cumprod(sizes[:0:-1])[::-1], [1]])
    place = np.indices(lengths).reshape(len(sizes), -1)
    moves = []
    for dimension, sign in itertools.product(range(len(sizes)), (1, -1)):
        moved = place.copy()
        moved[dimension] += sign
        wraps = (moved[dimension] < 0) | (moved[dimension] >= sizes[dimension])
        moved += sign * shifts[dimension][:, None] * wraps
        moves.append(strides @ (moved % sizes[:, None]))
    return np.array(moves, dtype=np.int32)


@kernel
def _search(moves: Int32Array) -> tuple[int, int, bool]:
    """Return nodes reached, levels, and whether all of these are balanced.

    Invariant: queue[first:last] is the level before; for each node found since, `mask` has the last steps.
    """
    degree, nodes = moves.shape
    level = np.full(nodes, -1, np.int32)
    mask = np.zeros(nodes, np.int32)
    queue = np.empty(nodes, np.int32)
    inside = np.empty(1 << degree, np.int64)
    level[0], queue[0] = 0, 0
    first, last, steps, optimal = 0, 1, 0, True
    while first < last:
        found = last
        for position in range(first, last):
            for i in range(degree):
                x = moves[i, queue[position]]
                if level[x] < 0:
                    level[x], queue[found] = steps + 1, x
                    found += 1
                # A node of the new level notes every move that leads to it from the level before.
                if level[x] == steps + 1:
                    mask[x] |= 1 << i
        first, last = last, found
        if first < last:
            steps += 1
            optimal &= _balanced(mask, queue[first:last], inside, degree)
    return last, steps, optimal


@kernel
def _balanced(mask: Int32Array, nodes: Int32Array, inside: Int64Array, degree: int) -> bool:
    """Whether no set S of steps is the only one by which more than |S| / d of the nodes can be reached."""
    inside[:] = 0
    for x in nodes:
        inside[mask[x]] += 1
    top, bottom = densest(inside, degree)
    return top * degree <= bottom * len(nodes)


def transitive_cost(topology: Topology) -> tuple[int, Fraction]:
    """Return (T_L in steps, T_B in M/B) of the optimal BFB allgather of a vertex-transitive network.

    Raises
    ------
    InputError
        If the network has no degree, or too large a one.

    Examples
    --------
    >>> from tutti.topologies.text import parse_topology
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
    if len(links) > (most := np.iinfo(np.int64).bits - 2):  # a mask holds them
        raise InputError(f"{topology.name} has {len(links)} in-links a node; at most {most}")
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

"""Rings, tori, meshes, hypercubes, complete and circulant networks: one function per family.

Ranks are numbered row-major: the last dimension varies fastest. Links are numbered by source, then by
dimension (or offset), then in the order that each function names; so on a d-regular network the links out of
rank v are d·v .. d·v + d - 1. `bandwidth` (bytes/s) and `alpha` (s) are one exact number for all dimensions
or one each, and default to 50 GB/s and 0.5 us.

Source: dissertation, Table A.3 and sections A.6.1 to A.6.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tutti.topologies.assembly import (
    HUGE,
    Arcs,
    Values,
    assemble,
    at_least,
    check_size,
    product_links,
)
from tutti.topologies.errors import InputError
from tutti.topologies.exact import Int64Array, IntArray
from tutti.topologies.topology import Topology


def ring(ranks: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return the bidirectional ring: rank i sends to i + 1, then to i - 1 (modulo `ranks`).

    Two ranks have one link each way, not two. Source: dissertation A.6.1, BiRing(2, m).

    Raises
    ------
    InputError
        If there are fewer than two ranks.

    Examples
    --------
    >>> ring(4).target.tolist()
    [1, 3, 2, 0, 3, 1, 0, 2]
    """
    return _product(f"ring:{ranks}", [_cycle(ranks)], bandwidth, alpha)


def uniring(ranks: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return the unidirectional ring: rank i sends to i + 1 modulo `ranks`.

    Source: dissertation Table A.3, UniRing(1, m).

    Raises
    ------
    InputError
        If there are fewer than two ranks.
    """
    factor = _Factor(ranks, ranks, lambda here: (here, (here + 1) % ranks))
    return _product(f"uniring:{ranks}", [factor], bandwidth, alpha)


def torus(*lengths: int, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return the torus with these lengths: in each dimension one step up, then one step down, both wrapping.

    A dimension of length 2 has one bidirectional link, not two: up and down are the same neighbour. (The
    key ``links=2`` gives two parallel links.) A dimension of length 1 has no links.

    Raises
    ------
    InputError
        If a length is less than 1 or there are fewer than two ranks.

    Examples
    --------
    >>> torus(3, 4).degree, torus(2, 4).degree, torus(2, 2).degree
    (4, 3, 2)
    """
    return _product(f"torus:{_by_x(lengths)}", [_cycle(length) for length in lengths], bandwidth, alpha)


def mesh(*lengths: int, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return the mesh with these lengths: a torus without the links that wrap; ``mesh(4, 1)`` is a path.

    Raises
    ------
    InputError
        If a length is less than 1 or there are fewer than two ranks.
    """
    return _product(f"mesh:{_by_x(lengths)}", [_path(length) for length in lengths], bandwidth, alpha)


def hypercube(dimension: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return the hypercube of 2^dimension ranks; the first dimension flips the highest bit of a rank.

    Raises
    ------
    InputError
        If `dimension` is less than 1.
    """
    name = f"hypercube:{dimension}"
    at_least(name, 1, dimension=dimension)
    check_size(name, 1 << min(dimension, HUGE), 0)
    return _product(name, [_clique(2)] * dimension, bandwidth, alpha)


def complete(ranks: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return the complete network: every rank sends to every other, in increasing order.

    Raises
    ------
    InputError
        If there are fewer than two ranks.
    """
    return _product(f"complete:{ranks}", [_clique(ranks)], bandwidth, alpha)


def hamming(dimension: int, length: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return H(n, q), the Cartesian power K_q^n: ranks that differ in one of n coordinates are neighbours.

    Parameters
    ----------
    dimension
        n, at least 1.
    length
        q, at least 2: the values of a coordinate, linked in increasing order.
    bandwidth, alpha
        One for all dimensions or one each.

    Raises
    ------
    InputError
        If `dimension` or `length` is too small.
    """
    name = f"hamming:{dimension},{length}"
    at_least(name, 1, dimension=dimension)
    at_least(name, 2, length=length)
    check_size(name, length ** min(dimension, HUGE), 0)
    return _product(name, [_clique(length)] * dimension, bandwidth, alpha)


def complete_bipartite(degree: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return K_{d,d}: ranks 0..d-1 on one side, d..2d-1 on the other, each linked to all of the other side.

    Raises
    ------
    InputError
        If `degree` is less than 1.
    """
    name = f"complete_bipartite:{degree}"
    at_least(name, 1, degree=degree)
    check_size(name, 2 * degree, 2 * degree**2)
    source = np.repeat(np.arange(2 * degree), degree)
    across = np.tile(np.arange(degree), 2 * degree)
    arcs = (source, np.where(source < degree, across + degree, across))
    return assemble(name, 2 * degree, [arcs], bandwidth, alpha)


def gen_kautz(degree: int, ranks: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return the generalized Kautz network Π_{d,n}: rank x sends to -d·x - a modulo n, for a = 1..d.

    Self-loops are dropped, but count in the degree by which T_B is measured (`Topology.nominal_degree`),
    which gives the papers' T_B. Arcs that coincide (only where n < d) are parallel links. Source:
    dissertation, Definition 16.

    Parameters
    ----------
    degree
        d, at least 1.
    ranks
        n, at least 2.
    bandwidth, alpha
        One for all links.

    Raises
    ------
    InputError
        If `degree` or `ranks` is too small, or the network isn't strongly connected.
    """
    name = f"gen_kautz:{degree},{ranks}"
    at_least(name, 1, degree=degree)
    at_least(name, 2, ranks=ranks)
    check_size(name, ranks, degree * ranks)
    source = np.repeat(np.arange(ranks), degree)
    target = (-degree * source - np.tile(np.arange(1, degree + 1), ranks)) % ranks
    proper = source != target
    arcs = (source[proper], target[proper])
    return assemble(name, ranks, [arcs], bandwidth, alpha, nominal_degree=degree)


def circulant(ranks: int, *offsets: int, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return C(n, {a_1, ..., a_k}): rank i sends to i + a, then to i - a modulo n, for each offset a.

    An offset of n/2 gives one bidirectional link, not two: i + a and i - a are then one neighbour, and the
    degree is 2k - 1. Source: dissertation, Definition 18.

    Parameters
    ----------
    ranks
        n.
    *offsets
        In 1..n-1, distinct up to sign modulo n, and gcd(n, a_1, ..., a_k) = 1.
    bandwidth, alpha
        One for all offsets or one each.

    Raises
    ------
    InputError
        If an offset is out of range or repeated, or the network is disconnected.
    """
    name = f"circulant:{','.join(map(str, (ranks, *offsets)))}"
    at_least(name, 2, ranks=ranks)
    check_size(name, ranks, 2 * ranks * len(offsets))
    _check_offsets(name, ranks, offsets)
    rank = np.arange(ranks)
    classes = [there_and_back(rank, (rank + offset) % ranks, (rank - offset) % ranks) for offset in offsets]
    return assemble(name, ranks, classes, bandwidth, alpha)


def _check_offsets(name: str, ranks: int, offsets: Sequence[int]) -> None:
    if not offsets:
        raise InputError(f"topology {name} has no offsets; write e.g. circulant:16,3,4")
    seen: dict[int, int] = {}
    for offset in offsets:
        if not 1 <= offset < ranks:
            raise InputError(f"topology {name}: offset {offset} is not in 1..{ranks - 1}")
        length = min(offset, ranks - offset)
        if length in seen:
            raise InputError(
                f"topology {name}: offsets {seen[length]} and {offset} join the same ranks; "
                "give each once (parallel links: links=2)"
            )
        seen[length] = offset
    common = math.gcd(ranks, *offsets)
    if common > 1:
        raise InputError(
            f"topology {name} falls apart into {common} parts: "
            f"the gcd of the number of ranks and the offsets is {common}; it must be 1"
        )


@dataclass(frozen=True)
class _Factor:
    """A small digraph whose Cartesian product with others is the network.

    Parameters
    ----------
    length
        The number of its nodes, which are 0..length-1.
    links
        An upper limit on the arcs, known before they are built.
    arcs
        Takes the array of its nodes; returns the tails and the heads of the arcs, listed by tail.
    """

    length: int
    links: int
    arcs: Callable[[Int64Array], Arcs]


def _cycle(length: int) -> _Factor:
    return _Factor(
        length, 2 * length, lambda here: there_and_back(here, (here + 1) % length, (here - 1) % length)
    )


def _path(length: int) -> _Factor:
    def arcs(here: Int64Array) -> Arcs:
        tail, head = there_and_back(here, here + 1, here - 1)
        inside = (head >= 0) & (head < length)
        return tail[inside], head[inside]

    return _Factor(length, 2 * length, arcs)


def _clique(length: int) -> _Factor:
    def arcs(here: Int64Array) -> Arcs:
        tail, head = np.repeat(here, length), np.tile(here, length)
        return tail[tail != head], head[tail != head]

    return _Factor(length, length * (length - 1), arcs)


def two_way(one: IntArray, other: IntArray) -> Arcs:
    """Return the links from each node of one array to its counterpart in the other, then the links back."""
    return np.concatenate([one, other]), np.concatenate([other, one])


def there_and_back(here: Int64Array, up: Int64Array, down: Int64Array) -> Arcs:
    """Return the arcs to `up` and to `down`, by tail; one where the two agree, none to the node itself."""
    tail = np.repeat(here, 2)
    head = np.stack([up, down], axis=1).reshape(-1)
    wanted = head != tail
    wanted[1::2] &= up != down
    return tail[wanted], head[wanted]


def _product(name: str, factors: Sequence[_Factor], bandwidth: Values, alpha: Values) -> Topology:
    """Return the Cartesian product: a link changes one coordinate, along an arc of that factor."""
    for factor in factors:
        at_least(name, 1, length=factor.length)
    ranks = math.prod(factor.length for factor in factors)
    check_size(name, ranks, sum(factor.links * (ranks // factor.length) for factor in factors))
    if ranks < 2:
        raise InputError(f"topology {name} has 1 rank; a collective needs at least 2")
    classes = product_links([(factor.length, factor.arcs(np.arange(factor.length))) for factor in factors])
    return assemble(name, ranks, classes, bandwidth, alpha)


def _by_x(lengths: Sequence[int]) -> str:
    return "x".join(map(str, lengths))

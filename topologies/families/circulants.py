"""Circulant networks of small diameter, and the offsets that they take.

All degrees are even: k offsets make degree 2k. For k = 2, Theorem 22 of the dissertation gives the offsets of
least diameter: m and m + 1 with m = ceil((sqrt(2n - 1) - 1)/2), for n > 6. For more offsets no formula is
known and they are searched: the first offset is 1, the others run through all choices (or, where these are
too many, through a fixed random sample), and the search ends at a diameter that no k offsets can beat: the
least D with

    sum over i of 2^i (k over i) (D over i) >= n,

which counts the words of at most D steps. What it finds is the best of what it saw, not always proven least.

Source: dissertation, A.6.4.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from tutti.topologies.assembly import Values, check_size
from tutti.topologies.errors import InputError
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array
from tutti.topologies.families.grids import circulant
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology

_STEPS = 200_000_000
"""How many steps of breadth-first searches a search may take, about a second."""


def least_circulant(degree: int, ranks: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return a circulant network of this degree with the offsets of `least_offsets`; named with them.

    Raises
    ------
    InputError
        If `degree` is odd or less than 2, or `ranks` is not above `degree`.

    Examples
    --------
    >>> least_circulant(4, 1024).name
    'circulant:1024,23,24'
    """
    name = f"least_circulant:{degree},{ranks}"
    if degree < 2 or degree % 2:
        raise InputError(f"topology {name}: degree {degree}; a circulant of distinct offsets has an even one")
    if ranks <= degree:
        raise InputError(f"topology {name}: {ranks} ranks; degree {degree} needs at least {degree + 1}")
    check_size(name, ranks, degree * ranks)
    return circulant(ranks, *least_offsets(ranks, degree // 2), bandwidth=bandwidth, alpha=alpha)


@lru_cache(maxsize=4096)
def least_offsets(ranks: int, count: int) -> tuple[int, ...]:
    """Return `count` offsets for `ranks` ranks, of least diameter (proven for two, else searched).

    Parameters
    ----------
    ranks
        n, above 2·count.
    count
        k, at least 1.

    Examples
    --------
    >>> least_offsets(16, 2), least_offsets(55, 3)
    ((3, 4), (1, 5, 21))
    """
    if count == 1:
        return (1,)
    if count == 2:
        m = (math.isqrt(2 * ranks - 1) - 1) // 2  # the least m with 2m² + 2m + 1 >= n, or one less
        m += 2 * m * (m + 1) + 1 < ranks
        return (m, m + 1) if ranks > 6 else (1, 2)
    return _searched(ranks, count)


def circulant_diameter(ranks: int, offsets: tuple[int, ...]) -> int:
    """Return the diameter of a connected circulant network; its ranks are all alike."""
    return int(_eccentricity(ranks, np.array(offsets), ranks))


def least_diameter(ranks: int, count: int) -> int:
    """Return the least diameter that `count` offsets could have, by counting words of steps."""
    reach = 0
    while _words(count, reach) < ranks:
        reach += 1
    return reach


def _words(count: int, reach: int) -> int:
    """Return how many points of Z^k are at most `reach` unit steps from 0."""
    return sum(2**i * math.comb(count, i) * math.comb(reach, i) for i in range(count + 1))


def _searched(ranks: int, count: int) -> tuple[int, ...]:
    bound = least_diameter(ranks, count)
    best: tuple[int, ...] = tuple(range(1, count + 1))
    diameter = circulant_diameter(ranks, best)
    for further in _candidates(ranks, count):
        if diameter == bound:
            break
        found = int(_eccentricity(ranks, np.array((1, *further)), diameter - 1))
        if found < diameter:
            best, diameter = (1, *further), found
    return best


def _candidates(ranks: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield increasing offsets from 2 up to half of the ranks, all choices or a sample."""
    largest = (ranks - 1) // 2
    tries = max(_STEPS // (2 * count * ranks), 100)
    if math.comb(largest - 1, count - 1) <= tries:
        yield from itertools.combinations(range(2, largest + 1), count - 1)
        return
    rng = np.random.default_rng(ranks)
    for _ in range(tries):
        yield tuple(sorted((2 + rng.choice(largest - 1, count - 1, replace=False)).tolist()))


@kernel
def _eccentricity(ranks: int, offsets: Int64Array, limit: int) -> int:
    """Return the largest distance from rank 0, or limit + 1 as soon as it is more than `limit`.

    Invariant: `queue[first:last]` are the ranks at distance `distance`, all nearer ones are marked.
    """
    marked = np.zeros(ranks, np.bool_)
    queue = np.empty(ranks, np.int32)
    marked[0], queue[0] = True, 0
    first, last, distance = 0, 1, 0
    while last < ranks and distance < limit:
        found = _next_ring(offsets, marked, queue, first, last)
        first, last, distance = last, found, distance + 1
        if first == last:
            break
    return distance if last == ranks else limit + 1


@kernel
def _next_ring(offsets: Int64Array, marked: BoolArray, queue: Int32Array, first: int, last: int) -> int:
    """Mark and queue the unmarked neighbours of ``queue[first:last]``; return the queue's new end."""
    ranks, found = len(marked), last
    for position in range(first, last):
        for offset in offsets:
            for step in (offset, ranks - offset):
                node = (queue[position] + step) % ranks
                if not marked[node]:
                    marked[node] = True
                    queue[found] = node
                    found += 1
    return found

"""Exact BFB costs of generalized Kautz graphs, by intervals (dissertation, A.6.2, Fig. A.7).

In Π_{d,N} node x sends to -(d x + a), a = 1..d, so the ends of all walks of k links from v are d^k
consecutive integers y, taken modulo N: node u is reached once by each y = u + j N among them, and j mod d
tells which of its d in-links the walk ends with. With D the first k where d^k >= N:

* at a distance t < D a source has one walk at most, hence one eligible link, and U_{u,t} is the number of
  sources of the busiest link;
* at distance D a source's eligible links follow each other around the circle of u's d in-links. The optimum
  of linear program (3.1) is the largest ratio, over sets S of links, of the sources whose links are all in S
  to |S|. S is a union of arcs with gaps between them, a source's links lie in one arc, and the ratio of the
  union is at most the largest of its arcs: the d (d - 1) arcs and the whole circle suffice.

One N takes O(N^2 + N d^2): no search and no flow. T_L is at most D.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

from tutti.topologies.errors import InputError
from tutti.topologies.exact import Int32Array
from tutti.topologies.kernels import kernel


def has_intervals(degree: int, nodes: int) -> bool:
    """Return whether d and N are large enough for `kautz_cost`."""
    return degree > 1 and nodes > 2


def kautz_cost(degree: int, nodes: int) -> tuple[int, Fraction]:
    """Return (T_L in steps, T_B in M/B) of the optimal BFB allgather of Π_{d,N}.

    Raises
    ------
    InputError
        If `degree` is below 2 or `nodes` below 3.

    Examples
    --------
    >>> kautz_cost(4, 1024)
    (5, Fraction(341, 256))
    """
    peaks = kautz_peaks(degree, nodes)
    return len(peaks), Fraction(degree, nodes) * sum(peaks, Fraction(0))


def kautz_peaks(degree: int, nodes: int) -> tuple[Fraction, ...]:
    """Return the largest U_{u,t} over all u of each step t, in shards a link.

    Raises
    ------
    InputError
        If `degree` is below 2 or `nodes` below 3.
    """
    if not has_intervals(degree, nodes):
        raise InputError(f"gen_kautz:{degree},{nodes}: intervals need d of at least 2 and N of at least 3")
    levels = next(k for k in itertools.count() if degree**k >= nodes)
    alone, circle = _count(degree, nodes, levels)
    last = _busiest_arc(circle, degree**levels // nodes)
    peaks = [Fraction(count) for count in alone.max(axis=(1, 2)).tolist()]
    return tuple(filter(None, [*peaks[1:], Fraction(*last)]))


@kernel
def _count(degree: int, nodes: int, levels: int) -> tuple[Int32Array, Int32Array]:
    """Return how many sources each node has, by where their eligible links stand.

    The first counts those at distances 1 to D - 1 by their only link, shape (D, N, d). The second counts
    those at distance D by the first of their links and by whether these are ⌊d^D / N⌋ or one more, shape
    (N, d, 2).
    """
    alone = np.zeros((levels, nodes, degree), np.int32)
    circle = np.zeros((nodes, degree, 2), np.int32)
    seen = np.full(nodes, -1, np.int32)  # the last source that reached a node
    for source in range(nodes):
        seen[source] = source
        low, width = source, 1
        for level in range(1, levels):
            low = (-degree * (low % nodes + width - 1) - degree) % (degree * nodes)
            width *= degree
            _mark(alone[level], seen, source, (low, width))
        low = (-degree * (low % nodes + width - 1) - degree) % (degree * nodes)
        _mark_last(circle, seen, source, (low, (width * degree) % nodes))
    return alone, circle


@kernel
def _mark(counts: Int32Array, seen: Int32Array, source: int, interval: tuple[int, int]) -> None:
    """Count a source at those nodes of an interval (first y, length) that it did not reach before."""
    low, width = interval
    node, link = low % len(seen), low // len(seen)
    for _ in range(width):
        if seen[node] != source:
            seen[node] = source
            counts[node, link] += 1
        node += 1
        if node == len(seen):
            node, link = 0, (link + 1) % counts.shape[1]


@kernel
def _mark_last(counts: Int32Array, seen: Int32Array, source: int, interval: tuple[int, int]) -> None:
    """Count a source at all nodes that it did not reach before; the first few have a link more."""
    low, more = interval
    node, link = low % len(seen), low // len(seen)
    for place in range(len(seen)):
        if seen[node] != source:
            counts[node, link, int(place < more)] += 1
        node += 1
        if node == len(seen):
            node, link = 0, (link + 1) % counts.shape[1]


@kernel
def _busiest_arc(counts: Int32Array, links: int) -> tuple[int, int]:
    """Return the largest (sources, links) of an arc or circle, of sources with `links` links or one more.

    A source whose first link is at place j of an arc of l has all of them there if j + their number <= l.
    """
    nodes, degree = counts.shape[:2]
    top, bottom = 0, 1
    for node in range(nodes):
        whole = counts[node].sum()
        if whole * bottom > top * degree:
            top, bottom = whole, degree
        for first in range(degree):
            inside = 0
            for length in range(links, degree):
                inside += counts[node, (first + length - links) % degree, 0]
                if length > links:
                    inside += counts[node, (first + length - links - 1) % degree, 1]
                if inside * bottom > top * length:
                    top, bottom = inside, length
    return top, bottom

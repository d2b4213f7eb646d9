"""Exact BFB costs of generalized Kautz graphs, by intervals (dissertation, A.6.2, Fig. A.7).

In Π_{d,N} node x sends to -(d x + a), a = 1..d. So the ends of all walks of k links from v are d^k
consecutive integers y, taken modulo N. Node u is reached once by each y = u + j N among them, and j mod d
tells which of its d in-links the walk ends with. Let D be the first k where d^k >= N.

* At a distance t < D a source has one walk at most, hence one eligible link. U_{u,t} is the number of sources
of
  the busiest link.
* At distance D a source's eligible links follow each other around the circle of u's d in-links. The optimum
of
  linear program (3.1) is the largest ratio, over sets S of links, of the sources whose links are all in S to
  |S|. S is a union of arcs with gaps between them. A source's links lie in one arc, so the ratio of the union
  is at most the largest of its arcs: the d (d - 1) arcs and the whole circle suffice.

One N takes at most O(N^2 + N d^2), and less the larger d is; there is no search and no flow. T_L is at most
D.
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
    """Return the number of sources of each node, by the places of their eligible links.

    The first counts those at distances 1 to D - 1 by their only link, shape (D, N, d). The second counts
    those at distance D by the first of their links and by whether these are ⌊d^D / N⌋ or one more, shape
    (N, d, 2).
    """
    alone = np.zeros((levels, nodes, degree), np.int32)
    circle = np.zeros((nodes, degree, 2), np.int32)
    steps = np.zeros((nodes + 1, degree, 2), np.int32)  # how many of the last level's intervals begin or end
    seen = np.full(nodes, -1, np.int32)  # the last source that reached a node
    near = np.empty(nodes, np.int32)  # the nodes that it reached in fewer steps
    for source in range(nodes):
        seen[source] = near[0] = source
        count, low, width = 1, source, 1
        for level in range(1, levels):
            low = (-degree * (low % nodes + width - 1) - degree) % (degree * nodes)
            width *= degree
            count = _mark(alone[level], seen, near, count, (low, width))
        low = (-degree * (low % nodes + width - 1) - degree) % (degree * nodes)
        _mark_last(circle, steps, near[:count], (low, (width * degree) % nodes))
    running = np.zeros((degree, 2), np.int32)
    for node in range(nodes):
        running += steps[node]
        circle[node] += running
    return alone, circle


@kernel
def _mark(
    counts: Int32Array, seen: Int32Array, near: Int32Array, count: int, interval: tuple[int, int]
) -> int:
    """Count a source at those nodes of an interval (first y, length) that it did not reach before.

    The source is the first of the `count` nodes in `near`; these nodes are added. Returns how many there are.
    """
    low, width = interval
    node, link = low % len(seen), low // len(seen)
    for _ in range(width):
        if seen[node] != near[0]:
            seen[node] = near[0]
            near[count] = node
            count += 1
            counts[node, link] += 1
        node += 1
        if node == len(seen):
            node, link = 0, (link + 1) % counts.shape[1]
    return count


@kernel
def _mark_last(counts: Int32Array, steps: Int32Array, near: Int32Array, interval: tuple[int, int]) -> None:
    """Count a source at all nodes but those `near`; the first few have a link more.

    `steps` has where runs of nodes with one link begin and end; nodes that are near are taken off `counts`.
    """
    low, more = interval
    nodes, degree = counts.shape[:2]
    first, link = low % nodes, low // nodes
    following = (link + 1) % degree
    behind = min(more, nodes - first)
    # The interval wraps around the nodes, and may wrap within its first `more` entries: four runs in all.
    for begin, end, on, place in (
        (first, first + behind, link, 1),
        (first + behind, nodes, link, 0),
        (0, more - behind, following, 1),
        (more - behind, first, following, 0),
    ):
        steps[begin, on, place] += 1
        steps[end, on, place] -= 1
    for node in near:
        place = (node - first) % nodes
        counts[node, link if node >= first else following, int(place < more)] -= 1


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

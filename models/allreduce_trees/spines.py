r"""Trees with two spines for a mesh G □ H of two paths: every link has something to send from the start.

A comb (`products`) has one copy of G as spine. Take two, in columns a < b of H, and join them by one row of
H; each other row is cut between two neighbours k and k + 1, a ≤ k < b. These are
2 (|G| - 1) + |G| (|H| - 1) - (|G| - 1) edges, as many as a spanning tree has. Next to a cut ranks are leaves,
and links towards both ends of a row, upwards in no comb before whole rows were reduced, have leaves' data
to carry at once, and the last broadcasts at the end.

Let a share α of all trees have spines of G and β = 1 - α spines of H, as combs must have to load all edges
alike, and let α_2 and β_2 of these have two spines, where

.. math::

    \alpha_2 (|G| - 1) = \beta_2 (|H| - 1), \qquad (1)

the cuts of each row be alike often at all |H| - 1 places, and the joining row be r with probability π_r.
Where column h is a spine with weight

.. math::

    x_h = \frac{\alpha}{|H|} + \frac{\beta_2 (1 - \pi'_h)}{|G| - 1}, \qquad \sum_h x_h = \alpha + \alpha_2,
    \qquad (2)

(π' being that of the trees with spines of H, whose cut rows are copies of G) every edge of that column gets
what combs give it: the spines' surplus makes up for the cuts, of weight β_2 (1 - π'_h) / (|G| - 1) at each
place. So the trees are as good as combs. The largest shares with (1) are taken.

Columns in their order, α + α_2 of them by weight, are a for the first α_2, b for the last α_2, and spines of
combs in between. Cuts from left to right meet a and b from left to right, so that cuts near an end have a
spine at that end and the other in the middle, and trees stay low. The joining rows are the two in the middle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from models.allreduce_trees.products import Factors, mix
from topologies.exact import INT64_MAX, Int32Array
from topologies.forest import Forest
from topologies.strength import Graph

Run = list[tuple[Fraction, int]]
"""Weights laid along a line from 0 on, and what has them."""


def is_even_path(graph: Graph) -> bool:
    """Whether the graph is the path 0, 1, 2, ... with one capacity."""
    ends = np.stack([np.arange(graph.num_nodes - 1), np.arange(1, graph.num_nodes)])
    return np.array_equal(graph.ends, ends) and len(np.unique(graph.capacity)) == 1


def spine_forest(split: Factors) -> Forest | None:
    """Return the trees of G □ H, where G and H are even paths.

    Returns
    -------
    Forest or None
        None where combs of one kind alone are best, or weights do not fit 64 bits.

    Examples
    --------
    >>> from topologies.strength import undirected
    >>> path = undirected(3, [0, 1], [1, 2], [1, 1])
    >>> len(spine_forest((path, path)))
    16
    """
    sizes = (split[0].num_nodes, split[1].num_nodes)
    one, other = (Fraction(1, int(path.capacity[0])) for path in split)
    alpha = mix(sizes, (one, other))
    if not 0 < alpha < 1:
        return None
    (g, h), beta = sizes, 1 - alpha
    beta_two = min(beta, alpha * (g - 1) / (h - 1))
    alpha_two = beta_two * (h - 1) / (g - 1)
    rows = [
        *_trees(sizes, 0, (alpha, alpha_two), beta_two),
        *_trees(sizes, 1, (beta, beta_two), alpha_two),
    ]
    common = math.lcm(*(share.denominator for share, _ in rows))
    if common > INT64_MAX:
        return None
    parent = np.stack([tree for _, tree in rows])
    weight = np.array([int(share * common) for share, _ in rows])
    return Forest(np.argmin(parent, axis=1), weight, parent)


def _trees(
    sizes: tuple[int, int], spine: int, shares: tuple[Fraction, Fraction], others: Fraction
) -> Iterator[tuple[Fraction, Int32Array]]:
    """Yield weights and parents of the trees with spines of one kind.

    Parameters
    ----------
    sizes
        |G| and |H|.
    spine
        Which of the two the spines are copies of.
    shares
        Of all trees those with such spines, and with two of them.
    others
        The share of trees with two spines of the other kind.
    """
    rows, columns = sizes[spine], sizes[1 - spine]
    total, double = shares
    used = [
        (total / columns + others * (1 - Fraction(column in _middle(columns), 2)) / (rows - 1), column)
        for column in range(columns)
    ]
    cuts = [(double / (columns - 1), place) for place in range(columns - 1)]
    left, single, right = (
        _part(used, *ends) for ends in ((0, double), (double, total), (total, total + double))
    )
    for weight, (a, cut, b) in _overlaps([left, cuts, right]):
        for row in _middle(rows):
            yield weight / 2, _tree(sizes, spine, (a, b, cut), row)
    for weight, column in single:
        yield weight, _tree(sizes, spine, (column, column, column), rows // 2)


def _middle(size: int) -> tuple[int, int]:
    """Return the two places in the middle; not one alone, so that every row is cut somewhere in a tree."""
    first = (size - 1) // 2
    return first, first + 1


def _part(run: Run, begin: Fraction | int, end: Fraction | int) -> Run:
    """Return what lies between two places of a line."""
    found, before = [], Fraction(0)
    for weight, what in run:
        inside = min(before + weight, Fraction(end)) - max(before, Fraction(begin))
        if inside > 0:
            found.append((inside, what))
        before += weight
    return found


def _overlaps(runs: list[Run]) -> Iterator[tuple[Fraction, tuple[int, ...]]]:
    """Yield the pieces into which runs of the same length cut each other."""
    rest = [list(reversed(run)) for run in runs]
    while all(rest):
        weight = min(run[-1][0] for run in rest)
        yield weight, tuple(run[-1][1] for run in rest)
        for run in rest:
            left, what = run.pop()
            if left > weight:
                run.append((left - weight, what))


def _tree(sizes: tuple[int, int], spine: int, where: tuple[int, int, int], joined: int) -> Int32Array:
    """Return the parents of the tree with spines at a and b, cut after a place except in the joined row.

    With a = b it is a comb. The root is in the joined row, between the spines.
    """
    (a, b, cut), middle = where, sum(where[:2]) // 2
    rows, columns = sizes[spine], sizes[1 - spine]
    along, across = (sizes[1], 1) if spine == 0 else (1, sizes[1])
    row, column = np.indices((rows, columns))
    to_spine = np.sign(np.where(column <= cut, a, b) - column)
    step = np.where(to_spine != 0, to_spine * across, np.sign(joined - row) * along)
    step[joined] = np.sign(middle - column[joined]) * across
    node = row * along + column * across
    parent = np.empty(rows * columns, dtype=np.int32)
    parent[node] = np.where(step == 0, -1, node + step)
    return parent

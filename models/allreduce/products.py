r"""Low trees for Cartesian products G □ H, such as meshes and tori, from those of the factors.

Lay a spanning tree of G over one copy, at H's node h, and a spanning tree of H over every copy of H. This is
a spanning tree of the product, not higher than both together. If the spine is in each h equally often, edges
of G carry 1/|H| of what G's trees load on them in G, and those of H all of it. Trees of the other kind (a
spine of H, combs of G) load them the other way round. In a mix with a share α of the first kind, G and H have
equal loads if

.. math::

    \rho_G \Bigl(\frac{\alpha}{|H|} + 1 - \alpha\Bigr) = \rho_H \Bigl(\alpha + \frac{1 - \alpha}{|G|}\Bigr).

If the factors' own trees load their edges equally, this mix loads all edges equally. No packing does better:
all capacity is used by |G||H| - 1 edges a tree. (For example, an n x n mesh has 2n trees, with a spine in
each row and each column. Each edge is in n + 1 of them, so σ = 2n / (n + 1).) This module does not check
whether the trees are optimal; its callers compare them with the strength.

In such a comb, a copy of G as spine and H's trees as its teeth, many links have nothing to send at first. For
a mesh G □ H of two paths there are trees in which every link has. Take two copies of G, in columns a < b of
H, and join them by one row of H. Each other row is cut between two neighbours k and k + 1, a ≤ k < b. These
are 2 (|G| - 1) + |G| (|H| - 1) - (|G| - 1) edges, as many as a spanning tree has. Next to a cut, ranks are
leaves. In combs, no link towards both ends of a row is used upwards before whole rows are reduced. Here such
links have leaves' data to carry immediately, and the last broadcasts at the end.

Let a share α of all trees have spines of G, and β = 1 - α spines of H, as for combs that load all edges
equally. Let α_2 and β_2 of these have two spines, where

.. math::

    \alpha_2 (|G| - 1) = \beta_2 (|H| - 1). \qquad (1)

Let the cuts of each row be equally frequent at all |H| - 1 places, and the joining row be r with probability
π_r. Let column h be a spine with weight

.. math::

    x_h = \frac{\alpha}{|H|} + \frac{\beta_2 (1 - \pi'_h)}{|G| - 1}, \qquad \sum_h x_h = \alpha + \alpha_2,
    \qquad (2)

where π' is π for the trees with spines of H, whose cut rows are copies of G. Then every edge of that column
has the same load as with combs, as the additional spines make up for the cuts, of weight β_2 (1 - π'_h) /
(|G| - 1) at each place. So the trees are as good as combs. The largest shares with (1) are taken.

Take the columns in their order, α + α_2 of them by weight. They are a for the first α_2, b for the last α_2,
and spines of combs in between. Cuts from left to right are combined with a and b from left to right. So cuts
near an end have a spine at that end and the other in the middle, and trees stay low. The joining rows are the
two in the middle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from tutti.topologies.exact import INT64_MAX, Int32Array, Int64Array
from tutti.topologies.graphs.strength import Graph
from tutti.topologies.trees.forest import Forest, rerooted

Factors = tuple[Graph, Graph]
Run = list[tuple[Fraction, int]]
"""Weights laid along a line from 0 on, and what has them."""


def factors(graph: Graph) -> Factors | None:
    """Return G and H, the smallest there is, if node g·|H| + h of the graph is (g, h) of G □ H; else None.

    Examples
    --------
    >>> from tutti.topologies.graphs.strength import undirected
    >>> mesh = undirected(4, [0, 2, 0, 1], [1, 3, 2, 3], [5, 5, 7, 7])
    >>> [factor.capacity.tolist() for factor in factors(mesh)]
    [[7], [5]]
    """
    n = graph.num_nodes
    for size in (size for size in range(2, n // 2 + 1) if n % size == 0):
        found = _split(graph, size)
        if found is not None:
            return found
    return None


def _split(graph: Graph, size: int) -> Factors | None:
    """Return the factors if H has this number of nodes, or None."""
    copies = graph.num_nodes // size
    outer, inner = np.divmod(graph.ends, size)
    along_h, along_g = outer[0] == outer[1], inner[0] == inner[1]
    if not (along_h | along_g).all():
        return None
    parts = []
    for chosen, copy, ends, nodes, times in (
        (along_g, inner[0], outer, copies, size),
        (along_h, outer[0], inner, size, copies),
    ):
        key = np.stack([copy[chosen], *ends[:, chosen], graph.capacity[chosen]])
        key = key[:, np.lexsort(key[::-1])]
        table = key.reshape(4, times, -1) if key.shape[1] % times == 0 else None
        if (
            table is None
            or (table[1:] != table[1:, :1]).any()
            or (table[0] != np.arange(times)[:, None]).any()
        ):
            return None
        parts.append(Graph(nodes, table[1:3, 0].astype(np.int32), table[3, 0].astype(np.int64)))
    return parts[0], parts[1]


def product_forest(
    sizes: tuple[int, int], forests: tuple[Forest, Forest], ratios: tuple[Fraction, Fraction]
) -> Forest | None:
    """Return trees of G □ H made of those of G and H.

    Parameters
    ----------
    sizes
        |G| and |H|.
    forests, ratios
        Trees of G and of H, and their largest loads over capacity, each tree moving its share of 1.

    Returns
    -------
    Forest or None
        None where the weights, over a common denominator, don't fit 64 bits.
    """
    alpha = mix(sizes, ratios)
    kinds = [(spine, share) for spine, share in ((0, alpha), (1, 1 - alpha)) if share]
    return _forest([row for spine, share in kinds for row in _trees(sizes, forests, spine, share)])


def _forest(rows: Sequence[tuple[Fraction, Int32Array]]) -> Forest | None:
    """Return the forest of these shares and parents; None where its weights don't fit 64 bits."""
    common = math.lcm(*(share.denominator for share, _ in rows))
    if common > INT64_MAX:
        return None
    parent = np.stack([tree for _, tree in rows])
    return Forest(np.argmin(parent, axis=1), np.array([int(share * common) for share, _ in rows]), parent)


def mix(sizes: tuple[int, int], ratios: tuple[Fraction, Fraction]) -> Fraction:
    """Return the share α of trees with a spine of G that makes both sides equal, or nearest to it.

    Parameters
    ----------
    sizes, ratios
        As in `product_forest`.

    Examples
    --------
    >>> mix((3, 3), (Fraction(1), Fraction(1)))
    Fraction(1, 2)
    """
    (g, h), (one, other) = sizes, ratios
    alpha = (one - other / g) / (one * (1 - Fraction(1, h)) + other * (1 - Fraction(1, g)))
    return min(max(alpha, Fraction(0)), Fraction(1))


def _trees(
    sizes: tuple[int, int], forests: tuple[Forest, Forest], spine: int, share: Fraction
) -> Iterator[tuple[Fraction, Int32Array]]:
    """Yield share and parents of trees whose spine is of factor 0 (G) or 1 (H), `share` in all.

    The spines, copy by copy, and the combs are laid along [0, 1) each; where pieces overlap they are joined.
    """
    back, teeth = forests[spine], forests[1 - spine]
    runs = [_laid(np.tile(back.weight, sizes[1 - spine])), _laid(teeth.weight)]
    for weight, (place, tooth) in _overlaps(runs):
        copy, row = divmod(place, len(back))
        yield share * weight, _joined(sizes, spine, copy, back.parent[row], teeth.parent[tooth])


def _laid(weight: Int64Array) -> Run:
    """Return the numbers of these weights, laid along [0, 1)."""
    total = int(weight.sum())
    return [(Fraction(each, total), number) for number, each in enumerate(weight.tolist())]


def _joined(sizes: tuple[int, int], spine: int, copy: int, back: Int32Array, tooth: Int32Array) -> Int32Array:
    """Return the parents of the tree with one spine in a copy and a tooth at each of its nodes."""
    hung = rerooted(tooth, copy)
    here, other = (np.arange(sizes[side]) for side in (spine, 1 - spine))
    along, across = (sizes[1], 1) if spine == 0 else (1, sizes[1])
    parent = np.empty(sizes[0] * sizes[1], dtype=np.int32)
    for at in here.tolist():
        parent[at * along + other * across] = at * along + hung * across
    parent[here * along + copy * across] = np.where(back < 0, -1, back * along + copy * across)
    return parent


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
    >>> from tutti.topologies.graphs.strength import undirected
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
    one_way = _two_spine_trees(sizes, 0, (alpha, alpha_two), beta_two)
    return _forest([*one_way, *_two_spine_trees(sizes, 1, (beta, beta_two), alpha_two)])


def _two_spine_trees(
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
        Share of all trees that have such spines, and share with two of them.
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
            yield weight / 2, _two_spine_tree(sizes, spine, (a, b, cut), row)
    for weight, column in single:
        yield weight, _two_spine_tree(sizes, spine, (column, column, column), rows // 2)


def _middle(size: int) -> tuple[int, int]:
    """Return the two places in the middle; not one alone, so that every row is cut somewhere in a tree."""
    first = (size - 1) // 2
    return first, first + 1


def _part(run: Run, begin: Fraction | int, end: Fraction | int) -> Run:
    """Return the part of a run between two places of its line."""
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


def _two_spine_tree(
    sizes: tuple[int, int], spine: int, where: tuple[int, int, int], joined: int
) -> Int32Array:
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

r"""Low trees for Cartesian products G □ H, such as meshes and tori, from those of the factors.

A spanning tree of G laid over one copy of H's node h, and a spanning tree of H in every copy, are a spanning
tree of the product, not higher than both together. With the spine in each h alike often, edges of G bear
1/|H| of what G's trees bear in G, and those of H all of it. Trees of the other kind (a spine of H, combs of
G) bear the opposite. Where a mix of both kinds,

.. math::

    \rho_G \Bigl(\frac{\alpha}{|H|} + 1 - \alpha\Bigr) = \rho_H \Bigl(\alpha + \frac{1 - \alpha}{|G|}\Bigr),

loads all edges alike, and the factors' own trees load theirs alike, no packing does better: all capacity is
used by |G||H| - 1 edges a tree. (An n x n mesh so has 2n trees, a spine in each row and each column, each
edge in n + 1 of them, which is σ = 2n / (n + 1).) Whether the trees are optimal is left to whoever asks, as
always, to compare with the strength.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from topologies.exact import INT64_MAX, Int32Array, Int64Array
from topologies.forest import Forest
from topologies.strength import Graph

Factors = tuple[Graph, Graph]


def factors(graph: Graph) -> Factors | None:
    """Return G and H, the smallest there is, if node g·|H| + h of the graph is (g, h) of G □ H; else None.

    Examples
    --------
    >>> from topologies.strength import undirected
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
    """Return the factors where H has so many nodes, or None."""
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
    rows = [row for spine, share in kinds for row in _trees(sizes, forests, spine, share)]
    common = math.lcm(*(share.denominator for share, _, _ in rows))
    if common > INT64_MAX:
        return None
    parent = np.stack([tree for _, _, tree in rows])
    root = np.array([top for _, top, _ in rows])
    return Forest(root, np.array([int(share * common) for share, _, _ in rows]), parent)


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
) -> Iterator[tuple[Fraction, int, Int32Array]]:
    """Yield share, root and parents of trees whose spine is of factor 0 (G) or 1 (H), `share` in all.

    The spines, copy by copy, and the combs are laid along [0, 1) each; where pieces overlap they are joined.
    """
    back, teeth = forests[spine], forests[1 - spine]
    copies = sizes[1 - spine]
    ends = [_ends(np.tile(back.weight, copies)), _ends(teeth.weight)]
    cuts = sorted({*ends[0], *ends[1]})
    here = [0, 0]
    before = Fraction(0)
    for cut in cuts:
        copy, row = divmod(here[0], len(back))
        yield share * (cut - before), *_joined(sizes, spine, copy, back.parent[row], teeth.parent[here[1]])
        before = cut
        here = [place + (cut == ends[side][place]) for side, place in enumerate(here)]


def _ends(weight: Int64Array) -> list[Fraction]:
    total = int(weight.sum())
    return [Fraction(int(end), total) for end in np.cumsum(weight)]


def _joined(
    sizes: tuple[int, int], spine: int, copy: int, back: Int32Array, tooth: Int32Array
) -> tuple[int, Int32Array]:
    """Return root and parents of the tree with one spine in a copy and a tooth at each of its nodes."""
    hung = rooted_at(tooth, copy)
    here, other = (np.arange(sizes[side]) for side in (spine, 1 - spine))
    along, across = (sizes[1], 1) if spine == 0 else (1, sizes[1])
    parent = np.empty(sizes[0] * sizes[1], dtype=np.int32)
    for at in here.tolist():
        parent[at * along + other * across] = at * along + hung * across
    parent[here * along + copy * across] = np.where(back < 0, -1, back * along + copy * across)
    return int(np.flatnonzero(parent < 0)[0]), parent


def rooted_at(parent: Int32Array, root: int) -> Int32Array:
    """Return the tree rooted at another node."""
    turned = parent.copy()
    node, before = root, -1
    while node >= 0:
        turned[node], before, node = before, node, int(parent[node])
    return turned

r"""Trees with spines for grids n x n and n x n x n have leaves at every link, and load all edges equally.

A tree of the grid P_n^d is made from one of P_n^{d-1}: a copy of that, the *spine*, lies in one of the n
layers, or copies lie in two. One line across the layers joins them, and each other line is cut once between
two spines, after the same layer. With s spines these are s (m - 1) + m (n - 1) - (s - 1)(m - 1) = m n - 1
edges, m = n^{d-1}, as many as a spanning tree has. Next to a cut are leaves. Their data can be sent from the
first moment on, and at the end only broadcasts to them are left (`products` says why that is good). The
joining line is one in the middle half along all dimensions.

Each of these trees is taken with all its images under the symmetries of the grid, 2^d d! of them. So all
edges of one orbit have the same load, and only one number an orbit matters. A program in whole numbers gives
the number of times x_i that each kind of tree is taken, where C = Σ x_i is given:

.. math::

    \sum_i x_i \, U_{io} = C \, (N - 1) \frac{|o|}{|E|} \;\; \text{for all orbits } o, \qquad
    \sum_i x_i \, L_{iq} \ge \theta \, C \, (N - 1) \frac{|q|}{2 |E|}.

Here U counts the edges of an orbit in a tree, and L the links of an orbit q of links that go up from a leaf.
So all edges have the same load, which is optimal, and every link sends leaves' data for a part θ of the time.
The mean height is the least for nearly the largest θ. As x is whole, pieces of M are all of one size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.models.allreduce.spanning_trees import Packing, centred, packing_of
from tutti.models.solvers.compiled import CompiledModel
from tutti.models.solvers.highs import HighsOptions
from tutti.models.solvers.solving import solve
from tutti.topologies.exact import FloatArray, Int32Array, Int64Array
from tutti.topologies.graphs.strength import Graph
from tutti.topologies.trees.forest import Forest, heights, rerooted

MOST_ENTRIES = 2**25
"""Most kinds of trees times ranks for which trees are made, in a few seconds. With a larger value trees are
made for more grids."""


class _GridOrbits(NamedTuple):
    """Orbits under all symmetries of a grid.

    The fields are the symmetries, (symmetries, nodes), and the orbit of each ordered pair of neighbours as a
    link, and as an edge, (nodes, nodes), -1 elsewhere. The last two count the links and edges of each orbit.
    """

    images: Int64Array
    of_link: Int64Array
    of_edge: Int64Array
    links: Int64Array
    edges: Int64Array


class _Kinds(NamedTuple):
    """Trees, one of each kind; their numbers of edges and of leaves' links by orbit, and their heights."""

    parent: Int32Array
    edges: Int64Array
    leaves: Int64Array
    height: Int64Array


def cube_of(graph: Graph) -> tuple[int, int] | None:
    """Return n and d if the graph is the grid P_n^d, d = 2 or 3, with one capacity, numbered row by row.

    Examples
    --------
    >>> from tutti.topologies.graphs.strength import undirected
    >>> cube_of(undirected(4, [0, 2, 0, 1], [1, 3, 2, 3], [5, 5, 5, 5]))
    (2, 2)
    """
    for dims in (2, 3):
        size = round(graph.num_nodes ** (1 / dims))
        if size**dims == graph.num_nodes and size > 1 and len(np.unique(graph.capacity)) == 1:
            keys = np.sort(graph.ends.min(axis=0).astype(np.int64) * graph.num_nodes + graph.ends.max(axis=0))
            low, high = _edges(size, dims)
            if np.array_equal(keys, np.sort(low * graph.num_nodes + high)):
                return size, dims
    return None


def grid_packing(graph: Graph) -> Packing | None:
    """Return trees with leaves everywhere, all of one weight if equal ones are counted separately.

    Returns
    -------
    Packing or None
        None where the graph is no grid of equal sides, there are too many kinds of trees, or no mix of them
        loads all edges equally.

    Examples
    --------
    >>> from tutti.topologies.graphs.strength import undirected
    >>> mesh = undirected(4, [0, 2, 0, 1], [1, 3, 2, 3], [1, 1, 1, 1])
    >>> grid_packing(mesh).ratio
    Fraction(3, 4)
    """
    cube = cube_of(graph)
    trees = None if cube is None else _trees(*cube)
    return None if cube is None or trees is None else packing_of(graph, _mixed(trees, _orbits(*cube)))


def _mixed(trees: Int32Array, orbits: _GridOrbits) -> Forest | None:
    """Return the mix of trees and their images."""
    kinds = _kinds(trees, orbits)
    share = Fraction(trees.shape[1] - 1, int(orbits.edges.sum()))
    most = _most_leaves(kinds, orbits, share)
    if most is None:
        return None
    whole = math.lcm(*((int(count) * share).denominator for count in orbits.edges))
    total = whole * -(-840 // (whole * len(orbits.images)))  # fewer cannot load edges of some grids evenly
    for _ in range(4):
        times = _times(kinds, orbits, (share, total), 0.93 * most)  # with a few leaves less trees are lower
        if times is not None:
            return _images(kinds.parent[times > 0], times[times > 0], orbits.images)
        total *= 2
    return None


def _edges(size: int, dims: int) -> tuple[Int64Array, Int64Array]:
    """Return the ends of all edges, the lower one first."""
    node = np.arange(size**dims).reshape((size,) * dims)
    low = [np.take(node, range(size - 1), axis).ravel() for axis in range(dims)]
    high = [np.take(node, range(1, size), axis).ravel() for axis in range(dims)]
    return np.concatenate(low), np.concatenate(high)


def _orbits(size: int, dims: int) -> _GridOrbits:
    """Return the orbits of links and edges; each is identified by its least image."""
    node = np.arange(size**dims).reshape((size,) * dims)
    images = []
    for axes in itertools.permutations(range(dims)):
        turned = node.transpose(axes)
        for kept in range(dims + 1):
            flips = itertools.combinations(range(dims), kept)
            images += [np.flip(turned, flipped).ravel() for flipped in flips]
    image = np.array(images)
    low, high = _edges(size, dims)
    tails, heads = np.concatenate([low, high]), np.concatenate([high, low])
    least = (image[:, tails] * node.size + image[:, heads]).min(axis=0)
    both = np.minimum(least, np.roll(least, len(low)))
    tables, counts = [], []
    for key in (least, both):
        _, orbit, count = np.unique(key, return_inverse=True, return_counts=True)
        table = np.full((node.size, node.size), -1, dtype=np.int64)
        table[tails, heads] = orbit
        tables.append(table)
        counts.append(count)
    return _GridOrbits(image, tables[0], tables[1], counts[0], counts[1] // 2)


def _trees(size: int, dims: int) -> Int32Array | None:
    """Return trees with one spine or two, (trees, nodes); None if there are too many."""
    if dims == 1:
        parent = np.arange(size) + np.sign(size // 2 - np.arange(size))
        return np.where(np.arange(size) == size // 2, -1, parent).astype(np.int32)[None]
    base, layers = _trees(size, dims - 1), list(_layers(size))
    place = np.indices((size,) * (dims - 1)).reshape(dims - 1, -1)
    central = (np.abs(2 * place - (size - 1)) <= max(size, 4) / 2).all(axis=0)  # in the middle half; of 3 all
    middle = np.flatnonzero(central).tolist()
    if base is None or len(base) * len(layers) * len(middle) * size**dims > MOST_ENTRIES:
        return None
    return np.concatenate([_laid(base, line, layers) for line in middle])


def _layers(size: int) -> Iterator[tuple[Int64Array, int]]:
    """Yield, for each layer, the layer of its spine (its own if it is one); and the layer of the root."""
    layer = np.arange(size)
    for a, b in itertools.combinations_with_replacement(range(size), 2):
        for cut in range(a, max(b, a + 1)):
            yield np.where(layer <= cut, a, b), (a + b) // 2


def _laid(base: Int32Array, line: int, layers: list[tuple[Int64Array, int]]) -> Int32Array:
    """Return the trees with copies of trees of the layers as spines, joined along a line."""
    spine = np.stack([rerooted(parent, line) for parent in base])
    nodes, size = base.shape[1], len(layers[0][0])
    number, layer = np.arange(nodes * size, dtype=np.int32).reshape(size, nodes), np.arange(size)
    found = np.empty((len(layers), len(base), size, nodes), dtype=np.int32)
    for tree, (on, top) in zip(found, layers, strict=True):
        tree[:] = number + nodes * np.sign(on - layer)[:, None]
        spines = np.flatnonzero(on == layer)
        tree[:, spines] = spine[:, None] + nodes * spines[:, None]
        tree[:, :, line] = number[:, line] + nodes * np.sign(top - layer)
        tree[:, top, line] = -1
    return found.reshape(-1, size * nodes)


def _kinds(parent: Int32Array, orbits: _GridOrbits) -> _Kinds:
    """Return the trees, rooted at centres; of those with equal counts and height only the first."""
    forest = centred(_forest(parent, np.ones(len(parent), dtype=np.int64)))
    tree, node = np.nonzero(forest.parent >= 0)
    above = forest.parent[tree, node]
    leaf = np.ones(forest.parent.shape, dtype=np.bool_)
    leaf[tree, above] = False
    up = leaf[tree, node]
    table = np.concatenate(
        [
            heights(forest)[:, None],
            _tally(tree, orbits.of_edge[node, above], (len(forest), len(orbits.edges))),
            _tally(tree[up], orbits.of_link[node, above][up], (len(forest), len(orbits.links))),
        ],
        axis=1,
    )
    table, first = np.unique(table, axis=0, return_index=True)
    height, edges, leaves = np.split(table, [1, 1 + len(orbits.edges)], axis=1)
    return _Kinds(forest.parent[first], edges, leaves, height.ravel())


def _tally(row: Int64Array, column: Int64Array, shape: tuple[int, int]) -> Int64Array:
    """Return how often each row and column occur together."""
    return np.bincount(row * shape[1] + column, minlength=shape[0] * shape[1]).reshape(shape)


def _counts(kinds: _Kinds) -> FloatArray:
    """Return the edges and leaves of each kind by orbit, and a last row of ones: the trees."""
    return np.concatenate([kinds.edges, kinds.leaves, np.ones((len(kinds.height), 1))], axis=1).T


def _most_leaves(kinds: _Kinds, orbits: _GridOrbits, share: Fraction) -> float | None:
    """Return the largest θ if trees may be taken in any shares; None if no mix loads all edges equally."""
    from scipy.sparse import csr_array

    edges, links = orbits.edges * float(share), len(orbits.links)
    theta = np.concatenate([np.zeros(len(edges)), -float(share) * orbits.links, [0.0]])
    matrix = csr_array(np.column_stack([_counts(kinds), theta]))
    cost = np.append(np.zeros(len(kinds.height)), 1.0)
    lower, upper = (np.concatenate([edges, np.full(links, end), [1.0]]) for end in (0.0, np.inf))
    model = CompiledModel.of_matrix("leaves", matrix, cost, lower, upper, maximize=True)
    return solve(model, "highs", HighsOptions()).objective


def _times(
    kinds: _Kinds, orbits: _GridOrbits, share: tuple[Fraction, int], theta: float
) -> Int64Array | None:
    """Return how often each kind is taken, in whole numbers; None if none are found.

    Parameters
    ----------
    kinds, orbits
        The trees and the orbits by which they are counted.
    share
        The part of all trees that an edge is in, and C.
    theta
        θ.
    """
    from scipy.sparse import csr_array

    part, total = share
    edges = np.array([int(count) * part * total for count in orbits.edges.tolist()], dtype=np.int64)
    least = theta * float(part * total) * orbits.links
    lower = np.concatenate([edges, least, [total]])
    upper = np.concatenate([edges, np.full(len(least), np.inf), [total]])
    model = CompiledModel.of_matrix("grid", csr_array(_counts(kinds)), kinds.height / total, lower, upper)
    model = replace(model, integer=np.ones(model.num_columns, dtype=np.bool_))
    values = solve(model, "highs", HighsOptions(relative_gap=0.02, time_limit=30.0)).values
    if values is None:
        return None
    times = np.rint(values).astype(np.int64)
    right = (kinds.edges.T @ times == edges).all() and times.sum() == total and times.min() >= 0
    return times if right else None


def _images(parent: Int32Array, times: Int64Array, images: Int64Array) -> Forest:
    """Return all images of trees, each as often as given."""
    count, nodes = len(images), parent.shape[1]
    turned = np.full((len(parent), count, nodes), -1, dtype=np.int32)
    for tree, above in enumerate(parent):
        known = np.flatnonzero(above >= 0)
        turned[tree, np.arange(count)[:, None], images[:, known]] = images[:, above[known]]
    return _forest(turned.reshape(-1, nodes), np.repeat(times, count))


def _forest(parent: Int32Array, weight: Int64Array) -> Forest:
    """Return trees in the order of their roots."""
    root = np.argmin(parent, axis=1)
    order = np.argsort(root, kind="stable")
    return Forest(root[order], weight[order], parent[order])

"""Distance-regular graphs, constructed: DistReg(d, n) of the papers' notation.

A connected graph is distance-regular if, for nodes x and y, the number of nodes at distance i from x and j
from y depends on i, j and d(x, y) only. Equivalently it has an intersection array {b_0, ..., b_{D-1}; c_1,
..., c_D}: from any x, a node at distance i has b_i neighbours at distance i + 1 and c_i at distance i - 1.
Each has a bandwidth-optimal BFB schedule, and many have a small diameter. Source: dissertation, A.6.3 and
Table A.2; Brouwer, Cohen and Neumaier, Distance-Regular Graphs (1989).

For every degree d there are, where their parameters fit:

================================================  =======================  ========================
graph                                             degree                   nodes
================================================  =======================  ========================
Johnson graph J(m, k)                             k(m - k)                 m over k
Hamming graph H(k, q)                             k(q - 1)                 q^k
Paley graph of GF(q), q = 1 modulo 4              (q - 1)/2                q
crown graph, K_{m,m} minus a perfect matching     m - 1                    2m
incidence graph of PG(2, q), and its complement   q + 1, q²                2(q² + q + 1)
incidence graph of AG(2, q) minus a class         q                        2q²
odd graph O_k, and its double D(O_k)              k                        2k - 1 over k - 1, twice it
incidence graph of GQ(q, q)                       q + 1                    2(q + 1)(q² + 1)
incidence graph of GH(q, q)                       q + 1                    2(q^6 - 1)/(q - 1)
================================================  =======================  ========================

and for degree 4 the line graphs of the Petersen graph O_3, the Heawood graph (that of PG(2, 2)), Tutte's
8-cage (of GQ(2, 2)) and Tutte's 12-cage (of GH(2, 2)).

The incidence structures of finite geometry are bipartite graphs here: points are numbered from 0 and the
lines after them, so an incidence graph of P points and L lines has nodes 0..P + L - 1. All are built from
coordinates over GF(q):

- PG(2, q), the projective plane: q² + q + 1 points, as many lines, q + 1 points on a line.
- AG(2, q) minus a parallel class: the points (x, y) and the lines y = m·x + b.
- GQ(q, q), here W(q): the points of PG(3, q), and the lines that are totally isotropic for the symplectic
  form x0·y1 - x1·y0 + x2·y3 - x3·y2. It is a generalized quadrangle with (q + 1)(q² + 1) points and lines.
- GH(q, q), here the split Cayley hexagon H(q) in Tits's coordinates. Its points are those of the quadric
  x0·x4 + x1·x5 + x2·x6 = x3² of PG(6, q). Its lines are the lines of the quadric whose Grassmann coordinates
  p_ij = x_i·y_j - x_j·y_i satisfy p12 = p34, p54 = p32, p20 = p35, p65 = p30, p01 = p36 and p46 = p31.
  It is a generalized hexagon with (q^6 - 1)/(q - 1) points and lines.

Brouwer, Cohen and Neumaier, sections 6.5 and 9.6, say which graphs these are; Van Maldeghem, Generalized
Polygons (1998), section 2.4, has the hexagon.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from tutti.topologies.assembly import Values, assemble, check_size
from tutti.topologies.errors import InputError
from tutti.topologies.exact import BoolArray, Int64Array
from tutti.topologies.families.finite_fields import FiniteField, finite_field, prime_power
from tutti.topologies.topology import Topology

_LARGEST = 10_000
"""Most nodes that a graph of this file may have. A larger value allows larger graphs."""

_DENSE = 4_000
"""Most nodes that a graph may have if it is built from a matrix of all pairs of nodes."""


@dataclass(frozen=True)
class DistanceRegular:
    """A graph of this file, not built yet.

    Parameters
    ----------
    title
        The name that mathematicians use.
    ranks
        The number of its nodes.
    edges
        Returns its edges, int64 (edges, 2), each once.
    """

    title: str
    ranks: int
    edges: Callable[[], Int64Array]


def distance_regular(degree: int, ranks: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return DistReg(d, n): the distance-regular graph of this file with that degree and that many ranks.

    Links are numbered by source, then by target.

    Parameters
    ----------
    degree
        d, at least 3.
    ranks
        n, one of those of `distance_regular_graphs`.
    bandwidth, alpha
        One for all links.

    Raises
    ------
    InputError
        If there is none; the message says which there are.

    Examples
    --------
    >>> distance_regular(4, 32).num_links
    128
    """
    name = f"distance_regular:{degree},{ranks}"
    known = distance_regular_graphs(degree)
    if ranks not in known:
        sizes = f"there are n = {', '.join(map(str, known))}" if known else "the degree is 3 to 32"
        raise InputError(f"topology {name}: no such distance-regular graph is built; {sizes}")
    return undirected(name, ranks, known[ranks].edges(), bandwidth, alpha)


def johnson(things: int, size: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return the Johnson graph J(m, k): the k-subsets of m things, linked if they share k - 1.

    Raises
    ------
    InputError
        If not 1 <= k < m, or there would be too many subsets.
    """
    name = f"johnson:{things},{size}"
    if not 1 <= size < things:
        raise InputError(f"topology {name}: subsets of {size} of {things} things; 1 to {things - 1}")
    ranks = math.comb(things, size) if things <= _DENSE else math.inf
    if ranks > _DENSE:
        raise InputError(f"topology {name} has too many nodes; at most {_DENSE} are built")
    return undirected(name, int(ranks), _johnson(things, size), bandwidth, alpha)


def undirected(
    name: str, ranks: int, edges: Int64Array, bandwidth: Values = None, alpha: Values = None
) -> Topology:
    """Return the network with a link each way for every edge, numbered by source, then by target.

    Parameters
    ----------
    name, ranks
        As in `Topology`.
    edges
        Shape (edges, 2): the two ends of each.
    bandwidth, alpha
        One for all links.
    """
    check_size(name, ranks, 2 * len(edges))
    source, target = np.concatenate([edges, edges[:, ::-1]]).T
    order = np.lexsort((target, source))
    return assemble(name, ranks, [(source[order], target[order])], bandwidth, alpha)


@lru_cache(maxsize=64)
def distance_regular_graphs(degree: int) -> dict[int, DistanceRegular]:
    """Return the distance-regular graphs of this degree that can be built, by their number of nodes.

    Examples
    --------
    >>> [*distance_regular_graphs(4)]
    [6, 9, 10, 14, 15, 16, 21, 26, 32, 35, 45, 70, 80, 189, 728]
    """
    found: dict[int, DistanceRegular] = {}
    if 3 <= degree <= 32:
        for family in (_geometries, _subsets, _strongly_regular, _line_graphs):
            for graph in family(degree):
                if graph.ranks <= _LARGEST:
                    found.setdefault(graph.ranks, graph)
    return dict(sorted(found.items()))


def _geometries(degree: int) -> Iterator[DistanceRegular]:
    """Yield the incidence graphs of planes, quadrangles and hexagons."""
    if prime_power(degree):
        title = f"Incidence graph of AG(2,{degree}) minus a parallel class"
        yield DistanceRegular(title, 2 * degree**2, partial(affine_plane, degree))
    root = math.isqrt(degree)
    if root**2 == degree and prime_power(root):
        title = f"Non-incidence graph of PG(2,{root})"
        yield DistanceRegular(
            title, 2 * (degree + root + 1), partial(projective_plane, complement=True, order=root)
        )
    q = degree - 1
    if prime_power(q):
        for title, half, edges in (
            (f"PG(2,{q})", q**2 + q + 1, projective_plane),
            (f"GQ({q},{q})", (q + 1) * (q**2 + 1), quadrangle),
            (f"GH({q},{q})", (q**6 - 1) // (q - 1), hexagon),
        ):
            yield DistanceRegular(f"Incidence graph of {title}", 2 * half, partial(edges, q))


def _subsets(degree: int) -> Iterator[DistanceRegular]:
    """Yield the graphs on subsets: odd, doubled odd, Johnson, and the crown."""
    yield DistanceRegular(
        f"K_{degree + 1},{degree + 1} minus a matching",
        2 * degree + 2,
        lambda: _bipartite(~np.eye(degree + 1, dtype=np.bool_)),
    )
    size = math.comb(2 * degree - 1, degree - 1)
    if size <= _DENSE:
        yield DistanceRegular(f"Odd graph O_{degree}", size, partial(_odd, degree))
        yield DistanceRegular(f"Doubled odd graph D(O_{degree})", 2 * size, partial(_doubled_odd, degree))
    for k in range(2, math.isqrt(degree) + 1):
        if degree % k == 0:
            m = degree // k + k
            yield DistanceRegular(f"Johnson graph J({m},{k})", math.comb(m, k), partial(_johnson, m, k))


def _strongly_regular(degree: int) -> Iterator[DistanceRegular]:
    """Yield the Hamming graphs (of any diameter from 2) and the Paley graph."""
    for k in range(2, degree + 1):
        if degree % k == 0 and (degree // k + 1) ** k <= _DENSE:
            q = degree // k + 1
            yield DistanceRegular(f"Hamming graph H({k},{q})", q**k, partial(_hamming, k, q))
    order = 2 * degree + 1
    if order % 4 == 1 and prime_power(order):
        yield DistanceRegular(f"Paley graph of GF({order})", order, partial(_paley, order))


def _line_graphs(degree: int) -> Iterator[DistanceRegular]:
    """Yield the line graphs of the cubic graphs whose line graph is distance-regular."""
    if degree != 4:
        return
    for title, edges, size in (
        ("Petersen graph", partial(_odd, 3), 15),
        ("Heawood graph", partial(projective_plane, 2), 21),
        ("Tutte's 8-cage", partial(quadrangle, 2), 45),
        ("Tutte's 12-cage", partial(hexagon, 2), 189),
    ):
        yield DistanceRegular(f"Line graph of {title}", size, partial(_line_graph_of, edges))


def _line_graph_of(edges: Callable[[], Int64Array]) -> Int64Array:
    """Return the edges of the (undirected) line graph: pairs of edges that share a node."""
    ends = edges()
    shared = (ends[:, None, :, None] == ends[None, :, None, :]).any(axis=(2, 3))
    return _pairs(shared)


def _odd(degree: int) -> Int64Array:
    """Return the edges of O_k: the (k - 1)-subsets of 2k - 1 things, joined if they are disjoint."""
    subsets = _members(2 * degree - 1, degree - 1)
    return _pairs(subsets @ subsets.T == 0)


def _doubled_odd(degree: int) -> Int64Array:
    """Return the edges of D(O_k): the (k - 1)- and the k-subsets of 2k - 1 things, joined by inclusion."""
    small, large = (_members(2 * degree - 1, size) for size in (degree - 1, degree))
    return _bipartite(small @ large.T == degree - 1)


def _johnson(things: int, size: int) -> Int64Array:
    """Return the edges of J(m, k): the k-subsets of m things, joined if they share k - 1."""
    subsets = _members(things, size)
    return _pairs(subsets @ subsets.T == size - 1)


def _hamming(dimension: int, length: int) -> Int64Array:
    words = np.indices((length,) * dimension).reshape(dimension, -1).T
    return _pairs((words[:, None] != words[None]).sum(axis=2) == 1)


def _paley(order: int) -> Int64Array:
    """Return the edges of the Paley graph: elements of GF(q) that differ by a square."""
    field = finite_field(order)
    elements = np.arange(order)
    return _pairs(np.isin(field.minus(elements[:, None], elements[None]), field.powers[::2]))


def _members(things: int, size: int) -> Int64Array:
    """Return the subsets of this size, in lexicographic order, as rows of zeros and ones."""
    chosen = np.array([*itertools.combinations(range(things), size)])
    rows = np.zeros((len(chosen), things), dtype=np.int64)
    np.put_along_axis(rows, chosen, 1, axis=1)
    return rows


def _pairs(joined: BoolArray) -> Int64Array:
    """Return the edges of a graph from its symmetric matrix, each once, never from a node to itself."""
    return np.argwhere(np.triu(joined, 1))


def _bipartite(joined: BoolArray) -> Int64Array:
    """Return the edges of a bipartite graph from its matrix, one side by the other."""
    left, right = np.nonzero(joined)
    return np.stack([left, len(joined) + right], axis=1)


_HEXAGON_LINES = (
    ((1, 2), (3, 4)),
    ((5, 4), (3, 2)),
    ((2, 0), (3, 5)),
    ((6, 5), (3, 0)),
    ((0, 1), (3, 6)),
    ((4, 6), (3, 1)),
)
"""The pairs of Grassmann coordinates that are equal on a line of the hexagon."""


def projective_plane(order: int, *, complement: bool = False) -> Int64Array:
    """Return the incidence graph of PG(2, q): the point x lies on the line y where x·y = 0.

    Parameters
    ----------
    order
        q, a prime power.
    complement
        Whether a point is joined to the lines it does not lie on, instead.

    Returns
    -------
    int64, shape ((q + 1)(q² + q + 1), 2)
        The edges (point, line).
    """
    field = finite_field(order)
    points = _projective_points(field, 3)
    return _bipartite((field.dot(points[:, None], points[None]) == 0) != complement)


def affine_plane(order: int) -> Int64Array:
    """Return the incidence graph of AG(2, q) without the lines x = constant: q² points and as many lines."""
    field = finite_field(order)
    x, y, slope = (axis.reshape(-1) for axis in np.indices((order, order, order)))
    intercept = field.minus(y, field.times[slope, x])
    return np.stack([x * order + y, order**2 + slope * order + intercept], axis=1)


def quadrangle(order: int) -> Int64Array:
    """Return the incidence graph of W(q), the symplectic generalized quadrangle GQ(q, q)."""
    field = finite_field(order)

    def isotropic(x: Int64Array, others: Int64Array) -> BoolArray:
        first, second = (_grassmann(field, x, others, pair) for pair in ((0, 1), (2, 3)))
        return np.asarray(field.plus[first, second] == 0)

    return _points_and_lines(field, _projective_points(field, 4), isotropic)


def hexagon(order: int) -> Int64Array:
    """Return the incidence graph of H(q), the split Cayley generalized hexagon GH(q, q)."""
    field = finite_field(order)
    points = _projective_points(field, 7)
    square = field.times[points[:, 3], points[:, 3]]
    points = points[field.dot(points[:, :3], points[:, 4:]) == square]

    def collinear(x: Int64Array, others: Int64Array) -> BoolArray:
        middle = field.times[x[3], others[:, 3]]
        cross = field.plus[field.dot(x[:3], others[:, 4:]), field.dot(x[4:], others[:, :3])]
        fit = cross == field.plus[middle, middle]  # the line lies on the quadric
        for left, right in _HEXAGON_LINES:
            fit &= _grassmann(field, x, others, left) == _grassmann(field, x, others, right)
        return np.asarray(fit)

    return _points_and_lines(field, points, collinear)


def _grassmann(field: FiniteField, x: Int64Array, others: Int64Array, pair: tuple[int, int]) -> Int64Array:
    """Return p_ij of the line through x and each of the others."""
    i, j = pair
    return field.minus(field.times[x[i], others[:, j]], field.times[x[j], others[:, i]])


def _projective_points(field: FiniteField, length: int) -> Int64Array:
    """Return the points of PG(length - 1, q): the vectors whose first entry other than 0 is 1."""
    vectors = np.indices((field.order,) * length).reshape(length, -1).T[1:]
    return np.ascontiguousarray(vectors[_leading(vectors) == 1])


def _leading(vectors: Int64Array) -> Int64Array:
    """Return the first entry other than 0 of each vector."""
    return vectors[np.arange(len(vectors)), np.argmax(vectors != 0, axis=1)]


def _points_and_lines(
    field: FiniteField, points: Int64Array, collinear: Callable[[Int64Array, Int64Array], BoolArray]
) -> Int64Array:
    """Return the incidence graph of the points and of the lines that join two collinear ones."""
    weights = field.order ** np.arange(points.shape[1])
    number = np.full(field.order ** points.shape[1], -1, dtype=np.int64)
    number[points @ weights] = np.arange(len(points))
    lines = []
    for index, x in enumerate(points):
        later = points[index + 1 :]
        for y in later[collinear(x, later)]:
            on_line = np.vstack(
                [y[None], field.plus[x[None], field.times[np.arange(field.order)[:, None], y]]]
            )
            scale = field.inverse[_leading(on_line)][:, None]
            lines.append(np.sort(number[field.times[scale, on_line] @ weights]))
    members = np.unique(np.array(lines), axis=0)
    return np.stack(
        [members.reshape(-1), len(points) + np.repeat(np.arange(len(members)), members.shape[1])], 1
    )

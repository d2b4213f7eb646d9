"""Incidence structures of finite geometry, each as a bipartite graph: an array of edges (point, line).

Points are numbered from 0 and the lines after them, so an incidence graph of P points and L lines has nodes
0..P + L - 1. All are built from coordinates over GF(q):

- PG(2, q), the projective plane: q² + q + 1 points, as many lines, q + 1 points on a line.
- AG(2, q) minus a parallel class: the points (x, y) and the lines y = m·x + b.
- GQ(q, q), here W(q): the points of PG(3, q) and the lines that are totally isotropic for the symplectic form
  x0·y1 - x1·y0 + x2·y3 - x3·y2; a generalized quadrangle with (q + 1)(q² + 1) points and lines.
- GH(q, q), here the split Cayley hexagon H(q) in Tits's coordinates: the points of the quadric
  x0·x4 + x1·x5 + x2·x6 = x3² of PG(6, q), and those of its lines whose Grassmann coordinates
  p_ij = x_i·y_j - x_j·y_i satisfy p12 = p34, p54 = p32, p20 = p35, p65 = p30, p01 = p36, p46 = p31;
  a generalized hexagon with (q^6 - 1)/(q - 1) points and lines.

Source: Brouwer, Cohen and Neumaier, Distance-Regular Graphs (1989), sections 6.5 and 9.6, for which graphs
these are; Van Maldeghem, Generalized Polygons (1998), section 2.4, for the hexagon.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from topologies.exact import BoolArray, Int64Array
from topologies.finite_fields import FiniteField, finite_field

_HEXAGON_LINES = (
    ((1, 2), (3, 4)),
    ((5, 4), (3, 2)),
    ((2, 0), (3, 5)),
    ((6, 5), (3, 0)),
    ((0, 1), (3, 6)),
    ((4, 6), (3, 1)),
)
"""The pairs of Grassmann coordinates that are equal on a line of the hexagon."""


def projective_plane(order: int) -> Int64Array:
    """Return the incidence graph of PG(2, q): the point x lies on the line y where x·y = 0.

    Returns
    -------
    int64, shape ((q + 1)(q² + q + 1), 2)
        The edges (point, line).
    """
    field = finite_field(order)
    points = _projective_points(field, 3)
    return _edges(field.dot(points[:, None], points[None]) == 0)


def projective_plane_complement(order: int) -> Int64Array:
    """Return the graph of PG(2, q) that joins a point to the lines it does not lie on."""
    field = finite_field(order)
    points = _projective_points(field, 3)
    return _edges(field.dot(points[:, None], points[None]) != 0)


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
    leading = vectors[np.arange(len(vectors)), np.argmax(vectors != 0, axis=1)]
    return np.ascontiguousarray(vectors[leading == 1])


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
            lines.append(np.sort(number[_normalized(field, on_line) @ weights]))
    members = np.unique(np.array(lines), axis=0)
    return np.stack(
        [members.reshape(-1), len(points) + np.repeat(np.arange(len(members)), members.shape[1])], 1
    )


def _normalized(field: FiniteField, vectors: Int64Array) -> Int64Array:
    """Return the multiples of vectors whose first entry other than 0 is 1."""
    leading = vectors[np.arange(len(vectors)), np.argmax(vectors != 0, axis=1)]
    return field.times[field.inverse[leading][:, None], vectors]


def _edges(incident: BoolArray) -> Int64Array:
    """Return the edges of a bipartite graph from its matrix, points by lines."""
    point, line = np.nonzero(incident)
    return np.stack([point, len(incident) + line], axis=1)

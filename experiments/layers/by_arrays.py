"""The programs as arrays: one sparse matrix, passed to HiGHS whole and changed in place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import highspy
import numpy as np
from scipy.sparse import coo_array

from tutti.experiments.layers.programs import HIGHS, Built, Network
from tutti.topologies.exact import FloatArray, Int64Array

INF = highspy.kHighsInf


class ProgramRows:
    """Rows of a program, block by block: terms (row, column, coefficient), least and largest values."""

    def __init__(self, columns: int) -> None:
        self.columns, self.count = columns, 0
        self.terms: list[tuple[Any, Any, Any]] = []
        self.least: list[FloatArray] = []
        self.most: list[FloatArray] = []

    def add(self, count: int, *terms: tuple[Any, Any, Any], least: Any = 0.0, most: Any = INF) -> Int64Array:
        """Add rows; a term has their numbers (from 0), columns and coefficients, which are broadcast."""
        for row, column, value in terms:
            arrays = np.broadcast_arrays(np.asarray(row) + self.count, column, np.float64(value))
            self.terms.append(tuple(array.ravel() for array in arrays))  # type: ignore[arg-type]
        self.least.append(np.broadcast_to(np.float64(least), count))
        self.most.append(np.broadcast_to(np.float64(most), count))
        self.count += count
        return np.arange(self.count - count, self.count)

    def built(
        self,
        cost: FloatArray,
        change: Callable[[Any, FloatArray], None],
        *,
        maximize: bool = False,
        lower: Any = 0.0,
        upper: Any = INF,
        integer: Any = 0,
    ) -> Built:
        """Return the model; the last three are of all columns or of each."""
        row, column, value = (np.concatenate(parts) for parts in zip(*self.terms, strict=True))
        matrix = coo_array((value, (row, column)), shape=(self.count, self.columns)).tocsr()
        sense = highspy.ObjSense.kMaximize if maximize else highspy.ObjSense.kMinimize
        columns = [np.broadcast_to(np.float64(given), self.columns) for given in (lower, upper, integer)]
        solver = highspy.Highs()
        for name, option in HIGHS.items():
            solver.setOptionValue(name, option)
        sizes = (self.columns, self.count, matrix.nnz, int(highspy.MatrixFormat.kRowwise), int(sense))
        sides = (*columns[:2], np.concatenate(self.least), np.concatenate(self.most))
        entries = (matrix.indptr, matrix.indices, matrix.data)
        solver.passModel(*sizes, 0.0, cost, *sides, *entries, columns[2].astype(np.int32))

        def solve() -> float:
            solver.run()
            return float(solver.getInfo().objective_function_value)

        return Built(solve, partial(change, solver), (self.count, self.columns, len(value)))


def _limits(rows: Int64Array, link: Int64Array) -> Callable[[Any, FloatArray], None]:
    def change(solver: Any, b: FloatArray) -> None:
        for row, e in zip(rows.tolist(), link.tolist(), strict=True):
            solver.changeRowBounds(row, -INF, float(b[e]))

    return change


def flow(network: Network) -> Built:
    """Build (A.1): every node receives f from every source."""
    N, E = network.nodes, network.links
    s, e = np.indices((N, E))
    y, f, rows = s * E + e, N * E, ProgramRows(N * E + 1)
    capacity = rows.add(E, (e, y, 1.0), least=-INF, most=network.b)
    source, target = np.array(network.source), np.array(network.target)
    row, own = np.arange(N * N), np.arange(N) * (N + 1)
    rows.add(
        N * N, (s * N + target, y, 1.0), (s * N + source, y, -1.0), (np.setdiff1d(row, own), f, -1.0),
        least=np.where(np.isin(row, own), -INF, 0.0),
    )  # fmt: skip
    cost = np.zeros(rows.columns)
    cost[f] = 1.0
    return rows.built(cost, _limits(capacity, np.arange(E)), maximize=True)


def allreduce(network: Network) -> Built:
    """Build (B.5): the best roots of the broadcast and of the reduction."""
    N, E = network.nodes, network.links
    sizes = np.cumsum([0, N, E, E, N * N, N * N, N * E, N * E])
    x, bc, re = (first + np.arange(size) for first, size in zip(sizes, (N, E, E), strict=False))
    fs, gs = (first + np.arange(N * N).reshape(N, N) for first in sizes[3:5])
    f, g = (first + np.arange(N * E).reshape(N, E) for first in sizes[5:7])
    rows, (t, v), (s, e) = ProgramRows(int(sizes[-1])), np.indices((N, N)), np.indices((N, E))
    source, target, own = np.array(network.source), np.array(network.target), np.arange(N) * (N + 1)
    through = (s * N + target, s * N + source)
    rows.add(
        N * N, (t * N + v, fs, 1.0), (through[0], f, 1.0), (through[1], f, -1.0), (own[:, None], x, -1.0)
    )
    least = np.zeros(N * N)
    least[own] = -INF
    rows.add(N * N, (t * N + v, gs, -1.0), (through[0], g, 1.0), (through[1], g, -1.0), least=least)
    rows.add(N, (t, gs, 1.0), (t, x[v], -1.0))
    for part, whole, number in (
        (fs, x[v], t * N + v),
        (gs, x[v], t * N + v),
        (f, bc[e], s * E + e),
        (g, re[e], s * E + e),
    ):
        rows.add(part.size, (number, part, -1.0), (number, whole, 1.0))
    link = np.arange(E)
    capacity = rows.add(E, (link, bc, 1.0), (link, re, 1.0), least=-INF, most=network.b)
    cost = np.zeros(rows.columns)
    cost[x] = 1.0
    return rows.built(cost, _limits(capacity, link), maximize=True)


def bfb(network: Network) -> Built:
    """Build (3.1) of all nodes and steps as one program."""
    v, e = network.eligible.T
    u = np.array(network.target)[e]
    t = network.hops[v, u] - 1
    T, x = int(network.hops.max()), np.arange(len(e))
    pairs, arrival = np.unique(v * network.nodes + u, return_inverse=True)
    keys, load = np.unique(e * T + t, return_inverse=True)
    link, U = keys // T, len(e) + keys % T
    rows = ProgramRows(len(e) + T)
    brought = rows.add(len(keys), (load, x, -1.0), (np.arange(len(keys)), U, network.b[link]))
    rows.add(len(pairs), (arrival, x, 1.0), least=1.0, most=1.0)
    cost = np.zeros(rows.columns)
    cost[len(e) :] = 1.0

    def change(solver: Any, b: FloatArray) -> None:
        for row, column, value in zip(brought.tolist(), U.tolist(), b[link].tolist(), strict=True):
            solver.changeCoeff(row, column, value)

    return rows.built(cost, change)


def sends(network: Network) -> Built:
    """Build the binary program over the time-expanded network."""
    N, E, T = network.nodes, network.links, network.steps
    c, e, t = np.indices((N, E, T))
    x, h = (c * E + e) * T + t, N * E * T + np.arange(N * N * (T + 1)).reshape(N, N, T + 1)
    rows = ProgramRows(N * E * T + h.size)
    source, target = np.array(network.source), np.array(network.target)
    number = np.arange(N * N * T).reshape(N, N, T)
    rows.add(
        number.size, (number, h[:, :, 1:], -1.0), (number, h[:, :, :-1], 1.0), (number[:, target], x, 1.0)
    )
    rows.add(x.size, (x, x, -1.0), (x, h[:, source, :-1], 1.0))
    limit = np.arange(E * T).reshape(E, T)
    link = np.repeat(np.arange(E), T)
    capacity = rows.add(E * T, (np.broadcast_to(limit, (N, E, T)), x, 1.0), least=-INF, most=network.b[link])
    lower, upper, cost = np.zeros(rows.columns), np.ones(rows.columns), np.zeros(rows.columns)
    lower[h[:, :, T]] = 1.0
    lower[h[:, :, 0]] = upper[h[:, :, 0]] = np.eye(N)
    cost[x] = t + 1
    whole = np.arange(rows.columns) < x.size
    return rows.built(cost, _limits(capacity, link), lower=lower, upper=upper, integer=whole)

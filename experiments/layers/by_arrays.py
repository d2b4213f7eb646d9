"""The programs as arrays: one sparse matrix, passed to HiGHS whole and changed in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import highspy
import numpy as np
from scipy.sparse import block_array, coo_array, eye_array, kron

from tutti.experiments.layers.programs import HIGHS, Built, Network
from tutti.topologies.exact import FloatArray, Int64Array

INF = highspy.kHighsInf
_kron = partial(kron, format="csr")
Rows = tuple[Sequence[Any], Any, Any]
"""Rows of a program: a matrix for each kind of columns (None: zeros), least and largest values."""
Change = Callable[[Any, FloatArray], None]
CONTINUOUS = (0.0, INF, 0)
"""Columns of at least 0."""


def _built(
    rows: Sequence[Rows], cost: FloatArray, change: Change, maximize: bool = False, columns: Any = CONTINUOUS
) -> Built:
    """Return the model; `columns` has least and largest values, and 1 for whole ones, of all or of each."""
    parts, *sides = zip(*rows, strict=True)
    matrix = block_array(parts, format="csr")
    counts = [next(part.shape[0] for part in own if part is not None) for own in parts]
    least, most = (np.concatenate(list(map(np.broadcast_to, of, counts))) for of in sides)
    sense = highspy.ObjSense.kMaximize if maximize else highspy.ObjSense.kMinimize
    lower, upper, whole = (np.broadcast_to(np.float64(given), len(cost)) for given in columns)
    solver = highspy.Highs()
    for name, option in HIGHS.items():
        solver.setOptionValue(name, option)
    sizes = (len(cost), len(least), matrix.nnz, int(highspy.MatrixFormat.kRowwise), int(sense))
    entries = (matrix.indptr, matrix.indices, matrix.data)
    solver.passModel(*sizes, 0.0, cost, lower, upper, least, most, *entries, whole.astype(np.int32))

    def solve() -> float:
        solver.run()
        return float(solver.getInfo().objective_function_value)

    return Built(solve, partial(change, solver), (len(least), len(cost), matrix.nnz))


def _limits(link: Int64Array) -> Change:
    """Return what changes the first rows, of these links, to other capacities."""

    def change(solver: Any, b: FloatArray) -> None:
        for row, most in enumerate(b[link].tolist()):
            solver.changeRowBounds(row, -INF, most)

    return change


def _ends(network: Network) -> tuple[Any, Any]:
    """Return which links go into each node, and which come out of it, as matrices of ones."""
    one, shape = np.ones(network.links), (network.nodes, network.links)
    into, out_of = (np.array([ends, range(network.links)]) for ends in (network.target, network.source))
    return coo_array((one, into), shape), coo_array((one, out_of), shape)


def flow(network: Network) -> Built:
    """Build (A.1): every node receives f from every source."""
    N, E, (into, out_of) = network.nodes, network.links, _ends(network)
    own = np.eye(N).reshape(-1, 1)
    rows: list[Rows] = [  # over y, f
        ([_kron(np.ones((1, N)), eye_array(E)), None], -INF, network.b),
        ([_kron(eye_array(N), into - out_of), coo_array(own - 1)], np.where(own.ravel(), -INF, 0.0), INF),
    ]
    return _built(rows, np.repeat([0.0, 1.0], [N * E, 1]), _limits(np.arange(E)), maximize=True)


def allreduce(network: Network) -> Built:
    """Build (B.5): the best roots of the broadcast and of the reduction."""
    N, E, (into, out_of) = network.nodes, network.links, _ends(network)
    each, own, one = eye_array(N), np.eye(N).reshape(-1, 1), np.ones((N, 1))
    through, pairs, sums = _kron(each, into - out_of), eye_array(N * N), _kron(each, one.T)
    ranks, links, flows = _kron(one, each), _kron(one, eye_array(E)), eye_array(N * E)
    rows: list[Rows] = [  # over x, bc, re, fs, gs, f, g
        ([None, eye_array(E), eye_array(E), None, None, None, None], -INF, network.b),
        ([-_kron(own, one.T), None, None, pairs, None, through, None], 0.0, INF),
        ([None, None, None, None, -pairs, None, through], np.where(own.ravel(), -INF, 0.0), INF),
        ([coo_array(-one * one.T), None, None, None, sums, None, None], 0.0, INF),
        ([ranks, None, None, -pairs, None, None, None], 0.0, INF),
        ([ranks, None, None, None, -pairs, None, None], 0.0, INF),
        ([None, links, None, None, None, -flows, None], 0.0, INF),
        ([None, None, links, None, None, None, -flows], 0.0, INF),
    ]
    cost = np.repeat([1.0, 0.0], [N, 2 * E * (1 + N) + 2 * N * N])
    return _built(rows, cost, _limits(np.arange(E)), maximize=True)


def bfb(network: Network) -> Built:
    """Build (3.1) of all nodes and steps as one program."""
    (keys, load), arrival, T = network.loads, network.arrival, int(network.hops.max())
    link, x, k, one = keys // T, np.arange(len(load)), np.arange(len(keys)), np.ones(len(load))
    rows: list[Rows] = [  # over x, U
        ([coo_array((-one, (load, x))), coo_array((network.b[link], (k, keys % T)))], 0.0, INF),
        ([coo_array((one, (arrival, x))), None], 1.0, INF),
    ]

    def change(solver: Any, b: FloatArray) -> None:
        for row, (key, value) in enumerate(zip(keys.tolist(), b[link].tolist(), strict=True)):
            solver.changeCoeff(row, len(load) + key % T, value)

    return _built(rows, np.repeat([0.0, 1.0], [len(load), T]), change)


def sends(network: Network) -> Built:
    """Build the binary program over the time-expanded network."""
    N, E, T, (into, out_of) = network.nodes, network.links, network.steps, _ends(network)
    each, before, after = eye_array(N), eye_array(T, T + 1), eye_array(T, T + 1, k=1)
    rows: list[Rows] = [  # over x, h
        ([_kron(np.ones((1, N)), eye_array(E * T)), None], -INF, np.repeat(network.b, T)),
        ([_kron(each, _kron(into, eye_array(T))), _kron(eye_array(N * N), before - after)], 0.0, INF),
        ([-eye_array(N * E * T), _kron(each, _kron(out_of.T, before))], 0.0, INF),
    ]
    count, (lower, upper) = N * E * T, (side.ravel() for side in network.held)
    cost = np.append(np.tile(np.arange(1.0, T + 1), N * E), np.zeros(len(lower)))
    whole, change = np.repeat([1, 0], [count, len(lower)]), _limits(np.repeat(np.arange(E), T))
    lower, upper = np.append(np.zeros(count), lower), np.append(np.ones(count), upper)
    return _built(rows, cost, change, columns=(lower, upper, whole))

"""The linear program in x, c^BC and c^RE over the arcs and cuts known so far, as matrices.

    maximize    sum over v of x[v]
    subject to  sum over arcs a over e of c^BC[a] + c^RE[a]  <=  b[e]   for every link e   (dual: length l[e])
                x(S) - c^BC(out of S)  <=  0                            for every cut S    (dual: weight)
                x(S) - c^RE(into S)    <=  0                            for every cut S    (dual: weight)
                x, c^BC, c^RE >= 0

Columns are x, then c^BC and c^RE of each arc in turn; rows the links, then the cuts in the order of their
finding, so that both can grow and a basis be kept.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array

from models.allreduce_lp.arcs import Arcs
from models.allreduce_lp.cuts import BROADCAST, Cuts
from models.solvers.compiled import CompiledModel
from models.solvers.outcome import Basis, Place
from topologies.exact import INT64_MAX, Int64Array
from topologies.maxflow import DinicNetwork
from topologies.topology import Topology

ALIKE = 2**8
"""Bandwidths whose ratios are no larger are left to the solver as they are."""


@dataclass(frozen=True, eq=False)
class Master:
    """The program, and its matrix in whole numbers.

    Parameters
    ----------
    model
        Bandwidths in units of `scale`.
    matrix
        A, all entries 0, 1 or -1.
    scale
        A power of two times the `bandwidth` unit, so that doubles hold the quotients exactly.
    bandwidth
        int64, shape (links,): as `whole_bandwidths` returns them.
    """

    model: CompiledModel
    matrix: csr_array
    scale: float
    bandwidth: Int64Array


def whole_bandwidths(topology: Topology) -> Int64Array:
    """Return bandwidths over their greatest common divisor, cut off where no link can be so busy.

    Σx is at most any minimum cut between two ranks, as all of M crosses it in one half or the other. A tree
    uses an arc once in each half, or over switches a link once for each of its N - 1 edges. So a link with
    twice the bandwidth that trees can use is never full, and more of it only hurts the solver's accuracy.
    """
    whole = topology.bandwidth.numerators // np.gcd.reduce(topology.bandwidth.numerators)
    if int(whole.max()) <= int(whole.min()) * ALIKE:
        return whole
    uses = 2 * (topology.num_ranks - 1 if topology.num_switches else 1)
    most = 2 * uses * least_cut(topology, whole)
    return np.minimum(whole, np.int64(min(most, INT64_MAX)))


def least_cut(topology: Topology, capacity: Int64Array) -> int:
    """Return the least capacity out of a set of nodes that has some of the ranks, but not all."""
    network = DinicNetwork(topology.num_nodes, topology.source, topology.target, capacity)
    others = range(1, topology.num_ranks)
    return min(min(network.solve(0, rank), network.solve(rank, 0)) for rank in others)


def master(arcs: Arcs, cuts: Cuts) -> Master:
    """Return the program over these arcs and cuts."""
    begin = time.perf_counter()
    matrix = _matrix(arcs, cuts)
    bandwidth = whole_bandwidths(arcs.topology)
    scale = 2.0 ** round(np.log2(float(bandwidth.mean())))
    rows, columns = matrix.shape
    upper = np.zeros(rows)
    upper[: len(bandwidth)] = bandwidth / scale
    model = CompiledModel.of_matrix(
        "allreduce-cuts",
        matrix,
        np.arange(columns) < arcs.topology.num_ranks,
        (-np.inf, upper),
        maximize=True,
        begin=begin,
    )
    return Master(model, matrix, scale, bandwidth)


def grown(basis: Basis, model: CompiledModel) -> Basis:
    """Return a basis of the program before it grew as one of it now: new columns at 0, new rows slack."""
    columns = np.full(model.num_columns, Place.LOWER, np.int8)
    columns[: len(basis.columns)] = basis.columns
    rows = np.full(model.num_rows, Place.BASIC, np.int8)
    rows[: len(basis.rows)] = basis.rows
    return Basis(columns, rows)


def _matrix(arcs: Arcs, cuts: Cuts) -> csr_array:
    ranks, links = arcs.topology.num_ranks, arcs.topology.num_links
    lengths = np.array([len(route) for route in arcs.routes])
    link = np.array([link for route in arcs.routes for link in route])
    column = ranks + 2 * np.repeat(np.arange(len(lengths)), lengths)
    inside = np.nonzero(np.array(cuts.inside))
    cut, arc = np.nonzero(cuts.crossing(arcs.tails, arcs.heads))
    crossing = ranks + 2 * arc + (np.array(cuts.half)[cut] != BROADCAST)
    rows = np.concatenate([link, link, links + inside[0], links + cut])
    columns = np.concatenate([column, column + 1, inside[1], crossing])
    values = np.repeat([1.0, -1.0], [len(rows) - len(cut), len(cut)])
    shape = (links + len(cuts), ranks + 2 * len(arcs))
    return coo_array((values, (rows, columns)), shape=shape).tocsr()

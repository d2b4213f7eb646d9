"""The routing relaxation of allgather, as matrices: every rank's shard flows to every other rank by itself.

    minimize    T
    subject to  f[s, d, e] <= g[s, e]                       for ranks s != d and every link e
                sum of f[s, d] into u - out of u = [u = d]  for ranks s != d and every node u but s
                sum over s of g[s, e] <= T b_e              for every link e
                f, g >= 0

f[s, d] is a flow of one shard from s to d and g[s, e] what link e carries of s's shard: flows to different
ranks share it, as copies of one datum may. No schedule beats T, and trees attain it (Edmonds; with switches
where the network is Eulerian: dissertation, Theorems 23 and 24), so T is exactly the ratio of the bottleneck
cut, 1/x*, which `models.cut` finds without a linear program. That makes these programs, the size of the
routing part of mixed-integer models, good tests of solvers.
"""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
from scipy.sparse import coo_array

from models.cut import bottleneck_cut
from models.solvers.compiled import CompiledModel
from topologies.topology import Topology


def routing_matrices(topology: Topology) -> CompiledModel:
    """Return the relaxation; bandwidths in units of the largest, T in shards over that.

    Columns are f by (s, d) and link, then g by s and link, then T. Rows are the three families in order.

    Examples
    --------
    >>> from topologies.text import parse_topology
    >>> model = routing_matrices(parse_topology("ring:3"))
    >>> model.num_columns, model.num_rows
    (55, 54)
    """
    begin = time.perf_counter()
    links, ranks = topology.num_links, topology.num_ranks
    source, sink = np.nonzero(~np.eye(ranks, dtype=np.bool_))
    flows, shares = len(source) * links, ranks * links
    columns = flows + shares + 1
    f = np.arange(flows).reshape(-1, links)
    g = flows + np.arange(shares).reshape(ranks, links)
    conserved, arriving = _conservation(topology, source, sink, f)
    rows = flows + conserved.shape[0] + links
    entries = [
        (f.ravel(), f.ravel(), np.ones(flows)),
        (f.ravel(), g[source].ravel(), -np.ones(flows)),
        (flows + conserved.row, conserved.col, conserved.data),
        (rows - links + np.tile(np.arange(links), ranks), g.ravel(), np.ones(shares)),
        (rows - links + np.arange(links), np.full(links, columns - 1), -_bandwidths(topology)),
    ]
    row, column, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    matrix = coo_array((value, (row, column)), shape=(rows, columns)).tocsr()
    upper = np.concatenate([np.zeros(flows), arriving, np.zeros(links)])
    lower = np.concatenate([np.full(flows, -np.inf), arriving, np.full(links, -np.inf)])
    return CompiledModel.of_matrix(
        "routing", matrix, np.arange(columns) == columns - 1, (lower, upper), begin=begin
    )


def routing_optimum(topology: Topology) -> Fraction:
    """Return the optimum of `routing_matrices`, exactly: the ratio of the bottleneck cut."""
    return bottleneck_cut(topology).ratio * max(topology.bandwidth)


def _bandwidths(topology: Topology) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    bandwidth = topology.bandwidth.floats
    return np.asarray(bandwidth / bandwidth.max())


def _conservation(
    topology: Topology, source: np.ndarray, sink: np.ndarray, f: np.ndarray
) -> tuple[coo_array, np.ndarray]:
    """Return the rows of the second family over f, and their right-hand sides."""
    pairs, links, nodes = len(source), topology.num_links, topology.num_nodes
    # one row for each pair and node but the pair's source
    kept = np.arange(nodes)[None, :] != source[:, None]
    number = np.cumsum(kept.ravel()).reshape(pairs, nodes) - 1
    ends = np.concatenate([topology.target, topology.source])
    sign = np.repeat([1.0, -1.0], links)
    columns = np.concatenate([f, f], axis=1)
    used = kept[:, ends]
    values = np.broadcast_to(sign, used.shape)[used]
    rows = np.take_along_axis(number, np.broadcast_to(ends, used.shape), axis=1)[used]
    arriving = (np.arange(nodes)[None, :] == sink[:, None]).astype(np.float64)[kept]
    matrix = coo_array((values, (rows, columns[used])), shape=(len(arriving), f.size))
    return matrix, arriving
